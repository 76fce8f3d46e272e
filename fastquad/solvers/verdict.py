"""When a fit ends the solve: the certificate, and its limits.

For A in general position a signal with fewer nonzeros than there are measurements fits them exactly only if it is x,
up to sign: a residual at the level of rounding proves it. That fails where A has a symmetry: if `P^T A_i P = A_i` for
a reversal or a shift P of the coordinates, then P x fits as well. Such a symmetry shows in a sample of A's entries.
And it fails where entries take few values, as ±1: s coordinates fit s measurements, and each further one by chance,
with up to the probability 2^−b that two entries are equal. So the m − s further measurements must outweigh the choice
of the support: (m − s) b >= log2 (n choose s), with 20 bits to spare.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from fastquad.measurements.base import Float
from fastquad.priors.sparse import Sparse
from fastquad.solution import Status
from fastquad.solvers import noise
from fastquad.solvers.base import Problem
from fastquad.solvers.driver import EXACT_RESIDUAL, Outcome, Steps
from fastquad.solvers.ensemble import Entries, sample_entries
from fastquad.solvers.lm import Fit

# An answer is wrong with a chance of less than 2 to the minus this.
_SPARE_BITS = 20


def exact_enough(problem: Problem, residual: float) -> bool:
    """Whether a residual is as small as the precision of A lets it be."""
    return residual < max(EXACT_RESIDUAL, 8 * float(np.finfo(problem.dtype).eps))


def verdict(problem: Problem, entries: Entries, found: Fit, method: str) -> Generator[Any, Any, Outcome | None]:
    """The outcome with which this fit ends the solve, or None."""
    s = found.support.size
    if exact_enough(problem, found.residual) and s < problem.m:
        doubt = _doubt(problem, entries, found.x, s)
        if doubt:
            return Outcome(found.x, found.residual, status=Status.AMBIGUOUS, method=method, note=doubt)
        return Outcome(found.x, found.residual, free=s, method=method, note=_precision(found.residual))
    # Where A has a structure of its own, what chance can fit is not known: a noise level must be given.
    if (entries.independent or problem.noise) and (yield from noise.convincing(problem, found)):
        level = noise.sigma(problem, found.residual, s)
        note = f"The fit on {s} coordinates leaves noise with a standard deviation of {level:.3g}."
        return Outcome(found.x, found.residual, converged=True, free=s, noise=level, note=note, method=method)
    return None


def doubted(problem: Problem, steps: Steps) -> Steps:
    """The same steps; but an exact answer of theirs is called ambiguous where A lets another signal fit as well.

    For methods that do not look at A themselves. A known support or a decoder rules the other signals out.
    """
    outcome = yield from steps
    free = int(np.count_nonzero(outcome.x)) if outcome.free is None else outcome.free
    exact = outcome.status is None and outcome.residual < EXACT_RESIDUAL and free < problem.m
    if not exact or problem.support is not None or not isinstance(problem.prior, Sparse | None):
        return outcome
    entries = yield from sample_entries(problem)
    doubt = _doubt(problem, entries, outcome.x, free)
    return replace(outcome, status=Status.AMBIGUOUS, note=doubt) if doubt else outcome


def _doubt(problem: Problem, entries: Entries, x: Float, free: int) -> str:
    """Why another signal than x may fit as well; empty where nothing speaks for it."""
    if problem.n == 1:  # one measurement that is not zero gives |x|
        return ""
    symmetry = _ambiguity(entries, x)
    if symmetry:
        return f"A is the same {symmetry}, so that x {symmetry} fits as well."
    if (problem.m - free) * entries.bits < _log2_choices(problem.n, free) + _SPARE_BITS:
        return "The entries of A take few values, and another signal may fit so few measurements by chance."
    return ""


def _log2_choices(n: int, s: int) -> float:
    """log2 of (n choose s)."""
    return (math.lgamma(n + 1) - math.lgamma(s + 1) - math.lgamma(n - s + 1)) / math.log(2)


def _precision(residual: float) -> str:
    return "" if residual < EXACT_RESIDUAL else "This is the accuracy of A's entries in single precision."


def _ambiguity(entries: Entries, x: Float) -> str:
    """A symmetry of A that gives another signal with the same measurements; empty where none is known."""
    if "reversed" in entries.symmetries and not (np.array_equal(x[::-1], x) or np.array_equal(x[::-1], -x)):
        return "reversed"
    if "shifted" in entries.symmetries and (x[0] == 0 or x[-1] == 0):
        return "shifted"
    return ""
