"""The projected power method (Algorithm 3 of the paper), and the projection onto the prior that PGD shares with it.

    x̂ = P_G(S w_0),     S = (1/m) Σ_i y_i Ã_i,

with w_0 a unit vector that has a positive part along the signal; for images, the constant one. S itself is not needed,
only `S w_0 = (1/m) Σ_i y_i Ã_i w_0`: the products of w_0, one pass over A, which all signals of a batch share. A second
pass measures the answer.

E[S] = x x^T, and each entry of S w_0 carries noise of variance `Σ y_i² / (2 m²)` around its mean.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.priors import projection
from fastquad.priors.generative import Generative
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import Outcome, Products, Step, Steps, Together


class Target(NamedTuple):
    """A vector to project onto the prior, the codes (r, k) to start from, and the variance of the noise in an entry."""

    prior: Generative
    v: Float
    starts: Float
    noise: float


@dataclass(frozen=True, kw_only=True)
class Projecting(Solver):
    """What methods with a projection onto the range of a decoder have in common."""

    priors: ClassVar[tuple[str, ...]] = ("generative",)

    projection: str = "adam"
    restarts: int | None = None
    n_steps: int = 100
    rate: float = 0.1

    def __post_init__(self) -> None:
        if self.projection not in ("adam", "lm"):
            raise ValueError(f"`projection` must be 'adam' or 'lm', got {self.projection!r}.")
        if self.restarts is not None and self.restarts < 1:
            raise ValueError(f"`restarts` must be at least 1, got {self.restarts}.")

    def project(
        self, problem: Problem, v: Float, noise: float, warm: Float | None = None
    ) -> Generator[Any, Any, Float]:
        """The code of `P_G(v)`; all signals that wait for theirs are projected in one batch."""
        prior: Any = problem.prior
        if self.projection == "adam":
            starts = problem.rng.standard_normal((self.restarts or 5, prior.decoder.n_latent))
        elif warm is None:
            starts = prior.nearest_samples(v[None], self.restarts or 5)[0]
        else:
            nearest = prior.nearest_samples(v[None], (self.restarts or 2) - 1)[0]
            starts = np.concatenate([warm[None], nearest])
        return (yield Together(self.project_all, Target(prior, v, starts, noise)))

    def project_all(self, targets: list[Target]) -> list[Float]:
        """The codes of all these targets, in one batch for each number of starts."""
        codes: dict[int, Float] = {}
        for r in {len(target.starts) for target in targets}:
            group = [position for position, target in enumerate(targets) if len(target.starts) == r]
            prior = targets[group[0]].prior
            V = np.stack([targets[position].v for position in group])
            starts = np.stack([targets[position].starts for position in group])
            if self.projection == "adam":
                Z = projection.adam(prior.fast, V, starts, n_steps=self.n_steps, rate=self.rate)
            else:
                noise = np.array([targets[position].noise for position in group])
                Z = projection.levenberg_marquardt(prior.fast, V, starts, noise=noise, unit=prior.normalize)
            codes |= dict(zip(group, Z, strict=True))
        return [codes[position] for position in range(len(targets))]


def squared_norm(problem: Problem) -> float:
    """`‖x‖²`, as given, or estimated; 1 where the decoder's output is taken as it is."""
    prior: Any = problem.prior
    if not prior.normalize:
        return 1.0
    if problem.norm is not None:
        return problem.norm**2
    # mean y² is about ‖x‖⁴ + σ².
    power = float(np.mean(problem.y**2))
    return float(np.sqrt(max(power - (problem.noise or 0.0) ** 2, 0.05 * power)))


def fitted(problem: Problem, g: Float, W: Float) -> tuple[Float, float]:
    """x along g, with the given norm or else the one that fits y best, and ‖r‖/‖y‖; W are the products of g."""
    prior: Any = problem.prior
    q, y = W @ g, problem.y
    square = squared_norm(problem)
    if prior.normalize and problem.norm is None:
        best = float(q @ y) / max(float(q @ q), np.finfo(float).tiny)
        square = best if best > 0 else square
    return np.sqrt(square) * g, float(np.linalg.norm(square * q - y) / np.linalg.norm(y))


@lru_cache(maxsize=8)
def _constant(n: int) -> Float:
    """The constant unit vector; one array for all signals, so that they share its products."""
    w = np.full(n, 1 / np.sqrt(n))
    w.flags.writeable = False
    return w


def power_step(solver: Projecting, problem: Problem, w0: Float | None = None) -> Generator[Any, Any, Float]:
    """The code of `P_G(S w_0)`: one pass."""
    w0 = _constant(problem.n) if w0 is None else w0 / np.linalg.norm(w0)
    W = yield Products(w0)
    square = squared_norm(problem)
    v = W.T @ problem.y / (problem.m * square)
    noise = float(problem.y @ problem.y) / (2 * (problem.m * square) ** 2)
    return (yield from solver.project(problem, v, noise))


@dataclass(frozen=True, kw_only=True)
class PPower(Projecting):
    """The projected power method: one step, two passes.

    `x0` is its w_0; default the constant vector.

    Parameters
    ----------
    projection : "adam" or "lm"
        How the nearest signal of the decoder is found: Adam from random codes, as in the paper; or
        Levenberg–Marquardt from the nearest of 1000 samples, to the most probable code given the noise in `S w_0`.
    restarts : int, optional
        Codes to start from; default 5.
    n_steps, rate : int, float
        Of Adam.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 40))]
    >>> prior = fq.Generative(fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(40)], ["tanh", "sigmoid"]))
    >>> A, x = rng.standard_normal((200, 40, 40)), prior.signal(rng.standard_normal(3))
    >>> solution = fq.solve(A, fq.measure(A, x), prior=prior, method="ppower")
    >>> bool(solution.x @ x > 0.8)
    True
    """

    name: ClassVar[str] = "ppower"

    def steps(self, problem: Problem) -> Steps:
        prior: Any = problem.prior
        z = yield from power_step(self, problem, problem.x0)
        g = prior.signal(z)
        W = yield Products(g)
        x, residual = fitted(problem, g, W)
        yield Step(x, residual)
        return Outcome(x, residual, converged=True, free=prior.decoder.n_latent + 1)
