"""What a solve keeps of A in memory: the matrices on some coordinates, packed, in the precision of A.

New coordinates come first and the older ones behind them. So the packed block of the older ones is the end of the new
one (see kernels/layout.h): to grow is to put rows before it, and no pair is moved within it. Products of a signal on
some of the coordinates are those of a signal that is zero on the others, at the speed of a pass over a small tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fastquad.measurements.dense.layout import GROUP, entries_at
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.typing import Float, Indices


@dataclass(frozen=True)
class Kept:
    """`Ã_i[P, P]`, packed, for coordinates P = `members`, of which −1 is none."""

    members: Indices
    tensor: PackedTensor

    @staticmethod
    def order(new: Indices, old: Indices) -> tuple[Indices, int]:
        """The members when new ones join old ones, and how many are new: whole groups, where others follow."""
        none = np.full(-new.size % GROUP if old.size else 0, -1, dtype=np.intp)
        return np.concatenate([new, none, old]), new.size + none.size

    @staticmethod
    def of(m: int, members: Indices, cells: Float, before: Kept | None = None) -> Kept:
        """With the rows of new members before what was kept; see `fastquad.measurements.contractions.Cells`."""
        if before is not None:
            cells = np.concatenate([cells, before.tensor.blocks.astype(cells.dtype, copy=False)], axis=1)
        return Kept(members, PackedTensor(cells, m, members.size))

    @cached_property
    def _order(self) -> Indices:
        return np.argsort(self.members)

    def positions(self, places: Indices) -> Indices:
        """Where these places, which are members, stand among them."""
        return positions(places, self.members, self._order)

    def has(self, places: Indices) -> bool:
        """Whether all of these places are members."""
        return among(places, self.members)

    def products(self, where: Indices | None, z: Float, n_threads: int) -> Float:
        """`Ã_i[S, S] z`, (m, s), for S at these positions, or at all."""
        if not z.size:
            return np.zeros((self.tensor.m, 0))
        if where is None:
            return self.tensor._apply(z, n_threads)
        x = np.zeros(self.members.size)
        x[where] = z
        return np.take(self.tensor._apply(x, n_threads), where, axis=1)

    def entries(self, j: Indices, k: Indices) -> Float:
        """`Ã_i[j, k]` for pairs of positions, (m, pairs)."""
        some = np.take(self.tensor.blocks, entries_at(j, k, self.members.size), axis=1)
        return some.transpose(0, 2, 1).reshape(-1, j.size)[: self.tensor.m].astype(np.float64)

    def block(self, places: Indices, chosen: Indices | None = None) -> Float:
        """`Ã_i[P, P]` for these places P, or those of its rows that are chosen, (m, c, p)."""
        columns = self.positions(places)
        return self.tensor._block(columns if chosen is None else columns[chosen], columns, 1)


def lacking(places: Indices, members: Indices) -> Indices:
    """The places that are no members."""
    if not members.size:
        return places
    # The last one is that of −1, which is none.
    known = np.zeros(max(int(places.max(initial=-1)), int(members.max(initial=-1))) + 2, dtype=bool)
    known[members] = True
    return places[~known[places]]


def among(places: Indices, members: Indices) -> bool:
    """Whether all of these places are members."""
    return not lacking(places, members).size


def positions(places: Indices, members: Indices, order: Indices | None = None) -> Indices:
    """Where these places stand among the members; `order` sorts the members."""
    order = np.argsort(members) if order is None else order
    return order[np.searchsorted(members, places, sorter=order)]
