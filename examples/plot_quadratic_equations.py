r"""
A system of quadratic equations
===============================

Fifty equations :math:`x^\top A_i x + b_i^\top x + c_i = 0` for fifty unknowns. Such a system has up to
:math:`2^{50}` complex solutions, and some real ones; solvers for general equations go downhill from a guess, and mostly
end where no equation holds. :func:`fastquad.solve` knows that a quadratic is exact along every line, so that a start
costs a few milliseconds. With as many equations as unknowns a solution is one of several, and the status says so.
With a few more equations it is *the* solution.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize

import fastquad as fq

N, SYSTEMS, STARTS = 50, 4, 5


def system(m, seed):
    """m equations in N unknowns, with the solution that they were made from."""
    rng = np.random.default_rng([m, seed])
    A, b, x = rng.standard_normal((m, N, N)), np.sqrt(N) * rng.standard_normal((m, N)), rng.standard_normal(N)
    return A, b, -(np.einsum("ijk,j,k->i", A, x, x) + b @ x), x


def by_scipy(A, b, c, start):
    """`scipy.optimize.least_squares` with the exact Jacobian, as a good user would call it."""
    S = A + A.transpose(0, 2, 1)
    found = optimize.least_squares(
        lambda x: np.einsum("ijk,j,k->i", A, x, x) + b @ x + c, start, lambda x: S @ x + b, max_nfev=100
    )
    return np.linalg.norm(found.fun) < 1e-8 * np.linalg.norm(c)


# %%
# Square systems: SciPy from random starts, fastquad by itself.

rows = []
for seed in range(SYSTEMS):
    A, b, c, _ = system(N, seed)
    rng = np.random.default_rng(seed)
    began = time.perf_counter()
    hits = [by_scipy(A, b, c, rng.standard_normal(N)) for _ in range(STARTS)]
    scipy_seconds = (time.perf_counter() - began) / max(sum(hits), 0.5)
    began = time.perf_counter()
    solution = fq.solve(fq.AffineTensor(A, b, c), np.zeros(N), max_time=20)
    seconds = time.perf_counter() - began
    left = np.linalg.norm(np.einsum("ijk,j,k->i", A, solution.x, solution.x) + b @ solution.x + c) / np.linalg.norm(c)
    rows.append((scipy_seconds, seconds, left))
    print(f"system {seed}: SciPy {sum(hits)} of {STARTS} starts, {scipy_seconds:.2f} s a solution; fastquad "
          f"{solution.status.name}, {left:.0e}, {seconds:.2f} s")  # fmt: skip
print(solution.message)

# %%
# Five more equations, and the solution is unique.

A, b, c, x = system(N + 5, 0)
solution = fq.solve(fq.AffineTensor(A, b, c), np.zeros(N + 5))
print(f"{solution.status.name}: error {np.linalg.norm(solution.x - x) / np.linalg.norm(x):.1e}, with its sign")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
places = np.arange(SYSTEMS)
left.bar(places - 0.2, [row[0] for row in rows], 0.4, label="scipy.optimize.least_squares", color="0.6")
left.bar(places + 0.2, [row[1] for row in rows], 0.4, label="fastquad", color="C0")
left.set(
    yscale="log",
    ylim=(None, 20 * max(max(row[:2]) for row in rows)),
    xticks=places,
    xlabel="system",
    ylabel="seconds to a solution",
    title=f"{N} equations, {N} unknowns",
)
left.legend(frameon=False, fontsize=8)
right.plot(x, "o", mfc="none", color="0.5", label="true")
right.plot(solution.x, ".", color="C0", label=f"found ({solution.status.name.lower()})")
right.set(xlabel="unknown", title=f"{N + 5} equations", ylim=(None, 1.3 * np.abs(x).max()))
right.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()
