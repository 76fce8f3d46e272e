"""Tests for other signals near an answer, or off its support. See `fastquad.engine.trust.certificate`.

Do the measurements see each direction and each coordinate, and are more of them independent than there are unknowns?
`fastquad.engine.trust.twins` looks further away.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.challenge import APART
from fastquad.measurements.contractions import Products
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import left_over, singular_values_exceed, standard_errors
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.solution import Status
from fastquad.typing import Asks, Float, Indices

_EPS = float(np.finfo(np.float64).eps)
# The largest number of steps to another signal: each doubles the number of correct digits.
_REFIT = 10
# The number of further steps to the bottom of a valley in noise.
_SETTLING = 3
# The number of open directions along which a witness is looked for.
_WITNESSES = 2
# The number of coordinates that `exchange` tries.
_EXCHANGES = 16
#: The largest number of coordinates that a sentence names.
NAMED = 6
# The ratio of effective measurements to unknowns up to which a few of them determine x.
_EFFECTIVE = 1.2
# The least share of a measurement that is left to judge it by: below, its residual is rounding.
_LEAST_SPARE = 1e-6
# The values, as shares of the norm, at which one more coordinate is tried; and the most that it may explain by chance,
# in squares of a standard deviation.
_STEPS = 0.01 * 1.2 ** np.arange(26)
_SADDLE = 30.0
# How much worse than x a twin may fit under noise, in squares of a standard deviation.
_LIKELY = 30.0
# The standard deviations of noise by which a change of all measurements together must exceed it to be seen.
_NOT_SEEN = 3.0


class Measure(NamedTuple):
    """How far away another signal must be, relative to the norm of x, and how well it must fit, in units of δ.

    From `apart` on it is clearly another; one that is nearer, but beyond `nearer`, adds to the error. Under noise,
    `fits` is replaced by what x leaves itself.
    """

    apart: float
    nearer: float
    fits: float
    #: How much a change of x by its norm must change the measurements, so that its direction is seen.
    need: float
    #: Whether δ is noise, and not only rounding.
    noisy: bool


class Tests:
    """The tests of an answer, given the tolerance δ of each equation."""

    def __init__(
        self, answer: Answer, diagonals: Float, delta: Float, measure: Measure, entries: Entries | None
    ) -> None:
        self.answer, self.problem, self.diagonals, self.delta = answer, answer.problem, diagonals, delta
        self.measure, self.entries = measure, entries
        self.need = measure.need
        self.most = float(delta.max())
        self.norm = float(np.linalg.norm(answer.z)) or 1.0
        #: Another signal that fits as well, if one was found.
        self.twin: Float | None = None
        #: Directions, (n,), along which x may move and fit as well.
        self.open: list[Float] = []
        #: Which coordinates of the support clearly differ from zero: under noise, a symmetry need not keep the others.
        self.sure = np.ones(answer.s, dtype=bool)
        #: The upper 95 % of the error under noise, as a multiple of it.
        self.uncertainty = 1.0
        #: Under noise: how far the farthest signal is that fits as well and is not clearly another.
        self.blur = 0.0

    # -- the Jacobian -----------------------------------------------------------------------------------------

    def jacobian(self) -> str:
        """Whether a direction on the support is not seen."""
        if 2 * self.norm * self.answer.gram.least > self.need * self.most:
            return ""
        s = self.answer.s
        values, vectors = np.linalg.svd(self.scaled(self.answer.columns), full_matrices=self.problem.m < s)[1:]
        seen = np.zeros(s)
        seen[: values.size] = values
        return self._unseen_directions(vectors[seen <= self.need])

    def _unseen_directions(self, vectors: Float) -> str:
        """A sentence about directions on the support that are not seen; empty if there are none."""
        if len(vectors) == 0:
            return ""
        s = self.answer.s
        self.open = [expand(v, self.answer.S, self.problem.n) for v in vectors[-_WITNESSES:]]
        weight = np.sqrt((vectors**2).sum(axis=0))
        free = self.answer.S[weight > 0.1 * weight.max()]
        return (
            f"The measurements fix {s - len(vectors)} of {s} directions of x on its support: the "
            f"{'value' if free.size == 1 else 'values'} of {names(free)} can change and fit as well."
        )

    def errors(self) -> tuple[Float, str]:
        """The standard errors on the support, and which directions are not seen at all under the noise."""
        s = self.answer.s
        values, vectors = np.linalg.svd(self.scaled(self.answer.columns), full_matrices=self.problem.m < s)[1:]
        seen = np.zeros(s)
        seen[: values.size] = values
        inverse = 1 / np.maximum(seen, 1e-6)
        errors = self.norm * np.sqrt(((vectors * inverse[:, None]) ** 2).sum(axis=0))
        # The square of the error is about a χ², with as many degrees as there are directions that make it up.
        degrees = float(np.sum(inverse**2)) ** 2 / float(np.sum(inverse**4))
        self.uncertainty = (1 - 2 / (9 * degrees) + 1.645 * math.sqrt(2 / (9 * degrees))) ** 1.5
        # Name the directions along which the noise moves x by its whole norm.
        return errors, self._unseen_directions(vectors[seen < 1.0])

    def error(self) -> float:
        """The relative error that the tolerances allow."""
        answer = self.answer
        errors = standard_errors(answer.columns, answer.gram, np.arange(answer.s))
        return float(np.linalg.norm(errors)) * math.sqrt(float(np.mean(self.delta**2))) / (2 * self.norm)

    def improvable(self) -> str:
        """Whether a zero coordinate would explain most of the residual: then the fit has ended at a saddle point."""
        answer = self.answer
        if answer.outside.size == 0:
            return ""
        # Project out what the other coordinates can explain by adjusting their values.
        Q = np.linalg.qr(answer.columns)[0]
        W, D, r = answer.W[:, answer.outside], self.diagonals[:, answer.outside], answer.r[:, None]
        W, D, r = (part - Q @ (Q.T @ part) for part in (W, D, r))
        limit = float(np.vdot(r, r)) / (1 + _SADDLE / max(1, self.problem.m - answer.s))
        for t in np.outer(_STEPS, (1.0, -1.0)).ravel() * self.norm:
            left = r + 2 * t * W + t * t * D
            better = np.einsum("ij,ij->j", left, left) < limit
            if better.any():
                return f"With another value of {names(answer.outside[better])} it would fit much better."
        return ""

    def few_count(self) -> bool:
        """Whether a few measurements are so much larger than the others that they alone determine x."""
        weight = np.einsum("ij,ij->i", self.answer.columns, self.answer.columns)
        return float(weight.sum()) ** 2 <= _EFFECTIVE * self.answer.s * float(weight @ weight)

    def robust_errors(self) -> Float:
        """The standard errors on the support by what each measurement leaves, which may differ from that of others.

        `(W^+) diag(r²/(1 − h)) (W^+)^T/4` with the leverages h (White's estimate, unbiased for equal noise): where
        large measurements are noisier than small ones, one level for all would take x for better known than it is.
        """
        U, values, vectors = np.linalg.svd(self.answer.columns, full_matrices=False)
        inverse = np.where(values > 1e-12 * values[0], 1 / np.maximum(values, 1e-300), 0.0)
        spare = np.maximum(1 - np.einsum("ij,ij->i", U, U), _LEAST_SPARE)
        weighed = (U * inverse) @ vectors
        return np.asarray(0.5 * np.sqrt((self.answer.r**2 / spare) @ weighed**2))

    def scaled(self, W: Float) -> Float:
        """Columns of the Jacobian, for a change of x relative to its norm, in units of the tolerances."""
        return 2 * self.norm * W / self.delta[:, None]

    def span(self) -> tuple[Status, str]:
        """Whether there are more independent measurements than unknowns, and the doubt if not."""
        answer = self.answer
        m, n, s = self.problem.m, answer.allowed.size, answer.s
        target = s + 1 if s == n else max(s + 1, min(2 * s, m, n))
        if target > m:
            return Status.UNDECIDED, f"There are {m} measurements for {s} unknowns."
        if (self.overdetermined and self.seen_everywhere) or self._spans(target):
            return Status.EXACT, ""
        rank = self._rank()
        if rank > s and (s == n or rank >= min(m, n) or 2 * s <= rank):
            return Status.EXACT, ""
        doubt = f"The {m} measurements amount to {rank} independent ones, for {s} unknowns."
        return Status.UNDECIDED, doubt

    def _spans(self, target: int) -> bool:
        """Whether this many columns of W and of the diagonals are clearly independent."""
        answer = self.answer
        if answer.gram.factor is None:
            return False
        others = answer.outside[: target - answer.s + 2]
        more = answer.W[:, others] if others.size else self.diagonals[:, answer.allowed[:2]]
        count = target - answer.s
        if count > more.shape[1]:
            return False
        more = more[:, :count]
        square = np.einsum("ij,ij->j", more, more)
        norms = np.sqrt(np.where(square > 0, square, 1.0))
        inside = answer.gram.whiten(answer.columns.T @ more)
        rest = (more.T @ more - inside.T @ inside) / norms / norms[:, None]
        weight = math.sqrt(float(square.min())) * self.norm
        return weight > 0 and singular_values_exceed(rest, max(1e-4, self.need * self.most / weight))

    @cached_property
    def seen_everywhere(self) -> bool:
        """Whether every direction is clearly seen, on the support and off it."""
        return self.sees_all(self.answer.z, self.answer.W)

    def sees_all(self, z: Float, W: Float) -> bool:
        """Whether a signal z, with its products W in some of the measurements, shows every direction clearly."""
        allowed = self.answer.allowed
        if allowed.size > len(W):
            return False
        columns = W if allowed.size == W.shape[1] else np.ascontiguousarray(W[:, allowed])
        return singular_values_exceed(gram(columns), self.need * self.most / (2 * (float(np.linalg.norm(z)) or 1.0)))

    @property
    def overdetermined(self) -> bool:
        """Whether there are more measurements than unknowns, zero ones too, so that every direction should be seen.

        With no more than that one is unseen in any case, and of all signals that fit a sparse one is preferred. So it
        is under noise, which hides more directions; and of a few measurements W is not known outside of the support.
        """
        answer = self.answer
        return not self.measure.noisy and answer.whole and answer.s < answer.allowed.size < self.problem.m

    def _rank(self) -> int:
        """The number of independent measurements that are found, at most one more than the unknowns."""
        answer = self.answer
        J = self.scaled(answer.W[:, answer.allowed])
        D = self.diagonals[:, answer.allowed] * self.norm**2 / self.delta[:, None]
        if answer.s < answer.allowed.size:
            weak = (answer.x[answer.allowed] == 0) & (np.linalg.norm(J, axis=0) <= self.need)
            J[:, weak] = D[:, weak]
            return int(np.count_nonzero(np.linalg.svd(J, compute_uv=False) > self.need))
        others = [D]
        if self.entries is not None and self.entries.block is not None:
            sample = self.entries.block.reshape(self.problem.m, -1)
            others.append(sample * self.norm**2 / self.delta[:, None])
        columns = np.concatenate(others, axis=1)
        values = np.linalg.svd(J, compute_uv=False)
        # Allow for rounding, which turns the directions that are seen least out of the span.
        turned = 1e3 * _EPS * float(values[0] / values[-1]) * np.linalg.norm(columns, axis=0)
        return answer.s + int((left_over(J, columns) > np.maximum(self.need, turned)).any())

    # -- coordinates that are zero ------------------------------------------------------------------------------

    def unseen(self) -> str:
        """Whether the value of a zero coordinate changes nothing."""
        if not self.answer.whole:  # a few measurements have shown the contrary
            return ""
        others = self.answer.outside
        if others.size == 0:
            return ""
        t = self.measure.apart * self.norm
        sizes = [np.sqrt(squares(part)[others]) for part in (self.answer.W, self.diagonals)]
        if (np.abs(2 * t * sizes[0] - t * t * sizes[1]) > 2 * math.sqrt(self.problem.m) * self.most).all():
            return ""
        W, D = self.answer.W[:, others], self.diagonals[:, others]
        linear, square = 2 * t * W / self.delta[:, None], t * t * D / self.delta[:, None]
        limit = _NOT_SEEN**2 if self.measure.noisy else float(self.problem.m)
        free = np.zeros(others.size, dtype=bool)
        for change in (square + linear, square - linear):
            free |= np.einsum("ij,ij->j", change, change) < limit
        if not free.any():
            return ""
        unit = np.eye(1)[0]
        self.open = [expand(unit, np.array([j]), self.problem.n) for j in others[free][:_WITNESSES]]
        seldom = "tells" if self.measure.noisy else "measures"
        return f"Nothing {seldom} {names(others[free])}: other values fit as well."

    def hidden(self) -> float:
        """The largest value, as a share of x, of a zero coordinate that would not show."""
        others, scale = self.answer.outside, self.delta[:, None]
        sizes = (np.sqrt(squares(part[:, others] / scale)) for part in (self.answer.W, self.diagonals))
        return hidden(*sizes) / self.norm

    def exchange(self) -> Asks[str]:
        """Whether a zero coordinate can take over from the others."""
        answer = self.answer
        if answer.outside.size == 0 or not answer.whole or (self.overdetermined and self.seen_everywhere):
            return ""
        for j in answer.outside[self.spanned()][:_EXCHANGES]:
            for value in (0.1 * self.norm, -0.1 * self.norm):
                start = answer.x.copy()
                start[j] = value
                twin = yield from self.refit(start, answer.S)
                if twin is not None and self.another(twin):
                    return f"Coordinate {j} can take over from others. {self.shown()}"
        return ""

    def spanned(self) -> Indices:
        """The positions of zero coordinates whose columns are (nearly) in the span of the support's."""
        answer = self.answer
        if answer.gram.factor is not None:
            # Multiply all columns, which is cheaper than copying those outside.
            inside = answer.gram.whiten((answer.columns.T @ answer.W)[:, answer.outside])
            square = squares(answer.W)[answer.outside]
            rest = square - np.einsum("ij,ij->j", inside, inside)
            clear = rest > 1e-8 * square
            clear &= 2 * self.norm * np.sqrt(np.maximum(rest, 0.0)) > self.need * self.most
            if clear.all():
                return np.zeros(0, dtype=np.intp)
        outside = self.scaled(answer.W[:, answer.outside])
        return np.flatnonzero(left_over(self.scaled(answer.columns), outside) <= self.need)

    def _likely(self) -> float:
        """What a twin may leave, in units of δ: under noise little more than x, because all signals fit large noise."""
        if not self.measure.noisy:
            return self.measure.fits
        return math.sqrt(float(np.mean((self.answer.r / self.delta) ** 2)) + _LIKELY / self.problem.m)

    def refit(self, start: Float, support: Indices, limit: float | None = None) -> Asks[Float | None]:
        """Gauss–Newton steps on a support from a start, while they make progress; the signal if it fits."""
        limit = self._likely() if limit is None else limit
        x = start.copy()
        before, settling = math.inf, _SETTLING if self.measure.noisy else 0
        for step in range(_REFIT):
            W = yield from self.answer.products(x)
            r = (W @ x - self.problem.y) / self.delta
            size = math.sqrt(float(r @ r) / r.size)
            if size < limit and settling == 0:
                return x
            # Under noise much around a valley fits: go on to its bottom.
            settling -= size < limit
            # The first steps may increase the residual; later each must reduce it clearly.
            if not math.isfinite(size) or (step > 2 and size > max(0.25 * before, limit)):
                return None
            before = size
            x[support] -= 0.5 * np.linalg.lstsq(W[:, support] / self.delta[:, None], r, rcond=1e-13)[0]
        return None

    def witness(self) -> Asks[None]:
        """Look for another signal along the directions that are open, so that the doubt has a witness."""
        for v in self.open if self.twin is None else ():
            for share in (1.0, 0.3, 1.1 * self.measure.apart):
                start = self.problem.completed(self.answer.x + share * self.norm * v)
                support = np.setdiff1d(np.flatnonzero(start), self.problem.known)
                twin = yield from self.refit(start, support)
                if twin is not None and self.rival(twin):
                    return

    def away(self, twin: Float) -> float:
        """The distance of another signal from x, relative to its norm; up to sign, unless known values determine it."""
        if self.problem.fixed:
            return float(np.linalg.norm(self.problem.completed(twin) - self.answer.x)) / self.norm
        return apart(twin, self.answer.x)

    def rival(self, twin: Float, far: float | None = None) -> bool:
        """Whether this is clearly another signal, and one as the prior says; if so, it is kept as the twin."""
        if self.away(twin) <= (self.measure.apart if far is None else far) or not self.problem.admits(twin):
            return False
        self.twin = twin
        return True

    def another(self, twin: Float) -> bool:
        """The same of a twin by a structure of A, which fits wherever it is, and not only because of the noise.

        One that is not clearly another is no doubt, but part of the error.
        """
        if self.rival(twin, max(self.measure.nearer, min(self.measure.apart, APART))):
            return True
        if self.problem.admits(twin):
            self.blur = max(self.blur, self.away(twin))
        return False

    def shown(self) -> str:
        """A sentence on what the twin is."""
        assert self.twin is not None
        x, twin, limit = self.answer.x, self.twin, self.measure.apart
        if not self.problem.fixed and float(np.linalg.norm(x + twin)) < float(np.linalg.norm(x - twin)):
            twin = -twin
        for name, moved in (("reversed", x[::-1]), ("shifted", np.roll(x, 1)), ("shifted", np.roll(x, -1))):
            if apart(twin, moved) <= limit:
                return f"A is the same {name}, so that x {name} fits as well."
        largest = max(float(np.abs(x).max()), 1e-300)
        changed = np.flatnonzero(np.abs(twin - x) > limit * largest)
        if changed.size and np.abs(twin[changed] + x[changed]).max() <= limit * largest:
            return f"The sign of x at {names(changed)} is free: with the other sign there it fits as well."
        changed = changed if changed.size else np.argsort(-np.abs(twin - x), kind="stable")[:NAMED]
        values = ", ".join(f"{twin[j]:.3g} for {x[j]:.3g} at {j}" for j in changed[:NAMED])
        rest = f", and {changed.size - NAMED} more" if changed.size > NAMED else ""
        return f"Another signal, {apart(twin, x):.2g} away, fits as well: {values}{rest}."


def hidden(linear: Float, square: Float) -> float:
    """The largest value of a zero coordinate that noise hides, because nothing in x is coupled to it.

    `linear` and `square` are the norms of its column of W and of its diagonals, in units of the noise. Such a
    coordinate is seen by its square alone; another shows at a standard error, which a method allows for.
    """
    size = np.sqrt(_NOT_SEEN / np.maximum(square, 1e-300))
    return float(size[2 * linear < size * square].max(initial=0.0))


def along_free(problem: Problem, x: Float) -> Asks[Float | None]:
    """Another signal with the measurements of x, as there are where x has more free coordinates than measurements."""
    x, norm = np.array(x, dtype=np.float64), float(np.linalg.norm(x)) or 1.0
    S = np.setdiff1d(np.flatnonzero(x), problem.known)
    W = yield Products(x)
    target = W @ x
    v = np.random.default_rng(5).standard_normal(S.size)
    if problem.turning:
        phase = turned(x)[S]
        v -= (phase @ v) * phase
    v -= np.linalg.lstsq(W[:, S], W[:, S] @ v, rcond=1e-12)[0]
    size = float(np.linalg.norm(v))
    if size <= 1e-6 * math.sqrt(max(1, S.size)):
        return None
    for share in (1.0, 0.3, 0.1):
        z = x.copy()
        z[S] += share * norm / size * v
        for _ in range(_REFIT):
            W = yield Products(z)
            r = W @ z - target
            if float(np.linalg.norm(r)) <= 1e-11 * float(np.linalg.norm(target)):
                return z
            z[S] -= 0.5 * np.linalg.lstsq(W[:, S], r, rcond=1e-12)[0]
    return None


def squares(columns: Float) -> Float:
    """`‖c‖²` of each column c."""
    return np.einsum("ij,ij->j", columns, columns)


def expand(values: Float, support: Indices, n: int) -> Float:
    x = np.zeros(n)
    x[support] = values
    return x


def apart(a: Float, b: Float) -> float:
    """The relative distance of two signals, up to sign."""
    return float(min(np.linalg.norm(a - b), np.linalg.norm(a + b)) / np.linalg.norm(b))


def names(coordinates: Indices) -> str:
    """These coordinates, by number, in words."""
    if coordinates.size == 0:
        return "no single coordinate"
    if coordinates.size == 1:
        return f"coordinate {coordinates[0]}"
    first = coordinates[:NAMED].tolist()
    if coordinates.size > 2 and coordinates[-1] - coordinates[0] == coordinates.size - 1:
        return f"coordinates {coordinates[0]} to {coordinates[-1]}"
    if coordinates.size > NAMED:
        return f"coordinates {', '.join(map(str, first))} and {coordinates.size - NAMED} more"
    return f"coordinates {', '.join(map(str, first[:-1]))} and {first[-1]}"
