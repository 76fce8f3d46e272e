"""The default method: pursuit for the very sparse, AMP and Levenberg–Marquardt for the rest.

Each stage is tried where it is likely to be the cheapest that succeeds, and the first certified answer ends the solve:

    from x0                       Levenberg–Marquardt from the user's start
    a quick pursuit               where the diagonals hint at few large coordinates and its block is at most 0.1 pass
    Levenberg–Marquardt           on all coordinates, from the spectral vector, for m >= 1.3 n: no prior is needed there
    AMP, six starts               for m >= n/2
    pursuit, all levels           first for m < n/2, last for m > n
    Gibbs sampling                at cycling temperatures
    AMP, twelve other settings    before sampling for m > n

An answer is certified by a relative residual below 1e-9 with fewer free coordinates than measurements. Where nothing
fits exactly, a fit that is far better than chance is taken for signal in noise (see `fastquad.solvers.noise`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers import amp, gibbs, noise, pursuit
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import Diagonals, Note, Outcome, Steps
from fastquad.solvers.ensemble import Entries, sample_entries
from fastquad.solvers.lm import Fit, GrowingBlock, Rule, fit
from fastquad.solvers.spectral import leading_eigenvector
from fastquad.solvers.verdict import exact_enough, verdict

Stage = Generator[Any, Any, Outcome | None]

# From this ratio m/n on, Levenberg–Marquardt from the spectral vector needs no prior.
_LM_RATIO = 1.3
_FROM_START = Rule(max_steps=30, patience=8)
# Quick pursuit: at most this share of A's pairs, and this share of the coordinates.
_QUICK_SHARE = 0.1
# A larger tensor is not sampled: a sweep over it takes too long.
_SAMPLED_ENTRIES = 4e6
_CYCLES = 12


@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """The default: pursuit, AMP and Levenberg–Marquardt, combined so that the cheapest that can succeed comes first."""

    name: ClassVar[str] = "auto"
    certifies: ClassVar[bool] = True

    def steps(self, problem: Problem) -> Steps:
        desk = _Desk(problem)
        for stage in desk.stages():
            outcome = yield from stage
            if outcome is not None:
                return outcome
        return desk.give_up()


@dataclass
class _Desk:
    """What the stages of one solve share."""

    problem: Problem
    cache: GrowingBlock = field(init=False)
    best: Fit | None = None
    best_method: str = "amp"
    entries: Entries = field(default_factory=Entries)
    ensemble: amp.Ensemble | None = None
    search: pursuit.Search | None = None

    def __post_init__(self) -> None:
        self.cache = GrowingBlock.within(self.problem)

    def stages(self) -> Iterator[Stage]:
        """The stages, in their order for this shape."""
        m, n = self.problem.m, self.problem.n
        yield self.look()
        if self.problem.x0 is not None:
            yield self.from_start(self.problem.x0)
        if m < n / 2:
            yield self.describe()
            yield self.pursue()
            yield self.message_passing(range(6))
            yield self.sampling()
            yield self.message_passing(range(6, 18))
            return
        yield self.quick_pursuit()
        if m >= _LM_RATIO * n:
            yield self.all_coordinates()
        yield self.describe()
        if m > n:
            # What is left now is seldom sparse, and other settings of AMP are the cheapest that may find it.
            yield self.message_passing(range(18))
            yield self.sampling()
            yield self.pursue()
            return
        yield self.message_passing(range(6))
        yield self.pursue()
        yield self.sampling()
        yield self.message_passing(range(6, 18))

    # -- stages -------------------------------------------------------------------------------------------------

    def look(self) -> Stage:
        """Take a sample of A's entries."""
        self.entries = yield from sample_entries(self.problem)
        return None

    def describe(self) -> Stage:
        """Tell what is special about A's entries, before the stages that it may keep from success."""
        if self.entries.describe():
            yield Note(self.entries.describe())
        return None

    def from_start(self, x0: Float) -> Stage:
        """Levenberg–Marquardt from the user's start, on its support if that is small enough to prove anything."""
        support = np.flatnonzero(x0)
        if support.size >= self.problem.m:
            support = np.sort(np.argsort(-np.abs(x0), kind="stable")[: self.problem.m - 1])
        found = yield from fit(self.problem, x0, support, _FROM_START, self.cache)
        return (yield from self.judge(found, "lm"))

    def quick_pursuit(self) -> Stage:
        """The first levels of pursuit, where few large coordinates are likely."""
        n = self.problem.n
        levels = [
            pursuit.Level(level.p, [pursuit.Phase([(0, 0)], level.phases[0].limit)])
            for level, _ in zip(pursuit.levels(self.problem), range(2), strict=False)
            if level.p**2 <= _QUICK_SHARE * n**2
        ]
        diagonals = yield Diagonals()
        if not levels or not _looks_sparse(self.problem.y, diagonals):
            return None
        outcome = yield from self._search(levels)
        # Two levels are too few to tell signal in noise from a part of the signal.
        return outcome if outcome is None or outcome.noise is None or self.problem.noise is not None else None

    def pursue(self) -> Stage:
        """Pursuit on all levels."""
        return (yield from self._search(pursuit.levels(self.problem)))

    def _search(self, levels: Iterable[pursuit.Level]) -> Stage:
        if self.search is None:
            self.search = yield from pursuit.Search.begin(self.problem, self.entries)
        outcome, best = yield from pursuit.run(self.problem, self.entries, self.search, levels, self.cache)
        if outcome is None and best is not None:
            self.remember(best, "pursuit")  # it was judged there
        return outcome

    def all_coordinates(self) -> Stage:
        """Levenberg–Marquardt on all coordinates from the spectral vector, where its matrices fit in memory."""
        if not amp.affordable(self.problem):
            return None
        n = self.problem.n
        ensemble = yield from self._ensemble()
        x = np.sqrt(ensemble.phi2) * leading_eigenvector(ensemble.S0)
        found = yield from fit(self.problem, x, np.arange(n), _FROM_START, self.cache)
        # Below m = 2 n the descent may have ended elsewhere, and what it ended at is no sign of noise.
        if self.problem.noise != 0 and self.problem.m >= 2 * n and not exact_enough(self.problem, found.residual):
            found = yield from noise.sparsified(self.problem, found, self.cache)
        return (yield from self.judge(found, "lm"))

    def message_passing(self, attempts: range) -> Stage:
        """AMP from these of its attempts, where its matrices fit in memory."""
        if not amp.affordable(self.problem):
            return None
        ensemble = yield from self._ensemble()
        settled: list[amp.Trail] = []
        for i, (start, tuning) in enumerate(amp.attempts(self.problem, ensemble, attempts), 1):
            trail = yield from amp.run(self.problem, ensemble, start, tuning, self.cache)
            more = i < len(attempts)
            for found in (yield from amp.candidates(self.problem, trail, settled, self.cache, more)):
                outcome = yield from self.judge(found, "amp")
                if outcome is not None:
                    return outcome
        return None

    def sampling(self) -> Stage:
        """Gibbs sampling at cycling temperatures, where all of A can be held in memory."""
        problem = self.problem
        if problem.m * problem.n**2 > min(_SAMPLED_ENTRIES, pursuit.max_entries(problem)):
            return None
        if self.search is None:
            self.search = yield from pursuit.Search.begin(problem, self.entries)
        yield from self.search.store.read_block(problem.n)
        chain = gibbs.Chain(problem, self.search.store)
        for _ in range(_CYCLES):
            x = yield from chain.cycle()
            size = int(np.count_nonzero(x)) + 2
            found = yield from amp.fit_largest(problem, x, np.abs(x), size, self.cache)
            outcome = yield from self.judge(found, "gibbs")
            if outcome is not None:
                return outcome
        return None

    def _ensemble(self) -> Generator[Any, Any, amp.Ensemble]:
        if self.ensemble is None:
            self.ensemble = yield from amp.prepare(self.problem, self.entries)
        return self.ensemble

    # -- verdicts -----------------------------------------------------------------------------------------------

    def judge(self, found: Fit, method: str) -> Stage:
        """The outcome where a fit ends the solve; otherwise it is remembered if it is the best."""
        outcome = yield from verdict(self.problem, self.entries, found, method)
        if outcome is None:
            self.remember(found, method)
        return outcome

    def remember(self, found: Fit, method: str) -> None:
        """Keep a fit that ended nothing, if it is the best."""
        if self.best is None or found.residual < self.best.residual:
            self.best, self.best_method = found, method

    def give_up(self) -> Outcome:
        """The best answer, which proves nothing."""
        if self.best is None:
            return Outcome(np.zeros(self.problem.n), 1.0)
        note = "" if amp.affordable(self.problem) else "AMP was left out: its n×n matrices do not fit in `memory`."
        return Outcome(self.best.x, self.best.residual, free=self.best.support.size, method=self.best_method, note=note)


def _looks_sparse(y: Float, diagonals: Float) -> bool:
    """Whether the diagonals show large coordinates.

    `I = diag^T y` has entries x_l² times a constant, plus noise of variance |y|²|a_l|²/m; the sum of the squares of
    the normalised entries has the mean n and the variance 2n without a signal, and is larger by m Σ x_l⁴/|x|⁴ with one.
    """
    m, n = diagonals.shape
    squares = np.einsum("ij,ij->j", diagonals, diagonals) * float(y @ y) / m
    normalised = (y @ diagonals) ** 2 / np.where(squares > 0, squares, 1.0)
    return float(normalised.sum()) > n + np.sqrt(2.0 * n)
