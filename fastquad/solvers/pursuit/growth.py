"""Grow supports from many seeds at once, on the block of A that screening has left.

A run starts from one coordinate and adds, one at a time, the coordinate j with the largest gain, `<r, W_j>²/|W_j|²`;
for the first three additions the gain is exact, with the values of the other members adjusted. Levenberg–Marquardt
follows each addition. For x >= 0 a coordinate is added with a value u >= 0 only, and those that the descent takes to
zero stay there until the gradient pushes them up again. Runs are independent small dense algebra: they are compiled
(kernels/growth.h), and spread over threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import growth as kernel
from fastquad.engine.requests import Work
from fastquad.solvers.pursuit.pairs import PairStore
from fastquad.system import threads
from fastquad.typing import Asks, Float, Indices

# The number of seeds in one call of the kernel.
_CHUNK = 8
# The number of seeds in one round: the budget is checked between rounds.
_ROUND = 64
# The share of |y|² at which nothing is left to fit.
_VANISHED = 1e-8
#: The size at which a run must be among the best to go on.
MILESTONE = 12


class Grown(NamedTuple):
    """One grown support: its places in the order of screening, their values, and the RSS at each size."""

    places: Indices
    z: Float
    curve: Float


class Growth:
    """Runs on the packed block of a store; with `nonnegative` no value goes below zero."""

    def __init__(self, store: PairStore, y: Float, width: int = 1, *, nonnegative: bool = False) -> None:
        self.store, self.nonnegative = store, nonnegative
        #: The number of places that are added together: 2 for Re and Im of a complex entry.
        self.width = width
        # Scale y and A to one, so that nothing overflows single precision: the kernels find x/unit.
        self.y_scale = float(np.sqrt(np.mean(y**2)))
        self.unit = float(np.sqrt(self.y_scale / store.scale))
        self.y = store.padded(y / self.y_scale)

    def grow(
        self, seeds: Indices, skips: tuple[int, int], limit: int, cut: float, n_threads: int
    ) -> tuple[Indices, Float, Float, Indices]:
        """Grow one run from each seed; those with an RSS above `cut` at the milestone are given up.

        Returns indices, values and curves, (seeds, limit) each, and the size of each run.
        """
        limit = min(limit, kernel.MAX_SUPPORT)
        plan = kernel.Plan(
            skip_first=skips[0], skip_second=skips[1], limit=limit, milestone=MILESTONE, cut=cut / self.y_scale**2
        )
        places, sizes = np.zeros((seeds.size, limit), dtype=np.intp), np.zeros(seeds.size, dtype=np.intp)
        z, curves = np.zeros((seeds.size, limit)), np.full((seeds.size, limit), np.nan)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.grow(
                self._block(), plan, seeds[part], self._scratch(), places[part], z[part], curves[part], sizes[part]
            )

        threads.run(work, threads.chunks(seeds.size, _CHUNK), n_threads)
        z *= self.unit
        curves *= self.y_scale**2
        return places, z, curves, sizes

    def round(
        self, seeds: tuple[int, int], skips: tuple[int, int], limit: int, before: list[float]
    ) -> Asks[list[Grown]]:
        """Runs from the seeds of a round.

        Only runs among the best 30% so far grow past `MILESTONE` members; `before` collects the RSS of all runs there.
        """
        cut = float(np.quantile(before, 0.3)) if len(before) >= _ROUND else np.inf
        # Each addition looks at p coordinates, and takes a few steps on up to `limit` members.
        count, store = (seeds[1] - seeds[0]) * limit, self.store
        arithmetic = 0.75 * count * store.m * (store.p + limit**2)
        work = (self.width * np.arange(*seeds), skips, limit, cut)
        places, z, curves, sizes = yield Work(self.grow, work, arithmetic)
        runs = [Grown(places[i, :s], z[i, :s], curves[i, :s]) for i, s in enumerate(sizes)]
        # A run of pairs starts from a single place, the first of its pair.
        size = self.width * MILESTONE - (self.width - 1)
        before += [run.curve[size - 1] for run in runs if run.curve.size >= size]
        return runs

    def best_gains(self, places: Indices, z: Float, count: int, n_threads: int) -> tuple[Indices, Float]:
        """The `count` coordinates with the largest gains for each support (supports, s), and the gains, in x/unit."""
        best, gains = np.zeros((len(places), count), dtype=np.intp), np.zeros((len(places), count), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.best_gains(self._block(), self._scratch(), places[part], z[part], best[part], gains[part])

        threads.run(work, threads.chunks(len(places), _CHUNK), n_threads)
        return best, gains.astype(np.float64)

    def extend(self, places: Indices, z: Float, n_threads: int) -> tuple[Float, Float]:
        """Add the last place of each support to the others, and fit; returns values and RSS, in x/unit."""
        z, rss, goal = z.copy(), np.zeros(len(places)), _VANISHED * float(self.y @ self.y)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.extend(self._block(), goal, self._scratch(), places[part], z[part], rss[part])

        threads.run(work, threads.chunks(len(places), _CHUNK), n_threads)
        return z, rss

    def run(self, places: Indices, z: Float, rss: float) -> Grown:
        """A support in x/unit as a run that has ended."""
        return Grown(places, z * self.unit, np.array([rss * self.y_scale**2]))

    def prune(self, run: Grown) -> Grown:
        """Drop the member that costs least while the RSS grows by less than 1 + 2 ln(p)/(m−s) times."""
        store, places, z = self.store, run.places.copy(), run.z / self.unit
        allowance = 2 * float(np.log(store.p))
        size, rss = kernel.prune(self._block(), store.m, allowance, self._scratch(), places, z)
        places, z = self._whole(places[:size], z[:size] * self.unit)
        return Grown(places, z, np.array([rss * self.y_scale**2]))

    def _whole(self, places: Indices, z: Float) -> tuple[Indices, Float]:
        """The places completed to whole pairs, with their values."""
        if self.width == 1:
            return places, z
        first = list(dict.fromkeys((places // 2).tolist()))
        whole = np.array([2 * a + part for a in first for part in (0, 1)], dtype=np.intp)
        values = dict(zip(places.tolist(), z, strict=True))
        return whole, np.array([values.get(int(a), 0.0) for a in whole])

    def _block(self) -> kernel.Block:
        return kernel.Block(self.store.pairs, self.y, self.store.p, self.width, self.nonnegative)

    def _scratch(self) -> NDArray[np.float32]:
        return np.empty(self._block().work_size, dtype=np.float32)


def rounds(n_seeds: int, skips: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(first and last seed, skips) of each round."""
    return [(seeds, pair) for pair in skips for seeds in threads.chunks(n_seeds, _ROUND)]


def ranked(runs: list[Grown]) -> list[Grown]:
    """The runs sorted by how far their RSS falls below the median of all at some size, the furthest first."""
    longest = max((run.curve.size for run in runs), default=0)
    if longest == 0:
        return []
    logs = np.full((len(runs), longest), np.nan)
    for i, run in enumerate(runs):
        logs[i, : run.curve.size] = np.log(np.maximum(run.curve, 1e-300))
    gaps = np.nanmax(np.nanmedian(logs, axis=0) - logs, axis=1)
    return [runs[i] for i in np.lexsort(([run.curve[-1] for run in runs], -gaps))]
