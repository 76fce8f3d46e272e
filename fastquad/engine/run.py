"""The solve of one signal: what its solver reports, its budgets, and its solution."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastquad.engine.advice import Call, advice
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Request
from fastquad.engine.steps import Belief, End, Note, Outcome, Snapshot, Stage, State, Step, Steps, Verdict
from fastquad.engine.verdict import TRUSTED, judge
from fastquad.solution import Solution, distance
from fastquad.status import Status
from fastquad.system import progress
from fastquad.system.deadline import OutOfTime, hold_to
from fastquad.typing import Asks, Float

_log = logging.getLogger("fastquad")

# The statuses after which a search without the prior may find more.
_NOT_FOUND = (Status.STAGNATED, Status.DIVERGED, Status.EMPTY_SUPPORT, Status.NOISY)
NOT_READ = "The residual of x is not known: nothing of A was read for it."
NOT_JUDGED = "The method had ended with this x, but the verdict on it needs more passes or time than were left."
# How long a verdict may take beyond `max_time`: so many seconds, or this share of it.
_GRACE, _SHARE = 1.0, 0.25


@dataclass(frozen=True)
class Limits:
    """When to stop, apart from the method's own test, and how much to print."""

    max_iter: int | None = None
    max_passes: float | None = None
    max_time: float | None = None
    callback: Callable[[State], object] | None = None
    verbose: int = 0


class Run:
    """One signal's generator, what it asks for now, and what it has reported.

    When the method has ended or was stopped, the verdict takes its place. It is a generator too: its requests are
    answered in the same way, and `max_passes` bounds them too.
    """

    def __init__(
        self,
        problem: Problem,
        steps: Steps,
        method: str,
        limits: Limits,
        *,
        x_true: Float | None = None,
        signal: int | None = None,
        call: Call | None = None,
        without_prior: Callable[[], tuple[Problem, Steps]] | None = None,
    ) -> None:
        self.problem, self.method, self.limits, self.x_true, self.signal = problem, method, limits, x_true, signal
        self.steps: Steps | Asks[Verdict] = steps
        #: What was said of x.
        self.asked = problem
        #: What was asked for, for the advice at the end.
        self.call = call or Call(method)
        #: The same search without the prior, which is made if nothing is found with it.
        self.without_prior = without_prior
        #: What was found with the prior, and the notes on it, during that search.
        self.with_prior: tuple[Verdict, list[str]] | None = None
        self.start = time.perf_counter()
        #: Seconds that earlier calls took, if the solve was resumed from a checkpoint.
        self.earlier = 0.0
        self.n_iter = 0
        self.n_passes = 0.0
        self.best: Step | None = None
        self.belief: Belief | None = None
        self.log: list[tuple[float, ...]] = []
        self.notes: list[str] = []
        self.stage = ""
        self.request: Request | None = None
        #: What the method can resume from, until it gets the next answer.
        self.snapshot: dict[str, Any] | None = None
        self.spent: End | None = None
        #: What the method ended with, once the verdict has taken over.
        self.outcome: Outcome | None = None
        self.ended = -math.inf
        self.solution: Solution | None = None

    def send(self, answer: Any) -> None:
        """Send an answer, and run until the next request or the end."""
        self.snapshot = None
        waiting = False
        while not waiting and self.solution is None:
            hold_to(self.deadline)
            try:
                item = self.steps.send(answer)
            except OutOfTime:
                self.stop(End.MAX_TIME)
                return
            except StopIteration as end:
                if isinstance(end.value, Verdict):
                    self._conclude(end.value)
                else:
                    self._judge(end.value)
                return
            answer = None
            waiting = self._take(item)

    def _take(self, item: Request | Step | Belief | Note | Stage | Snapshot) -> bool:
        """Take what the solver yields; returns whether it now waits for an answer or was stopped."""
        if isinstance(item, Note):
            self.notes.append(item.text)
            return False
        if isinstance(item, Stage):
            self.stage = item.name
            _log.info("stage: %s", item.name)
            return False
        if isinstance(item, Snapshot):
            self.snapshot = item.state
            return False
        if isinstance(item, Belief):
            self.belief = item
            return False
        if self.spent is not None and self.outcome is None:
            # Stop it only now that it asks for more: after its last step it had the chance to end by itself.
            self.stop(self.spent)
            return True
        if isinstance(item, Step):
            self._record(item)
            return self.solution is not None or self.outcome is not None
        self.request = item
        return True

    def stop(self, end: End) -> None:
        """End here, with the method's belief or else the best iterate so far; before the first one, with the start."""
        self.steps.close()
        if self.with_prior is not None:
            (_, outcome), self.notes = self.with_prior
            self.with_prior = None
            self._conclude(Verdict(Status[end.name], outcome))
        elif self.outcome is not None:
            note = f"{self.outcome.note} {NOT_JUDGED}".strip()
            self._conclude(Verdict(Status[end.name], replace(self.outcome, note=note)))
        elif self.belief is not None:
            self._judge(Outcome(end=end, **self.belief._asdict()))
        elif self.best is not None:
            self._judge(Outcome(self.best.x, self.best.residual, end))
        else:
            x0 = self.problem.x0
            x = self.problem.completed(np.zeros(self.problem.n) if x0 is None else x0)
            self._conclude(Verdict(Status[end.name], Outcome(x, math.nan if x.any() else 1.0, end)))

    def interrupt(self) -> None:
        """End at once, with the best so far, and read nothing more of A."""
        if self.solution is None:
            self.without_prior = None
            if self.outcome is None or self.with_prior is not None:
                self.stop(End.STOPPED)
            else:
                self._conclude(Verdict(Status.STOPPED, self.outcome))

    def _judge(self, outcome: Outcome) -> None:
        """Let the verdict take over."""
        if not np.isfinite(outcome.x).all():
            outcome = Outcome(np.zeros_like(outcome.x), 1.0, End.DIVERGED)
        if outcome.end is End.DIVERGED and self.best is not None:
            outcome = replace(outcome, x=self.best.x, residual=self.best.residual)
        self.outcome, self.ended = outcome, time.perf_counter()
        self.steps = judge(self.problem, outcome)
        self.send(None)

    @property
    def elapsed(self) -> float:
        """Seconds since the solve began, without those between two calls that share a checkpoint."""
        return self.earlier + time.perf_counter() - self.start

    def set_clock(self, elapsed: float) -> None:
        """Set the clock forward to `elapsed` seconds, never back."""
        self.earlier += max(0.0, elapsed - self.elapsed)

    def state(self) -> dict[str, Any]:
        """The state for `restore`, as plain data."""
        return {
            "n_iter": self.n_iter, "n_passes": self.n_passes, "log": np.array(self.log, dtype=np.float64),
            "notes": list(self.notes), "elapsed": self.elapsed,
            "best": None if self.best is None else tuple(self.best),
            "belief": None if self.belief is None else tuple(self.belief),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state that an earlier call reported."""
        self.n_iter, self.n_passes, self.notes = state["n_iter"], state["n_passes"], state["notes"]
        self.log = [tuple(entry) for entry in state["log"].tolist()]
        self.best = None if state["best"] is None else Step(*state["best"])
        self.belief = None if state["belief"] is None else Belief(*state["belief"])
        self.set_clock(state["elapsed"])

    def overspent(self, cost: float) -> End | None:
        """The budget that an answer of this cost would exceed."""
        limits = self.limits
        if limits.max_passes is not None and cost and self.n_passes + cost > limits.max_passes * (1 + 1e-9):
            return End.MAX_PASSES
        # Time ends the search after its first step, and the verdict when that has had its own.
        if self.outcome is not None:
            return End.MAX_TIME if time.perf_counter() >= self.deadline else None
        if self.best is None or limits.max_time is None:
            return None
        return End.MAX_TIME if time.perf_counter() - self.start >= limits.max_time else None

    @property
    def deadline(self) -> float:
        """When what runs now must end, as `time.perf_counter()` counts: the verdict gets a little time in any case."""
        most = self.limits.max_time
        if most is None or (self.best is None and self.outcome is None):
            return math.inf
        ended = self.start + most if self.outcome is None else max(self.start + most, self.ended)
        return ended + max(_GRACE, _SHARE * most)

    def _record(self, step: Step) -> None:
        elapsed = self.elapsed
        self.n_iter += 1
        # A sum of squares is not finite if an entry is not: quicker to see than each of them.
        if not (math.isfinite(np.vdot(step.x, step.x)) or np.isfinite(step.x).all()):
            # No answer: the one before, or zero, which leaves all of y.
            self.best = self.best or Step(np.zeros_like(step.x), 1.0)
        elif self.best is None or step.residual < self.best.residual or math.isnan(self.best.residual):
            self.best = step
        if self.x_true is None:
            self.log.append((step.residual, self.n_passes, elapsed))
        else:
            self.log.append((step.residual, self.n_passes, elapsed, self._distance(step.x, self.x_true)))
        limits = self.limits
        aloud = limits.verbose > 1 or (limits.verbose > 0 and _is_round(self.n_iter))
        if aloud or _log.isEnabledFor(logging.DEBUG):
            line = f"step {self.n_iter}: residual {step.residual:.3e}, {self.n_passes:.4g} passes, {elapsed:.2f} s"
            self._say(line, logging.DEBUG, aloud)
        if limits.callback is not None and limits.callback(self._state(step)):
            self.stop(End.STOPPED)
        elif not math.isfinite(step.residual):
            self.stop(End.DIVERGED)
        elif limits.max_iter is not None and self.n_iter >= limits.max_iter:
            self.spent = End.MAX_ITER
        elif limits.max_time is not None and time.perf_counter() - self.start >= limits.max_time:
            self.spent = End.MAX_TIME

    def _distance(self, x_hat: Float, x: Float) -> float:
        """`min_± ‖x_hat ∓ x‖/‖x‖`, or `‖x_hat − x‖/‖x‖` if a known value tells the sign."""
        if self.problem.turning:
            both = self.problem.gauge != "phase"
            return distance(x_hat.view(np.complex128), x.view(np.complex128), conjugation=both)
        scale, nearest = np.linalg.norm(x), np.linalg.norm(x_hat - x)
        if not any(self.problem.fixed.values()):
            nearest = min(nearest, np.linalg.norm(x_hat + x))
        if scale == 0:
            return 0.0 if nearest == 0 else math.inf
        return float(nearest / scale)

    def _state(self, step: Step) -> State:
        """What the callback sees; it cannot write to the iterate."""
        x = step.x.view()
        x.flags.writeable = False
        return State(x, self.n_iter, self.n_passes, step.residual, self.signal)

    def _conclude(self, verdict: Verdict) -> None:
        """Make the solution of a verdict; if nothing is found with a prior, search without it first."""
        if self.without_prior is not None and verdict.status in _NOT_FOUND:
            self.with_prior, self.notes = (verdict, self.notes), []
            self.problem, self.steps = self.without_prior()
            self.without_prior, self.outcome, self.belief, self.spent = None, None, None, None
            self.send(None)
            return
        if self.with_prior is not None:
            verdict = self._better(*self.with_prior, verdict)
        status, outcome = verdict
        x = np.array(outcome.x, dtype=np.float64)
        names = ("residual", "n_passes", "elapsed", "distance")[: 3 if self.x_true is None else 4]
        log = np.array(self.log, dtype=np.float64).reshape(len(self.log), len(names))
        self.request = None
        share = None if outcome.outliers is None else outcome.outliers.size / self.problem.m
        # An error above one says that x tells no more than zero would, whose error is one.
        error = None if outcome.error is None or math.isnan(outcome.error) else min(float(outcome.error), 1.0)
        model = outcome.model or self.problem.noise.with_level(outcome.noise, share)
        self.solution = Solution(
            x=x, status=status, success=status.success,
            message=self._message(status, outcome),
            method=outcome.method or self.method, n_iter=self.n_iter, n_passes=self.n_passes,
            residual=math.inf if math.isnan(outcome.residual) else float(outcome.residual),
            support=np.flatnonzero(x), noise=outcome.noise, stderr=outcome.stderr,
            error=error, outliers=outcome.outliers, history=dict(zip(names, log.T.copy(), strict=True)),
            elapsed=self.elapsed, rival=outcome.rival, proof=outcome.proof, gauge=self.problem.gauge,
            noise_model=model.bare if model.given else None,
        )  # fmt: skip
        if self.limits.verbose or _log.isEnabledFor(logging.INFO):
            line = (
                f"{self.solution.method}: {status.name.lower()} after {self.n_iter} steps, {self.n_passes:.4g} passes, "
                f"{self.solution.elapsed:.2f} s; residual {self.solution.residual:.3e}, "
                f"{self.solution.support.size} nonzeros"
            )
            self._say(line, logging.INFO, self.limits.verbose > 0)

    def _message(self, status: Status, outcome: Outcome) -> str:
        """What happened, why, and what may help."""
        unread = math.isnan(outcome.residual) and self.best is None
        residual = NOT_READ if unread else f"The relative residual is {outcome.residual:.1e}."
        rival = "`rival` is another signal that fits." if outcome.rival is not None else ""
        squares = self.call.intensities and outcome.residual > self.problem.tol
        call = self.call._replace(found=bool(outcome.x.any()), intensities=squares)
        told = "" if status.success else advice(status, call)
        said = [status.sentence, residual, *self.notes, outcome.note, rival, told]
        return " ".join(filter(None, said))

    def _better(self, told: Verdict, notes: list[str], free: Verdict) -> Verdict:
        """The verdict with the prior or that without it, whichever found a signal, with a note on the other."""
        # Of two that found none keep what the user asked for, unless x = 0 fits better.
        if not free.status.success and not (free.outcome.residual < 1 < told.outcome.residual):
            self.notes = [*notes, "A search without `prior` found nothing either."]
            outcome = told.outcome
            # A small error of an answer that does not fit is the prior's alone.
            vouched = told.status is not Status.NOISY or outcome.error is None or outcome.error >= TRUSTED
            return told if vouched else Verdict(told.status, replace(outcome, error=None, stderr=None))
        note = (
            f"With `prior` no signal was found that fits: the best one has the residual {told.outcome.residual:.1e}. "
            "This x was found without `prior`"
        )
        if free.status.success:
            alike = _as_told(self.asked, free.outcome.x)
            note += ", and agrees with it" if alike else ", and violates it: the data contradict `prior`"
        self.notes.append(f"{note}.")
        return free

    def _say(self, line: str, level: int, aloud: bool) -> None:
        """Log a line, and print it on stderr if `aloud`."""
        if self.signal is not None:
            line = f"signal {self.signal}: {line}"
        _log.log(level, "%s", line)
        if aloud:
            progress.write(f"fastquad: {line}")


def _as_told(problem: Problem, x: Float) -> bool:
    """Whether a signal is as the prior says: its kind, its support and its number of nonzeros."""
    nonzero = np.flatnonzero(x)
    within = problem.support is None or bool(np.isin(nonzero, problem.support).all())
    return within and (problem.k is None or nonzero.size <= problem.k) and problem.admits(x)


def _is_round(n: int) -> bool:
    """Whether n is 1, 2 or 5 times a power of ten, which keeps the log of a long run short."""
    while n % 10 == 0:
        n //= 10
    return n in (1, 2, 5)
