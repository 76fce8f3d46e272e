"""Relabellings of the coordinates that leave a set of symmetric matrices as they are.

A depth-first search that looks ahead. Whenever a coordinate gets its image, all others keep only those images whose
entries with it are right, and the coordinate that has the fewest left comes next. For matrices of differences, say,
the first two images decide all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad.typing import Float, Indices

# The number of matrices that are compared at once: few are enough to rule out most images.
_AT_ONCE = 2
# The largest number of entries that a search compares, which takes about a tenth of a second.
_MOST_WORK = 40_000_000


class _Options(NamedTuple):
    """What is left to choose: coordinate `which[i]` may go to `image[i]`, with the sign `sign[i]`."""

    which: Indices
    image: Indices
    sign: Float

    def only(self, kept: Indices | NDArray[np.bool_]) -> _Options:
        return _Options(self.which[kept], self.image[kept], self.sign[kept])


def relabellings(block: Float, where: Indices, kind: Indices, tolerance: float) -> Iterator[tuple[Indices, Float]]:
    """Signed injections p of `where` into the coordinates of a block with `A_i[p, p] = A_i[where, where]`.

    Two entries agree if their root mean square difference over i is at most `tolerance` times the size of entries.
    `kind` labels coordinates whose diagonals agree: only those may take each other's place. Each result is the images
    of `where` and their signs, both (s,), up to the sign of all. The search ends without a word where it takes too
    long.
    """
    search = _Search(block, where, kind, tolerance)
    images, signs = np.full(where.size, -1), np.ones(where.size)
    stack = [search.first()]
    while stack:
        here = stack[-1]
        images[here.j] = -1
        option = next(here.options, None)
        if option is None or search.work > _MOST_WORK:
            stack.pop()
            continue
        images[here.j], signs[here.j] = option
        if len(stack) == where.size:
            yield images.copy(), signs.copy()
            continue
        left = search.agreeing(here.rest, here.j, *option)
        if np.bincount(left.which, minlength=where.size)[images < 0].all():
            stack.append(search.next(left, images))


class _Level(NamedTuple):
    """One level of the search: the coordinate `j`, its options in turn, and those of the others.

    Before the first coordinate has an image, the others may have any of their kind: then `rest` is None.
    """

    j: int
    options: Iterator[tuple[int, float]]
    rest: _Options | None


class _Search:
    """The matrices, and how many of their entries have been compared."""

    def __init__(self, block: Float, where: Indices, kind: Indices, tolerance: float) -> None:
        self.block, self.where, self.kind = block, where, kind
        self.work = 0
        #: The sum of squared differences up to which entries agree.
        self.most = tolerance**2 * float(np.mean(block**2)) * len(block)
        weights = np.random.default_rng(0).standard_normal(len(block))
        #: One random combination of the matrices, and how much two of its entries may differ.
        self.mixed = np.tensordot(weights, block, 1)
        self.mixed_size = float(np.linalg.norm(weights)) * math.sqrt(self.most)

    def first(self) -> _Level:
        """The level of the coordinate whose kind is the rarest; the sign of all is free, so that it has one sign."""
        counts = np.bincount(self.kind)[self.kind[self.where]]
        j = int(np.argmin(counts))
        return self._level(j, np.flatnonzero(self.kind == self.kind[self.where[j]]), None, None)

    def next(self, left: _Options, images: Indices) -> _Level:
        """The level of the coordinate with the fewest options."""
        counts = np.bincount(left.which, minlength=self.where.size)
        j = int(np.argmin(np.where(images < 0, counts, left.which.size + 1)))
        mine = left.only(left.which == j)
        return self._level(j, mine.image, mine.sign, left.only(left.which != j))

    def _level(self, j: int, images: Indices, signs: Float | None, rest: _Options | None) -> _Level:
        signs = np.ones(images.size) if signs is None else signs
        # Images that move the coordinate come first: the identity is no twin.
        order = np.argsort(images == self.where[j], kind="stable")
        return _Level(j, zip(images[order].tolist(), signs[order].tolist(), strict=True), rest)

    def agreeing(self, left: _Options | None, j: int, image: int, sign: float) -> _Options:
        """The options whose entries with coordinate j are those of this image of it."""
        left = self._of_size(j, image) if left is None else left.only(left.image != image)
        squares = np.zeros(left.which.size)
        for first in range(0, len(self.block), _AT_ONCE):
            some = self.block[first : first + _AT_ONCE]
            wanted = some[:, self.where[j], self.where[left.which]]
            there = some[:, image, left.image] * (sign * left.sign)
            self.work += there.size
            squares += np.sum((wanted - there) ** 2, axis=0)
            agree = squares <= self.most
            left, squares = left.only(agree), squares[agree]
        return left

    def _of_size(self, j: int, image: int) -> _Options:
        """All options of the others, of both signs, whose mixed entry with the image has the size of theirs with j.

        Sorting finds them: to compare all with all would take too long.
        """
        row = np.abs(self.mixed[image])
        order = np.argsort(row)
        wanted = np.abs(self.mixed[self.where[j], self.where])
        sizes = row[order]
        low = np.searchsorted(sizes, wanted - self.mixed_size, side="left")
        high = np.searchsorted(sizes, wanted + self.mixed_size, side="right")
        low[j] = high[j] = 0
        self.work += int(np.sum(high - low)) + row.size
        which = np.repeat(np.arange(self.where.size), high - low)
        found = order[np.arange(which.size) - np.repeat(np.cumsum(high - low) - high, high - low)]
        kept = (self.kind[found] == self.kind[self.where[which]]) & (found != image)
        which, found = which[kept], found[kept]
        # Where entries have one size but for rounding, that must not choose which image is tried first.
        by_name = np.lexsort((found, which))
        which, found = which[by_name], found[by_name]
        # Try both signs of each: where entries are zero, others decide between them.
        return _Options(np.tile(which, 2), np.tile(found, 2), np.repeat([1.0, -1.0], which.size))
