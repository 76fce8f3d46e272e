"""Pairs of coordinates that are measured together: an array says to which measurement each pair belongs.

With labels L, (n, n), `y_i = Σ_{L_jk = i} x_j x_k`: every product of two entries of x is counted in one measurement, or
in none. That is any autocorrelation, on a line, in the plane or in space, and any metric: the label of a pair of places
is the bin of their distance. A measurement of x is a bincount of x x^T by the labels, and a weighted sum of matrices a
gather, `S_jk = w[L_jk]`; nothing is stored but the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastquad import arguments
from fastquad.measurements.base import Measurements, symmetrised
from fastquad.typing import Float, Indices

#: How many products of pairs are in memory at a time.
_AT_A_TIME = 1 << 22


class PairTensor(Measurements):
    """Measurements `y_i = Σ x_j x_k` over the pairs (j, k) with the label i.

    If x_j is 1 for a point at place j, and labels are bins of the distance between two places, y counts the pairs
    of points at each distance. The places may be in the plane, in space, or have any other metric. On a line or a
    circle `ShiftTensor` is faster.

    Parameters
    ----------
    labels : array of int of shape (n, n)
        The measurement that the pair (j, k) belongs to, 0 to m − 1; −1 for none. Both (j, k) and (k, j) count. Only the
        symmetric part of a matrix matters, so labels need not be symmetric.
    m : int, optional
        The number of measurements. Default: one more than the largest label.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> places = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])  # the corners of a square
    >>> squares = ((places[:, None] - places) ** 2).sum(axis=2)
    >>> squares[0]
    array([0, 1, 1, 2])
    >>> fq.PairTensor(squares).measure([1.0, 1.0, 0.0, 1.0])  # three points, two pairs at 1 and one at √2, both ways
    array([3., 4., 2.])
    """

    def __init__(self, labels: ArrayLike, m: int | None = None) -> None:
        given = np.asarray(arguments.unmasked(labels, "labels"))
        if given.dtype.kind not in "iu":
            raise TypeError(f"`labels` must be integers, got dtype {given.dtype}.")
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.size:
            raise ValueError(f"`labels` must have shape (n, n), got {given.shape}.")
        largest = int(given.max())
        if int(given.min()) < -1 or largest < 0:
            raise ValueError(
                "`labels` must be −1 for no measurement, or 0 and more, and one at least, got "
                f"{given.min()} to {largest}."
            )
        self.m = largest + 1 if m is None else arguments.count(m, "m")
        if largest >= self.m:
            raise ValueError(f"`labels` must be below `m`, got the label {largest} and m={self.m}.")
        self.n, self.dtype = given.shape[0], np.dtype(np.float64)
        self._labels: NDArray[np.int32] = np.array(given, dtype=np.int32, order="C")
        self._labels.flags.writeable = False

    @property
    def labels(self) -> NDArray[np.int32]:
        """The labels, (n, n)."""
        return self._labels

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads: the labels."""
        return self._labels.nbytes

    def share_of_rows(self, s: int) -> float:
        return s / self.n

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return rows.size * cols.size / self.n**2

    def cost_of_diagonals(self) -> float:
        return 1 / self.n

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        out = np.zeros((stop - start, self.n, self.n))
        j, k = np.nonzero((self._labels >= start) & (self._labels < stop))
        out[self._labels[j, k] - start, j, k] = 1.0
        return symmetrised(out)

    def _part(self, start: int, stop: int) -> PairTensor:
        inside = (self._labels >= start) & (self._labels < stop)
        piece = object.__new__(PairTensor)
        piece.m, piece.n, piece.dtype = stop - start, self.n, self.dtype
        piece._labels = np.where(inside, self._labels - start, -1).astype(np.int32)
        return piece

    def _counted(self) -> Iterator[tuple[Indices, Indices, Indices]]:
        """The pairs that have a label, some rows at a time: labels, j and k."""
        step = max(1, _AT_A_TIME // self.n)
        for first in range(0, self.n, step):
            rows = self._labels[first : first + step]
            j, k = np.nonzero(rows >= 0)
            yield rows[j, k].astype(np.intp), j + first, k

    # -- products: a bincount ---------------------------------------------------------------------------------------

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        # W[i, j] = ½ Σ_k x_k over L_jk = i, and the same over L_kj = i.
        W[...] = 0.0
        flat = W.reshape(self.m * self.n, -1)
        for i, j, k in self._counted():
            for column, values in enumerate(x.reshape(self.n, -1).T):
                for one, other in ((j, k), (k, j)):
                    # Sums over pairs of the same place in W, which are few of its places.
                    place, which = np.unique(i * self.n + one, return_inverse=True)
                    flat[place, column] += np.bincount(which, values[other] / 2)

    def _products_on(self, support: Indices, values: Float, W: Float, n_threads: int) -> None:
        x = np.zeros((self.n, *values.shape[1:]))
        x[support] = values
        self._products(x, W, n_threads)

    def _measure(self, x: Float, n_threads: int) -> Float:
        y = np.zeros((self.m, *x.shape[1:]))
        columns = y.reshape(self.m, -1)
        for i, j, k in self._counted():
            for column, values in enumerate(x.reshape(self.n, -1).T):
                columns[:, column] += np.bincount(i, values[j] * values[k], self.m)
        return y

    def _compress(self, U: Float, n_threads: int) -> Float:
        p = U.shape[1]
        C = np.zeros((self.m, p, p))
        for i, j, k in self._counted():
            for a in range(p):
                for b in range(p):
                    C[:, a, b] += np.bincount(i, U[j, a] * U[k, b], self.m)
        return symmetrised(C)

    # -- weighted sums: a gather ------------------------------------------------------------------------------------

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.empty((w.shape[1], self.n, self.n))
        for out, weights in zip(S, np.concatenate([w, np.zeros((1, w.shape[1]))]).T, strict=True):
            np.take(weights, self._labels, out=out, mode="wrap")  # −1 is the zero at the end
        return symmetrised(S)

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r = c - self._measure(z, n_threads)
        own = self._labels.diagonal()
        np.subtract.at(r, own[own >= 0], v[own >= 0])
        return r, self._weighted_sum(r, n_threads)

    # -- entries ------------------------------------------------------------------------------------------------------

    def _diagonals(self, n_threads: int) -> Float:
        d = np.zeros((self.m, self.n))
        own = self._labels.diagonal()
        j = np.flatnonzero(own >= 0)
        d[own[j], j] = 1.0
        return d

    def _rows(self, support: Indices, n_threads: int) -> Float:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        out = np.zeros((self.m, rows.size, cols.size))
        for labels in (self._labels[rows[:, None], cols], self._labels[cols, rows[:, None]]):
            s, t = np.nonzero(labels >= 0)
            out[labels[s, t], s, t] += 0.5
        return out

    def _identity(self) -> tuple[Any, ...]:
        return self.m, self.n, self.dtype.name, self._labels
