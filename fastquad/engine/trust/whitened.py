"""The verdict where noise differs from measurement to measurement: that of the problem in units of its noise.

Near a fit z the likelihood of any noise is that of Gaussian noise about the data `t = z + score/weight`, of the
standard deviation `1/√weight`. Divided by it, all measurements have noise of one size, as all tests assume. They need
not know: they get the problem of the scaled matrices, and of each answer that they ask for, the scaled rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Request, routed
from fastquad.engine.steps import Outcome, Verdict
from fastquad.engine.trust import tolerances as tol
from fastquad.measurements.contractions import Products, WeightedSum
from fastquad.noise import Gaussian
from fastquad.noise.base import LEAST
from fastquad.typing import Asks, Float, T


def in_units_of_noise(
    problem: Problem, outcome: Outcome, judge: Callable[[Problem, Outcome], Asks[Verdict]]
) -> Asks[Verdict]:
    """What `judge` says in units of the noise."""
    W = yield Products(outcome.x)
    z = np.einsum("ij,j->i", W, outcome.x)
    free = outcome.free if outcome.free is not None else int(np.count_nonzero(outcome.x))
    noise = outcome.model or problem.noise.learn(problem.y, z, free - problem.turning)
    weight = noise.weight(problem.y, z)
    w = np.sqrt(np.maximum(weight, LEAST**2 * float(weight.max())))
    y = w * (z + noise.score(problem.y, z) / weight)
    block = None if outcome.entries is None else outcome.entries.block
    entries = outcome.entries
    if entries is not None and block is not None:
        entries = replace(entries, block=block * w[:, None, None])
    level = Gaussian()
    if problem.noise.given:
        # Squares of scores have heavier tails than χ²: the noise itself says whether it explains what is left.
        left = float(np.linalg.norm(w * z - y)) / np.sqrt(max(1, problem.m - free + problem.turning))
        explained = noise.explains(problem.y, z, free - problem.turning) >= tol.ALPHA
        level = Gaussian(max(1.0, left) if explained else 1.0)
    part = replace(problem, y=y, noise=level, by_transform=False)
    residual = float(np.linalg.norm(w * z - y) / np.linalg.norm(y))
    told = replace(outcome, residual=residual, noise=1.0, entries=entries, known=None)
    verdict: Verdict = yield from _scaled(judge(part, told), w)
    status, found = verdict
    residual, level_of = (outcome.residual, outcome.noise) if found.x is told.x else (found.residual, None)
    return Verdict(status, replace(found, residual=residual, noise=level_of, entries=outcome.entries, proof=None))


def _scaled(tests: Asks[T], w: Float) -> Asks[T]:
    """The result of tests of rows that are multiplied by w, (m,)."""

    def ask(request: Request) -> Asks[Any]:
        if isinstance(request, WeightedSum):
            return (yield WeightedSum((request.w.T * w).T))
        answer = yield request
        return answer if answer is None else request.scaled(answer, w)

    return (yield from routed(tests, ask))
