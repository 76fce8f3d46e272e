"""Decoders: maps from a few latent numbers to a signal, with their derivatives.

A solver needs three things of a decoder G, all on a batch of b latent vectors at once (the rows of Z, (b, k)):

    values = forward(Z)                     G(z_s),                       (b, n)
    values, pullback = vjp(Z)               pullback(V)_s = J(z_s)^T v_s, (b, k)      reverse mode
    values, J = jacobian(Z)                 J_s = ∂G/∂z at z_s,           (b, n, k)   forward mode

`Decoder` is a fully connected network held as plain arrays. With `h_0 = z`, `a_l = h_{l-1} W_l + b_l` and
`h_l = f_l(a_l)`, reverse mode is `g_{l-1} = (g_l ∘ f_l'(a_l)) W_l^T`, and forward mode carries the k rows of
`T_l = (T_{l-1} W_l) ∘ f_l'(a_l)` with `T_0 = I`; all of it is matrix products, so BLAS does the work and no autograd
framework is needed. `TorchDecoder` and `JaxDecoder` put any network of those frameworks behind the same three methods.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastquad.measurements.base import Float

__all__ = ["BaseDecoder", "Decoder", "JaxDecoder", "TorchDecoder", "load", "mnist"]

Pullback = Callable[[Float], Float]


class BaseDecoder(ABC):
    """A differentiable map from `n_latent` numbers to a signal of n; subclass it for a decoder of your own."""

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

    def astype(self, dtype: DTypeLike) -> BaseDecoder:
        """This decoder computing in another precision; itself where it has but one."""
        return self

    def __call__(self, z: ArrayLike) -> Float:
        """`G(z)`: shape (n,) for z of shape (n_latent,), (b, n) for (b, n_latent)."""
        Z = np.asarray(z)
        if Z.ndim not in (1, 2) or Z.shape[-1] != self.n_latent:
            raise ValueError(f"`z` must have shape ({self.n_latent},) or (b, {self.n_latent}), got {Z.shape}.")
        values = self.forward(np.atleast_2d(Z).astype(self.dtype, copy=False))
        return values[0] if Z.ndim == 1 else values


# -- activations: (a) -> (f(a), f'(a)) --------------------------------------------------------------------------


def _softplus(a: Float) -> tuple[Float, Float]:
    # log(1 + e^a) and e^a/(1 + e^a). Cut at 80: e^80 fits in float32, and there log(1 + e^a) = a to the last bit. The
    # cut from below keeps e^a out of the denormal numbers, which are many times slower.
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
    # By tanh: no overflow, and what is below the rounding of 1 becomes 0 instead of a denormal number.
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
        `W_l` of shape (inputs, outputs), one a layer.
    biases : sequence of arrays
        `b_l` of shape (outputs,).
    activations : sequence of str
        "softplus", "relu", "tanh", "sigmoid" or "identity", one a layer.
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
                "`weights`, `biases` and `activations` must have one entry a layer, got "
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

    def save(self, path: str | os.PathLike, *, dtype: DTypeLike | None = None, **info: str) -> None:
        """Write the arrays to a `.npz` file, without pickle; `load` reads it.

        Parameters
        ----------
        path : path of the `.npz` file
        dtype : optional
            Storage type, float16, float32 or float64; default that of the decoder. float16 rounds to 3 digits.
        **info : str
            Anything worth telling about the weights, kept beside them.
        """
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        arrays: dict[str, Any] = {f"weight_{layer}": W.astype(dtype) for layer, W in enumerate(self.weights)}
        arrays |= {f"bias_{layer}": b.astype(dtype) for layer, b in enumerate(self.biases)}
        arrays |= {f"info_{key}": np.array(text) for key, text in info.items()}
        with open(path, "wb") as stream:
            np.savez_compressed(stream, activations=np.array(self.activations), **arrays)


def load(path: str | os.PathLike, *, dtype: DTypeLike = np.float64) -> Decoder:
    """A decoder from a `.npz` file that `Decoder.save` wrote.

    Parameters
    ----------
    path : path
    dtype : float32 or float64
        What it computes in, whatever it is stored in.
    """
    with open(path, "rb") as stream:
        try:
            arrays = np.load(stream, allow_pickle=False)
            names = [str(name) for name in arrays["activations"]]
            layers = range(len(names))
            weights = [arrays[f"weight_{layer}"] for layer in layers]
            biases = [arrays[f"bias_{layer}"] for layer in layers]
        except Exception as error:
            raise ValueError(f"{os.fspath(path)!r} does not hold a decoder: {error}") from error
    return Decoder(weights, biases, names, dtype=dtype)


@lru_cache(maxsize=4)
def mnist(dtype: DTypeLike = np.float64) -> Decoder:
    """The decoder of handwritten digits that comes with the package: 20 latent numbers to 28×28 pixels in (0, 1).

    It is the decoder half of a variational autoencoder, 20-500-500-784 with softplus and a sigmoid at the end, trained
    on the MNIST training set with Adam (rate 0.001, batches of 100, 25 epochs, seed 0) by
    `examples/train_mnist_decoder.py`. The weights are stored in float16, and with them the test ELBO is −100.60.

    Parameters
    ----------
    dtype : float32 or float64
        What it computes in.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> fq.decoders.mnist()(np.zeros(20)).shape
    (784,)
    """
    with as_file(files("fastquad") / "data" / "mnist_decoder.npz") as path:
        return load(path, dtype=dtype)


class TorchDecoder(BaseDecoder):
    """Any PyTorch module from (b, n_latent) to b signals, convolutional ones included; needs `fastquad[torch]`.

    It runs on the device and in the precision of the module's parameters. Put the module in evaluation mode first
    (`module.eval()`): a layer that mixes the batch makes the answers depend on it.

    Parameters
    ----------
    module : torch.nn.Module
        Its output may have any shape; it is read as one vector a signal.
    n_latent : int
        How many latent numbers it takes.

    Examples
    --------
    >>> import fastquad as fq
    >>> from torch import nn  # doctest: +SKIP
    >>> fq.decoders.TorchDecoder(nn.Sequential(nn.Linear(5, 64), nn.Sigmoid()), n_latent=5)  # doctest: +SKIP
    TorchDecoder(5-64, float32)
    """

    def __init__(self, module: Any, n_latent: int) -> None:
        try:
            import torch
        except ImportError:
            raise ImportError("TorchDecoder needs PyTorch: pip install 'fastquad[torch]'.") from None
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"`module` must be a torch.nn.Module, got {type(module).__name__}.")
        self._torch, self._module, self.n_latent = torch, module, _positive(n_latent, "n_latent")
        parameter = next(module.parameters(), torch.zeros(0))
        self._options: dict[str, Any] = {"dtype": parameter.dtype, "device": parameter.device}
        if parameter.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"`module` must compute in float32 or float64, got {parameter.dtype}.")
        self.dtype = np.dtype("float32" if parameter.dtype == torch.float32 else "float64")
        self.n = self.forward(np.zeros((1, n_latent))).shape[1]

    def __repr__(self) -> str:
        return f"TorchDecoder({self.n_latent}-{self.n}, {self.dtype})"

    def forward(self, Z: Float) -> Float:
        with self._torch.no_grad():
            return self._flat(self._tensor(Z)).cpu().numpy()

    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        torch, codes = self._torch, self._tensor(Z).requires_grad_()
        with torch.enable_grad():
            values = self._flat(codes)

        def pullback(V: Float) -> Float:
            (gradient,) = torch.autograd.grad(values, codes, self._tensor(V), retain_graph=True)
            return gradient.cpu().numpy()

        return values.detach().cpu().numpy(), pullback

    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        # u ↦ J^T u is linear, so its own derivative by u along e_j is the column J e_j: reverse mode twice, which every
        # layer that can be trained supports; forward mode is missing for some.
        torch, codes = self._torch, self._tensor(Z).requires_grad_()
        with torch.enable_grad():
            values = self._flat(codes)
            u = torch.zeros_like(values, requires_grad=True)
            (pulled,) = torch.autograd.grad(values, codes, u, create_graph=True)
            columns = [torch.autograd.grad(pulled[:, j].sum(), u, retain_graph=True)[0] for j in range(self.n_latent)]
        J = torch.stack(columns, dim=1).cpu().numpy().transpose(0, 2, 1)
        return values.detach().cpu().numpy(), J

    def _tensor(self, array: Float) -> Any:
        return self._torch.tensor(np.asarray(array), **self._options)

    def _flat(self, codes: Any) -> Any:
        return self._module(codes).flatten(1)


class JaxDecoder(BaseDecoder):
    """A JAX function from (n_latent,) to an array; needs jax.

    Parameters
    ----------
    function : callable
        Differentiable by JAX, for one signal; its output may have any shape and is read as a vector.
    n_latent : int
        How many latent numbers it takes.
    """

    def __init__(self, function: Callable[[Any], Any], n_latent: int) -> None:
        try:
            import jax
        except ImportError:
            raise ImportError("JaxDecoder needs JAX: pip install jax.") from None
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")

        def flat(z: Any) -> Any:
            return function(z).reshape(-1)

        def pull(Z: Any, V: Any) -> Any:
            return jax.vmap(lambda z, v: jax.vjp(flat, z)[1](v)[0])(Z, V)

        self.n_latent = _positive(n_latent, "n_latent")
        self._forward = jax.jit(jax.vmap(flat))
        self._pull = jax.jit(pull)
        self._jacobian = jax.jit(jax.vmap(jax.jacfwd(flat)))
        output = jax.eval_shape(flat, jax.numpy.zeros(n_latent))
        self.n, self.dtype = output.shape[0], np.dtype(output.dtype)

    def __repr__(self) -> str:
        return f"JaxDecoder({self.n_latent}-{self.n}, {self.dtype})"

    def forward(self, Z: Float) -> Float:
        return np.asarray(self._forward(self._codes(Z)))

    def vjp(self, Z: Float) -> tuple[Float, Pullback]:
        codes = self._codes(Z)
        return self.forward(codes), lambda V: np.asarray(self._pull(codes, self._codes(V)))

    def jacobian(self, Z: Float) -> tuple[Float, Float]:
        codes = self._codes(Z)
        return self.forward(codes), np.asarray(self._jacobian(codes))

    def _codes(self, Z: Float) -> Float:
        return np.asarray(Z, dtype=self.dtype)


def _float_dtype(dtype: DTypeLike) -> np.dtype:
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}.")
    return np.dtype(dtype)


def _frozen(value: ArrayLike, dtype: np.dtype) -> NDArray[Any]:
    array = np.array(value, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def _positive(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
    return int(value)
