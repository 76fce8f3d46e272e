"""What no measurement sees of x: its sign, or of a complex x its phase, and perhaps a conjugation.

A complex x is held as Re and Im in turn. Because x and e^{iθ} x have the same measurements, the direction ix is never
seen. A row along it beside the rows of W pins it; then everything else must be seen, as for a real x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.numerics.grouping import Groups
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.solution import distance
from fastquad.typing import Float, Indices, Number


class Gauge:
    """The directions that no measurement sees, and the distance of signals up to what it cannot tell."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        #: How many real numbers an entry of x is, and how many directions are not seen.
        self.width, self.count = 1 + problem.turning, int(problem.turning)
        #: What is zero together: the entries of a complex x, or the user's groups of them.
        self.groups = (problem.groups or Groups.pairs(problem.n // 2)) if problem.turning else None

    def directions(self, z: Float) -> Float:
        """The unit vectors at z that no measurement sees, (d, s)."""
        return turned(z)[None] if self.count else np.zeros((0, z.size))

    def pinned(self, columns: Float, z: Float, size: float | None = None) -> Float:
        """Columns (m, s), with a row for each unseen direction, of their root mean square or of this size."""
        if not self.count:
            return columns
        size = float(np.linalg.norm(columns)) / max(1, z.size) ** 0.5 if size is None else size
        return np.concatenate([columns, size * self.directions(z)])

    def padded(self, columns: Float) -> Float:
        """Columns that no direction of the gauge has a part of, beside those of `pinned`."""
        if not self.count:
            return columns
        return np.concatenate([columns, np.zeros((self.count, *columns.shape[1:]))])

    def whole(self, places: Indices) -> Indices:
        """These places with all that is zero together with them."""
        return places if self.groups is None else self.groups.whole(places)

    def norms(self, values: Float, places: Indices) -> Float:
        """The norm of what each of the values at these places belongs to."""
        if self.groups is None:
            return np.abs(values)
        of = self.groups.of[places]
        return np.sqrt(np.bincount(of, weights=values**2, minlength=self.groups.count)[of])

    def count_of(self, places: Indices) -> tuple[int, int]:
        """How many entries, or groups of them, there are, and how many of them are these places."""
        if self.groups is None:
            return self.problem.n, places.size
        return self.groups.count, self.groups.touched(places).size

    def numbers(self, x: Float) -> Number:
        """x as it is: complex numbers, where it holds Re and Im in turn."""
        return np.ascontiguousarray(x).view(np.complex128) if self.count else x

    def coordinates(self, z: Number) -> Float:
        """The coordinates of a signal that is given as it is."""
        return np.ascontiguousarray(z, dtype=np.complex128 if self.count else np.float64).view(np.float64)

    def images(self, z: Number) -> list[Number]:
        """z, and where conjugation may be a symmetry of A the conjugate."""
        return [z, z.conj()] if self.problem.gauge == "phase" else [z]

    def likenesses(self, x: Float) -> Iterator[tuple[str, Float]]:
        """The signals that are often confused with x, and a sentence on each: first x conjugated, if it may be."""
        z = self.numbers(x)
        moved = (("", z), (" reversed", z[::-1]), (" moved by one", np.roll(z, 1)), (" moved by one", np.roll(z, -1)))
        for name, each in moved:
            if name:
                yield f"x{name} fits as well.", self.coordinates(each)
            for image in self.images(each)[1:]:
                yield f"x{name}{' and' if name else ''} conjugated fits as well.", self.coordinates(image)

    def away(self, z: Float, x: Float) -> float:
        """How far a signal is from x, relative to x; known values tell the sign."""
        if self.problem.fixed and not self.count:
            x_free = np.delete(x, self.problem.known)
            return float(np.linalg.norm(self.problem.completed(z) - x)) / (float(np.linalg.norm(x_free)) or 1.0)
        return far(z, x, self.problem)

    def names(self, places: Indices) -> str:
        """These places, as entries of x by number, in words."""
        return names(np.unique(places // self.width) if self.count else places)


def far(z: Float, x: Float, problem: Problem) -> float:
    """The relative distance of two signals, up to a sign or a phase."""
    if problem.turning:
        both = (np.ascontiguousarray(part).view(np.complex128) for part in (z, x))
        return float(distance(*both, conjugation=problem.gauge != "phase"))
    return apart(z, x)


def apart(a: Float, b: Float) -> float:
    """The relative distance of two real signals, up to sign."""
    near, size = float(min(np.linalg.norm(a - b), np.linalg.norm(a + b))), float(np.linalg.norm(b))
    return near / size if size else math.inf if near else 0.0


def expand(values: Float, support: Indices, n: int) -> Float:
    x = np.zeros(n)
    x[support] = values
    return x


def squares(columns: Float) -> Float:
    """`‖c‖²` of each column c."""
    return np.einsum("ij,ij->j", columns, columns)


def names(coordinates: Indices) -> str:
    """These coordinates, by number, in words."""
    if coordinates.size == 0:
        return "no single coordinate"
    if coordinates.size == 1:
        return f"coordinate {coordinates[0]}"
    first = coordinates[: tol.FEW].tolist()
    if coordinates.size > 2 and coordinates[-1] - coordinates[0] == coordinates.size - 1:
        return f"coordinates {coordinates[0]} to {coordinates[-1]}"
    if coordinates.size > tol.FEW:
        return f"coordinates {', '.join(map(str, first))} and {coordinates.size - tol.FEW} more"
    return f"coordinates {', '.join(map(str, first[:-1]))} and {first[-1]}"
