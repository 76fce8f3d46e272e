"""Signal in noise, measured: how near the default call comes to the best possible, and how far its own error is right.

    python benchmarks/studies/noise.py [PART ...] [--trials N] [--workers 2] [--seed 1] [--records FILE]

With --records every trial is written down as it ends, and what the file has already is not run again. --seed draws
other instances: rules are chosen on those of one seed and judged on those of another.

The parts, all of them if none is named:

    grid        12 shapes, 5 levels of noise: error, passes, error bars; TWF, least squares on the support, the genie
    sparse      m far below n, σ = .1: error over least squares on the true support
    unequal     σ_i log-uniform over two decades, against weighted least squares on the true support
    outliers    measurements that may be anything, without and with noise
    trust       mixed problems, pure noise, two signals and wrong models among them: claims that are far off
    hopeless    pure noise and hopeless outliers: how many passes until the call ends by itself

The genie samples the exact posterior from the true x, told ρ, σ and the slab: what no method without them can beat,
but for chance. Neither k nor σ nor the norm is given to the default call. Instances are drawn from seeds of their own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

PARTS = ("grid", "sparse", "unequal", "outliers", "trust", "hopeless")

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "FASTQUAD_NUM_THREADS"):
    # Trials share the cores as processes; BLAS reads this when NumPy is loaded.
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

import fastquad as fq  # noqa: E402
from fastquad.experiments.genie import posterior_mean  # noqa: E402

SEED = 2026_14 + int(os.environ.get("FASTQUAD_STUDY_SEED", "0"))
# Where trials are written down as they end.
RECORDS: Path | None = None
SHAPES = [
    (100, 3, 50), (100, 3, 100), (100, 3, 200), (100, 10, 100), (100, 20, 150), (100, 30, 300), (100, 50, 200),
    (100, 100, 150), (100, 100, 300), (300, 5, 100), (300, 10, 150), (500, 10, 200),
]  # fmt: skip
SIGMAS = (0.02, 0.1, 0.2, 0.5, 1.0)


def least_squares(A: np.ndarray, y: np.ndarray, x: np.ndarray) -> float:
    """The error of least squares on the true support, from x."""
    known = fq.Sparse(support=np.flatnonzero(x))
    return float(fq.distance(fq.solve(A, y, prior=known, method="lm", x0=x).x, x))


def measured(solution: fq.Solution, x: np.ndarray) -> dict:
    """What every part keeps of a solve."""
    return {
        "error": float(fq.distance(solution.x, x)), "said": solution.error, "noise": solution.noise,
        "passes": float(solution.n_passes), "status": solution.status.name, "success": bool(solution.success),
        "seconds": solution.elapsed,
    }  # fmt: skip


def covered(solution: fq.Solution, x: np.ndarray) -> tuple[int, int, int, int]:
    """95 % intervals: covered and counted, on the true coordinates that were found, and on all true ones."""
    if solution.stderr is None:
        return 0, 0, 0, 0
    x = x * np.sign(solution.x @ x)
    inside = np.abs(solution.x - x) <= 1.96 * solution.stderr
    true, found = x != 0, (x != 0) & (solution.x != 0)
    return int(inside[found].sum()), int(found.sum()), int(inside[true].sum()), int(true.sum())


def grid_trial(task: dict) -> dict:
    n, k, m, sigma, t = (task[key] for key in ("n", "k", "m", "sigma", "trial"))
    rng = np.random.default_rng([SEED, 1, n, k, m, int(100 * sigma), t])
    problem = fq.problems.gaussian(m, n, k, unit_norm=True, noise=sigma, rng=rng)
    A, y, x = problem.A, problem.y, problem.x
    solution = fq.solve(A, y)
    row = measured(solution, x) | {"covered": covered(solution, x)}
    row["least squares"] = least_squares(A, y, x)
    row["genie"] = float(fq.distance(posterior_mean(A, y, x, sigma, rng), x))
    if t < task["twf"]:
        twf = fq.solve(A, y, method=fq.TWF(step="constant"), norm=1.0, tol=1e-6, max_iter=250)
        row["twf"] = float(fq.distance(twf.x, x))
    return row


def grid(trials: int, workers: int) -> list[dict]:
    tasks = [
        {"n": n, "k": k, "m": m, "sigma": s, "trial": t, "twf": 3}
        for n, k, m in SHAPES for s in SIGMAS for t in range(trials)
    ]  # fmt: skip
    results = run(grid_trial, tasks, workers)
    rows, near, worse = [], 0, 0
    for (n, k, m, sigma), group in cells(tasks, results, "n", "k", "m", "sigma").items():
        means = {key: np.mean([r[key] for r in group]) for key in ("error", "least squares", "genie")}
        twf = np.mean([r["twf"] for r in group if "twf" in r])
        within = sum(r["error"] <= 1.1 * r["genie"] + 1e-3 for r in group)
        near, worse = near + within, worse + (means["error"] > twf)
        claimed, passes = sum(r["success"] for r in group), np.median([r["passes"] for r in group])
        rows.append([
            f"{n},{k},{m}", sigma, f"{means['error']:.4f} ({claimed}, {passes:.0f})", f"{twf:.3f}",
            f"{means['least squares']:.4f}", f"{means['genie']:.4f}", within,
        ])  # fmt: skip
    header = ["n,k,m", "σ", "default (claimed, passes)", "TWF", "LS", "genie", f"near, of {trials}"]
    table("Mean relative error, k, σ and the norm not given", header, rows)
    passes = [r["passes"] for r in results]
    claims = [r for r in results if r["success"] and r["said"]]
    ratio = np.quantile([r["error"] / r["said"] for r in claims], [0.05, 0.5, 0.95])
    levels = [r["noise"] / t["sigma"] for t, r in zip(tasks, results, strict=True) if r["success"] and r["noise"]]
    inside = np.sum([r["covered"] for r in claims], axis=0)
    print(
        f"\nwithin 10 % (+ .001) of the genie: {near} of {len(results)}; cells above TWF: {worse} of {len(rows)}; "
        f"passes: median {np.median(passes):.1f}, 95 % {np.quantile(passes, 0.95):.1f}, most {max(passes):.0f}\n"
        f"{len(claims)} claims, error above .5 in {sum(r['error'] > 0.5 for r in claims)}; error/said 5, 50, 95 %: "
        f"{ratio[0]:.2f}, {ratio[1]:.2f}, {ratio[2]:.2f}; σ̂/σ {np.mean(levels):.3f} ± {np.std(levels):.3f}\n"
        f"95 % intervals: {inside[0] / inside[1]:.3f} of the true coordinates found, {inside[2] / inside[3]:.3f} of all"
    )
    return results


def sparse_trial(task: dict) -> dict:
    n, k, m, t = (task[key] for key in ("n", "k", "m", "trial"))
    rng = np.random.default_rng([SEED, 2, n, k, m, t])
    problem = fq.problems.gaussian(m, n, k, unit_norm=True, noise=0.1, rng=rng)
    row = measured(fq.solve(problem.A, problem.y), problem.x)
    return row | {"oracle": least_squares(problem.A, problem.y, problem.x)}


def sparse(trials: int, workers: int) -> list[dict]:
    shapes = [(1000, 5, 80), (500, 10, 150), (500, 5, 60)]
    tasks = [{"n": n, "k": k, "m": m, "trial": t} for n, k, m in shapes for t in range(trials)]
    results = run(sparse_trial, tasks, workers)
    oracle_table("Very sparse, σ = .1", cells(tasks, results, "n", "k", "m"))
    return results


def unequal_trial(task: dict) -> dict:
    k, m, low, t = (task[key] for key in ("k", "m", "low", "trial"))
    rng = np.random.default_rng([SEED, 3, k, m, int(1000 * low), t])
    problem = fq.problems.gaussian(m, 100, k, unit_norm=True, rng=rng)
    sigmas = low * 100 ** rng.random(m)
    y = problem.y + sigmas * rng.standard_normal(m)
    row = measured(fq.solve(problem.A, y, noise=sigmas), problem.x)
    scaled = problem.A / sigmas[:, None, None]
    return row | {"oracle": least_squares(scaled, y / sigmas, problem.x)}


def unequal(trials: int, workers: int) -> list[dict]:
    settings = [(3, 100, 0.02), (10, 150, 0.02), (10, 150, 0.005), (20, 200, 0.02)]
    tasks = [{"k": k, "m": m, "low": low, "trial": t} for k, m, low in settings for t in range(trials)]
    results = run(unequal_trial, tasks, workers)
    oracle_table(
        "σ_i log-uniform over two decades, from `low` on; oracle: weighted", cells(tasks, results, "k", "m", "low")
    )
    return results


def outliers_trial(task: dict) -> dict:
    k, m, share, size, sigma, t = (task[key] for key in ("k", "m", "share", "size", "sigma", "trial"))
    rng = np.random.default_rng([SEED, 4, k, m, int(100 * share), int(size), int(100 * sigma), t])
    problem = fq.problems.gaussian(m, 100, k, unit_norm=True, rng=rng)
    y = problem.y + sigma * rng.standard_normal(m)
    bad = rng.choice(m, round(share * m), replace=False)
    y[bad] = size * np.sqrt(np.mean(problem.y**2)) * rng.standard_normal(bad.size)
    solution = fq.solve(problem.A, y, outliers=True)
    row = measured(solution, problem.x)
    good = np.setdiff1d(np.arange(m), bad)
    row["oracle"] = least_squares(problem.A[good], y[good], problem.x) if sigma else 1e-3
    row["missed"] = np.setdiff1d(bad, [] if solution.outliers is None else solution.outliers).size
    row["right"] = row["error"] < (1e-3 if sigma == 0 else 2 * row["oracle"] + 0.01)
    return row


def outliers(trials: int, workers: int) -> list[dict]:
    tasks = [
        {"k": k, "m": m, "share": share, "size": size, "sigma": sigma, "trial": t}
        for sigma in (0.0, 0.05) for k, m in ((10, 100), (20, 150), (50, 200)) for size in (10.0, 1.0)
        for share in (0.1, 0.2) for t in range(trials)
    ]  # fmt: skip
    results = run(outliers_trial, tasks, workers)
    rows = []
    for cell, group in cells(tasks, results, "k", "m", "size", "share", "sigma").items():
        right = sum(r["right"] for r in group)
        false = sum(r["success"] and r["error"] > 0.5 for r in group)
        error, oracle, passes = (np.median([r[key] for r in group]) for key in ("error", "oracle", "passes"))
        rows.append([*cell, right, false, f"{error:.4f}", f"{oracle:.4f}", f"{passes:.0f}"])
    header = ["k", "m", "size", "share", "σ", f"right, of {trials}", "false claims", "error", "oracle", "passes"]
    table("Outliers", header, rows)
    return results


def trust_trial(task: dict) -> dict:
    rng = np.random.default_rng([SEED, 5, task["trial"]])
    n = int(rng.integers(20, 160))
    m = int(n * rng.uniform(0.3, 3))
    k = int(rng.integers(2, n + 1)) if rng.random() < 0.5 else int(rng.integers(2, max(3, n // 5)))
    signal = str(rng.choice(["uniform", "gaussian", "signs", "decaying"]))
    ensemble = str(rng.choice(["gaussian"] * 4 + ["rademacher", "uniform", "bernoulli", "biased", "rank_one"]))
    sigma = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.2]))
    problem = fq.problems.simulate(m, n, k, ensemble=ensemble, signal=signal, unit_norm=True, rng=rng)
    scale = float(np.sqrt(np.mean(problem.y**2))) or 1.0
    y, kind = problem.y + sigma * scale * rng.standard_normal(m), str(rng.choice(["signal"] * 6 + WRONG))
    if kind == "pure noise":
        y = scale * rng.standard_normal(m)
    elif kind == "outliers":
        bad = rng.random(m) < 0.05
        y[bad] = 10 * scale * rng.standard_normal(int(bad.sum()))
    elif kind == "rank 2":
        other = rng.standard_normal(n)
        other -= problem.x * (other @ problem.x)
        y = y + 0.49 * fq.measure(problem.A, other / np.linalg.norm(other))
    elif kind == "saturated":
        y = scale * np.tanh(y / scale)
    elif kind == "squared":
        y = y * np.abs(y) / scale
    # Of this processor, whatever else the machine does.
    end = time.process_time() + SECONDS
    solution = fq.solve(problem.A, y, callback=lambda state: time.process_time() > end)
    row = measured(solution, problem.x) | {"kind": kind}
    row["false"] = row["success"] and (kind == "pure noise" or row["error"] > 0.5)
    # A distorted y is as well explained by another length of x: such claims are told apart.
    length = float(np.linalg.norm(solution.x)) or 1.0
    row["direction"] = float(fq.distance(solution.x / length, problem.x))
    return row | {"what": (n, m, k, signal, ensemble, sigma)}


# What a mixed problem may take.
SECONDS = 0.6
WRONG = ["pure noise", "outliers", "rank 2", "saturated", "squared"]


def trust(trials: int, workers: int) -> list[dict]:
    results = run(trust_trial, [{"trial": t} for t in range(75 * trials)], workers)
    rows = []
    for kind in ["signal", *WRONG]:
        group = [r for r in results if r["kind"] == kind]
        claims = [r for r in group if r["success"]]
        far = sum(r["error"] > 2 * r["said"] + 1e-6 for r in claims if r["said"] is not None)
        exact = sum(r["status"] == "EXACT" for r in claims)
        false = [r for r in claims if r["false"]]
        length = sum(kind != "pure noise" and r["direction"] < 0.5 for r in false)
        rows.append([kind, len(group), len(claims), exact, len(false), length, far])
    header = ["kind", "problems", "claims", "exact", "false", "by the length alone", "error above twice said"]
    table(f"Mixed problems, {SECONDS} s each", header, rows)
    for r in results:
        if r["false"]:
            print("false:", r)
    return results


def hopeless_trial(task: dict) -> dict:
    rng = np.random.default_rng([SEED, 6, task["trial"]])
    problem = fq.problems.gaussian(150, 100, 60, unit_norm=True, rng=rng)
    y = rng.standard_normal(150)
    if task["kind"] == "outliers":
        bad = rng.choice(150, 60, replace=False)
        y = problem.y.copy()
        y[bad] = 10 * rng.standard_normal(60)
    solution = fq.solve(problem.A, y, outliers=task["robust"])
    return measured(solution, problem.x) | {"message": solution.message}


def hopeless(trials: int, workers: int) -> list[dict]:
    kinds = [("pure noise", False), ("outliers", False), ("outliers", True)]
    tasks = [{"kind": kind, "robust": robust, "trial": t} for kind, robust in kinds for t in range(trials)]
    results = run(hopeless_trial, tasks, workers)
    rows = [
        [*cell, sum(r["success"] for r in group), f"{max(r['passes'] for r in group):.0f}", group[0]["message"]]
        for cell, group in cells(tasks, results, "kind", "robust").items()
    ]
    table("n = 100, m = 150, default call", ["data", "outliers=True", "claims", "most passes", "one message"], rows)
    return results


# -- tools ------------------------------------------------------------------------------------------------------


def run(trial, tasks: list[dict], workers: int) -> list[dict]:
    """The results of the trials, in the order of the tasks; those that were written down are not run again."""
    done = {}
    if RECORDS is not None and RECORDS.exists():
        done = {row["key"]: row["result"] for row in map(json.loads, RECORDS.read_text().splitlines())}
    keys = [f"{SEED} {trial.__name__} {json.dumps(task, sort_keys=True)}" for task in tasks]
    # Small problems come first, and the first instances of every cell.
    missing = [i for i, key in enumerate(keys) if key not in done]
    missing.sort(key=lambda i: (tasks[i].get("n", 0), tasks[i]["trial"]))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        results = pool.imap_unordered(_Numbered(trial), [(keys[i], tasks[i]) for i in missing])
        for key, result in results:
            done[key] = result
            if RECORDS is not None:
                with RECORDS.open("a") as file:
                    file.write(json.dumps({"key": key, "result": result}) + "\n")
    return [done[key] for key in keys]


class _Numbered:
    """A trial that says which one it was."""

    def __init__(self, trial) -> None:
        self.trial = trial

    def __call__(self, numbered: tuple[str, dict]) -> tuple[str, dict]:
        key, task = numbered
        return key, self.trial(task)


def cells(tasks: list[dict], results: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    """The results, grouped by what the tasks say under these keys."""
    groups: dict[tuple, list[dict]] = {}
    for task, result in zip(tasks, results, strict=True):
        groups.setdefault(tuple(task[key] for key in keys), []).append(result)
    return groups


def oracle_table(title: str, groups: dict[tuple, list[dict]]) -> None:
    rows = []
    for cell, group in groups.items():
        error, oracle, passes = (np.median([r[key] for r in group]) for key in ("error", "oracle", "passes"))
        ratio = np.median([r["error"] / r["oracle"] for r in group])
        said = sum(r["success"] for r in group)
        rows.append(
            [*cell, f"{error:.4f}", f"{oracle:.4f}", f"{ratio:.2f}", f"{said} of {len(group)}", f"{passes:.1f}"]
        )
    columns = [""] * len(next(iter(groups)))
    table(title, [*columns, "error, median", "oracle", "median ratio", "claimed", "passes"], rows)


def table(title: str, header: list[str], rows: list[list]) -> None:
    """Print markdown."""
    print(f"\n{title}\n\n| {' | '.join(header)} |\n| {' | '.join('---' for _ in header)} |")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--trials", type=int, help="instances per cell; default 12, 20 with outliers and unequal noise")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0, help="which family of instances")
    parser.add_argument("--records", type=Path, help="write every trial's result here, and take what is there")
    options = parser.parse_args()
    global SEED, RECORDS
    SEED, RECORDS = 2026_14 + options.seed, options.records
    os.environ["FASTQUAD_STUDY_SEED"] = str(options.seed)  # the workers load this file anew
    for part in options.parts or PARTS:
        trials = options.trials or {"unequal": 20, "outliers": 20, "trust": 40}.get(part, 12)
        globals()[part](trials, options.workers)


if __name__ == "__main__":
    main()
