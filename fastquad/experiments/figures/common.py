"""What the figures share: rows by their keys, the flows that they compare, styles, curves and titles."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fastquad.experiments.result import Result, Row, Settings
from fastquad.solution import Solution

#: The label of the decoder's signal nearest to the true image, which bounds what a method can reach.
BEST = "nearest in range"


def grouped(rows: list[Row], *keys: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """The rows grouped by the values of these keys, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    order = [list(dict.fromkeys(values)) for values in zip(*groups, strict=True)]
    return [(values, groups[values]) for values in itertools.product(*order) if values in groups]


def flow(method: str, settings: Settings, step: str = "damped") -> Any:
    """Wirtinger flow, with the settings' thresholding or without."""
    from fastquad.solvers.twf import TWF, WF

    common: Any = {"alpha": settings["alpha"], "mu": settings["mu"], "step": step}
    if method == "WF":
        return WF(**common)
    return TWF(beta=settings["beta"], threshold=settings["threshold"], **common)


def timed(attempt: Callable[..., Solution], *arguments: Any) -> tuple[Solution, float]:
    """The result of a call, and the seconds of processor time that it took."""
    start = time.thread_time()
    solution = attempt(*arguments)
    return solution, round(time.thread_time() - start, 4)


# The styles of the methods: colours for colour-blind readers, and markers that differ in grey.
STYLES: dict[str, dict[str, Any]] = {
    "SI": {"color": "#E69F00"},
    "SI-S": {"color": "#0072B2"},
    "TWF": {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    "AMP–LM": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "Bayes": {"color": "#CC79A7", "marker": "x", "linestyle": "-."},
    "least squares": {"color": "#000000", "marker": "", "linestyle": ":"},
    "PPower": {"color": "#009E73", "marker": "v", "linestyle": "-."},
    "PGD1": {"color": "#56B4E9", "marker": "D", "linestyle": (0, (5, 1))},
    "PGD": {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    "LatentLM": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    BEST: {"color": "#000000", "marker": "", "linestyle": ":"},
}


def curve(ax: Any, group: list[dict[str, Any]], along: str, style: dict[str, Any], label: str) -> None:
    """Plot the mean with a band for its confidence interval."""
    x, mean, low, high = (np.array([row[key] for row in group], dtype=float) for key in (along, "mean", "low", "high"))
    ax.plot(x, mean, label=label, markersize=5, **style)
    if np.isfinite(low).all():
        if ax.get_yscale() == "log":
            low = np.maximum(low, 0.3 * mean)  # a logarithmic axis cannot show a bound below zero
        ax.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def title(result: Result, settings: dict[str, Any]) -> str:
    trials = [row["trials"] for row in result.rows]
    count = f"{min(trials)}" if min(trials) == max(trials) else f"{min(trials)} to {max(trials)}"
    sizes = ", ".join(f"{name} = {settings[name]}" for name in ("n", "k") if name in settings)
    return f"{result.experiment.title}: {sizes}, {count} trials"
