"""Keep the pairs that pursuit has read one by one.

Their vectors lie in one array in the order of arrival; a sorted list of keys tells where, for many pairs at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastquad.typing import Indices

_FIRST = 64


class Singles:
    """Vectors of `length` for some of the pairs a >= b of n places."""

    def __init__(self, n: int, length: int) -> None:
        self.n = n
        self._keys = np.zeros(0, dtype=np.int64)
        self._slots = np.zeros(0, dtype=np.intp)
        self._vectors = np.empty((0, length), dtype=np.float32)

    def find(self, a: Indices, b: Indices) -> Indices:
        """Where the pairs (a, b), in either order, are kept; −1 for those that are not."""
        key = self._key(a, b)
        if not self._keys.size:
            return np.full(key.shape, -1, dtype=np.intp)
        at = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        return np.where(self._keys[at] == key, self._slots[at], -1)

    def add(self, a: Indices, b: Indices, vectors: NDArray[np.float32]) -> None:
        """Keep the vectors (pairs, length) of pairs that are new and distinct."""
        used = self._keys.size
        if used + a.size > len(self._vectors):
            grown = np.empty((max(_FIRST, 2 * used, used + a.size), self._vectors.shape[1]), dtype=np.float32)
            grown[:used] = self._vectors[:used]
            self._vectors = grown
        self._vectors[used : used + a.size] = vectors
        keys = np.concatenate([self._keys, self._key(a, b)])
        slots = np.concatenate([self._slots, used + np.arange(a.size)])
        order = np.argsort(keys, kind="stable")
        self._keys, self._slots = keys[order], slots[order]

    def at(self, slots: Indices) -> NDArray[np.float32]:
        """The vectors that `find` found, (pairs, length)."""
        return self._vectors[slots]

    def _key(self, a: Indices, b: Indices) -> NDArray[np.int64]:
        """One number for each pair."""
        return np.maximum(a, b).astype(np.int64) * self.n + np.minimum(a, b)
