"""The user's own array: (m, n, n), C-contiguous, float32 or float64, in memory or mapped from disk, never copied."""

from __future__ import annotations

import numpy as np

from fastquad.measurements.base import Float, Measurements


class RawTensor(Measurements):
    """Measurements on an (m, n, n) array as it is, symmetric or not."""

    def __init__(self, array: Float) -> None:
        # Frozen, so that nothing here can write to the user's data.
        self.array = array.view()
        self.array.flags.writeable = False
        self.m, self.n = array.shape[0], array.shape[1]
        self.dtype = array.dtype

    def matrices(self, start: int, stop: int) -> Float:
        A = self.array[start:stop].astype(np.float64)
        return (A + A.transpose(0, 2, 1)) / 2

    def _sided_products(self, x: Float, transpose: bool, n_threads: int) -> Float:
        return np.einsum("ijk,j->ik" if transpose else "ijk,k->ij", self.array, x, optimize=True)
