"""Points from their distances, beside plain Python backtracking; on a circle; in noise.

    python benchmarks/studies/points.py line | circle | noise | hard | file PATH [--trials 5] [--seeds 0]

`line` times both sides in turns on the same distances. `noise` compares the positions with those of least squares that
is told which pair each distance has: the largest difference of each trial, in standard errors of a position,
σ √(2/n). `file` reads a list of distances as `fastquad points` does, with --length and --noise.
"""

import argparse
import time
from bisect import bisect_left
from collections import Counter

import numpy as np

import fastquad as fq
from fastquad import console


def distances_of(points):
    i, j = np.triu_indices(len(points), 1)
    return np.abs(points[j] - points[i])


def backtracking(distances):
    """All sets of whole points with these distances: the largest one that is left decides (Skiena, Smith, Lemke)."""
    left = Counter(int(d) for d in distances)
    values = sorted(left)
    D, n = values[-1], round((1 + (1 + 8 * len(distances)) ** 0.5) / 2)
    left[D] -= 1
    placed, found = [0, D], []

    def search(top):
        if len(placed) == n:
            found.append(sorted(placed))
            return
        while left[values[top]] == 0:
            top -= 1
        d = values[top]
        # The first point may be anywhere up to the mirror image.
        for p in (d,) if len(placed) == 2 or 2 * d == D else (d, D - d):
            apart = Counter(abs(p - x) for x in placed)
            if all(left[e] >= count for e, count in apart.items()):
                left.subtract(apart)
                placed.append(p)
                search(top)
                placed.pop()
                left.update(apart)

    search(bisect_left(values, D))
    return found


def line(options):
    for n, places in ((30, 10**3), (60, 10**4), (100, 10**4), (500, 10**6)):
        ours, theirs, proven = [], [], 0
        for seed in range(options.seeds, options.seeds + options.trials):
            points = np.sort(np.random.default_rng([n, seed]).choice(places, n, replace=False))
            d = np.random.default_rng(0).permutation(distances_of(points))
            start = time.perf_counter()
            solution = fq.points.line(d)
            middle = time.perf_counter()
            found = backtracking(d)
            theirs.append(time.perf_counter() - middle)
            ours.append(middle - start)
            same = {tuple(fq.points.line(distances_of(np.array(x))).x) for x in found}
            proven += solution.status == "PROVEN" and same == {tuple(solution.x)}
        ratio = np.median(np.array(theirs) / np.array(ours))
        print(
            f"{n} of {places}: {proven} of {options.trials} proven, {1e3 * np.median(ours):.3g} ms; plain Python "
            f"{1e3 * np.median(theirs):.3g} ms, {ratio:.3g} times as long",
            flush=True,
        )


def circle(options):
    for n, places in ((30, 10**3), (60, 10**4), (100, 10**5), (60, 10**3)):
        counts, seconds = Counter(), []
        for seed in range(options.seeds, options.seeds + options.trials):
            points = np.random.default_rng([n, seed]).choice(places, n, replace=False)
            d = distances_of(points)
            start = time.perf_counter()
            solution = fq.points.circle(np.concatenate([d, places - d]), places, max_time=20)
            seconds.append(time.perf_counter() - start)
            counts[solution.status.name] += 1
        took = f"{np.median(seconds):.3g} s, most {max(seconds):.3g}"
        print(f"circle, {n} of {places}: {dict(counts)}, {took}", flush=True)


def noise(options):
    n = options.points
    for sigma in options.sigma:
        counts, worst, off_truth, seconds = Counter(), [], [], []
        for seed in range(options.seeds, options.seeds + options.trials):
            rng = np.random.default_rng([n, seed])
            points = np.sort(rng.random(n))
            points = (points - points[0]) / (points[-1] - points[0])
            i, j = np.triu_indices(n, 1)
            d = points[j] - points[i] + sigma * rng.standard_normal(i.size)
            told = (np.bincount(j, d, n) - np.bincount(i, d, n)) / n
            told -= told[0]
            start = time.perf_counter()
            solution = fq.points.line(rng.permutation(d), noise=sigma, max_time=options.max_time)
            seconds.append(time.perf_counter() - start)
            counts[solution.status.name] += 1
            x, unit = solution.x, sigma * np.sqrt(2 / n)
            either = (x, (x[-1] - x)[::-1])
            worst.append(min(np.abs(each - told).max() for each in either) / unit)
            off_truth.append(min(np.linalg.norm(each - points) for each in either) / (unit * np.sqrt(n)))
        within = sum(each <= 3 for each in worst)
        print(
            f"σ = {sigma:g}: {dict(counts)}; every position within 3 standard errors of least squares with labels in "
            f"{within} of {options.trials}, largest difference {np.median(worst):.3g} (most {np.max(worst):.3g}); rms "
            f"off the truth {np.median(off_truth):.3g}; {np.median(seconds):.3g} s, most {max(seconds):.3g}",
            flush=True,
        )


def hard(options):
    """Sets for which both choices stay possible for long: short lines full of points, and sums of small sets."""
    cases = {"50 of 100 places": np.random.default_rng(0).choice(100, 50, replace=False)}
    points = np.zeros(1, dtype=int)
    for factor in (1, 10, 101, 1009, 10007):
        points = np.add.outer(points, factor * np.array([0, 1, 3])).ravel()
    cases["a sum of five sets"] = points
    cases["200 of 300 places"] = np.random.default_rng(0).choice(300, 200, replace=False)
    cases["two thirds of an arithmetic progression, twice"] = np.flatnonzero(np.arange(240) % 3 < 2) * np.int64(7)
    # After Zhang (1994): a middle that looks the same from both sides, and points near the ends whose sides it hides.
    for n in (30, 60, 100, 200):
        length, near = 24 * n, np.arange(1, n + 1)
        middle = length // 2 + np.arange(-n, n + 1)
        outer = np.where(near > n // 2, near, length - near)
        cases[f"{3 * n + 3} points with a symmetric middle"] = np.concatenate([[0, length], middle, outer])
    for name, points in cases.items():
        for max_time in (1.0, 5.0):
            start = time.perf_counter()
            solution = fq.points.line(distances_of(np.sort(points)), max_time=max_time)
            print(
                f"{name}, {max_time:g} s: {solution.status.name} in {time.perf_counter() - start:.3g} s, "
                f"{solution.n_iter} tried, {len(solution.rivals)} rivals",
                flush=True,
            )


def from_file(options):
    d = console.distances(options.path, circle=options.length is not None)
    start = time.perf_counter()
    if options.length is None:
        solution = fq.points.line(d, noise=options.noise, max_time=options.max_time)
    else:
        solution = fq.points.circle(d, options.length, noise=options.noise, max_time=options.max_time)
    print(f"{options.path}: {solution!r} in {time.perf_counter() - start:.3g} s. {solution.message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["line", "circle", "noise", "hard", "file"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--sigma", type=float, nargs="+", default=[1e-6, 1e-5, 2e-5, 5e-5, 1e-4])
    parser.add_argument("--length", type=float)
    parser.add_argument("--noise", type=float)
    parser.add_argument("--max-time", type=float, default=20.0)
    options = parser.parse_args()
    {"line": line, "circle": circle, "noise": noise, "hard": hard, "file": from_file}[options.what](options)


if __name__ == "__main__":
    main()
