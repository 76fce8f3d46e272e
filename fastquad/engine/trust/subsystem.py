"""Whether a part of x has other values, because no measurement of it is left to rule these out.

All of x may have measurements to spare, and a part of it none: three coordinates that are seen by three measurements
only, given the others, are three quadratic equations with three unknowns. Complex solutions of such equations come in
pairs, and 2^g is even: where there is one real solution, there is another. It is looked for by Levenberg–Marquardt in
this part alone. Least squares fits such measurements whatever they are, and without them W does not see the part, which
may be coordinates or any directions. Under noise a few measurements to spare may not be enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.gauge import expand
from fastquad.engine.trust.search import Candidate, Search
from fastquad.numerics.independence import Gram
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.numerics.symmetry import fixed_direction
from fastquad.typing import Asks, Float, Indices


def subsystem(case: Search) -> Asks[Iterable[Candidate]]:
    """x with other values in the part that is hardly seen; where there may be some, that is suspected."""
    answer, problem, noisy = case.answer, case.problem, case.measure.noisy
    rows, directions = _least_spare(answer.columns) if noisy else _none_to_spare(case)
    count, size = directions.shape
    if count in (0, size):
        return ()
    wanted = tol.SETTLING if noisy and answer.residual > tol.TWIN_APART else 1
    doubt = ""
    if rows.size < count + wanted:
        weight = case.gauge.norms(np.linalg.norm(directions, axis=0), answer.S)
        places = case.gauge.names(answer.S[weight > tol.PART * weight.max()])
        doubt = f"Only {rows.size} measurements see {count} directions of x, at {places}: other values may fit as well."
    block = yield from answer.block()
    if block is None:
        case.suspicion = doubt
        return ()
    # x without its part along the directions, and these: x is the first, with a coefficient of one, and z.
    z = directions @ answer.z
    space = np.stack([expand(each, answer.S, problem.n)[answer.places] for each in directions], axis=1)
    rest = answer.x[answer.places] - space @ z
    basis = np.column_stack([rest, space])
    small = basis.T @ block[rows] @ basis
    bent = float(np.abs(small[:, 1:, 1:]).max(initial=0.0))
    if rows.size <= count and bent <= tol.ROUNDING * float(np.abs(block).max(initial=0.0)):
        return ()  # as many equations, linear in these unknowns: they have one solution
    case.suspicion = doubt

    def solutions() -> Iterator[Candidate]:
        rng, spread = np.random.default_rng(3), float(np.sqrt(np.mean(z**2)))
        for attempt in range(tol.MANY):
            start = (1 + 2 * (attempt % 2)) * spread * rng.standard_normal(count)
            free = np.arange(1, count + 1)
            descent = on_block(problem.y[rows], np.append(1.0, start), small, tol.CHALLENGE, free=free)
            if noisy or descent.residual < EXACT_RESIDUAL:
                yield Candidate(expand(basis @ descent.z, answer.places, problem.n), answer.S)

    return solutions()


def _none_to_spare(case: Search) -> tuple[Indices, Float]:
    """The measurements that are fitted whatever they are, and the directions (d, s) that only they see."""
    answer = case.answer
    rows = _fitted_alone(answer.columns, answer.gram)
    if rows.size == 0 or rows.size >= case.m - 1:
        return rows, np.zeros((0, answer.s))
    seen, vectors = case.directions(np.delete(case.scaled(answer.columns), rows, axis=0), answer.z)
    return rows, vectors[seen <= case.measure.need]


def _fitted_alone(columns: Float, gram: Gram) -> Indices:
    """The measurements of leverage one: the part of a random vector off the span of these columns is zero there."""
    if gram.factor is None:
        return np.zeros(0, dtype=np.intp)
    e = fixed_direction(len(columns))
    left = e - columns @ gram.solve(columns.T @ e)
    return np.flatnonzero(np.abs(left) < tol.ROUNDING * np.abs(e))


def _least_spare(W: Float) -> tuple[Indices, Float]:
    """Of the groups of unknowns that the measurements of one see alone, that with the fewest to spare, and its rows."""
    size, s = np.abs(W), W.shape[1]
    seen = size > tol.ROUNDING * float(size.max(initial=0.0))
    counts = np.count_nonzero(seen, axis=0)
    if seen.all() or int(counts.min()) > s:
        return np.zeros(0, dtype=np.intp), np.zeros((0, s))
    # within[k, j]: every measurement that sees k sees j, too.
    within = seen.T.astype(np.float32) @ (~seen).astype(np.float32) == 0
    part = np.flatnonzero(within[:, int(np.argmin(counts - within.sum(axis=0)))])
    return np.flatnonzero(seen[:, part].any(axis=1)), np.eye(s)[part]
