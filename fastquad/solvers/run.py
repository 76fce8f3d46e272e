"""One signal's solve: what its solver reports, the budgets it has, and the verdict on its answer."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solution import Solution, Status
from fastquad.solvers.requests import Request

#: Relative residual below which an answer is exact, if it has fewer free coordinates than measurements.
EXACT_RESIDUAL = 1e-9


class Step(NamedTuple):
    """One step is done: the iterate, and ‖r‖/‖y‖ there."""

    x: Float
    residual: float


class Note(NamedTuple):
    """Something that the user should know, whatever the end: it is added to the message."""

    text: str


class Snapshot(NamedTuple):
    """What the method can go on from, in place of the answers that it had so far: numbers and arrays by name.

    It comes right before a request. A generator made with it as `Problem.resume` must make that request first.
    """

    state: dict[str, Any]


@dataclass
class Outcome:
    """How a solver ended by itself.

    `free` counts the free coordinates of x (default: its nonzeros); with a residual below 1e-9 the answer is exact
    if they are fewer than the measurements, and undetermined if not. `converged` says that the answer can be trusted by
    the method's own test, which is more than that the steps became short; `status` overrides the verdict. `note` is
    added to the sentence of the status.
    """

    x: Float
    residual: float
    converged: bool = False
    free: int | None = None
    status: Status | None = None
    note: str = ""
    noise: float | None = None
    method: str | None = None


Steps = Generator[Request | Step | Note | Snapshot, Any, Outcome]


class State(NamedTuple):
    """What a callback sees."""

    x: Float
    n_iter: int
    n_passes: float
    residual: float
    #: Which signal of a batch.
    signal: int | None = None


@dataclass(frozen=True)
class Limits:
    """When to stop, apart from the method's own test; and how much to say on the way."""

    max_iter: int | None = None
    max_passes: float | None = None
    max_time: float | None = None
    callback: Callable[[State], object] | None = None
    verbose: int = 0


class Run:
    """One signal's generator, what it asks for now, and what it has reported."""

    def __init__(
        self,
        steps: Steps,
        m: int,
        method: str,
        limits: Limits,
        *,
        x_true: Float | None = None,
        rounding: float = 0.0,
        noise: float = 0.0,
        signal: int | None = None,
    ) -> None:
        self.steps, self.m, self.method, self.limits, self.x_true = steps, m, method, limits, x_true
        self.rounding, self.noise, self.signal = rounding, noise, signal
        self.start = time.perf_counter()
        #: Seconds that earlier calls took, where the solve goes on from a checkpoint.
        self.earlier = 0.0
        self.n_iter = 0
        self.n_passes = 0.0
        self.best: Step | None = None
        self.last: Step | None = None
        self.log: list[tuple[float, ...]] = []
        self.notes: list[str] = []
        self.request: Request | None = None
        #: What the method can go on from, while it has got no answer since.
        self.snapshot: dict[str, Any] | None = None
        self.spent: Status | None = None
        self.solution: Solution | None = None

    def send(self, answer: Any) -> None:
        """Go on with this answer until the next request, or the end."""
        self.snapshot = None
        try:
            item = self.steps.send(answer)
            while not self._take(item):
                item = self.steps.send(None)
        except StopIteration as end:
            self._conclude(end.value)

    def _take(self, item: Request | Step | Note | Snapshot) -> bool:
        """Take what the solver yields; whether it waits for an answer now, or was stopped."""
        if isinstance(item, Note):
            self.notes.append(item.text)
            return False
        if isinstance(item, Snapshot):
            self.snapshot = item.state
            return False
        if self.spent is not None:
            # It wants to go on: after its last step it had the chance to end by itself.
            self.stop(self.spent)
            return True
        if isinstance(item, Step):
            self._record(item)
            return self.solution is not None
        self.request = item
        return True

    def stop(self, status: Status) -> None:
        """End here, with the best answer so far (the last one, where the solve was stopped by the callback)."""
        self.steps.close()
        step = self.last if status is Status.STOPPED else self.best
        assert step is not None, "a solver must report a step before it asks for more than it was given"
        self._conclude(Outcome(step.x, step.residual, status=status))

    @property
    def elapsed(self) -> float:
        """Seconds since the solve began, without those between two calls that share a checkpoint."""
        return self.earlier + time.perf_counter() - self.start

    def set_clock(self, elapsed: float) -> None:
        """Say that at least so many seconds have passed."""
        self.earlier += max(0.0, elapsed - self.elapsed)

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as plain data."""
        return {
            "n_iter": self.n_iter, "n_passes": self.n_passes, "log": np.array(self.log, dtype=np.float64),
            "notes": list(self.notes), "elapsed": self.elapsed,
            "best": None if self.best is None else tuple(self.best),
            "last": None if self.last is None else tuple(self.last),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier call has reported."""
        self.n_iter, self.n_passes, self.notes = state["n_iter"], state["n_passes"], state["notes"]
        self.log = [tuple(entry) for entry in state["log"].tolist()]
        self.best = None if state["best"] is None else Step(*state["best"])
        self.last = None if state["last"] is None else Step(*state["last"])
        self.set_clock(state["elapsed"])

    def overspent(self, cost: float) -> Status | None:
        """The budget that an answer of this cost would exceed."""
        limits = self.limits
        # Without a step there is no answer yet: the first one is always paid for.
        if self.best is None:
            return None
        if limits.max_passes is not None and self.n_passes + cost > limits.max_passes * (1 + 1e-9):
            return Status.MAX_PASSES
        if limits.max_time is not None and time.perf_counter() - self.start >= limits.max_time:
            return Status.MAX_TIME
        return None

    def _record(self, step: Step) -> None:
        elapsed = self.elapsed
        self.n_iter += 1
        self.last = step
        if self.best is None or not self.best.residual <= step.residual:
            self.best = step
        if self.x_true is None:
            self.log.append((step.residual, self.n_passes, elapsed))
        else:
            self.log.append((step.residual, self.n_passes, elapsed, _distance(step.x, self.x_true)))
        limits = self.limits
        if limits.verbose and (limits.verbose > 1 or _is_round(self.n_iter)):
            self._say(f"step {self.n_iter}: residual {step.residual:.3e}, {self.n_passes:.4g} passes, {elapsed:.2f} s")
        if limits.callback is not None and limits.callback(self._state(step)):
            self.stop(Status.STOPPED)
        elif not math.isfinite(step.residual):
            self.stop(Status.DIVERGED)
        elif limits.max_iter is not None and self.n_iter >= limits.max_iter:
            self.spent = Status.MAX_ITER
        elif limits.max_time is not None and time.perf_counter() - self.start >= limits.max_time:
            self.spent = Status.MAX_TIME

    def _state(self, step: Step) -> State:
        """What the callback sees; it cannot write to the iterate."""
        x = step.x.view()
        x.flags.writeable = False
        return State(x, self.n_iter, self.n_passes, step.residual, self.signal)

    def _conclude(self, outcome: Outcome) -> None:
        if outcome.status is Status.DIVERGED and self.best is not None:
            outcome = replace(outcome, x=self.best.x, residual=self.best.residual)
        x = np.array(outcome.x, dtype=np.float64)
        support = np.flatnonzero(x)
        status = self._verdict(outcome, support.size)
        said = f"The relative residual is {outcome.residual:.1e}."
        message = " ".join(filter(None, [status.sentence, said, *self.notes, outcome.note]))
        names = ("residual", "n_passes", "elapsed", "distance")[: 3 if self.x_true is None else 4]
        log = np.array(self.log, dtype=np.float64).reshape(len(self.log), len(names))
        self.request = None
        self.solution = Solution(
            x=x, status=status, success=status.success, message=message, method=outcome.method or self.method,
            n_iter=self.n_iter, n_passes=self.n_passes, residual=float(outcome.residual), support=support,
            noise=outcome.noise, history=dict(zip(names, log.T.copy(), strict=True)),
            elapsed=self.elapsed,
        )  # fmt: skip
        if self.limits.verbose:
            self._say(
                f"{self.solution.method}: {status.name.lower()} after {self.n_iter} steps, {self.n_passes:.4g} passes, "
                f"{self.solution.elapsed:.2f} s; residual {self.solution.residual:.3e}, {support.size} nonzeros"
            )

    def _verdict(self, outcome: Outcome, nonzeros: int) -> Status:
        """The status of an outcome: see `Outcome`, and `fastquad.solve` for the rule in words."""
        status, residual = outcome.status, outcome.residual
        if status not in (None, Status.MAX_ITER, Status.MAX_PASSES, Status.MAX_TIME):
            return status
        free = nonzeros if outcome.free is None else outcome.free
        determined = free < self.m
        if residual < EXACT_RESIDUAL:
            return Status.EXACT if determined else Status.UNDETERMINED
        if status is not None:
            return status
        if outcome.converged or residual <= max(self.rounding, self._noise_level(free)):
            return Status.CONVERGED if determined else Status.UNDETERMINED
        return Status.STAGNATED

    def _noise_level(self, free: int) -> float:
        """The relative residual that the noise explains.

        ‖noise‖² is σ² χ²_m: three standard deviations above its mean. Free coordinates take a part of it away; few of
        them, found by shrinkage, take less than their number.
        """
        d = self.m if 2 * free <= self.m else self.m - free
        return self.noise * math.sqrt(d + 3 * math.sqrt(2 * d)) if d > 0 else 0.0

    def _say(self, line: str) -> None:
        who = "fastquad" if self.signal is None else f"fastquad, signal {self.signal}"
        print(f"{who}: {line}", file=sys.stderr)


def _is_round(n: int) -> bool:
    """Whether n is 1, 2 or 5 times a power of ten: a log of a long run stays short."""
    while n % 10 == 0:
        n //= 10
    return n in (1, 2, 5)


def _distance(x_hat: Float, x: Float) -> float:
    """`min_± ‖x_hat ∓ x‖/‖x‖`."""
    scale = np.linalg.norm(x)
    nearest = min(np.linalg.norm(x_hat - x), np.linalg.norm(x_hat + x))
    if scale == 0:
        return 0.0 if nearest == 0 else math.inf
    return float(nearest / scale)
