"""Simulated problems with a known answer, used by README, tests, benchmarks and examples alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastquad import checks
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Float

Rng = np.random.Generator


@dataclass(frozen=True)
class Instance:
    """A problem and its answer.

    Attributes
    ----------
    A : array of shape (m, n, n)
    y : array of shape (m,) or (b, m)
        `x^T A_i x`, with noise and outliers where they were asked for.
    x : array of shape (n,) or (b, n)
        The signal.
    noise : float
        The standard deviation of the noise in y.
    """

    A: NDArray[np.floating]
    y: Float
    x: Float
    noise: float


def gaussian(m: int, n: int, k: int | None = None, **options) -> Instance:
    """A problem with independent standard normal A, as in the paper: `simulate` with its default ensemble.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=40, k=5, rng=0)
    >>> problem.A.shape, problem.y.shape, int((problem.x != 0).sum())
    ((60, 40, 40), (60,), 5)
    """
    return simulate(m, n, k, ensemble="gaussian", **options)


def simulate(
    m: int,
    n: int,
    k: int | None = None,
    *,
    ensemble: str = "gaussian",
    signal: str | ArrayLike = "uniform",
    unit_norm: bool = False,
    noise: float = 0.0,
    outliers: float = 0.0,
    n_signals: int | None = None,
    dtype: DTypeLike = np.float64,
    rng: int | Rng | None = None,
) -> Instance:
    """A problem with random A, a random or given signal, and its measurements.

    Parameters
    ----------
    m, n : int
        How many measurements, of a signal of which length.
    k : int, optional
        How many entries of the signal are nonzero, at random places; default: all.
    ensemble : str
        How the entries of A are drawn: "gaussian" (standard normal), "rademacher" (±1), "uniform" (variance 1),
        "bernoulli" (one in ten is nonzero, ±1, scaled to variance 1), "biased" (normal with mean 1), "rank_one"
        (`a a^T`, a normal: phase retrieval), "toeplitz" (ones at distance i from the diagonal: the
        autocorrelation of x, for m <= n).
    signal : str or array of shape (n,) or (n_signals, n)
        How the nonzeros are drawn: "uniform" on [−0.5, 0.5], "gaussian", "signs" (±1), "decaying" (±0.7^j, in
        random order); or the signal itself.
    unit_norm : bool
        Whether to divide each signal by its norm.
    noise : float
        Standard deviation of Gaussian noise added to y.
    outliers : float
        The share of measurements that is replaced by draws ten times as large as y, in root mean square.
    n_signals : int, optional
        Draw this many signals for the one A: then y has shape (n_signals, m) and x has shape (n_signals, n).
    dtype : float32 or float64
        Of A. y is measured with the entries as stored, in float64.
    rng : int or Generator, optional
        The same seed gives the same problem.

    Returns
    -------
    Instance

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.simulate(m=50, n=20, k=3, ensemble="rademacher", noise=0.1, rng=0)
    >>> problem.y.shape
    (50,)
    """
    m, n = checks.count(m, "m"), checks.count(n, "n")
    if n_signals is not None:
        checks.count(n_signals, "n_signals")
    noise, outliers = checks.number(noise, "noise"), checks.number(outliers, "outliers")
    if outliers > 1:
        raise ValueError(f"`outliers` must be between 0 and 1, got {outliers!r}.")
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"`dtype` must be float32 or float64, got {dtype}.")
    rng = checks.generator(rng, default=None)
    A = ENSEMBLES[checks.choice(ensemble, "ensemble", ENSEMBLES)](m, n, dtype, rng)
    X = _signals(n, k, signal, n_signals, rng)
    if unit_norm:
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        if not norms.all():
            raise ValueError("`signal` must not be zero where its norm is to be one.")
        X = X / norms
    Y = as_measurements(A).measure(X.T).T + noise * rng.standard_normal((len(X), m))
    _corrupt(Y, outliers, rng)
    Y = np.ascontiguousarray(Y)
    batch = n_signals is not None or np.ndim(signal) == 2
    return Instance(A, Y if batch else Y[0], X if batch else X[0], noise)


def _corrupt(Y: Float, outliers: float, rng: Rng) -> None:
    """Replace a share of each row by draws ten times as large."""
    m = Y.shape[1]
    for y in Y:
        where = rng.permutation(m)[: round(outliers * m)]
        y[where] = 10 * np.sqrt(np.mean(y**2)) * rng.standard_normal(len(where))


def _signals(n: int, k: int | None, signal: str | ArrayLike, n_signals: int | None, rng: Rng) -> Float:
    """One signal, or n_signals, as the rows of an array."""
    if not isinstance(signal, str):
        X = checks.real_array(signal, "signal")
        if X.ndim not in (1, 2) or X.shape[-1] != n or not X.size:
            raise ValueError(f"`signal` must have shape ({n},) or (b, {n}), got {X.shape}.")
        for name, value in (("k", k), ("n_signals", n_signals)):
            if value is not None:
                raise ValueError(f"`{name}` must not be given with a given signal, got {value!r}.")
        return np.atleast_2d(X)
    k = n if k is None else k
    if checks.count(k, "k") > n:
        raise ValueError(f"`k` must be at most n = {n}, got {k}.")
    draw = SIGNALS[checks.choice(signal, "signal", SIGNALS)]
    X = np.zeros((n_signals or 1, n))
    for x in X:
        x[rng.permutation(n)[:k]] = draw(k, rng)
    return X


SIGNALS: dict[str, Callable[[int, Rng], Float]] = {
    "uniform": lambda k, rng: rng.uniform(-0.5, 0.5, k),
    "gaussian": lambda k, rng: rng.standard_normal(k),
    "signs": lambda k, rng: rng.choice([-1.0, 1.0], k),
    "decaying": lambda k, rng: rng.choice([-1.0, 1.0], k) * 0.7 ** np.arange(k),
}


# -- A: each of these draws (m, n, n) of a dtype ---------------------------------------------------------------


def _gaussian(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    return rng.standard_normal((m, n, n), dtype=dtype)


def _rademacher(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    return (2 * rng.integers(0, 2, (m, n, n), dtype=np.int8) - 1).astype(dtype)


def _uniform(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    return (2 * rng.random((m, n, n), dtype=dtype) - 1) * dtype.type(np.sqrt(3))


def _bernoulli(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    kept = rng.random((m, n, n), dtype=np.float32) < 0.1
    return _rademacher(m, n, dtype, rng) * kept * dtype.type(np.sqrt(10))


def _biased(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    return _gaussian(m, n, dtype, rng) + dtype.type(1)


def _rank_one(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    a = rng.standard_normal((m, n), dtype=dtype)
    return a[:, :, None] * a[:, None, :]


def _toeplitz(m: int, n: int, dtype: np.dtype, rng: Rng) -> NDArray:
    if m > n:
        raise ValueError(f"`m` must be at most n = {n} for the ensemble 'toeplitz', got {m}.")
    return np.stack([np.eye(n, k=lag, dtype=dtype) for lag in range(m)])


ENSEMBLES: dict[str, Callable[[int, int, np.dtype, Rng], NDArray]] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "uniform": _uniform,
    "bernoulli": _bernoulli,
    "biased": _biased,
    "rank_one": _rank_one,
    "toeplitz": _toeplitz,
}
