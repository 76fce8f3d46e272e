"""Thresholded Wirtinger flow (algorithm 2 of the paper), and Wirtinger flow.

Gradient descent on `f(z) = Σ_i (z^T A_i z − y_i)² / (4m)` from a spectral start, each step followed by a
thresholding that keeps the iterate sparse. One pass over A gives all of it, with `W = products(z)`:

    r = W z − y,    ∇f = W^T r / m,    τ = sqrt(β Σ_i r_i²) ‖z‖ / m,    z ← T_{tτ}(z − t ∇f),    t = μ/φ².

τ is √β standard deviations of a gradient entry outside the support, and it falls with the residual, so the steps
lead to x itself and not to a shrunken copy. Wirtinger flow is the same with β = 0. With a known support S (the
paper's TWF-S), the support estimate, the start and the gradient are restricted to S. Where no coordinate is
negative, each step ends with `max(z, 0)`, and the start is turned to where most of it is positive.

An exact line search takes for t the minimiser of the quartic f(z − t∇f), for which it needs `products(∇f)`: two
passes per step. In Wirtinger flow the next products are then known by linearity, and one pass remains.
"""

from __future__ import annotations

import math
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastquad import arguments
from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Note, Outcome, Snapshot, Step, Steps
from fastquad.measurements.contractions import Products
from fastquad.numerics import quartic
from fastquad.numerics.shrinkage import Shrinkage, grouped, shrinkage
from fastquad.solvers.base import DIVERGED, Solver, negligible_step, options
from fastquad.solvers.parts.spectral import EMPTY_SUPPORT_NOTE, spectral_start
from fastquad.typing import Asks, Float

# The number of steps after which products are computed again: updated by linearity, they accumulate rounding errors.
_REFRESH = 50
_STEP_SIZES = ("damped", "constant", "exact")
_STARTS = ("estimated", "full")


@options
class _Flow(Solver):
    """The options and the loop that TWF and WF share."""

    uses_support: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = frozenset({"nonnegative"})
    max_iter: ClassVar[int | None] = 4000

    alpha: float = 0.5
    mu: float = 0.1
    step: str = "damped"
    start: str = "estimated"

    def __post_init__(self) -> None:
        arguments.number(self.alpha, "alpha")
        arguments.number(self.mu, "mu", positive=True)
        arguments.choice(self.step, "step", _STEP_SIZES)
        arguments.choice(self.start, "start", _STARTS)

    def steps(self, problem: Problem) -> Steps:
        y, m, tol = problem.y, problem.m, problem.tol
        y_norm, outside = math.sqrt(y @ y), _outside(problem)
        negligible = negligible_step(tol)
        unit, exact = self.mu / (m * problem.phi**2), self.step == "exact"
        beta, shrink = self._thresholding()
        if shrink is not None and problem.groups is not None:
            shrink = grouped(shrink, problem.groups, beta)
        positive = problem.prior is not None and not problem.prior.signed
        carried = exact and shrink is None and not positive
        if problem.resume is not None:
            x, first, limit, empty = (problem.resume[name] for name in ("x", "t", "limit", "empty"))
        else:
            x, empty = yield from self._start(problem)
            x = _turned(x) if positive else x
            first, limit = 0, math.inf
        W, age = (yield Products(x)), 0
        for t in count(first):
            r = W.dot(x) - y
            r_square, x_square = r.dot(r), x.dot(x)
            residual = math.sqrt(r_square) / y_norm
            if residual < tol and age:
                # Confirm convergence with fresh products, not with those updated by linearity.
                W, age = (yield Products(x)), 0
                continue
            yield Step(x, residual)
            if residual < tol:
                return Outcome(x, residual, End.CONVERGED)
            if t == 0:
                limit = DIVERGED * max(1.0, residual)
            elif residual > limit:
                return Outcome(x, residual, End.DIVERGED)
            slope = r.dot(W)  # m ∇f
            if outside is not None:
                slope[outside] = 0.0
            damping = 0.5 ** (t // 1000) if self.step == "damped" else 1.0
            size = unit * damping
            if exact:
                V = yield Products(slope)
                size = -quartic.along(r, 2 * (W @ slope), V @ slope)[0]
            new = x - size * slope
            if shrink is not None:
                # Use |t|: the minimum of the quartic may lie uphill, across a ridge, where t is negative.
                new = shrink(new, abs(size) * math.sqrt(beta * r_square * x_square))
            if positive:
                new = np.maximum(new, 0.0)
            move = new - x
            if move.dot(move) <= (negligible * damping) ** 2 * x_square:
                return Outcome(x, residual, End.EMPTY_SUPPORT if empty else End.STAGNATED)
            x = new
            if carried and age < _REFRESH:
                W, age = W - size * V, age + 1
            else:
                if not carried:
                    yield Snapshot({"x": x, "t": t + 1, "limit": limit, "empty": empty})
                W, age = (yield Products(x, out=W)), 0
        raise AssertionError("unreachable")

    def _start(self, problem: Problem) -> Asks[tuple[Float, bool]]:
        """The first iterate, and whether the support estimate was empty."""
        within = problem.support
        if problem.x0 is not None:
            x = problem.x0
            if within is not None:
                x = np.zeros(problem.n)
                x[within] = problem.x0[within]
                if not x.any():
                    raise ValueError("`x0` must not be zero on the support.")
            return x, False
        alpha = self.alpha if self.start == "estimated" else None
        x, empty = yield from spectral_start(
            problem.y, problem.n, problem.phi, alpha=alpha, within=within, count=problem.entries
        )
        if empty:
            yield Note(EMPTY_SUPPORT_NOTE)
        return x, empty

    def _thresholding(self) -> tuple[float, Shrinkage | None]:
        """β, and the operator that follows a gradient step."""
        return 0.0, None


@options
class WF(_Flow):
    """Wirtinger flow: gradient descent from a spectral start, for m comfortably above n.

    Stops when ‖r‖/‖y‖ < `tol` (converged), when a step is at most 0.01 tol (μ_t/μ) ‖x‖ (stagnated), or after 4000 steps
    unless `solve` is given `max_iter`. A step takes one pass over A.

    Parameters
    ----------
    alpha : float
        Of the support test in the start: `I_l > alpha φ² sqrt(log n / m)`.
    mu : float
        The step is mu/φ² times the gradient.
    step : {"damped", "constant", "exact"}
        Whether mu is halved after every 1000 steps, as in the paper, or kept; or an exact line search, which
        does not use mu.
    start : {"estimated", "full"}
        The spectral start on the estimated support, as in the paper, or on all coordinates: better for a signal
        that is not very sparse.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=90, n=30, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.methods.WF(start="full", step="exact"))
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """

    name: ClassVar[str] = "wf"


@options
class TWF(_Flow):
    """Thresholded Wirtinger flow, the paper's method for a sparse signal; k is not needed.

    With `prior=fq.Sparse(support=S)` it is the paper's TWF-S. Stops when ‖r‖/‖y‖ < `tol` (converged), when a step is at
    most 0.01 tol (μ_t/μ) ‖x‖ (stagnated), or after 4000 steps unless `solve` is given `max_iter`. A step takes one
    pass over A, or two with an exact line search; if few entries of the iterate are nonzero, only their rows are
    read.

    Parameters
    ----------
    alpha : float
        Of the support test in the start: `I_l > alpha φ² sqrt(log n / m)`.
    beta : float
        The threshold is sqrt(beta) standard deviations of a gradient entry outside the support. At the paper's
        0.5 a third of all coordinates passes it; for sparse iterates, and quick steps, use 4. For complex entries the
        moduli are compared with a threshold that the same share passes.
    threshold : {"soft", "hard"} or function
        The shrinkage: a function of (a, tau), of shape (n,) and a number, gives an array of shape (n,).
    mu : float
        The step is mu/φ² times the gradient.
    step : {"damped", "constant", "exact"}
        Whether mu is halved after every 1000 steps, as in the paper, or kept; or an exact line search, which
        does not use mu.
    start : {"estimated", "full"}
        The spectral start on the estimated support, as in the paper, or on all coordinates: better for a signal
        that is not very sparse.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=90, n=60, k=4, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.TWF(beta=2.0))
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """

    name: ClassVar[str] = "twf"

    beta: float = 0.5
    threshold: str | Shrinkage = "soft"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number(self.beta, "beta")
        shrinkage(self.threshold)

    def _thresholding(self) -> tuple[float, Shrinkage]:
        return self.beta, shrinkage(self.threshold)


def _turned(x: Float) -> Float:
    """The positive part of x or of −x, whichever is larger."""
    return max(np.maximum(x, 0.0), np.maximum(-x, 0.0), key=lambda part: float(part @ part))


def _outside(problem: Problem) -> NDArray[np.bool_] | None:
    """A mask of the coordinates that are known to be zero."""
    support = problem.support
    if support is None:
        return None
    outside = np.ones(problem.n, dtype=bool)
    outside[support] = False
    return outside
