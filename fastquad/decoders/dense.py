"""Fully connected networks as plain arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastquad.decoders import files
from fastquad.decoders.base import BaseDecoder, Compiled, Pullback
from fastquad.decoders.compiled import Network
from fastquad.typing import Float

# -- activations: (a) -> (f(a), f'(a)) --------------------------------------------------------------------------


def _softplus(a: Float) -> tuple[Float, Float]:
    # Compute log(1 + e^a) and e^a/(1 + e^a), with a clipped to [−80, 80]: e^80 fits in float32, and beyond it
    # log(1 + e^a) = a to the last bit; below −80, e^a would be a denormal number, which is many times slower.
    exp = np.exp(np.clip(a, -80, 80))
    total = 1 + exp
    value = np.log(total)
    np.maximum(value, a, out=value)
    return value, np.divide(exp, total, out=exp)


def _relu(a: Float) -> tuple[Float, Float]:
    return np.maximum(a, 0), (a > 0).astype(a.dtype)


def _tanh(a: Float) -> tuple[Float, Float]:
    value = np.tanh(a)
    return value, 1 - value * value


def _sigmoid(a: Float) -> tuple[Float, Float]:
    # Use tanh: it does not overflow, and tiny values become 0 instead of denormal numbers.
    value = np.tanh(a / 2)
    value += 1
    value /= 2
    return value, value * (1 - value)


def _identity(a: Float) -> tuple[Float, Float]:
    return a, np.ones_like(a)


_ACTIVATIONS = {"softplus": _softplus, "relu": _relu, "tanh": _tanh, "sigmoid": _sigmoid, "identity": _identity}


class Decoder(BaseDecoder):
    """A fully connected network, `h_l = f_l(h_{l-1} W_l + b_l)`.

    Parameters
    ----------
    weights : sequence of arrays
        `W_l` of shape (inputs, outputs), one per layer.
    biases : sequence of arrays
        `b_l` of shape (outputs,).
    activations : sequence of str
        "softplus", "relu", "tanh", "sigmoid" or "identity", one per layer.
    dtype : float32 or float64
        What it computes in.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> weights = [rng.standard_normal((3, 8)), rng.standard_normal((8, 20))]
    >>> G = fq.decoders.Decoder(weights, [np.zeros(8), np.zeros(20)], ["tanh", "sigmoid"])
    >>> G(np.zeros(3)).shape
    (20,)
    """

    def __init__(
        self,
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike],
        activations: Sequence[str],
        *,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.dtype = _float_dtype(dtype)
        self.weights = [_frozen(W, self.dtype) for W in weights]
        self.biases = [_frozen(b, self.dtype) for b in biases]
        self.activations = tuple(activations)
        self._check()
        self.n_latent, self.n = self.weights[0].shape[0], self.weights[-1].shape[1]
        self._functions = [_ACTIVATIONS[name] for name in self.activations]

    def _check(self) -> None:
        if not self.weights or not len(self.weights) == len(self.biases) == len(self.activations):
            raise ValueError(
                "`weights`, `biases` and `activations` must have one entry per layer, got "
                f"{len(self.weights)}, {len(self.biases)} and {len(self.activations)}."
            )
        width = self.weights[0].shape[0] if self.weights[0].ndim == 2 else None
        for layer, (W, b, name) in enumerate(zip(self.weights, self.biases, self.activations, strict=True)):
            if W.ndim != 2 or W.shape[0] != width or 0 in W.shape:
                raise ValueError(f"`weights[{layer}]` must have shape ({width or 'inputs'}, outputs), got {W.shape}.")
            width = W.shape[1]
            if b.shape != (width,):
                raise ValueError(f"`biases[{layer}]` must have shape ({width},), got {b.shape}.")
            if name not in _ACTIVATIONS:
                raise ValueError(f"`activations[{layer}]` must be one of {', '.join(_ACTIVATIONS)}, got {name!r}.")
            if not (np.isfinite(W).all() and np.isfinite(b).all()):
                raise ValueError(f"`weights[{layer}]` and `biases[{layer}]` must be finite, got NaN or inf.")

    def __repr__(self) -> str:
        widths = "-".join(str(width) for width in (self.n_latent, *(W.shape[1] for W in self.weights)))
        return f"Decoder({widths}, {', '.join(self.activations)}, {self.dtype})"

    def astype(self, dtype: DTypeLike) -> Decoder:
        """This decoder computing in float32 or float64."""
        if np.dtype(dtype) == self.dtype:
            return self
        return Decoder(self.weights, self.biases, self.activations, dtype=dtype)

    def compiled(self) -> Compiled | None:
        # Only single precision is compiled: it serves the search, and answers are polished in double.
        return Compiled(self._network, unit=False) if self.dtype == np.float32 else None

    @cached_property
    def _network(self) -> Network:
        return Network(self.weights, self.biases, self.activations)

    def forward(self, Z: Float) -> Float:
        return self._layers(Z)[0]

    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        values, slopes = self._layers(Z)

        def pullback(V: Float) -> Float:
            for W, slope in zip(reversed(self.weights), reversed(slopes), strict=True):
                V = (V * slope) @ W.T
            return V

        return values, pullback

    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        values, slopes = self._layers(Z)
        b, k = len(values), self.n_latent
        # The first layer's T = I W ∘ f' needs no product.
        T = self.weights[0] * slopes[0][:, None, :]
        for W, slope in zip(self.weights[1:], slopes[1:], strict=True):
            T = (T.reshape(b * k, -1) @ W).reshape(b, k, -1)
            T *= slope[:, None, :]
        return values, T.transpose(0, 2, 1)

    def _layers(self, Z: Float) -> tuple[Float, list[Float]]:
        """The output, and `f_l'(a_l)` of every layer."""
        h = np.asarray(Z, dtype=self.dtype)
        slopes = []
        for W, b, function in zip(self.weights, self.biases, self._functions, strict=True):
            a = h @ W
            a += b
            h, slope = function(a)
            slopes.append(slope)
        return h, slopes

    def save(self, path: str | os.PathLike[str], *, dtype: DTypeLike | None = None, **info: str) -> None:
        """Write the arrays to a file; `load` reads it. Both formats hold arrays and text only, never code.

        Parameters
        ----------
        path : path ending in `.npz` or `.safetensors`
        dtype : optional
            Storage type, float16, float32 or float64; default that of the decoder. float16 rounds to 3 digits.
        **info : str
            Anything worth telling about the weights, kept beside them.
        """
        layers = files.Layers(self.weights, self.biases, list(self.activations))
        files.write(path, layers, self.dtype if dtype is None else np.dtype(dtype), info)


def _float_dtype(dtype: DTypeLike) -> np.dtype:
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}.")
    return np.dtype(dtype)


def _frozen(value: ArrayLike, dtype: np.dtype) -> NDArray[Any]:
    array = np.array(value, dtype=dtype, order="C")
    array.flags.writeable = False
    return array
