"""Ten more classes that are made to fool the judgement, to compare two states of the code (`--held-out 2`).

Somebody wrote them from docs/trust.md who knew the appendix, not the code. They stay as they were, whatever they show.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import fastquad as fq
from benchmarks.studies.campaign.problems import CLASSES, Array, Case, Generator, gauss, hostile, symmetric

_BEFORE = set(CLASSES)


def _beside(rng: Generator, x: Array, share: float = 0.4) -> dict[str, Any]:
    """A start near the signal, for some of the problems."""
    return {"x0": x + 1e-3 * rng.standard_normal(x.size)} if rng.random() < share else {}


@hostile
def leaf_of_a_grid(rng: Generator) -> Case:
    """Voltages of a power grid. A bus whose only line lacks active power may lie on the other side of its neighbour."""
    n, seen = int(rng.integers(5, 14)), bool(rng.integers(2))
    rows = [np.diag(np.eye(n)[j]).astype(complex) for j in range(n)]
    for k in range(1, n):
        j, b = int(rng.integers(k)), rng.uniform(1, 5)
        real, imag = np.zeros((2, n, n), dtype=complex)
        real[j, k] = real[k, j] = 0.5
        imag[j, k], imag[k, j] = 0.5j, -0.5j
        rows += [b * (rows[j] - real), b * (rows[k] - real)] + [b * imag] * (seen or k < n - 1)
    x = rng.uniform(0.9, 1.1, n) * np.exp(1j * rng.uniform(-0.7, 0.7, n))
    return Case(np.array(rows), x, seen, plain=True, options=_beside(rng, x))


@hostile
def a_hinge(rng: Generator) -> Case:
    """Distances in a plane. A rigid cluster that hangs on two sensors may be turned over, unless it sees a third."""
    fixed, N, seen = 5, 5 + int(rng.integers(2, 5)), bool(rng.integers(2))
    x, eye = rng.standard_normal(2 * N), np.eye(N)
    links = [(j, i) for j in range(N) for i in range(j) if j < fixed or i >= fixed or i < 2]
    A = [np.kron(np.diag(eye[i]), np.eye(2)) for i in range(fixed) for _ in range(4)]
    A += [np.kron(np.outer(eye[i] - eye[j], eye[i] - eye[j]), np.eye(2)) for i, j in links + [(2, N - 1)] * seen]
    b = np.zeros((len(A), 2 * N))
    for i in range(4 * fixed):  # distances from four anchors each
        b[i, 2 * (i // 4) : 2 * (i // 4) + 2] = rng.standard_normal(2)
    return Case(np.array(A), x, seen, lambda A: fq.AffineTensor(A, b), _beside(rng, x), b, plain=True)


@hostile
def spin_flip(rng: Generator) -> Case:
    """Pauli strings of even weight do not change if all spins are turned over; one string of odd weight tells."""
    q, seen = int(rng.choice([2, 4, 4, 4])), bool(rng.integers(2))
    paulis = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    words = np.stack(np.meshgrid(*[range(4)] * q, indexing="ij"), axis=-1).reshape(-1, q)
    odd = np.count_nonzero(words, axis=1) % 2 == 1
    even = rng.permutation(np.flatnonzero(~odd)[1:])[: int(rng.uniform(5, 8) * 2**q)]
    words = words[[0, *even, *rng.choice(np.flatnonzero(odd), int(seen))]]
    A = [functools.reduce(np.kron, paulis[word]) for word in words]
    x = rng.standard_normal(2**q) + 1j * rng.standard_normal(2**q)
    return Case(np.array(A), x, seen, plain=True, options=_beside(rng, x))


@hostile
def a_turned_factor(rng: Generator) -> Case:
    """An autocorrelation and the squares of both ends. A factor of x whose ends are equal may be reversed."""
    a, b, seen = rng.standard_normal(rng.integers(3, 8)), rng.standard_normal(rng.integers(4, 8)), bool(rng.integers(2))
    b[-1] = b[-1] if seen else b[0]
    x = np.convolve(a, b)
    ends = [np.diag(np.eye(x.size)[i]) for i in (0, -1)]
    A = [np.eye(x.size, k=d) / 2 + np.eye(x.size, k=-d) / 2 for d in range(x.size)]
    return Case(np.array(A + ends), x, seen, plain=True, options=_beside(rng, x))


@hostile
def the_last_digits(rng: Generator) -> Case:
    """Another signal fits to 7 to 12 digits, and only the last ones refute it; some solves start there."""
    n = int(rng.integers(6, 25))
    x, z = rng.standard_normal((2, n))
    A = symmetric(rng, int(rng.uniform(3, 5) * n), n)
    both = np.outer(x + z, x - z) + np.outer(x - z, x + z)
    A -= ((A @ (x - z) @ (x + z)) / ((x + z) @ both @ (x - z)))[:, None, None] * both
    A += 10.0 ** rng.uniform(-12, -7) * symmetric(rng, len(A), n)
    return Case(A, x, True, plain=True, options=_beside(rng, z))


@hostile
def two_blind_cameras(rng: Generator) -> Case:
    """Phase retrieval by two sets of vectors, each blind to one direction; three vectors that see all tell the twin."""
    n, seen = int(rng.integers(10, 81)), bool(rng.integers(2))
    x, z = rng.standard_normal((2, n))
    a = rng.standard_normal((2, int(rng.uniform(2, 3.5) * n), n))
    for vectors, blind in zip(a, (x + z, x - z), strict=True):
        vectors -= np.outer(vectors @ blind, blind) / (blind @ blind)
    a = np.concatenate([*a, rng.standard_normal((3 * seen, n))])
    return Case(a[:, :, None] * a[:, None, :], x, seen, plain=True, options=_beside(rng, x, 0.2))


@hostile
def a_weak_bridge(rng: Generator) -> Case:
    """One to three measurements between two clusters tell the common sign, or drown in the noise."""
    n, m = int(rng.integers(4, 13)), int(rng.uniform(3, 5) * 12)
    x, A = rng.standard_normal(2 * n), np.zeros((2 * m + int(rng.integers(1, 4)), 2 * n, 2 * n))
    A[:m, :n, :n], A[m : 2 * m, n:, n:] = gauss(rng, m, n), gauss(rng, m, n)
    sigma, strength = 10.0 ** rng.uniform(-2.5, -1.5), 10.0 ** rng.uniform(-1, 1.5)
    for row in A[2 * m :]:
        i, j = int(rng.integers(n)), int(rng.integers(n, 2 * n))
        row[i, j] = strength * sigma * np.sqrt(np.mean((A[: 2 * m] @ x @ x) ** 2)) / (x[i] * x[j])
    return Case(A, x, strength > 6 or None, plain=True, sigma=sigma, told=bool(rng.integers(2)))


@hostile
def common_errors(rng: Generator) -> Case:
    """Each sensor reads ten times, at slightly different settings and with the same error."""
    n = int(rng.integers(5, 16))
    sensors, x = int(rng.uniform(1.2, 3) * n), rng.standard_normal(n)
    A = np.repeat(symmetric(rng, sensors, n), 10, axis=0)
    A += 10.0 ** rng.uniform(-3, -2) * symmetric(rng, len(A), n)
    level = 10.0 ** rng.uniform(-2, -1) * float(np.sqrt(np.mean((A @ x @ x) ** 2)))
    added = level * (np.repeat(rng.standard_normal(sensors), 10) + 0.01 * rng.standard_normal(len(A)))
    return Case(A, x, None, plain=True, added=added, options={"noise": level} if rng.integers(2) else {})


@hostile
def a_prior_nearly_right(rng: Generator) -> Case:
    """One coordinate breaks what the prior says, by far more than the noise."""
    n, kind = int(rng.integers(16, 31)), int(rng.integers(3))
    x, support = rng.uniform(0.7, 1.3, n) * rng.choice([-1, 1], n), rng.permutation(n)[: n // 3]
    x = np.where(np.isin(np.arange(n), support), np.abs(x) if kind == 2 else x, 0) if kind else np.sign(x)
    x[support[0]] *= (0.3, 1, -0.6)[kind]
    priors = (fq.Discrete([-1, 1]), fq.Sparse(support=support[1:]), fq.Sparse(nonnegative=True))
    sigma, told, A = 10.0 ** rng.uniform(-3, -2), bool(rng.integers(2)), gauss(rng, int(rng.uniform(2, 3.5) * n), n)
    return Case(A, x, None, plain=True, sigma=sigma, told=told, options={"prior": priors[kind]})


@hostile
def a_saturated_detector(rng: Generator) -> Case:
    """The largest intensities are cut off at what the detector can count: told as outliers, or not told."""
    n, told = int(rng.integers(6, 21)), bool(rng.integers(2))
    a, x = rng.standard_normal((int(rng.uniform(6, 12) * n), n)), rng.standard_normal(n)
    y, A = (a @ x) ** 2, a[:, :, None] * a[:, None, :]
    added = np.minimum(y, np.quantile(y, rng.uniform(0.75, 0.93))) - y + 1e-3 * np.mean(y) * rng.standard_normal(y.size)
    return Case(A, x, told or None, plain=True, added=added, options={"outliers": True} if told else {})


#: The names of these classes.
NAMES = tuple(name for name in CLASSES if name not in _BEFORE)
