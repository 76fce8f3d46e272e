"""x = 0, where all measurements are zero: whether another signal has only zeros, too."""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.entries import few_valued
from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.doubt import starts
from fastquad.engine.trust.gauge import Gauge, expand
from fastquad.measurements.contractions import Block, Diagonals, Products
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.status import Status
from fastquad.typing import Asks, Float, Indices


def doubt_zero(problem: Problem) -> Asks[tuple[Status, str, Float | None]]:
    """The status of x = 0 if all measurements are zero, why another signal may have only zeros, and such a signal.

    Signals with `x^T A_i x = 0` for all i are few or none if there are at least as many independent equations as
    unknowns. The products of a random vector show whether that holds, and whether the A_i have a common null space; of
    few-valued matrices, descents from random signals find such an x.
    """
    given, gauge = problem.support, Gauge(problem)
    allowed = np.setdiff1d(np.arange(problem.n) if given is None else given, problem.known)
    unknowns, rank = allowed.size - gauge.count, problem.m
    few = f"There are fewer measurements ({problem.m}) than unknowns ({allowed.size}): other signals may measure zero."
    rival: Float | None
    if problem.m >= allowed.size:
        diagonals = (yield Diagonals())[:, allowed]
        alone = allowed[~diagonals.any(axis=0)]
        if alone.size:
            rival = expand(np.ones(1), alone[:1], problem.n)
            return Status.AMBIGUOUS, f"Nothing measures {gauge.names(alone)} alone: it may have any value.", rival
        W = yield Products(np.random.default_rng(0).standard_normal(problem.n))
        values = np.linalg.svd(W[:, allowed], compute_uv=False)
        rank = int(np.count_nonzero(values > 1e-10 * values[0]))
        few = f"Independent measurements: {rank}, for {unknowns} unknowns. So other signals measure zero too."
    if problem.m < allowed.size or rank < unknowns:
        _, rival = yield from _another_zero(problem, allowed)
        return Status.UNDETERMINED if rival is None else Status.AMBIGUOUS, few, rival
    # By chance, entries of any value do not add up to zero.
    doubt, rival = (yield from _another_zero(problem, allowed)) if few_valued(diagonals) else ("", None)
    return Status.AMBIGUOUS if doubt else Status.TRIVIAL, doubt, rival


def _another_zero(problem: Problem, allowed: Indices) -> Asks[tuple[str, Float | None]]:
    """Whether Levenberg–Marquardt finds a unit vector with zero measurements, if A is small enough to try."""
    m, n = problem.m, allowed.size
    if m * n**2 > tol.LOOK_ENTRIES:
        return "", None
    block = np.concatenate([(yield Block(allowed)), np.eye(n)[None]])
    y = np.append(np.zeros(m), 1.0)
    rng = np.random.default_rng(2)
    for _ in range(starts(block.size)):
        descent = on_block(y, rng.standard_normal(n) / math.sqrt(n), block, tol.CHALLENGE)
        if descent.residual < EXACT_RESIDUAL:
            largest = np.argsort(-np.abs(descent.z), kind="stable")[: tol.FEW]
            values = ", ".join(f"{descent.z[j]:.3g} at {allowed[j]}" for j in np.sort(largest))
            rival = expand(descent.z, allowed, problem.n)
            return f"Another signal measures zero, too: {values}{', …' if n > tol.FEW else ''}.", rival
    return "", None
