"""The default method: pursuit for the very sparse, AMP and Levenberg–Marquardt for the rest.

Each stage is tried where it is likely to be the cheapest that succeeds, and the first certified answer ends the solve:

    points                        where A shifts and x has few whole values: see `fastquad.solvers.points`
    from x0                       Levenberg–Marquardt from the user's start
    a quick pursuit               if the diagonals hint at few large coordinates and its block costs at most 0.1 pass
    likely coordinates            those that AMP's first estimate shows, fitted, and those that the residual leans to
    Levenberg–Marquardt           on all coordinates, from AMP's first estimate, for m >= 1.3 n, which needs no prior
    AMP, three batches of starts  from spectral vectors, and from the ends of earlier stages
    pursuit, all levels           for m <= n; before AMP for m < n/3, after its first batch for m < n/2

    AMP, other starts, settings   these and sampling only where the user gives `max_passes` or says `noise=0`:
    Gibbs sampling                they take hundreds and thousands of passes

An answer is certified by a relative residual below 1e-9 with fewer free coordinates than measurements. If nothing fits
exactly, the answer is AMP's posterior mean, with its error (see `fastquad.solvers.amp.belief`), or, if AMP's matrices
do not fit in memory, a fit that is far better than chance (`fastquad.solvers.parts.noise_fit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fastquad.engine.entries import sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Note, Outcome, Steps
from fastquad.engine.steps import Stage as Announced
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Diagonals
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers import bilinear, gibbs, matrix_free, structured, verbs
from fastquad.solvers.amp import search as amp
from fastquad.solvers.amp import warm
from fastquad.solvers.amp.ensemble import affordable
from fastquad.solvers.amp.guided import guided
from fastquad.solvers.amp.guided import steps as guided_steps
from fastquad.solvers.amp.hand_over import SparseHandOver
from fastquad.solvers.amp.likely import Likely, likely
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts import finish
from fastquad.solvers.parts import noise_fit as noise
from fastquad.solvers.parts.descent import Fit, fit
from fastquad.solvers.parts.desk import BaseDesk
from fastquad.solvers.points import points
from fastquad.solvers.pursuit import solver as pursuit
from fastquad.solvers.pursuit import tuning
from fastquad.typing import Asks, Float

Stage = Asks[Outcome | None]

# The largest factor between one and the inverse variance of A's entries at which their squares do not overflow.
_EXTREME = 1e210
# The ratio m/n from which on Levenberg–Marquardt on all coordinates needs no prior.
_LM_RATIO = 1.3
# The ratio m/n below which the first level of pursuit comes before AMP.
_FIRST_LEVEL_RATIO = 1 / 2
# The ratio m/n below which all levels of pursuit come before AMP.
_PURSUIT_RATIO = 1 / 3
# When a descent stops; a patient one where A has a structure: of 607 that converge, 581 do within these rules.
DESCENT = Rule(max_steps=100, patience=5, factor=1.01, bottom=1e-3)
PATIENT = Rule(max_steps=100, patience=10, factor=1.01, bottom=1e-3)
# With independent entries, 98 % of the descents that converge take at most 19 steps for n < 60, and 31 of 33 at most 9
# for n = 100. The others, and those in noise, go on for up to 70: AMP gets there in fewer passes. Those in noise show
# sooner, by how little ‖r‖² falls.
SPECTRAL = DESCENT._replace(max_steps=20, patience=4, factor=1.1)
# The largest share of A's pairs, and of the coordinates, that quick pursuit may take.
_QUICK_SHARE = 0.1
_CYCLES = 12
# The number of sweeps in later batches of AMP; runs that predict well go on until they settle.
_SWEEPS_LATER = 12


@options
class Auto(Solver):
    """The default: pursuit, AMP and Levenberg–Marquardt, the cheapest that is likely to succeed first."""

    name: ClassVar[str] = "auto"
    priors: ClassVar[tuple[str, ...]] = ("sparse", "denoiser")
    uses: ClassVar[frozenset[str]] = frozenset({"nonnegative", "groups", "partial"})
    uses_fixed: ClassVar[bool] = True

    def steps(self, problem: Problem) -> Steps:
        outcome = yield from points(problem)
        if outcome is not None:
            return outcome
        if guided(problem):
            return (yield from guided_steps(problem))
        if problem.by_verbs and problem.m >= problem.unknowns - len(problem.fixed):
            return (yield from finish.sparser(problem, (yield from verbs.search(problem))))
        desk = _Desk(problem)
        for stage in desk.stages():
            yield Announced(getattr(stage, "__name__", "").replace("_", " "))
            outcome = yield from stage
            if outcome is not None:
                return (yield from finish.finished(problem, desk.entries, outcome, desk.cache))
        return (yield from finish.finished(problem, desk.entries, desk.give_up(), desk.cache))


@dataclass
class _Desk(BaseDesk):
    """The stages of the default method, and what they share."""

    messages: amp.Search | None = None
    search: pursuit.Search | None = None
    #: AMP's first estimate, and the fit that it led to.
    estimate: Likely | None = None
    #: Further starts for AMP: the ends of other stages.
    near: list[Float] = field(default_factory=list)

    def stages(self) -> Iterator[Stage]:
        """The stages, in their order for this shape."""
        yield self.look()
        if self.problem.x0 is not None:
            yield self.from_start(self.problem.x0)
        if not 1 / _EXTREME < self.entries.gain < _EXTREME:
            yield self.refuse()
            return
        if self.problem.bilinear:
            yield from bilinear.stages(self)
            return
        if self.problem.matrix_free:
            yield from matrix_free.stages(self)
            return
        if not self.entries.independent:
            yield from structured.stages(self)
            return
        yield from self._main_stages()
        if self.persistent and not self.problem.outliers:
            yield from self._further_stages()

    def _main_stages(self) -> Iterator[Stage]:
        """The stages of a call without a budget: tens of passes."""
        m, n = self.problem.m, self.problem.n
        if self.weighs:
            # Use AMP alone: no other method weighs measurements.
            yield self.message_passing(1, 2, 3)
            return
        if m < _FIRST_LEVEL_RATIO * n:
            yield self.describe()
            if m >= _PURSUIT_RATIO * n:
                yield self.quick_pursuit()
                yield self.message_passing(1)
            yield self.pursue()
            yield self.message_passing(1, 2, 3)
            return
        yield self.quick_pursuit()
        yield self.likely_coordinates()
        unknowns = n - len(self.problem.fixed)
        if self.problem.fixed and unknowns <= m:
            yield self.equations(unknowns)
        elif m >= _LM_RATIO * n:
            yield self.all_coordinates()
        yield self.describe()
        yield self.message_passing(1, 2, 3)
        if self.problem.fixed and m == unknowns:
            yield structured.descents(self)
        if m <= n:
            yield self.pursue()

    def _further_stages(self) -> Iterator[Stage]:
        """The stages that may still find an exact answer, in hundreds or thousands of passes."""
        if self.problem.m > self.problem.n:
            # Try other settings of AMP first: what is left now is seldom sparse, and they are the cheapest.
            yield self.message_passing(4, 5, 6)
            yield self.sampling()
            yield self.pursue()
            return
        yield self.sampling()
        yield self.message_passing(4, 5, 6)

    # -- stages -------------------------------------------------------------------------------------------------

    def look(self) -> Stage:
        """Sample A's entries."""
        self.entries = yield from sample_entries(self.problem)
        return None

    def refuse(self) -> Stage:
        """End the solve: nothing can be computed with entries of this size."""
        yield Note("The entries of A are so large, or so small, that their squares are not numbers: rescale A and y.")
        return None

    def describe(self) -> Stage:
        """Note what is special about A's entries, before the stages that may fail because of it."""
        if self.entries.describe():
            yield Note(self.entries.describe())
        return None

    def from_start(self, x0: Float) -> Stage:
        """Levenberg–Marquardt from the user's start: on all coordinates for m >= n, then on its support."""
        m, n = self.problem.m, self.problem.n
        support = np.flatnonzero(x0)
        supports = [np.arange(n)] if m >= self.problem.unknowns else []
        if not supports or support.size <= n / 2:
            # Take fewer coordinates than measurements: a fit with more proves nothing.
            supports.append(np.sort(np.argsort(-np.abs(x0), kind="stable")[: min(support.size, m - 1)]))
        for chosen in supports:
            found = yield from fit(self.problem, x0, chosen, self.rule, self.cache)
            outcome = yield from self.judge(found, "lm")
            if outcome is None and self.weighs and chosen.size == n:
                outcome = yield from structured.in_noise(self, found, "lm")
            if outcome is not None:
                return outcome
        self.near.append(found.x)
        return None

    def quick_pursuit(self) -> Stage:
        """The first levels of pursuit, where few large coordinates are likely."""
        n = self.problem.n
        levels = [
            tuning.Level(level.p, [tuning.Phase([(0, 0)], level.phases[0].limit)])
            for level, _ in zip(tuning.levels(self.problem), range(2), strict=False)
            if level.p**2 <= _QUICK_SHARE * n**2
        ]
        if not levels or not (yield from self._looks_sparse()):
            return None
        outcome = yield from self._search(levels, noisy=self.problem.noise.given and not self.believes)
        self._warm()
        return outcome

    def pursue(self) -> Stage:
        """Pursuit on all levels."""
        outcome = yield from self._search(tuning.levels(self.problem), noisy=True)
        if outcome is not None and outcome.noise is not None and self.believes:
            # Start AMP from this signal in noise: it estimates the error too.
            self.near = [outcome.x]
            better = yield from self.message_passing(0)
            return better if better is not None else outcome
        self._warm()
        return outcome

    def _search(self, levels: Iterable[tuning.Level], noisy: bool) -> Stage:
        if self.search is None:
            self.search = yield from pursuit.Search.begin(self.problem, self.entries, self.cache)
        outcome, best = yield from pursuit.run(self.problem, self.entries, self.search, levels, noisy)
        if outcome is None and best is not None:
            self.remember(best, "pursuit")  # pursuit has judged it already
        return outcome

    def _warm(self) -> None:
        """Add pursuit's best supports to AMP's starts."""
        x = None if self.search is None else self.search.likeliest()
        if x is not None:
            self.near = [x]

    def equations(self, unknowns: int) -> Stage:
        """Descents from several starts, where linear terms or known values determine the sign of x.

        With as many equations as unknowns they end at one of several solutions: if x may be sparse, AMP comes first.
        """
        if self.problem.m == unknowns and (yield from self._looks_sparse()):
            return None
        return (yield from structured.descents(self))

    def likely_coordinates(self) -> Stage:
        """Levenberg–Marquardt on the coordinates that AMP's first estimate shows, if its matrices fit in memory."""
        if self.problem.fixed or not affordable(self.problem):
            return None
        messages = yield from self._messages()
        self.estimate = yield from likely(self.problem, messages.ensemble, messages.starts.quick, self.cache)
        found = self.estimate.fit
        if found is not None and exact_enough(self.problem, found.residual):
            return (yield from self.judge(found, "lm"))
        if found is not None and self.estimate.stands_still and self.believes:
            self.near = [found.x]
            return (yield from self.message_passing(0))
        return None

    def all_coordinates(self) -> Stage:
        """Levenberg–Marquardt on all coordinates, from AMP's first estimate or the fit that it led to."""
        if self.estimate is None:  # it did not fit in memory, and nor would this
            return None
        n, x = self.problem.n, self.estimate.x
        messages = yield from self._messages()
        rule = self.rule if self.problem.noiseless else SPECTRAL
        found = yield from fit(self.problem, x, np.arange(n), rule, self.cache)
        # Judge noise only for m >= 2 n: below, the descent may have ended in another valley.
        if not self.believes and not self.problem.noiseless and self.problem.m >= 2 * n:
            if not exact_enough(self.problem, found.residual):
                found = yield from noise.sparsified(self.problem, found, self.cache)
        elif messages.hand_over.at_bottom(found):
            self.near.append(found.x)
        return (yield from self.judge(found, "lm"))

    def message_passing(self, *batches: int) -> Stage:
        """AMP from these batches of starts and from the ends of other stages, if its matrices fit in memory."""
        if not affordable(self.problem):
            return None
        messages = yield from self._messages()
        for number in batches:
            near = [warm.near(self.problem, messages.ensemble, x) for x in self.near if x.any()]
            self.near = []
            attempts = near + (messages.starts.batch(number) if number else [])
            if number == 3:
                attempts += yield from warm.from_blocks(self.problem, self.entries, messages.ensemble)
            # Give the first starts more sweeps than the others, which are many.
            sweeps = amp.SWEEPS if number < 2 or self.persistent else _SWEEPS_LATER
            outcome = (yield from messages.batch(attempts, sweeps)) if attempts else None
            if outcome is not None:
                return outcome
        outcome = messages.verdict(last=3 in batches)
        if outcome is None and self.persistent:
            outcome = yield from messages.go_on()
        if outcome is None and messages.fit is not None:
            self.remember(messages.fit, "amp")
        return outcome

    def sampling(self) -> Stage:
        """Gibbs sampling at cycling temperatures, if all of A fits in memory."""
        problem = self.problem
        if not gibbs.affordable(problem):
            return None
        if self.search is None:
            self.search = yield from pursuit.Search.begin(problem, self.entries, self.cache)
        yield from self.search.store.read_block(problem.n)
        chain = gibbs.Chain(problem, self.search.store)
        hand_over = SparseHandOver(problem, self.cache)
        for _ in range(_CYCLES):
            x = yield from chain.cycle()
            size = int(np.count_nonzero(x)) + 2
            found = yield from hand_over.largest(x, np.abs(x), size)
            outcome = yield from self.judge(found, "gibbs")
            if outcome is not None:
                return outcome
        return None

    def _looks_sparse(self) -> Asks[bool]:
        """Whether the diagonals show large coordinates."""
        return _looks_sparse(self.problem.y, (yield Diagonals()))

    def _messages(self) -> Asks[amp.Search]:
        if self.messages is None:
            self.messages = yield from amp.Search.begin(self.problem, self.entries, self.cache)
        return self.messages

    @property
    def rule(self) -> Rule:
        """The rule that stops a descent."""
        rule = DESCENT if self.entries.independent else PATIENT
        # Without noise, do not stop at a bottom above zero: it is another valley, and the last steps may lead out of
        # it.
        return rule._replace(bottom=0.0) if self.problem.noiseless else rule

    @property
    def persistent(self) -> bool:
        """Whether to search on if nothing was found: the user gave a budget, or says that there is no noise."""
        return self.problem.noiseless or self.problem.max_passes is not None

    @property
    def weighs(self) -> bool:
        """Whether some measurements count less than others."""
        return self.problem.outliers or self.problem.noise.unequal or self.problem.noise.reweighs

    @property
    def believes(self) -> bool:
        """Whether AMP decides what is signal in noise."""
        plain = self.entries.independent and not self.problem.bilinear
        return not self.problem.noiseless and plain and affordable(self.problem)

    # -- verdicts -----------------------------------------------------------------------------------------------

    def judge(self, found: Fit, method: str) -> Stage:
        """The outcome if a fit ends the solve; otherwise the fit is remembered if it is the best."""
        outcome = yield from noise.conclusion(self.problem, self.entries, found, method, self.cache)
        # Do not accept an unweighted fit under noise if some measurements count less than others.
        if outcome is not None and (outcome.noise is None or not (self.believes or self.weighs)):
            return outcome
        if self.believes and finish.applies(self.problem) and finish.promising(self.problem, found):
            ended = yield from finish.finish(self.problem, found.x, found.support, self.cache)
            if ended is not None and ended.found and ended.decided:
                return finish.outcome(self.problem, self.entries, ended, method)
        self.remember(found, method)
        return None

    def give_up(self) -> Outcome:
        """The best answer so far, which proves nothing."""
        notes = []
        if not affordable(self.problem):
            notes.append("AMP was left out: its n×n matrices do not fit in `memory`.")
        if not self.persistent:
            notes.append("Nothing was found by default: to search on, give `max_passes`, or noise=0 where y is exact.")
        if self.messages is not None and self.messages.best is not None and self.believes:
            outcome = self.messages.give_up()
        elif self.best is not None:
            outcome = Outcome(self.best.x, self.best.residual, free=self.best.support.size, method=self.best_method)
        else:
            outcome = Outcome(np.zeros(self.problem.n), 1.0)
        return replace(outcome, note=" ".join([outcome.note, *notes]).strip(), entries=self.entries)


def _looks_sparse(y: Float, diagonals: Float) -> bool:
    """Whether the diagonals show large coordinates.

    `I = diag^T y` has entries x_l² times a constant, plus noise of variance |y|²|a_l|²/m; the sum of the squares of
    the normalised entries has the mean n and the variance 2n without a signal, and is larger by m Σ x_l⁴/|x|⁴ with one.
    """
    m, n = diagonals.shape
    squares = np.einsum("ij,ij->j", diagonals, diagonals) * float(y @ y) / m
    normalised = (y @ diagonals) ** 2 / np.where(squares > 0, squares, 1.0)
    return float(normalised.sum()) > n + np.sqrt(2.0 * n)
