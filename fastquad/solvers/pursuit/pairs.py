"""Keep the part of A that pursuit has read, in the layout of its kernels.

A coordinate's place is its number in the order of screening. For each pair of places the entries `Ã_i[a, b]` of all
measurements lie side by side, in single precision, which is enough to choose a support and takes half the memory. The
pairs of the first p places are packed, a >= b, so that the block grows by appending; places whose products with all
coordinates are needed have a whole row; some pairs are read one by one. No pair of the block or of a row is read twice,
except for the final fit in double precision, and for rows that were dropped to make room for others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import growth as kernel
from fastquad.engine.requests import Expect
from fastquad.measurements.contractions import Block
from fastquad.solvers.pursuit.singles import Singles
from fastquad.typing import Asks, Float, Indices

# The number of entries of A in one request.
_READ_ENTRIES = 4 << 20

Single = NDArray[np.float32]


@dataclass
class PairStore:
    """`Ã_i[a, b]/scale` for the pairs of places that have been read, minus their mean over i if `centre` is true.

    `order[a]` is the coordinate at place a; `pairs` has shape (p(p+1)/2, length) and `rows[a]` (n, length), with the
    m measurements padded by zeros to `length`. At most `max_rows` rows are kept; `rows_read` counts all that were read.
    """

    m: int
    order: Indices
    scale: float
    max_rows: int
    centre: bool = False
    p: int = 0
    rows: dict[int, Single] = field(default_factory=dict)
    rows_read: int = 0

    def __post_init__(self) -> None:
        self.length = -(-self.m // kernel.MULTIPLE) * kernel.MULTIPLE
        self.pairs = np.zeros((0, self.length), dtype=np.float32)
        self.singles = Singles(len(self.order), self.length)

    def padded(self, vector: Float) -> Single:
        """A vector over the measurements, padded for the kernels."""
        out = np.zeros(self.length, dtype=np.float32)
        out[: self.m] = vector
        return out

    def read_block(self, p: int) -> Asks[None]:
        """Extend the packed block to the first p places."""
        if p <= self.p:
            return
        pairs = np.zeros((p * (p + 1) // 2, self.length), dtype=np.float32)
        pairs[: len(self.pairs)] = self.pairs
        new = np.array([a for a in range(self.p, p) if a not in self.rows], dtype=np.intp)
        others = np.array([a for a in range(p) if a not in self.rows], dtype=np.intp)
        for part in _parts(new, self.m * p):
            # Read the columns up to the last of these rows: the others come with later rows.
            columns = others[others <= part[-1]]
            fresh = yield from self._read(part, columns)
            for place, a in enumerate(part):
                below = columns <= a
                pairs[_packed(a, columns[below])] = fresh[place, below]
        for b in self.rows:
            if b < p:
                self._fill_row(pairs, p, b)
        self.pairs, self.p = pairs, p

    def _fill_row(self, pairs: Single, p: int, b: int) -> None:
        """Copy the first p entries of the row of b to their places in the packed block."""
        places = np.arange(p)
        pairs[_packed(np.maximum(places, b), np.minimum(places, b))] = self.rows[b][:p]

    def missing(self, places: Iterable[int]) -> list[int]:
        """The places among these whose rows have not been read."""
        return [int(a) for a in places if int(a) not in self.rows]

    def read_rows(self, places: Collection[int], keep: Iterable[int] = ()) -> Asks[None]:
        """Read the whole rows of these places, at most `max_rows`; rows of `keep` are not dropped for them."""
        n = len(self.order)
        new = np.array(sorted(self.missing(places)), dtype=np.intp)
        self._make_room({*map(int, places), *map(int, keep)}, new.size)
        self.rows_read += new.size
        if new.size > 1:
            yield Expect(self.order[new])
        for group, first in ((new[new < self.p], self.p), (new[new >= self.p], 0)):
            for part in _parts(group, self.m * n):
                columns = np.array([b for b in range(first, n) if b not in self.rows], dtype=np.intp)
                rows = np.zeros((len(part), n, self.length), dtype=np.float32)
                if columns.size:
                    rows[:, columns] = yield from self._read(part, columns)
                for place, a in enumerate(part):
                    if first:
                        inside = np.arange(first)
                        rows[place, :first] = self.pairs[_packed(np.maximum(inside, a), np.minimum(inside, a))]
                    for b, row in self.rows.items():
                        rows[place, b] = row[a]
                self.rows |= {int(a): rows[place] for place, a in enumerate(part)}

    def _make_room(self, wanted: set[int], count: int) -> None:
        """Drop rows, the oldest first, so that `count` more can be kept."""
        for a in [a for a in self.rows if a not in wanted][: max(0, len(self.rows) + count - self.max_rows)]:
            del self.rows[a]

    def _read(self, rows: Indices, columns: Indices) -> Asks[Single]:
        """The entries of rows × columns, (rows, columns, length)."""
        answer = yield Block(self.order[rows], self.order[columns])
        if self.centre:
            answer = answer - answer.mean(axis=0)
        out = np.zeros((len(rows), len(columns), self.length), dtype=np.float32)
        np.divide(answer.transpose(1, 2, 0), self.scale, out=out[:, :, : self.m], casting="same_kind")
        return out

    def read_pairs(self, places: Indices, others: Indices) -> Asks[None]:
        """Read the pairs of places × others that are neither in a row nor in the block."""
        a, b = np.repeat(places, others.size), np.tile(others, places.size)
        inside, in_row = self._where(a, b)
        left = np.flatnonzero(~(inside | in_row))
        lacking = left[self.singles.find(a[left], b[left]) < 0]
        if not lacking.size:
            return
        a, b = a[lacking], b[lacking]
        rows, columns = np.unique(a), np.unique(b)
        fresh = yield from self._read(rows, columns)
        # A pair may come in both orders: keep it once.
        _, first = np.unique(_packed(np.maximum(a, b), np.minimum(a, b)), return_index=True)
        a, b = a[first], b[first]
        self.singles.add(a, b, fresh[np.searchsorted(rows, a), np.searchsorted(columns, b)])

    def _where(self, a: Indices, b: Indices) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the pairs (a, b) are in the block, and which others are in a row."""
        with_row = np.zeros(len(self.order), dtype=bool)
        with_row[list(self.rows)] = True
        inside = np.maximum(a, b) < self.p
        return inside, ~inside & (with_row[a] | with_row[b])

    def take(self, a: Indices, b: Indices) -> Single:
        """`Ã_i[a, b]/scale` of pairs (a, b) that have been read, (pairs, length)."""
        inside, in_row = self._where(a, b)
        if inside.all():
            return self.pairs[_packed(np.maximum(a, b), np.minimum(a, b))]
        out = np.empty((a.size, self.length), dtype=np.float32)
        out[inside] = self.pairs[_packed(np.maximum(a, b), np.minimum(a, b))[inside]]
        for i in np.flatnonzero(in_row).tolist():
            row, other = self.rows.get(int(a[i])), int(b[i])
            out[i] = self.rows[other][a[i]] if row is None else row[other]
        single = ~(inside | in_row)
        out[single] = self.singles.at(self.singles.find(a[single], b[single]))
        return out

    def between(self, places: Indices, others: Indices) -> Single:
        """`Ã_i[a, b]/scale` of pairs that have been read, (places, others, length)."""
        found = self.take(np.repeat(places, others.size), np.tile(others, places.size))
        return found.reshape(places.size, others.size, self.length)

    def diagonals(self) -> Single:
        """`Ã_i[a, a]/scale` of the block, (p, length)."""
        place = np.arange(self.p)
        return self.pairs[_packed(place, place)]

    def products(self, places: Indices, z: Float) -> Single:
        """The products of the signal with values z at those places that have rows, at every place: (n, length)."""
        W = np.zeros((len(self.order), self.length), dtype=np.float32)
        flat = W.reshape(-1)
        for a, value in zip(places, z, strict=True):
            if int(a) in self.rows:
                kernel.add_scaled(np.float32(value), self.rows[int(a)].reshape(-1), flat)
        return W


def _packed(a: Any, b: Any) -> Any:
    """The index of the pair a >= b in the packed block."""
    return a * (a + 1) // 2 + b


def _parts(places: Indices, entries_each: int) -> list[Indices]:
    """The places, a few at a time."""
    if not places.size:
        return []
    return np.array_split(places, min(places.size, -(-places.size * entries_each // _READ_ENTRIES)))
