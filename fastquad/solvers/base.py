"""The interface of a solver: its options, and a generator of steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from fastquad import arguments
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Steps

S = TypeVar("S", bound=type)
#: The multiple of the first residual at which a method of gradient steps has diverged: a third of it, or three times as
#: much, changes no test.
DIVERGED = 1e6


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def options(cls: S) -> S:
    """Make a solver class a frozen dataclass of keyword options; an unknown option's error names the nearest."""
    made: Any = dataclass(frozen=True, kw_only=True)(cls)
    known = [each.name for each in fields(made)]
    plain = made.__init__

    @wraps(plain)
    def init(self: Any, *args: Any, **given: Any) -> None:
        if args:
            raise TypeError(f"{cls.__name__} takes its options by name ({', '.join(known)}), got {args[0]!r}.")
        for option in given:
            if option not in known:
                raise TypeError(f"{cls.__name__} has no option `{option}`{arguments.nearest(option, known)}")
        plain(self, **given)

    made.__init__ = init
    return cast(S, made)


class Solver(ABC):
    """A method: a frozen dataclass of its options. State lives in the generator that `steps` returns.

    Examples
    --------
    >>> import fastquad as fq
    >>> method = fq.TWF(beta=0.5)
    >>> isinstance(method, fq.methods.Solver), method.name, method.beta
    (True, 'twf', 0.5)
    """

    #: The name under which `solve(method=...)` knows it.
    name: ClassVar[str]
    #: The kinds of prior it works with; no prior at all counts as "sparse".
    priors: ClassVar[tuple[str, ...]] = ("sparse",)
    #: The traits of a prior that it uses (see `Prior.traits`); the others are refused.
    uses: ClassVar[frozenset[str]] = frozenset()
    #: Whether it uses a support that the prior knows.
    uses_support: ClassVar[bool] = False
    #: Whether it uses values of x that are known.
    uses_fixed: ClassVar[bool] = False
    #: The largest number of steps, unless `solve` is given `max_iter`.
    max_iter: ClassVar[int | None] = None

    def uses_blas(self, prior: Any) -> bool:
        """Whether BLAS may use its threads, because most work is in matrices of its own, such as a decoder's."""
        return "generative" in self.priors

    @abstractmethod
    def steps(self, problem: Problem) -> Steps:
        """The method as a generator: see `fastquad.engine.driver`."""


def negligible_step(tol: float) -> float:
    """The length of a step, relative to x, below which a method stagnates: 1e-10 at the default tolerance.

    A hundredth of the tolerance, because a method may still converge by steps far shorter than the remaining distance;
    and at least rounding.
    """
    return max(0.01 * tol, 1e-16)
