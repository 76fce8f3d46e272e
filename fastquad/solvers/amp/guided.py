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

from dataclasses import dataclass, replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.priors.base import Prior, Seen, Start
from fastquad.priors.sparse import Sparse
from fastquad.solvers import gibbs
from fastquad.solvers.amp.amp import Attempt, Search, Setting, prepare
from fastquad.solvers.amp.belief import Belief
from fastquad.solvers.amp.hand_over import RobustStructuredHandOver, SparseHandOver, StructuredHandOver
from fastquad.solvers.amp.starts import BATCHES, SparseStarts
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.solvers.plan import MATRICES, Desk, affordable
from fastquad.solvers.pursuit import solver as pursuit
from fastquad.solvers.pursuit import tuning
from fastquad.typing import Asks

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

Stage = Asks[Outcome | None]


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
        if best.trusted and convincing and (prior.rounds or best.dense or best.freedom <= m / 2):
            return self.conclude(best)
        return replace(self.conclude(best), end=End.NOISY) if last else None

    @property
    def prior(self) -> Prior:
        assert self.problem.prior is not None
        return self.problem.prior

    def conclude(self, best: Belief) -> Outcome:
        outcome, prior = super().conclude(best), self.prior
        free = min(round(best.freedom), self.problem.m - 1)
        return replace(outcome, x=best.x if prior.signed else np.maximum(best.x, 0.0), free=free)


@dataclass
class Guide:
    """What the stages with such a prior share beside the desk."""

    problem: Problem
    cache: GrowingBlock
    search: GuidedSearch | None = None

    def __post_init__(self) -> None:
        assert self.problem.prior is not None
        self.prior: Prior = self.problem.prior
        self.descent = StructuredHandOver(self.problem, self.cache)
        robust = RobustStructuredHandOver(self.problem, self.cache)
        self.hand_over: SparseHandOver = robust if self.problem.outliers else self.descent

    @classmethod
    def of(cls, desk: Desk) -> Guide:
        """That of a desk, made at its first use."""
        if desk.guide is None:
            desk.guide = cls(desk.problem, desk.cache)
        return desk.guide

    @property
    def positive(self) -> bool:
        """Whether all that is known is that x >= 0."""
        return isinstance(self.prior, Sparse) and self.prior.traits == ("nonnegative",)

    def begin(self, desk: Desk) -> Asks[GuidedSearch]:
        """The attempts of this solve."""
        if self.search is None:
            ensemble = yield from prepare(self.problem, desk.entries)
            self.search = GuidedSearch(
                self.problem, desk.entries, ensemble, SparseStarts(self.problem, ensemble), self.cache
            )
            self.search.hand_over = self.hand_over
        return self.search

    def outcome(self, desk: Desk, found: Fit, method: str) -> Outcome:
        """The outcome of a fit."""
        return Outcome(found.x, found.residual, free=self.prior.freedom(found.x), method=method, entries=desk.entries)

    def judge(self, desk: Desk, found: Fit, method: str) -> Outcome | None:
        """The outcome if a fit is exact; otherwise the fit is remembered if it is the best."""
        if self.descent.ends(found):
            return self.outcome(desk, found, method)
        desk.remember(found, method)
        return None

    def give_up(self, desk: Desk) -> Outcome:
        """The best answer so far, which proves nothing."""
        if desk.best is not None and exact_enough(self.problem, desk.best.residual):
            return self.outcome(desk, desk.best, desk.best_method)
        if self.search is not None and (outcome := self.search.verdict(last=True)) is not None:
            return outcome
        if self.search is not None and self.search.best is not None and desk.entries.independent:
            return self.search.give_up()
        if desk.best is None:
            return Outcome(np.zeros(self.problem.n), 1.0)
        return self.outcome(desk, desk.best, desk.best_method)


# -- stages -------------------------------------------------------------------------------------------------------


def check(desk: Desk) -> Stage:
    """Raise an error where AMP cannot work with this prior."""
    yield from ()
    problem = desk.problem
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
    return None


def from_start(desk: Desk) -> Stage:
    """A descent from the user's start."""
    guide, x0 = Guide.of(desk), desk.problem.x0
    assert x0 is not None
    found = yield from guide.descent.descend(x0, (x0 != 0).astype(np.float64))
    return guide.judge(desk, found, "lm")


def pursue(desk: Desk, early: bool) -> Stage:
    """Pursuit for x >= 0, whose supports grow by positive values only; before AMP where there are few measurements."""
    problem, guide = desk.problem, Guide.of(desk)
    # Pursuit looks for exact fits, of which there are none where a level of noise is given.
    pursued = guide.positive and desk.shape < 1 and (problem.noiseless or not problem.noise.given)
    if not pursued or early != (desk.shape < _PURSUIT_RATIO):
        return None
    search = yield from pursuit.Search.begin(problem, desk.entries, desk.cache)
    levels = tuning.levels(problem) if desk.shape < _FULL_PURSUIT_RATIO else tuning.levels(problem, 0)
    outcome, best = yield from pursuit.run(problem, desk.entries, search, levels, False)
    if outcome is None and best is not None:
        desk.remember(best, "pursuit")
    return outcome


def own_starts(desk: Desk) -> Stage:
    """AMP from the starts of the prior: side by side if they are patient, else one after the other."""
    guide, problem = Guide.of(desk), desk.problem
    search = yield from guide.begin(desk)
    S0, phi2 = search.ensemble.S0, search.ensemble.phi2
    starts = guide.prior.starts(Seen(S0, phi2, problem.m, problem.n))
    attempts = [_attempt(start, phi2, problem.outliers) for start in starts]
    # A patient run may take hundreds of passes, which serve the others as well.
    together = all(start.patient for start in starts) and not problem.outliers
    for batch in [attempts] if attempts and together else [[each] for each in attempts]:
        outcome = yield from _batch(desk, search, batch)
        if outcome is not None:
            return outcome
    return None


def _attempt(start: Start, phi2: float, outliers: bool) -> Attempt:
    """A start of the prior, at its length and with its settings."""
    length = max(float(np.linalg.norm(start.direction)), 1e-300)
    direction = start.direction * (_SHORT * np.sqrt(phi2) / length)
    # Do not hand over after every sweep if there may be outliers: that takes many descents.
    return Attempt(
        direction, start.denoiser, Setting(start.keep, start.inner, start.norm, start.patient and not outliers)
    )


def usual_starts(desk: Desk, number: int) -> Stage:
    """AMP with the prior's denoiser from a batch of the starts for sparse signals, which have no sign."""
    guide = Guide.of(desk)
    if not guide.prior.signed or number > len(BATCHES):
        return None
    search = yield from guide.begin(desk)

    def own(attempt: Attempt) -> Attempt:
        """The attempt with the prior's denoiser."""
        rho, phi2 = attempt.denoiser.rho, attempt.setting.norm * search.ensemble.phi2  # type: ignore[attr-defined]
        made = guide.prior.denoiser(desk.problem.n, rho, phi2, attempt.denoiser.learns)
        return attempt._replace(denoiser=made)

    attempts = [own(each) for each in search.starts.batch(number)]
    return (yield from _batch(desk, search, attempts)) if attempts else None


def _batch(desk: Desk, search: GuidedSearch, attempts: list[Attempt]) -> Stage:
    outcome = yield from search.batch(attempts, search.prior.max_sweeps)
    if search.fit is not None:
        desk.remember(search.fit, "amp")
    return outcome


def sampling(desk: Desk) -> Stage:
    """Sampling at cycling temperatures, for x >= 0 or for few values."""
    problem, guide, values = desk.problem, Guide.of(desk), Guide.of(desk).prior.alphabet
    if not (guide.positive or values is not None) or not gibbs.affordable(problem):
        return None
    search = yield from pursuit.Search.begin(problem, desk.entries, desk.cache)
    yield from search.store.read_block(problem.n)
    if values is None:
        chain = gibbs.Chain(problem, search.store, positive=True)
        slowly = [False] * _CYCLES + [True] * (_SLOW_CYCLES if desk.persistent else 0)
        cycles = (chain.cycle(each) for each in slowly)
    else:
        of_values = gibbs.ValuesChain(problem, search.store, values)
        cycles = (of_values.cycle() for _ in range(_VALUES_CYCLES))
    for cycle in cycles:
        x = yield from cycle
        found = yield from guide.descent.descend(x, (x != 0).astype(np.float64))
        outcome = guide.judge(desk, found, "gibbs")
        if outcome is not None:
            return outcome
    return None
