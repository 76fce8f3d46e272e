"""Hermitian tensors whose entries are computed when they are needed, and never stored.

A kind implements `_fill`, the entries of a list of pairs (j, k) for a block of 8 measurements, as in `blocks.py` but
complex. A full pass computes one block after the other in the packed layout (see kernels/hermitian.h) and contracts it:
the memory is that of one block for each thread, and of the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from fastquad._kernels import packed as kernels
from fastquad.measurements.base import Measurements
from fastquad.measurements.computed.blocks import Places
from fastquad.measurements.dense.hermitian import PackedHermitianTensor
from fastquad.measurements.dense.layout import GROUP, LANES, aligned_empty, block_rows
from fastquad.system import threads
from fastquad.typing import Indices, Number

# The number of partial sums over measurements, added in order; fixed, so that bits do not depend on threads.
_PARTS = 4


class GeneratedHermitianTensor(Measurements):
    """Hermitian measurements whose entries are computed by `_fill`."""

    medium = "computed"

    @abstractmethod
    def _fill(self, block: int, j: Places, k: Places, out: Number) -> None:
        """`out[p, l] = H_i[j_p, k_p]`, i = 8 block + l, complex128 (pairs, 8), for j_p above and below k_p."""

    def _about(self) -> tuple[str, ...]:
        return ("never stored",)

    @property
    def _n_blocks(self) -> int:
        return -(-self.m // LANES)

    def _made(self, block: int) -> PackedHermitianTensor:
        """A block of 8 measurements, packed."""
        blocks = aligned_empty((1, block_rows(self.n, np.dtype(np.complex128)), LANES), np.dtype(np.float64))
        self._pack(block, blocks[0])
        return PackedHermitianTensor(blocks, min(self.m - block * LANES, LANES), self.n)

    def _pack(self, block: int, out: Number) -> None:
        groups = -(-self.n // GROUP)
        size = kernels.offset(groups, self.n)
        j, k = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        kernels.pairs(self.n, 0, groups, j, k)
        entries = np.zeros((size, LANES), dtype=np.complex128)
        inside = j >= 0
        filled = np.empty((int(np.count_nonzero(inside)), LANES), dtype=np.complex128)
        self._fill(block, j[inside], k[inside], filled)
        entries[inside] = filled
        out[::2], out[1::2] = entries.real, entries.imag

    def _each(self, work: Callable[[int, slice, PackedHermitianTensor], None], n_threads: int) -> None:
        """Run `work(block, measurements, tensor)` on all blocks."""

        def task(block: int) -> None:
            work(block, slice(block * LANES, min(self.m, (block + 1) * LANES)), self._made(block))

        threads.run(task, [(block,) for block in range(self._n_blocks)], n_threads)

    def matrices(self, start: int, stop: int) -> Number:
        first, last = start // LANES, -(-stop // LANES)
        parts = [self._made(block) for block in range(first, last)]
        whole = np.concatenate([part.matrices(0, part.m) for part in parts])
        return whole[start - first * LANES : stop - first * LANES]

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        self._each(lambda _, part, A: A._products(x, W[part], 1), n_threads)

    def _compress(self, U: Number, n_threads: int) -> Number:
        C = np.empty((self.m, U.shape[1], U.shape[1]), dtype=np.complex128)

        def work(_: int, part: slice, A: PackedHermitianTensor) -> None:
            C[part] = A._compress(U, 1)

        self._each(work, n_threads)
        return C

    # -- sums over measurements -----------------------------------------------------------------------------------

    def _summed(self, b: int, work: Callable[[slice, PackedHermitianTensor], Number], n_threads: int) -> Number:
        """The sum over all blocks of what `work(measurements, tensor)` gives, (b, n, n)."""
        chunks = threads.chunks(self._n_blocks, -(-self._n_blocks // _PARTS))
        sums = np.zeros((len(chunks), b, self.n, self.n), dtype=np.complex128)

        def task(total: Number, start: int, stop: int) -> None:
            for block in range(start, stop):
                total += work(slice(block * LANES, min(self.m, (block + 1) * LANES)), self._made(block))

        threads.run(task, [(total, *chunk) for total, chunk in zip(sums, chunks, strict=True)], n_threads)
        return sums.sum(axis=0)

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return self._summed(w.shape[1], lambda part, A: A._weighted_sum(w[part], 1), n_threads)

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c.copy()

        def work(part: slice, A: PackedHermitianTensor) -> Number:
            r[part], S = A._sweep(z, v, c[part], 1)
            return S

        S = self._summed(z.shape[1], work, n_threads)
        return r, S

    # -- parts of A -------------------------------------------------------------------------------------------------

    def _gather(self, j: Indices, k: Indices, n_threads: int) -> Number:
        """`H_i[j_p, k_p]`, (m, pairs)."""
        out = np.empty((self.m, j.size), dtype=np.complex128)
        rows, columns = j.astype(np.int32), k.astype(np.int32)

        def task(block: int) -> None:
            entries = np.empty((j.size, LANES), dtype=np.complex128)
            self._fill(block, rows, columns, entries)
            part = slice(block * LANES, min(self.m, (block + 1) * LANES))
            out[part] = entries[:, : part.stop - part.start].T

        threads.run(task, [(block,) for block in range(self._n_blocks)], n_threads)
        return out

    def _diagonals(self, n_threads: int) -> Number:
        j = np.arange(self.n)
        return np.ascontiguousarray(self._gather(j, j, n_threads).real)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads).astype(self.dtype)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        entries = self._gather(np.repeat(rows, cols.size), np.tile(cols, rows.size), n_threads)
        return entries.reshape(self.m, rows.size, cols.size)


class HermitianGaussianTensor(GeneratedHermitianTensor):
    """The Gaussian unitary ensemble without storage: see `GaussianTensor(…, dtype=complex)`, which makes it."""

    def __init__(self, real: Any, imaginary: Any) -> None:
        self.real, self.imaginary = real, imaginary
        self.m, self.n, self.seed = real.m, real.n, real.seed
        self.dtype = np.dtype(np.complex64)

    def _about(self) -> tuple[str, ...]:
        return (*super()._about(), f"seed={self.seed}")

    def entry(self, i: int, j: int, k: int) -> complex:
        """`H_i[j, k]`."""
        imaginary = 0.0 if j == k else float(np.sign(k - j)) * self.imaginary.entry(i, j, k)
        return complex(self.real.entry(i, j, k), imaginary)

    def _identity(self) -> tuple[Any, ...]:
        return (repr(self),)

    def _fill(self, block: int, j: Places, k: Places, out: Number) -> None:
        part = np.empty((j.size, LANES))
        self.real._fill(block, j, k, part)
        out.real = part
        # The generator is symmetric in j and k: give entries below the diagonal the other sign, and the diagonal none.
        self.imaginary._fill(block, j, k, part)
        out.imag = np.sign(k - j)[:, None] * part


class HermitianComputedTensor(GeneratedHermitianTensor):
    """A tensor given by a complex function of (i, j, k): see `ComputedTensor`, which makes it."""

    def __init__(
        self, loop: Callable[..., None], m: int, n: int, args: tuple[Any, ...], remake: tuple[Any, ...]
    ) -> None:
        self._loop, self.m, self.n, self.args = loop, m, n, args
        self.dtype = np.dtype(np.complex128)
        self._remake = remake

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    def _fill(self, block: int, j: Places, k: Places, out: Number) -> None:
        first = block * LANES
        self._loop(first, min(LANES, self.m - first), j, k, out, self.args)
