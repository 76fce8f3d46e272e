"""The packed layout: symmetric, half the bytes, in the order in which the kernels read it.

See kernels/packed.h for the layout. A block of 8 measurements is one stream of memory, and vectors run over the
measurements, so a pass goes at the speed of memory for any n.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import packed as kernels
from fastquad.measurements.dense.chunks import StoredTensor, fits_cache
from fastquad.measurements.dense.layout import GROUP, LANES, as_stored, cells_at, pad, places, put, row_dtype, unpacked
from fastquad.system import threads
from fastquad.typing import Float, Indices

#: The number of entries of the packed layout in a task that adds to a sum: half a megabyte of doubles.
_SUM_ENTRIES = 1 << 16
# From so many bytes on it may pay to measure how a tensor is best prefetched.
_STREAM_BYTES = 3 * kernels.cached
# A pass takes less time than to gather more than this part of the rows (measured on Zen 5, n = 400 and 700): if A
# comes from memory, by the size of its entries; a fifth elsewhere.
_GATHERED = {8: 8, 4: 11, 2: 14}
# Passes that it takes to gather as many entries as A has, one by one.
_GATHERING = 8.0


class PackedTensor(StoredTensor):
    """m symmetric n×n matrices, packed; made by `fastquad.pack`.

    `blocks` is an array of shape (ceil(m/8), entries, 8), float16, float32 or float64.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> fq.pack(np.ones((16, 10, 10)), dtype="float32")
    PackedTensor(m=16, n=10, float32, 4.61 kB)
    """

    def __init__(self, blocks: Float, m: int, n: int) -> None:
        self.blocks = blocks.view()
        self.blocks.flags.writeable = False
        self.m, self.n, self.dtype = m, n, blocks.dtype
        self._units, self._unit_bytes = blocks.shape[0], blocks.shape[1] * LANES * blocks.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.blocks.nbytes

    @property
    def _has_single(self) -> bool:
        """Whether there are kernels in float arithmetic for these entries."""
        return self.dtype in (np.float16, np.float32)

    @property
    def _stored(self) -> NDArray[Any]:
        """The blocks as the kernels take them."""
        return as_stored(self.blocks) if self.dtype.itemsize == 2 else self.blocks

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        first, last = start // LANES, -(-stop // LANES)
        part = self._of(self.blocks[first:last], min(self.m, last * LANES) - first * LANES)
        return part.block(np.arange(self.n), n_threads=1)[start - first * LANES : stop - first * LANES]

    def reads_rows(self, nnz: int) -> bool:
        return _GATHERED.get(0 if fits_cache(self.nbytes) else self.dtype.itemsize, 5) * nnz <= self.n

    def signals_apart(self, count: int) -> bool:
        # The kernel for several signals takes as long for one as for a group: what it saves is reading from memory.
        return count < GROUP and fits_cache(self.nbytes)

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        if x.ndim == 1:
            run = partial(kernels.products, self._stored, x, W)
            self._settle(kernels, run)
            self._run(run, n_threads=n_threads)
        else:
            b, padded = x.shape[1], pad(x, GROUP)
            run = partial(kernels.products_batch, self._stored, padded, W)
            self._settle(kernels, run, tiles=True)
            self._run(run, n_threads=n_threads, share=b)

    def _apply_single(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        sparse = self.reads_rows(int(np.count_nonzero(x if x.ndim == 1 else x.any(axis=1))))
        if sparse or not self._has_single or not of_ordinary_size(x):
            return self._apply(x, n_threads, out)
        W = np.empty((self.m, *x.shape)) if out is None else out
        self._products_single(x, W, n_threads)
        return W if of_ordinary_size(W) else self._apply(x, n_threads, out)

    def _products_single(self, x: Float, W: Float, n_threads: int) -> None:
        """`_products` in float arithmetic, of entries that are stored as float32 or float16."""
        kernel, b = (kernels.products_single, 1) if x.ndim == 1 else (kernels.products_batch_single, x.shape[1])
        single = pad(x, GROUP, dtype=np.float32)
        run = partial(kernel, self._stored, single, W)
        self._settle(kernels, run, tiles=x.ndim == 2)
        self._run(run, n_threads=n_threads, share=b)

    def _settle(self, module: ModuleType, run: Callable[[int, int], object], *, tiles: bool = False) -> None:
        """Before the first pass over a tensor so large that it comes from memory: choose how to prefetch it."""
        if self.nbytes >= _STREAM_BYTES:
            from fastquad.measurements.dense import prefetch

            if tiles:
                prefetch.settle_tiles(self.blocks, run)
            else:
                prefetch.settle_streams(module, self.blocks, run)

    def _products_on(self, support: Indices, values: Float, W: Float, n_threads: int) -> None:
        if values.ndim == 2:
            return super()._products_on(support, values, W, n_threads)
        # A gathered line takes twice as long as a streamed one.
        share = min(1.0, 2 * self.share_of_rows(support.size))
        self._run(kernels.products_on, self._stored, support, values, W, n_threads=n_threads, share=share)

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        sums = np.zeros((w.shape[1], self.blocks.shape[1]))
        self.add_weighted(w, sums, n_threads)
        return self._as_matrices(sums)

    def add_weighted(self, w: Float, sums: Float, n_threads: int) -> None:
        """`sums += Σ_i w_i Ã_i` for w (m, b), in packed order, (b, entries)."""
        # Each task owns some entries of the sums and goes through all blocks, so there are no partial sums.
        weights = pad(w.T, 1, LANES)
        self._run(
            kernels.weighted, self._stored, weights, sums, n_threads=n_threads,
            chunks=threads.chunks(sums.shape[1], _SUM_ENTRIES),
        )  # fmt: skip

    def _inner(self, D: Float, n_threads: int) -> Float:
        return self._in_blocks(self._gathered(D), lambda blocks, d: d @ blocks, n_threads)

    def _frobenius(self, n_threads: int) -> Float:
        counts = self._gathered(np.ones((self.n, self.n)))
        return np.sqrt(self._in_blocks(counts, lambda blocks, count: count @ np.square(blocks), n_threads))

    def _gathered(self, D: Float) -> Float:
        """The sums of the entries of D that each stored number stands for, (1, entries)."""
        everything = np.arange(self.n)
        where = places(everything, everything, self.n).reshape(-1)
        sums = np.zeros((1, self.blocks.shape[1]))
        sums[0] = np.bincount(where, weights=D.reshape(-1), minlength=self.blocks.shape[1])
        return sums

    def _in_blocks(self, d: Float, function: Callable[[Float, Float], Float], n_threads: int) -> Float:
        """A number for each matrix, from a few blocks at a time in double precision."""
        out = np.empty((len(self.blocks), 1, LANES))

        def task(start: int, stop: int) -> None:
            out[start:stop] = function(self.blocks[start:stop].astype(np.float64, copy=False), d)

        threads.run(task, threads.chunks(len(self.blocks), self._few), threads.worthwhile(n_threads, self.nbytes))
        return out.reshape(-1)[: self.m].copy()

    @property
    def _few(self) -> int:
        """The number of blocks that a cache holds in double precision."""
        return max(1, (1 << 20) // (8 * LANES * self.blocks.shape[1]))

    def _diagonals(self, n_threads: int) -> Float:
        d = np.empty((self.m, self.n))
        self._run(kernels.diagonals, self._stored, d, n_threads=n_threads, share=8 / self.n)
        return d

    def _rows(self, support: Indices, n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n), dtype=row_dtype(self.dtype))
        if support.size:
            share = self.share_of_rows(support.size)
            self._run(kernels.rows, self._stored, support, rows, n_threads=n_threads, share=share)
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        out = np.empty((self.m, rows.size, cols.size))
        if out.size:
            share = 2 * rows.size * cols.size / self.n**2
            self._run(kernels.block, self._stored, self.n, rows, cols, out, n_threads=n_threads, share=share)
        return out

    def _cells(self, members: Indices, new: int, n_threads: int) -> Float:
        if new == self.n and (members == np.arange(self.n)).all():
            return self.blocks
        where = cells_at(members, new, self.n)
        out = np.empty((self._units, where.size, LANES), dtype=self.dtype)

        def gather(start: int, stop: int) -> None:
            np.take(self.blocks[start:stop], where, axis=1, out=out[start:stop], mode="clip")

        self._run(gather, n_threads=n_threads, share=_GATHERING * where.size / self.blocks.shape[1])
        out[:, where < 0] = 0.0
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        b = U.shape[1]
        C = np.empty((self.m, b, b))
        if C.size:
            self._run(kernels.compress, self._stored, self.n, pad(U, GROUP), C, n_threads=n_threads, share=b)
        return C

    def _part(self, start: int, stop: int) -> PackedTensor:
        return self._of(self.blocks[start // LANES : -(-stop // LANES)], stop - start)

    def _of(self, blocks: Float, m: int) -> PackedTensor:
        """A tensor of this kind with other blocks."""
        return PackedTensor(blocks, m, self.n)

    def _pack(self, block: int, out: Float) -> None:
        put(self.blocks[block], out)

    # -- the sweep ------------------------------------------------------------------------------------------

    @property
    def _sweep_bytes(self) -> int:
        return self._unit_bytes

    def _aligned(self, z: Float, v: Float, c: Float) -> tuple[Float, Float, Float]:
        return pad(z.T, 1, GROUP), pad(v.T, 1, GROUP), np.array(pad(c.T, 1, LANES))

    def _new_sums(self, count: int, b: int) -> Float:
        return np.zeros((count, b, self.blocks.shape[1]))

    def _sweep_chunk(self, z: Float, v: Float, r: Float, sums: Float, start: int, stop: int) -> None:
        kernels.sweep(self._stored, self.n, z, v, r, sums, start, stop)

    def _sweep_single(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        if self._has_single and of_ordinary_size(z) and of_ordinary_size(c):
            with np.errstate(over="ignore", invalid="ignore"):
                r, S = self._sweep_by(self._sweep_chunk_single, z, v, c, n_threads)
            if of_ordinary_size(r) and of_ordinary_size(S):
                return r, S
        return self._sweep(z, v, c, n_threads)

    def _sweep_chunk_single(self, z: Float, v: Float, r: Float, sums: Float, start: int, stop: int) -> None:
        z, v = z.astype(np.float32), v.astype(np.float32)
        kernels.sweep_single(self._stored, self.n, z, v, r, sums, start, stop)

    def _as_matrices(self, sums: Float) -> Float:
        return unpacked(sums, self.n)

    def _quadratic(self, z: Float, v: Float, r: Float, n_threads: int) -> None:
        q = np.empty(r.shape[1])
        for s in range(len(z)):
            self._run(kernels.quadratic, self._stored, self.n, z[s], v[s], q, n_threads=n_threads)
            r[s] -= q


def of_ordinary_size(array: Float) -> bool:
    """Whether the largest number lies so far within the range of floats that products of such ones do, too."""
    return bool(1e-12 < np.abs(array).max(initial=0.0) < 1e12)
