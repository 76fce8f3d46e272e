"""What a solver yields beside its requests, and what it returns.

    W = yield Products(x)                    a request: the driver sends the answer
    yield Step(x, residual)                  one step is done
    yield Belief(x, residual, error=0.1)     the best estimate so far, if that is not the iterate that fits best
    yield Note("...")                        something for the message
    yield Stage("pursuit")                   what comes next, for the progress bar
    return Outcome(x, residual, End.CONVERGED)

A solver says why it ended; the verdict decides what that is worth (see `fastquad.engine.verdict`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from fastquad.engine.requests import Request
from fastquad.status import Status
from fastquad.typing import Float, Indices

if TYPE_CHECKING:
    from fastquad.engine.entries import Entries
    from fastquad.engine.trust.answer import Known
    from fastquad.noise import Noise

#: Relative residual below which an answer is exact, if it has fewer free coordinates than measurements.
EXACT_RESIDUAL = 1e-9


class End(Enum):
    """Why a method ended: what it claims of its answer, or what stopped it."""

    #: The stopping test of the method was met.
    CONVERGED = auto()
    #: More measurements fit to rounding than chance could explain, and the others contradict x.
    AGREES = auto()
    #: The signal was found, but the noise leaves more of it open than a success allows.
    NOISY = auto()
    #: The method has nothing left to try.
    STAGNATED = auto()
    #: The method has nothing left to try, and at its start no coordinate had passed the support test.
    EMPTY_SUPPORT = auto()
    #: The iterates grew without bound.
    DIVERGED = auto()
    #: All signals of a kind were searched: x fits, and so does `rival`, or a `proof` says that no other does.
    ENUMERATED = auto()
    #: Every measurement is zero.
    ZERO = auto()
    MAX_ITER = auto()
    MAX_PASSES = auto()
    MAX_TIME = auto()
    #: The callback stopped it.
    STOPPED = auto()


class Step(NamedTuple):
    """One step is done: the iterate, and ‖r‖/‖y‖ there."""

    x: Float
    residual: float


class Belief(NamedTuple):
    """The best estimate so far, returned in place of the best iterate if something stops the method.

    For methods that estimate: under noise the iterate with the smallest residual is not the one nearest to x. `error`
    is the relative distance to x that they expect, `noise` the standard deviation of the noise, `stderr` (n,) the
    standard errors of x.
    """

    x: Float
    residual: float
    error: float | None = None
    noise: float | None = None
    stderr: Float | None = None


class Note(NamedTuple):
    """A remark for the user, added to the message however the solve ends."""

    text: str


class Stage(NamedTuple):
    """The stage that the method enters, for the progress bar and the log."""

    name: str


class Snapshot(NamedTuple):
    """A state that the method can resume from without the answers so far: numbers and arrays by name.

    It is yielded right before a request. A generator made with it as `Problem.resume` must make that request first.
    """

    state: dict[str, Any]


@dataclass
class Outcome:
    """How a solve ended: the answer, and what is claimed of it.

    `free` counts the free coordinates of x (default: its nonzeros). `noise`, `error`, `stderr` and `outliers` are those
    of `Solution`, if the method estimates them. `note` is added to the message. `method` names the stage that found x.
    `rival` is another signal that fits as well, and `proof` what a proof rests on: see `Solution`.
    `second` is the power of another signal that seems to be measured with x, as a share. `entries` is what the method
    has seen of A's entries, and `known` what it has read for x, so that the verdict need not read it again.
    """

    x: Float
    residual: float
    end: End = End.STAGNATED
    free: int | None = None
    note: str = ""
    noise: float | None = None
    error: float | None = None
    stderr: Float | None = None
    outliers: Indices | None = None
    rival: Float | None = None
    proof: Any = None
    second: float = 0.0
    #: The model of the noise, with what was learnt.
    model: Noise | None = None
    method: str | None = None
    entries: Entries | None = None
    known: Known | None = None
    #: The normal equations of a method that works by the verbs of the Jacobian: see `fastquad.engine.verbs`.
    normals: Any = None

    def noted(self, note: str, **changes: Any) -> Self:
        """The outcome with a sentence more."""
        return replace(self, note=f"{self.note} {note}".strip(), **changes)


class Verdict(NamedTuple):
    """The status, and the outcome with the additions of the verdict."""

    status: Status
    outcome: Outcome


Steps = Generator[Request | Step | Belief | Note | Stage | Snapshot, Any, Outcome]


class State(NamedTuple):
    """What a callback sees after a step.

    Attributes
    ----------
    x : array of shape (n,)
        The iterate.
    n_iter : int
        Steps so far.
    n_passes : float
        Passes over A so far.
    residual : float
        `‖r‖/‖y‖` at x.
    signal : int or None
        Which signal of a batch.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> seen = []
    >>> solution = fq.solve(problem.A, problem.y, callback=lambda state: seen.append(state.residual))
    >>> len(seen) == solution.n_iter
    True
    """

    x: Float
    n_iter: int
    n_passes: float
    residual: float
    #: Which signal of a batch.
    signal: int | None = None
