"""Classes of A that often leave x open: dependent measurements, coordinates that none sees, free signs, symmetries."""

from __future__ import annotations

import numpy as np

from benchmarks.studies.campaign.problems import (
    Array,
    Case,
    Generator,
    blocks,
    congruent,
    gauss,
    hostile,
    plenty,
    signal,
    size,
    symmetric,
    turn,
)

# -- dependent measurements ---------------------------------------------------------------------------------------


@hostile
def repeated(rng: Generator) -> Case:
    n = size(rng)
    some = int(rng.uniform(0.3, 1.6) * n)
    return Case(gauss(rng, some, n)[rng.integers(some, size=4 * n)], signal(rng, n), None)


@hostile
def repeated_but_enough(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    return Case(np.tile(gauss(rng, plenty(rng, n, x), n), (2, 1, 1)), x, True)


@hostile
def one_matrix(rng: Generator) -> Case:
    n = size(rng, 2)
    return Case(np.repeat(gauss(rng, 1, n), 2 * n, 0), signal(rng, n), n == 1)


@hostile
def low_span(rng: Generator) -> Case:
    n = size(rng)
    some = int(rng.uniform(0.3, 1.3) * n) + 1
    return Case(np.tensordot(rng.standard_normal((4 * n, some)), gauss(rng, some, n), 1), signal(rng, n), None)


@hostile
def low_span_nearly(rng: Generator) -> Case:
    """A low span and a little beyond it, near rounding."""
    n = size(rng)
    some = int(rng.uniform(0.3, 1.0) * n) + 1
    A = np.tensordot(rng.standard_normal((4 * n, some)), gauss(rng, some, n), 1)
    return Case(A + 10.0 ** rng.uniform(-16, -12) * gauss(rng, 4 * n, n), signal(rng, n), None)


@hostile
def oversampled_image(rng: Generator) -> Case:
    """Masks of a band-limited scan, sampled more finely than the band limit."""
    n = size(rng, 10, 30)
    m, band = 4 * n, int(rng.uniform(0.3, 1.2) * n)
    t = np.linspace(0, 1, m, endpoint=False)[:, None]
    f = np.arange(1, band // 2 + 2)
    waves = np.concatenate([np.cos(2 * np.pi * t * f), np.sin(2 * np.pi * t * f)], axis=1)[:, :band]
    return Case(np.tensordot(waves, gauss(rng, waves.shape[1], n), 1), signal(rng, n), None)


@hostile
def identity_multiples(rng: Generator) -> Case:
    n = size(rng, 2)
    m = 3 * n
    return Case(np.eye(n) * rng.standard_normal((m, 1, 1)), signal(rng, n), None)


@hostile
def constant_diagonal(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    A = symmetric(rng, plenty(rng, n, x), n)
    A[:, np.arange(n), np.arange(n)] = 1
    # Of two nonzeros only their product and the sum of their squares are seen.
    return Case(A, x, True if np.count_nonzero(x) > 2 else None)


@hostile
def hollow(rng: Generator) -> Case:
    """Zero diagonals: at least two coordinates are needed to see anything."""
    n = size(rng, 12)
    x = signal(rng, n, int(rng.integers(4, n + 1)))
    A = symmetric(rng, plenty(rng, n, x), n)
    A[:, np.arange(n), np.arange(n)] = 0
    return Case(A, x, True)


# -- coordinates and directions that nothing measures -------------------------------------------------------------


@hostile
def coordinate_unseen(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, plenty(rng, n, x), n)
    gone = rng.choice(n, int(rng.integers(1, 3)), replace=False)
    A[:, gone] = A[:, :, gone] = 0
    return Case(A, x, False)


@hostile
def coordinate_barely_seen(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n, n)
    c = np.ones(n)
    c[rng.integers(n)] = 10.0 ** rng.uniform(-14, -6)
    return Case(gauss(rng, plenty(rng, n, x), n) * c * c[:, None], x, None)


@hostile
def null_space(rng: Generator) -> Case:
    n = size(rng)
    P = turn(rng, n)[:, : n - int(rng.integers(1, 4))]
    A = gauss(rng, 4 * n, P.shape[1])
    return Case(congruent(A, P), signal(rng, n), None)


@hostile
def twin_columns(rng: Generator) -> Case:
    """Two coordinates that are measured alike, up to a factor."""
    n = size(rng)
    T = np.eye(n)
    j, k = rng.choice(n, 2, replace=False)
    T[k] = rng.choice([1.0, 2.0, -1.0]) * T[j]
    x = signal(rng, n)
    return Case(congruent(gauss(rng, plenty(rng, n, x), n), T), x, None)


@hostile
def dependent_triple(rng: Generator) -> Case:
    """One coordinate's column is a sum of two others'."""
    n = size(rng, 10)
    T = np.eye(n)
    a, b, c = rng.choice(n, 3, replace=False)
    T[c] = T[a] + rng.uniform(0.5, 2) * T[b]
    x = signal(rng, n, int(rng.integers(2, n + 1)))
    x[a] += 0.3
    return Case(congruent(gauss(rng, plenty(rng, n, x), n), T), x, None)


# -- free signs ---------------------------------------------------------------------------------------------------


@hostile
def two_blocks(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    cut = int(rng.integers(1, n))
    open_ = x[:cut].any() and x[cut:].any()
    return Case(blocks(rng, plenty(rng, n, x), n, cut), x, False if open_ else None)


@hostile
def hidden_blocks(rng: Generator) -> Case:
    """The blocks in a random order of the coordinates, one of them of one or two."""
    n = size(rng)
    x = signal(rng, n)
    order = rng.permutation(n)
    A = blocks(rng, plenty(rng, n, x), n, int(rng.integers(1, 3)))
    return Case(A[:, order[:, None], order], x, None)


@hostile
def weak_coupling(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    cut = int(rng.integers(1, n))
    A = gauss(rng, plenty(rng, n, x), n)
    weak = 10.0 ** rng.uniform(-16, -6)
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    return Case(A, x, None)


@hostile
def diagonal(rng: Generator) -> Case:
    n = size(rng, 2)
    x = signal(rng, n)
    return Case(np.einsum("ij,jk->ijk", rng.standard_normal((3 * n, n)), np.eye(n)), x, None)


@hostile
def checkerboard(rng: Generator) -> Case:
    """Entries with j + k odd vanish: even and odd coordinates have signs of their own."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, plenty(rng, n, x), n)
    A[:, (np.add.outer(np.arange(n), np.arange(n)) % 2).astype(bool)] = 0
    return Case(A, x, None)


# -- symmetries in another basis ----------------------------------------------------------------------------------


@hostile
def commuting(rng: Generator) -> Case:
    n = size(rng)
    Q = turn(rng, n)
    return Case(np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((4 * n, n)), Q, optimize=True), signal(rng, n), None)


@hostile
def commuting_nearly(rng: Generator) -> Case:
    n = size(rng)
    Q = turn(rng, n)
    A = np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((4 * n, n)), Q, optimize=True)
    return Case(A + 10.0 ** rng.uniform(-16, -11) * gauss(rng, 4 * n, n), signal(rng, n), None)


@hostile
def invariant_subspace(rng: Generator) -> Case:
    n = size(rng)
    A = blocks(rng, 4 * n, n, int(rng.integers(1, n)))
    return Case(congruent(A, turn(rng, n)), signal(rng, n), None)


@hostile
def congruent_blocks(rng: Generator) -> Case:
    n = size(rng)
    A = blocks(rng, 4 * n, n, int(rng.integers(1, n)))
    return Case(congruent(A, rng.standard_normal((n, n))), signal(rng, n), None)


@hostile
def congruent_diagonal(rng: Generator) -> Case:
    n = size(rng)
    T = rng.standard_normal((n, n))
    return Case(np.einsum("ja,ia,ka->ijk", T, rng.standard_normal((4 * n, n)), T, optimize=True), signal(rng, n), None)


@hostile
def householder(rng: Generator) -> Case:
    """A_i and its mirror image in a hyperplane, averaged."""
    n = size(rng)
    v = rng.standard_normal(n)
    H = np.eye(n) - 2 * np.outer(v, v) / (v @ v)
    A = symmetric(rng, 4 * n, n)
    return Case((A + H @ A @ H) / 2, signal(rng, n), None)


@hostile
def kronecker(rng: Generator) -> Case:
    """I ⊗ B_i: any rotation of the copies fits."""
    a, b = int(rng.integers(2, 4)), int(rng.integers(3, 10))
    B = gauss(rng, 4 * a * b, b)
    return Case(np.einsum("pq,ijk->ipjqk", np.eye(a), B).reshape(len(B), a * b, a * b), signal(rng, a * b), None)


@hostile
def complex_multiplication(rng: Generator) -> Case:
    """Real views of Hermitian matrices: a phase is free."""
    n = int(rng.integers(3, 16))
    P, S = symmetric(rng, 8 * n, n), gauss(rng, 8 * n, n)
    S = (S - S.transpose(0, 2, 1)) / 2
    return Case(np.block([[P, -S], [S, P]]), signal(rng, 2 * n), False)


# -- relabelling --------------------------------------------------------------------------------------------------


def toeplitz_matrices(rng: Generator, m: int, n: int) -> Array:
    """Symmetric Toeplitz matrices."""
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return rng.standard_normal((m, n))[:, lag]


@hostile
def toeplitz(rng: Generator) -> Case:
    n = size(rng)
    return Case(toeplitz_matrices(rng, 4 * n, n), signal(rng, n), None)


@hostile
def toeplitz_permuted(rng: Generator) -> Case:
    n = size(rng)
    order = rng.permutation(n)
    return Case(toeplitz_matrices(rng, 4 * n, n)[:, order[:, None], order], signal(rng, n), None)


@hostile
def circulant_rounded(rng: Generator) -> Case:
    """By FFT, so that rounding hides the symmetry."""
    n = size(rng)
    F = np.fft.fft(np.eye(n)) / np.sqrt(n)
    d = rng.standard_normal((4 * n, n))
    d = (d + d[:, -np.arange(n)]) / 2
    A = np.real(np.einsum("aj,ia,ak->ijk", F.conj(), d, F, optimize=True))
    return Case(A, signal(rng, n), None)


@hostile
def mirror(rng: Generator) -> Case:
    n = size(rng)
    A = symmetric(rng, 4 * n, n)
    return Case(A + A[:, ::-1, ::-1], signal(rng, n), None)


@hostile
def signed_mirror(rng: Generator) -> Case:
    n = size(rng)
    A, s = symmetric(rng, 4 * n, n), rng.choice([-1.0, 1.0], n // 2)
    s = np.concatenate([s, np.ones(n % 2), s[::-1]])
    return Case(A + (A * s * s[:, None])[:, ::-1, ::-1], signal(rng, n), None)


@hostile
def exchangeable_pair(rng: Generator) -> Case:
    n = size(rng)
    A = symmetric(rng, 4 * n, n)
    swap = np.arange(n)
    j, k = rng.choice(n, 2, replace=False)
    swap[[j, k]] = k, j
    x = signal(rng, n)
    return Case(A + A[:, swap[:, None], swap], x, None)


@hostile
def hankel(rng: Generator) -> Case:
    n = size(rng)
    total = np.add.outer(np.arange(n), np.arange(n))
    return Case(rng.standard_normal((4 * n, 2 * n - 1))[:, total], signal(rng, n), None)


@hostile
def laplacians(rng: Generator) -> Case:
    """Weighted graphs: a constant may be added to x."""
    n = size(rng)
    m = 4 * n
    w = np.abs(symmetric(rng, m, n)) * (rng.random((m, n, n)) < 0.3)
    w = w + w.transpose(0, 2, 1)
    w[:, np.arange(n), np.arange(n)] = 0
    return Case(np.einsum("ij,jk->ijk", w.sum(axis=2), np.eye(n)) - w, signal(rng, n), False)


@hostile
def adjacency(rng: Generator) -> Case:
    """Random graphs: x_j x_k summed over their edges."""
    n = size(rng, 12)
    x = signal(rng, n, int(rng.integers(3, n + 1)))
    w = np.triu(rng.random((2 * plenty(rng, n, x), n, n)) < 0.3, 1).astype(float)
    return Case(w + w.transpose(0, 2, 1), x, None)


@hostile
def constant_signal(rng: Generator) -> Case:
    n = size(rng)
    return Case(toeplitz_matrices(rng, 4 * n, n), np.full(n, n**-0.5), None)


@hostile
def local_degeneracy(rng: Generator) -> Case:
    """Gaussian matrices in which one pair of coordinates is coupled to the others in the same way."""
    n = size(rng, 12)
    x = signal(rng, n)
    A = symmetric(rng, plenty(rng, n, x), n)
    j, k = rng.choice(n, 2, replace=False)
    A[:, j], A[:, :, j] = A[:, k].copy(), A[:, :, k].copy()
    A[:, j, j] = A[:, k, k] = A[:, j, k] = A[:, k, j]
    return Case(A, x, None)


@hostile
def skew_part_only(rng: Generator) -> Case:
    """Mostly skew: what is measured is the little symmetric part."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, plenty(rng, n, x), n)
    skew, symmetric = (A - A.transpose(0, 2, 1)) / 2, (A + A.transpose(0, 2, 1)) / 2
    return Case(skew + 10.0 ** rng.uniform(-12, 0) * symmetric, x, None)
