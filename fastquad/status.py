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
        "Proven: x fits every measurement to rounding, and a proof that can be checked again says that no other signal "
        "does, up to sign.",
        True,
    )
    EXACT = (
        "EXACT",
        "Exact: x fits every measurement to rounding, with fewer free coordinates than independent measurements, and A "
        "has no structure that lets another signal fit, so x is certified up to sign.",
        True,
    )
    EXACT_FOR_MOST = (
        "EXACT_FOR_MOST",
        "Exact but for outliers: x fits more than half of the measurements to rounding, more than chance could "
        "explain, so that it is certified up to sign if these are sound.",
        True,
    )
    CONVERGED = (
        "CONVERGED",
        "Converged: the stopping test of the method was met, and no other signal was found that fits.",
        True,
    )
    UNDETERMINED = (
        "UNDETERMINED",
        "Undetermined: x fits, but it has at least as many free coordinates as there are measurements, or the "
        "measurements leave some directions of it free, so that many signals fit as well.",
    )
    UNDECIDED = (
        "UNDECIDED",
        "Undecided: x fits, and no other signal was found that does, but the evidence falls short of ruling one out.",
    )
    AMBIGUOUS = (
        "AMBIGUOUS",
        "Ambiguous: another signal fits as well as x, because of the structure of A or because noise hides the "
        "difference.",
    )
    NOISY = (
        "NOISY",
        "Noisy: x was found, but the data are too noisy to call it a success; `error` says how far off it may be.",
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
        "Every measurement is zero: x = 0 explains them, and nothing shows another signal that does.",
        True,
    )
