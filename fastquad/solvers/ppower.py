"""The projected power method (Algorithm 3 of the paper), and the projection onto the prior that PGD shares with it.

    x̂ = P_G(S w_0),     S = (1/m) Σ_i y_i Ã_i,

with w_0 a unit vector that has a positive part along the signal; for images, the constant one. S itself is not needed,
only `S w_0 = (1/m) Σ_i y_i Ã_i w_0`: the products of w_0, one pass over A, which all signals of a batch share. A second
pass measures the answer.

E[S] = x x^T, and each entry of S w_0 carries noise of variance `Σ y_i² / (2 m²)` around its mean.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Together
from fastquad.engine.steps import End, Outcome, Step, Steps
from fastquad.measurements.contractions import Products
from fastquad.priors import projection
from fastquad.priors.generative import Generative
from fastquad.solvers.base import Solver, options
from fastquad.solvers.latent.search import Unknowns
from fastquad.solvers.latent.trust import estimate, judged
from fastquad.typing import Asks, Float


class Target(NamedTuple):
    """A vector to project onto the prior."""

    prior: Generative
    v: Float
    starts: Float  # codes (r, k) to start from
    noise: float  # the variance of the noise in an entry of v
    direction: bool  # whether only the direction of v counts


@options
class Projecting(Solver):
    """A method with a projection onto the range of a decoder."""

    priors: ClassVar[tuple[str, ...]] = ("generative",)

    projection: str = "adam"
    restarts: int | None = None
    n_steps: int = 100
    rate: float = 0.1
    race: bool = True

    def __post_init__(self) -> None:
        if self.projection not in ("adam", "lm"):
            raise ValueError(f"`projection` must be 'adam' or 'lm', got {self.projection!r}.")
        if self.restarts is not None and self.restarts < 1:
            raise ValueError(f"`restarts` must be at least 1, got {self.restarts}.")

    def uses_blas(self, prior: Any) -> bool:
        # Keep BLAS on one thread while compiled Adam runs on threads of its own.
        return self.projection != "adam" or prior.fast.compiled() is None

    def project(
        self, problem: Problem, v: Float, noise: float, *, warm: Float | None = None, direction: bool
    ) -> Asks[Float]:
        """The code of `P_G(v)`; all signals that wait for theirs are projected in one batch."""
        prior: Any = problem.prior
        if self.projection == "adam":
            starts = problem.rng.standard_normal((self.restarts or 5, prior.decoder.n_latent))
        elif warm is None:
            starts = prior.nearest_samples(v[None], self.restarts or 5)[0]
        else:
            nearest = prior.nearest_samples(v[None], (self.restarts or 2) - 1)[0]
            starts = np.concatenate([warm[None], nearest])
        return (yield Together(self.project_all, Target(prior, v, starts, noise, direction), threaded=True))

    def project_all(self, targets: list[Target], n_threads: int) -> list[Float]:
        """The codes of all these targets, those of one kind in one batch."""
        kinds: dict[tuple[int, bool], list[int]] = {}
        for position, target in enumerate(targets):
            kinds.setdefault((len(target.starts), target.direction), []).append(position)
        codes: dict[int, Float] = {}
        for group in kinds.values():
            found = self._project_batch([targets[position] for position in group], n_threads)
            codes |= dict(zip(group, found, strict=True))
        return [codes[position] for position in range(len(targets))]

    def _project_batch(self, targets: list[Target], n_threads: int) -> Float:
        prior, direction = targets[0].prior, targets[0].direction
        g = prior.directions if direction else prior.fast
        V = np.stack([target.v for target in targets])
        starts = np.stack([target.starts for target in targets])
        if self.projection == "adam":
            schedule = projection.make_schedule(self.n_steps, self.rate)
            return projection.adam(g, V, starts, schedule=schedule, race=self.race, n_threads=n_threads)
        noise = np.array([target.noise for target in targets])
        return projection.levenberg_marquardt(g, V, starts, noise=noise, unit=direction)


def length(problem: Problem) -> float:
    """‖x‖, as given, or estimated: mean y² is about ‖x‖⁴ + σ²."""
    if problem.norm is not None:
        return problem.norm
    power = float(np.mean(problem.y**2))
    return max(power - problem.sigma**2, 0.05 * power) ** 0.25


def fitted(problem: Problem, x: Float, W: Float) -> tuple[Float, float]:
    """x with the norm that fits y best, where that is not known, and ‖r‖/‖y‖; W are the products of x."""
    prior: Any = problem.prior
    q, y = W @ x, problem.y
    square = 1.0
    if prior.normalize and problem.norm is None:
        best = float(q @ y) / max(float(q @ q), np.finfo(float).tiny)
        square = best if best > 0 else square
    return np.sqrt(square) * x, float(np.linalg.norm(square * q - y) / np.linalg.norm(y))


def conclusion(problem: Problem, z: Float, x: Float, W: Float, residual: float) -> Outcome:
    """The outcome with the signal x, of code z, and its error; W are the products of the decoder's signal g(z)."""
    prior: Any = problem.prior
    square = float(x @ x) / max(float(np.sum(prior.signal(z) ** 2)), 1e-300)
    free = prior.normalize and problem.norm is None
    unknowns = Unknowns(prior, problem.y, None if free else square, problem.sigma**2, problem.turning)
    level = residual**2 * float(problem.y @ problem.y) / problem.m
    found = estimate(unknowns, np.append(z, square) if free else z, W, level)
    return judged(Outcome(x, residual, End.CONVERGED, free=unknowns.counted), found, problem.m)


@lru_cache(maxsize=8)
def _constant(n: int) -> Float:
    """The constant unit vector; one array for all signals, so that they share its products."""
    w = np.full(n, 1 / np.sqrt(n))
    w.flags.writeable = False
    return w


def _with_phase(problem: Problem, v: Float) -> Float:
    """v, Re and Im in turn, with the phase of the decoder's sample that it is most like: `S w_0` has any."""
    prior: Any = problem.prior
    samples = np.ascontiguousarray(prior.samples[1], dtype=np.float64).view(np.complex128)
    inner = samples.conj() @ v.view(np.complex128)
    like = inner[np.argmax(np.abs(inner) / np.maximum(np.linalg.norm(samples, axis=1), 1e-300))]
    return v if like == 0 else (v.view(np.complex128) * (abs(like) / like)).view(np.float64)


def power_step(solver: Projecting, problem: Problem, w0: Float | None = None) -> Asks[Float]:
    """The code of `P_G(S w_0)`: one pass. `S w_0` says nothing about ‖x‖, so only its direction counts."""
    w0 = _constant(problem.n) if w0 is None else w0 / np.linalg.norm(w0)
    W = yield Products(w0)
    scale = problem.m * length(problem) ** 2
    v = W.T @ problem.y / scale
    if problem.turning:
        v = _with_phase(problem, v)
    return (yield from solver.project(problem, v, float(problem.y @ problem.y) / (2 * scale**2), direction=True))


@options
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
    >>> solution = fq.solve(A, fq.measure(A, x), prior=prior, method="ppower")
    >>> bool(solution.x @ x > 0.8)
    True
    """

    name: ClassVar[str] = "ppower"

    def steps(self, problem: Problem) -> Steps:
        prior: Any = problem.prior
        z = yield from power_step(self, problem, problem.x0)
        scale = length(problem) if prior.normalize else 1.0
        W = yield Products(scale * prior.signal(z))
        x, residual = fitted(problem, scale * prior.signal(z), W)
        yield Step(x, residual)
        return conclusion(problem, z, x, W / scale, residual)
