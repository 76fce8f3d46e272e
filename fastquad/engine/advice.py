"""What to try next: the last sentence of a message. Only what is possible in the call, and was not done in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastquad.status import GO_ON, HELP, RAISE, Status


class Call(NamedTuple):
    """What advice depends on."""

    #: The method that was asked for, "auto" if none was.
    method: str = "auto"
    #: Whether these were given.
    prior: bool = False
    x0: bool = False
    noise: bool = False
    norm: bool = False
    outliers: bool = False
    #: Whether the answer is no zero, so that a solve can start from it.
    found: bool = True
    #: Whether y may be amplitudes: A makes intensities, no y is negative, and x does not fit them.
    intensities: bool = False


class _Way(NamedTuple):
    """One way on, and when it is open."""

    text: str
    open: Callable[[Call], bool] = lambda call: True


_AUTO = _Way("method='auto'", lambda call: call.method != "auto")
_PRIOR = _Way("what is known of x (`prior`)", lambda call: not call.prior)
_NORM = _Way("the norm of x, if it is known (`norm`)", lambda call: not call.norm)
_NOISE = _Way("the level of the noise, if it is known (`noise`)", lambda call: not call.noise)
_START = _Way("an initial guess near x (`x0`)", lambda call: not call.x0)
_SQUARES = _Way("the squares of y, if y are amplitudes |a_i^* x|", lambda call: call.intensities)
_MORE = _Way("more measurements")
_OUTLIERS = _Way(
    "outliers=True, if some of y may be wrong",
    lambda call: not call.outliers and call.method in ("auto", "lm", "amp"),
)

#: The ways that may help, by status.
WAYS: dict[Status, tuple[_Way, ...]] = {
    Status.UNDETERMINED: (_MORE, _AUTO, _PRIOR),
    Status.UNDECIDED: (_SQUARES, _MORE, _PRIOR, _NORM),
    Status.AMBIGUOUS: (_SQUARES, _Way("more measurements, of another structure"), _PRIOR),
    Status.NOISY: (_SQUARES, _Way("more measurements, or less noisy ones"), _PRIOR, _NOISE, _OUTLIERS),
    Status.STAGNATED: (
        _AUTO,
        _SQUARES,
        _MORE,
        _PRIOR,
        _START,
        _NOISE,
        _Way("a call without `noise`, which estimates it, if it may be larger than given", lambda call: call.noise),
        _OUTLIERS,
    ),
    Status.EMPTY_SUPPORT: (_Way("a smaller `alpha`"), _Way("start='full'"), _START, _AUTO),
    Status.DIVERGED: (
        _Way("a smaller step", lambda call: call.method in ("twf", "wf", "spf", "sgn", "pgd")),
        _Way("another start", lambda call: call.x0),
        _AUTO,
        _Way("y and A in other units", lambda call: call.method == "auto"),
    ),
}
#: The budget that ended a solve, by status.
BUDGETS = {Status.MAX_ITER: "max_iter", Status.MAX_PASSES: "max_passes", Status.MAX_TIME: "max_time"}


def advice(status: Status, call: Call) -> str:
    """The sentence on what to do about a status; empty if there is nothing to do."""
    on = "start from this answer with x0=solution.x"
    if status in BUDGETS:
        return f"{RAISE}{BUDGETS[status]}`{f', or {on}' if call.found else ''}."
    if status is Status.STOPPED:
        return f"{GO_ON} {on}." if call.found else ""
    ways = [way.text for way in WAYS.get(status, ()) if way.open(call)]
    return f"{HELP} {'; '.join(ways)}." if ways else ""
