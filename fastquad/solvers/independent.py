"""The stages of the default method where the entries of A are independent: see the table in `fastquad.solvers.plan`.

a quick pursuit        if the diagonals hint at few large coordinates and its block costs at most 0.1 pass
likely coordinates     those that AMP's first estimate shows, fitted, and those that the residual leans to
all coordinates        Levenberg–Marquardt from AMP's first estimate, for m >= 1.3 n, which needs no prior
message passing        AMP: three batches of starts, from spectral vectors, and from the ends of earlier stages
pursuit, all levels    for m <= n
other settings, Gibbs  only if the user gives `max_passes` or says `noise=0`: hundreds and thousands of passes
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile

import numpy as np

from fastquad.engine.steps import Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Diagonals
from fastquad.solvers.amp.amp import Convergence, Search
from fastquad.solvers.parts.descent import fit
from fastquad.solvers.plan import DESCENT, Desk, affordable
from fastquad.solvers.pursuit import tuning
from fastquad.typing import Asks

Stage = Asks[Outcome | None]

# With independent entries, 98 % of the descents that converge take at most 19 steps for n < 60, and 31 of 33 at most 9
# for n = 100. The others, and those in noise, go on for up to 70: AMP gets there in fewer passes. Those in noise show
# sooner, by how little ‖r‖² falls.
SPECTRAL = DESCENT._replace(max_steps=20, patience=4, factor=1.1)
# The largest share of A's pairs, and of the coordinates, that quick pursuit may take.
_QUICK_SHARE = 0.1
_CYCLES = 12


def from_start(desk: Desk) -> Stage:
    """Levenberg–Marquardt from the user's start: on all coordinates for m >= n, then on its support."""
    x0, m, n = desk.problem.x0, desk.problem.m, desk.problem.n
    assert x0 is not None
    support = np.flatnonzero(x0)
    supports = [np.arange(n)] if m >= desk.problem.unknowns else []
    if not supports or support.size <= n / 2:
        # Take fewer coordinates than measurements: a fit with more proves nothing.
        supports.append(np.sort(np.argsort(-np.abs(x0), kind="stable")[: min(support.size, m - 1)]))
    for chosen in supports:
        found = yield from fit(desk.problem, x0, chosen, desk.rule, desk.cache)
        outcome = yield from desk.judge(found, "lm")
        if outcome is None and desk.weighs and chosen.size == n:
            from fastquad.solvers.structured import in_noise

            outcome = yield from in_noise(desk, found, "lm")
        if outcome is not None:
            return outcome
    desk.near.append(found.x)
    return None


# -- pursuit ------------------------------------------------------------------------------------------------------


def quick_pursuit(desk: Desk) -> Stage:
    """The first levels of pursuit, where few large coordinates are likely."""
    n = desk.problem.n
    levels = [
        tuning.Level(level.p, [tuning.Phase([(0, 0)], level.phases[0].limit)])
        for level in takewhile(lambda each: each.p**2 <= _QUICK_SHARE * n**2, islice(tuning.levels(desk.problem), 2))
    ]
    if not levels or not (yield from _looks_sparse(desk)):
        return None
    noisy = desk.problem.noise.given and not desk.believes
    outcome = yield from _pursuit(desk, levels, noisy, quick=not noisy)
    _warm(desk)
    return outcome


def pursue(desk: Desk) -> Stage:
    """Pursuit on all levels."""
    outcome = yield from _pursuit(desk, tuning.levels(desk.problem), noisy=True)
    if outcome is not None and outcome.noise is not None and outcome.error is None and desk.believes:
        # Start AMP from this signal in noise: it estimates the error.
        desk.near = [outcome.x]
        better = yield from message_passing(desk, 0)
        return better if better is not None else outcome
    _warm(desk)
    return outcome


def _pursuit(desk: Desk, levels: Iterable[tuning.Level], noisy: bool, quick: bool = False) -> Stage:
    from fastquad.solvers.pursuit import solver as pursuit

    if desk.search is None:
        desk.search = yield from pursuit.Search.begin(desk.problem, desk.entries, desk.cache)
    outcome, best = yield from pursuit.run(desk.problem, desk.entries, desk.search, levels, noisy, quick)
    if outcome is None and best is not None:
        return (yield from desk.judge(best, "pursuit"))
    return outcome


def _warm(desk: Desk) -> None:
    """Add pursuit's best supports to AMP's starts."""
    x = None if desk.search is None else desk.search.likeliest()
    if x is not None:
        desk.near = [x]


def _looks_sparse(desk: Desk) -> Asks[bool]:
    """Whether the diagonals show large coordinates.

    `I = diag^T y` has entries x_l² times a constant, plus noise of variance |y|²|a_l|²/m; the sum of the squares of
    the normalised entries has the mean n and the variance 2n without a signal, and is larger by m Σ x_l⁴/|x|⁴ with one.
    """
    y, diagonals = desk.problem.y, (yield Diagonals())
    m, n = diagonals.shape
    squares = np.einsum("ij,ij->j", diagonals, diagonals) * float(y @ y) / m
    normalised = (y @ diagonals) ** 2 / np.where(squares > 0, squares, 1.0)
    return float(normalised.sum()) > n + np.sqrt(2.0 * n)


# -- descents -----------------------------------------------------------------------------------------------------


def equations(desk: Desk) -> Stage:
    """Descents from several starts, where linear terms or known values determine the sign of x.

    With as many equations as unknowns they end at one of several solutions: if x may be sparse, AMP comes first.
    """
    if desk.ratio == 1 and (yield from _looks_sparse(desk)):
        return None
    from fastquad.solvers.structured import descents

    return (yield from descents(desk))


def likely_coordinates(desk: Desk) -> Stage:
    """Levenberg–Marquardt on the coordinates that AMP's first estimate shows, if its matrices fit in memory."""
    if desk.problem.fixed or not affordable(desk.problem):
        return None
    from fastquad.solvers.amp.starts import likely

    messages = yield from _messages(desk)
    desk.estimate = yield from likely(desk.problem, messages.ensemble, messages.starts.quick, desk.cache)
    found = desk.estimate.fit
    if found is not None and exact_enough(desk.problem, found.residual):
        return (yield from desk.judge(found, "lm"))
    if found is not None and desk.estimate.stands_still and desk.believes:
        desk.near = [found.x]
        return (yield from message_passing(desk, 0))
    return None


def all_coordinates(desk: Desk) -> Stage:
    """Levenberg–Marquardt on all coordinates, from AMP's first estimate or the fit that it led to."""
    if desk.estimate is None:  # it did not fit in memory, and nor would this
        return None
    problem, n, x = desk.problem, desk.problem.n, desk.estimate.x
    rule = desk.rule if problem.noiseless else SPECTRAL
    found = yield from fit(problem, x, np.arange(n), rule, desk.cache)
    if not exact_enough(problem, found.residual):
        # Judge noise only for m >= 2 n: below, the descent may have ended in another valley.
        if not desk.believes and not problem.noiseless and problem.m >= 2 * n:
            from fastquad.solvers.parts import noise_fit

            found = yield from noise_fit.sparsified(problem, found, desk.cache)
        elif (yield from _messages(desk)).hand_over.at_bottom(found):
            desk.near.append(found.x)
    return (yield from desk.judge(found, "lm"))


# -- AMP and sampling ---------------------------------------------------------------------------------------------


def message_passing(desk: Desk, *batches: int) -> Stage:
    """AMP from these batches of starts and from the ends of other stages, if its matrices fit in memory."""
    problem = desk.problem
    if not affordable(problem):
        return None
    from fastquad.solvers.amp import starts

    messages = yield from _messages(desk)
    for number in batches:
        near = [starts.near(problem, messages.ensemble, x) for x in desk.near if x.any()]
        desk.near = []
        attempts = near + (messages.starts.batch(number) if number else [])
        if number == 3:
            attempts += yield from starts.from_blocks(problem, desk.entries, messages.ensemble)
        # Give the first starts more sweeps than the others, which are many.
        sweeps = Convergence.sweeps if number < 2 or desk.persistent else Convergence.later
        outcome = (yield from messages.batch(attempts, sweeps)) if attempts else None
        if outcome is not None:
            return outcome
    outcome = messages.verdict(last=3 in batches)
    if outcome is None and desk.persistent:
        outcome = yield from messages.go_on()
    if outcome is None and messages.fit is not None:
        desk.remember(messages.fit, "amp")
    return outcome


def _messages(desk: Desk) -> Asks[Search]:
    if desk.messages is None:
        desk.messages = yield from Search.begin(desk.problem, desk.entries, desk.cache)
    return desk.messages


def sampling(desk: Desk) -> Stage:
    """Gibbs sampling at cycling temperatures, if all of A fits in memory."""
    from fastquad.solvers import gibbs
    from fastquad.solvers.amp.hand_over import SparseHandOver
    from fastquad.solvers.pursuit.search import Search as Pursuit

    problem = desk.problem
    if not gibbs.affordable(problem):
        return None
    if desk.search is None:
        desk.search = yield from Pursuit.begin(problem, desk.entries, desk.cache)
    yield from desk.search.store.read_block(problem.n)
    chain = gibbs.Chain(problem, desk.search.store)
    hand_over = SparseHandOver(problem, desk.cache)
    for _ in range(_CYCLES):
        x = yield from chain.cycle()
        found = yield from hand_over.largest(x, np.abs(x), int(np.count_nonzero(x)) + 2)
        outcome = yield from desk.judge(found, "gibbs")
        if outcome is not None:
            return outcome
    return None
