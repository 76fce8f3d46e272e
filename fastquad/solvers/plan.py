"""The default method: a table of stages, of which the first certified answer ends the solve.

A stage is a row of `PLAN`: what it is called, for which problems it is (`Desk.kind`), what it is for, when it is tried,
and where it is. Its module is imported when it runs. Rows are tried from top to bottom; the cheapest that is likely to
succeed comes first. What the stages of one solve share is on its `Desk`.

    points        A shifts and x has few whole values          a search that sees everything
    prior         x is known by more than that it is sparse    AMP with the prior's denoiser
    verbs         A is sparse, or known by its functions       descents by the verbs of the Jacobian
    bilinear      y_i = u^T B_i v                              AMP for both vectors, descents, pursuit
    functions     A is known by its functions alone            descents by conjugate gradients
    structured    the entries of A depend on each other        pursuit, VAMP, descents
    weighed       measurements count differently               AMP, the only method that weighs them
    independent   the entries of A are independent             pursuit, AMP's first estimate, descents, AMP

An answer is certified by a relative residual below 1e-9 with fewer free coordinates than measurements. If nothing fits
exactly, the answer is AMP's posterior mean, with its error (see `fastquad.solvers.amp.belief`), or, if AMP's matrices
do not fit in memory, a fit that is far better than chance (`fastquad.solvers.parts.noise_fit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fastquad.engine.cost import MULTIPLY_ADDS, Allowance
from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.rounding import nothing_left, products_affordable
from fastquad.engine.steps import End, Note, Outcome, Steps
from fastquad.engine.steps import Stage as Announced
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.typing import Asks, Float

if TYPE_CHECKING:
    from fastquad.solvers.amp.amp import Search as Messages
    from fastquad.solvers.amp.guided import Guide
    from fastquad.solvers.amp.starts import Likely
    from fastquad.solvers.pursuit.search import Search as Pursuit

# The largest factor between one and the inverse variance of A's entries at which their squares do not overflow.
_EXTREME = 1e210
# When a descent stops; a patient one if A has a structure: of 607 that converge, 581 do within these rules.
DESCENT = Rule(max_steps=100, patience=5, factor=1.01, bottom=1e-3)
PATIENT = Rule(max_steps=100, patience=10, factor=1.01, bottom=1e-3)
# AMP's n×n matrices of doubles in memory at once: S0, one S for each run of a batch, and an eigendecomposition's.
MATRICES = 14


def affordable(problem: Problem) -> bool:
    """Whether AMP's matrices fit in half of the memory."""
    return 8 * MATRICES * problem.n**2 <= problem.memory // 2


# -- the table ----------------------------------------------------------------------------------------------------


class Stage(NamedTuple):
    """A row: `place` is "module:function" in `fastquad.solvers`, called with the desk and `given`."""

    kind: str
    name: str
    purpose: str
    place: str
    when: Callable[[Desk], bool] = lambda desk: True
    given: tuple[Any, ...] = ()
    #: What it may cost, in seconds of the model of `fastquad.engine.cost`, before it is left for the others.
    within: Callable[[Desk], float] = lambda desk: math.inf

    def run(self, desk: Desk) -> Asks[Outcome | None]:
        """The stage as a generator; its module is imported now."""
        module, function = self.place.split(":")
        stage: Asks[Outcome | None] = getattr(import_module(f"fastquad.solvers.{module}"), function)(desk, *self.given)
        return stage

    def applies(self, desk: Desk) -> bool:
        """Whether the stage is tried now."""
        return self.kind in desk.kinds and self.when(desk)


# The ratios of measurements to unknowns at which the plan changes; guesses, but for the first.
# VAMP succeeds often from the first on, and from the second on almost always, also for sparse x. Pursuit takes every
# positive semidefinite tensor for that of a sparse x.
_VAMP, _VAMP_SURE = 1.1, 1.5
# Descents on all coordinates need no prior.
_ALL = 1.3
# Below, pursuit comes before AMP, for as long as AMP would take.
_FEW = 1 / 2

PLAN: tuple[Stage, ...] = (
    Stage("any", "points", "x counts points", "points:points", lambda d: d.problem.prior is not None),
    Stage("any", "through a transform", "a prior and intensities", "through:message_passing", lambda d: d.through),
    Stage("verbs", "verbs", "sparse A, or functions", "plan:by_verbs", within=lambda d: d.elsewhere),
    Stage("prior", "check", "what AMP cannot do", "amp.guided:check"),
    Stage("any", "look", "a sample of A's entries", "plan:look"),
    # A prior that only AMP can use: for x >= 0 pursuit as well, in full for m < 0.35 n. Outliers: AMP alone.
    Stage("prior", "describe", "what is special", "plan:describe"),
    Stage("sound prior", "from start", "the user's start", "amp.guided:from_start", lambda d: d.started),
    Stage("sound prior", "pursue", "very sparse x >= 0", "amp.guided:pursue", given=(True,)),
    Stage("prior", "own starts", "what the prior knows", "amp.guided:own_starts"),
    Stage("sound prior", "pursue", "sparse x >= 0", "amp.guided:pursue", given=(False,)),
    Stage("prior", "usual starts", "no sign known", "amp.guided:usual_starts", given=(1,)),
    Stage("sound prior", "sampling", "x >= 0, few values", "amp.guided:sampling"),
    *(Stage("prior", "usual starts", "no sign known", "amp.guided:usual_starts", given=(i,)) for i in (2, 3)),
    *(Stage("sound prior", "usual starts", "no sign known", "amp.guided:usual_starts", given=(i,)) for i in (4, 5, 6)),
    # No such prior
    Stage("plain", "from start", "the user's start", "independent:from_start", lambda d: d.started),
    Stage("extreme", "refuse", "squares of entries that are no numbers", "plan:refuse"),
    # y_i = u^T B_i v
    Stage("bilinear", "message passing", "sparse u and v", "bilinear:message_passing"),
    Stage("bilinear", "descents", "any u and v", "structured:descents", lambda d: d.ratio >= 1),
    Stage("bilinear", "pursue", "very sparse u and v", "bilinear:pursue"),
    # Only functions of A
    Stage("functions", "descents", "any x", "matrix_free:descents"),
    # Entries that depend on each other
    Stage("transform", "message passing", "any x", "structured:message_passing", lambda d: d.lone or d.ratio >= _VAMP),
    Stage("transform", "too large", "no room for products of x", "structured:too_large", lambda d: d.lone),
    Stage("structured", "message passing", "any x", "structured:message_passing", lambda d: d.ratio >= _VAMP_SURE),
    Stage("dependent", "quick pursuit", "few large coordinates", "independent:quick_pursuit"),
    Stage(
        "structured", "message passing", "any x", "structured:message_passing", lambda d: _VAMP <= d.ratio < _VAMP_SURE
    ),
    Stage("dependent", "descents", "any x", "structured:descents", lambda d: d.ratio >= 1),
    Stage("dependent", "describe", "what is special", "plan:describe"),
    Stage("dependent", "pursue", "sparse x", "structured:pursue"),
    # Measurements that count differently
    Stage("weighed", "message passing", "any x", "independent:message_passing", given=(1, 2, 3)),
    Stage("weighed", "descents", "any x", "structured:descents", lambda d: d.ratio >= 1 and not d.problem.outliers),
    # Independent entries
    Stage("few", "describe", "what is special", "plan:describe"),
    Stage("few", "pursue", "very sparse x", "independent:pursue", within=lambda d: d.by_messages),
    Stage("few", "message passing", "any x", "independent:message_passing", given=(1,)),
    Stage("few", "pursue", "very sparse x", "independent:pursue", lambda d: bool(d.left)),
    Stage("many", "quick pursuit", "large coordinates", "independent:quick_pursuit", within=lambda d: d.by_descent / 4),
    Stage("many", "likely coordinates", "sparse x", "independent:likely_coordinates"),
    Stage("many", "equations", "known values", "independent:equations", lambda d: d.solvable),
    Stage(
        "many", "all coordinates", "any x", "independent:all_coordinates", lambda d: not d.solvable and d.shape >= _ALL
    ),
    Stage("many", "describe", "what is special", "plan:describe"),
    Stage("independent", "message passing", "any x", "independent:message_passing", given=(1, 2, 3)),
    Stage("many", "descents", "known values", "structured:descents", lambda d: d.solvable and d.ratio == 1),
    Stage("many", "pursue", "very sparse x", "independent:pursue", lambda d: d.shape <= 1),
    # Hundreds or thousands of passes: for m > n what is left is seldom sparse, and other settings of AMP come first.
    Stage("over", "message passing", "other settings", "independent:message_passing", given=(4, 5, 6)),
    Stage("persistent", "sampling", "any x", "independent:sampling"),
    Stage("under", "message passing", "other settings", "independent:message_passing", given=(4, 5, 6)),
    Stage("over", "pursue", "very sparse x", "independent:pursue"),
)  # fmt: skip


@options
class Auto(Solver):
    """The default: pursuit, AMP and Levenberg–Marquardt, the cheapest that is likely to succeed first."""

    name: ClassVar[str] = "auto"
    priors: ClassVar[tuple[str, ...]] = ("sparse", "denoiser")
    uses: ClassVar[frozenset[str]] = frozenset({"nonnegative", "groups", "partial"})
    uses_fixed: ClassVar[bool] = True

    def steps(self, problem: Problem) -> Steps:
        return (yield from search(problem))


def search(problem: Problem, table: tuple[Stage, ...] = PLAN) -> Steps:
    """The outcome of the first stage that ends the solve, or the best at the end of all."""
    desk, outcome = Desk(problem), None
    for stage in table:
        if stage.applies(desk):
            yield Announced(stage.name)
            allowance = Allowance(problem.price, stage.within(desk))
            outcome = yield from allowance.spent_by(stage.run(desk))
            if outcome is not None:
                break
            desk.left = [each for each in desk.left if each.place != stage.place]
            desk.left += [stage] if allowance.over else []
    # Now go on with what was put off for other stages, which found nothing either.
    while outcome is None and desk.left:
        yield Announced(desk.left[0].name)
        outcome = yield from desk.left.pop(0).run(desk)
    if outcome is None:
        outcome = yield from desk.give_up()
    if not desk.looked or nothing_left(problem, outcome.residual):
        return outcome
    from fastquad.solvers.parts.finish import finished

    return (yield from finished(problem, desk.entries, outcome, desk.cache))


# -- what stages share --------------------------------------------------------------------------------------------


@dataclass
class Desk:
    """What the stages of one solve share: what is known of A, the best fit so far, searches that may go on."""

    problem: Problem
    entries: Entries = field(default_factory=Entries)
    looked: bool = False
    best: Fit | None = None
    best_method: str = "amp"
    messages: Messages | None = None
    search: Pursuit | None = None
    guide: Guide | None = None
    #: AMP's first estimate, and the fit that it led to.
    estimate: Likely | None = None
    #: Stages that cost more than they were given, and may go on.
    left: list[Stage] = field(default_factory=list)
    #: Further starts for AMP: the ends of other stages.
    near: list[Float] = field(default_factory=list)
    #: What ends the solve if no other stage does: a fit on all coordinates that is no better than chance.
    fallback: Outcome | None = None

    def __post_init__(self) -> None:
        self.cache = GrowingBlock.within(self.problem)

    # -- what the table asks ------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of this solve that the table names."""
        return self._of_entries if self.looked else self._of_problem

    @cached_property
    def _of_problem(self) -> frozenset[str]:
        """The kinds of this solve before A's entries were sampled."""
        problem = self.problem
        if guided(problem):
            return frozenset({"any", "prior"} if problem.outliers else {"any", "prior", "sound prior"})
        return frozenset({"any", "verbs"} if problem.by_verbs and problem.m >= self._unknowns else {"any"})

    @cached_property
    def _of_entries(self) -> frozenset[str]:
        """The kinds of this solve, once A's entries were sampled."""
        problem = self.problem
        if guided(problem):
            return frozenset({"prior"} if problem.outliers else {"prior", "sound prior"})
        if not 1 / _EXTREME < self.entries.gain < _EXTREME:
            return frozenset({"plain", "extreme"})
        if problem.bilinear:
            return frozenset({"plain", "bilinear"})
        if problem.matrix_free:
            return frozenset({"plain", "functions"})
        if not self.entries.independent:
            kinds = {"plain", "transform" if problem.by_transform else "structured"}
            return frozenset(kinds if self.lone else kinds | {"dependent"})
        kinds = {"plain", "weighed"} if self.weighs else {"plain", "independent", self._few_or_many}
        if self.persistent and not problem.outliers:
            kinds |= {"persistent", "over" if self.shape > 1 else "under"}
        return frozenset(kinds)

    @property
    def _few_or_many(self) -> str:
        return "few" if self.shape < _FEW else "many"

    @property
    def through(self) -> bool:
        """Whether a prior is known of x, and intensities through a fast transform."""
        return self.problem.by_transform and self.problem.prior is not None and not self.problem.fixed

    @property
    def started(self) -> bool:
        """Whether the user gave a start."""
        return self.problem.x0 is not None

    @property
    def _unknowns(self) -> int:
        return self.problem.unknowns - len(self.problem.fixed)

    @property
    def shape(self) -> float:
        """m/n."""
        return self.problem.m / self.problem.n

    @property
    def ratio(self) -> float:
        """The measurements for each coordinate whose value is not known."""
        return self.problem.m / max(self.problem.n - len(self.problem.fixed), 1)

    @property
    def by_messages(self) -> float:
        """What the first batch of AMP's starts takes, in seconds of the model: a dozen sweeps and an eigenvector."""
        n = self.problem.n
        return 12 * self.problem.pass_price + 10 * n**3 / MULTIPLY_ADDS

    @property
    def elsewhere(self) -> float:
        """What message passing takes, where A is known and the normal equations of its verbs are not sparse."""
        return math.inf if self.problem.matrix_free or self.problem.gram is not None else self.by_messages

    @property
    def by_descent(self) -> float:
        """What a descent on all coordinates takes, in seconds of the model: seven passes and as many Gram matrices."""
        m, n = self.problem.m, self.problem.n
        return 7 * (self.problem.pass_price + m * n**2 / MULTIPLY_ADDS)

    @property
    def solvable(self) -> bool:
        """Whether known values make equations of the measurements, as many as unknowns or more."""
        return bool(self.problem.fixed) and self.ratio >= 1

    @property
    def lone(self) -> bool:
        """Whether VAMP alone can be used: the products of x, m×n numbers, do not fit in memory."""
        return self.problem.by_transform and not products_affordable(self.problem)

    # -- what stages ask ----------------------------------------------------------------------------------------

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
    def could_go_on(self) -> bool:
        """Whether it would search longer if it were `persistent`."""
        return not self.persistent and bool({"independent", "weighed"} & self._of_entries)

    @property
    def weighs(self) -> bool:
        """Whether some measurements count less than others."""
        return self.problem.outliers or self.problem.noise.unequal or self.problem.noise.reweighs

    @property
    def believes(self) -> bool:
        """Whether AMP decides what is signal in noise."""
        plain = self.entries.independent and not self.problem.bilinear
        return not self.problem.noiseless and plain and affordable(self.problem)

    def remember(self, found: Fit, method: str) -> None:
        """Keep a fit that did not end the solve, if it explains most so far: more free numbers always leave less."""
        from fastquad.solvers.parts.noise_fit import explaining_more

        if explaining_more(self.problem, found, self.best) is found:
            self.best, self.best_method = found, method

    def judge(self, found: Fit, method: str) -> Asks[Outcome | None]:
        """The outcome if a fit ends the solve; otherwise the fit is remembered if it is the best."""
        exact = found.exact(self.problem, self.entries, method, self.cache)
        if exact is not None:
            return exact
        from fastquad.solvers.parts.noise_fit import conclusion, promising

        outcome = yield from conclusion(self.problem, self.entries, found, method, self.cache)
        # Do not accept an unweighted fit under noise if some measurements count less than others.
        if outcome is not None and (outcome.noise is None or not (self.believes or self.weighs)):
            return outcome
        if promising(self.problem, found):
            from fastquad.solvers.parts.finish import ending

            outcome = yield from ending(self.problem, self.entries, found, self.cache, method)
            if outcome is not None:
                return outcome
        self.remember(found, method)
        return None

    def give_up(self) -> Asks[Outcome]:
        """The best answer so far, which proves nothing."""
        from fastquad.solvers.parts.noise_fit import complete, promising

        if self.guide is not None:
            return self.guide.give_up(self)
        best = self.best if self.best is not None and promising(self.problem, self.best) else None
        if self.fallback is not None and best is None:
            return self.fallback
        notes = []
        if not affordable(self.problem):
            notes.append("AMP was left out: its n×n matrices do not fit in `memory`.")
        if self.could_go_on:
            exact = "" if self.problem.noise.given else ", or noise=0 if y is exact"
            notes.append(f"The search was a short one: for a longer one give `max_passes`{exact}.")
        explained = best is not None and not self.weighs and (yield from complete(self.problem, best))
        if self.messages is not None and self.messages.best is not None and self.believes and not explained:
            outcome = self.messages.give_up()
        elif self.best is not None:
            outcome = Outcome(self.best.x, self.best.residual, free=self.best.support.size, method=self.best_method)
        else:
            outcome = Outcome(np.zeros(self.problem.n), 1.0)
        return replace(outcome, note=" ".join([outcome.note, *notes]).strip(), entries=self.entries)


# -- stages that are a line or two --------------------------------------------------------------------------------


def guided(problem: Problem) -> bool:
    """Whether the prior of a problem knows something that only AMP can use."""
    if problem.turning:  # the groups of complex numbers belong to the problem
        return False
    return problem.prior is not None and (problem.prior.kind == "denoiser" or bool(problem.prior.traits))


def by_verbs(desk: Desk) -> Asks[Outcome | None]:
    """Descents by the verbs of the Jacobian; what they end at is kept if it explains y no better than chance."""
    from fastquad.solvers.parts import finish
    from fastquad.solvers.verbs import search

    problem = desk.problem
    outcome = yield from finish.sparser(problem, (yield from search(problem)))
    if outcome.end is End.CONVERGED or problem.matrix_free or not finish.factored(problem):
        return outcome
    desk.fallback = outcome
    return None


def look(desk: Desk) -> Asks[None]:
    """Sample A's entries."""
    desk.entries = yield from sample_entries(desk.problem)
    desk.looked = True


def refuse(desk: Desk) -> Asks[None]:
    """End the solve: nothing can be computed with entries of this size."""
    yield Note("The entries of A are so large, or so small, that their squares are not numbers: rescale A and y.")


def describe(desk: Desk) -> Asks[None]:
    """Note what is special about A's entries, before the stages that may fail because of it."""
    if desk.entries.describe():
        yield Note(desk.entries.describe())
