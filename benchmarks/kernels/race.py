"""The race that every comparison is.

Memory on a shared machine is fast in one second and slow in the next, so nothing is compared with a number measured
at another time: a kernel and what it is held against take turns, and a ratio is the median over the ratios of
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter, sleep

from machine import TICK, busy_elsewhere

#: A kernel and a rival take turns for so long at least: shorter, and ticks of the clock of processes would decide.
_TURNS_SECONDS = 0.1
#: Cores that other processes may use meanwhile.
_DISTURBANCE = 0.1


class Race:
    """One kernel and its rivals, timed in turns by pytest-benchmark.

    Before each of the rounds that pytest-benchmark times, the kernel runs in turns with every rival, for a tenth of a
    second or once; so each pair is measured side by side. Turns during which other processes kept the machine busy are
    taken again, as long as there is patience. The rows of the report go to `extra_info`.
    """

    def __init__(self, benchmark, smoke: bool, patience: float, max_rounds: int) -> None:
        self.benchmark, self.smoke, self.max_rounds = benchmark, smoke, max_rounds
        self.patience = 0.0 if smoke else patience
        self.turns_seconds = 0.0 if smoke else _TURNS_SECONDS
        self.pairs: dict[str, list[tuple[float, float]]] = {}
        self.disturbed: list[bool] = []

    def run(
        self, kernel: Callable, rivals: dict[str, Callable], *, rounds: int, calls: int = 1, pause: float = 0.0
    ) -> None:
        """`calls` in a row make a turn, after one that brings the data into cache; before a turn there is a `pause`."""
        rounds = 2 if self.smoke else min(rounds, self.max_rounds)
        self.pairs = {name: [] for name in rivals}

        def before() -> None:
            for name, rival in rivals.items():
                self.pairs[name] += self._undisturbed_turns(kernel, rival, calls, pause)
            if calls > 1:
                kernel()

        for run in (kernel, *rivals.values()):
            run()
        self.benchmark.pedantic(kernel, setup=before, rounds=rounds)
        info = self.benchmark.extra_info
        info["seconds"] = {name: self.seconds(name) for name in rivals}
        info["disturbed"] = sum(self.disturbed) / len(self.disturbed)

    def _undisturbed_turns(
        self, kernel: Callable, rival: Callable, calls: int, pause: float
    ) -> list[tuple[float, float]]:
        while True:
            start, others = perf_counter(), busy_elsewhere()
            turns: list[tuple[float, float]] = []
            while not turns or perf_counter() - start < self.turns_seconds:
                turns.append((_time(kernel, calls, pause), _time(rival, calls, pause)))
            elapsed, others = perf_counter() - start, busy_elsewhere() - others
            disturbed = others > _DISTURBANCE * elapsed + 2 * TICK
            if not disturbed or self.patience <= 0:
                self.disturbed.append(disturbed)
                return turns
            sleep(self.turns_seconds)
            self.patience -= perf_counter() - start

    def seconds(self, name: str) -> float:
        """Median time of a rival."""
        return median(rival for _, rival in self.pairs[name])

    def kernel_seconds(self) -> float:
        """Median time of the kernel over all its turns."""
        return median(kernel for pairs in self.pairs.values() for kernel, _ in pairs)

    def ratios(self, name: str) -> list[float]:
        """Time of the rival over that of the kernel beside it, round by round."""
        return [rival / kernel for kernel, rival in self.pairs[name]]

    def ratio(self, name: str) -> float:
        return median(self.ratios(name))

    def fastest(self, names: list[str]) -> str:
        return min(names, key=self.ratio)

    def yardstick(self, name: str) -> None:
        """What the kernel's time is a multiple of when commits are compared, with its quartiles."""
        relative = [1 / ratio for ratio in self.ratios(name)]
        if len(relative) == 1:  # one round was asked for, and a turn took longer than the shortest time of turns
            relative *= 2
        low, middle, high = quantiles(relative, n=4, method="inclusive")
        self.benchmark.extra_info["relative"] = {"to": name, "low": low, "median": middle, "high": high}

    def row(
        self, what: str, value: float, *, at_least: float | None = None, at_most: float | None = None, note=""
    ) -> None:
        """A line of the report: a ratio, and what it must be."""
        add_row(self.benchmark, what, value, at_least=at_least, at_most=at_most, note=note)


def add_row(
    benchmark, what: str, value: float, *, at_least: float | None = None, at_most: float | None = None, note: str = ""
) -> None:
    """A line of the report, for a benchmark that is no race."""
    rows = benchmark.extra_info.setdefault("rows", [])
    rows.append({"what": what, "value": value, "at_least": at_least, "at_most": at_most, "note": note})


def _time(run: Callable, calls: int, pause: float) -> float:
    sleep(pause)
    if calls > 1:
        run()
    start = perf_counter()
    for _ in range(calls):
        run()
    return (perf_counter() - start) / calls
