"""Figure 1: how near the spectral starts come.

Tensors are stored in float32, which takes half the time, and y is measured with the entries as stored; arithmetic is in
float64. Stopping never looks at the true signal. Seeds are [figure, …, trial], so a trial can be drawn again alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad import problems
from fastquad.experiments.figures.common import STYLES, grouped, title
from fastquad.experiments.result import Result, Row, Settings
from fastquad.experiments.statistics import median_interval
from fastquad.methods import spectral_init
from fastquad.plot import new_figure
from fastquad.solution import distance

SETTINGS: Settings = {"n": 500, "k": 5, "m": list(range(50, 501, 50)), "alpha": 0.5, "dtype": "float32"}


def cells(settings: Settings) -> list[Row]:
    """A single cell: a trial draws the largest A, and each m takes its first m measurements."""
    return [{}]


def trial(settings: Settings, cell: Row, trial: int) -> list[Row]:
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


def summary(settings: Settings, trials: list[Row]) -> list[Row]:
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


def draw(result: Result) -> Any:
    """Box plots of the distance of both starts, for each m."""
    figure = new_figure((7.5, 4.2))
    ax = figure.subplots()
    places = {m: place for place, m in enumerate(dict.fromkeys(row["m"] for row in result.trials))}
    for offset, start in ((-0.2, "SI"), (0.2, "SI-S")):
        groups = grouped([row for row in result.trials if row["start"] == start], "m")
        boxes = [[row["distance"] for row in rows] for _, rows in groups]
        drawn = ax.boxplot(
            boxes, positions=[place + offset for place in places.values()], widths=0.34, patch_artist=True,
            medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 3, "alpha": 0.5},
            manage_ticks=False,
        )  # fmt: skip
        for box in drawn["boxes"]:
            box.set(facecolor=STYLES[start]["color"], alpha=0.75, hatch="//" if start == "SI" else None)
        drawn["boxes"][0].set_label({"SI": "SI, all coordinates", "SI-S": "SI-S, estimated support"}[start])
    settings = result.experiment.settings
    ax.set_xticks(list(places.values()), [str(m) for m in places])
    ax.set(xlabel="measurements m", ylabel="relative distance to x", ylim=(0, None), title=title(result, settings))
    ax.grid(axis="y", alpha=0.3)
    ax.legend()
    return figure
