"""The finish: from any answer near x to the bottom of the likelihood, on the coordinates that the evidence supports.

It is the same at every level of noise, from rounding to noise as large as the signal, and for every model of it,
whoever found the answer. At the bottom on a support S of s coordinates (`fastquad.solvers.parts.likelihood`), with the
residuals `r = −score/√weight` in units of the noise, and J their Jacobian on S,

    σ̂² = ‖r‖²/ν,  ν = m − s,      C = σ̂² (J^T J)^{-1}      the level, if it is not given, and the covariance of x_S.

Each coordinate (or group, such as Re and Im of a complex number) is weighed by itself. Under the prior that a share ρ
of them is nonzero, with the mean square τ² of those that are (both learnt from all of them by EM), its value u with the
covariance V has the odds

    ln odds = ½ (ν + p) ln(1 + q/ν) − ½ ln det(I + τ² V^{-1}) + ln(ρ/(1 − ρ)),    q = u^T (V^{-1} − (V + τ²)^{-1}) u,

p its number of real values (½ q in the place of the first term where σ is given). For a coordinate outside of S, u and
V are those that it would have if it joined: from the part of its column of J that is orthogonal to those on S. What has
odds above one makes the next support, until it does not change. At low noise all odds are clear, and x is the least
squares estimate of one who is told the support. Coordinates that are not clear add to the error what a mistake about
them costs. With few degrees of freedom the error is as large as Student's distribution asks: of 1,000 answers one is
further than three of its errors from x. With no more measurements than unknowns and an unknown level, coordinates too
small to be found look like noise, and the error allows for them (`fastquad.numerics.small`).

Whether x was found at all is another question, of the evidence against chance (`fastquad.engine.trust.evidence`): 20
bits more than the choices of a support, and of a valley among the 2^s that differ in the signs of x. Of 855 wrong
bottoms of dense problems, n = 10 to 40 and m = 1.3 n to 2 n, the largest evidence was 1.2 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.rounding import nothing_left, rounded
from fastquad.engine.steps import End, Outcome
from fastquad.engine.trust.evidence import against_chance, log_choices, log_evidence, width_of
from fastquad.engine.trust.tolerances import SPARE_NATS, TINY
from fastquad.measurements.contractions import Products
from fastquad.noise import Gaussian, Noise
from fastquad.noise.bend import BENT, bend
from fastquad.numerics import lapack
from fastquad.numerics.grouping import Groups
from fastquad.numerics.levenberg_marquardt import Rule, turned
from fastquad.numerics.small import student, with_small_ones
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.solvers.parts.likelihood import Bottom, bottom
from fastquad.solvers.parts.noise_fit import FOUND, complete
from fastquad.typing import Asks, Float, Indices

# Where a step would move x by less than a hundredth of its standard errors: lower the square of the residual, in units
# of its level, by less than 1e-4.
_HUNDREDTH = 1e-4
# The largest number of supports that are tried: of 480 finishes, noise 1e-9 to 0.3, all but 2 ended within 6. (A guess
# of what is worth trying: the last one is taken.)
_ROUNDS = 8
# The share of the squared error by undecided coordinates up to which no other estimate is much better. A guess: the
# error is then at most 5 % above that of one who knows the support.
_DECIDED = 0.1
# Steps of EM for the share of nonzero coordinates and their size: more change no odds by a tenth. (A guess.)
_LEARNING = 20
# The error from which on the likelihood bends within it: of 306 finishes, noise 0.1 to 1.5, the median of the true over
# the stated error was 1.0 to 1.1 below, 1.2 above 0.25 and 1.5 above 0.35.
_BENT = 0.2
# How many times the error of the finish a posterior mean may state before it is known to have stopped short: a choice
# of coordinates is never better than the mean over all choices. AMP states up to 1.3 times its error. (A guess.)
_STOPPED_SHORT = 1.5
# The multiplications of a factorisation of J up to which it takes less than a tenth of a second.
_FACTORED = 2e8
# The measurements to spare from which on what is left tells its growth; the ratio of sizes up to which rows are of one
# size; and the least size of a row. (Guesses.)
_FEWEST_SPARE, _ONE_SIZE, _LEAST_SIZE = 8, 2.0, 1e-3
# The least diagonal entry of the triangular factor of J, relative to the largest, at which directions are determined.
_SINGULAR = 1e-10

_GROWS = "The noise of a measurement grows with the size of its matrix, so this size weighs each measurement."


@dataclass(frozen=True)
class Finish:
    """An answer at the bottom of the likelihood, and what is known of it.

    `fit` has the coordinates that the evidence supports, `noise` is the model with what was learnt, `sigma` the level
    of the noise, `stderr` (n,) the standard errors of x, `error` the relative error of x, `open` the share of its
    square that undecided coordinates make, `evidence` the nats that speak for it beyond chance, and `alone` (m,) the
    residual of each measurement as if it had been left out.
    """

    fit: Fit
    noise: Noise
    sigma: float
    stderr: Float
    error: float
    open: float
    evidence: float
    alone: Float

    @property
    def found(self) -> bool:
        """Whether the answer explains y beyond any choice of support and valley."""
        return self.evidence > FOUND

    @property
    def decided(self) -> bool:
        """Whether no other estimate is much better: nearly all coordinates are clear, and the curvature holds for
        all of the error."""
        return self.open <= _DECIDED and self.error < _BENT


def _near(problem: Problem, found: Fit) -> bool:
    """Whether the curvature at a fit as it is says that its finish is near enough to x to end a solve."""
    S = found.support
    if found.steepness is not None or found.W.shape[1] not in (S.size, problem.n):
        return True
    W = found.W if found.W.shape[1] == S.size else found.W[:, S]
    spare = max(1, problem.m - S.size + problem.turning)
    curvature = np.linalg.eigvalsh(W.T @ W)[problem.turning :]
    square = float(found.r @ found.r) / spare * float(np.sum(1 / np.maximum(4 * curvature, 1e-300)))
    return square < (_BENT * float(np.linalg.norm(found.x))) ** 2


def applies(problem: Problem) -> bool:
    """Whether x is described by coordinates that may be zero, every measurement is sound, and A has products."""
    sparse = problem.prior is None or problem.prior.kind == "sparse"
    hidden = problem.outliers or problem.by_transform or problem.matrix_free or problem.bilinear
    return sparse and not problem.noiseless and not hidden


def finish(problem: Problem, x: Float, support: Indices, cache: GrowingBlock) -> Asks[Finish | None]:
    """Go from x to the bottom of the likelihood; None where the measurements do not determine x on any support."""
    rule = Rule(max_steps=40, bottom=_HUNDREDTH / problem.m, above=0.0)
    support = np.setdiff1d(np.asarray(support, dtype=np.intp), problem.known)
    if problem.fixed and 0 < support.size < problem.m:
        x = yield from _of_right_sign(problem, x, support, rule, cache)
    found, W = yield from _rounds(problem, x, support, rule, cache)
    size = None if found is None else _sizes(problem, found.fit, W)
    if found is None or size is None:
        return found
    fit, m = found.fit, problem.m
    ended = yield from bottom(replace(problem, noise=Gaussian(size)), fit.x, fit.support, cache, rule)
    spare = m - fit.support.size + problem.turning
    size *= max(float(np.linalg.norm(ended.fit.r / size)), 1e-300) / math.sqrt(spare)
    other = replace(problem, noise=Gaussian(size))
    second, _ = yield from _rounds(other, ended.fit.x, fit.support, rule, cache)
    equal = _evidence(problem, fit, np.ones(m))
    if second is None or _evidence(problem, second.fit, size) < equal + SPARE_NATS:
        return found
    if _evidence(problem, second.fit, np.ones(m)) > equal + SPARE_NATS:
        # The sizes led to another valley, where the noise is another one: begin again.
        return (yield from finish(problem, second.fit.x, second.fit.support, cache))
    return second


def _rounds(
    problem: Problem, x: Float, support: Indices, rule: Rule, cache: GrowingBlock
) -> Asks[tuple[Finish | None, Float]]:
    """The finish under one model of the noise, and the products of x on all coordinates."""
    seen: set[bytes] = set()
    last: Finish | None = None
    W: Float = np.zeros((0, 0))
    for _ in range(_ROUNDS):
        if not 0 < support.size - problem.turning < problem.m:
            return last, W
        ended = yield from bottom(problem, x, support, cache, rule)
        everything = ended.fit.W.shape[1] == problem.n
        products = ended.fit.W if everything else (yield Products(ended.fit.x))
        weighed = _Weighed.of(problem, ended, products)
        if weighed is None:
            return last, W
        last, W = weighed.finish(), products
        seen.add(support.tobytes())
        x, support = weighed.supported()
        if support.tobytes() in seen:
            return last, W
    return last, W


def _sizes(problem: Problem, found: Fit, W: Float) -> Float | None:
    """The sizes of the rows of A, (m,), where these may be in units of their own; None where they are of one size.

    They are those of W without the direction of x, which y knows.
    """
    spare = problem.m - found.support.size + problem.turning
    if problem.noise.given or problem.noise.reweighs or spare < _FEWEST_SPARE:
        return None
    u = found.x / max(float(np.linalg.norm(found.x)), 1e-300)
    size = np.linalg.norm(W - np.outer(W @ u, u), axis=1)
    low, high = np.quantile(size, [0.1, 0.9])
    return np.maximum(size / high, _LEAST_SIZE) if high > _ONE_SIZE * low > 0 else None


def _evidence(problem: Problem, found: Fit, size: Float) -> float:
    """The log of the evidence for a fit where the noise grows with these sizes of the rows."""
    S = found.support
    W = found.W if found.W.shape[1] == S.size else found.W[:, S]
    columns, width = W / size[:, None], 1 + problem.turning
    choices = log_choices(max(problem.n, S.size) // width, S.size // width)
    norm = float(np.linalg.norm(found.x)) or 1.0
    return log_evidence(found.r / size, columns, norm, choices) - float(np.log(size).sum())


def _of_right_sign(problem: Problem, x: Float, support: Indices, rule: Rule, cache: GrowingBlock) -> Asks[Float]:
    """The bottom near x or near −x, whichever is lower: known values tell them apart, but perhaps by little."""
    ends = []
    for start in (x, 2 * problem.completed(np.zeros(problem.n)) - x):
        ends.append((yield from bottom(problem, start, support, cache, rule)))
    return max(ends, key=lambda ended: ended.log_likelihood).fit.x


def outcome(problem: Problem, entries: Entries | None, found: Finish, method: str) -> Outcome:
    """The outcome of a finish; less certain if y bends."""
    fit, error, stderr = found.fit, found.error, found.stderr
    s = fit.support.size
    if rounded(problem, fit.residual):  # there is no noise to speak of
        return Outcome(fit.x, fit.residual, End.CONVERGED, s, method=method, entries=entries)
    note = (
        f"The fit on {s} coordinates has a relative error of about {error:.2g}; the noise has a standard deviation of "
        f"{found.sigma:.3g}."
    )
    if found.noise.unequal and not problem.noise.unequal:
        note = f"{note} {_GROWS}"
    elif not (problem.noise.unequal or problem.noise.reweighs):
        bent = bend(problem.y, found.alone)
        if bent:
            note, error, stderr = f"{note} {BENT}", math.hypot(error, bent), np.hypot(stderr, bent * fit.x)
    return Outcome(
        fit.x, fit.residual, End.CONVERGED, s, note, found.sigma, error, stderr, method=method, entries=entries,
        model=found.noise,
    )  # fmt: skip


def ending(problem: Problem, entries: Entries, found: Fit, cache: GrowingBlock, method: str) -> Asks[Outcome | None]:
    """The outcome where a fit that is beyond chance ends the solve: it lacks nothing, and is near enough to x.

    Where the entries of A depend on each other, other valleys of a fit on all coordinates explain much of y, too.
    """
    everything = found.support.size >= problem.unknowns - len(problem.fixed)
    if not applies(problem) or (everything and not entries.independent) or not _near(problem, found):
        return None
    if not (yield from complete(problem, found)):
        return None
    ended = yield from finish(problem, found.x, found.support, cache)
    good = ended is not None and ended.found and ended.decided
    return outcome(problem, entries, ended, method) if ended is not None and good else None


def finished(problem: Problem, entries: Entries | None, given: Outcome, cache: GrowingBlock) -> Asks[Outcome]:
    """The outcome of a method, in noise from the bottom of the likelihood if x is better known there."""
    if nothing_left(problem, given.residual) or not applies(problem):
        return given
    found = yield from finish(problem, given.x, np.flatnonzero(given.x), cache)
    return better(given, problem, found)


def sparser(problem: Problem, given: Outcome) -> Asks[Outcome]:
    """An outcome on all coordinates, or the finish from there if the evidence supports fewer of them.

    Where J is large x is left on all coordinates: the finish factors it, m×n numbers.
    """
    if not factored(problem) or not applies(problem):
        return given
    if nothing_left(problem, given.residual):
        return (yield from _without_rounding(problem, given))
    found = yield from finish(problem, given.x, np.flatnonzero(given.x), GrowingBlock.within(problem))
    ended = better(given, problem, found)
    return ended if ended.free is not None and ended.free < problem.unknowns - len(problem.fixed) else given


def _without_rounding(problem: Problem, given: Outcome) -> Asks[Outcome]:
    """An exact outcome without coordinates that are only rounding, which rows that see nothing else cannot fit."""
    x = np.where(np.abs(given.x) < TINY * float(np.abs(given.x).max(initial=0.0)), 0.0, given.x)
    if (x == given.x).all():
        return given
    left = float(np.linalg.norm((yield Products(x)) @ x - problem.y) / np.linalg.norm(problem.y))
    return replace(given, x=x, residual=left) if left <= 2 * max(given.residual, lapack.EPS) else given


def factored(problem: Problem) -> bool:
    """Whether J, of all coordinates, is small enough to be factored a few times."""
    return problem.m * problem.n**2 <= _FACTORED


def better(given: Outcome, problem: Problem, found: Finish | None) -> Outcome:
    """The outcome of a method in noise, or that of the finish from there.

    Where coordinates are undecided or the noise is large, a posterior mean is nearer to x, unless the method stopped
    before it was as near as the curvature of the likelihood says.
    """
    if found is None or not found.found or not problem.admits(found.fit.x):
        return given
    if not found.decided and given.error is not None and _STOPPED_SHORT * found.error > given.error:
        return given
    ended = outcome(problem, given.entries, found, given.method or "")
    return replace(ended, second=given.second, outliers=given.outliers)


@dataclass(frozen=True)
class _Weighed:
    """A fit at the bottom, with every coordinate weighed: its value, covariance and odds."""

    problem: Problem
    ended: Bottom
    #: The groups of coordinates, and whether each is on the support.
    groups: Groups
    inside: Float
    #: The value and the variance of each coordinate: on the support, or if it joined.
    values: Float
    variances: Float
    #: The log odds that a group is not zero.
    odds: Float
    sigma: float
    evidence: float
    freedom: float
    leverage: Float

    @classmethod
    def of(cls, problem: Problem, ended: Bottom, W: Float) -> _Weighed | None:
        """Weigh all coordinates at the bottom, given the products W of all of them; None if J is singular."""
        found, z = ended.fit, ended.z(problem)
        m, n, S, given = problem.m, problem.n, found.support, problem.noise.given
        # In units of the noise, its likelihood is that of standard normal numbers.
        weights = 1 / ended.sigma(problem)
        r = -ended.noise.score(problem.y, z) / weights
        J = 2 * W * weights[:, None]
        JS = J[:, S]
        pinned, of_phase = JS, np.zeros(())
        if problem.turning:
            # The phase is no unknown: a row that sees it alone makes J regular, and changes nothing else.
            phase = turned(found.x)[S] * float(np.linalg.norm(JS)) / math.sqrt(S.size)
            pinned, of_phase = np.concatenate([JS, phase[None]]), np.outer(phase, phase) / float(phase @ phase) ** 2
        Q, R = np.linalg.qr(pinned)
        pivots = np.abs(np.diagonal(R))
        if not pivots.min() > _SINGULAR * pivots.max():
            return None
        Q = Q[:m]
        s = S.size - problem.turning
        nu = m - s
        more, degrees = ended.noise.repeats
        square, known = float(r @ r) + more, nu + degrees
        level = max(1.0, square / known) if given else max(square / known, 1e-300)
        inverse = lapack.dtrtri(R)[0]
        cover = level * (inverse @ inverse.T - of_phase)
        outside = np.setdiff1d(
            np.arange(n) if problem.support is None else problem.support, np.union1d(S, problem.known)
        )
        P = J[:, outside] - Q @ (Q.T @ J[:, outside])
        groups = problem.groups or Groups(np.arange(n))
        values: Float = np.zeros(n)
        variances: Float = np.zeros(n)
        values[S], variances[S] = found.x[S], np.diagonal(cover)
        inside = np.zeros(groups.count, dtype=bool)
        inside[groups.touched(S)] = True
        freedom = math.inf if given else known
        weighed: list[_Weights] = []
        for size in np.unique(groups.sizes).astype(int):
            for columns, chosen in ((S, inside), (outside, ~inside)):
                which = np.flatnonzero(chosen & (groups.sizes == size))
                places = _places(groups, which, columns, size)
                there = (places >= 0).all(axis=1)
                which, places = which[there], places[there]
                if columns is S:
                    V, u = cover[places[:, :, None], places[:, None, :]], found.x[S][places]
                else:
                    part = P[:, places]
                    gram = np.einsum("iga,igb->gab", part, part)
                    gram += np.eye(size) * np.maximum(1e-12 * np.einsum("gaa->g", gram), 1e-300)[:, None, None]
                    V = level * np.linalg.inv(gram)
                    u = -np.einsum("gab,iga,i->gb", V / level, part, r)
                    values[columns[places]], variances[columns[places]] = u, np.einsum("gaa->ga", V)
                weighed.append(_Weights.of(which, u, V))
        odds = _learnt_odds(weighed, groups.count, float(np.mean(found.x[S] ** 2)), freedom)
        target = z - r / weights
        spread = width_of(weights * (target - np.average(target, weights=weights**2)), math.sqrt(level))
        nats, by_chance = against_chance(problem, S.size, math.sqrt(level), spread)
        sigma = math.sqrt(level * float(np.mean(weights**-2)))
        total = float(np.trace(cover))
        spread_of = total**2 / max(float(np.sum(cover**2)), 1e-300)
        return cls(
            problem, ended, groups, inside, values, variances, odds, sigma, nats - by_chance,
            student(spread_of, freedom), np.einsum("ij,ij->i", Q, Q),
        )  # fmt: skip

    def supported(self) -> tuple[Float, Indices]:
        """A start on the coordinates with odds above one, and these."""
        problem, groups = self.problem, self.groups
        chosen = np.flatnonzero(self.odds > 0)
        chosen = chosen[np.argsort(-self.odds[chosen], kind="stable")]
        most = problem.m - 1 + problem.turning
        if problem.k is not None:
            most = min(most, problem.k)
        chosen = chosen[np.cumsum(groups.sizes[chosen]) <= most]
        support = groups.members(chosen)
        x: Float = self.ended.fit.x.copy()
        keep = np.zeros(problem.n, dtype=bool)
        keep[support] = keep[problem.known] = True
        new = support[x[support] == 0]
        x[new] = self.values[new]
        x[~keep] = 0.0
        return x, support

    def finish(self) -> Finish:
        """What is known of x at this fit."""
        n, S, x = self.problem.n, self.ended.fit.support, self.ended.fit.x
        likely = self.groups.spread(1 / (1 + np.exp(-np.clip(self.odds, -700, 700))))
        on = np.zeros(n, dtype=bool)
        on[S] = True
        sure = np.where(on, likely * self.variances, 0.0)
        unsure = np.where(on, (1 - likely) * x**2, likely * (self.values**2 + self.variances))
        total = float(sure.sum() + unsure.sum())
        stderr: Float = np.zeros(n)
        stderr[S] = np.sqrt(self.variances[S])
        size = max(float(np.linalg.norm(x)), 1e-300)
        alone = -self.ended.fit.r / np.maximum(1 - self.leverage, 1e-6)
        error = math.sqrt(total) / size * self.freedom
        if not self.problem.noise.given and self.problem.m <= self.problem.unknowns:
            error = with_small_ones(error, x, stderr, self.problem.m)
        return Finish(
            self.ended.fit, self.ended.noise, self.sigma, stderr, error,
            float(unsure.sum()) / max(total, 1e-300), self.evidence, alone,
        )  # fmt: skip


def _places(groups: Groups, which: Indices, columns: Indices, size: int) -> Indices:
    """The positions of the members of each group among some columns, (count, size); −1 where one is not there."""
    position = np.full(groups.n, -1, dtype=np.intp)
    position[columns] = np.arange(columns.size)
    return position[groups.table(which, size)]


@dataclass(frozen=True)
class _Weights:
    """Groups of one size, in the axes of their covariances: squares of the values along each, and the variances there,
    (count, size)."""

    which: Indices
    squares: Float
    variances: Float

    @classmethod
    def of(cls, which: Indices, u: Float, V: Float) -> _Weights:
        """Of values u (count, size) and covariances V (count, size, size)."""
        if V.shape[-1] == 1:
            return cls(which, u**2, np.maximum(V[:, :, 0], 1e-300))
        variances, axes = np.linalg.eigh(V)
        return cls(which, np.einsum("gab,ga->gb", axes, u) ** 2, np.maximum(variances, 1e-300))

    def factors(self, tau2: float, freedom: float) -> Float:
        """The log of the Bayes factor of each group: normal of variance τ² against zero."""
        p = self.squares.shape[1]
        q = np.sum(self.squares * (tau2 / (self.variances * (self.variances + tau2))), axis=1)
        fit = 0.5 * q if math.isinf(freedom) else 0.5 * (freedom + p) * np.log1p(q / freedom)
        return fit - 0.5 * np.sum(np.log1p(tau2 / self.variances), axis=1)

    def moments(self, tau2: float) -> Float:
        """The mean square of each group under its posterior, if it is not zero."""
        share = tau2 / (self.variances + tau2)
        return np.mean(share**2 * self.squares + share * self.variances, axis=1)


def _learnt_odds(weighed: list[_Weights], count: int, tau2: float, freedom: float) -> Float:
    """The log odds that each of `count` groups is not zero, with ρ and τ² learnt from all of them by EM."""
    odds = np.full(count, -np.inf)
    total = sum(each.which.size for each in weighed)
    share = 0.5
    for _ in range(_LEARNING):
        nonzero = square = 0.0
        for each in weighed:
            odds[each.which] = each.factors(tau2, freedom) + math.log(share / (1 - share))
            likely = 1 / (1 + np.exp(-np.clip(odds[each.which], -700, 700)))
            nonzero += float(likely.sum())
            square += float(likely @ each.moments(tau2))
        # As if one group had been seen that is zero, and one that is not.
        share, tau2 = (nonzero + 1) / (total + 2), max(square / max(nonzero, 1e-300), 1e-300)
    return odds
