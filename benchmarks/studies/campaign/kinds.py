"""Other kinds of A: complex, affine, sparse, of rank one, in single and half precision; structure well hidden."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import fastquad as fq
from benchmarks.studies.campaign.problems import (
    Array,
    Case,
    Generator,
    blocks,
    congruent,
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

# -- complex signals ----------------------------------------------------------------------------------------------


def _hermitian(rng: Generator, m: int, n: int) -> Array:
    A = gauss(rng, m, n) + 1j * gauss(rng, m, n)
    return (A + A.conj().transpose(0, 2, 1)) / 2


def _complex_signal(rng: Generator, n: int, k: int | None = None) -> Array:
    """Moduli as those of real signals, phases at random."""
    x = signal(rng, n, k)
    return x * np.exp(2j * np.pi * rng.random(n))


def _complex_size(rng: Generator) -> int:
    return size(rng, 5, 20)


@hostile
def complex_gaussian(rng: Generator) -> Case:
    n = _complex_size(rng)
    return Case(_hermitian(rng, int(rng.uniform(5, 7) * n), n), _complex_signal(rng, n), True)


@hostile
def complex_few(rng: Generator) -> Case:
    n = _complex_size(rng)
    return Case(_hermitian(rng, int(rng.uniform(1, 5) * n), n), _complex_signal(rng, n), None)


@hostile
def complex_blocks(rng: Generator) -> Case:
    """Two blocks in a random order, coupled weakly or not at all."""
    n = _complex_size(rng)
    x, order, cut = _complex_signal(rng, n), rng.permutation(n), int(rng.integers(1, n))
    A = _hermitian(rng, 6 * n, n)
    weak = rng.choice([0.0, 10.0 ** rng.uniform(-16, -7)])
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    return Case(A[:, order[:, None], order], x, None)


@hostile
def complex_of_real_matrices(rng: Generator) -> Case:
    """The conjugate fits as well."""
    n = _complex_size(rng)
    return Case(symmetric(rng, 6 * n, n) + 0j, _complex_signal(rng, n), None)


@hostile
def complex_hidden_conjugation(rng: Generator) -> Case:
    """Real matrices in a complex basis: no entry is real, and yet there is a twin."""
    n = _complex_size(rng)
    U = np.diag(np.exp(2j * np.pi * rng.random(n)))
    if rng.random() < 0.5:
        U = np.linalg.qr(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)))[0]
    A = U @ symmetric(rng, 6 * n, n) @ U.conj().T
    return Case((A + A.conj().transpose(0, 2, 1)) / 2, _complex_signal(rng, n), None)


@hostile
def complex_toeplitz(rng: Generator) -> Case:
    """Reversed and conjugated, x fits as well; the coordinates may be permuted."""
    n = _complex_size(rng)
    m, lag = 6 * n, np.subtract.outer(np.arange(n), np.arange(n))
    c = rng.standard_normal((m, n)) + 1j * rng.standard_normal((m, n))
    c[:, 0] = c[:, 0].real
    A = np.where(lag >= 0, c[:, np.abs(lag)], c[:, np.abs(lag)].conj())
    order = rng.permutation(n) if rng.random() < 0.5 else np.arange(n)
    return Case(A[:, order[:, None], order], _complex_signal(rng, n), None)


@hostile
def complex_commuting(rng: Generator) -> Case:
    n = _complex_size(rng)
    U = np.linalg.qr(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)))[0]
    A = np.einsum("ja,ia,ka->ijk", U, rng.standard_normal((6 * n, n)), U.conj(), optimize=True)
    return Case(A, _complex_signal(rng, n), None)


@hostile
def complex_invariant_subspace(rng: Generator) -> Case:
    n = _complex_size(rng)
    A, cut = _hermitian(rng, 6 * n, n), int(rng.integers(1, n))
    A[:, :cut, cut:] = A[:, cut:, :cut] = 0
    T = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    return Case(np.einsum("ja,iab,kb->ijk", T, A, T.conj(), optimize=True), _complex_signal(rng, n), None)


@hostile
def complex_mirror(rng: Generator) -> Case:
    """A coordinate exchange, of two or of all, leaves A as it is."""
    n = _complex_size(rng)
    A, swap = _hermitian(rng, 6 * n, n), np.arange(n)[::-1].copy()
    if rng.random() < 0.5:
        swap = np.arange(n)
        j, k = rng.choice(n, 2, replace=False)
        swap[[j, k]] = k, j
    return Case(A + A[:, swap[:, None], swap], _complex_signal(rng, n), None)


@hostile
def complex_unseen(rng: Generator) -> Case:
    n = _complex_size(rng)
    A, gone = _hermitian(rng, 6 * n, n), int(rng.integers(n))
    A[:, gone] = A[:, :, gone] = 0
    return Case(A, _complex_signal(rng, n), False)


@hostile
def complex_low_span(rng: Generator) -> Case:
    n = _complex_size(rng)
    some = int(rng.uniform(0.5, 2.5) * n) + 1
    return Case(
        np.tensordot(rng.standard_normal((6 * n, some)), _hermitian(rng, some, n), 1), _complex_signal(rng, n), None
    )


@hostile
def complex_single_precision(rng: Generator) -> Case:
    n = _complex_size(rng)
    return Case(_hermitian(rng, 6 * n, n).astype(np.complex64), _complex_signal(rng, n), None)


@hostile
def complex_sparse(rng: Generator) -> Case:
    n = size(rng, 10, 20)
    A = _hermitian(rng, 12 * n, n)
    mask = np.triu(rng.random(A.shape) < 0.15)
    return Case(A * (mask | mask.transpose(0, 2, 1)), _complex_signal(rng, n), None)


# -- affine measurements ------------------------------------------------------------------------------------------


def _affine(A: Array, b: Array, x: Array, determined: bool | None) -> Case:
    return Case(A, x, determined, form=lambda A: fq.AffineTensor(A, b), linear=b)


@hostile
def affine(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    m = plenty(rng, n, x)
    return _affine(gauss(rng, m, n), rng.standard_normal((m, n)), x, True)


@hostile
def affine_few(rng: Generator) -> Case:
    n = size(rng)
    m = open_or_not(rng, n)
    return _affine(gauss(rng, m, n), rng.standard_normal((m, n)), signal(rng, n), None)


@hostile
def affine_weak_linear(rng: Generator) -> Case:
    """The linear terms, which alone tell x from −x, are next to nothing."""
    n = size(rng)
    x = signal(rng, n)
    m = plenty(rng, n, x)
    weak = 10.0 ** rng.uniform(-18, -6)
    return _affine(gauss(rng, m, n), weak * rng.standard_normal((m, n)), x, None)


@hostile
def affine_on_a_block(rng: Generator) -> Case:
    """Two blocks, of which the linear terms fix the sign of one."""
    n = size(rng)
    x = signal(rng, n)
    m, cut = plenty(rng, n, x), int(rng.integers(1, n))
    b = rng.standard_normal((m, n))
    b[:, cut:] = 0
    return _affine(blocks(rng, m, n, cut), b, x, False if x[cut:].any() else None)


@hostile
def affine_fixes_blocks(rng: Generator) -> Case:
    """Two blocks, and linear terms that fix both signs."""
    n = size(rng)
    x = signal(rng, n)
    m = plenty(rng, n, x)
    return _affine(blocks(rng, m, n, int(rng.integers(1, n))), rng.standard_normal((m, n)), x, True)


@hostile
def affine_toeplitz(rng: Generator) -> Case:
    """Toeplitz matrices with linear terms that are symmetric as well, or not."""
    n = size(rng)
    b = rng.standard_normal((4 * n, n))
    if rng.random() < 0.5:
        b = b + b[:, ::-1]
    return _affine(toeplitz_matrices(rng, 4 * n, n), b, signal(rng, n), None)


# -- sparse matrices ----------------------------------------------------------------------------------------------


def _as_sparse(A: Array) -> fq.SparseTensor:
    return fq.SparseTensor([scipy.sparse.csr_array(matrix) for matrix in A])


@hostile
def sparse_tensor(rng: Generator) -> Case:
    n = size(rng, 20)
    x = signal(rng, n)
    m = 2 * plenty(rng, n, x)
    A = gauss(rng, m, n) * (rng.random((m, n, n)) < rng.uniform(0.02, 0.2))
    return Case(A, x, None, form=_as_sparse)


@hostile
def banded(rng: Generator) -> Case:
    """Between parts of x that are further apart than the band no sign is fixed."""
    n = size(rng, 12)
    width = int(rng.integers(1, 4))
    band = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= width
    return Case(gauss(rng, 5 * n, n) * band, signal(rng, n), None, form=_as_sparse if rng.random() < 0.5 else np.array)


@hostile
def tree_of_couplings(rng: Generator) -> Case:
    """All matrices have the same few entries, along a tree: where x is zero, it falls apart."""
    n = size(rng, 8, 30)
    edges = np.eye(n, dtype=bool)
    for j in range(1, n):
        k = int(rng.integers(j))
        edges[j, k] = edges[k, j] = True
    return Case(gauss(rng, 5 * n, n) * edges, signal(rng, n), None, form=_as_sparse)


# -- rank one -----------------------------------------------------------------------------------------------------


def _of_vectors(a: Array, x: Array, determined: bool | None = None) -> Case:
    return Case(a[:, :, None] * a[:, None, :], x, determined, form=lambda _: fq.RankOneTensor(a))


@hostile
def rank_one_tensor(rng: Generator) -> Case:
    n = size(rng)
    return _of_vectors(rng.standard_normal((int(rng.uniform(1, 5) * n), n)), signal(rng, n))


@hostile
def rank_one_signs(rng: Generator) -> Case:
    """±1: single coordinates are not told from each other."""
    n = size(rng, 4)
    return _of_vectors(rng.choice([-1.0, 1.0], (int(rng.uniform(2, 6) * n), n)), signal(rng, n))


@hostile
def rank_one_binary(rng: Generator) -> Case:
    n = size(rng, 4)
    return _of_vectors((rng.random((int(rng.uniform(2, 6) * n), n)) < 0.4).astype(float), signal(rng, n))


@hostile
def rank_one_waves(rng: Generator) -> Case:
    """Cosines and sines of n frequencies, oversampled: moduli of a real Fourier transform."""
    n = size(rng)
    m = 4 * n
    t = 2 * np.pi * np.arange(m)[:, None] / m * np.arange(n)
    a = np.cos(t) if rng.random() < 0.5 else np.cos(t - 2 * np.pi * rng.random((m, 1)))
    return _of_vectors(a, signal(rng, n))


@hostile
def rank_one_two_subspaces(rng: Generator) -> Case:
    """Each vector lies in one of two subspaces: the sign of a part of x is free."""
    n = size(rng)
    Q, cut = turn(rng, n), int(rng.integers(1, n))
    c = rng.standard_normal((6 * n, n))
    c[: 3 * n, cut:] = 0
    c[3 * n :, :cut] = 0
    return _of_vectors(c @ Q.T, signal(rng, n))


@hostile
def rank_one_few_directions(rng: Generator) -> Case:
    """More vectors than directions: the others are multiples."""
    n = size(rng)
    some = rng.standard_normal((int(rng.uniform(0.7, 2) * n), n))
    a = some[rng.integers(len(some), size=5 * n)] * rng.standard_normal((5 * n, 1))
    return _of_vectors(a, signal(rng, n))


# -- single and half precision ------------------------------------------------------------------------------------


@hostile
def half_precision(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(gauss(rng, plenty(rng, n, x), n).astype(np.float16), x, None)


@hostile
def rounded_by_the_user(rng: Generator) -> Case:
    """y of matrices in double precision, and the matrices in single or half."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, plenty(rng, n, x), n)
    y = np.einsum("ijk,j,k->i", A, x, x, optimize=True)
    stored = A.astype(rng.choice([np.float32, np.float16]))
    return Case(stored, x, None, added=y - np.einsum("ijk,j,k->i", stored.astype(float), x, x, optimize=True))


def _single_structure(rng: Generator, n: int) -> Array:
    m, order = 4 * n, rng.permutation(n)
    kind = int(rng.integers(6))
    if kind == 0:
        return toeplitz_matrices(rng, m, n)[:, order[:, None], order]
    if kind == 1:
        A = symmetric(rng, m, n)
        return A + A[:, ::-1, ::-1]
    if kind == 2:
        Q = turn(rng, n)
        return np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((m, n)), Q, optimize=True)
    if kind == 3:
        return congruent(blocks(rng, m, n, int(rng.integers(1, n))), turn(rng, n))
    if kind == 4:
        some = int(rng.uniform(0.3, 1.2) * n) + 1
        return np.tensordot(rng.standard_normal((m, some)), gauss(rng, some, n), 1)
    A, cut = gauss(rng, m, n), int(rng.integers(1, n))
    weak = 10.0 ** rng.uniform(-10, -5)
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    return A


@hostile
def single_precision_structures(rng: Generator) -> Case:
    """Permuted Toeplitz, mirrors, commuting, subspaces, low span, weak coupling; rounded to single precision."""
    n = size(rng)
    return Case(_single_structure(rng, n).astype(np.float32), signal(rng, n), None)


@hostile
def half_precision_structures(rng: Generator) -> Case:
    n = size(rng)
    return Case(_single_structure(rng, n).astype(np.float16), signal(rng, n), None)


# -- structure that is well hidden --------------------------------------------------------------------------------


@hostile
def nearly_structured(rng: Generator) -> Case:
    """Permuted Toeplitz, mirrors, …, and a little beyond, from rounding to a millionth."""
    n = size(rng)
    A = _single_structure(rng, n)
    return Case(A + 10.0 ** rng.uniform(-17, -6) * gauss(rng, len(A), n), signal(rng, n), None)


@hostile
def involution(rng: Generator) -> Case:
    """A_i and its image under a Q with Q² = 1, averaged: in any basis, orthogonal or not."""
    n = size(rng)
    T = turn(rng, n) if rng.random() < 0.5 else rng.standard_normal((n, n))
    Q = T @ np.diag(rng.choice([-1.0, 1.0], n)) @ np.linalg.inv(T)
    A = symmetric(rng, 4 * n, n)
    return Case(A + Q.T @ A @ Q, signal(rng, n), None)


@hostile
def rotations_of_order_three(rng: Generator) -> Case:
    """A_i and its images under a Q with Q³ = 1, averaged."""
    n = size(rng, 6)
    Q = np.eye(n)
    pairs = int(rng.integers(1, n // 2 + 1))
    c, s = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
    for j in range(pairs):
        Q[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [[c, -s], [s, c]]
    T = turn(rng, n)
    Q = T @ Q @ T.T
    A = symmetric(rng, 4 * n, n)
    return Case(A + Q.T @ A @ Q + Q @ A @ Q.T, signal(rng, n), None)


@hostile
def permutation_of_order_three(rng: Generator) -> Case:
    """The same for a relabelling of some coordinates in threes."""
    n = size(rng, 6)
    step, cycles = np.arange(n), rng.permutation(n)
    for j in range(int(rng.integers(1, n // 3 + 1))):
        a, b, c = cycles[3 * j : 3 * j + 3]
        step[[a, b, c]] = b, c, a
    A = symmetric(rng, 4 * n, n)
    twice = step[step]
    return Case(A + A[:, step[:, None], step] + A[:, twice[:, None], twice], signal(rng, n), None)


@hostile
def swapped_halves(rng: Generator) -> Case:
    """[[B, C], [C, B]], the coordinates permuted."""
    h = size(rng, 4, 18)
    B, C, order = symmetric(rng, 8 * h, h), symmetric(rng, 8 * h, h), rng.permutation(2 * h)
    A = np.block([[B, C], [C, B]])
    return Case(A[:, order[:, None], order], signal(rng, 2 * h), None)


@hostile
def symmetry_off_the_support(rng: Generator) -> Case:
    """A coordinate outside of the support does to the others what one inside of it does."""
    n = size(rng, 10)
    x = signal(rng, n, int(rng.integers(1, n // 2)))
    A = symmetric(rng, plenty(rng, n, x), n)
    S, rest = np.flatnonzero(x), np.flatnonzero(x == 0)
    j, k = rng.choice(S), rng.choice(rest)
    others = np.setdiff1d(S, j)
    sign = rng.choice([-1.0, 1.0])
    A[:, k, others] = A[:, others, k] = sign * A[:, j, others]
    A[:, k, k] = A[:, j, j]
    return Case(A, x, False)


@hostile
def low_span_ill_scaled(rng: Generator) -> Case:
    """A low span, with measurements of very different size."""
    n = size(rng)
    some = int(rng.uniform(0.3, 1.3) * n) + 1
    A = np.tensordot(rng.standard_normal((4 * n, some)), gauss(rng, some, n), 1)
    return Case(A * 10.0 ** rng.uniform(-3, 3, (4 * n, 1, 1)), signal(rng, n), None)


@hostile
def common_part(rng: Generator) -> Case:
    """A large matrix that all have in common, and the little by which they differ."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, plenty(rng, n, x), n)
    return Case(gauss(rng, 1, n) + 10.0 ** rng.uniform(-12, 0) * A, x, None)


@hostile
def extreme_scales(rng: Generator) -> Case:
    n = size(rng, 4, 20)
    x = signal(rng, n)
    scale = rng.uniform(-90, 90)  # of y; beyond 1e±100 it is refused
    norm = rng.uniform(-60, 60)
    A = gauss(rng, plenty(rng, n, x), n) * 10.0 ** (scale - 2 * norm)
    return Case(A, x * 10.0**norm, None, plain=True)
