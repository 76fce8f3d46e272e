"""The user's own array: (m, n, n), C-contiguous, float32 or float64, in memory or mapped from disk, never copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.measurements.base import Float, symmetrised
from fastquad.measurements.packed import GROUP, LANES, aligned_empty, pad
from fastquad.measurements.stored import StoredTensor


class RawTensor(StoredTensor):
    """Measurements on an (m, n, n) array as it is, symmetric or not."""

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
        A = self.array[start:stop].astype(np.float64)
        return (A + A.transpose(0, 2, 1)) / 2

    def reads_rows(self, nnz: int) -> bool:
        # Each entry of a column is a cache line of its own, so gathering pays later than in the packed layout.
        return 64 // self.dtype.itemsize * nnz <= self.n

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        if x.ndim == 1:
            self._run(stored.raw_products, self.array, x, W, n_threads=n_threads)
        else:
            self._run_packed(stored.packed_products_batch, pad(x, GROUP), out=W, n_threads=n_threads)

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
        parallel.run(stored.raw_weighted_sum, tasks, parallel.worthwhile(n_threads, self.nbytes))
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

        parallel.run(task, self._chunks(n_threads), n_threads)
        return rows

    def _block(self, rows: NDArray[np.intp], cols: NDArray[np.intp], n_threads: int) -> Float:
        out = self.array[:, rows[:, None], cols].astype(np.float64)
        out += self.array[:, cols, rows[:, None]]
        out /= 2
        return out

    def _part(self, start: int, stop: int) -> RawTensor:
        return RawTensor(self.array[start:stop])

    def _pack(self, block: int, out: Float) -> None:
        stored.pack(self.array[block * LANES : (block + 1) * LANES], out[None], 0, 1)

    def _compress(self, U: Float, n_threads: int) -> Float:
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        if C.size:
            self._run_packed(stored.packed_compress, self.n, pad(U, GROUP), out=C, n_threads=n_threads)
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
        stored.raw_sweep(self.array, z, v, r, sums, start, stop)

    def _as_matrices(self, sums: Float) -> Float:
        return symmetrised(sums)

    def _quadratic(self, z: Float, v: Float, r: Float, n_threads: int) -> None:
        q = np.empty(self.m)
        for s in range(len(z)):
            self._run(stored.raw_quadratic, self.array, z[s], v[s], q, n_threads=n_threads)
            r[s] -= q
