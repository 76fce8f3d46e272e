"""The stages of the default method where the entries of A are not independent: phase retrieval, grids, equations.

AMP and Gibbs sampling are derived for independent entries, and fail here. What succeeds instead:

    quick pursuit                 where the diagonals hint at few large coordinates
    VAMP                          where A_i = Σ_r w_ir a_ir a_ir^T with w >= 0, for m >= 1.1 n; first from 1.5 n on
    Levenberg–Marquardt           on all coordinates, for m >= n, from the spectral vector, from a constant, at random,
                                  and with the other sign in parts of the best fit that are weakly coupled to the rest
    pursuit, all levels

Rows of A may be of very different size: a power that flows, a voltage. Descents from starts that are not near x go
further where each is divided by its own size, `g_i = ‖Ã_i v‖` for a random v, which takes one product. The constant
start is c·(1, …, 1) with the c that fits best, `c² = <q, y/g>/<q, q>`, q_i = 1^T A_i 1/g_i: the flat start of a power
grid. Where all A_i are positive semidefinite the spectral vector is that of the weights T(y), which are optimal for
phase retrieval, in the place of y.

Few more equations than unknowns, n <= m < 1.3 n, have many stationary points: more random starts are tried. Where
linear terms or known values make 0 a start, it is the first of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import End, Note, Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Block, Diagonals, Factors, Products, WeightedSum
from fastquad.numerics.eigen import leading_eigenvector
from fastquad.numerics.levenberg_marquardt import Rule, on_block
from fastquad.numerics.symmetry import turned_at_weakest
from fastquad.solvers import intensities
from fastquad.solvers.parts import weighing
from fastquad.solvers.parts.descent import Fit, fit
from fastquad.solvers.parts.noise_fit import promising
from fastquad.solvers.plan import Desk
from fastquad.typing import Asks, Float

Stage = Asks[Outcome | None]

# The ratio m/n below which a descent seldom finds x at once.
_FEW = 1.3
# The number of random starts.
_RANDOM_STARTS = 3
# The number of random starts below that ratio.
_MORE_STARTS = 8
# The largest number of entries of a tensor at which parts of a fit are tried with the other sign.
_TURNED_ENTRIES = 2_000_000
# The largest number of such changes of sign.
_TURNS = 30
# The ratio to which each must lower ‖r‖².
_LOWER = 0.99
_TURNED = Rule(max_steps=60, patience=10, factor=1.01)
# The least size of a row, relative to the largest.
_LEAST_ROW = 1e-3


# The share of y's variance below which a fit is not improved from another start.
_CLEAR = 0.05
# Two descents ended in the same place where their residuals differ by at most this share.
_AGREE = 1e-3


def too_large(desk: Desk) -> Stage:
    """Note that no method but VAMP was tried."""
    p = desk.problem
    yield Note(
        f"Only vector approximate message passing was tried. The other methods need the products of x, {p.m}×{p.n} "
        "numbers, which do not fit in `memory`."
    )
    return None


def pursue(desk: Desk) -> Stage:
    """Pursuit on all levels, unless a fit on all coordinates explains y beyond chance: it lacks none."""
    problem, best = desk.problem, desk.best
    if best is not None and best.support.size == problem.n - len(problem.fixed) and promising(problem, best):
        return None
    from fastquad.solvers.independent import pursue

    return (yield from pursue(desk))


def same(one: Fit, other: Fit) -> bool:
    """Whether two descents ended in the same place."""
    return abs(one.residual - other.residual) <= _AGREE * one.residual


def _left(problem: Problem, found: Fit) -> float:
    """The share of y's variance that a fit leaves, as its free coordinates would let it by chance."""
    m, s = problem.m, found.support.size
    spread = float(np.var(problem.y) / np.mean(problem.y**2))
    return found.residual**2 * m / ((m - s) * spread) if m > s and spread > 0 else np.inf


# -- VAMP ---------------------------------------------------------------------------------------------------------


def message_passing(desk: Desk) -> Stage:
    """VAMP, and Levenberg–Marquardt from where it ends, where A has factors."""
    problem = desk.problem
    transform = yield Factors()
    if transform is None or problem.fixed:
        return None
    data = intensities.Intensities.of(transform, problem.y)
    signal = intensities.Normal(data.s2)
    everything = np.arange(problem.n)
    best: Fit | None = None
    for setting in intensities.attempts(data, problem.rng):
        estimate = intensities.run(data, signal, setting)
        yield Reread(data.B.uncharged())
        if estimate.gap > intensities.NEAR:
            continue
        found = yield from fit(problem, estimate.x, everything, desk.rule, desk.cache)
        outcome = yield from desk.judge(found, "vamp")
        # A good fit may be a wrong one still: it is noise that is left where another attempt comes to the same fit.
        clear = best is not None and same(best, found) and _left(problem, found) < _CLEAR
        if outcome is None and (problem.noise.given or clear):
            outcome = yield from in_noise(desk, found, "vamp", clear)
        if outcome is not None:
            return outcome
        best = found if best is None or found.residual < best.residual else best
    return None if best is None else (yield from in_noise(desk, best, "vamp"))


# -- descents -------------------------------------------------------------------------------------------------------


def descents(desk: Desk) -> Stage:
    """Levenberg–Marquardt on all coordinates from several starts, with the rows of A brought to one size."""
    problem = desk.problem
    everything = np.arange(problem.n)
    sizes = yield from row_sizes(problem)
    best: Fit | None = None
    for x in (yield from _starts(problem, sizes)):
        found = yield from fit(problem, x, everything, desk.rule, desk.cache, 1 / sizes)
        outcome = yield from _judge(desk, found, "lm")
        if outcome is not None:
            return outcome
        if best is None or np.linalg.norm(found.r / sizes) < np.linalg.norm(best.r / sizes):
            best = found
    return None if best is None else (yield from in_noise(desk, best, "lm"))


def _judge(desk: Desk, found: Fit, method: str) -> Stage:
    """The outcome where a fit ends the solve: exact, or by the noise that it leaves."""
    problem, s = desk.problem, found.support.size
    if problem.fixed and s == problem.m and exact_enough(problem, found.residual):
        # Accept one of finitely many solutions: no other is better.
        return Outcome(found.x, found.residual, free=s, method=method, entries=desk.entries)
    outcome = yield from desk.judge(found, method)
    if outcome is not None:
        return outcome
    # Try other starts unless almost nothing is left; and with known values, also the other sign.
    clear = not problem.fixed and (problem.noise.given or _left(problem, found) < _CLEAR)
    return (yield from in_noise(desk, found, method)) if clear else None


def in_noise(desk: Desk, found: Fit, method: str, agreed: bool = False) -> Stage:
    """The outcome where a fit is signal in noise; `agreed` where another start led to it, and little is left."""
    if desk.problem.noiseless:
        return None
    better = yield from _turned(desk, found)
    if better is not None:
        found = better
        outcome = yield from desk.judge(found, method)
        if outcome is not None:
            return outcome
    weighed = yield from weighing.weigh(desk.problem, found, desk.cache)
    outcome = weighing.verdict(desk.problem, desk.entries, weighed, method, agreed)
    problem, noise = desk.problem, desk.problem.noise
    sure = not (noise.given or agreed) or noise.reweighs or problem.by_transform
    if outcome is None or sure or promising(problem, weighed.fit):
        return outcome
    # Noise explains what is left, as it may of a wrong valley, or of a sparse x that all coordinates overfit.
    ended = outcome if noise.given else replace(outcome, end=End.STAGNATED)
    desk.fallback = desk.fallback or ended
    return None


def _turned(desk: Desk, best: Fit) -> Asks[Fit | None]:
    """A better fit on all coordinates, found by giving parts of the best the other sign; None where there is none.

    Where a small entry of x is all that couples two parts of it, as in a chain, descents end with the wrong sign of one
    of them. It costs the pass that reads A into memory, where it fits in.
    """
    problem = desk.problem
    if problem.fixed or problem.turning or problem.matrix_free or problem.m * problem.n**2 > _TURNED_ENTRIES:
        return None
    block = yield Block(np.arange(problem.n))
    x, square = best.x, float(best.r @ best.r)
    for _ in range(_TURNS):
        for start in turned_at_weakest(block, x, problem.n):
            descent = on_block(problem.y, start, block, _TURNED)
            if descent.square < _LOWER * square:
                x, square = descent.z, descent.square
                break
        else:
            break
    if x is best.x:
        return None
    return (yield from fit(problem, x, np.arange(problem.n), desk.rule, desk.cache))


def row_sizes(problem: Problem) -> Asks[Float]:
    """`g_i = ‖Ã_i v‖` for a random v, at least a thousandth of the largest."""
    W = yield Products(problem.rng.standard_normal(problem.n))
    sizes = np.linalg.norm(W, axis=1)
    return np.maximum(sizes, _LEAST_ROW * sizes.max()) if sizes.any() else np.ones(problem.m)


def _starts(problem: Problem, sizes: Float) -> Asks[list[Float]]:
    """The starts of the descents, the likeliest first."""
    n, m = problem.n, problem.m
    few = m < _FEW * (n - len(problem.fixed))
    spectral = yield from _spectral_vector(problem, sizes)
    starts: list[Float] = []
    if problem.fixed:
        starts.append(np.zeros(n))
    directions = [spectral, np.ones(n)]
    if problem.fixed:
        # Try the other sign too: the entry at a known value may be too small to determine it.
        other = spectral.copy()
        other[problem.known] *= -1
        directions.insert(1, other)
    for direction in directions:
        starts.append((yield from _fitted(problem, direction, sizes)))
    length = float(np.linalg.norm(starts[-1])) or problem.phi
    for _ in range(_MORE_STARTS if few else _RANDOM_STARTS):
        direction = problem.rng.standard_normal(n)
        starts.append(length * direction / np.linalg.norm(direction))
    return starts


def _spectral_vector(problem: Problem, sizes: Float) -> Asks[Float]:
    """The leading eigenvector of `Σ_i t_i Ã_i`, with t = T(y)/trace where no diagonal is negative, else y/g²."""
    diagonals = yield Diagonals()
    traces = diagonals.sum(axis=1)
    # The eigenvector does not depend on their scale, and squares of small sizes would be zero.
    weights = problem.y / np.abs(problem.y).max() / (sizes / sizes.max()) ** 2
    if diagonals.min() >= 0 and (traces > 0).all() and problem.y.min() >= 0:
        u = problem.y / traces
        u = u / u.mean()
        # Sums of R terms have the variance 2/R for real Gaussian vectors.
        rank = float(np.clip(2 / max(float(np.var(u)), 1e-12), 1, problem.n))
        weights = intensities.spectral_weights(u, problem.m * rank / problem.n) / traces
    return leading_eigenvector((yield WeightedSum(weights)))


def _fitted(problem: Problem, direction: Float, sizes: Float) -> Asks[Float]:
    """A multiple c of a direction, with the c for which the scaled measurements fit best."""
    W = yield Products(direction)
    q, y = W @ direction / sizes, problem.y / sizes
    square = float(q @ y) / float(q @ q) if float(q @ q) > 0 else 0.0
    return np.sqrt(square) * direction if square > 0 else problem.phi * direction / np.linalg.norm(direction)
