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

B is asked for Bx, Bᵀz, its spectrum and its leading vectors only (`fastquad.numerics.transform`): it may be a Fourier
transform that is never stored. Where a spectrum is known only with images that were not measured, such as pixels behind
a beam stop, those are among z with lengths that are not known: ẑ_i = r1_i, of variance 1/γ1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad.numerics.transform import Transform
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

    B is a transform with measurements of norm 1, b are the lengths (m,), `s2` is the mean square of a coordinate of x.
    Of images that were not measured, `unseen` (m,), if there are any, b is zero.
    """

    B: Transform
    b: Float
    s2: float
    unseen: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, transform: Transform, y: Float) -> Lengths:
        """From a transform with y_i = ‖B_i x‖²; a measurement that is zero whatever x is, is left out."""
        B, norms, source = transform.unit()
        unseen = source < 0
        square = np.maximum(y[source], 0.0) / norms**2
        if not unseen.any():
            return cls(B, np.sqrt(square), float(square.sum() / B.eigenvalues.sum()))
        square[unseen] = 0.0
        return cls(B, np.sqrt(square), float(square.sum() / B.eigenvalues.sum() / np.mean(~unseen)), unseen)

    @property
    def N(self) -> int:
        """How many numbers have lengths that are known."""
        return self.B.R * (len(self.b) if self.unseen is None else int(np.count_nonzero(~self.unseen)))

    def believed(self, r: Float, gamma: float) -> tuple[Float, float]:
        """The mean of z = Bx of these lengths under N(r, 1/γ), and the mean variance of its numbers."""
        z, share = _known_lengths(r, self.b, gamma, self.B.R)
        if self.unseen is None:
            return z, float(np.mean(self.b**2 * share)) / self.B.R
        # Nothing is learned of what was not measured.
        z = np.where(np.repeat(self.unseen, self.B.R), r, z)
        return z, float(np.mean(np.where(self.unseen, 1 / gamma, self.b**2 * share / self.B.R)))

    def misfit(self, z: Float) -> float:
        """`‖|z| − b‖` over the lengths that are known."""
        left = self.B.lengths(z) - self.b
        return float(np.linalg.norm(left if self.unseen is None else left[~self.unseen]))


class Estimate(NamedTuple):
    """Where a run ended: x, and how well the lengths fit, `‖|Bx| − b‖/‖b‖`."""

    x: Float
    gap: float


def attempts(data: Lengths, rng: np.random.Generator) -> Iterator[tuple[Float, float]]:
    """Starts, each a direction of x, with the damping d that goes with them, the likeliest first."""
    first, second = spectral_vectors(data)
    yield first, 0.8
    yield first, 0.5
    yield second, 0.5
    yield rng.standard_normal(first.size), 0.5


def spectral_vectors(data: Lengths) -> tuple[Float, Float]:
    """The two leading eigenvectors of `Σ_i T(y_i) B_iᵀB_i`."""
    if data.unseen is None:
        return data.B.leading(spectral_weights(data.b**2, data.N / data.B.n))
    weights = np.zeros(len(data.b))
    weights[~data.unseen] = spectral_weights(data.b[~data.unseen] ** 2, data.N / data.B.n)
    return data.B.leading(weights)


def spectral_weights(y: Float, ratio: float) -> Float:
    """`T(u) = (u − 1)/(u + √ratio − 1)` at u = y/mean(y), for ratio = mR/n."""
    u = y / y.mean()
    return np.maximum((u - 1) / (u + np.sqrt(max(ratio, 1.0001)) - 1 + 1e-9), _LEAST_WEIGHT)


def run(data: Lengths, start: Float, damping: float) -> Estimate:
    """VAMP from one direction of x."""
    B, values = data.B, data.B.eigenvalues
    N, size = B.R * len(data.b), float(np.linalg.norm(data.b))
    E = size**2 / data.N
    r1 = B.forward(start)
    r1 *= np.sqrt(0.5) * size / (np.linalg.norm(r1) * np.sqrt(data.N / N))
    gamma1 = 1 / (0.5 * E)
    best, best_gap, since = start, np.inf, 0

    def precision(value: float) -> float:
        return float(np.clip(value, 1e-8 / E, 1e10 / E))

    for _ in range(_MAX_STEPS):
        z_hat, variance = data.believed(r1, gamma1)
        eta = 1 / max(variance, 1e-12 * E)
        gamma2 = precision(eta - gamma1)
        r2 = (eta * z_hat - gamma1 * r1) / gamma2
        shrunk = gamma2 / (1 / data.s2 + gamma2 * values)
        x = B.filtered(shrunk, B.adjoint(r2))
        z = B.forward(x)
        gap = data.misfit(z) / size
        if gap < best_gap:
            since = 0 if gap < _PROGRESS * best_gap else since + 1
            best, best_gap = x, gap
        else:
            since += 1
        if best_gap < _CLOSE or since >= _PATIENCE:
            break
        eta = N * gamma2 / float(values @ shrunk)
        gamma = precision(eta - gamma2)
        change = damping * ((eta * z - gamma2 * r2) / gamma - r1)
        r1 = r1 + change
        gamma1 = gamma**damping * gamma1 ** (1 - damping)
        if float(np.linalg.norm(change)) < _STILL * size:
            break
    return Estimate(best, best_gap)


def _known_lengths(r: Float, b: Float, gamma: float, R: int) -> tuple[Float, Float]:
    """The mean of z_i of length b_i under N(r_i, 1/γ), and 1 − h²: the share of its square that is not known."""
    length = np.maximum(np.abs(r) if R == 1 else np.linalg.norm(r.reshape(-1, R), axis=1), 1e-300)
    kappa = gamma * b * length
    if R == 1:
        h = np.tanh(kappa)
    else:
        from scipy.special import ive

        small, large = ive(R / 2 - 1, kappa), ive(R / 2, kappa)
        # For small κ the ratio is κ/R, which for many rows underflows in both.
        h = np.where(small > 1e-290, large / np.maximum(small, 1e-290), kappa / R)
    return (np.repeat(b * h / length, R)) * r, np.maximum(1 - h**2, 0.0)
