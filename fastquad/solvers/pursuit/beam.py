"""Search broadly for supports on a block: thousands of supports of the same size at once.

If measurements are few, a true pair of coordinates explains little of y, and no seed has it among its first choices.
But it is among the best few thousand of all pairs, and so is the true support of the next size among all that grow from
these: what chance can explain depends on m and only on the logarithm of the number of supports to choose from. So the
best few thousand supports of each size are kept, and each is extended by its best few coordinates. Nothing is read for
it. The search ends at the first support whose residual vanishes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.requests import Work
from fastquad.solvers.pursuit.growth import Grown, Growth
from fastquad.system import threads
from fastquad.typing import Asks, Float, Indices

# The work for each size of support, which sets how many are kept; a smaller block gets less in proportion.
_WORK = 2.5e8
# The least number of supports that are kept.
_LEAST = 512
# The largest number of supports that are kept.
_MOST = 16384
# The size from which on fewer supports are kept: true ones stand out then.
_UNDIMINISHED = 4
# The number of coordinates that are tried with a seed.
_PARTNERS = 64
# The number of coordinates that are tried with a larger support.
_CHOICES = 24
# The number of supports that are fitted for each one that is kept.
_FITTED = 2
# The number of supports in one request: the budget is checked between requests.
_ROUND = 2048
# The share of |y|² below which a support is an answer.
_SOLVED = 1e-6


def beam(growth: Growth, limit: int) -> Asks[list[Grown]]:
    """The supports of at most `limit` members whose residual vanishes, of the smallest size that has any."""
    store, n = growth.store, len(growth.store.order)
    width = int(np.clip(_WORK * store.p / (n**2 * store.length), _LEAST, _MOST))
    square = float(growth.y @ growth.y)
    places = np.arange(0, store.p, growth.width)[:, None]
    z, rss = _seeds(growth)
    z, rss = np.ascontiguousarray(z[:: growth.width]), rss[:: growth.width]
    entries = store.p // growth.width
    for size in range(2, min(limit, entries) + 1):
        choices = min(_PARTNERS if size == 2 else _CHOICES, entries - size + 1)
        best, gains = yield from _in_rounds(growth.best_gains, places, z, choices)
        parents, added = _distinct(places, best, rss[:, None] - gains, _FITTED * width)
        members = added[:, None] + np.arange(growth.width)
        places = np.concatenate([places[parents], members], axis=1)
        z, rss = yield from _in_rounds(growth.extend, places, np.concatenate([z[parents], members], axis=1))
        if size > _UNDIMINISHED:
            width = max(_LEAST, width // 2)
        kept = np.argsort(rss, kind="stable")[:width]
        places, z, rss = places[kept], z[kept], rss[kept]
        if rss[0] < _SOLVED * square:
            solved = np.flatnonzero(rss < _SOLVED * square)[:3]
            return [growth.run(places[i], z[i], rss[i]) for i in solved]
    return []


def _seeds(growth: Growth) -> tuple[Float, Float]:
    """The best value of each coordinate alone, at least a small one, and the RSS with it."""
    y = growth.y.astype(np.float64)
    a = growth.store.diagonals().astype(np.float64)
    aa, ay = np.einsum("jl,jl->j", a, a), a @ y
    least = 0.02 * np.linalg.norm(y) * np.sqrt(aa)
    square = np.maximum(ay, least) / np.where(aa > 0, aa, 1.0)
    return np.sqrt(square)[:, None], float(y @ y) - 2 * square * ay + square**2 * aa


def _distinct(places: Indices, added: Indices, left: Float, count: int) -> tuple[Indices, Indices]:
    """The `count` distinct supports of least RSS: the index of the one that was extended, and the new coordinate."""
    size = places.shape[1] + 1
    # Look at `size` times as many: a support can come from each of its parts.
    order = np.argsort(left, axis=None, kind="stable")[: size * count]
    parents, last = order // left.shape[1], added.reshape(-1)[order]
    sets = np.sort(np.concatenate([places[parents], last[:, None]], axis=1), axis=1)
    _, first = np.unique(sets, axis=0, return_index=True)
    first = np.sort(first)[:count]
    return parents[first], last[first]


def _in_rounds(work: Any, places: Indices, z: Float, *arguments: Any) -> Asks[tuple[NDArray[Any], ...]]:
    """Run `work` on the supports, a round of them at a time."""
    parts = []
    for start, stop in threads.chunks(len(places), _ROUND):
        parts.append((yield Work(work, (places[start:stop], z[start:stop], *arguments))))
    return tuple(np.concatenate(side) for side in zip(*parts, strict=True))
