"""The functions of an `OperatorTensor` for operators of other libraries, each imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike


def linear_operator(B: Any, dtype: DTypeLike | None) -> dict[str, Any]:
    """`y = |B x|²` for a linear operator B of SciPy or PyLops."""
    shape: Any = getattr(B, "shape", ())
    if len(shape) != 2 or not hasattr(B, "matvec") or not hasattr(B, "rmatvec"):
        raise TypeError(
            f"`B` must be a linear operator with `shape` (m, n), `matvec` and `rmatvec`, got {type(B).__name__}."
        )
    number = (
        np.result_type(np.float32, B.dtype if B.dtype is not None else np.float64) if dtype is None else np.dtype(dtype)
    )

    def vjp(x: Any, w: Any) -> Any:
        g = 2 * B.rmatvec(w * B.matvec(x))
        return g if number.kind == "c" else np.real(g)

    return {
        "measure": lambda x: np.abs(B.matvec(x)) ** 2,
        "jvp": lambda x, v: 2 * np.real(np.conj(B.matvec(x)) * B.matvec(v)),
        "vjp": vjp,
        "m": int(shape[0]), "n": int(shape[1]), "dtype": number,
    }  # fmt: skip


def jax_function(function: Callable[[Any], Any], n: int, dtype: DTypeLike | None) -> dict[str, Any]:
    """A function of JAX and its derivatives, compiled."""
    import jax

    kind: Any = float if dtype is None else dtype
    example = jax.numpy.zeros(n, dtype=kind)
    answer = jax.eval_shape(function, example)
    if answer.ndim != 1 or not np.issubdtype(answer.dtype, np.floating):
        raise ValueError(
            f"`function` must give real numbers of shape (m,), got {answer.dtype} of shape {answer.shape}."
        )
    jvp = jax.jit(lambda x, v: jax.jvp(function, (x,), (v,))[1])
    # JAX pairs a gradient with v by Σ v_j g_j, without a conjugate.
    vjp = jax.jit(lambda x, w: jax.vjp(function, x)[1](w)[0].conj())
    return {
        "measure": jax.jit(function), "jvp": jvp, "vjp": lambda x, w: vjp(x, w.astype(answer.dtype)),
        "m": answer.shape[0], "n": n, "dtype": np.dtype(example.dtype),
    }  # fmt: skip


def deepinv_physics(physics: Any, shape: tuple[int, ...], dtype: DTypeLike | None) -> dict[str, Any]:
    """A physics of deepinv: `A(x)` and `A_vjp(x, v)` of batches of one image."""
    import torch

    number = np.dtype(np.complex64 if dtype is None else dtype)
    device = next((each.device for each in physics.buffers()), torch.device("cpu"))

    def image(x: Any) -> Any:
        return torch.as_tensor(x.reshape(1, *shape), device=device)

    def plain(answer: Any) -> Any:
        return answer.detach().cpu().numpy().reshape(-1)

    with torch.no_grad():
        like = physics.A(image(np.ones(int(np.prod(shape)), dtype=number)))

    def measure(x: Any) -> Any:
        with torch.no_grad():
            return plain(physics.A(image(x)))

    def vjp(x: Any, w: Any) -> Any:
        with torch.no_grad():
            g = plain(physics.A_vjp(image(x), torch.as_tensor(w.reshape(like.shape), device=device)))
        return g if number.kind == "c" else g.real

    return {"measure": measure, "vjp": vjp, "m": like.numel(), "n": int(np.prod(shape)), "dtype": number}
