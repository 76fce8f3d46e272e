"""Any function that takes noise from an image is a prior: total variation, wavelets, BM3D, a neural network.

AMP and the loop for intensities ask for the mean of x given `b = a x + sqrt(a) N(0, I)`, which is an image u = b/a with
noise of standard deviation σ = 1/√a: that is what the function is for. What they ask besides is its divergence,
Σ_j ∂f_j/∂u_j, a difference along a random direction e of ±1: `e·(f(u + ε e) − f(u))/ε`, mean of a few such. With
α = divergence/n the variance of a coordinate is α/a, as that of a posterior mean would be.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fastquad import arguments
from fastquad.priors.base import Denoiser as Step
from fastquad.priors.base import Posterior, Prior, Seen, Start
from fastquad.typing import Float, Indices, Number

# The length of the difference that tells the divergence, in units of σ: far above rounding of single precision, and
# small if a denoiser has thresholds.
_DIFFERENCE = 0.1
# Values that differ by less than this share of the largest are one level: of an estimate, and of an answer. Guess.
_ALIKE, _EQUAL = 0.03, 1e-9
# The least number of pixels of a level on the average, for the levels to be what is known of an image. Guess.
_PIXELS = 8
# The bounds of the divergence of a coordinate: an estimate by a difference may leave those of a posterior mean.
_LEAST, _MOST = 1e-4, 1.0


@dataclass(frozen=True, eq=False)
class Denoiser(Prior):
    """The signal is an image, as described by a function that removes noise from images.

    Parameters
    ----------
    f : function
        `f(image, sigma) -> image`: the image without its noise, which is white, of standard deviation sigma for each
        real number. The image is complex if x is. It is called in the main thread, one image at a time, with a copy.
    shape : tuple of int, optional
        The shape of the image that x is, flattened: (height, width), (height, width, channels), a stack. Default: that
        of the masks of a `FourierTensor`, else (n,).
    probes : int
        The number of random directions by which the divergence of f is estimated. Each takes a call of f; one is
        enough for images of a few thousand pixels or more.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> def smooth(image, sigma):
    ...     return (np.roll(image, 1) + 2 * image + np.roll(image, -1)) / 4 if sigma > 0.1 else image
    >>> rng = np.random.default_rng(0)
    >>> masks, x = np.exp(2j * np.pi * rng.random((4, 256))), np.sin(np.arange(256) / 20) + 2
    >>> A = fq.FourierTensor(masks)
    >>> y = rng.poisson(fq.measure(A, x))
    >>> solution = fq.solve(A, y, signal="real", noise=fq.noise.Poisson(), prior=fq.Denoiser(smooth))
    >>> bool(fq.distance(solution.x, x) < 0.02)
    True
    """

    max_sweeps: ClassVar[int] = 60

    f: Callable[[Any, float], Any]
    shape: Any = None
    probes: int = 1
    #: Whether x is complex, and comes as Re and Im in turn; and where random directions come from.
    turned: bool = field(default=False, init=False, repr=False)
    rng: np.random.Generator | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise TypeError(f"`f` must be a function of an image and sigma, got {type(self.f).__name__}.")
        arguments.count(self.probes, "probes")
        if self.shape is not None:
            sides = (self.shape,) if np.ndim(self.shape) == 0 else tuple(self.shape)
            object.__setattr__(self, "shape", tuple(arguments.count(side, "shape") for side in sides))

    def check(self, n: int) -> None:
        """Raise a ValueError if the shape is not that of n pixels."""
        pixels = n // 2 if self.turned else n
        if self.shape is not None and int(np.prod(self.shape)) != pixels:
            raise ValueError(f"`shape` must have n = {pixels} pixels, got {self.shape}.")

    def _with(self, **changes: Any) -> Self:
        found = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(found, name, value)
        return found

    def shaped(self, shape: tuple[int, ...]) -> Self:
        return self if self.shape is not None else self._with(shape=shape)

    def seeded(self, rng: np.random.Generator) -> Self:
        return self._with(rng=rng)

    def of_complex(self) -> Self:
        return self._with(turned=True)

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Step:
        rng = np.random.default_rng(0) if self.rng is None else self.rng
        return _Function(self, rng.choice([-1.0, 1.0], (self.probes, n)))

    def starts(self, seen: Seen) -> list[Start]:
        ones = np.ones(seen.n)
        return [Start(ones, self.denoiser(seen.n, 1.0, seen.phi2), keep=keep, inner=3) for keep in (0.4, 0.7)]

    def coordinates(self, z: Float, weight: Float, size: int) -> Indices | Float:
        """The indicators of the levels of z if it is flat in parts, (n, p), else its largest coordinates."""
        part = _levels(z, _ALIKE)
        count = int(part.max()) + 1
        if count <= min(size, z.size // _PIXELS):
            return np.equal.outer(part, np.arange(count)) / np.sqrt(np.bincount(part))
        return super().coordinates(z, weight, size)

    def freedom(self, x: Float) -> int:
        """The number of levels but zero: of an image that is flat nowhere, all of its pixels."""
        return int(np.unique(_levels(x, _EQUAL)[x != 0]).size)

    def sparse_form(self, x: Float, every: bool) -> tuple[Float, Float] | None:
        """The parts where x is flat, and their levels, if that is how it is known."""
        part = _levels(x, _EQUAL)
        count = int(part.max()) + 1
        if count > x.size // _PIXELS:
            return None
        C = np.equal.outer(part, np.arange(count)).astype(np.float64)
        values = C.T @ x / C.sum(axis=0)
        return C, np.where(np.abs(values) > _EQUAL * np.abs(x).max(), values, 0.0)

    def call(self, u: Float, sigma: float) -> Float:
        """f of an image, flat, its answer checked."""
        image: Number = u.astype(np.float64).view(np.complex128) if self.turned else u.astype(np.float64)
        image = image if self.shape is None else image.reshape(self.shape)
        allowed = "fiubc" if self.turned else "fiub"
        answer = np.asarray(arguments.on_host(self.f(image.copy(), sigma), "f"))
        if answer.shape != image.shape or answer.dtype.kind not in allowed:
            what = "an image" if self.turned else "a real image"
            raise ValueError(
                f"`f` of `prior` must give {what} of shape {image.shape}, got {answer.dtype} of shape {answer.shape}."
            )
        if not np.isfinite(answer).all():
            raise ValueError("`f` of `prior` must give finite numbers, got NaN or inf.")
        return np.ascontiguousarray(answer, dtype=image.dtype).reshape(-1).view(np.float64)


def _levels(x: Float, share: float) -> Indices:
    """For each pixel the number of its level: values apart by more than this share of the largest are of two."""
    order = np.argsort(x, kind="stable")
    jumps = np.diff(x[order], prepend=x[order[0]]) > share * float(np.abs(x).max(initial=0.0))
    part = np.empty(x.size, dtype=np.intp)
    part[order] = np.cumsum(jumps)
    return part


class _Function(Step):
    """The mean that a function gives, and its variance by the divergence along directions (probes, n) of ±1."""

    dense: ClassVar[bool] = True
    estimated: ClassVar[bool] = True

    def __init__(self, prior: Denoiser, directions: Float) -> None:
        self.prior, self.directions = prior, directions

    def denoise(self, b: Float, a: float) -> Posterior:
        sigma = 1 / np.sqrt(a)
        u, epsilon = b / a, _DIFFERENCE * sigma
        mean = self.prior.call(u, float(sigma))
        changes = [e @ (self.prior.call(u + epsilon * e, float(sigma)) - mean) for e in self.directions]
        share = float(np.clip(np.mean(changes) / (epsilon * u.size), _LEAST, _MOST))
        return Posterior(mean, np.full(u.size, share / a), np.ones(u.size))
