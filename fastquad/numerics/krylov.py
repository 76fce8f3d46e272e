"""Symmetric matrices that are known by their products alone: leading vectors, least eigenvalue, linear equations.

How far the least eigenvalue λ can be below the θ_k that k steps of Lanczos show is a theorem of Kuczyński and
Woźniakowski (1992): from a random start, for every matrix of size n with the largest eigenvalue Λ,

    P(θ_k − λ > ε (Λ − λ)) <= 1.648 √n e^{−√ε (2k − 1)},

so that θ_k − ε Λ is a lower bound but for a chance that is chosen here as 2^−20, whatever the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastquad.system.deadline import check
from fastquad.typing import Float

Apply = Callable[[Float], Float]

# The chance that a lower bound does not hold.
_CHANCE = 2.0**-20
# The largest number of steps to a bound, and how many are made between two looks at it.
_MAX_STEPS = 1500
_LOOK = 10
# A bound of this share of what was seen is enough; of the second share, if it is larger than what is needed.
_ENOUGH, _ROUGHLY = 0.5, 0.1
# The share of the largest eigenvalue below which the least one is zero.
_NOTHING = 1e-11
# The largest matrix that is formed.
_SMALL = 256
# The largest number of steps to leading vectors, how many are made between two looks, and the residual of the first
# vector, relative to the spread of what was seen, at which it is known: of random masks it then moves by 1e-3.
_STEPS, _BETWEEN, _KNOWN = 40, 4, 0.005


class Least(NamedTuple):
    """The least eigenvalue: what was seen of it, a bound from below (0: none was shown), and the largest eigenvalue."""

    seen: float
    bound: float
    largest: float

    @property
    def shown(self) -> bool:
        """Whether it is larger than zero."""
        return self.bound > 0


def least_eigenvalue(
    apply: Apply, n: int, rng: np.random.Generator, without: list[Float], need: float = math.inf
) -> Least:
    """The least eigenvalue of a positive semidefinite matrix on the complement of some vectors, by Lanczos steps.

    A bound that is larger than `need` may be rougher. A small matrix is formed, column by column: its eigenvalues are
    known without a doubt.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    basis = np.linalg.qr(np.array(without).T)[0] if without else np.zeros((n, 0))

    def outside(v: Float) -> Float:
        return v - basis @ (basis.T @ v) if without else v

    if n <= _SMALL:
        values = np.linalg.eigvalsh(np.array([outside(apply(outside(unit))) for unit in np.eye(n)]))[len(without) :]
        return _judged(float(values[0]), float(values[0]), float(values[-1])) if values.size else Least(0.0, 0.0, 0.0)
    v: Float = outside(rng.standard_normal(n))
    v /= np.linalg.norm(v)
    before: Float = np.zeros(n)
    beta = 0.0
    diagonal: list[float] = []
    beside: list[float] = []
    found = Least(0.0, 0.0, 0.0)
    for count in range(1, _MAX_STEPS + 1):
        check()
        w = apply(v)
        diagonal.append(float(v @ w))
        w = outside(w - diagonal[-1] * v - beta * before)
        beta = float(np.linalg.norm(w))
        if count % _LOOK == 0 or beta == 0:
            values = eigvalsh_tridiagonal(np.array(diagonal), np.array(beside))
            share = (math.log(1.648 * math.sqrt(n) / _CHANCE) / (2 * count - 1)) ** 2
            above = share / (1 - share) * float(values[-1]) if share < 1 else math.inf
            found = _judged(float(values[0]), float(values[0]) - above, float(values[-1]))
            enough = (_ROUGHLY if found.bound > need else _ENOUGH) * found.seen
            if beta == 0 or found.bound > enough or found.seen == 0:
                return found
        beside.append(beta)
        before, v = v, w / beta
    return found


def _judged(seen: float, bound: float, largest: float) -> Least:
    """Eigenvalues, where those that are only rounding are zero."""
    seen = seen if seen > _NOTHING * largest else 0.0
    return Least(seen, max(bound, 0.0) if seen else 0.0, largest)


def leading_vectors(apply: Apply, n: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """About the two leading eigenvectors, by Lanczos steps that keep their basis."""
    steps = min(_STEPS, n)
    basis, T = np.zeros((steps, n)), np.zeros((steps, steps))
    v: Float = rng.standard_normal(n)
    for k in range(steps):
        size = float(np.linalg.norm(v))
        if size == 0:
            basis, T = basis[:k], T[:k, :k]
            break
        basis[k] = v / size
        v = apply(basis[k])
        T[k, : k + 1] = T[: k + 1, k] = basis[: k + 1] @ v
        for _ in range(2):  # a second projection removes the rounding of the first
            v = v - basis[: k + 1].T @ (basis[: k + 1] @ v)
        if k % _BETWEEN == _BETWEEN - 1 and steps < n:
            values, vectors = np.linalg.eigh(T[: k + 1, : k + 1])
            if float(np.linalg.norm(v)) * abs(vectors[-1, -1]) < _KNOWN * (values[-1] - values[0]):
                basis, T = basis[: k + 1], T[: k + 1, : k + 1]
                break
    first, second = np.linalg.eigh(T)[1][:, [-1, -min(2, len(T))]].T @ basis
    return first, second


def conjugate_gradients(apply: Apply, b: Float, precondition: Apply, tol: float, max_steps: int) -> Float:
    """The x with `apply(x) = b` for a positive semidefinite matrix with b in its range, to a share `tol` of b."""
    x, r = np.zeros_like(b), b
    q = precondition(r)
    direction, square = q, float(r @ q)
    target = tol**2 * square
    for _ in range(max_steps):
        if not square > target:
            break
        check()
        moved = apply(direction)
        curvature = float(direction @ moved)
        if not curvature > 0:
            break
        step = square / curvature
        x = x + step * direction
        r = r - step * moved
        q = precondition(r)
        before, square = square, float(r @ q)
        direction = q + square / before * direction
    return x
