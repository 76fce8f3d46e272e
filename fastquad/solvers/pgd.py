"""Projected gradient descent (Algorithm 4 of the paper).

    x_0 = P_G(S w_0)  (the projected power method),      x_{t+1} = P_G(x_t − μ ∇f(x_t)),

with `∇f(x) = (1/m) Σ_i r_i Ã_i x`, `r_i = x^T Ã_i x − y_i` and μ = 0.9: one pass over A a step. The paper's signals
have norm one; for others the step is μ/‖x‖², and v/‖x‖ is projected. An entry of `μ ∇f/‖x‖²` carries noise of variance
`Σ r_i² / (2 m² ‖x‖²)`, which is passed to the Levenberg–Marquardt projection.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import Step, Steps
from fastquad.measurements.contractions import Products
from fastquad.solvers.base import options
from fastquad.solvers.ppower import Projecting, conclusion, fitted, length, power_step


@options
class PGD(Projecting):
    """Projected gradient descent on the range of a decoder.

    Starts from the projected power method, or from `x0` (the paper's PGD1: the constant vector). It takes 10 steps
    unless `max_iter` says otherwise, and has converged when `‖x_{t+1} − x_t‖ <= min_step ‖x_t‖`.

    Parameters
    ----------
    step : float
        μ.
    min_step : float
        The relative change of x at which it has converged.
    projection : "adam" or "lm"
        How the nearest signal of the decoder is found. "adam": from random codes, as in the paper. "lm":
        Levenberg–Marquardt from the last code and the nearest of 1000 samples of the decoder; several times faster.
    restarts : int, optional
        Codes to start a projection from; default 5 for Adam, 2 for Levenberg–Marquardt.
    n_steps, rate : int, float
        Of Adam.
    race : bool
        Whether starts of Adam that fall behind are dropped on the way, which halves the work. False runs all of them to
        the end, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 40))]
    >>> prior = fq.Generative(fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(40)], ["tanh", "sigmoid"]))
    >>> A, x = rng.standard_normal((200, 40, 40)), prior.signal(rng.standard_normal(3))
    >>> solution = fq.solve(A, fq.measure(A, x), prior=prior, method=fq.methods.PGD(projection="lm"))
    >>> bool(fq.distance(solution.x, x) < 0.05)
    True
    """

    name: ClassVar[str] = "pgd"
    max_iter: ClassVar[int | None] = 11  # the start, and ten steps

    step: float = 0.9
    min_step: float = 1e-3

    def steps(self, problem: Problem) -> Steps:
        prior: Any = problem.prior
        square = length(problem) ** 2
        scale = np.sqrt(square) if prior.normalize else 1.0
        if problem.x0 is None:
            z = yield from power_step(self, problem)
            x = scale * prior.signal(z)
        else:
            z, x = None, problem.x0
        while True:
            W = yield Products(x)
            reported, residual = fitted(problem, x, W)
            yield Step(reported, residual)
            r = W @ x - problem.y
            v = x - self.step * (r @ W) / (problem.m * square)
            noise = float(r @ r) / (2 * problem.m**2 * square * scale**2)
            code = yield from self.project(problem, v / scale, noise, warm=z, direction=prior.normalize)
            following = scale * prior.signal(code)
            if np.linalg.norm(following - x) <= self.min_step * np.linalg.norm(x):
                # A user's start that is nearly its own projection has the code of that.
                return conclusion(problem, code if z is None else z, reported, W / scale, residual)
            z, x = code, following
