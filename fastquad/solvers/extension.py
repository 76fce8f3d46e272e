"""From a promising support to the answer: backward pruning, and extension over all coordinates.

Extension needs the rows of the support: `W = Σ_t z_t Ã_t·` then holds the products at every coordinate, so the gain
of each is known exactly. A coordinate is added while its statistic `gain (m−s)/(RSS−gain)` exceeds what the best of n
useless ones would reach, about 2 ln n; one that is added by mistake costs nothing while |S| < m, it ends at zero.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers import quartic
from fastquad.solvers.driver import EXACT_RESIDUAL, Block
from fastquad.solvers.lm import Rule, on_block
from fastquad.solvers.pairs import PairStore, Places, Single

_STEP = Rule(max_steps=25)
_POLISH = Rule(max_steps=50)
# From this relative residual on, the rounding of the stored pairs to single precision shows.
_SINGLE = 1e-5


class Support(NamedTuple):
    """Places in the order of screening, their values, and the residual's square."""

    places: Places
    z: Float
    rss: float


def refit(y: Float, block: Float, places: Places, z: Float, rule: Rule = _STEP) -> Support:
    """Levenberg–Marquardt on a support whose block is in memory."""
    descent = on_block(y, z, block, rule)
    return Support(places, descent.z, descent.square)


class Extension:
    """Extension of supports over all n coordinates."""

    def __init__(self, store: PairStore, y: Float, diagonals: Float) -> None:
        self.store, self.y = store, y
        self.square = float(y @ y)
        # What the stored pairs are to fit: centred where they are.
        self.target = y - y.mean() if store.centre else y
        if store.centre:
            diagonals = diagonals - diagonals.mean(axis=0)
        # Laid out as the stored pairs, and at their scale.
        self.diagonals: Single = np.zeros((diagonals.shape[1], store.length), dtype=np.float32)
        self.diagonals[:, : store.m] = diagonals[:, store.order].T / store.scale
        self.diagonal_squares = np.einsum("jl,jl->j", self.diagonals, self.diagonals)

    def __call__(self, support: Support, max_rows: int) -> Generator[Any, Any, Support]:
        """Add the coordinates that the residual asks for.

        At most max_rows rows are read that were not read before, but for those of coordinates beyond doubt.
        """
        store, m, n = self.store, self.store.m, len(self.store.order)
        # A support of more than m/2 would fit anything; and its rows must fit in memory.
        limit = min(n, max(2, m // 2), store.max_rows)
        threshold = 1.1 * 2 * np.log(max(n, 2))
        known = store.rows_read
        misses = 0
        if support.places.size > limit or len(store.missing(support.places)) > max_rows:
            return support
        yield from store.read_rows(support.places)
        support = yield from self._refit(support.places, support.z)
        while support.places.size < limit and support.rss > EXACT_RESIDUAL**2 * self.square:
            best, gain, value = yield from self._best(support)
            statistic, unit = gain * (m - support.places.size), max(support.rss - gain, 0.0)
            if statistic < threshold * unit:
                misses += 1
                if misses > 1:
                    break
            # Where there is no doubt, the row is worth reading.
            if len(store.missing([best])) + store.rows_read - known > max_rows and statistic < 2 * threshold * unit:
                break
            yield from store.read_rows([best])
            support = yield from self._refit(np.append(support.places, best), np.append(support.z, value))
        return support

    def _best(self, support: Support) -> Generator[Any, Any, tuple[int, float, float]]:
        """The coordinate with the largest gain, its gain, and its value."""
        store, scale = self.store, self.store.scale
        precise = support.rss < _SINGLE**2 * self.square
        block = (yield Block(store.order[support.places])) if precise else store.block(support.places)
        r = (self.y if precise else self.target) - (block @ support.z) @ support.z
        if store.centre:
            r = r - r.mean()
        size = float(np.linalg.norm(r)) or 1.0
        W, unit = store.products(support.places, support.z), store.padded(r / size)
        rW, ra = scale * size * (W @ unit), scale * size * (self.diagonals @ unit)
        WW = scale**2 * np.einsum("jl,jl->j", W, W)
        Wa = scale**2 * np.einsum("jl,jl->j", W, self.diagonals)
        u, change = quartic.minimise(-4 * rW, 4 * WW - 2 * ra, 4 * Wa, scale**2 * self.diagonal_squares)
        change[support.places] = 0.0
        best = int(np.argmin(change))
        return best, -float(change[best]), float(u[best])

    def _refit(self, places: Places, z: Float) -> Generator[Any, Any, Support]:
        """Fit in the precision of the stored pairs, and in double precision where that is reached."""
        support = refit(self.target, self.store.block(places), places, z)
        if support.rss < _SINGLE**2 * self.square:
            support = yield from self.polish(support)
        return support

    def polish(self, support: Support) -> Generator[Any, Any, Support]:
        """The fit in double precision, to A as it is."""
        block = yield Block(self.store.order[support.places])
        return refit(self.y, block, support.places, support.z, _POLISH)
