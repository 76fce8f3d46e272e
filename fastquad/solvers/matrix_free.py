"""The stages of the default method where A is known by its verbs alone: `measure`, `along` and `gradient`.

Every descent is Levenberg–Marquardt by conjugate gradients (`fastquad.numerics.forms`), from these starts:

    spectral vectors    of Σ_i t_i Ã_i, by Lanczos steps. t = y; where no Ã_i has a negative value, as in phase
                        retrieval, t = T(y/trace)/trace with the weights that are optimal there, and traces from
                        random signs
    a constant          c·(1, …, 1) with the c that fits best
    at random           directions of that length

A spectral start is first: for independent matrices it leans towards x from m = n on, and is all that is needed from
about m = 2n on. For stabiliser states nearly all y are zero; the leading eigenspace is then of many dimensions, and
each run of Lanczos gives another vector of it.

Exact data end the search. In noise a fit ends it that leaves almost nothing, or to which two descents came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Outcome
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Verbs
from fastquad.numerics.forms import Forms
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers import intensities
from fastquad.solvers.parts import weighing
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float

Stage = Asks[Outcome | None]

# Pauli strings of 6 to 9 qubits, 4 n of them: descents from random starts took 13 to 57 steps, and never stood still
# for ten at less than a percent a step.
_RULE = Rule(max_steps=200, patience=10, factor=1.01)
# Spectral vectors from several runs of Lanczos, and random starts (a guess: what is worth trying).
_SPECTRAL, _RANDOM = 2, 8
# Draws for the traces: they are weights, which need no accuracy.
_DRAWS = 16
# The share of y's variance below which a fit is clear, and at which two are the same: those of `structured`.
_CLEAR, _AGREE = 0.05, 1e-3


class Desk(Protocol):
    """What the default method lends to this stage."""

    problem: Problem
    cache: GrowingBlock
    entries: Entries

    def judge(self, found: Fit, method: str) -> Stage: ...
    def remember(self, found: Fit, method: str) -> None: ...


def stages(desk: Desk) -> Iterator[Stage]:
    """The only stage."""
    yield descents(desk)


def descents(desk: Desk) -> Stage:
    """Levenberg–Marquardt from one start after the other."""
    problem = desk.problem
    forms = yield Verbs()
    best: Fit | None = None
    for x in _starts(problem, forms):
        yield Reread(forms.uncharged())
        found = yield from fit(problem, x, np.arange(problem.n), _RULE, desk.cache)
        desk.remember(found, "lm")
        if exact_enough(problem, found.residual):
            return Outcome(found.x, found.residual, free=problem.n, method="lm", entries=desk.entries)
        agrees = best is not None and abs(best.residual - found.residual) <= _AGREE * best.residual
        best = found if best is None or found.residual < best.residual else best
        if found is best and (agrees or problem.noise.given or _left(problem, found) < _CLEAR):
            outcome = yield from in_noise(desk, found)
            if outcome is not None:
                return outcome
    return None if best is None else (yield from in_noise(desk, best))


def in_noise(desk: Desk, found: Fit) -> Stage:
    """The outcome where a fit is signal in noise."""
    if desk.problem.noiseless:
        return None
    weighed = yield from weighing.weigh(desk.problem, found, desk.cache)
    return weighing.verdict(desk.problem, desk.entries, weighed, "lm")


def spectral_vector(problem: Problem, forms: Forms) -> Float:
    """The leading vector of the weighted sum of the matrices, of norm 1."""
    return _spectral(forms, _weights(problem, forms), np.random.default_rng(0))


def _starts(problem: Problem, forms: Forms) -> Iterator[Float]:
    """The starts, the likeliest first; each is made when it is needed."""
    weights = _weights(problem, forms)
    for _ in range(_SPECTRAL):
        yield fitted(problem, forms, _spectral(forms, weights, problem.rng))
    constant = fitted(problem, forms, np.ones(problem.n))
    yield constant
    length = float(np.linalg.norm(constant))
    for _ in range(_RANDOM):
        direction = problem.rng.standard_normal(problem.n)
        yield length * direction / float(np.linalg.norm(direction))


def fitted(problem: Problem, forms: Forms, direction: Float) -> Float:
    """A multiple c of a direction, with the c for which the measurements fit best."""
    q = forms.measure(direction)
    square = float(q @ problem.y) / float(q @ q) if float(q @ q) > 0 else 0.0
    return direction * (np.sqrt(square) if square > 0 else problem.phi / float(np.linalg.norm(direction)))


def _spectral(forms: Forms, weights: Float, rng: np.random.Generator) -> Float:
    return forms.leading(weights, rng)[0]


def _weights(problem: Problem, forms: Forms) -> Float:
    """The weights of the measurements for a spectral start."""
    y = problem.y / float(np.abs(problem.y).max())
    if y.min() < 0:
        return y
    traces, least = forms.traces(np.random.default_rng(0), _DRAWS)
    if least < 0 or not (traces > 0).all():
        return y
    u = y / traces
    u = u / u.mean()
    # Sums of R terms have the variance 2/R for real Gaussian vectors.
    rank = float(np.clip(2 / max(float(np.var(u)), 1e-12), 1, problem.n))
    return intensities.spectral_weights(u, problem.m * rank / problem.n) / traces


def _left(problem: Problem, found: Fit) -> float:
    """The share of y's variance that a fit leaves, as its free coordinates would let it by chance."""
    spare = problem.m - problem.unknowns
    spread = float(np.var(problem.y) / np.mean(problem.y**2))
    return found.residual**2 * problem.m / (spare * spread) if spare > 0 and spread > 0 else np.inf
