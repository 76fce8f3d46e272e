"""A packed folder larger than memory: every contraction is one pass of large reads, within a memory budget.

Each part of the folder that arrives (see `reader.py`) is a small packed tensor, and is contracted by its kernels while
the next parts are read. A sum over all measurements is kept in the packed layout until the end; the sweep reads each
part once, for its residuals and for its sum.

Of a few rows, or of a block, only the byte ranges that hold them are read. Rows that a solver expects to need, or that
sparse signals have, are gathered in one pass and stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import fastquad._kernels.stored as stored
import fastquad._kernels.strips as strips
from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.packed import GROUP, LANES, PackedTensor, pad
from fastquad.measurements.reader import Ranges, Reader, ranges_of
from fastquad.measurements.store import Folder

Places = NDArray[np.intp]

#: Entries of the packed layout in a task that adds to a sum: half a megabyte of doubles.
_SUM_ENTRIES = 1 << 16


class StreamedTensor(Measurements):
    """A packed folder that is read anew for every pass; made by `fastquad.open`.

    `bytes_read` counts what was read from it so far.
    """

    def __init__(self, folder: Folder, memory: int, *, verify: bool = True) -> None:
        self.folder = folder
        self.memory: int = memory
        self.m, self.n, self.dtype = folder.m, folder.n, folder.dtype
        # Reading ahead needs a few buffers; the rest of the budget is for rows, for the answers and for the solver.
        least = 2 * folder.section * folder.block_bytes
        self._reader = Reader(folder, max(memory // 4, min(memory, least)), verify)
        self._kept: dict[int, NDArray] = {}

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.folder.nbytes

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """Bytes that were read from the disk so far."""
        return self._reader.bytes_read

    def _parts(self, ranges: Ranges | None = None) -> Iterator[tuple[slice, PackedTensor]]:
        """(which measurements, a packed tensor of them) in turn; each is valid until the next one."""
        if ranges == []:
            return
        for first, blocks in self._reader(ranges):
            part = slice(first * LANES, min(self.m, (first + len(blocks)) * LANES))
            yield part, PackedTensor(blocks, part.stop - part.start, self.n)

    def matrices(self, start: int, stop: int) -> Float:
        blocks = self.folder.blocks()[start // LANES : -(-stop // LANES)]
        first = start // LANES * LANES
        part = PackedTensor(blocks, min(self.m - first, len(blocks) * LANES), self.n)
        return part.matrices(start - first, stop - first)

    def _pack(self, block: int, out: Float) -> None:
        out[...] = self.folder.blocks()[block]

    def _identity(self) -> tuple:
        return (self.folder.describe(),)

    def _diagonals(self, n_threads: int) -> Float:
        return self.folder.diagonals()

    # -- full passes ----------------------------------------------------------------------------------------------

    def sweep_passes(self) -> int:
        return 1

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        for part, A in self._parts():
            A._products(x, W[part], n_threads)

    def _compress(self, U: Float, n_threads: int) -> Float:
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        for part, A in self._parts():
            C[part] = A._compress(U, n_threads)
        return C

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        sums = np.zeros((w.shape[1], stored.entries(self.n)))
        for part, A in self._parts():
            _add_weighted(A.blocks, w[part], sums, n_threads)
        return self._unpacked(sums)

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r = c.copy()
        z, v = pad(z.T, 1, GROUP), pad(v.T, 1, GROUP)
        sums = np.zeros((len(z), stored.entries(self.n)))
        for part, A in self._parts():
            residuals = pad(r[part].T, 1, LANES)
            A._quadratic(z, v, residuals, n_threads)
            r[part] = residuals[:, : A.m].T
            _add_weighted(A.blocks, r[part], sums, n_threads)
        return r, self._unpacked(sums)

    def _unpacked(self, sums: Float) -> Float:
        """The sums of b signals as symmetric matrices, (b, n, n)."""
        S = np.empty((len(sums), self.n, self.n))
        for packed, out in zip(sums, S, strict=True):
            stored.unpack_symmetric(packed, out)
        return S

    # -- parts of A -------------------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return 4 * nnz <= self.n and nnz <= self._rows_that_fit

    @property
    def _rows_that_fit(self) -> int:
        return self.memory // 4 // (self.m * self.n * self.dtype.itemsize)

    def _expect(self, rows: Places, n_threads: int) -> None:
        wanted = list(dict.fromkeys(map(int, rows)))
        if len(wanted) > self._rows_that_fit:
            return
        # The last to be used is the last to go.
        self._kept |= {j: self._kept.pop(j) for j in wanted if j in self._kept}
        new = np.array([j for j in wanted if j not in self._kept], dtype=np.intp)
        if new.size:
            self._keep(new, n_threads)

    def _keep(self, new: Places, n_threads: int) -> None:
        """Gather these rows, (m, n) each, in one pass; those that were not used for longest make room for them."""
        while len(self._kept) + new.size > self._rows_that_fit:
            del self._kept[next(iter(self._kept))]
        rows = np.empty((new.size, self.m, self.n), dtype=self.dtype)
        for part, A in self._parts(self._ranges(new, np.arange(self.n))):
            rows[:, part] = A._rows(new, n_threads).transpose(1, 0, 2)
        self._kept |= {int(j): row for j, row in zip(new, rows, strict=True)}

    def _ranges(self, rows: Places, cols: Places) -> Ranges | None:
        """The byte ranges of a block that hold rows × cols."""
        low, high = np.minimum(rows[:, None], cols), np.maximum(rows[:, None], cols)
        g = low // GROUP
        cells = 4 * g * self.n - 8 * g * (g - 1) + GROUP * (high - GROUP * g) + low % GROUP
        return ranges_of(cells, LANES * self.dtype.itemsize, self.folder.block_bytes)

    def _rows(self, support: Places, n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n), dtype=self.dtype)
        for part, A in self._parts(self._ranges(support, np.arange(self.n))):
            rows[part] = A._rows(support, n_threads)
        return rows

    def _block(self, rows: Places, cols: Places, n_threads: int) -> Float:
        out = np.empty((self.m, rows.size, cols.size))
        known = np.array([int(j) in self._kept for j in rows], dtype=bool)

        def take(t: int) -> None:
            out[:, t] = np.take(self._kept[int(rows[t])], cols, axis=1)

        parallel.run(take, [(int(t),) for t in np.flatnonzero(known)], n_threads)
        rest = np.flatnonzero(~known)
        if rest.size and cols.size:
            for part, A in self._parts(self._ranges(rows[rest], cols)):
                out[part, rest] = A._block(rows[rest], cols, n_threads)
        return out

    def _products_on(self, support: Places, values: Float, W: Float, n_threads: int) -> None:
        self._expect(support, n_threads)
        kept = [self._kept[int(j)] for j in support]
        values = values.reshape(support.size, -1)
        out = W.reshape(self.m, self.n, -1)

        def task(start: int, stop: int) -> None:
            part = out[start:stop]
            part[...] = 0.0
            for row, value in zip(kept, values, strict=True):
                for s, x in enumerate(value):
                    part[:, :, s] += x * row[start:stop]

        parallel.run(task, parallel.chunks(self.m, max(1, (1 << 18) // self.n)), n_threads)


def _add_weighted(blocks: Float, w: Float, sums: Float, n_threads: int) -> None:
    """`sums += Σ_i w_i Ã_i` in the packed layout, for the measurements of these blocks."""
    weights = pad(w.T, 1, LANES)
    tasks = [(blocks, weights, sums, *chunk) for chunk in parallel.chunks(sums.shape[1], _SUM_ENTRIES)]
    parallel.run(strips.weighted, tasks, parallel.worthwhile(n_threads, blocks.nbytes))
