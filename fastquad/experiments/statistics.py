"""Confidence intervals of what a figure shows: success rates, medians and means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom, binomtest, t

from fastquad.typing import Float

LEVEL = 0.95


def rate_interval(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact (Clopper–Pearson) interval of a success rate."""
    interval = binomtest(successes, trials).proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)


def median_interval(values: Sequence[float] | Float, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a median between two order statistics; the extremes if there are too few values."""
    ordered = np.sort(values)
    outside = max(1, int(binom.ppf((1 - level) / 2, len(ordered), 0.5)))
    return float(ordered[outside - 1]), float(ordered[len(ordered) - outside])


def mean_interval(values: Sequence[float] | Float, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of a mean; NaN for a single value."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return float("nan"), float("nan")
    half = float(t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half
