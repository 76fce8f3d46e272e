"""The experiments with a sparse signal: figures 1 to 3.

Tensors are stored in float32, which takes half the time, and y is measured with the entries as stored; arithmetic is in
float64. Stopping never looks at the true signal. Seeds are [figure, …, trial], so a trial can be drawn again alone.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fastquad import problems
from fastquad.experiments.statistics import mean_interval, median_interval, rate_interval
from fastquad.front_door import solve, spectral_init
from fastquad.measurements import pack
from fastquad.priors import Sparse
from fastquad.solution import Solution, distance

Row = dict[str, Any]
Settings = dict[str, Any]

SPECTRAL: Settings = {"n": 500, "k": 5, "m": list(range(50, 501, 50)), "alpha": 0.5, "dtype": "float32"}

PHASE: Settings = {
    "n": 100,
    "k": list(range(10, 101, 10)),
    "m": list(range(25, 201, 25)),
    "methods": ["WF", "SPF", "TWF", "AMP–LM"],
    "alpha": 0.5,
    "beta": 0.5,
    "threshold": "soft",
    "mu": 0.1,
    "max_iter": 4000,
    "max_passes": 300,  # of AMP–LM: where nothing is found it would go on for thousands
    "success": 1e-3,
    "dtype": "float32",
}

NOISE: Settings = {
    "n": 100,
    "k": 3,
    "m": [50, 100, 200, 400, 800, 1600],
    "sigma": [0.05, 0.1, 0.2, 0.5],
    "methods": ["TWF", "AMP–LM", "least squares"],
    "alpha": 0.5,
    "beta": 0.5,
    "threshold": "soft",
    "mu": 0.1,
    "max_iter": 1000,
    "max_passes": 300,
    "dtype": "float32",
}


# -- figure 1: how near the spectral starts come ----------------------------------------------------------------


def spectral_cells(settings: Settings) -> list[Row]:
    """One: a trial draws the largest A, and each m takes its first m measurements."""
    return [{}]


def spectral_trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """The relative distance of both spectral starts from x, for each m."""
    rng = np.random.default_rng([1, trial])
    problem = problems.gaussian(
        max(settings["m"]), settings["n"], settings["k"], dtype=np.dtype(settings["dtype"]), rng=rng
    )
    rows = []
    for m in settings["m"]:
        for start, support in (("SI", "full"), ("SI-S", "estimated")):
            x0 = spectral_init(problem.A[:m], problem.y[:m], alpha=settings["alpha"], support=support)
            rows.append({"m": m, "start": start, "distance": distance(x0, problem.x)})
    return rows


def spectral_summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """Median and quartiles, with the interval of the median."""
    rows = []
    for (m, start), group in grouped(trials, "m", "start"):
        values = np.array([row["distance"] for row in group])
        low, high = median_interval(values)
        q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
        rows.append(
            {"m": m, "start": start, "trials": len(values), "median": median, "low": low, "high": high, "q1": q1,
             "q3": q3, "min": values.min(), "max": values.max()}
        )  # fmt: skip
    return rows


# -- figure 2: success rates ------------------------------------------------------------------------------------


def phase_cells(settings: Settings) -> list[Row]:
    return [{"m": m, "k": k} for m in settings["m"] for k in settings["k"]]


def phase_trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """One problem, solved by each method; the paper's methods share one spectral start."""
    m, k = cell["m"], cell["k"]
    rng = np.random.default_rng([2, m, k, trial])
    problem = problems.gaussian(m, settings["n"], k, dtype=np.dtype(settings["dtype"]), rng=rng)
    packed = pack(problem.A)
    x0 = spectral_init(packed, problem.y, alpha=settings["alpha"])

    def attempt(method: str) -> Solution:
        if method == "SPF":
            from fastquad.solvers.spf import SPF

            # It needs A as it is, not symmetrised.
            return solve(problem.A, problem.y, method=SPF(k=k), x0=x0)
        if method == "AMP–LM":
            # Its certificate is a residual of 1e-9, below the rounding of a packed float32.
            exact = pack(problem.A, dtype=np.float64)
            return solve(exact, problem.y, noise=0.0, max_passes=settings["max_passes"])
        return solve(packed, problem.y, method=_flow(method, settings), x0=x0, max_iter=settings["max_iter"])

    rows = []
    for method in settings["methods"]:
        solution, cpu = _timed(attempt, method)
        d = distance(solution.x, problem.x)
        rows.append(
            {"method": method, "distance": d, "success": d < settings["success"],
             "status": solution.status.name.lower(), "claimed": bool(solution.success),
             "passes": round(solution.n_passes, 3), "cpu": cpu}
        )  # fmt: skip
    return rows


def phase_summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """The success rate of each cell; and how often an answer was wrongly called a success."""
    rows = []
    for (method, m, k), group in grouped(trials, "method", "m", "k"):
        successes = sum(row["success"] for row in group)
        low, high = rate_interval(successes, len(group))
        rows.append(
            {"method": method, "m": m, "k": k, "trials": len(group), "successes": successes,
             "rate": successes / len(group), "low": low, "high": high,
             "false_successes": sum(row["claimed"] and not row["success"] for row in group),
             "median_passes": float(np.median([row["passes"] for row in group])),
             "mean_cpu": float(np.mean([row["cpu"] for row in group]))}
        )  # fmt: skip
    return rows


# -- figure 3: noise, with ‖x‖ = 1 ------------------------------------------------------------------------------


def noise_cells(settings: Settings) -> list[Row]:
    return [{"m": m} for m in settings["m"]]


def noise_trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """One A and x, and one draw of the noise that is scaled to each level.

    Only TWF is told that ‖x‖ = 1, as in the paper; only least squares is told the support.
    """
    m = cell["m"]
    rng = np.random.default_rng([3, m, trial])
    dtype = np.dtype(settings["dtype"])
    problem = problems.gaussian(m, settings["n"], settings["k"], unit_norm=True, dtype=dtype, rng=rng)
    packed, draw = pack(problem.A), rng.standard_normal(m)

    def attempt(method: str, y: np.ndarray) -> Solution:
        if method == "TWF":
            twf = _flow(method, settings, step="constant")
            # The residual stays at the noise: the tolerance only says which steps, 1e-8 of x, are negligible.
            return solve(packed, y, method=twf, norm=1.0, tol=1e-6, max_iter=settings["max_iter"])
        if method == "AMP–LM":
            return solve(packed, y, max_passes=settings["max_passes"])
        # From x itself: the minimum next to it is the bound that a method without the support is held to.
        prior = Sparse(support=np.flatnonzero(problem.x))
        return solve(packed, y, prior=prior, method="lm", x0=problem.x)

    rows = []
    for sigma in settings["sigma"]:
        y = problem.y + sigma * draw
        for method in settings["methods"]:
            solution, cpu = _timed(attempt, method, y)
            rows.append(
                {"sigma": sigma, "method": method, "error": distance(solution.x, problem.x),
                 "status": solution.status.name.lower(), "passes": round(solution.n_passes, 3), "cpu": cpu}
            )  # fmt: skip
    return rows


def noise_summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """Mean and median error; the slope of the mean on m, both logarithmic, from m = 100 on."""
    rows = []
    for (method, sigma, m), group in grouped(trials, "method", "sigma", "m"):
        errors = np.array([row["error"] for row in group])
        low, high = mean_interval(errors)
        rows.append(
            {"method": method, "sigma": sigma, "m": m, "trials": len(errors), "mean": errors.mean(), "low": low,
             "high": high, "median": float(np.median(errors)),
             "median_passes": float(np.median([row["passes"] for row in group])),
             "mean_cpu": float(np.mean([row["cpu"] for row in group]))}
        )  # fmt: skip
    for (_, _), group in grouped(rows, "method", "sigma"):
        used = [(np.log(row["m"]), np.log(row["mean"])) for row in group if row["m"] >= 100 and row["mean"] > 0]
        slope = float(np.polyfit([a for a, _ in used], [b for _, b in used], 1)[0]) if len(used) > 1 else float("nan")
        for row in group:
            row["slope"] = slope
    return rows


# -- shared -----------------------------------------------------------------------------------------------------


def grouped(rows: list[Row], *keys: str) -> list[tuple[tuple, list[Row]]]:
    """The rows by the values of these keys, in the order in which the values first come."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    order = [list(dict.fromkeys(values)) for values in zip(*groups, strict=True)]
    return [(values, groups[values]) for values in itertools.product(*order) if values in groups]


def _flow(method: str, settings: Settings, step: str = "damped") -> Any:
    """Wirtinger flow, with the settings' thresholding or without."""
    from fastquad.solvers.twf import TWF, WF

    common: Any = {"alpha": settings["alpha"], "mu": settings["mu"], "step": step}
    if method == "WF":
        return WF(**common)
    return TWF(beta=settings["beta"], threshold=settings["threshold"], **common)


def _timed(attempt: Callable[..., Solution], *arguments: Any) -> tuple[Solution, float]:
    """What it returns, and the seconds of processor time that it took."""
    start = time.thread_time()
    solution = attempt(*arguments)
    return solution, round(time.thread_time() - start, 4)
