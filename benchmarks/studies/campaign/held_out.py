"""Ten classes that were made from docs/trust.md after the tests were written, to compare two states of the code.

    python -m benchmarks.studies.campaign 1000 --held-out

They are run by name only, and no test was made for one of them. The figures stand in the appendix of the docs.
"""

from __future__ import annotations

import numpy as np

import fastquad as fq
from benchmarks.studies.campaign.problems import (
    CLASSES,
    Array,
    Case,
    Generator,
    congruent,
    gauss,
    hostile,
    signal,
    symmetric,
    turn,
)

_BEFORE = set(CLASSES)


@hostile
def ring(rng: Generator) -> Case:
    """Squares, and products of neighbours on a ring: with two zeros it falls apart into arcs, with one it is a line."""
    n = int(rng.integers(6, 20))
    x = rng.standard_normal(n)
    zeros = int(rng.integers(0, 4))
    x[rng.choice(n, zeros, replace=False)] = 0
    A = np.zeros((3 * n, n, n))
    for i in range(3 * n):
        j = i % n
        k = (j + 1) % n
        A[i, j, j], A[i, k, k] = rng.standard_normal(2)
        A[i, j, k] = A[i, k, j] = rng.standard_normal()
    return Case(A, x, None)


@hostile
def differences_and_an_anchor(rng: Generator) -> Case:
    """Squares of differences, and the square of one coordinate: 2 x_0 − x fits as well."""
    n = int(rng.integers(5, 16))
    j, k = np.triu_indices(n, 1)
    v = np.eye(n)[j] - np.eye(n)[k]
    A = v[:, :, None] * v[:, None, :]
    anchor = np.zeros((1, n, n))
    anchor[0, 0, 0] = 1
    return Case(np.concatenate([A, anchor]), rng.standard_normal(n), False)


def _positions(rng: Generator, collinear: bool) -> Case:
    """Squared distances of a point in space from anchors."""
    n, m = 3, int(rng.integers(6, 15))
    anchors = rng.standard_normal((m, n))
    if collinear:
        anchors[:, 2] = 0.5
    A, b = np.repeat(np.eye(n)[None], m, axis=0), -2 * anchors
    return Case(A, rng.standard_normal(n), not collinear, form=lambda A: fq.AffineTensor(A, b), linear=b)


@hostile
def anchors_in_space(rng: Generator) -> Case:
    return _positions(rng, collinear=False)


@hostile
def anchors_in_a_plane(rng: Generator) -> Case:
    """The mirror image behind the plane fits as well."""
    return _positions(rng, collinear=True)


@hostile
def integer_design(rng: Generator) -> Case:
    """Entries −1, 0 and 1, and small integers: y takes few values."""
    n = int(rng.integers(5, 16))
    m = int(rng.uniform(1.2, 3.5) * n)
    A = rng.integers(-1, 2, (m, n, n)).astype(np.float64)
    return Case(A, rng.integers(-2, 3, n) + 3.0 * (np.arange(n) == 0), None)


@hostile
def a_turned_pair(rng: Generator) -> Case:
    """In another basis two coordinates are exchangeable, but for a part that is smaller than the noise."""
    n = int(rng.integers(6, 16))
    A = symmetric(rng, 5 * n, n)
    P = np.eye(n)
    P[[0, 1]] = P[[1, 0]]
    A = (A + congruent(A, P)) / 2 + 10.0 ** rng.uniform(-6, -4) * symmetric(rng, 5 * n, n)
    T = turn(rng, n)
    return Case(congruent(A, T), T @ rng.standard_normal(n), None, plain=True, sigma=10.0 ** rng.uniform(-2.5, -1.5))


@hostile
def sensors_of_two_units(rng: Generator) -> Case:
    """A third of the rows is in units a thousand times as small: under one level of noise they say nothing."""
    n = int(rng.integers(6, 25))
    A, x = gauss(rng, 6 * n, n), signal(rng, n)
    A[::3] /= 1000
    return Case(A, x, True, plain=True, sigma=10.0 ** rng.uniform(-3, -1.5), told=bool(rng.integers(2)))


@hostile
def overlapping_windows(rng: Generator) -> Case:
    """Autocorrelations of windows that overlap: each alone leaves a reflection open, together only the sign."""
    n, w = int(rng.integers(8, 20)), 4
    rows: list[Array] = []
    for start in range(0, n - w + 1, 2):
        for lag in range(w):
            S = np.zeros((n, n))
            for j in range(start, start + w - lag):
                S[j, j + lag] += 0.5
                S[j + lag, j] += 0.5
            rows.append(S)
    return Case(np.array(rows), rng.standard_normal(n), None)


@hostile
def rebits(rng: Generator) -> Case:
    """Projectors on products of real qubits: what each qubit is turned by is seen by all together."""
    q = int(rng.integers(2, 5))
    m = int(rng.uniform(1.5, 5) * 2**q)
    vectors = np.ones((m, 1))
    for _ in range(q):
        angle = rng.uniform(0, np.pi, m)
        vectors = (vectors[:, :, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None]).reshape(m, -1)
    x = rng.standard_normal(2**q)
    return Case(vectors[:, :, None] * vectors[:, None, :], x / np.linalg.norm(x), None)


@hostile
def few_of_many_in_noise(rng: Generator) -> Case:
    """An ordinary sparse signal in ordinary noise."""
    n, k = int(rng.integers(20, 41)), int(rng.integers(2, 5))
    m = int(rng.uniform(1.0, 2.5) * n)
    return Case(gauss(rng, m, n), signal(rng, n, k), None, plain=True, sigma=0.03, told=bool(rng.integers(2)))


#: The names of these classes.
NAMES = tuple(name for name in CLASSES if name not in _BEFORE)
