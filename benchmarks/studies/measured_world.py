"""Structured problems by the default call: phase retrieval, power grids, linear terms, equations.

    python benchmarks/studies/measured_world.py phase | complex | sparse | grids | meters | affine | equations
        | bilinear | coded | photons [--trials 20] [--seeds 0]

Each line is a cell: how many of the instances were recovered (relative distance below 1e-3), and what they took.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import fastquad as fq

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


#: Another number gives other instances of the same problems: rules are tuned on some, and judged on others.
SEEDS = 0


def report(name, rows):
    """One cell: (recovered, passes, seconds, status) of each instance."""
    good, passes, seconds, status = zip(*rows, strict=True)
    counts = ", ".join(f"{key} {value}" for key, value in Counter(status).items())
    print(f"{name}: {sum(good)} of {len(rows)}, {np.median(passes):.3g} passes, {np.median(seconds):.3g} s "
          f"(at most {max(seconds):.3g}); {counts}", flush=True)  # fmt: skip


def solved(A, y, x, **options):
    began = time.perf_counter()
    found = fq.solve(A, y, **options)
    seconds = time.perf_counter() - began
    return found, (fq.distance(found.x, x) < 1e-3, found.n_passes, seconds, found.status.name)


def phase(trials):
    """Real vectors, n = 100; the same under 5 % noise: whether the least-squares optimum is reached."""
    for ratio in (1.5, 2, 3):
        rows, at_optimum = [], 0
        for seed in range(trials):
            rng = np.random.default_rng([SEEDS, 2026, int(100 * ratio), seed])
            A, x = fq.RankOneTensor(rng.standard_normal((int(100 * ratio), 100))), rng.standard_normal(100)
            y = fq.measure(A, x)
            rows.append(solved(A, y, x)[1])
            y = y + 0.05 * np.sqrt(np.mean(y**2)) * rng.standard_normal(A.m)
            best = fq.solve(A, y, x0=x, method="lm").residual
            at_optimum += fq.solve(A, y).residual <= best * (1 + 1e-6)
        report(f"real, m = {ratio} n", rows)
        print(f"  5 % noise: {at_optimum} of {trials} at the least-squares optimum")


def complex_(trials):
    """Complex vectors, n = 64."""
    for ratio in (2.5, 3, 4):
        rows = []
        for seed in range(trials):
            rng = np.random.default_rng([SEEDS, 2027, int(64 * ratio), seed])
            a, x = rng.standard_normal((int(64 * ratio), 64, 2)), rng.standard_normal((64, 2))
            A, x = fq.RankOneTensor(a.view(complex)[..., 0]), x.view(complex)[..., 0]
            rows.append(solved(A, fq.measure(A, x), x)[1])
        report(f"complex, m = {ratio} n", rows)


def sparse(trials):
    """n = 1000, 10 nonzeros."""
    for m in (100, 150):
        rows = []
        for seed in range(trials):
            rng = np.random.default_rng([SEEDS, 2028, m, seed])
            A, x = fq.RankOneTensor(rng.standard_normal((m, 1000))), np.zeros(1000)
            x[rng.permutation(1000)[:10]] = rng.standard_normal(10)
            rows.append(solved(A, fq.measure(A, x), x, max_time=30)[1])
        report(f"sparse, m = {m}", rows)


def grids(trials):
    """IEEE 9 to 118 without noise, from the flat start and from none."""
    import grids as cases

    for case in cases.CASES:
        grid = cases.load(case)
        for name, kinds in cases.SETS.items():
            A = fq.SparseTensor(cases.matrices(grid, kinds))
            y = fq.measure(A, grid.V)
            for start in (np.ones(grid.n), None):
                found, row = solved(A, y, grid.V, x0=start)
                error = cases.error(found.x, grid.V)
                print(f"{case} {name}, {'no' if start is None else 'flat'} start: {row[3]}, error {error:.0e}, "
                      f"{row[2]:.2f} s", flush=True)  # fmt: skip


def meters(trials):
    """IEEE 14 to 118, σ_i = 1 % with a floor: the error over that of weighted least squares; one meter off by 20 σ."""
    import grids as cases

    for case in cases.CASES[1:]:
        grid = cases.load(case)
        A = fq.SparseTensor(cases.matrices(grid, cases.SETS["full"]))
        exact = fq.measure(A, grid.V)
        sigma = 0.01 * np.maximum(np.abs(exact), 0.1)
        ratios, found_bad, false_bad, success = [], 0, 0, 0
        for seed in range(trials):
            rng = np.random.default_rng([SEEDS, 2029, grid.n, seed])
            y = exact + sigma * rng.standard_normal(A.m)
            flat = np.ones(grid.n)
            solution = fq.solve(A, y, noise=sigma, x0=flat)
            reference = cases.weighted_least_squares(A, y, sigma, flat.astype(complex))
            ratios.append(cases.error(solution.x, grid.V) / cases.error(reference, grid.V))
            success += solution.success
            bad = int(rng.integers(A.m))
            y[bad] += 20 * sigma[bad]
            outliers = fq.solve(A, y, noise=sigma, x0=flat, outliers=True).outliers
            told = set() if outliers is None else set(map(int, outliers))
            found_bad += bad in told
            false_bad += len(told - {bad})
        print(f"{case}: error over WLS {np.median(ratios):.4f} (at most {max(ratios):.4f}), {success} successes; "
              f"bad meter found {found_bad} of {trials}, {false_bad} sound ones blamed", flush=True)  # fmt: skip


def affine(trials):
    """PRIORS.md section 7: n = 100, k nonzeros, linear terms of rms ‖x‖ and .3 ‖x‖; the sign counts."""
    for size in (1.0, 0.3):
        for k, m in ((10, 30), (10, 50), (20, 50), (40, 75), (60, 90), (100, 105)):
            rows = []
            for seed in range(trials):
                rng = np.random.default_rng([SEEDS, 2030, k, m, seed])
                A, x = rng.standard_normal((m, 100, 100)), np.zeros(100)
                x[rng.permutation(100)[:k]] = rng.standard_normal(k)
                tensor = fq.AffineTensor(A, size * np.linalg.norm(x) * rng.standard_normal((m, 100)))
                found, row = solved(tensor, fq.measure(tensor, x), x, max_time=4)
                right = bool(np.linalg.norm(found.x - x) < 1e-3 * np.linalg.norm(x))
                away = fq.distance(found.x, x, signed=True)
                wrong = " (wrong)" if found.success and not right and away > 3 * (found.error or 0.0) else ""
                rows.append((right, row[1], row[2], row[3] + wrong))
            report(f"rms(b) = {size} |x|, k = {k}, m = {m}", rows)


def equations(trials):
    """50 equations with linear terms for 50 unknowns: a solution, against least_squares from 20 random starts."""

    example = Path(__file__).parents[2] / "examples" / "plot_quadratic_equations.py"
    code = example.read_text(encoding="utf-8").split("# %%")[0]
    names = {}
    exec(compile(code, str(example), "exec"), names)  # the definitions above the first cell
    ours, theirs = 0, []
    for seed in range(trials):
        A, b, c, _ = names["system"](50, 1000 * (1 + SEEDS) + seed)
        found = fq.solve(fq.AffineTensor(A, b, c), np.zeros(50), max_time=20)
        left = np.einsum("ijk,j,k->i", A, found.x, found.x) + b @ found.x + c
        ours += np.linalg.norm(left) < 1e-8 * np.linalg.norm(c)
        rng = np.random.default_rng([SEEDS, seed])
        theirs.append(any(names["by_scipy"](A, b, c, rng.standard_normal(50)) for _ in range(20)))
    print(f"fastquad {ours} of {trials}; least_squares from up to 20 random starts {sum(theirs)}")


def bilinear(trials):
    """y_i = u^T B_i v with Gaussian B_i, u of k nonzeros and v of none: the distance of u v^T; the same with noise."""
    for p, q, k, m in ((64, 10, 5, 40), (256, 40, 20, 200)):
        for noise in (0.0, 0.05):
            rows = []
            for seed in range(trials):
                rng = np.random.default_rng([SEEDS, 2032, p, m, seed])
                A = fq.BilinearTensor(rng.standard_normal((m, p, q)))
                u, v = np.zeros(p), rng.standard_normal(q)
                u[rng.permutation(p)[:k]] = rng.standard_normal(k)
                y = fq.measure(A, np.concatenate([u, v]))
                y = y + noise * np.sqrt(np.mean(y**2)) * rng.standard_normal(m)
                began = time.perf_counter()
                found = fq.solve(A, y)
                seconds = time.perf_counter() - began
                got, true = np.outer(*A.split(found.x)), np.outer(u, v)
                distance = np.linalg.norm(got - true) / np.linalg.norm(true)
                rows.append((distance < (1e-3 if not noise else 0.2), found.n_passes, seconds, found.status.name))
            report(f"bilinear {p}×{q}, k = {k}, m = {m}, noise {noise:.0%}", rows)


def octanary(rng, shape):
    """The masks of Candès, Li and Soltanolkotabi (2015): four phases, and two moduli."""
    return 1j ** rng.integers(0, 4, shape) * np.where(rng.random(shape) < 0.8, np.sqrt(0.5), np.sqrt(3.0))


#: Masks as people use them.
MASKS = {
    "quaternary": lambda rng, shape: 1j ** rng.integers(0, 4, shape),
    "octanary": octanary,
    "phases": lambda rng, shape: np.exp(2j * np.pi * rng.random(shape)),
}


def coded(trials):
    """Coded diffraction, 4 masks: the time over that of amplitude flow by fast Fourier transforms, in turns."""
    import peers

    for side, kind, real in (
        (32, "quaternary", True), (32, "octanary", True), (16, "octanary", False), (16, "phases", False),
        (32, "octanary", False), (32, "phases", False), (128, "quaternary", True), (128, "octanary", False),
    ):  # fmt: skip
        rows, flows, near, flown = [], [], 0.0, 0
        average = np.real if real else None
        for seed in range(trials if side < 128 else min(trials, 3)):
            rng = np.random.default_rng([SEEDS, 2031, side, seed])
            codes, x = MASKS[kind](rng, (4, side, side)), rng.random(side * side)
            x = x if real else x * np.exp(2j * np.pi * rng.random(x.size))
            A = fq.FourierTensor(codes)
            y = fq.measure(A, x)
            found, row = solved(A, y, x, signal="real" if real else None)
            rows.append(row)
            near = max(near, fq.distance(found.x, x))
            forward, adjoint = peers.coded_diffraction(codes)
            began, b = time.perf_counter(), np.sqrt(y) / side
            start = peers.spectral_amplitude_start(forward, adjoint, b, x.shape, rng, average=average)
            flow, _ = peers.amplitude_flow(forward, adjoint, b, start, step=0.25, max_iter=2000, average=average)
            flows.append(time.perf_counter() - began)
            flown += fq.distance(flow, x) < 1e-3
        name = f"{side}×{side}, {kind}, {'real' if real else 'complex'}"
        report(name, rows)
        ratio = np.median([row[2] / flow for row, flow in zip(rows, flows, strict=True)])
        print(f"  largest distance {near:.0e}; amplitude flow {flown} of {len(rows)}, {np.median(flows):.3g} s; "
              f"time over it, median: {ratio:.2f}", flush=True)  # fmt: skip


def photons(trials):
    """Coded diffraction, 4 masks, about 100 photons a pixel: the error over that which is told, and successes."""
    for side, kind, real in (
        (20, "quaternary", True), (32, "quaternary", True), (16, "phases", False), (32, "octanary", False),
    ):  # fmt: skip
        told, made, success, seconds = [], [], 0, []
        for seed in range(trials):
            rng = np.random.default_rng([SEEDS, 2033, side, seed])
            A, x = fq.FourierTensor(MASKS[kind](rng, (4, side, side))), rng.random(side * side)
            x = x if real else x * np.exp(2j * np.pi * rng.random(x.size))
            exact = fq.measure(A, x)
            scale = exact.mean() / 100
            counts = rng.poisson(exact / scale)
            sigma = np.sqrt(np.maximum(counts, 1)) * scale
            found = fq.solve(A, counts * scale, noise=sigma, signal="real" if real else None)
            made.append(fq.distance(found.x, x))
            told.append(found.error or np.nan)
            success += found.success
            seconds.append(found.elapsed)
        ratios = np.divide(made, told)
        print(f"photons, {side}×{side}, {kind}, {'real' if real else 'complex'}: {success} of {trials} successes, "
              f"error {np.median(made):.3f}, over the one told {np.median(ratios):.2f} ({min(ratios):.2f} to "
              f"{max(ratios):.2f}), {np.median(seconds):.2g} s", flush=True)  # fmt: skip


STUDIES = {
    "phase": phase, "complex": complex_, "sparse": sparse, "grids": grids, "meters": meters, "affine": affine,
    "equations": equations, "bilinear": bilinear, "coded": coded, "photons": photons,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=0, help="another family of instances")
    options = parser.parse_args()
    global SEEDS
    SEEDS = options.seeds
    STUDIES[options.study](options.trials)


if __name__ == "__main__":
    main()
