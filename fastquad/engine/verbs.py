"""Levenberg–Marquardt by the verbs of the Jacobian, for kinds whose products no array could hold.

With z = (x^* Ã_i x)_i, `J v = 2 Re(x^* Ã_i v)` and weights w_i, a step solves

    (J^T D J + λ diag(J^T D J)) d = −J^T D r,    D = diag(w²),

whose matrix is asked for (`Gram`) and factored as it comes: sparse, with an order of elimination that is found once, or
dense. Where a kind offers only `Along` and `Gradient`, J is put together from the former if it fits in memory; else
the step is found by conjugate gradients on both. Along the whole line x + u d the residual is `r + u J d + u² z(d)`:
the best u is exact, as in `fastquad.numerics.levenberg_marquardt`.

A row of large terms and little noise is nearly a constraint, along whose curve ‖w r‖ leaves only short steps. What the
same Jacobian says of the step after this one,

    −J⁺ r(x + u d) = (1 − u) d − u² J⁺ z(d),    d = −J⁺ r,

does not know how rows are scaled, and its square is a quartic of u, too (the natural level function of Deuflhard,
Newton Methods for Nonlinear Problems, 2004). `newton` goes where that is shortest.

Turning the phase of a complex x changes nothing: of its largest entry the part along that direction is held. So are
values that are known, and coordinates that no measurement sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import Step
from fastquad.measurements.contractions import Along, Gradient, Gram, Measure
from fastquad.numerics import quartic
from fastquad.numerics.levenberg_marquardt import Rule, best_on_line, finished
from fastquad.numerics.sparse_factor import DenseFactor, Factor, Pattern
from fastquad.typing import Asks, Float, Indices

# The damping at the start, as a share of the diagonal, and the least that is not zero: a guess. From the flat start all
# grids from 14 to 13,659 buses take at most one step more with it than without.
_FIRST_DAMPING, _LEAST_DAMPING = 1e-4, 1e-12
# Conjugate gradients stop at this share of the gradient, or after so many steps: guesses.
_CLOSELY, _MAX_INNER = 1e-6, 300
# Steps of `newton` at most; the relative length at which they end; and below which they end if they hardly get shorter.
_NEWTON_STEPS, _NEWTON_END, _NEWTON_NEAR = 40, 1e-13, 1e-6
#: When a descent stops.
RULE = Rule(max_steps=60, patience=15, factor=1.01)


@dataclass
class Normals:
    """The normal equations of a problem: what is held, and the order of elimination, which is found once."""

    problem: Problem
    #: Known coordinates, whose values are held.
    known: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    pattern: Pattern | None = None
    #: Whether linear equations are known to determine all products of coordinates, so that no other signal fits.
    determined: bool = False

    @classmethod
    def of(cls, problem: Problem) -> Normals:
        return cls(problem, problem.known)

    @property
    def affordable(self) -> bool:
        """Whether there is a matrix to factor: as the kind gives it, or from its columns."""
        p = self.problem
        return p.gram is not None or 24 * p.m * p.n + 24 * p.n**2 <= p.memory

    def held(self, x: Float) -> Indices:
        """The coordinates that are held at x: those that are known, and for complex x one that says its phase."""
        if not self.problem.turning:
            return self.known
        pairs = x.reshape(-1, 2)
        largest = int(np.argmax(np.einsum("ij,ij->i", pairs, pairs)))
        # Turning moves (a, b) along (−b, a): hold the part that moves more.
        side = int(abs(pairs[largest, 0]) >= abs(pairs[largest, 1]))
        return np.append(self.known, 2 * largest + side).astype(np.intp)

    def gram(self, x: Float, d: Float, r: Float) -> Asks[tuple[Any, Float]]:
        """`J^T diag(d) J` and `J^T diag(d) r`."""
        if self.problem.gram is not None:
            return (yield Gram(x, d, r))
        J = yield Along(x, np.eye(x.size))
        J *= np.sqrt(d)[:, None]
        return J.T @ J, (np.sqrt(d) * r) @ J

    def factor(self, G: Any, held: Indices, damping: Float | None = None) -> Factor | DenseFactor:
        """A factor of a matrix, plus a diagonal, in which some coordinates are held."""
        if isinstance(G, np.ndarray):
            return DenseFactor.of(G, damping, held)
        if self.pattern is None:
            self.pattern = Pattern(G)
        return self.pattern.factor(G.data, damping, held)


@dataclass(frozen=True)
class Found:
    """The end of a descent: x, its residual r (m,) without weights, `‖r‖/‖y‖`, and ‖w r‖² after each step."""

    x: Float
    r: Float
    residual: float
    curve: list[float]


def descend(
    normals: Normals,
    x: Float,
    weights: Float | None = None,
    rule: Rule = RULE,
    damping: float = _FIRST_DAMPING,
    *,
    quiet: bool = False,
) -> Asks[Found]:
    """Levenberg–Marquardt from x, yielding a `Step` for each step unless `quiet`."""
    problem = normals.problem
    w: Any = 1.0 if weights is None else weights
    d = np.ones(problem.m) if weights is None else weights**2
    y = problem.y
    scale = float(np.linalg.norm(y)) or 1.0
    r = (yield Measure(x)) - y
    curve, weighted = [float(np.sum((w * r) ** 2))], float(np.sum((w * y) ** 2)) or 1.0
    if not quiet:
        yield Step(x, float(np.linalg.norm(r)) / scale)
    while not finished(curve, weighted, rule):
        step = yield from _step(normals, x, d, r, damping)
        p, q = (yield Along(x, step)), (yield Measure(step))
        terms = quartic.coefficients(w * r, w * p, w * q)
        u, change, factor = best_on_line(terms, float(np.sum((w * p) ** 2)))
        if change < 0:
            x = x + u * step
            # Near the end, what is added up has too much rounding.
            near = curve[-1] + change < 1e-12 * weighted
            r = (yield Measure(x)) - y if near else r + u * p + u * u * q
        curve.append(float(np.sum((w * r) ** 2)))
        damping = max(damping * factor, _LEAST_DAMPING)
        if not quiet:
            yield Step(x, float(np.linalg.norm(r)) / scale)
    return Found(x, r, float(np.linalg.norm(r)) / scale, curve)


def newton(normals: Normals, x: Float, weights: Float, *, quiet: bool = False) -> Asks[Found | None]:
    """Gauss–Newton from x while steps get shorter, yielding a `Step` for each unless `quiet`; None if they do not."""
    problem, d = normals.problem, weights**2
    scale = float(np.linalg.norm(problem.y)) or 1.0
    r = (yield Measure(x)) - problem.y
    curve, shortest = [float(np.sum((weights * r) ** 2))], math.inf
    for _ in range(_NEWTON_STEPS if normals.affordable else 0):
        G, g = yield from normals.gram(x, d, r)
        factor = normals.factor(G, normals.held(x))
        step = -factor.solve(g)
        q = yield Measure(step)
        bend = factor.solve((yield Gradient(x, d * q)))
        length, both = float(step @ step), float(step @ bend)
        u = float(quartic.minimise_upwards(-2 * length, length - 2 * both, 2 * both, float(bend @ bend))[0])
        size, before = float(np.linalg.norm(x)), shortest
        x = x + u * step
        r = (yield Measure(x)) - problem.y
        curve.append(float(np.sum((weights * r) ** 2)))
        if not quiet:
            yield Step(x, float(np.linalg.norm(r)) / scale)
        shortest = math.sqrt(length) / (size or 1.0)
        # Near the end steps are as long as rounding makes them.
        if shortest < _NEWTON_END or (before < _NEWTON_NEAR and shortest > 0.25 * before):
            return Found(x, r, float(np.linalg.norm(r)) / scale, curve)
        if not math.isfinite(curve[-1]):
            break
    return None


def _step(normals: Normals, x: Float, d: Float, r: Float, damping: float) -> Asks[Float]:
    """The step of the damped normal equations."""
    if not normals.affordable:
        return (yield from _by_conjugate_gradients(normals, x, d, r, damping))
    G, g = yield from normals.gram(x, d, r)
    diagonal = G.diagonal()
    small = damping if damping > 10 * _LEAST_DAMPING else 0.0
    return -normals.factor(G, normals.held(x), small * diagonal).solve(g)


def _by_conjugate_gradients(normals: Normals, x: Float, d: Float, r: Float, damping: float) -> Asks[Float]:
    """The step where there is no matrix: by products with J and J^T."""
    g = yield Gradient(x, d * r)
    g[normals.known] = 0.0
    size = float(np.linalg.norm(g))
    step, left, direction = np.zeros_like(x), -g, -g
    # A typical eigenvalue, from the first product.
    typical, square = 0.0, size**2
    for inner in range(_MAX_INNER):
        if not square > (_CLOSELY * size) ** 2:
            break
        image = yield Along(x, direction)
        moved = yield Gradient(x, d * image)
        if inner == 0:
            typical = float(direction @ moved) / square
        moved = moved + damping * typical * direction
        moved[normals.known] = 0.0
        curvature = float(direction @ moved)
        if not curvature > 0:
            break
        length = square / curvature
        step = step + length * direction
        left = left - length * moved
        before, square = square, float(left @ left)
        direction = left + square / before * direction
    return step


def rows_scaled(sizes: Float) -> Float:
    """The weights 1/s_i of rows of these sizes; rows that are hardly there, or not at all, get no more than others."""
    largest = float(sizes.max(initial=0.0))
    # Of a row below the rounding of the largest one nothing is known.
    known = largest > 0 and math.isfinite(largest)
    return 1 / np.where(sizes > 1e-12 * largest, sizes, largest) if known else np.ones_like(sizes)
