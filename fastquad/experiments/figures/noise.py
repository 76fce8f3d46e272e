"""Figure 3: the error under noise, with ‖x‖ = 1.

Tensors are stored in float32, which takes half the time, and y is measured with the entries as stored; arithmetic is in
float64. Stopping never looks at the true signal. Seeds are [figure, …, trial], so a trial can be drawn again alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad import problems
from fastquad.api import solve
from fastquad.experiments.figures.common import STYLES, curve, flow, grouped, timed, title
from fastquad.experiments.result import Result, Row, Settings
from fastquad.experiments.statistics import mean_interval
from fastquad.measurements.packing import pack
from fastquad.plot import new_figure
from fastquad.priors.sparse import Sparse
from fastquad.solution import Solution, distance

SETTINGS: Settings = {
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
    "dtype": "float32",
}


def cells(settings: Settings) -> list[Row]:
    return [{"m": m} for m in settings["m"]]


def trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """Draw one A, one x and one noise vector, which is scaled to each level.

    Only TWF is given ‖x‖ = 1, as in the paper; only least squares is given the support.
    """
    m = cell["m"]
    rng = np.random.default_rng([3, m, trial])
    dtype = np.dtype(settings["dtype"])
    problem = problems.gaussian(m, settings["n"], settings["k"], unit_norm=True, dtype=dtype, rng=rng)
    packed, draw = pack(problem.A), rng.standard_normal(m)

    def attempt(method: str, y: np.ndarray) -> Solution:
        if method == "TWF":
            twf = flow(method, settings, step="constant")
            # The residual stays at the noise: the tolerance only decides that steps below 1e-8 of x are negligible.
            return solve(packed, y, method=twf, norm=1.0, tol=1e-6, max_iter=settings["max_iter"])
        if method == "AMP–LM":
            return solve(packed, y)
        # Start from x itself: the minimum next to it is the bound for methods that do not know the support.
        prior = Sparse(support=np.flatnonzero(problem.x))
        return solve(packed, y, prior=prior, method="lm", x0=problem.x)

    rows = []
    for sigma in settings["sigma"]:
        y = problem.y + sigma * draw
        for method in settings["methods"]:
            solution, cpu = timed(attempt, method, y)
            rows.append(
                {"sigma": sigma, "method": method, "error": distance(solution.x, problem.x),
                 "status": solution.status.name.lower(), "passes": round(solution.n_passes, 3), "cpu": cpu}
            )  # fmt: skip
    return rows


def summary(settings: Settings, trials: list[Row]) -> list[Row]:
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


def draw(result: Result) -> Any:
    """Error against m, both logarithmic, one panel for each level of noise."""
    sigmas = list(dict.fromkeys(row["sigma"] for row in result.rows))
    columns = min(2, len(sigmas))
    rows = -(-len(sigmas) // columns)
    figure = new_figure((4.0 * columns + 0.5, 3.1 * rows + 0.6))
    panels = np.ravel(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False))
    for ax, sigma in zip(panels, sigmas, strict=False):
        ax.set(title=f"σ = {sigma:g}", xscale="log", yscale="log")
        for (method,), group in grouped([row for row in result.rows if row["sigma"] == sigma], "method"):
            slope = group[0]["slope"]
            label = f"{method}, slope {slope:.2f}".replace("-", "−") if np.isfinite(slope) else method
            curve(ax, group, "m", STYLES[method], label)
        ax.set_xticks(result.experiment.settings["m"], [str(m) for m in result.experiment.settings["m"]])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
    for place in range(len(sigmas), len(panels)):
        panels[place].remove()
        panels[place - columns].tick_params(labelbottom=True)  # it is now the lowest panel of its column
    figure.supxlabel("measurements m", fontsize="medium")
    figure.supylabel("mean relative error", fontsize="medium")
    figure.suptitle(title(result, result.experiment.settings), fontsize="medium")
    return figure
