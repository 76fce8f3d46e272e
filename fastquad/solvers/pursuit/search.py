"""The search of pursuit: supports grown on screened blocks, the promising ones extended over all coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, Step
from fastquad.measurements.contractions import Diagonals
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.priors.sparse import Sparse
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.solvers.parts.noise_fit import enough, score, stepwise
from fastquad.solvers.pursuit.beam import beam
from fastquad.solvers.pursuit.extension import Extension, Support
from fastquad.solvers.pursuit.growth import Grown, Growth, ranked, rounds
from fastquad.solvers.pursuit.pairs import PairStore
from fastquad.solvers.pursuit.tuning import PROMISING, Level, Phase
from fastquad.typing import Asks, Float

# The share of the memory that rows may take.
_ROWS_SHARE = 1 / 4
# The number of candidates that a phase extends over all coordinates.
_MAX_CANDIDATES = 25
# The number of seeds that supports are grown from.
_MAX_SEEDS = 400
# The number of rows that a phase may always read; if a candidate is right, it is mostly the first.
_FEW_ROWS = 4
# The number of rows that a phase may read, in units of p²/n: they hold half as many pairs as the block of p
# coordinates.
_ROWS_OF_BLOCK = 0.25
# The number of coordinates from which on `_FEW_ROWS` rows are less than a hundredth of a pass.
_MANY = 2000
_POLISH = Rule(max_steps=50)


@dataclass
class Search:
    """The state of one pursuit: what has been read, and the best supports."""

    problem: Problem
    store: PairStore
    growth: Growth
    extension: Extension
    #: What has been read of A in double precision.
    cache: GrowingBlock
    best: Support | None = None
    likely: Support | None = None
    tried: set[frozenset[int]] = field(default_factory=set)
    #: Whether the search ends at the first support that is beyond chance: others will follow it.
    quick: bool = False

    @classmethod
    def begin(cls, problem: Problem, entries: Entries, cache: GrowingBlock) -> Asks[Search]:
        """Read the diagonals and order the coordinates by them."""
        diagonals = yield Diagonals()
        y = problem.y if entries.centred else problem.y - problem.y.mean()
        size = float(np.sqrt(np.mean(diagonals**2)))
        # Scale by a power of two, which causes no rounding.
        scale = float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0
        width = 1 + problem.turning
        order = np.argsort(-(y @ diagonals[:, ::width]), kind="stable")
        order = (width * order[:, None] + np.arange(width)).reshape(-1)
        max_rows = int(_ROWS_SHARE * problem.memory / (4 * problem.m * problem.n))
        store = PairStore(problem.m, order, scale, max_rows, centre=not entries.centred)
        nonnegative = isinstance(problem.prior, Sparse) and problem.prior.nonnegative
        growth = Growth(store, y, width, nonnegative=nonnegative)
        extension = Extension(store, problem.y, diagonals, cache, width, nonnegative=nonnegative)
        return cls(problem, store, growth, extension, cache)

    @property
    def exact(self) -> bool:
        """Whether the best support explains y."""
        return self.best is not None and self.best.rss < EXACT_RESIDUAL**2 * self.extension.square

    @property
    def done(self) -> bool:
        """Whether further candidates are useless: y is explained, or, in a quick search, y is as good as explained.

        A complete support that explains y far beyond chance is nearly always the signal but for coordinates in the
        noise, and others lead to the same one. That the data are exact after all, and it lacks small coordinates, is
        left to slower searches.
        """
        if self.exact or self.likely is None or not self.quick or self.problem.noiseless:
            return self.exact
        return self._score(self.likely) < -enough(self.problem) and self.extension.complete(self.likely)

    def level(self, level: Level) -> Asks[None]:
        """Grow, rank and extend on the block of this level."""
        yield from self.store.read_block(level.p)
        for phase in level.phases:
            if phase.beam:
                yield from self._beam(phase.limit)
            else:
                yield from self._phase(level.p, phase)
            if self.done:
                return

    def _beam(self, limit: int) -> Asks[None]:
        """Search broadly, and try what explains y."""
        for run in (yield from beam(self.growth, limit)):
            yield from self._try(run, self.problem.n)
            if self.done:
                return

    def _phase(self, p: int, phase: Phase) -> Asks[None]:
        """Grow from every seed; then prune and extend the best."""
        runs: list[Grown] = []
        before: list[float] = []
        for seeds, skips in rounds(min(p // self.growth.width, _MAX_SEEDS), phase.skips):
            grown = yield from self.growth.round(seeds, skips, phase.limit, before)
            fresh = [run for run in grown if run.curve.size]  # a seed of the wrong sign may not grow at all
            if not fresh:
                continue
            runs += fresh
            solved = [run for run in fresh if run.curve[-1] < 1e-6 * self.extension.square]
            for run in sorted(solved, key=lambda run: run.curve[-1])[:3]:
                yield from self._try(run, self.problem.n)
                if self.done:
                    return
            yield self._step(min(fresh, key=lambda run: run.curve[-1]))
            if len(runs) == len(fresh) and self.problem.n >= _MANY:
                # Try the best of the first seeds at once: they are the likeliest, and a few rows are cheaper than
                # growth.
                for run in ranked(fresh)[:2]:
                    yield from self._try(run, self.growth.width * _FEW_ROWS)
                    if self.done:
                        return
        last = int(max(self.growth.width * _FEW_ROWS, _ROWS_OF_BLOCK * p**2 / self.problem.n)) + self.store.rows_read
        seen: set[frozenset[int]] = set()
        for run in ranked(runs):
            support, key = self._pruned(run)
            if key in self.tried or key in seen:
                continue
            seen.add(key)
            yield from self._extend(support, last - self.store.rows_read)
            if self.done or len(seen) >= _MAX_CANDIDATES:
                return

    def _try(self, run: Grown, max_rows: int) -> Asks[None]:
        """Prune a grown support, and extend it over all coordinates, if it is a new one."""
        support, key = self._pruned(run)
        if key not in self.tried:
            yield from self._extend(support, max_rows)

    def _pruned(self, run: Grown) -> tuple[Support, frozenset[int]]:
        """A grown support without its superfluous members, and its places as a set."""
        run = self.growth.prune(run)
        return Support(run.places, run.z, float(run.curve[-1])), frozenset(map(int, run.places))

    def _extend(self, support: Support, max_rows: int) -> Asks[None]:
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

    def _step(self, run: Grown) -> Step:
        """The best answer so far, or this run where there is none."""
        support = Support(run.places, run.z, float(run.curve[-1])) if self.best is None else self.best
        return Step(*self._answer(support))

    def _answer(self, support: Support) -> tuple[Float, float]:
        """x and its relative residual."""
        x = np.zeros(self.problem.n)
        x[self.store.order[support.places]] = support.z
        return x, float(np.sqrt(support.rss / self.extension.square))

    @property
    def _promising(self) -> bool:
        """Whether the likeliest support may be signal in noise."""
        return self.likely is not None and self._score(self.likely) < -PROMISING * self.problem.m

    def likeliest(self) -> Float | None:
        """The likeliest signal, where it may be signal in noise, (n,)."""
        return self._answer(self.likely)[0] if self.likely is not None and self._promising else None

    def fits(self, noisy: bool = True) -> Asks[list[Fit]]:
        """The best support, fitted to A in double precision.

        Where the data may be `noisy`, the likeliest as well, improved by single changes.
        """
        found: list[Fit] = []
        if self.best is None or self.likely is None:
            return found
        x, _ = self._answer(self.best)
        found.append((yield from fit(self.problem, x, np.flatnonzero(x), _POLISH, self.cache)))
        if noisy and self._promising and not self.exact and not self.problem.noiseless:
            x, _ = self._answer(self.likely)
            rough = yield from fit(self.problem, x, np.flatnonzero(x), _POLISH, self.cache)
            found.append((yield from stepwise(self.problem, rough, self.cache)))
        return found
