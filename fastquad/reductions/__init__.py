"""Problems that `solve` takes by saying them as another: linear terms, another basis, complex signals, odd rows.

A reduction is an object with two verbs: `problem` says what the user gave as the problem that the solvers know, and
`solution` says the answer as the user's. `TABLE` lists them in the order in which they apply, each with a look that
costs nothing where it does not apply: its module is imported where it does.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.noise import as_noise
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import singular_values_exceed
from fastquad.numerics.symmetry import fixed_direction
from fastquad.solution import Solution
from fastquad.system.memory import budget
from fastquad.typing import Float, Indices

#: The largest rank that is low, as a share of n and at most: from there on factors are no cheaper than matrices.
MOST_TERMS, TERMS = 16, 1 / 4
# The number of rows and columns of the entries at which most rows differ.
_CORNER = 3
#: Two rows are equal if their entries, or their products with a random vector, differ by less, relative to their size.
EQUAL = 1e-12
# Squares below are rounded to few digits, or to zero.
_LEAST_SQUARE = 1e-290


@dataclass(frozen=True)
class Given:
    """The arguments of `solve`: those of the user, or what a reduction made of them."""

    A: Any
    y: Any
    prior: Any = None
    method: Any = "auto"
    signal: str | None = None
    x0: Any = None
    norm: Any = None
    noise: Any = None
    outliers: bool = False
    tol: float = 1e-8
    max_iter: int | None = None
    max_passes: float | None = None
    max_time: float | None = None
    callback: Callable[[Any], object] | None = None
    x_true: Any = None
    memory: int | str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    n_threads: int | None = None
    rng: Any = None
    verbose: int = 0

    @property
    def automatic(self) -> bool:
        """Whether the default method was asked for."""
        return isinstance(self.method, str) and self.method == "auto"

    @property
    def room(self) -> int:
        """The memory budget in bytes."""
        return self.A.memory or budget(self.memory)

    def data(self) -> Float:
        """y as one row per signal, checked."""
        return arguments.data(self.y, self.A.m)[0]

    def with_data(self, A: Any, Y: Float, **changes: Any) -> Given:
        """The same with other measurements, and data with one row per signal."""
        return replace(self, A=A, y=Y if np.ndim(self.y) > 1 else Y[0], **changes)

    def with_callback(self, seen: Callable[[Any], Any]) -> Given:
        """The same with a callback that sees the state as `seen` makes it; what is no function is refused by solve."""
        callback = self.callback
        if callback is None or not callable(callback):
            return self
        return replace(self, callback=lambda state: callback(seen(state)))

    def with_noise(self, change: Callable[[Any], Any], m: int | None = None) -> Given:
        """The same with the noise of m measurements changed, if it is given."""
        if self.noise is None:
            return self
        return replace(self, noise=change(as_noise(self.noise, self.A.m if m is None else m)))


class Reduction(ABC):
    """A problem said as another one; an object serves one call of `solve`."""

    @abstractmethod
    def problem(self, given: Given) -> Given | None:
        """What is solved; None where it is what was given."""

    @abstractmethod
    def solution(self, found: Solution, i: int) -> Solution:
        """The answer for the i-th signal, as of what was given."""


class Row(NamedTuple):
    """A reduction, "module:class" in this package, and when it may apply."""

    place: str
    when: Callable[[Given], bool]


def reduced(given: Given) -> tuple[Given, list[Reduction]]:
    """The problem that the solvers know, and the reductions that made it, in their order."""
    chain: list[Reduction] = []
    for row in TABLE:
        if not row.when(given):
            continue
        module, name = row.place.split(":")
        reduction: Reduction = getattr(import_module(f"fastquad.reductions.{module}"), name)()
        posed = reduction.problem(given)
        if posed is not None:
            given = posed
            chain.append(reduction)
    return given, chain


# -- looks ----------------------------------------------------------------------------------------------------------


def _is_complex(given: Given) -> bool:
    """Whether the signal may be complex, or must be said to be real."""
    return given.signal is not None or given.A.complex or holds_complex(given.y)


def holds_complex(value: Any) -> bool:
    """Whether this is an array of complex numbers; what is no array is refused further on."""
    try:
        return np.iscomplexobj(np.asarray(arguments.on_host(value, "y")))
    except ValueError:
        return False


def _may_hide(given: Given) -> bool:
    """Whether an array may hide matrices of low rank, or with few nonzeros."""
    A, passes = given.A, given.max_passes
    enough = not isinstance(passes, (int, float)) or passes > 1
    plain = given.automatic and A.numbers != "" and A.m > 1 and A.n > 1 and not holds_complex(given.y)
    return plain and enough and not _dense_corner(A)


def _dense_corner(A: Measurements) -> bool:
    """Whether a corner of the first matrix is of full rank, and so larger than any low one: most matrices end here."""
    first = A._first(1)
    if first is A or A.numbers != "memory":
        return False
    size = most_terms(A.n) + 1
    corner = first._block(np.arange(size), np.arange(A.n - size, A.n), 1)[0]
    if np.count_nonzero(corner) < corner.size:
        return False
    corner = corner / np.abs(corner).max()  # the squares of its entries may be no numbers
    # Of real numbers a Cholesky factor shows it in a tenth of the time, but for the worst of corners.
    return (not A.complex and singular_values_exceed(gram(corner), 0.0)) or int(np.linalg.matrix_rank(corner)) == size


def most_terms(n: int) -> int:
    """The largest rank that is low."""
    return max(1, min(MOST_TERMS, int(TERMS * n)))


def _odd_rows(given: Given) -> bool:
    """Whether rows may be in units of their own, or equal."""
    A = given.A
    if not given.automatic or given.outliers or not A.has_rows:
        return False
    return as_noise(given.noise, A.m).each_level is not None or _some_equal(corners(A))


def corners(A: Measurements) -> Float:
    """A few entries of each row, (m, entries), which tell most rows apart."""
    some = min(_CORNER, A.n)
    return A._block(np.arange(some), np.arange(A.n - some, A.n), 1).reshape(A.m, -1)


def _some_equal(vectors: Float) -> bool:
    """Whether two vectors are equal; a projection tells most apart."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    if float(squares.min()) > _LEAST_SQUARE and math.isfinite(float(squares.max())):
        shown = np.sort((vectors @ fixed_direction(vectors.shape[1])) / np.sqrt(squares))
        if float((shown[1:] - shown[:-1]).min(initial=math.inf)) > EQUAL * vectors.shape[1]:
            return False
    return bool(next_to_another(vectors)[0].any())


def next_to_another(vectors: Float) -> tuple[Any, Indices]:
    """Whether each vector but the last is that of the next one, in an order in which equal ones follow each other."""
    # By the largest entry first: the squares of entries may be no numbers.
    size = np.abs(vectors).max(axis=1)
    unit = vectors / np.where(size > 0, size, 1.0)[:, None]
    unit /= np.maximum(np.linalg.norm(unit, axis=1), 1.0)[:, None]
    order = np.argsort(unit @ np.random.default_rng(1).standard_normal(unit.shape[1]), kind="stable")
    # Zeros measure nothing: they are equal, too.
    return np.abs(np.diff(unit[order], axis=0)).max(axis=1) <= EQUAL, order


TABLE = (
    Row("affine:Affine", lambda given: hasattr(type(given.A), "lifted")),
    Row("bilinear:Bilinear", lambda given: hasattr(type(given.A), "balanced")),
    Row("basis:Basis", lambda given: getattr(given.prior, "basis", None) is not None),
    Row("hidden:Hidden", _may_hide),
    Row("complex:Complex", _is_complex),
    Row("rows:Rows", _odd_rows),
)
