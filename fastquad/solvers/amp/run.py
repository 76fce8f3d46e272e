"""AMP's loop: several attempts side by side, which share every pass over A.

The signal is described by each attempt's denoiser (`fastquad.priors.base`), the noise by the score of its model
(`fastquad.noise.messages`), and A by the ensemble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import Belief, Outcome, Step
from fastquad.noise.messages import Score
from fastquad.priors.base import Denoiser, Estimate
from fastquad.solvers.amp.ensemble import Ensemble, Pass
from fastquad.solvers.parts.descent import Fit
from fastquad.typing import Asks, Float

# The relative residual below which AMP has turned towards x.
_NEAR = 0.6
# The ratio to which the residual must fall before a failed hand-over is repeated.
_NEARER = 0.8
# The number of sweeps in a row, small in all of the three following senses, after which a run has settled.
_STILL = 2
# The squared move of z in a small sweep, as a share of the posterior's variance.
_MOVED = 0.02
# The squared move of z in a small sweep, as a share of |z|².
_ROUNDING = 1e-6
# The change of the variance in a small sweep, as a share of it.
_VARIANCE_MOVED = 0.02
# The share of y that a run must explain to go on until it has settled.
_PREDICTS = 0.3
# The largest number of sweeps of such a run.
_MOST_SWEEPS = 60
# The move at which a patient run has settled, as a share of that of others.
_CREEPS = 0.1
# The largest number of sweeps if each takes two passes.
_COSTLY_SWEEPS = 30
# The four constants that end a run for m > n. There the residual of a run that succeeds falls by 3% in every few sweeps
# (at most 7 in 175 such runs), and does not stand still within 1%; for m < n it may wander for long.
# The ratio of residuals that counts as progress.
_PROGRESS = 0.97
# The largest number of sweeps without progress.
_PATIENCE = 10
# The relative range of residuals that stand still.
_FLAT = 0.01
# The number of sweeps within that range.
_FLAT_SWEEPS = 3
# The share of coordinates up to which their block is small: a quarter of A.
_SMALL = 0.5
# The ratio m/n, n counting Re and Im, from which on a descent from almost any estimate of a complex signal ends at x.
_FEW = 1.25
# The ratio of unknowns of a complex signal to measurements from which on valleys are long and close together.
_TIGHT = 0.85
# The cosine above which two runs are the same.
_SAME = 0.98
# The sweep from which on runs are compared.
_LOOK = 3
# The ratio of the move in two sweeps to that in one below which a run oscillates: then steps are halved.
_TO_AND_FRO = 0.25
# The sweep from which on |x|² is taken from the estimate.
_OWN_SCALE = 4
# The share of y that the estimate must explain for that.
_EXPLAINED = 0.1


class Setting(NamedTuple):
    """How AMP runs from a start: the share of the old estimate it keeps, its inner steps, |x|² relative to y's.

    A patient run creeps towards x: it takes all of its sweeps, unless it moves ten times less than what settles others,
    and hands over after each of them, if that reads no more of A.
    """

    keep: float = 0.4
    inner: int = 10
    norm: float = 1.1
    patient: bool = False


class Attempt(NamedTuple):
    """A start (n,), the denoiser that goes with it, and the setting.

    A start that is near x has variances `v`, which say how near: its first sweep comes before its first estimate.
    """

    start: Float
    denoiser: Denoiser
    setting: Setting = Setting()
    v: Float | None = None


class HandOver(Protocol):
    """A descent from a run's estimate, in the coordinates of the structure that the estimate shows."""

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """The fit that the descent ends at."""

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome if a fit is exact, which ends the solve."""


@dataclass
class Best:
    """The state (z, v, π) of a run at its smallest residual, and the residuals since then."""

    state: Float = field(default_factory=lambda: np.zeros((3, 0)))
    residuals: list[float] = field(default_factory=lambda: [np.inf])

    def note(self, residual: float, state: Float) -> None:
        """Record the residual of a state."""
        if residual < _PROGRESS * self.residuals[0]:
            self.state, self.residuals = state, [residual]
        else:
            self.residuals.append(residual)

    @property
    def settled(self) -> bool:
        """Whether the residual stands still."""
        last = self.residuals[-_FLAT_SWEEPS - 1 :]
        return len(last) > _FLAT_SWEEPS and max(last) - min(last) < _FLAT * last[-1]

    @property
    def passed(self) -> bool:
        """Whether there is no hope of a better state."""
        return self.settled or len(self.residuals) > _PATIENCE


class Walk:
    """One run of AMP: its estimate, the residual and S of its last pass, and the best hand-over that was tried."""

    def __init__(self, problem: Problem, ensemble: Ensemble, attempt: Attempt) -> None:
        self.problem, self.ensemble = problem, ensemble
        self.denoiser, self.setting = attempt.denoiser, attempt.setting
        self.noise = ensemble.noise.fresh()
        self.phi2 = attempt.setting.norm * ensemble.phi2
        start = attempt.start
        spread = max(self.phi2 - float(start @ start), 0.1 * self.phi2) / start.size
        self.warm = attempt.v is not None
        self.at = Estimate(start, spread if attempt.v is None else attempt.v)
        self.z, self.v, self.weight = self.at.z, self.at.v, self.at.weight
        self.v[problem.known] = 0.0
        self.r, self.S = ensemble.y, ensemble.S0
        self.score: Score = self.noise.score(self.r)
        self.memory: Float | float = 0.0
        #: The estimate of the last pass, and the share of y that it explains.
        self.swept: Estimate | None = None
        self.r2 = 0.0
        self.best = Best()
        self.residual, self.tried, self.still, self.sweeps = 1.0, np.inf, 0, 0
        self.settled = self.ended = self.halved = False
        #: z before the last pass but one.
        self.earlier = start
        self.fit: Fit | None = None

    def estimate(self) -> None:
        """Estimate x from S; a run that grows without bound ends."""
        if self.warm and self.swept is None:
            return  # a start with variances has its first pass first
        before = self.z.copy()
        self.denoiser.estimate(self.S, self.D, self.at, self.phi2, self.setting.keep, self.setting.inner)
        if self.sweeps >= _OWN_SCALE and not self.halved:
            there_and_back = float(np.sum((self.z - self.earlier) ** 2))
            self.halved = there_and_back < _TO_AND_FRO * float(np.sum((self.z - before) ** 2))
        if self.halved:
            self.z += before
            self.z *= 0.5
        self.earlier = before
        q, floor = float(self.z @ self.z), self.denoiser.floor * self.phi2
        if q < floor:
            self.z *= np.sqrt(floor / max(q, 1e-300))
            q = floor
        if not q <= 3 * self.phi2:
            self.ended, self.tried = True, -np.inf
            return
        moved = float(np.sum((self.z - before) ** 2))
        V = float(self.v.sum())
        # Exact data settle at rounding only: a run that creeps may still arrive.
        share = 0.0 if self.problem.noiseless else _CREEPS if self.setting.patient or self.tight else 1.0
        quiet = moved < max(share * _MOVED * V, _ROUNDING * q)
        if self.swept is not None:
            change = abs(V - float(self.swept.v.sum()))
            self.still = self.still + 1 if quiet and change < max(share * _VARIANCE_MOVED * V, _ROUNDING * q) else 0
        if self.still >= _STILL:
            self.settled = self.ended = True

    @property
    def D(self) -> float:
        """The variance of the noise in S, off its diagonal."""
        return self.score.power * self.ensemble.gain / (2 * self.problem.m)

    def level(self) -> float:
        """The distance of the run from x, estimated from its residuals.

        Of a sparse complex signal with few measurements only the predicted residual counts: that of z falls before z is
        near.
        """
        size = np.sqrt(
            float(self.score.weight @ self.r**2) / max(float(self.score.weight @ self.ensemble.y**2), 1e-300)
        )
        few = self.problem.turning and self.problem.m < _FEW * self.problem.n and not self.tight
        return float(size) if few else min(self.residual, float(size))

    @property
    def tight(self) -> bool:
        """Whether a complex signal on the likely coordinates has nearly as many unknowns as there are measurements."""
        return tight(self.problem, int(np.count_nonzero(self.weight > 0.5)))

    def hands_over(self, leads: bool) -> bool:
        """Whether to try a descent from here; one that takes passes only from the run that leads, if it predicts.

        Near the counting limit of a complex signal any run may be the one that comes near.
        """
        likely = int(np.count_nonzero(self.weight > 0.1))
        # Try a complex signal after every sweep if its block is small: that reads less than one more sweep.
        cheap = self.problem.turning and self.sweeps > 0 and likely <= _SMALL * self.problem.n
        turn = self.ended or self.sweeps % 3 == 2 or cheap
        costly = likely > 0.9 * self.problem.n
        if costly and not ((leads or self.tight) and self.r2 >= _PREDICTS):
            return False
        if self.setting.patient:
            return self.level() < _NEAR
        return turn and self.level() < min(_NEAR, _NEARER * self.tried)

    def target(self) -> Float:
        """The target of the next residual: y plus the memory term of this one."""
        if self.warm and self.swept is None:
            return self.ensemble.y
        onsager = min(self.score.tau, 2 * self.denoiser.overlap(self.z, self.v) / self.ensemble.gain)
        self.memory = onsager * self.score.g
        return self.ensemble.y + self.memory

    def receive(self, found: Pass) -> None:
        """Take the result of a pass."""
        n = self.problem.n
        self.r, self.score, self.S = found.r, found.score, found.S
        self.S += np.outer(self.z, self.z)
        self.S[np.diag_indices(n)] += self.v
        self.swept = Estimate(self.z, self.v)
        self.swept.weight[:] = self.weight
        self.r2 = self.noise.explained(self.r, self.ensemble.y)
        self.sweeps += 1
        if self.sweeps >= _OWN_SCALE and self.r2 > _EXPLAINED and self.problem.norm is None:
            own = float(self.z @ self.z) + float(self.v.sum())
            self.phi2 = float(np.clip(own, 0.2 * self.ensemble.phi2, 1.1 * self.ensemble.phi2))
        y = self.problem.y
        self.residual = float(np.linalg.norm(y - found.values)) / float(np.linalg.norm(y))
        self.best.note(self.residual, np.stack([self.z, self.v, self.weight]))
        if self.problem.m > n and self.best.passed and (self.problem.noiseless or self.r2 < _PREDICTS):
            self.ended = True
            if self.best.residuals[0] < min(_NEAR, self.tried):
                # Return to its best state: a descent from there may still succeed.
                self.z[:], self.v[:], self.weight[:] = self.best.state
                self.tried = np.inf

    def goes_on(self, max_sweeps: int) -> bool:
        """Whether there is another sweep to make."""
        if self.r2 > _PREDICTS and not self.setting.patient:
            max_sweeps = _MOST_SWEEPS
        return not self.ended and self.sweeps < (max_sweeps if self.noise.linear else min(max_sweeps, _COSTLY_SWEEPS))

    def keep(self, found: Fit) -> None:
        """Remember a fit if it is the best."""
        if self.fit is None or found.residual < self.fit.residual:
            self.fit = found


def run(
    walks: list[Walk], hand_over: HandOver | None, max_sweeps: int, watch: Callable[[Walk], Belief | None] | None = None
) -> Asks[bool]:
    """Run attempts side by side until each has ended or used up its sweeps; returns whether one ended in an exact fit.

    After each pass `watch` gets the run that explains most of y, and returns the belief to report.
    """
    while active := [walk for walk in walks if walk.goes_on(max_sweeps)]:
        for walk in active:
            walk.estimate()
            if (yield from _handed_over(walk, hand_over, leads=_leads(walk, active))):
                return True
        _drop_doubles(walks)
        active = [walk for walk in active if not walk.ended]
        if not active:
            continue
        Z, V, C = (np.stack(part, axis=1) for part in zip(*((w.z, w.v, w.target()) for w in active), strict=True))
        answers = yield from active[0].ensemble.sweep(Z, V, C, [walk.noise for walk in active])
        for walk, answer in zip(active, answers, strict=True):
            walk.receive(answer)
        nearest = min(active, key=lambda walk: walk.residual)
        yield Step(nearest.z.copy(), nearest.residual)
        held = None if watch is None else watch(max(active, key=lambda walk: walk.r2))
        if held is not None:
            yield held
        for walk in active:
            if walk.ended and (yield from _handed_over(walk, hand_over, leads=_leads(walk, active))):
                return True
    return False


def _leads(walk: Walk, active: list[Walk]) -> bool:
    """Whether no other run explains more of y."""
    return walk.r2 >= max(other.r2 for other in active)


def _handed_over(walk: Walk, hand_over: HandOver | None, leads: bool) -> Asks[bool]:
    """Hand a run over if it is time; returns whether the fit is exact."""
    if hand_over is None or not walk.hands_over(leads):
        return False
    walk.tried = walk.level()
    found = yield from hand_over(walk)
    if hand_over.outcome(found, walk.ensemble) is None:
        walk.keep(found)
        return False
    walk.fit, walk.ended = found, True
    return True


def tight(problem: Problem, size: int) -> bool:
    """Whether a complex signal on this many coordinates has nearly as many unknowns as there are measurements."""
    return problem.turning and size - 1 > _TIGHT * problem.m


def cosine(a: Float, b: Float, turning: bool = False) -> float:
    """The cosine of two estimates up to sign, or of complex ones up to a phase."""
    inner = float(abs(np.vdot(a.view(np.complex128), b.view(np.complex128)))) if turning else abs(float(a @ b))
    return inner / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-300)


def _drop_doubles(walks: list[Walk]) -> None:
    """End each run that agrees with another one that explains more; but patient runs, and tight ones, part again."""
    for walk in walks:
        if walk.ended or walk.setting.patient or walk.tight or walk.sweeps < _LOOK:
            continue
        for other in walks:
            alive = other is not walk and (other.settled or not other.ended)
            if alive and other.r2 > walk.r2 and cosine(walk.z, other.z, walk.problem.turning) > _SAME:
                walk.ended = True
                break
