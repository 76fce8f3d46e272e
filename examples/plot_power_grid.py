r"""
State estimation of a power grid
================================

The voltages of the IEEE grid of 118 buses from noisy meters of power and voltage, one of which is broken. Powers are
quadratic in the complex voltages, :math:`P_i + jQ_i = V_i \overline{Y_i V}`, with matrices that have a handful of
nonzeros each: they go to :func:`fastquad.solve` as ``scipy.sparse`` matrices, and are never made dense.
"""

import time

import grids
import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq

# %%
# The case is solved by PYPOWER's Newton method, which knows exactly what is fed in at every bus. A state estimator has
# meters instead: here P and Q at every bus and at both ends of every line, and the voltages.

grid = grids.load("case118")
A = fq.SparseTensor(grids.matrices(grid, grids.SETS["full"]))
names = grids.labels(grid, grids.SETS["full"])
exact = fq.measure(A, grid.V)
print(A, f"dense: {16 * A.m * A.n**2 / 1e6:.0f} MB, sparse: {A.nbytes / 1e6:.2f} MB")

# %%
# Without noise, from the flat start (every voltage 1) and from no start at all: the same voltages up to a phase, which
# no power can tell.

for name, start in (("flat start", np.ones(grid.n)), ("no start", None)):
    began = time.perf_counter()
    solution = fq.solve(A, exact, x0=start)
    print(f"{name}: {solution.status.name}, {time.perf_counter() - began:.2f} s, {grids.error(solution.x, grid.V):.1e}")

# %%
# Meters have an error of 1 % of what they show, with a floor; and the one of a line is broken: 20 standard deviations.
# ``noise`` gives the standard deviations, and ``outliers=True`` says that some measurements may be wrong.

rng = np.random.default_rng(0)
sigma = 0.01 * np.maximum(np.abs(exact), 0.1)
y = exact + sigma * rng.standard_normal(A.m)
broken = names.index("P into line 50 at bus 34") if "P into line 50 at bus 34" in names else 400
y[broken] += 20 * sigma[broken]

began = time.perf_counter()
solution = fq.solve(A, y, noise=sigma, outliers=True, x0=np.ones(grid.n))
seconds = time.perf_counter() - began
print(f"{solution.status.name} in {seconds:.2f} s; contradicted:", [names[i] for i in solution.outliers])

kept = np.setdiff1d(np.arange(A.m), [broken])
part = fq.SparseTensor([each for i, each in enumerate(grids.matrices(grid, grids.SETS["full"])) if i != broken])
reference = grids.weighted_least_squares(part, y[kept], sigma[kept], np.ones(grid.n, dtype=complex))
trusting = grids.weighted_least_squares(A, y, sigma, np.ones(grid.n, dtype=complex))
print(f"error: {grids.error(solution.x, grid.V):.2e}, estimated {solution.error:.2e}; weighted least squares without "
      f"the broken meter {grids.error(reference, grid.V):.2e}, with {grids.error(trusting, grid.V):.2e}")  # fmt: skip

# %%
# The errors of the estimated voltages, with the standard errors that the solution comes with.

turn = np.vdot(solution.x, grid.V)
V = solution.x * turn / abs(turn)
turn = np.vdot(trusting, grid.V)
fooled = trusting * turn / abs(turn)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), gridspec_kw={"width_ratios": [1, 1.6]})
left.scatter(grid.V.real, grid.V.imag, s=60, facecolors="none", edgecolors="0.6", label="true")
left.scatter(V.real, V.imag, s=8, color="C0", label="estimated")
left.set(xlabel="Re V", ylabel="Im V", title="118 voltages")
left.legend(frameon=False)
right.plot(np.abs(V - grid.V), ".", color="C0", label="fastquad")
right.plot(np.abs(fooled - grid.V), "x", color="C3", ms=4, label="least squares, broken meter trusted")
right.plot(np.abs(solution.stderr), "-", color="0.6", lw=1, label="standard error")
right.set(xlabel="bus", ylabel="error of V", yscale="log", ylim=(1e-5, 2e-3), title="one broken meter of 1,098")
right.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()
