"""Hand AMP's estimate over to a descent in the coordinates that the prior gives, for an exact fit.

rounds        the nearest signal of the prior, and its products
nonnegative   Levenberg–Marquardt on a support with z >= 0
a matrix U    Levenberg–Marquardt on `U^T Ã_i U`
otherwise     Levenberg–Marquardt on a support

If a fit leaves little, small coordinates may be missing: the prior names those that explain most of the residual.
"""

from __future__ import annotations

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, Outcome, Step
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Compress, Products
from fastquad.numerics.levenberg_marquardt import Rule, on_block
from fastquad.numerics.nonnegative import NonnegativeDescent
from fastquad.priors.base import Prior
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.hand_over import SparseHandOver
from fastquad.solvers.amp.run import Walk
from fastquad.solvers.amp.trimmed import RobustHandOver
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

# When a descent stops: it either converges within a few steps, or is in the wrong valley.
_RULE = Rule(max_steps=20, patience=4)
# The residual below which a fit may lack only small coordinates.
_NEARLY = 0.1
# The ratio of residuals below which a fit is enlarged again.
_BETTER = 0.8


class StructuredHandOver(SparseHandOver):
    """A descent from a run's estimate, in the coordinates that its prior names."""

    @property
    def prior(self) -> Prior:
        """The prior, which is never None here."""
        assert self.problem.prior is not None
        return self.problem.prior

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """From the estimate of a run."""
        return (yield from self.descend(walk.z.copy(), walk.weight.copy()))

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome if a fit is exact and ends the search."""
        if not self.ends(found):
            return None
        return Outcome(found.x, found.residual, free=self.prior.freedom(found.x), method="amp")

    def ends(self, found: Fit) -> bool:
        """Whether a fit is exact and has fewer free numbers than there are measurements.

        With as many of them other signals fit as well. For m >= n nothing better can be found, and any exact fit ends
        the search.
        """
        m, n = self.problem.m, self.problem.n
        return exact_enough(self.problem, found.residual) and (m >= n or self.prior.freedom(found.x) < m)

    def descend(self, z: Float, weight: Float) -> Asks[Fit]:
        """Descend from an estimate z with the weights of its coordinates."""
        if self.prior.rounds:
            return (yield from self._rounded(self.prior.nearest(z)))
        m, n = self.problem.m, self.problem.n
        most = max(1, min(n, m - 1 if self.prior.signed else m))
        where = self.prior.coordinates(z, weight, most)
        found = yield from self._fitted(z, where)
        if not EXACT_RESIDUAL <= found.residual < min(_NEARLY, _BETTER * self.enlarged):
            return found
        self.enlarged = found.residual
        size = where.shape[-1]
        for larger in (1.25 * size, 0.8 * m, m):
            target = min(int(larger), most)
            if found.residual >= EXACT_RESIDUAL and target > where.shape[-1]:
                W = yield Products(found.x)
                where = self.prior.enlarged(where, found.x, W, W @ found.x - self.problem.y, target)
                found = yield from self._fitted(found.x, where)
        return found

    def _fitted(self, z: Float, where: Indices | Float) -> Asks[Fit]:
        """Levenberg–Marquardt from z on a support, or in the columns of a matrix."""
        if where.ndim == 2:
            return (yield from self._compressed(z, np.asarray(where, dtype=np.float64)))
        return (yield from self.fit(z, np.asarray(where, dtype=np.intp)))

    def _rounded(self, x: Float) -> Asks[Fit]:
        W = yield Products(x)
        r = W @ x - self.problem.y
        residual = float(np.linalg.norm(r) / np.linalg.norm(self.problem.y))
        yield Step(x, residual)
        return Fit(x, residual, np.flatnonzero(x), W, r)

    def _compressed(self, z: Float, U: Float) -> Asks[Fit]:
        block = yield Compress(U)
        descent = on_block(self.problem.y, U.T @ z, np.ascontiguousarray(block, dtype=np.float64), _RULE)
        x = self.prior.nearest(U @ descent.z)
        yield Step(x, descent.residual)
        return Fit(x, descent.residual, np.arange(self.prior.freedom(x)), descent.W, descent.r)

    def fit(self, z: Float, support: Indices) -> Asks[Fit]:
        """Levenberg–Marquardt on a support, with z >= 0 if the prior says so."""
        if self.prior.signed:
            return (yield from fit(self.problem, z, support, _RULE, self.cache))
        return (yield from nonnegative_fit(self.problem, z, support, self.cache))


class RobustStructuredHandOver(RobustHandOver):
    """The hand-over to the measurements that agree, on the coordinates that the prior names."""

    def support(self, walk: Walk, most: int) -> Indices:
        assert self.problem.prior is not None
        return np.asarray(self.problem.prior.coordinates(walk.z, walk.weight, most), dtype=np.intp)


def nonnegative_fit(problem: Problem, x: Float, support: Indices, cache: GrowingBlock) -> Asks[Fit]:
    """Levenberg–Marquardt on a support with x >= 0, a `Step` at its end."""
    m, n, s = problem.m, problem.n, support.size
    # Read the block once if it fits: steps may be rejected, and each would cost a pass.
    small = cache.affordable(support)
    flat = (yield from cache.read(support)).reshape(m * s, s) if small else None

    def products(z: Float) -> Asks[Float]:
        """The products of z on the support."""
        if flat is not None:
            return (flat @ z).reshape(m, s)
        full = np.zeros(n)
        full[support] = z
        return np.ascontiguousarray((yield Products(full))[:, support])

    z = np.maximum(x[support], 0.0)
    descent = NonnegativeDescent(problem.y, z, (yield from products(z)))
    while not descent.finished():
        proposal = descent.proposal()
        descent.advance(proposal, (yield from products(proposal)))
    full = np.zeros(n)
    full[support] = descent.z
    yield Step(full, descent.residual)
    kept = np.ones(s, dtype=bool)
    if exact_enough(problem, descent.residual):
        kept = descent.z > 0
    return Fit(full, descent.residual, support[kept], descent.W[:, kept], descent.r)
