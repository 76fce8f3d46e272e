"""Gibbs sampling of a spike-and-slab posterior at cycling temperatures: the last resort for few measurements.

Near the limit of what is possible, AMP settles in a wrong place for almost half of the instances of n = 100, while the
posterior itself is still peaked at x. A sample finds x by chance, sooner or later, if the temperature is right: if it
is too hot, x is left again; if it is too cold, nothing moves. One sweep draws each z_j from its conditional
(kernels/gibbs.h: an exact quartic, with a point mass at zero)

    p(z) ∝ exp(−‖A(zz^T) − y‖²/(2σ²)) Π_j [(1−ρ) δ_0 + ρ N(0, φ²/(nρ))](z_j),     ρ = share of nonzeros.

Which σ² is best depends on k: about 0.15 mean y² for k = n/5, 0.04 for k near n. So the chain goes down through all of
that range, quickly on to where it stands still, hands its support over to Levenberg–Marquardt, and is heated up again.

A sweep moves up to n coordinates, each of which updates all products with its row of A: two passes. It works on the
packed copy of A that pursuit keeps, at a tenth of a millisecond for n = 100; what it reads is charged all the same.

Re and Im of a complex entry are drawn together, and vanish together (kernels/gibbs_pairs.h).

Signals of a few values are sampled at `p(z) ∝ exp(−‖A(zz^T) − y‖²/(2σ²))` by Metropolis steps, from one value to
another. There the chain needs no hand-over: it meets x itself.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gibbs as kernel
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Step
from fastquad.solvers.pursuit import tuning
from fastquad.solvers.pursuit.pairs import PairStore
from fastquad.typing import Asks, Float, Indices

# The largest number of entries of A: beyond it a sweep takes too long.
_SAMPLED_ENTRIES = 4e6
# The number of sweeps between two looks at the budget.
_ROUND = 50
# σ²/mean y² at the start of a cycle.
_HOT = 0.25
# σ²/mean y² at the end of the slow part of a cycle.
_COLD = 0.03
# σ²/mean y² at the end of the quick part of a cycle, where nothing moves any more.
_STILL = 0.001
# The number of sweeps in the slow part.
_SLOW_SWEEPS = 800
# The number of sweeps in the quick part.
_QUICK_SWEEPS = 100
# The number of sweeps in a cycle for x >= 0.
_POSITIVE_SWEEPS = 150
# σ²/mean y² at the start of a slow cycle for x >= 0, for which the user must give time.
_SLOWLY_HOT = 0.5
# The number of its sweeps: at (k, m) = (20, 40) they find 16 of 20 signals, not 10.
_SLOWLY_SWEEPS = 5000
# σ²/mean y² at the start of a cycle for signals of a few values.
_VALUES_HOT = 0.5
# σ²/mean y² at its end.
_VALUES_COLD = 0.15
# The number of its sweeps.
_VALUES_SWEEPS = 10_000
# The share of |y|² below which a sample of a few values is examined in double precision.
_FITS = 1e-6


def affordable(problem: Problem) -> bool:
    """Whether the chain can be run: all of A fits in memory, and a sweep does not take too long."""
    return problem.m * problem.n**2 <= min(_SAMPLED_ENTRIES, tuning.max_entries(problem))


def temperatures() -> Float:
    """σ²/mean y² at each sweep of a cycle."""
    slow = np.geomspace(_HOT, _COLD, _SLOW_SWEEPS)
    return np.concatenate([slow, np.geomspace(_COLD, _STILL, _QUICK_SWEEPS)])


def positive_temperatures(slowly: bool = False) -> Float:
    """σ²/mean y² at each sweep of a cycle for x >= 0: hotter, and much shorter unless it is a slow one."""
    return np.geomspace(_SLOWLY_HOT, 1e-3, _SLOWLY_SWEEPS) if slowly else np.geomspace(1.0, 1e-3, _POSITIVE_SWEEPS)


class _Sampled:
    """A problem on the pairs of a store, which must hold all of them, at scale one; z, (n,), is the sample."""

    def __init__(self, problem: Problem, store: PairStore) -> None:
        self.problem, self.store = problem, store
        # At scale one, of y and of A, nothing overflows single precision: the kernel finds x/unit.
        y = problem.y - problem.y.mean() if store.centre else problem.y
        y_scale = float(np.sqrt(np.mean(y**2)))
        self.unit = float(np.sqrt(y_scale / store.scale))
        self.y = store.padded(y / y_scale)
        self.square = float(self.y @ self.y)
        self.work = np.empty((problem.n + 1, store.length), dtype=np.float32)
        self.z = np.zeros(problem.n)

    def signal(self) -> Float:
        """The sample, in the order and at the scale of the problem."""
        x = np.empty(self.problem.n)
        x[self.store.order] = self.z * self.unit
        return x

    def orders(self, sweeps: int) -> Indices:
        """The order of the entries in each of some sweeps."""
        return self.problem.rng.permuted(np.tile(np.arange(self.problem.entries), (sweeps, 1)), axis=1)


class Chain(_Sampled):
    """A Markov chain of the spike-and-slab posterior, from a small random start."""

    def __init__(self, problem: Problem, store: PairStore, positive: bool = False) -> None:
        super().__init__(problem, store)
        self.positive = positive
        self.z = problem.rng.standard_normal(problem.n) * 0.3 / np.sqrt(problem.n)
        if positive:
            self.z = np.abs(self.z)
        self.chain = kernel.Chain(
            store.pairs, self.y, self.z, self.work, rho=0.3, norm2=1.0, positive=positive, turning=problem.turning
        )

    def cycle(self, slowly: bool = False) -> Asks[Float]:
        """One cycle of temperatures; the sample at its end, (n,)."""
        n, rng = self.problem.n, self.problem.rng
        schedule = positive_temperatures(slowly) if self.positive else temperatures()
        for start in range(0, schedule.size, _ROUND):
            betas = 1 / (2 * schedule[start : start + _ROUND])
            order = self.orders(betas.size)
            uniform, normal = rng.random(order.shape), rng.standard_normal((betas.size, n))
            moved, square = self.chain.anneal(betas, order, uniform, normal)
            yield Reread(2 * moved / (n + 1))
            x = self.signal()
            yield Step(x, float(np.sqrt(square / self.square)))
        return x


class ValuesChain(_Sampled):
    """A Markov chain of signals of a few values, from a random one in each cycle."""

    def __init__(self, problem: Problem, store: PairStore, values: Float) -> None:
        super().__init__(problem, store)
        self.values = values / self.unit
        self.chain = kernel.ValuesChain(store.pairs, self.y, self.values, self.z, self.work)

    def cycle(self) -> Asks[Float]:
        """One cycle of temperatures; the sample at its end, or the first that fits, (n,)."""
        n, rng = self.problem.n, self.problem.rng
        self.z[:] = rng.choice(self.values, n)
        schedule = np.geomspace(_VALUES_HOT, _VALUES_COLD, _VALUES_SWEEPS)
        for start in range(0, schedule.size, _ROUND):
            betas = 1 / (2 * schedule[start : start + _ROUND])
            order = self.orders(betas.size)
            other, taken = rng.random((betas.size, n)), rng.random((betas.size, n))
            moved, square = self.chain.anneal(betas, order, other, taken, enough=_FITS * self.square)
            yield Reread(2 * moved / (n + 1))
            yield Step(self.signal(), float(np.sqrt(square / self.square)))
            if square < _FITS * self.square:
                break
        return self.signal()
