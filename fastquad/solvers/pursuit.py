"""Pursuit: seeded greedy growth with Levenberg–Marquardt, on blocks screened by the diagonal.

For very sparse x most of A is of no use. `I_l = Σ_i y_i A_i[l, l]/m` has the mean x_l² (times the variance of A's
entries), so the likely coordinates come first in the order of I. Only one good pair (seed, partner) is needed: every
further coordinate is easier, and a wrong one costs nothing while |S| < m. So

    level:  take the block of the first p coordinates (only pairs that are new are read)
        grow a support from each of them, and again with the first or second choice passed over (limited-discrepancy
        search: a wrong first choice is the usual failure);
        rank the runs by how far their RSS falls below the median curve, prune, and extend the best over all n
            coordinates, which reads rows of their largest members;
        search the block broadly for a support that explains all of y (see `fastquad.solvers.beam`);
        p ← 1.6 p + 1

until the residual vanishes. What is read: the diagonals, p²/2 pairs, and a few rows; typically 0.003 to 0.2 of A.

With noise nothing vanishes: the support with the best score (see `fastquad.solvers.noise`) is then improved by single
changes after each level, and ends the search where that makes it convincing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.beam import beam
from fastquad.solvers.driver import EXACT_RESIDUAL, Diagonals, Outcome, Step, Steps
from fastquad.solvers.ensemble import Entries, sample_entries
from fastquad.solvers.extension import Extension, Support
from fastquad.solvers.growth import Growth, Run, ranked, rounds
from fastquad.solvers.lm import Fit, GrowingBlock, Rule, fit
from fastquad.solvers.noise import score, stepwise
from fastquad.solvers.pairs import PairStore
from fastquad.solvers.verdict import verdict

# At most so many entries of A in the block, and of the memory; with the copy while it grows, an entry takes 2.8 bytes.
_MAX_BLOCK_ENTRIES = 2.5e8
_BLOCK_SHARE, _BYTES_OF_ENTRY = 1 / 8, 2.8
# The share of the memory that rows take.
_ROWS_SHARE = 1 / 4
_MAX_CANDIDATES = 25
_MAX_SEEDS = 400
# So many rows can always be read, or rows with half as many pairs as the block: if a candidate is right, then mostly
# the first. From so many coordinates on, the few rows are less than a hundredth of a pass.
_FEW_ROWS, _ROWS_OF_BLOCK, _MANY = 4, 0.25, 2000
# With more measurements seeds have true partners among their first choices, and a broad search only takes time; so it
# does for larger supports, on blocks of fewer coordinates, and on those of nearly as many as the last.
_FEW_MEASUREMENTS, _LARGEST, _BROAD, _SOON = 50, 8, 100, 2 / 3
_POLISH = Rule(max_steps=50)
# A support with a score below this, for each measurement, may be signal in noise: worth a closer look.
_PROMISING = 0.1
# So many further levels must confirm what looks like noise.
_UNCHANGED_LEVELS = 1


class Phase(NamedTuple):
    """Growth from every seed, with each of these skips, up to `limit` members; or a broad search up to as many."""

    skips: list[tuple[int, int]]
    limit: int
    beam: bool = False


class Level(NamedTuple):
    """How many coordinates are taken, and what is tried with them."""

    p: int
    phases: list[Phase]


def levels(problem: Problem, max_skips: int = 4) -> Iterator[Level]:
    """The levels, from the few likeliest coordinates to as many as memory allows."""
    m, n = problem.m, problem.n
    cap = int(min(n, max(2, np.sqrt(max_entries(problem) / m))))
    p = int(min(max(40, np.sqrt(2 * n)), cap))
    while True:
        short = int(np.clip(max(12, m / 6), 4, max(4, min(25, p - 1, m / 2))))
        long = int(min(0.6 * m, 60, p - 1))
        phases = [Phase(_skips(0, min(1, max_skips)), short)]
        if max_skips and m <= _FEW_MEASUREMENTS and (p == cap or _BROAD <= p < _SOON * cap):
            phases.append(Phase([], min(_LARGEST, m // 3), beam=True))
        if p == cap:
            phases += [Phase([(0, 0)], long)] + [Phase(_skips(d, d), short) for d in range(2, max_skips + 1)]
        yield Level(p, phases)
        if p == cap:
            return
        p = min(cap, int(1.6 * p) + 1)


def max_entries(problem: Problem) -> float:
    """How many entries of A a block may have."""
    return min(_MAX_BLOCK_ENTRIES, _BLOCK_SHARE * problem.memory / _BYTES_OF_ENTRY)


def _skips(low: int, high: int) -> list[tuple[int, int]]:
    """All (b1, b2) with low <= b1 + b2 <= high."""
    return [(total - b2, b2) for total in range(low, high + 1) for b2 in range(total + 1)]


@dataclass
class Search:
    """The state of one pursuit: what has been read, and the best supports."""

    problem: Problem
    store: PairStore
    growth: Growth
    extension: Extension
    best: Support | None = None
    likely: Support | None = None
    tried: set[frozenset[int]] = field(default_factory=set)

    @classmethod
    def begin(cls, problem: Problem, entries: Entries) -> Generator[Any, Any, Search]:
        """Read the diagonals and order the coordinates by them."""
        diagonals = yield Diagonals()
        y = problem.y if entries.centred else problem.y - problem.y.mean()
        size = float(np.sqrt(np.mean(diagonals**2)))
        # A power of two: dividing by it rounds nothing.
        scale = float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0
        order = np.argsort(-(y @ diagonals), kind="stable")
        max_rows = int(_ROWS_SHARE * problem.memory / (4 * problem.m * problem.n))
        store = PairStore(problem.m, order, scale, max_rows, centre=not entries.centred)
        return cls(problem, store, Growth(store, y), Extension(store, problem.y, diagonals))

    @property
    def exact(self) -> bool:
        """Whether the best support explains y."""
        return self.best is not None and self.best.rss < EXACT_RESIDUAL**2 * self.extension.square

    def level(self, level: Level) -> Generator[Any, Any, None]:
        """Grow, rank and extend on the block of this level."""
        yield from self.store.read_block(level.p)
        for phase in level.phases:
            if phase.beam:
                yield from self._beam(phase.limit)
            else:
                yield from self._phase(level.p, phase)
            if self.exact:
                return

    def _beam(self, limit: int) -> Generator[Any, Any, None]:
        """Search broadly, and try what explains y."""
        for run in (yield from beam(self.growth, limit)):
            yield from self._try(run, self.problem.n)
            if self.exact:
                return

    def _phase(self, p: int, phase: Phase) -> Generator[Any, Any, None]:
        """Grow from every seed; then prune and extend the best."""
        runs: list[Run] = []
        before: list[float] = []
        for seeds, skips in rounds(min(p, _MAX_SEEDS), phase.skips):
            grown = yield from self.growth.round(seeds, skips, phase.limit, before)
            fresh = [run for run in grown if run.curve.size]  # a seed of the wrong sign may not grow at all
            if not fresh:
                continue
            runs += fresh
            solved = [run for run in fresh if run.curve[-1] < 1e-6 * self.extension.square]
            for run in sorted(solved, key=lambda run: run.curve[-1])[:3]:
                yield from self._try(run, self.problem.n)
                if self.exact:
                    return
            yield self._step(min(fresh, key=lambda run: run.curve[-1]))
            if len(runs) == len(fresh) and self.problem.n >= _MANY:
                # The likeliest seeds come first, and a few rows are read sooner than the other seeds are grown.
                for run in ranked(fresh)[:2]:
                    yield from self._try(run, _FEW_ROWS)
                    if self.exact:
                        return
        last = int(max(_FEW_ROWS, _ROWS_OF_BLOCK * p**2 / self.problem.n)) + self.store.rows_read
        seen: set[frozenset[int]] = set()
        for run in ranked(runs):
            support, key = self._pruned(run)
            if key in self.tried or key in seen:
                continue
            seen.add(key)
            yield from self._extend(support, last - self.store.rows_read)
            if self.exact or len(seen) >= _MAX_CANDIDATES:
                return

    def _try(self, run: Run, max_rows: int) -> Generator[Any, Any, None]:
        """Prune a grown support, and extend it over all coordinates, if it is a new one."""
        support, key = self._pruned(run)
        if key not in self.tried:
            yield from self._extend(support, max_rows)

    def _pruned(self, run: Run) -> tuple[Support, frozenset[int]]:
        """What is left of a grown support without the members that it does not need, and its places as a set."""
        run = self.growth.prune(run)
        return Support(run.places, run.z, float(run.curve[-1])), frozenset(map(int, run.places))

    def _extend(self, support: Support, max_rows: int) -> Generator[Any, Any, None]:
        """Extend a support over all coordinates, and remember it if it is the best.

        One whose rows are too many now may be tried again at the next level.
        """
        if not self.extension.affordable(support, max_rows):
            return
        self.tried.add(frozenset(map(int, support.places)))
        support = yield from self.extension(support, max_rows)
        if self.store.centre:
            support = yield from self.extension.polish(support)
        if self.best is None or support.rss < self.best.rss:
            self.best = support
        if self.likely is None or self._score(support) < self._score(self.likely):
            self.likely = support
        yield Step(*self._answer(self.best))

    def _score(self, support: Support) -> float:
        return score(self.problem, float(np.sqrt(support.rss / self.extension.square)), support.places.size)

    def _step(self, run: Run) -> Step:
        """The best answer so far, or this run where there is none."""
        support = Support(run.places, run.z, float(run.curve[-1])) if self.best is None else self.best
        return Step(*self._answer(support))

    def _answer(self, support: Support) -> tuple[Float, float]:
        """x and its relative residual."""
        x = np.zeros(self.problem.n)
        x[self.store.order[support.places]] = support.z
        return x, float(np.sqrt(support.rss / self.extension.square))

    def fits(self, cache: GrowingBlock) -> Generator[Any, Any, list[Fit]]:
        """The best support, fitted to A in double precision; and the likeliest in noise, improved by single changes."""
        found: list[Fit] = []
        if self.best is None or self.likely is None:
            return found
        x, _ = self._answer(self.best)
        found.append((yield from fit(self.problem, x, np.flatnonzero(x), _POLISH, cache)))
        promising = self._score(self.likely) < -_PROMISING * self.problem.m
        if promising and not self.exact and self.problem.noise != 0:
            x, _ = self._answer(self.likely)
            rough = yield from fit(self.problem, x, np.flatnonzero(x), _POLISH, cache)
            found.append((yield from stepwise(self.problem, rough, cache)))
        return found


def run(
    problem: Problem, entries: Entries, search: Search, levels: Iterable[Level], cache: GrowingBlock
) -> Generator[Any, Any, tuple[Outcome | None, Fit | None]]:
    """Pursuit on these levels: the outcome that ends the solve, or the best fit.

    A support that lacks a few small coordinates looks like noise. So where no noise level was given, what looks like it
    is taken for it only when a further level, or the end, has brought nothing better.
    """
    best: Fit | None = None
    noisy: Outcome | None = None
    unchanged = 0
    for level in levels:
        yield from search.level(level)
        before = np.inf if noisy is None else noisy.residual
        for found in (yield from search.fits(cache)):
            outcome = yield from verdict(problem, entries, found, "pursuit")
            if outcome is None:
                best = found if best is None or found.residual < best.residual else best
            elif outcome.noise is None or problem.noise is not None:
                return outcome, best
            else:
                noisy = outcome
        unchanged = unchanged + 1 if noisy is not None and noisy.residual > 0.99 * before else 0
        if unchanged >= _UNCHANGED_LEVELS:
            break
    return noisy, best


@dataclass(frozen=True, kw_only=True)
class Pursuit(Solver):
    """Seeded greedy growth with Levenberg–Marquardt, for very sparse signals: reads a small part of A.

    Right for k below about m/8, also for m far below n; k need not be known. It ends with the first answer that fits
    to a relative residual of 1e-9, or, where the data are noisy, that is far better than chance; and gives up when
    growth from all coordinates, with up to `max_skips` better choices passed over, has led nowhere.

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
    certifies: ClassVar[bool] = True

    max_skips: int = 4

    def __post_init__(self) -> None:
        if self.max_skips not in range(5):
            raise ValueError(f"`max_skips` must be an integer from 0 to 4, got {self.max_skips!r}.")

    def steps(self, problem: Problem) -> Steps:
        entries = yield from sample_entries(problem)
        search = yield from Search.begin(problem, entries)
        plan = levels(problem, self.max_skips)
        outcome, best = yield from run(problem, entries, search, plan, GrowingBlock.within(problem))
        if outcome is not None:
            return outcome
        if best is None:  # no seed grew
            return Outcome(np.zeros(problem.n), 1.0)
        return Outcome(best.x, best.residual)
