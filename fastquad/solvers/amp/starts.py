"""The starts of AMP for a sparse signal, the likeliest first, in batches that share their passes over A.

All have the length .7 φ. With S0 the first weighted sum, v1 and v2 its leading eigenvectors, `sp(a)` the leading
eigenvector of S0 on {S0_ll > a φ² sqrt(log n/m)} and `c_i` its column at the i-th largest diagonal entry:

    batch 1     v1, sp(1)
    batch 2     sp(.5), sp(1.5), c0, c1, v2
    batch 3     three random vectors V max(w, 0) g of S0's spectrum, c2 … c5, and two from blocks (see `warm`)
    batch 4     four more random vectors
    batch 5, 6  v1 with other settings, six each
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.numerics.eigen import leading_eigenvector
from fastquad.priors.base import Denoiser
from fastquad.priors.groups import spike_slab
from fastquad.priors.known import Clamped
from fastquad.priors.rank_two import RankTwo
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.run import Attempt, Setting
from fastquad.typing import Float

#: The number of attempts in each batch, without those from blocks.
BATCHES = (2, 5, 7, 4, 6, 6)

# (keep, norm, ρ, inner) of the attempts with other settings.
_OTHERS = (
    (0.3, 1.4, 0.3, 3), (0.5, 1.1, 0.3, 25), (0.3, 0.9, 0.6, 3), (0.5, 1.4, 0.6, 25),
    (0.3, 1.1, 0.15, 3), (0.5, 0.9, 0.15, 25), (0.3, 1.1, 0.8, 3), (0.5, 1.4, 0.8, 25),
    (0.3, 0.9, 0.3, 25), (0.5, 1.1, 0.6, 3), (0.3, 1.4, 0.15, 25), (0.5, 0.9, 0.8, 3),
)  # fmt: skip


def denoiser(problem: Problem, rho: float, phi2: float, learns: bool = True) -> Denoiser:
    """The denoiser of a sparse signal with |x|² of about phi2, and with its known values."""
    if problem.rank_two:
        return RankTwo(problem.n, rho, phi2, learns)
    if not problem.fixed:
        return spike_slab(problem.n, problem.groups, rho, phi2, learns)
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
