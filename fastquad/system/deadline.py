"""When work must end: a time that long loops ask for, wherever they are.

    with until(time.perf_counter() + 8):
        ...                             # in a loop, or before a large product: raises OutOfTime once 8 s are over
            check(flops)

The loop that drives a solve moves it with `hold_to`, from `max_time`, for each signal and what it does now. Work in
other threads is not held to it.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

# Operations a second of products and factorisations, which nothing can stop. On a core of Zen 5: 17e9 (singular values,
# as 4 m n^2) to 60e9 (products).
_RATE = 1.5e10

_end: ContextVar[float] = ContextVar("_end", default=math.inf)


class OutOfTime(Exception):
    """The time is over, or would be before the end of what comes next."""


class until:
    """Let `check` raise from this time on, in `time.perf_counter()`'s seconds."""

    def __init__(self, end: float) -> None:
        self._after = end

    def __enter__(self) -> None:
        self._before = _end.set(self._after)

    def __exit__(self, *error: object) -> None:
        _end.reset(self._before)


def hold_to(end: float) -> None:
    """Let `check` raise from this time on instead, within `until`."""
    _end.set(end)


def check(flops: float = 0.0) -> None:
    """Raise `OutOfTime` if so many operations would not end in time."""
    end = _end.get()
    if end < math.inf and time.perf_counter() + flops / _RATE > end:
        raise OutOfTime
