"""Message passing for intensities `y_i = ‖B_i x‖²` through a transform B, with any prior and any noise.

The unknown z = Bx has lengths that were measured, b_i = √y_i up to noise, and x is what the prior says. A loop goes
back and forth between the two, with a belief N(r, 1/γ) on each way, from which what was known is taken out.

Lengths. B_i has R rows (2 for a complex measurement). Noise of variance τ_i² for each number, `b_i = ‖z_i + w_i‖`, and
the belief N(r_i, 1/γ) give a mean in closed form, which keeps the direction of r_i (for R = 2: "Rice"):

    t = 1/(1 + γ τ²),   κ = γ t b |r|,   h = I_{R/2}(κ)/I_{R/2−1}(κ)       (R = 1: tanh κ)
    ẑ = (t b h/|r| + 1 − t) r,           var = t² b² (1 − h²)/R + t τ²      of each number

Intensities of variance v_i at z have τ² = v/(4 z): ¼ for counts, σ²/(4 y) for noise of one level.

Where all of the transform is measured, so that BᵀB has eigenvalues d that are known (N = mR, expectation consistency):

    lengths    (ẑ, v) = believed(r1, γ1);   η = 1/v;   γ2 = η − γ1;   r2 = (η ẑ − γ1 r1)/γ2
    signal     a = γ2 d,   b = γ2 Bᵀ r2;   (x, v) = denoise(b, a);   ᾱ = γ2 Σ d v/N
               γ = γ2 (1/ᾱ − 1);   r = (z/ᾱ − r2)/(1/ᾱ − 1)    for z = Bx
    damping    r1 ← r1 + D (r − r1);   γ1 ← γ^D γ1^(1−D)

Any other B, of which only the columns' mean squares d are known (generalised approximate message passing, GAMP):

    lengths    ν = Σ d v/N;   p = Bx − ν s;   (ẑ, v_z) = believed(p, 1/ν);   s ← s + D ((ẑ − p)/ν − s)
               ν_s ← ν_s + D ((1 − v_z/ν)/ν − ν_s);   x̄ ← x̄ + D (x − x̄)
    signal     a = ν_s d,   b = a x̄ + Bᵀ s;   (x, v) = denoise(b, a)

Without a prior x is N(0, s2). The start is the spectral vector of weights that are optimal for Gaussian vectors (Luo,
Alghamdi and Lu 2019), or the mean that a prior knows. Where there is no noise, Levenberg–Marquardt takes over as soon
as the lengths fit to a hundredth. In noise x is the posterior mean, and Stein's formula gives its error:

    E ‖x − x₀‖² = Σ (x_j − b_j/a_j)² − 1/a_j + 2 v_j
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from fastquad.noise import Noise
from fastquad.numerics.transform import Transform
from fastquad.priors.base import Denoiser
from fastquad.typing import Float

#: The relative misfit of the lengths below which a descent is worth trying.
NEAR = 0.5
# The misfit at which the loop ends without noise: Levenberg–Marquardt is quicker from there.
_CLOSE = 1e-2
# The ratio of misfits that counts as progress, and the number of steps without it after which a run has settled.
_PROGRESS, _PATIENCE = 0.98, 30
# The relative move of the belief below which it has settled.
_STILL, _STILL_EXACT = 1e-4, 1e-6
# In noise it has settled when x moves by less than the first share of its error in so many steps, or, where a denoiser
# that is not smooth makes it go to and fro, by less than the second, and no less than before.
_WITHIN, _TO_AND_FRO, _LOOKS = 0.02, 0.25, 5
# The steps at each level of a schedule, and between two that learn the level of the noise.
_SCHEDULED, _LEARNING = 30, 5
# The steps without noise before it is learnt.
_EXACT_STEPS = 150
# The noise at first, where it has to be learnt, relative to the median of b².
_FIRST_LEVEL = 0.1
# The least weight T(y) of a measurement that is nearly zero.
_LEAST_WEIGHT = -20.0
# The bounds of the mean divergence ᾱ: at 1 nothing would be left to hand on.
_DIVERGENCE = (1e-6, 0.98)
# The number of steps before a prior learns its parameters.
_UNLEARNT = 15
# The least share of a belief's precision that is news: a variance that is estimated may be as large as before.
_NEWS = 1e-3


class Intensities(NamedTuple):
    """What was measured: B with measurements of norm 1, the lengths b (m,), and τ² (m,), zero without noise.

    `s2` is the mean square of a coordinate of x.
    """

    B: Transform
    b: Float
    tau2: Float | float
    s2: float
    y: Float
    norms: Float
    noise: Noise | None = None

    @classmethod
    def of(cls, transform: Transform, y: Float, noise: Noise | None = None) -> Intensities:
        """From a transform with y_i = ‖B_i x‖²; a measurement that is zero whatever x is, is left out."""
        B, norms, source = transform.unit()
        square = np.maximum(y[source], 0.0) / norms**2
        found = cls(B, np.sqrt(square), 0.0, float(square.sum() / B.norms.sum()), y[source], norms)
        if noise is None or not noise.given or noise.exact:
            return found
        return found.in_noise(noise if source.size == y.size else noise.rows(source))

    def in_noise(self, noise: Noise) -> Intensities:
        """The same with a noise whose level is known, at the signal that y suggests."""
        z = np.maximum(self.y, noise.deviations(self.y))
        tau2 = 1 / (4 * z * noise.weight(self.y, z))
        b = np.sqrt(np.maximum(self.y, 0.0) + self.B.R * tau2)
        return self._replace(b=b / self.norms, tau2=tau2 / self.norms**2, noise=noise)

    def learnt(self, z: Float, freedom: float) -> Intensities:
        """The same with the noise that a fit z leaves, as if it were that of all lengths alike."""
        left = float(np.sum((self.B.lengths(z) - self.b) ** 2))
        return self._replace(tau2=left / max(self.b.size - freedom / self.B.R, 0.1 * self.b.size))

    @property
    def N(self) -> int:
        """The number of real numbers that are measured."""
        return self.B.R * self.b.size

    def believed(self, r: Float, gamma: float) -> tuple[Float, float]:
        """The mean of z = Bx of these lengths under N(r, 1/γ), and the mean variance of its numbers."""
        R, length = self.B.R, np.maximum(self.B.lengths(r), 1e-300)
        t = 1 / (1 + gamma * self.tau2)
        h = _bessel_ratio(gamma * t * self.b * length, R)
        factor = t * self.b * h / length + (1 - t)
        variance = np.mean((t * self.b) ** 2 * (1 - h) * (1 + h)) / R + np.mean(t * self.tau2)
        return np.repeat(factor, R) * r, float(variance)

    def misfit(self, z: Float) -> float:
        """`‖|z| − b‖/‖b‖`."""
        return float(np.linalg.norm(self.B.lengths(z) - self.b) / np.linalg.norm(self.b))


def _bessel_ratio(kappa: Float, R: int) -> Float:
    """`I_{R/2}(κ)/I_{R/2−1}(κ)`: the mean cosine of a direction, of so many dimensions, about the one it has."""
    if R == 1:
        return np.tanh(kappa)
    from scipy import special

    if R == 2:
        return special.i1e(kappa) / special.i0e(kappa)
    small, large = special.ive(R / 2 - 1, kappa), special.ive(R / 2, kappa)
    # For small κ the ratio is κ/R, which for many rows underflows in both; beyond 1e8, where ive is NaN, it is 1.
    ratio = np.where(small > 1e-290, large / np.maximum(small, 1e-290), kappa / R)
    return np.where(kappa > 1e8, 1 - (R - 1) / (2 * np.maximum(kappa, 1.0)), ratio)


# -- the signal -------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What the prior makes of `b = a x + √a N(0, I)`: the mean, and the variance of each coordinate, (n,)."""

    x: Float
    v: Float


class Signal(Protocol):
    """What is known of x, as the loop asks for it."""

    #: Whether the variance is only the divergence of a function, and the probability that a coordinate is not zero.
    estimated: bool
    weight: Float

    def of(self, b: Float, a: Float, steps: int) -> Known:
        """The posterior of x given b; `steps` were made before."""


class Normal:
    """x ~ N(0, s2)."""

    estimated = False
    weight: Float

    def __init__(self, s2: float, n: int = 0) -> None:
        self.s2, self.weight = s2, np.ones(n)

    def of(self, b: Float, a: Float, steps: int) -> Known:
        v = 1 / (a + 1 / self.s2)
        return Known(b * v, v)


class Believed:
    """x as a prior's denoiser believes, which learns its parameters after a few steps.

    A denoiser of one precision is asked at the largest, A: `x = f(x + (a/A)(u − x))` is what it makes of precisions
    a_j, with one such step for each of the loop. With the divergence α of f the variances of the whole are

        v_j = (α/A)/(1 − α (1 − a_j/A)).
    """

    def __init__(self, denoiser: Denoiser, phi2: float) -> None:
        self.denoiser, self.phi2, self.estimated = denoiser, phi2, denoiser.estimated
        self.x: Float | None = None
        self.weight: Float = np.ones(0)

    def of(self, b: Float, a: Float, steps: int) -> Known:
        most = float(a.max())
        if self.denoiser.unequal or float(a.min()) > (1 - 1e-9) * most:
            posterior = self.denoiser.denoise(b, a if self.denoiser.unequal else most)  # type: ignore[arg-type]
            v = posterior.variance
        else:
            x = np.full(b.size, b.sum() / a.sum()) if self.x is None else self.x
            posterior = self.denoiser.denoise(most * x + (b - a * x), most)
            share = np.minimum(posterior.variance * most, 0.99)
            v = share / most / (1 - share * (1 - a / most))
        self.x, self.weight = posterior.mean, posterior.weight
        if steps >= _UNLEARNT:
            self.denoiser.learn(posterior, self.phi2)
        return Known(posterior.mean, v)


# -- the loop ---------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A start (n,), the damping D, the share of b² that is not known at it, and more noise that falls step by step.

    The `schedule` is in units of the median of b².
    """

    start: Float
    damping: float
    unknown: float = 0.5
    schedule: tuple[float, ...] = ()


#: What learns the level of the noise: the data, the images z and the degrees of freedom of a fit give new data.
Learn = Callable[["Intensities", Float, float], "Intensities"] | None


class Estimate(NamedTuple):
    """Where a run ended: x, how well the lengths fit (`‖|Bx| − b‖/‖b‖`), and what is known of the error.

    `square` is an estimate of ‖x − x₀‖², `v` (n,) the variances, `freedom` Σ ∂x/∂u, and `left` the mean square of what
    the fit leaves of y, in units of a noise of known level.
    """

    x: Float
    gap: float
    square: float = math.inf
    v: Float = np.zeros(0)
    freedom: float = 0.0
    left: float = math.inf
    settled: bool = False


@dataclass
class _State:
    """A belief about z, and the last estimate of x from it: b, a and what the signal made of them."""

    data: Intensities
    signal: Signal
    damping: float
    x: Float
    v: Float
    b: Float
    a: Float
    z: Float
    steps: int = 0
    #: Of expectation consistency: N(r, 1/γ), and the mean square of a number.
    r: Float = field(default_factory=lambda: np.zeros(0))
    gamma: float = 0.0
    E: float = 1.0
    #: Of GAMP: s and ν_s, and x̄.
    s: Float = field(default_factory=lambda: np.zeros(0))
    nu_s: float = 0.0
    mean: Float = field(default_factory=lambda: np.zeros(0))

    def step(self) -> float:
        """One step; returns the relative move of the belief."""
        raise NotImplementedError

    def estimate(self, gap: float) -> Estimate:
        """What is known now."""
        a = np.maximum(self.a, 1e-300)
        seen = self.a > 1e-9 * float(self.a.max())
        u = np.where(seen, self.b / a, self.x)
        spread = float(self.v.sum())
        stein = max(float(np.sum((self.x - u) ** 2) - np.sum(1 / a[seen])) + 2 * spread, 0.0)
        square = spread
        if self.signal.estimated:
            # Behind masks that light pixels unequally the noise of u is not white, and either alone is too small.
            flat = float(self.a.min()) > (1 - 1e-9) * float(self.a.max())
            square = (stein + spread) / 2 if flat else stein + spread
        return Estimate(self.x, gap, square, self.v, float(self.a @ self.v), self._left())

    def _left(self) -> float:
        """What the fit leaves, as a share of what noise of this level does: its mean square."""
        data, spread = self.data, float(self.data.B.norms @ self.v) / self.data.N
        square = (data.B.lengths(self.z) ** 2 + data.B.R * spread) * data.norms**2
        model = data.noise
        if model is None:
            return math.inf
        return float(np.mean((data.y - square) ** 2 * model.weight(data.y, square)))


class Consistent(_State):
    """Expectation consistency, where the eigenvalues of BᵀB are known."""

    @classmethod
    def begin(cls, data: Intensities, signal: Signal, setting: Setting) -> Consistent:
        B, E = data.B, float(np.sum(data.b**2)) / data.N
        zero = np.zeros(B.n)
        found = cls(data, signal, setting.damping, setting.start, zero, zero, zero, B.forward(setting.start))
        found.E, share = E, 1 - setting.unknown
        found.r = found.z * (math.sqrt(share * E * data.N) / float(np.linalg.norm(found.z)))
        found.gamma = 1 / (setting.unknown * E)
        return found

    def step(self) -> float:
        data, B, D = self.data, self.data.B, self.damping
        z_hat, variance = data.believed(self.r, self.gamma)
        eta = 1 / max(variance, 1e-12 * self.E)
        gamma2 = self._precision(max(eta - self.gamma, _NEWS * eta))
        r2 = (eta * z_hat - self.gamma * self.r) / gamma2
        g = B.adjoint(r2)
        if B.diagonal:
            self.a, self.b = gamma2 * B.eigenvalues, gamma2 * g
            self.x, self.v = self.signal.of(self.b, self.a, self.steps)
            left = float(self.a @ self.v)
        else:  # with eigenvectors that are not the coordinates, and x Gaussian
            values = B.eigenvalues
            shares = gamma2 / (1 / data.s2 + gamma2 * values)
            self.x, left = B.filtered(shares, g), float(values @ shares)
        self.z = B.forward(self.x)
        alpha = float(np.clip(left / data.N, *_DIVERGENCE))
        gamma = self._precision(gamma2 * (1 / alpha - 1))
        change = D * ((self.z / alpha - r2) / (1 / alpha - 1) - self.r)
        self.r = self.r + change
        self.gamma = gamma**D * self.gamma ** (1 - D)
        self.steps += 1
        return float(np.linalg.norm(change) / np.sqrt(self.E * data.N))

    def _precision(self, value: float) -> float:
        return float(np.clip(value, 1e-8 / self.E, 1e10 / self.E))


class Generalised(_State):
    """GAMP: B by its products, and the mean squares of its columns."""

    @classmethod
    def begin(cls, data: Intensities, signal: Signal, setting: Setting) -> Generalised:
        B, start = data.B, setting.start
        z = B.forward(start)
        scale = math.sqrt((1 - setting.unknown) * float(np.sum(data.b**2))) / float(np.linalg.norm(z))
        v = np.full(B.n, setting.unknown * data.s2)
        zero = np.zeros(B.n)
        found = cls(data, signal, setting.damping, scale * start, v, zero, zero, scale * z)
        found.s, found.nu_s, found.mean = np.zeros(data.N), 0.0, found.x
        return found

    def step(self) -> float:
        data, B = self.data, self.data.B
        D = self.damping if self.steps else 1.0
        nu = max(float(B.norms @ self.v) / data.N, 1e-12 * data.s2)
        p = self.z - nu * self.s
        z_hat, variance = data.believed(p, 1 / nu)
        self.s = self.s + D * ((z_hat - p) / nu - self.s)
        self.nu_s = self.nu_s + D * (max(1 - variance / nu, 1e-6) / nu - self.nu_s)
        self.mean = self.mean + D * (self.x - self.mean)
        self.a = self.nu_s * B.norms
        self.b = self.a * self.mean + B.adjoint(self.s)
        before = self.x
        self.x, self.v = self.signal.of(self.b, self.a, self.steps)
        self.z = B.forward(self.x)
        self.steps += 1
        return D * float(np.linalg.norm(self.x - before)) / max(float(np.linalg.norm(self.x)), 1e-300)


def run(
    data: Intensities, signal: Signal, setting: Setting, *, steps: int = 200, close: float = _CLOSE, learn: Learn = None
) -> Estimate:
    """The loop from one start, to where it has settled.

    Without noise, or where that is learnt, it ends as soon as the lengths fit to a share `close`. A `setting` with a
    schedule starts with more noise than there is, and takes it away step by step: large sums, such as those at zero
    frequency behind masks without phases, then do not make it diverge.
    """
    plain = isinstance(signal, Normal)
    kind: type[Consistent | Generalised] = Consistent if data.B.complete and (plain or data.B.diagonal) else Generalised
    state = kind.begin(data, signal, setting)
    best = Estimate(setting.start, math.inf)
    for level in (*setting.schedule, 0.0):
        if level:
            state.data = data._replace(tau2=data.tau2 + level * float(np.median(data.b**2)))
            best = _settle(state, _SCHEDULED, close, False)
        elif learn is None:
            state.data = data
            best = _settle(state, steps, close, False)
    if learn is not None:
        # A function that denoises goes on from any noise; what is known of each coordinate alone may find x = 0 likely.
        if signal.estimated:
            state.data = data._replace(tau2=_FIRST_LEVEL * float(np.median(data.b**2)))
        else:
            state.data = data
            best = _settle(state, _EXACT_STEPS, close, False)
            state.data = data.learnt(state.z, best.freedom)
        best = best if best.gap < close else _settle(state, steps, close, True)
    if learn is not None and best.gap >= close:
        state.data = learn(data, state.z, best.freedom)
        best = _settle(state, steps, close, False)
    return best


class _Look(NamedTuple):
    """An x of some steps before, and how far it had moved then, in units of its error."""

    x: Float
    moved: float

    def at(self, found: Estimate) -> tuple[bool, _Look]:
        """Whether the loop has settled, and the next look."""
        moved = float(np.linalg.norm(found.x - self.x)) / max(math.sqrt(found.square), 1e-300)
        to_and_fro = max(moved, self.moved) < _TO_AND_FRO and moved > 0.5 * self.moved
        return moved < _WITHIN or to_and_fro, _Look(found.x, moved)


def _settle(state: _State, steps: int, close: float, learns: bool) -> Estimate:
    """Steps at one level of noise; or one that is learnt, as that of all lengths alike."""
    plain, best, since, look = isinstance(state.signal, Normal), None, 0, _Look(state.x, math.inf)
    exact = not np.any(state.data.tau2)
    for step in range(steps):
        move = state.step()
        gap = state.data.misfit(state.z)
        if not math.isfinite(gap):
            break
        if learns and step % _LEARNING == _LEARNING - 1:
            state.data = state.data.learnt(state.z, float(state.a @ state.v))
        since = 0 if best is None or gap < _PROGRESS * best.gap else since + 1
        found = state.estimate(gap)
        if plain or exact:
            settled = move < (_STILL if plain else _STILL_EXACT)
        elif step % _LOOKS == _LOOKS - 1:
            settled, look = look.at(found)
        else:
            settled = False
        if best is None or gap < best.gap or not plain:
            best = found._replace(settled=settled)
        if settled or ((exact or learns) and gap < close) or (exact and since >= _PATIENCE):
            break
    return best or Estimate(state.x, math.inf)


# -- starts -----------------------------------------------------------------------------------------------------------


def attempts(data: Intensities, rng: np.random.Generator) -> Iterator[Setting]:
    """Starts without a prior, the likeliest first."""
    first, second = spectral_vectors(data)
    yield Setting(first, 0.8)
    yield Setting(first, 0.5)
    yield Setting(second, 0.5)
    yield Setting(rng.standard_normal(first.size), 0.5)


def spectral_vectors(data: Intensities) -> tuple[Float, Float]:
    """The two leading eigenvectors of `Σ_i T(y_i) B_iᵀB_i`."""
    return data.B.leading(spectral_weights(data.b**2, data.N / data.B.n))


def spectral_weights(y: Float, ratio: float) -> Float:
    """`T(u) = (u − 1)/(u + √ratio − 1)` at u = y/mean(y), for ratio = mR/n."""
    u = y / y.mean()
    return np.maximum((u - 1) / (u + np.sqrt(max(ratio, 1.0001)) - 1 + 1e-9), _LEAST_WEIGHT)
