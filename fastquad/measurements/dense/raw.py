"""The user's own array: (m, n, n), C-contiguous, float32 or float64, in memory or mapped from disk, never copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastquad._kernels import packed as packed_kernels
from fastquad._kernels import raw as kernels
from fastquad.measurements.base import frobenius, symmetrised
from fastquad.measurements.dense.chunks import StoredTensor
from fastquad.measurements.dense.layout import GROUP, LANES, aligned_empty, block_rows, pack_block, pad
from fastquad.system import threads
from fastquad.typing import Float, Indices

# The bytes of matrices that are made symmetric together.
_IN_CACHE = 1 << 18


class RawTensor(StoredTensor):
    """Measurements on an (m, n, n) array as it is, symmetric or not.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> fq.as_measurements(np.ones((16, 10, 10)))
    RawTensor(m=16, n=10, float64, 12.8 kB)
    """

    symmetric = False

    def __init__(self, array: Float) -> None:
        # Frozen, so that nothing here can write to the user's data.
        self.array = array.view(np.ndarray)
        self.array.flags.writeable = False
        self.m, self.n, self.dtype = array.shape[0], array.shape[1], array.dtype
        self._units, self._unit_bytes = self.m, self.n * self.n * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.array.nbytes

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        A = self.array[start:stop]
        out = np.empty(A.shape)
        # A few at a time stay in cache, and no more memory is new than the answer.
        step = max(1, _IN_CACHE // (8 * self.n**2))
        for first in range(0, len(A), step):
            some = A[first : first + step]
            part = np.add(some, some.transpose(0, 2, 1), out=out[first : first + step], dtype=np.float64)
            part /= 2
        return out

    def reads_rows(self, nnz: int) -> bool:
        # Each entry of a column is a cache line of its own, so gathering pays later than in the packed layout.
        return 64 // self.dtype.itemsize * nnz <= self.n

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        if x.ndim == 1:
            self._run(kernels.products, self.array, x, W, n_threads=n_threads)
        else:
            self._run_packed(packed_kernels.products_batch, pad(x, GROUP), out=W, n_threads=n_threads)

    def _run_packed(self, kernel: Callable[..., object], *inputs: object, out: Float, n_threads: int) -> None:
        """Pack 8 measurements at a time into a block of scratch, and run a kernel of the packed layout on it."""

        def task(start: int, stop: int) -> None:
            block = aligned_empty((1, block_rows(self.n, self.dtype), LANES), np.dtype(np.float64))
            packed_kernels.pack(self.array[start:stop], block, 0, 1)
            kernel(block, *inputs, out[start:stop], 0, 1)

        threads.run(task, threads.chunks(self.m, LANES), n_threads)

    def _products_on(self, support: Indices, values: Float, W: Float, n_threads: int) -> None:
        if values.ndim == 2:
            return super()._products_on(support, values, W, n_threads)
        self._run(kernels.products_on, self.array, support, values, W, n_threads=n_threads)

    def _sided_products(self, x: Float, transpose: bool, n_threads: int) -> Float:
        W = np.empty((self.m, self.n))
        self._run(kernels.left if transpose else kernels.right, self.array, x, W, n_threads=n_threads)
        return W

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.empty((w.shape[1], self.n, self.n))
        weights = np.ascontiguousarray(w.T)
        # Each task owns a few rows of S, small enough to stay in cache, and goes through all matrices.
        rows = max(1, (256 << 10) // (8 * self.n * len(weights)))
        tasks = [(self.array, weights, S, *chunk) for chunk in threads.chunks(self.n, rows)]
        threads.run(kernels.weighted_sum, tasks, threads.worthwhile(n_threads, self.nbytes))
        return symmetrised(S)

    def _diagonals(self, n_threads: int) -> Float:
        return np.einsum("ijj->ij", self.array).astype(np.float64)

    def _rows(self, support: Indices, n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n))  # the mean of two float32 need not be one

        def task(start: int, stop: int) -> None:
            A = self.array[start:stop]
            rows[start:stop] = A[:, support]
            rows[start:stop] += A[:, :, support].transpose(0, 2, 1)
            rows[start:stop] /= 2

        threads.run(task, self._chunks(n_threads), n_threads)
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        if rows.size == cols.size == self.n and (rows == cols).all() and (rows == np.arange(self.n)).all():
            return self.matrices(0, self.m)
        out = self.array[:, rows[:, None], cols].astype(np.float64)
        out += self.array[:, cols, rows[:, None]]
        out /= 2
        return out

    def _part(self, start: int, stop: int) -> RawTensor:
        return RawTensor(self.array[start:stop])

    def _pack(self, block: int, out: Float) -> None:
        pack_block(self.array[block * LANES : (block + 1) * LANES], out)

    def _inner(self, D: Float, n_threads: int) -> Float:
        # D is symmetric, so A_i does for its symmetric part.
        return self._in_chunks(lambda A: A.reshape(len(A), -1) @ D.reshape(-1), n_threads)

    def _frobenius(self, n_threads: int) -> Float:
        # That of A_i is at least that of its symmetric part.
        return self._in_chunks(frobenius, n_threads)

    def _in_chunks(self, function: Callable[[Float], Float], n_threads: int) -> Float:
        """A number for each matrix, from a few matrices at a time in double precision."""
        out = np.empty(self.m)

        def task(start: int, stop: int) -> None:
            out[start:stop] = function(self.array[start:stop].astype(np.float64, copy=False))

        threads.run(task, self._chunks(n_threads), n_threads)
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        if C.size:
            self._run_packed(packed_kernels.compress, self.n, pad(U, GROUP), out=C, n_threads=n_threads)
        return C

    # -- the sweep ------------------------------------------------------------------------------------------

    @property
    def _sweep_bytes(self) -> int:
        return 4 * self._unit_bytes  # the kernel takes four matrices at a time

    def _aligned(self, z: Float, v: Float, c: Float) -> tuple[Float, Float, Float]:
        return np.ascontiguousarray(z.T), np.ascontiguousarray(v.T), np.array(c.T, order="C")

    def _new_sums(self, count: int, b: int) -> Float:
        return np.zeros((count, b, self.n, self.n))

    def _sweep_chunk(self, z: Float, v: Float, r: Float, sums: Float, start: int, stop: int) -> None:
        kernels.sweep(self.array, z, v, r, sums, start, stop)

    def _as_matrices(self, sums: Float) -> Float:
        return symmetrised(sums)

    def _quadratic(self, z: Float, v: Float, r: Float, n_threads: int) -> None:
        q = np.empty(self.m)
        for s in range(len(z)):
            self._run(kernels.quadratic, self.array, z[s], v[s], q, n_threads=n_threads)
            r[s] -= q
