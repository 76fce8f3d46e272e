"""Photographs from photons behind masks: dB, the stated error and seconds, with the peers in the same run.

    python benchmarks/studies/images.py [--side 64] [--seeds 5] [--masks phase binary] [--photons 10 100]

Peers: amplitude flow, hybrid input-output (HIO) and relaxed averaged reflections (RAAR) with x >= 0, and plug-and-play
ADMM with the same denoiser on one schedule, and on that of six that the truth prefers. Needs scikit-image.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from skimage import data, transform
from skimage.restoration import denoise_tv_chambolle

import fastquad as fq

PHOTOGRAPHS = ("camera", "moon", "coins")
SCHEDULES = tuple((first, last) for first in (0.1, 0.2, 0.3) for last in (0.02, 0.05))


def photograph(name, side):
    image = getattr(data, name)().astype(float)
    image = image[: min(image.shape), : min(image.shape)]
    return transform.resize(image / image.max(), (side, side), anti_aliasing=True)


def total_variation(image, sigma):
    return denoise_tv_chambolle(image, weight=0.7 * sigma, max_num_iter=50, eps=1e-4)


def masks_of(kind, count, side, rng):
    if kind == "phase":
        return np.exp(2j * np.pi * rng.random((count, side, side)))
    masks = (rng.random((count, side, side)) < 0.5) * 1.0
    masks[0][~masks.any(axis=0)] = 1
    return masks


def decibels(x, truth):
    x = x.reshape(truth.shape) * np.sign(np.sum(x))
    return 20 * np.log10(truth.max() / np.sqrt(np.mean((x - truth) ** 2)))


class Peers:
    """Projections with x >= 0 and real, from the lengths b of F(masks · x)."""

    def __init__(self, masks, b):
        self.masks, self.b = masks, b.reshape(masks.shape)
        self.weight = np.sum(np.abs(masks) ** 2, axis=0)
        self.start = np.full(masks.shape[1:], np.sqrt(np.mean(b**2) / np.mean(self.weight)) / masks[0].shape[0])

    def fitted(self, x):
        """x with the lengths that were measured, where masks see it."""
        z = np.fft.fft2(self.masks * x)
        back = np.fft.ifft2(self.b * np.exp(1j * np.angle(z)))
        return np.where(
            self.weight > 0, np.sum(self.masks.conj() * back, axis=0).real / np.maximum(self.weight, 1e-9), x
        )

    def amplitude_flow(self, steps=300):
        x = self.start
        for _ in range(steps):
            x = np.maximum(x + 0.9 * (self.fitted(x) - x), 0)
        return x

    def raar(self, steps=200, beta=0.85):
        x = self.start
        for _ in range(steps):
            fitted = self.fitted(x)
            reflected = 2 * fitted - x
            x = beta * (x + np.where(reflected > 0, reflected, 0) - fitted) + (1 - beta) * fitted
        return np.maximum(self.fitted(x), 0)

    def hio(self, steps=200, beta=0.9):
        x = self.start
        for _ in range(steps):
            fitted = self.fitted(x)
            x = np.where(fitted > 0, fitted, x - beta * fitted)
        return np.maximum(self.fitted(x), 0)

    def admm(self, first, last, steps=60, inner=3):
        x = v = self.start
        u, size = np.zeros_like(x), float(np.sqrt(np.mean(self.start**2)))
        for sigma in size * np.geomspace(first, last, steps):
            for _ in range(inner):
                x = 0.5 * (self.fitted(x) + v - u)
            v = np.maximum(total_variation(x + u, sigma), 0)
            u = u + x - v
        return v


def cell(name, kind, count, photons, side, seed):
    """dB of each method, the ratio of stated to true error, seconds and pairs of transforms."""
    rng = np.random.default_rng(seed)
    truth, masks = photograph(name, side), masks_of(kind, count, side, rng)
    A = fq.FourierTensor(masks)
    y = fq.measure(A, truth.ravel())
    gain = y.mean() / photons
    y = gain * rng.poisson(y / gain)
    began = time.perf_counter()
    noise = fq.noise.Poisson(gain=gain)
    solution = fq.solve(A, y, signal="real", noise=noise, prior=fq.Denoiser(total_variation), max_time=20)
    seconds = time.perf_counter() - began
    found, true = {"fastquad": decibels(solution.x, truth)}, fq.distance(solution.x, truth.ravel())
    peers = Peers(masks, np.sqrt(y))
    found |= {each: decibels(getattr(peers, each)(), truth) for each in ("amplitude_flow", "raar", "hio")}
    runs = [decibels(peers.admm(*schedule), truth) for schedule in SCHEDULES]
    found |= {"admm": runs[-2], "admm tuned by the truth": max(runs)}
    ratio = np.nan if solution.error is None else solution.error / true
    return found, ratio, seconds, solution.n_passes / 2, solution.status.name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--masks", nargs="*", default=["phase", "binary"])
    parser.add_argument("--photons", nargs="*", type=float, default=[10, 100])
    options = parser.parse_args()
    for name in PHOTOGRAPHS:
        for kind in options.masks:
            for photons in options.photons:
                for count in (1, 2, 4):
                    cells = [cell(name, kind, count, photons, options.side, seed) for seed in range(options.seeds)]
                    means = {each: np.mean([found[0][each] for found in cells]) for each in cells[0][0]}
                    ratio, seconds, pairs = (np.mean([found[part] for found in cells]) for part in (1, 2, 3))
                    said = ", ".join(f"{each} {value:.1f}" for each, value in means.items())
                    statuses = sorted({found[4] for found in cells})
                    print(f"{name}, {count} {kind}, {photons:g} photons: {said} dB; stated/true {ratio:.2f}, "
                          f"{seconds:.1f} s, {pairs:.0f} pairs, {'/'.join(statuses)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
