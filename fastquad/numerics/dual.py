"""Numbers for a proof by duality: the largest eigenvalue off a vector, made smooth, and eigenvalues bounded from below.

For M with `M x = c x` only its part P M P off x matters, where P projects onto the complement of x. The soft maximum

    f_β(M) = (1/β) log Σ_k exp(β ν_k),      ν_k the n − 1 eigenvalues of P M P,

is at most log(n)/β above the largest of them, convex and smooth; its derivative is the density matrix
`D = Σ_k p_k v_k v_k^*` with `p = softmax(β ν)`.

A floating-point Cholesky factorisation that runs to its end proves that no eigenvalue is below `−γ tr(S)` with
`γ = (n + 1)u/(1 − 2(n + 1)u)` (Rump 2006, "Verification of positive definiteness"), so that one of `S − τ` proves
eigenvalues of at least `τ − γ tr(S)`, whatever rounding did.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fastquad.numerics import lapack
from fastquad.typing import Float, Number

EPS = float(np.finfo(np.float64).eps)
# The number of earlier steps that L-BFGS remembers: the usual choice; 5 to 20 differ little.
_MEMORY = 10
# The share of a trusted eigenvalue that a bound may stay below what the eigensolver says.
_SLACK = 1e-6
# Complex products and sums of a Cholesky factorisation have up to this many times the rounding of real ones.
_COMPLEX = 4.0


class Soft(NamedTuple):
    """The soft maximum, the largest eigenvalue, their weighted mean, and the eigenvectors (n, r) with weights (r,)."""

    value: float
    largest: float
    mean: float
    values: Float
    vectors: Number

    def density(self) -> Number:
        """The derivative: a matrix (n, n) of trace one."""
        return (self.vectors * self.values) @ self.vectors.conj().T


class Complement:
    """The complement of a vector x, by the reflection that takes x to the first coordinate axis."""

    def __init__(self, x: Number) -> None:
        unit = x / np.linalg.norm(x)
        first = unit[0]
        phase = first / abs(first) if abs(first) > 0 else 1.0
        v = unit.copy()
        v[0] += phase
        self.v = v / np.linalg.norm(v)

    def restricted(self, M: Number) -> Number:
        """The part of M off x, (n − 1, n − 1)."""
        v = self.v
        p = M @ v
        q = 2 * p - 2 * (v.conj() @ p) * v
        turned = M - np.outer(q, v.conj()) - np.outer(v, q.conj())
        return turned[1:, 1:]

    def lifted(self, V: Number) -> Number:
        """Vectors (n − 1, r) of the complement as vectors (n, r) that are orthogonal to x."""
        whole = np.concatenate([np.zeros((1, V.shape[1]), dtype=V.dtype), V])
        return whole - 2 * np.outer(self.v, self.v.conj() @ whole)

    def soft_maximum(self, M: Number, beta: float) -> Soft:
        """The soft maximum of the eigenvalues of M off x."""
        values, vectors = np.linalg.eigh(self.restricted(M))
        share = np.exp(beta * (values - values[-1]))
        total = float(share.sum())
        kept = share > 1e-14 * total  # what is less is rounding
        largest = float(values[-1])
        weights, vectors = share[kept] / total, self.lifted(vectors[:, kept])
        return Soft(largest + math.log(total) / beta, largest, float(weights @ values[kept]), weights, vectors)


class Lbfgs:
    """The direction of L-BFGS from the last steps and the changes of the gradient that they made."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Float, Float, float]] = []

    def add(self, step: Float, change: Float) -> None:
        """Remember a step and how the gradient changed; one without curvature is left out."""
        curvature = float(step @ change)
        if curvature > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs = [*self.pairs[1 - _MEMORY :], (step, change, 1 / curvature)]

    def direction(self, gradient: Float) -> Float:
        """The direction of descent; without a step so far, that of the gradient."""
        q, factors = gradient.copy(), []
        for step, change, inverse in reversed(self.pairs):
            factors.append(inverse * float(step @ q))
            q -= factors[-1] * change
        if self.pairs:
            step, change, inverse = self.pairs[-1]
            q /= inverse * float(change @ change)
        for (step, change, inverse), factor in zip(self.pairs, reversed(factors), strict=True):
            q += (factor - inverse * float(change @ q)) * step
        return -q


def least_eigenvalue(S: Number, off: Number | None = None) -> float:
    """A lower bound of the least eigenvalue of S (n, n), of its part off the vector `off`; −inf where none is shown.

    With `T = S + κ x̂x̂^*` every w orthogonal to x has `w^* S w = w^* T w`, so the bound of T is one of S off x.
    """
    n = len(S)
    scale = float(np.abs(np.einsum("jj->j", S).real).sum()) + float(np.linalg.norm(S))
    if scale == 0:
        return 0.0
    kappa = 0.0
    if off is not None:
        unit = off / np.linalg.norm(off)
        kappa = scale / n
        S = S + kappa * np.outer(unit, unit.conj())
    factor = _COMPLEX if np.iscomplexobj(S) else 1.0
    rounding = factor * (n + 4) * EPS * (scale + kappa)
    seen = float(np.linalg.eigvalsh(S)[0])
    bound = seen - _SLACK * abs(seen) - 2 * rounding
    shifted = S - bound * np.eye(n)
    potrf = lapack.zpotrf if np.iscomplexobj(S) else lapack.dpotrf
    return bound - rounding if potrf(shifted, lower=1)[1] == 0 else -math.inf
