"""What the stages of one solve share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.solvers.parts.descent import Fit, GrowingBlock


@dataclass
class BaseDesk:
    """The desk that the stages of a solve work at: what is known of A, and the best fit so far."""

    problem: Problem
    entries: Entries = field(default_factory=Entries)
    best: Fit | None = None
    best_method: str = "amp"

    def __post_init__(self) -> None:
        self.cache = GrowingBlock.within(self.problem)

    def remember(self, found: Fit, method: str) -> None:
        """Keep a fit that did not end the solve, if it is the best so far."""
        if self.best is None or found.residual < self.best.residual:
            self.best, self.best_method = found, method
