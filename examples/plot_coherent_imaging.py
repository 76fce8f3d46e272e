r"""
Holes closer than the diffraction limit
=======================================

After Shechtman, Eldar, Szameit and Segev (2011): a plate with a few holes in the light of an extended lamp. The lens
blurs over 2 cells of the grid, so that neighbouring holes melt into one spot; and light from holes that are near each
other interferes, while that from distant ones adds up. With the transfer function h of the lens and the coherence Γ
between two places, the intensity at a pixel is

.. math:: y_i = \sum_{jk} x_j x_k \, h_{ij} h_{ik} \Gamma_{jk} = \sum_r w_r (a_{ir}^\top x)^2,

a sum of one term for each mode of the lamp, which :class:`fastquad.LowRankTensor` takes as it is.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq

SIDE, PIXELS, LIMIT = 10, 20, 2.0


def optics(coherence, side=SIDE, pixels=PIXELS, limit=LIMIT):
    """The vectors a_ir, (pixels², modes, side²), and the strengths of the modes; lengths are in cells of the grid."""
    row, column = np.divmod(np.arange(side * side), side)
    place = np.linspace(-1, side, pixels)
    lens = [np.sinc((place[:, None] - each) / limit) for each in (row, column)]
    h = (lens[0][:, None] * lens[1][None]).reshape(pixels * pixels, -1)
    square = np.subtract.outer(row, row) ** 2 + np.subtract.outer(column, column) ** 2
    strength, modes = np.linalg.eigh(np.exp(-square / (2 * coherence**2)))
    seen = strength > 1e-8 * strength[-1]
    return h[:, None, :] * modes[:, seen].T, strength[seen]


def holes(places, sizes, side=SIDE):
    """A plate with holes at these (row, column), of these amplitudes."""
    x = np.zeros((side, side))
    x[tuple(np.transpose(places))] = sizes
    return x.ravel()


# %%
# Ten holes, some in neighbouring cells. The solver knows that no amplitude is negative. It does not know how many holes
# there are.

rng = np.random.default_rng(2)
A = fq.LowRankTensor(*optics(coherence=2.0))
print(f"{A.m} pixels, {A.factors.shape[1]} modes, {A.n} places")
places = [(2, 2), (2, 3), (3, 3), (6, 2), (7, 2), (7, 4), (2, 6), (3, 8), (6, 7), (7, 8)]
x = holes(places, rng.uniform(0.6, 1.4, len(places)))
y = fq.measure(A, x)
positive = fq.Sparse(nonnegative=True)
began = time.perf_counter()
exact = fq.solve(A, y, prior=positive)
print(f"without noise: {exact.status.name} in {time.perf_counter() - began:.1f} s, {fq.distance(exact.x, x):.0e}")

# %%
# With noise of a thousandth of the brightest pixel, each amplitude has its error bar.

sigma = 1e-3 * y.max()
noisy = fq.solve(A, y + sigma * rng.standard_normal(A.m), noise=sigma, prior=positive)
print(f"with noise: {noisy.status.name}, error {fq.distance(noisy.x, x):.3f}, estimated {noisy.error or np.nan:.3f}")

# %%
# Behind a phase plate amplitudes may be negative. Light of two groups of holes that are many coherence lengths apart
# does not interfere: no intensity shows the sign of the one relative to that of the other. The solve finds an answer
# that fits, calls it ambiguous, and says why.

B = fq.LowRankTensor(*optics(coherence=1.0))
apart = holes([(0, 0), (0, 1), (1, 1), (9, 9), (9, 8), (8, 8)], [1.0, -0.8, 0.9, 1.1, 0.7, -0.9])
ambiguous = fq.solve(B, fq.measure(B, apart))
flipped = apart * np.where(np.arange(B.n) < B.n // 2, 1, -1)
error = min(fq.distance(ambiguous.x, each) for each in (apart, flipped))
print(f"{ambiguous.status.name}: up to the free sign the error is {error:.0e}\n{ambiguous.message}")

# %%
figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), gridspec_kw={"width_ratios": [1, 1, 1, 1.5]})
panels = [("the plate", x, SIDE), ("what the camera sees", y, PIXELS), ("found, with noise", noisy.x, SIDE)]
for ax, (title, values, side) in zip(axes, panels, strict=False):
    ax.imshow(values.reshape(side, side), cmap="magma", vmin=0)
    ax.set(title=title, xticks=[], yticks=[])
shown = np.flatnonzero((x > 0) | (noisy.x > 0.1))
bars = np.zeros(A.n) if noisy.stderr is None else noisy.stderr
axes[3].errorbar(np.arange(shown.size), noisy.x[shown], 2 * bars[shown], fmt="o", ms=4, color="C0", label="found, 2 σ")
axes[3].plot(np.arange(shown.size), x[shown], "_", ms=14, color="C3", label="true")
axes[3].set(xlabel="hole", ylabel="amplitude", ylim=(0, None), title="amplitudes")
axes[3].legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()
