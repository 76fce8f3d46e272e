"""The packed layout: symmetric, half the bytes, in the order in which the kernels read it.

See kernels/packed.h for the layout. A block of 8 measurements is one stream of memory, and vectors run over the
measurements, so a pass goes at the speed of memory for any n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.stored import CHUNK_BYTES, StoredTensor

LANES = stored.lanes
GROUP = stored.group


class PackedTensor(StoredTensor):
    """m symmetric n×n matrices, packed; made by `fastquad.pack`.

    `blocks` is an array of shape (ceil(m/8), entries, 8), float32 or float64.
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

    def matrices(self, start: int, stop: int) -> Float:
        first, last = start // LANES, -(-stop // LANES)
        part = PackedTensor(self.blocks[first:last], min(self.m, last * LANES) - first * LANES, self.n)
        return part.block(np.arange(self.n), n_threads=1)[start - first * LANES : stop - first * LANES]

    def reads_rows(self, nnz: int) -> bool:
        # A gathered row costs about twice a streamed one, and a support of s rows holds 2 s/n of the triangle.
        return 5 * nnz <= self.n

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        if x.ndim == 1:
            self._run(stored.packed_products, self.blocks, pad(x, GROUP), W, n_threads=n_threads)
        else:
            b = x.shape[1]
            self._run(stored.packed_products_batch, self.blocks, pad(x, GROUP), W, 0, n_threads=n_threads, share=b)

    def _products_on(self, support: NDArray[np.intp], values: Float, W: Float, n_threads: int) -> None:
        if values.ndim == 2:
            return super()._products_on(support, values, W, n_threads)
        # A gathered line takes twice as long as a streamed one.
        share = min(1.0, 2 * self.share_of_rows(support.size))
        self._run(stored.packed_products_on, self.blocks, support, values, W, n_threads=n_threads, share=share)

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.empty((w.shape[1], self.n, self.n))
        weights = pad(w.T, 1, LANES)
        # Each task owns a few groups of rows of S and goes through all blocks, so there is nothing to reduce.
        groups = -(-self.n // GROUP)
        chunks = parallel.chunks(groups, max(1, groups * CHUNK_BYTES // max(1, self.nbytes)))
        self._run(stored.packed_weighted_sum, self.blocks, weights, S, n_threads=n_threads, chunks=chunks)
        return S

    def _diagonals(self, n_threads: int) -> Float:
        d = np.empty((self.m, self.n))
        self._run(stored.packed_diagonals, self.blocks, d, n_threads=n_threads, share=8 / self.n)
        return d

    def _rows(self, support: NDArray[np.intp], n_threads: int) -> Float:
        rows = np.empty((self.m, support.size, self.n), dtype=self.dtype)
        if support.size:
            share = self.share_of_rows(support.size)
            self._run(stored.packed_rows, self.blocks, support, rows, n_threads=n_threads, share=share)
        return rows

    def _block(self, rows: NDArray[np.intp], cols: NDArray[np.intp], n_threads: int) -> Float:
        out = np.empty((self.m, rows.size, cols.size))
        if out.size:
            share = 2 * rows.size * cols.size / self.n**2
            self._run(stored.packed_block, self.blocks, self.n, rows, cols, out, n_threads=n_threads, share=share)
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        b = U.shape[1]
        C = np.empty((self.m, b, b))
        if C.size:
            self._run(stored.packed_compress, self.blocks, self.n, pad(U, GROUP), C, 0, n_threads=n_threads, share=b)
        return C

    def _part(self, start: int, stop: int) -> PackedTensor:
        return PackedTensor(self.blocks[start // LANES : -(-stop // LANES)], stop - start, self.n)

    def _pack(self, block: int, out: Float) -> None:
        out[...] = self.blocks[block]

    # -- the sweep ------------------------------------------------------------------------------------------

    @property
    def _sweep_bytes(self) -> int:
        return self._unit_bytes

    def _aligned(self, z: Float, v: Float, c: Float) -> tuple[Float, Float, Float]:
        return pad(z.T, 1, GROUP), pad(v.T, 1, GROUP), pad(c.T, 1, LANES)

    def _new_sums(self, count: int, b: int) -> Float:
        return np.zeros((count, b, self.blocks.shape[1]))

    def _sweep_chunk(self, z: Float, v: Float, r: Float, sums: Float, start: int, stop: int) -> None:
        stored.packed_sweep(self.blocks, self.n, z, v, r, sums, start, stop)

    def _as_matrices(self, sums: Float) -> Float:
        S = np.empty((len(sums), self.n, self.n))
        for packed, out in zip(sums, S, strict=True):
            stored.unpack_symmetric(packed, out)
        return S

    def _quadratic(self, z: Float, v: Float, r: Float, n_threads: int) -> None:
        q = np.empty(r.shape[1])
        for s in range(len(z)):
            self._run(stored.packed_quadratic, self.blocks, self.n, z[s], v[s], q, n_threads=n_threads)
            r[s] -= q


def pad(array: Float, *multiples: int) -> Float:
    """A C-contiguous copy of an array whose leading axes are padded with zeros to these multiples."""
    shape = [-(-size // multiple) * multiple for size, multiple in zip(array.shape, multiples, strict=False)]
    out = np.zeros((*shape, *array.shape[len(shape) :]))
    out[tuple(slice(size) for size in array.shape)] = array
    return out


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> Float:
    """An empty array that begins at a cache line, as the entries of a block do."""
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(size + 64, dtype=np.uint8)
    shift = -buffer.ctypes.data % 64
    return buffer[shift : shift + size].view(dtype).reshape(shape)


def empty_packed(m: int, n: int, dtype: np.dtype) -> PackedTensor:
    """Packed measurements of zeros that take no memory: they say what reading such ones costs."""
    return PackedTensor(np.broadcast_to(np.zeros((), dtype=dtype), (-(-m // LANES), stored.entries(n), LANES)), m, n)


def pack_in_memory(measurements: Measurements, dtype: np.dtype, n_threads: int) -> PackedTensor:
    """The packed tensor of any measurements: one pass over them, a few matrices at a time."""
    m, n = measurements.m, measurements.n
    blocks = aligned_empty((-(-m // LANES), stored.entries(n), LANES), dtype)
    parallel.run(measurements._pack, list(enumerate(blocks)), n_threads)
    return PackedTensor(blocks, m, n)
