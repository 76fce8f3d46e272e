"""Whether some coordinates of x have other values, because no measurement of them is left to rule these out.

All coordinates together may have measurements to spare, and a few of them none: three that are seen by three
measurements only, given the others, are three quadratic equations with three unknowns. Complex solutions of such
equations come in pairs, and 2^g is even: where there is one real solution, there is another. It is looked for by
Levenberg–Marquardt on these coordinates alone. Under noise a few measurements to spare may not be enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust.answer import positions
from fastquad.engine.trust.challenge import CHALLENGE
from fastquad.engine.trust.rivals import Tests, expand, names
from fastquad.numerics.independence import Gram
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.numerics.matching import square_part
from fastquad.numerics.symmetry import fixed_direction
from fastquad.typing import Asks, Float, Indices

# The number of starts for another solution, and their size relative to x there.
_STARTS, _SIZES = 24, (1.0, 3.0)
# The share of the largest product that is rounding.
_ROUNDING = 1e-9
# The number of measurements to spare with which noise, if it is more than a small share of y, does not move x far.
_ENOUGH_IN_NOISE, _SMALL_NOISE = 3, 0.01


class Part(NamedTuple):
    """Some of the unknowns, by their positions, the measurements that see them, and how many more there should be."""

    unknowns: Indices
    rows: Indices
    wanted: int

    def doubt(self, named: str) -> str:
        """The sentence if no other values are found; empty if there are measurements enough."""
        if self.rows.size >= self.unknowns.size + self.wanted:
            return ""
        numbers = f"Only {self.rows.size} measurements see {named}, for {self.unknowns.size} unknowns"
        return f"{numbers}: other values may fit as well."

    def linear(self, block: Float, free: Indices) -> bool:
        """Whether there are as many equations, linear in these unknowns, so that they have one solution."""
        return self.rows.size <= self.unknowns.size and not block[:, free[:, None], free].any()


def hardly_seen(W: Float, limit: Float, noise: float | None, *, turning: bool = False) -> Part | None:
    """The unknowns that have no measurement to spare, given their products W (m, s); None if all have.

    `limit` (m,) is the product from which on a measurement sees an unknown. Under `noise`, a share of y, it must only
    be more than rounding, and more than one should be to spare. One of the real numbers of a complex signal, which is
    `turning`, is only its phase.
    """
    size = np.abs(W)
    if noise is not None:
        limit = np.full(len(W), _ROUNDING * float(size.max(initial=0.0)))
    if float(size.min(initial=np.inf)) > float(limit.max(initial=0.0)):
        return None
    seen = size > limit[:, None]
    counts = np.count_nonzero(seen, axis=0)
    part = _none_to_spare(seen, counts, turning) if noise is None else _least_spare(seen, counts)
    if part.size in (0, counts.size):
        return None
    wanted = _ENOUGH_IN_NOISE if noise is not None and noise > _SMALL_NOISE else 1
    return Part(part, np.flatnonzero(seen[:, part].any(axis=1)), wanted)


def _none_to_spare(seen: NDArray[np.bool_], counts: Indices, turning: bool) -> Indices:
    """The unknowns without a measurement to spare; the phase is left to the one that is seen most."""
    unknowns = np.delete(np.arange(counts.size), int(np.argmax(counts)) if turning else [])
    return unknowns[square_part(seen[:, unknowns])]


def _least_spare(seen: NDArray[np.bool_], counts: Indices) -> Indices:
    """The unknowns with the fewest measurements to spare, of the groups that the measurements of one see alone."""
    if int(counts.min()) > counts.size:
        return np.zeros(0, dtype=np.intp)
    # within[k, j]: every measurement that sees k sees j, too.
    within = seen.T.astype(np.float32) @ (~seen).astype(np.float32) == 0
    return np.flatnonzero(within[:, int(np.argmin(counts - within.sum(axis=0)))])


def solutions(y: Float, z: Float, block: Float, free: Indices, *, noisy: bool) -> Iterator[Float]:
    """Signals with other values at the free places that fit these measurements; under noise, nearly or not."""
    spread, rng = float(np.sqrt(np.mean(z[free] ** 2))), np.random.default_rng(3)
    for attempt in range(_STARTS):
        start = z.copy()
        start[free] = _SIZES[attempt % len(_SIZES)] * spread * rng.standard_normal(free.size)
        descent = on_block(y, start, block, CHALLENGE, free=free)
        if noisy or descent.residual < EXACT_RESIDUAL:
            yield descent.z


def subsystem(tests: Tests) -> Asks[str]:
    """The doubt if some coordinates have other values that fit as well; empty if none have."""
    answer, problem, noisy = tests.answer, tests.problem, tests.measure.noisy
    # A change of the coordinate by the norm of x must show in a measurement that sees it.
    limit = tests.need * tests.delta / (2 * tests.norm)
    part = hardly_seen(answer.columns, limit, answer.residual if noisy else None)
    if part is None:
        return "" if noisy else (yield from _in_a_basis(tests))
    S = answer.S[part.unknowns]
    block = yield from answer.block()
    if block is None:
        return part.doubt(names(S))
    block, free = block[part.rows], positions(S, answer.places)
    if part.linear(block, free):
        return ""
    for z in solutions(problem.y[part.rows], answer.x[answer.places], block, free, noisy=noisy):
        twin = yield from tests.refit(expand(z, answer.places, problem.n), answer.S)
        if twin is not None and tests.another(twin):
            return tests.shown()
    return part.doubt(names(S))


def _in_a_basis(tests: Tests) -> Asks[str]:
    """The same for directions of x that are no coordinates: as many as there are measurements that alone see them.

    Such a measurement is fitted whatever it is: its row of W is in no span of the others.
    """
    answer, problem = tests.answer, tests.problem
    rows = _fitted_alone(answer.columns, answer.gram)
    if rows.size == 0 or rows.size >= problem.m - 1:
        return ""
    values, vectors = np.linalg.svd(np.delete(tests.scaled(answer.columns), rows, axis=0))[1:]
    directions = vectors[np.count_nonzero(values > tests.need) :]
    block = yield from answer.block()
    if block is None or len(directions) == 0 or problem.fixed:
        return ""
    bent = np.abs(directions @ block[rows] @ directions.T).max(initial=0.0)
    if bent <= _ROUNDING * float(np.abs(block).max(initial=0.0)):
        return ""  # linear equations, which have one solution
    rng = np.random.default_rng(3)
    for attempt in range(_STARTS):
        moved = answer.x.copy()
        moved[answer.S] += (
            _SIZES[attempt % len(_SIZES)] * tests.norm * (rng.standard_normal(len(directions)) @ directions)
        )
        twin = yield from tests.refit(moved, answer.S)
        if twin is not None and tests.another(twin):
            return tests.shown()
    count = f"{len(directions)} directions of x" if len(directions) > 1 else "one direction of x"
    return f"Only {rows.size} measurements see {count}: other values may fit as well."


def _fitted_alone(columns: Float, gram: Gram) -> Indices:
    """The measurements that least squares on these columns fits whatever they are: of leverage one.

    `P e` with the projection P off the span of the columns and a random e: it is zero where the diagonal of P is.
    """
    if gram.factor is None:
        return np.zeros(0, dtype=np.intp)
    e = fixed_direction(len(columns))
    left = e - columns @ gram.solve(columns.T @ e)
    return np.flatnonzero(np.abs(left) < _ROUNDING * np.abs(e))
