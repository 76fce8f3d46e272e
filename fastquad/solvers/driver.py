"""The loop that all solvers share.

A solver is a generator. It never touches A: it asks for a contraction and is sent the answer, and it reports
each step.

    W = yield Products(x)              # W[i] = Ã_i x, one pass over A
    yield Step(x, residual)            # history, callback, budgets
    return Outcome(x, residual, converged=True)

The driver answers. It counts what is read, keeps the best answer, and stops the generator when a budget is
spent or the callback says so. For b signals it runs b generators side by side and answers their requests of
one kind with a single pass, so every solver shares its passes over a batch without knowing of it.

An iterate is kept as it was reported: a solver makes a new array for each, and never writes to one that it has
handed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.solution import Solution
from fastquad.solvers.requests import (
    KEPT,
    SHARED,
    Block,
    Compress,
    Diagonals,
    Expect,
    Products,
    Request,
    Rows,
    SidedProducts,
    Sweep,
    Together,
    WeightedSum,
    Work,
)
from fastquad.solvers.run import EXACT_RESIDUAL, Limits, Note, Outcome, Run, Snapshot, State, Step, Steps

if TYPE_CHECKING:
    from fastquad.solvers.checkpoint import Checkpoint

__all__ = [
    "EXACT_RESIDUAL",
    "Block",
    "Compress",
    "Diagonals",
    "Limits",
    "Note",
    "Outcome",
    "Products",
    "Request",
    "Rows",
    "Run",
    "SidedProducts",
    "Snapshot",
    "State",
    "Step",
    "Steps",
    "Sweep",
    "Together",
    "WeightedSum",
    "Work",
    "drive",
    "finish",
]

# With so few entries of A, the matrices of a solver are too small for more than one thread of BLAS.
_SMALL = 1 << 25
# Threads of BLAS spin for a tenth of a second after each call and take their cores from the next pass over A. On so few
# cores they gain less than that costs: on two, LM took half the time without them at n = 500, m = 1000.
_FEW_CORES = 4


def drive(
    measurements: Measurements,
    runs: list[Run],
    n_threads: int | None = None,
    checkpoint: Checkpoint | None = None,
    *,
    blas_threads: bool = False,
) -> list[Solution]:
    """Run the generators to their ends, answering requests of one kind with one pass over A.

    `blas_threads` lets BLAS use its threads in any case: for methods whose work is in matrices of their own.
    """
    few = measurements.m * measurements.n**2 <= _SMALL or parallel.cores() <= _FEW_CORES
    blas = nullcontext() if blas_threads or not few else parallel.single_threaded_blas()
    # What overflows ends as a status, so NumPy need not warn of it.
    with np.errstate(over="ignore", invalid="ignore"), blas:
        _drive(_Answerer(measurements, n_threads, checkpoint), runs)
    return [run.solution for run in runs if run.solution is not None]


def _drive(answerer: _Answerer, runs: list[Run]) -> None:
    for run in runs:
        if run.solution is None:
            run.send(None)
    while live := [run for run in runs if run.solution is None]:
        if len(live) == 1:
            while live[0].solution is None:
                answerer.pause(runs)
                answerer.serve(live[0])
            break
        answerer.pause(runs)
        kinds: dict[type, list[Run]] = {}
        for run in live:
            kinds.setdefault(type(run.request), []).append(run)
        # Take the kind that most runs wait for; the others wait until more of them can share a pass.
        kind, group = max(kinds.items(), key=lambda item: len(item[1]))
        if kind in SHARED and len(group) > 1:
            answerer.serve_together(kind, group)
        else:
            for run in group:
                answerer.serve(run)


def finish(measurements: Measurements, routine: Generator[Request, Any, Any], n_threads: int | None = None) -> Any:
    """Run a routine that only asks, and reports no steps, to its end; what it returns."""
    answerer = _Answerer(measurements, n_threads)
    answer = None
    while True:
        try:
            answer = answerer.answer(routine.send(answer))
        except StopIteration as end:
            return end.value


class _Answerer:
    """Answers requests from A, and charges each run for the share of A that its answer took."""

    def __init__(self, A: Measurements, n_threads: int | None, checkpoint: Checkpoint | None = None) -> None:
        self.A, self.n_threads, self.checkpoint = A, parallel.resolve(n_threads), checkpoint
        self._diagonals: Float | None = None
        # Whether a run has paid for the diagonals, in this call or before the snapshot that it goes on from.
        self._diagonals_paid = checkpoint is not None and checkpoint.diagonals_paid

    def pause(self, runs: list[Run]) -> None:
        """Between two answers: a moment for the checkpoint."""
        if self.checkpoint is not None:
            self.checkpoint.diagonals_paid = self._diagonals_paid
            self.checkpoint.pause(runs)

    def serve(self, run: Run) -> None:
        """Answer one run, or stop it where it cannot pay any more."""
        request: Any = run.request
        cost = 0.0 if self._diagonals_paid and type(request) is Diagonals else request.cost(self.A)
        status = run.overspent(cost)
        if status is not None:
            run.stop(status)
            return
        run.n_passes += cost
        self._diagonals_paid |= type(request) is Diagonals
        run.send(self._kept([run], [request], lambda: [self.answer(request)])[0])

    def serve_together(self, kind: Any, group: list[Run]) -> None:
        """Answer runs whose requests are of one kind with one pass, for which each is charged."""
        cost = kind.shared_cost(self.A, [run.request for run in group])
        paying = []
        for run in group:
            status = run.overspent(cost)
            if status is None:
                paying.append(run)
            else:
                run.stop(status)
        if not paying:
            return
        requests = [run.request for run in paying]
        answers = self._kept(paying, requests, lambda: self._answer_all(kind, requests))
        for run, answer in zip(paying, answers, strict=True):
            run.n_passes += cost
            run.send(answer)

    def _kept(self, runs: list[Run], requests: list[Any], make: Callable[[], list[Any]]) -> list[Any]:
        """The answers, where there is a checkpoint by its grace."""
        if self.checkpoint is None or type(requests[0]) not in KEPT:
            return make()
        answers = self.checkpoint.answers(requests, make, runs[0].elapsed)
        if self.checkpoint.elapsed is not None:
            for run in runs:
                run.set_clock(self.checkpoint.elapsed)
        return answers

    def _answer_all(self, kind: Any, requests: list[Any]) -> list[Any]:
        answers = kind.answer_all(self.A, requests, self.n_threads)
        for request, answer in zip(requests, answers, strict=True):
            self._check(request, answer)
        return answers

    def answer(self, request: Any) -> Any:
        """The answer to one request; an error where A is not finite."""
        if type(request) is Diagonals:
            if self._diagonals is None:
                self._diagonals = request.answer(self.A, self.n_threads)
                self._check(request, self._diagonals)
            return self._diagonals
        if type(request) is Expect and self.checkpoint is not None and self.checkpoint.replaying:
            # What it would read ahead for has been read.
            return np.empty(0)
        answer = request.answer(self.A, self.n_threads)
        self._check(request, answer)
        return answer

    def _check(self, request: Any, answer: Any) -> None:
        """Raise where A holds NaN or inf: then the answer does too. What a solver asked for
        with, and overflow, are its own matter."""
        if type(request) in (Together, Work):
            return
        array = answer[0] if type(answer) is tuple else answer
        # A sum of squares is not finite if an entry is not: one read at the speed of memory, and no temporary.
        if math.isfinite(np.vdot(array, array)) or np.isfinite(array).all():
            return
        if type(request) is Products:
            request = Products(request.x)
        if not all(np.isfinite(part).all() for part in request if _is_float(part)):
            return
        # Asked again at scale one, what overflowed does not any more.
        array = _at_scale_one(request).answer(self.A, self.n_threads)
        if not np.isfinite(array[0] if type(array) is tuple else array).all():
            raise ValueError("`A` must be finite, got NaN or inf.")


def _is_float(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "f"


def _at_scale_one(request: Any) -> Any:
    """The request with each of its float vectors divided by its largest entry."""
    parts = []
    for part in request:
        if _is_float(part) and part.any():
            part = part / np.abs(part).max()
        parts.append(part)
    return type(request)(*parts)
