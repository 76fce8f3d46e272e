"""The doubt about an answer in noise: do the data distinguish x from clearly different signals, and how far off is it?

The questions are those of `fastquad.engine.trust.certificate`, in units of the noise. And a look at all coordinates
asks whether what x leaves is noise at all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.certificate import SOURCES
from fastquad.engine.trust.evidence import evidence_of
from fastquad.engine.trust.local import noisy_measure
from fastquad.engine.trust.search import Search, gain
from fastquad.measurements.contractions import Cells, Diagonals
from fastquad.measurements.dense.kept import Kept
from fastquad.numerics.levenberg_marquardt import by_products
from fastquad.numerics.small import student
from fastquad.typing import Asks, Float


class Doubt(NamedTuple):
    """The doubt about an answer in noise: why another one may be right (empty if nothing suggests it), the relative
    error caused by the noise and its upper 95 %, the standard errors of x, (n,), the largest coordinate, as a share of
    x, that may be hidden in the noise because nothing in x is coupled to it, the distance of another signal that fits
    as well but is not clearly another, one that is, which the reason speaks of, and one beside x that is likelier than
    noise could make it."""

    reason: str
    error: float
    stderr: Float
    bound: float = 0.0
    hidden: float = 0.0
    blur: float = 0.0
    rival: Float | None = None
    deeper: Float | None = None

    def widened(self, error: float) -> tuple[float, str]:
        """An error with what the noise may hide, and a sentence if that is what matters."""
        if self.blur > max(error, self.hidden):
            return self.blur, f"Another signal, {self.blur:.2g} away, fits as well: the error allows for it."
        if self.hidden > error:
            note = (
                f"The noise may hide a coordinate of {self.hidden:.2g} times the norm of x, which nothing couples to x."
            )
            return self.hidden, note
        return error, ""


def doubt_in_noise(
    problem: Problem,
    x: Float,
    level: float | None,
    expected: float | None,
    entries: Entries | None = None,
    weighed: bool = False,
) -> Asks[Doubt]:
    """Whether noisy data distinguish x from clearly different signals, and how well they determine it.

    `level` is the standard deviation of the noise, if it is known; else the residual gives it. `expected` is the
    relative error of x that the method expects: signals within a few times that cannot be distinguished, which is no
    doubt but the error. If the method has `weighed` the measurements, with its own standard errors, a few large
    measurements are no reason for doubt.
    """
    answer = yield from Answer.read(problem, x, None)
    m = problem.m
    sigma = max(float(np.linalg.norm(answer.r)) / math.sqrt(max(1, m - answer.unknowns)), level or 0.0)
    diagonals = yield Diagonals()
    entries = entries or (yield from sample_entries(problem))
    away = max(tol.APART_IN_NOISE, tol.FEW_ERRORS * (expected or 0.0))
    # Where entries are not independent, nothing but these tests speaks for x: one that is clearly another counts.
    away = away if entries.independent else min(away, tol.CLEARLY_ANOTHER)
    delta = np.full(m, max(sigma, 1e-300))
    if weighed and problem.noise.unequal:
        delta = problem.deviations(answer.r)
    case = Search(answer, diagonals, delta, noisy_measure(away), entries)
    errors, reason = case.errors()
    if not weighed and not problem.noise.given and case.few_count():
        errors = np.maximum(errors, case.robust_errors())
    size, errors_of = (answer.gauge.norms(each, answer.S) for each in (answer.z, errors))
    case.sure = size > tol.SURE_ERRORS * errors_of
    stderr = np.zeros(problem.n)
    stderr[answer.S] = errors
    # Ignore coordinates that are hardly seen in the norm of x: they may be noise.
    sure = float(np.linalg.norm(answer.z[case.sure]))
    norm = case.norm if sure > tol.CLEARLY_ANOTHER * case.norm else max(sure, 1e-3 * case.norm)
    freedom = math.inf if problem.noise.given else max(1, m - answer.unknowns)
    error = float(np.linalg.norm(errors)) / norm * student(case.degrees, freedom)
    nearer = max(tol.TWIN_APART, tol.FEW_ERRORS / 2 * max(expected or 0.0, error))
    if answer.settled(sigma):
        case.errors_of_x = tol.FEW_ERRORS * max(expected or 0.0, error)
    case.measure = case.measure._replace(nearer=min(nearer, away))
    if not reason:
        reason = case.unseen() or case.span()[1]
        reason = reason or (yield from case.rivals(SOURCES))
        if not reason and answer.outside.size:
            small = tol.SURE_ERRORS * float(errors.max(initial=0.0))
            from fastquad.engine.trust.flat import another_on_flat

            reason, case.twin = yield from another_on_flat(problem, x, small=small)
    if not reason:
        # Trust a method that estimates its error to separate signal from noise, if entries are independent as it
        # assumes.
        reason = yield from case.challenged(expected is not None and entries.independent)
    if reason:
        yield from case.witness()
    if case.twin is not None and (yield from gain(answer, case.twin)) > tol.SURE:
        case.deeper = case.twin
    return Doubt(reason, error, stderr, error * case.uncertainty, case.hidden(), case.blur, case.twin, case.deeper)


class Missed(NamedTuple):
    """What a look at all coordinates shows: a signal that fits far better than x, or why what x leaves is no noise, or
    which directions of x the measurements do not see, the last two as sentences; the power of another signal that is
    measured with x, as a share; and another signal along a direction that is not seen."""

    better: Float | None = None
    misfit: str = ""
    unseen: str = ""
    second: float = 0.0
    rival: Float | None = None


def missed(problem: Problem, x: Float, entries: Entries | None = None) -> Asks[Missed]:
    """Look at all coordinates: where x leaves only noise, a descent from x on all of them finds no far better fit.

    For methods that separate signal from noise by themselves, if A is random as they assume: a symmetry in another
    basis does not show in a sample of entries, and an estimate between two twins leaves a part of both in the residual.
    """
    from fastquad.engine.trust.residual import fits_most, no_noise, second_signal

    m, n = problem.m, problem.n
    most = tol.LOOK_ENTRIES if entries is None or entries.independent else tol.STRUCTURED_ENTRIES
    if m * n * n > (most if problem.unknowns < m else tol.INDEPENDENT_ENTRIES) or problem.outliers:
        return Missed()
    everything = np.arange(n)
    A = Kept.of(m, everything, (yield Cells(everything, n)))
    W = A.tensor._apply(x, 1)
    answer = Answer(problem, x, W, W @ x - problem.y)
    if problem.unknowns < m:
        better = _better(answer, A)
        if better is not None:
            return Missed(better)
    misfit = no_noise(A, answer)
    if not misfit and m * n * n <= tol.INDEPENDENT_ENTRIES and not problem.fixed:
        misfit = fits_most(problem.y, x, A.block(everything), problem.unknowns, turning=problem.turning)
    second = 0.0
    if not (problem.fixed or problem.bilinear or problem.rank_two):
        second = second_signal(problem.y, x, A, answer.r, turning=problem.turning)
    if problem.unknowns >= m or misfit or problem.support is not None or problem.fixed:
        return Missed(misfit=misfit, second=second)
    delta = np.full(m, max(float(np.linalg.norm(answer.r)) / math.sqrt(m), 1e-300))
    case = Search(answer, (yield Diagonals()), delta, noisy_measure(), None)
    unseen = case.errors()[1]
    if unseen:
        yield from case.witness()
    return Missed(unseen=unseen, second=second, rival=case.twin)


def _better(answer: Answer, A: Kept) -> Float | None:
    """A signal on all coordinates that is far likelier than x, to which a descent from x leads; None if there is none.

    Release the values that the user fixed, to test them, but keep those that belong to A.
    """
    from scipy.special import fdtrc

    problem = answer.problem
    told = getattr(problem.prior, "fixed", None) or {}
    free = np.array([j for j in range(problem.n) if j not in problem.fixed or j in told], dtype=np.intp)
    some = free if free.size < problem.n else None
    descent = by_products(
        problem.y, answer.x, lambda d: A.tensor._apply(d, 1), tol.CHALLENGE, free=some, turning=problem.turning
    )
    if problem.prior is not None and problem.prior.alphabet is not None:
        # Of a signal of given values nothing was fitted: all coordinates together must not leave less than of noise.
        gone, spare = max(float(answer.r @ answer.r) - descent.square, 0.0), problem.m - free.size
        chance = fdtrc(free.size, spare, gone / free.size / max(descent.square / spare, 1e-300))
        return descent.z if chance < tol.ALPHA else None
    # All coordinates together leave less in any case: the other signal must be the likelier one for all its freedom.
    likelier = evidence_of(problem, descent.z, descent.W, descent.r, free) > answer.evidence + tol.SURE
    return descent.z if likelier else None
