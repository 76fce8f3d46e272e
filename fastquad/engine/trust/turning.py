"""The certificate of an exact complex answer: that no other signal, up to a phase, has the same measurements.

As in the module `certificate`, on Re and Im in turn. Because `x` and `e^{iθ} x` have the same measurements, the
direction ix is never seen: the Jacobian 2W of s entries has rank 2s − 1 at most, and it is enough that 2s − 1 < m. That
direction is pinned, by a row ix beside the rows of W, and then everything must be seen. The answer is doubted

    jacobian      if a direction of the support beside ix changes the measurements by no more than their tolerance
    span          if the measurements amount to no more independent equations than there are unknowns
    unseen        if the value of an entry outside of the support changes nothing
    line          if x + tv fits for every t, although there are more measurements than unknowns
    twins         if the conjugate, or x reversed, moved by one, or with two entries exchanged, fits as well; tested if
                  the sampled entries of A are real, or if diagonals repeat
    symmetry      if a linear or antilinear map, or another order of the entries, gives a twin that fits as well
    chance        if the entries take so few values that another signal may fit by chance

Free signs and phases between parts of x are directions, which the Jacobian shows. In noise (`doubt_turned`) the tests
are relative to the noise, and random starts must come back to x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import turned_twins
from fastquad.engine.trust.answer import BLOCK_BYTES
from fastquad.engine.trust.certificate import Certificate, Doubt
from fastquad.engine.trust.flat import another_on_flat
from fastquad.engine.trust.rivals import hidden, squares
from fastquad.measurements.contractions import Block, Diagonals, Products
from fastquad.numerics.grouping import Groups
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.solution import Status
from fastquad.typing import Asks, Float, Indices

_EPS = float(np.finfo(np.float64).eps)
# The share of the largest sum in a measurement below which its own sum says nothing of its rounding.
_SMALLEST = 1e-9
# The number of standard errors from zero at which an entry is not rounding.
_CLEARLY = 10.0
# The share of the largest number below which another is less than rounding.
_TINY = 1e-15
# The change of x, as a share of its norm, below which second-order terms of the products are rounding.
_NEXT_TO_NOTHING = 1e-9
# The relative distance at which two signals are different.
_APART = 1e-3
# The same in noise.
_APART_IN_NOISE = 0.1
# The same in noise, in units of the error that the method expects.
_ERRORS_APART = 3.0
# The same in noise, of a twin by a symmetry of A.
_TWIN_APART = 0.01
# The change of x, as a share of its norm, that must be seen in noise.
_VISIBLE = 0.3
# The number of standard errors up to which a coordinate may be zero.
_SURE = 5.0
# The largest residual of another signal that fits, in units of the tolerances.
_FITS = 30.0
# How much worse than x it may fit in noise, in squares of a standard deviation.
_LIKELY = 30.0
# The bits of evidence to spare: an answer is wrong with a chance of less than 2^−20.
_SPARE_BITS = 20
# The number of coordinates beyond those of the support whose products are tested for independence.
_MORE = 8
# The share of the largest column of diagonals from which on a column shows that its entry is measured.
_MEASURED = 1e-3


@dataclass
class Turned:
    """A complex answer as real numbers, its products and residuals, and what the tests find.

    W (m, n) is zero where it was not `read`.
    """

    problem: Problem
    x: Float
    W: Float
    r: Float
    read: Indices

    def __post_init__(self) -> None:
        self.groups = self.problem.groups or Groups.pairs(self.problem.n // 2)
        self.doubt = ""
        self.norm = float(np.linalg.norm(self.x))
        self.noisy, self.apart, self.nearer, self.fits = False, _APART, _APART, _FITS
        #: In noise: how far the farthest signal is that fits as well and is not clearly another.
        self.blur = 0.0

    @property
    def S(self) -> Indices:
        """The coordinates of the entries that are not zero."""
        return self.groups.whole(np.flatnonzero(self.x))

    @property
    def residual(self) -> float:
        return float(np.linalg.norm(self.r) / np.linalg.norm(self.problem.y))

    def pinned(self, S: Indices) -> Float:
        """The columns of W on a support, with a row that holds the direction ix."""
        columns = self.W[:, S]
        size = float(np.linalg.norm(columns)) / math.sqrt(max(1, S.size))
        return np.concatenate([columns, size * turned(self.x[S])[None]])

    def level(self, least: float) -> float:
        """The standard deviation of the residual of x, at least `least`."""
        return max(float(np.linalg.norm(self.r)) / math.sqrt(max(1, self.problem.m - self.S.size + 1)), least)

    def standard_errors(self, sigma: float) -> Float:
        """The standard errors of x on its support, up to a phase, for noise of this standard deviation."""
        inverse = np.linalg.pinv(self.pinned(self.S), rcond=1e-12)
        return sigma / 2 * np.sqrt(np.einsum("ij,ij->i", inverse, inverse))

    def error(self, sigma: float) -> float:
        """The relative error of x caused by noise of this standard deviation."""
        return float(np.linalg.norm(self.standard_errors(sigma)) / np.linalg.norm(self.x))

    # -- the clean support -----------------------------------------------------------------------------------

    def clean(self) -> Asks[None]:
        """Drop the entries that differ from zero only by rounding."""
        for _ in range(4):
            near = self._rounding()
            if near.size == 0 or not (yield from self._without(near)):
                return

    def _rounding(self) -> Indices:
        """The groups that may be rounding."""
        m, S, y = self.problem.m, self.S, self.problem.y
        if S.size > m:
            return np.zeros(0, dtype=np.intp)
        errors = np.zeros(self.problem.n)
        errors[S] = self.standard_errors(self.level(_EPS * float(np.linalg.norm(y)) / math.sqrt(m)))
        touched = self.groups.touched(S)
        return touched[self.groups.norms(self.x)[touched] < _CLEARLY * self.groups.norms(errors)[touched]]

    def _without(self, dropped: Indices) -> Asks[bool]:
        """Try to fit without these groups; returns whether that was possible."""
        keep = self.groups.members(np.setdiff1d(self.groups.touched(self.S), dropped))
        if keep.size == 0:
            return False
        y, m = self.problem.y, self.problem.m
        limit = 2 * max(float(np.linalg.norm(self.r)) * math.sqrt(m), 2 * _EPS * float(np.linalg.norm(y)))
        gone = self.groups.members(dropped)
        x = self.x.copy()
        x[gone] = 0.0
        W, r = self.W, self.r - 2 * self.W[:, gone] @ self.x[gone]
        if float(np.linalg.norm(x - self.x)) > _NEXT_TO_NOTHING * self.norm:
            W = yield Products(x)
            r = W @ x - y
        for _ in range(4):
            size = float(np.linalg.norm(W[:, keep])) / math.sqrt(keep.size)
            system = np.concatenate([W[:, keep], size * turned(x[keep])[None]])
            step = -0.5 * np.linalg.lstsq(system, np.append(r, 0.0), rcond=1e-13)[0]
            x = x.copy()
            x[keep] += step
            if float(np.linalg.norm(step)) <= _NEXT_TO_NOTHING * self.norm:
                r = r + 2 * W[:, keep] @ step  # what is left out is below rounding
                break
            W = yield Products(x)
            r = W @ x - y
        if not float(np.linalg.norm(r)) <= limit:
            return False
        if W is not self.W:
            self.read = np.arange(self.problem.n)
        self.x, self.W, self.r = x, W, r
        return True

    # -- local tests -----------------------------------------------------------------------------------------

    def leaves_open(self, diagonals: Float) -> None:
        """Set the tolerance of each equation: its residual, and at least its rounding."""
        m, S = self.problem.m, self.S
        z = self.x[S]
        scale = np.abs(self.W[:, S]) @ np.abs(z) + np.abs(self.problem.y) + np.abs(diagonals[:, S]) @ z**2
        # An equation that adds next to nothing, as of a matrix that is zero on the support, has the rounding of others.
        scale = np.maximum(scale, max(_SMALLEST * float(scale.max(initial=0.0)), 1e-300))
        rms = math.sqrt(float(np.sum((self.r / scale) ** 2)) / max(1, m - S.size))
        delta = np.maximum(np.abs(self.r), max(rms, 8 * _EPS) * scale)
        self.delta = np.where(delta > 0, delta, float(delta.max(initial=0.0)) or 1.0)
        self.norm = float(np.linalg.norm(self.x))
        #: How much a unit change of x must change the scaled measurements.
        self.need = math.sqrt(m) / _APART

    def in_noise(self, sigma: float, expected: float | None) -> None:
        """What each equation leaves open is noise of this standard deviation; errors of x up to a size are expected."""
        self.delta = np.full(self.problem.m, max(sigma, 1e-300))
        self.need = 10.0
        self.noisy = True
        # Little more than x leaves itself: all signals fit large noise.
        self.fits = math.sqrt(float(np.mean((self.r / self.delta) ** 2)) + _LIKELY / self.problem.m)
        self.apart = max(_APART_IN_NOISE, _ERRORS_APART * (expected or 0.0))
        # A twin that is nearer is no other signal, but adds to the error.
        self.nearer = max(_TWIN_APART, _ERRORS_APART / 2 * max(expected or 0.0, self.error(sigma)))

    def away(self, x: Float) -> float:
        """How far another signal is from x, relative to its norm and up to a phase."""
        return turned_twins.away(self, x)

    def rival(self, x: Float) -> bool:
        """Whether this is clearly another signal, and one as the prior says."""
        return self.away(x) > self.apart and self.problem.admits(x)

    def another(self, x: Float) -> bool:
        """The same of a twin by a structure of A, which fits wherever it is; a nearer one is part of the error."""
        away, admitted = self.away(x), self.problem.admits(x)
        if away > max(self.nearer, min(self.apart, _APART_IN_NOISE)):
            return admitted
        if admitted:
            self.blur = max(self.blur, away)
        return False

    def scaled(self, W: Float) -> Float:
        return 2 * self.norm * W / self.delta[:, None]

    def jacobian(self) -> bool:
        """Whether every direction on the support, but for the phase, is seen."""
        S = self.S
        J = self.scaled(self.W[:, S])
        pin = float(np.linalg.norm(J, axis=0).max(initial=0.0)) * turned(self.x[S])
        values = np.linalg.svd(np.concatenate([J, pin[None]]), compute_uv=False)
        seen = int(np.count_nonzero(values > self.need)) - 1
        if seen >= S.size - 1:
            return True
        self.doubt = (
            f"The measurements fix {seen} of the {S.size - 1} real numbers that x has on its support, up to a phase: "
            "the others can change and fit as well."
        )
        return False

    def span(self, diagonals: Float, entries: Entries | None) -> Status:
        """Whether there are more independent measurements than unknowns."""
        m, s = self.problem.m, self.S.size
        if s - 1 >= m:
            self.doubt = f"There are {m} measurements for {s - 1} unknowns."
            return Status.UNDECIDED
        outside = np.setdiff1d(self.read, self.S)
        # Enough columns to show that there are more equations than unknowns, and twice as many where x is sparse.
        columns = [self.scaled(self.W[:, self.S]), self.scaled(self.W[:, outside[: s + _MORE]])]
        if outside.size < s:
            columns.append(diagonals[:, ::2] * self.norm**2 / self.delta[:, None])
            if entries is not None and entries.block is not None:
                columns.append(entries.block.reshape(m, -1) * self.norm**2 / self.delta[:, None])
        rank = int(np.count_nonzero(np.linalg.svd(np.concatenate(columns, axis=1), compute_uv=False) > self.need))
        wanted = s if outside.size == 0 else min(m, s - 1 + min(s, outside.size))
        if rank >= wanted:
            return Status.EXACT
        self.doubt = f"The {m} measurements amount to {rank} independent ones, for {s - 1} unknowns."
        return Status.UNDECIDED if rank == s - 1 else Status.AMBIGUOUS

    def _zero_entries(self) -> Indices:
        """The entries that are zero, and those of whose group all are."""
        return np.setdiff1d(np.arange(self.problem.n // 2), self.S // 2)

    def unseen(self, diagonals: Float) -> bool:
        """Whether the value of a zero entry changes nothing; the doubt is noted."""
        others = self._zero_entries()
        if others.size == 0:
            return False
        t = self.apart * self.norm
        square = t * t * diagonals[:, 2 * others]
        free = np.ones(others.size, dtype=bool)
        limit = 9.0 if self.noisy else float(self.problem.m)
        for part in (0, 1):
            linear = 2 * t * self.W[:, 2 * others + part]
            seen = [np.sum(((square + sign * linear) / self.delta[:, None]) ** 2, axis=0) for sign in (1, -1)]
            free &= np.minimum(*seen) < limit
        if free.any():
            self.doubt = f"Nothing measures coordinate {others[free][0]}: any value fits as well."
        return bool(free.any())

    def hidden(self, diagonals: Float) -> float:
        """The largest value, as a share of x, of a zero entry that would not show."""
        others, scale = self._zero_entries(), self.delta[:, None]
        pairs = squares(self.W[:, 2 * others] / scale) + squares(self.W[:, 2 * others + 1] / scale)
        return hidden(np.sqrt(pairs), np.sqrt(squares(diagonals[:, 2 * others] / scale))) / self.norm

    # -- other signals ---------------------------------------------------------------------------------------

    def twins(self, diagonals: Float, entries: Entries | None) -> Asks[bool]:
        """Whether one of the signals that a symmetry of A would make of x fits as well; the doubt is noted."""
        for name, twin in turned_twins.named(self, diagonals[:, ::2], entries):
            x = np.ascontiguousarray(twin).view(np.float64)
            if self.away(x) <= self.nearer:
                continue
            left = ((yield Products(x)) @ x - self.problem.y) / self.delta
            if math.sqrt(float(left @ left) / left.size) < self.fits and self.another(x):
                self.doubt = f"x {name} fits as well."
                return True
        if (yield from turned_twins.linear(self)) or (yield from turned_twins.relabelled(self, diagonals[:, ::2])):
            return True
        return (yield from turned_twins.subsystem(self))

    def by_chance(self, entries: Entries) -> bool:
        """Whether the entries take so few values that another signal may fit by chance; the doubt is noted."""
        if math.isinf(entries.bits):
            return False
        # Of sparse matrices the value that comes so often is zero: it says nothing of how many the others take. Where
        # no entry of x is zero there is no other support either.
        sparse = entries.block is None or float(np.mean(entries.block == 0)) > 0.5
        if sparse and np.all(self.x.reshape(-1, 2).any(axis=1)):
            return False
        m, n, s = self.problem.m, self.groups.count, self.S.size // 2
        same = entries.coincidence(s)
        choices = (math.lgamma(n + 1) - math.lgamma(s + 1) - math.lgamma(n - s + 1)) / math.log(2)
        if (m - 2 * s) * same >= choices + 2 * s + _SPARE_BITS:
            return False
        self.doubt = "The entries of A take few values, and another signal may fit so few measurements by chance."
        return True


def certify_turned(problem: Problem, x: Float, W: Float | None, entries: Entries | None) -> Asks[Certificate]:
    """Clean a complex x that fits to rounding, and look for another signal that fits as well."""
    read = np.arange(problem.n)
    if W is None:
        # What is less than rounding would only make the products dearer.
        x = np.where(np.abs(x) < _TINY * float(np.abs(x).max(initial=0.0)), 0.0, x)
        W, read = yield from _products(problem, x)
    case = Turned(problem, x, W, W @ x - problem.y, read)
    yield from case.clean()
    status = yield from _status(case, problem, entries)
    # Estimate it only for single precision: with doubles it is negligible.
    error = case.error(case.level(0.0)) if problem.dtype.itemsize < 8 and status is Status.EXACT else 0.0
    return Certificate(case.x, case.residual, status, case.doubt, error=error)


def _products(problem: Problem, x: Float) -> Asks[tuple[Float, Indices]]:
    """The products of x, (m, n), and where they were read: all, or its entries and as many others, which `span` needs.

    The latter is enough, and less to read, where the diagonals show that every entry is measured.
    """
    m, n = problem.m, problem.n
    groups = problem.groups or Groups.pairs(n // 2)
    S = groups.whole(np.flatnonzero(x))
    outside = np.setdiff1d(np.arange(n), S)
    read = np.union1d(S, outside[: S.size + _MORE])
    sizes = np.linalg.norm((yield Diagonals()), axis=0)
    shown = float(sizes.min(initial=np.inf)) > _MEASURED * float(sizes.max(initial=0.0))
    if not shown or 2 * S.size > n or 8 * m * S.size * read.size > min(BLOCK_BYTES, problem.memory // 8):
        return (yield Products(x)), np.arange(n)
    W = np.zeros((m, n))
    W[:, read] = np.einsum("t,itj->ij", x[S], (yield Block(S, read)))
    return W, read


def doubt_turned(
    problem: Problem, x: Float, level: float | None, expected: float | None, entries: Entries | None
) -> Asks[Doubt]:
    """Whether noisy data tell a complex x from others, and how well they fix it, on its support and up to a phase."""
    W = yield Products(x)
    case = Turned(problem, x, W, W @ x - problem.y, np.arange(problem.n))
    sigma = case.level(level or 0.0)
    case.in_noise(sigma, expected)
    stderr = np.zeros(problem.n)
    stderr[case.S] = case.standard_errors(sigma)
    # A change of x along a direction must change the measurements by more than the noise.
    values = 2 * _VISIBLE * case.norm * np.linalg.svd(case.pinned(case.S), compute_uv=False)
    free, unseen = int(np.count_nonzero(values <= sigma)), 0.0
    if free:
        case.doubt = f"The measurements leave {free} directions of x on its support open, beside the phase."
    else:
        diagonals = yield Diagonals()
        unseen = case.hidden(diagonals)
        entries = entries or (yield from sample_entries(problem))
        if case.S.size < problem.n:
            case.doubt = yield from another_on_flat(problem, x, small=_SURE * float(stderr.max(initial=0.0)))
        if not case.doubt and not case.unseen(diagonals) and not (yield from case.twins(diagonals, entries)):
            independent = expected is not None and entries.independent
            yield from turned_twins.challenged(case, independent)
    return Doubt(case.doubt, case.error(sigma), stderr, hidden=unseen, blur=case.blur)


def _status(case: Turned, problem: Problem, entries: Entries | None) -> Asks[Status]:
    s = case.S.size
    if s - 1 > problem.m:
        return Status.UNDETERMINED
    if problem.n == 2 and problem.m > 1:  # one measurement that is not zero gives |x|
        return Status.EXACT
    diagonals = yield Diagonals()
    if entries is None:
        entries = yield from sample_entries(problem)
    case.leaves_open(diagonals)
    if not case.jacobian():
        return Status.AMBIGUOUS
    status = case.span(diagonals, entries)
    if status is not Status.EXACT:
        return status
    if case.unseen(diagonals) or (yield from turned_twins.line(case)):
        return Status.AMBIGUOUS
    if (yield from case.twins(diagonals, entries)) or case.by_chance(entries):
        return Status.AMBIGUOUS
    if s < problem.n:
        case.doubt = yield from another_on_flat(problem, case.x)
        if case.doubt:
            return Status.AMBIGUOUS
    return Status.AMBIGUOUS if (yield from turned_twins.refuted(case, entries)) else Status.EXACT
