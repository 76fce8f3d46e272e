"""The loop that all solvers share.

A solver is a generator. It never touches A: it asks for a contraction and is sent the answer, and it reports
each step.

    W = yield Products(x)              # W[i] = Ã_i x, one pass over A
    yield Step(x, residual)            # history, callback, budgets
    return Outcome(x, residual, converged=True)

The driver answers. It counts what is read, keeps the best answer, and stops the generator when a budget is
spent or the callback says so. For b signals it runs b generators side by side and answers their requests of
one kind with a single pass, so every solver shares its passes over a batch without knowing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Float, Measurements
from fastquad.solution import Solution, Status

#: Relative residual below which an answer is exact, if it has fewer free coordinates than measurements.
EXACT_RESIDUAL = 1e-9


# -- what a solver may ask for ------------------------------------------------------------------------------


class Products(NamedTuple):
    """Answered with `W[i] = Ã_i x`, (m, n)."""

    x: Float


class SidedProducts(NamedTuple):
    """Answered with `A_i x`, or `A_i^T x`, of A as given, (m, n)."""

    x: Float
    transpose: bool


class WeightedSum(NamedTuple):
    """Answered with `Σ_i w_i Ã_i`, (n, n)."""

    w: Float


class Diagonals(NamedTuple):
    """Answered with `diag(A_i)`, (m, n); read once a solve."""


class Rows(NamedTuple):
    """Answered with `Ã_i[S, :]`, (m, s, n)."""

    support: Any


class Block(NamedTuple):
    """Answered with `Ã_i[S, T]`, (m, s, t); T = S where cols is None."""

    rows: Any
    cols: Any = None


class Compress(NamedTuple):
    """Answered with `U^T Ã_i U`, (m, p, p)."""

    U: Float


class Sweep(NamedTuple):
    """Answered with `r = c − A(zz^T + diag v)` and `S = Σ_i r_i Ã_i`."""

    z: Float
    v: Float
    c: Float


Request = Products | SidedProducts | WeightedSum | Diagonals | Rows | Block | Compress | Sweep


# -- what a solver reports ----------------------------------------------------------------------------------


class Step(NamedTuple):
    """One step is done: the iterate, and ‖r‖/‖y‖ there."""

    x: Float
    residual: float


@dataclass
class Outcome:
    """How a solver ended by itself.

    `free` counts the free coordinates of x (default: its nonzeros); with a residual below 1e-9 the answer is exact
    if they are fewer than the measurements, and undetermined if not. `converged` is the method's own stopping test;
    `status` overrides the verdict. `note` is added to the sentence of the status.
    """

    x: Float
    residual: float
    converged: bool = False
    free: int | None = None
    status: Status | None = None
    note: str = ""
    noise: float | None = None
    method: str | None = None


Steps = Generator[Request | Step, Any, Outcome]


class State(NamedTuple):
    """What a callback sees."""

    x: Float
    n_iter: int
    n_passes: float
    residual: float


@dataclass(frozen=True)
class Limits:
    """When to stop, apart from the method's own test."""

    max_iter: int | None = None
    max_passes: float | None = None
    max_time: float | None = None
    callback: Callable[[State], object] | None = None


class Run:
    """One signal's generator, what it asks for now, and what it has reported."""

    def __init__(self, steps: Steps, m: int, method: str, limits: Limits, x_true: Float | None, start: float) -> None:
        self.steps, self.m, self.method, self.limits, self.x_true, self.start = steps, m, method, limits, x_true, start
        self.n_iter = 0
        self.n_passes = 0.0
        self.best: Step | None = None
        self.last: Step | None = None
        self.log: list[tuple[float, ...]] = []
        self.request: Request | None = None
        self.solution: Solution | None = None

    def send(self, answer: Any) -> None:
        """Go on with this answer until the next request, or the end."""
        try:
            item = self.steps.send(answer)
            while isinstance(item, Step):
                status = self._record(item)
                if status is not None:
                    self.stop(status)
                    return
                item = self.steps.send(None)
            self.request = item
        except StopIteration as end:
            self._conclude(end.value)

    def stop(self, status: Status) -> None:
        """End here, with the best answer so far (the last one, where the solve was stopped by the callback)."""
        self.steps.close()
        step = self.last if status is Status.STOPPED else self.best
        assert step is not None, "a solver must report a step before it asks for more than it was given"
        self._conclude(Outcome(step.x, step.residual, status=status))

    def _record(self, step: Step) -> Status | None:
        elapsed = time.perf_counter() - self.start
        self.n_iter += 1
        self.last = step
        if self.best is None or not self.best.residual <= step.residual:
            self.best = step
        if self.x_true is None:
            self.log.append((step.residual, self.n_passes, elapsed))
        else:
            self.log.append((step.residual, self.n_passes, elapsed, distance(step.x, self.x_true)))
        limits = self.limits
        if limits.callback is not None and limits.callback(State(step.x, self.n_iter, self.n_passes, step.residual)):
            return Status.STOPPED
        if limits.max_iter is not None and self.n_iter >= limits.max_iter:
            return Status.MAX_ITER
        if limits.max_time is not None and elapsed >= limits.max_time:
            return Status.MAX_TIME
        return None

    def _conclude(self, outcome: Outcome) -> None:
        x = np.array(outcome.x, dtype=np.float64)
        support = np.flatnonzero(x)
        free = support.size if outcome.free is None else outcome.free
        status = outcome.status
        if outcome.residual < EXACT_RESIDUAL and status in (None, Status.MAX_ITER, Status.MAX_PASSES, Status.MAX_TIME):
            status = Status.EXACT if free < self.m else Status.UNDETERMINED
        elif status is None:
            status = Status.CONVERGED if outcome.converged else Status.STAGNATED
        message = status.sentence if not outcome.note else f"{status.sentence} {outcome.note}"
        names = ("residual", "n_passes", "elapsed", "distance")[: 3 if self.x_true is None else 4]
        log = np.array(self.log, dtype=np.float64).reshape(len(self.log), len(names))
        self.request = None
        self.solution = Solution(
            x=x, status=status, success=status.success, message=message, method=outcome.method or self.method,
            n_iter=self.n_iter, n_passes=self.n_passes, residual=float(outcome.residual), support=support,
            noise=outcome.noise, history=dict(zip(names, log.T, strict=True)),
            elapsed=time.perf_counter() - self.start,
        )  # fmt: skip


def drive(measurements: Measurements, runs: list[Run], n_threads: int | None = None) -> list[Solution]:
    """Run the generators to their ends, answering requests of one kind with one pass over A."""
    answerer = _Answerer(measurements, n_threads)
    for run in runs:
        run.send(None)
    while live := [run for run in runs if run.solution is None]:
        kinds: dict[type, list[Run]] = {}
        for run in live:
            kinds.setdefault(type(run.request), []).append(run)
        # Take the kind that most runs wait for; the others wait until more of them can share a pass.
        group = max(kinds.values(), key=len)
        for run, answer in answerer.answer(group):
            run.send(answer)
    return [run.solution for run in runs]


class _Answerer:
    """Answers requests from A, and charges each run for the share of A that its answer took."""

    def __init__(self, A: Measurements, n_threads: int | None) -> None:
        self.A, self.n_threads = A, n_threads
        self._diagonals: Float | None = None

    def answer(self, group: list[Run]) -> list[tuple[Run, Any]]:
        """Answers for a group of runs with requests of one kind; a run that cannot pay any more is stopped."""
        cost = self._cost(group)
        paying = [run for run in group if not self._exhausted(run, cost)]
        if not paying:
            return []
        for run in paying:
            run.n_passes += cost
        requests = [run.request for run in paying]
        return list(zip(paying, self._fulfil(requests), strict=True))

    def _exhausted(self, run: Run, cost: float) -> bool:
        limit = run.limits.max_passes
        # Without a step there is no answer yet: the first one is always paid for.
        if limit is None or run.best is None or run.n_passes + cost <= limit * (1 + 1e-9):
            return False
        run.stop(Status.MAX_PASSES)
        return True

    def _cost(self, group: list[Run]) -> float:
        """The passes over A that answering this group takes."""
        A, first = self.A, group[0].request
        match first:
            case Products() | SidedProducts():
                nonzero = np.zeros(A.n, dtype=bool)
                for run in group:
                    nonzero |= run.request.x != 0
                s = int(np.count_nonzero(nonzero))
                return A.share_of_rows(s) if A.reads_rows(s) else 1.0
            case Diagonals():
                return 0.0 if self._diagonals is not None else 2 / (A.n + 1)
            case Rows():
                return A.share_of_rows(len(first.support))
            case Block():
                return _pairs(first.rows, first.cols) / (A.n * (A.n + 1) / 2)
            case Sweep():
                return float(A.sweep_passes())
            case _:
                return 1.0

    def _fulfil(self, requests: list[Any]) -> list[Any]:
        A, n_threads, first = self.A, self.n_threads, requests[0]
        match first:
            case Diagonals():
                if self._diagonals is None:
                    self._diagonals = A.diagonals(n_threads=n_threads)
                    self._diagonals.flags.writeable = False
                return [self._diagonals] * len(requests)
            case Products() if len(requests) > 1:
                W = A.products(np.stack([q.x for q in requests], axis=1), n_threads=n_threads)
                return [np.ascontiguousarray(W[:, :, s]) for s in range(len(requests))]
            case WeightedSum() if len(requests) > 1:
                return list(A.weighted_sum(np.stack([q.w for q in requests], axis=1), n_threads=n_threads))
            case Sweep() if len(requests) > 1:
                z, v, c = (np.stack([q[part] for q in requests], axis=1) for part in range(3))
                r, S = A.sweep(z, v, c, n_threads=n_threads)
                return [(np.ascontiguousarray(r[:, s]), S[s]) for s in range(len(requests))]
        return [self._fulfil_one(q) for q in requests]

    def _fulfil_one(self, q: Any) -> Any:
        A, n_threads = self.A, self.n_threads
        match q:
            case Products(x):
                return A.products(x, n_threads=n_threads)
            case SidedProducts(x, transpose):
                return A.sided_products(x, transpose=transpose, n_threads=n_threads)
            case WeightedSum(w):
                return A.weighted_sum(w, n_threads=n_threads)
            case Rows(support):
                return A.rows(support, n_threads=n_threads)
            case Block(rows, cols):
                return A.block(rows, cols, n_threads=n_threads)
            case Compress(U):
                return A.compress(U, n_threads=n_threads)
            case Sweep(z, v, c):
                return A.sweep(z, v, c, n_threads=n_threads)
        raise TypeError(f"a solver asked for {q!r}")


def _pairs(rows: Any, cols: Any) -> int:
    """How many distinct unordered pairs (j, k) the block rows × cols has."""
    S = set(map(int, rows))
    if cols is None:
        return len(S) * (len(S) + 1) // 2
    T = set(map(int, cols))
    both = len(S & T)
    # A pair within the intersection is met from both sides.
    return len(S) * len(T) - both * (both - 1) // 2


def distance(x_hat: Float, x: Float) -> float:
    """The relative distance `min_± ‖x_hat ∓ x‖/‖x‖`."""
    return float(min(np.linalg.norm(x_hat - x), np.linalg.norm(x_hat + x)) / np.linalg.norm(x))
