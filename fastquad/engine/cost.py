"""The currency of the plan: the time that requests and arithmetic take, by a small model that never looks at a clock.

A request takes the time in which its part of A comes from where A lies; what is gathered entry by entry touches more
than it asks for. Arithmetic is counted in multiply-adds. The rates are those of one core of Zen 5, rounded
(`benchmarks/studies/clock.py --model` compares them with the clock): only their ratios matter, because a stage is given
a share of what another one would take. So answers do not depend on the machine, its threads or its load.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastquad.engine.requests import Spent, Work
from fastquad.measurements.base import Measurements
from fastquad.measurements.contractions import Block, Cells, Contraction, Rows
from fastquad.measurements.dense.chunks import fits_cache
from fastquad.typing import Asks, T

#: Bytes of A a second, by where A lies. A core reads packed float32 and float64 at 39 to 41 GB/s from memory and at 90
#: from a cache; the others are guesses.
RATES = {"cache": 9e10, "memory": 4e10, "computed": 4e9, "disk": 1e9, "cluster": 5e8}
#: Multiply-adds a second: BLAS does 5e10 in double, small matrices and vectors a few times less.
MULTIPLY_ADDS = 1e10
#: How many bytes a gathered one costs, where A is in a cache or in memory: entries that stay packed, and others.
GATHERED = {Cells: 10.0, Block: 20.0, Rows: 20.0}
#: Seconds for a request by itself.
REQUEST = 2e-5


def seconds(A: Measurements, request: Any) -> float:
    """What a request costs on this A, in seconds of the model."""
    if isinstance(request, Spent | Work):
        return request.multiply_adds / MULTIPLY_ADDS
    where = "cache" if A.medium == "memory" and fits_cache(A.nbytes) else A.medium
    touched = GATHERED.get(type(request), 1.0) if where in ("cache", "memory") else 1.0
    return REQUEST + touched * request.cost(A) * A.nbytes / RATES[where]


@dataclass
class Allowance:
    """What a stage may spend, in seconds of the model; `over` says that it was left because of it."""

    price: Callable[[Any], float]
    given: float
    over: bool = False

    def spent_by(self, stage: Asks[T]) -> Asks[T | None]:
        """The stage, left with None before the request with which it would cost more than it was given."""
        if self.given == math.inf:
            return (yield from stage)
        spent, answer = 0.0, None
        while True:
            try:
                item = stage.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(item, Contraction):
                spent += self.price(item)
                if spent > self.given:
                    stage.close()
                    self.over = True
                    return None
            answer = yield item
