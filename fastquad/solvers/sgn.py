"""Sparse Gauss–Newton (Wen, Hu, Huang 2025, arXiv 2507.07557), for a k-sparse signal with k known.

The start is the spectral vector of the block of the k coordinates with the largest `I_l = Σ_i y_i A_i[l, l]/m`. Then
each step chooses a support by a hard-thresholded gradient step, and solves for the values on it with the measurements
linearised at x:

    S = the k largest of |x − μ/φ² ∇f(x)|,    ∇f = W^T r/m,
    x ← argmin { ‖2 W z − (y + W x)‖ : z zero outside S },        for r(z) ≈ r + 2 W (z − x) = 2 W z − (W x + y).

Once S is right this is Gauss–Newton, and converges quadratically. A step takes one product of a k-sparse x: only the
rows of its support are read.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fastquad import arguments
from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Outcome, Snapshot, Step, Steps
from fastquad.measurements.contractions import Diagonals, Products
from fastquad.solvers.base import DIVERGED, Solver, negligible_step, options
from fastquad.solvers.parts.spectral import spectral_start
from fastquad.solvers.spf import least_squares
from fastquad.typing import Float, Indices

# The relative singular value below which a direction is taken for a change of the phase.
_FREE = 1e-9


@options
class SGN(Solver):
    """Sparse Gauss–Newton; k has to be known.

    Stops when ‖r‖/‖y‖ < `tol` (converged), when a step changes x by at most 0.01 tol ‖x‖ (stagnated), or after 100
    steps unless `solve` is given `max_iter`. Once converged it goes on while the residual still falls, down to
    rounding.

    Parameters
    ----------
    k : int, optional
        The number of nonzeros of x; default: that of the prior.
    mu : float
        The length of the gradient step that chooses the support, in units of 1/φ².

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=90, n=40, k=4, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.methods.SGN(k=4))
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-9)
    (True, True)
    """

    name: ClassVar[str] = "sgn"
    max_iter: ClassVar[int | None] = 100

    k: int | None = None
    mu: float = 0.75

    def __post_init__(self) -> None:
        if self.k is not None:
            arguments.count(self.k, "k")
        arguments.number(self.mu, "mu", positive=True)

    def steps(self, problem: Problem) -> Steps:
        k = self._sparsity(problem)
        y, y_norm = problem.y, math.sqrt(problem.y @ problem.y)
        unit = self.mu / (problem.m * problem.phi**2)
        last = math.inf
        if problem.resume is not None:
            x, last = problem.resume["x"], problem.resume["last"]
        elif problem.x0 is None:
            scores = y @ (yield Diagonals())
            x, _ = yield from spectral_start(y, problem.n, problem.phi, alpha=None, within=_largest(scores, k, problem))
        else:
            x = problem.x0
        W = yield Products(x)
        while True:
            values = W @ x
            residual = float(np.linalg.norm(values - y)) / y_norm
            yield Step(x, residual)
            if residual < problem.tol and residual > 0.1 * last:
                return Outcome(x, residual, End.CONVERGED)
            if residual > DIVERGED:
                return Outcome(x, residual, End.DIVERGED)
            last = residual
            support = _largest((x - unit * ((values - y) @ W)) ** 2, k, problem)
            new = np.zeros(problem.n)
            if problem.turning:  # the phase is free: take the shortest solution
                new[support] = 0.5 * np.linalg.lstsq(W[:, support], y + values, rcond=_FREE)[0]
            else:
                new[support] = 0.5 * least_squares(W[:, support], y + values)
            if np.linalg.norm(new - x) <= negligible_step(problem.tol) * np.linalg.norm(x):
                return Outcome(x, residual, End.CONVERGED if residual < problem.tol else End.STAGNATED)
            x = new
            yield Snapshot({"x": x, "last": last})
            W = yield Products(x)

    def _sparsity(self, problem: Problem) -> int:
        # Count a complex entry as two coordinates, as the prior already does.
        k = problem.k if self.k is None else self.k * (1 + problem.turning)
        if k is None:
            raise ValueError(
                "`k` must be given to SGN: method=fastquad.methods.SGN(k=...) or prior=fastquad.Sparse(k=...)."
            )
        if k > problem.n:
            raise ValueError(f"`k` must be at most n = {problem.n}, got {k}.")
        return k


def _largest(scores: Float, k: int, problem: Problem) -> Indices:
    """The indices of the k largest scores, or of the groups with the largest, in increasing order."""
    if problem.groups is not None:
        return problem.groups.largest(scores, k)
    return np.sort(np.argpartition(-scores, k - 1)[:k])
