"""From a promising support to the answer: extension over all coordinates.

The rows of a support have the products `W = Σ_t z_t Ã_t·` at every coordinate, and so the gain of each. But rows are
what costs: n pairs each. Those of the few largest members have most of W, which is enough to name a few coordinates
that are likely; the pairs of these with the other members, a handful, then give their gains exactly. So rows are read
in the order of |z_t|, until they have half of |z|²; and more only while none of the likely coordinates is good enough.

A coordinate is added while its statistic `gain (m−s)/(RSS−gain)` exceeds what the best of n useless ones would reach,
about 2 ln n; one that is added by mistake costs nothing while |S| < m, it ends at zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.measurements.contractions import Block
from fastquad.numerics import quartic
from fastquad.numerics.levenberg_marquardt import Rule, on_block
from fastquad.solvers.pursuit.pairs import PairStore, Single
from fastquad.typing import Asks, Float, Indices

_STEP = Rule(max_steps=25)
_POLISH = Rule(max_steps=50)
# The share of |z|² that has its rows before coordinates are named, and before they are given up; how many are named.
_SOME, _MOST, _NAMED = 0.5, 0.8, 8
# From this relative residual on, the rounding of the stored pairs to single precision shows.
_SINGLE = 1e-5


class Support(NamedTuple):
    """Indices in the order of screening, their values, and the residual's square."""

    places: Indices
    z: Float
    rss: float


def refit(y: Float, block: Float, places: Indices, z: Float, rule: Rule = _STEP, *, turning: bool = False) -> Support:
    """Levenberg–Marquardt on a support whose block is in memory."""
    descent = on_block(y, z, block, rule, turning=turning)
    return Support(places, descent.z, descent.square)


class Extension:
    """Extension of supports over all n coordinates."""

    def __init__(self, store: PairStore, y: Float, diagonals: Float, width: int = 1) -> None:
        self.store, self.y, self.width = store, y, width
        self.square = float(y @ y)
        # What the stored pairs are to fit: centred where they are.
        self.target = y - y.mean() if store.centre else y
        if store.centre:
            diagonals = diagonals - diagonals.mean(axis=0)
        # Laid out as the stored pairs, and at their scale.
        self.diagonals: Single = np.zeros((diagonals.shape[1], store.length), dtype=np.float32)
        self.diagonals[:, : store.m] = diagonals[:, store.order].T / store.scale

    def __call__(self, support: Support, max_rows: int) -> Asks[Support]:
        """Add the coordinates that the residual asks for.

        At most max_rows rows are read that were not read before, and one more for each coordinate beyond doubt.
        """
        m, n = self.store.m, len(self.store.order)
        # A support of more than m/2 would fit anything; and its rows must fit in memory.
        limit = min(n, max(2, m // 2), self.store.max_rows)
        threshold = 1.1 * 2 * np.log(max(n // self.width, 2))
        if support.places.size > limit:
            return support
        last = self.store.rows_read + max_rows
        misses, share = 0, _SOME
        support = yield from self._refit(support.places, support.z)
        while support.places.size < limit and support.rss > EXACT_RESIDUAL**2 * self.square:
            yield from self._read_strongest(support, share, last - self.store.rows_read)
            best, gain, value = yield from self._best(support)
            statistic, unit = gain * (m - support.places.size), max(support.rss - gain, 0.0)
            if statistic < threshold * unit:
                if share < _MOST and self._unread(support, _MOST) and self.store.rows_read < last:
                    share = _MOST
                    continue
                misses += 1
                if misses > 1:
                    break
            last += self.width * (statistic > 2 * threshold * unit)
            added = best + np.arange(self.width)
            support = yield from self._refit(np.append(support.places, added), np.append(support.z, value))
        return support

    def affordable(self, support: Support, max_rows: int) -> bool:
        """Whether a support can be extended with at most `max_rows` further rows."""
        return len(self._unread(support, _SOME)) <= max_rows

    def _unread(self, support: Support, share: float) -> list[int]:
        """The largest members, up to this share of |z|², whose rows have not been read."""
        squares = (support.z**2).reshape(-1, self.width).sum(axis=1)
        descending = np.argsort(-squares, kind="stable")
        before = np.cumsum(squares[descending]) - squares[descending]
        wanted = descending[before < share * float(squares.sum())]
        return self.store.missing(support.places.reshape(-1, self.width)[wanted].reshape(-1))

    def _read_strongest(self, support: Support, share: float, max_rows: int) -> Asks[None]:
        """Read rows of the largest members."""
        yield from self.store.read_rows(self._unread(support, share)[: max(0, max_rows)], keep=support.places)

    def _best(self, support: Support) -> Asks[tuple[int, float, Float]]:
        """The coordinate with the largest gain, its gain, and its value; of a pair the first, and both values."""
        store, z = self.store, support.z
        precise = support.rss < _SINGLE**2 * self.square
        block = (yield Block(store.order[support.places])) if precise else store.block(support.places)
        r = (self.y if precise else self.target) - (block @ z) @ z
        if store.centre:
            r = r - r.mean()
        u, change = self._changes(r, store.products(support.places, z), self.diagonals)
        change[support.places[:: self.width] // self.width] = 0.0
        named = np.argsort(change, kind="stable")[:_NAMED]
        if store.missing(support.places):
            places = (self.width * named[:, None] + np.arange(self.width)).reshape(-1)
            yield from store.read_pairs(support.places, places)
            W = np.einsum("t,tjl->jl", z, store.between(support.places, places))
            u, change = self._changes(r, W.astype(np.float32), self.diagonals[places])
        else:
            u, change = u[named], change[named]
        best = int(np.argmin(change))
        return self.width * int(named[best]), -float(change[best]), np.atleast_1d(u[best])

    def _changes(self, r: Float, W: Single, diagonals: Single) -> tuple[Float, Float]:
        """The best value at each of some places, with products W there, and how it changes the RSS; or at pairs."""
        if self.width > 1:
            return self._pair_changes(r, W)
        scale, size = self.store.scale, float(np.linalg.norm(r)) or 1.0
        unit = self.store.padded(r / size)
        rW, ra = scale * size * (W @ unit), scale * size * (diagonals @ unit)
        WW, Wa, aa = (scale**2 * np.einsum("jl,jl->j", *pair) for pair in ((W, W), (W, diagonals), (diagonals,) * 2))
        return quartic.minimise(-4 * rW, 4 * WW - 2 * ra, 4 * Wa, aa)

    def _pair_changes(self, r: Float, W: Single) -> tuple[Float, Float]:
        """The best values at pairs of places to first order, (pairs, 2), and how they change the RSS."""
        scale, size = self.store.scale, float(np.linalg.norm(r)) or 1.0
        c = scale * size * (W @ self.store.padded(r / size)).reshape(-1, 2).astype(np.float64)
        pairs = W.reshape(-1, 2, W.shape[1])
        G = scale**2 * np.einsum("jal,jbl->jab", pairs, pairs).astype(np.float64)
        # Where Re and Im are alike, or next to nothing, they count together as one.
        G[:, [0, 1], [0, 1]] += 1e-6 * np.einsum("jaa->j", G)[:, None] + 1e-300
        # r is y less what is explained: to first order the model grows by 2 W u.
        u = 0.5 * np.linalg.solve(G, c[:, :, None])[:, :, 0]
        return u, -2 * np.einsum("ja,ja->j", c, u)

    def _refit(self, places: Indices, z: Float) -> Asks[Support]:
        """Fit in the precision of the stored pairs, and in double precision where that is reached."""
        yield from self.store.read_pairs(places, places)
        support = refit(self.target, self.store.block(places), places, z, turning=self.width > 1)
        if support.rss < _SINGLE**2 * self.square:
            support = yield from self.polish(support)
        return support

    def polish(self, support: Support) -> Asks[Support]:
        """The fit in double precision, to A as it is."""
        block = yield Block(self.store.order[support.places])
        return refit(self.y, block, support.places, support.z, _POLISH, turning=self.width > 1)
