"""What a problem of the campaign is, the parts that its classes are made of, and the ordinary classes.

Each class is a function of a random generator. It returns the matrices, the signal, and whether the signal is known to
be determined by its measurements up to sign: True, False, or None where that depends on the draw. An answer that is
called a success must be the signal, whatever the class; one that is right and determined should be called a success.
`structures` has the classes of A that often leave x open, `kinds` other kinds of A, `knowledge` what else may be told
or not told: priors, outliers, noise of every sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Generator = np.random.Generator


def _as_it_is(A: Array) -> Any:
    return A


class Case(NamedTuple):
    """One problem: y is measured by the caller, who may add noise."""

    A: Array
    x: Array
    determined: bool | None
    #: What `solve` is given in place of the array A.
    form: Callable[[Array], Any] = _as_it_is
    #: What else it is told.
    options: Mapping[str, Any] = MappingProxyType({})
    #: The vectors b_i of `y_i = x^T A_i x + b_i^T x`, which tell x from −x.
    linear: Array | None = None
    #: What is added to y, of which the answer is told nothing.
    added: Array | None = None
    #: The problem is posed as it is, without a start, another method, or noise; or as its class says.
    plain: bool = False
    #: The level of the noise relative to y, where the class chooses it, and whether it is told.
    sigma: float | None = None
    told: bool = True


Class = Callable[[Generator], Case]
CLASSES: dict[str, Class] = {}


def hostile(make: Class) -> Class:
    """Register a class under its name."""
    CLASSES[make.__name__.replace("_", " ")] = make
    return make


# -- parts --------------------------------------------------------------------------------------------------------


def size(rng: Generator, low: int = 8, high: int = 40) -> int:
    return int(rng.integers(low, high + 1))


def signal(rng: Generator, n: int, k: int | None = None) -> Array:
    """k nonzeros (default: any number), of one of five kinds of values."""
    k = int(rng.integers(1, n + 1)) if k is None else min(k, n)
    values = [
        rng.standard_normal(k),
        rng.uniform(0.5, 1.5, k) * rng.choice([-1, 1], k),
        rng.choice([-1.0, 1.0], k),
        0.8 ** np.arange(k) * rng.choice([-1, 1], k),
        np.where(rng.random(k) < 0.2, 1e-6, 1.0) * rng.uniform(0.5, 1.5, k),
    ][int(rng.integers(5))]
    x = np.zeros(n)
    x[rng.choice(n, k, replace=False)] = values
    return x / np.linalg.norm(x)


def gauss(rng: Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, n, n))


def symmetric(rng: Generator, m: int, n: int) -> Array:
    A = gauss(rng, m, n)
    return (A + A.transpose(0, 2, 1)) / 2


def turn(rng: Generator, n: int) -> Array:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def plenty(rng: Generator, n: int, x: Array) -> int:
    """More measurements than an ordinary problem needs."""
    k = int(np.count_nonzero(x))
    return int(rng.uniform(2, 3.5) * n) if k < n / 2 else int(rng.uniform(3, 4) * n)


def open_or_not(rng: Generator, n: int) -> int:
    """From too few measurements to many."""
    return int(rng.uniform(0.6, 4) * n)


def congruent(A: Array, T: Array) -> Array:
    return np.einsum("ja,iab,kb->ijk", T, A, T, optimize=True)


def blocks(rng: Generator, m: int, n: int, cut: int) -> Array:
    A = gauss(rng, m, n)
    A[:, :cut, cut:] = A[:, cut:, :cut] = 0
    return A


# -- ordinary ones ------------------------------------------------------------------------------------------------


@hostile
def gaussian(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(gauss(rng, plenty(rng, n, x), n), x, True)


@hostile
def gaussian_few(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(gauss(rng, open_or_not(rng, n), n), x, None)


@hostile
def uniform_shifted(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(rng.random((plenty(rng, n, x), n, n)), x, True)


@hostile
def rademacher(rng: Generator) -> Case:
    n = size(rng, 16)
    x = signal(rng, n)
    return Case(rng.choice([-1.0, 1.0], (plenty(rng, n, x), n, n)), x, True)


@hostile
def rademacher_tiny(rng: Generator) -> Case:
    n = size(rng, 3, 12)
    return Case(rng.choice([-1.0, 1.0], (int(rng.integers(n, 3 * n)), n, n)), signal(rng, n), None)


@hostile
def bernoulli(rng: Generator) -> Case:
    n = size(rng, 16)
    x = signal(rng, n)
    return Case((rng.random((plenty(rng, n, x), n, n)) < 0.3).astype(float), x, None)


@hostile
def few_integers(rng: Generator) -> Case:
    n = size(rng, 8)
    return Case(rng.integers(-2, 3, (open_or_not(rng, n), n, n)).astype(float), signal(rng, n), None)


@hostile
def sparse_matrices(rng: Generator) -> Case:
    n = size(rng, 20)
    x = signal(rng, n)
    m = 2 * plenty(rng, n, x)
    return Case(gauss(rng, m, n) * (rng.random((m, n, n)) < 0.05), x, None)


@hostile
def half_filled(rng: Generator) -> Case:
    n = size(rng, 12)
    x = signal(rng, n)
    m = plenty(rng, n, x)
    return Case(gauss(rng, m, n) * (rng.random((m, n, n)) < 0.5), x, True)


@hostile
def rank_one(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    a = rng.standard_normal((2 * plenty(rng, n, x), n))
    return Case(a[:, :, None] * a[:, None, :], x, True)


@hostile
def low_rank(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    U = rng.standard_normal((plenty(rng, n, x), n, 3))
    return Case(U @ (rng.standard_normal((len(U), 3, 1)) * U.transpose(0, 2, 1)), x, True)


@hostile
def wishart(rng: Generator) -> Case:
    n = size(rng, 8, 24)
    x = signal(rng, n)
    G = rng.standard_normal((plenty(rng, n, x), n, 2 * n))
    return Case(G @ G.transpose(0, 2, 1), x, True)


@hostile
def cauchy_entries(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(rng.standard_cauchy((plenty(rng, n, x), n, n)), x, None)


@hostile
def triangles(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(np.triu(gauss(rng, plenty(rng, n, x), n)), x, True)


@hostile
def ill_scaled_rows(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    m = plenty(rng, n, x)
    return Case(gauss(rng, m, n) * 10.0 ** rng.uniform(-3, 3, (m, 1, 1)), x, None)


@hostile
def ill_scaled_coordinates(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    c = 10.0 ** rng.uniform(-2, 2, n)
    return Case(gauss(rng, plenty(rng, n, x), n) * c * c[:, None], x, None)


@hostile
def square_system(rng: Generator) -> Case:
    n = size(rng, 4, 14)
    return Case(gauss(rng, n, n), signal(rng, n, n), None)


@hostile
def one_more_than_square(rng: Generator) -> Case:
    n = size(rng, 4, 14)
    return Case(gauss(rng, n + 1, n), signal(rng, n, n), None)


@hostile
def decaying_signal(rng: Generator) -> Case:
    n = int(rng.integers(40, 80))
    x = np.zeros(n)
    k = n // 2
    x[rng.choice(n, k, replace=False)] = rng.uniform(0.7, 0.92) ** np.arange(k) * rng.choice([-1, 1], k)
    return Case(gauss(rng, int(rng.uniform(0.4, 1.1) * n), n), x / np.linalg.norm(x), None)


@hostile
def tiny_n(rng: Generator) -> Case:
    n = int(rng.integers(1, 9))
    kind = int(rng.integers(3))
    m = int(rng.integers(1, 3 * n + 3))
    if kind == 0:
        A = gauss(rng, m, n)
    elif kind == 1:
        A = rng.choice([-1.0, 1.0], (m, n, n))
    else:
        A = rng.integers(-1, 2, (m, n, n)).astype(float)
    return Case(A, signal(rng, n), None)


@hostile
def single_precision(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(gauss(rng, plenty(rng, n, x), n).astype(np.float32), x, None)
