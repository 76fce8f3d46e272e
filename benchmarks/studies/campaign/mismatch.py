"""Data that are not of the model, or of it only in part: mixed, drifting and clipped signals, noise with a pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastquad as fq
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


def _exact(A: Array, x: Array) -> Array:
    return np.einsum("ijk,j,k->i", A, x.conj(), x, optimize=True).real


def _seen(A: Array, x: Array, y: Array, **options: Any) -> Case:
    """The case in which these numbers are measured in the place of those of x."""
    return Case(A, x, None, options=options, plain=True, added=y - _exact(A, x))


def _scale(y: Array) -> float:
    return float(np.sqrt(np.mean(y**2)))


def _hidden_symmetry(rng: Generator, n: int) -> Array:
    """Dense matrices, in which no sample of entries shows that there is a twin."""
    m, kind = 5 * n, int(rng.integers(3))
    if kind == 0:
        Q = turn(rng, n)
        return np.einsum("ja,ia,ka->ijk", Q, rng.standard_normal((m, n)), Q, optimize=True)
    if kind == 1:
        return congruent(blocks(rng, m, n, int(rng.integers(1, n))), turn(rng, n))
    v = rng.standard_normal(n)
    H = np.eye(n) - 2 * np.outer(v, v) / (v @ v)
    A = symmetric(rng, m, n)
    return (A + H @ A @ H) / 2


def _contaminated(rng: Generator, y: Array, share: float) -> Array:
    where = rng.choice(y.size, max(1, int(share * y.size)), replace=False)
    seen = y.copy()
    seen[where] += rng.choice([0.3, 3.0, 100.0]) * _scale(y) * rng.standard_normal(where.size)
    return seen


# -- some measurements are of something else ------------------------------------------------------------------------


@hostile
def outliers_and_a_hidden_twin(rng: Generator) -> Case:
    n = size(rng, 8, 24)
    A, x = _hidden_symmetry(rng, n), signal(rng, n)
    y = _contaminated(rng, _exact(A, x), rng.uniform(0.02, 0.15))
    noise = rng.choice([0.0, 10.0 ** rng.uniform(-3, -1)]) * _scale(y) * rng.standard_normal(y.size)
    return _seen(A, x, y + noise, outliers=True)


@hostile
def two_signals(rng: Generator) -> Case:
    """Up to two fifths of the measurements are of another signal, and agree with each other."""
    n = size(rng, 8, 24)
    x, other = signal(rng, n), signal(rng, n)
    A = gauss(rng, int(rng.uniform(3, 6) * n), n)
    theirs = rng.random(len(A)) < rng.uniform(0.1, 0.4)
    y = np.where(theirs, _exact(A, other), _exact(A, x))
    return _seen(A, x, y, outliers=bool(rng.integers(2)))


@hostile
def swapped_labels(rng: Generator) -> Case:
    """Some of the measurements belong to other matrices."""
    n = size(rng, 8, 30)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(2, 5) * n), n)
    y = _exact(A, x)
    where = rng.choice(y.size, max(2, int(rng.uniform(0.02, 0.3) * y.size)), replace=False)
    y[where] = y[np.roll(where, 1)]
    return _seen(A, x, y, outliers=bool(rng.integers(2)))


def _with_another(rng: Generator, A: Array, x: Array, other: Array) -> Array:
    """What is measured of x together with a weaker signal, which is no multiple of x: nothing could tell them apart."""
    while abs(np.vdot(x, other)) > 0.7 * np.linalg.norm(x) * np.linalg.norm(other):
        other = other + np.linalg.norm(other) * rng.standard_normal(x.size)
    other = other * np.linalg.norm(x) / np.linalg.norm(other)
    return _exact(A, x) + 10.0 ** rng.uniform(-3, 0) * _exact(A, other)


@hostile
def weak_second_signal(rng: Generator) -> Case:
    """Light that is not quite coherent: a second, weaker signal is measured with the first."""
    n = size(rng)
    x, other = signal(rng, n), signal(rng, n)
    A = gauss(rng, int(rng.uniform(1.5, 5) * n), n)
    return _seen(A, x, _with_another(rng, A, x, other))


@hostile
def second_signal_in_noise(rng: Generator) -> Case:
    """The same in noise, and with matrices of rank one."""
    n = size(rng)
    x, other = signal(rng, n), signal(rng, n)
    a = rng.standard_normal((int(rng.uniform(1.5, 6) * n), n))
    A = a[:, :, None] * a[:, None, :] if rng.random() < 0.5 else gauss(rng, len(a), n)
    y = _with_another(rng, A, x, other)
    return _seen(A, x, y + rng.choice([0.0, 10.0 ** rng.uniform(-3, -0.7)]) * _scale(y) * rng.standard_normal(y.size))


@hostile
def complex_second_signal(rng: Generator) -> Case:
    n = size(rng, 5, 16)
    x, other = (signal(rng, n) * np.exp(2j * np.pi * rng.random(n)) for _ in range(2))
    A = _hermitian(rng, int(rng.uniform(3, 8) * n), n)
    return _seen(A, x, _with_another(rng, A, x, other))


@hostile
def drifting_signal(rng: Generator) -> Case:
    """x changes from the first to the last measurement."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(1.5, 5) * n), n)
    drift = 10.0 ** rng.uniform(-3, -0.3) * np.linspace(-1, 1, len(A))[:, None] * signal(rng, n)
    return _seen(A, x, np.einsum("ijk,ij,ik->i", A, x + drift, x + drift, optimize=True))


# -- sensors --------------------------------------------------------------------------------------------------------


@hostile
def saturated(rng: Generator) -> Case:
    """Large measurements are clipped."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(2, 5) * n), n)
    y = _exact(A, x)
    most = float(np.quantile(np.abs(y), rng.uniform(0.6, 0.98)))
    return _seen(A, x, np.clip(y, -most, most), outliers=bool(rng.integers(2)))


@hostile
def magnitudes(rng: Generator) -> Case:
    """The sign of y is lost."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(2, 6) * n), n) + rng.choice([0.0, 1.0]) * np.eye(n)
    return _seen(A, x, np.abs(_exact(A, x)))


@hostile
def proportional_noise(rng: Generator) -> Case:
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(1.5, 5) * n), n)
    y = _exact(A, x)
    return _seen(A, x, y * (1 + 10.0 ** rng.uniform(-3, -0.3) * rng.standard_normal(y.size)))


@hostile
def wandering_noise(rng: Generator) -> Case:
    """A random walk: neighbours have nearly the same noise, and so have dependent matrices."""
    n = size(rng)
    x = signal(rng, n)
    A = gauss(rng, int(rng.uniform(2, 5) * n), n)
    if rng.random() < 0.5:
        A = np.repeat(A, 2, axis=0)
    y = _exact(A, x)
    walk = np.cumsum(rng.standard_normal(y.size)) / np.sqrt(y.size)
    return _seen(A, x, y + 10.0 ** rng.uniform(-3, -0.3) * _scale(y) * walk)


# -- little to go by ------------------------------------------------------------------------------------------------


@hostile
def few_in_noise(rng: Generator) -> Case:
    """Few more equations than unknowns, in noise: many valleys fit nearly as well."""
    n = size(rng, 5, 24)
    m = int(rng.uniform(1.0, 2.2) * n) + 1
    a = rng.standard_normal((m, n))
    A = a[:, :, None] * a[:, None, :] if rng.random() < 0.6 else gauss(rng, m, n)
    return Case(A, signal(rng, n), None, plain=True, sigma=10.0 ** rng.uniform(-4, -0.7), told=bool(rng.integers(2)))


@hostile
def decaying_in_a_basis(rng: Generator) -> Case:
    n = int(rng.integers(30, 60))
    Q = turn(rng, n)
    k = n // 2
    z = np.zeros(n)
    z[rng.choice(n, k, replace=False)] = rng.uniform(0.7, 0.92) ** np.arange(k) * rng.choice([-1, 1], k)
    sigma = 0.0 if rng.random() < 0.5 else 10.0 ** rng.uniform(-4, -1)
    A = gauss(rng, int(rng.uniform(0.4, 1.3) * n), n)
    return Case(A, Q @ z / np.linalg.norm(z), None, options={"prior": fq.Sparse(basis=Q)}, plain=True, sigma=sigma,
                told=bool(rng.integers(2)))  # fmt: skip


@hostile
def heavy_decay_in_noise(rng: Generator) -> Case:
    """Sizes that decay as a power, half of them below the noise."""
    n = size(rng, 16, 60)
    x = np.arange(1, n + 1.0) ** -rng.uniform(0.7, 3) * rng.choice([-1, 1], n)
    x = rng.permutation(x / np.linalg.norm(x))
    A = gauss(rng, int(rng.uniform(0.6, 2.5) * n), n)
    return Case(A, x, None, plain=True, sigma=10.0 ** rng.uniform(-4, -0.5), told=bool(rng.integers(2)))


@hostile
def level_off_by_two(rng: Generator) -> Case:
    """The level of the noise is told, but it is half or twice as large."""
    n = size(rng)
    x = signal(rng, n)
    A = _hidden_symmetry(rng, n) if rng.random() < 0.4 else gauss(rng, int(rng.uniform(1, 4) * n), n)
    y = _exact(A, x)
    level = 10.0 ** rng.uniform(-3, -0.5) * _scale(y)
    return _seen(A, x, y + level * rng.standard_normal(y.size), noise=level * float(rng.choice([0.5, 2.0])))


@hostile
def start_at_a_twin(rng: Generator) -> Case:
    """The user starts from x with some signs changed, where matrices are coupled weakly, in noise or not."""
    n = size(rng)
    x = signal(rng, n)
    A, cut = gauss(rng, plenty(rng, n, x), n), int(rng.integers(1, n))
    weak = 10.0 ** rng.uniform(-4, 0)
    A[:, :cut, cut:] *= weak
    A[:, cut:, :cut] *= weak
    start = np.where(np.arange(n) < cut, x, -x) + 1e-3 * rng.standard_normal(n)
    sigma = 0.0 if rng.random() < 0.5 else 10.0 ** rng.uniform(-4, -1)
    return Case(A, x, None, options={"x0": start}, plain=True, sigma=sigma, told=bool(rng.integers(2)))


# -- complex and affine, in noise -----------------------------------------------------------------------------------


def _hermitian(rng: Generator, m: int, n: int) -> Array:
    A = gauss(rng, m, n) + 1j * gauss(rng, m, n)
    return (A + A.conj().transpose(0, 2, 1)) / 2


@hostile
def complex_in_noise(rng: Generator) -> Case:
    """Two blocks coupled about as weakly as the noise is strong, real matrices in a complex basis, or neither."""
    n, kind = size(rng, 5, 16), int(rng.integers(3))
    x = signal(rng, n) * np.exp(2j * np.pi * rng.random(n))
    sigma = 10.0 ** rng.uniform(-4, -0.7)
    A = _hermitian(rng, int(rng.uniform(3, 7) * n), n)
    if kind == 0:
        cut, weak = int(rng.integers(1, n)), sigma * 10.0 ** rng.uniform(-2, 1)
        A[:, :cut, cut:] *= weak
        A[:, cut:, :cut] *= weak
    elif kind == 1:
        U = np.diag(np.exp(2j * np.pi * rng.random(n)))
        A = U @ symmetric(rng, len(A), n) @ U.conj().T
        A = (A + A.conj().transpose(0, 2, 1)) / 2
    return Case(A, x, None, plain=True, sigma=sigma, told=bool(rng.integers(2)))


@hostile
def complex_outliers(rng: Generator) -> Case:
    n = size(rng, 5, 14)
    x = signal(rng, n) * np.exp(2j * np.pi * rng.random(n))
    A = _hermitian(rng, int(rng.uniform(4, 7) * n), n)
    y = _contaminated(rng, _exact(A, x), rng.uniform(0.02, 0.2))
    noise = rng.choice([0.0, 10.0 ** rng.uniform(-3, -1)]) * _scale(y) * rng.standard_normal(y.size)
    return _seen(A, x, y + noise, outliers=True)


@hostile
def affine_in_noise(rng: Generator) -> Case:
    """Linear terms that tell x from −x, or parts of it, about as clearly as the noise lets them."""
    n = size(rng)
    x = signal(rng, n)
    m, sigma = plenty(rng, n, x), 10.0 ** rng.uniform(-4, -0.7)
    A = gauss(rng, m, n) if rng.random() < 0.5 else blocks(rng, m, n, int(rng.integers(1, n)))
    b = sigma * 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((m, n))
    return Case(A, x, None, form=lambda A: fq.AffineTensor(A, b), linear=b, plain=True, sigma=sigma,
                told=bool(rng.integers(2)))  # fmt: skip
