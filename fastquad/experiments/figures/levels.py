"""An experiment that is not in the paper: the error against the level of noise, and the best possible error.

‖x‖ = 1, and σ is the standard deviation of the noise. TWF is given the norm, the default call nothing; for comparison
there are least squares on the true support and the Bayes optimum, by Gibbs sampling from the true x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad import problems
from fastquad.api import solve
from fastquad.experiments.figures.common import STYLES, curve, flow, grouped, timed
from fastquad.experiments.genie import posterior_mean
from fastquad.experiments.result import Result, Row, Settings
from fastquad.experiments.statistics import mean_interval
from fastquad.plot import new_figure
from fastquad.priors.sparse import Sparse
from fastquad.solution import distance

SETTINGS: Settings = {
    "n": 100,
    "k": [3, 10, 30, 100],
    # The number of measurements for each k.
    "m": [100, 100, 300, 300],
    "sigma": [0.02, 0.05, 0.1, 0.2, 0.5, 1.0],
    "methods": ["TWF", "AMP–LM", "least squares", "Bayes"],
    "alpha": 0.5,
    "beta": 0.5,
    "threshold": "soft",
    "mu": 0.1,
    "max_iter": 1000,
}

_LABELS = {
    "TWF": "TWF, told ‖x‖",
    "AMP–LM": "default call, told nothing",
    "least squares": "least squares, told the support",
    "Bayes": "Bayes optimum",
}


def cells(settings: Settings) -> list[Row]:
    return [{"k": k, "m": m} for k, m in zip(settings["k"], settings["m"], strict=True)]


def trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
    """Draw one A, one x and one noise vector, which is scaled to each level."""
    k, m = cell["k"], cell["m"]
    rng = np.random.default_rng([9, k, m, trial])
    problem = problems.gaussian(m, settings["n"], k, unit_norm=True, rng=rng)
    A, x, draw = problem.A, problem.x, rng.standard_normal(m)
    rows = []
    for sigma in settings["sigma"]:
        y = problem.y + sigma * draw
        for method in settings["methods"]:
            row: Row = {"sigma": sigma, "method": method}
            if method == "Bayes":
                row |= {"error": distance(posterior_mean(A, y, x, sigma, rng), x), "status": "", "passes": 0.0}
            else:
                solution, _ = timed(_solve, settings, method, A, y, x)
                row |= {"error": distance(solution.x, x), "status": solution.status.name.lower(),
                        "passes": round(solution.n_passes, 3)}  # fmt: skip
                if method == "AMP–LM":
                    row["said"] = solution.error
            rows.append(row)
    return rows


def _solve(settings: Settings, method: str, A: Any, y: Any, x: Any) -> Any:
    if method == "TWF":
        twf = flow(method, settings, step="constant")
        return solve(A, y, method=twf, norm=1.0, tol=1e-6, max_iter=settings["max_iter"])
    if method == "AMP–LM":
        return solve(A, y)
    return solve(A, y, prior=Sparse(support=np.flatnonzero(x)), method="lm", x0=x)


def summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """The mean error of each method at each level."""
    rows = []
    for (k, m, method, sigma), group in grouped(trials, "k", "m", "method", "sigma"):
        errors = np.array([row["error"] for row in group])
        low, high = mean_interval(errors)
        rows.append(
            {"k": k, "m": m, "method": method, "sigma": sigma, "trials": len(errors), "mean": errors.mean(), "low": low,
             "high": high, "median": float(np.median(errors)),
             "median_passes": float(np.median([row["passes"] for row in group]))}
        )  # fmt: skip
    return rows


def draw(result: Result) -> Any:
    """Error against σ, both logarithmic, one panel for each k."""
    shapes = list(dict.fromkeys((row["k"], row["m"]) for row in result.rows))
    columns = min(2, len(shapes))
    figure = new_figure((4.0 * columns + 0.5, 3.1 * -(-len(shapes) // columns) + 0.6))
    panels = np.ravel(figure.subplots(-(-len(shapes) // columns), columns, sharex=True, sharey=True, squeeze=False))
    for ax, (k, m) in zip(panels, shapes, strict=False):
        ax.set(title=f"k = {k}, m = {m}", xscale="log", yscale="log")
        for (method,), group in grouped([row for row in result.rows if row["k"] == k], "method"):
            curve(ax, group, "sigma", STYLES[method], _LABELS[method])
        sigmas = sorted({row["sigma"] for row in result.rows})
        ax.set_xticks(sigmas, [f"{sigma:g}" for sigma in sigmas])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    for place in range(len(shapes), len(panels)):
        panels[place].remove()
    count = min(row["trials"] for row in result.rows)
    figure.supxlabel("standard deviation σ of the noise, for ‖x‖ = 1", fontsize="medium")
    figure.supylabel("mean relative error", fontsize="medium")
    figure.suptitle(
        f"{result.experiment.title}: n = {result.experiment.settings['n']}, {count} trials", fontsize="medium"
    )
    return figure
