"""The tests of an answer far from it: is there a twin that fits as well? See `fastquad.engine.trust.certificate`.

line          x plus any multiple of a vector that nothing sees
mirrored      −x, where only the linear terms, or a known value, tell it from x
signs         a part of x with the other sign: nothing couples it to the rest, or nothing that shows
symmetry      Qx, for a linear map Q with Q^T A_i Q = A_i on the support
relabelling   x on other coordinates, some with the other sign
chance        any other signal, if the entries take few values

What Levenberg–Marquardt finds from random starts, in noise, is in `fastquad.engine.trust.challenge`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice

import numpy as np

from fastquad.engine.entries import sample_entries
from fastquad.engine.trust.answer import BLOCK_BYTES, Answer, Known
from fastquad.engine.trust.challenge import CHALLENGE_INDEPENDENT
from fastquad.engine.trust.evidence import bits_of, log_choices, repeated_bits, short_of
from fastquad.engine.trust.rivals import Tests, apart, expand
from fastquad.engine.trust.subsystem import subsystem
from fastquad.measurements.contractions import Block, WeightedSum
from fastquad.numerics import symmetry
from fastquad.numerics.independence import left_over
from fastquad.numerics.relabelling import nearly_fitting, relabellings
from fastquad.typing import Asks, Float, Indices

# The relative difference of diagonals below which two coordinates may be exchanged, in double precision.
_ALIKE = 4e-12
# The same in single precision.
_ROUNDED_ALIKE = 8e-6
# The same as a multiple of the relative residual, up to the one before.
_HIDDEN = 300.0
# The same under noise, where entries may be mistaken as y is.
_MISTAKEN_ALIKE = 0.06
# The same of entries between two coordinates, as a multiple: they are fewer, and each may be mistaken.
_LOOSELY = 5.0
# The largest number of relabellings from which steps are taken, of those that nearly fit.
_RELABELLINGS = 20
# The largest number of coordinates where x is zero that are compared with each other.
_CANCELLING = 16
# The number of matrices that they must preserve.
_MATRICES = 24
# The largest share of y that a relabelled x may leave.
_NEARLY = 0.1
# The same as a multiple of what x itself leaves.
_ERRORS = 3.0
# The share of a vector's products beside those of x from which on they are more than rounding.
_BEYOND_ROUNDING = 1e-5
# The share of the average by which rows must see each direction, under noise, to rule out a twin.
_CLEARLY_APART = 0.1
# The number of weakly coupled parts of x that are tried with the other sign.
_PARTS = 6
# The largest number of entries of a block for it.
_COUPLED_ENTRIES = 2_000_000
# The ratio of the mean squares of two draws of mistakes, in standard deviations of its logarithm.
_DRAWS = 3.0
# The largest share of a part's change of sign that the other values cannot compensate, for it to be tried.
_EXPLAINED_BY_OTHERS = 0.1
# The least number of matrices in which a value that is common would repeat.
_ENOUGH_TO_REPEAT = 8
# The number of directions in which a line is looked for, and how far from it its signals are at the most.
_LINES, _ON_LINE = 4, 1e-3


class Twins(Tests):
    """All tests of an answer, given the tolerance of each equation."""

    def on_first(self, x: Float, W: Float) -> Twins:
        """The tests of x with its products in the first few measurements."""
        few = len(W)
        problem = replace(self.problem, m=few, y=self.problem.y[:few])
        part = Answer(problem, x, W, W @ x - problem.y, Known())
        return Twins(part, self.diagonals[:few], self.delta[:few], self.measure, None)

    def rivals(self) -> Asks[str]:
        """Why another signal, not near x, fits as well; empty if none was found."""
        if self.answer.s == 0:
            return ""
        for test in (self.convolved, self.line, self.exchange, self.mirrored, self.symmetry, self.relabelling):
            doubt = yield from test()
            if doubt:
                return doubt
        return (yield from subsystem(self))

    def convolved(self) -> Asks[str]:
        """Whether products of two vectors are summed as in a convolution, which has other factors as well.

        A convolution is a product of two polynomials, and a root of one may as well be a root of the other.
        """
        if not self.problem.bilinear:
            return ""
        if self.entries is None:
            self.entries = yield from sample_entries(self.problem)
        if "repeated" not in self.entries.symmetries:
            return ""
        return (
            "Some products of the two vectors are always measured together, as in a convolution: other pairs of "
            "vectors have the same sums of them."
        )

    # -- lines ------------------------------------------------------------------------------------------------------

    def line(self) -> Asks[str]:
        """Whether x + tv fits for every t, as where a constant may be added to x."""
        answer = self.answer
        if not self.overdetermined or self.seen_everywhere:
            return ""
        values, vectors = np.linalg.svd(self.scaled(answer.W[:, answer.allowed]), full_matrices=False)[1:]
        for v in vectors[values <= self.need][:_LINES]:
            start = answer.x.copy()
            start[answer.allowed] += self.norm * v
            twin = yield from self.refit(start, np.flatnonzero(start))
            # On the line, but for rounding: elsewhere there are others wherever equations are fewer than coordinates.
            if twin is not None and apart(twin, start) < _ON_LINE and self.another(twin):
                return self.shown()
        return ""

    # -- signs ------------------------------------------------------------------------------------------------------

    def mirrored(self) -> Asks[str]:
        """Whether −x fits as well, although known values should distinguish it from x."""
        if not self.problem.fixed:
            return ""
        twin = yield from self.refit(self.problem.completed(self._other_sign(self.answer.S)), self.answer.S)
        if twin is not None and self.rival(twin):
            return "Nothing tells x from −x: the linear terms, or the known values, are too small for that."
        return ""

    def _other_sign(self, where: Indices) -> Float:
        """x with the other sign at some coordinates."""
        x = self.answer.x.copy()
        x[where] *= -1
        return x

    def _nearly_likely(self, size: int) -> float:
        """What a twin of this many coordinates may leave, in units of δ, if mistaken entries hide the symmetry.

        What it leaves is another draw of such mistakes, relative to the degrees of freedom; the logarithm of a mean
        square of d of them has the variance (κ − 1)/d, with κ their kurtosis.
        """
        if not self.measure.noisy:
            return self.measure.fits
        m, r = self.problem.m, self.answer.r / self.delta
        free = max(1, m - self.answer.s)
        kurtosis = float(np.mean(r**4)) / max(float(np.mean(r**2)) ** 2, 1e-300)
        spread = math.sqrt(2 * max(kurtosis - 1, 2.0) / free)
        square = float(r @ r) / free * max(1, m - size) / m
        return max(self._likely(), math.sqrt(square * math.exp(_DRAWS * spread)))

    def signs(self) -> Asks[str]:
        """Whether the sign of a part of x is free, because it is hardly coupled to the rest."""
        answer = self.answer
        if self.problem.m * answer.places.size**2 > _COUPLED_ENTRIES:
            return ""
        block = yield from answer.block()
        if block is None:
            return ""
        z, limit = answer.x[answer.places], self._likely()
        scaled = block / self.delta[:, None, None]
        for turned in symmetry.turned_at_weakest(scaled, z, _PARTS):
            part = np.flatnonzero(turned != z)
            if np.isin(answer.places[part], self.problem.known).any():
                part = np.setdiff1d(np.arange(z.size), part)
                if np.isin(answer.places[part], self.problem.known).any():
                    continue  # known values on both sides tell their signs
            start = self._other_sign(answer.places[part])
            if float(np.linalg.norm(start - answer.x)) <= self.measure.nearer * self.norm:
                continue
            rest = np.delete(z, part)
            change = 4 * np.einsum("ijk,j,k->i", np.delete(scaled[:, part], part, axis=2), z[part], rest, optimize=True)
            left = float(left_over(self.scaled(answer.columns), change[:, None])[0])
            close = 30 * limit * math.sqrt(self.problem.m)
            if left > max(close, _EXPLAINED_BY_OTHERS * float(np.linalg.norm(change))):
                continue
            twin = yield from self.refit(start, answer.S, limit)
            if twin is not None and self.another(twin):
                return self.shown()
        return ""

    # -- symmetries ---------------------------------------------------------------------------------------------

    def symmetry(self) -> Asks[str]:
        """Whether a linear symmetry of the matrices moves x: on its support, and if A is small on all coordinates."""
        answer = self.answer
        alone = answer.places.size == 1 or (yield from self._no_linear_twin())
        doubt = "" if alone else (yield from self._flipped(answer.places, (yield from answer.block())))
        structured = self.entries is not None and not self.entries.independent
        if not doubt and answer.outside.size and not (alone if self.measure.noisy else not structured):
            doubt = yield from self._flipped_anywhere()
        return doubt if alone else doubt or (yield from self.signs())

    def _flipped_anywhere(self) -> Asks[str]:
        """`_flipped` on all coordinates: the twin may have others, and under noise small ones were not found."""
        everything = np.union1d(self.answer.allowed, self.problem.known)
        block = self.answer.known.on(everything)
        if block is None and self.measure.noisy and self.problem.m * everything.size**2 <= CHALLENGE_INDEPENDENT:
            block = yield Block(everything)
        return "" if block is None else (yield from self._flipped(everything, block))

    def _flipped(self, where: Indices, block: Float | None) -> Asks[str]:
        """Whether x with the other sign in a part of a basis in which the matrices fall into parts fits as well."""
        M, N, N2 = yield from self._combinations(where, block)
        z = self.answer.x[where]
        for V, inverse, part in symmetry.parts(M, N, N2, rounded=self.answer.rounded, noisy=self.measure.noisy):
            start = expand(symmetry.flipped(z, V, inverse, part), where, self.problem.n)
            if apart(start, self.answer.x) <= self.measure.nearer:
                continue
            support = np.setdiff1d(where, self.problem.known)
            twin = yield from self.refit(self.problem.completed(start), support, self._nearly_likely(support.size))
            if twin is not None and self.another(twin):
                return self.shown()
        return ""

    def _no_linear_twin(self) -> Asks[bool]:
        """Whether a few rows of the matrices show that there is no twin."""
        answer, other = self.answer, self.answer.known.other
        if answer.gram.factor is None or self.problem.fixed:
            return False
        q = symmetry.rows_needed(self.problem.m, answer.s)
        # Allow for the residual: a symmetry may hold only to that accuracy.
        least = _CLEARLY_APART if self.measure.noisy else min(_HIDDEN * answer.residual, _CLEARLY_APART)
        at_hand = None
        if other is not None and answer.s == self.problem.n:
            # Leave out its part along x, of which nothing is to be shown.
            rest = other - (np.vdot(other, answer.W) / np.vdot(answer.W, answer.W)) * answer.W
            if np.vdot(rest, rest) > _BEYOND_ROUNDING**2 * np.vdot(other, other):
                at_hand = rest[:, None]
        shown = symmetry.no_linear_twin
        if q == 1 and at_hand is not None and shown(answer.columns, answer.gram, at_hand, answer.z, least):
            return True
        # Take more rows than needed: they are likelier to prove it, and more clearly.
        for count in (4 * q,) if self.measure.noisy else (q, q + 2):
            if count > max(8, answer.s // 8):
                return False
            rows = yield from answer.rows(np.argsort(-np.abs(answer.z), kind="stable")[:count])
            if shown(answer.columns, answer.gram, rows, answer.z, least):
                return True
        return False

    def _combinations(self, where: Indices, block: Float | None) -> Asks[Float]:
        """Three random combinations of the matrices on some coordinates, each scaled as its measurement, (3, s, s)."""
        size = np.linalg.norm(self.answer.columns, axis=1)
        weights = np.random.default_rng(1).standard_normal((self.problem.m, 3))
        weights /= np.where(size > 0, size, np.inf)[:, None]
        if block is not None:
            return np.tensordot(weights.T, block, 1)
        return (yield WeightedSum(weights))[:, where[:, None], where]

    # -- relabelling --------------------------------------------------------------------------------------------------

    def relabelling(self) -> Asks[str]:
        """Whether a relabelling of the coordinates, some with the other sign, leaves the matrices as they are."""
        answer = self.answer
        # Allow for the residual: a symmetry may hold only to that accuracy.
        tolerance = max(_ROUNDED_ALIKE if answer.rounded else _ALIKE, min(_ROUNDED_ALIKE, _HIDDEN * answer.residual))
        if self.measure.noisy:
            # What is left may be mistakes of A's entries, which hide a symmetry as noise does.
            tolerance = max(tolerance, min(_MISTAKEN_ALIKE, _ERRORS * answer.residual))
        everywhere = answer.allowed.size == self.problem.n
        kind = symmetry.alike(self.diagonals if everywhere else self.diagonals[:, answer.allowed], tolerance)
        counts = np.bincount(kind, minlength=kind.size)
        if (counts == 1).all():
            return ""
        inside = np.searchsorted(answer.allowed, answer.S[self.sure])
        doubt = yield from self._cancelling(kind, tolerance)
        if doubt or (counts[kind[inside]] == 1).all():
            return doubt
        doubt = yield from self._any_fits(self._moved())
        members = np.flatnonzero(np.isin(kind, kind[inside]))
        if doubt or 8 * self.problem.m * members.size**2 > min(BLOCK_BYTES, self.problem.memory // 8):
            return doubt
        # Keep known coordinates in place, and take them first: they determine signs.
        known = self.problem.known
        block = yield Block(np.concatenate([answer.allowed[members], known]))
        some = symmetry.largest(block, _MATRICES)
        where = np.concatenate([np.searchsorted(members, inside), members.size + np.arange(known.size)])
        kinds = np.concatenate([kind[members], kind.size + np.arange(known.size)])
        found = relabellings(block[some], where, kinds, _LOOSELY * tolerance)
        z = answer.z[self.sure]
        rest = expand(answer.z[~self.sure], answer.S[~self.sure], self.problem.n)

        def moved(images: Indices, signs: Float) -> Float:
            twin = rest.copy()
            twin[answer.allowed[members[images[: z.size]]]] = signs[: z.size] * z
            return twin

        places = np.concatenate([answer.allowed[members], known])
        measured = np.einsum("ijk,j,k->i", block, answer.x[places], answer.x[places], optimize=True)
        # What coordinates elsewhere add stays as it is.
        limit = max(_NEARLY * float(np.linalg.norm(self.problem.y)), _ERRORS * float(np.linalg.norm(answer.r)))
        limit += float(np.linalg.norm(measured - self.problem.y))
        twins = (self.problem.completed(moved(images, signs))[places] for images, signs in found)
        near = (expand(twin, places, self.problem.n) for twin in nearly_fitting(block, twins, self.problem.y, limit))
        elsewhere = np.where(np.isin(np.arange(rest.size), places), 0.0, rest)
        return (yield from self._any_fits(islice((twin + elsewhere for twin in near), _RELABELLINGS)))

    def _cancelling(self, kind: Indices, tolerance: float) -> Asks[str]:
        """Whether two coordinates where x is zero are measured alike, so that opposite values there cancel."""
        answer = self.answer
        zero = np.flatnonzero(answer.x[answer.allowed] == 0)
        shared = zero[np.bincount(kind[zero], minlength=kind.size)[kind[zero]] > 1][:_CANCELLING]
        if shared.size == 0:
            return ""
        yield from answer.look_at(answer.allowed[shared])
        W = answer.W[:, answer.allowed[shared]]
        near = tolerance * float(np.abs(answer.columns).max(initial=0.0))

        def twins() -> Iterator[Float]:
            for a, b in combinations(range(shared.size), 2):
                for sign in (1.0, -1.0):
                    if kind[shared[a]] == kind[shared[b]] and np.abs(W[:, a] - sign * W[:, b]).max() <= near:
                        twin = answer.x.copy()
                        size = float(np.abs(answer.z).max(initial=0.0))
                        twin[answer.allowed[shared[a]]], twin[answer.allowed[shared[b]]] = size, -sign * size
                        yield twin

        return (yield from self._any_fits(islice(twins(), _RELABELLINGS)))

    def _moved(self) -> Iterator[Float]:
        """x reversed, and moved by one."""
        values, allowed = self.answer.x[self.answer.allowed], self.answer.allowed
        for moved in (values[::-1], np.roll(values, 1), np.roll(values, -1)):
            yield expand(moved, allowed, self.problem.n)

    def _any_fits(self, twins: Iterable[Float]) -> Asks[str]:
        """A sentence on the first of these that is another signal and fits; empty if there is none."""
        size = float(np.linalg.norm(self.problem.y))
        for twin in twins:
            if apart(twin, self.answer.x) > self.measure.nearer:
                start = self.problem.completed(twin)
                # A relabelling that leaves the matrices as they are leaves the measurements: what does not nearly fit
                # is no twin, and steps from it would lead anywhere.
                left = (yield from self.answer.products(start)) @ start - self.problem.y
                if float(np.linalg.norm(left)) > max(_NEARLY * size, _ERRORS * float(np.linalg.norm(self.answer.r))):
                    continue
                support = np.flatnonzero(twin)
                refitted = yield from self.refit(start, support, self._nearly_likely(support.size))
                if refitted is not None and self.another(refitted):
                    return self.shown()
        return ""

    # -- few values -----------------------------------------------------------------------------------------------

    def chance(self) -> Asks[str]:
        """Whether chance could explain that x fits, because the measurements can take few values.

        Another signal on the support must match every measurement to spare, each of which says as much as it could have
        taken values. One on other coordinates must match as many, and where the entries of A take few values its
        products may be those of x: that says less.
        """
        problem, answer = self.problem, self.answer
        n, s = answer.allowed.size, answer.s
        if self.entries is None:
            self.entries = yield from sample_entries(problem)
        bits = np.sort(bits_of(problem.y, answer.residual))
        if math.isfinite(self.entries.bits) and s < n and not (yield from self._continuous()):
            V = answer.columns - answer.z * self.diagonals[:, answer.S]
            bits = np.minimum(bits, repeated_bits(V, float(np.abs(answer.z).max(initial=0.0))))
        return short_of(bits, s, 1, log_choices(n, s))

    def _continuous(self) -> Asks[bool]:
        """Whether the diagonals on the support, and entries that join all of it, take no value twice.

        Sparse matrices with a pattern, such as those of a chain or a grid, are of this kind. Another signal has another
        square somewhere, or another relative sign at one of the joining entries; chance does not compensate for either.
        """
        block = yield from self.answer.block()
        if block is None or len(block) < _ENOUGH_TO_REPEAT:
            return False
        ordered = np.sort(block[:: max(1, len(block) // 32)], axis=0)
        varied = (ordered[1:] != ordered[:-1]).all(axis=0)
        return bool(varied.diagonal().all() and len(symmetry.groups(varied.astype(np.float64), 0.5)) == 1)
