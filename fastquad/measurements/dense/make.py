"""Dense tensors of the kind that a dtype asks for: real or complex, raw or packed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.complex import ComplexTensor
from fastquad.measurements.dense.hermitian import PackedHermitianTensor
from fastquad.measurements.dense.layout import LANES, aligned_empty, block_rows, stored_as
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.dense.raw import RawTensor
from fastquad.system import threads
from fastquad.system.progress import Bar
from fastquad.typing import Number


def raw_tensor(array: Number) -> RawTensor | ComplexTensor:
    """Measurements on an (m, n, n) array that is laid out as the kernels want it."""
    return ComplexTensor(array) if array.dtype.kind == "c" else RawTensor(array)


def packed_tensor(blocks: Number, m: int, n: int, dtype: np.dtype) -> PackedTensor:
    """Measurements on packed blocks, symmetric or Hermitian as the dtype says."""
    return (PackedHermitianTensor if dtype.kind == "c" else PackedTensor)(blocks, m, n)


def packed_shape(m: int, n: int, dtype: np.dtype) -> tuple[int, int, int]:
    """The shape of the packed blocks of m matrices."""
    return -(-m // LANES), block_rows(n, dtype), LANES


def packed_dtype(source: np.dtype, dtype: DTypeLike | None) -> np.dtype:
    """The dtype to pack to: that of the source, or as the user says, who cannot make real numbers of complex ones."""
    target = np.dtype(source if dtype is None else dtype)
    allowed = (np.complex64, np.complex128) if source.kind == "c" else (np.float16, np.float32, np.float64)
    if target not in allowed:
        *others, last = (np.dtype(kind).name for kind in allowed)
        names = f"{', '.join(others)} or {last}"
        raise TypeError(f"`dtype` must be {names}, got {target}.")
    return target


def empty_raw(m: int, n: int, dtype: np.dtype) -> RawTensor | ComplexTensor:
    """Raw measurements of zeros that take no memory: they say what reading such ones costs."""
    # Rows are whole, because those of complex numbers are also viewed as real ones.
    return raw_tensor(np.broadcast_to(np.zeros(n, dtype=dtype), (m, n, n)))


def empty_packed(m: int, n: int, dtype: np.dtype) -> PackedTensor:
    """Packed measurements of zeros that take no memory: they say what reading such ones costs."""
    zero = np.zeros((), dtype=stored_as(dtype))
    return packed_tensor(np.broadcast_to(zero, packed_shape(m, n, dtype)), m, n, dtype)


def pack_in_memory(
    measurements: Measurements, dtype: np.dtype, n_threads: int, out: PackedTensor | None = None
) -> PackedTensor:
    """The packed tensor of any measurements: one pass over them, a few matrices at a time; in the memory of `out`."""
    m = measurements.m
    out, blocks = packed_room(m, measurements.n, dtype, out)
    with Bar("packing", m, " matrices") as bar:

        def pack(block: int, target: Number) -> None:
            pack_finite(measurements, block, target)
            bar.advance(LANES)

        threads.run(pack, list(enumerate(blocks)), n_threads)
    return out


def packed_room(m: int, n: int, dtype: np.dtype, out: PackedTensor | None) -> tuple[PackedTensor, Number]:
    """A packed tensor to be filled, in new memory or in that of `out`, and its blocks to write to."""
    if out is None:
        out = packed_tensor(aligned_empty(packed_shape(m, n, dtype), stored_as(dtype)), m, n, dtype)
    if not isinstance(out, PackedTensor) or (out.m, out.n, out.dtype) != (m, n, dtype):
        raise ValueError(f"`out` must be a PackedTensor with m={m}, n={n} and dtype {dtype}, got {out!r}.")
    blocks = out.blocks.view()
    try:
        blocks.flags.writeable = True
    except ValueError:
        raise ValueError("`out` must be in memory: this one is mapped from a file that is not to be changed.") from None
    return out, blocks


class NotFinite(ValueError):
    """There is no packed tensor of this A."""


def pack_finite(measurements: Measurements, block: int, out: Number, before: int = 0) -> None:
    """The measurements 8 block, …, 8 block + 7 in the packed layout; an error where an entry is not finite.

    The error names the matrix, counted with those that come `before` these measurements.
    """
    measurements._pack(block, out)
    if is_finite(out):
        return
    first = block * LANES
    for i, matrix in enumerate(measurements.matrices(first, min(measurements.m, first + LANES)), first):
        if not is_finite(matrix):
            raise NotFinite(f"`A` must be finite, got NaN or inf in matrix {before + i}.")
    raise overflow(out.dtype)


def is_finite(array: Number) -> bool:
    """Whether a contiguous array has neither NaN nor inf."""
    if array.dtype == np.float16:
        return bool(np.isfinite(array).all())
    # The sum of squares is not finite if an entry is not: one read at the speed of memory. It may overflow, too.
    return math.isfinite(abs(np.vdot(array, array))) or bool(np.isfinite(array).all())


def overflow(dtype: np.dtype) -> NotFinite:
    """The error for an entry that is finite, but not when it is packed."""
    way_out = "give a dtype of double precision" if dtype == np.float32 else "scale A and y down"
    return NotFinite(f"`dtype` must hold the entries of A: one overflows {dtype}; {way_out}.")
