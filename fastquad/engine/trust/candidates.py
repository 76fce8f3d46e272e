"""Where other signals may be: generators of candidates, which `fastquad.engine.trust.search` refits and compares.

lines          x plus any multiple of a vector that nothing sees
mirrored       −x, where only the linear terms, or a known value, tell it from x
linear         Qx, for a linear (or antilinear) map Q with Q^T A_i Q = A_i, on the support or on all coordinates
weak           a part of x with the other sign: nothing couples it to the rest, or nothing that shows
cancelling     opposite values at two zero coordinates that are measured alike
moved          x reversed, moved by one, or conjugated
relabelled     x on other coordinates, some with the other sign

A linear map has `A_i Q = Q^{-T} A_i`: each row of the matrices, times u = Qx, is a combination of the columns of
W, `W[i] = A_i x`. That is linear in u. Where a few rows leave no solution but x (and ix), there is no such twin. Where
they leave more, Levenberg–Marquardt looks for it among those alone: blocks whose signs are free, a common eigenbasis,
an invariant subspace, mirrors and shifts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations, islice

import numpy as np

from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.gauge import expand
from fastquad.engine.trust.search import Candidate, Search
from fastquad.measurements.contractions import Block, Compress
from fastquad.numerics import symmetry
from fastquad.numerics.independence import left_over
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.system.deadline import check
from fastquad.typing import Asks, Float, Indices, Number

_NONE: tuple[Candidate, ...] = ()


def _unknown(case: Search, start: Float) -> Indices:
    """The coordinates of a start that are refitted."""
    return np.setdiff1d(case.gauge.whole(np.flatnonzero(start)), case.problem.known)


def lines(case: Search) -> Asks[Iterable[Candidate]]:
    """x + v for the directions v that no product with x sees, although there are more measurements than unknowns."""
    yield from ()
    if not case.overdetermined or case.seen_everywhere:
        return _NONE
    answer = case.answer
    seen, vectors = case.directions(case.scaled(answer.W[:, answer.allowed]), answer.x[answer.allowed])
    starts = [
        answer.x + case.norm * expand(v, answer.allowed, case.problem.n)
        for v in vectors[seen <= case.measure.need][: tol.FEW]
    ]
    # On the line, but for rounding: elsewhere there are others wherever equations are fewer than coordinates.
    return [Candidate(start, _unknown(case, start), on_start=True) for start in starts]


def mirrored(case: Search) -> Asks[Iterable[Candidate]]:
    """−x, although known values should distinguish it from x."""
    yield from ()
    if not case.problem.fixed:
        return _NONE
    said = "The data do not tell x from −x: the linear terms, or the known values, are too small."
    return [Candidate(_other_sign(case, case.answer.S), case.answer.S, said)]


def _other_sign(case: Search, where: Indices) -> Float:
    """x with the other sign at some coordinates."""
    x = case.answer.x.copy()
    x[where] *= -1
    return x


# -- linear maps -----------------------------------------------------------------------------------------------------


def linear(case: Search) -> Asks[Iterable[Candidate]]:
    """The twins by a linear map on the support."""
    answer = case.answer
    case.alone = answer.s <= case.gauge.width or (yield from _no_linear_twin(case))
    if case.alone:
        return _NONE
    count = symmetry.rows_needed(case.m, answer.unknowns) + 3
    rows = yield from answer.rows(_largest_rows(case, answer.places, count))
    return (yield from _mapped(case, answer.places, rows, answer.W[:, answer.places]))


def linear_anywhere(case: Search) -> Asks[Iterable[Candidate]]:
    """The same on all coordinates: the twin may have others, and under noise small ones were not found."""
    answer, noisy = case.answer, case.measure.noisy
    # Under noise a twin may have coordinates that x has not: that there is none on the support shows nothing.
    if answer.outside.size == 0 or (case.independent and not noisy):
        return _NONE
    everything = np.union1d(answer.allowed, case.problem.known)
    if everything.size - case.gauge.count >= case.m:  # rows show nothing
        return _NONE
    block = answer.known.on(everything)
    if block is None and noisy and case.m * everything.size**2 <= tol.INDEPENDENT_ENTRIES:
        block = yield Block(everything)
    if block is None:
        return _NONE
    W = block @ answer.x[everything]
    needed = symmetry.rows_needed(case.m, everything.size)
    # In noise the equations of independent rows must be clear: with hardly more than unknowns they are not.
    rows = block[:, _largest_rows(case, everything, 4 * needed if noisy else needed + 3)]
    return (yield from _mapped(case, everything, rows, W))


def _largest_rows(case: Search, where: Indices, count: int) -> Indices:
    """The positions of whole entries of x, the largest first, as many that there are `count` rows of each."""
    width = case.gauge.width
    size = np.abs(case.answer.x[where])
    size = size if width == 1 else size.reshape(-1, width).max(axis=1)
    entries = np.sort(np.argsort(-size, kind="stable")[:count])
    return entries if width == 1 else np.asarray((width * entries[:, None] + np.arange(width)).reshape(-1))


def _no_linear_twin(case: Search) -> Asks[bool]:
    """Whether a few rows of the matrices show that there is no twin."""
    answer, other, gauge = case.answer, case.answer.known.other, case.gauge
    if answer.gram.factor is None or case.problem.fixed:
        return False
    q = symmetry.rows_needed(case.m, answer.unknowns)
    # Allow for the residual: a symmetry may hold only to that accuracy.
    least = tol.PART if case.measure.noisy else min(tol.HIDDEN * answer.residual, tol.PART)
    known = np.concatenate([answer.z[None], gauge.directions(answer.z)])

    def shown(rows: Float) -> bool:
        return symmetry.no_linear_twin(answer.pinned, answer.gram, gauge.padded(rows), known, least)

    if q == 1 and other is not None and answer.s == case.problem.n and not gauge.count:
        # Leave out its part along x, of which nothing is to be shown.
        rest = other - (np.vdot(other, answer.W) / np.vdot(answer.W, answer.W)) * answer.W
        if np.vdot(rest, rest) > tol.ROUNDED**2 * np.vdot(other, other) and shown(rest[:, None]):
            return True
    # Take more rows than needed: they are likelier to prove it, and more clearly.
    for count in (4 * q,) if case.measure.noisy else (q, q + 2):
        if count > max(8, answer.s // (8 * gauge.width)):
            return False
        if shown((yield from answer.rows(_largest_rows(case, answer.places, count)))):
            return True
    return False


def _mapped(case: Search, where: Indices, rows: Float, W: Float) -> Asks[Iterable[Candidate]]:
    """The signals that fit among those that a linear map could make of x, by rows (m, q, s) and the products of x."""
    problem, z, s = case.problem, case.answer.x[where], where.size
    along = np.concatenate([z[None] / float(np.linalg.norm(z)), case.gauge.directions(z)])
    check(4.0 * W.size * s)
    basis, values, _ = np.linalg.svd(W, full_matrices=False)
    basis = basis[:, values > 1e-12 * values[0]]
    total, q = along.T @ along, rows.shape[1]
    scale = max(float(np.vdot(rows, rows)) / s / q, 1e-300)
    for c in range(q):
        outside = rows[:, c] - basis @ (basis.T @ rows[:, c])
        total += outside.T @ outside / scale
    least = tol.ROUNDING if case.answer.rounded else tol.UNSEEN
    hidden = min(tol.HIDDEN * case.answer.residual, tol.PART) ** 2
    limit = tol.PART**2 if case.measure.noisy else max(least, hidden)
    sizes, vectors = np.linalg.eigh(total)
    null = vectors[:, sizes < limit * q][:, : tol.MOST]
    if null.shape[1] == 0:
        return _NONE
    space = np.zeros((problem.n, len(along) + null.shape[1]))
    space[where] = np.concatenate([along, null.T]).T
    small = yield Compress(space)
    # A map that is no rotation may take x far away: let the directions have measurements of one size.
    sizes = np.linalg.norm(np.einsum("ijj->ij", small), axis=0)
    units = np.sqrt(sizes[0] / np.maximum(sizes, 1e-4 * sizes[0]))
    space, small = space * units, small * units * units[:, None]

    def ends() -> Iterator[Candidate]:
        rng = np.random.default_rng(3)
        support = np.setdiff1d(where, problem.known)
        for _ in range(tol.SEVERAL):
            start = rng.standard_normal(space.shape[1])
            start *= float(np.linalg.norm(z)) / float(np.linalg.norm(start))
            end = space @ on_block(problem.y, start, small, tol.CHALLENGE).z
            yield Candidate(end, support, near=True, freedom=null.shape[1])

    return ends()


def weak(case: Search) -> Asks[Iterable[Candidate]]:
    """x with the other sign in parts that are hardly coupled to the rest."""
    answer, problem = case.answer, case.problem
    small = case.m * answer.places.size**2 <= tol.LOOK_ENTRIES
    if case.gauge.count or (case.alone and not case.measure.noisy) or not small:
        return _NONE
    block = yield from answer.block()
    if block is None:
        return _NONE
    z, scaled = answer.x[answer.places], block / case.delta[:, None, None]
    close = tol.FITS * case.likely() * math.sqrt(case.m)

    def found() -> Iterator[Candidate]:
        for turned in symmetry.turned_at_weakest(scaled, z, tol.FEW):
            part = np.flatnonzero(turned != z)
            if np.isin(answer.places[part], problem.known).any():
                part = np.setdiff1d(np.arange(z.size), part)
                if np.isin(answer.places[part], problem.known).any():
                    continue  # known values on both sides tell their signs
            across, rest = np.delete(scaled[:, part], part, axis=2), np.delete(z, part)
            change = 4 * np.einsum("ijk,j,k->i", across, z[part], rest, optimize=True)
            left = float(left_over(case.scaled(answer.columns), change[:, None])[0])
            if left <= max(close, tol.PART * float(np.linalg.norm(change))):
                yield Candidate(_other_sign(case, answer.places[part]), answer.S)

    return found()


# -- other coordinates -----------------------------------------------------------------------------------------------


class _Kinds:
    """Which entries are measured alike, so that they may take each other's place."""

    def __init__(self, case: Search) -> None:
        answer, self.width = case.answer, case.gauge.width
        # Allow for the residual: a symmetry may hold only to that accuracy.
        least = tol.ROUNDED_ALIKE if answer.rounded else tol.ALIKE
        self.tolerance = max(least, min(tol.ROUNDED_ALIKE, tol.HIDDEN * answer.residual))
        if case.measure.noisy:
            # What is left may be mistakes of A's entries, which hide a symmetry as noise does.
            self.tolerance = max(self.tolerance, min(tol.MISTAKEN_ALIKE, tol.FEW_ERRORS * answer.residual))
        #: The entries that may be nonzero, by the first of their coordinates, and their kinds.
        self.allowed = answer.allowed[:: self.width]
        everywhere = self.allowed.size == case.problem.n
        self.of = symmetry.alike(case.diagonals if everywhere else case.diagonals[:, self.allowed], self.tolerance)
        self.counts = np.bincount(self.of, minlength=self.of.size)
        sure = np.zeros(case.problem.n, dtype=bool)
        sure[self.width * (answer.S[case.sure] // self.width)] = True
        #: The positions of those where x clearly differs from zero.
        self.inside = np.flatnonzero(sure[self.allowed])
        #: Whether no entry of x is measured as another is.
        self.alone = bool((self.counts[self.of[self.inside]] == 1).all())


def _kinds(case: Search) -> _Kinds:
    if case.kinds is None:
        case.kinds = _Kinds(case)
    return case.kinds


def cancelling(case: Search) -> Asks[Iterable[Candidate]]:
    """Opposite values at two coordinates where x is zero, which are measured alike."""
    answer, kinds = case.answer, _kinds(case)
    if case.gauge.count or kinds.counts.max() < 2:
        return _NONE
    zero = np.flatnonzero(answer.x[kinds.allowed] == 0)
    shared = zero[np.bincount(kinds.of[zero], minlength=kinds.of.size)[kinds.of[zero]] > 1][: tol.SEVERAL]
    if shared.size == 0:
        return _NONE
    yield from answer.look_at(kinds.allowed[shared])
    W = answer.W[:, kinds.allowed[shared]]
    near, size = kinds.tolerance * float(np.abs(answer.columns).max(initial=0.0)), float(np.abs(answer.z).max())
    found = []
    for a, b in combinations(range(shared.size), 2):
        for sign in (1.0, -1.0):
            if kinds.of[shared[a]] == kinds.of[shared[b]] and np.abs(W[:, a] - sign * W[:, b]).max() <= near:
                twin = answer.x.copy()
                twin[kinds.allowed[shared[a]]], twin[kinds.allowed[shared[b]]] = size, -sign * size
                found.append(Candidate(twin, _unknown(case, twin), near=True))
    return found[: tol.MANY]


def moved(case: Search) -> Asks[Iterable[Candidate]]:
    """x reversed, moved by one, and conjugated."""
    yield from ()
    kinds, gauge = _kinds(case), case.gauge
    if kinds.alone and not gauge.count:
        return _NONE
    allowed = case.answer.allowed
    found = list(gauge.likenesses(case.answer.x[allowed]))
    conjugated = len(gauge.images(case.answer.x[:0])) - 1
    # A few complex entries that were seen rule conjugation out.
    seen = case.entries is not None and case.entries.block is not None and not case.entries.real
    found = ([] if seen else found[:conjugated]) + ([] if kinds.alone else found[conjugated:])
    starts = ((said, expand(image, allowed, case.problem.n)) for said, image in found)
    return [Candidate(start, _unknown(case, start), said, near=True) for said, start in starts]


def relabelled(case: Search) -> Asks[Iterable[Candidate]]:
    """x, or its conjugate, on other entries, some with the other sign, where that leaves the matrices as they are."""
    answer, problem, gauge, kinds = case.answer, case.problem, case.gauge, _kinds(case)
    if kinds.alone:
        return _NONE
    from fastquad.numerics.relabelling import nearly_fitting, relabellings

    members = np.flatnonzero(np.isin(kinds.of, kinds.of[kinds.inside]))
    width = gauge.width
    if 8 * case.m * width * members.size**2 > min(tol.BLOCK_BYTES, problem.memory // 8):
        return _NONE
    # Keep known coordinates in place, and take them last: they determine signs.
    known = problem.known
    places = np.concatenate([kinds.allowed[members], known])
    if gauge.count:
        parts = yield Block(places, np.sort(np.concatenate([places, places + 1])))
        block: Number = parts[..., ::2] - 1j * parts[..., 1::2]
    else:
        block = yield Block(places)
    sizes = np.abs(block) if gauge.count else block
    where = np.concatenate([np.searchsorted(members, kinds.inside), members.size + np.arange(known.size)])
    labels = np.concatenate([kinds.of[members], kinds.of.size + np.arange(known.size)])
    some = symmetry.largest(sizes, tol.MANY)
    found = relabellings(sizes[some], where, labels, tol.SURE_ERRORS * kinds.tolerance)
    x = gauge.numbers(answer.x)
    at_hand = x[places // width]
    z, rest = at_hand[where[: kinds.inside.size]], at_hand.copy()
    rest[where[: kinds.inside.size]] = 0.0

    def near() -> Iterator[Number]:
        for images, signs in found:
            for values in gauge.images(z):
                twin = rest.copy()
                twin[images[: z.size]] = values if gauge.count else signs[: z.size] * values
                yield _completed(case, twin, places) if known.size else twin

    measured = np.einsum("ijk,j,k->i", block, at_hand.conj(), at_hand, optimize=True).real
    # What coordinates elsewhere add stays as it is.
    limit = case.nearly + float(np.linalg.norm(measured - problem.y))
    elsewhere = x.copy()
    elsewhere[places // width] = 0.0

    def starts() -> Iterator[Candidate]:
        for twin in islice(nearly_fitting(block, near(), problem.y, limit), tol.MANY):
            start = elsewhere.copy()
            start[places // width] = twin
            start = gauge.coordinates(start)
            yield Candidate(start, _unknown(case, start), near=True)

    return starts()


def _completed(case: Search, twin: Number, places: Indices) -> Number:
    """A signal on these places, with the sign that known values ask for."""
    return case.problem.completed(expand(twin, places, case.problem.n))[places]
