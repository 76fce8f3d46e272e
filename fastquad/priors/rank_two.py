"""The denoiser of a complex signal that real symmetric matrices measure: they see `Re xx^* = ZZ^T`, Z = [Re x, Im x].

So S is ZZ^T plus noise of variance D, of rank two and known up to a rotation of the columns of Z. With one weight for
the row z_j of Z, and 2×2 matrices C and V_j:

    b = (S Z − Z_old ΣV)/D,   C = (Z^T Z/D + I/s2)^{-1},   μ_j = C b_j
    π = sigmoid(log ρ/(1−ρ) + ½ log det(C/s2) + ½ b^T μ),   E z_j = π μ,   V_j = π (μμ^T + C) − E z_j E z_j^T

and EM for ρ and s2 as in `fastquad.priors.spike_slab`. Z is held as Re and Im in turn, V_j by its diagonal and ΣV.
"""

from __future__ import annotations

import numpy as np

from fastquad.priors.base import INNER_TOLERANCE, Estimate
from fastquad.priors.spike_slab import SpikeSlab
from fastquad.typing import Float


class RankTwo(SpikeSlab):
    """The posterior if each row of Z is zero with probability 1 − ρ, and normal with variance s2 else."""

    def __init__(self, n: int, rho: float, phi2: float, learns: bool = True) -> None:
        super().__init__(n, rho, phi2, learns)
        #: ΣV, (2, 2); None before the first estimate.
        self.spread: Float | None = None

    def overlap(self, z: Float, v: Float) -> float:
        if self.spread is None:
            return super().overlap(z, v)
        Z = z.reshape(-1, 2)
        return float(np.sum((Z.T @ Z) * self.spread))

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        S, Z, Z_old, v = _seen(S, at), at.z.reshape(-1, 2), at.z_old.reshape(-1, 2), at.v.reshape(-1, 2)
        spread = np.diag(v.sum(axis=0)) if self.spread is None else self.spread
        for _ in range(inner):
            b = (S @ Z - Z_old @ spread) / D
            C = np.linalg.inv(Z.T @ Z / D + np.eye(2) / self.s2)
            mu = b @ C
            odds = np.log(self.rho / (1 - self.rho)) + 0.5 * np.log(np.linalg.det(C / self.s2))
            with np.errstate(over="ignore"):
                weight = 1 / (1 + np.exp(-(odds + 0.5 * np.einsum("jc,jc->j", b, mu))))
            mean = weight[:, None] * mu
            Z_old[:] = Z
            Z *= keep
            Z += (1 - keep) * mean
            v *= keep
            v += (1 - keep) * (weight[:, None] * (mu**2 + np.diagonal(C)) - mean**2)
            spread = keep * spread + (1 - keep) * ((weight[:, None] * mu).T @ mu + weight.sum() * C - mean.T @ mean)
            at.weight[:] = np.repeat(weight, 2)
            n, total = weight.size, float(weight.sum())
            second = float(weight @ (np.sum(mu**2, axis=1) + np.trace(C))) / max(2 * total, 1e-300)
            self._update(total / n, n, 2 * n, second, phi2)
            if not float(np.sum((Z - Z_old) ** 2)) > INNER_TOLERANCE**2 * phi2:
                break
        self.spread = spread


def _seen(S: Float, at: Estimate) -> Float:
    """`ZZ^T + diag(tr V) + A*(r)/m`, (n/2, n/2), from S of Re and Im in turn, which has zz^T + diag(v) in it.

    The first S has nothing but y in it, and no products of Re and Im, which real matrices do not have.
    """
    whole = S[::2, ::2]
    if S[::2, 1::2].any():
        whole = whole + np.outer(at.z[1::2], at.z[1::2]) + np.diag(at.v[1::2])
    return np.ascontiguousarray(whole)
