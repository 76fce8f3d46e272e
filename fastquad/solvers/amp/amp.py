"""Approximate message passing (AMP) with a spike-and-slab prior, handed over to Levenberg–Marquardt.

For independent, centred entries of A with variance σ² the matrix `S = X + A*(r)/(mσ²)`, r the residual of the current
estimate X of xx^T, behaves like xx^T plus symmetric Gaussian noise whose off-diagonal entries have the variance
`D = |r|²/(2 m² σ²)`. So each sweep over A is followed by the estimation of a spike in noise, which needs S alone:

    b = (S z − (Σv) z_old)/D,   a = |z|²/D          what S says of x: b ≈ a x + sqrt(a) N(0, I), memory term removed
    z, v, π = mean, variance and P(x_j ≠ 0) under ρ N(0, s2) + (1−ρ) δ_0;   EM for ρ and s2

and the next sweep puts `X = zz^T + diag(v)` in, with an Onsager term that removes the memory of the last residual:

    r ← y − A(X) + β r,   β = min(1, 2|z|² Σv mσ²/|r|²),      S ← X + A*(r)/(mσ²).

k is never used: EM learns it. As soon as the residual shows that the estimate has turned towards x, the support is
handed over to Levenberg–Marquardt, which converges quadratically and proves the answer (or fails quickly).

Tensors with a common mean are centred without another pass: `A_i − Ā` and `y_i − ȳ` obey the same equations.

In this file: what AMP needs of A (`Ensemble`), one run (`Walk`) and when it ends (`Convergence`), the loop over runs
side by side (`run`), the attempts of one solve (`Search`), and the method. The signal is described by the denoiser of
each attempt (`fastquad.priors.base`), the noise by the score of its model (`fastquad.noise.messages`). Beside it:
`starts`, `hand_over` (to descents), `belief` (what a run that has settled says of x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from fastquad import arguments
from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Belief as Believed
from fastquad.engine.steps import End, Outcome, Step, Steps
from fastquad.measurements.contractions import Diagonals, Products, Sweep, WeightedSum
from fastquad.noise.messages import Messages, Score
from fastquad.priors.base import Denoiser, Estimate
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts.descent import Fit, GrowingBlock
from fastquad.solvers.plan import MATRICES, PLAN, affordable, guided
from fastquad.solvers.plan import search as planned
from fastquad.typing import Asks, Float

if TYPE_CHECKING:
    from fastquad.solvers.amp.belief import Belief
    from fastquad.solvers.amp.hand_over import SparseHandOver
    from fastquad.solvers.amp.starts import SparseStarts

# |x|² over ‖Re xx^*‖, which y tells: between 1 and √2.
_RANK_TWO = 1.3
# The relative residual below which AMP has turned towards x.
_NEAR = 0.6
# The ratio to which the residual must fall before a failed hand-over is repeated.
_NEARER = 0.8
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
# The number of standard deviations that no sound measurement is off.
_FAR = 6.0
# The batches after which runs that have not settled go on.
_GO_ON = (1, 3, 4, 5, 6)


# -- what AMP needs of A ----------------------------------------------------------------------------------------------


class Pass(NamedTuple):
    """The result of a pass for one estimate: r, its score, `A*(g) gain/(mα)`, and the values `z^T Ã_i z`."""

    r: Float
    score: Score
    S: Float
    values: Float


@dataclass
class Ensemble:
    """The scale of A's entries, their common mean, the model of the noise, and the first weighted sum.

    `gain` is 1/σ², `mean` is Ā or None if the entries are centred, `S0 = Σ y_i Ã_i /(mσ²)` (centred) and
    `phi2 = |x|²` as y says.
    """

    y: Float
    gain: float
    mean: Float | None
    S0: Float
    diagonals: Float
    phi2: float
    noise: Messages

    def sweep(self, Z: Float, V: Float, C: Float, noises: list[Messages]) -> Asks[list[Pass]]:
        """A pass for each column of Z, V (n, b) and C (m, b).

        `r = c − A(zz^T + diag v)`, centred. One pass if the noise is linear, two if it is not.
        """
        shift = np.zeros(Z.shape[1])
        if self.mean is not None:
            shift = np.einsum("jb,jk,kb->b", Z, self.mean, Z) + np.diagonal(self.mean) @ V
        C = C + shift
        if self.noise.linear:
            R, S = yield from _fused(Z, V, C)
            values = C - R - self.diagonals @ V
            scores = [noise.score(R[:, i]) for i, noise in enumerate(noises)]
            # S is the sum for r, which is g/α here.
            factors, sums = np.ones(len(noises)), R.sum(axis=0)
        else:
            W = yield Products(np.ascontiguousarray(Z))
            values = np.einsum("jb,ijb->ib", Z, W)
            del W
            R = C - values - self.diagonals @ V
            scores = [noise.score(R[:, i]) for i, noise in enumerate(noises)]
            G = np.stack([score.g for score in scores], axis=1)
            S = yield WeightedSum(G)
            factors, sums = np.array([1 / score.alpha for score in scores]), G.sum(axis=0)
        answers: list[Pass] = []
        for i, score in enumerate(scores):
            matrix = S[i]
            if self.mean is not None:
                matrix -= sums[i] * self.mean
            matrix *= factors[i] * self.gain / len(R)
            answers.append(Pass(np.ascontiguousarray(R[:, i]), score, matrix, values[:, i]))
        return answers


def _fused(Z: Float, V: Float, C: Float) -> Asks[tuple[Float, Float]]:
    """`R = C − A(zz^T + diag v)` and `Σ_i r_i Ã_i` of each column, one pass.

    Float arithmetic is enough if A is stored in float: AMP only finds the support, which is then fitted in double.
    """
    if Z.shape[1] > 1:
        Z, V, C = (np.ascontiguousarray(part) for part in (Z, V, C))
        return (yield Sweep(Z, V, C, precise=False))
    z, v, c = (np.ascontiguousarray(part[:, 0]) for part in (Z, V, C))
    r, S = yield Sweep(z, v, c, precise=False)
    return r[:, None], S[None]


def prepare(problem: Problem, entries: Entries) -> Asks[Ensemble]:
    """Read what AMP needs for its starts: the diagonals, S0, and Ā if A is not centred."""
    m, y, gain = problem.m, problem.y, entries.gain
    diagonals = yield Diagonals()
    mean = None if entries.centred else (yield WeightedSum(np.full(m, 1 / m)))
    if mean is not None:
        y = y - y.mean()
    noise = problem.noise.messages(problem.y, y)
    first = noise.fresh().score(y)
    # Weigh y by its score: all equal for Gaussian noise, less for outliers and noisier measurements.
    weighted = y if noise.linear else first.g / first.alpha
    S0 = yield WeightedSum(weighted)
    if mean is not None:
        S0 = S0 - weighted.sum() * mean
    phi2 = float(np.sqrt(noise.mean_square(y) * gain)) if problem.norm is None else problem.norm**2
    if problem.fixed and problem.norm is None and not diagonals[:, problem.known].any():
        # Correct for known values w, whose own squares are not in y: E y² gain = |x|⁴ − Σ w⁴.
        phi2 = float(np.sqrt(phi2**2 + sum(value**4 for value in problem.fixed.values())))
    if problem.rank_two and problem.norm is None:
        phi2 *= _RANK_TWO
    return Ensemble(y, gain, mean, S0 * (gain / m), diagonals, phi2, noise)


# -- one run ----------------------------------------------------------------------------------------------------------


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
class Convergence:
    """When a run ends: it has settled, or there is no hope of a better state, or it has used up its sweeps.

    settled     `still` sweeps in a row in which |z − z_old|² < max(`moved` V, `rounding` |z|²), V = Σ v, and V changes
                by less than max(`spread` V, `rounding` |z|²). A run that creeps towards x (patient, or tight) must move
                `creeps` times as much; exact data settle at rounding only, because such a run may still arrive.
    passed      only for m > n: the residual has not fallen to `progress` times the best for `patience` sweeps, or
                stands still within `flat` for `flat_sweeps`. In 175 runs that succeed it falls by 3 % in every few
                sweeps, at most 7, and does not stand still within 1 %. For m < n it may wander for long.
    limit       `sweeps`; `most` for a run that predicts y, until it settles; `costly` if each sweep takes two passes.
    """

    still: ClassVar[int] = 2
    moved: ClassVar[float] = 0.02
    spread: ClassVar[float] = 0.02
    rounding: ClassVar[float] = 1e-6
    creeps: ClassVar[float] = 0.1
    progress: ClassVar[float] = 0.97
    patience: ClassVar[int] = 10
    flat: ClassVar[float] = 0.01
    flat_sweeps: ClassVar[int] = 3
    #: Within `sweeps` most runs settle; the starts after the first batch get `later`; `most` is for runs that go on.
    sweeps: ClassVar[int] = 20
    later: ClassVar[int] = 12
    most: ClassVar[int] = 60
    costly: ClassVar[int] = 30
    #: The largest share of y that a run may leave unexplained to go on until it has settled.
    predicts: ClassVar[float] = 0.3

    #: The number of small sweeps in a row.
    quiet: int = 0
    #: The state (z, v, π) at the smallest residual, and the residuals since then.
    state: Float = field(default_factory=lambda: np.zeros((3, 0)))
    residuals: list[float] = field(default_factory=lambda: [np.inf])

    def move(self, moved: float, V: float, before: float | None, q: float, share: float) -> bool:
        """Note the move of z in a sweep and V before and after it; returns whether the run has settled."""
        if before is not None:
            rounding = self.rounding * q
            small = moved < max(share * self.moved * V, rounding)
            small = small and abs(V - before) < max(share * self.spread * V, rounding)
            self.quiet = self.quiet + 1 if small else 0
        return self.quiet >= self.still

    def note(self, residual: float, state: Float) -> None:
        """Record the residual of a state."""
        if residual < self.progress * self.residuals[0]:
            self.state, self.residuals = state, [residual]
        else:
            self.residuals.append(residual)

    @property
    def passed(self) -> bool:
        """Whether there is no hope of a better state."""
        last = self.residuals[-self.flat_sweeps - 1 :]
        flat = len(last) > self.flat_sweeps and max(last) - min(last) < self.flat * last[-1]
        return flat or len(self.residuals) > self.patience

    def limit(self, sweeps: int, r2: float, patient: bool, linear: bool) -> int:
        """The largest number of sweeps of a run that explains the share r2 of y."""
        if r2 > self.predicts and not patient:
            sweeps = self.most
        return sweeps if linear else min(sweeps, self.costly)


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
        self.convergence = Convergence()
        self.residual, self.tried, self.sweeps = 1.0, np.inf, 0
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
        share = 1.0
        if self.problem.noiseless:
            share = 0.0
        elif self.setting.patient or self.tight:
            share = Convergence.creeps
        before_V = None if self.swept is None else float(self.swept.v.sum())
        self.settled = self.convergence.move(moved, V, before_V, q, share)
        self.ended = self.ended or self.settled

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
        if costly and not ((leads or self.tight) and self.r2 >= Convergence.predicts):
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
        self.convergence.note(self.residual, np.stack([self.z, self.v, self.weight]))
        if (
            self.problem.m > n
            and self.convergence.passed
            and (self.problem.noiseless or self.r2 < Convergence.predicts)
        ):
            self.ended = True
            if self.convergence.residuals[0] < min(_NEAR, self.tried):
                # Return to its best state: a descent from there may still succeed.
                self.z[:], self.v[:], self.weight[:] = self.convergence.state
                self.tried = np.inf

    def goes_on(self, max_sweeps: int) -> bool:
        """Whether there is another sweep to make."""
        limit = self.convergence.limit(max_sweeps, self.r2, self.setting.patient, self.noise.linear)
        return not self.ended and self.sweeps < limit

    def keep(self, found: Fit) -> None:
        """Remember a fit if it is the best."""
        if self.fit is None or found.residual < self.fit.residual:
            self.fit = found


def run(
    walks: list[Walk],
    hand_over: HandOver | None,
    max_sweeps: int,
    watch: Callable[[Walk], Believed | None] | None = None,
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


# -- the attempts of one solve ----------------------------------------------------------------------------------------


@dataclass
class Search:
    """The attempts of one solve: the best belief so far, those that agree with it, and the best fit."""

    problem: Problem
    entries: Entries
    ensemble: Ensemble
    starts: SparseStarts
    #: What has been read of A for descents.
    cache: GrowingBlock
    best: Belief | None = None
    fit: Fit | None = None
    beliefs: list[Belief] = field(default_factory=list)
    unsettled: list[Walk] = field(default_factory=list)
    #: The run of the best belief.
    walk: Walk | None = None
    #: The share of y that the last reported belief explains.
    told: float = 0.0

    @classmethod
    def begin(cls, problem: Problem, entries: Entries, cache: GrowingBlock) -> Asks[Search]:
        """Read what AMP needs for its starts."""
        from fastquad.solvers.amp.starts import SparseStarts

        ensemble = yield from prepare(problem, entries)
        return cls(problem, entries, ensemble, SparseStarts(problem, ensemble), cache)

    @cached_property
    def hand_over(self) -> SparseHandOver:
        """The descents that runs are handed over to."""
        from fastquad.solvers.amp.hand_over import RobustHandOver, SparseHandOver

        return (RobustHandOver if self.problem.outliers else SparseHandOver)(self.problem, self.cache)

    def batch(self, attempts: list[Attempt], max_sweeps: int = Convergence.sweeps) -> Asks[Outcome | None]:
        """Run these attempts; returns the outcome if one ends the solve. Those that have not settled are kept."""
        return (yield from self._run([Walk(self.problem, self.ensemble, each) for each in attempts], max_sweeps))

    def go_on(self, max_sweeps: int = Convergence.most) -> Asks[Outcome | None]:
        """Let the runs that had not settled go on."""
        walks, self.unsettled = self.unsettled, []
        return (yield from self._run(walks, max_sweeps)) if walks else None

    def _run(self, walks: list[Walk], max_sweeps: int) -> Asks[Outcome | None]:
        from fastquad.solvers.amp.belief import belief

        yield from run(walks, self.hand_over, max_sweeps, self._watch)
        fits = [walk.fit for walk in walks if walk.fit is not None]
        if fits:
            found = min(fits, key=lambda fit: fit.residual)
            outcome = next(filter(None, (self.hand_over.outcome(fit, self.ensemble) for fit in fits)), None)
            if outcome is not None:
                return replace(outcome, entries=self.entries)
            if self.fit is None or found.residual < self.fit.residual:
                self.fit = found
        self.unsettled += [walk for walk in walks if not walk.ended]
        for walk in walks:
            held = None if self.problem.noiseless else belief(self.problem, self.entries, walk)
            if held is None:
                continue
            self.beliefs.append(held)
            if self.best is None or (held.found, held.r2) > (self.best.found, self.best.r2):
                self.best, self.walk = held, walk
        if self.best is not None and self.entries.independent:
            yield self.best.report()
            self.told = self.best.r2
        return self.verdict()

    @property
    def _weighs(self) -> bool:
        """Whether some measurements count less than others."""
        return self.problem.outliers or self.problem.noise.unequal or self.problem.noise.reweighs

    def _watch(self, walk: Walk) -> Believed | None:
        """The belief of a run that has not settled, if it explains more of y than any before."""
        if walk.sweeps < 3 or not walk.r2 > self.told or self.problem.noiseless or not self.entries.independent:
            return None
        if self.best is not None and self.best.found:
            return None
        from fastquad.solvers.amp.belief import belief

        self.told = walk.r2
        held = belief(self.problem, self.entries, walk)
        return None if held is None else held.report()

    def verdict(self, last: bool = False) -> Outcome | None:
        """The outcome if the best belief ends the solve; one that is too noisy must be confirmed, unless `last`."""
        best = self.best
        if best is None or not best.found:
            return None
        if best.trusted:
            return self.conclude(best)
        confirmed = any(other is not best and other.found and other.agrees(best) for other in self.beliefs)
        if (confirmed or last) and best.size < self.problem.m / 2:
            return self.conclude(best)
        return None

    def conclude(self, best: Belief) -> Outcome:
        """The outcome of a belief, less certain if y bends, or if another signal is measured with x."""
        from fastquad.noise.bend import BENT, bend
        from fastquad.solvers.amp.second import second_signal

        bent = 0.0 if self.problem.noise.unequal else bend(self.ensemble.y, best.r, gross=self._weighs)
        if bent:
            best = best.of_unsure_length(bent)
        second = 0.0
        if self.walk is not None and not self.problem.rank_two:
            second = second_signal(self.walk.S, self.walk.D, best.z, self.problem.turning)
        note = (
            f"The posterior mean has {best.size} nonzeros and a relative error of about {best.error:.2g}; the "
            f"noise has a standard deviation of {best.sigma:.3g}."
        )
        if bent:
            note = f"{note} {BENT}"
        return Outcome(
            best.x, best.residual, End.CONVERGED if best.trusted else End.NOISY, best.size,
            f"{note} {self.suspicion()}".strip(), best.sigma, best.error, best.stderr, second=second, method="amp",
            outliers=np.flatnonzero(best.sound < 0.5) if self.problem.outliers else None, entries=self.entries,
            model=best.model,
        )  # fmt: skip

    def suspicion(self) -> str:
        """A sentence if the data seem to have outliers and `outliers` is False; else empty."""
        if self._weighs or not self.entries.independent:
            return ""
        left = [self.ensemble.y] if self.best is None else [self.ensemble.y, self.best.r]
        for size in (np.abs(part) for part in left):
            if size.max() > _FAR * 1.4826 * float(np.median(size)):
                return "Some measurements are far off the others: they may be outliers, which outliers=True allows for."
        return ""

    def give_up(self) -> Outcome:
        """The best belief, which proves nothing."""
        if self.best is not None and self.entries.independent:
            best = self.best
            return Outcome(best.x, best.residual, End.STAGNATED, note=self.suspicion(), method="amp")
        if self.fit is not None:
            return Outcome(self.fit.x, self.fit.residual, free=self.fit.support.size, method="amp")
        return Outcome(np.zeros(self.problem.n), 1.0)


# -- the method -------------------------------------------------------------------------------------------------------


@options
class AMP(Solver):
    """Approximate message passing with a spike-and-slab denoiser, handed over to Levenberg–Marquardt.

    Use it for m of about n/2 and more. k may be anything and need not be known. It takes about ten passes over A;
    gradient methods need thousands. It assumes independent entries of A, and estimates their scale and mean. It
    ends with the first answer that fits to a relative residual of 1e-9 or, if the data are noisy, with the
    posterior mean of the first run whose predictions are far better than chance.

    Parameters
    ----------
    n_attempts : int
        The number of starts and settings to try: the first 18 differ in their starts, the next 12 in their settings.
        They run in batches, which share their passes over A.
    max_sweeps : int
        The largest number of sweeps, of a pass each, in one batch.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=75, n=60, k=30, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.AMP())
    >>> solution.status.name, bool(solution.n_passes < 30)
    ('EXACT', True)
    """

    name: ClassVar[str] = "amp"
    priors: ClassVar[tuple[str, ...]] = ("sparse", "denoiser")
    uses: ClassVar[frozenset[str]] = frozenset({"nonnegative", "groups", "partial"})
    n_attempts: int = 30
    max_sweeps: int = Convergence.most

    def __post_init__(self) -> None:
        arguments.count(self.n_attempts, "n_attempts")
        arguments.count(self.max_sweeps, "max_sweeps")

    def steps(self, problem: Problem) -> Steps:
        from fastquad.solvers.parts.finish import finished

        if guided(problem):
            return (yield from planned(problem, PLAN[1:]))
        if not affordable(problem):
            needed = 16 * MATRICES * problem.n**2
            raise MemoryError(
                f"`memory` must be at least {needed / 1e9:.3g} GB for AMP with n = {problem.n}, got "
                f"{problem.memory / 1e9:.3g} GB: use method='pursuit', which needs no n×n matrix."
            )
        entries = yield from sample_entries(problem)
        search = yield from Search.begin(problem, entries, GrowingBlock.within(problem))
        outcome = yield from self._search(search)
        return (yield from finished(problem, entries, outcome, search.cache))

    def _search(self, search: Search) -> Steps:
        """The outcome of the attempts."""
        from fastquad.solvers.amp.starts import BATCHES

        left = self.n_attempts
        for number in range(1, len(BATCHES) + 1):
            attempts = search.starts.batch(number)[:left]
            left -= len(attempts)
            outcome = (
                (yield from search.batch(attempts, min(Convergence.sweeps, self.max_sweeps))) if attempts else None
            )
            if outcome is None and number in _GO_ON:
                outcome = yield from search.go_on(self.max_sweeps)
            if outcome is not None:
                return outcome
        return search.verdict(last=True) or search.give_up()
