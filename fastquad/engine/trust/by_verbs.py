"""The judgement of an answer by the verbs of the Jacobian: nothing larger than its normal equations is formed.

All coordinates are free, and x was fitted by `fastquad.engine.verbs`. Asked is, in this order,

    fits        does every row fit to its own rounding, `|r_i| <= c eps |x|^T |Ã_i| |x|`? Then the data count as exact
    seen        does J see each direction? A pivot that is rounding, or a vector that the inverse of the normal
                equations makes large, is a candidate; it is refined until `J v` is its own, and unseen if that is
                rounding
    spare       are more measurements independent than there are unknowns? |A(gg^*)| of a random g must not be in the
                span of J
    rivals      does another signal fit: parts of x that nothing ties together with the other sign, x conjugated, other
                roots of the parts that critical measurements close, the ends of descents from elsewhere? The last two
                are not asked for where the products of coordinates are determined by linear equations, for then no
                other signal has them
    noise       does noise of the given level explain what is left (χ²)? How far off may x be: the diagonal of
                `(J^T D J)^{-1}`, by the selected inverse of the factor

Of complex x the phase is free. The inverse is that with one coordinate held, Σ; orthogonal to the free direction u it
is `PΣP` with `P = 1 − uu^T`, whose diagonal needs one more solve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Outcome
from fastquad.engine.trust.critical import other_roots
from fastquad.engine.trust.evidence import against_chance
from fastquad.engine.trust.gauge import names
from fastquad.engine.verbs import Normals, descend, rows_scaled
from fastquad.measurements.base import Edges
from fastquad.measurements.contractions import Along, Gradient, Measure, Sizes, SparseMatrices
from fastquad.numerics.levenberg_marquardt import Rule, turned
from fastquad.numerics.synchronise import determines
from fastquad.solution import Status, distance
from fastquad.typing import Asks, Float, Indices

_EPS = float(np.finfo(np.float64).eps)
# Rounding of a row, in units of eps |x|^T |Ã_i| |x|: of grids of 14 to 13,659 buses descents leave at most 4; ten
# times that.
_ROUNDED = 40.0
# The singular value of the scaled Jacobian below which a direction is unseen. Of refined vectors those that nothing
# sees have at most 1e-14, and the least that are seen 1e-7, on grids of up to 13,659 buses.
_UNSEEN = 1e-11
#: The largest number of directions that are looked for, and steps of inverse iteration for each.
MOST_UNSEEN, _INVERSE_STEPS = 200, 4
# The share of |A(gg^*)| that is not in the span of J: as in by_transform.
_INDEPENDENT = 1e-4
# The bits that a generic spare measurement speaks against chance with, and those to spare: see JUDGEMENT in the docs.
_BITS, _SPARE_BITS = 40.0, 20.0
# Descents from elsewhere, and when they stop: guesses.
_RESTARTS = 3
_SEARCH = Rule(max_steps=30, patience=6, factor=1.05)
# Another signal is at least so far away, and this much of ln evidence may speak against it.
_APART, _LN_ODDS = 0.05, math.log(20.0)
# Where a part of the system has another root, as far as a wrong answer is from a right one in noise.
_NEAR = 1e-3
# The chance below which noise of the given level does not explain what is left: a guess, for one false alarm in 10^5.
_ALPHA = 1e-5
# The error from which on an answer in noise is no success.
_SURE = 0.5

_TOO_MUCH = "But it leaves more than noise of the given level explains."
_NOT_FITTED = "What is left may be noise of this size, or x is a wrong minimum: give `noise`, or another start (x0)."
_NO_MATRIX = "Whether each direction of x is seen was not tested: the normal equations do not fit in `memory`."


@dataclass
class _Case:
    """An answer x with its residual r, the weights w, and the factor of its normal equations with what is held."""

    problem: Problem
    normals: Normals
    x: Float
    r: Float
    w: Float
    held: Indices
    factor: Any = None
    diagonal: Float | None = None

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.x)) or 1.0

    @property
    def square(self) -> float:
        return float(np.sum((self.w * self.r) ** 2))


def case_at(normals: Normals, x: Float, w: Float) -> _Case:
    """The case of a signal without data, with these weights, for `unseen` and `position_errors`."""
    return _Case(normals.problem, normals, x, np.zeros(normals.problem.m), w, normals.held(x))


def judge_by_verbs(problem: Problem, outcome: Outcome) -> Asks[tuple[Status, Outcome]]:
    """The status of an answer on all coordinates, and the outcome with its errors, its rival and the reason."""
    normals = outcome.normals if isinstance(outcome.normals, Normals) else Normals.of(problem)
    x = outcome.x
    r = (yield Measure(x)) - problem.y
    sizes = yield Sizes(x)
    eps = float(np.finfo(problem.dtype).eps) if problem.dtype.itemsize < 8 else _EPS
    exact = bool((np.abs(r) <= _ROUNDED * eps * sizes).all())
    told = level(problem)
    scaled = exact or (told is None and not problem.noiseless and problem.noise.given)
    w = rows_scaled(sizes) if scaled else np.ones(problem.m) if told is None else 1 / told
    residual = float(np.linalg.norm(r) / np.linalg.norm(problem.y))
    outcome = replace(outcome, x=x, residual=residual, free=problem.n - len(problem.fixed))
    if not normals.affordable:
        return Status.UNDECIDED, replace(outcome, note=_NO_MATRIX, error=None, stderr=None)
    case = _Case(problem, normals, x, r, w, normals.held(x))
    directions = yield from unseen(case)
    if directions.size:
        return (yield from _undetermined(case, outcome, directions, exact))
    if exact:
        return (yield from _exact(case, outcome, eps))
    if outcome.end not in (End.CONVERGED, End.STAGNATED):
        return _ended(outcome)
    return (yield from _in_noise(case, outcome, told))


def level(problem: Problem) -> Float | None:
    """The standard deviation of each measurement, (m,), where it is given and not zero."""
    if problem.sigma == 0:
        return None
    return problem.deviations(np.zeros(problem.m))


def _ended(outcome: Outcome) -> tuple[Status, Outcome]:
    """What a budget ended, without an exact fit."""
    ends = {End.MAX_ITER: Status.MAX_ITER, End.MAX_PASSES: Status.MAX_PASSES, End.MAX_TIME: Status.MAX_TIME}
    return ends.get(outcome.end, Status.STAGNATED), outcome


# -- what J sees -----------------------------------------------------------------------------------------------------


def unseen(case: _Case) -> Asks[Float]:
    """The directions that no measurement sees, (n, d), beside the phase; afterwards `case.factor` holds all of them."""
    d, given = case.w**2, case.held
    G, _ = yield from case.normals.gram(case.x, d, np.zeros_like(case.r))
    diagonal = np.asarray(G.diagonal(), dtype=np.float64)
    positive = np.where(diagonal > 0, diagonal, 1.0)
    case.diagonal = positive
    factor = case.normals.factor(G, given)
    # Candidates one by one would take a factor each: those whose pivots are rounding come at once.
    candidates, found = np.setdiff1d(factor.held, given), []
    rng = np.random.default_rng(5)
    while True:
        if candidates.size:
            held = np.concatenate([given, candidates])
            factor = case.normals.factor(G, held)
            confirmed = []
            for c in candidates[:MOST_UNSEEN]:
                v, seen = yield from _refined(case, factor, int(c), d, positive)
                if seen <= _UNSEEN:
                    found.append(v)
                    confirmed.append(c)
            given = np.concatenate([given, np.array(confirmed, dtype=np.intp)])
            if len(confirmed) < candidates.size:
                factor = case.normals.factor(G, given)
                break
        if given.size >= case.problem.n or len(found) >= MOST_UNSEEN:
            break
        v = rng.standard_normal(case.problem.n) / np.sqrt(positive)
        for _ in range(_INVERSE_STEPS):
            v = factor.solve(positive * v)
            v /= np.linalg.norm(np.sqrt(positive) * v) or 1.0
        seen = float(np.linalg.norm(case.w * (yield Along(case.x, v))))
        # A vector from the normal equations alone is accurate to the root of rounding.
        if seen > 1e-6:
            break
        candidates = np.array([int(np.argmax(np.sqrt(positive) * np.abs(v)))])
    case.factor, case.held = factor, given
    return np.array(found).T if found else np.zeros((case.problem.n, 0))


def _refined(case: _Case, factor: Any, c: int, d: Float, diagonal: Float) -> Asks[tuple[Float, float]]:
    """The direction with a one at coordinate c that is seen least, and how much of it is, relative to its terms."""
    v = np.zeros(case.problem.n)
    v[c] = 1.0
    for _ in range(3):
        image = yield Along(case.x, v)
        v = v - factor.solve((yield Gradient(case.x, d * image)))
    image = yield Along(case.x, v)
    size = float(np.linalg.norm(np.sqrt(diagonal) * v)) if diagonal[c] > 0 else 1.0
    return v / np.linalg.norm(v), float(np.linalg.norm(case.w * image)) / (size or 1.0)


def _undetermined(case: _Case, outcome: Outcome, directions: Float, exact: bool) -> Asks[tuple[Status, Outcome]]:
    """The verdict where directions are free: which coordinates they move, and another signal that fits as well."""
    pairs = directions.reshape(-1, 2, directions.shape[1]) if case.problem.turning else directions[:, None]
    moved = np.sqrt(np.sum(pairs**2, axis=1))
    free = np.flatnonzero((moved > 0.1 * moved.max(axis=0)).any(axis=1))
    note = f"No measurement determines {names(free)}: {directions.shape[1]} directions of x are free."
    rival = None
    far = case.x + 0.2 * case.norm * directions[:, 0]
    other = yield from descend(case.normals, far, case.w, _SEARCH, quiet=True)
    fits = other.curve[-1] <= 4 * case.square + 1e-20 * float(np.sum((case.w * case.problem.y) ** 2))
    if fits and _away(case.problem, other.x, case.x) > 0.01:
        rival = other.x
    note = f"{outcome.note} {note}".strip()
    return Status.UNDETERMINED, replace(outcome, note=note, rival=rival, error=None, stderr=None)


# -- exact data ------------------------------------------------------------------------------------------------------


def _exact(case: _Case, outcome: Outcome, eps: float) -> Asks[tuple[Status, Outcome]]:
    """The verdict where every row fits to its rounding and every direction is seen."""
    problem = case.problem
    freedom = problem.n - case.held.size
    # What rounding leaves open: each row is known to what is left of it.
    share = max(math.sqrt(case.square / max(1, problem.m - freedom)), eps)
    outcome = replace(outcome, **position_errors(case, share), noise=None)
    if problem.m <= freedom or not (yield from _spare(case)):
        spare = f"There are {problem.m} measurements for {freedom} unknowns, and no more of them are independent."
        return Status.UNDECIDED, replace(outcome, note=f"{outcome.note} {spare}".strip())
    bits = (problem.m - freedom) * _bits(problem.y)
    rival = yield from _rival(case, case.square + problem.m * (_ROUNDED * eps) ** 2, 0.0)
    if rival is not None:
        return Status.AMBIGUOUS, replace(outcome, rival=rival, error=None, stderr=None)
    if bits < freedom + _SPARE_BITS:
        note = (
            f"{problem.m - freedom} measurements to spare take so few values that they speak against chance by "
            f"{bits:.0f} bits, of {freedom + _SPARE_BITS:.0f} that are needed."
        )
        return Status.UNDECIDED, replace(outcome, note=f"{outcome.note} {note}".strip())
    return Status.EXACT, outcome


def _spare(case: _Case) -> Asks[bool]:
    """Whether |A(gg^*)| of a random g is not in the span of J: more measurements are independent than unknowns."""
    g = np.random.default_rng(6).standard_normal(case.problem.n)
    g *= case.norm / float(np.linalg.norm(g))
    column = yield Measure(g)
    left, d = column, case.w**2
    for _ in range(2):
        left = left - (yield Along(case.x, case.factor.solve((yield Gradient(case.x, d * left)))))
    size = float(np.linalg.norm(case.w * column))
    return float(np.linalg.norm(case.w * left)) > _INDEPENDENT * size


def _bits(y: Float) -> float:
    """How many bits a spare measurement speaks with: −log2 of the chance that two that are not zero are equal."""
    values = np.sort(np.abs(y[y != 0]))
    if values.size < 4:
        return _BITS
    equal = np.diff(values) <= 1e-9 * values[1:]
    runs = np.diff(np.flatnonzero(np.concatenate([[True], ~equal, [True]])))
    chance = float(np.sum(runs * (runs - 1.0))) / (values.size * (values.size - 1.0))
    return min(_BITS, -math.log2(chance)) if chance > 0 else _BITS


# -- rivals ----------------------------------------------------------------------------------------------------------


def _away(problem: Problem, one: Float, other: Float) -> float:
    """The relative distance of two signals, up to what the measurements cannot say."""
    if problem.turning:
        both = problem.gauge != "phase"
        return float(distance(one.view(np.complex128), other.view(np.complex128), conjugation=both))
    apart = float(np.linalg.norm(one - other))
    if not any(problem.fixed.values()):
        apart = min(apart, float(np.linalg.norm(one + other)))
    return apart / (float(np.linalg.norm(other)) or 1.0)


def _rival(case: _Case, bound: float, error: float) -> Asks[Float | None]:
    """Another signal, at least so far away, for which ‖w r‖² is at most `bound`; None where none was found."""
    apart = max(_APART, 3 * error)
    problem = case.problem
    edges = yield SparseMatrices()
    if edges is not None:
        for candidate in _parts_turned(case, edges):
            left = (yield Measure(candidate)) - problem.y
            if float(np.sum((case.w * left) ** 2)) <= bound and _away(problem, candidate, case.x) > apart:
                return candidate
    if problem.gauge == "phase":
        conjugate = case.x.copy()
        conjugate[1::2] *= -1
        found = yield from _settled(case, conjugate, bound, apart)
        if found is not None:
            return found
    if case.normals.determined or (edges is not None and determines(edges.M, case.w)):
        return None
    # Roots of parts of the system are near x, but as good: a part of it is another.
    for start in (yield from other_roots(case)):
        found = yield from _settled(case, start, bound, max(_NEAR, 3 * error))
        if found is not None:
            return found
    rng = np.random.default_rng(7)
    typical = case.norm / math.sqrt(problem.n)
    for attempt in range(_RESTARTS):
        start = typical * rng.standard_normal(problem.n)
        if attempt == 0:
            start = (
                np.tile([typical * math.sqrt(2), 0.0], problem.n // 2)
                if problem.turning
                else np.full(problem.n, typical)
            )
        found = yield from _settled(case, problem.completed(start), bound, apart)
        if found is not None:
            return found
    return None


def _settled(case: _Case, start: Float, bound: float, apart: float) -> Asks[Float | None]:
    """The end of a descent from a start, if it is another signal that fits."""
    if _away(case.problem, start, case.x) <= apart:
        return None
    end = yield from descend(case.normals, start, case.w, _SEARCH, quiet=True)
    if end.curve[-1] <= bound and _away(case.problem, end.x, case.x) > apart:
        return end.x
    return None


def _parts_turned(case: _Case, edges: Edges) -> list[Float]:
    """x with the smallest part that no product ties to the others turned: of real x to the other sign."""
    from scipy import sparse
    from scipy.sparse import csgraph

    problem = case.problem
    j, k, n = edges.j, edges.k, edges.n
    x = case.x.view(np.complex128) if problem.turning else case.x
    tied = (x[j] != 0) & (x[k] != 0)
    graph = sparse.csr_array((np.ones(int(tied.sum())), (j[tied], k[tied])), shape=(n, n))
    count, part = csgraph.connected_components(graph, directed=False)
    weight = np.bincount(part, np.abs(x) ** 2, count)
    if np.count_nonzero(weight) < 2:
        return []
    # The heaviest part but one: the farthest away of those that are less than half of x.
    second = int(np.argsort(-weight, kind="stable")[1])
    turned_part = np.where(part == second, -x, x)
    return [np.ascontiguousarray(turned_part).view(np.float64)]


# -- noise -----------------------------------------------------------------------------------------------------------


def position_errors(case: _Case, sigma: float) -> dict[str, Any]:
    """`error` and `stderr` where the weighted rows have this standard deviation."""
    variance = case.factor.inverse_diagonal()
    if case.problem.turning:
        u = turned(case.x)
        # P Σ P with P = 1 − u u^T: only what is orthogonal to the phase counts.
        Su = case.factor.solve(_without(u, case.held))
        variance = np.maximum(variance - 2 * u * Su + u * u * float(u @ Su), 0.0)
    stderr = sigma * np.sqrt(variance)
    return {"stderr": stderr, "error": float(np.linalg.norm(stderr)) / case.norm}


def _without(v: Float, held: Indices) -> Float:
    """v without the coordinates that are held."""
    out = v.copy()
    out[held] = 0.0
    return out


def _in_noise(case: _Case, outcome: Outcome, told: Float | None) -> Asks[tuple[Status, Outcome]]:
    """The verdict where noise, told or not, must explain what is left."""
    problem = case.problem
    spare = problem.m - (problem.n - case.held.size)
    if spare < 1:
        note = "There are no measurements to spare, from which the noise could be told."
        return Status.UNDECIDED, replace(outcome, note=f"{outcome.note} {note}".strip(), error=None)
    if problem.noise.given:
        from scipy.special import gammaincc

        chance = 0.0 if told is None else float(gammaincc(spare / 2, case.square / 2))
        outcome = replace(outcome, noise=problem.sigma, **position_errors(case, 1.0))
        if chance < _ALPHA:
            return Status.STAGNATED, replace(
                outcome, note=f"{outcome.note} {_TOO_MUCH}".strip(), error=None, stderr=None
            )
        bound = case.square + 2 * _LN_ODDS
    else:
        sigma = math.sqrt(case.square / spare)
        # With few degrees of freedom the level itself is uncertain: the variance of Student's distribution.
        wider = math.sqrt(spare / (spare - 2)) if spare > 2 else math.inf
        outcome = replace(outcome, noise=sigma, **position_errors(case, sigma * min(wider, 10.0)))
        nats, by_chance = against_chance(problem, problem.n - len(problem.fixed), sigma)
        if nats < by_chance and not case.normals.determined:
            return Status.STAGNATED, replace(outcome, note=f"{outcome.note} {_NOT_FITTED}".strip())
        # −spare/2 ln RSS of both differ by less.
        bound = case.square * math.exp(2 * _LN_ODDS / spare)
    assert outcome.error is not None
    rival = yield from _rival(case, bound, outcome.error)
    if rival is not None:
        return Status.AMBIGUOUS, replace(outcome, rival=rival)
    return (Status.CONVERGED if outcome.error < _SURE else Status.NOISY), outcome
