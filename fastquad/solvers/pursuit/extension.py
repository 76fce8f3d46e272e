"""Extend a promising support over all coordinates, to the answer.

The rows of a support give the products `W = Σ_t z_t Ã_t·` at every coordinate, and so the gain of each. But a row is
expensive: n pairs. The rows of the few largest members give most of W, which is enough to propose a few likely
coordinates; their exact gains then need only their pairs with the other members. So rows are read in the order of
|z_t|, until they cover half of |z|², and more only while none of the proposed coordinates is good enough.

A coordinate is added while its statistic `gain (m−s)/(RSS−gain)` exceeds what the best of n useless ones would reach,
about 2 ln n; all that are proposed and reach twice that, which is beyond doubt, are added at once, because every refit
reads the pairs of all members. One that is added by mistake does no harm while |S| < m: its value ends at zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastquad.engine.requests import Spent
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.measurements.contractions import Block
from fastquad.numerics import levenberg_marquardt, nonnegative, quartic
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.parts.descent import GrowingBlock
from fastquad.solvers.pursuit.members import Members
from fastquad.solvers.pursuit.pairs import PairStore, Single
from fastquad.typing import Asks, Float, Indices

_STEP = Rule(max_steps=25)
_POLISH = Rule(max_steps=50)
# The share of |z|² whose rows are read before coordinates are proposed.
_SOME = 0.5
# The share of |z|² whose rows are read before the search for coordinates is given up.
_MOST = 0.8
# The number of coordinates that are proposed.
_NAMED = 8
# What is counted as multiply-adds: a proposal reads as many arrays of (n, m) beside its rows, and a refit takes a few
# steps of m s² each; and the calls of NumPy for one or the other take as long as that many.
_LOOKED, _STEPS, _CALLS = 6, 8, 5e6
# The relative residual at which the rounding of pairs to single precision shows.
_SINGLE = 1e-5


class Support(NamedTuple):
    """Indices in the order of screening, their values, and the residual's square."""

    places: Indices
    z: Float
    rss: float


class Extension:
    """Extension of supports over all n coordinates; with `nonnegative` no value goes below zero."""

    def __init__(
        self,
        store: PairStore,
        y: Float,
        diagonals: Float,
        cache: GrowingBlock,
        width: int = 1,
        *,
        nonnegative: bool = False,
    ) -> None:
        self.store, self.y, self.cache, self.width, self.nonnegative = store, y, cache, width, nonnegative
        self.square = float(y @ y)
        # The data that the pairs are fitted to: centred if they are.
        self.target = y - y.mean() if store.centre else y
        if store.centre:
            diagonals = diagonals - diagonals.mean(axis=0)
        # The diagonals in the layout and at the scale of the pairs.
        self.diagonals: Single = np.zeros((diagonals.shape[1], store.length), dtype=np.float32)
        self.diagonals[:, : store.m] = diagonals[:, store.order].T / store.scale

    def __call__(self, support: Support, max_rows: int) -> Asks[Support]:
        """Add coordinates while they explain more of the residual than chance.

        At most max_rows new rows are read, and one more for each coordinate that is beyond doubt.
        """
        m, n = self.store.m, len(self.store.order)
        # Limit the size: more than m/2 coordinates would fit anything, and the rows must fit in memory.
        limit = min(n, max(2, m // 2), self.store.max_rows)
        threshold = 1.1 * 2 * np.log(max(n // self.width, 2))
        if support.places.size > limit:
            return support
        last = self.store.rows_read + max_rows
        misses, share, members = 0, _SOME, Members(self.store)
        support, r = yield from self._refit(members, support.places, support.z)
        while support.places.size < limit and support.rss > EXACT_RESIDUAL**2 * self.square:
            yield from self._read_strongest(support, share, last - self.store.rows_read)
            named, gains, values = yield from self._proposed(support, r)
            statistics, units = gains * (m - support.places.size), np.maximum(support.rss - gains, 0.0)
            if statistics[0] < threshold * units[0]:
                if share < _MOST and self._unread(support, _MOST) and self.store.rows_read < last:
                    share = _MOST
                    continue
                misses += 1
                if misses > 1:
                    break
            certain = int(np.sum(statistics > 2 * threshold * units))
            last += self.width * certain
            chosen = slice(min(max(1, certain), max(1, (limit - support.places.size) // self.width)))
            places = np.append(support.places, named[chosen, None] + np.arange(self.width))
            support, r = yield from self._refit(members, places, np.append(support.z, values[chosen]))
        return support

    def complete(self, support: Support) -> bool:
        """Whether a support was extended with the rows of nearly all of its weight: not for want of rows did it end."""
        return not self._unread(support, _MOST)

    def affordable(self, support: Support, max_rows: int) -> bool:
        """Whether a support can be extended with at most `max_rows` further rows."""
        return len(self._unread(support, _SOME)) <= max_rows

    def _unread(self, support: Support, share: float) -> list[int]:
        """The unread rows among those of the largest members, up to this share of |z|²."""
        squares = (support.z**2).reshape(-1, self.width).sum(axis=1)
        descending = np.argsort(-squares, kind="stable")
        before = np.cumsum(squares[descending]) - squares[descending]
        wanted = descending[before < share * float(squares.sum())]
        return self.store.missing(support.places.reshape(-1, self.width)[wanted].reshape(-1))

    def _read_strongest(self, support: Support, share: float, max_rows: int) -> Asks[None]:
        """Read rows of the largest members."""
        yield from self.store.read_rows(self._unread(support, share)[: max(0, max_rows)], keep=support.places)

    def _proposed(self, support: Support, r: Float) -> Asks[tuple[Indices, Float, Float]]:
        """A few coordinates (or the first of each pair) with the largest gains, these, and their value or values.

        The largest gain comes first. r is what the support leaves of y, (m,).
        """
        store = self.store
        yield Spent(_CALLS + store.m * len(store.order) * (_LOOKED + len(store.rows)))
        if store.centre:
            r = r - r.mean()
        W = store.products(support.places, support.z)
        u, change = self._changes(r, W, self.diagonals)
        change[support.places[:: self.width] // self.width] = 0.0
        named = np.argsort(change, kind="stable")[:_NAMED]
        missing = np.isin(support.places, store.missing(support.places))
        if missing.any():
            places = (self.width * named[:, None] + np.arange(self.width)).reshape(-1)
            yield from store.read_pairs(support.places, places)
            # Add what the members without rows contribute.
            rest = store.between(support.places[missing], places)
            W = W[places] + np.einsum("t,tjl->jl", support.z[missing], rest)
            u, change = self._changes(r, W.astype(np.float32), self.diagonals[places])
        else:
            u, change = u[named], change[named]
        order = np.argsort(change, kind="stable")
        return self.width * named[order], -change[order], u[order].reshape(order.size, -1)

    def _changes(self, r: Float, W: Single, diagonals: Single) -> tuple[Float, Float]:
        """The best value at each of some places (or pairs), given the products W there, and the change of the RSS."""
        if self.width > 1:
            return self._pair_changes(r, W)
        scale, size = self.store.scale, float(np.linalg.norm(r)) or 1.0
        unit = self.store.padded(r / size)
        rW, ra = scale * size * (W @ unit), scale * size * (diagonals @ unit)
        WW, Wa, aa = (scale**2 * np.einsum("jl,jl->j", *pair) for pair in ((W, W), (W, diagonals), (diagonals,) * 2))
        best_value = quartic.minimise_upwards if self.nonnegative else quartic.minimise
        return best_value(-4 * rW, 4 * WW - 2 * ra, 4 * Wa, aa)

    def _pair_changes(self, r: Float, W: Single) -> tuple[Float, Float]:
        """The best values at pairs of places to first order, (pairs, 2), and the change of the RSS."""
        scale, size = self.store.scale, float(np.linalg.norm(r)) or 1.0
        c = scale * size * (W @ self.store.padded(r / size)).reshape(-1, 2).astype(np.float64)
        pairs = W.reshape(-1, 2, W.shape[1])
        G = scale**2 * np.einsum("jal,jbl->jab", pairs, pairs).astype(np.float64)
        # Regularise: if the columns of Re and Im are nearly dependent, or tiny, they count as one.
        G[:, [0, 1], [0, 1]] += 1e-6 * np.einsum("jaa->j", G)[:, None] + 1e-300
        # To first order a step u changes r = y − A(zz^T) by −2 W u.
        u = 0.5 * np.linalg.solve(G, c[:, :, None])[:, :, 0]
        return u, -2 * np.einsum("ja,ja->j", c, u)

    def _refit(self, members: Members, places: Indices, z: Float) -> Asks[tuple[Support, Float]]:
        """Fit in the precision of the pairs, and in double precision once their rounding shows; what is left of y."""
        yield from self.store.read_pairs(places, places)
        members.grow(places)
        yield Spent(_CALLS + _STEPS * self.store.m * places.size**2)
        support, r = self._fitted(self.target, members.products, Support(places, z, np.inf), _STEP)
        if support.rss < _SINGLE**2 * self.square:
            return (yield from self._polished(support))
        return support, r

    def polish(self, support: Support) -> Asks[Support]:
        """Fit in double precision, to A itself."""
        return (yield from self._polished(support))[0]

    def _polished(self, support: Support) -> Asks[tuple[Support, Float]]:
        """The fit in double precision, and what is left of y."""
        places = self.store.order[support.places]
        if self.cache.affordable(places):
            products = (yield from self.cache.on(places)).of
        else:
            flat = (yield Block(places)).reshape(-1, places.size)
            products = lambda z: (flat @ z).reshape(-1, z.size)  # noqa: E731
        return self._fitted(self.y, products, support, _POLISH)

    def _fitted(
        self, y: Float, products: Callable[[Float], Float], support: Support, rule: Rule
    ) -> tuple[Support, Float]:
        """Levenberg–Marquardt on a support, whose products (m, s) are given as a function, and what is left of y."""
        if self.nonnegative:
            bounded = nonnegative.by_products(y, support.z, products)
            return Support(support.places, bounded.z, bounded.square), -bounded.r
        descent = levenberg_marquardt.by_products(y, support.z, products, rule, turning=self.width > 1)
        return Support(support.places, descent.z, descent.square), -descent.r
