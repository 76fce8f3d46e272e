"""How far pursuit looks: the levels of its search, and the phases of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fastquad.engine.problem import Problem

# The largest block of A, in entries.
_MAX_BLOCK_ENTRIES = 2.5e8
# The share of the memory that the block may take.
_BLOCK_SHARE = 1 / 8
# Bytes of an entry of the block, with the copy that is made while it grows.
_BYTES_OF_ENTRY = 2.8
# The broad search is for few measurements: with more, seeds have true partners among their first choices.
_FEW_MEASUREMENTS = 50
# The largest support that the broad search looks for.
_LARGEST = 8
# The smallest block that it is worth its time on, in coordinates.
_BROAD = 100
# A block of more than this share of the last one waits for the last one.
_SOON = 2 / 3
# A support with a score below this, for each measurement, may be signal in noise: worth a closer look.
PROMISING = 0.1


class Phase(NamedTuple):
    """Growth from every seed, with each of these skips, up to `limit` members; or a broad search up to as many."""

    skips: list[tuple[int, int]]
    limit: int
    beam: bool = False


class Level(NamedTuple):
    """How many coordinates are taken, and what is tried with them."""

    p: int
    phases: list[Phase]


def levels(problem: Problem, max_skips: int = 4) -> Iterator[Level]:
    """The levels, from the few likeliest coordinates to as many as memory allows."""
    # Complex entries have two places each, and are two parameters.
    m, n, width = problem.m, problem.entries, 1 + problem.turning
    cap = int(min(n, max(2, np.sqrt(max_entries(problem) / m) / width)))
    p = int(min(max(40, np.sqrt(2 * n)), cap))
    while True:
        if width == 1:
            short = int(np.clip(max(12, m / 6), 4, max(4, min(25, p - 1, m / 2))))
            long = int(min(0.6 * m, 60, p - 1))
        else:
            short = 2 * int(np.clip(max(8, m / 12), 3, max(3, min(20, p - 1, m / 4)))) - 1
            long = 2 * max(1, int(min(0.3 * m, 31, p - 1))) - 1
        phases = [Phase(_skips(0, min(1, max_skips)), short)]
        if max_skips and m <= width * _FEW_MEASUREMENTS and (p == cap or _BROAD <= p < _SOON * cap):
            phases.append(Phase([], min(_LARGEST, m // (3 * width)), beam=True))
        if p == cap:
            phases += [Phase([(0, 0)], long)] + [Phase(_skips(d, d), short) for d in range(2, max_skips + 1)]
        yield Level(width * p, phases)
        if p == cap:
            return
        p = min(cap, int(1.6 * p) + 1)


def max_entries(problem: Problem) -> float:
    """How many entries of A a block may have."""
    return min(_MAX_BLOCK_ENTRIES, _BLOCK_SHARE * problem.memory / _BYTES_OF_ENTRY)


def _skips(low: int, high: int) -> list[tuple[int, int]]:
    """All (b1, b2) with low <= b1 + b2 <= high."""
    return [(total - b2, b2) for total in range(low, high + 1) for b2 in range(total + 1)]
