"""AMP's attempts, one batch after the other, and the outcome of the best: for the method AMP and for the default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Belief as Believed
from fastquad.engine.steps import End, Outcome
from fastquad.noise.bend import BENT, bend
from fastquad.solvers.amp.belief import Belief, belief
from fastquad.solvers.amp.ensemble import Ensemble, prepare
from fastquad.solvers.amp.hand_over import SparseHandOver
from fastquad.solvers.amp.run import Attempt, Walk, run
from fastquad.solvers.amp.second import second_signal
from fastquad.solvers.amp.starts import SparseStarts
from fastquad.solvers.amp.trimmed import RobustHandOver
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.typing import Asks

# The number of standard deviations that no sound measurement is off.
_FAR = 6.0
#: The number of sweeps within which most runs settle.
SWEEPS = 20
#: The largest number of sweeps for the others, which go on after other starts were tried.
MAX_SWEEPS = 60


@dataclass
class Search:
    """The attempts of one solve: the best belief so far, those that agree with it, and the best fit."""

    problem: Problem
    entries: Entries
    ensemble: Ensemble
    starts: SparseStarts
    hand_over: SparseHandOver
    best: Belief | None = None
    fit: Fit | None = None
    beliefs: list[Belief] = field(default_factory=list)
    unsettled: list[Walk] = field(default_factory=list)
    #: The run of the best belief.
    walk: Walk | None = None
    #: The share of y that the last reported belief explains.
    told: float = 0.0

    @classmethod
    def begin(cls, problem: Problem, entries: Entries, cache: GrowingBlock) -> Asks[Search]:
        """Read what AMP needs for its starts."""
        ensemble = yield from prepare(problem, entries)
        hand_over = (RobustHandOver if problem.outliers else SparseHandOver)(problem, cache)
        return cls(problem, entries, ensemble, SparseStarts(problem, ensemble), hand_over)

    def batch(self, attempts: list[Attempt], max_sweeps: int = SWEEPS) -> Asks[Outcome | None]:
        """Run these attempts; returns the outcome if one ends the solve. Those that have not settled are kept."""
        return (yield from self._run([Walk(self.problem, self.ensemble, each) for each in attempts], max_sweeps))

    def go_on(self, max_sweeps: int = MAX_SWEEPS) -> Asks[Outcome | None]:
        """Let the runs that had not settled go on."""
        walks, self.unsettled = self.unsettled, []
        return (yield from self._run(walks, max_sweeps)) if walks else None

    def _run(self, walks: list[Walk], max_sweeps: int) -> Asks[Outcome | None]:
        yield from run(walks, self.hand_over, max_sweeps, self._watch)
        fits = [walk.fit for walk in walks if walk.fit is not None]
        if fits:
            found = min(fits, key=lambda fit: fit.residual)
            outcome = next(filter(None, (self.hand_over.outcome(fit, self.ensemble) for fit in fits)), None)
            if outcome is not None:
                return replace(outcome, entries=self.entries)
            if self.fit is None or found.residual < self.fit.residual:
                self.fit = found
        self.unsettled += [walk for walk in walks if not walk.ended]
        for walk in walks:
            held = None if self.problem.noiseless else belief(self.problem, self.entries, walk)
            if held is None:
                continue
            self.beliefs.append(held)
            if self.best is None or (held.found, held.r2) > (self.best.found, self.best.r2):
                self.best, self.walk = held, walk
        if self.best is not None and self.entries.independent:
            yield self.best.report()
            self.told = self.best.r2
        return self.verdict()

    @property
    def _weighs(self) -> bool:
        """Whether some measurements count less than others."""
        return self.problem.outliers or isinstance(self.problem.noise, np.ndarray)

    def _watch(self, walk: Walk) -> Believed | None:
        """The belief of a run that has not settled, if it explains more of y than any before."""
        if walk.sweeps < 3 or not walk.r2 > self.told or self.problem.noiseless or not self.entries.independent:
            return None
        if self.best is not None and self.best.found:
            return None
        self.told = walk.r2
        held = belief(self.problem, self.entries, walk)
        return None if held is None else held.report()

    def verdict(self, last: bool = False) -> Outcome | None:
        """The outcome if the best belief ends the solve; one that is too noisy must be confirmed, unless `last`."""
        best = self.best
        if best is None or not best.found:
            return None
        if best.trusted:
            return self.conclude(best)
        confirmed = any(other is not best and other.found and other.agrees(best) for other in self.beliefs)
        if (confirmed or last) and best.size < self.problem.m / 2:
            return self.conclude(best)
        return None

    def conclude(self, best: Belief) -> Outcome:
        """The outcome of a belief, less certain if y bends, or if another signal is measured with x."""
        unequal = isinstance(self.problem.noise, np.ndarray)
        bent = 0.0 if unequal else bend(self.ensemble.y, best.r, gross=self.problem.outliers)
        if bent:
            best = best.of_unsure_length(bent)
        second = 0.0
        if self.walk is not None and not self.problem.rank_two:
            second = second_signal(self.walk.S, self.walk.D, best.z, self.problem.turning)
        note = (
            f"The posterior mean has {best.size} coordinates and a relative error of about {best.error:.2g}; the "
            f"noise has a standard deviation of {best.sigma:.3g}."
        )
        if bent:
            note = f"{note} {BENT}"
        return Outcome(
            best.x, best.residual, End.CONVERGED if best.trusted else End.NOISY, best.size,
            f"{note} {self.suspicion()}".strip(), best.sigma, best.error, best.stderr, second=second, method="amp",
            outliers=np.flatnonzero(best.sound < 0.5) if self.problem.outliers else None, entries=self.entries,
        )  # fmt: skip

    def suspicion(self) -> str:
        """A sentence if the data seem to have outliers and `outliers` is False; else empty."""
        if self._weighs or not self.entries.independent:
            return ""
        left = [self.ensemble.y] if self.best is None else [self.ensemble.y, self.best.r]
        for size in (np.abs(part) for part in left):
            if size.max() > _FAR * 1.4826 * float(np.median(size)):
                return "Some measurements are far off the others: they may be outliers, which outliers=True allows for."
        return ""

    def give_up(self) -> Outcome:
        """The best belief, which proves nothing."""
        if self.best is not None and self.entries.independent:
            best = self.best
            return Outcome(best.x, best.residual, End.STAGNATED, note=self.suspicion(), method="amp")
        if self.fit is not None:
            return Outcome(self.fit.x, self.fit.residual, free=self.fit.support.size, method="amp")
        return Outcome(np.zeros(self.problem.n), 1.0)
