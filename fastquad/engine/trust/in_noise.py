"""The verdict on signal in noise: is it the only one that the data allow, and how well is it known?

What a method hands over is x, its error and what it has seen of A. If entries are independent and the method estimates
its error, it has a posterior: the odds against another signal are part of its claim, unless what it takes for noise is
signal. Elsewhere least squares gives the error, and the tests of the certificate look for other signals.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.rounding import exact_enough, explained, small
from fastquad.engine.steps import Outcome, Verdict
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.by_verbs import TOO_MUCH, doubt_by_verbs
from fastquad.engine.trust.doubt import Doubt, Missed, doubt_in_noise, missed
from fastquad.engine.trust.sound import of_rows, sound
from fastquad.engine.trust.structured import other_values_fit
from fastquad.measurements.contractions import Products
from fastquad.numerics.small import with_small_ones
from fastquad.priors.base import Prior
from fastquad.status import Status
from fastquad.typing import Asks, Float

_NOT_MOST = "But half of the measurements or more contradict x: they may be those of another signal."
_TWO = (
    "The data look like those of x and another signal, with {share:.2g} of the power of x: x may be a mixture, unless "
    "a few measurements are wrong."
)
_NOT_AS_TOLD = "A signal that violates `prior` fits far better: check the prior."


def judge_in_noise(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict, less certain by another signal that is measured with x."""
    if problem.prior is None or problem.prior.kind == "sparse":
        return with_second((yield from _alone(problem, outcome)))
    if not problem.prior.decoded:
        return (yield from _by_prior(problem, outcome, problem.prior))
    # Without an error nothing says how far off it is.
    return Verdict(Status.STAGNATED if outcome.error is None else Status.CONVERGED, outcome)


def with_second(verdict: Verdict) -> Verdict:
    """The verdict, less certain by another signal that is measured with x: the axis that is found is not x."""
    status, outcome = verdict
    if not outcome.second or outcome.error is None or status not in (Status.CONVERGED, Status.NOISY):
        return verdict
    error = math.hypot(outcome.error, math.sqrt(outcome.second) / 2)
    sure = status is Status.CONVERGED and error < tol.TRUSTED_OF_FEW  # else the other may be the stronger one
    outcome = outcome.noted(_TWO.format(share=outcome.second), error=error)
    return Verdict(Status.CONVERGED if sure else Status.NOISY, outcome)


def _by_prior(problem: Problem, outcome: Outcome, prior: Prior) -> Asks[Verdict]:
    """The verdict on signal in noise where the method has its estimate by a prior that is not sparsity alone."""
    if prior.alphabet is not None and (yield from other_values_fit(problem, outcome.x)):
        return _contradicted(outcome)
    look = yield from missed(problem, outcome.x)
    if look.better is not None:
        return (yield from _improved(problem, outcome, look.better))
    # Without an error it leaves no more than noise does, but nothing says how far off it is.
    if look.misfit or outcome.error is None:
        return Verdict(Status.STAGNATED, outcome.noted(look.misfit))
    return with_second(_by_error(problem, replace(outcome, second=look.second), outcome.error, 0.0, _trusted(problem)))


def _alone(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict if no other signal is measured with x."""
    if problem.outliers and outcome.error is not None and not problem.bilinear:
        return (yield from _among_outliers(problem, outcome, outcome.error))
    free = int(np.count_nonzero(outcome.x)) if outcome.free is None else outcome.free
    if problem.noise.given and not problem.noise.unequal and outcome.residual > explained(problem, free):
        return Verdict(Status.STAGNATED, outcome.noted(TOO_MUCH))
    looked = outcome.residual > tol.NOTHING and not problem.matrix_free
    look = (yield from missed(problem, outcome.x, outcome.entries)) if looked else Missed()
    outcome = replace(outcome, second=max(outcome.second, look.second))
    if look.better is not None:
        return (yield from _improved(problem, outcome, look.better))
    if look.misfit:
        return Verdict(Status.STAGNATED, outcome.noted(look.misfit))
    if getattr(problem.prior, "nonnegative", False) and (yield from other_values_fit(problem, outcome.x, below=True)):
        return _contradicted(outcome)
    if outcome.error is not None and outcome.entries is not None and outcome.entries.independent:
        if look.unseen:
            return _doubted(outcome, look.unseen, look.rival)
        return (yield from _believed(problem, outcome, outcome.error, _trusted(problem)))
    return (yield from _by_least_squares(problem, outcome))


def _by_least_squares(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict where A has a structure, or the method no error of its own."""
    found = yield from _doubt(problem, outcome)
    if found.deeper is not None and (yield from _fits(problem, found.deeper)):
        return (yield from _improved(problem, outcome, found.deeper))
    if problem.noise.unequal and outcome.stderr is not None and outcome.error is not None:
        # Keep the errors of a method that weighed the measurements: one level for all would ignore the best of them.
        error = outcome.error
    else:
        stderr = found.stderr if outcome.stderr is None else np.maximum(outcome.stderr, found.stderr)
        error, note = found.widened(max(outcome.error or 0.0, found.error))
        if outcome.error is None and _of_few(problem):
            error = with_small_ones(error, outcome.x, stderr, problem.m)
        outcome = outcome.noted(note, stderr=stderr)
    outcome = replace(outcome, error=error)
    if found.reason:
        return _doubted(outcome, found.reason, found.rival)
    trusted = _trusted(problem) if problem.noise.given else tol.TRUSTED_STRUCTURED
    return _by_error(problem, outcome, error, max(error, found.bound), trusted)


def _doubt(problem: Problem, outcome: Outcome) -> Asks[Doubt]:
    """The tests of the certificate, by what A is known by."""
    level = outcome.noise if outcome.noise is not None else problem.sigma
    if problem.matrix_free or (problem.by_transform and not small(problem)):
        return (yield from doubt_by_verbs(problem, outcome, level))
    by_level = outcome.method == "lm" and problem.noise.given
    weighed = (outcome.method == "vamp" or by_level) and outcome.stderr is not None
    return (yield from doubt_in_noise(problem, outcome.x, level, outcome.error, outcome.entries, weighed))


def _among_outliers(problem: Problem, outcome: Outcome, error: float) -> Asks[Verdict]:
    """The verdict on signal in noise beside outliers: the sound measurements must be most of them, and suffice."""
    rows = np.delete(np.arange(problem.m), () if outcome.outliers is None else outcome.outliers)
    if 2 * rows.size <= problem.m:
        return _doubted(outcome, _NOT_MOST, None)
    part, entries = sound(problem, outcome.entries, rows)
    look = yield from of_rows(missed(part, outcome.x), rows, problem.m)
    if look.better is not None or look.misfit:
        return Verdict(Status.STAGNATED, outcome.noted(look.misfit))
    if look.unseen:
        return _doubted(outcome, look.unseen, look.rival)
    # With outliers allowed for, signal may be taken for them, and what is left for noise.
    tests = _believed(part, replace(outcome, entries=entries), error, tol.TRUSTED_OF_FEW)
    return (yield from of_rows(tests, rows, problem.m))


def _believed(problem: Problem, outcome: Outcome, error: float, trusted: float) -> Asks[Verdict]:
    """The verdict on signal in noise, from a method that separates the two by itself, for errors below `trusted`."""
    found = yield from doubt_in_noise(problem, outcome.x, outcome.noise, error, outcome.entries, weighed=True)
    if found.deeper is not None and (yield from _fits(problem, found.deeper)):
        return (yield from _improved(problem, outcome, found.deeper))
    if found.reason:
        return _doubted(replace(outcome, error=max(error, found.error)), found.reason, found.rival)
    bound = 0.0
    if found.error > tol.UNEQUALLY_SEEN * error:
        bound, error = found.bound, found.error
        outcome = outcome.noted(
            f"But some directions of x are fixed less well than others: its error is about {error:.2g}."
        )
    error, note = found.widened(error)
    return _by_error(problem, outcome.noted(note), error, bound, trusted)


def _doubted(outcome: Outcome, reason: str, rival: Float | None) -> Verdict:
    """The verdict on signal in noise with a reason against it: another signal, or only what is not ruled out."""
    outcome = outcome.noted(reason, rival=rival)
    if rival is not None:
        return Verdict(Status.AMBIGUOUS, outcome)
    far = outcome.error is not None and outcome.error >= tol.CLEARLY_ANOTHER
    return Verdict(Status.NOISY if far else Status.UNDECIDED, outcome)


def _contradicted(outcome: Outcome) -> Verdict:
    """The verdict where a signal that is not as the prior says fits far better."""
    return Verdict(Status.STAGNATED, replace(outcome, error=None, stderr=None, note=_NOT_AS_TOLD))


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
        outcome = outcome.noted(note)
    sure = error < trusted and bound < tol.CLEARLY_ANOTHER
    return Verdict(Status.CONVERGED if sure else Status.NOISY, replace(outcome, error=error))


def _improved(problem: Problem, outcome: Outcome, better: Float) -> Asks[Verdict]:
    """The verdict if what was taken for noise is signal: on the signal which explains it, which may fit to rounding."""
    if not _as_told(problem, better):
        return _contradicted(outcome)
    r = (yield Products(better)) @ better - problem.y
    residual = float(np.linalg.norm(r) / np.linalg.norm(problem.y))
    found = replace(outcome, x=better, residual=residual, noise=None, stderr=None, error=None, second=0.0, note="")
    return Verdict(Status.STAGNATED, replace(found, known=None))


def _fits(problem: Problem, x: Float) -> Asks[bool]:
    """Whether a signal fits to rounding."""
    r = (yield Products(x)) @ x - problem.y
    return exact_enough(problem, float(np.linalg.norm(r) / np.linalg.norm(problem.y)))


def _as_told(problem: Problem, x: Float) -> bool:
    """Whether a signal is as the user says, up to sign and to the accuracy of a few steps."""
    least, prior = 1e-6 * float(np.abs(x).max(initial=0.0)), problem.prior
    if prior is None:
        return True
    allowed = np.zeros(problem.n, dtype=bool)
    allowed[slice(None) if problem.support is None else problem.support] = True
    kept = all(abs(x[j] - value) <= max(least, 1e-6 * abs(value)) for j, value in problem.fixed.items())
    return kept and not (np.abs(x[~allowed]) > least).any() and problem.admits(x)


def _trusted(problem: Problem) -> float:
    """The error below which signal in noise is a success."""
    return tol.TRUSTED_OF_FEW if _of_few(problem) else tol.TRUSTED


def _of_few(problem: Problem) -> bool:
    """Whether small coordinates may look like noise: no more measurements than unknowns, and no level is given."""
    unknowns = problem.unknowns if problem.support is None else problem.support.size
    return not problem.noise.given and problem.m <= unknowns
