"""From a promising support to the answer: backward pruning, and extension over all coordinates.

Extension needs the rows of the support: `W = Σ_t z_t Ã_t·` then holds the products at every coordinate, so the gain
of each is known exactly. A coordinate is added while its F-like statistic `gain (m−s)/(RSS−gain)` exceeds what the best of
n useless ones would reach, about 2 ln n; one that is added by mistake costs nothing while |S| < m, it ends at zero.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from fastquad.measurements.base import Float
from fastquad.solvers import quartic
from fastquad.solvers.base import Problem
from fastquad.solvers.driver import EXACT_RESIDUAL, Rows
from fastquad.solvers.lm import Rule, on_block

_STEP = Rule(max_steps=25)


class Support(NamedTuple):
    """Coordinates, their values, and the residual's square."""

    members: NDArray[np.intp]
    z: Float
    rss: float


@dataclass
class RowCache:
    """The rows of A that have been read, each once."""

    rows: dict[int, Float] = field(default_factory=dict)

    def missing(self, members: Iterable[int]) -> list[int]:
        """Those whose rows have not been read."""
        return [int(j) for j in members if int(j) not in self.rows]

    def read(self, members: Iterable[int]) -> Generator[Any, Any, None]:
        """Ask for the rows that are missing."""
        new = self.missing(members)
        if new:
            rows = yield Rows(np.array(new, dtype=np.intp))
            for place, j in enumerate(new):
                self.rows[j] = np.ascontiguousarray(rows[:, place], dtype=np.float64)

    def block(self, members: NDArray[np.intp]) -> Float:
        """`Ã_i[S, S]`, (m, s, s)."""
        return np.stack([self.rows[int(j)][:, members] for j in members], axis=1)

    def products(self, support: Support) -> Float:
        """`W[i] = Ã_i x`, (m, n), for x with these values."""
        W = np.zeros_like(next(iter(self.rows.values())))
        flat = W.reshape(-1)
        for j, value in zip(support.members, support.z, strict=True):
            blas.daxpy(self.rows[int(j)].reshape(-1), flat, a=value)
        return W


def refit(y: Float, block: Float, members: NDArray[np.intp], z: Float, rule: Rule = _STEP) -> Support:
    """Levenberg–Marquardt on a support whose block is in memory."""
    descent = on_block(y, z, block, rule)
    return Support(members, descent.z, descent.square)


def prune(y: Float, block: Float, support: Support, log_choices: float) -> Support:
    """Drop the coordinate that costs least while the RSS grows by less than 1 + 2 log_choices/(m−s) times."""
    m = y.size
    # An RSS of zero would make every coordinate matter: below this one nothing is left to explain.
    least = 1e-10 * float(y @ y)
    while support.members.size > 1:
        s = support.members.size
        costs = _drop_costs(y, block, support)
        worst = int(np.argmin(costs))
        allowed = (support.rss + least) * (1 + 2 * log_choices / max(1, m - s))
        # The linear estimate tells apart what is far from the limit; only a close call is fitted to see.
        if support.rss + costs[worst] > 4 * allowed:
            break
        keep = np.arange(s) != worst
        smaller = block[:, keep][:, :, keep]
        shorter = refit(y, smaller, support.members[keep], support.z[keep])
        if shorter.rss + least > allowed:
            break
        block, support = smaller, shorter
    return support


def _drop_costs(y: Float, block: Float, support: Support) -> Float:
    """How much the RSS would grow without each coordinate, to second order: `z_j²/((4W^TW)^{-1})_jj`."""
    W = block @ support.z
    hessian = 4 * W.T @ W
    hessian[np.diag_indices_from(hessian)] *= 1 + 1e-12
    return support.z**2 / np.maximum(np.diagonal(np.linalg.pinv(hessian, hermitian=True)), 1e-300)


def extend(
    problem: Problem, diagonals: Float, cache: RowCache, support: Support, max_new: int
) -> Generator[Any, Any, Support]:
    """Add the coordinates that the residual asks for, over all n; reads the rows of the support, at most max_new."""
    y, m, n = problem.y, problem.m, problem.n
    scale = float(y @ y)
    # A support of more than m/2 would fit anything.
    limit = min(n, max(2, m // 2))
    threshold = 1.1 * 2 * np.log(max(n, 2))
    misses = 0
    squares = np.einsum("ij,ij->j", diagonals, diagonals)
    if support.members.size > limit or len(cache.missing(support.members)) > max_new:
        return support
    max_new -= len(cache.missing(support.members))
    yield from cache.read(support.members)
    support = refit(y, cache.block(support.members), support.members, support.z)
    while support.members.size < limit and support.rss > EXACT_RESIDUAL**2 * scale:
        W = cache.products(support)
        gains, values = quartic.gains(y - W[:, support.members] @ support.z, W, diagonals, squares)
        gains[support.members] = 0.0
        best = int(np.argmax(gains))
        gain = gains[best]
        if gain * (m - support.members.size) < threshold * max(support.rss - gain, 0.0):
            misses += 1
            if misses > 1:
                break
        missing = len(cache.missing([best]))
        if missing > max_new:
            break
        max_new -= missing
        yield from cache.read([best])
        members = np.append(support.members, best)
        support = refit(y, cache.block(members), members, np.append(support.z, values[best]))
    return support
