"""What is told beside A and y, rightly or wrongly, and what is not: priors, outliers, noise that is not Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastquad as fq
from benchmarks.studies.campaign.problems import (
    Array,
    Case,
    Generator,
    blocks,
    gauss,
    hostile,
    open_or_not,
    plenty,
    signal,
    size,
    symmetric,
    turn,
)
from benchmarks.studies.campaign.structures import toeplitz_matrices


def _told(A: Array, x: Array, determined: bool | None, **options: Any) -> Case:
    return Case(A, x, determined, options=options, plain=True)


def _exact(A: Array, x: Array) -> Array:
    return np.einsum("ijk,j,k->i", A, x, x, optimize=True)


# -- priors that are right, on matrices that are not ordinary -----------------------------------------------------


def _structured(rng: Generator, n: int, kinds: int = 5) -> Array:
    m, kind = 4 * n, int(rng.integers(kinds))
    if kind == 0:
        return gauss(rng, open_or_not(rng, n), n)
    if kind == 1:
        return blocks(rng, m, n, int(rng.integers(1, n)))
    if kind == 2:
        return toeplitz_matrices(rng, m, n)
    if kind == 3:
        A = symmetric(rng, m, n)
        return A + A[:, ::-1, ::-1]
    return np.tensordot(rng.standard_normal((m, n // 2 + 1)), gauss(rng, n // 2 + 1, n), 1)


@hostile
def nonnegative_told(rng: Generator) -> Case:
    n = size(rng)
    return _told(_structured(rng, n), np.abs(signal(rng, n)), None, prior=fq.Sparse(nonnegative=True))


@hostile
def nonnegative_untold(rng: Generator) -> Case:
    n = size(rng, 16, 44)
    return _told(gauss(rng, int(rng.uniform(0.8, 2.2) * n), n), np.abs(signal(rng, n)), None)


@hostile
def discrete_told(rng: Generator) -> Case:
    n = size(rng, 6, 24)
    values = [[-1.0, 1.0], [0.0, 1.0], [-1.0, 0.0, 1.0]][int(rng.integers(3))]
    x = rng.choice(values, n)
    x[rng.integers(n)] = 1.0
    return _told(_structured(rng, n), x, None, prior=fq.Discrete(values))


@hostile
def piecewise_told(rng: Generator) -> Case:
    n = size(rng, 12)
    jumps = np.sort(rng.choice(np.arange(1, n), int(rng.integers(1, 4)), replace=False))
    x = np.repeat(rng.standard_normal(jumps.size + 1), np.diff([0, *jumps, n]))
    return _told(_structured(rng, n), x / np.linalg.norm(x), None, prior=fq.PiecewiseConstant())


@hostile
def groups_told(rng: Generator) -> Case:
    count, width = int(rng.integers(4, 12)), int(rng.integers(2, 5))
    n = count * width
    labels = np.repeat(np.arange(count), width)
    x = rng.standard_normal(n) * np.isin(labels, rng.choice(count, int(rng.integers(1, 4)), replace=False))
    return _told(_structured(rng, n), x / np.linalg.norm(x), None, prior=fq.Sparse(groups=labels))


@hostile
def basis_told(rng: Generator) -> Case:
    n = size(rng)
    Q = turn(rng, n)
    return _told(_structured(rng, n), Q @ signal(rng, n), None, prior=fq.Sparse(basis=Q))


@hostile
def support_told(rng: Generator) -> Case:
    """The support, and some more."""
    n = size(rng)
    x = signal(rng, n)
    S = np.union1d(np.flatnonzero(x), rng.choice(n, 2))
    return _told(_structured(rng, n), x, None, prior=fq.Sparse(support=S))


# -- priors that are wrong ----------------------------------------------------------------------------------------


def _wrong_prior(rng: Generator, x: Array) -> Any:
    n, kind = x.size, int(rng.integers(6))
    k = int(np.count_nonzero(x))
    if kind == 0:
        return fq.Sparse(k=max(1, k // 2))
    if kind == 1:
        return fq.Sparse(k=min(n, 2 * k))
    if kind == 2:
        return fq.Sparse(nonnegative=True)
    if kind == 3:
        return fq.Sparse(support=rng.choice(n, max(1, n // 2), replace=False))
    if kind == 4:
        return fq.PiecewiseConstant()
    return fq.Sparse(groups=np.arange(n) // 2)


@hostile
def wrong_prior(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return _told(gauss(rng, int(rng.uniform(1, 4) * n), n), x, None, prior=_wrong_prior(rng, x))


@hostile
def wrong_values(rng: Generator) -> Case:
    """Other values than the signal has, or all but one of its own."""
    n = size(rng, 6, 24)
    x = rng.choice([-1.0, 0.0, 1.0], n)
    x[:2] = 1.0, -1.0
    values = [[0.0, 1.0], [-1.0, 1.0], [-2.0, 0.0, 2.0]][int(rng.integers(3))]
    return _told(gauss(rng, int(rng.uniform(1, 4) * n), n), x, None, prior=fq.Discrete(values))


@hostile
def wrong_value_fixed(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    j = int(rng.choice(np.flatnonzero(x)))
    prior = fq.Sparse(fixed={j: float(x[j] * rng.uniform(1.05, 2))})
    return _told(gauss(rng, int(rng.uniform(1, 4) * n), n), x, None, prior=prior)


@hostile
def wrong_norm(rng: Generator) -> Case:
    n = size(rng)
    return _told(gauss(rng, 4 * n, n), signal(rng, n), None, norm=float(rng.uniform(0.7, 1.4)))


@hostile
def wrong_level(rng: Generator) -> Case:
    """The noise is said to be a hundred times smaller or larger than it is, or to be there where there is none."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(1, 4) * n), n)
    y = _exact(A, x)
    level = 10.0 ** rng.uniform(-3, -1) * float(np.sqrt(np.mean(y**2)))
    noise = level * rng.standard_normal(len(y)) * rng.integers(2)
    told = level * float(rng.choice([0.01, 0.1, 10.0, 100.0]))
    return _told(A, x, None, noise=told)._replace(added=noise if noise.any() else None)


# -- noise that is not as it is taken to be -----------------------------------------------------------------------


def _noisy(rng: Generator, A: Array, x: Array, noise: Array, **options: Any) -> Case:
    size_of_y = float(np.sqrt(np.mean(_exact(A, x) ** 2)))
    return Case(A, x, None, options=options, plain=True, added=noise * size_of_y)


def _any_matrices(rng: Generator, n: int) -> Array:
    return gauss(rng, int(rng.uniform(1.5, 5) * n), n) if rng.random() < 0.6 else _structured(rng, n)


def _contaminated(rng: Generator, m: int) -> Array:
    noise = np.zeros(m)
    where = rng.choice(m, max(1, int(rng.uniform(0.02, 0.25) * m)), replace=False)
    noise[where] = rng.choice([1.0, 10.0, 1000.0]) * rng.standard_normal(where.size)
    return noise


@hostile
def outliers_untold(rng: Generator) -> Case:
    n = size(rng)
    A = _any_matrices(rng, n)
    return _noisy(rng, A, signal(rng, n), _contaminated(rng, len(A)))


@hostile
def outliers_told(rng: Generator) -> Case:
    n = size(rng, 8, 30)
    A = _any_matrices(rng, n)
    return _noisy(rng, A, signal(rng, n), _contaminated(rng, len(A)), outliers=True)


@hostile
def outliers_and_noise(rng: Generator) -> Case:
    n = size(rng, 8, 30)
    A = _any_matrices(rng, n)
    noise = _contaminated(rng, len(A)) + 10.0 ** rng.uniform(-3, -1) * rng.standard_normal(len(A))
    return _noisy(rng, A, signal(rng, n), noise, outliers=bool(rng.integers(2)))


@hostile
def heavy_tails(rng: Generator) -> Case:
    n = size(rng)
    A = _any_matrices(rng, n)
    return _noisy(rng, A, signal(rng, n), 10.0 ** rng.uniform(-3, -1) * rng.standard_t(1.5, len(A)))


@hostile
def unequal_noise(rng: Generator) -> Case:
    """Levels over three decades, told or not."""
    n = size(rng)
    A = _any_matrices(rng, n)
    x = signal(rng, n)
    level = 10.0 ** rng.uniform(-3.5, -0.5, len(A))
    case = _noisy(rng, A, x, level * rng.standard_normal(len(A)))
    if rng.random() < 0.5:
        return case
    return case._replace(options={"noise": level * float(np.sqrt(np.mean(_exact(A, x) ** 2)))})


@hostile
def background(rng: Generator) -> Case:
    """Something is added to all measurements alike."""
    n = size(rng)
    A = _any_matrices(rng, n)
    return _noisy(rng, A, signal(rng, n), np.full(len(A), 10.0 ** rng.uniform(-3, 0.5)))


@hostile
def quantised(rng: Generator) -> Case:
    """y in few digits, or in single precision."""
    n = size(rng)
    A, x = _any_matrices(rng, n), signal(rng, n)
    y = _exact(A, x)
    step = 10.0 ** rng.uniform(-4, -0.5) * float(np.abs(y).max())
    seen = np.round(y / step) * step if rng.random() < 0.7 else y.astype(np.float32).astype(float)
    return Case(A, x, None, plain=True, added=seen - y)


@hostile
def mistaken_matrices(rng: Generator) -> Case:
    """The matrices are known to a percent or so: not those of a low span, which is gone where they are mistaken."""
    n = size(rng)
    A, x = _structured(rng, n, 4), signal(rng, n)
    wrong = A * (1 + 10.0 ** rng.uniform(-4, -1) * rng.standard_normal(A.shape))
    return Case(wrong, x, None, plain=True, added=_exact(A, x) - _exact(wrong, x))


@hostile
def coupling_at_the_noise(rng: Generator) -> Case:
    """Two blocks that are coupled about as weakly as the noise is strong."""
    n = size(rng)
    x = signal(rng, n)
    cut = int(rng.integers(1, n))
    A = gauss(rng, plenty(rng, n, x), n)
    sigma = 10.0 ** rng.uniform(-5, -1)
    weak = sigma * 10.0 ** rng.uniform(-2, 1)
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    return Case(A, x, None, plain=True, sigma=sigma, told=bool(rng.integers(2)))


@hostile
def structures_in_noise(rng: Generator) -> Case:
    n = size(rng)
    return Case(
        _structured(rng, n),
        signal(rng, n),
        None,
        plain=True,
        sigma=10.0 ** rng.uniform(-4, -0.7),
        told=bool(rng.integers(2)),
    )
