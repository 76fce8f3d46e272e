"""The packed layout of Hermitian matrices: n² reals a matrix, in the order in which the kernels read it.

See kernels/hermitian.h for the layout: an entry is two rows of 8 numbers, real parts and imaginary ones. So sums over
measurements are the same as for real matrices.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from fastquad._kernels import hermitian as kernels
from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.layout import GROUP, LANES, pad
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.system import threads
from fastquad.typing import Indices, Number


class PackedHermitianTensor(PackedTensor):
    """m Hermitian n×n matrices, packed; made by `fastquad.pack`.

    `blocks` is an array of shape (ceil(m/8), 2 entries, 8), float32 or float64; `dtype` is complex.
    """

    def __init__(self, blocks: Number, m: int, n: int) -> None:
        super().__init__(blocks, m, n)
        self.dtype = np.dtype(np.complex64 if blocks.dtype == np.float32 else np.complex128)

    def _of(self, blocks: Number, m: int) -> PackedHermitianTensor:
        return PackedHermitianTensor(blocks, m, self.n)

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        signals = interleaved(x.reshape(self.n, -1))
        if x.ndim == 1:
            out = W.view(np.float64)[None]
            run = partial(kernels.products, self.blocks, signals, out, 0)
            self._settle(kernels, run)
            self._run(run, n_threads=n_threads)
            return
        out = np.empty((len(signals), self.m, 2 * self.n))
        self._run(kernels.products, self.blocks, signals, out, 0, n_threads=n_threads, share=len(signals))
        W[...] = out.view(np.complex128).transpose(1, 2, 0)

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        if values.ndim == 2:
            return super(PackedTensor, self)._products_on(support, values, W, n_threads)
        if not support.size:
            W[...] = 0.0
            return
        out, share = W.view(np.float64), min(1.0, 2 * self.share_of_rows(support.size))
        values = values.view(np.float64)
        self._run(kernels.products_on, self.blocks, support, values, out, n_threads=n_threads, share=share)

    def _inner(self, D: Number, n_threads: int) -> Number:
        return Measurements._inner(self, D, n_threads)

    def _frobenius(self, n_threads: int) -> Number:
        return Measurements._frobenius(self, n_threads)

    def _diagonals(self, n_threads: int) -> Number:
        d = np.empty((self.m, self.n))
        self._run(kernels.diagonals, self.blocks, d, n_threads=n_threads, share=8 / self.n)
        return d

    def _rows(self, support: Indices, n_threads: int) -> Number:
        rows = np.empty((self.m, support.size, self.n), dtype=self.dtype)
        if support.size:
            share, out = self.share_of_rows(support.size), rows.view(self.blocks.dtype)
            self._run(kernels.rows, self.blocks, support, out, n_threads=n_threads, share=share)
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        out = np.empty((self.m, rows.size, cols.size), dtype=np.complex128)
        if out.size:
            share, parts = 2 * rows.size * cols.size / self.n**2, out.view(np.float64)
            self._run(kernels.block, self.blocks, self.n, rows, cols, parts, n_threads=n_threads, share=share)
        return out

    def _cells(self, members: Indices, new: int, n_threads: int) -> Number:
        raise NotImplementedError  # asked of a view with real matrices

    def _compress(self, U: Number, n_threads: int) -> Number:
        C = np.empty((self.m, U.shape[1], U.shape[1]), dtype=np.complex128)
        signals, left = interleaved(U), U.conj().T

        def task(start: int, stop: int) -> None:
            first, last = start * LANES, min(self.m, stop * LANES)
            W = np.empty((len(signals), last - first, 2 * self.n))
            kernels.products(self.blocks, signals, W, first, start, stop)
            C[first:last] = left @ W.view(np.complex128).transpose(1, 2, 0)

        if C.size:
            threads.run(task, [(block, block + 1) for block in range(len(self.blocks))], n_threads)
        return C

    # -- the sweep ------------------------------------------------------------------------------------------

    def _aligned(self, z: Number, v: Number, c: Number) -> tuple[Number, Number, Number]:
        return interleaved(z), pad(v.T, 1, GROUP), np.array(pad(c.T, 1, LANES))

    def _sweep_chunk(self, z: Number, v: Number, r: Number, sums: Number, start: int, stop: int) -> None:
        kernels.sweep(self.blocks, self.n, z, v, r, sums, start, stop)

    def _as_matrices(self, sums: Number) -> Number:
        S = np.empty((len(sums), self.n, self.n), dtype=np.complex128)
        for packed, out in zip(sums, S, strict=True):
            kernels.unpack(packed, out.view(np.float64))
        return S

    def _quadratic(self, z: Number, v: Number, r: Number, n_threads: int) -> None:
        q = np.empty(r.shape[1])
        for s in range(len(z)):
            self._run(kernels.quadratic, self.blocks, self.n, z[s], v[s], q, n_threads=n_threads)
            r[s] -= q


def interleaved(x: Number) -> Number:
    """Complex signals (n, b) as the kernels want them: a row each, Re and Im in turn, padded to whole groups."""
    n, b = x.shape
    out = np.zeros((b, -(-n // GROUP) * GROUP), dtype=np.complex128)
    out[:, :n] = x.T
    return out.view(np.float64)
