"""A user's own decoder, called with copies, whose answers are checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from fastquad.decoders.base import BaseDecoder, Pullback
from fastquad.typing import Float


class Checked(BaseDecoder):
    """The same map; an error names what it gave in the wrong shape, or not finite for finite codes."""

    def __init__(self, decoder: BaseDecoder) -> None:
        self.decoder, self.n_latent, self.n, self.dtype = decoder, decoder.n_latent, decoder.n, decoder.dtype

    def forward(self, Z: Float) -> Float:
        return self._checked("forward", self.decoder.forward(Z.copy()), (len(Z), self.n), Z)

    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        values, pullback = self.decoder.vjp(Z.copy())
        shape = (len(Z), self.n_latent)
        return (
            self._checked("vjp", values, (len(Z), self.n), Z),
            lambda V: self._checked("vjp", pullback(V.copy()), shape, V),
        )

    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        values, J = self.decoder.jacobian(Z.copy())
        return (
            self._checked("jacobian", values, (len(Z), self.n), Z),
            self._checked("jacobian", J, (len(Z), self.n, self.n_latent), Z),
        )

    def astype(self, dtype: DTypeLike) -> Checked:
        return Checked(self.decoder.astype(dtype))

    @staticmethod
    def _checked(name: str, answer: Float, shape: tuple[int, ...], given: Float) -> Float:
        answer = np.asarray(answer)
        if answer.shape != shape or answer.dtype.kind not in "fiub":
            raise ValueError(
                f"`{name}` of the decoder must give real numbers of shape {shape}, got {answer.dtype} of shape "
                f"{answer.shape}."
            )
        if not np.isfinite(answer).all() and np.isfinite(given).all():
            raise ValueError(f"`{name}` of the decoder must give finite numbers, got NaN or inf.")
        return answer
