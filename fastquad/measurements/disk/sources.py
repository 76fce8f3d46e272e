"""Sources that can be packed to disk: each gives packed blocks of 8 measurements, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.layout import LANES, pack_block
from fastquad.measurements.dense.make import NotFinite, is_finite, overflow, pack_finite
from fastquad.system import threads
from fastquad.typing import Float, Number


class Source(Protocol):
    """Matrices that can be packed.

    `m` is None if it is not known before the end. A `sequential` source can only be read once, from its beginning.
    """

    m: int | None
    n: int
    dtype: np.dtype
    sequential: bool

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        """Fill out (blocks, entries, 8) with the blocks from `first` on; returns the number of measurements."""


class MeasuredSource:
    """Any measurements."""

    sequential = False

    def __init__(self, measurements: Measurements) -> None:
        self.measurements = measurements
        self.m: int | None = measurements.m
        self.n, self.dtype = measurements.n, measurements.dtype

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        m = self.measurements.m
        count = max(0, min(m - first * LANES, len(out) * LANES))
        tasks = [(self.measurements, first + i, out[i]) for i in range(-(-count // LANES))]
        threads.run(pack_finite, tasks, n_threads)
        return count


class IteratedSource:
    """An iterator of (n, n) matrices."""

    sequential = True
    m: int | None = None

    def __init__(self, matrices: Iterator[Any]) -> None:
        first = _matrix(next(matrices, None), None)
        self.n = first.shape[0]
        single = first.dtype in (np.float16, np.float32, np.complex64)
        if first.dtype.kind == "c":
            self.dtype = np.dtype(np.complex64 if single else np.complex128)
        else:
            self.dtype = np.dtype(np.float32 if single else np.float64)
        self.waiting: Float | None = first
        self.rest = matrices

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        count = 0
        for block in out:
            matrices = self._take()
            if not len(matrices):
                break
            pack_block(matrices, block)
            if not is_finite(block):
                raise overflow(block.dtype)
            count += len(matrices)
        return count

    def _take(self) -> Number:
        """The next 8 matrices, or fewer at the end."""
        taken = np.empty((LANES, self.n, self.n), dtype=np.complex128 if self.dtype.kind == "c" else np.float64)
        count = 0
        while count < LANES:
            if self.waiting is not None:
                matrix, self.waiting = self.waiting, None
            else:
                following = next(self.rest, None)
                if following is None:
                    break
                matrix = _matrix(following, self.n, self.dtype.kind == "c")
            taken[count] = matrix
            count += 1
        return taken[:count]


def _matrix(value: Any, n: int | None, complex_too: bool = True) -> Float:
    """A matrix that an iterator gave, checked."""
    if value is None:
        raise ValueError("`A` must have at least one matrix, got an iterator without any.")
    matrix = np.asarray(arguments.unmasked(value, "A"))
    arguments.check_numbers(matrix, "A", complex_too=complex_too)
    expected = "(n, n)" if n is None else f"({n}, {n})"
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or n not in (None, matrix.shape[0]):
        raise ValueError(f"`A` must give matrices of shape {expected}, got one of shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise NotFinite("`A` must be finite, got a matrix with NaN or inf.")
    return matrix
