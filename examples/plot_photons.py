r"""
A picture from ten photons per pixel, and a crystal without a mask
==================================================================

Behind a mask of random phases a detector counts the photons of :math:`|F(\mathrm{mask} \cdot x)|^2`, on average
ten per pixel. Any function that takes noise from an image is a prior, :class:`fastquad.Denoiser`: here total variation,
in a few lines of NumPy. Without any mask the place of an object cannot be known; a crystal is found up to that.
"""

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq


def total_variation(image, sigma, weight=0.7, steps=40):
    """The image that minimises ½|x − image|² + weight σ TV(x), by fast projected gradients of the dual."""
    strength = weight * sigma
    p = q = np.zeros((2, *image.shape))
    t = 1.0
    for _ in range(steps):
        x = image - strength * divergence(q)
        slopes = np.stack([np.diff(x, axis=axis, append=x.take([-1], axis)) for axis in (0, 1)])
        new = q + slopes / (8 * strength)
        new /= np.maximum(1, np.hypot(*new))
        t, before = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        p, q = new, new + (before - 1) / t * (new - p)
    return image - strength * divergence(p)


def divergence(p):
    """The transpose of the slopes along both axes."""
    down, right = p[0].copy(), p[1].copy()
    down[-1], right[:, -1] = 0, 0
    return np.diff(-down, axis=0, prepend=0) + np.diff(-right, axis=1, prepend=0)


def picture(n):
    """Discs and bars in grey, (n, n)."""
    rows, columns = np.mgrid[:n, :n] / n
    x = 0.2 + 0.2 * (rows > 0.6)
    for row, column, radius, grey in ((0.35, 0.4, 0.25, 0.9), (0.3, 0.45, 0.1, 0.4), (0.7, 0.75, 0.18, 0.7)):
        x[(rows - row) ** 2 + (columns - column) ** 2 < radius**2] = grey
    x[:, int(0.1 * n) : int(0.16 * n)] = 1.0
    return x


def counts(A, x, photons, rng):
    """Photons in the units of the intensities, and the intensity of one of them."""
    y = fq.measure(A, x.ravel())
    gain = y.mean() / photons
    return gain * rng.poisson(y / gain), gain


def developed(n, masks, photons, rng):
    """The picture, and the solution from so many photons a pixel behind so many masks."""
    x = picture(n)
    A = fq.FourierTensor(np.exp(2j * np.pi * rng.random((masks, n, n))))
    y, gain = counts(A, x, photons, rng)
    prior = fq.Denoiser(total_variation)
    return x, fq.solve(A, y, signal="real", noise=fq.noise.Poisson(gain=gain), prior=prior)


def crystal(n, atoms, rng):
    """A periodic crystal of atoms of 2×2 pixels, and the solution from its intensities without a mask."""
    x = np.zeros((n, n))
    for row, column in rng.integers(0, n, (atoms, 2)):
        x[np.ix_([row, (row + 1) % n], [column, (column + 1) % n])] += rng.uniform(0.5, 1, (2, 2))
    A = fq.FourierTensor(np.ones((1, n, n)))
    prior = fq.Sparse(k=np.count_nonzero(x), nonnegative=True)
    return x, fq.solve(A, fq.measure(A, x.ravel()), signal="real", prior=prior)


# %%
# Ten photons per pixel behind one, two and four masks. The error that the solution states is the one that it has.

rng = np.random.default_rng(0)
figure, axes = plt.subplots(1, 4, figsize=(11, 3))
for ax, masks in zip(axes[1:], (1, 2, 4), strict=True):
    x, solution = developed(96, masks, 10, rng)
    ax.imshow(solution.x.reshape(x.shape), cmap="gray", vmin=0, vmax=1)
    made = fq.distance(solution.x, x.ravel())
    ax.set_title(f"{masks} mask{'s' * (masks > 1)}: error {made:.3f}\nstated {solution.error:.3f}", fontsize=9)
    print(f"{masks} masks: {solution.status.name}, {solution.n_passes:.0f} transforms, {solution.elapsed:.2f} s")
axes[0].imshow(x, cmap="gray", vmin=0, vmax=1)
axes[0].set_title("the picture", fontsize=9)
for ax in axes:
    ax.set_axis_off()
figure.tight_layout()

# %%
# A crystal of 12 atoms, from intensities alone: it may lie anywhere, and point the other way. The message says so, and
# :func:`fastquad.distance` knows it.

x, solution = crystal(48, 12, rng)
print(solution.status.name, solution.gauge, fq.distance(solution.x, x.ravel(), gauge=solution.gauge))
figure, axes = plt.subplots(1, 2, figsize=(6, 3))
for ax, (name, each) in zip(axes, {"the crystal": x, "found, somewhere": solution.x}.items(), strict=True):
    ax.imshow(np.sqrt(np.abs(each.reshape(x.shape))), cmap="gray_r")
    ax.set_title(name, fontsize=9)
    ax.set_axis_off()
figure.tight_layout()
plt.show()
