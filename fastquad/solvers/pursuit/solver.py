"""Pursuit: seeded greedy growth with Levenberg–Marquardt, on blocks screened by the diagonal.

For very sparse x most of A is of no use. `I_l = Σ_i y_i A_i[l, l]/m` has the mean x_l² (times the variance of A's
entries), so the likely coordinates come first in the order of I. Only one good pair (seed, partner) is needed: every
further coordinate is easier, and a wrong one costs nothing while |S| < m. So

    level:  take the block of the first p coordinates (only pairs that are new are read)
        grow a support from each of them, and again with the first or second choice passed over (limited-discrepancy
        search: a wrong first choice is the usual failure);
        rank the runs by how far their RSS falls below the median curve, prune, and extend the best over all n
            coordinates, which reads rows of their largest members;
        search the block broadly for a support that explains all of y (see `fastquad.solvers.pursuit.beam`);
        p ← 1.6 p + 1

until the residual vanishes. What is read: the diagonals, p²/2 pairs, and a few rows; typically 0.003 to 0.2 of A.

With noise nothing vanishes: the support with the best score (see `fastquad.solvers.parts.noise_fit`) is then
improved by single changes after each level, and ends the search where that makes it convincing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Outcome, Steps
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.solvers.parts.noise_fit import conclusion, explaining_more
from fastquad.solvers.pursuit.search import Search
from fastquad.solvers.pursuit.tuning import Level, levels
from fastquad.typing import Asks

__all__ = ["Pursuit", "Search", "run"]

# The number of further levels that must confirm what looks like noise.
_UNCHANGED_LEVELS = 1


def run(
    problem: Problem, entries: Entries, search: Search, levels: Iterable[Level], noisy: bool = True, quick: bool = False
) -> Asks[tuple[Outcome | None, Fit | None]]:
    """Pursuit on these levels: the outcome that ends the solve, or the best fit.

    A support that lacks a few small coordinates looks like noise. So where no noise level was given, what looks like it
    is taken for it only when a further level, or the end, has brought nothing better. Without `noisy` only what fits
    exactly is looked for. A `quick` search ends with the first support that is beyond chance.
    """
    best: Fit | None = None
    likely: Outcome | None = None
    unchanged = 0
    search.quick = quick
    for level in levels:
        yield from search.level(level)
        before = np.inf if likely is None else likely.residual
        for found in (yield from search.fits(noisy)):
            outcome = yield from conclusion(problem, entries, found, "pursuit", search.cache)
            if outcome is None or (outcome.noise is not None and not noisy):
                best = explaining_more(problem, found, best)
            elif outcome.noise is None or problem.noise.given:
                return outcome, best
            else:
                likely = outcome
        unchanged = unchanged + 1 if likely is not None and likely.residual > 0.99 * before else 0
        if unchanged >= _UNCHANGED_LEVELS or search.done:
            break
    return likely, best


@options
class Pursuit(Solver):
    """Seeded greedy growth with Levenberg–Marquardt, for very sparse signals: reads a small part of A.

    Use it for k below about m/8, also for m far below n. k need not be known. It ends with the first answer that
    fits to a relative residual of 1e-9 or, if the data are noisy, that is far better than chance. It gives up when
    growth from all coordinates, with up to `max_skips` better choices passed over, has found nothing.

    Parameters
    ----------
    max_skips : int
        How many better choices the first two additions of a run may pass over, from 0 to 4. More take longer, and
        find more.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=40, n=120, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.Pursuit())
    >>> solution.status.name, bool(solution.n_passes < 0.5)
    ('EXACT', True)
    """

    name: ClassVar[str] = "pursuit"

    max_skips: int = 4

    def __post_init__(self) -> None:
        if self.max_skips not in range(5):
            raise ValueError(f"`max_skips` must be an integer from 0 to 4, got {self.max_skips!r}.")

    def steps(self, problem: Problem) -> Steps:
        entries = yield from sample_entries(problem)
        search = yield from Search.begin(problem, entries, GrowingBlock.within(problem))
        plan = levels(problem, self.max_skips)
        outcome, best = yield from run(problem, entries, search, plan)
        if outcome is None and best is None:  # no seed grew
            return Outcome(np.zeros(problem.n), 1.0)
        if outcome is None:
            assert best is not None
            outcome = Outcome(best.x, best.residual)

        from fastquad.solvers.parts.finish import finished

        return (yield from finished(problem, entries, outcome, search.cache))
