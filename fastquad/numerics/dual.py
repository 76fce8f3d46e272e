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
from typing import NamedTuple, Protocol

import numpy as np

from fastquad.numerics import lapack
from fastquad.numerics.lapack import EPS
from fastquad.typing import Asks, Float, Number

# The number of earlier steps that L-BFGS remembers: the usual choice; 5 to 20 differ little.
_MEMORY = 10
# Guess: the soft maximum is off by log(n)/β, a few percent of the eigenvalues at the last.
_SHARPNESS = (20.0, 80.0, 320.0)
# Below this largest eigenvalue of −S off x, in units of B, an eigenvalue more costs more than it is worth.
_CLEAR = -0.02
# Evaluations at one sharpness, and the decrease of the soft maximum in three steps below which the next one comes.
_EVALUATIONS, _SLOW = 24, 2e-3
# Guess: the λ that minimises is at most so far away, in units of the norm of λ (random matrices: 0.1 to 0.3), and after
# so many evaluations the gradient tells.
_FAR, _SETTLED = 1.0, 6
# The largest part of a step that the first-order model must keep (Armijo), and how often a step is halved.
_ARMIJO, _HALVINGS = 1e-4, 8
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


class Point(NamedTuple):
    """λ on the way, with S = B − Σ λ_i Ã_i there and the soft maximum of −S off x."""

    lam: Float
    S: Number
    soft: Soft


class Cone(Protocol):
    """What a search for S asks for: x̂, the weights b of B, a start λ, weighted sums, inner products, and the part of a
    gradient along which `S x = 0` holds."""

    unit: Number
    b: Float
    start: Float

    def sum(self, mu: Float) -> Asks[Number]: ...
    def inner(self, D: Number) -> Asks[Float]: ...
    def kept(self, gradient: Float) -> Float: ...


def lowered(case: Cone, searched: bool) -> Asks[tuple[Point, bool]]:
    """The λ whose S has about the largest least eigenvalue off x, and whether that is positive.

    Unless `searched`, only the start is tried.
    """
    complement = Complement(case.unit)

    def at(lam: Float, beta: float) -> Asks[Point]:
        S = yield from case.sum(case.b - lam)
        return Point(lam, S, complement.soft_maximum(-S, beta))

    here = yield from at(case.start, _SHARPNESS[0])
    for beta in _SHARPNESS:
        memory, curve = Lbfgs(), []
        here = here._replace(soft=complement.soft_maximum(-here.S, beta)) if beta > _SHARPNESS[0] else here
        gradient: Float | None = None
        for _ in range(_EVALUATIONS):
            if here.soft.largest < _CLEAR or not searched:
                return here, here.soft.largest < 0
            curve.append(here.soft.value)
            if len(curve) > 3 and curve[-4] - curve[-1] < _SLOW:
                break
            if gradient is None:
                gradient = case.kept((yield from case.inner(here.soft.density())))
            # By convexity no λ has a smaller maximum than the mean, less the gradient times the way there: no proof.
            left = _FAR * float(np.linalg.norm(gradient) * np.linalg.norm(here.lam))
            if len(curve) >= _SETTLED and here.soft.mean > left:
                return here, False
            step = memory.direction(gradient)
            slope = float(step @ gradient)
            if not slope < 0:
                break
            there: Point | None = None
            for halving in range(_HALVINGS):
                there = yield from at(here.lam + step, beta)
                if there.soft.value <= here.soft.value + _ARMIJO * slope * 0.5**halving:
                    break
                step = step / 2
                there = None
            if there is None:
                break
            before = gradient
            gradient = case.kept((yield from case.inner(there.soft.density())))
            memory.add(step, gradient - before)
            here = there
    return here, here.soft.largest < 0


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
