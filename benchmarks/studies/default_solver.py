"""The default solver, measured: how often it is right, in how many passes, and how fast beside TWF.

    python benchmarks/studies/default_solver.py [PART ...] [--trials N] [--workers 2] [--json FILE]

The parts, all of them if none is named:

    cells       n = 100, m = 125..200, k = 10..100: success and passes
    held-out    the hard cells with m <= 150, at 4,000 passes, `noise=0`
    noise       k = 3 under noise, against least squares on the true support
    pursuit     very sparse signals, n = 500 and 1000, at 30 seconds
    huge        n = 5000, k = 5, m = 100 on a tensor that is not stored
    trust       random problems of mixed shape, ensemble and noise: no wrong answer may be called a success
    twf         time against this library's TWF
    sparse-twf  the same for n = 500, k = 5, m = 100 and β = 4
    torch       time against TWF written with PyTorch
    large       n = 1000, m = 600 in single precision, packed

Prints markdown tables. Instances are drawn from seeds of their own, so that no other script has seen them. Trials run
in processes with one thread each; the parts with times run alone, on all cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable

PARTS = ("cells", "held-out", "noise", "pursuit", "huge", "trust", "twf", "sparse-twf", "torch", "large")

if multiprocessing.current_process().name != "MainProcess":
    # Trials share the cores as processes; BLAS reads this when NumPy is loaded.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "FASTQUAD_NUM_THREADS"):
        os.environ[name] = "1"

import numpy as np  # noqa: E402

import fastquad as fq  # noqa: E402

SEED = 2026_11


def trial(task: dict) -> dict:
    """One instance, solved by the default call: what came of it."""
    options = dict(task.get("options", {}))
    solve = dict(task.get("solve", {}))
    rng = np.random.default_rng([SEED, *task["seed"]])
    if task.get("computed"):
        A = fq.GaussianTensor(task["m"], task["n"], seed=int(rng.integers(2**31)))
        x = np.zeros(task["n"])
        x[rng.choice(task["n"], task["k"], replace=False)] = rng.uniform(-1, 1, task["k"])
        y = fq.measure(A, x)
    else:
        problem = fq.problems.simulate(m=task["m"], n=task["n"], k=task["k"], rng=rng, **options)
        A, x, y = problem.A, problem.x, problem.y
    start = time.perf_counter()
    solution = fq.solve(A, y, **solve)
    elapsed = time.perf_counter() - start
    result = {
        "distance": float(fq.distance(solution.x, x)),
        "passes": float(solution.n_passes),
        "status": solution.status.name,
        "success": bool(solution.success),
        "seconds": elapsed,
        "method": solution.method,
    }
    if task.get("oracle"):
        known = fq.Sparse(support=np.flatnonzero(x))
        oracle = fq.solve(A, y, prior=known, method="lm", x0=x, noise=options["noise"])
        result["oracle"] = float(fq.distance(oracle.x, x))
    return result


def run(tasks: list[dict], workers: int) -> list[dict]:
    """The results of the trials, in their order."""
    if workers == 1:
        return [trial(task) for task in tasks]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.map(trial, tasks, chunksize=1)


def table(title: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print markdown."""
    header = list(header)
    print(f"\n{title}\n\n| {' | '.join(header)} |\n| {' | '.join('---' for _ in header)} |")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)


def by_cell(tasks: list[dict], results: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    """The results, grouped by what the tasks say under these keys."""
    groups: dict[tuple, list[dict]] = {}
    for task, result in zip(tasks, results, strict=True):
        groups.setdefault(tuple(task[key] for key in keys), []).append(result)
    return groups


def right(results: list[dict], within: float = 1e-3) -> int:
    return sum(result["distance"] < within for result in results)


def median_passes(results: list[dict]) -> float:
    return float(np.median([result["passes"] for result in results]))


def cells(trials: int, workers: int) -> list[dict]:
    tasks = [
        {"n": 100, "k": k, "m": m, "seed": (1, k, m, t)}
        for m in (125, 150, 175, 200)
        for k in range(10, 101, 10)
        for t in range(trials)
    ]
    results = run(tasks, workers)
    groups = by_cell(tasks, results, "m", "k")
    table(
        f"n = 100, default call, {trials} instances per cell: right to 1e-10 (median / maximal passes)",
        ["m \\ k", *map(str, range(10, 101, 10))],
        [
            [m, *(
                f"{right(groups[m, k], 1e-10)} ({median_passes(groups[m, k]):.1f} / "
                f"{max(r['passes'] for r in groups[m, k]):.1f})"
                for k in range(10, 101, 10)
            )]
            for m in (125, 150, 175, 200)
        ],
    )  # fmt: skip
    worst = max(result["distance"] for result in results)
    full = sum(right(group, 1e-10) == trials for group in groups.values())
    print(
        f"\n{full} of {len(groups)} cells without a miss; worst distance {worst:.1e}; passes: median "
        f"{median_passes(results):.1f}, maximum {max(r['passes'] for r in results):.1f}."
    )
    return results


# (k, m) and what the prototype had, of 12.
HELD_OUT = {
    (10, 50): 12, (20, 50): 9, (20, 75): 12, (30, 75): 12, (40, 75): 5, (30, 100): 12, (50, 100): 12, (60, 100): 11,
    (80, 100): 7, (90, 100): 5, (50, 125): 12, (100, 125): 12, (100, 150): 12,
}  # fmt: skip


def held_out(trials: int, workers: int) -> list[dict]:
    tasks = [
        {"n": 100, "k": k, "m": m, "seed": (2, k, m, t), "solve": {"noise": 0, "max_passes": 4000}}
        for k, m in HELD_OUT
        for t in range(trials)
    ]
    results = run(tasks, workers)
    groups = by_cell(tasks, results, "k", "m")
    table(
        f"n = 100, at most 4,000 passes, `noise=0`: right of {trials}",
        ["k, m", *(f"{k}, {m}" for k, m in HELD_OUT)],
        [
            ["prototype, of 12", *HELD_OUT.values()],
            ["default", *(right(groups[cell]) for cell in HELD_OUT)],
            ["median passes", *(f"{median_passes(groups[cell]):.0f}" for cell in HELD_OUT)],
            ["median seconds", *(f"{np.median([r['seconds'] for r in groups[cell]]):.1f}" for cell in HELD_OUT)],
        ],
    )
    return results


def noise(trials: int, workers: int) -> list[dict]:
    settings = [(100, 0.1), (200, 0.1), (400, 0.1), (800, 0.1), (200, 1.0)]
    tasks = [
        {"n": 100, "k": 3, "m": m, "sigma": sigma, "seed": (3, m, int(10 * sigma), t), "oracle": True,
         "options": {"noise": sigma, "unit_norm": True, "signal": "uniform"}}
        for m, sigma in settings
        for t in range(trials)
    ]  # fmt: skip
    results = run(tasks, workers)
    groups = by_cell(tasks, results, "m", "sigma")
    rows = []
    for m, sigma in settings:
        group = groups[m, sigma]
        error, oracle = (float(np.mean([r[key] for r in group])) for key in ("distance", "oracle"))
        middle = np.median([r["distance"] / r["oracle"] for r in group])
        said = sum(r["success"] for r in group)
        rows.append([m, sigma, f"{error:.4f}", f"{oracle:.4f}", f"{error / oracle:.2f}", f"{middle:.2f}", said])
    table(
        f"Noise, n = 100, k = 3, ‖x‖ = 1, {trials} trials: mean distance",
        ["m", "σ", "default", "least squares on the true support", "ratio of the means", "median ratio", "successes"],
        rows,
    )
    return results


# (n, k, signal, m): successes of the prototype, of 20, and its median of passes.
PURSUIT = {
    (500, 5, "uniform", 20): (17, 1), (500, 5, "uniform", 30): (20, 0.23), (500, 5, "uniform", 50): (20, 0.035),
    (500, 5, "uniform", 100): (20, 0.029), (500, 5, "signs", 25): (9, 1), (500, 5, "signs", 35): (19, 0.48),
    (500, 5, "signs", 50): (20, 0.39), (500, 5, "signs", 100): (20, 0.029), (500, 10, "uniform", 60): (20, 0.12),
    (500, 10, "signs", 100): (19, 0.26), (500, 20, "uniform", 150): (20, 0.13), (1000, 10, "uniform", 75): (20, 0.10),
    (1000, 20, "uniform", 200): (18, 0.075), (1000, 20, "uniform", 300): (20, 0.043),
}  # fmt: skip


def pursuit(trials: int, workers: int) -> list[dict]:
    tasks = [
        {"n": n, "k": k, "m": m, "signal": signal, "seed": (4, n, k, m, len(signal), t),
         "options": {"signal": signal}, "solve": {"max_time": 30}}
        for n, k, signal, m in PURSUIT
        for t in range(trials)
    ]  # fmt: skip
    results = run(tasks, workers)
    groups = by_cell(tasks, results, "n", "k", "signal", "m")
    rows = []
    for cell, (before, passes) in PURSUIT.items():
        group = groups[cell]
        wrong = sum(r["success"] and r["distance"] > 1e-3 for r in group)
        seconds = f"{np.median([r['seconds'] for r in group]):.2f}"
        rows.append([*cell, before, right(group), passes, f"{median_passes(group):.3g}", seconds, wrong])
    header = ["n", "k", "nonzeros", "m", "prototype", "right", "its passes", "passes", "seconds", "wrong successes"]
    table(f"Very sparse signals, default call, 30 s, {trials} instances per cell", header, rows)
    return results


def huge(trials: int, workers: int) -> list[dict]:
    tasks = [{"n": 5000, "k": 5, "m": 100, "computed": True, "seed": (5, t)} for t in range(trials)]
    results = run(tasks, workers)
    seconds = float(np.median([r["seconds"] for r in results]))
    row = [right(results), trials, f"{median_passes(results):.4f}", f"{seconds:.2f}"]
    table(
        "n = 5000, k = 5, m = 100, `GaussianTensor`, default call",
        ["right", "of", "median passes", "median seconds"],
        [row],
    )
    return results


def trust(trials: int, workers: int) -> list[dict]:
    tasks = [mixed(seed) for seed in range(50 * trials)]
    results = run(tasks, workers)
    exact = [r for r in results if r["status"] == "EXACT"]
    wrong = [
        (t, r)
        for t, r in zip(tasks, results, strict=True)
        if r["status"] in ("EXACT", "CONVERGED") and r["distance"] > t["allowed"]
    ]
    row = [len(tasks), sum(r["success"] for r in results), len(exact), len(wrong)]
    table("Mixed problems, default call, 2 s each", ["problems", "successes", "of them exact", "wrong"], [row])
    for task, result in wrong:
        print(f"wrong: {task} {result}")
    return results


def mixed(seed: int) -> dict:
    """A random problem: small and dense, of Fig. 2's kind, or sparse and long; one in five has noise."""
    rng = np.random.default_rng([SEED, 6, seed])
    kind = rng.choice(3, p=[0.5, 0.4, 0.1])
    if kind == 0:
        n = int(rng.integers(2, 60))
        m, k = int(rng.integers(2, 2 * n + 10)), int(rng.integers(1, n + 1))
    elif kind == 1:
        n = int(rng.integers(30, 150))
        m = int(rng.integers(n // 4, 3 * n // 2))
        k = int(rng.integers(1, max(2, min(n, m // 2))))
    else:
        n = int(rng.integers(150, 500))
        m = int(rng.integers(20, n // 2))
        k = int(rng.integers(1, max(2, m // 5)))
    ensembles = ["gaussian"] * 5 + ["rademacher", "uniform", "bernoulli", "biased", "rank_one"]
    options = {"ensemble": str(rng.choice(ensembles)), "signal": str(rng.choice(["gaussian", "uniform", "signs"]))}
    allowed = 1e-3
    if rng.random() < 0.2:
        # With noise, a success must be closer than the noise is large.
        sigma = float(10 ** rng.uniform(-2, -0.5))
        options |= {"noise": sigma, "unit_norm": True}
        allowed = 3 * sigma
    return {"n": n, "m": m, "k": k, "options": options, "solve": {"max_time": 2}, "seed": (6, seed), "allowed": allowed}


def seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def twf(trials: int, workers: int) -> list[dict]:
    rows = []
    for k, m in ((50, 200), (100, 200)):
        ratios, own, passes = [], [], []
        for t in range(trials):
            problem = fq.problems.gaussian(m=m, n=100, k=k, rng=np.random.default_rng([SEED, 7, k, t]))
            A = fq.pack(problem.A)
            flow = fq.solve(
                A, problem.y, method=fq.TWF(step="constant"), tol=1e-13, max_iter=20000,
                callback=lambda state: state.residual < 1e-10,
            )  # fmt: skip
            if flow.residual > 1e-10:
                continue
            fast = min(seconds_of(lambda A=A, y=problem.y: fq.solve(A, y)) for _ in range(3))
            ratios.append(flow.elapsed / fast)
            own.append(fast)
            passes.append(flow.n_passes)
        rows.append(
            [k, m, len(ratios), f"{np.median(passes):.0f}", f"{1e3 * np.median(own):.1f}", f"{np.median(ratios):.0f}"]
        )
    table(
        f"Time to 1e-10 against TWF with its constant step, n = 100, {trials} instances, packed",
        ["k", "m", "solved by TWF", "its passes", "ms of the default call", "times faster"],
        rows,
    )
    return []


def sparse_twf(trials: int, workers: int) -> list[dict]:
    rows = []
    for name, method in {"default": "auto", "TWF, β = 4": fq.TWF(beta=4.0)}.items():
        hits, taken = 0, []
        for t in range(trials):
            problem = fq.problems.gaussian(m=100, n=500, k=5, rng=np.random.default_rng([SEED, 8, t]))
            A = fq.pack(problem.A)
            solution = fq.solve(A, problem.y, method=method)
            hits += fq.distance(solution.x, problem.x) < 1e-3
            taken.append(solution.elapsed)
        rows.append([name, hits, f"{np.median(taken):.3f}", f"{np.mean(taken):.3f}"])
    table(f"n = 500, k = 5, m = 100, {trials} instances", ["", "right", "median seconds", "mean seconds"], rows)
    return []


def torch_flow(A, y, start, max_iter: int, tol: float) -> tuple[float, int]:
    """TWF as a good user of PyTorch writes it: A symmetrised beforehand, one matrix product per step."""
    import torch

    m, n, _ = A.shape
    flat = A.reshape(m * n, n)
    phi2 = torch.sqrt(torch.mean(y**2))
    x, norm = start.clone(), torch.linalg.norm(y)
    for t in range(max_iter):
        W = (flat @ x).view(m, n)
        r = W @ x - y
        size = torch.linalg.norm(r)
        if t % 10 == 0 and size < tol * norm:
            return float(size / norm), t
        tau = 0.1 / phi2 * torch.sqrt(torch.tensor(0.5, dtype=A.dtype)) * size * torch.linalg.norm(x) / m
        x = x - 0.1 / phi2 * (r @ W) / m
        x = torch.sign(x) * torch.clamp(torch.abs(x) - tau, min=0.0)
    return float(size / norm), max_iter


def torch(trials: int, workers: int) -> list[dict]:
    try:
        import torch
    except ImportError:
        print("\nPyTorch is not installed: its part is left out.")
        return []
    rows = []
    for k, m in ((50, 200), (100, 200)):
        ratios = []
        for t in range(trials):
            problem = fq.problems.gaussian(m=m, n=100, k=k, rng=np.random.default_rng([SEED, 7, k, t]))
            symmetric = torch.from_numpy((problem.A + problem.A.transpose(0, 2, 1)) / 2)
            start = torch.from_numpy(fq.methods.spectral_init(problem.A, problem.y))
            y = torch.from_numpy(problem.y)
            begin = time.perf_counter()
            residual, _ = torch_flow(symmetric, y, start, 20000, 1e-8)
            slow = time.perf_counter() - begin
            if residual > 1e-8:
                continue
            A = fq.pack(problem.A)
            fast = min(seconds_of(lambda A=A, y=problem.y: fq.solve(A, y)) for _ in range(3))
            ratios.append(slow / fast)
        rows.append([k, m, len(ratios), f"{np.median(ratios):.0f}" if ratios else "–"])
    table(
        f"Time to 1e-8 against TWF in PyTorch (from the same spectral start, not counted), n = 100, {trials} instances",
        ["k", "m", "solved by it", "times faster"],
        rows,
    )
    return []


def large(trials: int, workers: int) -> list[dict]:
    rows = []
    for k in (20, 200):
        A = fq.pack(fq.GaussianTensor(600, 1000, seed=k), dtype="float32")
        rng = np.random.default_rng([SEED, 9, k])
        x = np.zeros(1000)
        x[rng.choice(1000, k, replace=False)] = rng.uniform(-1, 1, k)
        solution = fq.solve(A, fq.measure(A, x))
        error = f"{fq.distance(solution.x, x):.1e}"
        rows.append([k, solution.status.name, error, f"{solution.n_passes:.3g}", f"{solution.elapsed:.1f}"])
    table("n = 1000, m = 600, float32 packed (1.2 GB), default call", ["k", "status", "distance", "passes", "s"], rows)
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--trials", type=int, help="instances per cell; default 20 (12 held-out, 30 under noise)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="write every trial's result here")
    options = parser.parse_args()
    everything = {}
    for part in options.parts or PARTS:
        trials = options.trials or {"held-out": 12, "noise": 30}.get(part, 20)
        everything[part] = globals()[part.replace("-", "_")](trials, options.workers)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file)


if __name__ == "__main__":
    main()
