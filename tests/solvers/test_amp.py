"""Signal in noise: the denoiser and the scores that AMP asks for, the belief that is the answer, and its verdict."""

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status
from fastquad.experiments.genie import posterior_mean
from fastquad.noise.bend import bend
from fastquad.noise.messages import Linear, Mixture, Unequal
from fastquad.priors.base import Denoiser, Estimate
from fastquad.priors.spike_slab import SpikeSlab


def noisy(m, n, k, sigma, seed, **options):
    return fq.problems.gaussian(
        m=m, n=n, k=k, unit_norm=True, noise=sigma, rng=np.random.default_rng([14, seed]), **options
    )


@pytest.mark.parametrize("learns", [True, False])
def test_the_compiled_denoiser_is_the_plain_loop(learns):
    rng = np.random.default_rng(0)
    n = 30
    x = np.where(rng.random(n) < 0.3, rng.standard_normal(n), 0.0)
    noise = rng.standard_normal((n, n))
    S = np.outer(x, x) + 0.1 * (noise + noise.T)
    one, other = (Estimate(0.5 * x + 0.1, 0.05) for _ in range(2))
    compiled, plain = SpikeSlab(n, 0.3, 5.0, learns), SpikeSlab(n, 0.3, 5.0, learns)
    compiled.estimate(S, 0.02, one, 5.0, 0.4, 10)
    Denoiser.estimate(plain, S, 0.02, other, 5.0, 0.4, 10)
    for name in ("z", "z_old", "v", "weight"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)
    assert (compiled.rho, compiled.s2) == pytest.approx((plain.rho, plain.s2), rel=1e-9)


def test_scores_agree_where_the_models_do():
    r = np.random.default_rng(1).standard_normal(400)
    gaussian, equal = Linear().score(r), Unequal(np.full(400, 0.5), 1.0).score(r)
    # τ + σ² is the mean square, however it is split.
    np.testing.assert_allclose(equal.g, gaussian.g, rtol=1e-6)
    assert equal.power == pytest.approx(gaussian.power, rel=1e-6)


def test_the_score_is_the_slope_of_the_likelihood():
    """g is −d log p/d prediction, so r up by d lowers log p by g d, with the parameters held."""
    rng = np.random.default_rng(2)
    y = rng.standard_normal(200)
    y[:30] *= 20
    model = Mixture(y)
    score = model.score(y)
    tau, broad = model.learnt

    def log_p(r):
        sound = (1 - model.share) * np.exp(-(r**2) / (2 * tau)) / np.sqrt(tau)
        return np.log(sound + model.share * np.exp(-(y**2) / (2 * broad)) / np.sqrt(broad))

    slope = (log_p(y - 1e-5) - log_p(y + 1e-5)) / 2e-5
    np.testing.assert_allclose(score.g, slope, rtol=2e-3, atol=2e-3)
    assert score.weight[:30].mean() < 0.3 < 0.8 < score.weight[30:].mean()


def test_gaussian_noise_that_is_given_is_the_least_power():
    r = np.random.default_rng(3).standard_normal(100)
    assert Linear(5.0).score(r).power == 25.0
    assert Linear(0.1).score(r).power == pytest.approx(float(np.mean(r**2)))


@pytest.mark.parametrize(("n", "k", "m", "sigma"), [(100, 3, 100, 0.2), (100, 20, 150, 0.5), (100, 100, 300, 0.2)])
def test_the_posterior_mean_is_as_good_as_least_squares_on_the_true_support(n, k, m, sigma):
    """Regression: at (20, 150, .5) the error was .70, that of least squares .13, with nothing called a success."""
    ratios, passes = [], []
    for seed in range(3):
        problem = noisy(m, n, k, sigma, seed)
        solution = fq.solve(problem.A, problem.y)
        known = fq.Sparse(support=np.flatnonzero(problem.x))
        oracle = fq.solve(problem.A, problem.y, prior=known, method="lm", x0=problem.x)
        error = fq.distance(solution.x, problem.x)
        assert solution.status is Status.CONVERGED
        assert solution.noise == pytest.approx(sigma, rel=0.4)
        assert 0.2 < error / solution.error < 2.5
        ratios.append(error / fq.distance(oracle.x, problem.x))
        passes.append(solution.n_passes)
    assert np.median(ratios) < 2
    assert np.median(passes) < 30


def test_what_is_too_noisy_is_said_to_be_with_its_error():
    problem = noisy(300, 100, 100, 1.0, 0)
    solution = fq.solve(problem.A, problem.y)
    assert solution.status is Status.NOISY
    assert not solution.success
    assert fq.distance(solution.x, problem.x) == pytest.approx(solution.error, rel=0.3)
    assert solution.n_passes < 60


def test_a_budget_returns_the_best_belief_not_the_best_fit():
    """Regression: the iterate with the smallest residual has as many coordinates as the data let it have."""
    problem = noisy(50, 100, 3, 0.5, 3)
    solution = fq.solve(problem.A, problem.y, method="amp", max_passes=6)
    assert solution.status is Status.MAX_PASSES
    assert solution.error is not None
    assert solution.residual > solution.history["residual"].min()
    assert fq.distance(solution.x, problem.x) < 0.6


@pytest.mark.parametrize("outliers", [False, True])
def test_pure_noise_ends_by_itself(outliers):
    """Regression: 21,000 passes."""
    rng = np.random.default_rng(5)
    solution = fq.solve(rng.standard_normal((150, 100, 100)), rng.standard_normal(150), outliers=outliers)
    assert solution.status is Status.STAGNATED
    assert solution.n_passes < 300
    assert "max_passes" in solution.message


def with_outliers(share, seed, sigma=0.0):
    rng = np.random.default_rng([15, seed])
    problem = fq.problems.gaussian(m=100, n=60, k=6, unit_norm=True, noise=sigma, rng=rng)
    bad = np.sort(rng.choice(100, int(100 * share), replace=False))
    y = problem.y.copy()
    y[bad] = 10 * rng.standard_normal(bad.size)
    return problem, y, bad


def test_outliers_are_found_and_the_others_fit_exactly():
    problem, y, bad = with_outliers(0.2, 0)
    solution = fq.solve(problem.A, y, outliers=True)
    assert solution.status is Status.EXACT_FOR_MOST
    assert solution.success
    assert fq.distance(solution.x, problem.x) < 1e-8
    np.testing.assert_array_equal(solution.outliers, bad)
    assert "80 of 100" in solution.message


def test_outliers_in_noise_are_weighed_down():
    problem, y, bad = with_outliers(0.1, 1, sigma=0.05)
    solution = fq.solve(problem.A, y, outliers=True)
    assert solution.status is Status.CONVERGED
    assert fq.distance(solution.x, problem.x) < 0.05
    large = bad[np.abs(y[bad]) > 1]
    assert set(large) <= set(solution.outliers)


def test_without_being_told_outliers_are_suspected():
    problem, y, _ = with_outliers(0.2, 2)
    solution = fq.solve(problem.A, y)
    assert not solution.success
    assert "outliers=True" in solution.message


def test_the_genie_is_as_good_as_least_squares_on_the_true_support():
    problem, sigma = noisy(60, 20, 2, 0.05, 3), 0.05
    found = posterior_mean(problem.A, problem.y, problem.x, sigma, np.random.default_rng(0), sweeps=200)
    known = fq.Sparse(support=np.flatnonzero(problem.x))
    best = fq.distance(fq.solve(problem.A, problem.y, prior=known, method="lm", x0=problem.x).x, problem.x)
    assert fq.distance(found, problem.x) < 1.3 * best + 1e-3


def test_measurements_that_bend_are_noticed():
    """A sensor that saturates makes x too short, which the posterior of proportional measurements cannot know."""
    problem = fq.problems.gaussian(m=200, n=60, k=6, unit_norm=True, noise=0.1, rng=5)
    straight = fq.solve(problem.A, problem.y)
    bent = fq.solve(problem.A, np.tanh(problem.y))
    assert "sensor saturates" not in straight.message
    assert "sensor saturates" in bent.message
    off = fq.distance(bent.x, problem.x)
    assert off > 0.1
    assert 0.5 * off < bent.error < 2 * off
    assert straight.error < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_bend_that_noise_blurs_is_noticed(seed):
    """The mean of y shows nothing where the noise is larger than the signal; that it grows with the signal does."""
    problem = fq.problems.gaussian(m=400, n=80, k=4, unit_norm=True, rng=seed)
    q = problem.y + 1.2 * np.random.default_rng(seed).standard_normal(400)
    straight, bent = fq.solve(problem.A, q), fq.solve(problem.A, q * np.abs(q))
    assert straight.success
    assert "sensor saturates" not in straight.message
    assert "sensor saturates" in bent.message
    off = fq.distance(bent.x, problem.x)
    assert off > 0.4
    assert not bent.success
    assert 0.5 * off < bent.error < 2 * off


def test_a_bend_is_noticed_where_entries_depend_on_each_other():
    """Once a success with an error of .8, at .3 said: Levenberg–Marquardt on all coordinates took y = q² for noise."""
    noticed = straight = 0
    for seed in range(4):
        problem = fq.problems.simulate(106, 49, 49, ensemble="rank_one", signal="signs", unit_norm=True, rng=seed)
        bent = fq.solve(problem.A, problem.y**2)
        assert not bent.success or fq.distance(bent.x, problem.x) < 2 * bent.error
        noticed += "sensor saturates" in bent.message
        A = fq.RankOneTensor(np.random.default_rng(seed).standard_normal((250, 49)))
        plain = fq.solve(A, fq.measure(A, problem.x))
        straight += plain.success and "sensor saturates" not in plain.message
    assert noticed >= 2
    assert straight >= 3


def test_rounding_is_no_bend():
    rng = np.random.default_rng(7)
    for step in (0.5, 1.0):
        p = rng.standard_normal((100, 150))
        y = step * np.round((p + 0.1 * rng.standard_normal(p.shape)) / step)
        assert not any(bend(*each) for each in zip(y, y - p, strict=True))


def test_noise_is_no_bend():
    rng = np.random.default_rng(4)
    p, e = rng.standard_normal((2, 400, 200))
    assert not any(bend(*each) for each in zip(p + e, e, strict=True))
    e *= np.abs(p)  # noise that grows with the signal has fewer measurements that count
    assert np.count_nonzero([bend(*each) for each in zip(p + e, e, strict=True)]) <= 4


def test_no_outliers_are_found_where_there_are_none():
    problem = fq.problems.gaussian(m=100, n=60, k=6, rng=0)
    solution = fq.solve(problem.A, problem.y, outliers=True)
    assert solution.status is Status.EXACT
    assert solution.outliers.size == 0


def test_unequal_noise_is_as_good_as_weighted_least_squares():
    """Scaling rows by 1/σ_i is wrong for AMP: the error was 1.3."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng([16, seed])
        problem = fq.problems.gaussian(m=150, n=100, k=10, unit_norm=True, rng=rng)
        sigma = 0.02 * 100 ** rng.random(150)
        y = problem.y + sigma * rng.standard_normal(150)
        solution = fq.solve(problem.A, y, noise=sigma)
        assert solution.status is Status.CONVERGED
        known = fq.Sparse(support=np.flatnonzero(problem.x))
        oracle = fq.solve(problem.A / sigma[:, None, None], y / sigma, prior=known, method="lm", x0=problem.x)
        ratios.append(fq.distance(solution.x, problem.x) / fq.distance(oracle.x, problem.x))
    assert np.median(ratios) < 1.3


def test_zeros_of_a_start_are_values():
    """Regression: they were taken for the support, and the flat start of a grid led nowhere."""
    problem = fq.problems.gaussian(m=90, n=30, rng=0)
    x0 = problem.x.copy()
    x0[np.abs(x0) < np.quantile(np.abs(x0), 0.3)] = 0.0
    solution = fq.solve(problem.A, problem.y, x0=x0)
    assert solution.status is Status.EXACT
    assert solution.method == "lm"
    assert solution.n_passes < 15
