"""Sums of a few rank-one terms: A_i = Σ_r w_ir a_ir a_ir^T, from the vectors alone.

Partially coherent light is a sum over independent sources, each of which images coherently: the intensity at a pixel is
`y_i = Σ_r w_r |a_ir^H x|²`. With P_ir = a_ir^T x, (m, R): `products = Σ_r w_ir P_ir a_ir`, and a weighted sum is one
matrix product of all m R vectors; everything is left to BLAS, and no A_i is ever formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements.base import symmetrised
from fastquad.measurements.structured.factored import FactoredTensor
from fastquad.typing import Indices, Number


class LowRankTensor(FactoredTensor):
    """Measurements `y_i = Σ_r w_ir |a_ir^H x|²`: sums of rank-one terms, as in partially coherent imaging.

    Parameters
    ----------
    factors : array of shape (m, R, n)
        The vectors a_ir: R for each measurement. Of float32, float64, complex64 or complex128; other real dtypes are
        converted to float64. With complex vectors signals are complex: if yours are real, give `solve`
        signal="real".
    weights : array of shape (R,) or (m, R), optional
        The real numbers w_r or w_ir, such as the intensities of the sources; default: 1.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> factors = np.array([[[1.0, 2.0], [0.0, 3.0]]])  # one measurement, two terms
    >>> fq.LowRankTensor(factors, weights=[1.0, 0.5]).measure([1.0, 1.0])
    array([13.5])
    """

    def __init__(self, factors: ArrayLike, weights: ArrayLike | None = None) -> None:
        a = np.asarray(factors)
        arguments.check_numbers(a, "factors", complex_too=True)
        if a.ndim != 3 or 0 in a.shape:
            raise ValueError(f"`factors` must have shape (m, R, n) with m, R, n >= 1, got {a.shape}.")
        w = _weights(weights, a.shape[0], a.shape[1])
        self.factors = a if a.dtype.char in "fdFD" else a.astype(np.float64)
        self.weights = w
        self.m, _, self.n = a.shape
        self.dtype = self.factors.dtype
        self._a = np.ascontiguousarray(self.factors, dtype=self.number)
        #: The rows a_ir^*, which x is multiplied with.
        self._rows_of_A = self._a.conj() if self.complex else self._a

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.factors.nbytes

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        if start == stop:
            return np.empty((0, self.n, self.n), dtype=self.number)
        everything = np.arange(self.n)
        return self._part(start, stop)._block(everything, everything, 1)

    def _part(self, start: int, stop: int) -> LowRankTensor:
        return LowRankTensor(self.factors[start:stop], self.weights[start:stop])

    def _factors(self) -> Number:
        if self.weights.min() < 0:
            return super()._factors()
        return np.sqrt(self.weights)[:, :, None] * self._rows_of_A

    def _weighted(self, p: Number) -> Number:
        """`w_ir p_ir` for p of shape (m, R) or (m, R, b)."""
        return p * (self.weights if p.ndim == 2 else self.weights[:, :, None])

    def _spread(self, p: Number, W: Number) -> None:
        """`W[i] = Σ_r w_ir p_ir a_ir`."""
        p = self._weighted(p)
        if p.ndim == 2:
            np.matmul(p[:, None, :], self._a, out=W[:, None, :])
        else:
            np.matmul(self._a.transpose(0, 2, 1), p, out=W)

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        self._spread(self._rows_of_A @ x, W)

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        self._spread(self._rows_of_A[:, :, support] @ values, W)

    def _measure(self, x: Number, n_threads: int) -> Number:
        return self._weighted(np.abs(self._rows_of_A @ x) ** 2).sum(axis=1)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        p = 2 * self._weighted((self._rows_of_A @ x).conj())
        return ((p if v.ndim == 1 else p[:, :, None]) * (self._rows_of_A @ v)).real.sum(axis=1)

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        p = self._weighted(self._rows_of_A @ x) * w[:, None]
        return 2 * (p.reshape(-1) @ self._a.reshape(-1, self.n))

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        vectors = self._a.reshape(-1, self.n)
        each = [(self.weights * column[:, None]).reshape(-1, 1) for column in w.T]
        rows = self._rows_of_A.reshape(-1, self.n)
        return symmetrised(np.stack([vectors.T @ (rows * weight) for weight in each]))

    def _inner(self, D: Number, n_threads: int) -> Number:
        forms = np.einsum("irj,irj->ir", self._rows_of_A, self._a @ D.T).real
        return np.sum(self.weights * forms, axis=1)

    def _frobenius(self, n_threads: int) -> Number:
        return np.sum(np.abs(self.weights) * np.sum(np.abs(self._a) ** 2, axis=2), axis=1)

    def _diagonals(self, n_threads: int) -> Number:
        return self._weighted(np.abs(self._a) ** 2).sum(axis=1)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        left = self._weighted(self._a[:, :, rows])
        return left.transpose(0, 2, 1) @ self._rows_of_A[:, :, cols]

    def _compress(self, U: Number, n_threads: int) -> Number:
        p = self._rows_of_A @ U
        return self._weighted(p.conj()).transpose(0, 2, 1) @ p

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c - self._measure(z, n_threads) - self._diagonals(n_threads) @ v
        return r, self._weighted_sum(r, n_threads)


def _weights(weights: ArrayLike | None, m: int, R: int) -> Number:
    """The weights as (m, R)."""
    w = np.asarray(1.0 if weights is None else weights)
    arguments.check_numbers(w, "weights")
    if weights is not None and w.shape not in ((R,), (m, R)):
        raise ValueError(f"`weights` must have shape ({R},) or ({m}, {R}), got {w.shape}.")
    return np.broadcast_to(w.astype(np.float64), (m, R))
