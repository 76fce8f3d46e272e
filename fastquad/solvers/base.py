"""What a solver is: hyper-parameters, and a generator of steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers.driver import Steps


@dataclass(frozen=True)
class Problem:
    """One signal's data, as the front door hands it to a solver: everything is checked, y is not all zero."""

    m: int
    n: int
    y: Float
    dtype: np.dtype
    prior: Any
    x0: Float | None
    norm: float | None
    noise: float | None
    tol: float
    rng: np.random.Generator

    @property
    def phi(self) -> float:
        """‖x‖: as given, or estimated by `(mean y²)^(1/4)`."""
        return self.norm if self.norm is not None else float(np.mean(self.y**2)) ** 0.25


class Solver(ABC):
    """A method: a frozen dataclass of its options. State lives in the generator that `steps` returns."""

    #: The name under which `solve(method=...)` knows it.
    name: ClassVar[str]

    @abstractmethod
    def steps(self, problem: Problem) -> Steps:
        """The method as a generator: see `fastquad.solvers.driver`."""
