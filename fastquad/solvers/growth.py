"""Growth of supports from many seeds at once, on the block of A that screening has left.

A run starts from one coordinate and adds, one at a time, the coordinate j with the largest gain `<r, W_j>²/|W_j|²`,
with Levenberg–Marquardt after each. Runs are independent small dense algebra: they are compiled, work on a packed
copy of the block in single precision (all measurements of one pair side by side), and are spread over threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad import parallel
from fastquad._kernels import growth as kernel
from fastquad.measurements.base import Float
from fastquad.solvers.driver import Block

# Seeds of one call to the kernel, and of one round: between rounds the budget is looked at.
_CHUNK, _ROUND = 8, 64
# How much of A is asked for at once.
_READ_ENTRIES = 8 << 20
#: The size at which a run must be among the best to go on.
CHECKPOINT = 12


class Run(NamedTuple):
    """One grown support: its members (places in the order of screening), their values, and the RSS at each size."""

    members: NDArray[np.intp]
    values: Float
    curve: Float


@dataclass
class PackedBlock:
    """`Ã_i[a, b]` of the first p coordinates of `order`, a >= b, pair by pair; grows without reading a pair twice."""

    y: Float
    order: NDArray[np.intp]
    scale: float
    p: int = 0

    def __post_init__(self) -> None:
        length = -(-self.y.size // kernel.LANES) * kernel.LANES
        self.padded_y = np.zeros(length, dtype=np.float32)
        self.pairs = np.zeros((0, length), dtype=np.float32)
        # At scale one, of y and of A, nothing overflows single precision: growth works on x / sqrt(unit/scale).
        self.unit = float(np.sqrt(np.mean(self.y**2)))
        self.padded_y[: self.y.size] = self.y / self.unit

    def read(self, p: int) -> Generator[Any, Any, None]:
        """Take the block up to the first p coordinates."""
        if p <= self.p:
            return
        m, length = self.y.size, self.padded_y.size
        pairs = np.zeros((p * (p + 1) // 2, length), dtype=np.float32)
        pairs[: self.pairs.shape[0]] = self.pairs
        step = max(1, _READ_ENTRIES // (m * p))
        for start in range(self.p, p, step):
            stop = min(p, start + step)
            fresh = yield Block(self.order[start:stop], self.order[:stop])
            for a in range(start, stop):
                pairs[a * (a + 1) // 2 : (a + 1) * (a + 2) // 2, :m] = fresh[:, a - start, : a + 1].T / self.scale
        self.pairs, self.p = pairs, p

    def gather(self, places: NDArray[np.intp]) -> Float:
        """`Ã_i[S, S]`, (m, s, s), of some of the coordinates, in the precision of the packed block."""
        a, b = np.maximum.outer(places, places), np.minimum.outer(places, places)
        pairs = self.pairs[a * (a + 1) // 2 + b, : self.y.size] * np.float64(self.scale)
        return np.ascontiguousarray(pairs.transpose(2, 0, 1))

    def grow(self, seeds: NDArray[np.intp], skips: tuple[int, int], limit: int, cut: float) -> list[Run]:
        """One run from each seed (see `kernels/growth.pyx`)."""
        limit = min(limit, kernel.MAX_SUPPORT)
        count = seeds.size
        plan = np.array([*skips, limit, CHECKPOINT], dtype=np.int32)
        members, sizes = np.zeros((count, limit), dtype=np.intp), np.zeros(count, dtype=np.intp)
        values, curves = np.zeros((count, limit)), np.full((count, limit), np.nan)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            scratch = np.empty(kernel.work_size(self.padded_y.size), dtype=np.float32)
            kernel.grow(
                self.pairs, self.padded_y, self.p, seeds[part], plan, cut / self.unit**2, scratch,
                members[part], values[part], curves[part], sizes[part],
            )  # fmt: skip

        parallel.run(work, parallel.chunks(count, _CHUNK), parallel.resolve(None))
        curves *= self.unit**2
        values *= np.sqrt(self.unit / self.scale)
        return [Run(members[i, :s], values[i, :s], curves[i, :s]) for i, s in enumerate(sizes)]


def rounds(block: PackedBlock, n_seeds: int, skips: list[tuple[int, int]], limit: int) -> Iterator[list[Run]]:
    """Runs from the first seeds with each of the skips, a round at a time.

    Past `CHECKPOINT` members go only the runs among the best 30% of those before.
    """
    at_checkpoint: list[float] = []
    for pair in skips:
        for start in range(0, n_seeds, _ROUND):
            cut = float(np.quantile(at_checkpoint, 0.3)) if len(at_checkpoint) >= _ROUND else np.inf
            seeds = np.arange(start, min(n_seeds, start + _ROUND))
            runs = block.grow(seeds, pair, limit, cut)
            at_checkpoint += [run.curve[CHECKPOINT - 1] for run in runs if run.curve.size >= CHECKPOINT]
            yield runs
