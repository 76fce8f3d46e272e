"""The levels of pursuit's search, and the phases of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from fastquad.engine.problem import Problem

# The largest block of A, in entries.
_MAX_BLOCK_ENTRIES = 2.5e8
# The share of the memory that the block may take.
_BLOCK_SHARE = 1 / 8
# The bytes for an entry of the block, including the copy that is made while it grows.
_BYTES_OF_ENTRY = 2.8
# The number of measurements up to which the broad search is used: with more, seeds find true partners at once.
_FEW_MEASUREMENTS = 50
# The largest support that the broad search looks for.
_LARGEST = 8
# The smallest block for the broad search, in coordinates.
_BROAD = 100
# The share of the last block beyond which an earlier block is skipped in favour of the last one.
_SOON = 2 / 3
# The score for each measurement below which a support may be signal in noise, and is examined further.
PROMISING = 0.1


class Phase(NamedTuple):
    """Growth from every seed with each of these skips, or a broad search, up to `limit` members."""

    skips: list[tuple[int, int]]
    limit: int
    beam: bool = False


class Level(NamedTuple):
    """The number of coordinates in the block, and the phases that are tried on it."""

    p: int
    phases: list[Phase]


def levels(problem: Problem, max_skips: int = 4) -> Iterator[Level]:
    """The levels, from a few likely coordinates to the largest block that memory allows."""
    # A complex entry has two places, and is two parameters.
    m, n, width = problem.m, problem.entries, 1 + problem.turning
    cap = int(min(n, max(2, math.sqrt(max_entries(problem) / m) / width)))
    p = int(min(max(40, math.sqrt(2 * n)), cap))
    while True:
        if width == 1:
            short = int(min(max(12, m / 6), max(4, min(25, p - 1, m / 2))))
            long = int(min(0.6 * m, 60, p - 1))
        else:
            short = 2 * int(min(max(8, m / 12), max(3, min(20, p - 1, m / 4)))) - 1
            long = 2 * max(1, int(min(0.3 * m, 31, p - 1))) - 1
        phases = [Phase(_skips(0, min(1, max_skips)), short)]
        if max_skips and m <= width * _FEW_MEASUREMENTS and (p == cap or _BROAD <= p < _SOON * cap):
            # Allow a complex signal up to m/2 parameters, not m/3, so that three entries count.
            size = m // 3 if width == 1 else (m // 2 + 1) // 2
            phases.append(Phase([], min(_LARGEST, size), beam=True))
        if p == cap:
            phases += [Phase([(0, 0)], long)] + [Phase(_skips(d, d), short) for d in range(2, max_skips + 1)]
        yield Level(width * p, phases)
        if p == cap:
            return
        p = min(cap, int(1.6 * p) + 1)


def max_entries(problem: Problem) -> float:
    """The largest number of entries of A in a block."""
    return min(_MAX_BLOCK_ENTRIES, _BLOCK_SHARE * problem.memory / _BYTES_OF_ENTRY)


def _skips(low: int, high: int) -> list[tuple[int, int]]:
    """All (b1, b2) with low <= b1 + b2 <= high."""
    return [(total - b2, b2) for total in range(low, high + 1) for b2 in range(total + 1)]
