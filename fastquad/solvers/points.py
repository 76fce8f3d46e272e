"""The stage of the default method for points: x counts them, and A shifts.

Where `y_d = Σ_j x_j x_{j+d}` and x_j is the number of points at j, y counts the pairs of points at each distance d. So
y is a list of distances without labels, and what `fastquad.points` searches exhaustively: with

    Σ_d y_d over all shifts d, both ways, = N²        the number of points
    (y_0 − N)/2                                       the number of pairs that coincide

All sets of points with these distances are found, up to a translation and a reflection, so that one solution is proven
and two are witnesses. The stage does not run where a lag is missing or a y_d is no count, and it reads nothing of A: no
array is larger than y.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Note, Outcome, Stage, Step
from fastquad.engine.verdict import products_affordable
from fastquad.measurements.contractions import Measure, Shifts
from fastquad.numerics.distances import Found, Limits, on_circle, on_line
from fastquad.solution import Proof
from fastquad.solvers.plan import Desk
from fastquad.typing import Asks, Float

# How far a count may be from a whole number, relative to the largest: autocorrelations by Fourier transforms are that
# far off by 1e-10 at 10^6 places.
_COUNT = 1e-6
# How often a point is tried before the other stages get their turn; a guess. It takes seconds.
_NODES = 300_000
# Seconds between two reports, at which the driver looks at the budgets; a guess.
_REPORT = 0.3


def points(desk: Desk) -> Asks[Outcome | None]:
    """The outcome of the search for points, if that is what the problem is."""
    problem = desk.problem
    values = None if problem.prior is None else problem.prior.alphabet
    if values is None or problem.fixed or problem.bilinear or problem.turning or problem.outliers:
        return None
    if values.min() != 0 or (values != np.rint(values)).any():
        return None
    shifts = yield Shifts()
    if shifts is None:
        return None
    cyclic, lags = shifts
    given = _distances(problem.y, lags, problem.n, cyclic)
    if given is None:
        return None
    distances, n = given
    yield Stage("points")
    if n == 1:
        return (yield from _outcome(problem, Found([np.zeros(1)]), cyclic))
    search = on_circle(distances, n, float(problem.n)) if cyclic else on_line(distances, n)
    while True:
        found = search.go_on(Limits(_REPORT, _NODES))
        if found.end != "time":
            break
        yield Step(_signal(problem, found.best), 1.0)
    return (yield from _outcome(problem, found, cyclic))


def _distances(y: Float, lags: np.ndarray, n: int, cyclic: bool) -> tuple[Float, int] | None:
    """The distances of all pairs in ascending order (on a circle the shorter arcs), and how many points there are."""
    counts = np.rint(y)
    if np.abs(y - counts).max() > _COUNT * max(1.0, float(counts.max())) or counts.min() < 0:
        return None
    full = np.zeros(n // 2 + 1 if cyclic else n, dtype=np.int64)
    known = np.zeros(full.size, dtype=bool)
    folded = np.minimum(lags, n - lags) if cyclic else lags
    full[folded], known[folded] = counts.astype(np.int64), True
    if not known.all():
        return None
    # Lags but 0, and half the circle, stand for both ways.
    both = 2 * int(full.sum()) - int(full[0])
    if cyclic and n % 2 == 0:
        both -= int(full[-1])
        if full[-1] % 2:
            return None
        full[-1] //= 2
    total = isqrt(both)
    if total * total != both or total < 1 or (full[0] - total) % 2 or full[0] < total:
        return None
    full[0] = (full[0] - total) // 2
    distances = np.repeat(np.arange(full.size, dtype=np.float64), full)
    return (distances, total) if distances.size == total * (total - 1) // 2 else None


def _signal(problem: Problem, x: Float) -> Float:
    """How many points are at each place."""
    return np.bincount(np.rint(x).astype(np.intp), minlength=problem.n).astype(np.float64)


def _outcome(problem: Problem, found: Found, cyclic: bool) -> Asks[Outcome | None]:
    """What the search found as signals with these values."""
    prior = problem.prior
    assert prior is not None
    signals = [_signal(problem, x) for x in found.solutions]
    allowed = [x for x in signals if prior.admits(x)]
    moves = "rotation" if cyclic else "translation"
    if not allowed:
        yield Note(
            f"No points at whole numbers have these distances (the search {_how_it_ended(found)})."
            if not signals
            else "Points have these distances, but more of them are in one place than `prior` allows."
        )
        if products_affordable(problem):
            return None
        return Outcome(_signal(problem, found.best), 1.0, End.STAGNATED, method="points")
    x = allowed[0]
    r = (yield Measure(x)) - problem.y
    residual = float(np.linalg.norm(r) / np.linalg.norm(problem.y))
    rival = allowed[1] if len(allowed) > 1 else None
    count = int(x.sum())
    alone = rival is None and found.complete
    # Whole numbers are told apart by one.
    proof = Proof("enumeration", margin=1.0, radius=0.0) if alone else None
    if rival is not None:
        note = f"{len(allowed)} sets of {count} points have these distances, and none is a reflection of another."
    elif alone:
        note = f"An exhaustive search found only these {count} points, up to a {moves} and a reflection."
    else:
        note = f"These {count} points have the distances, but the search for others {_how_it_ended(found)}."
    return Outcome(
        x, residual, End.ENUMERATED, free=0, note=note, error=0.0 if alone else None,
        rival=rival, proof=proof, method="points",
    )  # fmt: skip


def _how_it_ended(found: Found) -> str:
    """The end of a search in words."""
    return "saw everything" if found.end == "all" else f"ended after {found.nodes} placements"
