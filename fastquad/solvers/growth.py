"""Growth of supports from many seeds at once, on the block of A that screening has left.

A run starts from one coordinate and adds, one at a time, the coordinate j with the largest gain `<r, W_j>²/|W_j|²`,
exact and with the values of the members following for the first three, with Levenberg–Marquardt after each. Runs are
independent small dense algebra: they are compiled (kernels/growth.h), and spread over threads.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad import parallel
from fastquad._kernels import growth as kernel
from fastquad.measurements.base import Float
from fastquad.solvers.pairs import PairStore, Places
from fastquad.solvers.requests import Work

# Seeds of one call to the kernel, and of one round: between rounds the budget is looked at.
_CHUNK, _ROUND = 8, 64
# Nothing is left to fit at this share of |y|².
_VANISHED = 1e-8
#: The size at which a run must be among the best to go on.
CHECKPOINT = 12


class Run(NamedTuple):
    """One grown support: its places in the order of screening, their values, and the RSS at each size."""

    places: Places
    z: Float
    curve: Float


class Growth:
    """Runs on the packed block of a store."""

    def __init__(self, store: PairStore, y: Float) -> None:
        self.store = store
        # At scale one, of y and of A, nothing overflows single precision: the kernels find x/unit.
        self.y_scale = float(np.sqrt(np.mean(y**2)))
        self.unit = float(np.sqrt(self.y_scale / store.scale))
        self.y = store.padded(y / self.y_scale)

    def grow(
        self, seeds: Places, skips: tuple[int, int], limit: int, cut: float
    ) -> tuple[Places, Float, Float, NDArray[np.intp]]:
        """One run from each seed; those with an RSS above `cut` at the checkpoint are given up.

        Places, values and curves, (seeds, limit) each, and how many of each row count.
        """
        store, limit = self.store, min(limit, kernel.MAX_SUPPORT)
        plan = np.array([*skips, limit, CHECKPOINT], dtype=np.int32)
        places, sizes = np.zeros((seeds.size, limit), dtype=np.intp), np.zeros(seeds.size, dtype=np.intp)
        z, curves = np.zeros((seeds.size, limit)), np.full((seeds.size, limit), np.nan)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.grow(
                store.pairs, self.y, store.p, seeds[part], plan, cut / self.y_scale**2, self._scratch(),
                places[part], z[part], curves[part], sizes[part],
            )  # fmt: skip

        parallel.run(work, parallel.chunks(seeds.size, _CHUNK), parallel.resolve(None))
        z *= self.unit
        curves *= self.y_scale**2
        return places, z, curves, sizes

    def round(
        self, seeds: tuple[int, int], skips: tuple[int, int], limit: int, before: list[float]
    ) -> Generator[Any, Any, list[Run]]:
        """Runs from the seeds of a round.

        Past `CHECKPOINT` members go only the runs among the best 30% of those before, whose RSS there `before` has.
        """
        cut = float(np.quantile(before, 0.3)) if len(before) >= _ROUND else np.inf
        places, z, curves, sizes = yield Work(self.grow, (np.arange(*seeds), skips, limit, cut))
        runs = [Run(places[i, :s], z[i, :s], curves[i, :s]) for i, s in enumerate(sizes)]
        before += [run.curve[CHECKPOINT - 1] for run in runs if run.curve.size >= CHECKPOINT]
        return runs

    def best_gains(self, places: Places, z: Float, count: int) -> tuple[Places, Float]:
        """For each support (supports, s), the `count` coordinates with the largest gains, and these, all in x/unit."""
        best, gains = np.zeros((len(places), count), dtype=np.intp), np.zeros((len(places), count), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.best_gains(
                self.store.pairs, self.y, self.store.p, self._scratch(), places[part], z[part], best[part], gains[part]
            )

        parallel.run(work, parallel.chunks(len(places), _CHUNK), parallel.resolve(None))
        return best, gains.astype(np.float64)

    def extend(self, places: Places, z: Float) -> tuple[Float, Float]:
        """Add the last of its places to the others of each support, and fit: values and RSS, all in x/unit."""
        z, rss, goal = z.copy(), np.zeros(len(places)), _VANISHED * float(self.y @ self.y)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            kernel.extend(
                self.store.pairs, self.y, self.store.p, goal, self._scratch(), places[part], z[part], rss[part]
            )

        parallel.run(work, parallel.chunks(len(places), _CHUNK), parallel.resolve(None))
        return z, rss

    def run(self, places: Places, z: Float, rss: float) -> Run:
        """A support in x/unit as a run that has ended."""
        return Run(places, z * self.unit, np.array([rss * self.y_scale**2]))

    def prune(self, run: Run) -> Run:
        """Drop the member that costs least while the RSS grows by less than 1 + 2 ln(p)/(m−s) times."""
        store, places, z = self.store, run.places.copy(), run.z / self.unit
        allowance = 2 * float(np.log(store.p))
        size, rss = kernel.prune(store.pairs, self.y, store.p, store.m, allowance, self._scratch(), places, z)
        return Run(places[:size], z[:size] * self.unit, np.array([rss * self.y_scale**2]))

    def _scratch(self) -> NDArray[np.float32]:
        return np.empty(kernel.work_size(self.store.length), dtype=np.float32)


def rounds(n_seeds: int, skips: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(first and last seed, skips) of each round."""
    return [(seeds, pair) for pair in skips for seeds in parallel.chunks(n_seeds, _ROUND)]


def ranked(runs: list[Run]) -> list[Run]:
    """The runs, first those whose RSS falls furthest below the median of all at some size."""
    longest = max((run.curve.size for run in runs), default=0)
    if longest == 0:
        return []
    logs = np.full((len(runs), longest), np.nan)
    for i, run in enumerate(runs):
        logs[i, : run.curve.size] = np.log(np.maximum(run.curve, 1e-300))
    gaps = np.nanmax(np.nanmedian(logs, axis=0) - logs, axis=1)
    return [runs[i] for i in np.lexsort(([run.curve[-1] for run in runs], -gaps))]
