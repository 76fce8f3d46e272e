"""The figures of the paper's section V-A, reduced: medians, success rates and slopes against reference tables.

The tables were measured with other code: 200 trials for figure 1, 22 a cell for figure 2, 50 for figure 3. Tensors are
stored in float32, which takes half the time; arithmetic is in float64, and y is measured with the entries as stored.
"""

import numpy as np
import pytest
from scipy.stats import beta, binom

import fastquad as fq

pytestmark = pytest.mark.statistical


# -- figure 1: how far the spectral start is from x, n = 500, k = 5 ---------------------------------------------

MEDIANS = {
    "full": {100: 1.347, 300: 1.070, 500: 0.769},
    "estimated": {100: 0.779, 300: 0.387, 500: 0.310},
}


def median_interval(values, level=0.99):
    """The order statistics between which the true median lies, with this confidence."""
    values = np.sort(values)
    outside = int(binom.ppf((1 - level) / 2, len(values), 0.5))
    return values[outside - 1], values[len(values) - outside]


def test_figure_1_medians():
    distances = {(support, m): [] for support in MEDIANS for m in MEDIANS[support]}
    for trial in range(16):
        problem = fq.problems.gaussian(m=500, n=500, k=5, dtype=np.float32, rng=np.random.default_rng([1, trial]))
        for support, m in distances:
            x0 = fq.spectral_init(problem.A[:m], problem.y[:m], support=support)
            distances[support, m].append(fq.distance(x0, problem.x))
    for (support, m), values in distances.items():
        low, high = median_interval(values)
        assert low <= MEDIANS[support][m] <= high, (support, m, np.median(values), low, high)
        # Loose intervals would show nothing.
        assert high - low < 0.4


# -- figure 2: success rates, n = 100, one spectral start for all methods ----------------------------------------

SPARSITIES = (10, 30, 50, 80)
RATES = {
    ("wf", 75): (0, 0, 0, 0),
    ("wf", 125): (0.09, 0, 0, 0),
    ("wf", 175): (1, 0.95, 0.86, 0.82),
    ("spf", 75): (0.52, 0, 0, 0),
    ("spf", 125): (0.96, 0, 0, 0),
    ("spf", 175): (1, 0.59, 0, 0),
    ("twf", 75): (0.96, 0, 0, 0),
    ("twf", 125): (1, 0.87, 0.48, 0),
    ("twf", 175): (1, 1, 0.82, 0.82),
}
N_REFERENCE, N_TRIALS = 22, 20


def confidence_interval(rate, n, level):
    """The exact (Clopper–Pearson) interval of a rate that was seen in n trials."""
    seen, tail = round(rate * n), (1 - level) / 2
    low = beta.ppf(tail, seen, n - seen + 1) if seen else 0.0
    high = beta.ppf(1 - tail, seen + 1, n - seen) if seen < n else 1.0
    return low, high


def recovers(A, y, x, x0, method):
    def arrived(state):
        # Only to save time: what has come so near goes on to the answer.
        return state.n_iter % 25 == 0 and fq.distance(state.x, x) < 1e-3

    solution = fq.solve(A, y, method=method, x0=x0, callback=arrived)
    recovered = fq.distance(solution.x, x) < 1e-3
    assert recovered or not solution.success, "a wrong answer was called a success"
    return recovered


def success_rates(m, k):
    successes = dict.fromkeys(("wf", "spf", "twf"), 0)
    for trial in range(N_TRIALS):
        problem = fq.problems.gaussian(m=m, n=100, k=k, dtype=np.float32, rng=np.random.default_rng([2, m, k, trial]))
        packed = fq.pack(problem.A)
        x0 = fq.spectral_init(packed, problem.y)
        for method, A in ((fq.WF(), packed), (fq.SPF(k=k), problem.A), (fq.TWF(), packed)):
            successes[method.name] += recovers(A, problem.y, problem.x, x0, method)
    return {name: count / N_TRIALS for name, count in successes.items()}


def test_figure_2_success_rates():
    differences, outside = [], []
    for m in (75, 125, 175):
        for column, k in enumerate(SPARSITIES):
            for name, rate in success_rates(m, k).items():
                reference = RATES[name, m][column]
                # 36 cells at once: 99% each; and to whole trials.
                low, high = confidence_interval(reference, N_REFERENCE, level=0.99)
                if not np.floor(low * N_TRIALS) <= round(rate * N_TRIALS) <= np.ceil(high * N_TRIALS):
                    outside.append((name, m, k, rate, reference))
                differences.append(rate - reference)
    assert not outside
    # All cells together: their mean has a standard error of 0.014.
    assert abs(np.mean(differences)) < 0.04


# -- figure 3: noise, n = 100, k = 3, unit norm that is known ----------------------------------------------------

ERRORS = {100: 0.0351, 200: 0.0217, 400: 0.0153, 800: 0.0104}


def test_figure_3_error_falls_with_the_root_of_m():
    method = fq.TWF(step="constant")
    errors = {m: [] for m in ERRORS}
    for trial in range(20):
        rng = np.random.default_rng([3, trial])
        problem = fq.problems.gaussian(m=800, n=100, k=3, unit_norm=True, noise=0.1, dtype=np.float32, rng=rng)
        for m in ERRORS:
            A, y = fq.pack(problem.A[:m]), problem.y[:m]
            # The residual stays at the noise: the tolerance only says which steps, 1e-6 of x, are negligible.
            solution = fq.solve(A, y, method=method, norm=1.0, tol=1e-4, max_iter=1000)
            errors[m].append(fq.distance(solution.x, problem.x))
    means = {m: np.mean(values) for m, values in errors.items()}
    slope = np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)[0]
    assert -0.6 < slope < -0.45
    for m, reference in ERRORS.items():
        # The reference has the standard error of 50 trials.
        error = np.std(errors[m], ddof=1) * np.sqrt(1 / 20 + 1 / 50)
        assert abs(means[m] - reference) < 3 * error, (m, means[m], reference, error)
