"""Levenberg–Marquardt for quadratic equations with z >= 0: steps on the coordinates that are free to move.

Coordinates are free where they are above zero, or at zero with a gradient that pushes them up. A step of the damped
linear model is computed for the free ones. If it would push a coordinate at zero down, that one is released and the
step is computed again; what still goes below zero is set to zero. The step is accepted if ‖r‖ falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from fastquad.typing import Float

# How often a step is computed again on fewer coordinates, before what goes below zero is set to zero.
_RELEASES = 3


class NonnegativeDescent:
    """A descent with z >= 0, its products W and residual r; the caller supplies the products of each proposal."""

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
        """The end of a step, to be given to `advance` with its products."""
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
        """Whether another step is useless."""
        curve, steps = self.curve, len(self.curve) - 1
        if steps >= max_steps or self.residual < 1e-15 or self.rejected >= 6 or not math.isfinite(self.square):
            return True
        slow = steps >= patience and curve[-1 - patience] < factor * curve[-1]
        return slow and (self.residual > 1e-3 or self.residual < 1e-12)


def on_block(y: Float, z: Float, block: Float) -> NonnegativeDescent:
    """A descent with all of `Ã_i[S, S]`, (m, s, s), in memory: z (s,), which is not negative, is the start."""
    m, s, _ = block.shape
    flat = block.reshape(m * s, s)
    return by_products(y, z, lambda d: (flat @ d).reshape(m, s))


def by_products(y: Float, z: Float, products: Callable[[Float], Float]) -> NonnegativeDescent:
    """A descent from z (s,), which is not negative, where `products(d)` is `Ã_i[S, S] d`, (m, s)."""
    descent = NonnegativeDescent(y, z, products(z))
    while not descent.finished():
        proposal = descent.proposal()
        descent.advance(proposal, products(proposal))
    return descent


def _damped(W: Float, r: Float, damping: float) -> Float:
    """The d that minimises `‖W d − r‖² + damping ‖d‖²`."""
    m, s = W.shape
    if s == 0:
        return np.zeros(0)
    tall = m >= s
    gram = W.T @ W if tall else W @ W.T
    # Keep the matrix regular, also to rounding.
    gram.reshape(-1)[:: len(gram) + 1] += max(damping, 1e-15 * float(gram.trace()))
    solution, info = lapack.dposv(gram.T, r @ W if tall else r, lower=1, overwrite_a=1)[1:]
    if info:
        return np.linalg.lstsq(W, r, rcond=1e-13)[0]
    return solution if tall else solution @ W
