"""Levenberg–Marquardt on the latent numbers of a decoder.

With a signal `x = s g(z)` and t = s², the residual `r_i = t g^T Ã_i g − y_i` has the derivatives

    ∂r/∂z = 2 t W J_g,      ∂r/∂t = W g,      W[i] = Ã_i g(z):

one pass over A gives the residual and its Jacobian at a point. Codes are N(0, I), so with noise of variance σ² the most
probable one minimises `‖r‖² + λ‖z‖²` with λ = σ². What the decoder cannot express acts as noise, too; σ² is learnt as
evidence maximisation does,

    σ² = ‖r‖²/(m − γ),      γ = tr(H (H + λ)^{-1}),      H = 4t² (W J)^T W J,

where γ is the number of latent numbers that the data determine. But codes that fit a real signal best are larger than
N(0, I) allows, and if y is mostly explained, shrinking them costs more than it saves. So λ is
σ² clip((ρ/0.55)⁶, 0.01, 1) with ρ = σ²/mean(y²): all of σ² if more than half of y is noise, and nearly none of it if
little is. For a signal in the range of the decoder ‖r‖² falls as λ²: λ goes to zero by itself, quadratically, and the
answer is exact.

The start is found with a single pass. The decoder's signals nearly lie in the span of p = 100 principal directions U of
1000 samples; one pass compresses A to `U^T Ã_i U`, (m, p, p), and there

1. all samples are measured at once, and those with the highest posterior for y are the starts;
2. Levenberg–Marquardt runs from all starts of all signals in one batch, in float32; after a few steps only the better
   half goes on, until one is left.

Two or three steps on A itself, in the decoder's own precision, complete the solve. Each goes to the minimiser of a
model that uses the exact products at the current point, and the compressed A only for second-order terms (`model.py`).
If that turns out worse, or if there is no compressed A because `x0` was given, it is a Levenberg–Marquardt step.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Together
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome, Step, Steps
from fastquad.measurements.contractions import Compress, Products
from fastquad.numerics.least_squares import Descents, Normal
from fastquad.solvers.base import Solver, options
from fastquad.solvers.latent.model import Anchor, Local
from fastquad.solvers.latent.search import NEGLIGIBLE, NoiseLevel, Start, Unknowns, learn, quadratic_residuals, search
from fastquad.solvers.latent.trust import estimate, judged
from fastquad.typing import Asks, Float

# The relative residual at which nothing but rounding is left.
_ROUNDING = 1e-15
# The share of ‖r‖² by which three steps must lower the objective to go on.
_FLAT = 0.03
_ONLY = np.zeros(1, dtype=np.intp)


class _Search(NamedTuple):
    unknowns: Unknowns
    B: Float


class _Refinement(NamedTuple):
    B: Float
    anchor: Anchor


class _Point(NamedTuple):
    x: Float
    g: Float
    W: Float


@options
class LatentLM(Solver):
    """Levenberg–Marquardt on the latent numbers of a decoder: the default with a generative prior.

    One pass compresses A, a search in the compressed space costs none, and about three more complete the solve. The
    answer is *exact* for signals in the range of the decoder. Given `x0`, it starts at the nearest code and does not
    search. The reported `noise` includes what the decoder cannot express.

    Parameters
    ----------
    basis : int
        p, the number of principal directions of the decoder's samples that the search works in.
    starts : int
        The number of samples that the search starts from, for each signal.
    misfit : float
        The share of the signal that the decoder is assumed not to express at first: λ starts at `misfit ‖x‖⁴ + σ²`.
    max_steps : int
        The largest number of steps after the search that do not halve ‖r‖, each one pass. It has converged when a
        step promises to lower `‖r‖² + λ‖z‖²` by less than 0.1 σ², or the last three lowered it by less than 2 σ² or
        0.03 ‖r‖².

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 40))]
    >>> prior = fq.Generative(fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(40)], ["tanh", "sigmoid"]))
    >>> A, x = rng.standard_normal((20, 40, 40)), prior.signal(rng.standard_normal(3))
    >>> fq.solve(A, fq.measure(A, x), prior=prior).status.name
    'EXACT'
    """

    name: ClassVar[str] = "latent"
    priors: ClassVar[tuple[str, ...]] = ("generative",)

    basis: int = 100
    starts: int = 20
    misfit: float = 0.1
    max_steps: int = 10

    def __post_init__(self) -> None:
        for name in ("basis", "starts", "max_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")

    def steps(self, problem: Problem) -> Steps:
        prior: Any = problem.prior
        square = 1.0 if not prior.normalize else None if problem.norm is None else problem.norm**2
        unknowns = Unknowns(prior, problem.y, square, problem.sigma**2, problem.turning)
        if problem.x0 is not None:
            return (yield from self._polish(problem, unknowns, self._start_at(problem.x0, unknowns), None))
        B = yield Compress(prior.basis(self.basis))
        start = yield Together(self._search, _Search(unknowns, B))
        return (yield from self._polish(problem, unknowns, start, B))

    def _search(self, searches: list[_Search]) -> list[Start]:
        # One A, so one B.
        return search(searches[0].B, [each.unknowns for each in searches], self.starts, self.misfit)

    def _start_at(self, x0: Float, unknowns: Unknowns) -> Start:
        """The code nearest to x0, and its norm."""
        scale = float(np.linalg.norm(x0)) if unknowns.prior.normalize else 1.0
        z = unknowns.prior.project(x0 / scale, method="lm")
        ridge = np.array([self.misfit * unknowns.power + unknowns.noise])
        return Start(np.append(z, scale**2)[: unknowns.size], NoiseLevel(ridge, ridge))

    def _refine(self, refinements: list[_Refinement]) -> list[Float]:
        # One A, so one B.
        return Local(refinements[0].B, [each.anchor for each in refinements]).minimize()

    def _polish(self, problem: Problem, unknowns: Unknowns, start: Start, B: Float | None) -> Steps:
        theta, level, valleys = start
        scale = float(problem.y @ problem.y)
        here, at = yield from _evaluate(unknowns, theta)
        descent = Descents(theta[None], at, unknowns.weights(level.ridge))
        past: list[tuple[float, float]] = []
        slow_steps, converged, accepted = 0, False, True
        while slow_steps < self.max_steps:
            square = float(descent.at.square[0])
            residual = float(np.sqrt(square / scale))
            yield Step(here.x, residual)
            level = learn(descent.at, level, [unknowns], problem.m)
            descent.set_ridge(unknowns.weights(level.ridge))
            trial = descent.propose(_ONLY)
            past.append((square, float(np.sum(unknowns.split(descent.Z)[0] ** 2))))
            converged = bool(descent.predicted[0] <= NEGLIGIBLE * level.noise[0]) or _level_off(past, level)
            if converged or residual < _ROUNDING:
                break
            if B is not None and accepted:
                anchor = Anchor(unknowns, descent.Z[0], here.g, here.W, level)
                trial = (yield Together(self._refine, _Refinement(B, anchor)))[None]
            before = descent.value[0]
            there, at = yield from _evaluate(unknowns, trial[0])
            descent.receive(_ONLY, trial, at)
            # If the model was wrong, take a damped step of its linear part next.
            accepted = bool(descent.value[0] < before)
            if accepted:
                here = there
            slow = descent.at.square[0] > square / 4
            slow_steps += slow
            if slow and residual < EXACT_RESIDUAL:
                break  # only rounding is left
        residual = float(np.sqrt(descent.at.square[0] / scale))
        # A signal that explains y no better than zero is no answer.
        end = End.CONVERGED if converged and residual < 1 else End.STAGNATED
        outcome = Outcome(here.x, residual, end, free=unknowns.counted)
        if residual >= EXACT_RESIDUAL:
            outcome.noise = float(np.sqrt(level.noise[0]))
            if not converged:
                outcome.end, outcome.note = End.MAX_ITER, "Here: LatentLM(max_steps=...)."
        return judged(outcome, estimate(unknowns, descent.Z[0], here.W, float(level.ridge[0]), valleys), problem.m)


def _level_off(past: list[tuple[float, float]], level: NoiseLevel) -> bool:
    """Whether `‖r‖² + λ‖z‖²` hardly fell in the last three steps; past are the pairs (‖r‖², ‖z‖²)."""
    if len(past) < 4:
        return False
    fall = past[-4][0] - past[-1][0] + level.ridge[0] * (past[-4][1] - past[-1][1])
    return fall < max(_FLAT * past[-1][0], 2 * level.noise[0])


def _evaluate(unknowns: Unknowns, theta: Float) -> Asks[tuple[_Point, Normal]]:
    """The signal at θ, and the normal equations there: one pass."""
    codes, t = unknowns.split(theta[None])
    g, J = unknowns.prior.range.jacobian(codes.astype(unknowns.prior.range.dtype))
    g = g.astype(np.float64)
    W = yield Products(g[0])
    at = quadratic_residuals(W[None], g, J, t, unknowns.y[None], unknowns.free)
    return _Point(np.sqrt(max(float(t[0]), 0.0)) * g[0], g[0], W), at
