"""What a solver may ask for that reads no A; the contractions of A are in `fastquad.measurements.contractions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.contractions import Contraction
from fastquad.typing import Float

#: Whatever is answered by the driver: it has a cost, an answer, and says whether it is shared, kept or asked once.
Request = Contraction


class _Free(Contraction):
    """A request that reads nothing."""

    __slots__ = ()
    kept = False
    reads = False

    def cost(self, A: Measurements) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Together(_Free):
    """Answered with this run's entry of `function([argument, ...])`, called once for all runs that wait with it.

    For work that does not read A and is cheaper for many signals at once: `function` takes the list of their arguments
    and returns the list of their answers. Where it is `threaded`, it takes the number of threads too.
    """

    function: Callable[..., list[Any]]
    argument: Any
    threaded: bool = False

    shared = True

    def answer(self, A: Measurements, n_threads: int) -> Any:
        return self._call([self.argument], n_threads)[0]

    def _call(self, arguments: list[Any], n_threads: int) -> list[Any]:
        return self.function(arguments, n_threads) if self.threaded else self.function(arguments)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Together]) -> float:
        return 0.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Together], n_threads: int) -> list[Any]:
        waiting: dict[Callable[..., Any], list[int]] = {}
        for position, request in enumerate(requests):
            waiting.setdefault(request.function, []).append(position)
        answers: list[Any] = [None] * len(requests)
        for positions in waiting.values():
            found = requests[positions[0]]._call([requests[p].argument for p in positions], n_threads)
            for position, answer in zip(positions, found, strict=True):
                answers[position] = answer
        return answers


@dataclass(frozen=True, slots=True)
class Work(_Free):
    """Answered with `function(*given, n_threads)`, a tuple of arrays.

    For long work on what has been read, with the same result every time: a checkpoint keeps it.
    """

    function: Callable[..., tuple[Any, ...]]
    given: tuple[Any, ...]

    kept = True

    def answer(self, A: Measurements, n_threads: int) -> tuple[Any, ...]:
        return self.function(*self.given, n_threads)


@dataclass(frozen=True, slots=True)
class Reread(_Free):
    """A copy of A that the solver holds was read: charged as this many passes, answered with nothing."""

    passes: float

    def cost(self, A: Measurements) -> float:
        return self.passes

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return np.empty(0)


@dataclass(frozen=True, slots=True)
class Expect(_Free):
    """Rows that are going to be asked for in parts: where A is on disk they are read now, at once. Not answered."""

    rows: Any

    ahead = True

    def answer(self, A: Measurements, n_threads: int) -> Float:
        A.expect(self.rows, n_threads=n_threads)
        return np.empty(0)
