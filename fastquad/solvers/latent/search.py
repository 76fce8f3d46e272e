"""Find the start of latent Levenberg–Marquardt: a search in the span of a few principal directions of the decoder.

With `B_i = U^T Ã_i U`, (p, p), and `h(z) = U^T g(z)`, the residual is `t h^T B_i h − y_i` up to what U leaves out, and
A need not be read again. All starts of all signals are one batch, in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastquad.numerics.least_squares import Descents, Normal, concatenate, normal
from fastquad.priors.generative import Generative
from fastquad.typing import Float, Indices

# The number of codes evaluated at a time, so that their Jacobians stay in cache.
_CHUNK = 32
# The stages of the search: the share of the starts that each keeps, and its number of steps.
_STAGES = ((1.0, 2), (0.5, 3), (0.25, 4), (0.25, 6), (0.0, 4))
# The decrease of `‖r‖² + λ‖z‖²`, in units of σ², below which a step moves z only within its posterior deviation.
NEGLIGIBLE = 0.1
# The least λ, as a share of σ².
_LEAST_SHARE = 0.01
# The share of noise in y from which on λ is all of σ².
_MOSTLY_NOISE = 0.55


class Unknowns(NamedTuple):
    """The unknowns of one signal: θ is its code z, followed by t = ‖x‖² if that is not known."""

    prior: Generative
    y: Float
    square: float | None  # t where it is known; 1 where the decoder's output is taken as it is
    noise: float  # the variance of the noise where it is known, else 0: σ² is at least this
    turning: bool = False  # whether the signal is complex, Re and Im in turn, and known up to a phase

    @property
    def free(self) -> bool:
        """Whether t is unknown."""
        return self.square is None

    @property
    def power(self) -> float:
        """The mean of y²."""
        return float(np.mean(self.y**2))

    @property
    def size(self) -> int:
        """The length of θ."""
        return self.prior.decoder.n_latent + self.free

    @property
    def counted(self) -> int:
        """The unknowns as the verdict counts them, which takes one off for a phase: a decoder need not have any."""
        return self.size + self.turning

    def split(self, theta: Float) -> tuple[Float, Float]:
        """Codes (b, k) and t (b,) of the rows of θ."""
        if self.square is None:
            return theta[:, :-1], theta[:, -1]
        return theta, np.full(len(theta), self.square)

    def weights(self, ridge: Float) -> Float:
        """The ridge of each number in θ, (b, size), given those (b,) of the codes; that of t is zero."""
        weights = np.repeat(ridge[:, None], self.size, axis=1)
        if self.free:
            weights[:, -1] = 0
        return weights


def quadratic_residuals(W: Float, g: Float, J: Float, t: Float, Y: Float, free: bool) -> Normal:
    """Normal equations of `r_i = t g^T Ã_i g − y_i` in z, and in t where it is free.

    W (b, m, n) are the products of the signals g (b, n), J (b, n, k) their derivatives; t is (b,) and Y (b, m).
    """
    q = (W @ g[:, :, None])[:, :, 0]
    t = t.astype(q.dtype)
    jacobian = W @ J
    jacobian *= 2 * t[:, None, None]
    if free:
        jacobian = np.concatenate([jacobian, q[:, :, None]], axis=2)
    at = normal(t[:, None] * q - Y, jacobian)
    # Reject negative t, which is ‖x‖².
    at.square[t <= 0] = np.inf
    return at


class NoiseLevel(NamedTuple):
    """The current estimate of the noise variance σ², and λ, each (b,)."""

    noise: Float
    ridge: Float


def learn(at: Normal, level: NoiseLevel, signals: list[Unknowns], m: int) -> NoiseLevel:
    """The next σ² and λ: see `fastquad.solvers.latent.solver`."""
    size, k = at.gram.shape[1], signals[0].prior.decoder.n_latent
    if m <= size or not np.isfinite(at.gram).all():
        return level
    spectrum = np.maximum(np.linalg.eigvalsh(at.gram[:, :k, :k]), 0)
    total = spectrum + level.ridge[:, None]
    # A direction of the code that is not seen is not determined, without a ridge either.
    seen = np.divide(spectrum, total, out=np.zeros_like(spectrum), where=total > 0)
    determined = seen.sum(axis=1) + size - k
    noise = np.maximum(at.square / (m - determined), [signal.noise for signal in signals])
    unexplained = np.minimum(noise / [signal.power for signal in signals], 1)
    return NoiseLevel(noise, noise * np.clip((unexplained / _MOSTLY_NOISE) ** 6, _LEAST_SHARE, 1))


class Valleys(NamedTuple):
    """The ends of the better starts: θ (b, size), with ‖r‖² (b,) and the Gram matrices (b, size, size) there."""

    theta: Float
    square: Float
    gram: Float


class Start(NamedTuple):
    """The start of the steps on A, and the other valleys that the search found."""

    theta: Float
    level: NoiseLevel
    valleys: Valleys | None = None


def search(B: Float, signals: list[Unknowns], n_starts: int, misfit: float) -> list[Start]:
    """The best θ found for each signal, by successive halving of Levenberg–Marquardt runs in the compressed space."""
    space = _Compressed(B, signals)
    b, first = len(signals), signals[0]
    theta, ridge = space.starts(n_starts, misfit)
    r = len(theta) // b
    owner = np.repeat(np.arange(b), r)
    level = NoiseLevel(ridge, ridge)
    descents = Descents(theta, space.evaluate(theta, owner), first.weights(ridge)[owner])
    alive = np.arange(b * r)
    for share, n_steps in _STAGES:
        finalists = alive
        alive = _fittest(descents.value, alive, b, max(1, int(share * r)))
        for _ in range(n_steps):
            trial = descents.propose(alive)
            useful = descents.predicted[alive] > NEGLIGIBLE * level.noise[owner[alive]]
            which, trial = alive[useful], trial[useful]
            if not which.size:
                break
            descents.receive(which, trial, space.evaluate(trial, owner[which]))
        best = _fittest(descents.value, alive, b, 1)
        level = learn(Normal(*(part[best] for part in descents.at)), level, signals, space.m)
        descents.set_ridge(first.weights(level.ridge)[owner])
    ends = finalists.reshape(b, -1)
    return [
        Start(
            theta,
            NoiseLevel(level.noise[[i]], level.ridge[[i]]),
            Valleys(descents.Z[ends[i]], descents.at.square[ends[i]], descents.at.gram[ends[i]]),
        )
        for i, theta in enumerate(descents.Z[best])
    ]


def _fittest(value: Float, alive: Indices, b: int, size: int) -> Indices:
    """The `size` starts of least value for each of b signals, among those alive, equally many for each signal."""
    rows = alive.reshape(b, -1)
    order = np.argsort(value[rows], axis=1)[:, :size]
    return np.take_along_axis(rows, order, axis=1).ravel()


class _Compressed:
    """The measurements in the span of U, for signals with one A."""

    def __init__(self, B: Float, signals: list[Unknowns]) -> None:
        self.m, p, _ = B.shape
        self.signals, self.first = signals, signals[0]
        self.decoder = self.first.prior.fast
        dtype = self.decoder.dtype
        self.U = self.first.prior.basis(p).astype(dtype)
        self.B = B.astype(dtype)
        self.Y = np.stack([signal.y for signal in signals]).astype(dtype)
        self.squares = None if self.first.free else np.array([signal.square for signal in signals])

    def evaluate(self, theta: Float, owner: Indices) -> Normal:
        """The normal equations at the rows of θ; `owner` is the signal that each row belongs to."""
        return concatenate(
            [self._evaluate(theta[s : s + _CHUNK], owner[s : s + _CHUNK]) for s in range(0, len(theta), _CHUNK)]
        )

    def _evaluate(self, theta: Float, owner: Indices) -> Normal:
        codes, t = self.first.split(theta)
        if self.squares is not None:
            t = self.squares[owner]
        g, J = self.decoder.jacobian(codes.astype(self.decoder.dtype))
        h = g @ self.U
        J = (J.transpose(0, 2, 1) @ self.U).transpose(0, 2, 1)
        return quadratic_residuals(self._products(h), h, J, t, self.Y[owner], self.first.free)

    def starts(self, n_starts: int, misfit: float) -> tuple[Float, Float]:
        """For each signal the θ of the samples with the highest posterior, (b·r, size), and the first λ, (b,)."""
        codes, signals = self.first.prior.samples
        Q = self._measure(signals @ self.U)
        square, ridge = self._first_guess(float(np.mean(Q**2)), misfit)
        overlap, power = self.Y @ Q.T, np.einsum("si,si->s", Q, Q)
        if self.squares is None:
            # Take the t that fits best, clipped from below: a sample unlike the signal would give nearly zero.
            t = np.clip(overlap / np.maximum(power, 1e-300), 0.2 * square[:, None], square[:, None])
        else:
            t = np.broadcast_to(square[:, None], overlap.shape)
        cost = t * (t * power - 2 * overlap) + ridge[:, None] * np.einsum("sk,sk->s", codes, codes)
        best = np.argsort(cost, axis=1)[:, :n_starts]
        theta = np.concatenate([codes[best], np.take_along_axis(t, best, axis=1)[:, :, None]], axis=2)
        return theta.reshape(-1, theta.shape[2])[:, : self.first.size].astype(np.float64), ridge

    def _first_guess(self, gain: float, misfit: float) -> tuple[Float, Float]:
        """t and λ of each signal, (b,), where a signal with t = 1 has measurements of mean square `gain`."""
        power = np.array([signal.power for signal in self.signals])
        noise = np.array([signal.noise for signal in self.signals])
        explained = np.maximum(power - noise, 0.05 * power)
        if self.squares is None:
            # Matrices that are zero on the range tell nothing of the norm.
            square = np.sqrt(explained / gain) if gain > 0 else np.ones_like(power)
        else:
            square = self.squares
            if self.first.prior.normalize:
                # Estimate the noise from the known norm: mean y² is gain t² + σ².
                noise = np.maximum(noise, power - gain * square**2)
                explained = np.maximum(power - noise, 0.05 * power)
        return square, misfit * explained + noise

    def _measure(self, H: Float) -> Float:
        """`h^T B_i h` for the rows of H, (N, m)."""
        parts = [H[s : s + _CHUNK] for s in range(0, len(H), _CHUNK)]
        return np.concatenate([(self._products(h) @ h[:, :, None])[:, :, 0] for h in parts])

    def _products(self, h: Float) -> Float:
        """`B_i h` for the rows of h, (b, m, p)."""
        p = h.shape[1]
        return (h @ self.B.reshape(-1, p).T).reshape(len(h), self.m, p)
