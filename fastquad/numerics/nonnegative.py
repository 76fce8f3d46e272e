"""Levenberg–Marquardt for quadratic equations with z >= 0: steps on the coordinates that are free to move.

Free are those above zero, and those at zero that the gradient pushes up. A step of the damped linear model is taken on
them; a coordinate at zero that it would push down is not free after all; what goes below zero is put there. The step is
accepted where ‖r‖ falls.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from fastquad.typing import Float

# So often a step on fewer coordinates is tried, before what goes below zero is cut.
_RELEASES = 3


class NonnegativeDescent:
    """z >= 0, its products W and residual r, and the steps from there; it is fed with the products of its proposals."""

    def __init__(self, y: Float, z: Float, W: Float) -> None:
        self.y, self.z, self.W = y, z, W
        self.r: Float = W @ z - y
        self.square, self.scale = float(self.r @ self.r), float(y @ y)
        self.damping = 1e-2 * float(np.vdot(W, W)) / max(1, z.size) or 1.0
        self.curve = [self.square]
        self.rejected = 0

    @property
    def residual(self) -> float:
        """`‖r‖/‖y‖`."""
        return math.sqrt(self.square / self.scale)

    def proposal(self) -> Float:
        """Where a step leads, to be fed to `advance` with its products."""
        gradient = self.r @ self.W
        free = np.flatnonzero((self.z > 0) | (gradient < 0))
        for _ in range(_RELEASES):
            step = -0.5 * _damped(self.W[:, free], self.r, self.damping)
            stuck = (self.z[free] == 0) & (step < 0)
            if not stuck.any():
                break
            free = free[~stuck]
        z = self.z.copy()
        z[free] = np.maximum(z[free] + step[~stuck] if stuck.any() else z[free] + step, 0.0)
        return z

    def advance(self, z: Float, W: Float) -> None:
        """Take a proposal with its products W, or damp the next one more."""
        r = W @ z - self.y
        square = float(r @ r)
        if square < self.square:
            self.damping *= 0.1 if square > 0.1 * self.square else 0.01
            self.z, self.W, self.r, self.square, self.rejected = z, W, r, square, 0
        else:
            self.damping *= 10
            self.rejected += 1
        self.curve.append(self.square)

    def finished(self, max_steps: int = 60, patience: int = 6, factor: float = 1.5) -> bool:
        """Whether another step is of no use."""
        curve, steps = self.curve, len(self.curve) - 1
        if steps >= max_steps or self.residual < 1e-15 or self.rejected >= 6 or not math.isfinite(self.square):
            return True
        slow = steps >= patience and curve[-1 - patience] < factor * curve[-1]
        return slow and (self.residual > 1e-3 or self.residual < 1e-12)


def _damped(W: Float, r: Float, damping: float) -> Float:
    """The d that minimises `‖W d − r‖² + damping ‖d‖²`."""
    m, s = W.shape
    if s == 0:
        return np.zeros(0)
    tall = m >= s
    gram = W.T @ W if tall else W @ W.T
    # Never singular to rounding.
    gram.reshape(-1)[:: len(gram) + 1] += max(damping, 1e-15 * float(gram.trace()))
    solution, info = lapack.dposv(gram.T, r @ W if tall else r, lower=1, overwrite_a=1)[1:]
    if info:
        return np.linalg.lstsq(W, r, rcond=1e-13)[0]
    return solution if tall else solution @ W
