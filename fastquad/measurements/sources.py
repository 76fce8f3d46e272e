"""What can be packed to disk: each source gives packed blocks of 8 measurements, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.packed import LANES


class Source(Protocol):
    """Matrices that can be packed.

    `m` is None where it is not known before the end. A `sequential` source is read once, from its beginning.
    """

    m: int | None
    n: int
    dtype: np.dtype
    sequential: bool

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        """Write the blocks from `first` on, as many as out (blocks, entries, 8) has; the count of measurements."""


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
        tasks = [(first + i, out[i]) for i in range(-(-count // LANES))]
        parallel.run(self.measurements._pack, tasks, n_threads)
        return count


class IteratedSource:
    """An iterator of (n, n) matrices."""

    sequential = True
    m: int | None = None

    def __init__(self, matrices: Iterator[Any]) -> None:
        first = _matrix(next(matrices, None), None)
        self.n = first.shape[0]
        self.dtype = np.dtype(np.float32 if first.dtype in (np.float16, np.float32) else np.float64)
        self.waiting: Float | None = first
        self.rest = matrices

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        count = 0
        for block in out:
            matrices = self._take()
            if not len(matrices):
                break
            stored.pack(matrices, block[None], 0, 1)
            count += len(matrices)
        return count

    def _take(self) -> Float:
        """The next 8 matrices, or as many as there are."""
        taken = np.empty((LANES, self.n, self.n))
        count = 0
        while count < LANES:
            if self.waiting is not None:
                matrix, self.waiting = self.waiting, None
            else:
                following = next(self.rest, None)
                if following is None:
                    break
                matrix = _matrix(following, self.n)
            taken[count] = matrix
            count += 1
        return taken[:count]


def _matrix(value: Any, n: int | None) -> Float:
    """A matrix that an iterator gave, checked."""
    if value is None:
        raise ValueError("`A` must have at least one matrix, got an iterator without any.")
    matrix = np.asarray(value)
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"`A` must hold real numbers, got a matrix of dtype {matrix.dtype}.")
    expected = "(n, n)" if n is None else f"({n}, {n})"
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or n not in (None, matrix.shape[0]):
        raise ValueError(f"`A` must give matrices of shape {expected}, got one of shape {matrix.shape}.")
    return matrix
