"""The loop that all solvers share.

A solver is a generator. It never touches A: it asks for a contraction and is sent the answer, and it reports
each step.

    W = yield Products(x)              # W[i] = Ã_i x, one pass over A
    yield Step(x, residual)            # history, callback, budgets
    return Outcome(x, residual, End.CONVERGED)

The driver answers. It counts what is read, keeps the best iterate, and stops the generator when a budget is
spent or the callback says so. For b signals it runs b generators side by side and answers their requests of
one kind with a single pass, so every solver shares its passes over a batch without knowing it.

Iterates are kept without copying: a solver makes a new array for each, and never writes to one that it has
reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from fastquad.engine.requests import Request, answered_by
from fastquad.engine.run import Run
from fastquad.engine.steps import End
from fastquad.measurements.base import Measurements
from fastquad.solution import Interrupted, Solution
from fastquad.system import memory, threads
from fastquad.system.deadline import OutOfTime, hold_to, until
from fastquad.system.progress import Bar
from fastquad.typing import Asks

if TYPE_CHECKING:
    from fastquad.engine.checkpoint import Checkpoint

# The number of entries of A below which a solver's matrices are too small for more than one thread of BLAS.
_SMALL = 1 << 25
# The number of cores below which BLAS stays on one thread. Its threads spin for a tenth of a second after each call and
# slow down the next pass over A; on two cores, LM took half the time without them at n = 500, m = 1000.
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

    Ctrl-C raises `Interrupted`, with a list of what each has so far.

    `blas_threads` lets BLAS use its threads in any case, for methods that mostly work on matrices of their own.
    """
    memory.keep_freed()
    few = measurements.m * measurements.n**2 <= _SMALL or threads.cores() <= _FEW_CORES
    blas = nullcontext() if blas_threads or not few else threads.single_threaded_blas()
    # Silence NumPy's warnings of overflow: it ends in a status.
    with np.errstate(over="ignore", invalid="ignore"), blas, until(math.inf), Watch(runs) as watch:
        try:
            _drive(_Answerer(measurements, n_threads, checkpoint, watch), runs)
        except KeyboardInterrupt:
            for run in runs:
                run.interrupt()
            raise Interrupted([run.solution for run in runs if run.solution is not None]) from None
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
        kinds: dict[Any, list[Run]] = {}
        for run in live:
            kinds.setdefault(type(run.request), []).append(run)
        # Serve the kind that most runs wait for; the others wait until more of them can share a pass.
        kind, group = max(kinds.items(), key=lambda item: len(item[1]))
        if kind.shared and len(group) > 1:
            answerer.serve_together(kind, group)
        else:
            for run in group:
                answerer.serve(run)


def finish(measurements: Measurements, routine: Asks[Any], n_threads: int | None = None) -> Any:
    """Run a generator that only asks and reports no steps; returns its result."""
    return answered_by(_Answerer(measurements, n_threads).answer, routine)


class _Answerer:
    """Answers requests from A, and charges each run for the share of A that its answer took."""

    def __init__(
        self,
        A: Measurements,
        n_threads: int | None,
        checkpoint: Checkpoint | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.A, self.n_threads, self.checkpoint, self.watch = A, threads.resolve(n_threads), checkpoint, watch
        #: The answers to requests that are answered once in a solve, by their kind.
        self._answered: dict[type, Any] = {}
        # The kinds among them that a run was charged for, in this call or before the snapshot that it resumed from.
        self._paid = set() if checkpoint is None else set(checkpoint.paid)

    def pause(self, runs: list[Run]) -> None:
        """Between two answers: let the checkpoint save a snapshot, and redraw the progress bar."""
        if self.watch is not None:
            self.watch.look(runs)
        if self.checkpoint is not None:
            self.checkpoint.paid = sorted(self._paid)
            self.checkpoint.pause(runs)

    def serve(self, run: Run) -> None:
        """Answer one run, or stop it if its budget does not allow the answer."""
        request = run.request
        assert request is not None
        kind = type(request).__name__
        cost = 0.0 if kind in self._paid else request.cost(self.A)
        end = run.overspent(cost)
        if end is not None:
            run.stop(end)
            return
        run.n_passes += cost
        if request.once:
            self._paid.add(kind)
        hold_to(run.deadline)
        try:
            answer = self._kept([run], [request], lambda: [self.answer(request)])[0]
        except OutOfTime:
            run.stop(End.MAX_TIME)
            return
        run.send(answer)

    def serve_together(self, kind: Any, group: list[Run]) -> None:
        """Answer runs whose requests are of one kind with one pass, and charge each run for it."""
        cost = kind.shared_cost(self.A, [run.request for run in group])
        paying = []
        for run in group:
            end = run.overspent(cost)
            if end is None:
                paying.append(run)
            else:
                run.stop(end)
        if not paying:
            return
        requests = [run.request for run in paying if run.request is not None]
        hold_to(max(run.deadline for run in paying))
        try:
            answers = self._kept(paying, requests, lambda: self._answer_all(kind, requests))
        except OutOfTime:
            for run in paying:
                run.stop(End.MAX_TIME)
            return
        for run, answer in zip(paying, answers, strict=True):
            run.n_passes += cost
            run.send(answer)

    def _kept(self, runs: list[Run], requests: list[Request], make: Callable[[], list[Any]]) -> list[Any]:
        """The answers: from the checkpoint if it has them, else computed and saved there."""
        if self.checkpoint is None or not requests[0].kept:
            return make()
        answers = self.checkpoint.answers(requests, make, runs[0].elapsed)
        if self.checkpoint.elapsed is not None:
            for run in runs:
                run.set_clock(self.checkpoint.elapsed)
        return answers

    def _answer_all(self, kind: Any, requests: list[Request]) -> list[Any]:
        answers = [_own(answer) for answer in kind.answer_all(self.A, requests, self.n_threads)]
        for request, answer in zip(requests, answers, strict=True):
            self._check(request, answer)
        return answers

    def answer(self, request: Request) -> Any:
        """The answer to one request; an error if A is not finite."""
        kind = type(request)
        if kind in self._answered:
            return self._answered[kind]
        if request.ahead and self.checkpoint is not None and self.checkpoint.replaying:
            # Do not read ahead while replaying: the answers come from the checkpoint.
            return np.empty(0)
        answer = request.answer(self.A, self.n_threads)
        # What is asked once is kept for all who ask, and nobody's to write to.
        if not (request.once or request.lent):
            answer = _own(answer)
        self._check(request, answer)
        if request.once:
            self._answered[kind] = answer
        return answer

    def _check(self, request: Request, answer: Any) -> None:
        """Raise an error if A holds NaN or inf, for then the answer does too.

        The arguments of the request may be infinite as well, or the answer may overflow: that is no error of A.
        """
        if not request.reads:
            return
        array = _numbers(answer)
        # Test the sum of squares, which is not finite if an entry is not: one read, and no temporary array.
        if math.isfinite(np.vdot(array, array)) or np.isfinite(array).all():
            return
        if not all(np.isfinite(part).all() for part in request.arguments() if _is_float(part)):
            return
        # Ask again at scale one, where nothing overflows.
        if not np.isfinite(_numbers(_at_scale_one(request).answer(self.A, self.n_threads))).all():
            raise ValueError("`A` must be finite, got NaN or inf.")


def _own(answer: Any) -> Any:
    """The answer as arrays that a solver may write to: those of a user's own kind of measurements may be read-only."""
    if type(answer) is tuple:
        return tuple(_own(part) for part in answer)
    return answer.copy("K") if isinstance(answer, np.ndarray) and not answer.flags.writeable else answer


def _numbers(answer: Any) -> Any:
    """An array that is finite only if the answer is: the first of several, the entries of a sparse one."""
    first = answer[0] if type(answer) is tuple else answer
    return first if isinstance(first, np.ndarray) else first.data


def _is_float(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "f"


def _at_scale_one(request: Request) -> Request:
    """The request with each of its float arrays divided by its largest entry."""
    parts = [part / np.abs(part).max() if _is_float(part) and part.any() else part for part in request.arguments()]
    return type(request)(*parts)


class Watch(Bar):
    """The bar of some runs; with a budget, it shows how much of it is used."""

    def __init__(self, runs: list[Run]) -> None:
        limits = runs[0].limits if runs else None
        label = f"solve ({runs[0].method})" if runs else "solve"
        if limits is not None and limits.max_passes is not None:
            super().__init__(label, limits.max_passes, " passes")
        elif limits is not None and limits.max_time is not None:
            super().__init__(label, limits.max_time, " s")
        elif limits is not None and limits.max_iter is not None:
            super().__init__(label, limits.max_iter, " steps")
        else:
            super().__init__(label, unit=" passes")

    def look(self, runs: list[Run]) -> None:
        """Show how far these runs are."""
        if not self.shown:
            return
        # Show the run that is furthest behind: the others wait for it.
        run = min(runs, key=lambda run: (run.solution is not None, run.n_iter))
        unit = self.unit
        self.reach(run.elapsed if unit == " s" else run.n_iter if unit == " steps" else run.n_passes, _notes(run, runs))


def _notes(run: Run, runs: list[Run]) -> str:
    done = sum(other.solution is not None for other in runs)
    said = [f"{done}/{len(runs)} signals"] if len(runs) > 1 else []
    if run.best is not None:
        said.append(f"residual {run.best.residual:.1e}")
    if run.stage:
        said.append(run.stage)
    return ", ".join(said)
