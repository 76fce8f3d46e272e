"""Signals that are sparse in a basis with a fast transform: cosines, or wavelets, of images of any shape.

The basis is orthonormal. So `b = a x + sqrt(a) N(0, I)` says the same of the coefficients: the posterior of a sparse
signal given D^T b, and back. The mean variance of x is that of the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fastquad.priors.base import Denoiser, Posterior, Prior
from fastquad.priors.basis import wavelets
from fastquad.priors.sparse import Coefficients, Sparse
from fastquad.typing import Float


@dataclass(frozen=True, eq=False)
class InBasis(Prior):
    """What a prior says of the coefficients in a basis by name, of images of this shape."""

    of: Sparse
    shape: tuple[int, ...]
    name: str = field(default="dct")

    @classmethod
    def made(cls, prior: Sparse, shape: tuple[int, ...]) -> Self:
        """That of a sparse prior with the name of a basis."""
        return cls(Coefficients.of(prior), shape, str(prior.basis))

    def check(self, n: int) -> None:
        """Raise a ValueError if the coefficients cannot be as it says, or the basis is none."""
        self.of.check(n)
        self.forward(np.zeros(n))

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Denoiser:
        rho = rho if self.of.k is None else self.of.k / n
        return _InBasis(self, self.of.denoiser(n, rho, phi2, learns))

    def freedom(self, x: Float) -> int:
        """The number of coefficients that are not rounding."""
        z = np.abs(self.forward(x))
        return int(np.count_nonzero(z > 1e-9 * z.max(initial=0.0)))

    def forward(self, x: Float) -> Float:
        """The coefficients."""
        if self.name == "dct":
            from scipy import fft

            return np.asarray(fft.dctn(x.reshape(self.shape), norm="ortho")).reshape(-1)
        pywt, level = self._wavelets()
        parts = pywt.wavedecn(x.reshape(self.shape), self.name, mode="periodization", level=level)
        return np.asarray(pywt.coeffs_to_array(parts)[0]).reshape(-1)

    def back(self, z: Float) -> Float:
        """The signal."""
        if self.name == "dct":
            from scipy import fft

            return np.asarray(fft.idctn(z.reshape(self.shape), norm="ortho")).reshape(-1)
        pywt, level = self._wavelets()
        parts = pywt.wavedecn(np.zeros(self.shape), self.name, mode="periodization", level=level)
        places = pywt.coeffs_to_array(parts)[1]
        parts = pywt.array_to_coeffs(z.reshape(self.shape), places, output_format="wavedecn")
        return np.asarray(pywt.waverecn(parts, self.name, mode="periodization")).reshape(-1)

    def _wavelets(self) -> tuple[Any, int]:
        """PyWavelets, and the number of levels."""
        pywt = wavelets(self.name)
        length = pywt.Wavelet(self.name).dec_len
        level = min(min((side & -side).bit_length() - 1, pywt.dwt_max_level(side, length)) for side in self.shape)
        if level == 0:
            raise ValueError(f"`basis` {self.name!r} needs images of even sides, long enough for it, got {self.shape}.")
        return pywt, level


class _InBasis(Denoiser):
    """The posterior of a signal by that of its coefficients."""

    dense: ClassVar[bool] = True

    def __init__(self, prior: InBasis, inner: Denoiser) -> None:
        self.prior, self.inner, self.learns = prior, inner, inner.learns
        self._posterior: Posterior | None = None

    def denoise(self, b: Float, a: float) -> Posterior:
        found = self._posterior = self.inner.denoise(self.prior.forward(b), a)
        variance = np.full(b.size, float(found.variance.mean()))
        return Posterior(self.prior.back(found.mean), variance, np.ones(b.size))

    def learn(self, posterior: Posterior, phi2: float) -> None:
        if self._posterior is not None:
            self.inner.learn(self._posterior, phi2)
