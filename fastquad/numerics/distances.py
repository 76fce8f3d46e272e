"""Sets of points that have given distances, by exhaustive search: on a line and on a circle.

Equal distances are one class, with how often it is given; kernels/points.h explains the two searches and keeps them. A
search that has seen everything proves: all sets of points with these distances are among its solutions, up to the
mirror image, and on a circle up to a rotation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastquad._kernels import points as kernel
from fastquad.typing import Float, Indices

#: Distances that differ by at most this share of the largest are equal: CONTRACT of `fastquad.points`.
EQUAL = 1e-9
#: Of whole numbers, however large, those are equal that differ by less than this.
EQUAL_INTEGERS = 0.25
#: How many solutions a search lists before it ends; a guess.
MANY = 1000
# How far a distance between two points may be from its class, in tolerances: each of the points is at a distance that
# is rounded, and so is its class.
_REACH = 3.0
# Seconds between two looks at the clock, at most about that; a guess.
_TURN = 0.02
# The largest number of candidates for points on a circle of which all pairs are counted at each step; a guess.
_FEW = 400.0
# How many arcs are looked at for the first two points on a circle; a guess.
_FIRST = 16


@dataclass
class Found:
    """What a search found: its solutions, in standard form, and whether it saw everything."""

    solutions: list[Float] = field(default_factory=list)
    #: "all", or what ended it before: "time", "nodes", "many".
    end: str = "all"
    #: How often a point was tried.
    nodes: int = 0
    #: Where most points were placed.
    best: Float = field(default_factory=lambda: np.zeros(1))
    #: Whether some distances are so near to each other that which one a pair has was a choice.
    doubt: bool = False

    @property
    def complete(self) -> bool:
        """Whether every set of points with these distances is among the solutions."""
        return self.end == "all" and not self.doubt


@dataclass(frozen=True)
class Limits:
    """When a search ends before it has seen everything."""

    max_time: float | None = None
    max_nodes: int | None = None
    many: int = MANY


def whole(distances: Float) -> bool:
    """Whether all are whole numbers."""
    return bool((distances == np.rint(distances)).all())


def tolerance(distances: Float, largest: float) -> float:
    """Up to which difference two of these distances are equal."""
    tol = EQUAL * largest
    return min(tol, EQUAL_INTEGERS / (2 * _REACH)) if whole(distances) else tol


@dataclass
class Search:
    """A search that goes on where it stopped, and what it has found."""

    found: Found
    _kernel: Any = None
    #: A solution in standard form, or None if its distances are within reach of the given ones, but not equal.
    _standard: Callable[[Float], Float | None] = np.asarray
    _reach: float = 0.0

    def go_on(self, limits: Limits) -> Found:
        """Search until everything is seen, or to the first limit; each solution is kept once."""
        found, start, turn = self.found, time.perf_counter(), 256
        if self._kernel is None:
            return found
        while True:
            if limits.max_nodes is not None:
                turn = min(turn, max(limits.max_nodes - found.nodes, 1))
            before = time.perf_counter()
            end = self._kernel.run(turn)
            now = time.perf_counter()
            found.nodes = self._kernel.nodes
            if end == kernel.FOUND:
                self._add(self._kernel.found)
            if end == kernel.SEEN_ALL:
                found.end = "all"
            elif len(found.solutions) >= limits.many:
                found.end = "many"
            elif limits.max_time is not None and now - start >= limits.max_time:
                found.end = "time"
            elif limits.max_nodes is not None and found.nodes >= limits.max_nodes:
                found.end = "nodes"
            else:
                if end == kernel.PAUSED:
                    turn = int(min(max(turn * _TURN / max(now - before, 1e-6), 1), 4 * turn))
                continue
            found.doubt |= self._kernel.doubt
            found.best = np.sort(self._kernel.best)
            return found

    def _add(self, x: Float) -> None:
        """Keep a solution that is new."""
        solution = self._standard(x)
        if solution is None:
            self.found.doubt = True  # a tighter look might find another
        elif not any(np.abs(solution - other).max() <= 4 * self._reach for other in self.found.solutions):
            self.found.solutions.append(solution)


def on_line(distances: Float, n: int) -> Search:
    """The search for all sets of n points on a line with these distances, n(n − 1)/2 in ascending order."""
    reach = _REACH * tolerance(distances, float(distances[-1]))
    if n == 2 or distances[-1] == 0:
        return _trivial(np.linspace(0.0, distances[-1], n))
    value, count, doubt = _classes(distances, reach / _REACH)
    line = kernel.Line(value, count, *_buckets(value, reach), reach, n)

    def standard(x: Float) -> Float | None:
        x = line_form(np.sort(x))
        if not whole(distances):
            x = line_form(line_fit(x, distances))
        return x if np.abs(line_distances(x)[0] - distances).max() <= 2 * reach else None

    return Search(Found(doubt=doubt), line, standard, reach)


def on_circle(arcs: Float, n: int, length: float) -> Search:
    """The search for all sets of n points on a circle with these shorter arcs, n(n − 1)/2 in ascending order."""
    reach = _REACH * tolerance(np.append(arcs, length), length)
    if n == 2 or arcs[-1] <= reach:
        return _trivial(np.linspace(0.0, arcs[-1], n))
    value, count, doubt = _classes(arcs, reach / _REACH)
    start, place = _first_two(value, count, length, reach)
    if place.size < (n - 2 if value[0] > reach else 1):
        return Search(Found(best=np.array([0.0, start])))
    mirror = _index(place, np.mod(start - place, length), length)
    circle = kernel.Circle(value, count, *_buckets(value, reach), reach, n, length, start, place, mirror, _FEW)

    def standard(x: Float) -> Float | None:
        x = circle_form(np.mod(x, length), length)
        return x if np.abs(circle_arcs(x, length)[0] - arcs).max() <= 2 * reach else None

    return Search(Found(doubt=doubt), circle, standard, reach)


def _trivial(x: Float) -> Search:
    """A search that is over: two points, or all in one place."""
    return Search(Found([x], best=x))


# -- classes ------------------------------------------------------------------------------------------------------


def _classes(distances: Float, tol: float) -> tuple[Float, Any, bool]:
    """The different values, ascending, how often each is given, and whether some are hard to tell from each other."""
    first = np.flatnonzero(np.diff(distances, prepend=-np.inf) > tol)
    count = np.diff(np.append(first, distances.size))
    value = np.add.reduceat(distances, first) / count
    spread = distances[np.append(first[1:], distances.size) - 1] - distances[first]
    return value, count.astype(np.intc), bool((spread > 2 * tol).any())


def _buckets(value: Float, reach: float) -> tuple[Any, float]:
    """The first class in each bucket of the range, and how many buckets there are per unit of length."""
    count = 1 << int(np.ceil(np.log2(2 * value.size)))
    scale = count / (float(value[-1]) + 2 * reach)
    return np.searchsorted((value * scale).astype(np.intp), np.arange(count + 1)).astype(np.intc), scale


# -- the line -----------------------------------------------------------------------------------------------------


def line_distances(x: Float) -> tuple[Float, Indices, Indices]:
    """The distances of points in ascending order, and the pairs i < j that have them."""
    i, j = np.triu_indices(x.size, 1)
    d = x[j] - x[i]
    order = np.argsort(d, kind="stable")
    return d[order], i[order], j[order]


def line_fit(x: Float, distances: Float) -> Float:
    """The positions of least squares for n(n − 1)/2 ascending distances, each for the pair of its rank at x.

    With a distance for each pair the normal equations are diagonal: `x_j = mean_i ±d_ij` up to a shift.
    """
    _, i, j = line_distances(x)
    fitted = (np.bincount(j, distances, x.size) - np.bincount(i, distances, x.size)) / x.size
    return np.sort(fitted) - fitted.min()


def line_form(x: Float) -> Float:
    """Ascending points from 0; of the mirror images the one with the smaller second gap, then first, then third …"""
    x = x - x[0]
    gaps = np.diff(x)
    first = [1, 0, *range(2, gaps.size)][: gaps.size] if gaps.size > 1 else [0]
    differ = np.abs(gaps - gaps[::-1])[first] > 4 * EQUAL * float(x[-1])
    at = first[int(differ.argmax())]
    return (x[-1] - x)[::-1].copy() if gaps[at] > gaps[::-1][at] + 4 * EQUAL * float(x[-1]) else x


# -- the circle ---------------------------------------------------------------------------------------------------


def circle_arcs(x: Float, length: float) -> tuple[Float, Indices, Indices]:
    """The shorter arcs between points in ascending order, and the pairs i < j that have them."""
    i, j = np.triu_indices(x.size, 1)
    d = np.abs(x[j] - x[i])
    d = np.minimum(d, length - d)
    order = np.argsort(d, kind="stable")
    return d[order], i[order], j[order]


def circle_form(x: Float, length: float) -> Float:
    """Ascending points from 0 with the smallest gap first, of the mirror images the one with the smaller second gap."""
    x = np.sort(x)
    gaps = np.diff(np.append(x, x[0] + length))
    least: tuple[float, ...] | None = None
    best = gaps
    unit = 4 * EQUAL * length
    smallest = gaps.min()
    for way in (gaps, gaps[::-1]):
        for first in np.flatnonzero(way <= smallest + unit):
            turned = np.roll(way, -int(first))
            key = tuple(np.rint(turned / unit))
            if least is None or key < least:
                least, best = key, turned
    return np.concatenate([[0.0], np.cumsum(best[:-1])])


def _first_two(value: Float, count: Any, length: float, reach: float) -> tuple[float, Float]:
    """The arc of the first two points with the fewest candidates for the others, and these, ascending."""
    both = np.unique(np.concatenate([value, np.mod(length - value, length)]))
    both = both[np.append(True, np.diff(both) > reach)]
    least = np.flatnonzero((count == count[value > reach].min()) & (value > reach))
    best: tuple[float, Float] | None = None
    for c in least[:: max(1, least.size // _FIRST)]:
        start = float(value[c])
        other = np.mod(both - start, length)
        near = both[_index(both, other, length)]
        apart = np.abs(near - other)
        place = both[np.minimum(apart, length - apart) <= reach]
        if best is None or place.size < best[1].size:
            best = start, place
    assert best is not None
    return best[0], np.ascontiguousarray(best[1])


def _index(place: Float, target: Float, length: float) -> Any:
    """The place nearest to each target, around a circle."""
    after = np.searchsorted(place, target)
    either = np.stack([(after - 1) % place.size, after % place.size])
    apart = np.abs(place[either] - target)
    chosen = np.argmin(np.minimum(apart, length - apart), axis=0)
    return np.take_along_axis(either, chosen[None], 0)[0].astype(np.intc)
