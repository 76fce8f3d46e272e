"""An (m, n, n) array of another library, wherever its memory is: contractions in the words of the array API standard.

A never moves. Signals and weights go to its device, and what comes back are the answers: m numbers, n, or n×n; only
where products or rows are asked for, m×n or more. Every contraction is a few batched matrix products, chunk by chunk of
A, so that what is made on the device is never as large as A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements, symmetrised
from fastquad.system import threads
from fastquad.typing import Float, Indices, Number

# The size in bytes of the part of A that is taken at once: its copies in another precision are no larger (guess).
_CHUNK_BYTES = 256 << 20
_KINDS = ("float32", "float64", "complex64", "complex128")


class ArrayTensor(Measurements):
    """Measurements on an (m, n, n) array of another library: of PyTorch, CuPy or JAX, on a GPU or not.

    That library computes the contractions, where the array is. x and the answers are NumPy arrays. Any array of the
    array API standard will do, and PyTorch's. An array in this machine's memory is better given to `solve` as it
    is: the kernels of fastquad read it without a copy.

    Sums are in double precision if the library has it on that device. For this, parts of a float32 array are
    converted.

    Parameters
    ----------
    A : array of shape (m, n, n)
        Of float32, float64, complex64 or complex128. It is not copied, and must not change.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> array = np.random.default_rng(0).standard_normal((40, 10, 10))  # or torch.randn(40, 10, 10, device="cuda"), ...
    >>> A = fq.ArrayTensor(array)
    >>> A
    ArrayTensor(m=40, n=10, float64, 32 kB, numpy)
    >>> bool(np.allclose(A.measure(np.ones(10)), fq.measure(array, np.ones(10))))
    True
    """

    symmetric = False

    def __init__(self, A: Any) -> None:
        self._xp: Any = _namespace(A)
        shape = tuple(int(size) for size in A.shape)
        if len(shape) != 3 or shape[1] != shape[2] or 0 in shape:
            raise ValueError(f"`A` must have shape (m, n, n), got {shape}.")
        kind = str(A.dtype).rpartition(".")[2]
        if kind not in _KINDS:
            raise TypeError(
                f"`A` must be of float32, float64, complex64 or complex128, got {A.dtype}: convert it first."
            )
        if getattr(A, "requires_grad", False):
            raise TypeError("`A` must not require a gradient, for none flows through fastquad: give A.detach().")
        self.array = A
        self.m, self.n, self.dtype = shape[0], shape[1], np.dtype(kind)
        self._device = getattr(A, "device", None)
        #: The dtype of sums: double precision, if the library has it on this device.
        self._wide = self._to_device(np.zeros(1, dtype=self.number)).dtype
        self._hermitian = all(self._is_hermitian(part) for _, part in self._chunks())
        self.symmetric = self._hermitian

    def _about(self) -> tuple[str, ...]:
        library = type(self.array).__module__.partition(".")[0]
        where = "" if self._device is None else str(self._device)
        return (library if where in ("", "cpu", "CPU_DEVICE") else f"{library} on {where}",)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.m * self.n**2 * self.dtype.itemsize

    def _part(self, start: int, stop: int) -> ArrayTensor:
        return ArrayTensor(self.array[start:stop, :, :])

    # -- there and back -----------------------------------------------------------------------------------------------

    def _to_device(self, value: Number) -> Any:
        """An array of NumPy's where A is."""
        value = np.ascontiguousarray(value)
        try:
            there = self._xp.asarray(value, device=self._device)
        except TypeError:  # float64 on a device that has none
            small = np.complex64 if value.dtype.kind == "c" else np.float32
            there = self._xp.asarray(value.astype(small), device=self._device)
        return there

    def _chunks(self) -> Iterator[tuple[slice, Any]]:
        step = max(1, _CHUNK_BYTES // (self.n**2 * self.dtype.itemsize))
        for start, stop in threads.chunks(self.m, step):
            yield slice(start, stop), self.array[start:stop, :, :]

    def _wide_chunks(self) -> Iterator[tuple[slice, Any]]:
        """The chunks in the precision of sums."""
        for part, A in self._chunks():
            yield part, self._xp.astype(A, self._wide, copy=False)

    def _adjoint(self, A: Any) -> Any:
        """`A_i^*` of a chunk."""
        turned = self._xp.permute_dims(A, (0, 2, 1))
        return self._xp.conj(turned) if self.complex else turned

    def _is_hermitian(self, A: Any) -> bool:
        return bool(self._xp.all(self._adjoint(A) == A))

    def _applied(self, A: Any, x: Any) -> Any:
        """`Ã_i x` of a chunk for x of shape (n, b): (c, n, b)."""
        right = self._xp.matmul(A, x)
        return right if self._hermitian else (right + self._xp.matmul(self._adjoint(A), x)) / 2

    def _conj(self, x: Any) -> Any:
        return self._xp.conj(x) if self.complex else x

    def _real(self, x: Any) -> Any:
        return self._xp.real(x) if self.complex else x

    def _each(self, answer: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> Number:
        """The answers (c, …) for all chunks, on the host."""
        out: Number = np.empty((self.m, *shape), dtype=dtype)
        for part, A in self._wide_chunks():
            out[part] = on_host(answer(A))
        return out

    # -- contractions -------------------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return False

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        A = on_host(self.array[start:stop, :, :]).astype(self.number)
        return (A + A.transpose(0, 2, 1).conj()) / 2

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        there = self._to_device(x.reshape(self.n, -1))
        for part, A in self._wide_chunks():
            W[part] = on_host(self._applied(A, there)).reshape(W[part].shape)

    def _apply_single(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        if self.dtype.itemsize == np.dtype(self.number).itemsize:
            return self._apply(x, n_threads, out)
        W = np.empty((self.m, *x.shape), dtype=self.number) if out is None else out
        there = self._to_device(x.reshape(self.n, -1).astype(self.dtype))
        for part, A in self._chunks():
            W[part] = on_host(self._applied(A, there)).reshape(W[part].shape)
        return W

    def _sided_products(self, x: Number, transpose: bool, n_threads: int) -> Number:
        there = self._to_device(x[:, None])

        def answer(A: Any) -> Any:
            return self._xp.matmul(self._adjoint(A) if transpose else A, there)[:, :, 0]

        return self._each(answer, (self.n,), self.number)

    def _measure(self, x: Number, n_threads: int) -> Float:
        there = self._to_device(x.reshape(self.n, -1))

        def answer(A: Any) -> Any:
            return self._xp.sum(self._real(self._conj(there)[None, :, :] * self._xp.matmul(A, there)), axis=1)

        return self._each(answer, (there.shape[1],), np.float64).reshape(self.m, *x.shape[1:])

    def _along(self, x: Number, v: Number, n_threads: int) -> Float:
        here, direction = self._to_device(x[:, None]), self._to_device(v.reshape(self.n, -1))

        def answer(A: Any) -> Any:
            W = self._applied(A, here)[:, :, 0]
            return 2 * self._real(self._xp.matmul(self._conj(W), direction))

        return self._each(answer, (direction.shape[1],), np.float64).reshape(self.m, *v.shape[1:])

    def _gradient(self, x: Number, w: Float, n_threads: int) -> Number:
        here, g = self._to_device(x[:, None]), np.zeros(self.n, dtype=self.number)
        for part, A in self._wide_chunks():
            W = self._applied(A, here)[:, :, 0]
            g += 2 * on_host(self._xp.matmul(self._to_device(w[None, part].astype(self.number)), W))[0]
        return g

    def _gram(self, x: Number, d: Float, r: Float, n_threads: int) -> tuple[Float, Float]:
        xp, here, n = self._xp, self._to_device(x[:, None]), self.n
        parts = [xp.real, xp.imag] if self.complex else [lambda W: W]
        G, g = np.zeros((n, len(parts), n, len(parts))), np.zeros((n, len(parts)))
        for part, A in self._wide_chunks():
            W = self._applied(A, here)[:, :, 0]
            weights, slope = self._to_device(d[part, None]), self._to_device((d * r)[None, part])
            sides = [take(W) for take in parts]
            for p, left in enumerate(sides):
                g[:, p] += 2 * on_host(xp.matmul(slope, left))[0]
                for q, right in enumerate(sides):
                    G[:, p, :, q] += 4 * on_host(xp.matmul(xp.permute_dims(left, (1, 0)), weights * right))
        N = n * len(parts)
        return G.reshape(N, N), g.reshape(N)

    def _weighted_sum(self, w: Float, n_threads: int) -> Number:
        S = np.zeros((w.shape[1], self.n**2), dtype=self.number)
        for part, A in self._wide_chunks():
            weights = self._to_device(w[part].T.astype(self.number))
            S += on_host(self._xp.matmul(weights, self._xp.reshape(A, (-1, self.n**2))))
        return symmetrised(S.reshape(-1, self.n, self.n))

    def _diagonals(self, n_threads: int) -> Float:
        return self._each(
            lambda A: self._real(self._xp.reshape(A, (-1, self.n**2))[:, :: self.n + 1]), (self.n,), np.float64
        )

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        xp, (S, T) = self._xp, (self._to_device(each) for each in (rows, cols))

        def answer(A: Any) -> Any:
            there = xp.take(xp.take(A, S, axis=1), T, axis=2)
            back = xp.take(xp.take(A, T, axis=1), S, axis=2)
            return (there + self._adjoint(back)) / 2

        if not rows.size or not cols.size:
            return np.empty((self.m, rows.size, cols.size), dtype=self.number)
        return self._each(answer, (rows.size, cols.size), self.number)

    def _compress(self, U: Number, n_threads: int) -> Number:
        there = self._to_device(U)
        left = self._xp.permute_dims(self._conj(there), (1, 0))
        p = U.shape[1]
        return symmetrised(self._each(lambda A: self._xp.matmul(left, self._xp.matmul(A, there)), (p, p), self.number))

    def _sweep(self, z: Number, v: Float, c: Float, n_threads: int) -> tuple[Float, Number]:
        r = c - self._measure(z, n_threads) - self._diagonals(n_threads) @ v
        return r, self._weighted_sum(r, n_threads)

    def sweep_passes(self) -> int:
        return 2


def on_host(value: Any) -> Number:
    """An array of any library as one of NumPy's, copied from its device if it is on one."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "resolve_conj"):  # PyTorch
        return value.detach().resolve_conj().cpu().numpy()
    if hasattr(value, "get"):  # CuPy
        return value.get()
    try:
        return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return np.asarray(value)


class _Torch:
    """What is used here of the array API standard, in PyTorch's words."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.asarray, self.matmul, self.reshape = torch.asarray, torch.matmul, torch.reshape
        self.conj, self.real, self.imag, self.all = torch.conj, torch.real, torch.imag, torch.all
        self.permute_dims = torch.permute

    def astype(self, value: Any, dtype: Any, copy: bool = True) -> Any:
        return value.to(dtype, copy=copy)

    def sum(self, value: Any, axis: int) -> Any:
        return self.torch.sum(value, dim=axis)

    def take(self, value: Any, indices: Any, axis: int) -> Any:
        return self.torch.index_select(value, axis, indices)


def _namespace(A: Any) -> Any:
    """The functions of the library that an array is of."""
    if type(A).__module__.partition(".")[0] == "torch":
        return _Torch()
    if not hasattr(A, "__array_namespace__"):
        raise TypeError(
            f"`A` must be an array of PyTorch or of the array API standard, got {type(A).__name__}; what else holds "
            "numbers is given to `solve` as it is."
        )
    return A.__array_namespace__()
