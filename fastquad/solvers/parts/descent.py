"""Levenberg–Marquardt on a support: reads the parts of A that it needs, and returns a fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Step
from fastquad.engine.trust.answer import Known, positions
from fastquad.measurements.contractions import Block, Factors, Products, Verbs
from fastquad.numerics.forms import FormDescent
from fastquad.numerics.levenberg_marquardt import Descent, Rule
from fastquad.numerics.transform_descent import TransformDescent
from fastquad.typing import Asks, Float, Indices

# The largest m n² for which a step with W is as quick as one by a transform, which takes many of its products.
_SMALL = 30_000_000
#: The largest size of the block of A that is kept for the steps on one support, in bytes.
BLOCK_BYTES = 512 << 20


@dataclass
class GrowingBlock:
    """`Ã_i[P, P]` for a set P of coordinates that grows; no pair is read twice. P is in the order of arrival."""

    m: int
    max_bytes: int = BLOCK_BYTES
    members: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    array: Float = field(default_factory=lambda: np.zeros((0, 0, 0)))

    @classmethod
    def within(cls, problem: Problem) -> GrowingBlock:
        """A block within the memory budget of a problem."""
        return cls(problem.m, min(BLOCK_BYTES, problem.memory // 16))

    def affordable(self, support: Indices) -> bool:
        """Whether this support's block can be kept in memory."""
        total = self.members.size + self._new(support).size
        return 8 * self.m * total**2 <= self.max_bytes

    def read(self, support: Indices) -> Asks[Float]:
        """`Ã_i[S, S]`, (m, s, s), for S in the order given; only pairs that were not read before are read."""
        array, order = yield from self.arranged(support)
        if order is support or (order == support).all():
            return array
        position = positions(support, order)
        return np.ascontiguousarray(array[:, position[:, None], position])

    def arranged(self, support: Indices) -> Asks[tuple[Float, Indices]]:
        """`Ã_i[S, S]` and S in an order in which it is at hand, if that is all that has been read."""
        new = self._new(support)
        if new.size * (new.size + 2 * self.members.size) > support.size**2:
            # Start again: that reads less than to complete a block of members that are mostly others.
            self.members, self.array, new = self.members[:0], self.array[:0, :0, :0], support
        if new.size:
            yield from self._grow(new)
        if support.size == self.members.size:
            return self.array, self.members
        position = positions(support, self.members)
        return np.ascontiguousarray(self.array[:, position[:, None], position]), support

    def _new(self, support: Indices) -> Indices:
        """The coordinates that are no members yet."""
        known = np.zeros(max(int(support.max(initial=-1)), int(self.members.max(initial=-1))) + 1, dtype=bool)
        known[self.members] = True
        return support[~known[support]]

    def _grow(self, new: Indices) -> Asks[None]:
        """Read the pairs of new members, with each other and with the old ones."""
        old, members = self.members.size, np.concatenate([self.members, new])
        fresh = yield Block(new, members)
        if old:
            array = np.empty((self.m, members.size, members.size))
            array[:, :old, :old] = self.array
            array[:, old:] = fresh
            array[:, :old, old:] = fresh[:, :, :old].transpose(0, 2, 1)
            fresh = array
        self.members, self.array = members, np.ascontiguousarray(fresh)


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
        return Known(r=self.r, support=self.support, columns=columns, members=cache.members, block=cache.array)


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
    m, n, s = problem.m, problem.n, places.size
    # Use the block if it is cheaper to read than two passes over the support's rows.
    small = s <= 0.9 * n and cache.affordable(places)
    flat = None
    if small and free is None:
        block, places = yield from cache.arranged(places)
        flat = block.reshape(m * s, s)
    elif small:
        flat = (yield from cache.read(places)).reshape(m * s, s)
    scale = 1.0 if weights is None else weights[:, None]

    def products(d: Float, out: Float | None = None) -> Asks[Float]:
        """The products of d on the support: from the block, or from A."""
        if flat is not None:
            W = (flat @ d).reshape(m, s)
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
    if places is not moved and free is None:
        W = W[:, positions(moved, places)]
    if weights is not None:
        W, r = W / scale, r / weights
    other = descent.last if weights is None and free is None else None
    return Fit(_expand(descent.z, places, n), residual(), moved, W, r, other)


def _by_transform(problem: Problem, x: Float, rule: Rule, weights: Float | None) -> Asks[Fit]:
    """`fit` on all coordinates by conjugate gradients, with products of the transform alone."""
    B = yield Factors()
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
