"""Some of the rows of other measurements, each times a number: rows in units of their noise, equal rows once.

No copy is made: what is asked of the view is asked of the whole, and taken of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.measurements.base import Edges, Measurements
from fastquad.measurements.views import View
from fastquad.typing import Float, Indices, Number


class ChosenRows(View):
    """The matrices `by_i Ã_rows[i]` of other measurements, (m', n, n); `by` is not zero."""

    def __init__(self, whole: Measurements, rows: Indices, by: Float) -> None:
        super().__init__(whole)
        self.row, self.by, self.m = rows, by, rows.size
        self.groups, self.gauge, self.fixed = whole.groups, whole.gauge, whole.fixed
        self.all = rows.size == whole.m and bool((rows == np.arange(whole.m)).all())

    def _of(self, answer: Number) -> Number:
        """The answer for these rows, of one for all of the whole."""
        taken = answer if self.all else answer[self.row]
        return taken * self.by.reshape(-1, *[1] * (answer.ndim - 1))

    def _spread(self, w: Number) -> Number:
        """Weights of these rows as weights of the whole, (m,) or (m, b)."""
        scaled = w * (self.by if w.ndim == 1 else self.by[:, None])
        if self.all:
            return scaled
        spread = np.zeros((self.inner.m, *w.shape[1:]))
        spread[self.row] = scaled
        return spread

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        if self.all:
            inner = self.inner.matrices(start, stop)
        else:
            each = [self.inner.matrices(i, i + 1) for i in self.row[start:stop]]
            inner = np.concatenate(each) if each else self.inner.matrices(0, 0)
        return inner * self.by[start:stop, None, None]

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        W = self._of(self.inner._apply(x, n_threads))
        if out is None:
            return W
        out[...] = W
        return out

    def _measure(self, x: Number, n_threads: int) -> Number:
        return self._of(self.inner._measure(x, n_threads))

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        return self._of(self.inner._along(x, v, n_threads))

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        return self.inner._gradient(x, self._spread(w), n_threads)

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        return self.inner._gram(x, self._spread(d * self.by), self._spread(r / self.by**2), n_threads)

    def _sizes(self, x: Number) -> Number:
        return np.abs(self._of(self.inner._sizes(x)))

    def _edges(self) -> Edges | None:
        edges = self.inner._edges()
        return None if edges is None else edges._replace(M=edges.M[self.row].multiply(self.by[:, None]).tocsr())

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return self.inner._weighted_sum(self._spread(w), n_threads)

    def _inner(self, D: Number, n_threads: int) -> Number:
        return self._of(self.inner._inner(D, n_threads))

    def _frobenius(self, n_threads: int) -> Number:
        return np.abs(self._of(self.inner._frobenius(n_threads)))

    def _diagonals(self, n_threads: int) -> Number:
        return self._of(self.inner._diagonals(n_threads))

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._of(self.inner._rows(support, n_threads))

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self._of(self.inner._block(rows, cols, n_threads))

    def _compress(self, U: Number, n_threads: int) -> Number:
        return self._of(self.inner._compress(U, n_threads))

    def _factors(self) -> Number:
        B = self.inner._factors()
        if not B.shape[1] or self.by.min() < 0:
            return np.empty((self.m, 0, self.n))
        return B[self.row] * np.sqrt(self.by)[:, None, None]

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c - self._measure(z, n_threads) - self._diagonals(n_threads) @ v
        return r, self._weighted_sum(r, n_threads)

    def sweep_passes(self) -> int:
        """Two: the rows are weighed between the products and their sum."""
        return 2

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self.row, self.by)
