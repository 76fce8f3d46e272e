"""Pursuit: seeded greedy growth with Levenberg–Marquardt, on blocks screened by the diagonal.

For very sparse x most of A is of no use. `I_l = Σ_i y_i A_i[l, l]/m` has the mean x_l² (times the variance of A's
entries), so the likely coordinates come first in the order of I. Only one good pair (seed, partner) is needed: every
further coordinate is easier, and a wrong one costs nothing while |S| < m. So

    level:  take the block of the first p coordinates (only pairs that are new are read)
        grow a support from each of them, and again with the first or second choice passed over (limited-discrepancy
        search: a wrong first choice is the usual failure);
        rank the runs by how far their RSS falls below the median curve, prune, and extend the best over all n
            coordinates, which reads the rows of their support;
        p ← 1.6 p + 1

until the residual vanishes. What is read: the diagonals, p²/2 pairs, and a few rows; typically 0.003 to 0.2 of A.

With noise nothing vanishes: the support with the least `BIC = m ln(RSS/|y|²) + 2|S| ln n` is kept, and BIC < −m/2 ends
the search.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import EXACT_RESIDUAL, Diagonals, Outcome, Step, Steps
from fastquad.solvers.ensemble import Entries, sample_entries
from fastquad.solvers.extension import Extension, Support
from fastquad.solvers.growth import Growth, Run, ranked
from fastquad.solvers.lm import Fit
from fastquad.solvers.pairs import PairStore

_MAX_BLOCK_ENTRIES = 2.5e8
_MAX_CANDIDATES = 25
_MAX_SEEDS = 400


class Phase(NamedTuple):
    """Growth from every seed, with each of these skips, up to `limit` members."""

    skips: list[tuple[int, int]]
    limit: int


class Level(NamedTuple):
    """How many coordinates are taken, and what is tried with them."""

    p: int
    phases: list[Phase]


def levels(m: int, n: int) -> Iterator[Level]:
    """The levels, from the few likeliest coordinates to as many as memory allows."""
    cap = int(min(n, np.sqrt(_MAX_BLOCK_ENTRIES / m)))
    p = int(min(max(40, np.sqrt(2 * n)), cap))
    while True:
        short = int(np.clip(max(12, m / 6), 4, max(4, min(25, p - 1, m / 2))))
        long = int(min(0.6 * m, 60, p - 1))
        phases = [Phase(_discrepancies(0, 1), short)]
        if p == cap:
            phases += [Phase([(0, 0)], long)] + [Phase(_discrepancies(d, d), short) for d in (2, 3, 4)]
        yield Level(p, phases)
        if p == cap:
            return
        p = min(cap, int(1.6 * p) + 1)


def _discrepancies(low: int, high: int) -> list[tuple[int, int]]:
    """All (b1, b2) with low <= b1 + b2 <= high."""
    return [(total - b2, b2) for total in range(low, high + 1) for b2 in range(total + 1)]


@dataclass
class Search:
    """The state of one pursuit: what has been read, and the best support."""

    problem: Problem
    store: PairStore
    growth: Growth
    extension: Extension
    best: Support | None = None
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
        store = PairStore(problem.m, order, scale, centre=not entries.centred)
        return cls(problem, store, Growth(store, y), Extension(store, problem.y, diagonals))

    @property
    def exact(self) -> bool:
        """Whether the best support explains y."""
        return self.best is not None and self.best.rss < EXACT_RESIDUAL**2 * self.extension.square

    def level(self, level: Level) -> Generator[Any, Any, None]:
        """Grow, rank and extend on the block of this level."""
        yield from self.store.read_block(level.p)
        for phase in level.phases:
            yield from self._phase(level.p, phase)
            if self.exact:
                return

    def _phase(self, p: int, phase: Phase) -> Generator[Any, Any, None]:
        runs: list[Run] = []
        for grown in self.growth.rounds(min(p, _MAX_SEEDS), phase.skips, phase.limit):
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
        budget = int(max(8, 0.75 * p**2 / self.problem.n)) + len(self.store.rows)
        tried = len(self.tried)
        for run in ranked(runs):
            yield from self._try(run, budget - len(self.store.rows))
            if self.exact or len(self.tried) - tried >= _MAX_CANDIDATES:
                return

    def _try(self, run: Run, max_rows: int) -> Generator[Any, Any, None]:
        """Prune a grown support, and extend it over all coordinates."""
        run = self.growth.prune(run)
        support = Support(run.places, run.z, float(run.curve[-1]))
        key = frozenset(map(int, support.places))
        if key in self.tried:
            return
        self.tried.add(key)
        support = yield from self.extension(support, max_rows)
        if self.store.centre:
            support = yield from self.extension.polish(support)
        if self.best is None or support.rss < self.best.rss:
            self.best = support
        yield Step(*self.answer())

    def fit(self) -> Fit | None:
        """The best support, as the other stages use it."""
        if self.best is None:
            return None
        x, residual = self.answer()
        return Fit(x, residual, np.sort(self.store.order[self.best.places]), np.empty((0, 0)), np.empty(0))

    def _step(self, run: Run) -> Step:
        """The best answer so far, or this run where there is none."""
        if self.best is not None:
            return Step(*self.answer())
        x = np.zeros(self.problem.n)
        x[self.store.order[run.places]] = run.z
        return Step(x, float(np.sqrt(run.curve[-1] / self.extension.square)))

    def answer(self) -> tuple[Float, float]:
        """x and its relative residual."""
        assert self.best is not None
        x = np.zeros(self.problem.n)
        x[self.store.order[self.best.places]] = self.best.z
        return x, float(np.sqrt(self.best.rss / self.extension.square))


@dataclass(frozen=True)
class Pursuit(Solver):
    """Seeded greedy growth, for very sparse signals: reads a small part of A."""

    name: ClassVar[str] = "pursuit"

    def steps(self, problem: Problem) -> Steps:
        search = yield from Search.begin(problem, (yield from sample_entries(problem)))
        for level in levels(problem.m, problem.n):
            yield from search.level(level)
            if search.exact:
                break
        x, residual = search.answer()
        return Outcome(x, residual)
