"""The verdict on an answer: the only maker of a status, whatever ended the run.

The rule, for an answer x with f free coordinates (for most methods, its nonzeros) and the relative residual
ρ = ‖r‖/‖y‖; the first line that applies decides:

    y = 0                                                        TRIVIAL, or AMBIGUOUS where other signals measure zero
    all signals of its kind were searched                        PROVEN; AMBIGUOUS if another one fits; UNDECIDED if a
                                                                 budget ended the search for others
    the callback stopped it; the iterates grew without bound     STOPPED; DIVERGED
    ρ < 1e-9, or within the rounding of A                        what the certificate says: EXACT (CONVERGED within the
                                                                 rounding), UNDECIDED for f = m, AMBIGUOUS where A lets
                                                                 another signal fit as well, UNDETERMINED for f > m
    it fits more than half of y to rounding, beyond chance       EXACT_FOR_MOST (where outliers are allowed for)
    a budget ended it; too noisy; no start                       MAX_ITER, MAX_PASSES, MAX_TIME; NOISY; EMPTY_SUPPORT
    the method's own test was met, or the given noise explains ρ UNDETERMINED for f >= m, AMBIGUOUS where the noise
                                                                 hides the difference from another signal, NOISY where
                                                                 the error is above .25 (if the level is unknown, .15
                                                                 for m <= n and .1 where A has a structure; .15 among
                                                                 outliers), else CONVERGED
    otherwise                                                    STAGNATED

For A in general position a signal with fewer nonzeros than there are measurements fits them exactly only if it is x, up
to sign: a residual at the level of rounding proves it. `fastquad.engine.trust.certificate` finds out where A is not in
general position. For signals of a decoder, the number of free parameters is all that can be checked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Known
from fastquad.engine.trust.by_transform import NOT_SHOWN, certify_by_transform, doubt_by_transform
from fastquad.engine.trust.by_verbs import judge_by_verbs
from fastquad.engine.trust.certificate import Certificate, Missed, certify, doubt_in_noise, doubt_zero, missed
from fastquad.engine.trust.evidence import SPARE_NATS, against_chance
from fastquad.engine.trust.matrix_free import certify_matrix_free, doubt_matrix_free
from fastquad.engine.trust.proof import certified_radius, prove
from fastquad.engine.trust.residual import widened
from fastquad.engine.trust.search import along_free, to_refute
from fastquad.engine.trust.sound import of_rows, sound
from fastquad.engine.trust.structured import better_values, certify_structured, other_values_fit
from fastquad.engine.trust.whitened import in_units_of_noise
from fastquad.measurements.contractions import Products
from fastquad.numerics.small import with_small_ones
from fastquad.priors.base import Prior
from fastquad.solution import Status
from fastquad.typing import Asks, Float, Indices

#: The largest error of a success in noise: one of a hundred is twice as large as estimated, and then still below .5.
TRUSTED = 0.25
# The upper 95 % of that error: above it only where few directions of x make up the error, so that it may be large.
_TRUSTED_BOUND = 0.5
#: The same for m <= n without a given level of noise, where many small coordinates of x may look like noise; and among
#: outliers.
TRUSTED_OF_FEW = 0.15
#: The same where A has a structure and no level is given: then a part of the signal may look like noise, too.
TRUSTED_STRUCTURED = 0.1

# The relative residual below which what is left is not noise, and too small to be signal: the method just stopped
# there.
_FITTED = 1e-6

# The largest change of the measurements by one more step, in units of what noise does, at the bottom of a valley.
_BOTTOM = 0.1
# How many arrays of shape (m, n) the methods and the certificate have at a time.
_PRODUCTS = 6

# The ratio of the error of least squares to that of a method that takes all directions for seen alike, from which on
# they are not.
_UNEQUALLY_SEEN = 1.5

_TOO_MUCH = "But it leaves more than noise of the given level explains."
_NOT_MOST = "But half of the measurements or more contradict x: they may be those of another signal."
_TWO = (
    "But another signal seems to be measured with x, of {share:.2g} of its power, so that which is which is uncertain; "
    "or a few measurements are wrong, which outliers=True allows for."
)
_NOT_AS_TOLD = "A signal that is not as `prior` says fits far better: check what it says."

#: The status for each end of a run, if the answer proves nothing.
_AS_IT_ENDED = {
    End.AGREES: Status.EXACT_FOR_MOST,
    End.NOISY: Status.NOISY,
    End.STAGNATED: Status.STAGNATED,
    End.EMPTY_SUPPORT: Status.EMPTY_SUPPORT,
    End.DIVERGED: Status.DIVERGED,
    End.MAX_ITER: Status.MAX_ITER,
    End.MAX_PASSES: Status.MAX_PASSES,
    End.MAX_TIME: Status.MAX_TIME,
    End.STOPPED: Status.STOPPED,
}


class Verdict(NamedTuple):
    """The status, and the outcome with the additions of the verdict."""

    status: Status
    outcome: Outcome


def judge(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on an outcome; what it reads of A is counted, and `max_passes` bounds it."""
    if outcome.end is End.ZERO:
        status, doubt, rival = yield from doubt_zero(problem)
        return Verdict(status, replace(outcome, note=doubt, rival=rival))
    if outcome.end in (End.STOPPED, End.DIVERGED):
        return Verdict(_AS_IT_ENDED[outcome.end], outcome)
    if outcome.end is End.ENUMERATED and exact_enough(problem, outcome.residual):
        alone = Status.UNDECIDED if outcome.proof is None else Status.PROVEN
        return Verdict(alone if outcome.rival is None else Status.AMBIGUOUS, outcome)
    if outcome.normals is not None or (problem.by_verbs and not products_affordable(problem)):
        return (yield from _proven(problem, Verdict(*(yield from judge_by_verbs(problem, outcome)))))
    free = int(np.count_nonzero(outcome.x)) if outcome.free is None else outcome.free
    determined = free - problem.turning < problem.m
    if exact_enough(problem, outcome.residual):
        if problem.prior is None or not problem.prior.decoded:
            return (yield from _certified(problem, outcome))
        # Without an error, nothing has shown that the measurements determine the code: a budget ended it.
        if outcome.residual < EXACT_RESIDUAL and outcome.error is not None:
            return Verdict(Status.EXACT, outcome) if determined else (yield from _undetermined(problem, outcome))
    if problem.noise.reweighs and not problem.outliers and (not problem.by_transform or _small(problem)):
        return (yield from _in_units_of_noise(problem, outcome))
    if outcome.end is End.AGREES and outcome.outliers is not None and not problem.bilinear:
        return (yield from _for_most(problem, outcome, outcome.outliers))
    if outcome.end not in (End.CONVERGED, End.STAGNATED):
        return _with_second(Verdict(_AS_IT_ENDED[outcome.end], outcome))
    if outcome.end is End.STAGNATED and outcome.residual > _explained(problem, free):
        if not (yield from _at_bottom(problem, outcome, free)):
            return Verdict(Status.STAGNATED, outcome)
    if not determined:
        return (yield from _undetermined(problem, outcome))
    if problem.prior is None or problem.prior.kind == "sparse":
        return (yield from _in_noise(problem, outcome))
    if problem.prior.decoded and outcome.error is None:
        return Verdict(Status.STAGNATED, outcome)  # nothing says how far off it is
    if problem.prior.decoded:
        return Verdict(Status.CONVERGED, outcome)
    return (yield from _by_prior(problem, outcome, problem.prior))


def _in_units_of_noise(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict where the noise of a measurement depends on its signal: that of the problem in units of noise."""
    verdict, told = yield from in_units_of_noise(problem, outcome, judge)
    status, found = verdict
    residual, noise = (outcome.residual, outcome.noise) if found.x is told.x else (found.residual, None)
    return Verdict(status, replace(found, residual=residual, noise=noise, entries=outcome.entries, proof=None))


def _small(problem: Problem) -> bool:
    """Whether the tests of a problem need not go by its transform."""
    return problem.m * problem.n**2 <= tol.LOOK_ENTRIES


def _at_bottom(problem: Problem, outcome: Outcome, free: int) -> Asks[bool]:
    """Whether an answer whose method gave up is the best fit there, and better than chance: what it leaves is noise."""
    prior = problem.prior
    told = prior is not None and prior.kind != "sparse"
    if told or problem.noise.given or problem.outliers or free >= problem.m or not outcome.x.any():
        return False
    left = outcome.residual * float(np.linalg.norm(problem.y)) / math.sqrt(problem.m - free + problem.turning)
    nats, by_chance = against_chance(problem, free, left)
    if nats < by_chance + SPARE_NATS or not products_affordable(problem):
        return False
    W = yield Products(outcome.x)
    S = np.setdiff1d(np.flatnonzero(outcome.x), problem.known)
    step = W[:, S] @ np.linalg.lstsq(W[:, S], W @ outcome.x - problem.y, rcond=1e-10)[0]
    # A step that changes the measurements by less than their noise changes x by less than its error.
    return float(np.linalg.norm(step)) < _BOTTOM * left * math.sqrt(S.size)


def _undetermined(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on an answer with as many free numbers as measurements, with another one as a witness."""
    decoded = problem.prior is not None and problem.prior.decoded
    rival = None if decoded else (yield from along_free(problem, outcome.x))
    return Verdict(Status.UNDETERMINED, replace(outcome, rival=rival))


def _by_prior(problem: Problem, outcome: Outcome, prior: Prior) -> Asks[Verdict]:
    """The verdict on signal in noise where the method has its estimate by a prior that is not sparsity alone."""
    if prior.alphabet is not None:
        values = yield from better_values(problem, prior.nearest(outcome.x), prior.alphabet)
        if values is not None:
            return (yield from _improved(problem, outcome, values))
        if (yield from other_values_fit(problem, outcome.x)):
            return Verdict(Status.STAGNATED, replace(outcome, error=None, stderr=None, note=_NOT_AS_TOLD))
    look = yield from missed(problem, outcome.x)
    if look.better is not None:
        return (yield from _improved(problem, outcome, look.better))
    if look.misfit:
        return Verdict(Status.STAGNATED, replace(outcome, note=f"{outcome.note} {look.misfit}".strip()))
    error = outcome.error
    if error is None:  # it leaves no more than noise does, but nothing says how far off it is
        return Verdict(Status.STAGNATED, outcome)
    return _with_second(_by_error(problem, replace(outcome, second=look.second), error, 0.0, _trusted(problem)))


def _certified(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on an answer that fits to rounding: that of its certificate, with x cleaned of rounding."""
    prior, ground = problem.prior, None
    if not problem.matrix_free:
        ground = yield from prove(problem, outcome.x, outcome.known)
    if ground is not None and ground.proof is not None:
        found = Certificate(ground.x, ground.residual, Status.PROVEN, ground.note, error=ground.error)
    else:
        found = yield from _certificate(problem, outcome)
        if ground is not None:
            found = ground.weighed(found)
    status, note = found.status, f"{outcome.note} {found.doubt}".strip()
    if not problem.admits(found.x):
        note = f"{note} But x is not as `prior` says.".strip()
    if prior is not None and not prior.admits(found.x) and prior.admits(-found.x):
        found = found._replace(x=-found.x)
    if status is Status.EXACT and found.residual >= EXACT_RESIDUAL:
        note = f"{note} This is the accuracy of A's entries, which are rounded.".strip()
    nonzeros = int(np.count_nonzero(found.x))
    if status is Status.EXACT and problem.k is not None and nonzeros != problem.k:
        note = f"{note} It has {nonzeros} nonzeros, not k = {problem.k} as was given.".strip()
    outcome.x, outcome.residual, outcome.note = found.x, found.residual, note
    outcome.error = found.error if status.success else None
    outcome.rival, outcome.proof = found.twin, None if ground is None else ground.proof
    return Verdict(status, outcome)


def _proven(problem: Problem, verdict: Verdict) -> Asks[Verdict]:
    """The verdict by the verbs, with a proof or a rival where the matrices that show them are small."""
    status, outcome = verdict
    small = products_affordable(problem) and _small(problem)
    if not small or outcome.end not in (End.CONVERGED, End.STAGNATED) or not exact_enough(problem, outcome.residual):
        return verdict
    ground = yield from prove(problem, outcome.x, None)
    if ground is None:
        return verdict
    if ground.proof is not None:
        found = Certificate(ground.x, ground.residual, Status.PROVEN, ground.note, error=ground.error)
    else:
        found = ground.weighed(Certificate(outcome.x, outcome.residual, status, twin=outcome.rival))
    note = f"{outcome.note} {found.doubt}".strip()
    error = found.error if found.status.success else None
    return Verdict(
        found.status, replace(outcome, x=found.x, note=note, error=error, rival=found.twin, proof=ground.proof)
    )


def _certificate(problem: Problem, outcome: Outcome) -> Asks[Certificate]:
    """The certificate of an answer that fits to rounding, by the tests for its kind."""
    if problem.matrix_free:
        return (yield from certify_matrix_free(problem, outcome.x))
    # Of small problems matrices tell more: whether descents from other starts find another answer.
    if problem.by_transform and not to_refute(problem.m, problem.n, problem.n, independent=False):
        found = yield from certify_by_transform(problem, outcome.x)
        if found is not None:
            return found
        if not products_affordable(problem):
            return Certificate(outcome.x, outcome.residual, Status.UNDECIDED, NOT_SHOWN)
    return (yield from certify_structured(problem, outcome.x, outcome.entries)) or (
        yield from certify(problem, outcome.x, outcome.known, outcome.entries)
    )


def _for_most(problem: Problem, outcome: Outcome, outliers: Indices) -> Asks[Verdict]:
    """The verdict on an answer that fits most measurements to rounding: these alone must rule out every other one."""
    rows = np.delete(np.arange(problem.m), outliers)
    part, entries = sound(problem, outcome.entries, rows)
    found = yield from of_rows(certify(part, outcome.x, None, entries), rows, problem.m)
    if found.status is Status.EXACT:
        return Verdict(Status.EXACT_FOR_MOST, replace(outcome, x=found.x))
    note = f"It fits {rows.size} of {problem.m} measurements to rounding. {found.doubt}".strip()
    return Verdict(found.status, replace(outcome, x=found.x, note=note, error=None, rival=found.twin))


def _in_noise(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on signal in noise, less certain if another signal is measured with it."""
    verdict = _with_second((yield from _alone(problem, outcome)))
    if verdict.status is Status.CONVERGED:
        verdict.outcome.proof = yield from certified_radius(problem, verdict.outcome.x)
    return verdict


def _with_second(verdict: Verdict) -> Verdict:
    """The verdict, less certain by another signal that is measured with x: the axis that is found is not x."""
    status, outcome = verdict
    if not outcome.second or outcome.error is None or status not in (Status.CONVERGED, Status.NOISY):
        return verdict
    error = widened(outcome.error, outcome.second)
    sure = status is Status.CONVERGED and error < TRUSTED_OF_FEW  # else the other may be the stronger one
    note = f"{outcome.note} {_TWO.format(share=outcome.second)}".strip()
    return Verdict(Status.CONVERGED if sure else Status.NOISY, replace(outcome, error=error, note=note))


def _alone(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on signal in noise, if no other is measured with it: is it the only one, and how well is it known?

    If entries are independent and the method estimates its error, it has a posterior: the odds against another signal
    are part of its claim, unless what it takes for noise is signal.
    """
    if problem.outliers and outcome.error is not None and not problem.bilinear:
        return (yield from _among_outliers(problem, outcome, outcome.error))
    free = int(np.count_nonzero(outcome.x)) if outcome.free is None else outcome.free
    if problem.noise.given and not problem.noise.unequal and outcome.residual > _explained(problem, free):
        return Verdict(Status.STAGNATED, replace(outcome, note=f"{outcome.note} {_TOO_MUCH}".strip()))
    looked = outcome.residual > _FITTED and not problem.matrix_free
    look = (yield from missed(problem, outcome.x)) if looked else Missed()
    outcome = replace(outcome, second=max(outcome.second, look.second))
    if look.better is not None:
        return (yield from _improved(problem, outcome, look.better))
    if look.misfit:
        return Verdict(Status.STAGNATED, replace(outcome, note=f"{outcome.note} {look.misfit}".strip()))
    if getattr(problem.prior, "nonnegative", False) and (yield from other_values_fit(problem, outcome.x, below=True)):
        return Verdict(Status.STAGNATED, replace(outcome, error=None, stderr=None, note=_NOT_AS_TOLD))
    if outcome.error is not None and outcome.entries is not None and outcome.entries.independent:
        if look.unseen:
            return _doubted(outcome, look.unseen, look.rival)
        return (yield from _believed(problem, outcome, outcome.error, _trusted(problem)))
    level = outcome.noise if outcome.noise is not None else problem.sigma
    if problem.matrix_free:
        found = yield from doubt_matrix_free(problem, outcome, level)
    elif problem.by_transform and not _small(problem):
        # Of smaller problems matrices tell more: whether random starts come back to x.
        found = yield from doubt_by_transform(problem, outcome, level)
    else:
        by_level = outcome.method == "lm" and problem.noise.given
        weighed = (outcome.method == "vamp" or by_level) and outcome.stderr is not None
        found = yield from doubt_in_noise(problem, outcome.x, level, outcome.error, outcome.entries, weighed)
    if problem.noise.unequal and outcome.stderr is not None and outcome.error is not None:
        # Keep the errors of a method that weighed the measurements: one level for all would ignore the best of them.
        stderr, error = outcome.stderr, outcome.error
    else:
        stderr = found.stderr if outcome.stderr is None else np.maximum(outcome.stderr, found.stderr)
        error, note = found.widened(max(outcome.error or 0.0, found.error))
        outcome = replace(outcome, note=f"{outcome.note} {note}".strip())
        if outcome.error is None and _of_few(problem):
            error = with_small_ones(error, outcome.x, stderr, problem.m)
    outcome = replace(outcome, stderr=stderr, error=error)
    if found.reason:
        return _doubted(outcome, found.reason, found.rival)
    trusted = _trusted(problem) if problem.noise.given else TRUSTED_STRUCTURED
    return _by_error(problem, outcome, error, max(error, found.bound), trusted)


def _among_outliers(problem: Problem, outcome: Outcome, error: float) -> Asks[Verdict]:
    """The verdict on signal in noise beside outliers: the sound measurements must be most of them, and suffice."""
    rows = np.delete(np.arange(problem.m), () if outcome.outliers is None else outcome.outliers)
    if 2 * rows.size <= problem.m:
        return _doubted(outcome, _NOT_MOST, None)
    part, entries = sound(problem, outcome.entries, rows)
    look = yield from of_rows(missed(part, outcome.x), rows, problem.m)
    if look.better is not None or look.misfit:
        return Verdict(Status.STAGNATED, replace(outcome, note=f"{outcome.note} {look.misfit}".strip()))
    if look.unseen:
        return _doubted(outcome, look.unseen, look.rival)
    # With outliers allowed for, signal may be taken for them, and what is left for noise.
    tests = _believed(part, replace(outcome, entries=entries), error, TRUSTED_OF_FEW)
    return (yield from of_rows(tests, rows, problem.m))


def _believed(problem: Problem, outcome: Outcome, error: float, trusted: float) -> Asks[Verdict]:
    """The verdict on signal in noise, from a method that separates the two by itself, for errors below `trusted`."""
    found = yield from doubt_in_noise(problem, outcome.x, outcome.noise, error, outcome.entries, weighed=True)
    if found.reason:
        return _doubted(replace(outcome, error=max(error, found.error)), found.reason, found.rival)
    bound = 0.0
    if found.error > _UNEQUALLY_SEEN * error:
        bound = found.bound
        note = f"But some directions of x are seen less than others: its error is about {found.error:.2g}."
        outcome, error = replace(outcome, note=f"{outcome.note} {note}".strip()), found.error
    error, note = found.widened(error)
    outcome = replace(outcome, note=f"{outcome.note} {note}".strip())
    return _by_error(problem, outcome, error, bound, trusted)


def _doubted(outcome: Outcome, reason: str, rival: Float | None) -> Verdict:
    """The verdict on signal in noise with a reason against it: another signal, or only what is not ruled out."""
    outcome = replace(outcome, note=f"{outcome.note} {reason}".strip(), rival=rival)
    if rival is not None:
        return Verdict(Status.AMBIGUOUS, outcome)
    far = outcome.error is not None and outcome.error >= _TRUSTED_BOUND
    return Verdict(Status.NOISY if far else Status.UNDECIDED, outcome)


def _by_error(problem: Problem, outcome: Outcome, error: float, bound: float, trusted: float) -> Verdict:
    """The verdict on signal in noise that the data distinguish from others.

    Where the prior allows for many small coordinates δ, they may be what is left, in place of noise. For m <= n they
    look alike, because `2 x^T Ã_i δ` is as random as noise is; it is √2 |δ|/|x| times as large as `x^T Ã_i x`.
    """
    prior, m = problem.prior, problem.m
    if prior is not None and prior.compressible and not problem.noise.given and m <= problem.unknowns:
        spare = max(1, m - int(np.count_nonzero(outcome.x)))
        error = math.hypot(error, outcome.residual * math.sqrt(m / (2 * spare)))
        note = f"What is left may be many small coordinates as well as noise: the error of {error:.2g} allows for both."
        outcome = replace(outcome, error=error, note=f"{outcome.note} {note}".strip())
    sure = error < trusted and bound < _TRUSTED_BOUND
    return Verdict(Status.CONVERGED if sure else Status.NOISY, replace(outcome, error=error))


def _improved(problem: Problem, outcome: Outcome, better: Float) -> Asks[Verdict]:
    """The verdict if what was taken for noise is signal: that on the signal which explains it."""
    if not _as_told(problem, better):
        return Verdict(Status.STAGNATED, replace(outcome, error=None, stderr=None, note=_NOT_AS_TOLD))
    W = yield Products(better)
    r = W @ better - problem.y
    residual = float(np.linalg.norm(r) / np.linalg.norm(problem.y))
    outcome = replace(outcome, x=better, residual=residual, noise=None, stderr=None, error=None, second=0.0, note="")
    if exact_enough(problem, residual):
        return (yield from _certified(problem, replace(outcome, known=Known(W, r))))
    return Verdict(Status.STAGNATED, outcome)


def _as_told(problem: Problem, x: Float) -> bool:
    """Whether a signal is as the user says, up to sign and to the accuracy of a few steps."""
    small, prior = 1e-6 * float(np.abs(x).max(initial=0.0)), problem.prior
    if prior is None:
        return True
    allowed = np.zeros(problem.n, dtype=bool)
    allowed[slice(None) if problem.support is None else problem.support] = True
    kept = all(abs(x[j] - value) <= max(small, 1e-6 * abs(value)) for j, value in problem.fixed.items())
    return kept and not (np.abs(x[~allowed]) > small).any() and problem.admits(x)


def _trusted(problem: Problem) -> float:
    """The error below which signal in noise is a success."""
    return TRUSTED_OF_FEW if _of_few(problem) else TRUSTED


def _of_few(problem: Problem) -> bool:
    """Whether small coordinates may look like noise: no more measurements than unknowns, and no level is given."""
    unknowns = problem.unknowns if problem.support is None else problem.support.size
    return not problem.noise.given and problem.m <= unknowns


def products_affordable(problem: Problem) -> bool:
    """Whether a few arrays of the products of x, (m, n), fit in the memory."""
    return 8 * _PRODUCTS * problem.m * problem.n <= problem.memory


def exact_enough(problem: Problem, residual: float) -> bool:
    """Whether a residual is as small as the precision of A allows."""
    return residual < max(EXACT_RESIDUAL, _rounding(problem))


def _rounding(problem: Problem) -> float:
    """The relative residual that the rounding of A's entries explains."""
    # Rounding leaves about eps/5; allow eight eps. For 16-bit entries that would be nearly a percent, which may be
    # noise: allow half an eps.
    return (0.5 if problem.dtype == np.float16 else 8.0) * _eps(problem.dtype)


@cache
def _eps(dtype: np.dtype) -> float:
    """The relative rounding of numbers of a type; NumPy takes as long to tell as for a small sum."""
    return float(np.finfo(dtype).eps)


def _explained(problem: Problem, free: int) -> float:
    """The relative residual that the rounding of A, or the given noise, explains.

    ‖noise‖² is σ² χ²_m: three standard deviations above its mean. Free coordinates take a part of it away; few of
    them, found by shrinkage, take less than their number.
    """
    d = problem.m if 2 * free <= problem.m else problem.m - free
    if not problem.noise.given or d <= 0:
        return _rounding(problem)
    level = problem.sigma / float(np.linalg.norm(problem.y))
    return max(_rounding(problem), level * math.sqrt(d + 3 * math.sqrt(2 * d)))
