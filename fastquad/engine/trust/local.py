"""What the measurements see near an answer, and off its support: one question of rank, asked of W in units of δ.

Is each direction and each coordinate seen, are more measurements independent than there are unknowns, how large is the
error? With the directions of the gauge pinned (`fastquad.engine.trust.gauge`) real and complex x are one.
`fastquad.engine.trust.candidates` looks further away.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.gauge import expand, squares
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import left_over, singular_values_exceed, standard_errors
from fastquad.system.deadline import check
from fastquad.typing import Float, Indices


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


def exact_measure(m: int) -> Measure:
    """The measure of an answer that fits to rounding."""
    return Measure(tol.APART, tol.APART, tol.FITS, math.sqrt(m) / tol.APART, noisy=False)


def noisy_measure(apart: float = tol.APART_IN_NOISE) -> Measure:
    """The measure of an answer in noise."""
    return Measure(apart, apart, tol.FEW_ERRORS, tol.CLEARLY, noisy=True)


class Local:
    """The directions of an answer, given the tolerance δ of each equation."""

    def __init__(
        self, answer: Answer, diagonals: Float, delta: Float, measure: Measure, entries: Entries | None
    ) -> None:
        self.answer, self.problem, self.diagonals, self.delta = answer, answer.problem, diagonals, delta
        self.measure, self.entries, self.gauge = measure, entries, answer.gauge
        self.most = float(delta.max())
        self.norm = float(np.linalg.norm(answer.z)) or 1.0
        #: Directions, (n,), along which x may move and fit as well.
        self.open: list[Float] = []
        #: The upper 95 % of the error under noise, as a multiple of it; and how many directions make it up.
        self.uncertainty, self.degrees = 1.0, 0.0

    @property
    def m(self) -> int:
        """The number of measurements that are looked at."""
        return len(self.delta)

    def scaled(self, W: Float) -> Float:
        """Columns of the Jacobian, for a change of x relative to its norm, in units of the tolerances."""
        return 2 * self.norm * W / self.delta[:, None]

    # -- directions on the support ----------------------------------------------------------------------------

    def jacobian(self) -> str:
        """Whether a direction on the support is not seen."""
        if 2 * self.norm * self.answer.gram.least > self.measure.need * self.most:
            return ""
        seen, vectors = self.directions(self.scaled(self.answer.columns), self.answer.z)
        return self._unseen_directions(vectors[seen <= self.measure.need])

    def directions(self, J: Float, z: Float) -> tuple[Float, Float]:
        """How much scaled products J of z show of each direction beside the gauge; and these, the least seen last."""
        s, d = z.size, self.gauge.count
        # With the largest size, the directions of the gauge come first.
        J = self.gauge.pinned(J, z, 2 * (float(np.linalg.norm(J)) or 1.0))
        check(4.0 * J.size * s)
        values, vectors = np.linalg.svd(J, full_matrices=len(J) < s)[1:]
        seen = np.zeros(s)
        seen[: values.size] = values
        return seen[d:], vectors[d:]

    def _unseen_directions(self, vectors: Float) -> str:
        """A sentence about directions on the support that are not seen; empty if there are none."""
        if len(vectors) == 0:
            return ""
        s, S = self.answer.unknowns, self.answer.S
        self.open = [expand(v, S, self.problem.n) for v in vectors[-tol.RECAPTURES :]]
        weight = self.gauge.norms(np.sqrt((vectors**2).sum(axis=0)), S)
        free = S[weight > tol.PART * weight.max()]
        beside = ", up to a phase" if self.gauge.count else ""
        return (
            f"The measurements fix {s - len(vectors)} of {s} directions of x on its support{beside}. The "
            f"{'value' if free.size == 1 else 'values'} of {self.gauge.names(free)} may change, and x still fits."
        )

    def errors(self) -> tuple[Float, str]:
        """The standard errors on the support, and which directions are not seen at all under the noise."""
        seen, vectors = self.directions(self.scaled(self.answer.columns), self.answer.z)
        inverse = 1 / np.maximum(seen, 1e-6)
        errors = self.norm * np.sqrt(((vectors * inverse[:, None]) ** 2).sum(axis=0))
        # The square of the error is about a χ², with as many degrees as there are directions that make it up.
        self.degrees = degrees = float(np.sum(inverse**2)) ** 2 / max(float(np.sum(inverse**4)), 1e-300)
        self.uncertainty = (1 - 2 / (9 * degrees) + 1.645 * math.sqrt(2 / (9 * degrees))) ** 1.5 if degrees else 1.0
        # Name the directions along which the noise moves x by its whole norm.
        return errors, self._unseen_directions(vectors[seen < 1.0])

    def error(self) -> float:
        """The relative error that the tolerances allow."""
        from fastquad.numerics.small import student

        answer = self.answer
        errors = standard_errors(answer.pinned, answer.gram, np.arange(answer.s))
        size = float(np.linalg.norm(errors)) * math.sqrt(float(np.mean(self.delta**2))) / (2 * self.norm)
        degrees = float(np.sum(errors**2)) ** 2 / max(float(np.sum(errors**4)), 1e-300)
        return size * student(degrees, self.m - answer.unknowns)

    def few_count(self) -> bool:
        """Whether a few measurements are so much larger than the others that they alone determine x."""
        weight = np.einsum("ij,ij->i", self.answer.columns, self.answer.columns)
        few = tol.EFFECTIVE * self.answer.unknowns
        return float(weight.sum()) ** 2 <= few * float(weight @ weight)

    def robust_errors(self) -> Float:
        """The standard errors on the support by what each measurement leaves, which may differ from that of others.

        `(W^+) diag(r²/(1 − h)) (W^+)^T/4` with the leverages h (White's estimate, unbiased for equal noise): if
        large measurements are noisier than small ones, one level for all would take x for better known than it is.
        """
        check(4.0 * self.answer.columns.size * self.answer.s)
        U, values, vectors = np.linalg.svd(self.answer.columns, full_matrices=False)
        inverse = np.where(values > 1e-12 * values[0], 1 / np.maximum(values, 1e-300), 0.0)
        spare = np.maximum(1 - np.einsum("ij,ij->i", U, U), tol.NOTHING)
        weighed = (U * inverse) @ vectors
        return np.asarray(0.5 * np.sqrt((self.answer.r**2 / spare) @ weighed**2))

    # -- how many are independent -----------------------------------------------------------------------------

    def span(self) -> str:
        """The doubt if there are no more independent measurements than unknowns; else empty."""
        answer = self.answer
        m, n, s = self.m, answer.allowed.size - self.gauge.count, answer.unknowns
        target = s + 1 if s == n else max(s + 1, min(2 * s, m, n))
        if target > m:
            return f"There are {m} measurements for {s} unknowns."
        if (self.overdetermined and self.seen_everywhere) or self._spans(target - s):
            return ""
        rank = self._rank()
        return "" if rank >= target else f"Of the {m} measurements only {rank} are independent, for {s} unknowns."

    def _spans(self, count: int) -> bool:
        """Whether this many more columns of W, or of the diagonals, are clearly independent of those of the support."""
        answer = self.answer
        if answer.gram.factor is None:
            return False
        others = answer.outside[: count + 2]
        more = answer.W[:, others] if others.size else self.diagonals[:, answer.allowed[:: self.gauge.width][:2]]
        if count > more.shape[1]:
            return False
        more = more[:, :count]
        square = np.einsum("ij,ij->j", more, more)
        norms = np.sqrt(np.where(square > 0, square, 1.0))
        inside = answer.gram.whiten(answer.columns.T @ more)
        rest = (more.T @ more - inside.T @ inside) / norms / norms[:, None]
        weight = math.sqrt(float(square.min())) * self.norm
        return weight > 0 and singular_values_exceed(rest, max(1e-4, self.measure.need * self.most / weight))

    @cached_property
    def seen_everywhere(self) -> bool:
        """Whether every direction is clearly seen, on the support and off it."""
        return self.sees_all(self.answer.x, self.answer.W)

    def sees_all(self, x: Float, W: Float) -> bool:
        """Whether a signal, with its products W in some of the measurements, shows every direction clearly."""
        allowed = self.answer.allowed
        if allowed.size > len(W) + self.gauge.count:
            return False
        columns = W if allowed.size == W.shape[1] else np.ascontiguousarray(W[:, allowed])
        z = x[allowed]
        need = self.measure.need * self.most / (2 * (float(np.linalg.norm(z)) or 1.0))
        return singular_values_exceed(gram(self.gauge.pinned(columns, z)), need)

    @property
    def overdetermined(self) -> bool:
        """Whether there are more measurements than unknowns, zero ones too, so that every direction should be seen.

        With no more than that one is unseen in any case, and of all signals that fit a sparse one is preferred. So it
        is under noise, which hides more directions; and of a few measurements W is not known outside of the support.
        """
        answer = self.answer
        return not self.measure.noisy and answer.whole and answer.s < answer.allowed.size < self.m + self.gauge.count

    def _rank(self) -> int:
        """The number of independent measurements that are found, at most one more than the unknowns."""
        answer, d = self.answer, self.gauge.count
        J = self.scaled(answer.W[:, answer.allowed])
        D = self.diagonals[:, answer.allowed] * self.norm**2 / self.delta[:, None]
        if answer.s < answer.allowed.size:
            weak = (answer.x[answer.allowed] == 0) & (np.linalg.norm(J, axis=0) <= self.measure.need)
            J[:, weak] = D[:, weak]
            return int(np.count_nonzero(np.linalg.svd(J, compute_uv=False) > self.measure.need))
        others = [D]
        if self.entries is not None and self.entries.block is not None:
            sample = self.entries.block.reshape(self.m, -1)
            others.append(sample * self.norm**2 / self.delta[:, None])
        columns = np.concatenate(others, axis=1)
        values = np.linalg.svd(J, compute_uv=False)
        # Allow for rounding, which turns the directions that are seen least out of the span.
        rounding = 1e3 * tol.EPS * float(values[0] / values[min(values.size, J.shape[1] - d) - 1])
        beside = left_over(J, columns) > np.maximum(self.measure.need, rounding * np.linalg.norm(columns, axis=0))
        return answer.unknowns + int(beside.any())

    # -- coordinates that are zero ----------------------------------------------------------------------------

    def unseen(self) -> str:
        """Whether the value of a zero coordinate changes nothing; in noise, a value as large as those of x have.

        Smaller ones that noise hides are no other signal: they are part of the error.
        """
        others = self.answer.outside
        if not self.answer.whole or others.size == 0:  # a few measurements have shown the contrary
            return ""
        typical = 1 / math.sqrt(max(1, self.answer.s)) if self.measure.noisy else 0.0
        t = max(self.measure.apart, typical) * self.norm
        sizes = [np.sqrt(squares(part)[others]) for part in (self.answer.W, self.diagonals)]
        if (np.abs(2 * t * sizes[0] - t * t * sizes[1]) > 2 * math.sqrt(self.m) * self.most).all():
            return ""
        W, D = self.answer.W[:, others], self.diagonals[:, others]
        linear, square = 2 * t * W / self.delta[:, None], t * t * D / self.delta[:, None]
        limit = tol.FEW_ERRORS**2 if self.measure.noisy else float(self.m)
        free = np.zeros(others.size, dtype=bool)
        for change in (square + linear, square - linear):
            free |= squares(change) < limit
        if not free.any():
            return ""
        self.open = [expand(np.ones(1), np.array([j]), self.problem.n) for j in others[free][: tol.RECAPTURES]]
        within = "the noise" if self.measure.noisy else "rounding"
        return f"No measurement determines {self.gauge.names(others[free])}: other values fit as well, within {within}."

    def hidden(self) -> float:
        """The largest value, as a share of x, of a zero entry that noise hides, because nothing in x is coupled to it.

        Such an entry is seen by its square alone; another shows at a standard error, which a method allows for.
        """
        others, scale = self.answer.outside, self.delta[:, None]
        of = np.unique(others // self.gauge.width, return_inverse=True)[1]
        linear = np.sqrt(np.bincount(of, squares(self.answer.W[:, others] / scale)))
        square = np.zeros(linear.size)
        square[of] = np.sqrt(squares(self.diagonals[:, others] / scale))
        size = np.sqrt(tol.FEW_ERRORS / np.maximum(square, 1e-300))
        return float(size[2 * linear < size * square].max(initial=0.0)) / self.norm

    def spanned(self) -> Indices:
        """The positions of zero coordinates whose columns are (nearly) in the span of the support's."""
        answer = self.answer
        if answer.gram.factor is not None:
            # Multiply all columns, which is cheaper than copying those outside.
            inside = answer.gram.whiten((answer.columns.T @ answer.W)[:, answer.outside])
            square = squares(answer.W)[answer.outside]
            rest = square - squares(inside)
            clear = rest > 1e-8 * square
            clear &= 2 * self.norm * np.sqrt(np.maximum(rest, 0.0)) > self.measure.need * self.most
            if clear.all():
                return np.zeros(0, dtype=np.intp)
        outside = self.scaled(answer.W[:, answer.outside])
        return np.flatnonzero(left_over(self.scaled(answer.columns), outside) <= self.measure.need)
