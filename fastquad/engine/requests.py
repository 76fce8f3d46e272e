"""Requests of a solver that read no A; the contractions of A are in `fastquad.measurements.contractions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.contractions import Contraction
from fastquad.typing import Asks, Float, T

#: Anything that the driver answers: it has a cost and an answer, and says whether it is shared, kept or answered once.
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
    """Answered with this run's entry of `function([argument, ...])`, called once for all runs that wait for it.

    For work that does not read A and is cheaper for many signals at once: `function` takes the list of their arguments
    and returns the list of their answers. If it is `threaded`, it takes the number of threads too.
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

    For long deterministic work on what has been read: a checkpoint saves its result.
    """

    function: Callable[..., tuple[Any, ...]]
    given: tuple[Any, ...]
    #: About how much arithmetic it is.
    multiply_adds: float = 0.0

    kept = True

    def answer(self, A: Measurements, n_threads: int) -> tuple[Any, ...]:
        return self.function(*self.given, n_threads)


@dataclass(frozen=True, slots=True)
class Again(Work):
    """The same for short work, which is done again where a solve is resumed."""

    kept = False


@dataclass(frozen=True, slots=True)
class Spent(_Free):
    """Say how much arithmetic comes next; not answered. The plan leaves a stage that takes more than it was given."""

    multiply_adds: float

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return np.empty(0)


@dataclass(frozen=True, slots=True)
class Reread(_Free):
    """Charge this many passes for reading a copy of A that the solver holds; not answered."""

    passes: float

    def cost(self, A: Measurements) -> float:
        return self.passes

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return np.empty(0)


@dataclass(frozen=True, slots=True)
class Expect(_Free):
    """Announce rows that will be needed in parts: a tensor on disk reads them now, in one pass. Not answered."""

    rows: Any

    ahead = True

    def answer(self, A: Measurements, n_threads: int) -> Float:
        A.expect(self.rows, n_threads=n_threads)
        return np.empty(0)


def answered_by(answer: Callable[[Any], Any], routine: Asks[T]) -> T:
    """Run a generator to its end, with an answer to each item that it yields; returns its result."""
    reply = None
    while True:
        try:
            item = routine.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = answer(item)


def routed(routine: Asks[T], ask: Callable[[Any], Asks[Any]]) -> Asks[T]:
    """Run a generator whose requests `ask` makes in its place, as it says them; returns its result."""
    reply = None
    while True:
        try:
            item = routine.send(reply)
        except StopIteration as end:
            return end.value
        reply = yield from ask(item)
