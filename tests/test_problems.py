"""Simulated problems are what they say they are, and the same seed gives the same one."""

import re

import numpy as np
import pytest

import fastquad as fq
from fastquad.problems import ENSEMBLES, gaussian, simulate


def test_gaussian():
    problem = gaussian(m=200, n=20, k=4, rng=0)
    assert problem.A.shape == (200, 20, 20)
    assert problem.A.dtype == np.float64
    assert np.count_nonzero(problem.x) == 4
    assert np.abs(problem.x).max() <= 0.5
    assert abs(problem.A.mean()) < 0.02
    assert abs(problem.A.std() - 1) < 0.02
    np.testing.assert_allclose(problem.y, np.einsum("ijk,j,k->i", problem.A, problem.x, problem.x), atol=1e-12)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ensembles(ensemble, dtype):
    problem = simulate(m=25, n=30, k=4, ensemble=ensemble, dtype=dtype, rng=0)
    A = problem.A.astype(np.float64)
    assert problem.A.dtype == dtype
    assert problem.A.flags.c_contiguous
    np.testing.assert_allclose(problem.y, np.einsum("ijk,j,k->i", A, problem.x, problem.x), atol=1e-12)
    if ensemble in ("rademacher", "uniform", "bernoulli"):
        assert abs(A.mean()) < 0.03
        assert abs(A.std() - 1) < 0.05
    if ensemble == "biased":
        assert abs(A.mean() - 1) < 0.03
    if ensemble == "rank_one":
        assert np.linalg.matrix_rank(A[0], rtol=1e-6) == 1
    if ensemble == "toeplitz":
        x = problem.x
        np.testing.assert_allclose(problem.y, [x[: 30 - lag] @ x[lag:] for lag in range(25)], atol=1e-12)


@pytest.mark.parametrize("signal", ["uniform", "gaussian", "signs", "decaying"])
def test_signals(signal):
    x = gaussian(m=2, n=50, k=10, signal=signal, rng=0).x
    nonzeros = np.sort(np.abs(x[x != 0]))[::-1]
    assert nonzeros.size == 10
    if signal == "signs":
        np.testing.assert_array_equal(nonzeros, 1.0)
    if signal == "decaying":
        np.testing.assert_allclose(nonzeros, 0.7 ** np.arange(10))


def test_given_signals():
    x = np.arange(5.0)
    problem = gaussian(m=3, n=5, signal=x, rng=0)
    np.testing.assert_array_equal(problem.x, x)
    assert problem.y.shape == (3,)
    X = np.ones((2, 5))
    problem = gaussian(m=3, n=5, signal=X, rng=0)
    assert problem.y.shape == (2, 3)
    unit = gaussian(m=3, n=5, signal=X, unit_norm=True, rng=0)
    np.testing.assert_allclose(np.linalg.norm(unit.x, axis=1), 1.0)
    np.testing.assert_array_equal(X, 1.0)


def test_dense_unless_k_is_given():
    assert np.count_nonzero(gaussian(m=2, n=9, rng=0).x) == 9


def test_several_signals():
    problem = gaussian(m=6, n=5, k=2, n_signals=3, rng=0)
    assert problem.x.shape == (3, 5)
    assert problem.y.shape == (3, 6)
    assert gaussian(m=6, n=5, k=2, n_signals=1, rng=0).y.shape == (1, 6)


def test_noise_and_outliers():
    clean = gaussian(m=400, n=8, k=2, unit_norm=True, rng=0)
    noisy = gaussian(m=400, n=8, k=2, unit_norm=True, noise=0.1, rng=0)
    np.testing.assert_array_equal(clean.A, noisy.A)
    assert 0.09 < np.std(noisy.y - clean.y) < 0.11
    assert noisy.noise == 0.1
    spoiled = gaussian(m=400, n=8, k=2, unit_norm=True, outliers=0.05, rng=0)
    moved = spoiled.y != clean.y
    assert moved.sum() == 20
    assert np.std(spoiled.y[moved]) > 5 * np.std(clean.y)


def test_same_seed_same_problem():
    first, second, other = (simulate(m=5, n=6, k=2, noise=0.1, outliers=0.2, rng=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.A, second.A)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.x, second.x)
    assert not np.array_equal(first.A, other.A)
    generator = gaussian(m=5, n=6, k=2, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(generator.A, first.A)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"m": 0}, ValueError, "`m` must be a positive integer, got 0."),
        ({"n": 2.5}, TypeError, "`n` must be a positive integer, got 2.5."),
        ({"k": 6}, ValueError, "`k` must be at most n = 5, got 6."),
        ({"k": 0}, ValueError, "`k` must be a positive integer, got 0."),
        ({"signal": "uniforn"}, ValueError, "did you mean 'uniform'?"),
        ({"signal": np.ones(4), "k": None}, ValueError, "`signal` must have shape (5,) or (b, 5), got (4,)."),
        ({"signal": np.ones(5)}, ValueError, "`k` must not be given with a given signal, got 2."),
        ({"signal": np.ones(5), "k": None, "n_signals": 2}, ValueError, "`n_signals` must not be given"),
        ({"signal": np.zeros(5), "k": None, "unit_norm": True}, ValueError, "`signal` must not be zero"),
        ({"ensemble": "gauss"}, ValueError, "`ensemble` must be one of 'gaussian',"),
        ({"ensemble": "toeplitz", "m": 6}, ValueError, "`m` must be at most n = 5 for the ensemble 'toeplitz', got 6."),
        ({"noise": -1}, ValueError, "`noise` must be a number, at least 0, got -1."),
        ({"outliers": 1.5}, ValueError, "`outliers` must be between 0 and 1, got 1.5."),
        ({"dtype": int}, TypeError, "`dtype` must be float32, float64, complex64 or complex128, got int64."),
        ({"n_signals": 0}, ValueError, "`n_signals` must be a positive integer, got 0."),
        ({"rng": "x"}, TypeError, "`rng` must be a seed or a numpy.random.Generator, got str."),
    ],
)
def test_bad_input(options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        simulate(**{"m": 4, "n": 5, "k": 2, **options})


def test_unknown_option():
    with pytest.raises(TypeError, match="sigma"):
        fq.problems.gaussian(m=4, n=5, sigma=1)
