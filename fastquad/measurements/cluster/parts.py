"""Measurements split into parts: consecutive ranges of measurements, each a tensor with its own kernels.

The parts answer a contraction one by one. Entries for each measurement are concatenated, and sums over measurements are
added in the order of the parts, so the answer does not depend on which part is done first. The parts may be on other
machines (`tensor.py`), or chunks that are computed in turn (`chunked.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.contractions import (
    Along,
    Answer,
    Block,
    Compress,
    Contraction,
    Diagonals,
    FirstProducts,
    Gradient,
    Gram,
    Matrices,
    Measure,
    Products,
    Rows,
    SidedProducts,
    Sweep,
    WeightedSum,
    merged,
)
from fastquad.typing import Indices, Number


class PartedTensor(Measurements):
    """Measurements in parts: `_bounds` has (start, stop) of each; `_like` is a tensor of their kind with all m."""

    _bounds: list[tuple[int, int]]
    _like: Measurements

    @abstractmethod
    def _ask(self, requests: dict[int, Contraction], n_threads: int) -> Iterable[Answer]:
        """`contract(part, request)` for each of these parts, in order; neighbours may come merged."""

    def _asked(self, request: Contraction, n_threads: int) -> Iterable[Answer]:
        """The answers of all parts that a request concerns."""
        each = {part: request.of_part(*bounds) for part, bounds in enumerate(self._bounds)}
        return self._ask({part: own for part, own in each.items() if own is not None}, n_threads)

    # -- costs: those of the parts ----------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return self._like.reads_rows(nnz)

    def share_of_rows(self, s: int) -> float:
        return self._like.share_of_rows(s)

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return self._like.share_of_block(rows, cols)

    def cost_of_products(self, nnz: int) -> float:
        return self._like.cost_of_products(nnz)

    def cost_of_first_products(self, nnz: int, count: int) -> float:
        return self._like.cost_of_first_products(nnz, count)

    def cost_of_diagonals(self) -> float:
        return self._like.cost_of_diagonals()

    def sweep_passes(self) -> int:
        return self._like.sweep_passes()

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """What the parts answer `gram` with."""
        return self._like.gram_kind

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether the matrices are stored symmetric."""
        return self._like.symmetric

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self._like.nbytes

    # -- answers with an entry for each measurement -----------------------------------------------------------------

    def _stacked(
        self, request: Contraction, shape: tuple[int, ...], n_threads: int, number: type | None = None
    ) -> Number:
        """The answers of all parts, concatenated; of the tensor's own number type unless `number` is given."""
        out: Number = np.empty((self.m, *shape), dtype=self.number if number is None else number)
        return _put(self._asked(request, n_threads), out)

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        out = np.empty((stop - start, self.n, self.n), dtype=self.number)
        return _put(self._asked(Matrices(start, stop), 1), out)

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        out = np.empty((self.m, *x.shape), dtype=self.number) if out is None else out
        return _put(self._asked(Products(x), n_threads), out)

    def _first_products(self, x: Number, count: int, n_threads: int) -> Number:
        W, _ = merged(self._asked(FirstProducts(x, count), n_threads))
        assert W is not None
        return W

    def _measure(self, x: Number, n_threads: int) -> Number:
        return self._stacked(Measure(x), x.shape[1:], n_threads, np.float64)

    def _product_chunks(self, x: Number, n_threads: int) -> Iterator[tuple[slice, Number]]:
        yield slice(0, self.m), self._apply(x, n_threads)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        return self._stacked(Along(x, v), v.shape[1:], n_threads, np.float64)

    def _sided_products(self, x: Number, transpose: bool, n_threads: int) -> Number:
        return self._stacked(SidedProducts(x, transpose), (self.n,), n_threads)

    def _diagonals(self, n_threads: int) -> Number:
        return self._stacked(Diagonals(), (self.n,), n_threads, np.float64)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        # Keep the precision of the parts.
        rows, _ = merged(self._asked(Rows(support), n_threads))
        assert rows is not None
        return rows

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self._stacked(Block(rows, cols), (rows.size, cols.size), n_threads)

    def _compress(self, U: Number, n_threads: int) -> Number:
        p = U.shape[1]
        return self._stacked(Compress(U), (p, p), n_threads)

    # -- sums over measurements -------------------------------------------------------------------------------------

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        _, g = merged(self._asked(Gradient(x, w), n_threads))
        return np.asarray(g)

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        _, (G, g) = merged(self._asked(Gram(x, d, r), n_threads))
        return G, g

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        _, S = merged(self._asked(WeightedSum(w), n_threads))
        return np.asarray(S)

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r, S = merged(self._asked(Sweep(z, v, c), n_threads))
        assert r is not None
        assert S is not None
        return r, S


def contract(A: Measurements, request: Contraction, n_threads: int) -> Answer:
    """The answer of one part."""
    return request.split(request.answer(A, n_threads))


def _put(answers: Iterable[Answer], out: Number) -> Number:
    """Copy the entries of consecutive parts into `out`, each as soon as it arrives."""
    position = 0
    for entry, _ in answers:
        assert entry is not None
        out[position : position + len(entry)] = entry
        position += len(entry)
    return out
