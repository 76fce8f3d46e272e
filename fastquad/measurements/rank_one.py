"""Phase retrieval: A_i = a_i a_i^T, from the vectors alone.

With P = A x (m,): `products = P_i a_i`, `weighted_sum = A^T diag(w) A`, and so on: everything is a matrix product of
the (m, n) array of vectors, left to BLAS; no A_i is ever formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastquad.measurements.base import Float, Measurements, symmetrised


class RankOneTensor(Measurements):
    """Measurements `y_i = (a_i^T x)²`.

    Parameters
    ----------
    vectors : array of shape (m, n)
        The vectors a_i, float32 or float64; other real dtypes are converted to float64.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> vectors = np.array([[1.0, 2.0], [0.0, 3.0]])
    >>> fq.RankOneTensor(vectors).measure([1.0, 1.0])
    array([9., 9.])
    """

    def __init__(self, vectors: ArrayLike) -> None:
        a = np.asarray(vectors)
        if a.dtype.kind not in "fiub":
            raise TypeError(f"`vectors` must hold real numbers, got dtype {a.dtype}.")
        if a.ndim != 2 or 0 in a.shape:
            raise ValueError(f"`vectors` must have shape (m, n) with m, n >= 1, got {a.shape}.")
        self.vectors = a if a.dtype in (np.float32, np.float64) else a.astype(np.float64)
        self.m, self.n, self.dtype = *a.shape, self.vectors.dtype
        self._a = self.vectors.astype(np.float64, copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.vectors.nbytes

    def matrices(self, start: int, stop: int) -> Float:
        a = self._a[start:stop]
        return a[:, :, None] * a[:, None, :]

    def _part(self, start: int, stop: int) -> RankOneTensor:
        return RankOneTensor(self.vectors[start:stop])

    def share_of_rows(self, s: int) -> float:
        # The whole of a_i is read whatever rows are asked for.
        return 1.0

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        self._spread(self._a @ x, W)

    def _products_on(self, support: NDArray[np.intp], values: Float, W: Float, n_threads: int) -> None:
        self._spread(self._a[:, support] @ values, W)

    def _spread(self, p: Float, W: Float) -> None:
        """`W[i] = a_i p_i`."""
        if p.ndim == 1:
            np.multiply(self._a, p[:, None], out=W)
        else:
            np.multiply(self._a[:, :, None], p[:, None, :], out=W)

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        return symmetrised(np.stack([self._a.T @ (self._a * column[:, None]) for column in w.T]))

    def _diagonals(self, n_threads: int) -> Float:
        return self._a**2

    def _rows(self, support: NDArray[np.intp], n_threads: int) -> Float:
        return self._a[:, support, None] * self._a[:, None, :]

    def _block(self, rows: NDArray[np.intp], cols: NDArray[np.intp], n_threads: int) -> Float:
        return self._a[:, rows, None] * self._a[:, None, cols]

    def _compress(self, U: Float, n_threads: int) -> Float:
        p = self._a @ U
        return p[:, :, None] * p[:, None, :]

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r = c - (self._a @ z) ** 2 - self._a**2 @ v
        return r, self._weighted_sum(r, n_threads)
