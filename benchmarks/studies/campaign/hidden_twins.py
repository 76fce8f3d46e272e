"""Classes in which this x has a twin, although the matrices have no symmetry that makes one of every x."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastquad as fq
from benchmarks.studies.campaign.problems import (
    Array,
    Case,
    Generator,
    congruent,
    gauss,
    hostile,
    plenty,
    signal,
    size,
    symmetric,
    turn,
)

#: Classes that are run by name only: to find a second solution that was planted is as hard as a search can be.
BY_NAME = ("planted twin", "complex planted twin")


def blind_to(A: Array, D: Array) -> Array:
    """A without its component along a Hermitian D."""
    along = np.einsum("ijk,jk->i", A, D.conj(), optimize=True) / np.sum(np.abs(D) ** 2)
    return A - along[:, None, None] * D


def _of_one(A: Array, x: Array, determined: bool | None = False, **options: Any) -> Case:
    return Case(A, x, determined, options=options, plain=bool(options))


@hostile
def planted_twin(rng: Generator) -> Case:
    """Two signals that no matrix tells apart: <A_i, uu^T − vv^T> = 0."""
    n = size(rng, 8, 24)
    u, v = rng.standard_normal((2, n))
    A = symmetric(rng, int(rng.uniform(1.6, 4) * n), n)
    return _of_one(blind_to(A, np.outer(u, u) - np.outer(v, v)), u)


@hostile
def complex_planted_twin(rng: Generator) -> Case:
    n = size(rng, 5, 12)
    u, v = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
    m = int(rng.uniform(3.5, 7) * n)
    A = gauss(rng, m, n) + 1j * gauss(rng, m, n)
    A = (A + A.conj().transpose(0, 2, 1)) / 2
    return _of_one(blind_to(A, np.outer(u, u.conj()) - np.outer(v, v.conj())), u)


@hostile
def balanced_coupling(rng: Generator) -> Case:
    """Two halves of x, each constant, and couplings between them that add up to zero in every row and column."""
    half = size(rng, 4, 12)
    A = symmetric(rng, 6 * half, 2 * half)
    across = A[:, :half, half:]
    across = across - across.mean(axis=1, keepdims=True)
    across = across - across.mean(axis=2, keepdims=True)
    A[:, :half, half:], A[:, half:, :half] = across, across.transpose(0, 2, 1)
    return _of_one(A, np.repeat(rng.uniform(0.5, 1.5, 2), half))


@hostile
def subsystem_in_a_basis(rng: Generator) -> Case:
    """Two or three directions that as many matrices see, and no others."""
    n, count = size(rng, 8, 28), int(rng.integers(2, 4))
    A = symmetric(rng, 3 * n, n)
    A[:-count, :count, :] = A[:-count, :, :count] = 0
    return _of_one(congruent(A, turn(rng, n)), rng.standard_normal(n))


@hostile
def reflection_off_the_support(rng: Generator) -> Case:
    """A reflection that moves x to coordinates where it was zero."""
    n = size(rng, 8, 24)
    v = np.zeros(n)
    v[:4] = 0.5
    H = np.eye(n) - 2 * np.outer(v, v)
    A = symmetric(rng, int(rng.uniform(1.2, 3) * n), n)
    x = np.zeros(n)
    x[:2], x[4:7] = 1.0, rng.standard_normal(3)
    return _of_one((A + congruent(A, H)) / 2, x)


@hostile
def unseen_cycle(rng: Generator) -> Case:
    """No matrix sees (1, 1, −1, −1): two values at the first two coordinates may as well be at the next two."""
    n = size(rng, 12, 40)
    T = np.eye(n)
    T[:, 3] = T[:, 0] + T[:, 1] - T[:, 2]
    A = congruent(symmetric(rng, int(rng.uniform(0.6, 1.5) * n), n), T.T)
    x = np.zeros(n)
    x[:2], x[rng.choice(np.arange(4, n), 2, replace=False)] = 1.0, rng.standard_normal(2)
    return _of_one(A, x)


@hostile
def tomography(rng: Generator) -> Case:
    """Only sums of rows and of columns of a picture of zeros and ones are measured."""
    side = int(rng.integers(3, 6))
    D = np.concatenate([np.kron(np.eye(side), np.ones(side)), np.kron(np.ones(side), np.eye(side))])
    A = congruent(symmetric(rng, int(rng.uniform(1, 2.5) * side**2), 2 * side), D.T)
    x = (rng.random(side**2) < 0.4).astype(float)
    x[0] = 1.0
    return _of_one(A, x, None, prior=fq.Discrete([0.0, 1.0]))


@hostile
def known_in_both_blocks(rng: Generator) -> Case:
    """Two blocks whose relative sign is free, but for a value that is known in each."""
    n = size(rng, 8, 24)
    cut = int(rng.integers(2, n - 1))
    x = rng.uniform(0.5, 1.5, n) * rng.choice([-1, 1], n)
    A = gauss(rng, plenty(rng, n, x), n)
    A[:, :cut, cut:] = A[:, cut:, :cut] = 0
    return _of_one(A, x, True, prior=fq.Sparse(fixed={0: float(x[0]), n - 1: float(x[-1])}))


@hostile
def pieces_in_strong_noise(rng: Generator) -> Case:
    """A signal that is constant in pieces, in noise of a level that is told and nearly as large as y."""
    n = size(rng, 12, 30)
    x = np.repeat(rng.standard_normal(4), n // 4 + 1)[:n]
    A = symmetric(rng, int(rng.uniform(1.5, 5) * n), n)
    return Case(A, x, None, options={"prior": fq.PiecewiseConstant()}, plain=True, sigma=float(rng.uniform(0.2, 1.0)),
                told=bool(rng.integers(2)))  # fmt: skip


@hostile
def few_values_on_a_told_support(rng: Generator) -> Case:
    """Matrices of ±1, and hardly more measurements than told coordinates."""
    n, s = 20, int(rng.integers(2, 6))
    A = rng.choice([-1.0, 1.0], (s + int(rng.integers(1, 4)), n, n))
    x = np.zeros(n)
    x[:s] = signal(rng, s, s) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], s)
    return _of_one(A, x, None, prior=fq.Sparse(support=np.arange(s)))
