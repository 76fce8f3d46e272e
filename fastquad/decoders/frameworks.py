"""Networks of PyTorch and JAX as decoders; each library is imported when its first decoder is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.decoders.base import BaseDecoder, Pullback
from fastquad.typing import Float


class TorchDecoder(BaseDecoder):
    """Any PyTorch module from (b, n_latent) to b signals, convolutional ones included; needs `fastquad[torch]`.

    It runs on the device and in the precision of the module's parameters. Put the module in evaluation mode first
    (`module.eval()`): with a layer that mixes signals of a batch, each answer would depend on the others.

    Parameters
    ----------
    module : torch.nn.Module
        Its output may have any shape; it is read as one vector per signal. A complex output is read as Re and Im of
        each entry in turn, n real numbers in all, as a complex signal of n/2 entries wants it.
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
        self._torch, self._module, self.n_latent = torch, module, arguments.count(n_latent, "n_latent")
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
        values = self._module(codes)
        return (self._torch.view_as_real(values) if values.is_complex() else values).flatten(1)


class JaxDecoder(BaseDecoder):
    """A JAX function from (n_latent,) to an array; needs jax.

    Parameters
    ----------
    function : callable
        Differentiable by JAX, for one signal; its output may have any shape and is read as a vector. A complex output
        is read as Re and Im of each entry in turn, n real numbers in all, as a complex signal of n/2 entries wants it.
    n_latent : int
        How many latent numbers it takes.

    Examples
    --------
    >>> import fastquad as fq
    >>> import jax  # doctest: +SKIP
    >>> fq.decoders.JaxDecoder(lambda z: jax.nn.sigmoid(jax.numpy.outer(z, z)), n_latent=8)  # doctest: +SKIP
    JaxDecoder(8-64, float32)
    """

    def __init__(self, function: Callable[[Any], Any], n_latent: int) -> None:
        try:
            import jax
        except ImportError:
            raise ImportError("JaxDecoder needs JAX: pip install jax.") from None
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")

        def flat(z: Any) -> Any:
            values = function(z)
            if jax.numpy.iscomplexobj(values):
                values = jax.numpy.stack([values.real, values.imag], axis=-1)
            return values.reshape(-1)

        def pull(Z: Any, V: Any) -> Any:
            return jax.vmap(lambda z, v: jax.vjp(flat, z)[1](v)[0])(Z, V)

        self.n_latent = arguments.count(n_latent, "n_latent")
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
