"""Phase retrieval: A_i = a_i a_i^*, from the vectors alone.

With P = A x (m,): `products = P_i a_i`, `weighted_sum = A^T diag(w) A`, and so on: everything is a matrix product of
the (m, n) array of vectors, left to BLAS; no A_i is ever formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements.base import symmetrised
from fastquad.measurements.structured.factored import FactoredTensor
from fastquad.typing import Indices, Number


class RankOneTensor(FactoredTensor):
    """Measurements `y_i = |a_i^* x|²`: phase retrieval.

    Parameters
    ----------
    vectors : array of shape (m, n)
        The vectors a_i, of float32, float64, complex64 or complex128; other real dtypes are converted to float64. With
        complex vectors signals are complex: if yours are real, give `solve` signal="real".

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> vectors = np.array([[1.0, 2.0], [0.0, 3.0]])
    >>> fq.RankOneTensor(vectors).measure([1.0, 1.0])
    array([9., 9.])
    """

    intensities = True

    def __init__(self, vectors: ArrayLike) -> None:
        a = np.asarray(vectors)
        arguments.check_numbers(a, "vectors", complex_too=True)
        if a.ndim != 2 or 0 in a.shape:
            raise ValueError(f"`vectors` must have shape (m, n) with m, n >= 1, got {a.shape}.")
        self.vectors = a if a.dtype.char in "fdFD" else a.astype(np.float64)
        self.m, self.n, self.dtype = *a.shape, self.vectors.dtype
        self._a = self.vectors.astype(self.number, copy=False)
        #: The rows a_i^*, which x is multiplied with.
        self._rows_of_A = self._a.conj() if self.complex else self._a

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.vectors.nbytes

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        a = self._a[start:stop]
        return a[:, :, None] * a[:, None, :].conj()

    def _part(self, start: int, stop: int) -> RankOneTensor:
        return RankOneTensor(self.vectors[start:stop])

    def _factors(self) -> Number:
        return self._rows_of_A[:, None, :]

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        self._spread(self._rows_of_A @ x, W)

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        self._spread(self._rows_of_A[:, support] @ values, W)

    def _spread(self, p: Number, W: Number) -> None:
        """`W[i] = a_i p_i`."""
        if p.ndim == 1:
            np.multiply(self._a, p[:, None], out=W)
        else:
            np.multiply(self._a[:, :, None], p[:, None, :], out=W)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        p = 2 * (self._rows_of_A @ x).conj()
        return ((p if v.ndim == 1 else p[:, None]) * (self._rows_of_A @ v)).real

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        return 2 * ((w * (self._rows_of_A @ x)) @ self._a)

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return symmetrised(np.stack([self._a.T @ (self._rows_of_A * column[:, None]) for column in w.T]))

    def _inner(self, D: Number, n_threads: int) -> Number:
        return np.einsum("ij,ij->i", self._rows_of_A, self._a @ D.T).real

    def _frobenius(self, n_threads: int) -> Number:
        return np.sum(np.abs(self._a) ** 2, axis=1)

    def _diagonals(self, n_threads: int) -> Number:
        return np.abs(self._a) ** 2

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._a[:, support, None] * self._rows_of_A[:, None, :]

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self._a[:, rows, None] * self._rows_of_A[:, None, cols]

    def _compress(self, U: Number, n_threads: int) -> Number:
        p = self._rows_of_A @ U
        return p[:, :, None].conj() * p[:, None, :]

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c - np.abs(self._rows_of_A @ z) ** 2 - np.abs(self._a) ** 2 @ v
        return r, self._weighted_sum(r, n_threads)
