"""The doubt about an answer in noise: do the data distinguish x from clearly different signals, and how far off is it?

The questions are those of `fastquad.engine.trust.certificate`, in units of the noise. And a look at all coordinates
asks whether what x leaves is noise at all.

A fit in a wrong valley may leave what looks like noise. If a dozen descents come back to x, it is the valley; else many
more are made, as long as they are cheap, because the right one may attract only one start in fifty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.certificate import SOURCES
from fastquad.engine.trust.evidence import against_chance, evidence_of, likelihood_of
from fastquad.engine.trust.gauge import expand
from fastquad.engine.trust.local import noisy_measure
from fastquad.engine.trust.search import Search, odds, to_refute
from fastquad.measurements.contractions import Block, Cells, Diagonals
from fastquad.measurements.dense.kept import Kept
from fastquad.numerics.levenberg_marquardt import Descent, by_products, on_block
from fastquad.numerics.small import student
from fastquad.typing import Asks, Float, Indices

_NOT_AGAIN = "Searches from other starts do not return to x, so it may be one of several solutions."
_FEW_TO_SPARE = (
    "There are hardly more measurements than unknowns, so a signal with other signs may fit as well by chance."
)


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
        reason = case.unseen() or case.span()
        reason = reason or (yield from case.rivals(SOURCES))
        if not reason and answer.outside.size:
            small = tol.SURE_ERRORS * float(errors.max(initial=0.0))
            from fastquad.engine.trust.flat import another_on_flat

            reason, case.twin = yield from another_on_flat(problem, x, small=small)
    if not reason:
        # Trust a method that estimates its error to separate signal from noise, if entries are independent as it
        # assumes.
        reason = yield from _challenged(case, expected is not None and entries.independent)
    if reason:
        yield from case.witness()
    if case.twin is not None and (yield from odds(answer, case.twin)) > tol.SURE:
        case.deeper = case.twin
    return Doubt(reason, error, stderr, error * case.uncertainty, case.hidden(), case.blur, case.twin, case.deeper)


# -- is x in the right valley? ----------------------------------------------------------------------------------------


def _challenged(case: Search, independent: bool) -> Asks[str]:
    """Why x may be in the wrong valley; empty if random starts come back to it, and find nothing that fits as well.

    For `independent` entries the method separates signal from noise; elsewhere a fit in the wrong valley may leave
    what looks like noise, and the only evidence for x is that random starts find it again.
    """
    answer, problem, m = case.answer, case.problem, case.m
    nats, by_chance = against_chance(problem, answer.s, problem.sigma or float(np.median(case.delta)))
    if independent and nats < by_chance + tol.SPARE_NATS:
        return _FEW_TO_SPARE
    count = None
    if independent and nats > tol.BEYOND_CHANCE * (by_chance + tol.SPARE_NATS):
        # Chance does not explain x, only a planted twin could: it is looked for as that of an exact answer.
        count = to_refute(m, answer.allowed.size, answer.s, independent=True)
        if count == 0:
            return ""
    most = tol.INDEPENDENT_ENTRIES if independent else tol.STRUCTURED_ENTRIES
    # Unless a prior has shrunk it, x is where the descent on its support ends.
    near, better = (case.measure.apart, tol.APART_IN_NOISE) if independent else (0.1, case.measure.nearer)
    evident, blur = math.inf, 0.0
    spare = m > answer.allowed.size - case.gauge.count
    # On S descents come back to x more easily: that they do says something only if S is much smaller (a guess).
    few = answer.S if 2 * answer.s <= answer.allowed.size or not spare else answer.allowed
    for where in (answer.allowed, few) if spare else (few,):
        everything = np.union1d(where, problem.known)
        if m * everything.size**2 > most or where.size - case.gauge.count >= m:
            return ""
        block = yield Block(everything)
        evident = math.inf if independent else _evident(case, block)
        tries = starts(block.size) if count is None else count
        ends = case.descents(block, everything, where, tries, weak=count is None)
        doubt, beside = _met(case, _gains(case, ends, block, everything, where), near, better)
        if doubt:
            case.deeper = None
            return doubt
        blur = max(blur, beside)
        if case.back >= tol.RECAPTURES:
            break
    if not independent or case.deeper is not None:
        case.blur = max(case.blur, blur)
    if case.back >= tol.SEVERAL:
        return ""  # a dozen descents came back to x, and the other valleys that they met are not as likely
    if evident < 1.0:
        return _FEW_TO_SPARE
    # Count a residual at the given level of noise as evidence for x, too; chance does not explain x if it is clear.
    sure = evident > tol.BEYOND_CHANCE or problem.noise.given or case.back >= tol.RECAPTURES
    return "" if sure else _NOT_AGAIN


def _met(case: Search, ends: Iterable[tuple[float, Float]], near: float, better: float) -> tuple[str, float]:
    """Why one of these ends of descents may be right in place of x; else how far those are that are as likely.

    With each comes the evidence for it less that for x. Up to `near` one has come back to x; from `better` on a
    far likelier signal counts, and nearer ones if noise could not make them likelier: beyond the error of x they
    are another bottom of its valley.
    """
    blur, beyond_noise = 0.0, tol.SPARE_BITS * math.log(2)
    for gain, found in ends:
        far = case.away(found)
        if gain > -tol.SURE and case.rival(found):
            return case.shown(), blur
        if gain > tol.SURE and far > (better if gain < beyond_noise else case.measure.nearer):
            case.twin = found
            return f"Another signal, {far:.2g} away, is far likelier.", blur
        if gain > -tol.SURE:
            blur = max(blur, far)
        if gain > beyond_noise and far > case.errors_of_x:
            case.deeper = found
        case.back += far <= near
        if case.back >= tol.SEVERAL:
            break
    return "", blur


def _gains(
    case: Search, ends: Iterable[Descent], block: Float, everything: Indices, where: Indices
) -> Iterator[tuple[float, Float]]:
    """The evidence for the end of each descent less that for x, and the end; `where` was fitted.

    Of an end on all coordinates those that are no more than their errors are zero: twins are as sparse as x.
    """
    for descent in ends:
        gained = _gained(case, descent, everything, where)
        kept = np.flatnonzero(np.abs(descent.z) > tol.FEW_ERRORS * case.errors_of(descent.W))
        if case.answer.s < where.size and case.gauge.width == 1 and 0 < kept.size < where.size:
            start = np.zeros_like(descent.z)
            start[kept] = descent.z[kept]
            fewer = on_block(case.problem.y, start, block, tol.CHALLENGE, free=kept)
            gained = max(gained, _gained(case, fewer, everything, everything[kept]), key=lambda pair: pair[0])
        yield gained


def _gained(case: Search, descent: Descent, everything: Indices, where: Indices) -> tuple[float, Float]:
    """The evidence for the end of a descent less that for x, and the end.

    A signal with no more free numbers than x that fits as well is as likely: the rest of the evidence weighs how
    large each is and how clearly seen, of which nothing was told. Two signals with the same measurements leave
    different parts of their noise: the logarithms of their likelihoods differ by √(f(1 − f/m)), the deviation of a
    difference of two projections of it on f of m dimensions.
    """
    found = expand(descent.z, everything, case.problem.n)
    W = np.zeros((case.m, case.problem.n))
    W[:, everything] = descent.W
    gain = evidence_of(case.problem, found, W, descent.r, where) - case.answer.evidence
    f = where.size
    if f <= case.answer.s:
        fit = likelihood_of(case.problem, descent.r, f) - likelihood_of(case.problem, case.answer.r, f)
        gain = max(gain, min(0.0, fit + tol.FEW_ERRORS * math.sqrt(f * (1 - f / case.m))))
    return gain, found


def _evident(case: Search, block: Float) -> float:
    """How clearly x leaves no more than noise, as a multiple of what chance explains, where the matrices depend on each
    other.

    A random signal of the norm of x has measurements of about `√2 ‖x‖² ‖Ã_i‖/n`, in units of the noise; their
    principal components replace the equations. The s largest are what x was fitted to. If the level is not given,
    it is what x leaves: a wrong x that is near the right one leaves a part of each component, which is no noise.
    """
    flat = block.reshape(len(block), -1) * (math.sqrt(2) * case.norm**2 / block.shape[1] / case.delta[:, None])
    values = np.linalg.eigvalsh(flat @ flat.T if len(flat) < flat.shape[1] else flat.T @ flat)
    spare = np.sort(values)[::-1][case.answer.unknowns :]
    least = 1.0 if case.problem.noise.given else tol.CLEARLY_ANOTHER**-2
    signs = 0.0 if case.problem.fixed else case.answer.s / case.gauge.width * math.log(2)
    return 0.5 * float(np.log(np.maximum(spare / least, 1.0)).sum()) / (signs + tol.SPARE_NATS)


def starts(entries: int) -> int:
    """How many random starts to take in noise on a block of this many entries."""
    return int(min(max(tol.READ_IN_A_STEP // max(entries, 1), tol.STARTS[0]), tol.STARTS[1]))


# -- is what is left noise? --------------------------------------------------------------------------------------------


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
