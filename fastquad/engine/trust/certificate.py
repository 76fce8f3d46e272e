"""The certificate of an exact answer: that no other signal, up to sign, has the same measurements.

`certify` takes an x that fits to rounding. It first removes the coordinates that are only rounding, so that its x has
true zeros. Then it tries to find another signal that fits as well, with what is known of A at little cost. With `W[i] =
Ã_i x`, the support S of x with s coordinates, and δ_i the tolerance of equation i (its residual, and at least its
rounding), the answer is doubted

    jacobian      if a direction on S changes the measurements by less than δ: its columns 2W_S/δ must have full rank
    unseen        if the value of a coordinate outside of S changes nothing
    span          if the measurements amount to no more independent equations than there are unknowns
    line          if x + tv fits for every t, where measurements are more than unknowns and should rule it out
    exchange      if a coordinate outside of S can take over from those in S
    symmetry      if a linear map Q with Q^T A_i Q = A_i on S gives a twin Qx: blocks whose signs are free, a common
                  eigenbasis, an invariant subspace
    relabelling   if a signed relabelling of the coordinates leaves the A_i as they are: mirrors, shifts, exchanges; or
                  if opposite values cancel at two coordinates outside of S, which are measured alike
    subsystem     if some coordinates are seen by no more measurements than they are: those have other values as well
    flat          if no matrix sees a change of x that makes another signal as sparse
    chance        if the measurements take so few values that another signal may fit by chance
    refutation    if a descent from another start ends at another signal, where such descents are quick

A continuous family of signals shows in the first test, finite ones in the others. Each test has a cheap form that
proves independence where it is clear, as for random entries; the exact form is used only if that proves nothing.

Under noise (`doubt_in_noise`) δ is the noise, and the same tests ask whether the data distinguish x from clearly
different signals: a tenth of its norm away, and three times the error that the method expects.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries, few_valued, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust.answer import Answer, Known
from fastquad.engine.trust.challenge import CHALLENGE, CHALLENGE_ENTRIES, CHALLENGE_INDEPENDENT, starts
from fastquad.engine.trust.evidence import SURE, evidence_of
from fastquad.engine.trust.flat import another_on_flat
from fastquad.engine.trust.majority import fits_most
from fastquad.engine.trust.rivals import NAMED, Measure, along_free, expand, names
from fastquad.engine.trust.twins import Twins
from fastquad.engine.trust.two_signals import second_signal
from fastquad.engine.trust.valleys import challenged, refuted, searched_everywhere
from fastquad.measurements.contractions import Block, Diagonals, FirstProducts, Products
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import singular_values_exceed
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.solution import Status
from fastquad.typing import Asks, Float, Indices

__all__ = ["Certificate", "Known", "Missed", "certify", "doubt_in_noise", "doubt_zero", "missed"]

# When a look at all coordinates ends: where what they leave hardly falls, as from an x that leaves only noise.
_LOOK = CHALLENGE._replace(bottom=0.05)
# The largest number of measurements whose dependence is looked for: all are compared with all.
_MOST_COMPARED = 4000
# Without noise, another signal is at least so far away, and so many times what rounding leaves open of a coordinate; at
# most so far.
_APART, _TIMES_ROUNDING, _MOST_APART = 1e-3, 10.0, 0.1
# The chance below which given values do not explain y: of 2,000 right ones two at most are refused.
_REFUTED = 1e-3
# The chance below which what is left of y is not noise alone.
_BY_CHANCE = 1e-6
# Under noise, the coordinates that are this many standard errors from zero must have this share of the norm of x.
_SIGNIFICANT, _LEAST_SIGNIFICANT = 5.0, 0.5
# The number of measurements, beyond those on the support, whose rows tell zero coordinates from the others.
_SPARE_ROWS = 4
# Under noise, another signal is as many times the expected error away; at most so far, relative to x.
_ERRORS_APART, _CLEARLY_ANOTHER = 3.0, 0.5
# Under noise, the twin by a symmetry of A is at least so far away.
_TWIN_APART = 0.01
# Under noise, a symmetry must hold on the coordinates that are this many standard errors from zero.
_SURE = 5.0


class Certificate(NamedTuple):
    """What is proven about an answer.

    `x` is the answer without the coordinates that are only rounding, `status` EXACT, UNDECIDED, AMBIGUOUS or
    UNDETERMINED, `doubt` the reason against it, `error` the relative error caused by rounding, if it is more than that
    of doubles, and `twin` another signal that fits as well: AMBIGUOUS is not said without one.
    """

    x: Float
    residual: float
    status: Status
    doubt: str = ""
    error: float = 0.0
    twin: Float | None = None


class Doubt(NamedTuple):
    """The doubt about an answer in noise: why another one may be right (empty if nothing suggests it), the relative
    error caused by the noise and its upper 95 %, the standard errors of x, (n,), the largest coordinate, as a share of
    x, that may be hidden in the noise because nothing in x is coupled to it, the distance of another signal that fits
    as well but is not clearly another, and one that is, which the reason speaks of."""

    reason: str
    error: float
    stderr: Float
    bound: float = 0.0
    hidden: float = 0.0
    blur: float = 0.0
    rival: Float | None = None

    def widened(self, error: float) -> tuple[float, str]:
        """An error with what the noise may hide, and a sentence if that is what matters."""
        if self.blur > max(error, self.hidden):
            return self.blur, f"Another signal, {self.blur:.2g} away, fits as well: the error allows for it."
        if self.hidden > error:
            note = f"A coordinate of up to {self.hidden:.2g} of x may be hidden: nothing in x is coupled to it."
            return self.hidden, note
        return error, ""


def certify(
    problem: Problem, x: Float, known: Known | None = None, entries: Entries | None = None
) -> Asks[Certificate]:
    """Clean an x that fits to rounding, and look for another signal that fits as well."""
    if searched_everywhere(problem, entries):
        # All of it will be needed: with it no part is read twice.
        block, known = (yield Block(np.arange(problem.n))), known or Known()
        if known.W is None:
            W = block @ x
            known = Known(W, W @ x - problem.y)
        known = known._replace(members=np.arange(problem.n), block=block)
    answer = yield from Answer.read(problem, x, known)
    yield from answer.clean()
    x, residual = answer.x, answer.residual
    if answer.s > problem.m:
        return Certificate(x, residual, Status.UNDETERMINED, twin=(yield from along_free(problem, x)))
    if problem.n == 1 and problem.m > 1:  # one nonzero measurement determines |x|
        return Certificate(x, residual, Status.EXACT)
    diagonals = yield Diagonals()
    delta = answer.rounding(diagonals)
    apart = _apart(answer, delta)
    measure = Measure(apart, apart, 30.0, math.sqrt(problem.m) / apart, noisy=False)
    tests = Twins(answer, diagonals, delta, measure, entries)
    if answer.outside.size and not (yield from _shown_by_few(tests)):
        yield from answer.complete()
    doubt = tests.jacobian() or tests.unseen()
    if doubt:
        yield from tests.witness()
        return Certificate(x, residual, _status(tests), doubt, twin=tests.twin)
    status, doubt = tests.span()
    if status is Status.EXACT:
        doubt = yield from tests.rivals()
        if not doubt and answer.outside.size and (problem.m <= answer.allowed.size or _open(tests)):
            doubt, tests.twin = yield from another_on_flat(problem, x)
        if tests.twin is None:
            doubt = (yield from refuted(tests)) or doubt
        doubt = doubt or (yield from tests.chance())
    if status is Status.EXACT and doubt:
        status = _status(tests)
    error = tests.error() if residual > 1e-12 else 0.0
    return Certificate(x, residual, status, doubt, error, tests.twin)


def _apart(answer: Answer, delta: Float) -> float:
    """How far another signal is at least: farther than what the rounding of A leaves open of any one coordinate."""
    sizes = np.sqrt(np.einsum("ij,ij->j", answer.columns, answer.columns))
    seen = 2 * float(np.linalg.norm(answer.z)) * float(np.median(sizes)) if answer.s else 0.0
    open_to = math.sqrt(float(delta @ delta)) / max(seen, 1e-300)
    return min(max(_APART, _TIMES_ROUNDING * open_to), _MOST_APART)


def _status(tests: Twins) -> Status:
    """What a doubt is worth: a signal that fits as well shows it, or it is only what is not ruled out."""
    return Status.UNDECIDED if tests.twin is None else Status.AMBIGUOUS


def _open(tests: Twins) -> bool:
    """Whether some direction is not seen although there are more measurements than unknowns."""
    return tests.overdetermined and not tests.seen_everywhere


def _shown_by_few(tests: Twins) -> Asks[bool]:
    """Whether the first few measurements show that no zero coordinate can be another one's, or have any value.

    What tells signals apart in a few measurements does so in all of them. So where W has been read on the support
    alone, its rows for a few measurements replace those for all.
    """
    answer, problem = tests.answer, tests.problem
    few = answer.s + _SPARE_ROWS
    if answer.whole or few >= problem.m:
        return False
    shown = tests.on_first(answer.x, (yield FirstProducts(answer.x, few)))
    if shown.jacobian() or shown.unseen() or shown.spanned().size:
        return False
    if problem.m > answer.allowed.size:
        # A vector that is measured neither alone nor with x is not measured with the largest part of x, either.
        z, largest = np.zeros(problem.n), _largest(answer.x)
        z[largest] = answer.x[largest]
        if not tests.sees_all(z, (yield FirstProducts(z, answer.allowed.size + _SPARE_ROWS))):
            return False
    yield from answer.look_at(answer.outside[: answer.s + 2])
    return tests.span()[0] is Status.EXACT


def _largest(x: Float) -> Indices:
    """The two largest coordinates."""
    return np.argsort(-np.abs(x), kind="stable")[:2]


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
    m, s = problem.m, answer.s
    sigma = max(float(np.linalg.norm(answer.r)) / math.sqrt(max(1, m - s)), level or 0.0)
    diagonals = yield Diagonals()
    entries = entries or (yield from sample_entries(problem))
    away = max(0.1, _ERRORS_APART * (expected or 0.0))
    # Where entries are not independent, nothing but these tests speaks for x: one that is clearly another counts.
    away = away if entries.independent else min(away, _CLEARLY_ANOTHER)
    delta = np.full(m, max(sigma, 1e-300))
    if weighed and problem.noise.unequal:
        delta = problem.deviations(answer.r)
    tests = Twins(answer, diagonals, delta, Measure(away, away, 3.0, 10.0, noisy=True), entries)
    errors, reason = tests.errors()
    if not weighed and not problem.noise.given and tests.few_count():
        errors = np.maximum(errors, tests.robust_errors())
    tests.sure = np.abs(answer.z) > _SURE * errors
    stderr = np.zeros(problem.n)
    stderr[answer.S] = errors
    # What noise alone may have put into a coordinate that is hardly seen does not make x large.
    sure = float(np.linalg.norm(answer.z[np.abs(answer.z) > _SIGNIFICANT * errors]))
    norm = tests.norm if sure > _LEAST_SIGNIFICANT * tests.norm else max(sure, 1e-3 * tests.norm)
    error = float(np.linalg.norm(errors)) / norm
    nearer = max(_TWIN_APART, _ERRORS_APART / 2 * max(expected or 0.0, error))
    tests.measure = tests.measure._replace(nearer=min(nearer, away))
    if not reason:
        reason = tests.improvable() or tests.unseen() or tests.span()[1] or (yield from tests.rivals())
        reason = reason or (yield from tests.signs())
        if not reason and answer.outside.size:
            reason, tests.twin = yield from another_on_flat(problem, x, small=_SURE * float(errors.max(initial=0.0)))
    if not reason:
        # Trust a method that estimates its error to separate signal from noise, if entries are independent as it
        # assumes.
        reason = yield from challenged(tests, expected is not None and entries.independent)
    if reason:
        yield from tests.witness()
    return Doubt(reason, error, stderr, error * tests.uncertainty, tests.hidden(), tests.blur, tests.twin)


class Missed(NamedTuple):
    """What a look at all coordinates shows: a signal that fits far better than x, or why what x leaves is no noise, or
    which directions of x the measurements do not see, the last two as sentences; the power of another signal that is
    measured with x, as a share; and another signal along a direction that is not seen."""

    better: Float | None = None
    misfit: str = ""
    unseen: str = ""
    second: float = 0.0
    rival: Float | None = None


def missed(problem: Problem, x: Float) -> Asks[Missed]:
    """Look at all coordinates: where x leaves only noise, a descent from x on all of them finds no far better fit.

    For methods that separate signal from noise by themselves, if A is random as they assume: a symmetry in another
    basis does not show in a sample of entries, and an estimate between two twins leaves a part of both in the residual.
    """
    from scipy.special import fdtrc

    m, n = problem.m, problem.n
    if m * n * n > (CHALLENGE_ENTRIES if n < m else CHALLENGE_INDEPENDENT) or problem.outliers:
        return Missed()
    block = yield Block(np.arange(n))
    answer = Answer(problem, x, block @ x, (block @ x) @ x - problem.y, Known())
    if n >= m or problem.turning:
        # The other tests would find the free phase.
        return Missed(misfit=_no_noise(block, answer) or _for_most(block, answer), second=_second(block, answer))
    # Release the values that the user fixed, to test them, but keep those that belong to A.
    told = getattr(problem.prior, "fixed", None) or {}
    free = np.array([j for j in range(n) if j not in problem.fixed or j in told], dtype=np.intp)
    descent = on_block(problem.y, x, block, _LOOK, free=free if free.size < n else None)
    left = float(np.linalg.norm(answer.r))
    if problem.prior is not None and problem.prior.alphabet is not None:
        # Of a signal of given values nothing was fitted: all coordinates together must not leave less than of noise.
        gone = max(left**2 - descent.square, 0.0)
        refuted_by = fdtrc(free.size, m - free.size, gone / free.size / max(descent.square / (m - free.size), 1e-300))
        if refuted_by < _REFUTED:
            return Missed(descent.z)
    # All coordinates together leave less in any case: the other signal must be the likelier one for all its freedom.
    if evidence_of(problem, descent.z, descent.W, descent.r, free) > answer.evidence + SURE:
        return Missed(descent.z)
    misfit, second = _no_noise(block, answer) or _for_most(block, answer), _second(block, answer)
    if misfit or problem.support is not None or problem.fixed:
        return Missed(misfit=misfit, second=second)
    delta = np.full(m, max(left / math.sqrt(m), 1e-300))
    tests = Twins(answer, np.einsum("ijj->ij", block), delta, Measure(0.1, 0.1, 3.0, 10.0, noisy=True), None)
    unseen = tests.errors()[1]
    if unseen:
        yield from tests.witness()
    return Missed(unseen=unseen, second=second, rival=tests.twin)


def _no_noise(block: Float, answer: Answer) -> str:
    """Whether what is left of y cannot be noise: where the A_i are dependent, noise contradicts that, and r does not.

    `Σ c_i A_i = 0` means `Σ c_i y_i = 0` for data without noise. Such c are the null vectors of the inner products of
    the A_i; noise has as much of its square along each of them as along any other direction that x cannot fit. The
    ratio of the two mean squares has an F distribution; that of a wrong x, which leaves signal as well, is too large.
    """
    from scipy.special import fdtrc

    m = len(block)
    flat = block.reshape(m, -1)
    if m > _MOST_COMPARED or _independent(flat):
        return ""
    sizes = np.sqrt(np.einsum("ij,ij->i", flat, flat))
    unit = flat / np.where(sizes > 0, sizes, 1.0)[:, None]
    values, vectors = np.linalg.eigh(unit @ unit.T)
    null = vectors[:, values < 1e-9 * values[-1]]
    # c for the A_i as they are: an orthonormal basis.
    basis = np.linalg.qr(null / np.where(sizes > 0, sizes, 1.0)[:, None])[0] if null.shape[1] else null
    count = basis.shape[1]
    others = m - count - (answer.s - answer.problem.turning)
    if count == 0 or others <= 0:
        return ""
    noise = float(np.sum((basis.T @ answer.r) ** 2))
    rest = float(answer.r @ answer.r) - noise
    if fdtrc(others, count, rest / others / max(noise / count, 1e-300)) > _BY_CHANCE:
        return ""
    return "Measurements that depend on each other agree far better than x with y: what x leaves is not only noise."


def _independent(flat: Float) -> bool:
    """Whether a few entries of the matrices show that none of these is a combination of the others."""
    m, size = flat.shape
    some = np.random.default_rng(0).integers(0, size, 2 * m)
    part = flat[:, some] if 2 * m < size else flat
    unit = part / np.maximum(np.sqrt(np.einsum("ij,ij->i", part, part)), 1e-300)[:, None]
    return singular_values_exceed(gram(np.ascontiguousarray(unit.T)), 1e-3)


def _for_most(block: Float, answer: Answer) -> str:
    """Why what is left is not noise, if a signal near x fits most measurements to rounding."""
    problem = answer.problem
    if block.size > CHALLENGE_INDEPENDENT or problem.fixed:
        return ""
    return fits_most(problem.y, answer.x, block, problem.unknowns, turning=problem.turning)


def _second(block: Float, answer: Answer) -> float:
    """The power of another signal that is measured with x; known values, and products of two vectors, rule it out."""
    problem = answer.problem
    if problem.fixed or problem.bilinear or problem.rank_two:
        return 0.0
    return second_signal(problem.y, answer.x, block, answer.r, turning=problem.turning)


def doubt_zero(problem: Problem) -> Asks[tuple[Status, str, Float | None]]:
    """The status of x = 0 where all measurements are zero, why another signal may have only zeros, and such a signal.

    Signals with `x^T A_i x = 0` for all i are few or none if there are at least as many independent equations as
    unknowns. The products of a random vector show whether that holds, and whether the A_i have a common null space; of
    few-valued matrices, descents from random signals find such an x.
    """
    given = problem.support
    allowed = np.setdiff1d(np.arange(problem.n) if given is None else given, problem.known)
    if problem.m < allowed.size:
        _, rival = yield from _another_zero(problem, allowed)
        doubt = f"There are {problem.m} measurements for {allowed.size} unknowns: other signals may measure zero too."
        return Status.UNDETERMINED if rival is None else Status.AMBIGUOUS, doubt, rival
    diagonals = (yield Diagonals())[:, allowed]
    alone = allowed[~diagonals.any(axis=0)]
    if alone.size:
        rival = np.zeros(problem.n)
        rival[alone[0]] = 1.0
        return Status.AMBIGUOUS, f"Nothing measures {names(alone)} alone: it may have any value.", rival
    W = yield Products(np.random.default_rng(0).standard_normal(problem.n))
    values = np.linalg.svd(W[:, allowed], compute_uv=False)
    rank = int(np.count_nonzero(values > 1e-10 * values[0]))
    # Do not count the free phase of a complex signal.
    if rank < allowed.size - problem.turning:
        _, rival = yield from _another_zero(problem, allowed)
        doubt = (
            f"The measurements amount to {rank} independent ones, for {allowed.size} unknowns: others measure zero too."
        )
        return Status.UNDETERMINED if rival is None else Status.AMBIGUOUS, doubt, rival
    # By chance, entries of any value do not add up to zero.
    doubt, rival = (yield from _another_zero(problem, allowed)) if few_valued(diagonals) else ("", None)
    return Status.AMBIGUOUS if doubt else Status.TRIVIAL, doubt, rival


def _another_zero(problem: Problem, allowed: Indices) -> Asks[tuple[str, Float | None]]:
    """Whether Levenberg–Marquardt finds a unit vector with zero measurements, if A is small enough to try."""
    m, n = problem.m, allowed.size
    if m * n**2 > CHALLENGE_ENTRIES:
        return "", None
    block = np.concatenate([(yield Block(allowed)), np.eye(n)[None]])
    y = np.append(np.zeros(m), 1.0)
    rng = np.random.default_rng(2)
    for _ in range(starts(block.size)):
        descent = on_block(y, rng.standard_normal(n) / math.sqrt(n), block, CHALLENGE)
        if descent.residual < EXACT_RESIDUAL:
            largest = np.argsort(-np.abs(descent.z), kind="stable")[:NAMED]
            values = ", ".join(f"{descent.z[j]:.3g} at {allowed[j]}" for j in np.sort(largest))
            return f"Another signal measures zero, too: {values}{', …' if n > NAMED else ''}.", expand(
                descent.z, allowed, problem.n
            )
    return "", None
