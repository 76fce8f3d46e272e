"""The starts of AMP: the usual ones, those near x already, and what its first estimate alone leads to.

The usual ones, for a sparse signal, the likeliest first, in batches that share their passes over A. All have the length
0.7 φ. With S0 the first weighted sum, v1 and v2 its leading eigenvectors, `sp(a)` the leading eigenvector of S0 on
{S0_ll > a φ² sqrt(log n/m)} and `c_i` its column at the i-th largest diagonal entry:

    batch 1     v1, sp(1)
    batch 2     sp(0.5), sp(1.5), c0, c1, v2
    batch 3     three random vectors V max(w, 0) g of S0's spectrum, c2 … c5, and two from blocks
    batch 4     four more random vectors
    batch 5, 6  v1 with other settings, six each

**From blocks.** A block of the likeliest coordinates fits in memory, so many starts cost little there. What AMP
explains of y on it is biased by the choice of coordinates: it is no answer, but a good start.

**Likely coordinates.** S0 is xx^T plus noise, so that AMP's first estimate, which reads nothing, already shows most of
the large coordinates of a sparse signal. Levenberg–Marquardt on them reads their block alone. What is missing of x then
shows in the residual: a part δ of it leaves `r ≈ −2 W δ`, with W the products of the fit. Of a coordinate that is zero,

    t_j² = m (r^T W_j)²/(|W_j|² |r|²)

is about the square of a standard normal number; every coordinate where it is larger than 4.5 joins the fit. By chance
one of thirty others does too, which is harmless while they are fewer than the measurements: their values end at zero.
Where at most a fifth of the coordinates are nonzero, and m is not far below n, a few rounds lead to an exact fit, with
one to five passes over A; a descent on all coordinates takes seven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Request, Reread, answered_by
from fastquad.engine.steps import Step
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Block, Products, Sweep
from fastquad.numerics.eigen import leading_eigenvector
from fastquad.numerics.grouping import Groups
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.priors.base import Denoiser
from fastquad.priors.spike_slab import spike_slab
from fastquad.solvers.amp.amp import Attempt, Ensemble, Setting, Walk, prepare, run
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

#: The number of attempts in each batch, without those from blocks.
BATCHES = (2, 5, 7, 4, 6, 6)

# (keep, norm, ρ, inner) of the attempts with other settings.
_OTHERS = (
    (0.3, 1.4, 0.3, 3), (0.5, 1.1, 0.3, 25), (0.3, 0.9, 0.6, 3), (0.5, 1.4, 0.6, 25),
    (0.3, 1.1, 0.15, 3), (0.5, 0.9, 0.15, 25), (0.3, 1.1, 0.8, 3), (0.5, 1.4, 0.8, 25),
    (0.3, 0.9, 0.3, 25), (0.5, 1.1, 0.6, 3), (0.3, 1.4, 0.15, 25), (0.5, 0.9, 0.8, 3),
)  # fmt: skip
# The numbers of coordinates in the blocks.
_BLOCKS = (50, 120)
# The largest number of sweeps on a block.
_BLOCK_SWEEPS = 30
# The total variance of a start's nonzeros, and that of its zeros, relative to |x|².
_UNSURE = 1e-3
# When a descent stops: what it could still gain is less than what the missing coordinates will.
_RULE = Rule(max_steps=20, patience=5, factor=1.01, bottom=0.05)
# The number of inner steps of the estimate: it has one weighted sum only, and should take from it what there is.
_INNER = 30
# The t² from which on a coordinate joins the fit.
_LEANS = 4.5
# The largest share of the coordinates, at first and after growing: beyond, a descent on all of them takes less time.
_FEW_AT_FIRST = 1 / 6
_FEW = 1 / 3
# The largest share of the measurements: more coordinates would fit anything.
_DETERMINED = 0.6
# The ratio of residuals that counts as progress.
_PROGRESS = 0.8
# The relative residual that the first fit must reach: otherwise the estimate has not turned towards x.
_EXPLAINS = 0.6


# -- the usual ones ---------------------------------------------------------------------------------------------------


def denoiser(problem: Problem, rho: float, phi2: float, learns: bool = True) -> Denoiser:
    """The denoiser of a sparse signal with |x|² of about phi2, and with its known values."""
    if problem.rank_two:
        from fastquad.priors.rank_two import RankTwo

        return RankTwo(problem.n, rho, phi2, learns)
    if not problem.fixed:
        return spike_slab(problem.n, problem.groups, rho, phi2, learns)
    from fastquad.priors.known import Clamped

    known = problem.known
    values = problem.completed(np.zeros(problem.n))[known]
    rest = max(phi2 - float(values @ values), 0.1 * phi2)
    return Clamped(spike_slab(problem.n - known.size, None, rho, rest, learns), problem.n, known, values)


class SparseStarts:
    """The starts for a sparse signal; what several of them share is computed once."""

    def __init__(self, problem: Problem, ensemble: Ensemble) -> None:
        self.problem, self.ensemble = problem, ensemble
        self._spectrum: tuple[Float, Float] | None = None
        self._first: Float | None = None

    def batch(self, number: int) -> list[Attempt]:
        """The attempts of batch 1, 2, …, 6."""
        if number <= 4:
            return [self._attempt(v, rho) for v, rho in self._vectors(number)]
        others = _OTHERS[6 * (number - 5) : 6 * (number - 4)]
        return [
            self._attempt(self.first, rho, Setting(keep, inner, norm), learns=False)
            for keep, norm, rho, inner in others
        ]

    def _vectors(self, number: int) -> Iterator[tuple[Float, float]]:
        """The directions of a batch with the ρ that goes with each."""
        n = self.problem.n
        if number == 1:
            yield self.first, 0.5
            if self.problem.fixed:
                # Try the other sign too: the entry at a known value may be too small to determine it.
                other = self.first.copy()
                other[self.problem.known] *= -1
                yield other, 0.5
            if n > 1:
                yield self.on_likely(1.0), 0.2
            for j in self.problem.known:
                # Start from the column at a known value w, which is w x plus noise.
                yield self.ensemble.S0[:, j], 0.5
        elif number == 2 and n > 1:
            yield self.on_likely(0.5), 0.3
            yield self.on_likely(1.5), 0.2
            yield from ((column, 0.2) for column in self.columns(0, 2))
            yield self.second, 0.5
        elif number == 3:
            yield from ((self.random(), 0.2) for _ in range(3))
            yield from ((column, 0.2) for column in self.columns(2, 6))
        elif number == 4:
            yield from ((self.random(), rho) for rho in (0.5, 0.2, 0.5, 0.5))

    def _attempt(self, v: Float, rho: float, setting: Setting = Setting(), learns: bool = True) -> Attempt:  # noqa: B008
        phi2 = self.ensemble.phi2
        start = v * (0.7 * np.sqrt(phi2) / max(float(np.linalg.norm(v)), 1e-300))
        made = denoiser(self.problem, rho, setting.norm * phi2, learns)
        return Attempt(self.problem.completed(start), made, setting)

    @property
    def quick(self) -> Attempt:
        """The attempt from a vector that leans to v1 of S0, which takes no time: inner steps turn it there."""
        if self.problem.rank_two:
            return self._attempt(self.first, 0.5)
        S0 = self.ensemble.S0
        v = S0[:, int(np.argmax(np.diagonal(S0)))]
        for _ in range(2):
            v = S0 @ (v / max(float(np.abs(v).max()), 1e-300))
        return self._attempt(v, 0.5)

    @property
    def first(self) -> Float:
        """v1 of S0."""
        if self._first is None:
            self._first = self._leading(self.ensemble.S0)
        return self._first

    @property
    def spectrum(self) -> tuple[Float, Float]:
        """The eigenvalues and eigenvectors of S0."""
        if self._spectrum is None:
            self._spectrum = np.linalg.eigh(self.ensemble.S0)
        return self._spectrum

    @property
    def second(self) -> Float:
        """v2 of S0; for a complex signal the third, because each eigenvector comes with i times itself."""
        if self.problem.rank_two:
            return self.random()
        return self.spectrum[1][:, -3 if self.problem.turning and self.problem.n > 2 else -2]

    def random(self) -> Float:
        """A random vector in the directions in which S0 is large."""
        values, vectors = self.spectrum
        return vectors @ (np.maximum(values, 0.0) * self.problem.rng.standard_normal(values.size))

    def columns(self, start: int, stop: int) -> Iterator[Float]:
        """The columns of S0 at its largest diagonal entries."""
        if self.problem.rank_two:
            yield from (self.random() for _ in range(start, stop))  # a column has no Im
            return
        S0 = self.ensemble.S0
        order = np.argsort(-np.diagonal(S0), kind="stable")
        if self.problem.turning:
            order = order[order % 2 == 0]  # the columns of Re and Im differ by a phase
        yield from (S0[:, j] for j in order[start:stop])

    def on_likely(self, a: float) -> Float:
        """The leading eigenvector on the coordinates whose diagonal entry passes the support test, at least two."""
        S0, n, m = self.ensemble.S0, self.problem.n, self.problem.m
        diagonal = np.diagonal(S0)
        likely = np.flatnonzero(diagonal > a * self.ensemble.phi2 * np.sqrt(np.log(n) / m))
        if likely.size < 2:
            likely = np.sort(np.argsort(-diagonal, kind="stable")[:2])
        v = np.zeros(n)
        v[likely] = self._leading(S0[likely[:, None], likely])
        return v

    def _leading(self, S: Float) -> Float:
        """The leading eigenvector; √w1 v1 + i √w2 v2 if real matrices measure a complex signal, Re and Im in turn."""
        if not self.problem.rank_two or len(S) < 4:
            return leading_eigenvector(S)
        values, vectors = np.linalg.eigh(S[::2, ::2])
        two = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 1e-3 * abs(values[-1])))
        return two.reshape(-1)


# -- from other methods and from blocks -------------------------------------------------------------------------------


def near(problem: Problem, ensemble: Ensemble, x: Float) -> Attempt:
    """An attempt from x, whose nonzeros are most of the signal."""
    support = np.flatnonzero(x)
    q = float(x @ x)
    # Clip the length: a fit may be far too long or too short, and only its direction counts.
    length = np.clip(q, 0.3 * ensemble.phi2, 1.1 * ensemble.phi2)
    z = x * np.sqrt(length / q)
    v = np.full(problem.n, _UNSURE * length / problem.n)
    v[support] = _UNSURE * length / support.size
    rho = float(np.clip(support.size / problem.n, 2 / problem.n, 1 - 1e-4))
    v[problem.known] = 0.0
    return Attempt(problem.completed(z), denoiser(problem, rho, 1.1 * ensemble.phi2), v=v)


def from_blocks(problem: Problem, entries: Entries, ensemble: Ensemble) -> Asks[list[Attempt]]:
    """Attempts from the best runs of AMP on blocks of the likeliest coordinates."""
    attempts: list[Attempt] = []
    if problem.fixed:  # a block would have to hold the known values
        return attempts
    order = np.argsort(-np.diagonal(ensemble.S0), kind="stable")
    for size in _BLOCKS:
        if size >= problem.n or not 8 * problem.m * size**2 <= problem.memory // 16:
            continue
        members = np.sort(order[:size])
        if problem.groups is not None:
            members = problem.groups.whole(members)
        z = yield from _on_block(problem, entries, members)
        if z is not None:
            attempts.append(near(problem, ensemble, z))
    return attempts


def _on_block(problem: Problem, entries: Entries, members: Indices) -> Asks[Float | None]:
    """The estimate of the run that explains most of y with these coordinates alone, (n,)."""
    from fastquad.measurements.dense.raw import RawTensor

    block = yield Block(members)
    groups = None if problem.groups is None else Groups(problem.groups.of[members])
    small = replace(problem, n=members.size, x0=None, prior=None, groups=groups)
    tensor = RawTensor(np.ascontiguousarray(block))
    passes = 0.0

    def answer(item: Request | Step) -> object:
        """The answer from the block; steps on it are not reported."""
        nonlocal passes
        if isinstance(item, Step):
            return None
        passes += item.cost(tensor) if isinstance(item, Sweep) else 1.0
        return item.answer(tensor, 1)

    walks = answered_by(answer, _every_start(small, entries))
    # Charge the passes over the block, although it is in memory.
    yield Reread(passes * (members.size / problem.n) ** 2)
    settled = [walk for walk in walks if walk.settled and walk.swept is not None]
    if not settled:
        return None
    best = max(settled, key=lambda walk: walk.r2)
    z = np.zeros(problem.n)
    z[members] = np.where(best.weight > 0.1, best.z, 0.0)
    return z if z.any() else None


def _every_start(problem: Problem, entries: Entries) -> Asks[list[Walk]]:
    """AMP on a block from the starts of its first two batches, without hand-over."""
    ensemble = yield from prepare(problem, entries)
    starts = SparseStarts(problem, ensemble)
    walks = [Walk(problem, ensemble, attempt) for attempt in starts.batch(1) + starts.batch(2)]
    yield from run(walks, None, _BLOCK_SWEEPS)
    return walks


# -- likely coordinates -----------------------------------------------------------------------------------------------


@dataclass
class Likely:
    """AMP's first estimate: a start for all coordinates, and the best fit on some of them, if x looks sparse.

    `stands_still` says that more coordinates hardly improve the fit: what it leaves may be noise.
    """

    x: Float
    fit: Fit | None = None
    stands_still: bool = False


def likely(problem: Problem, ensemble: Ensemble, attempt: Attempt, cache: GrowingBlock) -> Asks[Likely]:
    """Estimate x from the first weighted sum, and fit a growing support."""
    walk = Walk(problem, ensemble, attempt._replace(setting=Setting(inner=_INNER)))
    walk.estimate()
    support = np.flatnonzero(walk.weight > 0.5)
    length = max(float(np.linalg.norm(walk.z)), 1e-300)
    at = Likely(walk.z * (math.sqrt(ensemble.phi2) / length))
    few = _FEW_AT_FIRST
    while _affordable(problem, support, few, cache):
        found = yield from fit(problem, at.x, support, _RULE, cache)
        before = _EXPLAINS if at.fit is None else _PROGRESS * at.fit.residual
        if not found.residual < before:
            at.stands_still = at.fit is not None
            break
        at.x, at.fit, few = found.x, found, _FEW
        if exact_enough(problem, found.residual):
            break
        W = yield Products(found.x)
        chosen = _leaning(found.r, W)
        chosen[found.support] = True
        support = np.flatnonzero(chosen)
        if support.size == found.support.size:
            at.stands_still = True
            break
    return at


def _affordable(problem: Problem, support: Indices, few: float, cache: GrowingBlock) -> bool:
    """Whether a support is small enough: for the time of a descent, for what m measurements determine, for memory."""
    return 0 < support.size <= min(few * problem.n, _DETERMINED * problem.m) and cache.affordable(support)


def _leaning(r: Float, W: Float) -> NDArray[np.bool_]:
    """Whether the residual leans to the products of each coordinate."""
    squares = np.maximum(np.einsum("ij,ij->j", W, W), 1e-300)
    return r.size * (r @ W) ** 2 > _LEANS * squares * float(r @ r)
