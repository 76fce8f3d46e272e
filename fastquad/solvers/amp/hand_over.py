"""Hand AMP's estimate over to Levenberg–Marquardt, on the coordinates that it shows, for an exact fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Products
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.run import Walk, cosine, tight
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.solvers.parts.noise_fit import stationary
from fastquad.typing import Asks, Float, Indices

# When a descent stops: it either converges within a few steps, or is in the wrong valley.
_RULE = Rule(max_steps=20, patience=4, bottom=1e-3)
# The same where a complex signal has nearly as many unknowns as there are measurements: valleys are long, but in the
# right one the residual falls by a sixth in every four steps (all but one or two of 44 descents at n = 64, m = 128).
_TIGHT_RULE = Rule(max_steps=60, patience=4, factor=1.4, bottom=1e-3)
# The residual below which a fit may lack only small coordinates.
_NEARLY = 0.1
# The ratio of residuals below which a fit is enlarged again: enlarging does not remove noise.
_BETTER = 0.8
# The share of its largest possible value below which the gradient shows the bottom of a valley.
_LEVEL = 0.1
# The residual above which such a bottom is not just rounding.
_NOT_ROUNDING = 1e-6
# The cosine of a start with the bottom of a valley from which on it would lead there.
_SAME_VALLEY = 0.9
# The largest share of coordinates up to which all groups that may be nonzero are taken: their block costs under a pass.
_GENEROUS = 0.75


@dataclass
class SparseHandOver:
    """Levenberg–Marquardt on the largest coordinates, and on more of them if that nearly fits."""

    problem: Problem
    cache: GrowingBlock
    #: The residual of the last fit that was enlarged.
    enlarged: float = np.inf
    #: The bottoms of valleys: the ends of descents without an exact fit.
    bottoms: list[Fit] = field(default_factory=list)

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """Fit the coordinates that AMP estimates to be nonzero."""
        groups = self.problem.groups
        size = int(np.count_nonzero(walk.weight > 0.1)) + 2
        if groups is not None:
            largest = 2 * int(groups.sizes.max())
            size += largest - 2
            if size > _GENEROUS * self.problem.n:
                # Take fewer groups: enough, and far cheaper where most are not zero.
                size = int(1.1 * np.count_nonzero(walk.weight > 0.5)) + largest
        return (yield from self.largest(walk.z.copy(), walk.z**2 + walk.v * walk.weight, size))

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome if a fit is exact."""
        determined = found.support.size - self.problem.turning < self.problem.m
        if not determined or not exact_enough(self.problem, found.residual):
            return None
        known = found.known(self.cache)
        return Outcome(found.x, found.residual, free=found.support.size, method="amp", known=known)

    def largest(self, x: Float, importance: Float, size: int) -> Asks[Fit]:
        """Fit the most important coordinates, from x."""
        m, n = self.problem.m, self.problem.n
        size = min(size, m - 1 + self.problem.turning, n)
        support = self._largest(importance, size)
        known = self._bottom(x, support)
        if known is not None:
            return known
        result = yield from self._fit(x, support)
        if not EXACT_RESIDUAL <= result.residual < min(_NEARLY, _BETTER * self.enlarged):
            return result
        self.enlarged = result.residual
        for larger in (1.25 * size, 0.8 * m):
            target = min(int(larger), m - 1 + self.problem.turning, n)
            if result.residual >= EXACT_RESIDUAL and target > result.support.size:
                result = self._bottom(result.x, np.arange(n)) or (yield from self._enlarge(result, target))
        return result

    def _fit(self, x: Float, support: Indices) -> Asks[Fit]:
        """Levenberg–Marquardt on a support, remembering where it ends."""
        rule = _TIGHT_RULE if tight(self.problem, support.size) else _RULE
        result = yield from fit(self.problem, x, support, rule, self.cache)
        self.at_bottom(result)
        return result

    def at_bottom(self, found: Fit) -> bool:
        """Whether a descent ended at the bottom of a valley without an exact fit; if so, it is remembered."""
        bottom = found.residual > _NOT_ROUNDING and stationary(found, _LEVEL)
        if bottom:
            self.bottoms.append(found)
        return bottom

    def _bottom(self, x: Float, support: Indices) -> Fit | None:
        """The end of an earlier descent, on this support or a larger one, that x would lead to as well."""
        if tight(self.problem, support.size):
            return None  # valleys are close together
        for found in self.bottoms:
            if cosine(found.x, x, self.problem.turning) > _SAME_VALLEY and np.isin(support, found.support).all():
                return found
        return None

    def _enlarge(self, result: Fit, size: int) -> Asks[Fit]:
        """Fit again with the coordinates whose columns of the Jacobian explain most of the residual."""
        W = yield Products(result.x)
        score = (result.r @ W) ** 2 / (np.einsum("ij,ij->j", W, W) + 1e-300)
        score[result.support] = np.inf
        support = self._largest(score, size)
        return (yield from self._fit(result.x, support))

    def _largest(self, importance: Float, size: int) -> Indices:
        """The most important coordinates, or groups of them."""
        if self.problem.groups is not None:
            return self.problem.groups.largest(importance, size)
        return np.sort(np.argsort(-importance, kind="stable")[:size])
