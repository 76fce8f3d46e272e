"""The verdict on an answer: the only maker of a status, whatever ended the run.

The rule, for an answer x with f free coordinates (for most methods, its nonzeros) and the relative residual
ρ = ‖r‖/‖y‖; the first line that applies decides (`_RULES`):

    y = 0                                                        TRIVIAL, or AMBIGUOUS if other signals measure zero
    the callback stopped it; the iterates grew without bound     STOPPED; DIVERGED
    all signals of its kind were searched                        PROVEN; AMBIGUOUS if another one fits; UNDECIDED if a
                                                                 budget ended the search for others
    ρ < 1e-9, or within the rounding of A                        what the certificate says: EXACT (CONVERGED within the
                                                                 rounding), UNDECIDED for f = m, AMBIGUOUS if A lets
                                                                 another signal fit as well, UNDETERMINED for f > m
    it fits more than half of y to rounding, beyond chance       EXACT_FOR_MOST (if outliers are allowed for)
    a budget ended it; too noisy; no start                       MAX_ITER, MAX_PASSES, MAX_TIME; NOISY; EMPTY_SUPPORT
    the method gave up, and more than noise is left              STAGNATED
    no fewer free coordinates than measurements                  UNDETERMINED
    otherwise, signal in noise                                   AMBIGUOUS if the noise hides the difference from
                                                                 another signal, NOISY if the error is above 0.25 (if
                                                                 the level is unknown, 0.15 for m <= n and 0.1 if A has
                                                                 a structure; 0.15 among outliers), else CONVERGED

For A in general position a signal with fewer nonzeros than there are measurements fits them exactly only if it is x, up
to sign: a residual at the level of rounding proves it. `fastquad.engine.trust.certificate` finds out where A is not in
general position, and `fastquad.engine.trust.in_noise` judges signal in noise. For signals of a decoder, the number of
free parameters is all that can be checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.rounding import exact_enough, explained, products_affordable, rounded, small
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome, Verdict
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.certificate import Certificate, certify
from fastquad.engine.trust.evidence import against_chance
from fastquad.engine.trust.prove import certified_radius, prove
from fastquad.engine.trust.search import along_free, odds, to_refute
from fastquad.engine.trust.tolerances import TRUSTED
from fastquad.measurements.contractions import Products
from fastquad.status import Status
from fastquad.typing import Asks, Float

__all__ = ["TRUSTED", "Verdict", "exact_enough", "judge", "products_affordable"]

_NOTHING_SEEN = "No signal is seen in y beyond its noise."
_MAY_BE_CHANCE = "There are too few measurements to spare: a wrong signal may fit as well by chance."


@dataclass
class _Case:
    """An outcome, and what the rules ask of it."""

    problem: Problem
    outcome: Outcome

    def __post_init__(self) -> None:
        problem, outcome = self.problem, self.outcome
        self.end = outcome.end
        self.free = int(np.count_nonzero(outcome.x)) if outcome.free is None else outcome.free
        self.determined = self.free - problem.turning < problem.m
        # What a finish has told from rounding has an error.
        noisy = outcome.error is not None and not rounded(problem, outcome.residual)
        self.exact = exact_enough(problem, outcome.residual) and not noisy
        self.decoded = problem.prior is not None and problem.prior.decoded
        #: Whether a decoder's signal fits, and something has shown that the measurements determine the code.
        self.code_known = outcome.residual < EXACT_RESIDUAL and outcome.error is not None
        self.by_verbs = outcome.normals is not None or (problem.by_verbs and not products_affordable(problem))
        noise = problem.noise
        self.reweighed = noise.reweighs and not problem.outliers and (not problem.by_transform or small(problem))
        #: Whether x is a posterior mean that was found through a transform.
        self.posterior = problem.by_transform and problem.prior is not None and outcome.error is not None
        self.for_most = self.end is End.AGREES and outcome.outliers is not None and not problem.bilinear
        self.unfitted = self.end is End.STAGNATED and outcome.residual > explained(problem, self.free)
        self.plain = (problem.prior is None or problem.prior.kind == "sparse") and not problem.outliers
        #: The level of the noise that x leaves.
        spare = max(1, problem.m - self.free + problem.turning)
        self.left = outcome.residual * float(np.linalg.norm(problem.y)) / math.sqrt(spare)

    @property
    def by_chance(self) -> bool:
        """Whether a wrong signal may leave as little."""
        nats, by_chance = against_chance(self.problem, self.free, self.left)
        return nats < by_chance + tol.SPARE_NATS


def judge(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on an outcome; what it reads of A is counted, and `max_passes` bounds it."""
    case = _Case(problem, outcome)
    for applies, verdict in _RULES:
        if applies(case):
            found: Verdict | None = yield from verdict(case)
            if found is not None:
                return found
    raise AssertionError("the last rule applies to all")


# -- one maker for each rule ------------------------------------------------------------------------------------------


def _zero(case: _Case) -> Asks[Verdict]:
    from fastquad.engine.trust.zero import doubt_zero

    status, doubt, rival = yield from doubt_zero(case.problem)
    return Verdict(status, replace(case.outcome, note=doubt, rival=rival))


def _as_it_ended(case: _Case) -> Asks[Verdict]:
    yield from ()
    status = Status.EXACT_FOR_MOST if case.end is End.AGREES else Status[case.end.name]
    ended = Verdict(status, case.outcome)
    if not case.outcome.second:
        return ended
    from fastquad.engine.trust.in_noise import with_second

    return with_second(ended)


def _enumerated(case: _Case) -> Asks[Verdict]:
    yield from ()
    alone = Status.UNDECIDED if case.outcome.proof is None else Status.PROVEN
    return Verdict(alone if case.outcome.rival is None else Status.AMBIGUOUS, case.outcome)


def _by_verbs(case: _Case) -> Asks[Verdict]:
    """The verdict by the verbs, with a proof or a rival if the matrices that show them are small."""
    from fastquad.engine.trust.by_verbs import judge_factored

    problem = case.problem
    status, outcome = yield from judge_factored(problem, case.outcome)
    matrices = products_affordable(problem) and small(problem)
    if not matrices or outcome.end not in (End.CONVERGED, End.STAGNATED) or not exact_enough(problem, outcome.residual):
        return Verdict(status, outcome)
    ground = yield from prove(problem, outcome.x, None)
    if ground is None:
        return Verdict(status, outcome)
    found = ground.weighed(Certificate(outcome.x, outcome.residual, status, twin=outcome.rival))
    error = found.error if found.status.success else None
    told = outcome.noted(found.doubt, x=found.x, error=error, rival=found.twin, proof=ground.proof)
    return Verdict(found.status, told)


def _code(case: _Case) -> Asks[Verdict]:
    """The verdict on the signal of a code that fits to rounding."""
    return Verdict(Status.EXACT, case.outcome) if case.determined else (yield from _undetermined(case))


def _undetermined(case: _Case) -> Asks[Verdict]:
    """The verdict on an answer with as many free numbers as measurements, with another one as a witness."""
    rival = None if case.decoded else (yield from along_free(case.problem, case.outcome.x))
    return Verdict(Status.UNDETERMINED, replace(case.outcome, rival=rival))


def _certified(case: _Case) -> Asks[Verdict]:
    """The verdict on an answer that fits to rounding: that of its certificate, with x cleaned of rounding."""
    problem, outcome = case.problem, case.outcome
    asked = not (problem.only_verbs or problem.movable)
    ground = (yield from prove(problem, outcome.x, outcome.known)) if asked else None
    found = Certificate(outcome.x, outcome.residual, Status.EXACT)
    if ground is None or ground.proof is None:
        found = yield from _certificate(problem, outcome)
    if ground is not None:
        found = ground.weighed(found)
    if found.twin is not None:
        answer = yield from Answer.read(problem, found.x, None)
        if (yield from odds(answer, found.twin)) > tol.SURE:  # x was a minimum that nearly fits
            return (yield from _certified(_Case(problem, (yield from _moved(case, found.twin)))))
    status, prior, note = found.status, problem.prior, found.doubt
    if not problem.admits(found.x):
        note = f"{note} But x violates `prior`."
    if prior is not None and not prior.admits(found.x) and prior.admits(-found.x):
        found = found._replace(x=-found.x)
    if status is Status.EXACT and found.residual >= EXACT_RESIDUAL:
        note = f"{note} This is the accuracy of A's entries, which are rounded."
    nonzeros = int(np.count_nonzero(found.x))
    if status is Status.EXACT and problem.k is not None and nonzeros != problem.k:
        note = f"{note} But x has {nonzeros} nonzeros, and k = {problem.k} was given."
    error, proof = found.error if status.success else None, None if ground is None else ground.proof
    told = {"x": found.x, "residual": found.residual, "rival": found.twin, "error": error, "proof": proof}
    return Verdict(status, outcome.noted(note.strip(), **told))


def _moved(case: _Case, x: Float) -> Asks[Outcome]:
    """The outcome with another signal in the place of x."""
    r = (yield Products(x)) @ x - case.problem.y
    residual = float(np.linalg.norm(r) / np.linalg.norm(case.problem.y))
    return replace(case.outcome, x=x, residual=residual, known=None)


def _certificate(problem: Problem, outcome: Outcome) -> Asks[Certificate]:
    """The certificate of an answer that fits to rounding, by the tests for its kind."""
    # Of small problems matrices tell more: whether descents from other starts find another answer.
    few = to_refute(problem.m, problem.n, problem.n, independent=False)
    if problem.matrix_free or problem.movable or (problem.by_transform and not few):
        from fastquad.engine.trust.by_verbs import NOT_SHOWN, certify_by_verbs

        found = yield from certify_by_verbs(problem, outcome.x)
        if found is not None:
            return found
        if problem.movable or not products_affordable(problem):
            return Certificate(outcome.x, outcome.residual, Status.UNDECIDED, NOT_SHOWN)
    if problem.prior is not None:
        from fastquad.engine.trust.structured import certify_structured

        found = yield from certify_structured(problem, problem.prior, outcome.x, outcome.entries)
        if found is not None:
            return found
    return (yield from certify(problem, outcome.x, outcome.known, outcome.entries))


def _in_units_of_noise(case: _Case) -> Asks[Verdict]:
    """The verdict if the noise of a measurement depends on its signal: that of the problem in units of noise."""
    from fastquad.engine.trust.whitened import in_units_of_noise

    return (yield from in_units_of_noise(case.problem, case.outcome, judge))


def _posterior(case: _Case) -> Asks[Verdict]:
    from fastquad.engine.trust.by_verbs import judge_posterior

    return (yield from judge_posterior(case.problem, case.outcome))


def _for_most(case: _Case) -> Asks[Verdict]:
    from fastquad.engine.trust.sound import judge_most

    return (yield from judge_most(case.problem, case.outcome))


def _stagnated(case: _Case) -> Asks[Verdict | None]:
    """The verdict on an answer whose method gave up, unless it is the best fit there and better than chance: what it
    leaves is noise."""
    problem, outcome = case.problem, case.outcome
    stagnated = Verdict(Status.STAGNATED, outcome)
    given = problem.noise.given or case.free >= problem.m or not outcome.x.any()
    if given or not case.plain or case.by_chance or not products_affordable(problem):
        return stagnated
    W = yield Products(outcome.x)
    S = np.setdiff1d(np.flatnonzero(outcome.x), problem.known)
    step = W[:, S] @ np.linalg.lstsq(W[:, S], W @ outcome.x - problem.y, rcond=1e-10)[0]
    # A step that changes the measurements by less than their noise changes x by less than its error.
    return None if float(np.linalg.norm(step)) < tol.PART * case.left * math.sqrt(S.size) else stagnated


def _in_noise(case: _Case) -> Asks[Verdict]:
    """The verdict on signal in noise; if what was taken for noise is signal, on the signal that explains it."""
    from fastquad.engine.trust.in_noise import judge_in_noise

    problem, model = case.problem, case.outcome.model
    if model is not None and model.unequal and not (model.reweighs or problem.noise.unequal):
        problem = replace(problem, noise=model)  # it was learnt for each measurement
    verdict: Verdict = yield from judge_in_noise(problem, case.outcome)
    found = verdict.outcome
    if found.x is not case.outcome.x and exact_enough(case.problem, found.residual):
        return (yield from _certified(_Case(case.problem, found)))
    if verdict.status is Status.CONVERGED and case.end is End.STAGNATED and case.plain and case.by_chance:
        return Verdict(Status.UNDECIDED, replace(found, note=f"{found.note} {_MAY_BE_CHANCE}".strip()))
    unknown = found.error is not None and found.error >= tol.CLEARLY_ANOTHER
    if verdict.status in (Status.AMBIGUOUS, Status.NOISY) and unknown and case.by_chance:
        # A rival is another signal only if x is one; and zero would be as near to it.
        note = f"{case.outcome.note} {_NOTHING_SEEN}".strip()
        return Verdict(Status.NOISY, replace(found, note=note, error=1.0, rival=None))
    prior = case.problem.prior
    if verdict.status is Status.CONVERGED and (prior is None or prior.kind == "sparse"):
        found.proof = yield from certified_radius(case.problem, found.x)
    return verdict


#: The rules: when one applies, and what makes the verdict. None of it: the next rule that applies.
_RULES: tuple[tuple[Callable[[_Case], bool], Callable[[_Case], Asks[Verdict | None]]], ...] = (
    (lambda case: case.end is End.ZERO, _zero),
    (lambda case: case.end in (End.STOPPED, End.DIVERGED), _as_it_ended),
    (lambda case: case.end is End.ENUMERATED and case.exact, _enumerated),
    (lambda case: case.by_verbs, _by_verbs),
    (lambda case: case.exact and not case.decoded, _certified),
    (lambda case: case.exact and case.code_known, _code),
    (lambda case: case.posterior and case.end in (End.CONVERGED, End.STAGNATED), _posterior),
    (lambda case: case.reweighed, _in_units_of_noise),
    (lambda case: case.for_most, _for_most),
    (lambda case: case.end not in (End.CONVERGED, End.STAGNATED), _as_it_ended),
    (lambda case: case.unfitted, _stagnated),
    (lambda case: not case.determined, _undetermined),
    (lambda case: True, _in_noise),
)
