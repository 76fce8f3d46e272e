"""Classes in which the norm of x is measured: most answers are proven, and what is not has a rival to be shown."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import fastquad as fq
from benchmarks.studies.campaign.hidden_twins import blind_to
from benchmarks.studies.campaign.problems import Array, Case, Generator, gauss, hostile, size, symmetric

_PAULI = (np.eye(2), np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1]))


@hostile
def measured_norm(rng: Generator) -> Case:
    n = size(rng, 8, 40)
    x = rng.standard_normal(n)
    A = symmetric(rng, int(rng.uniform(1.2, 4) * n), n)
    return Case(A, x, True, options={"norm": float(np.linalg.norm(x))}, plain=True)


@hostile
def twin_of_the_measured_norm(rng: Generator) -> Case:
    """Two signals of one norm that no matrix tells apart: nothing may be called a success."""
    n = size(rng, 8, 24)
    u, v = rng.standard_normal((2, n))
    v *= np.linalg.norm(u) / np.linalg.norm(v)
    A = blind_to(symmetric(rng, int(rng.uniform(1.6, 4) * n), n), np.outer(u, u) - np.outer(v, v))
    return Case(A, u, False, options={"norm": float(np.linalg.norm(u))}, plain=True)


@hostile
def complex_twin_of_the_measured_norm(rng: Generator) -> Case:
    n = size(rng, 5, 12)
    u, v = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
    v *= np.linalg.norm(u) / np.linalg.norm(v)
    m = int(rng.uniform(3.5, 7) * n)
    A = gauss(rng, m, n) + 1j * gauss(rng, m, n)
    A = blind_to((A + A.conj().transpose(0, 2, 1)) / 2, np.outer(u, u.conj()) - np.outer(v, v.conj()))
    return Case(A, u, False, options={"norm": float(np.linalg.norm(u))}, plain=True)


@hostile
def states_of_qubits(rng: Generator) -> Case:
    """GHZ, W, product, random and Clifford states of 4 and 5 qubits, by Pauli strings with the identity among them."""
    q = int(rng.integers(4, 6))
    m = int(rng.uniform(5, 7) * 2**q)
    numbers = [0, *(1 + rng.choice(4**q - 1, m - 1, replace=False))]
    A = np.array([_string([(int(number) >> 2 * k) & 3 for k in range(q)]) for number in numbers])
    return Case(A, _state(rng, q), None, form=_as_sparse, plain=True)


def _as_sparse(A: Array) -> fq.SparseTensor:
    return fq.SparseTensor([sparse.csr_array(each) for each in A])


def _string(letters: list[int]) -> Array:
    M = np.eye(1, dtype=complex)
    for letter in letters:
        M = np.kron(M, _PAULI[letter])
    return M


def _state(rng: Generator, q: int) -> Array:
    x = np.zeros(2**q, dtype=complex)
    kind = int(rng.integers(5))
    if kind == 0:  # GHZ
        x[[0, -1]] = np.sqrt(0.5)
    elif kind == 1:  # W
        x[2 ** np.arange(q)] = 1 / np.sqrt(q)
    elif kind == 2:  # a product
        x = np.ones(1, dtype=complex)
        for _ in range(q):
            x = np.kron(x, rng.standard_normal(2) + 1j * rng.standard_normal(2))
    elif kind == 3:  # random
        x = rng.standard_normal(2**q) + 1j * rng.standard_normal(2**q)
    else:  # what a random circuit of Clifford gates makes of |0…0⟩
        x = _clifford(rng, q)
    return x / np.linalg.norm(x)


def _clifford(rng: Generator, q: int) -> Array:
    x = np.zeros((2,) * q, dtype=complex)
    x[(0,) * q] = 1.0
    gates = np.array([[1, 1], [1, -1]]) / np.sqrt(2), np.diag([1, 1j])
    for _ in range(6 * q):
        one, other = rng.choice(q, 2, replace=False)
        gate = int(rng.integers(3))
        if gate < 2:
            x = np.moveaxis(np.tensordot(gates[gate], x, axes=(1, one)), 0, one)
        else:  # a controlled Z
            x = np.moveaxis(x, (one, other), (0, 1)).copy()
            x[1, 1] *= -1
            x = np.moveaxis(x, (0, 1), (one, other))
    return np.ascontiguousarray(x).reshape(-1)
