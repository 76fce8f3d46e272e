"""What a solver is: hyper-parameters, and a generator of steps."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastquad import checks
from fastquad.measurements.base import Float
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.solvers.driver import Steps


@dataclass(frozen=True)
class Problem:
    """One signal's data, as the front door hands it to a solver: everything is checked, y is not all zero."""

    m: int
    n: int
    y: Float
    dtype: np.dtype
    prior: Prior | None
    x0: Float | None
    norm: float | None
    noise: float | None
    tol: float
    rng: np.random.Generator
    #: The budget for the whole solve, in bytes: see `fastquad.memory`.
    memory: int
    #: A snapshot to go on from, of those that this method gives.
    resume: dict[str, Any] | None = None

    @property
    def phi(self) -> float:
        """‖x‖: as given, or estimated by `(mean y²)^(1/4)`."""
        return self.norm if self.norm is not None else float(np.mean(self.y**2)) ** 0.25

    @property
    def support(self) -> NDArray[np.intp] | None:
        """The coordinates outside of which x is known to be zero, in ascending order."""
        return self.prior.support if isinstance(self.prior, Sparse) else None

    @property
    def k(self) -> int | None:
        """How many coordinates are known to be nonzero."""
        return self.prior.k if isinstance(self.prior, Sparse) else None


class _Signature:
    """The signature of a solver is that of its options; without this, `__new__` would hide it."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        signature = inspect.signature(owner.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Solver(ABC):
    """A method: a frozen dataclass of its options. State lives in the generator that `steps` returns."""

    #: The name under which `solve(method=...)` knows it.
    name: ClassVar[str]
    #: The kinds of prior it works with; no prior at all counts as "sparse".
    priors: ClassVar[tuple[str, ...]] = ("sparse",)
    #: Whether it uses a support that the prior knows.
    uses_support: ClassVar[bool] = False
    #: Whether it looks at A's entries itself before it calls an answer exact.
    certifies: ClassVar[bool] = False
    #: Where `solve` is given no `max_iter`.
    max_iter: ClassVar[int | None] = None

    __signature__ = _Signature()

    def __new__(cls, *args: Any, **options: Any) -> Solver:
        """Refuse an option that does not exist, with the nearest one that does."""
        known = [field.name for field in fields(cls)] if options or args else []  # type: ignore[arg-type]
        if args:
            raise TypeError(f"{cls.__name__} takes its options by name ({', '.join(known)}), got {args[0]!r}.")
        for option in options:
            if option not in known:
                raise TypeError(f"{cls.__name__} has no option `{option}`{checks.nearest(option, known)}")
        return super().__new__(cls)

    def uses_blas(self, prior: Any) -> bool:
        """Whether most of the work is in matrices of its own, for which BLAS may have its threads: a decoder's."""
        return "generative" in self.priors

    @abstractmethod
    def steps(self, problem: Problem) -> Steps:
        """The method as a generator: see `fastquad.solvers.driver`."""


def negligible_step(tol: float) -> float:
    """The length of a step, relative to x, below which a method stagnates: 1e-10 at the default tolerance.

    A hundredth of the tolerance, for a method may still get there by steps far shorter than the way that is left; and
    no less than rounding.
    """
    return max(0.01 * tol, 1e-16)
