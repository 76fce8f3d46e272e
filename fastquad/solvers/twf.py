"""Thresholded Wirtinger flow (algorithm 2 of the paper), and Wirtinger flow.

Gradient descent on `f(z) = Σ_i (z^T A_i z − y_i)² / (4m)` from a spectral start, each step followed by a
thresholding that keeps the iterate sparse. One pass over A gives all of it, with `W = products(z)`:

    r = W z − y,    ∇f = W^T r / m,    τ = sqrt(β Σ_i r_i²) ‖z‖ / m,    z ← T_{μτ/φ²}(z − (μ/φ²) ∇f).

τ is √β standard deviations of a gradient entry outside the support, so it falls with the residual and the steps
converge to x itself. Wirtinger flow is β = 0. With a known support S (the paper's TWF-S), start and gradient are
restricted to S.

An exact line search replaces μ/φ² by the minimiser of the quartic `f(z − t∇f)`, which takes `products(∇f)`: two
passes a step. Without thresholding `products` is linear in the step and one pass remains.

Stops, without a look at the truth, where ‖r‖/‖y‖ < tol (converged) or where a step is shorter than
1e-10 (μ_t/μ_0) ‖z‖ (stagnated).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from fastquad.measurements.base import Float
from fastquad.priors.sparse import Shrinkage, shrinkage
from fastquad.solution import Status
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import Outcome, Products, Request, Step, Steps
from fastquad.solvers.spectral import spectral_start

# A residual this many times the first one is beyond return.
_DIVERGED = 1e6
_NEGLIGIBLE_STEP = 1e-10


@dataclass(frozen=True, kw_only=True)
class TWF(Solver):
    name: ClassVar[str] = "twf"
    uses_support: ClassVar[bool] = True
    max_iter: ClassVar[int | None] = 4000

    alpha: float = 0.5
    beta: float = 0.5
    threshold: str | Shrinkage = "soft"
    step: float | str = "damped"

    def steps(self, problem: Problem) -> Steps:
        y, m, phi = problem.y, problem.m, problem.phi
        shrink = shrinkage(self.threshold)
        x, empty = yield from self._start(problem)
        y_norm = math.sqrt(y @ y)
        limit = math.inf
        for t in range(10**9):
            W = yield Products(x)
            r = W @ x - y
            r_square = float(r @ r)
            residual = math.sqrt(r_square) / y_norm
            yield Step(x, residual)
            if residual < problem.tol:
                return Outcome(x, residual, converged=True)
            if residual > limit:
                return Outcome(x, residual, status=Status.DIVERGED)
            if t == 0:
                limit = _DIVERGED * max(1.0, residual)
            damping = 0.5 ** (t // 1000)
            scale = 0.1 * damping / phi**2
            tau = math.sqrt(self.beta * r_square * float(x @ x)) / m
            new = shrink(x - (scale / m) * (r @ W), scale * tau)
            move = new - x
            if float(move @ move) <= (_NEGLIGIBLE_STEP * damping) ** 2 * float(x @ x):
                return Outcome(x, residual, status=Status.EMPTY_SUPPORT if empty else None)
            x = new
        raise AssertionError

    def _start(self, problem: Problem) -> Generator[Request, Any, tuple[Float, bool]]:
        if problem.x0 is not None:
            return problem.x0, False
        return (yield from spectral_start(problem.y, problem.n, problem.phi, self.alpha, "estimated"))


@dataclass(frozen=True, kw_only=True)
class WF(TWF):
    name: ClassVar[str] = "wf"
    beta: float = 0.0
