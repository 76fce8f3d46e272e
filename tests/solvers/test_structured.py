"""Tensors whose entries are not independent: VAMP and its parts, starts, noise, bad measurements."""

import numpy as np
import pytest
from scipy import sparse

import fastquad as fq
from fastquad.numerics.transform import DenseTransform
from fastquad.solvers import intensities


def phase_retrieval(m, n, seed=0, R=1):
    """Gaussian vectors, R a measurement, and a dense x."""
    rng = np.random.default_rng([m, n, seed])
    return rng.standard_normal((m, R, n)), rng.standard_normal(n)


# -- VAMP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("R", [1, 2, 3, 7])
def test_the_mean_of_a_vector_of_known_length(R):
    """Against draws of z and of its noise that have this length; without noise, nearly so."""
    rng = np.random.default_rng(R)
    r, b, gamma = 0.7 * rng.standard_normal(R) / np.sqrt(R), 1.3, 2.0
    for tau2 in (0.0, 0.3):
        z = r + rng.standard_normal((2_000_000, R)) / np.sqrt(gamma)
        seen = np.linalg.norm(z + np.sqrt(tau2) * rng.standard_normal(z.shape), axis=1)
        kept = np.abs(seen - b) < 0.02
        mean, spread = z[kept].mean(axis=0), float(z[kept].var(axis=0).mean())
        # The length is that of a sphere, and a shell of it has a little more of the far side.
        got, variance = _lengths(R, b, tau2).believed(r, gamma)
        np.testing.assert_allclose(got, mean, atol=0.015)
        assert variance == pytest.approx(spread, rel=0.03)


def test_many_rows_and_extreme_precision_do_not_overflow():
    for R in (1, 2, 3, 400):
        for gamma in (1e-300, 1e-10, 1.0, 1e12, 1e30):
            for tau2 in (0.0, 1e-3):
                z, variance = _lengths(R, 2.0, tau2).believed(np.ones(R), gamma)
                assert np.isfinite(z).all()
                assert 0 <= variance < np.inf


def _lengths(R, b, tau2):
    """One measurement of R rows."""
    B = DenseTransform(np.eye(R)[None] / np.sqrt(R))
    return intensities.Intensities(B, np.array([b]), np.array([tau2]), 1.0, np.array([b * b]), np.ones(1))


@pytest.mark.parametrize(("ratio", "R"), [(1.6, 1), (2.0, 1), (1.5, 3)])
def test_dense_phase_retrieval_by_the_default_call(ratio, R):
    for seed in range(4):
        factors, x = phase_retrieval(int(ratio * 60), 60, seed, R)
        A = fq.RankOneTensor(factors[:, 0]) if R == 1 else fq.LowRankTensor(factors, np.full(R, 0.3))
        solution = fq.solve(A, fq.measure(A, x))
        assert solution.status is fq.Status.EXACT
        assert solution.method == "vamp"
        assert fq.distance(solution.x, x) < 1e-10
        assert solution.n_passes < 150


def test_vectors_of_different_length_and_one_that_is_zero():
    factors, x = phase_retrieval(150, 50, 3)
    factors *= 10.0 ** np.random.default_rng(0).uniform(-2, 2, (150, 1, 1))
    factors[7] = 0.0
    A = fq.RankOneTensor(factors[:, 0])
    assert fq.distance(fq.solve(A, fq.measure(A, x)).x, x) < 1e-8


def test_noise_ends_at_the_least_squares_optimum_and_tells_its_error():
    factors, x = phase_retrieval(200, 60, 1)
    A = fq.RankOneTensor(factors[:, 0])
    y = fq.measure(A, x)
    rng = np.random.default_rng(0)
    y = y + 0.05 * np.sqrt(np.mean(y**2)) * rng.standard_normal(200)
    solution = fq.solve(A, y)
    best = fq.solve(A, y, x0=x, method="lm")
    assert solution.status is fq.Status.CONVERGED
    assert solution.residual == pytest.approx(best.residual, rel=1e-6)
    distance = fq.distance(solution.x, x)
    assert 0.5 * distance < solution.error < 2 * distance
    assert solution.noise == pytest.approx(0.05 * np.sqrt(np.mean(y**2)), rel=0.25)


def test_negative_weights_have_no_factors():
    A = fq.LowRankTensor(np.ones((4, 2, 3)), [1.0, -1.0])
    assert A._factors().shape == (4, 0, 3)
    B = fq.LowRankTensor(np.arange(24.0).reshape(4, 2, 3), [0.5, 2.0])._factors()
    x = np.array([1.0, -2.0, 0.5])
    expected = fq.LowRankTensor(np.arange(24.0).reshape(4, 2, 3), [0.5, 2.0]).measure(x)
    np.testing.assert_allclose(np.sum((B @ x) ** 2, axis=1), expected)


@pytest.mark.parametrize("seed", [7, 19])
def test_sparse_phase_retrieval_goes_on_after_quick_pursuit(seed):
    """A support that quick pursuit ends with, and which explains most of y, once kept the full search from running."""
    rng = np.random.default_rng([2028, 100, seed])
    A, x = fq.RankOneTensor(rng.standard_normal((100, 1000))), np.zeros(1000)
    x[rng.permutation(1000)[:10]] = rng.standard_normal(10)
    assert fq.distance(fq.solve(A, fq.measure(A, x)).x, x) < 1e-9


# -- sparse matrices of different size, as of a grid ------------------------------------------------------------------


def network(n=20, seed=0):
    """Products over the edges of a ring with chords, and the squares: a real power grid in small; x near one."""
    rng = np.random.default_rng(seed)
    edges = [(j, (j + 1) % n) for j in range(n)] + [tuple(rng.choice(n, 2, replace=False)) for _ in range(n // 2)]
    matrices = [sparse.coo_array(([1.0], ([j], [j])), shape=(n, n)) for j in range(n)]
    for j, k in edges:
        size = 10.0 ** rng.uniform(0, 2)
        matrices.append(sparse.coo_array(([size, -size], ([j, j], [j, k])), shape=(n, n)))
    return fq.SparseTensor(matrices), 1 + 0.1 * rng.standard_normal(n)


def test_a_network_is_solved_without_a_start():
    for seed in range(3):
        A, x = network(seed=seed)
        solution = fq.solve(A, fq.measure(A, x))
        assert fq.distance(solution.x, x) < 1e-9


def test_unequal_noise_is_weighed_and_a_bad_meter_found():
    A, x = network(40)
    rng = np.random.default_rng(2)
    sigma = 0.01 * np.maximum(np.abs(fq.measure(A, x)), 0.1)
    y = fq.measure(A, x) + sigma * rng.standard_normal(A.m)
    solution = fq.solve(A, y, noise=sigma)
    assert solution.status is fq.Status.CONVERGED
    # At the minimum of Σ (r/σ)² its gradient vanishes.
    W = A.products(solution.x)
    r = (fq.measure(A, solution.x) - y) / sigma**2
    assert np.linalg.norm(r @ W) < 1e-6 * np.linalg.norm(r[:, None] * W)
    near = fq.solve(A, y, noise=sigma, x0=np.ones(40))  # the same from the user's start
    np.testing.assert_allclose(near.x * np.sign(near.x[0] * solution.x[0]), solution.x, rtol=1e-6)
    y[3] += 30 * sigma[3]  # the others check it: its leverage is .06
    bad = fq.solve(A, y, noise=sigma, outliers=True)
    np.testing.assert_array_equal(bad.outliers, [3])
    np.testing.assert_array_equal(fq.solve(A, y, noise=sigma, outliers=True, x0=np.ones(40)).outliers, [3])
    assert fq.distance(bad.x, x) < 2 * fq.distance(solution.x, x)


@pytest.mark.parametrize("band", [1, 2])
@pytest.mark.parametrize("m", [40, 77])
def test_chains(band, m):
    # Descents end with the wrong sign beyond a small entry of x; and the zeros of A are no sign of few values.
    rng = np.random.default_rng(m)
    n = 27
    x = rng.standard_normal(n) * rng.uniform(0, 1, n) ** 2
    A = rng.standard_normal((m, n, n)) * (np.abs(np.subtract.outer(range(n), range(n))) <= band)
    solution = fq.solve(A, fq.measure(A, x))
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9


@pytest.mark.parametrize("scale", [5e-163, 1e-162, 2e-162])
def test_a_spectral_start_of_tiny_matrices(scale):
    # The squares of their sizes are zero; the direction of the start does not depend on the scale. Once a ValueError.
    rng = np.random.default_rng(3)
    x = 1e47 * rng.standard_normal(13) * (rng.random(13) < 0.6)
    A = scale * rng.standard_normal((50, 13, 13))
    assert np.isfinite(fq.solve(A, fq.measure(A, x)).x).all()


def test_many_wrong_measurements_on_one_side():
    """A detector that is full cuts a fifth of the intensities: a fit of all of them took what it left for noise."""
    right, wrong = 0, 0
    for seed in range(200, 212):
        rng = np.random.default_rng(seed)
        a, x = rng.standard_normal((120, 12)), rng.standard_normal(12)
        y = (a @ x) ** 2
        y = np.minimum(y, np.quantile(y, 0.8)) + 1e-3 * y.mean() * rng.standard_normal(y.size)
        solution = fq.solve(fq.RankOneTensor(a), y, outliers=True, rng=seed)
        near = fq.distance(solution.x, x)
        right += bool(solution.success and near < 0.01)
        wrong += bool(solution.success and near > max(3 * solution.error, 0.01))
    assert right >= 7, (right, wrong)
    assert wrong <= 3, (right, wrong)
