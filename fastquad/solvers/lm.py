"""Levenberg–Marquardt on a support, or on all coordinates: see `fastquad.numerics.levenberg_marquardt`.

On a support S only `Ã_i[S, S]` matters. It is read once and kept, so further steps read nothing; if it is too large to
keep, each step asks for the products of d, which reads the rows of S.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fastquad import arguments
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome, Steps
from fastquad.measurements.contractions import Verbs
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers import matrix_free
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts.descent import fit
from fastquad.solvers.parts.noise_fit import dense_score, stationary
from fastquad.solvers.parts.spectral import spectral_start
from fastquad.typing import Asks, Float


@options
class LM(Solver):
    """Levenberg–Marquardt on a given support, or on all coordinates.

    Without a support it uses no prior. Use it for m >= 1.3 n: it takes about 7 passes, and gradient methods
    hundreds. With a support of s coordinates it reads their s×s block once and nothing more. It starts from `x0`,
    or from the spectral vector of the support. It stops at a relative residual of 1e-15, or when two steps lower
    ‖r‖² by less than 1e-12 of it. With noise it has *converged* if the fit is far better than chance and there are
    at least twice as many measurements as coordinates.

    Parameters
    ----------
    support : list of int, optional
        The coordinates that may be nonzero; default: those of the prior, or all.
    max_steps : int
        The largest number of steps.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=20, rng=0)
    >>> fq.solve(problem.A, problem.y, method=fq.LM()).status.name
    'EXACT'
    """

    name: ClassVar[str] = "lm"
    uses_fixed: ClassVar[bool] = True
    uses_support: ClassVar[bool] = True

    support: Any = None
    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.support is not None:
            object.__setattr__(self, "support", arguments.indices(self.support, "support"))
        arguments.count(self.max_steps, "max_steps")

    def steps(self, problem: Problem) -> Steps:
        given = problem.support if self.support is None else self.support
        support = np.arange(problem.n) if given is None else np.asarray(given, dtype=np.intp)
        if support[-1] >= problem.n:
            raise ValueError(f"`support` must lie between 0 and {problem.n - 1}, got {support[-1]}.")
        x = problem.x0
        if x is None and problem.matrix_free:
            x = yield from _by_verbs(problem)
        elif x is None:
            x, _ = yield from spectral_start(problem.y, problem.n, problem.phi, alpha=None, within=support)
        rule = Rule(max_steps=self.max_steps)
        assert x is not None
        found = yield from fit(problem, x, support, rule)
        if problem.fixed and problem.x0 is None and found.residual > EXACT_RESIDUAL:
            # Try the other sign: it was chosen by the start's entry at the known value, which may be too small to tell.
            x = 2 * problem.completed(np.zeros(problem.n)) - problem.completed(x)
            other = yield from fit(problem, x, support, rule)
            found = min(found, other, key=lambda each: each.residual)
        s = found.support.size
        settled = stationary(found) and dense_score(problem, found.residual, s) < 0
        level = found.residual * float(np.linalg.norm(problem.y)) / max(1, problem.m - s) ** 0.5
        end = End.CONVERGED if settled else End.STAGNATED
        return Outcome(found.x, found.residual, end, free=s, noise=level if settled else None)


def _by_verbs(problem: Problem) -> Asks[Float]:
    """The spectral start where A is known by its verbs alone."""
    forms = yield Verbs()
    x = matrix_free.fitted(problem, forms, matrix_free.spectral_vector(problem, forms))
    yield Reread(forms.uncharged())
    return x
