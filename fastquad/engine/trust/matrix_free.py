"""The verdict's tests where A is known by its verbs alone: `measure`, `along` and `gradient`; no matrix is formed.

An answer that fits to rounding is certified if

    jacobian   J has full rank, beside ix for complex x: a bound of its least singular value is larger than the
    tolerance span       the values of a random signal are not in the span of J: more measurements are independent than
    there are
               unknowns
    twins      x conjugated, reversed, or moved by one does not fit
    rivals     descents from random starts end at x, or do not fit

The bound of the least singular value is Lanczos' from a random start, and holds but for a chance of 2^−20
(`fastquad.numerics.krylov`). The last test is no proof: it finds a signal that attracts a share p of all starts with a
chance of 1 − (1 − p)^k, with k starts. Where matrices have a symmetry its twin attracts as many as x does.

In noise the first and the last two decide, each measured in standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Outcome
from fastquad.engine.trust.certificate import Certificate, Doubt
from fastquad.measurements.contractions import Verbs
from fastquad.numerics.forms import FormDescent, Forms, JacobianAt
from fastquad.numerics.levenberg_marquardt import Rule, turned
from fastquad.solution import Status, distance
from fastquad.typing import Asks, Float

_EPS = float(np.finfo(np.float64).eps)
# Random starts: a twin that attracts as many as x does is missed in 1 of 256 problems. For more coordinates than a
# thousand, as many as take about as long as that (guess): Pauli strings of 10 qubits 4, in 20 s.
_STARTS, _COORDINATES = 8, 8192
_RULE = Rule(max_steps=120, patience=8, factor=1.02)
# The relative distance of another signal, without noise and in noise.
_APART, _APART_IN_NOISE = 1e-3, 0.1
# The distance at which a descent has come back to x: signals that are nearer are told apart by the rank of J (guess).
_NEAR = 0.1
# How well it fits without noise, in units of the tolerance: that of `by_transform`.
_FITS = 30.0
# How much worse than x another signal must fit in noise, in squares of a standard deviation: that of `by_transform`.
_LIKELY = 30.0
# The share of the values of a random signal that is not in the span of J.
_INDEPENDENT = 1e-4

_UNSEEN = (
    "x fits to rounding, but the measurements see some direction of x too little to show, by derivatives, that no "
    "other signal near x fits."
)


class _Case:
    """An answer x with its residuals r."""

    def __init__(self, problem: Problem, forms: Forms, x: Float) -> None:
        self.problem, self.forms, self.x = problem, forms, x
        self.rng = np.random.default_rng(4)
        self.norm = float(np.linalg.norm(x))
        values = forms.measure(x)
        self.r = values - problem.y
        #: Rounding of the measurements: relative to their root mean square, as sums round.
        self.rounding = max(8 * _eps(problem), 1e-15) * float(np.sqrt(np.mean(values**2)))
        self.bound = 0.0

    def tolerance(self) -> Float:
        """The tolerance of each equation without noise: its residual, and at least its rounding."""
        spare = max(1, self.problem.m - self.problem.unknowns)
        return np.maximum(np.abs(self.r), max(float(np.linalg.norm(self.r)) / math.sqrt(spare), self.rounding))

    @property
    def phase(self) -> list[Float]:
        """The direction that no measurement sees: that of the phase of a complex signal."""
        return [turned(self.x)] if self.problem.turning else []

    def full_rank(self, need: float, weights: Float | None = None) -> bool:
        """Whether J sees each direction: a change of x by its norm changes the measurements by more than `need`."""
        least = JacobianAt(self.forms, self.x, weights).least(self.rng, self.phase)
        self.bound = least.bound
        return self.norm * math.sqrt(least.bound) > need

    def spans(self, least: float) -> bool:
        """Whether the values of a random signal are further than `least` from the span of J: see `by_transform`."""
        g = self.rng.standard_normal(self.problem.n)
        column = self.forms.measure(g * (self.norm / float(np.linalg.norm(g))))
        J = JacobianAt(self.forms, self.x)
        left = column - J.forward(J.least_squares(column, 1e-6, 500))
        shown = float(np.linalg.norm(left)) - float(np.linalg.norm(J.adjoint(left))) / math.sqrt(
            max(self.bound, 1e-300)
        )
        return shown > max(least, _INDEPENDENT * float(np.linalg.norm(column)))

    def away(self, other: Float) -> float:
        """The relative distance of another signal, up to a sign or a phase."""
        if self.problem.turning:
            return float(distance(other.view(np.complex128), self.x.view(np.complex128)))
        return min(float(np.linalg.norm(other - sign * self.x)) for sign in (1, -1)) / self.norm

    def rival(self, delta: Float, limit: float, far: float) -> tuple[str, Float | None]:
        """Another signal that fits as well, and how it was found, as a sentence."""
        for name, other in _twins(self.x, self.problem.turning):
            if self.away(other) > far and self._misfit(self.forms.measure(other), delta) < limit:
                return f"x {name} fits as well.", other
        weights = float(delta.min()) / delta
        for _ in range(max(1, min(_STARTS, _COORDINATES // self.problem.n))):
            x = self.rng.standard_normal(self.problem.n)
            x *= self.norm / float(np.linalg.norm(x))
            descent = FormDescent(self.forms, self.problem.y, x, self.rng, weights if np.ptp(delta) > 0 else None)
            # One that comes near x goes on to x, which takes most of its steps.
            while not descent.finished(_RULE) and self.away(descent.x) > _NEAR:
                descent.step()
            apart = self.away(descent.x)
            if apart <= _NEAR:
                continue
            if self._misfit(descent.r + self.problem.y, delta) < limit:
                return (
                    f"Another signal, {apart:.2g} away, fits as well: a descent from a random start found it.",
                    descent.x,
                )
        return "", None

    def _misfit(self, values: Float, delta: Float) -> float:
        """The root mean square of the residuals of another signal, in units of the tolerances."""
        return float(np.sqrt(np.mean(((values - self.problem.y) / delta) ** 2)))


def certify_matrix_free(problem: Problem, x: Float) -> Asks[Certificate]:
    """Show that no other signal fits than an x that fits to rounding; the status says how far that was shown."""
    forms = yield Verbs()
    case = _Case(problem, forms, x)
    found = _status(case)
    yield Reread(forms.uncharged())
    return found


def _status(case: _Case) -> Certificate:
    problem, delta = case.problem, case.tolerance()
    residual = float(np.linalg.norm(case.r) / np.linalg.norm(problem.y))
    # A tolerance for all: that of a single equation may be its own small residual.
    flat = np.full(problem.m, float(np.sqrt(np.mean(delta**2))))
    reason, twin = case.rival(flat, _FITS, _APART)
    if reason:
        return Certificate(case.x, residual, Status.AMBIGUOUS, reason, twin=twin)
    need = math.sqrt(problem.m) / _APART * float(delta.max())
    if not case.full_rank(need):
        return Certificate(case.x, residual, Status.UNDECIDED, _UNSEEN)
    # What the residual allows at most; with a residual of rounding it is negligible.
    error = float(np.linalg.norm(case.r)) / (math.sqrt(case.bound) * case.norm) if residual > 1e-12 else 0.0
    if not case.spans(need):
        said = f"There are {problem.m} measurements for {problem.unknowns} unknowns, and no more are independent."
        return Certificate(case.x, residual, Status.UNDECIDED, said, error)
    return Certificate(case.x, residual, Status.EXACT, "", error)


def doubt_matrix_free(problem: Problem, outcome: Outcome, level: float | None) -> Asks[Doubt]:
    """Whether noisy data tell x from clearly different signals, and how well they determine it."""
    forms = yield Verbs()
    case = _Case(problem, forms, outcome.x)
    spare = math.sqrt(max(1, problem.m - problem.unknowns))
    sigma = max(float(np.linalg.norm(case.r)) / spare, level or 0.0, 1e-300)
    delta = np.full(problem.m, sigma)
    if problem.noise.unequal:
        delta = problem.deviations(case.r)
    stderr = outcome.stderr
    if stderr is None:
        stderr = np.sqrt(JacobianAt(forms, outcome.x, 1 / delta).sampled(case.rng)[0])
    error = float(np.linalg.norm(stderr)) / case.norm
    reason = ""
    if not case.full_rank(1.0, 1 / delta):
        reason = "It was not shown that the measurements see each direction of x under this noise."
    else:
        likely = math.sqrt(float(np.mean((case.r / delta) ** 2)) + _LIKELY / problem.m)
        far = max(_APART_IN_NOISE, 3 * max(error, outcome.error or 0.0))
        reason, outcome.rival = case.rival(delta, likely, far)
    yield Reread(forms.uncharged())
    return Doubt(reason, error, stderr)


def _twins(x: Float, turning: bool) -> Iterator[tuple[str, Float]]:
    """The signals that measurements often confuse with x."""
    z = x.view(np.complex128) if turning else x
    if turning:
        yield "conjugated", np.ascontiguousarray(z.conj()).view(np.float64)
        yield "reversed and conjugated", np.ascontiguousarray(z[::-1].conj()).view(np.float64)
    for name, other in (("reversed", z[::-1]), ("moved by one", np.roll(z, 1)), ("moved by one", np.roll(z, -1))):
        yield name, np.ascontiguousarray(other).view(np.float64)


def _eps(problem: Problem) -> float:
    return max(_EPS, float(np.finfo(problem.dtype).eps))
