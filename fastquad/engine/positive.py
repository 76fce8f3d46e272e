"""Refuse matrices that give negative signals, where the noise is that of counts.

A witness is certain: x^* A_i x < 0 for the coordinate vectors (a diagonal entry below zero) or for a random x. A family
that is positive semidefinite has none; one that is not, such as random symmetric matrices, has one in nearly every
matrix. It takes the diagonals, and the products of one vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import Steps
from fastquad.measurements.contractions import Diagonals, Products
from fastquad.typing import Float

# A value below zero is rounding up to this share of the sum of its terms' sizes, which for float16 entries is larger.
_ROUNDING = 1e-9


def refusing(problem: Problem, steps: Steps) -> Steps:
    """The steps of a method, after a look for a negative signal."""
    # A transform has matrices B^T B; with known values and linear terms the sum of all terms must not be negative.
    if problem.resume is None and not problem.by_transform and not problem.fixed:
        diagonals: Float = yield Diagonals()
        _refuse(diagonals.min(axis=1), np.abs(diagonals).max(axis=1), problem)
        x = np.random.default_rng(0).standard_normal(problem.n)
        W: Float = yield Products(x)
        _refuse(W @ x, np.abs(W) @ np.abs(x), problem)
    outcome: Any = yield from steps
    return outcome


def _refuse(values: Float, sizes: Float, problem: Problem) -> None:
    """Raise an error if one of these signals is negative beyond rounding."""
    rounding = max(_ROUNDING, 4 * float(np.finfo(problem.dtype).eps))
    wrong = np.flatnonzero(values < -rounding * sizes)
    if wrong.size:
        raise ValueError(
            f"`A` must be positive semidefinite with {type(problem.noise.bare).__name__} noise, because a count has no "
            f"negative mean: x^* A_i x is negative for some x at {wrong.size} of {problem.m} matrices, i = {wrong[0]} "
            "first. Give noise=sigma (a number, or one for each measurement) for such matrices."
        )
