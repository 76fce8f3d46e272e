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
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastquad import checks
from fastquad._kernels.amp import denoise
from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import EXACT_RESIDUAL, Diagonals, Outcome, Products, Step, Steps, Sweep, WeightedSum
from fastquad.solvers.ensemble import Entries, sample_entries
from fastquad.solvers.lm import Fit, GrowingBlock, Rule, fit
from fastquad.solvers.noise import MAX_SHARE, stepwise
from fastquad.solvers.spectral import leading_eigenvector
from fastquad.solvers.verdict import exact_enough, verdict

# A hand-over either converges within a few steps, or is in the wrong valley.
_HAND_OVER = Rule(max_steps=20, patience=4)
# A relative residual below this shows that AMP has turned towards x. A hand-over that failed is repeated when that has
# fallen by a fifth.
_NEAR, _NEARER = 0.6, 0.8
# So many sweeps in a row that move z by less than 0.1% mean that AMP has settled.
_STILL = 3
# Above m = n the residual of a run that succeeds falls by 3% in every few sweeps (at most 7 in 175 such runs), and does
# not stand still within 1%: a run without that has settled elsewhere, or lost what it had. Below, one that succeeds may
# wander for long.
_PROGRESS, _PATIENCE, _FLAT = 0.97, 10, 0.01
# The n×n matrices of doubles that are in memory at once: S0, S, and what an eigendecomposition takes.
_MATRICES = 8
#: How many different starts there are.
N_STARTS = 6


class Tuning(NamedTuple):
    """The parameters that restarts vary."""

    rho: float = 0.5
    learn: bool = True
    keep: float = 0.4
    norm: float = 1.1
    inner: int = 10


@dataclass
class Ensemble:
    """What AMP has to know of A: the scale of its entries, their common mean, and the first weighted sum.

    `gain` is 1/σ², `mean` is Ā or None where the entries are centred, `S0 = Σ y_i Ã_i /(mσ²)` (centred) and
    `phi2 = |x|²` as y says.
    """

    y: Float
    gain: float
    mean: Float | None
    S0: Float
    diagonals: Float
    phi2: float

    def sweep(self, z: Float, v: Float, c: Float) -> Generator[Any, Any, tuple[Float, Float, Float]]:
        """`r = c − A(zz^T + diag v)` and `A*(r)/(mσ²)`, both centred, and the values `z^T Ã_i z`; one pass."""
        shift = 0.0 if self.mean is None else float(z @ self.mean @ z + np.diagonal(self.mean) @ v)
        r, S = yield Sweep(z, v, c + shift)
        values = c + shift - r - self.diagonals @ v
        if self.mean is not None:
            S -= r.sum() * self.mean
        S *= self.gain / r.size
        return r, S, values


@dataclass
class Trail:
    """Where one run of AMP ended: its estimate, and the best hand-over that was tried."""

    z: Float
    v: Float
    weight: Float
    settled: bool = False
    fit: Fit | None = None

    def keep(self, found: Fit) -> None:
        """Remember a fit if it is the best."""
        if self.fit is None or found.residual < self.fit.residual:
            self.fit = found


@dataclass
class Best:
    """The state (z, v, π) of a run with the smallest residual, and what the residuals since then were."""

    state: Float = field(default_factory=lambda: np.zeros((3, 0)))
    residuals: list[float] = field(default_factory=lambda: [np.inf])

    def note(self, residual: float, state: Float) -> None:
        """Take the residual of a state."""
        if residual < _PROGRESS * self.residuals[0]:
            self.state, self.residuals = state[[0, 2, 3]], [residual]
        else:
            self.residuals.append(residual)

    @property
    def settled(self) -> bool:
        """Whether the residual stands still."""
        last = self.residuals[-_STILL - 1 :]
        return len(last) > _STILL and max(last) - min(last) < _FLAT * last[-1]

    @property
    def passed(self) -> bool:
        """Whether there is no hope of a better state."""
        return self.settled or len(self.residuals) > _PATIENCE


def affordable(problem: Problem) -> bool:
    """Whether what AMP keeps fits in half of the memory."""
    return 8 * _MATRICES * problem.n**2 <= problem.memory // 2


def run(
    problem: Problem, ensemble: Ensemble, start: Float, tuning: Tuning, cache: GrowingBlock, max_sweeps: int = 60
) -> Generator[Any, Any, Trail]:
    """AMP from one start, with a hand-over every third sweep once the residual has begun to fall."""
    n, m, gain, y = problem.n, problem.m, ensemble.gain, ensemble.y
    phi2, y_norm = tuning.norm * ensemble.phi2, float(np.linalg.norm(problem.y))
    r, S, square = y, ensemble.S0, float(y @ y)
    prior = np.array([tuning.rho, phi2 / (n * tuning.rho)])
    state = np.zeros((7, n))
    state[0] = state[1] = start
    state[2] = max(phi2 - float(start @ start), 0.1 * phi2) / n
    z, v = state[0], state[2]
    trail = Trail(z, v, state[3])
    best = Best()
    still, residual, tried = 0, 1.0, np.inf
    for t in range(max_sweeps):
        before = z.copy()
        r_square = float(r @ r)
        q = _estimate(S, r_square * gain / (2 * m * m), state, prior, phi2, tuning)
        if not q <= 3 * phi2:
            break
        level = min(residual, float(np.sqrt(r_square / square)))
        if t % 3 == 2 and level < min(_NEAR, _NEARER * tried):
            tried = level
            found = yield from hand_over(problem, trail, cache)
            trail.keep(found)
            if exact_enough(problem, found.residual):
                break
        still = still + 1 if float(np.sum((z - before) ** 2)) < 1e-6 * q else 0
        if still >= _STILL:
            trail.settled = True
            break
        beta = min(1.0, 2 * q * float(v.sum()) * m / (gain * r_square))
        r, S, values = yield from ensemble.sweep(z, v, y + beta * r)
        residual = float(np.linalg.norm(problem.y - values)) / y_norm
        yield Step(z.copy(), residual)
        best.note(residual, state)
        if m > n and best.passed:
            trail.settled = best.settled
            if best.residuals[0] < min(_NEAR, tried):
                # From where it was nearest, Levenberg–Marquardt may still get there.
                trail.z, trail.v, trail.weight = best.state
                trail.keep((yield from hand_over(problem, trail, cache)))
            break
        S += np.outer(z, z)
        S[np.diag_indices(n)] += v
    return trail


def _estimate(S: Float, D: float, state: Float, prior: Float, phi2: float, tuning: Tuning) -> float:
    """Estimate x from S, in place in `state`; |z|², which is kept from falling towards zero."""
    denoise(S, D, state, prior, phi2, tuning.keep, tuning.inner, 1e-3, tuning.learn)
    z = state[0]
    q = float(z @ z)
    if q < 0.3 * phi2:
        # Without this, z = 0 is a trap for m < n.
        z *= np.sqrt(0.3 * phi2 / max(q, 1e-300))
        q = 0.3 * phi2
    return q


def hand_over(problem: Problem, trail: Trail, cache: GrowingBlock) -> Generator[Any, Any, Fit]:
    """Levenberg–Marquardt on the coordinates that AMP holds for nonzero."""
    size = int(np.count_nonzero(trail.weight > 0.1)) + 2
    return (yield from fit_largest(problem, trail.z, trail.z**2 + trail.v * trail.weight, size, cache))


def fit_largest(
    problem: Problem, x: Float, importance: Float, size: int, cache: GrowingBlock
) -> Generator[Any, Any, Fit]:
    """Levenberg–Marquardt from x on the most important coordinates, on more of them where that nearly fits."""
    m, n = problem.m, problem.n
    size = min(size, m - 1, n)
    support = np.sort(np.argsort(-importance, kind="stable")[:size])
    result = yield from fit(problem, x, support, _HAND_OVER, cache)
    for enlarged in (1.25 * size, 0.8 * m):
        target = min(int(enlarged), m - 1, n)
        if not EXACT_RESIDUAL <= result.residual < 0.1 or target <= result.support.size:
            continue
        result = yield from _enlarge(problem, result, target, cache)
    return result


def _enlarge(problem: Problem, result: Fit, size: int, cache: GrowingBlock) -> Generator[Any, Any, Fit]:
    """Fit again with the coordinates whose columns of the Jacobian explain most of the residual."""
    W = yield Products(result.x)
    score = np.abs(result.r @ W) / np.sqrt(np.einsum("ij,ij->j", W, W) + 1e-300)
    score[result.support] = np.inf
    support = np.sort(np.argsort(-score, kind="stable")[:size])
    return (yield from fit(problem, result.x, support, _HAND_OVER, cache))


def prepare(problem: Problem, entries: Entries) -> Generator[Any, Any, Ensemble]:
    """Read what AMP starts from: the diagonals, S0, and Ā where A is not centred."""
    m, y, gain = problem.m, problem.y, entries.gain
    diagonals = yield Diagonals()
    mean = None if entries.centred else (yield WeightedSum(np.full(m, 1 / m)))
    if mean is not None:
        y = y - y.mean()
    S0 = yield WeightedSum(y)
    if mean is not None:
        S0 = S0 - y.sum() * mean
    phi2 = float(np.sqrt(np.mean(y**2) * gain)) if problem.norm is None else problem.norm**2
    return Ensemble(y, gain, mean, S0 * (gain / m), diagonals, phi2)


def starts(problem: Problem, ensemble: Ensemble, count: int) -> Iterator[tuple[Float, float]]:
    """Starts of length 0.7 φ with the ρ that goes with them, the likeliest first."""
    S0, n, m = ensemble.S0, problem.n, problem.m
    length = 0.7 * np.sqrt(ensemble.phi2)
    rho = (0.5, 0.5, 0.2, 0.5, 0.2, 0.5)
    if count > 0:
        yield length * leading_eigenvector(S0), rho[0]
    spectrum = None
    if count > 1 and m > n > 1:
        # Where the first fails, x is as often nearer to the second eigenvector.
        spectrum = np.linalg.eigh(S0)
        yield length * spectrum[1][:, -2], rho[1]
    elif count > 1:
        likely = np.flatnonzero(np.diagonal(S0) > 0.5 * ensemble.phi2 * np.sqrt(np.log(n) / m))
        if likely.size == 0:
            likely = np.array([np.argmax(np.diagonal(S0))])
        z = np.zeros(n)
        z[likely] = length * leading_eigenvector(S0[likely[:, None], likely])
        yield z, rho[1]
    if count > 2:
        values, vectors = spectrum or np.linalg.eigh(S0)
        for i in range(2, count):
            z = vectors @ (np.maximum(values, 0.0) * problem.rng.standard_normal(n))
            yield length * z / np.linalg.norm(z), rho[i % len(rho)]


def restarts() -> list[Tuning]:
    """Twelve other settings, for starts from v1(S0)."""
    return [
        Tuning(keep=keep, norm=norm, rho=rho, learn=False, inner=inner)
        for (keep, norm, rho, inner) in (
            (0.3, 1.4, 0.3, 3), (0.5, 1.1, 0.3, 25), (0.3, 0.9, 0.6, 3), (0.5, 1.4, 0.6, 25),
            (0.3, 1.1, 0.15, 3), (0.5, 0.9, 0.15, 25), (0.3, 1.1, 0.8, 3), (0.5, 1.4, 0.8, 25),
            (0.3, 0.9, 0.3, 25), (0.5, 1.1, 0.6, 3), (0.3, 1.4, 0.15, 25), (0.5, 0.9, 0.8, 3),
        )
    ]  # fmt: skip


def attempts(problem: Problem, ensemble: Ensemble, which: range) -> Iterator[tuple[Float, Tuning]]:
    """Attempts 0 to 5 are starts, 6 to 17 the first start with other settings."""
    for i, (start, rho) in enumerate(starts(problem, ensemble, min(which.stop, N_STARTS))):
        if i in which:
            yield start, Tuning(rho=rho)
    later = restarts()[max(0, which.start - N_STARTS) : max(0, which.stop - N_STARTS)]
    if later:
        start = 0.7 * np.sqrt(ensemble.phi2) * leading_eigenvector(ensemble.S0)
        yield from ((start, tuning) for tuning in later)


def noisy_fit(problem: Problem, trail: Trail, cache: GrowingBlock) -> Generator[Any, Any, Fit]:
    """The fit on the coordinates that AMP holds for likelier nonzero than not, improved by single changes."""
    size = int(np.clip(np.count_nonzero(trail.weight > 0.5), 1, max(1, min(MAX_SHARE * problem.m, problem.n))))
    support = np.sort(np.argsort(-(trail.z**2 + trail.v * trail.weight), kind="stable")[:size])
    found = yield from fit(problem, trail.z, support, Rule(max_steps=30), cache)
    return (yield from stepwise(problem, found, cache))


@dataclass(frozen=True, kw_only=True)
class AMP(Solver):
    """Approximate message passing with a spike-and-slab denoiser, handed over to Levenberg–Marquardt.

    Right for m of about n/2 and more, whatever k, which need not be known: about ten passes over A where gradient
    methods need thousands. It assumes independent entries of A; their scale and mean are estimated. It ends with the
    first answer that fits to a relative residual of 1e-9, or, where the data are noisy, that is far better than chance.

    Parameters
    ----------
    n_attempts : int
        How many starts and settings to try: the first 6 differ in their start, the 12 after them in their settings.
    max_sweeps : int
        At most so many sweeps, of a pass each, in one attempt.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=75, n=60, k=30, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.AMP())
    >>> solution.status.name, bool(solution.n_passes < 30)
    ('EXACT', True)
    """

    name: ClassVar[str] = "amp"
    certifies: ClassVar[bool] = True
    n_attempts: int = 18
    max_sweeps: int = 60

    def __post_init__(self) -> None:
        checks.count(self.n_attempts, "n_attempts")
        checks.count(self.max_sweeps, "max_sweeps")

    def steps(self, problem: Problem) -> Steps:
        if not affordable(problem):
            needed = 16 * _MATRICES * problem.n**2
            raise MemoryError(
                f"`memory` must be at least {needed / 1e9:.3g} GB for AMP with n = {problem.n}, got "
                f"{problem.memory / 1e9:.3g} GB: use method='pursuit', which needs no n×n matrix."
            )
        entries = yield from sample_entries(problem)
        ensemble = yield from prepare(problem, entries)
        cache = GrowingBlock.within(problem)
        best: Fit | None = None
        settled: list[Trail] = []
        for i, (start, tuning) in enumerate(attempts(problem, ensemble, range(self.n_attempts)), 1):
            trail = yield from run(problem, ensemble, start, tuning, cache, self.max_sweeps)
            for found in (yield from candidates(problem, trail, settled, cache, more=i < self.n_attempts)):
                outcome = yield from verdict(problem, entries, found, self.name)
                if outcome is not None:
                    return outcome
                if best is None or found.residual < best.residual:
                    best = found
        if best is None:
            return Outcome(start, 1.0)
        return Outcome(best.x, best.residual, free=best.support.size)


def candidates(
    problem: Problem, trail: Trail, settled: list[Trail], cache: GrowingBlock, more: bool
) -> Generator[Any, Any, list[Fit]]:
    """The fits that come of a run: of its best hand-over, and of the supports in noise where runs have settled.

    `settled` keeps the runs that wait for that. Above m = n a first run that settles has more often missed x than met
    noise, and looking for a support in noise takes longer than a second one: it waits where there are `more` to come.
    """
    found = [] if trail.fit is None else [trail.fit]
    if problem.noise == 0 or (found and exact_enough(problem, found[0].residual)):
        return found
    if trail.settled:
        settled.append(trail)
    if more and len(settled) < 2 and problem.m > problem.n and problem.noise is None:
        return found
    while settled:
        found.append((yield from noisy_fit(problem, settled.pop(0), cache)))
    return found
