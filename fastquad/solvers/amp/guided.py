"""AMP with a prior that knows more of x than that it may be sparse: with its own denoiser, starts and coordinates.

The stages; the first answer that fits to rounding ends the solve:

    from x0                     a descent from the user's start
    pursuit                     for x >= 0: here for m < 0.55 n, else after the next stage, with one run from each seed;
                                for m < 0.35 n in full
    AMP                         from each start of the prior by itself, which is cheapest if the first is enough, but
                                from patient ones side by side
    AMP, batches of starts      the usual starts, unless the prior determines the sign, which they do not have
    sampling                    for x >= 0, and for few values after the first batch, if A fits in memory

If some measurements may be outliers, only AMP is used, because it weighs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fastquad.engine.entries import sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Note, Outcome, Steps
from fastquad.engine.verdict import exact_enough
from fastquad.priors.base import Prior, Seen, Start
from fastquad.priors.sparse import Sparse
from fastquad.solvers import gibbs
from fastquad.solvers.amp.amp import MATRICES, Attempt, Search, Setting, affordable, prepare
from fastquad.solvers.amp.belief import Belief
from fastquad.solvers.amp.hand_over import RobustStructuredHandOver, SparseHandOver, StructuredHandOver
from fastquad.solvers.amp.starts import BATCHES, SparseStarts
from fastquad.solvers.parts.descent import Fit
from fastquad.solvers.parts.desk import BaseDesk
from fastquad.solvers.parts.finish import finished
from fastquad.solvers.pursuit import solver as pursuit
from fastquad.solvers.pursuit import tuning
from fastquad.typing import Asks, Float

# The ratio m/n below which pursuit comes first, and ...
_PURSUIT_RATIO = 0.55
# ... below which it passes over choices and searches broadly, too.
_FULL_PURSUIT_RATIO = 0.35
# The length of a start, relative to |x|.
_SHORT = 0.7
# The number of cycles of sampling for x >= 0.
_CYCLES = 12
# The number of slow cycles after these, for which the user must give time.
_SLOW_CYCLES = 6
# The number of cycles of sampling for few values.
_VALUES_CYCLES = 5


def guided(problem: Problem) -> bool:
    """Whether the prior of a problem knows something that only AMP can use."""
    if problem.turning:  # the groups of complex numbers belong to the problem
        return False
    return problem.prior is not None and (problem.prior.kind == "denoiser" or bool(problem.prior.traits))


def steps(problem: Problem) -> Steps:
    """The default method and AMP with such a prior."""
    if not affordable(problem):
        needed = 16 * MATRICES * problem.n**2
        raise MemoryError(
            f"`memory` must be at least {needed / 1e9:.3g} GB for a prior of this kind with n = {problem.n}, got "
            f"{problem.memory / 1e9:.3g} GB."
        )
    if problem.outliers and not isinstance(problem.prior, Sparse):
        raise ValueError(
            f"`outliers` must be False with {type(problem.prior).__name__}: only Sparse(...) allows for them."
        )
    desk = _Desk(problem)
    for stage in desk.stages():
        outcome = yield from stage
        if outcome is not None:
            break
    else:
        outcome = desk.give_up()
    return (yield from finished(problem, desk.entries, outcome, desk.cache))


@dataclass
class GuidedSearch(Search):
    """Attempts of AMP with the user's prior."""

    def verdict(self, last: bool = False) -> Outcome | None:
        """The outcome if the best belief ends the solve.

        A prior that is wrong, or data without noise in which AMP got stuck, can look like signal in noise: for a
        success the evidence must be e^(−m/2) at least, by fewer than m/2 numbers, unless the noise was given.
        """
        best, m, prior = self.best, self.problem.m, self.prior
        if best is None or not best.found:
            return None
        convincing = self.problem.noise.given or best.evidence < -m
        if best.trusted and convincing and (prior.rounds or best.size <= m / 2):
            return self.conclude(best)
        return replace(self.conclude(best), end=End.NOISY) if last else None

    @property
    def prior(self) -> Prior:
        assert self.problem.prior is not None
        return self.problem.prior

    def conclude(self, best: Belief) -> Outcome:
        outcome, prior = super().conclude(best), self.prior
        free = min(best.size, self.problem.m - 1)
        return replace(outcome, x=best.x if prior.signed else np.maximum(best.x, 0.0), free=free)


@dataclass
class _Desk(BaseDesk):
    """The stages with a prior that AMP alone can use, and what they share."""

    search: GuidedSearch | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        prior = self.problem.prior
        assert prior is not None
        self.prior: Prior = prior
        self.descent = StructuredHandOver(self.problem, self.cache)
        robust = RobustStructuredHandOver(self.problem, self.cache)
        self.hand_over: SparseHandOver = robust if self.problem.outliers else self.descent

    def stages(self) -> Iterator[Asks[Outcome | None]]:
        """The stages, in their order."""
        m, n = self.problem.m, self.problem.n
        yield self.look()
        if self.problem.outliers:
            yield self.own_starts()
            yield from (self.usual_starts(number) for number in (1, 2, 3) if self.prior.signed)
            return
        if self.problem.x0 is not None:
            yield self.from_start(self.problem.x0)
        positive = isinstance(self.prior, Sparse) and self.prior.traits == ("nonnegative",)
        # Pursuit looks for exact fits, of which there are none where a level of noise is given.
        pursued = positive and m < n and (self.problem.noiseless or not self.problem.noise.given)
        early = m < _PURSUIT_RATIO * n
        if pursued and early:
            yield self.pursue()
        yield self.own_starts()
        if pursued and not early:
            yield self.pursue()
        first, *others = (self.usual_starts(number) for number in range(1, len(BATCHES) + 1))
        if self.prior.signed:
            yield first
        if positive or self.prior.alphabet is not None:
            yield self.sampling()
        if self.prior.signed:
            yield from others

    def look(self) -> Asks[Outcome | None]:
        """Sample A's entries."""
        self.entries = yield from sample_entries(self.problem)
        if self.entries.describe():
            yield Note(self.entries.describe())
        return None

    def from_start(self, x0: Float) -> Asks[Outcome | None]:
        """A descent from the user's start."""
        found = yield from self.descent.descend(x0, (x0 != 0).astype(np.float64))
        return self.judge(found, "lm")

    def pursue(self) -> Asks[Outcome | None]:
        """Pursuit, whose supports grow by positive values only."""
        problem = self.problem
        search = yield from pursuit.Search.begin(problem, self.entries, self.cache)
        levels = tuning.levels(problem) if problem.m < _FULL_PURSUIT_RATIO * problem.n else tuning.levels(problem, 0)
        outcome, best = yield from pursuit.run(problem, self.entries, search, levels, False)
        if outcome is None and best is not None:
            self.remember(best, "pursuit")
        return outcome

    def own_starts(self) -> Asks[Outcome | None]:
        """AMP from the starts of the prior: side by side if they are patient, else one after the other."""
        search = yield from self._search()
        S0, phi2 = search.ensemble.S0, search.ensemble.phi2
        starts = self.prior.starts(Seen(S0, phi2, self.problem.m, self.problem.n))
        attempts = [self._attempt(start, phi2) for start in starts]
        # A patient run may take hundreds of passes, which serve the others as well.
        together = all(start.patient for start in starts) and not self.problem.outliers
        for batch in [attempts] if attempts and together else [[each] for each in attempts]:
            outcome = yield from self._batch(search, batch)
            if outcome is not None:
                return outcome
        return None

    def _attempt(self, start: Start, phi2: float) -> Attempt:
        """A start of the prior, at its length and with its settings."""
        length = max(float(np.linalg.norm(start.direction)), 1e-300)
        direction = start.direction * (_SHORT * np.sqrt(phi2) / length)
        # Do not hand over after every sweep if there may be outliers: that takes many descents.
        patient = start.patient and not self.problem.outliers
        return Attempt(direction, start.denoiser, Setting(start.keep, start.inner, start.norm, patient))

    def usual_starts(self, number: int) -> Asks[Outcome | None]:
        """AMP from a batch of the starts for sparse signals."""
        search = yield from self._search()
        attempts = [self._own(each) for each in search.starts.batch(number)]
        return (yield from self._batch(search, attempts)) if attempts else None

    def _own(self, attempt: Attempt) -> Attempt:
        """The attempt with the prior's denoiser."""
        rho, phi2 = attempt.denoiser.rho, attempt.setting.norm * self._phi2  # type: ignore[attr-defined]
        return attempt._replace(denoiser=self.prior.denoiser(self.problem.n, rho, phi2, attempt.denoiser.learns))

    @property
    def _phi2(self) -> float:
        assert self.search is not None
        return self.search.ensemble.phi2

    def _batch(self, search: GuidedSearch, attempts: list[Attempt]) -> Asks[Outcome | None]:
        outcome = yield from search.batch(attempts, self.prior.max_sweeps)
        if search.fit is not None:
            self.remember(search.fit, "amp")
        return outcome

    def _search(self) -> Asks[GuidedSearch]:
        if self.search is None:
            ensemble = yield from prepare(self.problem, self.entries)
            self.search = GuidedSearch(
                problem=self.problem, entries=self.entries, ensemble=ensemble,
                starts=SparseStarts(self.problem, ensemble), cache=self.cache,
            )  # fmt: skip
            self.search.hand_over = self.hand_over
        return self.search

    @property
    def persistent(self) -> bool:
        """Whether to search on where nothing was found: the user gave a budget, or says that an exact answer exists."""
        return self.problem.noiseless or self.problem.max_passes is not None

    def sampling(self) -> Asks[Outcome | None]:
        """Sampling at cycling temperatures, for x >= 0 or for few values."""
        problem, values = self.problem, self.prior.alphabet
        if not gibbs.affordable(problem):
            return None
        search = yield from pursuit.Search.begin(problem, self.entries, self.cache)
        yield from search.store.read_block(problem.n)
        if values is None:
            chain = gibbs.Chain(problem, search.store, positive=True)
            slowly = [False] * _CYCLES + [True] * (_SLOW_CYCLES if self.persistent else 0)
            cycles = (chain.cycle(each) for each in slowly)
        else:
            of_values = gibbs.ValuesChain(problem, search.store, values)
            cycles = (of_values.cycle() for _ in range(_VALUES_CYCLES))
        for cycle in cycles:
            x = yield from cycle
            found = yield from self.descent.descend(x, (x != 0).astype(np.float64))
            outcome = self.judge(found, "gibbs")
            if outcome is not None:
                return outcome
        return None

    def judge(self, found: Fit, method: str) -> Outcome | None:
        """The outcome if a fit is exact; otherwise the fit is remembered if it is the best."""
        if self.descent.ends(found):
            return self._found(found, method)
        self.remember(found, method)
        return None

    def _found(self, found: Fit, method: str) -> Outcome:
        free = self.prior.freedom(found.x)
        return Outcome(found.x, found.residual, free=free, method=method, entries=self.entries)

    def give_up(self) -> Outcome:
        """The best answer so far, which proves nothing."""
        if self.best is not None and exact_enough(self.problem, self.best.residual):
            return self._found(self.best, self.best_method)
        if self.search is not None and (outcome := self.search.verdict(last=True)) is not None:
            return outcome
        if self.search is not None and self.search.best is not None and self.entries.independent:
            return self.search.give_up()
        if self.best is None:
            return Outcome(np.zeros(self.problem.n), 1.0)
        return self._found(self.best, self.best_method)
