"""An object from its images under partially coherent light.

    python examples/coherent_imaging.py [--masks 6] [--sources 5] [--noise 0.0]

An extended lamp is a set of independent points. The light of each is a tilted wave, which passes the object x and a
known random phase mask, and a lens that cuts off high frequencies; the camera sees intensities, and those of different
points of the lamp add up:

    y_i = Σ_r w_r |a_ir^H x|²,     a_ir^H x = (h * (mask · tilt_r · x))(pixel i)

So every measurement is a sum of rank-one terms, which `fastquad.LowRankTensor` takes as they are: the (m, n, n) tensor
is never formed. The object here is a handwritten digit of 14×14 pixels.
"""

import argparse
import time

import numpy as np

import fastquad as fq

SIDE = 14


def digit():
    """A bundled digit, two by two pixels put together; of norm one."""
    image = fq.datasets.mnist_samples()[0][0].astype(float)
    image = image.reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3))
    return image.ravel() / np.linalg.norm(image)


def optics(n_masks, n_sources, rng):
    """The vectors a_ir, (masks · pixels, sources, pixels), and the intensities of the sources."""
    n = SIDE * SIDE
    frequency = np.fft.fftfreq(SIDE)
    lens = frequency[:, None] ** 2 + frequency**2 < 0.3**2
    row, column = np.divmod(np.arange(n), SIDE)
    # Sources on a small disk: directions from which the light comes.
    angle, radius = rng.uniform(0, 2 * np.pi, n_sources), 0.1 * np.sqrt(rng.random(n_sources))
    tilts = np.exp(2j * np.pi * (np.outer(radius * np.cos(angle), row) + np.outer(radius * np.sin(angle), column)))
    weights = rng.uniform(0.5, 1.5, n_sources)
    images = np.eye(n).reshape(n, SIDE, SIDE)
    blur = np.fft.ifft2(np.fft.fft2(images) * lens).reshape(n, n).T  # column j: the image of pixel j
    factors = []
    for _ in range(n_masks):
        mask = np.exp(2j * np.pi * rng.random(n))
        factors.append(blur[:, None, :] * (mask * tilts))
    return np.concatenate(factors), weights / weights.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--masks", type=int, default=6, help="images, each with another mask")
    parser.add_argument("--sources", type=int, default=5, help="points of the lamp")
    parser.add_argument("--noise", type=float, default=0.0, help="relative to the intensities")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    x = digit()
    A = fq.LowRankTensor(*optics(options.masks, options.sources, rng))
    y = fq.measure(A, x)
    sigma = options.noise * float(np.sqrt(np.mean(y**2)))
    y = y + sigma * rng.standard_normal(A.m)
    print(f"{A.m} intensities of {A.n} pixels: {A.nbytes / 1e6:.0f} MB, in place of {A.m * A.n**2 * 8 / 1e6:.0f} MB")
    start = time.perf_counter()
    solution = fq.solve(A, y, signal="real", noise=sigma or None, max_time=60)
    print(f"{solution.method}, {solution.n_passes:.0f} passes, {time.perf_counter() - start:.1f} s: {solution.message}")
    print(f"relative error, up to sign: {float(fq.distance(solution.x, x)):.1e}")
    return 0 if solution.success else 1


if __name__ == "__main__":
    raise SystemExit(main())
