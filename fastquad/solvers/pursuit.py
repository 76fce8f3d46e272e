"""Pursuit: seeded greedy growth with Levenberg–Marquardt, on blocks screened by the diagonal.

For very sparse x most of A is of no use. `I_l = Σ_i y_i A_i[l, l]/m` has the mean x_l² (times the variance of A's entries),
so the likely coordinates come first in the order of I. Only one good pair (seed, partner) is needed: every further
coordinate is easier, and a wrong one costs nothing while |S| < m. So

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
from numpy.typing import NDArray

from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import EXACT_RESIDUAL, Diagonals, Outcome, Step, Steps
from fastquad.solvers.extension import RowCache, Support, extend, prune, refit
from fastquad.solvers.growth import PackedBlock, Run, rounds
from fastquad.solvers.lm import Rule

_MAX_BLOCK_ENTRIES = 2.5e8
_MAX_CANDIDATES = 25
_MAX_SEEDS = 400
_POLISH = Rule(max_steps=50)


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
    diagonals: Float
    block: PackedBlock
    cache: RowCache = field(default_factory=RowCache)
    best: Support | None = None
    tried: set[frozenset[int]] = field(default_factory=set)

    @classmethod
    def begin(cls, problem: Problem) -> Generator[Any, Any, Search]:
        """Read the diagonals and order the coordinates by them."""
        diagonals = yield Diagonals()
        scale = float(np.sqrt(np.mean(diagonals**2))) or 1.0
        order = np.argsort(-(problem.y @ diagonals), kind="stable")
        return cls(problem, diagonals, PackedBlock(problem.y, order, scale))

    @property
    def exact(self) -> bool:
        """Whether the best support explains y."""
        return self.best is not None and self.best.rss < (EXACT_RESIDUAL * np.linalg.norm(self.problem.y)) ** 2

    def level(self, level: Level) -> Generator[Any, Any, None]:
        """Grow, rank and extend on the block of this level."""
        yield from self.block.read(level.p)
        for phase in level.phases:
            yield from self._phase(level.p, phase)
            if self.exact:
                return

    def _phase(self, p: int, phase: Phase) -> Generator[Any, Any, None]:
        runs: list[Run] = []
        square = float(self.problem.y @ self.problem.y)
        budget = _Budget(int(max(8, 0.75 * p**2 / self.problem.n)))
        for fresh in rounds(self.block, min(p, _MAX_SEEDS), phase.skips, phase.limit):
            runs += fresh
            solved = [run for run in fresh if run.curve[-1] < 1e-6 * square]
            for run in sorted(solved, key=lambda run: run.curve[-1])[:3]:
                yield from self._try(run, p, _Budget(self.problem.n))
                if self.exact:
                    return
            yield self._step(min(fresh, key=lambda run: run.curve[-1]))
        for run in ranked(runs):
            if budget.candidates <= 0:
                return
            yield from self._try(run, p, budget)
            if self.exact:
                return

    def _try(self, run: Run, p: int, budget: _Budget) -> Generator[Any, Any, None]:
        """Prune a grown support, and extend it over all coordinates."""
        y = self.problem.y
        members = self.block.order[run.members]
        support = Support(members, run.values, float(run.curve[-1]))
        support = prune(y, self.block.gather(run.members), support, float(np.log(p)))
        key = frozenset(map(int, support.members))
        if key in self.tried:
            return
        self.tried.add(key)
        budget.candidates -= 1
        before = len(self.cache.rows)
        support = yield from extend(self.problem, self.diagonals, self.cache, support, budget.rows)
        budget.rows -= len(self.cache.rows) - before
        if not self.cache.missing(support.members):
            support = refit(y, self.cache.block(support.members), support.members, support.z, _POLISH)
        if self.best is None or support.rss < self.best.rss:
            self.best = support
        yield Step(*self.answer())

    def _step(self, run: Run) -> Step:
        """The best answer so far, or this run where there is none."""
        if self.best is not None:
            return Step(*self.answer())
        x = np.zeros(self.problem.n)
        x[self.block.order[run.members]] = run.values
        return Step(x, float(np.sqrt(run.curve[-1]) / np.linalg.norm(self.problem.y)))

    def answer(self) -> tuple[Float, float]:
        """x and its relative residual."""
        assert self.best is not None
        x = np.zeros(self.problem.n)
        x[self.best.members] = self.best.z
        return x, float(np.sqrt(self.best.rss) / np.linalg.norm(self.problem.y))


@dataclass
class _Budget:
    """What a phase may still spend on extension."""

    rows: int
    candidates: int = _MAX_CANDIDATES


def ranked(runs: list[Run]) -> list[Run]:
    """The runs, first those whose RSS falls furthest below the median of all at some size."""
    longest = max(run.curve.size for run in runs)
    logs = np.full((len(runs), longest), np.nan)
    for i, run in enumerate(runs):
        logs[i, : run.curve.size] = np.log(np.maximum(run.curve, 1e-300))
    gaps = np.nanmax(np.nanmedian(logs, axis=0) - logs, axis=1)
    return [runs[i] for i in np.lexsort(([run.curve[-1] for run in runs], -gaps))]


@dataclass(frozen=True)
class Pursuit(Solver):
    """Seeded greedy growth, for very sparse signals: reads a small part of A."""

    name: ClassVar[str] = "pursuit"

    def steps(self, problem: Problem) -> Steps:
        search = yield from Search.begin(problem)
        for level in levels(problem.m, problem.n):
            yield from search.level(level)
            if search.exact:
                break
        x, residual = search.answer()
        return Outcome(x, residual)
