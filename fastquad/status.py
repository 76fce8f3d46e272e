"""Why a solve stopped, and what that means: the statuses, each with its sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Status(StrEnum):
    """Why a solve stopped. A member equals its name as a string; its `sentence` says what that means.

    `Solution.message` begins with the sentence, and ends with what to do about it in that call.

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.Status.EXACT.success, fq.Status.MAX_TIME.success
    (True, False)
    >>> fq.Status.EXACT == "EXACT", fq.Status.EXACT
    (True, <Status.EXACT>)
    >>> fq.Status.MAX_TIME.sentence
    'Out of time.'
    """

    #: What happened, and what it means.
    sentence: str
    #: Whether the answer can be trusted; never so when a budget ended the solve.
    success: bool

    def __new__(cls, name: str, sentence: str, success: bool = False) -> Self:
        """A member that is the string `name`."""
        member = str.__new__(cls, name)
        member._value_, member.sentence, member.success = name, sentence, success
        return member

    def __repr__(self) -> str:
        return f"<Status.{self.name}>"

    PROVEN = (
        "PROVEN",
        "Proven: x fits every measurement to rounding, and a proof shows that no other signal does, up to sign.",
        True,
    )
    EXACT = (
        "EXACT",
        "Exact: x fits every measurement to rounding. It has fewer free coordinates than there are independent "
        "measurements, and no other signal was found that fits. So x is certified, up to sign.",
        True,
    )
    EXACT_FOR_MOST = (
        "EXACT_FOR_MOST",
        "Exact but for outliers: x fits more than half of the measurements to rounding, which chance does not explain. "
        "If these measurements are right, x is certified, up to sign.",
        True,
    )
    CONVERGED = (
        "CONVERGED",
        "Converged: the method reached its stopping test, and no other signal was found that fits as well.",
        True,
    )
    UNDETERMINED = (
        "UNDETERMINED",
        "Undetermined: x fits, but many other signals fit as well. There are no more measurements than free "
        "coordinates of x, or the measurements leave some of its directions free.",
    )
    UNDECIDED = (
        "UNDECIDED",
        "Undecided: x fits, and no other signal was found that fits, but the evidence does not rule one out.",
    )
    AMBIGUOUS = (
        "AMBIGUOUS",
        "Ambiguous: another signal fits as well as x, or may do so, because of the structure of A or because noise "
        "hides the difference.",
    )
    NOISY = (
        "NOISY",
        "Noisy: x is the best estimate, but its `error` is too large to call it a success.",
    )
    STAGNATED = (
        "STAGNATED",
        "Stagnated: the method has nothing left to try, and x does not explain the measurements.",
    )
    EMPTY_SUPPORT = (
        "EMPTY_SUPPORT",
        "Stagnated, from a poor start: no coordinate passed the support test.",
    )
    MAX_ITER = (
        "MAX_ITER",
        "Out of iterations.",
    )
    MAX_PASSES = (
        "MAX_PASSES",
        "Out of passes over A.",
    )
    MAX_TIME = (
        "MAX_TIME",
        "Out of time.",
    )
    DIVERGED = (
        "DIVERGED",
        "Diverged: the iterates grew without bound.",
    )
    STOPPED = (
        "STOPPED",
        "Stopped before its end, by the callback or by Ctrl-C.",
    )
    TRIVIAL = (
        "TRIVIAL",
        "Every measurement is zero: x = 0 explains them, and no other signal was found that does.",
        True,
    )


#: How the last sentence of a message begins, the one on what to do.
HELP, RAISE, GO_ON = "What may help:", "Raise `", "To go on,"


def noted(message: str, note: str) -> str:
    """A message with a further sentence, before the one on what to do."""
    at = max(message.rfind(f" {start}") for start in (HELP, RAISE, GO_ON))
    parts = (message, note) if at < 0 else (message[:at], note, message[at + 1 :])
    return " ".join(filter(None, parts))
