"""The signal is the output of a decoder: `x = G(z)` for a few latent numbers z.

As in the paper the output is normalised: up to its norm, the signal is in the set `{G(z)/‖G(z)‖}` on the unit sphere.
With `g = G/‖G‖`,

    J_g = (I − g g^T) J_G / ‖G‖,       J_g^T v = J_G^T (v − g (g·v)) / ‖G‖,

so a normalised decoder is again a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from fastquad.decoders.base import BaseDecoder, Compiled, Pullback
from fastquad.decoders.checked import Checked
from fastquad.priors import projection
from fastquad.priors.base import Prior
from fastquad.typing import Float

# The number of samples of the decoder that represent its range.
_N_SAMPLES = 1000


class Normalized(BaseDecoder):
    """`g(z) = G(z)/‖G(z)‖`."""

    def __init__(self, decoder: BaseDecoder) -> None:
        self.decoder, self.n_latent, self.n, self.dtype = decoder, decoder.n_latent, decoder.n, decoder.dtype

    def forward(self, Z: Float) -> Float:
        return self._unit(self.decoder.forward(Z))[0]

    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        values, pullback = self.decoder.vjp(Z)
        g, norms = self._unit(values)
        return g, lambda V: pullback((V - g * np.einsum("bn,bn->b", g, V)[:, None]) / norms)

    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        values, J = self.decoder.jacobian(Z)
        g, norms = self._unit(values)
        # Work on the transpose, the layout in which decoders return J.
        T = J.transpose(0, 2, 1) / norms[:, :, None]
        T -= (T @ g[:, :, None]) * g[:, None, :]
        return g, T.transpose(0, 2, 1)

    def compiled(self) -> Compiled | None:
        inner = self.decoder.compiled()
        return None if inner is None else inner._replace(unit=True)

    def astype(self, dtype: DTypeLike) -> Normalized:
        return Normalized(self.decoder.astype(dtype))

    @staticmethod
    def _unit(values: Float) -> tuple[Float, Float]:
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        # Leave an output of all zeros as it is: it has no direction.
        norms[norms == 0] = 1
        return values / norms, norms


@dataclass(frozen=True, eq=False)
class Generative(Prior):
    """The signal is the output of a decoder, up to its norm.

    Parameters
    ----------
    decoder : fastquad.decoders.BaseDecoder
        The bundled `fq.decoders.mnist()`, arrays of your own as `fq.decoders.Decoder`, or a network of PyTorch or JAX
        as `fq.decoders.TorchDecoder` or `JaxDecoder`.
    normalize : bool
        Whether only the direction of the decoder's output counts, as in the paper; the norm of the signal is then
        the `norm` given to `solve`, or it is fitted. If not, the signal is the output as it is.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> prior = fq.Generative(fq.decoders.mnist())
    >>> x = prior.signal(np.zeros(20))
    >>> float(np.linalg.norm(x).round(12))
    1.0
    >>> z = prior.project(x, rng=0)
    >>> bool(prior.signal(z) @ x > 0.99)
    True
    """

    kind: ClassVar[str] = "generative"
    decoded: ClassVar[bool] = True

    decoder: BaseDecoder
    normalize: bool = True
    _bases: dict[int, Float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.decoder, BaseDecoder):
            raise TypeError(
                "`decoder` must be a decoder, such as fq.decoders.mnist() or a TorchDecoder, "
                f"got {type(self.decoder).__name__}."
            )

    def check(self, n: int) -> None:
        """Raise a ValueError if the decoder does not make signals of length n."""
        if self.decoder.n != n:
            raise ValueError(f"the decoder of `prior` makes signals of length {self.decoder.n}, but A has n = {n}.")

    def signal(self, z: ArrayLike) -> Float:
        """The signals with these codes: (n,) for z of shape (k,), (b, n) for (b, k); of norm one if `normalize`."""
        return self.range(z)

    def project(
        self, v: ArrayLike, *, method: str = "adam", restarts: int = 5, rng: int | np.random.Generator | None = 0
    ) -> Float:
        """The code of the nearest signal to v that is found.

        Parameters
        ----------
        v : array of shape (n,) or (b, n)
        method : "adam" or "lm"
            Adam from random codes, 100 steps at rate 0.1, or Levenberg–Marquardt from the nearest of 1000 samples.
        restarts : int
            The number of codes to start from.
        rng : seed or Generator

        Returns
        -------
        z : array of shape (k,) or (b, k)
        """
        V = np.asarray(v, dtype=np.float64)
        if V.ndim not in (1, 2) or V.shape[-1] != self.decoder.n:
            raise ValueError(f"`v` must have shape ({self.decoder.n},) or (b, {self.decoder.n}), got {V.shape}.")
        rows = np.atleast_2d(V)
        if method == "adam":
            starts: Float = np.random.default_rng(rng).standard_normal((len(rows), restarts, self.decoder.n_latent))
            Z = projection.adam(self.fast, rows, starts)
        elif method == "lm":
            starts = self.nearest_samples(rows, restarts)
            # Assume a little noise, just enough to keep codes from running off to where the decoder saturates.
            noise = 1e-4 * np.einsum("bn,bn->b", rows, rows)
            Z = projection.levenberg_marquardt(self.range, rows, starts, noise=noise, unit=self.normalize)
        else:
            raise ValueError(f"`method` must be 'adam' or 'lm', got {method!r}.")
        return Z[0] if V.ndim == 1 else Z

    # -- for solvers ------------------------------------------------------------------------------------------

    @cached_property
    def range(self) -> BaseDecoder:
        """z ↦ signal, in the decoder's own precision."""
        return self._called(self.decoder)

    @cached_property
    def fast(self) -> BaseDecoder:
        """The same in float32, if the decoder can: for searching, not for the last digits."""
        return self._called(self.decoder.astype(np.float32))

    def _called(self, decoder: BaseDecoder) -> BaseDecoder:
        """A decoder as methods call it: a compiled network as it is, for it needs no checks."""
        decoder = Checked(decoder) if decoder.compiled() is None else decoder
        return Normalized(decoder) if self.normalize else decoder

    @cached_property
    def directions(self) -> BaseDecoder:
        """z ↦ the direction of the signal, in float32 if the decoder can."""
        return self.fast if self.normalize else Normalized(self.fast)

    @cached_property
    def samples(self) -> tuple[Float, Float]:
        """Codes (N, k) ~ N(0, I) and their signals (N, n): the same for every solve."""
        codes = np.random.default_rng(0).standard_normal((_N_SAMPLES, self.decoder.n_latent))
        return codes, self.fast.forward(codes.astype(self.fast.dtype))

    def basis(self, p: int) -> Float:
        """The p principal directions (n, p) of the samples, not centred; one and the same array for each p."""
        p = min(p, self.decoder.n, _N_SAMPLES)
        if p not in self._bases:
            self._bases[p] = _principal_directions(self.samples[1].astype(np.float64), p)
            self._bases[p].flags.writeable = False
        return self._bases[p]

    def nearest_samples(self, V: Float, r: int) -> Float:
        """The codes (b, r, k) of the r samples nearest to each row of V."""
        codes, signals = self.samples
        distances = np.einsum("sn,sn->s", signals, signals) - 2 * V.astype(signals.dtype) @ signals.T
        return codes[np.argsort(distances, axis=1)[:, :r]]


def _principal_directions(X: Float, p: int) -> Float:
    """The p leading right singular vectors of X, (n, p), from the smaller of its two Gram matrices."""
    tall = X.shape[0] >= X.shape[1]
    vectors = np.linalg.eigh(X.T @ X if tall else X @ X.T)[1][:, : -p - 1 : -1]
    return np.ascontiguousarray(vectors if tall else np.linalg.qr(X.T @ vectors)[0])
