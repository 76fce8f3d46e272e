"""Least squares on a support by a fast transform: no products of x are formed, and no block of A is read."""

from __future__ import annotations

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Step
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.numerics.line_descent import TransformDescent
from fastquad.numerics.transform import Transform, Within
from fastquad.typing import Asks, Float, Indices

_RULE = Rule(max_steps=40, patience=8)


def fit_within(problem: Problem, transform: Transform, x: Float, support: Indices) -> Asks[TransformDescent]:
    """Levenberg–Marquardt from x on a support, each row in units of its noise if that is given.

    The descent that it ends with is that of the columns of the support.
    """
    B = Within(transform, support)
    weights = None
    if problem.noise.given and not problem.noise.exact:
        sigma = problem.deviations(transform.measure(x) - problem.y)
        weights = float(sigma.min()) / sigma
    descent = TransformDescent(B, problem.y, x[support], weights)
    while not descent.finished(_RULE):
        descent.step()
        yield Reread(B.uncharged())
        yield Step(B.expanded(descent.x), descent.residual)
    return descent


def whole_support(problem: Problem, nonzero: Indices) -> Indices:
    """These coordinates, with all that is zero together with them."""
    return np.asarray(nonzero) if problem.groups is None else problem.groups.whole(nonzero)
