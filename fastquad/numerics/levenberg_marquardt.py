"""Levenberg–Marquardt for quadratic equations, with an exact line search.

The residual `r_i(z) = z^T Ã_i z − y_i` has the Jacobian `2W`, `W[i] = Ã_i z`. A step minimises the linear model with
a damping λ,

    min_d ‖r + 2 W d‖² + λ‖d‖²,     d = −½ (W^T W + λ/4)^{-1} W^T r = −½ W^T (W W^T + λ/4)^{-1} r,

by the smaller of the two systems, or by QR if that is nearly singular. The phase of a complex z (Re and Im in turn)
changes nothing, so that direction is pinned: see `_damped_least_squares`. The products V of d determine the whole line
z + u d: the residual is `r + 2u W d + u² V d`, so the best u is exact (a quartic), and the new W is `W + u V`. A step
takes one product, and none to check it: no step is rejected, and λ follows the ratio of the actual to the predicted
decrease. The last step needs no product: if `V d` is below rounding, `r + 2 W d` is the residual. Nor does it need a
new factor of the matrix, which has hardly changed since the step before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastquad._kernels import descent as kernels
from fastquad._kernels.gram import damped
from fastquad.numerics import lapack, quartic
from fastquad.numerics.gram import cached, gram
from fastquad.system.deadline import check
from fastquad.typing import Float, Indices

# The reciprocal condition number below which the normal equations have no correct digit left.
_SINGULAR = 1e-13
# The least square of a pivot, as a share of the trace, at which its matrix is not asked for its condition.
_CLEARLY_REGULAR = 1e-8

# The relative decrease of ‖r‖² below which a step is rounding, or at the bottom of a valley.
_NEGLIGIBLE = 1e-12


# The relative residual at which nothing but rounding is left.
_ROUNDING = 1e-15


# The relative residual below which one more step is the last.
_LAST_STEP = 1e-9
# The share of ‖y‖ below which the quadratic term of a step may be left out: a hundredth of rounding, because its size
# is estimated from that of other directions.
_INVISIBLE = 1e-18


# The share of the mean eigenvalue of W^T W below which damping hardly changes a step.
_WEAK = 1e-2


class Rule(NamedTuple):
    """When Levenberg–Marquardt stops.

    After `max_steps`; at a relative residual below `floor`; or, while it is above 1e-3, when ‖r‖² fell less than
    `factor` times in the last `patience` steps (a start in the wrong valley is not worth more steps); or, while it is
    above `above`, when a step that is hardly damped promises to lower ‖r‖² by less than the share `bottom`.
    """

    max_steps: int = 60
    patience: int = 60
    factor: float = 4.0
    floor: float = _ROUNDING
    bottom: float = 0.0
    above: float = 1e-3


class Descent:
    """A descent: z, its products W and residual r; the caller supplies the products of each direction.

    If `free` is given, only these coordinates of z move; the others keep their values. `turning` says that z is a
    complex signal, Re and Im in turn, which is known up to a phase.
    """

    def __init__(self, y: Float, z: Float, W: Float, free: Indices | None = None, *, turning: bool = False) -> None:
        self.y, self.z, self.W, self.free = y, z, W, free
        self.turning = turning and free is None
        self.r: Float = W @ z - y
        self.square = float(self.r @ self.r)
        #: What ‖r‖² is relative to: ‖y‖², and if that is zero what the start leaves.
        self.scale = float(y @ y) or self.square or 1.0
        self.curve = [self.square]
        self.damping = 2.5e-3 * float(np.vdot(W, W)) / max(1, z.size) or 1.0
        #: The largest ‖V d‖/‖d‖² so far.
        self.curvature = 0.0
        #: The products of the last direction; the caller may write the next ones there.
        self.last: Float | None = None
        # Whether W is this descent's own.
        self._owned = False
        self._factor: Float | None = None

    @property
    def residual(self) -> float:
        """`‖r‖/‖y‖`."""
        return math.sqrt(self.square / self.scale)

    def direction(self) -> Float:
        """The minimiser d of the damped linear model."""
        pinned = turned(self.z) if self.turning else None
        step, self._factor = _damped_least_squares(self._columns(), self.r, self.damping, pinned)
        return self._placed(-0.5 * step)

    def at_bottom(self, d: Float, rule: Rule) -> bool:
        """Whether the step d is useless: hardly damped, and the linear model promises next to nothing."""
        if rule.bottom == 0 or self.residual <= rule.above:
            return False
        if self.damping * max(1, self.z.size) > _WEAK * float(np.vdot(self.W, self.W)):
            return False
        p = 2 * self.W.dot(d)
        return -float((2 * self.r + p).dot(p)) < rule.bottom * self.square

    def _columns(self) -> Float:
        """The columns of W for the coordinates that move."""
        return self.W if self.free is None else np.take(self.W, self.free, axis=1)  # row by row, as the kernels need it

    def _placed(self, step: Float) -> Float:
        """A step of the coordinates that move, as a vector of all coordinates."""
        if self.free is None:
            return step
        d = np.zeros_like(self.z)
        d[self.free] = step
        return d

    def advance(self, d: Float, V: Float) -> None:
        """Go to the best point of the line z + u d, given the products V of d, which become this descent's own."""
        W = self._own()
        rp, pp, rq, pq, qq = kernels.terms(W, V, d, self.r)
        terms = 2 * rp, pp + 2 * rq, 2 * pq, qq
        u, change, factor = best_on_line(terms, pp)
        length = float(d.dot(d))
        self.curvature = max(self.curvature, math.sqrt(qq) / length if length > 0 else math.inf)
        self.last = V
        if change < 0:
            self.z = self.z + u * d
            self.square = kernels.move(V, u, self.z, self.y, W, self.r)
        self.curve.append(self.square)
        self.damping *= factor

    def _own(self) -> Float:
        """W as memory that may be written to: what the caller gave is copied once."""
        if not self._owned:
            self.W, self._owned = np.array(self.W, dtype=np.float64, order="C"), True
        return self.W

    def ends(self) -> bool:
        """Take the last step, if z is nearly exact and the products of the step would change nothing.

        The step is solved for with the factor of the step before. If that is too old to make r vanish, or if d is not
        short enough, nothing is done and False is returned.
        """
        if self._factor is None or self.residual >= _LAST_STEP:
            return False
        d = self._placed(-0.5 * lapack.dpotrs(self._factor, self.r.dot(self._columns()), lower=1)[0])
        model = self.r + 2 * self.W.dot(d)
        if float(model.dot(model)) > _ROUNDING**2 * self.scale:
            return False
        if self.curvature * float(d.dot(d)) > _INVISIBLE * math.sqrt(self.scale):
            return False
        self.z = self.z + d
        self.r, self.square = model, float(model.dot(model))
        self.curve.append(self.square)
        return True

    def finished(self, rule: Rule) -> bool:
        """Whether another step is useless."""
        return finished(self.curve, self.scale, rule)


def best_on_line(terms: tuple[float, float, float, float], pp: float) -> tuple[float, float, float]:
    """The best step u along a line, by how much ‖r‖² changes, and the factor of the damping for the next one.

    `terms` are the coefficients of ‖r(u)‖² − ‖r(0)‖², `pp` is ‖p‖² of its linear part. What is compared is the decrease
    of the full step u = 1 in truth and by the linear model.
    """
    u, change = quartic.minimise_one(*terms)
    expected = -terms[0] - pp
    ratio = -sum(terms) / expected if expected > 0 else 0.0
    return u, change, 1e-2 if ratio > 0.9 else 0.1 if ratio > 0.6 else 1.0 if ratio > 0.25 else 10.0


def finished(curve: list[float], scale: float, rule: Rule) -> bool:
    """Whether another step is useless, given ‖r‖² after each step so far and ‖y‖²."""
    steps = len(curve) - 1
    if steps >= rule.max_steps or not math.isfinite(curve[-1]):
        return True
    residual = math.sqrt(curve[-1] / scale)
    if residual < rule.floor:
        return True
    if steps >= 2 and curve[-3] - curve[-1] <= _NEGLIGIBLE * curve[-3]:
        return True
    # At the level of rounding ‖r‖ fluctuates: stop once it no longer halves.
    if steps >= 1 and residual < 1e-12 and curve[-1] > 0.25 * curve[-2]:
        return True
    slow = steps >= rule.patience and curve[-1 - rule.patience] < rule.factor * curve[-1]
    return slow and residual > 1e-3


def turned(z: Float) -> Float:
    """The unit vector along iz for z = (Re, Im, Re, …): turning the phase of z changes no measurement."""
    u = np.empty_like(z)
    u[::2], u[1::2] = -z[1::2], z[::2]
    return u / (math.sqrt(float(z @ z)) or 1.0)


def _damped_least_squares(
    W: Float, r: Float, damping: float, pinned: Float | None = None
) -> tuple[Float, Float | None]:
    """The d that minimises `‖W d − r‖² + damping ‖d‖²`, and the Cholesky factor of `W^T W + damping` if it was used.

    `pinned` is a unit vector u with W u = 0, which would make the matrix singular: t uu^T is added to it, with t as
    large as the other eigenvalues. Because W^T r has no component along u, d stays the same.
    """
    m, s = W.shape
    if s == 0:  # with one measurement, the support may be empty
        return np.zeros(0), None
    tall = m >= s
    if tall and pinned is None and cached(W):
        factor, solution = np.empty((s, s)), np.empty(s)
        if damped(W, r, damping, factor, solution) > _CLEARLY_REGULAR:
            return solution, factor.T
    square = gram(W) if tall else W @ W.T
    size = square.shape[0]
    if pinned is not None and tall:
        square += float(square.trace()) / s * np.multiply.outer(pinned, pinned)
    square.reshape(-1)[:: size + 1] += damping
    # All eigenvalues are between the damping and the trace, so only the last steps can meet a singular matrix.
    trace = float(square.trace())
    factor, solution, info = lapack.dposv(square.T, r.dot(W) if tall else r, lower=1, overwrite_a=1)
    if info == 0 and (damping > _SINGULAR * size * trace or _regular(factor, trace)):
        return (solution, factor) if tall else (solution.dot(W), None)
    padded = np.concatenate([W, np.sqrt(damping) * np.eye(s)])
    return lapack.lstsq(padded, np.concatenate([r, np.zeros(s)]), lapack_driver="gelsy", check_finite=False)[0], None


def _regular(factor: Float, trace: float) -> bool:
    """Whether a matrix of this trace is far from singular, by its Cholesky factor, whose upper half is not looked at.

    Its diagonal nearly always tells: if a pivot is small, LAPACK estimates the condition. The trace of a positive
    definite matrix is at least its largest eigenvalue.
    """
    least = float(factor.diagonal().min()) ** 2
    return least > _CLEARLY_REGULAR * trace or bool(lapack.dpocon(factor, trace, uplo="L")[0] > _SINGULAR)


def on_block(
    y: Float, z: Float, block: Float, rule: Rule, *, free: Indices | None = None, turning: bool = False
) -> Descent:
    """Levenberg–Marquardt with all of `Ã_i[S, S]`, (m, s, s), in memory: z (s,) is the start."""
    m, s, _ = block.shape
    flat = block.reshape(m * s, s)
    return by_products(y, z, lambda d: (flat @ d).reshape(m, s), rule, free=free, turning=turning)


def by_products(
    y: Float,
    z: Float,
    products: Callable[[Float], Float],
    rule: Rule,
    *,
    free: Indices | None = None,
    turning: bool = False,
) -> Descent:
    """Levenberg–Marquardt from z (s,); `products(d)` gives `Ã_i[S, S] d`, (m, s), in memory of its own."""
    descent = Descent(y, z, products(z), free, turning=turning)
    while not (descent.finished(rule) or descent.ends()):
        check()
        d = descent.direction()
        descent.advance(d, products(d))
    return descent
