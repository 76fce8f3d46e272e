"""Whether an answer is in the right valley of ‖r‖², or the only one that reaches zero: the challenge of a real signal.

That x leaves only noise is evidence for it if a wrong valley would seldom leave as little: up to 2^s of them differ in
the signs of x, and each measurement beyond those that x was fitted to rules out most of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import refutation
from fastquad.engine.trust.challenge import (
    APART,
    CHALLENGE,
    CHALLENGE_INDEPENDENT,
    CHALLENGE_STRUCTURED,
    NOT_AGAIN,
    Challenge,
    Met,
    starts,
)
from fastquad.engine.trust.evidence import SPARE_NATS, against_chance, evidence_of
from fastquad.engine.trust.rivals import Tests, expand
from fastquad.measurements.contractions import Block
from fastquad.numerics.levenberg_marquardt import Descent, on_block
from fastquad.numerics.symmetry import turned_at_weakest
from fastquad.typing import Asks, Float, Indices

# The number of parts of x that are tried with the other sign before random starts.
_TURNED = 16
# The part of a signal that a wrong one near it may leave.
_PART = 0.5
#: The evidence beyond chance, as a multiple of what is needed, from which on a search far from x takes no more time
#: than for an exact answer: a guess.
BEYOND_CHANCE = 2.0
_FEW_TO_SPARE = "With so few measurements to spare, a signal with other signs may leave as little by chance."


def challenged(tests: Tests, independent: bool) -> Asks[str]:
    """Why x may be in the wrong valley; empty if random starts come back to it, and find nothing that fits as well.

    For `independent` entries the method separates signal from noise; elsewhere a fit in the wrong valley may leave what
    looks like noise, and the only evidence for x is that random starts find it again.
    """
    answer, problem, m = tests.answer, tests.problem, tests.problem.m
    nats, by_chance = against_chance(problem, answer.s, problem.sigma or float(np.median(tests.delta)))
    if independent and nats < by_chance + SPARE_NATS:
        return _FEW_TO_SPARE
    count = None
    if independent and nats > BEYOND_CHANCE * (by_chance + SPARE_NATS):
        # Chance does not explain x, only a planted twin could: it is looked for as that of an exact answer.
        count = refutation.starts(m, answer.allowed.size, answer.s, independent=True)
        if count == 0:
            return ""
    most = CHALLENGE_INDEPENDENT if independent else CHALLENGE_STRUCTURED
    # Unless a prior has shrunk it, x is where the descent on its support ends.
    near, better = (tests.measure.apart, APART) if independent else (APART, tests.measure.nearer)
    challenge, met, evident = Challenge(near, better, tests.measure.nearer), Met.NOTHING, True
    # On S descents come back to x more easily: that they do says something only if S is much smaller (a guess).
    few = answer.S if 2 * answer.s <= answer.allowed.size or m <= answer.allowed.size else answer.allowed
    for where in (answer.allowed, few) if m > answer.allowed.size else (few,):
        everything = np.union1d(where, problem.known)
        if m * everything.size**2 > most or where.size >= m:
            return ""
        block = yield Block(everything)
        evident = independent or _evident(tests, block)
        met = challenge.meet(_descents(tests, block, everything, where, count), tests.away, tests.rival)
        if met is Met.ANOTHER:
            return tests.shown()
        if met is Met.BETTER:
            tests.twin = challenge.found
            return f"Another signal, {challenge.away:.2g} away, is far likelier."
        if met is Met.AGAIN:
            break
    if not independent:
        tests.blur = max(tests.blur, challenge.blur)
    if challenge.settled:
        return ""  # a dozen descents came back to x, and the other valleys that they met are not as likely
    if not evident:
        return _FEW_TO_SPARE
    # Count a residual at the given level of noise as evidence for x, too.
    sure = independent or problem.noise.given or met is Met.AGAIN
    return "" if sure else NOT_AGAIN


def refuted(tests: Tests) -> Asks[str]:
    """Why an exact answer may not be the only one; empty if descents from other starts find no other."""
    answer, problem = tests.answer, tests.problem
    independent = tests.entries is None or tests.entries.independent
    count = refutation.starts(problem.m, answer.allowed.size, answer.s, independent=independent)
    if count == 0:
        return ""
    for where in (answer.allowed, answer.S):
        if where.size >= problem.m:
            continue
        everything = np.union1d(where, problem.known) if problem.fixed else where
        block = answer.known.on(everything)
        block = block if block is not None else (yield Block(everything))
        W = np.zeros_like(answer.W)
        W[:, everything] = block @ answer.x[everything]
        # With no more independent measurements than coordinates there are always others that are dense.
        if where.size > answer.s and not tests.sees_all(answer.z, W):
            continue

        def away(z: Float, everything: Indices = everything) -> float:
            return tests.away(expand(z, everything, problem.n))

        free = np.searchsorted(everything, where) if problem.fixed else None
        for z in refutation.other_ends(problem.y, answer.x[everything], block, count, away, free=free):
            twin = yield from tests.refit(expand(z, everything, problem.n), where)
            if twin is not None and tests.another(twin):
                return tests.shown()
        return ""
    return ""


def searched_everywhere(problem: Problem, entries: Entries | None) -> bool:
    """Whether `refuted` will look for another answer on all coordinates."""
    unknowns = problem.n if problem.support is None else problem.support.size
    independent = entries is None or entries.independent
    return unknowns < problem.m and bool(refutation.starts(problem.m, unknowns, unknowns, independent=independent))


def _evident(tests: Tests, block: Float) -> bool:
    """Whether it is evidence for x that it leaves no more than noise, where the matrices depend on each other.

    A random signal of the norm of x has measurements of about `√2 ‖x‖² ‖Ã_i‖/n`, in units of the noise; their principal
    components replace the equations. The s largest are what x was fitted to. If the level is not given, it is what x
    leaves: a wrong x that is near the right one leaves a part of each component, which is no noise.
    """
    flat = block.reshape(len(block), -1) * (math.sqrt(2) * tests.norm**2 / block.shape[1] / tests.delta[:, None])
    values = np.linalg.eigvalsh(flat @ flat.T if len(flat) < flat.shape[1] else flat.T @ flat)
    spare = np.sort(values)[::-1][tests.answer.s :]
    least = 1.0 if tests.problem.noise.given else _PART**-2
    signs = 0.0 if tests.problem.fixed else tests.answer.s * math.log(2)
    return 0.5 * float(np.log(np.maximum(spare / least, 1.0)).sum()) > signs + SPARE_NATS


def _descents(
    tests: Tests, block: Float, everything: Indices, where: Indices, count: int | None
) -> Iterator[tuple[float, Float]]:
    """Signals that Levenberg–Marquardt finds from x with the other sign in parts, and from random ones, with the
    evidence for each less that for x."""
    x, rng = tests.answer.x[everything], np.random.default_rng(2)
    free = np.searchsorted(everything, where)
    known = np.setdiff1d(np.arange(everything.size), free)
    random = rng.standard_normal((starts(block.size) if count is None else count, x.size))
    for start in chain(turned_at_weakest(block, x, _TURNED) if count is None else (), random):
        start *= tests.norm / max(float(np.linalg.norm(start[free])), 1e-300)
        start[known] = x[known]
        descent = on_block(tests.problem.y, start, block, CHALLENGE, free=free if known.size else None)
        found = expand(descent.z, everything, tests.problem.n)
        yield gain(tests.problem, tests.answer.evidence, found, descent, everything, where), found


def gain(
    problem: Problem, evidence: float, found: Float, descent: Descent, everything: Indices, where: Indices
) -> float:
    """The evidence for the end of a descent, less that for x; `where` are the coordinates that it has fitted."""
    W = np.zeros((problem.m, problem.n))
    W[:, everything] = descent.W
    return evidence_of(problem, found, W, descent.r, where) - evidence
