"""Images: photographs from photons behind masks with their peers, exact data, sparse images, crystals.

    python -m benchmarks.studies.images photographs [--side 64] [--seeds 5] [--masks phase binary] [--photons 10 inf]
    python -m benchmarks.studies.images exact | levels | sparse | gaussian [--seeds 5]
    python -m benchmarks.studies.images crystals FILE ... [--seeds 3]

`photographs` gives dB, the stated error over the true one, pairs of transforms and processor seconds. Its peers, in the
same run: amplitude flow, hybrid input-output (HIO) and relaxed averaged reflections (RAAR) with x >= 0, and
plug-and-play ADMM with the same denoiser, on one schedule and on that which the truth prefers. inf photons are exact
data. `exact` has 4 masks of up to 512² pixels with passes and memory, `levels` 3 masks of 256² in noise of 0.01,
`sparse` 65,536 pixels with 6,000 nonzeros from half as many intensities at 30 dB, `crystals` the files of Elser, Lan
and Bendory, whose intensities are a half plane of 128², `gaussian` 16×16 pixels seen by random matrices. Needs
scikit-image, and PyWavelets for `--denoiser wavelets`.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
from skimage import data, transform
from skimage.restoration import denoise_tv_chambolle

import fastquad as fq

PHOTOGRAPHS = ("camera", "moon", "coins")
# How ADMM's σ falls, in units of the rms of x: the first is the schedule that nobody tuned. Where it begins hardly
# matters; where it ends does, and the best end is never the last of these.
SCHEDULES = ((0.3, 0.02), (0.3, 0.005), (0.3, 0.01), (0.3, 0.04), (0.3, 0.07), (0.3, 0.1), (0.3, 0.15), (0.3, 0.25))


def photograph(name, side):
    image = getattr(data, name)().astype(float)
    if image.ndim == 3:
        image = image.mean(axis=2)
    image = image[: min(image.shape), : min(image.shape)]
    return transform.resize(image / image.max(), (side, side), anti_aliasing=True)


def total_variation(image, sigma):
    return denoise_tv_chambolle(image, weight=0.7 * sigma, max_num_iter=50, eps=1e-4)


def wavelets(image, sigma):
    """Soft thresholds of 0.7 sigma on Haar wavelets, the mean of four shifts."""
    import pywt

    out = np.zeros_like(image)
    for shift in ((0, 0), (0, 1), (1, 0), (1, 1)):
        coarse, *details = pywt.wavedec2(np.roll(image, shift, (0, 1)), "haar", mode="periodization", level=4)
        soft = [tuple(pywt.threshold(each, 0.7 * sigma, "soft") for each in level) for level in details]
        whole = pywt.waverec2([coarse, *soft], "haar", mode="periodization")
        out += np.roll(whole, (-shift[0], -shift[1]), (0, 1))
    return out / 4


DENOISERS = {"tv": total_variation, "wavelets": wavelets}


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

    def __init__(self, masks, b, denoise):
        self.masks, self.b, self.denoise = masks, b.reshape(masks.shape), denoise
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
            v = np.maximum(self.denoise(x + u, sigma), 0)
            u = u + x - v
        return v


def cell(name, kind, count, photons, options, seed):
    """dB of each method, the ratio of stated to true error, processor seconds and pairs of transforms."""
    rng = np.random.default_rng(seed)
    denoise = DENOISERS[options.denoiser]
    truth, masks = photograph(name, options.side), masks_of(kind, count, options.side, rng)
    A = fq.FourierTensor(masks)
    y, noise = fq.measure(A, truth.ravel()), 0
    if np.isfinite(photons):
        gain = y.mean() / photons
        y, noise = gain * rng.poisson(y / gain), fq.noise.Poisson(gain=gain)
    began = time.process_time()
    solution = fq.solve(A, y, signal="real", noise=noise, prior=fq.Denoiser(denoise), max_time=60)
    seconds = time.process_time() - began
    found, true = {"fastquad": decibels(solution.x, truth)}, fq.distance(solution.x, truth.ravel())
    peers = Peers(masks, np.sqrt(y), denoise)
    found |= {each: decibels(getattr(peers, each)(), truth) for each in ("amplitude_flow", "raar", "hio")}
    runs = [decibels(peers.admm(*schedule), truth) for schedule in SCHEDULES]
    found |= {"admm": runs[0], "admm tuned by the truth": max(runs)}
    ratio = np.nan if solution.error is None else solution.error / true
    return found, ratio, seconds, solution.n_passes / 2, solution.status.name


def photographs(options):
    for name in options.photographs:
        for kind in options.masks:
            for photons in options.photons:
                # A single mask of zeros and ones hides what it does not light.
                for count in (1, 2, 4) if kind == "phase" else (2, 4):
                    cells = [cell(name, kind, count, photons, options, seed) for seed in range(options.seeds)]
                    means = {each: np.mean([found[0][each] for found in cells]) for each in cells[0][0]}
                    ratios = [found[1] for found in cells]
                    seconds, pairs = (max(found[part] for found in cells) for part in (2, 3))
                    said = ", ".join(f"{each} {value:.1f}" for each, value in means.items())
                    statuses = sorted({found[4] for found in cells})
                    print(f"{name}, {count} {kind}, {photons:g} photons: {said} dB; stated/true {min(ratios):.2f} to "
                          f"{max(ratios):.2f}, at most {seconds:.1f} s, {pairs:.0f} pairs, {'/'.join(statuses)}",
                          flush=True)  # fmt: skip


def told(name, solution, x, seconds, more=""):
    true = fq.distance(solution.x, x, gauge=solution.gauge)
    ratio = "no error" if solution.error is None else f"stated/true {solution.error / max(true, 1e-300):.2f}"
    print(f"{name}: {solution.status.name}, distance {true:.2g}, {ratio}, {solution.n_passes:.0f} passes, "
          f"{seconds:.3g} s{more}", flush=True)  # fmt: skip


def timed(A, y, **options):
    began = time.process_time()
    solution = fq.solve(A, y, **options)
    return solution, time.process_time() - began


def exact(options):
    """4 masks of eight phases, exact: real images, and complex ones. One process's largest memory so far is told."""
    for side in options.sides:
        for seed in range(options.seeds):
            for real in (True, False):
                rng = np.random.default_rng([seed, side])
                masks = np.exp(0.25j * np.pi * rng.integers(0, 8, (4, side, side)))
                x = rng.random(side * side) if real else rng.standard_normal((side * side, 2)).view(complex)[:, 0]
                A = fq.FourierTensor(masks)
                solution, seconds = timed(A, fq.measure(A, x), **({"signal": "real"} if real else {}))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
                told(f"{side}², {'real' if real else 'complex'}", solution, x, seconds, f", at most {peak:.2f} GB")


def levels(options):
    """3 masks of 256² pixels, and noise of 0.01 of the rms of y, of a level that nobody told."""
    for seed in range(options.seeds):
        for real in (True, False):
            rng = np.random.default_rng([seed, 256])
            A = fq.FourierTensor(masks_of("phase", 3, 256, rng))
            x = photograph("camera", 256).ravel() if real else rng.standard_normal((65536, 2)).view(complex)[:, 0]
            y = fq.measure(A, x)
            y += 0.01 * np.sqrt(np.mean(y**2)) * rng.standard_normal(y.size)
            solution, seconds = timed(A, y, **({"signal": "real"} if real else {}))
            told(f"256², {'real' if real else 'complex'}, noise .01", solution, x, seconds)


def sparse(options):
    """Half as many intensities as pixels, at 30 dB, behind one phase mask or four binary ones."""
    side, k = 256, 6000
    for kind, count in (("phase", 1), ("binary", 4)):
        good, taken = 0, []
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            x = np.zeros(side * side)
            x[rng.permutation(x.size)[:k]] = rng.exponential(size=k)
            masks = masks_of(kind, count, side, rng)
            measured = np.zeros(masks.shape, dtype=bool)
            measured.reshape(-1)[rng.permutation(measured.size)[: x.size // 2]] = True
            A = fq.FourierTensor(masks, measured=measured)
            y = fq.measure(A, x)
            sigma = 10**-1.5 * np.sqrt(np.mean(y**2))
            y += sigma * rng.standard_normal(y.size)
            solution, seconds = timed(A, y, noise=sigma, prior=fq.Sparse(nonnegative=True), max_time=60)
            level = 20 * np.log10(fq.distance(solution.x, x))
            good, taken = good + (level <= -33 if kind == "phase" else level <= -32), [*taken, seconds]
            told(f"{count} {kind}, seed {seed}", solution, x, seconds, f", {level:.1f} dB")
        took = f"{np.median(taken):.2g} s, at most {max(taken):.2g}"
        print(f"{count} {kind}: {good} of {options.seeds}, {took}", flush=True)


def crystals(options):
    """Elser's files: integers in rows of 64 pixels of a half plane; the one at zero is not measured."""
    for path in map(Path, options.files):
        rows = np.loadtxt(path)
        atoms = int("".join(each for each in path.name.split(".")[0] if each.isdigit()))
        half = np.zeros((1, 128, 128), dtype=bool)
        half[0, :, :64] = True
        half[0, 0, 0] = False
        A = fq.FourierTensor(np.ones((1, 128, 128)), measured=half)
        for known in (8 * atoms, None):
            for seed in range(options.seeds):
                prior = fq.Sparse(k=known, nonnegative=True)
                # All starts are random: another seed is another start.
                found, seconds = timed(A, rows.ravel()[1:], prior=prior, rng=seed, max_time=20)
                name = f"{path.name.split('.')[0]}, k {'told' if known else 'unknown'}"
                print(f"{name}: {found.status.name}, left {found.residual:.3f}, {np.count_nonzero(found.x)} pixels, "
                      f"{found.n_passes / 2:.0f} pairs, {seconds:.2g} s, error {found.error}", flush=True)  # fmt: skip


def gaussian(options):
    """16×16 pixels of rectangles, on nothing and on a grey ground, seen by random matrices; exact, and noise of 0.1."""
    for ground in (0.0, 0.5):
        for m in (100, 150):
            for level in (0.0, 0.1):
                exact_ones, ratios, statuses = 0, [], set()
                for seed in range(options.seeds):
                    rng = np.random.default_rng(seed)
                    image = np.full((16, 16), ground)
                    for grey in (1.0, 0.6):
                        (top, left), (high, wide) = rng.integers(0, 10, 2), rng.integers(4, 7, 2)
                        image[top : top + high, left : left + wide] = grey
                    A, x = rng.standard_normal((m, 256, 256)), image.ravel()
                    y = fq.measure(A, x)
                    y += level * y.std() * rng.standard_normal(m)
                    prior = fq.Denoiser(total_variation, shape=(16, 16))
                    solution = fq.solve(A, y, prior=prior, noise=level * y.std() if level else None, max_time=20)
                    true = fq.distance(solution.x, x)
                    exact_ones += true < 1e-6
                    ratios.append(np.nan if solution.error is None else solution.error / max(true, 1e-300))
                    statuses.add(solution.status.name)
                said = f"stated/true {min(ratios):.2f} to {max(ratios):.2f}" if level else f"{exact_ones} exact"
                seen = "/".join(sorted(statuses))
                print(f"ground {ground}, m = {m}, noise {level}: {said} of {options.seeds}, {seen}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["photographs", "exact", "levels", "sparse", "crystals", "gaussian"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--sides", nargs="*", type=int, default=[128, 256, 512])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--photographs", nargs="*", default=PHOTOGRAPHS)
    parser.add_argument("--masks", nargs="*", default=["phase", "binary"])
    parser.add_argument("--photons", nargs="*", type=float, default=[10, 100])
    parser.add_argument("--denoiser", choices=DENOISERS, default="tv")
    options = parser.parse_args()
    globals()[options.what](options)


if __name__ == "__main__":
    main()
