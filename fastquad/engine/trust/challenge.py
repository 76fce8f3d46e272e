"""Challenge an answer in noise: does Levenberg–Marquardt come back to it from other starts, or find another signal?

Where nothing is known of the entries of A, a fit in a wrong valley may leave what looks like noise. Descents from
random signals go to one valley or another. If a dozen of them come back to x, it is the valley; else many more are
made, as long as they are cheap, because the right one may attract only one start in fifty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from fastquad.engine.trust.evidence import SURE
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.typing import Float

#: The largest number of entries of a block for a look at all coordinates.
CHALLENGE_ENTRIES = 2_000_000
#: The same if entries are independent, as the method assumes.
CHALLENGE_INDEPENDENT = 300_000
#: The same if they are not: then nothing else speaks for x.
CHALLENGE_STRUCTURED = 8_000_000
#: When a descent of these stops.
CHALLENGE = Rule(max_steps=40, patience=12, bottom=1e-3)
#: The distance from x, relative to it, up to which a descent has come back to it.
APART = 0.1
#: The doubt if x is not found again.
NOT_AGAIN = "From other starts the search does not come back to x: it may be one of several."

# The number of random starts.
_FEWEST, _MOST = 16, 128
# The number of entries that all descents together read in a step, if there are more than the fewest.
_ENTRIES = 10_000_000
# How many descents should come back to x.
_RECAPTURES = 2
# The number of descents that come back to x, and none to another signal, after which it is the valley.
_ENOUGH = 12
# The evidence from which on a signal fits exactly, which is no fit of the noise: of one of 2^20.
_EXACT = 20 * math.log(2)


class Met(Enum):
    """What the descents met."""

    #: x, often enough.
    AGAIN = auto()
    #: Clearly another signal, which is as likely.
    ANOTHER = auto()
    #: A signal that is far likelier.
    BETTER = auto()
    #: Other valleys, which are not likely.
    NOTHING = auto()


def starts(entries: int) -> int:
    """How many random starts to take on a block of this many entries."""
    return int(min(max(_ENTRIES // max(entries, 1), _FEWEST), _MOST))


@dataclass
class Challenge:
    """Descents in one or more sets of coordinates, and what they met so far.

    `near` is the distance up to which one has come back to x, `better` that from which on a far likelier signal counts,
    and `exact` that of one that is likelier by more than noise could make it.
    """

    near: float
    better: float
    exact: float
    back: int = 0
    #: How far the last signal that was met is from x.
    away: float = 0.0
    #: That signal.
    found: Float | None = None
    #: The same of the farthest signal that is as likely, but is not clearly another.
    blur: float = 0.0

    @property
    def settled(self) -> bool:
        """Whether so many descents came back to x that it is the valley."""
        return self.back >= _ENOUGH

    def meet(
        self,
        descents: Iterable[tuple[float, Float]],
        away: Callable[[Float], float],
        rival: Callable[[Float], bool],
    ) -> Met:
        """Look at the ends of descents: the evidence for each signal less that for x, and the signal."""
        for gain, found in descents:
            self.found, self.away = found, away(found)
            if gain > -SURE and rival(found):
                return Met.ANOTHER
            if gain > SURE and self.away > (self.better if gain < _EXACT else self.exact):
                return Met.BETTER
            if gain > -SURE:
                self.blur = max(self.blur, self.away)
            self.back += self.away <= self.near
            if self.settled:
                return Met.AGAIN
        return Met.AGAIN if self.back >= _RECAPTURES else Met.NOTHING
