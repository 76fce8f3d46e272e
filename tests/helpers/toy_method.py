"""A toy method: Newton's steps on r = 0 by least squares, from a start that is near.

r(x + d) ≈ r + 2 W d,  so  d = −argmin ‖r + 2 W d‖,  one pass over A a step.
"""

from typing import ClassVar

import numpy as np

from fastquad.engine.steps import End, Outcome, Step
from fastquad.measurements.contractions import Products
from fastquad.solvers.base import Solver, options


@options
class GaussNewton(Solver):
    """Gauss–Newton from x0."""

    name: ClassVar[str] = "toy"
    max_steps: int = 20

    def steps(self, problem):
        x, scale = problem.x0, np.linalg.norm(problem.y)
        for _ in range(self.max_steps):
            W = yield Products(x)
            r = W @ x - problem.y
            residual = float(np.linalg.norm(r) / scale)
            yield Step(x, residual)
            if residual < problem.tol:
                return Outcome(x, residual, End.CONVERGED)
            x = x - np.linalg.lstsq(2 * W, r, rcond=None)[0]
        return Outcome(x, residual, End.STAGNATED)
