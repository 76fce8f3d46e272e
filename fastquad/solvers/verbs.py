"""x by the verbs of the Jacobian: Levenberg–Marquardt from a few starts, for sparse kinds and operators.

    x0                  where it is given
    synchronised        the products of coordinates that some matrix sees together, by linear least squares; then a
                        phase and a length for each (`fastquad.numerics.synchronise`). For kinds that are stored sparse
    constant            c·(1, …, 1), with the c that fits best: the flat start of a power grid
    random              where these fail

Rows are divided by the size of their terms, or by their noise where it is told for each. The start that fits better
comes first. A descent that fits every row to its rounding, or as well as the told noise allows, ends the search; else
that of two which agree, or the best; it has STAGNATED where it explains y no better than a wrong valley may by chance.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Outcome
from fastquad.engine.trust.by_verbs import level
from fastquad.engine.verbs import RULE, Found, Normals, descend, newton, rows_scaled
from fastquad.measurements.contractions import Measure, Sizes, SparseMatrices
from fastquad.solvers.parts.noise_fit import beyond_chance
from fastquad.typing import Asks, Float

# The relative residual, of rows divided by the size of their terms, at which a fit is exact: rounding leaves 1e-15.
_EXACT = 1e-12
# How many random starts are tried, and how near two ends are that agree: guesses.
_RANDOM, _AGREE = 3, 1e-6
# The largest number of products of coordinates for each measurement at which they are solved for: a guess. Of grids
# with a meter at every second end of a line it is 1.5; of matrices without a pattern it is near n²/2m.
_PRODUCTS = 4
# The last steps, from a fit with other weights: a guess.
_LAST = RULE._replace(max_steps=30)


def search(problem: Problem) -> Asks[Outcome]:
    """The best fit on all coordinates, from the starts above."""
    normals, told = Normals.of(problem), level(problem)
    constant = _constant(problem, 1.0)
    sizes = yield Sizes(problem.x0 if problem.x0 is not None else problem.completed(constant * problem.phi))
    # Far from x a row is wrong by a share of its terms, whatever its noise is.
    weights = rows_scaled(sizes if told is None else np.hypot(sizes, told))
    best: Found | None = None
    starts = [problem.completed(problem.x0)] if problem.x0 is not None else (yield from _starts(normals, weights))
    tried = 0
    while tried < len(starts) + _RANDOM:
        x = starts[tried] if tried < len(starts) else _random(problem)
        tried += 1
        found = yield from _end(normals, x, weights, told)
        if _fits(problem, found, weights):
            best = found
            break
        agrees = best is not None and abs(found.curve[-1] - best.curve[-1]) <= _AGREE * best.curve[-1]
        best = found if best is None or found.curve[-1] < best.curve[-1] else best
        if agrees or _explained(problem, best, told):
            break
    assert best is not None
    sure = _fits(problem, best, weights) or _explained(problem, best, told) or normals.determined
    if not sure and told is None:
        sure = beyond_chance(problem, problem.unknowns - len(problem.fixed), best.r) > 0
    end = End.CONVERGED if sure else End.STAGNATED
    return Outcome(best.x, best.residual, end, free=problem.n, method="lm", normals=normals)


def _end(normals: Normals, x: Float, weights: Float, told: Float | None) -> Asks[Found]:
    """The exact fit, or the bottom of the likelihood, to which a start leads: by Gauss–Newton, or else downhill."""
    problem = normals.problem
    found = yield from newton(normals, x, weights if told is None else 1 / told)
    if found is not None:
        if _fits(problem, found, weights):
            return found
        if told is None:
            return (yield from _polished(normals, found, weights, told))
        if _explained(problem, found, told):
            return found
    other = yield from descend(normals, x, weights)
    if _fits(problem, other, weights):
        return other
    other = yield from _polished(normals, other, weights, told)
    return other if found is None or other.curve[-1] < found.curve[-1] else found


def _fits(problem: Problem, found: Found, weights: Float) -> bool:
    """Whether nothing but rounding is left of any row."""
    return float(np.linalg.norm(weights * found.r)) < _EXACT * float(np.linalg.norm(weights * problem.y))


def _explained(problem: Problem, found: Found, told: Float | None) -> bool:
    """Whether noise of the told level leaves as much: within five standard deviations of χ²."""
    if told is None:
        return False
    spare = max(problem.m - problem.n, 1)
    return float(np.sum((found.r / told) ** 2)) < spare + 5 * math.sqrt(2 * spare)


def _polished(normals: Normals, found: Found, weights: Float, told: Float | None) -> Asks[Found]:
    """The bottom of the likelihood near a fit: with the weights that the noise has, equal ones where it is not told."""
    true = np.ones(normals.problem.m) if told is None else 1 / told
    if np.array_equal(true, weights):
        return found
    return (yield from descend(normals, found.x, true, _LAST, damping=1e-8))


def _constant(problem: Problem, value: float) -> Float:
    """The constant signal; of complex signals the real one."""
    return np.tile([value, 0.0], problem.n // 2) if problem.turning else np.full(problem.n, value)


def _random(problem: Problem) -> Float:
    """A random signal of about the size of x."""
    z: Float = problem.rng.standard_normal(problem.n)
    return problem.completed(problem.phi / float(np.linalg.norm(z)) * z)


def _starts(normals: Normals, weights: Float) -> Asks[list[Float]]:
    """The starts without x0, the one that fits better first."""
    problem = normals.problem
    ones = _constant(problem, 1.0)
    q = weights * (yield Measure(ones))
    square = float(q @ (weights * problem.y)) / float(q @ q) if float(q @ q) > 0 else 0.0
    if square <= 0:
        square = problem.phi**2 / problem.entries
    starts = [problem.completed(_constant(problem, math.sqrt(square)))]
    edges = yield SparseMatrices()
    # The products are solved for together: where they are far more than the measurements, in vain.
    if edges is not None and edges.M.shape[1] <= _PRODUCTS * problem.m:
        from fastquad.numerics.synchronise import lifted, signal_of

        found = lifted(edges.M, problem.y, weights, edges.n, edges.complex, square)
        normals.determined = found.determined
        x = np.ascontiguousarray(signal_of(found, edges.j, edges.k, square)).view(np.float64)
        starts.append(problem.completed(x))
        left = []
        for start in starts:
            r = weights * ((yield Measure(start)) - problem.y)
            left.append(float(r @ r))
        if left[1] < left[0]:
            starts.reverse()
    return starts
