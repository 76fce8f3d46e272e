"""The user's own array: (m, n, n), C-contiguous, float32 or float64, in memory or mapped from disk, never copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.packed import GROUP, LANES, aligned_empty, pad

#: A chunk is at least this long, so that handing it out costs nothing beside it.
_CHUNK_BYTES = 1 << 20
#: Four matrices up to this size are still in cache when the sweep comes back to them.
_CACHE_BYTES = 12 << 20
#: The sums of a sweep's chunks take at most this much memory.
_SUMS_BYTES = 256 << 20


class RawTensor(Measurements):
    """Measurements on an (m, n, n) array as it is, symmetric or not."""

    def __init__(self, array: Float) -> None:
        # Frozen, so that nothing here can write to the user's data.
        self.array = array.view(np.ndarray)
        self.array.flags.writeable = False
        self.m, self.n, self.dtype = array.shape[0], array.shape[1], array.dtype
        size = max(1, _CHUNK_BYTES // max(1, self._matrix_bytes))
        self._chunks = parallel.chunks(self.m, size)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.array.nbytes

    @property
    def _matrix_bytes(self) -> int:
        return self.n * self.n * self.dtype.itemsize

    def matrices(self, start: int, stop: int) -> Float:
        A = self.array[start:stop].astype(np.float64)
        return (A + A.transpose(0, 2, 1)) / 2

    def sweep_passes(self) -> int:
        return 1 if 4 * self._matrix_bytes <= _CACHE_BYTES else 2

    def reads_rows(self, nnz: int) -> bool:
        # Each entry of a column is a cache line of its own, so gathering pays later than in the packed layout.
        return 64 // self.dtype.itemsize * nnz <= self.n

    def _run(self, kernel: Callable, *arguments: object, n_threads: int) -> None:
        parallel.run(kernel, [(*arguments, *chunk) for chunk in self._chunks], n_threads, self.nbytes)

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        if x.ndim == 1:
            self._run(stored.raw_products, self.array, x, W, n_threads=n_threads)
        else:
            self._run_packed(stored.packed_products_batch, pad(x, GROUP, GROUP), out=W, n_threads=n_threads)

    def _run_packed(self, kernel: Callable, *inputs: object, out: Float, n_threads: int) -> None:
        """Pack 8 measurements at a time into a block of scratch, and run a kernel of the packed layout on it."""

        def task(start: int, stop: int) -> None:
            block = aligned_empty((1, stored.entries(self.n), LANES), np.dtype(np.float64))
            stored.pack(self.array[start:stop], block, 0, 1)
            kernel(block, *inputs, out[start:stop], 0, 0, 1)

        parallel.run(task, parallel.chunks(self.m, LANES), n_threads)

    def _products_on(self, support: NDArray[np.intp], values: Float, W: Float, n_threads: int) -> None:
        if values.ndim == 2:
            return super()._products_on(support, values, W, n_threads)
        self._run(stored.raw_products_on, self.array, support, values, W, n_threads=n_threads)

    def _sided_products(self, x: Float, transpose: bool, n_threads: int) -> Float:
        W = np.empty((self.m, self.n))
        self._run(stored.raw_left if transpose else stored.raw_right, self.array, x, W, n_threads=n_threads)
        return W

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.empty((w.shape[1], self.n, self.n))
        weights = np.ascontiguousarray(w.T)
        # Each task owns a few rows of S, small enough to stay in cache, and goes through all matrices.
        rows = max(1, (256 << 10) // (8 * self.n * len(weights)))
        tasks = [(self.array, weights, S, *chunk) for chunk in parallel.chunks(self.n, rows)]
        parallel.run(stored.raw_weighted_sum, tasks, n_threads, self.nbytes)
        return symmetrised(S)

    def _diagonals(self, n_threads: int) -> Float:
        return np.einsum("ijj->ij", self.array).astype(np.float64)

    def _rows(self, support: NDArray[np.intp], n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n))  # the mean of two float32 need not be one

        def task(start: int, stop: int) -> None:
            A = self.array[start:stop]
            rows[start:stop] = A[:, support]
            rows[start:stop] += A[:, :, support].transpose(0, 2, 1)
            rows[start:stop] /= 2

        parallel.run(task, self._chunks, n_threads)
        return rows

    def _block(self, rows: NDArray[np.intp], cols: NDArray[np.intp], n_threads: int) -> Float:
        out = self.array[:, rows[:, None], cols].astype(np.float64)
        out += self.array[:, cols, rows[:, None]]
        out /= 2
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        if C.size:
            self._run_packed(stored.packed_compress, self.n, pad(U, GROUP, GROUP), out=C, n_threads=n_threads)
        return C

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        z, v, r = (np.ascontiguousarray(part.T) for part in (z, v, c.copy()))
        if self.sweep_passes() == 2:
            q = np.empty(self.m)
            for s in range(len(z)):
                self._run(stored.raw_quadratic, self.array, z[s], v[s], q, n_threads=n_threads)
                r[s] -= q
            r = r.T.copy()
            return r, self._weighted_sum(r, n_threads)
        # As many chunks whatever the number of threads, each with sums of its own, added up in their order.
        n_chunks = int(np.clip(_SUMS_BYTES // (8 * self.n**2 * len(z)), 2, 16))
        chunks = parallel.chunks(self.m, -(-self.m // n_chunks))
        sums = np.zeros((len(chunks), len(z), self.n, self.n))
        tasks = [(self.array, z, v, r, part, *chunk) for part, chunk in zip(sums, chunks, strict=True)]
        parallel.run(stored.raw_sweep, tasks, n_threads, self.nbytes)
        for part in sums[1:]:
            sums[0] += part
        return r.T.copy(), symmetrised(sums[0])


def symmetrised(S: Float) -> Float:
    """`(S + S^T)/2` of a stack of matrices."""
    S = S + S.transpose(0, 2, 1)
    S /= 2
    return S
