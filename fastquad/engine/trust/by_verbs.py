"""The judgement of an answer by the verbs: its values, J v and J^T w. No matrix larger than the normal equations.

All coordinates are free. The questions are those of `fastquad.engine.trust.certificate`:

    seen        does J see each direction? A bound of its least singular value tells; of kinds with cheap normal
                equations (`problem.gram`, for sparse matrices) a factor, which names the directions that are not seen
    spare       are more measurements independent than there are unknowns? The values of a random signal must not be in
                the span of J. If least squares leave the part e of them, their distance from the span is at least
                `‖e‖ − ‖J^T e‖/σ`, with the least singular value σ of J
    rivals      does another signal fit: x reversed, moved or conjugated, or with the other sign in a part that nothing
                ties to the others; other roots beside critical measurements; the ends of descents from other starts?
    symmetry    in place of descents, for fast transforms: no linear (or antilinear) map Q with `Q^T A_i Q = A_i` moves
                x. With z(x, y)_i = x^T A_i y, u = Qx and any g, `z(g, u) = z(x, Q^{-1}g)`: the equations
                `J(g_t) u + J(x) h_t = 0` for a few random g_t must have no solution but u = x, h_t = −g_t (and for
                complex x those of its phase)
    chance      do the measurements take so few values that another signal may fit by chance?
    noise       does noise of the given level explain what is left (χ²), and how far off may x be?

Bounds of least singular values are Lanczos' from a random start, and hold but for a chance of 2^−20
(`fastquad.numerics.krylov`). Descents from k starts find a signal that attracts a share p of them with a chance of
1 − (1 − p)^k: where matrices have a symmetry, its twin attracts as many as x does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import End, Outcome, Verdict
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.certificate import Certificate
from fastquad.engine.trust.doubt import Doubt
from fastquad.engine.trust.evidence import against_chance, bits_of, log_choices, short_of
from fastquad.engine.trust.factored import Factored
from fastquad.engine.trust.gauge import Gauge
from fastquad.engine.verbs import Normals, descend, newton, rows_scaled
from fastquad.measurements.base import Edges
from fastquad.measurements.contractions import Factors, Sizes, SparseMatrices, Verbs
from fastquad.numerics import krylov
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.numerics.line_descent import FormDescent
from fastquad.numerics.synchronise import determines, shortest_tree
from fastquad.numerics.transform import Transform, Within, sampled_variances
from fastquad.solution import distance
from fastquad.status import Status
from fastquad.system.deadline import check
from fastquad.typing import Asks, Float

NOT_SHOWN = (
    "x fits to rounding, but it was not shown that nothing else does. Some direction of x changes the measurements too "
    "little for a test by the transform alone, and a test with matrices does not fit in `memory`."
)
_FACTORS = (
    "Without masks x is known only up to its place and a reflection, and where x is a convolution of two others, one "
    "of them may be reflected alone: this was not tested."
)
_UNSEEN = "It was not shown that the measurements fix every direction of x"
_CHOSEN = "The measurements alone do not determine x, and it does not fit to rounding: the prior chose it."
TOO_MUCH = "But x leaves more of y than noise of the given level explains."
_NOT_FITTED = "What x leaves of y may be noise of this size, or x may be a wrong minimum."
_NO_MATRIX = (
    "It was not tested whether the measurements fix every direction of x, because the normal equations do not fit in "
    "`memory`."
)
_NO_SPARE = "There are no more measurements than unknowns, so the noise cannot be estimated."


class _Case:
    """An answer x on all coordinates, its values and residuals, and another signal that fits, if one was found.

    `forms` answer for A: functions of quadratic forms, or a fast transform.
    """

    def __init__(self, problem: Problem, forms: Any, x: Float) -> None:
        self.problem, self.forms, self.gauge = problem, forms, Gauge(problem)
        self.rng = np.random.default_rng(4)
        #: The weights of rows, and bounds of the least eigenvalue of J^T J in the norm of the forms, and of the least
        #: singular value of J.
        self.weights, self.bound, self.seen = forms.levelling(problem.y), 0.0, 0.0
        self.rival: Float | None = None
        self.take(x)

    def take(self, x: Float) -> None:
        """Set the answer."""
        self.x, self.norm = x, float(np.linalg.norm(x)) or 1.0
        self.values = self.forms.measure(x)
        self.r = self.values - self.problem.y

    @property
    def square(self) -> float:
        """‖w r‖²."""
        return float(np.sum((self.weights * self.r) ** 2))

    @property
    def residual(self) -> float:
        return float(np.linalg.norm(self.r) / np.linalg.norm(self.problem.y))

    def rounding(self) -> Float:
        """The tolerance of each equation without noise: its residual, and at least its rounding."""
        size, y = np.abs(self.values), np.abs(self.problem.y)
        # Sums round relative to the mean of their numbers, not to each.
        scale = size + y + float(size.mean())
        share = self.r / scale
        rms = math.sqrt(float(share @ share) / max(1, self.problem.m - self.problem.unknowns))
        eps = max(tol.EPS, float(np.finfo(self.problem.dtype).eps))
        return np.maximum(np.abs(self.r), max(rms, 8 * eps) * scale)

    # -- what J sees --------------------------------------------------------------------------------------------------

    def full_rank(self, need: float) -> bool:
        """Whether J sees each direction: a change of x by its norm changes the measurements by more than `need`."""
        free = [turned(self.x)] if self.problem.turning else []
        J, square = self.forms.jacobian(self.x, self.weights), (need / self.norm) ** 2 / self.forms.shortest
        self.bound = J.least(self.rng, free, square).bound
        self.seen = math.sqrt(self.bound * self.forms.shortest)
        return self.norm * self.seen > need

    def spans(self, least: float, J: Any = None) -> bool:
        """Whether the values of a random signal are more than `least` away from the span of J."""
        g = self.rng.standard_normal(self.problem.n)
        column = self.weights * self.forms.measure(g * (self.norm / float(np.linalg.norm(g))))
        J = self.forms.jacobian(self.x, self.weights) if J is None else J
        left = column - J.forward(J.least_squares(column, 1e-4, 500))
        slope = float(np.linalg.norm(self.forms.scaled(-0.5, J.adjoint(left))))
        shown = float(np.linalg.norm(left)) - slope / math.sqrt(max(self.bound, 1e-300))
        return shown > max(least, tol.INDEPENDENT * float(np.linalg.norm(column)))

    def clean(self) -> None:
        """Drop the coordinates that differ from zero only by rounding: a bound of their errors is known."""
        m, y, w = self.problem.m, self.problem.y, self.weights
        level = max(
            math.sqrt(self.square / max(1, m - self.problem.unknowns)),
            tol.EPS * float(np.linalg.norm(w * y)) / math.sqrt(m),
        )
        size = np.repeat(np.abs(self.gauge.numbers(self.x)), self.gauge.width)
        near = (size < tol.CLEARLY * level / self.seen) & (size > 0)
        if not near.any() or near.all():
            return
        free = np.where(near, 0.0, 1.0) * (size > 0)
        before = self.x
        limit = 2 * max(float(np.linalg.norm(self.r)), 2 * tol.EPS * float(np.linalg.norm(y)))
        self.take(np.where(near, 0.0, self.x))
        for _ in range(2):
            step = self.forms.jacobian(self.x, w).least_squares(-w * self.r, 1e-6, 200, free=free)
            self.take(self.x + step)
        if float(np.linalg.norm(self.r)) > limit:
            self.take(before)

    # -- other signals ------------------------------------------------------------------------------------------------

    def away(self, other: Float) -> float:
        """The relative distance of another signal, up to what the measurements cannot say."""
        if not self.problem.movable:
            return self.gauge.away(other, self.x)
        both = self.gauge.numbers(other), self.gauge.numbers(self.x)
        return float(distance(*both, gauge=self.problem.gauge + self.forms.symmetry))

    def images(self) -> Iterator[tuple[str, Float]]:
        """The signals that measurements often confuse with x."""
        yield from self.gauge.likenesses(self.x)
        if isinstance(self.forms, Transform):
            yield from ((f"x {name} fits as well.", other) for name, other in self.forms.twins(self.x))

    def misfit(self, values: Float, delta: Float) -> float:
        """The root mean square of the residuals of another signal, in units of the tolerances."""
        return float(np.sqrt(np.mean(((values - self.problem.y) / delta) ** 2)))

    def likely(self, delta: Float) -> float:
        """The misfit up to which another signal is as likely as x, in noise."""
        return math.sqrt(self.misfit(self.values, delta) ** 2 + tol.FITS / self.problem.m)

    def dark(self) -> str:
        """The coordinates that no measurement sees, as a sentence."""
        free = self.forms.dark
        if free.size:
            self.rival = self.x.copy()
            self.rival[free[0]] += self.norm
        return f"Nothing measures {self.gauge.names(free)}: other values fit as well." if free.size else ""

    def twin(self, delta: Float, limit: float, apart: float) -> str:
        """Whether one of `images` fits as well, as a sentence."""
        for said, other in self.images():
            other = self.problem.completed(other)
            if self.away(other) > apart and self.misfit(self.forms.measure(other), delta) < limit:
                self.rival = other
                return said
        return ""

    def elsewhere(self, delta: Float, limit: float, apart: float) -> str:
        """Whether a descent from a random start ends at another signal that fits as well, as a sentence."""
        weights = float(delta.min()) / delta if np.ptp(delta) > 0 else None
        most, coordinates = tol.STARTS_BY_VERBS
        for _ in range(max(1, min(most, coordinates // self.problem.n))):
            x = self.rng.standard_normal(self.problem.n)
            x *= self.norm / float(np.linalg.norm(x))
            descent = FormDescent(self.forms, self.problem.y, x, self.rng, weights)
            # One that comes near x goes on to x, which takes most of its steps.
            while not descent.finished(tol.TO_ROUNDING) and self.away(descent.x) > tol.APART_IN_NOISE:
                check()
                descent.step()
            far = self.away(descent.x)
            if far > max(apart, tol.APART_IN_NOISE) and self.misfit(descent.r + self.problem.y, delta) < limit:
                self.rival = descent.x
                return f"Another signal, {far:.2g} away, fits as well: a descent from a random start found it."
        return ""

    def no_linear_twin(self, least: float) -> bool:
        """Whether no linear map that leaves all measurements as they are moves x.

        `least` is the singular value that the equations must have, relative to the root mean square.
        """
        if isinstance(self.forms, Transform) and self.forms.rigidity > tol.RIGID:
            return True
        m, n, scaled = self.problem.m, self.problem.n, self.forms.scaled
        # For complex x one vector is not enough: u = ig solves its equation.
        few = range(1 + self.problem.turning, tol.SEVERAL + 1)
        count = min(few, key=lambda q: _effort(q, (q + 1) * n / (q * m)))
        if (count + 1) * n >= count * m:
            return False
        G = self.rng.standard_normal((count, n))
        G *= self.norm / np.linalg.norm(G, axis=1, keepdims=True)
        weights = [self.forms.levelling(self.values + self.forms.measure(g)) for g in G]
        pairs = [(self.forms.jacobian(g, w), self.forms.jacobian(self.x, w)) for g, w in zip(G, weights, strict=True)]

        def apply(v: Float) -> Float:
            u, *h = (scaled(-0.5, each) for each in v.reshape(count + 1, n))
            out = np.zeros((count + 1, n))
            for t, (other, J) in enumerate(pairs):
                row = other.forward(u) + J.forward(h[t])
                out[0] += other.adjoint(row)
                out[1 + t] = J.adjoint(row)
            return np.concatenate([scaled(-0.5, each) for each in out])

        known = [np.concatenate([self.x, *-G])]
        if self.problem.turning:
            known.append(np.concatenate([turned(self.x) * self.norm, *(turned(g) * self.norm for g in G)]))
            known += [np.kron(each, turned(self.x)) for each in np.eye(count + 1)[1:]]
        without = [np.concatenate([scaled(0.5, each) for each in v.reshape(count + 1, n)]) for v in known]
        average = sum(each.typical(self.rng) for pair in pairs for each in pair) / (count + 1)
        found = krylov.least_eigenvalue(apply, (count + 1) * n, self.rng, without, least**2 * average)
        return found.shown and math.sqrt(found.bound / average) > least


def _effort(q: int, ratio: float) -> float:
    """How many products a bound takes with q vectors, if unknowns are to equations as this ratio: Marchenko–Pastur."""
    root = math.sqrt(ratio)
    return (q + 1) * (1 + root) / (1 - root) if root < 1 else math.inf


# -- where A is a transform, or known by its functions: bounds ------------------------------------------------------


def _case(problem: Problem, x: Float) -> Asks[_Case]:
    return _Case(problem, (yield Verbs() if problem.matrix_free else Factors()), x)


def certify_by_verbs(problem: Problem, x: Float) -> Asks[Certificate | None]:
    """Clean an x that fits to rounding, and show that no other signal fits; None if matrices may decide what this
    leaves open."""
    case = yield from _case(problem, x)
    found = _status(case)
    yield Reread(case.forms.uncharged())
    if found is None and not problem.matrix_free:
        return None
    status, doubt = found or (Status.UNDECIDED, f"{_UNSEEN}.")
    # What the residual allows at most; with a residual of rounding it is negligible.
    error = math.sqrt(case.square) / (case.seen * case.norm) if case.seen and case.residual > 1e-12 else 0.0
    return Certificate(case.x, case.residual, status, doubt, error, case.rival)


def _status(case: _Case) -> tuple[Status, str] | None:
    """The status and the doubt; None if it is not decided."""
    problem, m = case.problem, case.problem.m
    few = f"There are {m} measurements for {problem.unknowns} unknowns."
    if problem.prior is not None and problem.prior.kind == "sparse" and isinstance(case.forms, Transform):
        return _status_on_support(case)
    if m < problem.unknowns:
        return None
    delta = case.rounding()
    doubt = case.dark() or case.twin(delta, tol.FITS, tol.APART)
    if not doubt and problem.matrix_free:
        doubt = case.elsewhere(np.full(m, float(np.sqrt(np.mean(delta**2)))), tol.FITS, tol.APART)
    if doubt:
        return Status.AMBIGUOUS, doubt
    need = math.sqrt(m) / tol.APART * float(np.max(case.weights * delta))
    if not case.full_rank(need):
        return None
    case.clean()
    if m == problem.unknowns:
        return Status.UNDECIDED, few
    if not case.spans(need):
        return (Status.UNDECIDED, f"{few} No more are independent than unknowns.") if problem.matrix_free else None
    if problem.movable:
        return Status.UNDECIDED, _FACTORS
    if not problem.matrix_free and not case.no_linear_twin(0.0):
        return None
    # On all coordinates: no support was chosen.
    doubt = short_of(bits_of(problem.y, case.residual), problem.unknowns, case.gauge.width, 0.0)
    return (Status.UNDECIDED if doubt else Status.EXACT), doubt


def _status_on_support(case: _Case) -> tuple[Status, str] | None:
    """The same where x is sparse, by the columns of its support: another support is ruled out by chance alone."""
    problem, support = case.problem, case.gauge.whole(np.flatnonzero(case.x))
    delta = case.rounding()
    doubt = case.dark() or case.twin(delta, tol.FITS, tol.APART)
    if doubt:
        return Status.AMBIGUOUS, doubt
    part = replace(problem, n=support.size, prior=None, groups=None, movable=False)
    inner = _Case(part, Within(case.forms, support), case.x[support])
    need = math.sqrt(problem.m) / tol.APART * float(np.max(inner.weights * delta))
    if problem.m <= part.unknowns or not inner.full_rank(need) or not inner.spans(need):
        return None
    case.seen = inner.seen
    choices = log_choices(*case.gauge.count_of(support))
    short = short_of(bits_of(problem.y, case.residual), part.unknowns, case.gauge.width, choices)
    return (Status.UNDECIDED if short else Status.EXACT), short


def doubt_by_verbs(problem: Problem, outcome: Outcome, level: float | None) -> Asks[Doubt]:
    """Whether noisy data tell x from clearly different signals, and how well they determine it."""
    case = yield from _case(problem, outcome.x)
    spare = math.sqrt(max(1, problem.m - problem.unknowns))
    sigma = max(float(np.linalg.norm(case.r)) / spare, level or 0.0, 1e-300)
    delta = np.full(problem.m, sigma)
    if problem.noise.unequal and (outcome.stderr is not None or problem.matrix_free):
        delta = problem.deviations(case.r)
    stderr = outcome.stderr
    if stderr is None:
        stderr = np.sqrt(sampled_variances(case.forms.jacobian(case.x, 1 / delta), case.rng)[0])
    error = float(np.linalg.norm(stderr)) / case.norm
    reason = _doubt(case, delta, max(tol.APART_IN_NOISE, tol.FEW_ERRORS * max(error, outcome.error or 0.0)))
    yield Reread(case.forms.uncharged())
    return Doubt(reason, error, stderr, rival=case.rival)


def _doubt(case: _Case, delta: Float, apart: float) -> str:
    """Why another signal may be right, in noise."""
    dark = case.dark()
    if dark:
        return dark
    case.weights = 1 / delta
    if not case.full_rank(1.0):
        return f"{_UNSEEN} in this noise."
    likely = case.likely(delta)
    if case.problem.matrix_free:
        return case.twin(delta, likely, apart) or case.elsewhere(delta, likely, apart)
    doubt = case.twin(delta, likely, apart)
    if doubt or case.no_linear_twin(tol.NO_SYMMETRY):
        return doubt
    return "It was not shown that no symmetry of the measurements turns x into another signal."


def judge_posterior(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on a posterior mean with its own error, found through a transform.

    It is not x if a signal fits as well that is often confused with it.
    """
    case = yield from _case(problem, outcome.x)
    level = np.full(problem.m, max(float(np.std(case.r)), 1e-300))
    delta = level if problem.noise.exact or not problem.noise.given else problem.deviations(case.r)
    likely = case.likely(delta)
    apart = max(tol.APART_IN_NOISE, tol.FEW_ERRORS * (outcome.error or 0.0))
    # What nothing measures is the prior's alone.
    reason = case.dark() or case.twin(delta, likely, apart)
    yield Reread(case.forms.uncharged())
    if reason:
        return Verdict(Status.AMBIGUOUS, outcome.noted(reason, rival=case.rival))
    assert outcome.error is not None
    if outcome.end is End.STAGNATED:
        if problem.noise.exact and outcome.residual < tol.TWIN_APART and outcome.error < tol.TRUSTED:
            return Verdict(Status.UNDECIDED, outcome.noted(_CHOSEN))
        # It fits, and the method itself says what is missing.
        doubted = bool(outcome.note) and outcome.error < tol.CLEARLY_ANOTHER
        return Verdict(Status.UNDECIDED if doubted else Status.STAGNATED, outcome)
    return Verdict(Status.CONVERGED if outcome.error < tol.TRUSTED else Status.NOISY, outcome)


# -- where the normal equations have a factor -----------------------------------------------------------------------


def judge_factored(problem: Problem, outcome: Outcome) -> Asks[tuple[Status, Outcome]]:
    """The status of an answer on all coordinates, and the outcome with its errors, its rival and the reason."""
    normals = outcome.normals if isinstance(outcome.normals, Normals) else Normals.of(problem)
    case = _Case(problem, (yield Verbs()), outcome.x)
    sizes = yield Sizes(case.x)
    eps = float(np.finfo(problem.dtype).eps) if problem.dtype.itemsize < 8 else tol.EPS
    exact = bool((np.abs(case.r) <= tol.ROUNDED_ROW * eps * sizes).all())
    told = level(problem)
    scaled = exact or (told is None and not problem.noiseless and problem.noise.given)
    w = rows_scaled(sizes) if scaled else np.ones(problem.m) if told is None else 1 / told
    outcome = replace(outcome, residual=case.residual, free=problem.n - len(problem.fixed))
    if not normals.affordable:
        return Status.UNDECIDED, _noted(outcome, _NO_MATRIX)
    J, directions = yield from Factored.at(normals, case.x, w)
    case.weights, case.bound = J.w, J.bound
    yield Reread(J.forms.uncharged() + case.forms.uncharged())
    if directions.size:
        found = yield from _undetermined(case, J, outcome, directions)
    elif exact:
        found = yield from _exact(case, J, outcome, eps)
    elif outcome.end not in (End.CONVERGED, End.STAGNATED):
        return Status[outcome.end.name], outcome
    else:
        found = yield from _in_noise(case, J, outcome, told)
    yield Reread(J.forms.uncharged() + case.forms.uncharged())
    return found


def level(problem: Problem) -> Float | None:
    """The standard deviation of each measurement, (m,), where it is given and not zero."""
    return None if problem.sigma == 0 else problem.deviations(np.zeros(problem.m))


def _noted(outcome: Outcome, note: str, **changes: Any) -> Outcome:
    """An outcome without errors, and with a sentence more."""
    return outcome.noted(note, **{"error": None, "stderr": None, **changes})


def _with_errors(case: _Case, J: Factored, outcome: Outcome, sigma: float, noise: float | None) -> Outcome:
    """The outcome with the errors that weighted rows of this standard deviation leave."""
    stderr = J.stderr(sigma)
    return replace(outcome, stderr=stderr, error=float(np.linalg.norm(stderr)) / case.norm, noise=noise)


def _undetermined(case: _Case, J: Factored, outcome: Outcome, directions: Float) -> Asks[tuple[Status, Outcome]]:
    """The verdict where directions are free: which coordinates they move, and another signal that fits as well."""
    moved = np.sqrt(np.sum(directions.reshape(-1, case.gauge.width, directions.shape[1]) ** 2, axis=1))
    free = np.flatnonzero(np.repeat((moved > tol.PART * moved.max(axis=0)).any(axis=1), case.gauge.width))
    note = f"No measurement determines {case.gauge.names(free)}: {directions.shape[1]} directions of x are free."
    other = yield from descend(J.normals, case.x + 0.2 * case.norm * directions[:, 0], J.w, tol.TO_ROUNDING, quiet=True)
    limit = 4 * case.square + 1e-20 * float(np.sum((J.w * case.problem.y) ** 2))
    rival = other.x if other.curve[-1] <= limit and case.away(other.x) > tol.TWIN_APART else None
    return Status.UNDETERMINED, _noted(outcome, note, rival=rival)


def _exact(case: _Case, J: Factored, outcome: Outcome, eps: float) -> Asks[tuple[Status, Outcome]]:
    """The verdict where every row fits to its rounding and every direction is seen."""
    problem, square = case.problem, case.square
    m, freedom = problem.m, problem.n - J.held.size
    # What rounding leaves open: each row is known to what is left of it.
    outcome = _with_errors(case, J, outcome, max(math.sqrt(square / max(1, m - freedom)), eps), None)
    if m <= freedom or not case.spans(0.0, J):
        few = f"There are {m} measurements for {freedom} unknowns: no more independent ones than unknowns."
        return Status.UNDECIDED, replace(outcome, note=f"{outcome.note} {few}".strip())
    limit = square + m * (tol.ROUNDED_ROW * eps) ** 2
    case.take(np.where(_sure(case, outcome), case.x, 0.0))
    if case.square > limit:
        case.take(outcome.x)
    outcome = replace(outcome, x=case.x, residual=case.residual)
    rival = yield from _rival(case, J, limit, 0.0)
    if rival is not None:
        return Status.AMBIGUOUS, _noted(outcome, "", rival=rival)
    short = short_of(bits_of(problem.y), freedom, case.gauge.width, 0.0)
    if short:
        return Status.UNDECIDED, replace(outcome, note=f"{outcome.note} {short}".strip())
    return Status.EXACT, outcome


def _in_noise(case: _Case, J: Factored, outcome: Outcome, told: Float | None) -> Asks[tuple[Status, Outcome]]:
    """The verdict where noise, told or not, must explain what is left."""
    from scipy.special import gammaincc

    problem, square = case.problem, case.square
    spare = problem.m - (problem.n - J.held.size)
    if spare < 1:
        return Status.UNDECIDED, _noted(outcome, _NO_SPARE, stderr=outcome.stderr)
    if problem.noise.given:
        outcome = _with_errors(case, J, outcome, 1.0, problem.sigma)
        if told is None or float(gammaincc(spare / 2, square / 2)) < tol.ALPHA:
            return Status.STAGNATED, _noted(outcome, TOO_MUCH)
        bound = square + 2 * tol.SURE
    else:
        sigma = math.sqrt(square / spare)
        # With few degrees of freedom the level itself is uncertain: the variance of Student's distribution.
        wider = math.sqrt(spare / (spare - 2)) if spare > 2 else math.inf
        outcome = _with_errors(case, J, outcome, sigma * min(wider, 10.0), sigma)
        nats, by_chance = against_chance(problem, problem.n - len(problem.fixed), sigma)
        if nats < by_chance and not J.normals.determined:
            return Status.STAGNATED, replace(outcome, note=f"{outcome.note} {_NOT_FITTED}".strip())
        # −spare/2 ln RSS of both differ by less.
        bound = square * math.exp(2 * tol.SURE / spare)
    assert outcome.error is not None
    rival = yield from _rival(case, J, bound, outcome.error)
    if rival is not None:
        return Status.AMBIGUOUS, replace(outcome, rival=rival)
    return (Status.CONVERGED if outcome.error < tol.CLEARLY_ANOTHER else Status.NOISY), outcome


def _sure(case: _Case, outcome: Outcome) -> NDArray[np.bool_]:
    """Which coordinates belong to an entry that is clearly more than rounding, or is known, (n,)."""
    assert outcome.stderr is not None
    size, stderr = (np.linalg.norm(each.reshape(-1, case.gauge.width), axis=1) for each in (case.x, outcome.stderr))
    sure = np.repeat(size > tol.CLEARLY * stderr, case.gauge.width)
    sure[case.problem.known] = True
    return np.asarray(sure)


def _rival(case: _Case, J: Factored, bound: float, error: float) -> Asks[Float | None]:
    """Another signal for which ‖w r‖² is at most `bound`; None where none was found."""
    problem, far = case.problem, tol.FEW_ERRORS * error
    apart, nearer = max(tol.TWIN_APART, far), max(tol.APART, far)
    edges = yield SparseMatrices()
    for candidate in (problem.completed(image) for _, image in case.images()):
        left = case.forms.measure(candidate) - problem.y
        if float(np.sum((J.w * left) ** 2)) <= bound and case.away(candidate) > apart:
            return candidate
    starts = (
        []
        if edges is None
        else [(problem.completed(each), apart) for each in _parts_turned(case, J, edges, bound, apart**2 / 4)]
    )
    starts += [(each, apart) for _, each in case.images()][:1] if problem.gauge == "phase" else []
    # Where the products of coordinates are determined by linear equations, no other signal has them.
    if not (J.normals.determined or (edges is not None and determines(edges.M, J.w))):
        # Roots of parts of the system are near x, but as good: a part of it is another.
        starts += [(each, nearer) for each in J.other_roots()]
        starts += [(problem.completed(each), nearer) for each in _other_starts(case)]
    for start, beyond in starts:
        if case.away(start) <= beyond:
            continue
        end = yield from newton(J.normals, start, J.w, quiet=True)
        if end is None:
            end = yield from descend(J.normals, start, J.w, tol.TO_ROUNDING, quiet=True)
        if end.curve[-1] <= bound and case.away(end.x) > beyond:
            return end.x
    return None


def _other_starts(case: _Case) -> list[Float]:
    """A constant signal of the size of x, and two at random: none where there are too many coordinates."""
    n, rng = case.problem.n, np.random.default_rng(7)
    typical = case.norm / math.sqrt(n)
    constant = np.ones(n) if case.gauge.width == 1 else np.tile([math.sqrt(2), 0.0], n // 2)
    drawn = min(2, tol.STARTS_BY_VERBS[1] // n)
    return [typical * each for each in (constant, *rng.standard_normal((drawn, n)))]


def _parts_turned(case: _Case, J: Factored, edges: Edges, bound: float, least: float) -> list[Float]:
    """x with the other sign in parts that no product that shows ties to the others: a few, the least tied ones first.

    Measurements see the sign between two coordinates by `|x_j|² |x_k|² Σ_i (w_i M_ij)²`. Of the strongest forest that
    joins all coordinates, a link parts a tree in two. A part is turned if its square is more than `least` of that of x,
    and if the change by its link is at most that which other values may compensate, but for a tenth, to `bound`.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    j, k, n = edges.j, edges.k, edges.n
    x = case.gauge.numbers(case.x)
    weight = np.abs(x) ** 2
    seen = np.asarray(edges.M.power(2).T @ J.w**2).reshape(-1)[n:]
    seen = seen.reshape(-1, j.size).sum(axis=0) * weight[j] * weight[k]
    largest = max(float(seen.max(initial=0.0)), 1e-300)
    # The sparse graph takes a length of 0 for no link.
    lengths = 1 - np.log(np.maximum(seen / largest, 1e-300))
    forest = shortest_tree(lengths, j, k, n)
    ties = sparse.csr_array((seen, (j, k)), shape=(n, n))
    ties, enough = ties + ties.T, least * float(weight.sum())
    count, part = csgraph.connected_components(forest, directed=False)
    whole = np.bincount(part, weight, count)
    heaviest = np.argsort(-whole, kind="stable")
    turned: list[tuple[float, NDArray[np.bool_]]] = [(0.0, part == p) for p in heaviest[1:] if whole[p] > enough]
    for p in heaviest[whole[heaviest] > enough]:
        root = int(np.argmax(np.where(part == p, weight, -1.0)))
        order, before = csgraph.breadth_first_order(forest, root, directed=False)
        below = weight.copy()
        for at in order[:0:-1].tolist():
            below[before[at]] += below[at]
        links = order[1:]
        tie = 16 * np.asarray(ties[before[links], links]).reshape(-1)
        heavy = np.minimum(below[links], whole[p] - below[links]) > enough
        weak = np.flatnonzero(heavy & (tol.PART**2 * tie <= bound))
        for link in weak[np.argsort(tie[weak], kind="stable")][: tol.FEW].tolist():
            side = np.zeros(n, dtype=bool)
            side[links[link]] = True
            for at in links[link + 1 :].tolist():
                side[at] = side[before[at]]
            turned.append((float(tie[link]), side))
    turned.sort(key=lambda each: each[0])
    return [case.gauge.coordinates(np.where(side, -x, x)) for _, side in turned[: tol.FEW]]
