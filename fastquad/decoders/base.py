"""The interface of a decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from fastquad.decoders.compiled import Network
from fastquad.typing import Float

Pullback = Callable[[Float], Float]


class Compiled(NamedTuple):
    """A decoder as a compiled network; with `unit`, its output is divided by its norm."""

    network: Network
    unit: bool


class BaseDecoder(ABC):
    """A differentiable map from `n_latent` numbers to a signal of n; subclass it for a decoder of your own.

    Examples
    --------
    A linear decoder, `G(z) = W^T z`:

    >>> import numpy as np, fastquad as fq
    >>> class Linear(fq.decoders.BaseDecoder):
    ...     def __init__(self, W):
    ...         self.W, (self.n_latent, self.n), self.dtype = W, W.shape, W.dtype
    ...
    ...     def forward(self, Z):
    ...         return Z @ self.W
    ...
    ...     def vjp(self, Z):
    ...         return Z @ self.W, lambda V: V @ self.W.T
    ...
    ...     def jacobian(self, Z):
    ...         return Z @ self.W, np.broadcast_to(self.W.T, (len(Z), self.n, self.n_latent))
    >>> rng = np.random.default_rng(0)
    >>> prior = fq.Generative(Linear(rng.standard_normal((3, 30))))
    >>> A, x = rng.standard_normal((40, 30, 30)), prior.signal(rng.standard_normal(3))
    >>> bool(fq.distance(fq.solve(A, fq.measure(A, x), prior=prior).x, x) < 1e-6)
    True
    """

    n_latent: int
    n: int
    dtype: np.dtype

    @abstractmethod
    def forward(self, Z: Float) -> Float:
        """`G(z_s)` for the rows of Z, (b, n_latent): (b, n)."""

    @abstractmethod
    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        """`G(z_s)`, and the function V ↦ `J(z_s)^T v_s`, from (b, n) to (b, n_latent)."""

    @abstractmethod
    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        """`G(z_s)`, (b, n), and `J(z_s)`, (b, n, n_latent)."""

    def compiled(self) -> Compiled | None:
        """The same map for the compiled kernels, or None if there is none."""
        return None

    def astype(self, dtype: DTypeLike) -> BaseDecoder:
        """This decoder computing in another precision; the decoder itself if it has only one."""
        return self

    def __call__(self, z: ArrayLike) -> Float:
        """`G(z)`: shape (n,) for z of shape (n_latent,), (b, n) for (b, n_latent)."""
        Z = np.asarray(z)
        if Z.ndim not in (1, 2) or Z.shape[-1] != self.n_latent:
            raise ValueError(f"`z` must have shape ({self.n_latent},) or (b, {self.n_latent}), got {Z.shape}.")
        values = self.forward(np.atleast_2d(Z).astype(self.dtype, copy=False))
        return values[0] if Z.ndim == 1 else values
