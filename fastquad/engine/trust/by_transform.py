"""The certificate where `y_i = ‖B_i x‖²` of a fast transform B: by products with B alone, no matrix is formed.

It shows what the other certificates show (see the modules `certificate` and `turning`), on all coordinates
at once. With `J d = 2 <Bx, Bd>`, the answer is certified if

    jacobian   J has full rank, beside ix for complex x: a bound of its least singular value is larger than the
               tolerances. Then no zero coordinate of x is unseen, and none can take over from others
    span       |Bg|² of a random g is not in the span of J: more measurements are independent than there are unknowns
    twins      x reversed, moved or conjugated does not fit
    symmetry   no linear (or antilinear) map Q with `Q^T A_i Q = A_i` moves x. For u = Qx and any vector g,
               `<Bg, Bu> = <Bx, BQ^{-1}g>`: the equations `J(g_t) u + J(x) h_t = 0` for a few random g_t must have no
               solution but u = x, h_t = −g_t (and for complex x those of its phase)
    chance     the measurements do not take so few values that another signal may fit by chance

Bounds of least singular values are Lanczos' from a random start, and hold but for a chance of 2^−20
(`fastquad.numerics.krylov`). Where one of the first or the symmetry is not shown, the certificate is None: the others,
which form m×n matrices, decide if these fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Outcome
from fastquad.engine.trust.certificate import Certificate, Doubt
from fastquad.engine.trust.evidence import bits_of, short_of
from fastquad.engine.trust.gauge import apart, names
from fastquad.measurements.contractions import Factors
from fastquad.numerics import krylov
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.numerics.transform import Jacobian, Transform, sampled_variances
from fastquad.solution import Status, distance
from fastquad.typing import Asks, Float

NOT_SHOWN = (
    "x fits to rounding, but it could not be shown that nothing else does: the measurements see some direction of x "
    "too little for products with the transform alone, and matrices of all measurements do not fit in `memory`."
)

_EPS = float(np.finfo(np.float64).eps)
# The relative distance of another signal, without noise and in noise.
_APART, _APART_IN_NOISE = 1e-3, 0.1
# How well it fits without noise, in units of δ.
_FITS = 30.0
# How much worse than x another signal must fit in noise, in squares of a standard deviation.
_LIKELY = 30.0
# The number of standard errors from zero at which a coordinate is not rounding.
_CLEARLY = 10.0
# The share of |Bg|² that is not in the span of J.
_INDEPENDENT = 1e-4
# The largest number of vectors g for a symmetry.
_MOST_VECTORS = 12
# In noise, the least singular value of the equations for a symmetry, relative to the average; those on u alone, with h
# eliminated, have about twice that.
_CLEARLY_APART = 0.05


class _Case:
    """An answer x, its image z and residuals r, and the tolerance δ of each equation."""

    def __init__(self, problem: Problem, B: Transform, x: Float) -> None:
        self.problem, self.B = problem, B
        self.rng = np.random.default_rng(4)
        #: The number of unknowns: the phase of a complex x is none.
        self.unknowns = problem.unknowns
        #: Bounds of the least eigenvalue of J^T J in the norm of B, and of the least singular value of J.
        self.bound = self.seen = 0.0
        #: Another signal that fits as well, if one was found.
        self.rival: Float | None = None
        self.take(x)

    def take(self, x: Float) -> None:
        """Set the answer."""
        self.x, self.norm = x, float(np.linalg.norm(x))
        self.z = self.B.forward(x)
        self.r = self.B.lengths(self.z) ** 2 - self.problem.y

    @property
    def residual(self) -> float:
        return float(np.linalg.norm(self.r) / np.linalg.norm(self.problem.y))

    def rounding(self) -> Float:
        """The tolerance of each equation without noise: its residual, and at least its rounding."""
        square = self.B.lengths(self.z) ** 2
        # A transform rounds relative to the mean of its numbers, not to each.
        scale = square + np.abs(self.problem.y) + float(square.mean())
        share = self.r / scale
        rms = math.sqrt(float(share @ share) / max(1, self.problem.m - self.unknowns))
        return np.maximum(np.abs(self.r), max(rms, 8 * _EPS) * scale)

    def jacobian(self, weights: Float | None = None) -> Jacobian:
        return Jacobian(self.B, self.z, weights)

    def dark(self) -> str:
        """The coordinates that no measurement sees, as a sentence."""
        values = self.B.eigenvalues
        free = np.flatnonzero(values <= 1e-14 * float(values.max()))
        if free.size:
            self.rival = self.x.copy()
            self.rival[free[0]] += self.norm or 1.0
        if self.problem.turning:
            free = np.unique(free // 2)
        return f"Nothing measures {names(free)}: other values fit as well." if free.size else ""

    def clean(self) -> None:
        """Drop the coordinates that differ from zero only by rounding: a bound of their errors is known."""
        m, y = self.problem.m, self.problem.y
        level = max(
            float(np.linalg.norm(self.r)) / math.sqrt(max(1, m - self.unknowns)),
            _EPS * float(np.linalg.norm(y)) / math.sqrt(m),
        )
        size = np.abs(self.x)
        if self.problem.turning:
            size = np.repeat(np.hypot(size[::2], size[1::2]), 2)
        near = (size < _CLEARLY * level / self.seen) & (size > 0)
        if not near.any() or near.all():
            return
        free = np.where(near, 0.0, 1.0) * (size > 0)
        before = self.x
        limit = 2 * max(float(np.linalg.norm(self.r)), 2 * _EPS * float(np.linalg.norm(y)))
        self.take(np.where(near, 0.0, self.x))
        for _ in range(2):
            J = self.jacobian()
            self.take(self.x + J.least_squares(-self.r, 1e-6, 200, free=free))
        if float(np.linalg.norm(self.r)) > limit:
            self.take(before)

    def spans(self, least: float) -> bool:
        """Whether |Bg|² of a random g is more than `least` away from the span of J.

        If `d` leaves the part e of it, then its distance from the span is at least `‖e‖ − ‖J^T e‖/σ` with the least
        singular value σ of J, here in the norm of B.
        """
        g = self.rng.standard_normal(self.problem.n)
        column = self.B.lengths(self.B.forward(g * (self.norm / float(np.linalg.norm(g))))) ** 2
        J = self.jacobian()
        left = column - J.forward(J.least_squares(column, 1e-6, 500))
        slope = float(np.linalg.norm(self.B.scaled(-0.5, J.adjoint(left))))
        shown = float(np.linalg.norm(left)) - slope / math.sqrt(max(self.bound, 1e-300))
        return shown > max(least, _INDEPENDENT * float(np.linalg.norm(column)))

    def full_rank(self, need: float, weights: Float | None = None) -> bool:
        """Whether J sees each direction: a change of x by its norm changes the measurements by more than `need`."""
        J = self.jacobian(weights)
        free = [turned(self.x)] if self.problem.turning else []
        least = J.least(self.rng, without=free)
        self.bound = least.bound
        self.seen = math.sqrt(least.bound * float(self.B.eigenvalues.min()))
        return self.norm * self.seen > need

    # -- other signals --------------------------------------------------------------------------------------------

    def twin(self, delta: Float, limit: float, far: float) -> str:
        """Whether one of the signals that transforms often confuse with x fits as well, as a sentence."""
        for name, twin in self._candidates():
            if self.away(twin) <= far:
                continue
            left = (self.B.lengths(self.B.forward(twin)) ** 2 - self.problem.y) / delta
            if math.sqrt(float(left @ left) / left.size) < limit:
                self.rival = twin
                return f"x {name} fits as well."
        return ""

    def _candidates(self) -> Iterator[tuple[str, Float]]:
        if not self.problem.turning:
            yield "reversed", np.ascontiguousarray(self.x[::-1])
            yield "moved by one", np.roll(self.x, 1)
            yield "moved by one", np.roll(self.x, -1)
            return
        z = self.x.view(np.complex128)
        for name, twin in (
            ("conjugated", z.conj()), ("reversed", z[::-1]), ("reversed and conjugated", z[::-1].conj()),
            ("moved by one", np.roll(z, 1)), ("moved by one", np.roll(z, -1)),
        ):  # fmt: skip
            yield name, np.ascontiguousarray(twin).view(np.float64)

    def away(self, twin: Float) -> float:
        """The relative distance of another signal, up to a sign or a phase."""
        if not self.problem.turning:
            return apart(twin, self.x)
        return float(distance(twin.view(np.complex128), self.x.view(np.complex128)))

    def no_linear_twin(self, least: float) -> bool:
        """Whether no linear map that leaves all measurements as they are moves x.

        `least` is the singular value that the equations must have, relative to the root mean square.
        """
        m, n, B = self.problem.m, self.problem.n, self.B
        # For complex x one vector is not enough: u = ig solves its equation.
        count = min(range(1 + self.problem.turning, _MOST_VECTORS + 1), key=lambda q: _effort(q, (q + 1) * n / (q * m)))
        if (count + 1) * n >= count * m:
            return False
        J = self.jacobian()
        G = self.rng.standard_normal((count, n))
        G *= self.norm / np.linalg.norm(G, axis=1, keepdims=True)
        others = [Jacobian(B, B.forward(g)) for g in G]

        def apply(v: Float) -> Float:
            u, *h = (B.scaled(-0.5, each) for each in v.reshape(count + 1, n))
            image, out = B.forward(u), np.zeros((count + 1, n))
            for t, other in enumerate(others):
                row = other.of_image(image) + J.forward(h[t])
                out[0] += other.adjoint(row)
                out[1 + t] = J.adjoint(row)
            return np.concatenate([B.scaled(-0.5, each) for each in out])

        known = [np.concatenate([self.x, *-G])]
        if self.problem.turning:
            known.append(np.concatenate([turned(self.x) * self.norm, *(turned(g) * self.norm for g in G)]))
            for t in range(count):
                phase = np.zeros((count + 1, n))
                phase[1 + t] = turned(self.x)
                known.append(phase.reshape(-1))
        scaled = [np.concatenate([B.scaled(0.5, each) for each in v.reshape(count + 1, n)]) for v in known]
        found = krylov.least_eigenvalue(apply, (count + 1) * n, self.rng, scaled)
        average = (count * J.typical + sum(each.typical for each in others)) / (count + 1)
        return found.shown and math.sqrt(found.bound / average) > least


def _effort(q: int, ratio: float) -> float:
    """How many products a bound takes with q vectors, if unknowns are to equations as this ratio: Marchenko–Pastur."""
    root = math.sqrt(ratio)
    return (q + 1) * (1 + root) / (1 - root) if root < 1 else math.inf


def certify_by_transform(problem: Problem, x: Float) -> Asks[Certificate | None]:
    """Clean an x that fits to rounding, and show that no other signal fits; None where that is not decided."""
    case = _Case(problem, (yield Factors()), x)
    status = _status(case)
    yield Reread(case.B.products)
    if status is None:
        return None
    # What the residual allows at most; with a residual of rounding it is negligible.
    error = float(np.linalg.norm(case.r)) / (case.seen * case.norm) if case.seen and case.residual > 1e-12 else 0.0
    return Certificate(case.x, case.residual, *status, error, case.rival)


def _status(case: _Case) -> tuple[Status, str] | None:
    problem, m = case.problem, case.problem.m
    if m < case.unknowns:
        return None
    dark = case.dark()
    if dark:
        return Status.AMBIGUOUS, dark
    delta = case.rounding()
    doubt = case.twin(delta, _FITS, _APART)
    if doubt:
        return Status.AMBIGUOUS, doubt
    most = float(delta.max())
    need = math.sqrt(m) / _APART * most
    if not case.full_rank(need):
        return None
    case.clean()
    if m == case.unknowns:
        return Status.UNDECIDED, f"There are {m} measurements for {case.unknowns} unknowns."
    if not case.spans(need) or not case.no_linear_twin(0.0):
        return None
    # On all coordinates: no support was chosen.
    doubt = short_of(np.sort(bits_of(problem.y, case.residual)), case.unknowns, 1 + problem.turning, 0.0)
    return (Status.UNDECIDED if doubt else Status.EXACT), doubt


def doubt_by_transform(problem: Problem, outcome: Outcome, level: float | None) -> Asks[Doubt]:
    """Whether noisy data tell x from clearly different signals, and how well they determine it."""
    case = _Case(problem, (yield Factors()), outcome.x)
    weighed = outcome.stderr is not None
    sigma = max(float(np.linalg.norm(case.r)) / math.sqrt(max(1, problem.m - case.unknowns)), level or 0.0, 1e-300)
    delta = np.full(problem.m, sigma)
    if weighed and problem.noise.unequal:
        delta = problem.deviations(case.r)
    stderr = outcome.stderr
    if stderr is None:
        J = case.jacobian(1 / delta)
        stderr = np.sqrt(sampled_variances(J, case.rng)[0])
    error = float(np.linalg.norm(stderr)) / case.norm
    reason = _doubt(case, delta, max(_APART_IN_NOISE, 3 * (outcome.error or 0.0)))
    yield Reread(case.B.products)
    return Doubt(reason, error, stderr, rival=case.rival)


def twin_by_transform(problem: Problem, outcome: Outcome) -> Asks[Doubt]:
    """Whether a signal that transforms often confuse with x fits as well as a posterior mean does."""
    case = _Case(problem, (yield Factors()), outcome.x)
    level = np.full(problem.m, max(float(np.std(case.r)), 1e-300))
    delta = level if problem.noise.exact or not problem.noise.given else problem.deviations(case.r)
    likely = math.sqrt(float(np.mean((case.r / delta) ** 2)) + _LIKELY / problem.m)
    # What nothing measures is the prior's alone.
    reason = case.dark() or case.twin(delta, likely, max(_APART_IN_NOISE, 3 * (outcome.error or 0.0)))
    yield Reread(case.B.products)
    return Doubt(reason, outcome.error or 0.0, outcome.stderr, rival=case.rival)


def _doubt(case: _Case, delta: Float, far: float) -> str:
    """Why another signal may be right, in noise."""
    dark = case.dark()
    if dark:
        return dark
    if not case.full_rank(1.0, 1 / delta):
        return "It was not shown that the measurements see each direction of x under this noise."
    likely = math.sqrt(float(np.mean((case.r / delta) ** 2)) + _LIKELY / case.problem.m)
    doubt = case.twin(delta, likely, far)
    if doubt or case.no_linear_twin(_CLEARLY_APART):
        return doubt
    return "It was not shown that no symmetry of the measurements turns x into another signal."
