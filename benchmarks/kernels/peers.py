"""What people would use instead, each in its best formulation.

The task: for one x, the residual `r_i = x^T A_i x − y_i` and the gradient `(1/m) Σ_i r_i Ã_i x`. A peer is made from
(A, y), with everything that need be done only once, such as symmetrising A or compiling, done there; what is timed is
the call with x. Peers compute in the dtype of A.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Task = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Data:
    """A of shape (m, n, n), y of shape (m,), in one dtype, and the symmetrised copy that the peers share."""

    A: Array
    y: Array

    @cached_property
    def symmetric(self) -> Array:
        symmetric = np.empty_like(self.A)
        for part, out in zip(self.A, symmetric, strict=True):
            np.add(part, part.T, out=out)
            out /= 2
        return symmetric


# -- NumPy ------------------------------------------------------------------------------------------------------


def numpy_loop(data: Data) -> Task:
    A, y = data.A, data.y

    def task(x: Array) -> tuple[Array, Array]:
        r, gradient = np.empty_like(y), np.zeros_like(x)
        for i, matrix in enumerate(A):
            w = matrix @ x
            r[i] = x @ w - y[i]
            gradient += r[i] * (w + x @ matrix)
        return r, gradient / (2 * len(y))

    return task


def einsum(data: Data) -> Task:
    A, y = data.A, data.y

    def task(x: Array) -> tuple[Array, Array]:
        r = np.einsum("ijk,j,k->i", A, x, x) - y
        gradient = np.einsum("i,ijk,k->j", r, A, x) + np.einsum("i,ijk,j->k", r, A, x)
        return r, gradient / (2 * len(y))

    return task


def blas(data: Data) -> Task:
    y, (m, n, _) = data.y, data.A.shape
    A = data.A.reshape(m * n, n)

    def task(x: Array) -> tuple[Array, Array]:
        W = (A @ x).reshape(m, n)
        r = W @ x - y
        transposed = np.multiply.outer(r, x).reshape(-1) @ A
        return r, (r @ W + transposed) / (2 * m)

    return task


def blas_symmetric(data: Data) -> Task:
    y, (m, n, _) = data.y, data.A.shape
    A = data.symmetric.reshape(m * n, n)

    def task(x: Array) -> tuple[Array, Array]:
        W = (A @ x).reshape(m, n)
        r = W @ x - y
        return r, r @ W / m

    return task


# -- PyTorch ----------------------------------------------------------------------------------------------------


def torch_plain(data: Data) -> Task:
    import torch

    m, n, _ = data.A.shape
    A, y = torch.from_numpy(data.A).view(m * n, n), torch.from_numpy(data.y)

    def task(x: Array) -> tuple[Array, Array]:
        signal = torch.from_numpy(x)
        W = torch.mv(A, signal).view(m, n)
        r = torch.mv(W, signal) - y
        transposed = torch.mv(A.T, torch.outer(r, signal).view(-1))
        return r.numpy(), ((torch.mv(W.T, r) + transposed) / (2 * m)).numpy()

    return task


def torch_autograd(data: Data) -> Task:
    import torch

    m, n, _ = data.A.shape
    A, y = torch.from_numpy(data.A).view(m * n, n), torch.from_numpy(data.y)

    def task(x: Array) -> tuple[Array, Array]:
        signal = torch.from_numpy(x).requires_grad_()
        r = torch.mv(torch.mv(A, signal).view(m, n), signal) - y
        (gradient,) = torch.autograd.grad(r.square().sum() / (4 * m), signal)
        return r.detach().numpy(), gradient.numpy()

    return task


def torch_symmetric(data: Data) -> Task:
    import torch

    m, n, _ = data.A.shape
    A, y = torch.from_numpy(data.symmetric).view(m * n, n), torch.from_numpy(data.y)

    def task(x: Array) -> tuple[Array, Array]:
        signal = torch.from_numpy(x)
        W = torch.mv(A, signal).view(m, n)
        r = torch.mv(W, signal) - y
        return r.numpy(), (torch.mv(W.T, r) / m).numpy()

    return task


# -- JAX --------------------------------------------------------------------------------------------------------


def jax_symmetric(data: Data) -> Task:
    import jax

    jax.config.update("jax_enable_x64", True)  # otherwise JAX computes float64 in float32
    m, n, _ = data.A.shape
    A, y = jax.numpy.asarray(data.symmetric).reshape(m * n, n), jax.numpy.asarray(data.y)

    @jax.jit
    def compiled(A, y, x):
        W = (A @ x).reshape(m, n)
        r = W @ x - y
        return r, r @ W / m

    def task(x: Array) -> tuple[Array, Array]:
        r, gradient = jax.block_until_ready(compiled(A, y, x))
        return np.asarray(r), np.asarray(gradient)

    return task


# -- Numba ------------------------------------------------------------------------------------------------------


def numba_parallel(data: Data) -> Task:
    """One read of A as it is: `A_i x` and `A_i^T x` from the same row."""
    return _numba(data.A, data.y, triangle=False)


def numba_triangle(data: Data) -> Task:
    """One read of the upper triangles of a symmetrised copy, so of half its bytes."""
    return _numba(data.symmetric, data.y, triangle=True)


def _numba(A: Array, y: Array, *, triangle: bool) -> Task:
    import numba

    @numba.njit(parallel=True, fastmath={"reassoc", "contract"})
    def products(A, x, W):
        m, n = A.shape[0], A.shape[1]
        for i in numba.prange(m):
            a, w = A[i], W[i]
            w[:] = 0
            for j in range(n):
                xj = x[j]
                total = a.dtype.type(0)
                first = j + 1 if triangle else 0
                for k in range(first, n):
                    total += a[j, k] * x[k]
                    w[k] += a[j, k] * xj
                w[j] += total + a[j, j] * xj if triangle else total

    W = np.empty(A.shape[:2], A.dtype)
    m, scale = len(y), 1 if triangle else 2

    def task(x: Array) -> tuple[Array, Array]:
        products(A, x, W)
        r = W @ x / scale - y
        return r, r @ W / (scale * m)

    return task


PEERS: dict[str, tuple[str, Callable[[Data], Task]]] = {
    "NumPy loop": ("numpy", numpy_loop),
    "NumPy einsum": ("numpy", einsum),
    "NumPy BLAS, two passes": ("numpy", blas),
    "NumPy BLAS, pre-symmetrised": ("numpy", blas_symmetric),
    "PyTorch, two passes": ("torch", torch_plain),
    "PyTorch autograd": ("torch", torch_autograd),
    "PyTorch, pre-symmetrised": ("torch", torch_symmetric),
    "JAX jit, pre-symmetrised": ("jax", jax_symmetric),
    "Numba parallel": ("numba", numba_parallel),
    "Numba parallel, triangles of pre-symmetrised": ("numba", numba_triangle),
}


def tasks(data: Data) -> tuple[dict[str, Task], list[str]]:
    """The peers that are installed, ready to run, and the names of those that are not."""
    missing = [name for name, (package, _) in PEERS.items() if importlib.util.find_spec(package) is None]
    return {name: make(data) for name, (_, make) in PEERS.items() if name not in missing}, missing


def same_answer(answer: tuple[Array, Array], expected: tuple[Array, Array]) -> bool:
    """Whether residual and gradient agree to the precision of their dtype, in relative norm."""
    tolerance = 1e-10 if answer[0].dtype == np.float64 else 1e-4
    return all(np.linalg.norm(a - e) <= tolerance * np.linalg.norm(e) for a, e in zip(answer, expected, strict=True))
