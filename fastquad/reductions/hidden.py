"""Arrays that hide what they are: matrices of rank one, of low rank, or with few nonzeros.

A look at three matrices shows it. Then one pass over A confirms it for all of them, and the kind that knows more serves
the solve: its passes are cheaper, and there are methods that the array does not admit. Nothing else changes for the
caller, but a sentence in the message says so. The look itself reads 3/m of A at most, which is not counted.

    rank one        `Ã_i = ±a_i a_i^*`, with a_i the column of the largest diagonal entry over its root
    low rank        `Ã_i = Q_i T_i Q_i^*`, with Q_i the range of `Ã_i Ω` for a few random columns Ω
    few nonzeros    counted

A and −A, y and −y say the same: where all Ã_i are negative semidefinite the solve is that of −A and −y.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.structured.low_rank import LowRankTensor
from fastquad.measurements.structured.rank_one import RankOneTensor
from fastquad.measurements.structured.sparse import SparseTensor
from fastquad.noise import as_noise
from fastquad.reductions import Given, Reduction, most_terms
from fastquad.solution import Solution
from fastquad.status import noted
from fastquad.typing import Float, Number

# What factors may leave of a matrix, relative to it: products of doubles leave about 1e-16, and x must keep its digits.
_LEFT = 1e-13
# Columns of Ω beyond the rank, which make the range that of the matrix to rounding.
_MORE = 2
# Few nonzeros are at most so many for each coordinate, as meshes, grids and networks have; and measurements for each
# coordinate from which on descents find any x, which is how sparse matrices are solved. (Guesses.)
_FEW, _PLENTY = 0.5, 2


class Seen(NamedTuple):
    """The measurements as what they are, the sign of y, and the sentence for the message."""

    A: Measurements
    sign: float
    sentence: str


class Hidden(Reduction):
    """An array that hides what it is, by the kind that knows more."""

    def problem(self, given: Given) -> Given | None:
        A, passes = given.A, given.max_passes
        seen, self.read = look(A, given.room)
        if seen is not None and seen.sign < 0 and not as_noise(given.noise, A.m).symmetric:
            seen = None
        self.seen = seen
        if seen is None:
            return given if self.read else None
        if isinstance(passes, (int, float)):
            passes -= self.read
        y = seen.sign * arguments.real_array(given.y, "y") if seen.sign < 0 else given.y
        return replace(given, A=seen.A, y=y, max_passes=passes)

    def solution(self, found: Solution, i: int) -> Solution:
        """The solution with the pass that confirmed what A is, and with what it is in its message."""
        seen, read, proof = self.seen, self.read, found.proof
        history = dict(found.history) | {"n_passes": found.history["n_passes"] + read}
        if seen is not None and seen.sign < 0 and proof is not None and proof.weights is not None:
            proof = replace(proof, weights=-proof.weights)
        message = found.message if seen is None else noted(found.message, seen.sentence)
        return replace(found, n_passes=found.n_passes + read, history=history, message=message, proof=proof)


def look(A: Measurements, room: int) -> tuple[Seen | None, float]:
    """A as what it is, if it hides that; and how much of it was read to confirm it, in passes."""
    places = list(dict.fromkeys((0, A.m // 2, A.m - 1)))
    ranks, filled = [], []
    for i in places:
        S = A.matrices(i, i + 1)
        filled.append(np.count_nonzero(S))
        ranks.append(_rank(S[0]) if A.dtype.itemsize >= (16 if A.complex else 8) else None)
        if ranks[-1] is None and filled[-1] > _FEW * A.n:
            return None, 0.0  # one ordinary matrix is enough
    if all(rank is not None for rank in ranks):
        rank = max(rank for rank in ranks if rank is not None)
        if rank > 0 and A.m * rank * A.n * 3 * S.itemsize <= room:
            return _as_rank_one(A) if rank == 1 else _as_low_rank(A, rank)
    if max(filled) <= _FEW * A.n and A.m >= _PLENTY * A.n:
        return _as_sparse(A, room)
    return None, 0.0


# -- rank -----------------------------------------------------------------------------------------------------------


def _rank(S: Number) -> int | None:
    """The rank of a matrix, if it is low; 0 of zero."""
    most = most_terms(S.shape[0])
    size = float(np.linalg.norm(S))
    if size == 0.0:
        return 0
    a, sign = _vectors(S[None])
    if float(np.linalg.norm(S - sign[0] * np.outer(a[0], a[0].conj()))) <= _LEFT * size:
        return 1
    if most < 2:
        return None
    factors, weights = _terms(S[None], most)
    left = S - (factors[0].T * weights[0]) @ factors[0].conj()
    if not float(np.linalg.norm(left)) <= _LEFT * size:
        return None
    return int(np.count_nonzero(np.abs(weights[0]) > _LEFT * size))


def _vectors(S: Number) -> tuple[Number, Float]:
    """The vectors a_i (c, n) and signs of matrices that may be `±a_i a_i^*`; zero if a diagonal is."""
    diagonals = np.einsum("ijj->ij", S).real
    largest = np.argmax(np.abs(diagonals), axis=1)
    pivots = np.take_along_axis(diagonals, largest[:, None], 1)[:, 0]
    columns = np.take_along_axis(S, largest[:, None, None], 2)[:, :, 0]
    roots = np.sqrt(np.abs(pivots))
    sign = np.where(pivots < 0, -1.0, 1.0)
    return columns * (sign / np.where(roots > 0, roots, np.inf))[:, None], sign


def _terms(S: Number, rank: int) -> tuple[Number, Float]:
    """Orthonormal factors (c, rank, n) and weights (c, rank) of matrices that may have this rank, the largest first."""
    n = S.shape[1]
    some = np.random.default_rng(0).standard_normal((n, min(n, rank + _MORE)))
    Q = np.linalg.qr(S @ some)[0]
    weights, vectors = np.linalg.eigh(Q.conj().transpose(0, 2, 1) @ (S @ Q))
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :rank]
    factors = np.take_along_axis(Q @ vectors, order[:, None, :], 2)
    return np.ascontiguousarray(factors.transpose(0, 2, 1)), np.take_along_axis(weights, order, 1)


def _as_rank_one(A: Measurements) -> tuple[Seen | None, float]:
    a, sign = np.empty((A.m, A.n), dtype=A.number), np.empty(A.m)
    for part, S in A._blocks():
        a[part], sign[part] = _vectors(S)
        left = S - (sign[part, None] * a[part])[:, :, None] * a[part][:, None, :].conj()
        if not _explained(S, left):
            return None, part.stop / A.m
    zero = ~a.any(axis=1)
    positive, negative = ((sign == one) | zero for one in (1.0, -1.0))
    if positive.all() or negative.all():
        sentence = "The matrices are of rank one: A was used as a RankOneTensor, which you can also give."
        return Seen(RankOneTensor(a), 1.0 if positive.all() else -1.0, sentence), 1.0
    sentence = "The matrices are of rank one, of both signs: A was used as a LowRankTensor, which you can also give."
    return Seen(LowRankTensor(a[:, None, :], sign[:, None]), 1.0, sentence), 1.0


def _as_low_rank(A: Measurements, rank: int) -> tuple[Seen | None, float]:
    factors, weights = np.empty((A.m, rank, A.n), dtype=A.number), np.empty((A.m, rank))
    for part, S in A._blocks():
        factors[part], weights[part] = _terms(S, rank)
        left = S - (factors[part].transpose(0, 2, 1) * weights[part][:, None, :]) @ factors[part].conj()
        if not _explained(S, left):
            return None, part.stop / A.m
    size = np.abs(weights).max(axis=1, keepdims=True)
    # A term of rounding must not decide whether a matrix is semidefinite.
    weights[np.abs(weights) <= _LEFT * size] = 0.0
    sign = -1.0 if weights.max() <= 0 else 1.0
    sentence = f"The matrices are of rank {rank}: A was used as a LowRankTensor, which you can also give."
    return Seen(LowRankTensor(factors, sign * weights), sign, sentence), 1.0


def _explained(S: Number, left: Number) -> bool:
    """Whether no more than rounding is left of each matrix."""
    size, rest = (np.einsum("ijk,ijk->i", each, each.conj()).real for each in (S, left))
    return bool((rest <= _LEFT**2 * size).all())


# -- few nonzeros ---------------------------------------------------------------------------------------------------


def _as_sparse(A: Measurements, room: int) -> tuple[Seen | None, float]:
    entries: list[tuple[Any, ...]] = []
    count = 0
    for part, S in A._blocks():
        i, j, k = np.nonzero(S)
        count += i.size
        if count > _FEW * A.m * A.n or 40 * count > room:
            return None, part.stop / A.m
        entries.append((i + part.start, j, k, S[i, j, k]))
    if not count:
        return None, 1.0
    i, j, k, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    sentence = f"{count / (A.m * A.n**2):.1%} of the entries of A are not zero: A was used as a SparseTensor."
    return Seen(SparseTensor.from_entries(i, j, k, values, m=A.m, n=A.n), 1.0, sentence), 1.0
