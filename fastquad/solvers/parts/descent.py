"""Levenberg–Marquardt on a support: reads the parts of A that it needs, and returns a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastquad.engine.cost import RATES
from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Again, Reread
from fastquad.engine.rounding import exact_enough
from fastquad.engine.steps import Outcome, Step
from fastquad.engine.trust.answer import Known
from fastquad.measurements.contractions import Cells, Factors, Products, Verbs
from fastquad.measurements.dense.chunks import CHUNK_BYTES
from fastquad.measurements.dense.kept import Kept, lacking
from fastquad.numerics.levenberg_marquardt import Descent, Rule
from fastquad.typing import Asks, Float, Indices

# The largest m n² for which a step with W is as quick as one by a transform, which takes many of its products.
_SMALL = 30_000_000
# The products that a descent is likely to take at least.
_FEW = 4
#: The largest size of the block of A that is kept for the steps on one support, in bytes.
BLOCK_BYTES = 512 << 20


@dataclass
class GrowingBlock:
    """`Ã_i[P, P]` for a set P of coordinates that grows, packed; no pair is read twice."""

    m: int
    max_bytes: int = BLOCK_BYTES
    kept: Kept | None = None

    @classmethod
    def within(cls, problem: Problem) -> GrowingBlock:
        """A block within the memory budget of a problem."""
        return cls(problem.m, min(BLOCK_BYTES, problem.memory // 16))

    @property
    def _members(self) -> Indices:
        return np.zeros(0, dtype=np.intp) if self.kept is None else self.kept.members

    def affordable(self, support: Indices) -> bool:
        """Whether this support's block can be kept in memory, and a copy of it while it grows."""
        total = self._members.size + lacking(support, self._members).size
        return 8 * self.m * total**2 <= self.max_bytes

    def on(self, support: Indices) -> Asks[BlockProducts]:
        """The products on a support, in the order given; only pairs that were not read before are read."""
        support = np.asarray(support, dtype=np.intp)
        members = self._members
        new = lacking(support, members)
        if new.size * (new.size + 2 * members.size) > support.size**2:
            # Start again: that reads less than to complete a block of members that are mostly others.
            self.kept, members, new = None, members[:0], support
        if new.size or self.kept is None:
            members, count = Kept.order(new, members)
            self.kept = Kept.of(self.m, members, (yield Cells(members, count)), self.kept)
            if new.size == support.size:
                return BlockProducts(self.kept, None)
        return BlockProducts(self.kept, self.kept.positions(support))


class BlockProducts(NamedTuple):
    """The products on a support: `W[i] = Ã_i[S, S] z`."""

    kept: Kept
    #: The positions of the support; None for all of them.
    where: Indices | None

    def of(self, z: Float) -> Float:
        """The products of z, (m, s), on one thread."""
        return self.kept.products(self.where, z, 1)

    def __call__(self, z: Float) -> Asks[Float]:
        """The products of z, (m, s), on the threads of the solve."""
        if self.kept.tensor.nbytes <= CHUNK_BYTES:
            return self.of(z)
        return (yield Again(_products, (self.kept, self.where, z)))[0]


def _pays(problem: Problem, places: Indices) -> bool:
    """Whether it takes less time to keep the block of these places for a few products than to read A for each."""
    kept = problem.m * places.size**2 / 2 * problem.dtype.itemsize / RATES["memory"]
    gathered, whole = problem.price(Cells(places, places.size)), problem.pass_price
    return whole == 0 or gathered + _FEW * kept <= _FEW * whole


def _products(kept: Kept, where: Indices | None, z: Float, n_threads: int) -> tuple[Float]:
    return (kept.products(where, z, n_threads),)


class Fit(NamedTuple):
    """The end of a descent: the signal, its support, products and residual.

    A descent by a transform forms no products: W has no rows, and `steepness` is the relative gradient.
    """

    x: Float
    residual: float
    support: Indices
    W: Float
    r: Float
    #: The products of another vector, if they are known.
    other: Float | None = None
    steepness: float | None = None

    def known(self, cache: GrowingBlock) -> Known:
        """What has been read of it, for the certificate."""
        if self.steepness is None and self.W.shape[1] == self.x.size:
            return Known(self.W, self.r, self.other)
        columns = self.W if self.W.shape[1] == self.support.size else None
        return Known(r=self.r, support=self.support, columns=columns, kept=cache.kept)

    def exact(self, problem: Problem, entries: Entries, method: str, cache: GrowingBlock) -> Outcome | None:
        """The outcome with which it ends the solve, if it fits to rounding with fewer unknowns than measurements."""
        s = self.support.size
        if not exact_enough(problem, self.residual) or s - problem.turning >= problem.m:
            return None
        return Outcome(self.x, self.residual, free=s, method=method, entries=entries, known=self.known(cache))


def fit(
    problem: Problem,
    x: Float,
    support: Indices,
    rule: Rule,
    cache: GrowingBlock | None = None,
    weights: Float | None = None,
) -> Asks[Fit]:
    """Levenberg–Marquardt from x on a support, yielding a `Step` for each step.

    Coordinates with known values keep them, and belong to no support. With weights (m,), Σ (w_i r_i)² is minimised. W
    of the result has only the support's columns, r is `A(xx^T) − y`, and both are without weights.
    """
    if problem.by_transform and len(support) == problem.n and problem.m * problem.n**2 > _SMALL:
        return (yield from _by_transform(problem, x, rule, weights))
    if problem.matrix_free and len(support) == problem.n:
        return (yield from _by_verbs(problem, x, rule, weights))
    cache = cache if cache is not None else GrowingBlock.within(problem)
    moved = places = np.asarray(support, dtype=np.intp)
    if problem.groups is not None:
        moved = places = problem.groups.whole(moved)
    free = None
    if problem.fixed:
        known, x = problem.known, problem.completed(x)
        moved = np.setdiff1d(support, known)
        places = np.union1d(moved, known)
        free = np.searchsorted(places, moved)
    n, s = problem.n, places.size
    small = s <= 0.9 * n and cache.affordable(places) and _pays(problem, places)
    block = (yield from cache.on(places)) if small else None
    scale = 1.0 if weights is None else weights[:, None]

    def products(d: Float, out: Float | None = None) -> Asks[Float]:
        """The products of d on the support: from the block, or from A."""
        if block is not None:
            W = yield from block(d)
        else:
            W = yield Products(_expand(d, places, n), out=out)
            W = W if s == n else np.ascontiguousarray(W[:, places])
        return W if weights is None else W * scale

    def residual() -> float:
        """`‖r‖/‖y‖`, without weights."""
        if weights is None:
            return descent.residual
        return float(np.linalg.norm(descent.r / weights) / np.linalg.norm(problem.y))

    z = x[places]
    y = problem.y if weights is None else problem.y * weights
    descent = Descent(y, z, (yield from products(z)), free, turning=problem.turning)
    yield Step(_expand(descent.z, places, n), residual())
    while not descent.finished(rule):
        last = descent.ends()
        if not last:
            d = descent.direction()
            if descent.at_bottom(d, rule):
                break
            descent.advance(d, (yield from products(d, descent.last if s == n and weights is None else None)))
        yield Step(_expand(descent.z, places, n), residual())
        if last:
            break
    W, r = descent.W if free is None else descent.W[:, free], descent.r
    if weights is not None:
        W, r = W / scale, r / weights
    other = descent.last if weights is None and free is None else None
    return Fit(_expand(descent.z, places, n), residual(), moved, W, r, other)


def _by_transform(problem: Problem, x: Float, rule: Rule, weights: Float | None) -> Asks[Fit]:
    """`fit` on all coordinates by conjugate gradients, with products of the transform alone."""
    B = yield Factors()
    from fastquad.numerics.line_descent import TransformDescent

    descent = TransformDescent(B, problem.y, x, weights)
    yield Step(descent.x, descent.residual)
    while not descent.finished(rule):
        descent.step()
        yield Reread(B.uncharged())
        yield Step(descent.x, descent.residual)
    everything, nothing = np.arange(problem.n), np.empty((0, problem.n))
    return Fit(descent.x, descent.residual, everything, nothing, descent.r, steepness=descent.steepness)


def _by_verbs(problem: Problem, x: Float, rule: Rule, weights: Float | None) -> Asks[Fit]:
    """`fit` on all coordinates by conjugate gradients, with the functions of A alone."""
    forms = yield Verbs()
    from fastquad.numerics.line_descent import FormDescent

    descent = FormDescent(forms, problem.y, x, np.random.default_rng(0), weights)
    yield Reread(forms.uncharged())
    yield Step(descent.x, descent.residual)
    while not descent.finished(rule):
        descent.step()
        yield Reread(forms.uncharged())
        yield Step(descent.x, descent.residual)
    everything, nothing = np.arange(problem.n), np.empty((0, problem.n))
    return Fit(descent.x, descent.residual, everything, nothing, descent.r, steepness=descent.steepness)


def _expand(z: Float, support: Indices, n: int) -> Float:
    """The vector of length n with values z on the support."""
    if z.size == n:
        return z
    x = np.zeros(n)
    x[support] = z
    return x
