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
from typing import Any

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solution import Status
from fastquad.solvers import noise
from fastquad.solvers.base import Problem
from fastquad.solvers.driver import EXACT_RESIDUAL, Outcome
from fastquad.solvers.ensemble import Entries
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
        symmetry = _ambiguity(entries, found.x)
        if symmetry:
            note = f"A is the same {symmetry}, so that x {symmetry} fits as well."
            return Outcome(found.x, found.residual, status=Status.AMBIGUOUS, method=method, note=note)
        if (problem.m - s) * entries.bits < _log2_choices(problem.n, s) + _SPARE_BITS:
            note = "The entries of A take few values, and another signal may fit so few measurements by chance."
            return Outcome(found.x, found.residual, status=Status.AMBIGUOUS, method=method, note=note)
        return Outcome(found.x, found.residual, free=s, method=method, note=_precision(found.residual))
    # Where A has a structure of its own, what chance can fit is not known: a noise level must be given.
    if (entries.independent or problem.noise) and (yield from noise.convincing(problem, found)):
        level = noise.sigma(problem, found.residual, s)
        note = f"The fit on {s} coordinates leaves noise with a standard deviation of {level:.3g}."
        return Outcome(found.x, found.residual, converged=True, free=s, noise=level, note=note, method=method)
    return None


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
