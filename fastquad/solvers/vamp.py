"""Vector approximate message passing (VAMP) for phase retrieval, before Levenberg–Marquardt.

For `y_i = ‖B_i x‖²`, B_i of R rows (R = 1: one real vector; R = 2: a complex one), the unknown `z = B x` has known
lengths `|z_i| = b_i = √y_i` and lies in the range of B. VAMP goes back and forth between the two, with a belief
N(r, 1/γ) about z on each way, from which what was already known is taken out (the extrinsic part). With N = mR:

    lengths     ẑ_i = b_i h_i r1_i/|r1_i|,  h = I_{R/2}(κ)/I_{R/2−1}(κ),  κ_i = γ1 b_i |r1_i|;   for R = 1: h = tanh κ
                1/η = mean b²(1 − h²)/R;   γ2 = η − γ1;   r2 = (η ẑ − γ1 r1)/γ2
    range       x = (1/s2 + γ2 BᵀB)^{-1} γ2 Bᵀ r2;   z = B x
                η = N/Σ λ/(1/s2 + γ2 λ);   γ = η − γ2;   r = (η z − γ2 r2)/γ
    damping     r1 = d r + (1 − d) r1;   γ1 = γ^d γ1^(1−d)

λ are the eigenvalues of BᵀB, so B may be anything but too coherent: entries need not be independent. The start is the
spectral vector of the weights T(y) that are optimal for Gaussian vectors (Luo, Alghamdi and Lu 2019); later attempts
take the second eigenvector, and a random one. As soon as the lengths fit to within a half, Levenberg–Marquardt on all
coordinates takes over, which converges to the exact solution, or under noise to the least-squares one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fastquad.typing import Float

#: The relative misfit of the lengths below which a descent is worth trying.
NEAR = 0.5
# The misfit of the lengths at which VAMP ends: Levenberg–Marquardt is quicker from there.
_CLOSE = 1e-2
_MAX_STEPS = 200
# The ratio of misfits that counts as progress.
_PROGRESS = 0.98
# The number of steps without progress after which VAMP has settled.
_PATIENCE = 30
# The relative move of the belief below which VAMP has settled.
_STILL = 1e-4
# The least weight T(y) of a measurement that is nearly zero.
_LEAST_WEIGHT = -20.0


class Lengths(NamedTuple):
    """Lengths of known linear images of x: what VAMP works on.

    B has shape (N, n), R rows for each measurement one after the other, scaled to norm 1 together; b are the lengths
    (m,). `values` and `vectors` are the eigendecomposition of BᵀB, `s2` the mean square of a coordinate of x.
    """

    B: Float
    b: Float
    values: Float
    vectors: Float
    s2: float

    @property
    def R(self) -> int:
        return len(self.B) // len(self.b)

    @classmethod
    def of(cls, factors: Float, y: Float) -> Lengths:
        """From factors (m, R, n) with y_i = ‖factors_i x‖²; a measurement that is zero whatever x is, is left out."""
        norms = np.sqrt(np.einsum("irj,irj->i", factors, factors))
        kept = norms > 1e-12 * norms.max(initial=0.0)
        B = (factors[kept] / norms[kept, None, None]).reshape(-1, factors.shape[2])
        square = np.maximum(y[kept], 0.0) / norms[kept] ** 2
        values, vectors = np.linalg.eigh(B.T @ B)
        values = np.maximum(values, 0.0)
        return cls(B, np.sqrt(square), values, vectors, float(square.sum() / values.sum()))


class Estimate(NamedTuple):
    """Where a run ended: x, how well the lengths fit, `‖|Bx| − b‖/‖b‖`, and the products with B that it took."""

    x: Float
    gap: float
    products: int


def attempts(data: Lengths, rng: np.random.Generator) -> Iterator[tuple[Float, float]]:
    """Starts, each a direction of x, with the damping d that goes with them, the likeliest first."""
    first, second = spectral_vectors(data)
    yield first, 0.8
    yield first, 0.5
    yield second, 0.5
    yield rng.standard_normal(first.size), 0.5


def spectral_vectors(data: Lengths) -> tuple[Float, Float]:
    """The two leading eigenvectors of `Σ_i T(y_i) B_iᵀB_i`."""
    n = data.B.shape[1]
    weights = np.repeat(spectral_weights(data.b**2, len(data.B) / n), data.R)
    _, vectors = np.linalg.eigh((data.B * weights[:, None]).T @ data.B)
    return vectors[:, -1], vectors[:, -min(2, n)]


def spectral_weights(y: Float, ratio: float) -> Float:
    """`T(u) = (u − 1)/(u + √ratio − 1)` at u = y/mean(y), for ratio = mR/n."""
    u = y / y.mean()
    return np.maximum((u - 1) / (u + np.sqrt(max(ratio, 1.0001)) - 1 + 1e-9), _LEAST_WEIGHT)


def run(data: Lengths, start: Float, damping: float) -> Estimate:
    """VAMP from one direction of x."""
    B, b, R = data.B, data.b, data.R
    N, size = len(B), float(np.linalg.norm(b))
    E = size**2 / N
    r1 = B @ start
    r1 *= np.sqrt(0.5) * size / np.linalg.norm(r1)
    gamma1 = 1 / (0.5 * E)
    best, best_gap, since, count = start, np.inf, 0, 1

    def precision(value: float) -> float:
        return float(np.clip(value, 1e-8 / E, 1e10 / E))

    for _ in range(_MAX_STEPS):
        z_hat, share = _known_lengths(r1, b, gamma1, R)
        eta = 1 / max(float(np.mean(b**2 * share)) / R, 1e-12 * E)
        gamma2 = precision(eta - gamma1)
        r2 = (eta * z_hat - gamma1 * r1) / gamma2
        shrunk = gamma2 / (1 / data.s2 + gamma2 * data.values)
        x = data.vectors @ (shrunk * (data.vectors.T @ (B.T @ r2)))
        z = B @ x
        count += 2
        gap = float(np.linalg.norm(_lengths(z, R) - b)) / size
        if gap < best_gap:
            since = 0 if gap < _PROGRESS * best_gap else since + 1
            best, best_gap = x, gap
        else:
            since += 1
        if best_gap < _CLOSE or since >= _PATIENCE:
            break
        eta = N * gamma2 / float(data.values @ shrunk)
        gamma = precision(eta - gamma2)
        change = damping * ((eta * z - gamma2 * r2) / gamma - r1)
        r1 = r1 + change
        gamma1 = gamma**damping * gamma1 ** (1 - damping)
        if float(np.linalg.norm(change)) < _STILL * size:
            break
    return Estimate(best, best_gap, count)


def _lengths(z: Float, R: int) -> Float:
    """|z_i| of R rows each."""
    return np.abs(z) if R == 1 else np.linalg.norm(z.reshape(-1, R), axis=1)


def _known_lengths(r: Float, b: Float, gamma: float, R: int) -> tuple[Float, Float]:
    """The mean of z_i of length b_i under N(r_i, 1/γ), and 1 − h²: the share of its square that is not known."""
    length = np.maximum(_lengths(r, R), 1e-300)
    kappa = gamma * b * length
    if R == 1:
        h = np.tanh(kappa)
    else:
        from scipy.special import ive

        small, large = ive(R / 2 - 1, kappa), ive(R / 2, kappa)
        # For small κ the ratio is κ/R, which for many rows underflows in both.
        h = np.where(small > 1e-290, large / np.maximum(small, 1e-290), kappa / R)
    return (np.repeat(b * h / length, R)) * r, np.maximum(1 - h**2, 0.0)
