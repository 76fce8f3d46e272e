"""Matrices with few nonzeros: all of A in one stacked list of rows, of which the empty ones are not kept.

The m n rows of all `Ã_i`, one matrix below the other, are one sparse matrix with n columns; for a power grid almost
all of its rows are empty. With R its rows that are not, t of them, and for each row the measurement i and the
coordinate j that it belongs to:

    products:      W[i, j] = (R x)_t, zero elsewhere
    measure:       y_i = Σ_{t of i} x_j (R x)_t
    weighted_sum:  S[j, k] = Σ_i w_i Ã_i[j, k], for the pairs (j, k) that any of the matrices has: sparse rows of
                   pairs × measurements, times w

Both are one loop over the nonzeros (kernels/sparse.pyx); what is dense is what comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import sparse as kernel
from fastquad.measurements.base import Measurements, symmetrised
from fastquad.typing import Indices, Number


class SparseTensor(Measurements):
    """Measurements `y_i = x^T A_i x` with sparse matrices A_i.

    Cost and memory go with the nonzeros: no A_i is ever made dense.

    Parameters
    ----------
    matrices : list of m sparse matrices of shape (n, n), or one stacked of shape (m n, n)
        SciPy's, of any format: the stacked one has A_1 in its first n rows, A_2 in the next, and so on. Of float32,
        float64, complex64 or complex128; other real dtypes are converted to float64. Of complex matrices the Hermitian
        part is taken, and signals are complex.

    Examples
    --------
    >>> import fastquad as fq
    >>> from scipy import sparse
    >>> line = sparse.diags_array([[1.0], [-2.0]], offsets=[0, 1], shape=(3, 3))  # x_1² + x_2² + … − 2 x_1 x_2 …
    >>> A = fq.SparseTensor([sparse.eye_array(3), line])
    >>> A.measure([1.0, 2.0, 3.0])
    array([14., -2.])
    """

    def __init__(self, matrices: Any) -> None:
        self.m, self.n, i, j, k, values = _entries(matrices)
        self.dtype = values.dtype
        # Ã = (A + A^*)/2: each entry in both places; equal ones are added up.
        self._set(*_summed(self.n, i, j, k, values.astype(self.number)))

    def _set(self, i: Indices, j: Indices, k: Indices, values: Number) -> None:
        """Keep the entries `Ã_i[j, k]`, which are in ascending order of (i, j, k)."""
        self._i, self._j, self._k, self._values = i, j, k, values
        self._rows_of_A = _Rows.of(i * self.n + j, k, values)
        self._row_i, self._row_j = (each.astype(np.intc) for each in np.divmod(self._rows_of_A.places, self.n))
        by_pair = np.lexsort((i, k, j))
        self._pairs = _Rows.of((j * self.n + k)[by_pair], i[by_pair], values[by_pair])

    @property
    def nnz(self) -> int:
        """How many entries of the symmetric matrices are not zero."""
        return self._values.size

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads: the nonzeros and their columns."""
        return self.nnz * (self._values.itemsize + np.dtype(np.intc).itemsize)

    def _about(self) -> tuple[str]:
        return (f"nnz={self.nnz}",)

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        part = self._entries_of(start, stop)
        out = np.zeros((stop - start, self.n, self.n), dtype=self.number)
        out[self._i[part] - start, self._j[part], self._k[part]] = self._values[part]
        return out

    def _entries_of(self, start: int, stop: int) -> slice:
        """The entries of these measurements."""
        return slice(*np.searchsorted(self._i, [start, stop]))

    def _part(self, start: int, stop: int) -> SparseTensor:
        part = self._entries_of(start, stop)
        piece = object.__new__(SparseTensor)
        piece.m, piece.n, piece.dtype = stop - start, self.n, self.dtype
        piece._set(self._i[part] - start, self._j[part], self._k[part], self._values[part])
        return piece

    def share_of_rows(self, s: int) -> float:
        # Of some coordinates or of others: on average.
        return s / self.n

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        # On average, as for rows.
        return rows.size * cols.size / self.n**2

    def cost_of_diagonals(self) -> float:
        return 1 / self.n

    # -- products -------------------------------------------------------------------------------------------------

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        W[...] = 0.0
        self._rows_of_A.times(x.reshape(self.n, -1), W.reshape(self.m * self.n, -1))

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        x = np.zeros((self.n, *values.shape[1:]), dtype=self.number)
        x[support] = values
        self._products(x, W, n_threads)

    def _measure(self, x: Number, n_threads: int) -> Number:
        y, rows = np.zeros((self.m, *x.shape[1:])), self._rows_of_A
        kernel.forms(
            rows.values,
            rows.columns,
            rows.starts,
            self._row_i,
            self._row_j,
            x.reshape(self.n, -1),
            y.reshape(self.m, -1),
        )
        return y

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        S = np.zeros((self.n * self.n, w.shape[1]), dtype=self.number)
        self._pairs.times(np.ascontiguousarray(w, dtype=self.number), S)
        return np.ascontiguousarray(S.T).reshape(-1, self.n, self.n)

    def _inner(self, D: Number, n_threads: int) -> Number:
        terms = (self._values * D.conj()[self._j, self._k]).real
        return np.bincount(self._i, weights=terms, minlength=self.m)

    def _sizes(self, n_threads: int) -> Number:
        squares = np.abs(self._values.astype(self.number, copy=False)) ** 2
        return np.sqrt(np.bincount(self._i, weights=squares, minlength=self.m))

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        on_diagonal = np.flatnonzero(self._j == self._k)
        r = c - self._measure(z, n_threads)
        np.subtract.at(r, self._i[on_diagonal], self._values[on_diagonal, None].real * v[self._j[on_diagonal]])
        return r, self._weighted_sum(r, n_threads)

    def _compress(self, U: Number, n_threads: int) -> Number:
        rows, p = self._rows_of_A, U.shape[1]
        products, out = (np.zeros(shape, dtype=self.number) for shape in ((rows.places.size, p), (self.m, p, p)))
        kernel.rows(rows.values, rows.columns, rows.starts, np.arange(rows.places.size), U, products)
        starts = np.searchsorted(self._row_i, np.arange(self.m + 1))
        for i in range(self.m):
            part = slice(starts[i], starts[i + 1])
            np.matmul(U[self._row_j[part]].conj().T, products[part], out=out[i])
        return symmetrised(out)

    # -- entries --------------------------------------------------------------------------------------------------

    def _diagonals(self, n_threads: int) -> Number:
        d = np.zeros((self.m, self.n))
        on_diagonal = self._j == self._k
        d[self._i[on_diagonal], self._j[on_diagonal]] = self._values[on_diagonal].real
        return d

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        out = np.zeros((self.m, rows.size, cols.size), dtype=self.number)
        if not out.size:
            return out
        # Repeated coordinates are written once and copied.
        (some_rows, row_of), (some_cols, col_of) = (np.unique(each, return_inverse=True) for each in (rows, cols))
        where_row, where_col = (_positions(each, self.n) for each in (some_rows, some_cols))
        inside = np.flatnonzero((where_row[self._j] >= 0) & (where_col[self._k] >= 0))
        block = np.zeros((self.m, some_rows.size, some_cols.size), dtype=self.number)
        block[self._i[inside], where_row[self._j[inside]], where_col[self._k[inside]]] = self._values[inside]
        np.copyto(out, block[:, row_of[:, None], col_of])
        return out

    def _identity(self) -> tuple[Any, ...]:
        return self.m, self.n, self.dtype.name, self._i, self._j, self._k, self._values


class _Rows(NamedTuple):
    """Sparse rows without the empty ones: row t has the entries starts[t] to starts[t + 1], and is row places[t]."""

    values: Number
    columns: NDArray[np.intc]
    starts: Indices
    places: Indices

    @classmethod
    def of(cls, rows: Indices, columns: Indices, values: Number) -> _Rows:
        """From entries in ascending order of their rows."""
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        return cls(np.ascontiguousarray(values), columns.astype(np.intc), np.append(first, rows.size), rows[first])

    def times(self, X: Number, out: Number) -> None:
        """Write the rows' products with X, (columns, b), to their places in out, (rows, b)."""
        kernel.rows(self.values, self.columns, self.starts, self.places, X, out)


def is_sparse_tensor(A: Any) -> bool:
    """Whether A is a stacked sparse matrix, or a list of sparse matrices."""
    # Without scipy.sparse there is no such matrix; importing it takes longer than all the rest.
    scipy_sparse = sys.modules.get("scipy.sparse")
    if scipy_sparse is None:
        return False
    is_one = scipy_sparse.issparse
    return bool(is_one(A)) or (isinstance(A, Sequence) and len(A) > 0 and all(map(is_one, A)))


def _positions(chosen: Indices, n: int) -> Indices:
    """The position of each coordinate among the chosen; −1 for the others."""
    where = np.full(n, -1, dtype=np.intp)
    where[chosen] = np.arange(chosen.size)
    return where


def _entries(matrices: Any) -> tuple[int, int, Indices, Indices, Indices, Number]:
    """m, n, and the entries as given: measurement, row, column and value."""
    from scipy import sparse

    if sparse.issparse(matrices):
        rows, n = matrices.shape
        if n == 0 or rows == 0 or rows % n:
            raise ValueError(f"`matrices` stacked must have shape (m n, n) with m, n >= 1, got {matrices.shape}.")
        coo = matrices.tocoo()
        row = coo.row.astype(np.intp)
        return rows // n, n, row // n, row % n, coo.col.astype(np.intp), _values(coo.data)
    each = _list(matrices)
    n = each[0].shape[0]
    for i, matrix in enumerate(each):
        if matrix.shape != (n, n) or n == 0:
            raise ValueError(f"`matrices` must all have one shape (n, n), got {matrix.shape} for matrix {i}.")
    coos = [matrix.tocoo() for matrix in each]
    measurement = np.repeat(np.arange(len(coos)), [coo.nnz for coo in coos])
    row, col = (np.concatenate([getattr(coo, name) for coo in coos]).astype(np.intp) for name in ("row", "col"))
    return len(coos), n, measurement, row, col, _values(np.concatenate([coo.data for coo in coos]))


def _list(matrices: Any) -> list[Any]:
    """The matrices as a list of sparse ones."""
    from scipy import sparse

    if not isinstance(matrices, Iterable) or isinstance(matrices, str | np.ndarray):
        raise TypeError(
            f"`matrices` must be scipy.sparse matrices, in a list or stacked, got {type(matrices).__name__}: "
            "an array goes to solve as it is."
        )
    each = list(matrices)
    if not each:
        raise ValueError("`matrices` must be at least one, got an empty list.")
    for i, matrix in enumerate(each):
        if not sparse.issparse(matrix):
            raise TypeError(f"`matrices` must be scipy.sparse matrices, got {type(matrix).__name__} for matrix {i}.")
    return each


def _values(values: Any) -> Number:
    """The nonzeros as float32 or float64, finite."""
    if values.dtype.kind not in "fiubc" or values.dtype.char in "gG":
        raise TypeError(f"`matrices` must hold numbers in single or double precision, got dtype {values.dtype}.")
    if values.dtype.char not in "fdFD":
        values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("`matrices` must be finite, got NaN or inf.")
    return values


def _summed(n: int, i: Indices, j: Indices, k: Indices, values: Number) -> tuple[Indices, Indices, Indices, Number]:
    """The entries of `(A_i + A_i^*)/2` in ascending order of (i, j, k), each place once."""
    rows, columns = np.concatenate([i * n + j, i * n + k]), np.concatenate([k, j])
    order = np.lexsort((columns, rows))
    rows, columns, both = rows[order], columns[order], np.concatenate([values, values.conj()])[order] / 2
    first = np.flatnonzero((np.diff(rows, prepend=-1) != 0) | (np.diff(columns, prepend=-1) != 0))
    total = np.add.reduceat(both, first) if first.size else both
    first, total = first[total != 0], total[total != 0]
    return rows[first] // n, rows[first] % n, columns[first], total
