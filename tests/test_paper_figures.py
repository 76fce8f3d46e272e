"""The figures of the paper's section V-A, reduced: medians, success rates and slopes against reference tables.

The tables were measured with other code: 200 trials for figure 1, 22 a cell for figure 2, 50 for figure 3. The
trials are those of `fastquad reproduce`.
"""

import numpy as np
import pytest

from fastquad.experiments.figures import noise, phase, spectral
from fastquad.experiments.figures.common import grouped
from fastquad.experiments.statistics import median_interval, rate_interval

pytestmark = pytest.mark.statistical


# -- figure 1: how far the spectral start is from x, n = 500, k = 5 ---------------------------------------------

MEDIANS = {
    "SI": {100: 1.347, 300: 1.070, 500: 0.769},
    "SI-S": {100: 0.779, 300: 0.387, 500: 0.310},
}


def test_figure_1_medians():
    settings = spectral.SETTINGS | {"m": [100, 300, 500]}
    trials = [row for trial in range(16) for row in spectral.trial(settings, {}, trial)]
    for (m, start), rows in grouped(trials, "m", "start"):
        distances = [row["distance"] for row in rows]
        low, high = median_interval(distances, level=0.99)
        assert low <= MEDIANS[start][m] <= high, (start, m, np.median(distances), low, high)
        # Loose intervals would show nothing.
        assert high - low < 0.4


# -- figure 2: success rates, n = 100, one spectral start for all methods ----------------------------------------

SPARSITIES = (10, 30, 50, 80)
RATES = {
    ("WF", 75): (0, 0, 0, 0),
    ("WF", 125): (0.09, 0, 0, 0),
    ("WF", 175): (1, 0.95, 0.86, 0.82),
    ("SPF", 75): (0.52, 0, 0, 0),
    ("SPF", 125): (0.96, 0, 0, 0),
    ("SPF", 175): (1, 0.59, 0, 0),
    ("TWF", 75): (0.96, 0, 0, 0),
    ("TWF", 125): (1, 0.87, 0.48, 0),
    ("TWF", 175): (1, 1, 0.82, 0.82),
}
N_REFERENCE, N_TRIALS = 22, 20


def success_rates(m, k):
    settings = phase.SETTINGS | {"methods": ["WF", "SPF", "TWF"]}
    trials = [
        {"m": m, "k": k} | row for trial in range(N_TRIALS) for row in phase.trial(settings, {"m": m, "k": k}, trial)
    ]
    rows = phase.summary(settings, trials)
    assert not any(row["false_successes"] for row in rows), "a wrong answer was called a success"
    return {row["method"]: row["rate"] for row in rows}


def test_figure_2_success_rates():
    differences, outside = [], []
    for m in (75, 125, 175):
        for column, k in enumerate(SPARSITIES):
            for name, rate in success_rates(m, k).items():
                reference = RATES[name, m][column]
                # 36 cells at once: 99% each; and to whole trials.
                low, high = rate_interval(round(reference * N_REFERENCE), N_REFERENCE, level=0.99)
                if not np.floor(low * N_TRIALS) <= round(rate * N_TRIALS) <= np.ceil(high * N_TRIALS):
                    outside.append((name, m, k, rate, reference))
                differences.append(rate - reference)
    assert not outside
    # All cells together: their mean has a standard error of 0.014.
    assert abs(np.mean(differences)) < 0.04


# -- figure 3: noise, n = 100, k = 3, unit norm that is known ----------------------------------------------------

ERRORS = {100: 0.0351, 200: 0.0217, 400: 0.0153, 800: 0.0104}


def test_figure_3_error_falls_with_the_root_of_m():
    settings = noise.SETTINGS | {"sigma": [0.1], "methods": ["TWF"]}
    errors = {
        m: [row["error"] for trial in range(20) for row in noise.trial(settings, {"m": m}, trial)] for m in ERRORS
    }
    means = {m: np.mean(values) for m, values in errors.items()}
    slope = np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)[0]
    assert -0.6 < slope < -0.45
    for m, reference in ERRORS.items():
        # The reference has the standard error of 50 trials.
        error = np.std(errors[m], ddof=1) * np.sqrt(1 / 20 + 1 / 50)
        assert abs(means[m] - reference) < 3 * error, (m, means[m], reference, error)
