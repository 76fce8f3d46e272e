"""Coordinates that belong together: Re and Im of a complex number, or groups that the user knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastquad.typing import Float, Indices


class Groups:
    """A partition of n coordinates, by a label each: equal labels are one group.

    Groups are numbered in the order of their labels. `of` (n,) is the group of each coordinate, `sizes` (count,) how
    many each has.
    """

    def __init__(self, labels: ArrayLike) -> None:
        _, self.of, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
        self.sizes: Float = counts.astype(np.float64)
        self.n, self.count = self.of.size, self.sizes.size
        self._order = np.argsort(self.of, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    @classmethod
    def pairs(cls, count: int) -> Groups:
        """Coordinates 2j and 2j + 1 for each j < count."""
        return cls(np.repeat(np.arange(count), 2))

    def sums(self, values: Float) -> Float:
        """The sum of the values (n,) over each group, (count,)."""
        return np.bincount(self.of, weights=values, minlength=self.count).astype(np.float64, copy=False)

    def norms(self, x: Float) -> Float:
        """The norm of x on each group, (count,)."""
        return np.sqrt(self.sums(x * x))

    def spread(self, values: Float) -> Float:
        """The values (count,) of the groups, copied to each of their coordinates, (n,)."""
        return values[self.of]

    def members(self, which: Indices) -> Indices:
        """The coordinates of some groups, in ascending order."""
        if np.asarray(which).size == 0:
            return np.zeros(0, dtype=np.intp)
        return np.sort(np.concatenate([self._order[self._starts[g] : self._starts[g + 1]] for g in which]))

    def table(self, which: Indices, size: int) -> Indices:
        """The coordinates of groups that have `size` each, (len(which), size)."""
        return self._order[self._starts[which][:, None] + np.arange(size)]

    def touched(self, support: Indices) -> Indices:
        """The groups that have a coordinate in a support, in ascending order."""
        return np.unique(self.of[np.asarray(support, dtype=np.intp)])

    def whole(self, support: Indices) -> Indices:
        """The support with all coordinates of the groups that it touches."""
        return self.members(self.touched(support))

    def largest(self, importance: Float, size: int) -> Indices:
        """The coordinates of the groups with the largest sums of importance, as many groups as fit in `size`."""
        order = np.argsort(-self.sums(importance), kind="stable")
        taken = int(np.searchsorted(np.cumsum(self.sizes[order]), size, side="right"))
        return self.members(order[: max(1, taken)])
