"""Figure 2: success rates.

Tensors are stored in float32, which takes half the time, and y is measured with the entries as stored; arithmetic is in
float64. Stopping never looks at the true signal. Seeds are [figure, …, trial], so a trial can be drawn again alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad import problems
from fastquad.api import solve
from fastquad.experiments.figures.common import flow, grouped, timed, title
from fastquad.experiments.result import Result, Row, Settings
from fastquad.experiments.statistics import rate_interval
from fastquad.measurements.packing import pack
from fastquad.methods import spectral_init
from fastquad.plot import phase_transition
from fastquad.solution import Solution, distance

SETTINGS: Settings = {
    "n": 100,
    "k": list(range(10, 101, 10)),
    "m": list(range(25, 201, 25)),
    "methods": ["WF", "SPF", "TWF", "AMP–LM"],
    "alpha": 0.5,
    "beta": 0.5,
    "threshold": "soft",
    "mu": 0.1,
    "max_iter": 4000,
    "max_passes": 300,  # of AMP–LM, which would search for thousands of passes where nothing is found
    "success": 1e-3,
    "dtype": "float32",
}


def cells(settings: Settings) -> list[Row]:
    return [{"m": m, "k": k} for m in settings["m"] for k in settings["k"]]


def trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """One problem, solved by each method; the paper's methods share one spectral start."""
    m, k = cell["m"], cell["k"]
    rng = np.random.default_rng([2, m, k, trial])
    problem = problems.gaussian(m, settings["n"], k, dtype=np.dtype(settings["dtype"]), rng=rng)
    packed = pack(problem.A)
    x0 = spectral_init(packed, problem.y, alpha=settings["alpha"])

    def attempt(method: str) -> Solution:
        if method == "SPF":
            from fastquad.solvers.spf import SPF

            # SPF needs A as given, not symmetrised.
            return solve(problem.A, problem.y, method=SPF(k=k), x0=x0)
        if method == "AMP–LM":
            # Its certificate needs a residual of 1e-9, below the rounding of packed float32 entries.
            exact = pack(problem.A, dtype=np.float64)
            return solve(exact, problem.y, noise=0.0, max_passes=settings["max_passes"])
        return solve(packed, problem.y, method=flow(method, settings), x0=x0, max_iter=settings["max_iter"])

    rows = []
    for method in settings["methods"]:
        solution, cpu = timed(attempt, method)
        d = distance(solution.x, problem.x)
        rows.append(
            {"method": method, "distance": d, "success": d < settings["success"],
             "status": solution.status.name.lower(), "claimed": bool(solution.success),
             "passes": round(solution.n_passes, 3), "cpu": cpu}
        )  # fmt: skip
    return rows


def summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """The success rate of each cell, and how often a wrong answer was called a success."""
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


def draw(result: Result) -> Any:
    """The success rate of each method as a map."""
    figure = phase_transition(result)
    settings = {"n": result.experiment.settings["n"]}
    figure.suptitle(title(result, settings), fontsize="medium")
    return figure
