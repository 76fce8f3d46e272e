"""What the user gave to `solve`, and the interface of a reduction, which says it as another problem."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.noise import as_noise
from fastquad.solution import Solution
from fastquad.system.memory import budget
from fastquad.typing import Float


@dataclass(frozen=True)
class Given:
    """The arguments of `solve`: those of the user, or what a reduction made of them."""

    A: Any
    y: Any
    prior: Any = None
    method: Any = "auto"
    signal: str | None = None
    x0: Any = None
    norm: Any = None
    noise: Any = None
    outliers: bool = False
    tol: float = 1e-8
    max_iter: int | None = None
    max_passes: float | None = None
    max_time: float | None = None
    callback: Callable[[Any], object] | None = None
    x_true: Any = None
    memory: int | str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    n_threads: int | None = None
    rng: Any = None
    verbose: int = 0

    @property
    def automatic(self) -> bool:
        """Whether the default method was asked for."""
        return isinstance(self.method, str) and self.method == "auto"

    @property
    def room(self) -> int:
        """The memory budget in bytes."""
        return self.A.memory or budget(self.memory)

    def data(self) -> Float:
        """y as one row a signal, checked."""
        return arguments.data(self.y, self.A.m)[0]

    def with_data(self, A: Any, Y: Float, **changes: Any) -> Given:
        """The same with other measurements, and data with one row a signal."""
        return replace(self, A=A, y=Y if np.ndim(self.y) > 1 else Y[0], **changes)

    def with_callback(self, seen: Callable[[Any], Any]) -> Given:
        """The same with a callback that sees the state as `seen` makes it; what is no function is refused by solve."""
        callback = self.callback
        if callback is None or not callable(callback):
            return self
        return replace(self, callback=lambda state: callback(seen(state)))

    def with_noise(self, change: Callable[[Any], Any], m: int | None = None) -> Given:
        """The same with the noise of m measurements changed, if it is given."""
        if self.noise is None:
            return self
        return replace(self, noise=change(as_noise(self.noise, self.A.m if m is None else m)))


class Reduction(ABC):
    """A problem said as another one; an object serves one call of `solve`."""

    @abstractmethod
    def problem(self, given: Given) -> Given | None:
        """What is solved; None where it is what was given."""

    @abstractmethod
    def solution(self, found: Solution, i: int) -> Solution:
        """The answer for the i-th signal, as of what was given."""
