"""Levenberg–Marquardt on a support, or on all coordinates.

The residual `r_i(z) = z^T Ã_i z − y_i` has the Jacobian `2W`, `W[i] = Ã_i z`. A step minimises the linear model with
a damping λ,

    min_d ‖r + 2 W d‖² + λ‖d‖²,     d = −½ (W^T W + λ/4)^{-1} W^T r = −½ W^T (W W^T + λ/4)^{-1} r,

by the smaller of the two systems, or by QR where that is nearly singular. The products V of d then say everything
about the line z + u d: the residual is `r + 2u W d + u² V d`, so the best u is exact (a quartic), and the new W is
`W + u V`. One product a step, and none to check it: no step is rejected, λ follows the ratio of the actual to the
predicted decrease. The last step needs no product: where `V d` is below rounding, `r + 2 W d` is the residual. Nor does
it need a new factor of the matrix, which has changed by no more than the step before was long.

On a support S only `Ã_i[S, S]` matters. It is read once and kept, so further steps read nothing; where it would be
too large to keep, each step asks for the products of d, which reads the rows of S.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, lstsq

from fastquad import checks
from fastquad.measurements.base import Float
from fastquad.solvers import quartic
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import EXACT_RESIDUAL, Block, Outcome, Products, Step, Steps
from fastquad.solvers.spectral import spectral_start

#: A block of A that is kept in memory for the steps of one support takes at most this many bytes.
BLOCK_BYTES = 512 << 20

# Below this reciprocal condition number the normal equations have no correct digit left.
_SINGULAR = 1e-13
# Steps that lower ‖r‖² by less than this share are rounding, or the bottom.
_NEGLIGIBLE = 1e-12
# As small as a relative residual can be expected to get.
_ROUNDING = 1e-15
# The quadratic term of a step may be left out below this share of ‖y‖: a hundredth of rounding, because its size is
# judged by that of other directions.
_INVISIBLE = 1e-18


class Rule(NamedTuple):
    """When Levenberg–Marquardt stops.

    After `max_steps`; at a relative residual below `floor`; or, while it is above 1e-3, when ‖r‖² fell less than
    `factor` times in the last `patience` steps (a start in the wrong valley is worth no more).
    """

    max_steps: int = 60
    patience: int = 60
    factor: float = 4.0
    floor: float = _ROUNDING


class Descent:
    """z, its products W and residual r, and the steps from there; it is fed with the products of its directions."""

    def __init__(self, y: Float, z: Float, W: Float) -> None:
        self.y, self.z, self.W = y, z, W
        self.r: Float = W @ z - y
        self.scale = float(y @ y)
        self.square = float(self.r @ self.r)
        self.curve = [self.square]
        self.damping = 2.5e-3 * float(np.vdot(W, W)) / max(1, z.size) or 1.0
        #: The largest ‖V d‖/‖d‖² so far.
        self.curvature = 0.0
        #: Memory for the next products, and whether W is this descent's own, which may become such memory.
        self.spare: Float | None = None
        self._owned = False
        self._factor: Float | None = None

    @property
    def residual(self) -> float:
        """`‖r‖/‖y‖`."""
        return float(np.sqrt(self.square / self.scale))

    def direction(self) -> Float:
        """The minimiser d of the damped linear model."""
        step, self._factor = _damped_least_squares(self.W, self.r, self.damping)
        return -0.5 * step

    def advance(self, d: Float, V: Float) -> None:
        """Go to the best point of the line z + u d, given the products V of d, which become this descent's own."""
        p, q = self.W.dot(d), V.dot(d)
        p *= 2.0
        terms = quartic.coefficients(self.r, p, q)
        u, change = quartic.minimise_one(*terms)
        # What the step u = 1 brings, by the linear model and in truth.
        predicted = -terms[0] - float(p.dot(p))
        ratio = -sum(terms) / predicted if predicted > 0 else 0.0
        length = float(d.dot(d))
        self.curvature = max(self.curvature, math.sqrt(terms[3]) / length if length > 0 else math.inf)
        self.spare = V
        if change < 0:
            self.z = self.z + u * d
            V *= u
            V += self.W
            self.W, self.spare, self._owned = V, self.W if self._owned else None, True
            self._set_residual(self.W.dot(self.z) - self.y)
        self.curve.append(self.square)
        self.damping *= 1e-2 if ratio > 0.9 else 0.1 if ratio > 0.6 else 1.0 if ratio > 0.25 else 10.0

    def ends(self) -> bool:
        """Go to the end, where z is exact already and one step is left whose products would change nothing.

        It is solved for with the factor of the step before. Where that is too old to make r vanish, or where d is not
        short enough, nothing is done.
        """
        if self._factor is None or self.residual >= EXACT_RESIDUAL:
            return False
        d = -0.5 * lapack.dpotrs(self._factor, self.r.dot(self.W), lower=1)[0]
        model = self.r + 2 * self.W.dot(d)
        if float(model.dot(model)) > _ROUNDING**2 * self.scale:
            return False
        if self.curvature * float(d.dot(d)) > _INVISIBLE * math.sqrt(self.scale):
            return False
        self.z = self.z + d
        self._set_residual(model)
        self.curve.append(self.square)
        return True

    def _set_residual(self, r: Float) -> None:
        self.r, self.square = r, float(r.dot(r))

    def finished(self, rule: Rule) -> bool:
        """Whether another step is of no use."""
        curve, steps = self.curve, len(self.curve) - 1
        if steps >= rule.max_steps or self.residual < rule.floor or not np.isfinite(self.square):
            return True
        if steps >= 2 and curve[-3] - curve[-1] <= _NEGLIGIBLE * curve[-3]:
            return True
        # At the level of rounding ‖r‖ wanders: nothing is left to gain once it no longer halves.
        if steps >= 1 and self.residual < 1e-12 and curve[-1] > 0.25 * curve[-2]:
            return True
        slow = steps >= rule.patience and curve[-1 - rule.patience] < rule.factor * curve[-1]
        return slow and self.residual > 1e-3


def _damped_least_squares(W: Float, r: Float, damping: float) -> tuple[Float, Float | None]:
    """The d that minimises `‖W d − r‖² + damping ‖d‖²`, and the Cholesky factor of `W^T W + damping` if it was used."""
    m, s = W.shape
    if s == 0:  # a support that m = 1 measurement leaves room for
        return np.zeros(0), None
    tall = m >= s
    gram = W.T @ W if tall else W @ W.T
    size = gram.shape[0]
    gram.reshape(-1)[:: size + 1] += damping
    # Eigenvalues are between the damping and the trace: that rules a singular matrix out, but for the last steps.
    regular = damping > _SINGULAR * size * float(gram.trace())
    norm = 0.0 if regular else float(np.abs(gram).sum(axis=0).max())
    factor, solution, info = lapack.dposv(gram.T, r.dot(W) if tall else r, lower=1, overwrite_a=1)
    if info == 0 and (regular or lapack.dpocon(factor, norm, uplo="L")[0] > _SINGULAR):
        return (solution, factor) if tall else (solution.dot(W), None)
    padded = np.concatenate([W, np.sqrt(damping) * np.eye(s)])
    return lstsq(padded, np.concatenate([r, np.zeros(s)]), lapack_driver="gelsy", check_finite=False)[0], None


@dataclass
class GrowingBlock:
    """`Ã_i[P, P]` for a set P of coordinates that grows; no pair is read twice."""

    m: int
    max_bytes: int = BLOCK_BYTES
    members: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    array: Float = field(default_factory=lambda: np.zeros((0, 0, 0)))

    @classmethod
    def within(cls, problem: Problem) -> GrowingBlock:
        """One that keeps to the memory of a problem."""
        return cls(problem.m, min(BLOCK_BYTES, problem.memory // 16))

    def affordable(self, support: NDArray[np.intp]) -> bool:
        """Whether this support's block can be kept in memory."""
        total = np.union1d(self.members, support).size
        return 8 * self.m * total**2 <= self.max_bytes

    def read(self, support: NDArray[np.intp]) -> Generator[Any, Any, Float]:
        """`Ã_i[S, S]`, (m, s, s); only pairs that were not read before are asked for."""
        new = np.setdiff1d(support, self.members)
        if new.size:
            old = self.members.size
            members = np.concatenate([self.members, new])
            fresh = yield Block(new, members)
            array = np.empty((self.m, members.size, members.size))
            if old:
                array[:, :old, :old] = self.array
            array[:, old:, :] = fresh
            array[:, :old, old:] = fresh[:, :, :old].transpose(0, 2, 1)
            self.members, self.array = members, array
        where = np.empty(int(self.members.max(initial=0)) + 1, dtype=np.intp)
        where[self.members] = np.arange(self.members.size)
        position = where[support]
        if position.size == self.members.size and (position == np.arange(position.size)).all():
            return self.array
        return np.ascontiguousarray(self.array[:, position[:, None], position])


def on_block(y: Float, z: Float, block: Float, rule: Rule) -> Descent:
    """Levenberg–Marquardt with all of `Ã_i[S, S]`, (m, s, s), in memory: z (s,) is the start."""
    m, s, _ = block.shape
    flat = block.reshape(m * s, s)
    descent = Descent(y, z, (flat @ z).reshape(m, s))
    while not (descent.finished(rule) or descent.ends()):
        d = descent.direction()
        descent.advance(d, (flat @ d).reshape(m, s))
    return descent


class Fit(NamedTuple):
    """A signal and what was found of it: the end of a descent, as other stages use it."""

    x: Float
    residual: float
    support: NDArray[np.intp]
    W: Float
    r: Float


def fit(
    problem: Problem, x: Float, support: NDArray[np.intp], rule: Rule, cache: GrowingBlock | None = None
) -> Generator[Any, Any, Fit]:
    """Levenberg–Marquardt from x on a support, a `Step` each.

    W of the result has the support's columns only, r is `A(xx^T) − y`.
    """
    cache = cache if cache is not None else GrowingBlock.within(problem)
    support = np.asarray(support, dtype=np.intp)
    m, s = problem.m, support.size
    # Up to here the block is cheaper to read than two passes over the support's rows.
    small = s <= 0.9 * problem.n and cache.affordable(support)
    flat = (yield from cache.read(support)).reshape(m * s, s) if small else None

    def products(d: Float, out: Float | None = None) -> Generator[Any, Any, Float]:
        """The products of d on the support: from the block, or from A."""
        if flat is not None:
            return (flat @ d).reshape(m, s)
        W = yield Products(_expand(d, support, problem.n), out=out)
        return W if s == problem.n else np.ascontiguousarray(W[:, support])

    z = x[support]
    descent = Descent(problem.y, z, (yield from products(z)))
    yield Step(_expand(descent.z, support, problem.n), descent.residual)
    while not descent.finished(rule):
        last = descent.ends()
        if not last:
            d = descent.direction()
            descent.advance(d, (yield from products(d, descent.spare if s == problem.n else None)))
        yield Step(_expand(descent.z, support, problem.n), descent.residual)
        if last:
            break
    return Fit(_expand(descent.z, support, problem.n), descent.residual, support, descent.W, descent.r)


def _expand(z: Float, support: NDArray[np.intp], n: int) -> Float:
    """The vector of length n with values z on the support."""
    if z.size == n:
        return z
    x = np.zeros(n)
    x[support] = z
    return x


@dataclass(frozen=True, kw_only=True)
class LM(Solver):
    """Levenberg–Marquardt on a given support, or on all coordinates.

    Without a support it uses no prior, and is right for m >= 1.3 n: about 7 passes where gradient methods need
    hundreds. With a support of s coordinates it reads their s×s block once and nothing more. Starts from `x0`, or from
    the spectral vector of the support. It stops at a relative residual of 1e-15, or where two steps lower ‖r‖² by less
    than 1e-12 of it; with noise that is *converged* if the fit is far better than chance, with at least twice as many
    measurements as coordinates.

    Parameters
    ----------
    support : list of int, optional
        The coordinates that may be nonzero; default: as in the prior, or all.
    max_steps : int
        At most so many steps.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=20, rng=0)
    >>> fq.solve(problem.A, problem.y, method=fq.LM()).status.name
    'EXACT'
    """

    name: ClassVar[str] = "lm"
    uses_support: ClassVar[bool] = True

    support: Any = None
    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.support is not None:
            object.__setattr__(self, "support", checks.indices(self.support, "support"))
        checks.count(self.max_steps, "max_steps")

    def steps(self, problem: Problem) -> Steps:
        given = problem.support if self.support is None else self.support
        support = np.arange(problem.n) if given is None else np.asarray(given, dtype=np.intp)
        if support[-1] >= problem.n:
            raise ValueError(f"`support` must lie between 0 and {problem.n - 1}, got {support[-1]}.")
        x = problem.x0
        if x is None:
            x, _ = yield from spectral_start(problem.y, problem.n, problem.phi, alpha=None, within=support)
        found = yield from fit(problem, x, support, Rule(max_steps=self.max_steps))
        settled = stationary(found) and dense_score(problem, found.residual, support.size) < 0
        level = found.residual * float(np.linalg.norm(problem.y)) / max(1, problem.m - support.size) ** 0.5
        return Outcome(found.x, found.residual, converged=settled, free=support.size, noise=level if settled else None)


def stationary(found: Fit) -> bool:
    """Whether the gradient vanishes: the residual is orthogonal to the columns of the Jacobian."""
    gradient = float(np.linalg.norm(found.r @ found.W))
    return gradient <= 1e-6 * float(np.linalg.norm(found.W) * np.linalg.norm(found.r))


def dense_score(problem: Problem, residual: float, s: int) -> float:
    """The BIC, plus m/3, of a fit on s coordinates that were not chosen by looking at y; below 0 it is convincing.

    It is infinite for m < 2 s: there the wrong valleys of ‖r‖² fit almost as well as the right one.
    """
    m = problem.m
    if m < 2 * s:
        return float("inf")
    spread = max(float(np.var(problem.y)) / float(np.mean(problem.y**2)), 1e-300)
    variance = max(residual, EXACT_RESIDUAL) ** 2 * m / (m - s)
    return m * float(np.log(variance / spread)) + s * float(np.log(m)) + m / 3
