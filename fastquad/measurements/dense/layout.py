"""The packed layout as Python sees it: where entries stand, and arrays that fit the kernels. See kernels/layout.h."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastquad._kernels import hermitian
from fastquad._kernels import packed as kernels
from fastquad.typing import Float, Indices, Number

#: Measurements side by side.
LANES: int = kernels.lanes
#: Rows of a group.
GROUP: int = kernels.group


def block_rows(n: int, dtype: np.dtype) -> int:
    """Rows of 8 numbers in a packed block of n×n matrices: one per entry, two per entry of complex ones."""
    return kernels.entries(n) * (2 if dtype.kind == "c" else 1)


def stored_as(dtype: np.dtype) -> np.dtype:
    """The dtype of the numbers that a packed block of this dtype consists of."""
    return np.zeros(0, dtype=dtype).real.dtype


def places(rows: Indices, cols: Indices, n: int) -> Indices:
    """Where the entries rows × cols stand in a block, in units of `LANES`."""
    out = np.empty((rows.size, cols.size), dtype=np.intp)
    kernels.places(np.ascontiguousarray(rows, dtype=np.intp), np.ascontiguousarray(cols, dtype=np.intp), n, out)
    return out


def as_stored(blocks: NDArray[Any]) -> NDArray[Any]:
    """Blocks as the kernels take them: 16-bit floats by their bits."""
    return blocks.view(np.uint16) if blocks.dtype == np.float16 else blocks


def row_dtype(dtype: np.dtype) -> np.dtype:
    """What rows of entries of this dtype are given in."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def pad(array: Float, *multiples: int, dtype: DTypeLike = np.float64) -> Float:
    """An array in C order, its leading axes padded with zeros to these multiples; itself where it is so already."""
    if array.ndim == 1:  # a signal: the usual case, in half the time
        size, (multiple,) = len(array), multiples
        if size % multiple == 0 and array.dtype == dtype and array.flags.c_contiguous:
            return array
        padded = np.zeros(-(-size // multiple) * multiple, dtype=dtype)
        padded[:size] = array
        return padded
    shape = [-(-size // multiple) * multiple for size, multiple in zip(array.shape, multiples, strict=False)]
    if shape == list(array.shape[: len(shape)]):
        return np.ascontiguousarray(array, dtype=dtype)
    out = np.zeros((*shape, *array.shape[len(shape) :]), dtype=dtype)
    out[tuple(slice(size) for size in array.shape)] = array
    return out


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> Float:
    """An empty array that begins at a cache line, as the entries of a block do."""
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(size + 64, dtype=np.uint8)
    shift = -buffer.ctypes.data % 64
    return buffer[shift : shift + size].view(dtype).reshape(shape)


def unpacked(sums: Float, n: int) -> Float:
    """Sums of b signals in packed order, (b, entries), as symmetric matrices, (b, n, n)."""
    S = np.empty((len(sums), n, n))
    for packed, out in zip(sums, S, strict=True):
        kernels.unpack_symmetric(packed, out)
    return S


def packed_rows(block: Float) -> Float:
    """The first rows of symmetric matrices (m, r, n), packed, (blocks, entries, 8): whole groups of rows, or all."""
    m, rows, n = block.shape
    count = -(-m // LANES)
    if rows == n:
        out = np.empty((count, kernels.entries(n), LANES))
        kernels.pack(np.ascontiguousarray(block, dtype=np.float64), out, 0, count)
        return out
    lanes = np.zeros((count * LANES, rows, n))
    lanes[:m] = block
    lanes = lanes.reshape(count, LANES, rows, n)
    out = np.empty((count, kernels.offset(rows // GROUP, n), LANES))
    for first in range(0, rows, GROUP):
        begin, end = kernels.offset(first // GROUP, n), kernels.offset(first // GROUP + 1, n)
        cells = lanes[:, :, first : first + GROUP, first:].transpose(0, 3, 2, 1)
        out[:, begin:end] = cells.reshape(count, end - begin, LANES)
    return out


def cells_at(members: Indices, new: int, n: int) -> Indices:
    """Where the first `new` rows of a packed block of some coordinates stand in the block of all n; −1 for nowhere."""
    groups, size = -(-new // GROUP), members.size
    rows, cols = np.empty((2, kernels.offset(groups, size)), dtype=np.int32)
    kernels.pairs(size, 0, groups, rows, cols)
    j, k = members[rows], members[cols]
    where = entries_at(j, k, n)
    where[(rows < 0) | (j < 0) | (k < 0)] = -1
    return where


def entries_at(j: Indices, k: Indices, n: int) -> Indices:
    """Where the entries (j, k) stand in a block, in units of `LANES`; see kernels/layout.h."""
    low, high = np.minimum(j, k), np.maximum(j, k)
    group, row = np.divmod(low, GROUP)
    return GROUP * (group * (n + 2 - 2 * group) + high - GROUP * group) + row


def pack_block(matrices: Number, out: Number) -> None:
    """At most 8 matrices in the packed layout, (entries, 8), rounded once: symmetric parts, or Hermitian ones."""
    if matrices.dtype.kind == "c":
        hermitian.pack(matrices.view(matrices.real.dtype), out, len(matrices), False)
    elif out.dtype == np.float16:
        exact = np.empty(out.shape)
        kernels.pack(matrices, exact[None], 0, 1)
        put(exact, out)
    else:
        kernels.pack(matrices, out[None], 0, 1)


def put(entries: Float, out: NDArray[Any]) -> None:
    """`out = entries` (some entries, 8), rounded; an error where 16 bits do not hold them.

    A 16-bit float has 11 bits between 6e-5 and 65504, and fewer below. So the rounding of each measurement, relative to
    its size, shows whether they were enough.
    """
    if out.dtype != np.float16:
        out[...] = entries
        return
    with np.errstate(over="ignore"):
        out[...] = entries
    error = np.linalg.norm(out.astype(np.float64) - entries, axis=0)
    if not (error <= 1e-3 * np.linalg.norm(entries, axis=0)).all():
        raise ValueError(
            "`dtype` float16 holds numbers between 6e-5 and 65504 to 3 digits, and these measurements are larger or "
            "smaller: scale each matrix and its y by a common factor, or pack as float32."
        )
