"""
Comparing methods
=================

The default method beside two of the paper, on the same problem and in the same unit of cost, passes over A.
"""

import fastquad as fq

problem = fq.problems.gaussian(m=150, n=100, k=10, rng=0)
solutions = {
    "auto": fq.solve(problem.A, problem.y),
    "TWF": fq.solve(problem.A, problem.y, method="twf"),
    "SPF, told k": fq.solve(problem.A, problem.y, method=fq.methods.SPF(k=10)),
}
for name, solution in solutions.items():
    print(f"{name:12} {solution!r}")

# %%
# Each method has its own colour. The default ends after a few passes with a certificate; the others converge linearly.
ax = fq.plot.convergence(solutions)
ax.set_xscale("log")
