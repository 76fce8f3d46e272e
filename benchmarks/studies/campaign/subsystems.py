"""Classes in which all coordinates have measurements to spare, but some of them few or none."""

from __future__ import annotations

import numpy as np

from benchmarks.studies.campaign.problems import Array, Case, Generator, gauss, hostile, signal, size


def _unseen_by_most(rng: Generator, A: Array, count: int, last: int) -> Array:
    """A in which `count` coordinates are in the last few matrices only."""
    few = rng.choice(A.shape[1], count, replace=False)
    A[: len(A) - last, few, :] = A[: len(A) - last, :, few] = 0
    return A


def _dense(rng: Generator, n: int, *, turning: bool = False) -> Array:
    x = rng.standard_normal(n) + (1j * rng.standard_normal(n) if turning else 0.0)
    return x / np.linalg.norm(x)


def _hermitian(rng: Generator, m: int, n: int) -> Array:
    A = rng.standard_normal((m, n, n)) + 1j * rng.standard_normal((m, n, n))
    return (A + A.transpose(0, 2, 1).conj()) / 2


@hostile
def square_subsystem(rng: Generator) -> Case:
    """Some coordinates are in as many matrices as they are: quadratic equations with other solutions."""
    n, count = size(rng, 8, 28), int(rng.integers(1, 6))
    return Case(_unseen_by_most(rng, gauss(rng, 3 * n, n), count, count), _dense(rng, n), False)


@hostile
def nearly_square_subsystem(rng: Generator) -> Case:
    """The same with one to three matrices more."""
    n, count = size(rng, 8, 28), int(rng.integers(1, 6))
    A = _unseen_by_most(rng, gauss(rng, 3 * n, n), count, count + int(rng.integers(1, 4)))
    return Case(A, _dense(rng, n), True)


@hostile
def complex_square_subsystem(rng: Generator) -> Case:
    """Complex entries that are in twice as many matrices as they are, or a few more."""
    n, count, more = size(rng, 6, 18), int(rng.integers(1, 4)), int(rng.integers(0, 4))
    A = _unseen_by_most(rng, _hermitian(rng, 6 * n, n), count, 2 * count + more)
    return Case(A, _dense(rng, n, turning=True), more > 0)


@hostile
def nested_subsystems(rng: Generator) -> Case:
    """A staircase: each next coordinate is in a few matrices less, the last in as many as are left, or in one more."""
    n = size(rng, 8, 20)
    A = gauss(rng, 3 * n, n)
    for j in range(n):
        A[: 2 * j, j, :] = A[: 2 * j, :, j] = 0
    last = int(rng.integers(1, 3))
    A[: len(A) - last, n - 1, :] = A[: len(A) - last, :, n - 1] = 0
    return Case(A, _dense(rng, n), last > 1)


@hostile
def one_shared_coordinate(rng: Generator) -> Case:
    """Two groups of matrices that see one coordinate in common; where it is zero, a sign is free."""
    n = size(rng, 8, 28)
    half, x = n // 2, _dense(rng, n)
    A = gauss(rng, 4 * n, n)
    A[::2, half + 1 :, :] = A[::2, :, half + 1 :] = 0
    A[1::2, :half, :] = A[1::2, :, :half] = 0
    if rng.random() < 0.5:
        x[half] = 0.0
    return Case(A, x, bool(x[half] != 0))


@hostile
def one_coupling_matrix(rng: Generator) -> Case:
    """Two blocks, and one or two matrices that couple them."""
    n = size(rng, 8, 28)
    half, few = n // 2, int(rng.integers(1, 3))
    A = gauss(rng, 4 * n, n)
    A[few:, :half, half:] = A[few:, half:, :half] = 0
    return Case(A, signal(rng, n), None)
