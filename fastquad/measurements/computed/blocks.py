"""Tensors whose entries are computed when they are needed, and never stored.

A kind of such tensors implements one method, `_fill`, which writes the entries of a list of pairs (j, k) for a block of
8 measurements. Every contraction is built on it. A full pass computes the packed layout (see kernels/packed.h) one
strip at a time, in a buffer that stays in cache, and contracts it there; a sparse signal needs only the rows of its
support. So the memory is that of the answer, whatever m and n are.

Entries take far longer to compute than to read, so they are used for all signals of a batch, and `sweep` computes them
only once if a block of 8 matrices fits in cache.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import packed as kernels
from fastquad.measurements.base import Measurements, symmetrised
from fastquad.measurements.dense.chunks import added_up, fits_cache, sweep_chunks
from fastquad.measurements.dense.layout import GROUP, LANES, aligned_empty, pad, put, unpacked
from fastquad.system import threads
from fastquad.typing import Float, Indices

Places = NDArray[np.int32]

#: The number of pairs in a strip: half a megabyte with 8 measurements in double precision.
_STRIP = 1 << 13


class GeneratedTensor(Measurements):
    """Measurements whose entries are computed by `_fill`."""

    medium = "computed"

    @abstractmethod
    def _fill(self, block: int, j: Places, k: Places, out: Float) -> None:
        """`out[p, l] = Ã_i[j_p, k_p]`, i = 8 block + l; zero where j_p < 0 or i >= m.

        out is float64 of shape (pairs, 8). It is called from several threads at once, and should release the GIL.
        """

    def _about(self) -> tuple[str, ...]:
        return ("never stored",)

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        first, last = start // LANES, min(self.m, -(-stop // LANES) * LANES)
        out = np.empty((last - first * LANES, self.n, self.n))
        everything = np.arange(self.n, dtype=np.int32)
        self._gather(*_rectangle(everything, everything), out.reshape(len(out), -1), threads.resolve(None), first)
        return out[start - first * LANES : stop - first * LANES]

    def reads_rows(self, nnz: int) -> bool:
        # Single rows are contracted more slowly than strips of several.
        return 3 * nnz <= self.n

    def _part(self, start: int, stop: int) -> Measurements:
        return _GeneratedPart(self, start, stop)

    # -- a full pass: strips of the packed layout -------------------------------------------------------------

    @property
    def _n_blocks(self) -> int:
        return -(-self.m // LANES)

    def _strips(self) -> list[tuple[int, int]]:
        """(first, last) of consecutive groups of rows with about `_STRIP` pairs in all; a group is never split."""
        ends, start, result = -(-self.n // GROUP), 0, []
        while start < ends:
            stop = start + 1
            while stop < ends and kernels.offset(stop + 1, self.n) - kernels.offset(start, self.n) <= _STRIP:
                stop += 1
            result.append((start, stop))
            start = stop
        return result

    def _pairs(self, first: int, last: int) -> tuple[Places, Places]:
        """The pairs (j, k) of a strip, in its order."""
        size = kernels.offset(last, self.n) - kernels.offset(first, self.n)
        j, k = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        kernels.pairs(self.n, first, last, j, k)
        return j, k

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        signals = pad(x.reshape(self.n, -1).T, 1, GROUP)
        parts = [(first, last, *self._pairs(first, last)) for first, last in self._strips()]

        def task(block: int) -> None:
            self._put(block, self._block_products(block, parts, signals), W)

        threads.run(task, [(block,) for block in range(self._n_blocks)], n_threads)

    def _block_products(self, block: int, parts: list[tuple[int, int, Places, Places]], signals: Float) -> Float:
        """The products of a block with signals (b, n or more), (b, n or more, 8), computed strip by strip."""
        P = aligned_empty((max(j.size for _, _, j, _ in parts), LANES), np.dtype(np.float64))
        w = np.zeros((*signals.shape, LANES))
        for first, last, j, k in parts:
            strip = P[: j.size]
            self._fill(block, j, k, strip)
            kernels.strip(strip, first, last, signals, w, self.n)
        return w

    def _compress(self, U: Float, n_threads: int) -> Float:
        """`U^T Ã_i U` by strips: memory for 8 products with U at a time, not for whole matrices."""
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        if not C.size:
            return C
        columns = pad(U.T, 1, GROUP)
        parts = [(first, last, *self._pairs(first, last)) for first, last in self._strips()]

        def task(block: int) -> None:
            w = self._block_products(block, parts, columns)
            rows = slice(block * LANES, min(self.m, (block + 1) * LANES))
            C[rows] = np.tensordot(columns, w, axes=(1, 1))[..., : rows.stop - rows.start].transpose(2, 0, 1)

        threads.run(task, [(block,) for block in range(self._n_blocks)], n_threads)
        return symmetrised(C)

    def _put(self, block: int, w: Float, W: Float) -> None:
        """Put w (b, n or more, 8), the products of a block, where they belong in W (m, n) or (m, n, b)."""
        rows = slice(block * LANES, min(self.m, (block + 1) * LANES))
        if W.ndim == 2:
            kernels.transposed(w[0], W[rows])
        else:
            W[rows] = w[:, : self.n, : rows.stop - rows.start].transpose(2, 1, 0)

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.empty((w.shape[1], self.n, self.n))
        weights = pad(w.T, 1, LANES)

        # Each task owns a strip of S and goes through all blocks, so there are no partial sums.
        def task(first: int, last: int) -> None:
            j, k = self._pairs(first, last)
            P = aligned_empty((1, j.size, LANES), np.dtype(np.float64))
            sums = np.zeros((len(weights), j.size))
            for block in range(self._n_blocks):
                self._fill(block, j, k, P[0])
                part = weights[:, block * LANES : (block + 1) * LANES].copy()
                kernels.weighted(P, part, sums, 0, j.size)
            inside = j >= 0
            j, k, sums = j[inside], k[inside], sums[:, inside]
            S[:, j, k] = sums
            S[:, k, j] = sums

        threads.run(task, self._strips(), n_threads)
        return S

    def _pack(self, block: int, out: Float) -> None:
        for first, last in self._strips():
            j, k = self._pairs(first, last)
            strip = np.empty((j.size, LANES))
            self._fill(block, j, k, strip)
            start = kernels.offset(first, self.n)
            put(strip, out[start : start + j.size])

    # -- the sweep --------------------------------------------------------------------------------------------

    def sweep_passes(self) -> int:
        return 1 if fits_cache(kernels.entries(self.n) * LANES * 8) else 2

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        if self.sweep_passes() == 2:
            W = self._apply(z, n_threads)
            r = c - np.einsum("ijs,js->is", W, z) - self._diagonals(n_threads) @ v
            return r, self._weighted_sum(r, n_threads)
        z, v, r = pad(z.T, 1, GROUP), pad(v.T, 1, GROUP), np.array(pad(c.T, 1, LANES))
        j, k = self._pairs(0, -(-self.n // GROUP))
        chunks = sweep_chunks(self._n_blocks, self.n, len(z))
        sums = np.zeros((len(chunks), len(z), j.size))

        def task(total: Float, start: int, stop: int) -> None:
            P = aligned_empty((1, j.size, LANES), np.dtype(np.float64))
            for block in range(start, stop):
                self._fill(block, j, k, P[0])
                lanes = slice(block * LANES, (block + 1) * LANES)
                part = r[:, lanes].copy()
                kernels.sweep(P, self.n, z, v, part, total, 0, 1)
                r[:, lanes] = part

        threads.run(task, [(total, *chunk) for total, chunk in zip(sums, chunks, strict=True)], n_threads)
        return r[:, : self.m].T.copy(), unpacked(added_up(sums), self.n)

    # -- parts of A -------------------------------------------------------------------------------------------

    def _gather(self, j: Places, k: Places, out: NDArray[Any], n_threads: int, first_block: int = 0) -> None:
        """`out[i, p] = Ã_i[j_p, k_p]` for the measurements from 8 first_block on, as many as out has."""
        m = len(out)
        pieces = threads.chunks(j.size, _STRIP)
        # Make enough tasks for all threads, each long enough to be worth a thread.
        blocks = threads.chunks(-(-m // LANES), max(1, -(-len(pieces) * m // (64 * LANES))))

        def task(start: int, stop: int, first: int, last: int) -> None:
            buffer = np.empty((stop - start, LANES))
            for block in range(first, last):
                self._fill(first_block + block, j[start:stop], k[start:stop], buffer)
                rows = slice(block * LANES, min(m, (block + 1) * LANES))
                kernels.transposed(buffer, out[rows, start:stop])

        threads.run(task, [(*piece, *part) for piece in pieces for part in blocks], n_threads)

    def _diagonals(self, n_threads: int) -> Float:
        d = np.empty((self.m, self.n))
        j = np.arange(self.n, dtype=np.int32)
        self._gather(j, j, d, n_threads)
        return d

    def _rows(self, support: Indices, n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n), dtype=self.dtype)
        pairs = _rectangle(support, np.arange(self.n))
        self._gather(*pairs, rows.reshape(self.m, support.size * self.n), n_threads)
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        out = np.empty((self.m, rows.size, cols.size))
        self._gather(*_rectangle(rows, cols), out.reshape(self.m, rows.size * cols.size), n_threads)
        return out

    def _products_on(self, support: Indices, values: Float, W: Float, n_threads: int) -> None:
        values = values.reshape(support.size, -1)
        k = np.arange(self.n, dtype=np.int32)
        rows = [np.full(self.n, j, dtype=np.int32) for j in support]

        def task(block: int) -> None:
            entries, scaled = np.empty((self.n, LANES)), np.empty((self.n, LANES))
            w = np.zeros((values.shape[1], self.n, LANES))
            for j, value in zip(rows, values, strict=True):
                self._fill(block, j, k, entries)
                for s, x in enumerate(value):
                    w[s] += np.multiply(entries, x, out=scaled)
            self._put(block, w, W)

        threads.run(task, [(block,) for block in range(self._n_blocks)], n_threads)


class _GeneratedPart(GeneratedTensor):
    """A range of consecutive measurements, from a multiple of 8 on."""

    def __init__(self, whole: GeneratedTensor, start: int, stop: int) -> None:
        self.whole, self.first = whole, start // LANES
        self.m, self.n, self.dtype = stop - start, whole.n, whole.dtype

    def _fill(self, block: int, j: Places, k: Places, out: Float) -> None:
        self.whole._fill(self.first + block, j, k, out)
        if (block + 1) * LANES > self.m:
            out[:, self.m - block * LANES :] = 0.0


def _rectangle(rows: NDArray[Any], cols: NDArray[Any]) -> tuple[Places, Places]:
    """The pairs of rows × cols, row by row."""
    return np.repeat(rows, cols.size).astype(np.int32), np.tile(cols, rows.size).astype(np.int32)
