"""Simulated problems with a known answer, used by README, tests, benchmarks and examples alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastquad import arguments
from fastquad.measurements import as_measurements
from fastquad.typing import Float, Number

Rng = np.random.Generator


@dataclass(frozen=True, repr=False)
class Instance:
    """A problem and its answer.

    Attributes
    ----------
    A : array of shape (m, n, n)
    y : array of shape (m,) or (b, m)
        `x^T A_i x`, with noise and outliers if they were asked for.
    x : array of shape (n,) or (b, n)
        The signal.
    noise : float
        The standard deviation of the noise in y.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> problem
    Instance(m=60, n=30, float64, noise=0)
    >>> problem.A.shape, problem.y.shape, problem.x.shape
    ((60, 30, 30), (60,), (30,))
    """

    A: Number
    y: Float
    x: Number
    noise: float

    def __repr__(self) -> str:
        signals = f", {len(self.x)} signals" if self.x.ndim == 2 else ""
        return f"Instance(m={self.A.shape[0]}, n={self.A.shape[1]}, {self.A.dtype}, noise={self.noise:g}{signals})"


class Options(TypedDict, total=False):
    """What `simulate` takes by name beside the ensemble."""

    signal: str | ArrayLike
    unit_norm: bool
    noise: float
    outliers: float
    n_signals: int | None
    dtype: DTypeLike
    rng: int | Rng | None


def gaussian(m: int, n: int, k: int | None = None, **options: Unpack[Options]) -> Instance:
    """A problem with independent standard normal A, as in the paper: `simulate` with its default ensemble.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=40, k=5, rng=0)
    >>> problem.A.shape, problem.y.shape, int((problem.x != 0).sum())
    ((60, 40, 40), (60,), 5)
    """
    for option in options:
        if option not in _OPTIONS:
            way_out = "; give `rng=...`." if "seed" in option or option == "random_state" else None
            raise TypeError(f"gaussian() has no option `{option}`{way_out or arguments.nearest(option, _OPTIONS)}")
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
        The number of measurements, and the length of the signal.
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
    dtype : float32 or float64, complex64 or complex128
        Of A. y is measured with the entries as stored, in double precision. Complex matrices are Hermitian, with real
        and imaginary parts drawn as the ensemble says, and signals are complex: real and imaginary parts of the
        nonzeros are drawn as `signal` says; "signs" and "decaying" have random phases for signs.
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
    m, n = arguments.count(m, "m"), arguments.count(n, "n")
    if n_signals is not None:
        arguments.count(n_signals, "n_signals")
    noise, outliers = arguments.number(noise, "noise"), arguments.number(outliers, "outliers")
    if outliers > 1:
        raise ValueError(f"`outliers` must be between 0 and 1, got {outliers!r}.")
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(f"`dtype` must be float32, float64, complex64 or complex128, got {dtype}.")
    rng = arguments.generator(rng, default=None)
    draw = ENSEMBLES[arguments.choice(ensemble, "ensemble", ENSEMBLES)]
    A = draw(m, n, dtype, rng) if dtype.kind == "f" else _hermitian(draw, m, n, dtype, rng)
    X = _signals(n, k, signal, n_signals, rng, complex_too=dtype.kind == "c")
    if unit_norm:
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        if not norms.all():
            raise ValueError("`signal` must not be zero if its norm is to be one.")
        X = X / norms
    Y = as_measurements(A).measure(X.T).T + noise * rng.standard_normal((len(X), m))
    _corrupt(Y, outliers, rng)
    Y = np.ascontiguousarray(Y)
    batch = n_signals is not None or np.ndim(signal) == 2
    return Instance(A, Y if batch else Y[0], X if batch else X[0], noise)


#: What `gaussian` hands on to `simulate`.
_OPTIONS = [name for name in inspect.signature(simulate).parameters if name not in ("m", "n", "k", "ensemble")]


def _corrupt(Y: Float, outliers: float, rng: Rng) -> None:
    """Replace a share of each row by draws ten times as large."""
    m = Y.shape[1]
    for y in Y:
        where = rng.permutation(m)[: round(outliers * m)]
        y[where] = 10 * np.sqrt(np.mean(y**2)) * rng.standard_normal(len(where))


def _signals(
    n: int, k: int | None, signal: str | ArrayLike, n_signals: int | None, rng: Rng, complex_too: bool = False
) -> Number:
    """One signal, or n_signals, as the rows of an array."""
    if not isinstance(signal, str):
        X = arguments.array(signal, "signal") if complex_too else arguments.real_array(signal, "signal")
        if X.ndim not in (1, 2) or X.shape[-1] != n or not X.size:
            raise ValueError(f"`signal` must have shape ({n},) or (b, {n}), got {X.shape}.")
        for name, value in (("k", k), ("n_signals", n_signals)):
            if value is not None:
                raise ValueError(f"`{name}` must not be given with a given signal, got {value!r}.")
        return np.atleast_2d(X)
    k = n if k is None else k
    if arguments.count(k, "k") > n:
        raise ValueError(f"`k` must be at most n = {n}, got {k}.")
    draw = SIGNALS[arguments.choice(signal, "signal", SIGNALS)]
    X = np.zeros((n_signals or 1, n), dtype=np.complex128 if complex_too else np.float64)
    for x in X:
        # The values are drawn before their places: a seed keeps giving the same problem.
        values = draw(k, rng)
        if complex_too and signal in ("signs", "decaying"):
            values = np.abs(values) * np.exp(2j * np.pi * rng.random(k))
        elif complex_too:
            values = values + 1j * draw(k, rng)
        x[rng.permutation(n)[:k]] = values
    return X


SIGNALS: dict[str, Callable[[int, Rng], Float]] = {
    "uniform": lambda k, rng: rng.uniform(-0.5, 0.5, k),
    "gaussian": lambda k, rng: rng.standard_normal(k),
    "signs": lambda k, rng: rng.choice([-1.0, 1.0], k),
    "decaying": lambda k, rng: rng.choice([-1.0, 1.0], k) * 0.7 ** np.arange(k),
}


# -- A: each of these draws (m, n, n) of a dtype ---------------------------------------------------------------


def _gaussian(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    return rng.standard_normal((m, n, n), dtype=dtype)


def _rademacher(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    return (2 * rng.integers(0, 2, (m, n, n), dtype=np.int8) - 1).astype(dtype)


def _uniform(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    return np.asarray((2 * rng.random((m, n, n), dtype=dtype) - 1) * dtype.type(np.sqrt(3)))


def _bernoulli(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    kept = rng.random((m, n, n), dtype=np.float32) < 0.1
    return np.asarray(_rademacher(m, n, dtype, rng) * kept * dtype.type(np.sqrt(10)))


def _biased(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    return np.asarray(_gaussian(m, n, dtype, rng) + dtype.type(1))


def _rank_one(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    a = rng.standard_normal((m, n), dtype=dtype)
    return a[:, :, None] * a[:, None, :]


def _toeplitz(m: int, n: int, dtype: np.dtype[Any], rng: Rng) -> NDArray[Any]:
    if m > n:
        raise ValueError(f"`m` must be at most n = {n} for the ensemble 'toeplitz', got {m}.")
    return np.stack([np.eye(n, k=lag, dtype=dtype) for lag in range(m)])


def _hermitian(
    draw: Callable[[int, int, np.dtype[Any], Rng], NDArray[Any]], m: int, n: int, dtype: np.dtype[Any], rng: Rng
) -> NDArray[Any]:
    """Hermitian matrices, of which real and imaginary parts are drawn alike; of rank one, `a a^*`."""
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    if draw is _toeplitz:
        raise ValueError("`dtype` must be real for the ensemble 'toeplitz'.")
    if draw is _rank_one:
        a = (rng.standard_normal((m, n)) + 1j * rng.standard_normal((m, n))) / np.sqrt(2)
        return np.asarray((a[:, :, None] * a[:, None, :].conj()).astype(dtype))
    A = draw(m, n, real, rng) + 1j * draw(m, n, real, rng)
    A += A.transpose(0, 2, 1).conj()
    return (A / 2).astype(dtype)


ENSEMBLES: dict[str, Callable[[int, int, np.dtype[Any], Rng], NDArray[Any]]] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "uniform": _uniform,
    "bernoulli": _bernoulli,
    "biased": _biased,
    "rank_one": _rank_one,
    "toeplitz": _toeplitz,
}
