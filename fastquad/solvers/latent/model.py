"""The model of A that latent Levenberg–Marquardt minimises between two passes.

At a signal g_0 whose products W = Ã g_0 are known, with d = g − g_0,

    g^T Ã g = g_0^T Ã g_0 + 2 d^T Ã g_0 + d^T Ã d = W (g + d) + d^T Ã d.

Only the last term needs A, and B = U^T Ã U gives its part in the span of U, where d nearly lies. The rest is of second
order in d, and small: so the minimiser of this model is nearly that of the objective itself, and one pass does what
takes Levenberg–Marquardt several. All signals of a batch are minimised side by side, without reading A.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastquad.numerics.least_squares import Normal, minimize, normal
from fastquad.solvers.latent.search import NoiseLevel, Unknowns, learn
from fastquad.typing import Float, Indices

# How often λ is learnt again.
_ROUNDS = 2
# The largest number of steps between two updates of λ.
_MAX_STEPS = 6
# The relative decrease of the objective that a step must promise.
_TOLERANCE = 1e-4


class Anchor(NamedTuple):
    """A point θ of one signal, the signal g there, and its products."""

    unknowns: Unknowns
    theta: Float
    g: Float  # (n,)
    W: Float  # (m, n)
    level: NoiseLevel


class Local:
    """The model around the anchors of several signals with one A."""

    def __init__(self, B: Float, anchors: list[Anchor]) -> None:
        self.anchors, self.first = anchors, anchors[0].unknowns
        self.m, self.p, _ = B.shape
        self.B, self.U = B.reshape(-1, self.p), self.first.prior.basis(self.p)
        self.Y = np.stack([anchor.unknowns.y for anchor in anchors])
        self.g = np.stack([anchor.g for anchor in anchors])

    def minimize(self) -> list[Float]:
        """The θ of each signal where the model of `‖r‖² + λ‖z‖²` is least."""
        theta = np.stack([anchor.theta for anchor in self.anchors])
        level = NoiseLevel(*(np.concatenate(part) for part in zip(*(a.level for a in self.anchors), strict=True)))
        for _ in range(_ROUNDS):
            ridge = self.first.weights(level.ridge)
            descents = minimize(self.evaluate, theta, ridge=ridge, max_steps=_MAX_STEPS, tol=_TOLERANCE)
            theta = descents.Z
            level = learn(descents.at, level, [anchor.unknowns for anchor in self.anchors], self.m)
        return list(theta)

    def evaluate(self, theta: Float, which: Indices) -> Normal:
        """The normal equations of the model at the rows of θ; `which` is the signal that each row belongs to."""
        codes, t = self.first.split(theta)
        if self.first.square is not None:
            t = np.array([self.anchors[i].unknowns.square for i in which])
        decoder = self.first.prior.range
        g, J = decoder.jacobian(codes.astype(decoder.dtype))
        difference = g - self.g[which]
        h = difference @ self.U
        Bh = (h.astype(self.B.dtype) @ self.B.T).reshape(len(h), self.m, self.p)
        q = (Bh @ h[:, :, None])[:, :, 0]
        slope = 2 * (Bh @ (self.U.T @ J))
        for s, i in enumerate(which):
            W = self.anchors[i].W
            q[s] += W @ (g[s] + difference[s])
            slope[s] += 2 * (W @ J[s])
        slope *= t[:, None, None]
        if self.first.free:
            slope = np.concatenate([slope, q[:, :, None]], axis=2)
        at = normal(t[:, None] * q - self.Y[which], slope)
        # Reject negative t, which is ‖x‖².
        at.square[t <= 0] = np.inf
        return at
