"""Whether some coordinates of x have other values, because no measurement of them is left to rule these out.

All coordinates together may have measurements to spare, and a few of them none: three that are seen by three
measurements only, given the others, are three quadratic equations with three unknowns. Complex solutions of such
equations come in pairs, and 2^g is even: where there is one real solution, there is another. It is looked for by
Levenberg–Marquardt on these coordinates alone. Under noise a few measurements to spare may not be enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.gauge import expand
from fastquad.engine.trust.search import Candidate, Search
from fastquad.measurements.dense.kept import positions
from fastquad.numerics.independence import Gram
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.numerics.symmetry import fixed_direction
from fastquad.typing import Asks, Float, Indices


def subsystem(case: Search) -> Asks[Iterable[Candidate]]:
    """x with other values at the coordinates that are hardly seen; where there may be some, that is suspected."""
    answer, problem, noisy = case.answer, case.problem, case.measure.noisy
    # A change of the coordinate by the norm of x must show in a measurement that sees it.
    limit = case.measure.need * case.delta / (2 * case.norm)
    seen = _seen(answer.columns, limit, noisy)
    if seen is None:
        return () if noisy else (yield from _in_a_basis(case))
    part = _least_spare(seen) if noisy else _none_to_spare(seen, case.gauge.count)
    if part.size in (0, answer.s):
        return () if noisy else (yield from _in_a_basis(case))
    rows, S = np.flatnonzero(seen[:, part].any(axis=1)), answer.S[part]
    wanted = tol.SETTLING if noisy and answer.residual > tol.TWIN_APART else 1
    doubt = ""
    if rows.size < part.size + wanted:
        numbers = f"Only {rows.size} measurements depend on {case.gauge.names(S)}, for {part.size} unknowns"
        doubt = f"{numbers}: other values may fit as well."
    block = yield from answer.block()
    if block is None:
        case.suspicion = doubt
        return ()
    block, free = block[rows], positions(S, answer.places)
    if rows.size <= part.size and not block[:, free[:, None], free].any():
        return ()  # as many equations, linear in these unknowns: they have one solution
    case.suspicion = doubt

    def solutions() -> Iterator[Candidate]:
        z, rng = answer.x[answer.places], np.random.default_rng(3)
        spread = float(np.sqrt(np.mean(z[free] ** 2)))
        for attempt in range(tol.MANY):
            start = z.copy()
            start[free] = (1 + 2 * (attempt % 2)) * spread * rng.standard_normal(free.size)
            descent = on_block(problem.y[rows], start, block, tol.CHALLENGE, free=free)
            if noisy or descent.residual < EXACT_RESIDUAL:
                yield Candidate(expand(descent.z, answer.places, problem.n), answer.S)

    return solutions()


def _seen(W: Float, limit: Float, noisy: bool) -> NDArray[np.bool_] | None:
    """Which measurement sees which unknown, given their products W (m, s); None if each sees all.

    `limit` (m,) is the product from which on a measurement does. Under noise it must only be more than rounding.
    """
    size = np.abs(W)
    if noisy:
        limit = np.full(len(W), tol.ROUNDING * float(size.max(initial=0.0)))
    if float(size.min(initial=np.inf)) > float(limit.max(initial=0.0)):
        return None
    return np.asarray(size > limit[:, None])


def _none_to_spare(seen: NDArray[np.bool_], gauge: int) -> Indices:
    """The unknowns without a measurement to spare; the phase is left to the one that is seen most."""
    counts = np.count_nonzero(seen, axis=0)
    unknowns = np.delete(np.arange(counts.size), int(np.argmax(counts)) if gauge else [])
    from fastquad.numerics.matching import square_part

    return unknowns[square_part(seen[:, unknowns])]


def _least_spare(seen: NDArray[np.bool_]) -> Indices:
    """The unknowns with the fewest measurements to spare, of the groups that the measurements of one see alone."""
    counts = np.count_nonzero(seen, axis=0)
    if int(counts.min()) > counts.size:
        return np.zeros(0, dtype=np.intp)
    # within[k, j]: every measurement that sees k sees j, too.
    within = seen.T.astype(np.float32) @ (~seen).astype(np.float32) == 0
    return np.flatnonzero(within[:, int(np.argmin(counts - within.sum(axis=0)))])


def _in_a_basis(case: Search) -> Asks[Iterable[Candidate]]:
    """The same for directions of x that are no coordinates: as many as there are measurements that alone see them.

    Such a measurement is fitted whatever it is: its row of W is in no span of the others.
    """
    answer = case.answer
    rows = _fitted_alone(answer.columns, answer.gram)
    if rows.size == 0 or rows.size >= case.m - 1:
        return ()
    seen, vectors = case.directions(np.delete(case.scaled(answer.columns), rows, axis=0), answer.z)
    directions = vectors[seen <= case.measure.need]
    block = yield from answer.block()
    if block is None or len(directions) == 0 or case.problem.fixed:
        return ()
    bent = np.abs(directions @ block[rows] @ directions.T).max(initial=0.0)
    if bent <= tol.ROUNDING * float(np.abs(block).max(initial=0.0)):
        return ()  # linear equations, which have one solution
    count = f"{len(directions)} directions of x" if len(directions) > 1 else "one direction of x"
    case.suspicion = f"Only {rows.size} measurements depend on {count}: other values may fit as well."
    rng, starts = np.random.default_rng(3), []
    for attempt in range(tol.MANY):
        start = answer.x.copy()
        size = (1 + 2 * (attempt % 2)) * case.norm
        start[answer.S] += size * (rng.standard_normal(len(directions)) @ directions)
        starts.append(Candidate(start, answer.S))
    return starts


def _fitted_alone(columns: Float, gram: Gram) -> Indices:
    """The measurements that least squares on these columns fits whatever they are: of leverage one.

    `P e` with the projection P off the span of the columns and a random e: it is zero where the diagonal of P is.
    """
    if gram.factor is None:
        return np.zeros(0, dtype=np.intp)
    e = fixed_direction(len(columns))
    left = e - columns @ gram.solve(columns.T @ e)
    return np.flatnonzero(np.abs(left) < tol.ROUNDING * np.abs(e))
