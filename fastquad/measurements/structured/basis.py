"""Measurements in the coordinates of a basis, `x = D z`: those of z are `D^T Ã_i D`, which are not stored.

For bases whose compressed tensor does not fit in memory. Each contraction is one of A, and a product with D:

    products(z) = products(D z) D       weighted_sum(w) = D^T weighted_sum(w) D       sweep: both, with the diagonals

The diagonals `d_j^T Ã_i d_j` are computed once, from the products of the columns of D; any block costs a pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.wrapped import WrappedTensor
from fastquad.typing import Float, Indices

# The number of columns whose products are computed at once.
_COLUMNS = 16


class BasisTensor(WrappedTensor):
    """`D^T Ã_i D`, (m, p, p), of measurements A and a matrix D (n, p)."""

    def __init__(self, A: Measurements, D: Float) -> None:
        super().__init__(A, D.shape[1])
        self.D = np.ascontiguousarray(D, dtype=np.float64)
        self._dd: Float | None = None

    def share_of_rows(self, s: int) -> float:
        return 1.0

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return 1.0

    def cost_of_products(self, nnz: int) -> float:
        return 1.0

    def reads_rows(self, nnz: int) -> bool:
        return False

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        return self.D.T @ self.inner.matrices(start, stop) @ self.D

    def _part(self, start: int, stop: int) -> BasisTensor:
        return BasisTensor(self.inner._part(start, stop), self.D)

    def _apply(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        inner = self.inner._apply(np.ascontiguousarray(self.D @ x), n_threads)
        W = inner @ self.D if x.ndim == 1 else np.einsum("ijb,jp->ipb", inner, self.D)
        if out is None:
            return W
        out[...] = W
        return out

    def _measure(self, x: Float, n_threads: int) -> Float:
        return self.inner._measure(np.ascontiguousarray(self.D @ x), n_threads)

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """Dense, or None if the inner tensor has only `along` and `gradient`."""
        return None if self.inner.gram_kind is None else "dense"

    def _along(self, x: Float, v: Float, n_threads: int) -> Float:
        return self.inner._along(np.ascontiguousarray(self.D @ x), np.ascontiguousarray(self.D @ v), n_threads)

    def _gradient(self, x: Float, w: Float, n_threads: int) -> Float:
        return self.inner._gradient(np.ascontiguousarray(self.D @ x), w, n_threads) @ self.D

    def _gram(self, x: Float, d: Float, r: Float, n_threads: int) -> tuple[Any, Float]:
        G, g = self.inner._gram(np.ascontiguousarray(self.D @ x), d, r, n_threads)
        return self.D.T @ (G @ self.D), g @ self.D

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        return self.D.T @ self.inner._weighted_sum(w, n_threads) @ self.D

    def _inner(self, D: Float, n_threads: int) -> Float:
        return self.inner._inner(np.ascontiguousarray(self.D @ D @ self.D.T), n_threads)

    def _diagonals(self, n_threads: int) -> Float:
        if self._dd is None:
            dd = np.empty((self.m, self.n))
            for start in range(0, self.n, _COLUMNS):
                columns = np.ascontiguousarray(self.D[:, start : start + _COLUMNS])
                dd[:, start : start + _COLUMNS] = np.einsum(
                    "ijb,jb->ib", self.inner._apply(columns, n_threads), columns
                )
            self._dd = dd
        return self._dd.copy()

    def _rows(self, support: Indices, n_threads: int) -> Float:
        inner = self.inner._apply(np.ascontiguousarray(self.D[:, support]), n_threads)
        return np.einsum("ijb,jp->ibp", inner, self.D)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        inner = self.inner._apply(np.ascontiguousarray(self.D[:, rows]), n_threads)
        return np.einsum("ijb,jp->ibp", inner, self.D[:, cols])

    def _compress(self, U: Float, n_threads: int) -> Float:
        return self.inner._compress(np.ascontiguousarray(self.D @ U), n_threads)

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        target = c - self._diagonals(n_threads) @ v
        inner = np.ascontiguousarray(self.D @ z)
        r, S = self.inner._sweep(inner, np.zeros_like(inner), np.ascontiguousarray(target), n_threads)
        return r, self.D.T @ S @ self.D

    def _identity(self) -> tuple[Any, ...]:
        return (*self.inner._identity(), self.D)
