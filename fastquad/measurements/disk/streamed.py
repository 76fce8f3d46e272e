"""A packed folder larger than memory: every contraction is one pass of large reads, within a memory budget.

Each part of the folder that has been read (see `reader.py`) is a small packed tensor, and is contracted by its kernels
while the next parts are read. A sum over all measurements stays in the packed layout until the end; the sweep reads
each part once, for its residuals and for its sum.

For a few rows, or for a block, only the byte ranges that hold them are read. Rows that a solver announces, or that
sparse signals need, are gathered in one pass and stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.layout import LANES, pad, places, put, row_dtype
from fastquad.measurements.dense.make import empty_packed, packed_tensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.folder import Folder
from fastquad.measurements.disk.reader import Ranges, Reader, ranges_of
from fastquad.system import threads
from fastquad.system.progress import Bar
from fastquad.typing import Indices, Number


class StreamedTensor(Measurements):
    """A packed folder that is read again for every pass; made by `fastquad.open`.

    `bytes_read` counts the bytes read from it so far. If the folder is changed or replaced meanwhile, the next pass
    raises an error. A pickle holds the path.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastquad as fq
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "A.fq")
    >>> packed = fq.pack(fq.GaussianTensor(600, 150, 0), path)
    >>> A = fq.open(path, memory="18 MB")  # less than the 54 MB of the folder
    >>> type(A).__name__, A.measure([1.0] * 150).shape
    ('StreamedTensor', (600,))
    >>> folder.cleanup()
    """

    numbers = medium = "disk"

    def __init__(self, folder: Folder, memory: int, *, verify: bool = True) -> None:
        self.folder = folder
        self.memory: int = memory
        self.m, self.n, self.dtype = folder.m, folder.n, folder.dtype
        # Take a quarter of the budget for reading ahead; the rest is for rows, answers and the solver.
        least = 2 * folder.section * folder.block_bytes
        self._reader = Reader(folder, max(memory // 4, min(memory, least)), verify)
        self._kept: dict[int, NDArray[Any]] = {}
        self._like = empty_packed(folder.m, folder.n, folder.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.folder.nbytes

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """The number of bytes read from disk so far."""
        return self._reader.bytes_read

    def __reduce__(self) -> tuple[Any, ...]:
        path, description = str(self.folder.path), self.folder.describe()
        return _streamed_again, (path, description, self.memory, self._reader.verifies)

    def _parts(self, ranges: Ranges | None = None) -> Iterator[tuple[slice, PackedTensor]]:
        """(which measurements, a packed tensor of them) in turn; each is valid until the next one."""
        if ranges == []:
            return
        with Bar("a pass over A", self.m, " matrices") as bar:
            for first, blocks in self._reader(ranges):
                part = slice(first * LANES, min(self.m, (first + len(blocks)) * LANES))
                yield part, packed_tensor(blocks, part.stop - part.start, self.n, self.dtype)
                bar.advance(part.stop - part.start)

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        blocks = self.folder.read(start // LANES, -(-stop // LANES))
        first = start // LANES * LANES
        part = packed_tensor(blocks, min(self.m - first, len(blocks) * LANES), self.n, self.dtype)
        return part.matrices(start - first, stop - first)

    def _pack(self, block: int, out: Number) -> None:
        put(self.folder.read(block, block + 1)[0], out)

    def _identity(self) -> tuple[Any, ...]:
        return (self.folder.describe(),)

    def _diagonals(self, n_threads: int) -> Number:
        return self.folder.diagonals()

    # -- full passes ----------------------------------------------------------------------------------------------

    def sweep_passes(self) -> int:
        return 1

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        for part, A in self._parts():
            A._products(x, W[part], n_threads)

    def _apply_single(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        sparse = self.reads_rows(int(np.count_nonzero(x if x.ndim == 1 else x.any(axis=1))))
        if sparse or not self._like._has_single:
            return self._apply(x, n_threads, out)
        W = np.empty((self.m, *x.shape)) if out is None else out
        for part, A in self._parts():
            A._apply_single(x, n_threads, W[part])
        return W

    def _product_chunks(self, x: Number, n_threads: int) -> Iterator[tuple[slice, Number]]:
        if self.reads_rows(int(np.count_nonzero(x if x.ndim == 1 else x.any(axis=1)))):
            yield slice(0, self.m), self._apply(x, n_threads)
            return
        for part, A in self._parts():
            yield part, A._apply(x, n_threads)

    def _compress(self, U: Number, n_threads: int) -> Number:
        C = np.empty((self.m, U.shape[1], U.shape[1]), dtype=self.number)
        for part, A in self._parts():
            C[part] = A._compress(U, n_threads)
        return C

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        sums = self._like._new_sums(1, w.shape[1])[0]
        for part, A in self._parts():
            A.add_weighted(w[part], sums, n_threads)
        return self._like._as_matrices(sums)

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c.copy()
        z, v, _ = self._like._aligned(z, v, c)
        sums = self._like._new_sums(1, len(z))[0]
        for part, A in self._parts():
            residuals = np.array(pad(r[part].T, 1, LANES))
            A._quadratic(z, v, residuals, n_threads)
            r[part] = residuals[:, : A.m].T
            A.add_weighted(r[part], sums, n_threads)
        return r, self._like._as_matrices(sums)

    # -- parts of A -------------------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return 4 * nnz <= self.n and nnz <= self._rows_that_fit

    @property
    def _rows_that_fit(self) -> int:
        return self.memory // 4 // (self.m * self.n * row_dtype(self.dtype).itemsize)

    def _expect(self, rows: Indices, n_threads: int) -> None:
        wanted = list(dict.fromkeys(map(int, rows)))
        if len(wanted) > self._rows_that_fit:
            return
        # Move the rows in use to the end: those not used for longest are dropped first.
        self._kept |= {j: self._kept.pop(j) for j in wanted if j in self._kept}
        new = np.array([j for j in wanted if j not in self._kept], dtype=np.intp)
        if new.size:
            self._keep(new, n_threads)

    def _keep(self, new: Indices, n_threads: int) -> None:
        """Gather these rows, (m, n) each, in one pass, dropping those that were not used for longest."""
        while len(self._kept) + new.size > self._rows_that_fit:
            del self._kept[next(iter(self._kept))]
        rows = np.empty((new.size, self.m, self.n), dtype=row_dtype(self.dtype))
        for part, A in self._parts(self._ranges(new, np.arange(self.n))):
            rows[:, part] = A._rows(new, n_threads).transpose(1, 0, 2)
        self._kept |= {int(j): row for j, row in zip(new, rows, strict=True)}

    def _ranges(self, rows: Indices, cols: Indices) -> Ranges | None:
        """The byte ranges of a block that hold rows × cols."""
        return ranges_of(places(rows, cols, self.n), LANES * self.dtype.itemsize, self.folder.block_bytes)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        rows = np.empty((self.m, support.size, self.n), dtype=row_dtype(self.dtype))
        for part, A in self._parts(self._ranges(support, np.arange(self.n))):
            rows[part] = A._rows(support, n_threads)
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        out = np.empty((self.m, rows.size, cols.size), dtype=self.number)
        known = np.array([int(j) in self._kept for j in rows], dtype=bool)

        def take(t: int) -> None:
            out[:, t] = np.take(self._kept[int(rows[t])], cols, axis=1)

        threads.run(take, [(int(t),) for t in np.flatnonzero(known)], n_threads)
        rest = np.flatnonzero(~known)
        if rest.size and cols.size:
            for part, A in self._parts(self._ranges(rows[rest], cols)):
                out[part, rest] = A._block(rows[rest], cols, n_threads)
        return out

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        self._expect(support, n_threads)
        kept = [self._kept[int(j)] for j in support]
        values = values.reshape(support.size, -1)
        out = W.reshape(self.m, self.n, -1)

        def task(start: int, stop: int) -> None:
            part = out[start:stop]
            part[...] = 0.0
            for row, value in zip(kept, values, strict=True):
                for s, x in enumerate(value):
                    part[:, :, s] += x * row[start:stop].conj()

        threads.run(task, threads.chunks(self.m, max(1, (1 << 18) // self.n)), n_threads)


def _streamed_again(path: str, description: str, memory: int, verify: bool) -> StreamedTensor:
    return StreamedTensor(Folder.open_again(path, description), memory, verify=verify)
