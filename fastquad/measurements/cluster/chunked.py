"""A Dask array without a cluster: every pass computes its chunks again, one after the other.

So it need not fit in memory, and `fastquad.pack` can stream it. A pass takes as long as computing the array.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.parts import PartedTensor, contract
from fastquad.measurements.contractions import Answer, Contraction
from fastquad.measurements.dense.arrays import tensor, tensor_dtype
from fastquad.measurements.dense.make import empty_raw, raw_tensor

#: The number of chunks kept in memory: packing takes 8 measurements at a time, which may lie in two of them.
_KEPT = 2


class ChunkedTensor(PartedTensor):
    """A Dask array of shape (m, n, n), of which a chunk or two are in memory at a time."""

    def __init__(self, array: Any) -> None:
        self.dtype = tensor_dtype(array)
        self.array = whole_matrices(array)
        self.m, self.n = map(int, array.shape[:2])
        self._bounds = bounds_of(self.array)
        self._like = empty_raw(self.m, self.n, self.dtype)
        self._kept: dict[int, Measurements] = {}
        self._lock = Lock()

    def _chunk(self, part: int) -> Measurements:
        with self._lock:
            if part not in self._kept:
                while len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[part] = raw_tensor(tensor(np.asarray(self.array.blocks[part, 0, 0].compute())))
            return self._kept[part]

    def _ask(self, requests: dict[int, Contraction], n_threads: int) -> Iterable[Answer]:
        for part, request in requests.items():
            yield contract(self._chunk(part), request, n_threads)


def whole_matrices(array: Any) -> Any:
    """The Dask array rechunked so that no matrix is split."""
    if any(np.isnan(size) for axis in array.chunks for size in axis):
        raise ValueError("`A` must have chunks of known sizes: call its method compute_chunk_sizes() first.")
    return array.rechunk({1: -1, 2: -1})


def bounds_of(array: Any) -> list[tuple[int, int]]:
    """(start, stop) of the measurements in each chunk."""
    return list(pairwise(np.cumsum([0, *array.chunks[0]]).tolist()))
