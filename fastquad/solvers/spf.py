"""Sparse power factorization (Lee, Wu, Bresler 2018), for a k-sparse signal with k known.

The lifted problem `y_i = u^T A_i v` is linear in u for fixed v and in v for fixed u, so the two are solved for in
turn, each a problem of compressed sensing with the matrix `L[i] = A_i v / √m` (or `A_i^T u / √m`, for v), near an
isometry on sparse vectors when v has unit norm. Each is solved by hard thresholding pursuit (Foucart 2011) from zero:

    S = the k largest of |u + L^T (b − L u)|,    u = argmin ‖b − L u‖ over the u on S,    until S stays.

That u = v is never used. A must be taken as given, not symmetrised: with `Ã_i`, u = x + δ and v = x − δ fit to first
order for any δ. With v = ‖v‖ v̂ the answer is `x = sqrt(‖v‖) v̂`; its residual follows from the `A_i v̂` of the next
step.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.linalg import lapack, lstsq

from fastquad import arguments
from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Note, Outcome, Snapshot, Step, Steps
from fastquad.measurements.contractions import SidedProducts
from fastquad.numerics.grouping import Groups
from fastquad.solvers.base import Solver, negligible_step, options
from fastquad.solvers.parts.spectral import EMPTY_SUPPORT_NOTE, spectral_start
from fastquad.typing import Asks, Float

# The least reciprocal condition number for the normal equations: they square it, and so lose at most six digits.
_WELL_CONDITIONED = 1e-6


@options
class SPF(Solver):
    """Sparse power factorization; k has to be known.

    Stops when ‖r‖/‖y‖ < `tol` (converged), when a step changes v by at most 0.01 tol ‖v‖ (stagnated), or after 200
    steps unless `solve` is given `max_iter`. A step takes two passes over A, or a part of them for sparse iterates.

    Parameters
    ----------
    k : int, optional
        The number of nonzeros of x; default: that of the prior.
    alpha : float
        Of the support test in the start: `I_l > alpha φ² sqrt(log n / m)`.
    max_inner : int
        The largest number of steps of hard thresholding pursuit.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=90, n=40, k=4, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.methods.SPF(k=4))
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """

    name: ClassVar[str] = "spf"
    max_iter: ClassVar[int | None] = 200

    k: int | None = None
    alpha: float = 0.5
    max_inner: int = 50

    def __post_init__(self) -> None:
        if self.k is not None:
            arguments.count(self.k, "k")
        arguments.number(self.alpha, "alpha")
        arguments.count(self.max_inner, "max_inner")

    def steps(self, problem: Problem) -> Steps:
        k = self._sparsity(problem)
        y, root_m = problem.y, math.sqrt(problem.m)
        b, y_norm = y / root_m, math.sqrt(y @ y)
        if problem.resume is not None:
            v, v_norm, move, empty = (problem.resume[name] for name in ("v", "v_norm", "move", "empty"))
        else:
            v, empty = yield from self._start(problem)
            v_norm, move = 1.0, math.inf
        L = yield SidedProducts(v)
        while True:
            if move < math.inf:
                x = math.sqrt(v_norm) * v
                residual = float(np.linalg.norm(v_norm * (L @ v) - y)) / y_norm
                yield Step(x, residual)
                if residual < problem.tol:
                    return Outcome(x, residual, End.CONVERGED)
                if move <= negligible_step(problem.tol) * v_norm:
                    return Outcome(x, residual, End.EMPTY_SUPPORT if empty else End.STAGNATED)
            u = hard_thresholding_pursuit(L / root_m, b, k, self.max_inner, problem.groups)
            L = yield SidedProducts(_normalised(u), transpose=True)
            new = hard_thresholding_pursuit(L / root_m, b, k, self.max_inner, problem.groups)
            move = float(np.linalg.norm(new - v_norm * v))
            v_norm, v = float(np.linalg.norm(new)), _normalised(new)
            yield Snapshot({"v": v, "v_norm": v_norm, "move": move, "empty": empty})
            L = yield SidedProducts(v)

    def _sparsity(self, problem: Problem) -> int:
        # Count a complex entry as two coordinates, as the prior already does.
        k = problem.k if self.k is None else self.k * (1 + problem.turning)
        if k is None:
            raise ValueError("`k` must be given to SPF: method=fastquad.methods.SPF(k=...) or prior=fastquad.Sparse(k=...).")
        if k > problem.n:
            raise ValueError(f"`k` must be at most n = {problem.n}, got {k}.")
        return k

    def _start(self, problem: Problem) -> Asks[tuple[Float, bool]]:
        """The first v, of norm one, and whether the support estimate was empty."""
        if problem.x0 is not None:
            return _normalised(problem.x0), False
        x, empty = yield from spectral_start(problem.y, problem.n, problem.phi, alpha=self.alpha, count=problem.entries)
        if empty:
            yield Note(EMPTY_SUPPORT_NOTE)
        return _normalised(x), empty


def hard_thresholding_pursuit(L: Float, b: Float, k: int, max_steps: int, groups: Groups | None = None) -> Float:
    """A k-sparse u with `L u ≈ b`, made of whole groups if there are any: see the head of this file."""
    u = np.zeros(L.shape[1])
    iterates: list[Float] = []
    met: dict[bytes, int] = {}
    for step in range(max_steps):
        gradient = (b - L @ u) @ L
        moved = u + gradient
        if groups is not None:
            support = groups.largest(moved**2, k)
        else:
            support = np.sort(np.argpartition(-np.abs(moved), k - 1)[:k])
        first = met.setdefault(support.tobytes(), step)
        if first < step:
            # The support determines u, so the steps repeat from here on: jump to the last one of the cycle.
            return iterates[first + (max_steps - 1 - first) % (step - first)]
        u = np.zeros(L.shape[1])
        u[support] = least_squares(L[:, support], b)
        iterates.append(u)
    return u


def least_squares(L: Float, b: Float) -> Float:
    """`argmin ‖L u − b‖`; the shortest if there are several."""
    if L.shape[0] >= L.shape[1]:
        gram = L.T @ L
        size = np.abs(gram).sum(axis=0).max()
        factor, u, failed = lapack.dposv(gram, L.T @ b, lower=1)
        if not failed and lapack.dpocon(factor, size, uplo="L")[0] > _WELL_CONDITIONED:
            return u
    return lstsq(L, b, lapack_driver="gelsy", check_finite=False)[0]


def _normalised(v: Float) -> Float:
    norm = np.linalg.norm(v)
    return v / norm if norm > 0 else v
