"""
A first signal
==============

A signal of 100 entries, 20 of them not zero, from 150 quadratic measurements :math:`y_i = x^\\top A_i x`.
"""

import fastquad as fq

# %%
# A problem whose answer is known: ``problem.A`` has shape (150, 100, 100), ``problem.y`` (150,), ``problem.x`` (100,).
problem = fq.problems.gaussian(m=150, n=100, k=20, rng=0)

# %%
# :func:`fastquad.solve` needs only A and y: it learns how sparse x is. With ``x_true`` it also records how near each
# step comes; no method uses that.
solution = fq.solve(problem.A, problem.y, x_true=problem.x)
solution

# %%
# The sign of x cannot be known: x and −x have the same measurements.
print(f"relative distance up to sign: {fq.distance(solution.x, problem.x):.1e}")
fq.plot.recovery(solution, problem.x)

# %%
# The cost is counted in passes over A, the only thing that is large.
fq.plot.convergence(solution)
