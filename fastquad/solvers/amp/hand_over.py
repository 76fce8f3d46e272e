"""From AMP's estimate to an exact fit: Levenberg–Marquardt on the coordinates that the estimate shows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Products
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.run import Walk, cosine
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.solvers.parts.noise_fit import stationary
from fastquad.typing import Asks, Float, Indices

# A hand-over either converges within a few steps, or is in the wrong valley.
_RULE = Rule(max_steps=20, patience=4, bottom=1e-3)
# Nearly as many unknowns of a complex signal as measurements: valleys are long there, and several are close together.
_TIGHT = 0.85
_TIGHT_RULE = Rule(max_steps=60, patience=20, bottom=1e-3)
# Fits below this residual may lack small coordinates only.
_NEARLY = 0.1
# A fit is enlarged again only where it is this much better than the last that was: noise is not left by enlarging.
_BETTER = 0.8
# A descent is at the bottom where the gradient is this share of what it could be, at a residual above rounding.
_LEVEL, _NOT_ROUNDING = 0.1, 1e-6
# A start leads to the bottom of a valley from which it has an angle with at least this cosine.
_SAME_VALLEY, _SAME_TIGHT_VALLEY = 0.9, 0.98
# In groups, all that may be nonzero are taken up to this share of the coordinates: their block costs less than a pass.
_GENEROUS = 0.75


@dataclass
class SparseHandOver:
    """Levenberg–Marquardt on the largest coordinates, on more of them where that nearly fits."""

    problem: Problem
    cache: GrowingBlock
    #: The residual of the last fit that was enlarged.
    enlarged: float = np.inf
    #: Where descents ended without an exact fit: the bottoms of valleys.
    bottoms: list[Fit] = field(default_factory=list)

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """On the coordinates that AMP holds for nonzero."""
        groups = self.problem.groups
        size = int(np.count_nonzero(walk.weight > 0.1)) + 2
        if groups is not None:
            largest = 2 * int(groups.sizes.max())
            size += largest - 2
            if size > _GENEROUS * self.problem.n:
                # Of groups fewer are enough, and far cheaper where most are not zero.
                size = int(1.1 * np.count_nonzero(walk.weight > 0.5)) + largest
        return (yield from self.largest(walk.z.copy(), walk.z**2 + walk.v * walk.weight, size))

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome where a fit is exact."""
        determined = found.support.size - self.problem.turning < self.problem.m
        if not determined or not exact_enough(self.problem, found.residual):
            return None
        return Outcome(found.x, found.residual, free=found.support.size, method="amp")

    def largest(self, x: Float, importance: Float, size: int) -> Asks[Fit]:
        """From x on the most important coordinates."""
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
        """Levenberg–Marquardt; where it ends is remembered."""
        rule = _TIGHT_RULE if self._tight(support) else _RULE
        result = yield from fit(self.problem, x, support, rule, self.cache)
        self.at_bottom(result)
        return result

    def _tight(self, support: Indices) -> bool:
        """Whether a complex signal on this support has nearly as many unknowns as there are measurements."""
        return self.problem.turning and support.size - 1 > _TIGHT * self.problem.m

    def at_bottom(self, found: Fit) -> bool:
        """Whether a descent ended without an exact fit at the bottom of a valley, which is remembered then."""
        bottom = stationary(found, _LEVEL) and found.residual > _NOT_ROUNDING
        if bottom:
            self.bottoms.append(found)
        return bottom

    def _bottom(self, x: Float, support: Indices) -> Fit | None:
        """The end of an earlier descent on this support, or on a larger one, that x would lead to as well."""
        alike = _SAME_TIGHT_VALLEY if self._tight(support) else _SAME_VALLEY
        for found in self.bottoms:
            if cosine(found.x, x, self.problem.turning) > alike and np.isin(support, found.support).all():
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
