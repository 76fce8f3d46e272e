"""Images, photographs' stand-ins, and a denoiser by total variation (Chambolle's dual, with Nesterov's steps)."""

import numpy as np


def total_variation(image, sigma, weight=0.7, steps=40):
    """The image without noise: `min ½|x − image|² + weight σ TV(x)`; complex ones in both parts at once."""
    strength = weight * sigma
    p = q = np.zeros((2, *image.shape), dtype=image.dtype)
    t = 1.0
    for _ in range(steps):
        new = q + _gradient(image - strength * _adjoint(q)) / (8 * strength)
        new = new / np.maximum(1, np.sqrt(np.sum(np.abs(new) ** 2, axis=0)))
        t, before = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        p, q = new, new + (before - 1) / t * (new - p)
    return image - strength * _adjoint(p)


def _gradient(x):
    g = np.zeros((2, *x.shape), dtype=x.dtype)
    g[0, :-1], g[1, :, :-1] = np.diff(x, axis=0), np.diff(x, axis=1)
    return g


def _adjoint(g):
    x = np.zeros(g.shape[1:], dtype=g.dtype)
    x[:-1] -= g[0, :-1]
    x[1:] += g[0, :-1]
    x[:, :-1] -= g[1, :, :-1]
    x[:, 1:] += g[1, :, :-1]
    return x


def phantom(n, rng, pieces=12):
    """Rectangles and discs of random grey, (n, n), none negative."""
    rows, columns = np.mgrid[:n, :n] / n
    image = np.full((n, n), 0.3)
    for k in range(pieces):
        (y, x), (height, width) = rng.random(2), 0.08 + 0.22 * rng.random(2)
        inside = (np.abs(rows - y) < height) & (np.abs(columns - x) < width)
        if k % 2:
            inside = ((rows - y) / height) ** 2 + ((columns - x) / width) ** 2 < 1
        image[inside] = rng.random()
    return image


def counted(y, photons, rng):
    """y in counts of so many photons on the average, in its own units, and the gain."""
    gain = y.mean() / photons
    return gain * rng.poisson(y / gain), gain
