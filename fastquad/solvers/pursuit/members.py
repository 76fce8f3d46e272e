"""Keep the pairs of one support while it grows, packed, for the products of its descents.

The pairs stay in single precision, as they were kept, and are summed in double precision: a product then reads a
quarter of what it would from all of `Ã_i[S, S]`, and a new member adds its own pairs and copies no others.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import growth as kernel
from fastquad.solvers.pursuit.pairs import PairStore
from fastquad.typing import Float, Indices


class Members:
    """The pairs a >= b of a support whose members are only ever appended."""

    def __init__(self, store: PairStore) -> None:
        self.store = store
        self.places = np.zeros(0, dtype=np.intp)
        self.pairs = np.empty((0, store.length), dtype=np.float32)

    def grow(self, places: Indices) -> None:
        """Take the support to these places, which begin with those that it has and whose pairs have been read."""
        old, size = self.places.size, places.size
        used, needed = old * (old + 1) // 2, size * (size + 1) // 2
        if needed > len(self.pairs):
            pairs = np.empty((max(needed, 3 * used // 2), self.store.length), dtype=np.float32)
            pairs[:used] = self.pairs[:used]
            self.pairs = pairs
        rows, columns = np.tril_indices(size)
        self.pairs[used:needed] = self.store.take(places[rows[used:]], places[columns[used:]])
        self.places = places

    def products(self, z: Float) -> Float:
        """`W[i] = Ã_i[S, S] z`, (m, s)."""
        W = np.empty((self.store.m, z.size))
        kernel.products(self.pairs, self.store.scale * z, W)
        return W
