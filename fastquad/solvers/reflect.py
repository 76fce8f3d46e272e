"""Relaxed-reflect-reflect (RRR) for one transform without masks: crystals, and objects in a box.

What the prior says of x is a set A, to whose nearest point P_A projects, and what was measured is another one, B:

    P_A x     zero outside of the box and of the support, not negative, the k largest
    P_B x     the signal with the transform z b/|z|, z = F x; pixels that were not measured keep their z
    x ← x + β (P_B(2 P_A x − x) − P_A x)

The iteration wanders over A until it falls into a point of both, where the misfit of P_A x drops (Elser, Lan and
Bendory 2018). A k that is half or twice the number of nonzeros finds it, too: where none is told, numbers are tried in
turn, each half of the one before. Translations, the reflection and, for complex x, its conjugation measure the same:
where x ends is chance, and the gauge of the solution says so. Least squares on the support follow, which tell the noise
and the error.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.rounding import exact_enough
from fastquad.engine.steps import End, Outcome, Step
from fastquad.engine.trust import tolerances as tol
from fastquad.numerics.transform import Transform, Within, sampled_variances
from fastquad.priors.sparse import Sparse
from fastquad.solution import distance
from fastquad.solvers.parts.within import fit_within, whole_support
from fastquad.typing import Asks, Float, Indices, Number

# The relaxation β, and the largest number of steps unless the user gives a budget.
_BETA, _STEPS, _MORE_STEPS = 0.5, 5_000, 100_000
# Without a k so many steps are made with each of so many numbers, in two rounds: easy crystals take 100, others 1,000.
_TRIED, _NUMBERS = (200, 800), 5
# A point of both sets is near where the misfit stays for so many steps below this share of its median before. It is
# found where the misfit rises again, as in noise, or where the least of so many steps is not below the second share of
# that of as many before: exact data let it fall for hundreds of steps, and a support from the midst of the fall is
# wrong (5 of 10 crystals of 2 atoms in 128²).
_DROP, _STAYS, _SETTLING = 0.5, 10, 5
_LOOK, _FALLS = 50, 0.8
# The misfit that is rounding, or nearly so.
_EXACT = 1e-5
# The number of steps between two that are reported.
_REPORTED = 50
_NOT_AGAIN = "A search from another start finds no signal."
_ELSEWHERE = "A search from another start ends at a signal that is {apart:.2g} away."
_NOT_TOLD = "The number of nonzeros was tried and not given."
# The largest share of unknowns to intensities at which what a fit leaves is noise. Guess.
_FEW = 0.25


def reflect(problem: Problem, transform: Transform) -> Asks[Outcome]:
    """The outcome of RRR; in noise it is sure only if another start ends at the same signal, or one like it.

    Standard errors are those of the values on a support. They do not tell whether the support is right, or whether x is
    as sparse as it was said to be: what is left may look like noise, but another start ends at another support then.
    """
    found = yield from _search(problem, transform)
    if found.end is not End.CONVERGED or found.error is None:
        return found
    again = yield from _search(replace(problem, x0=None), transform)
    if again.error is None:
        return replace(found, end=End.STAGNATED, note=_NOT_AGAIN)
    found, other = sorted((found, again), key=lambda each: each.residual)
    ends = [each.x.view(np.complex128) if problem.turning else each.x for each in (other, found)]
    apart, error = float(distance(*ends, gauge=problem.gauge + transform.symmetry)), found.error or 0.0
    both = replace(found, error=math.hypot(error, apart / math.sqrt(2)))
    if apart > tol.FEW_ERRORS * error:
        return both.noted(_ELSEWHERE.format(apart=apart), end=End.STAGNATED)
    return replace(both, end=End.CONVERGED)


def _search(problem: Problem, transform: Transform) -> Asks[Outcome]:
    """The outcome of RRR from one start, refined by least squares on the support if a point of both sets was found."""
    from scipy import fft

    shape, real, scale, box, source = transform.room()
    forward, back = (fft.rfftn, fft.irfftn) if real else (fft.fftn, fft.ifftn)
    half = (..., slice(shape[-1] // 2 + 1)) if real else ...
    known = (source >= 0).reshape(shape)[half]
    b = np.where(known, np.sqrt(np.maximum(problem.y[source], 0.0)).reshape(shape)[half] / scale, 0.0)
    size, nearest = float(np.linalg.norm(b)), _Nearest(problem, math.prod(shape), box)
    pixels = int(np.count_nonzero(known))
    turns = _turns(problem, nearest.k, pixels)
    told = not turns
    x: Number = np.zeros(math.prod(shape), dtype=np.float64 if real else np.complex128)
    if problem.x0 is not None:
        x[box] = problem.x0.view(x.dtype)
    else:
        x[...] = np.abs(problem.rng.standard_normal(x.size))
        x *= size / float(np.linalg.norm(forward(x.reshape(shape))))
    watch = _Watch()
    z = forward(x.reshape(shape))
    for step in range(_STEPS if problem.max_passes is None else _MORE_STEPS):
        if turns and not watch.at and len(watch.gaps) >= turns[0][0]:
            _, nearest.k = turns.pop(0)
            watch = _Watch()
        p = nearest.to(x)
        own = forward(p.reshape(shape))
        gap = float(np.linalg.norm((np.abs(own) - b)[known])) / size
        # F of all that follows is known without a transform.
        mirrored = 2 * own - z
        factor = np.where(known, b / np.maximum(np.abs(mirrored), 1e-300) - 1, 0.0)
        z = z + _BETA * (own - z + factor * mirrored)
        x = back(z, shape).reshape(-1)
        found = watch.found(gap, p)
        if found or step % _REPORTED == _REPORTED - 1:
            yield Reread(2 * (step % _REPORTED + 1))
            yield Step(_coordinates(p[box]), gap)
        if found:
            return (yield from _refined(problem, transform, _coordinates(watch.best[box]), pixels, told))
    return Outcome(_coordinates(p[box]), _residual(transform, problem, _coordinates(p[box])), method="rrr")


def _turns(problem: Problem, k: int | None, pixels: int) -> list[tuple[int, int]]:
    """After how many steps which number of nonzeros is tried, where none is told: at most those that noise allows."""
    if k is not None or problem.prior is None or problem.prior.kind != "sparse" or problem.support is not None:
        return []
    most = _FEW * pixels / (1 + problem.turning)
    numbers = [max(1, int(most / 2**turn)) for turn in range(_NUMBERS)] * len(_TRIED)
    return list(zip([0, *np.repeat(_TRIED, _NUMBERS).tolist()], numbers, strict=False))


def _coordinates(x: Number) -> Float:
    return np.ascontiguousarray(x).view(np.float64)


class _Watch:
    """The misfit of each step, the best point, and once the misfit has dropped, when it did and from which level."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.at, self.level, self.least = 0, 0.0, math.inf
        self.best: Number = np.zeros(0)

    def found(self, gap: float, p: Number) -> bool:
        """Whether the misfit is rounding, or has dropped from where it wandered and falls no further or rises again."""
        self.gaps.append(gap)
        if gap < self.least:
            self.least, self.best = gap, p
        late, count = self.gaps[-_STAYS:], len(self.gaps)
        if gap < _EXACT:
            return True
        if self.at:
            still = count >= self.at + 2 * _LOOK
            still = still and min(self.gaps[-_LOOK:]) > _FALLS * min(self.gaps[-2 * _LOOK : -_LOOK])
            return still or float(np.median(late)) >= self.level
        if count >= 2 * _STAYS + _SETTLING:
            self.level = _DROP * float(np.median(self.gaps[_SETTLING:-_STAYS]))
            self.at = count if max(late) < self.level else 0
        return False


class _Nearest:
    """The projection onto what the prior says, in the box where x is."""

    def __init__(self, problem: Problem, size: int, box: Indices) -> None:
        prior = problem.prior
        self.positive = isinstance(prior, Sparse) and prior.nonnegative
        self.k = problem.k if problem.k is None or not problem.turning else problem.k // 2
        allowed = box
        if problem.support is not None:
            allowed = box[np.unique(problem.support // 2) if problem.turning else problem.support]
        self.outside = np.ones(size, dtype=bool)
        self.outside[allowed] = False

    def to(self, x: Number) -> Number:
        """The nearest signal."""
        p = np.where(self.outside, 0.0, np.maximum(x, 0.0) if self.positive else x)
        if self.k is None or self.k >= p.size:
            return p
        size = np.abs(p)
        least = np.partition(size, -self.k)[-self.k]
        return np.where(size >= max(least, 1e-300), p, 0.0)


def _residual(transform: Transform, problem: Problem, x: Float) -> float:
    return float(np.linalg.norm(transform.measure(x) - problem.y) / np.linalg.norm(problem.y))


def _refined(problem: Problem, transform: Transform, x: Float, pixels: int, told: bool) -> Asks[Outcome]:
    """Least squares on the support of x: in noise with its level and the error.

    `pixels` is the number of intensities that are not equal by themselves; `told`: what is known of the support is not
    a guess.
    """
    support = whole_support(problem, np.flatnonzero(x))
    freedom = support.size - problem.turning
    if freedom >= pixels:
        return Outcome(x, _residual(transform, problem, x), method="rrr")
    descent = yield from fit_within(problem, transform, x, support)
    B = descent.B
    assert isinstance(B, Within)
    x = B.expanded(descent.x)
    found = Outcome(x, descent.residual, free=support.size, method="rrr")
    if exact_enough(problem, descent.residual) or problem.noiseless:
        return replace(found, end=End.CONVERGED)
    level = float(np.linalg.norm(descent.r)) / math.sqrt(problem.m - freedom)
    delta = problem.deviations(descent.r) if problem.noise.given else np.full(problem.m, level)
    variances, _ = sampled_variances(B.jacobian(descent.x, 1 / delta), problem.rng)
    yield Reread(B.uncharged())
    stderr = np.sqrt(B.expanded(variances))
    error = float(np.linalg.norm(stderr) / np.linalg.norm(x))
    # In exact data a wrong minimum looks like noise: only few unknowns of many intensities tell them apart, and not
    # where their number was tried (4 of 200 crystals were wrong).
    found = replace(found, noise=level, stderr=stderr, error=error)
    if told and freedom <= _FEW * pixels:
        return replace(found, end=End.CONVERGED)
    return found.noted("" if told else _NOT_TOLD)
