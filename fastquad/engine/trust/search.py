"""The search for another signal that fits as well: candidate, refit; is it apart, does it fit, is it as likely?

Candidates come from `fastquad.engine.trust.candidates`, which knows where twins are, and from descents by
Levenberg–Marquardt: from random signals, from signals beside x, and from x with the other sign in weakly coupled parts.
Some x have a twin although A has no symmetry: where two parts of x are coupled in a way that adds up to zero, say.
Nothing finds all of these but descents; where a twin was planted among random matrices, they find it in 98 or 99 of 100
problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.evidence import against_chance, evidence_of
from fastquad.engine.trust.gauge import apart, expand
from fastquad.engine.trust.local import Local, Measure, exact_measure
from fastquad.measurements.contractions import Block, Products
from fastquad.measurements.dense.layout import packed_rows
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.numerics.levenberg_marquardt import Descent, on_block
from fastquad.numerics.symmetry import turned_at_weakest
from fastquad.system.deadline import check
from fastquad.typing import Asks, Float, Indices


class Candidate(NamedTuple):
    """Where another signal may be: a start, the coordinates that are refitted, and a sentence if it is one.

    With `on_start` it must be the start itself, but for rounding; with `near` the start must nearly fit, because a
    relabelling that leaves the matrices as they are leaves the measurements: steps from another would lead anywhere.
    `freedom` counts the numbers by which the start was fitted, among the signals that a structure of A allows.
    """

    start: Float
    support: Indices
    said: str = ""
    on_start: bool = False
    near: bool = False
    freedom: int = 0


#: Where candidates come from: a name, of the table in `certificate`, and what makes them.
Source = Callable[["Search"], Asks[Iterable[Candidate]]]


class Search(Local):
    """The search for another signal, given an answer and the tolerance of each equation."""

    def __init__(
        self, answer: Answer, diagonals: Float, delta: Float, measure: Measure, entries: Entries | None
    ) -> None:
        super().__init__(answer, diagonals, delta, measure, entries)
        #: Another signal that fits as well, if one was found; and what is not ruled out although none was.
        self.twin: Float | None = None
        self.suspicion = ""
        #: Which coordinates of the support clearly differ from zero: under noise, a symmetry need not keep the others.
        self.sure = np.ones(answer.s, dtype=bool)
        #: Under noise: how far the farthest signal is that fits as well and is not clearly another.
        self.blur = 0.0
        #: What noise moves x by, as a share of it; and a deeper bottom beside x than noise could make.
        self.errors_of_x = math.inf
        self.deeper: Float | None = None
        #: How many descents came back to x in noise.
        self.back = 0
        #: Whether a few rows show that no linear map gives a twin; and which coordinates are measured alike.
        self.alone = False
        self.kinds: Any = None

    @property
    def independent(self) -> bool:
        """Whether the entries of A look independent."""
        return self.entries is None or self.entries.independent

    # -- the loop ---------------------------------------------------------------------------------------------

    def rivals(self, sources: Iterable[Source]) -> Asks[str]:
        """Why another signal fits as well; empty if none was found, and nothing else is suspected."""
        for source in sources:
            for candidate in (yield from source(self)):
                if (yield from self.fits(candidate)):
                    return candidate.said or self.shown()
            if self.suspicion:
                return self.suspicion
        return ""

    def fits(self, candidate: Candidate) -> Asks[bool]:
        """Whether a candidate leads to another signal that fits; if so, it is kept as the twin."""
        start = self.problem.completed(candidate.start)
        if self.away(start) <= self.measure.nearer:
            return False
        if candidate.near:
            left = float(np.linalg.norm((yield from self.answer.products(start)) @ start - self.problem.y))
            chance = self.measure.noisy and candidate.freedom and self._by_chance(left, candidate.freedom)
            if left > self.nearly or chance:
                return False
        limit = self._allowed(candidate.support.size) if candidate.near else None
        twin = yield from self.refit(start, candidate.support, limit)
        if twin is None or (candidate.on_start and apart(twin, start) > tol.APART):
            return False
        freely = self.gauge.width == 1 and candidate.support.size > self.answer.s and not candidate.freedom
        if self.measure.noisy and freely:
            twin = yield from self._as_likely(twin, candidate.support)
        return twin is not None and self.another(twin)

    def _by_chance(self, left: float, freedom: int) -> bool:
        """Whether a wrong start may leave as little, with so many numbers fitted beside those of x."""
        nats, by_chance = against_chance(self.problem, self.answer.s + freedom, left / math.sqrt(self.m))
        return nats < by_chance + tol.SPARE_NATS

    def _as_likely(self, twin: Float, support: Indices) -> Asks[Float | None]:
        """A twin on more coordinates than x if it is as likely for all its freedom; or without those that are no more
        than their errors, where it needs no more than x."""
        for _ in range(tol.SETTLING):
            W = yield from self.answer.products(twin)
            r = W @ twin - self.problem.y
            least = self.answer.evidence - tol.SURE
            if support.size <= self.answer.s or evidence_of(self.problem, twin, W, r, support) > least:
                return twin
            kept = support[np.abs(twin[support]) > tol.FEW_ERRORS * self.errors_of(W[:, support])]
            if not 0 < kept.size < support.size:
                return None
            start = self.problem.completed(expand(twin[kept], kept, twin.size))
            fewer = yield from self.refit(start, kept, self._allowed(kept.size))
            if fewer is None:
                return None
            twin, support = fewer, kept
        return None

    @property
    def nearly(self) -> float:
        """The largest residual from which steps to a twin are taken."""
        size, left = float(np.linalg.norm(self.problem.y)), float(np.linalg.norm(self.answer.r))
        return max(tol.PART * size, tol.FEW_ERRORS * left)

    def likely(self) -> float:
        """What a twin may leave, in units of δ: under noise little more than x, because all signals fit large noise."""
        if not self.measure.noisy:
            return self.measure.fits
        return math.sqrt(float(np.mean((self.answer.r / self.delta) ** 2)) + tol.FITS / self.m)

    def _allowed(self, size: int) -> float:
        """What a twin of this many coordinates may leave, in units of δ, if mistaken entries hide a symmetry.

        What it leaves is another draw of such mistakes, relative to the degrees of freedom; the logarithm of a mean
        square of d of them has the variance (κ − 1)/d, with κ their kurtosis.
        """
        if not self.measure.noisy:
            return self.measure.fits
        r, d = self.answer.r / self.delta, self.gauge.count
        free = max(1, self.m - self.answer.unknowns)
        kurtosis = float(np.mean(r**4)) / max(float(np.mean(r**2)) ** 2, 1e-300)
        spread = math.sqrt(2 * max(kurtosis - 1, 2.0) / free)
        square = float(r @ r) / free * max(1, self.m - size + d) / self.m
        return max(self.likely(), math.sqrt(square * math.exp(tol.FEW_ERRORS * spread)))

    def refit(self, start: Float, support: Indices, limit: float | None = None) -> Asks[Float | None]:
        """Gauss–Newton steps on a support from a start, while they make progress; the signal if it fits."""
        limit = self.likely() if limit is None else limit
        x = start.copy()
        before, settling = math.inf, tol.SETTLING if self.measure.noisy else 0
        for step in range(tol.REFIT):
            check(2.0 * self.m * support.size**2)
            W = yield from self.answer.products(x)
            r = (W @ x - self.problem.y) / self.delta
            size = math.sqrt(float(r @ r) / r.size)
            if size < limit and settling == 0:
                return x
            # Under noise much around a valley fits: go on to its bottom.
            settling -= size < limit
            # The first steps may increase the residual; later each must reduce it clearly.
            if not math.isfinite(size) or (step > 2 and size > max(0.25 * before, limit)):
                return None
            before = size
            x[support] -= 0.5 * np.linalg.lstsq(W[:, support] / self.delta[:, None], r, rcond=1e-13)[0]
        return None

    def witness(self) -> Asks[None]:
        """Look for another signal along the directions that are open, so that the doubt has a witness."""
        for v in self.open if self.twin is None else ():
            for share in (1.0, 0.3, 1.1 * self.measure.apart):
                start = self.problem.completed(self.answer.x + share * self.norm * v)
                support = np.setdiff1d(self.gauge.whole(np.flatnonzero(start)), self.problem.known)
                twin = yield from self.refit(start, support)
                if twin is not None and self.rival(twin):
                    return

    # -- what is found ----------------------------------------------------------------------------------------

    def away(self, twin: Float) -> float:
        """The distance of another signal from x, relative to its norm, up to what cannot be told."""
        return self.gauge.away(twin, self.answer.x)

    def rival(self, twin: Float, far: float | None = None) -> bool:
        """Whether this is clearly another signal, and one as the prior says; if so, it is kept as the twin."""
        if self.away(twin) <= (self.measure.apart if far is None else far) or not self.problem.admits(twin):
            return False
        self.twin = twin.copy()
        return True

    def another(self, twin: Float) -> bool:
        """The same of a twin by a structure of A, which fits wherever it is, and not only because of the noise.

        One that is not clearly another is no doubt, but part of the error.
        """
        if self.rival(twin, max(self.measure.nearer, min(self.measure.apart, tol.APART_IN_NOISE))):
            return True
        if self.problem.admits(twin):
            self.blur = max(self.blur, self.away(twin))
        return False

    def shown(self) -> str:
        """A sentence on what the twin is."""
        assert self.twin is not None
        far, limit = self.away(self.twin), self.measure.apart
        if self.gauge.count:
            return f"Another signal, {far:.2g} away, fits as well."
        x, twin = self.answer.x, self.twin
        if not self.problem.fixed and float(np.linalg.norm(x + twin)) < float(np.linalg.norm(x - twin)):
            twin = -twin
        changed = np.flatnonzero(np.abs(twin - x) > limit * max(float(np.abs(x).max()), 1e-300))
        if changed.size and np.abs(twin[changed] + x[changed]).max() <= limit * max(float(np.abs(x).max()), 1e-300):
            return f"The sign of x at {self.gauge.names(changed)} is free: with the other sign there it fits as well."
        changed = changed if changed.size else np.argsort(-np.abs(twin - x), kind="stable")[: tol.FEW]
        values = "; ".join(f"{twin[j]:.3g}, not {x[j]:.3g}, at {j}" for j in changed[: tol.FEW])
        rest = f"; and {changed.size - tol.FEW} more" if changed.size > tol.FEW else ""
        return f"Another signal, {far:.2g} away, fits as well. It is {values}{rest}."

    # -- descents ---------------------------------------------------------------------------------------------

    def descents(self, block: Float, everything: Indices, where: Indices, count: int, weak: bool) -> Iterator[Descent]:
        """Descents on some coordinates from other starts: if `weak`, from x with the other sign in parts first.

        `block` is that of `everything`, the free coordinates `where` and the known ones. Then come `count` random ones;
        in exact data, where each end counts, every other one is moved to the signals orthogonal to x.
        """
        problem, x, rng = self.problem, self.answer.x[everything], np.random.default_rng(4)
        free = np.searchsorted(everything, where) if problem.fixed else None
        moving = slice(None) if free is None else free
        exact = not self.measure.noisy
        beside = None
        if exact and free is None and x.size > 2 + self.gauge.count:
            beside = Beside(problem.y, x, block, self.gauge.directions(x))

        def random() -> Iterator[Float]:
            for number in range(count):
                start = x.copy()
                start[moving] = rng.standard_normal(x[moving].size)
                yield beside.moved(start) if number % 2 and beside is not None else start

        for start in chain(turned_at_weakest(block, x, tol.SEVERAL) if weak else (), random()):
            if free is not None:
                start[np.delete(np.arange(x.size), free)] = np.delete(x, free)
            start[moving] *= float(np.linalg.norm(x[moving])) / max(float(np.linalg.norm(start[moving])), 1e-300)
            yield on_block(problem.y, start, block, tol.CHALLENGE, free=free, turning=problem.turning)

    def refuted(self) -> Asks[str]:
        """Why an exact answer may not be the only one; empty if descents from other starts find no other."""
        answer, problem = self.answer, self.problem
        count = to_refute(self.m, answer.allowed.size, answer.s, independent=self.independent)
        for where in (answer.allowed, answer.S) if count else ():
            if where.size - self.gauge.count >= self.m:
                continue
            everything = np.union1d(where, problem.known) if problem.fixed else where
            block = answer.known.on(everything)
            block = block if block is not None else (yield Block(everything))
            W = np.zeros_like(answer.W)
            W[:, everything] = block @ answer.x[everything]
            # With no more independent measurements than coordinates there are always others that are dense.
            if where.size > answer.s and not self.sees_all(answer.x, W):
                continue
            back = 0
            for descent in self.descents(block, everything, where, count, weak=False):
                if descent.residual >= EXACT_RESIDUAL:
                    continue
                z = expand(descent.z, everything, problem.n)
                if self.away(z) <= tol.APART:
                    back += 1
                    if back == tol.SEVERAL:
                        return ""
                elif (yield from self.fits(Candidate(z, where))):
                    return self.shown()
            return ""
        return ""

    def errors_of(self, W: Float) -> Float:
        """The standard errors of a signal with these products."""
        J = 2 * W / self.delta[:, None]
        return np.sqrt(np.maximum(np.diagonal(np.linalg.pinv(J.T @ J, hermitian=True)), 0.0))


class Beside:
    """Starts beside x: a few steps among the signals orthogonal to x, so that fewer descents come back to it."""

    def __init__(self, y: Float, x: Float, block: Float, directions: Float) -> None:
        #: A basis in which x, and the directions that are not seen, come first, and the matrices in it.
        self.basis = np.linalg.qr(np.column_stack([x, *directions, np.eye(x.size)]))[0]
        self.block = PackedTensor(packed_rows(block), len(block), x.size)._compress(self.basis, 1)
        self.y, self.free = y, np.arange(1 + len(directions), x.size)

    def moved(self, start: Float) -> Float:
        """A start, moved to where signals orthogonal to x fit better."""
        z = start @ self.basis
        z[: self.free[0]] = 0.0
        return self.basis @ on_block(self.y, z, self.block, tol.BESIDE, free=self.free).z


def odds(answer: Answer, twin: Float) -> Asks[float]:
    """The log of the odds for a twin and against x; 0 if both leave no more than rounding, which tells nothing."""
    problem = answer.problem
    W = yield from answer.products(twin)
    other = Answer(problem, twin, W, W @ twin - problem.y)
    return other.evidence - answer.evidence if answer.left or other.left else 0.0


def to_refute(m: int, n: int, s: int, *, independent: bool) -> int:
    """The number of descents on n coordinates, s of them nonzero, that are worth their time; 0 if it takes too long.

    Where there are no more measurements than coordinates, the descents are on the nonzero ones alone.
    """
    size = n if independent or m > n else s
    work = tol.REFUTING_WORK[0 if independent else 1]
    count = int(work // (m * max(size, 1) ** 2))
    return min(count, tol.REFUTING[1]) if count >= tol.REFUTING[0] else 0


def searched_everywhere(problem: Problem, entries: Entries | None) -> bool:
    """Whether `refuted` will look for another answer on all coordinates."""
    unknowns = problem.n if problem.support is None else problem.support.size
    independent = entries is None or entries.independent
    return unknowns < problem.m and bool(to_refute(problem.m, unknowns, unknowns, independent=independent))


def along_free(problem: Problem, x: Float) -> Asks[Float | None]:
    """Another signal with the measurements of x, as there are where x has more free coordinates than measurements."""
    W = yield Products(x)
    answer = Answer(replace(problem, y=W @ x), np.array(x, dtype=np.float64), W, np.zeros(problem.m))
    nothing = np.zeros_like(W)
    case = Search(answer, nothing, answer.rounding(nothing), exact_measure(problem.m), None)
    v = np.random.default_rng(5).standard_normal(answer.s)
    directions = answer.gauge.directions(answer.z)
    v -= directions.T @ (directions @ v)
    v -= np.linalg.lstsq(answer.columns, answer.columns @ v, rcond=1e-12)[0]
    size = float(np.linalg.norm(v))
    if size > tol.NOTHING * math.sqrt(max(1, answer.s)):
        case.open = [expand(v / size, answer.S, problem.n)]
        yield from case.witness()
    return case.twin
