"""An answer prepared for the certificate: its products, its support and its tolerances, cleaned of rounding.

Coordinates with known values, such as the one that carries the linear terms of an affine tensor, belong to x but not to
the unknowns S.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.evidence import evidence_of, rounding_floor
from fastquad.engine.trust.gauge import Gauge
from fastquad.measurements.contractions import Block, Products
from fastquad.measurements.dense.kept import Kept, among
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import Gram, least_squares, standard_errors
from fastquad.typing import Asks, Float, Indices


class Known(NamedTuple):
    """What a method has read at its end, so that it need not be read again.

    `W` (m, n) are the products of x and `r` its residuals, `other` (m, n) the products of another vector. If W is not
    known everywhere, `columns` (m, s) are those of the coordinates `support`, outside of which x is zero. `kept` is
    `Ã_i[P, P]` of some coordinates, and `block` (m, n, n) all of A.
    """

    W: Float | None = None
    r: Float | None = None
    other: Float | None = None
    support: Indices | None = None
    columns: Float | None = None
    kept: Kept | None = None
    block: Float | None = None

    def on(self, places: Indices, chosen: Indices | None = None) -> Float | None:
        """`Ã_i[P, P]` for these places P, or only those of its rows that are chosen; None if it has not been read."""
        if self.block is not None:
            rows = places if chosen is None else places[chosen]
            if places.size == self.block.shape[1] and (places[1:] > places[:-1]).all():
                return self.block if chosen is None else self.block[:, rows]
            return np.ascontiguousarray(self.block[:, rows[:, None], places])
        if self.kept is None or not self.kept.has(places):
            return None
        return self.kept.block(places, chosen)

    def products_of(self, z: Float, places: Indices) -> Float | None:
        """The products of z at these places, on them, (m, p); None if their matrices have not been read."""
        if self.block is not None:
            x = np.zeros(len(self.block[0]))
            x[places] = z
            return np.asarray((self.block @ x)[:, places])
        if self.kept is None or not self.kept.has(places):
            return None
        return self.kept.products(self.kept.positions(places), z, 1)

    def products(self, x: Float, nonzero: Indices, m: int) -> Float | None:
        """The products of x at the places that are not zero, (m, n), zero elsewhere; None if they are not known."""
        W = np.zeros((m, x.size))
        if self.columns is not None and self.support is not None and among(nonzero, self.support):
            W[:, self.support] = self.columns
            return W
        products = self.products_of(x[nonzero], nonzero)
        if products is None:
            return None
        W[:, nonzero] = products
        return W


class Answer:
    """x, its products W (m, n) and residuals r, and the unknowns S that are not zero.

    Unless it is `whole`, W has been read on the support of x alone, and is zero elsewhere.
    """

    def __init__(
        self, problem: Problem, x: Float, W: Float, r: Float, known: Known | None = None, whole: bool = True
    ) -> None:
        self.problem, self.known, self.whole = problem, known or Known(), whole
        self.gauge = Gauge(problem)
        given = problem.support
        allowed = np.arange(problem.n) if given is None else given
        #: The unknowns: coordinates that may be nonzero, and whose values are not known.
        self.allowed = np.setdiff1d(allowed, problem.known) if problem.fixed else allowed
        self._take(x, W, r)

    @staticmethod
    def read(problem: Problem, x: Float, known: Known | None) -> Asks[Answer]:
        """Read the answer x, using what is known of it."""
        known = known or Known()
        nonzero = Gauge(problem).whole(np.flatnonzero(x))
        W = known.W if known.W is not None else known.products(x, nonzero, problem.m)
        if W is None:
            W = yield Products(x)
            return Answer(problem, x, W, W @ x - problem.y, known)
        # Take r as it is known: the last step of a descent is too short to change W, but not to change r.
        r = known.r if known.r is not None else W @ x - problem.y
        return Answer(problem, x, W, r, known, whole=known.W is not None)

    def complete(self) -> Asks[None]:
        """Read W on all coordinates."""
        if not self.whole:
            W = yield Products(self.x)
            self._take(self.x, W, W @ self.x - self.problem.y)
            self.whole = True

    def look_at(self, others: Indices) -> Asks[None]:
        """Read W on a few more coordinates."""
        if not self.whole:
            step = max(1, (tol.BLOCK_BYTES // 16) // (8 * self.problem.m * self.places.size))
            for start in range(0, others.size, step):
                some = others[start : start + step]
                self.W[:, some] = (yield Block(self.places, some)).transpose(0, 2, 1) @ self.x[self.places]

    def _take(self, x: Float, W: Float, r: Float, gram: Gram | None = None) -> None:
        """Set the answer to this x, with its products and residuals."""
        self.x, self.W, self.r = x, W, r
        self.__dict__.pop("evidence", None)
        self.__dict__.pop("pinned", None)
        #: `‖r‖/‖y‖`
        self.residual = math.sqrt(float(r @ r)) / math.sqrt(float(self.problem.y @ self.problem.y))
        nonzero = x != 0
        if self.gauge.count:
            nonzero[self.gauge.whole(np.flatnonzero(x))] = True
        self.S, self.outside = self.allowed[nonzero[self.allowed]], self.allowed[~nonzero[self.allowed]]
        self.z = x[self.S]
        #: W on the support, (m, s).
        self.columns = W if self.S.size == self.problem.n else np.take(W, self.S, axis=1)
        #: The coordinates that are not zero, including those with known values.
        self.places = np.flatnonzero(x) if self.problem.fixed else self.S
        self._gram = gram
        self._block: Float | None = None

    @property
    def s(self) -> int:
        """The number of unknowns that are not zero."""
        return int(self.S.size)

    @property
    def unknowns(self) -> int:
        """The number of them less the directions that no measurement sees."""
        return self.s - self.gauge.count

    @cached_property
    def pinned(self) -> Float:
        """W on the support, with a row for each direction that no measurement sees."""
        return self.gauge.pinned(self.columns, self.z)

    @property
    def gram(self) -> Gram:
        """The Gram matrix of W on the support, with those directions pinned."""
        if self._gram is None:
            self._gram = gram_of(self.pinned)
        return self._gram

    @cached_property
    def evidence(self) -> float:
        """How likely the data are if x is right, as a logarithm: see `fastquad.engine.trust.evidence`."""
        return evidence_of(self.problem, self.x, self.W, self.r, self.S)

    @property
    def left(self) -> bool:
        """Whether the best values on the support leave more than rounding."""
        r = self.r - self.columns @ least_squares(self.columns, self.r, self.gram)
        return float(r @ r) > rounding_floor(self.columns, self.z, self.problem.y)

    def settled(self, sigma: float) -> bool:
        """Whether x is at the bottom of its valley: a step to it changes the measurements by less than their noise."""
        step = self.columns @ least_squares(self.columns, self.r, self.gram)
        return float(np.linalg.norm(step)) < tol.PART * sigma * math.sqrt(max(1, self.s))

    @property
    def rounded(self) -> bool:
        """Whether A has single precision."""
        return self.problem.dtype.itemsize < 8

    def rounding(self, diagonals: Float) -> Float:
        """The tolerance of each equation without noise: its residual, and at least its rounding."""
        # Sum the absolute values: where terms cancel, rounding is larger than the products show.
        scale = np.abs(self.columns) @ np.abs(self.z) + np.abs(self.problem.y)
        squares = np.zeros_like(self.x)
        squares[self.S] = self.z**2
        scale += np.abs(diagonals) @ squares
        # Give tiny equations a minimal scale: they have hardly any rounding of their own.
        scale = np.maximum(scale, tol.ROUNDING * float(scale.max()))
        # What is left is a share of each equation, or as much of all of them: rows that x does not touch have no share.
        share, spare = self.r / scale, max(1, self.problem.m - self.unknowns)
        left = np.minimum(math.sqrt(float(share @ share) / spare) * scale, math.sqrt(float(self.r @ self.r) / spare))
        delta = np.maximum(np.abs(self.r), np.maximum(left, 8 * tol.EPS * scale))
        return np.maximum(delta, max(1e-25 * float(delta.max()), 1e-300))

    # -- the clean support -----------------------------------------------------------------------------------

    def clean(self) -> Asks[None]:
        """Drop the coordinates that differ from zero only by rounding."""
        for attempt in range(7):
            if attempt > 0 and self.unknowns > self.problem.m:
                return
            # Drop first what is obviously rounding, which needs no standard errors.
            order = self._tiny() if attempt == 0 else self._rounding()
            width = self.gauge.width
            count = min(order.size, self.s - width)
            while count > 0 and not (yield from self._without(order[:count])):
                count = 0 if attempt == 0 else count // 2 // width * width
            if count == 0 and attempt > 0:
                return

    def _tiny(self) -> Indices:
        """The positions in S of coordinates as small as rounding."""
        size = self.gauge.norms(self.z, self.S)
        return np.flatnonzero(size < tol.TINY * float(size.max(initial=0.0)))

    def _rounding(self) -> Indices:
        """The positions in S of coordinates that may be rounding, the likeliest first."""
        m, s, y = self.problem.m, self.unknowns, self.problem.y
        level = max(
            float(np.linalg.norm(self.r)) / math.sqrt(max(1, m - s)), tol.EPS * float(np.linalg.norm(y)) / math.sqrt(m)
        )
        size = self.gauge.norms(self.z, self.S)
        # Bound all standard errors by that of the direction that is seen least.
        near = np.flatnonzero(2 * self.gram.least * size < tol.CLEARLY * level)
        if near.size == 0:
            return near
        errors = level / 2 * self.gauge.norms(standard_errors(self.pinned, self.gram, near), self.S[near])
        ratio = size[near] / np.maximum(errors, 1e-300)
        near, ratio = near[ratio < tol.CLEARLY], ratio[ratio < tol.CLEARLY]
        return near[np.argsort(ratio, kind="stable")]

    def _without(self, dropped: Indices) -> Asks[bool]:
        """Try to fit without these positions of S; returns whether that was possible."""
        m, y = self.problem.m, self.problem.y
        kept = np.ones(self.s, dtype=bool)
        kept[dropped] = False
        keep = np.flatnonzero(kept)
        gram = self._part(keep)
        x = self.x.copy()
        x[self.S[dropped]] = 0.0
        floor = 2 * tol.EPS * float(np.linalg.norm(y))
        spare = m - self.unknowns
        share = math.sqrt((spare + dropped.size) / spare) if spare > 0 else math.inf
        limit = 2 * max(float(np.linalg.norm(self.r)) * min(share, math.sqrt(m)), floor)
        W, r, whole = self.W, self.r - 2 * self.columns @ np.where(kept, 0.0, self.z), self.whole
        S, norm = self.S[keep], float(np.linalg.norm(self.x))
        if float(np.linalg.norm(x - self.x)) > 1e-9 * norm:
            W, whole = yield from self._read(x)
            r = W @ x - y
        for _ in range(4):
            columns = W[:, S]
            step = -0.5 * least_squares(columns, r, gram)
            x = x.copy()
            x[S] += step
            if float(np.linalg.norm(step)) <= 1e-9 * norm:
                r = r + 2 * columns @ step  # what is left out is below rounding
                break
            W, whole = yield from self._read(x)
            r = W @ x - y
        if not float(np.linalg.norm(r)) <= limit:
            return False
        # Drop the Gram matrix if the products changed: an old one would hide near dependence.
        self._take(x, W, r, gram if W is self.W else None)
        self.whole = whole
        return True

    def _part(self, keep: Indices) -> Gram:
        """The Gram matrix of W on some positions of the support."""
        return gram_of(self.pinned[:, keep]) if self._gram is None else self._gram.part(keep)

    # -- parts of A --------------------------------------------------------------------------------------------

    def block(self) -> Asks[Float | None]:
        """`Ã_i[P, P]` for the places P of x, read unless it is too large."""
        size = self.places.size
        if self.held() is None and 8 * self.problem.m * size**2 <= min(tol.BLOCK_BYTES, self.problem.memory // 8):
            self._block = yield Block(self.places)
        return self._block

    def held(self) -> Float | None:
        """`Ã_i[P, P]` if it has been read, else None."""
        if self._block is None:
            self._block = self.known.on(self.places)
        return self._block

    def rows(self, chosen: Indices) -> Asks[Float]:
        """`Ã_i[C, P]`, (m, c, p), for some positions C in P."""
        rows = self.known.on(self.places, chosen) if self._block is None else self._block[:, chosen]
        return rows if rows is not None else (yield Block(self.places[chosen], self.places))

    def products(self, x: Float) -> Asks[Float]:
        """The products of another signal, (m, n); only at its places if they are those of this answer."""
        return (yield from self._read(x))[0]

    def _read(self, x: Float) -> Asks[tuple[Float, bool]]:
        """The same, and whether they are whole."""
        if not x[self.outside].any():
            z = x[self.places]
            part = self.known.products_of(z, self.places) if self._block is None else self._block @ z
            if part is not None:
                W = np.zeros_like(self.W)
                W[:, self.places] = part
                return W, False
        return (yield Products(x)), True


def gram_of(columns: Float) -> Gram:
    """The Gram matrix of columns; with fewer measurements than columns it proves nothing."""
    m, s = columns.shape
    return Gram(gram(columns)) if s <= m else Gram(np.zeros((s, s)))
