"""Hostile problems: ordinary-looking data that often leave x open, and ordinary ones that do not.

Each class is a function of a random generator. It returns the matrices, the signal, and whether the signal is known to
be determined by its measurements up to sign: True, False, or None where that depends on the draw. An answer that is
called a success must be the signal, whatever the class; one that is right and determined should be called a success.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Generator = np.random.Generator


class Case(NamedTuple):
    """One problem: y is measured by the caller, who may add noise."""

    A: Array
    x: Array
    determined: bool | None


Class = Callable[[Generator], Case]
CLASSES: dict[str, Class] = {}


def hostile(make: Class) -> Class:
    """Register a class under its name."""
    CLASSES[make.__name__.replace("_", " ")] = make
    return make


# -- parts --------------------------------------------------------------------------------------------------------


def _size(rng: Generator, low: int = 8, high: int = 40) -> int:
    return int(rng.integers(low, high + 1))


def _signal(rng: Generator, n: int, k: int | None = None) -> Array:
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


def _gauss(rng: Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, n, n))


def _symmetric(rng: Generator, m: int, n: int) -> Array:
    A = _gauss(rng, m, n)
    return (A + A.transpose(0, 2, 1)) / 2


def _turn(rng: Generator, n: int) -> Array:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def _plenty(rng: Generator, n: int, x: Array) -> int:
    """More measurements than an ordinary problem needs."""
    k = int(np.count_nonzero(x))
    return int(rng.uniform(2, 3.5) * n) if k < n / 2 else int(rng.uniform(3, 4) * n)


def _open_or_not(rng: Generator, n: int) -> int:
    """From too few measurements to many."""
    return int(rng.uniform(0.6, 4) * n)


def _congruent(A: Array, T: Array) -> Array:
    return np.einsum("ja,iab,kb->ijk", T, A, T, optimize=True)


def _blocks(rng: Generator, m: int, n: int, cut: int) -> Array:
    A = _gauss(rng, m, n)
    A[:, :cut, cut:] = A[:, cut:, :cut] = 0
    return A


# -- ordinary ones ------------------------------------------------------------------------------------------------


@hostile
def gaussian(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(_gauss(rng, _plenty(rng, n, x), n), x, True)


@hostile
def gaussian_few(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(_gauss(rng, _open_or_not(rng, n), n), x, None)


@hostile
def uniform_shifted(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(rng.random((_plenty(rng, n, x), n, n)), x, True)


@hostile
def rademacher(rng: Generator) -> Case:
    n = _size(rng, 16)
    x = _signal(rng, n)
    return Case(rng.choice([-1.0, 1.0], (_plenty(rng, n, x), n, n)), x, True)


@hostile
def rademacher_tiny(rng: Generator) -> Case:
    n = _size(rng, 3, 12)
    return Case(rng.choice([-1.0, 1.0], (int(rng.integers(n, 3 * n)), n, n)), _signal(rng, n), None)


@hostile
def bernoulli(rng: Generator) -> Case:
    n = _size(rng, 16)
    x = _signal(rng, n)
    return Case((rng.random((_plenty(rng, n, x), n, n)) < 0.3).astype(float), x, None)


@hostile
def few_integers(rng: Generator) -> Case:
    n = _size(rng, 8)
    return Case(rng.integers(-2, 3, (_open_or_not(rng, n), n, n)).astype(float), _signal(rng, n), None)


@hostile
def sparse_matrices(rng: Generator) -> Case:
    n = _size(rng, 20)
    x = _signal(rng, n)
    m = 2 * _plenty(rng, n, x)
    return Case(_gauss(rng, m, n) * (rng.random((m, n, n)) < 0.05), x, None)


@hostile
def half_filled(rng: Generator) -> Case:
    n = _size(rng, 12)
    x = _signal(rng, n)
    m = _plenty(rng, n, x)
    return Case(_gauss(rng, m, n) * (rng.random((m, n, n)) < 0.5), x, True)


@hostile
def rank_one(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    a = rng.standard_normal((2 * _plenty(rng, n, x), n))
    return Case(a[:, :, None] * a[:, None, :], x, True)


@hostile
def low_rank(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    U = rng.standard_normal((_plenty(rng, n, x), n, 3))
    return Case(U @ (rng.standard_normal((len(U), 3, 1)) * U.transpose(0, 2, 1)), x, True)


@hostile
def wishart(rng: Generator) -> Case:
    n = _size(rng, 8, 24)
    x = _signal(rng, n)
    G = rng.standard_normal((_plenty(rng, n, x), n, 2 * n))
    return Case(G @ G.transpose(0, 2, 1), x, True)


@hostile
def cauchy_entries(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(rng.standard_cauchy((_plenty(rng, n, x), n, n)), x, None)


@hostile
def triangles(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(np.triu(_gauss(rng, _plenty(rng, n, x), n)), x, True)


@hostile
def ill_scaled_rows(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    m = _plenty(rng, n, x)
    return Case(_gauss(rng, m, n) * 10.0 ** rng.uniform(-3, 3, (m, 1, 1)), x, None)


@hostile
def ill_scaled_coordinates(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    c = 10.0 ** rng.uniform(-2, 2, n)
    return Case(_gauss(rng, _plenty(rng, n, x), n) * c * c[:, None], x, None)


@hostile
def square_system(rng: Generator) -> Case:
    n = _size(rng, 4, 14)
    return Case(_gauss(rng, n, n), _signal(rng, n, n), None)


@hostile
def one_more_than_square(rng: Generator) -> Case:
    n = _size(rng, 4, 14)
    return Case(_gauss(rng, n + 1, n), _signal(rng, n, n), None)


@hostile
def decaying_signal(rng: Generator) -> Case:
    n = int(rng.integers(40, 80))
    x = np.zeros(n)
    k = n // 2
    x[rng.choice(n, k, replace=False)] = rng.uniform(0.7, 0.92) ** np.arange(k) * rng.choice([-1, 1], k)
    return Case(_gauss(rng, int(rng.uniform(0.4, 1.1) * n), n), x / np.linalg.norm(x), None)


@hostile
def tiny_n(rng: Generator) -> Case:
    n = int(rng.integers(1, 9))
    kind = int(rng.integers(3))
    m = int(rng.integers(1, 3 * n + 3))
    if kind == 0:
        A = _gauss(rng, m, n)
    elif kind == 1:
        A = rng.choice([-1.0, 1.0], (m, n, n))
    else:
        A = rng.integers(-1, 2, (m, n, n)).astype(float)
    return Case(A, _signal(rng, n), None)


@hostile
def single_precision(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(_gauss(rng, _plenty(rng, n, x), n).astype(np.float32), x, None)


# -- dependent measurements ---------------------------------------------------------------------------------------


@hostile
def repeated(rng: Generator) -> Case:
    n = _size(rng)
    some = int(rng.uniform(0.3, 1.6) * n)
    return Case(_gauss(rng, some, n)[rng.integers(some, size=4 * n)], _signal(rng, n), None)


@hostile
def repeated_but_enough(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    return Case(np.tile(_gauss(rng, _plenty(rng, n, x), n), (2, 1, 1)), x, True)


@hostile
def one_matrix(rng: Generator) -> Case:
    n = _size(rng, 2)
    return Case(np.repeat(_gauss(rng, 1, n), 2 * n, 0), _signal(rng, n), n == 1)


@hostile
def low_span(rng: Generator) -> Case:
    n = _size(rng)
    some = int(rng.uniform(0.3, 1.3) * n) + 1
    return Case(np.tensordot(rng.standard_normal((4 * n, some)), _gauss(rng, some, n), 1), _signal(rng, n), None)


@hostile
def low_span_nearly(rng: Generator) -> Case:
    """A low span and a little beyond it, near rounding."""
    n = _size(rng)
    some = int(rng.uniform(0.3, 1.0) * n) + 1
    A = np.tensordot(rng.standard_normal((4 * n, some)), _gauss(rng, some, n), 1)
    return Case(A + 10.0 ** rng.uniform(-16, -12) * _gauss(rng, 4 * n, n), _signal(rng, n), None)


@hostile
def oversampled_image(rng: Generator) -> Case:
    """Masks of a band-limited scan, sampled more finely than the band limit."""
    n = _size(rng, 10, 30)
    m, band = 4 * n, int(rng.uniform(0.3, 1.2) * n)
    t = np.linspace(0, 1, m, endpoint=False)[:, None]
    f = np.arange(1, band // 2 + 2)
    waves = np.concatenate([np.cos(2 * np.pi * t * f), np.sin(2 * np.pi * t * f)], axis=1)[:, :band]
    return Case(np.tensordot(waves, _gauss(rng, waves.shape[1], n), 1), _signal(rng, n), None)


@hostile
def identity_multiples(rng: Generator) -> Case:
    n = _size(rng, 2)
    m = 3 * n
    return Case(np.eye(n) * rng.standard_normal((m, 1, 1)), _signal(rng, n), None)


@hostile
def constant_diagonal(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    A = _symmetric(rng, _plenty(rng, n, x), n)
    A[:, np.arange(n), np.arange(n)] = 1
    # Of two nonzeros only their product and the sum of their squares are seen.
    return Case(A, x, True if np.count_nonzero(x) > 2 else None)


@hostile
def hollow(rng: Generator) -> Case:
    """Zero diagonals: at least two coordinates are needed to see anything."""
    n = _size(rng, 12)
    x = _signal(rng, n, int(rng.integers(4, n + 1)))
    A = _symmetric(rng, _plenty(rng, n, x), n)
    A[:, np.arange(n), np.arange(n)] = 0
    return Case(A, x, True)


# -- coordinates and directions that nothing measures -------------------------------------------------------------


@hostile
def coordinate_unseen(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    A = _gauss(rng, _plenty(rng, n, x), n)
    gone = rng.choice(n, int(rng.integers(1, 3)), replace=False)
    A[:, gone] = A[:, :, gone] = 0
    return Case(A, x, False)


@hostile
def coordinate_barely_seen(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n, n)
    c = np.ones(n)
    c[rng.integers(n)] = 10.0 ** rng.uniform(-14, -6)
    return Case(_gauss(rng, _plenty(rng, n, x), n) * c * c[:, None], x, None)


@hostile
def null_space(rng: Generator) -> Case:
    n = _size(rng)
    P = _turn(rng, n)[:, : n - int(rng.integers(1, 4))]
    A = _gauss(rng, 4 * n, P.shape[1])
    return Case(_congruent(A, P), _signal(rng, n), None)


@hostile
def twin_columns(rng: Generator) -> Case:
    """Two coordinates that are measured alike, up to a factor."""
    n = _size(rng)
    T = np.eye(n)
    j, k = rng.choice(n, 2, replace=False)
    T[k] = rng.choice([1.0, 2.0, -1.0]) * T[j]
    x = _signal(rng, n)
    return Case(_congruent(_gauss(rng, _plenty(rng, n, x), n), T), x, None)


@hostile
def dependent_triple(rng: Generator) -> Case:
    """One coordinate's column is a sum of two others'."""
    n = _size(rng, 10)
    T = np.eye(n)
    a, b, c = rng.choice(n, 3, replace=False)
    T[c] = T[a] + rng.uniform(0.5, 2) * T[b]
    x = _signal(rng, n, int(rng.integers(2, n + 1)))
    x[a] += 0.3
    return Case(_congruent(_gauss(rng, _plenty(rng, n, x), n), T), x, None)


# -- free signs ---------------------------------------------------------------------------------------------------


@hostile
def two_blocks(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    cut = int(rng.integers(1, n))
    open_ = x[:cut].any() and x[cut:].any()
    return Case(_blocks(rng, _plenty(rng, n, x), n, cut), x, False if open_ else None)


@hostile
def hidden_blocks(rng: Generator) -> Case:
    """The blocks in a random order of the coordinates, one of them of one or two."""
    n = _size(rng)
    x = _signal(rng, n)
    order = rng.permutation(n)
    A = _blocks(rng, _plenty(rng, n, x), n, int(rng.integers(1, 3)))
    return Case(A[:, order[:, None], order], x, None)


@hostile
def weak_coupling(rng: Generator) -> Case:
    n = _size(rng)
    x = _signal(rng, n)
    cut = int(rng.integers(1, n))
    A = _gauss(rng, _plenty(rng, n, x), n)
    weak = 10.0 ** rng.uniform(-16, -6)
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    return Case(A, x, None)


@hostile
def diagonal(rng: Generator) -> Case:
    n = _size(rng, 2)
    x = _signal(rng, n)
    return Case(np.einsum("ij,jk->ijk", rng.standard_normal((3 * n, n)), np.eye(n)), x, None)


@hostile
def checkerboard(rng: Generator) -> Case:
    """Entries with j + k odd vanish: even and odd coordinates have signs of their own."""
    n = _size(rng)
    x = _signal(rng, n)
    A = _gauss(rng, _plenty(rng, n, x), n)
    A[:, (np.add.outer(np.arange(n), np.arange(n)) % 2).astype(bool)] = 0
    return Case(A, x, None)


# -- symmetries in another basis ----------------------------------------------------------------------------------


@hostile
def commuting(rng: Generator) -> Case:
    n = _size(rng)
    Q = _turn(rng, n)
    return Case(np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((4 * n, n)), Q, optimize=True), _signal(rng, n), None)


@hostile
def commuting_nearly(rng: Generator) -> Case:
    n = _size(rng)
    Q = _turn(rng, n)
    A = np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((4 * n, n)), Q, optimize=True)
    return Case(A + 10.0 ** rng.uniform(-16, -11) * _gauss(rng, 4 * n, n), _signal(rng, n), None)


@hostile
def invariant_subspace(rng: Generator) -> Case:
    n = _size(rng)
    A = _blocks(rng, 4 * n, n, int(rng.integers(1, n)))
    return Case(_congruent(A, _turn(rng, n)), _signal(rng, n), None)


@hostile
def congruent_blocks(rng: Generator) -> Case:
    n = _size(rng)
    A = _blocks(rng, 4 * n, n, int(rng.integers(1, n)))
    return Case(_congruent(A, rng.standard_normal((n, n))), _signal(rng, n), None)


@hostile
def congruent_diagonal(rng: Generator) -> Case:
    n = _size(rng)
    T = rng.standard_normal((n, n))
    return Case(np.einsum("ja,ia,ka->ijk", T, rng.standard_normal((4 * n, n)), T, optimize=True), _signal(rng, n), None)


@hostile
def householder(rng: Generator) -> Case:
    """A_i and its mirror image in a hyperplane, averaged."""
    n = _size(rng)
    v = rng.standard_normal(n)
    H = np.eye(n) - 2 * np.outer(v, v) / (v @ v)
    A = _symmetric(rng, 4 * n, n)
    return Case((A + H @ A @ H) / 2, _signal(rng, n), None)


@hostile
def kronecker(rng: Generator) -> Case:
    """I ⊗ B_i: any rotation of the copies fits."""
    a, b = int(rng.integers(2, 4)), int(rng.integers(3, 10))
    B = _gauss(rng, 4 * a * b, b)
    return Case(np.einsum("pq,ijk->ipjqk", np.eye(a), B).reshape(len(B), a * b, a * b), _signal(rng, a * b), None)


@hostile
def complex_multiplication(rng: Generator) -> Case:
    """Real views of Hermitian matrices: a phase is free."""
    n = int(rng.integers(3, 16))
    P, S = _symmetric(rng, 8 * n, n), _gauss(rng, 8 * n, n)
    S = (S - S.transpose(0, 2, 1)) / 2
    return Case(np.block([[P, -S], [S, P]]), _signal(rng, 2 * n), False)


# -- relabelling --------------------------------------------------------------------------------------------------


def _toeplitz(rng: Generator, m: int, n: int) -> Array:
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return rng.standard_normal((m, n))[:, lag]


@hostile
def toeplitz(rng: Generator) -> Case:
    n = _size(rng)
    return Case(_toeplitz(rng, 4 * n, n), _signal(rng, n), None)


@hostile
def toeplitz_permuted(rng: Generator) -> Case:
    n = _size(rng)
    order = rng.permutation(n)
    return Case(_toeplitz(rng, 4 * n, n)[:, order[:, None], order], _signal(rng, n), None)


@hostile
def circulant_rounded(rng: Generator) -> Case:
    """By FFT, so that rounding hides the symmetry."""
    n = _size(rng)
    F = np.fft.fft(np.eye(n)) / np.sqrt(n)
    d = rng.standard_normal((4 * n, n))
    d = (d + d[:, -np.arange(n)]) / 2
    A = np.real(np.einsum("aj,ia,ak->ijk", F.conj(), d, F, optimize=True))
    return Case(A, _signal(rng, n), None)


@hostile
def mirror(rng: Generator) -> Case:
    n = _size(rng)
    A = _symmetric(rng, 4 * n, n)
    return Case(A + A[:, ::-1, ::-1], _signal(rng, n), None)


@hostile
def signed_mirror(rng: Generator) -> Case:
    n = _size(rng)
    A, s = _symmetric(rng, 4 * n, n), rng.choice([-1.0, 1.0], n // 2)
    s = np.concatenate([s, np.ones(n % 2), s[::-1]])
    return Case(A + (A * s * s[:, None])[:, ::-1, ::-1], _signal(rng, n), None)


@hostile
def exchangeable_pair(rng: Generator) -> Case:
    n = _size(rng)
    A = _symmetric(rng, 4 * n, n)
    swap = np.arange(n)
    j, k = rng.choice(n, 2, replace=False)
    swap[[j, k]] = k, j
    x = _signal(rng, n)
    return Case(A + A[:, swap[:, None], swap], x, None)


@hostile
def hankel(rng: Generator) -> Case:
    n = _size(rng)
    total = np.add.outer(np.arange(n), np.arange(n))
    return Case(rng.standard_normal((4 * n, 2 * n - 1))[:, total], _signal(rng, n), None)


@hostile
def laplacians(rng: Generator) -> Case:
    """Weighted graphs: a constant may be added to x."""
    n = _size(rng)
    m = 4 * n
    w = np.abs(_symmetric(rng, m, n)) * (rng.random((m, n, n)) < 0.3)
    w = w + w.transpose(0, 2, 1)
    w[:, np.arange(n), np.arange(n)] = 0
    return Case(np.einsum("ij,jk->ijk", w.sum(axis=2), np.eye(n)) - w, _signal(rng, n), False)


@hostile
def adjacency(rng: Generator) -> Case:
    """Random graphs: x_j x_k summed over their edges."""
    n = _size(rng, 12)
    x = _signal(rng, n, int(rng.integers(3, n + 1)))
    w = np.triu(rng.random((2 * _plenty(rng, n, x), n, n)) < 0.3, 1).astype(float)
    return Case(w + w.transpose(0, 2, 1), x, None)


@hostile
def constant_signal(rng: Generator) -> Case:
    n = _size(rng)
    return Case(_toeplitz(rng, 4 * n, n), np.full(n, n**-0.5), None)


@hostile
def local_degeneracy(rng: Generator) -> Case:
    """Gaussian matrices in which one pair of coordinates is coupled to the others in the same way."""
    n = _size(rng, 12)
    x = _signal(rng, n)
    A = _symmetric(rng, _plenty(rng, n, x), n)
    j, k = rng.choice(n, 2, replace=False)
    A[:, j], A[:, :, j] = A[:, k].copy(), A[:, :, k].copy()
    A[:, j, j] = A[:, k, k] = A[:, j, k] = A[:, k, j]
    return Case(A, x, None)


@hostile
def skew_part_only(rng: Generator) -> Case:
    """Mostly skew: what is measured is the little symmetric part."""
    n = _size(rng)
    x = _signal(rng, n)
    A = _gauss(rng, _plenty(rng, n, x), n)
    skew, symmetric = (A - A.transpose(0, 2, 1)) / 2, (A + A.transpose(0, 2, 1)) / 2
    return Case(skew + 10.0 ** rng.uniform(-12, 0) * symmetric, x, None)
