"""The default method and its parts: what they recover, what they refuse, and how much of A they read."""

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status
from fastquad.engine.driver import finish
from fastquad.solvers.parts.descent import GrowingBlock


@pytest.mark.parametrize(("n", "k", "m"), [(100, 10, 125), (100, 50, 125), (100, 100, 150), (60, 60, 120)])
def test_recovers_without_k_in_few_passes(n, k, m):
    for seed in range(3):
        problem = fq.problems.gaussian(m=m, n=n, k=k, rng=seed)
        solution = fq.solve(problem.A, problem.y)
        assert solution.status is Status.EXACT
        assert fq.distance(solution.x, problem.x) < 1e-10
        assert solution.n_passes <= 30


def test_the_last_step_reads_nothing_and_says_its_true_residual():
    for seed in range(5):
        problem = fq.problems.gaussian(m=200, n=100, rng=seed)
        solution = fq.solve(problem.A, problem.y)
        passes, residuals = solution.history["n_passes"], solution.history["residual"]
        assert solution.method == "lm"
        # It starts from an answer that is certified by products.
        assert passes[-1] == passes[-2]
        assert residuals[-1] < residuals[-2] < 1e-9
        assert solution.n_passes < 8
        r = fq.measure(problem.A, solution.x) - problem.y
        assert np.linalg.norm(r) < 1e-15 * np.linalg.norm(problem.y)
        assert fq.distance(solution.x, problem.x) < 1e-14


def test_a_batch_from_one_start_shares_its_first_products_unharmed():
    """Descents write to the products of their steps: the first ones may be shared."""
    problem = fq.problems.gaussian(m=80, n=30, rng=0)
    rng = np.random.default_rng(1)
    X = problem.x + 0.01 * rng.standard_normal((3, 30))
    Y = fq.measure(problem.A, X)
    together = fq.solve(problem.A, Y, method="lm", x0=problem.x)
    for x, y, got in zip(X, Y, together.x, strict=True):
        alone = fq.solve(problem.A, y, method="lm", x0=problem.x)
        assert fq.distance(got, x) < 1e-13
        assert fq.distance(alone.x, x) < 1e-13


@pytest.mark.parametrize(
    ("n", "k", "m", "most"), [(100, 3, 200, 3), (100, 10, 200, 4), (100, 10, 100, 4), (60, 6, 80, 4)]
)
def test_sparse_signals_are_found_from_the_first_weighted_sum(n, k, m, most):
    """The coordinates that it shows are fitted, and those that the residual leans to: no descent on all, no sweep."""
    passes = []
    for seed in range(5):
        problem = fq.problems.gaussian(m=m, n=n, k=k, rng=seed)
        solution = fq.solve(problem.A, problem.y)
        assert solution.status is Status.EXACT
        assert fq.distance(solution.x, problem.x) < 1e-10
        assert solution.support.size == k
        passes.append(solution.n_passes)
    assert np.median(passes) < most


def test_a_block_that_grows_holds_what_a_is_there():
    problem = fq.problems.gaussian(m=5, n=12, rng=0)
    A = (problem.A + problem.A.transpose(0, 2, 1)) / 2
    z, packed = np.random.default_rng(1).standard_normal(12), fq.pack(problem.A, dtype="float32")
    for measurements, tolerance in ((fq.as_measurements(problem.A), 1e-13), (packed, 1e-6)):
        cache = GrowingBlock(5)
        for support in ([3, 7], [1, 3, 9], [7], [9, 0, 3], [0, 1, 3, 7, 9]):
            places = np.array(support)
            products = finish(measurements, cache.on(places))
            W = A[:, places[:, None], places] @ z[places]
            np.testing.assert_allclose(products.of(z[places]), W, atol=tolerance)
            np.testing.assert_array_equal(finish(measurements, products(z[places])), products.of(z[places]))
            np.testing.assert_allclose(cache.kept.block(places), A[:, places[:, None], places], atol=tolerance)
        assert sorted(set(cache.kept.members.tolist()) - {-1}) == [0, 1, 3, 7, 9]
        assert cache.kept.tensor.dtype == measurements.dtype


@pytest.mark.parametrize(("n", "k", "m"), [(500, 5, 50), (500, 5, 100)])
def test_very_sparse_signals_are_found_in_a_part_of_a_pass(n, k, m):
    problem = fq.problems.gaussian(m=m, n=n, k=k, rng=0)
    solution = fq.solve(fq.pack(problem.A), problem.y)
    assert solution.status is Status.EXACT
    assert solution.method == "pursuit"
    assert fq.distance(solution.x, problem.x) < 1e-10
    assert solution.n_passes < 0.5


@pytest.mark.parametrize("method", ["pursuit", "amp", "lm", fq.methods.SGN(k=5)])
def test_each_part_on_its_own(method):
    problem = fq.problems.gaussian(m=90, n=40, k=5, rng=1)
    solution = fq.solve(problem.A, problem.y, method=method)
    assert solution.status is Status.EXACT
    assert fq.distance(solution.x, problem.x) < 1e-9


@pytest.mark.parametrize(
    ("m", "n", "sign"), [(1, 1, 1), (1, 1, -1), (5, 1, 1), (5, 1, -1), (1, 5, 1), (2, 3, 1), (1, 100, 1)]
)
@pytest.mark.parametrize("method", ["auto", "pursuit", "amp", "lm"])
def test_the_smallest_problems_end_with_a_status(m, n, sign, method):
    """Regression: supports of no coordinate (m = 1), and seeds of the wrong sign (n = 1)."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, n, n))
    solution = fq.solve(A, sign * fq.measure(A, rng.standard_normal(n)), method=method, max_time=20)
    assert np.isfinite(solution.x).all()
    assert not solution.success or (solution.residual < 1e-9 and m > 1)
    if (m, n, sign) == (5, 1, 1):
        assert solution.success


def test_a_batch_shares_its_passes():
    problem = fq.problems.gaussian(m=150, n=50, k=20, rng=0)
    rng = np.random.default_rng(1)
    X = np.stack([problem.x, *rng.standard_normal((3, 50))])
    solution = fq.solve(problem.A, np.stack([fq.measure(problem.A, x) for x in X]))
    assert solution.success.all()
    for x_hat, x in zip(solution.x, X, strict=True):
        assert fq.distance(x_hat, x) < 1e-10


def test_same_seed_same_bits_whatever_the_threads():
    problem = fq.problems.gaussian(m=60, n=60, k=12, rng=3)
    answers = [fq.solve(problem.A, problem.y, rng=5, n_threads=n_threads).x for n_threads in (1, 1, 2)]
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


@pytest.mark.parametrize("m", [100, 200, 400])
def test_noise_is_estimated_and_the_support_kept_small(m):
    """Regression: at m = 400 a fit of all coordinates was returned, with eight times the error."""
    errors, oracle = [], []
    for seed in range(4):
        problem = fq.problems.gaussian(m=m, n=100, k=3, signal="signs", unit_norm=True, noise=0.1, rng=seed)
        solution = fq.solve(problem.A, problem.y)
        assert solution.status is Status.CONVERGED
        assert solution.noise == pytest.approx(0.1, rel=0.3)
        S = np.flatnonzero(problem.x)
        known = fq.solve(problem.A, problem.y, prior=fq.Sparse(support=S), method="lm", x0=problem.x, noise=0.1)
        assert set(S) <= set(solution.support)
        assert solution.support.size <= 6
        errors.append(fq.distance(solution.x, problem.x))
        oracle.append(fq.distance(known.x, problem.x))
    assert np.mean(errors) < 2 * np.mean(oracle)


def test_no_noise_insists_on_exactness():
    problem = fq.problems.gaussian(m=80, n=40, k=3, unit_norm=True, noise=0.1, rng=0)
    assert not fq.solve(problem.A, problem.y, noise=0, max_time=5).success


def test_single_precision_tensors_are_solved_to_their_accuracy():
    problem = fq.problems.gaussian(m=120, n=60, k=10, rng=0)
    solution = fq.solve(fq.pack(problem.A, dtype="float32"), problem.y)
    assert solution.success
    assert fq.distance(solution.x, problem.x) < 1e-6


def test_a_hopeless_problem_ends_at_its_budget_with_the_best_found():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((40, 60, 60)), rng.standard_normal(40)
    for budget in ({"max_passes": 50}, {"max_time": 0.5}):
        solution = fq.solve(A, y, **budget)
        assert not solution.success
        assert 0 < solution.residual < 1
        assert solution.n_passes <= 51 or "max_time" in budget


@pytest.mark.parametrize("ensemble", ["rademacher", "uniform", "bernoulli", "biased", "rank_one"])
def test_other_ensembles_are_solved(ensemble):
    successes = 0
    for seed in range(4):
        problem = fq.problems.simulate(ensemble=ensemble, m=90, n=30, k=4, rng=seed)
        solution = fq.solve(problem.A, problem.y, max_time=10)
        assert not solution.success or fq.distance(solution.x, problem.x) < 1e-6
        successes += solution.success
    assert successes >= 3


@pytest.mark.parametrize(
    ("ensemble", "signal", "m", "n", "k", "seed"),
    [
        ("gaussian", "uniform", 36, 50, 11, 336),  # nine of eleven coordinates looked like signal in noise
        ("gaussian", "uniform", 5, 7, 7, 675),  # so few measurements prove nothing
        ("rank_one", "uniform", 37, 90, 16, 617),  # a few large y are easily fitted
        ("bernoulli", "signs", 5, 10, 8, 1071),  # entries of few values: other signals fit by chance
        ("rademacher", "signs", 7, 5, 1, 1224),
        ("rademacher", "signs", 2, 12, 3, 1352),
    ],
)
def test_regression_wrong_answers_that_were_called_a_success(ensemble, signal, m, n, k, seed):
    problem = fq.problems.simulate(ensemble=ensemble, m=m, n=n, k=k, signal=signal, rng=seed)
    solution = fq.solve(problem.A, problem.y, max_time=1.0)
    assert not solution.success or fq.distance(solution.x, problem.x) < 1e-6
    # the same kind of problem with measurements to spare is solved
    plenty = fq.problems.simulate(ensemble=ensemble, m=8 * n, n=n, k=k, signal=signal, rng=seed)
    A = plenty.A
    if ensemble == "rank_one":
        A = fq.RankOneTensor(A[:, 0] / np.sqrt(A[:, 0, :1]))
    solution = fq.solve(A, plenty.y)
    assert solution.success
    assert fq.distance(solution.x, plenty.x) < 1e-6


def test_regression_one_coordinate_of_eleven_is_not_signal_in_noise():
    """With m far below n, what a fit leaves is not told from noise by a small margin."""
    rng = np.random.default_rng([202611, 6, 38])
    problem = fq.problems.gaussian(m=31, n=52, k=11, signal="gaussian", noise=0.1104, unit_norm=True, rng=rng)
    solution = fq.solve(problem.A, problem.y, max_passes=600)
    assert not solution.success or fq.distance(solution.x, problem.x) < 0.33
    successes = 0
    for _ in range(4):
        plenty = fq.problems.gaussian(m=130, n=52, k=11, signal="gaussian", noise=0.1104, unit_norm=True, rng=rng)
        solution = fq.solve(plenty.A, plenty.y, max_passes=600)
        successes += solution.success and fq.distance(solution.x, plenty.x) < 3 * solution.error < 1
    assert successes >= 3


def test_regression_a_small_coordinate_is_not_noise():
    """One of .02 shows only when the values of the others follow; the fit without it was called signal in noise."""
    problem = fq.problems.gaussian(m=20, n=500, k=5, rng=np.random.default_rng([202611, 4, 500, 5, 20, 7, 1]))
    solution = fq.solve(problem.A, problem.y)
    assert solution.status is Status.EXACT


def test_regression_an_exact_start_of_a_descent():
    """A residual of zero before the first step raised an IndexError."""
    problem = fq.problems.gaussian(m=12, n=6, k=2, rng=0)
    solution = fq.solve(problem.A, problem.y, method="lm", x0=problem.x)
    assert solution.status is Status.EXACT


def dense_problem(k, trial):
    return fq.problems.gaussian(m=125, n=100, k=k, rng=np.random.default_rng([4242, k, 125, trial]))


def test_regression_amp_hands_over_from_where_it_was_nearest():
    """It came near x, lost it again, and wandered for sixty sweeps."""
    problem = dense_problem(90, 136)
    solution = fq.solve(problem.A, problem.y, method=fq.AMP(n_attempts=1))
    assert solution.status is Status.EXACT
    assert solution.n_passes < 30


def test_regression_where_amp_settles_elsewhere_from_every_start():
    """Above m = n nothing was tried after AMP and pursuit."""
    problem = dense_problem(60, 306)
    solution = fq.solve(problem.A, problem.y, noise=0)
    assert solution.status is Status.EXACT


def test_a_dense_signal_in_noise():
    problem = fq.problems.gaussian(m=240, n=60, unit_norm=True, noise=0.05, rng=0)
    solution = fq.solve(problem.A, problem.y)
    assert solution.status is Status.CONVERGED
    assert solution.noise == pytest.approx(0.05, rel=0.3)
    assert fq.distance(solution.x, problem.x) < 0.05


def mixed_problem(seed):
    """A random problem without noise: small and dense, of Fig. 2's kind, or sparse and long."""
    rng = np.random.default_rng([11, seed])
    kind = rng.choice(3, p=[0.5, 0.4, 0.1])
    if kind == 0:
        n = int(rng.integers(2, 60))
        m, k = int(rng.integers(2, 2 * n + 10)), int(rng.integers(1, n + 1))
    elif kind == 1:
        n = int(rng.integers(30, 120))
        m = int(rng.integers(n // 4, 3 * n // 2))
        k = int(rng.integers(1, max(2, min(n, m // 2))))
    else:
        n = int(rng.integers(120, 300))
        m = int(rng.integers(20, n // 2))
        k = int(rng.integers(1, max(2, m // 5)))
    ensemble = rng.choice(["gaussian"] * 5 + ["rademacher", "uniform", "bernoulli", "biased", "rank_one"])
    signal = rng.choice(["gaussian", "uniform", "signs"])
    return fq.problems.simulate(ensemble=str(ensemble), signal=str(signal), m=m, n=n, k=k, rng=rng)


@pytest.mark.statistical
def test_no_wrong_answer_is_called_a_success():
    """`benchmarks/studies/default_solver.py trust` tries a thousand, and noisy ones among them."""
    successes = 0
    for seed in range(200):
        problem = mixed_problem(seed)
        solution = fq.solve(problem.A, problem.y, max_time=0.5)
        if solution.success and problem.y.any():  # zeros are explained by zero
            successes += 1
            assert fq.distance(solution.x, problem.x) < 1e-3, (seed, solution.message)
    assert successes > 100


@pytest.mark.parametrize("seed", [(10, 175, 1), (20, 150, 0), (10, 150, 1)])
def test_cleaning_the_support_leaves_x_exact_to_rounding(seed):
    """The last step of a descent changes r, but not W: cleaned with an r made of W, x was off by 1e-11."""
    k, m, t = seed
    problem = fq.problems.simulate(m=m, n=100, k=k, rng=np.random.default_rng([202611, 1, k, m, t]))
    solution = fq.solve(problem.A, problem.y)
    assert solution.status is fq.Status.EXACT
    assert solution.support.size == k
    assert fq.distance(solution.x, problem.x) < 2e-15
