"""Matrices with few nonzeros: all of A in one stacked list of rows, of which the empty ones are not kept.

The m n rows of all `Ã_i`, one matrix below the other, are one sparse matrix with n columns; for a power grid almost
all of its rows are empty. With R its rows that are not, t of them, and for each row the measurement i and the
coordinate j that it belongs to:

    products:      W[i, j] = (R x)_t, zero elsewhere
    measure:       y_i = Σ_{t of i} x_j (R x)_t
    weighted_sum:  S[j, k] = Σ_i w_i Ã_i[j, k], for the pairs (j, k) that any of the matrices has: sparse rows of
                   pairs × measurements, times w
    along:         2 Re Σ_{t of i} v̄_j (R x)_t
    gradient:      2 Σ_{t with coordinate j} w_i (R x)_t
    gram:          Σ_i d_i p_i p_i^T with the rows p_i = 2 (R x)_t of the Jacobian, sparse: its pattern, the pairs
                   (j, k) that some measurement sees together, is found once

All are loops over the nonzeros (kernels/sparse.pyx). Measurements, the derivatives of them and their sums need memory
for the nonzeros only; `products` and `weighted_sum` make what is dense.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad import arguments
from fastquad._kernels import sparse as kernel
from fastquad.measurements.base import Edges, Measurements, symmetrised
from fastquad.measurements.dense.arrays import has_coordinates
from fastquad.typing import Float, Indices, Number

# The largest number of pairs of rows, Σ_i s_i² for s_i rows in a matrix, for which `gram` is sparse: a guess, at which
# its matrix takes 320 MB. One measurement of all of 3,000 coordinates takes as many.
_MOST_PAIRS = 10_000_000
# The share of all pairs from which on it is dense: measurements of half of the coordinates. A guess: on grids and in
# finite elements they see 2 to 10 coordinates, and nearly all where a tenth of the entries of A are not zero.
_HARDLY_SPARSE = 0.25


class SparseTensor(Measurements):
    """Measurements `y_i = x^T A_i x` with sparse matrices A_i.

    Cost and memory grow with the number of nonzeros. No A_i is ever made dense.

    Parameters
    ----------
    matrices : sparse array of shape (m, n, n), list of m sparse matrices of shape (n, n), or one stacked of (m n, n)
        An array of three axes is a `scipy.sparse.coo_array` or a `sparse.COO`. The others are SciPy's, of any format:
        the stacked one has A_1 in its first n rows, A_2 in the next, and so on. Of float32, float64, complex64 or
        complex128; other real dtypes are converted to float64. Of complex matrices the Hermitian part is taken, and
        signals are complex. From lists of the entries, `from_entries` makes a tensor without any matrices.

    Examples
    --------
    >>> import fastquad as fq
    >>> from scipy import sparse
    >>> line = sparse.diags_array([[1.0], [-2.0]], offsets=[0, 1], shape=(3, 3))  # x_1² + x_2² + … − 2 x_1 x_2 …
    >>> A = fq.SparseTensor([sparse.eye_array(3), line])
    >>> A.measure([1.0, 2.0, 3.0])
    array([14., -2.])
    """

    by_verbs = True

    def __init__(self, matrices: Any) -> None:
        self._fill(*_entries(matrices))

    @classmethod
    def from_entries(cls, i: Any, j: Any, k: Any, values: Any, *, m: int, n: int) -> SparseTensor:
        """The tensor with `A_i[j, k] = values`, from lists of the entries; those given twice are added up.

        Parameters
        ----------
        i, j, k : integer arrays of shape (nnz,)
            The measurement, row and column of each entry.
        values : array of shape (nnz,)
            Of float32, float64, complex64 or complex128; other real dtypes are converted to float64.
        m, n : int
            How many measurements and coordinates there are.

        Examples
        --------
        >>> import fastquad as fq
        >>> A = fq.SparseTensor.from_entries([0, 0, 1], [0, 1, 0], [0, 1, 2], [1.0, 1.0, -2.0], m=2, n=3)
        >>> A.measure([1.0, 2.0, 3.0])
        array([ 5., -6.])
        """
        m, n = arguments.count(m, "m"), arguments.count(n, "n")
        entries = _values(np.asarray(values))
        i, j, k = (
            _places(each, name, entries.shape, bound) for each, name, bound in ((i, "i", m), (j, "j", n), (k, "k", n))
        )
        made = cls.__new__(cls)
        made._fill(m, n, i, j, k, entries)
        return made

    def _fill(self, m: int, n: int, i: Indices, j: Indices, k: Indices, values: Number) -> None:
        """Keep the symmetric parts of matrices with these entries."""
        self.m, self.n, self.dtype = m, n, values.dtype
        # Ã = (A + A^*)/2: each entry in both places; equal ones are added up.
        self._set(*_summed(self.n, i, j, k, values.astype(self.number)))

    def _set(self, i: Indices, j: Indices, k: Indices, values: Number) -> None:
        """Keep the entries `Ã_i[j, k]`, which are in ascending order of (i, j, k)."""
        self._i, self._j, self._k, self._values = i, j, k, values
        self._rows_of_A = _Rows.of(i * self.n + j, k, values)
        self._row_i, self._row_j = (each.astype(np.intc) for each in np.divmod(self._rows_of_A.places, self.n))
        #: Where the rows of each matrix begin.
        self._firsts = np.searchsorted(self._row_i, np.arange(self.m + 1))

    @cached_property
    def _pairs(self) -> _Rows:
        """The entries by pairs (j, k), of the measurements that have them."""
        by_pair = np.lexsort((self._i, self._k, self._j))
        return _Rows.of((self._j * self.n + self._k)[by_pair], self._i[by_pair], self._values[by_pair])

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

    def _at_rows(self, x: Number) -> Number:
        """`2 (R x)_t`, (t,): the entries of the Jacobian at x."""
        rows = self._rows_of_A
        p = np.empty((rows.places.size, 1), dtype=self.number)
        kernel.rows(rows.values, rows.columns, rows.starts, np.arange(rows.places.size), x.reshape(self.n, 1), p)
        p *= 2
        return p[:, 0]

    def _sizes(self, x: Number) -> Number:
        size = np.abs(x)
        return _sums(self._i, size[self._j] * np.abs(self._values) * size[self._k], self.m)

    def _edges(self) -> Edges:
        from scipy import sparse

        n = self.n
        upper = np.flatnonzero(self._j < self._k)
        alone = np.flatnonzero(self._j == self._k)
        pairs, which = np.unique(self._j[upper] * n + self._k[upper], return_inverse=True)
        # Ã_jk x̄_j x_k and its conjugate from the lower half.
        values = 2 * self._values[upper]
        rows, columns = [self._i[alone], self._i[upper]], [self._j[alone], n + which]
        data = [self._values[alone].real, values.real]
        if self.complex:
            rows, columns, data = [*rows, self._i[upper]], [*columns, n + pairs.size + which], [*data, -values.imag]
        width = n + pairs.size * (2 if self.complex else 1)
        places = np.concatenate(rows), np.concatenate(columns)
        M = sparse.csr_array((np.concatenate(data), places), shape=(self.m, width))
        return Edges(M, pairs // n, pairs % n, n, self.complex)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        from scipy import sparse

        # J row by row; many directions at once cost little more than one.
        J = sparse.csr_array((self._at_rows(x), self._row_j, self._firsts), shape=(self.m, self.n))
        along = J @ v.reshape(self.n, -1).conj()
        return np.ascontiguousarray(along.real).reshape(self.m, *v.shape[1:])

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        p = self._at_rows(x) * w[self._row_i]
        g = _sums(self._row_j, p.real, self.n)
        return g + 1j * _sums(self._row_j, p.imag, self.n) if self.complex else g

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """Sparse, unless a measurement sees so many coordinates that the matrix is hardly sparse."""
        most = min(_MOST_PAIRS, _HARDLY_SPARSE * self.m * self.n**2)
        return "sparse" if float(np.sum(np.diff(self._firsts).astype(float) ** 2)) <= most else None

    @cached_property
    def _pattern(self) -> _Pattern:
        return _Pattern.of(self._row_i, self._row_j, self.m, self.n, self.complex)

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        if self.gram_kind is None:
            return super()._gram(x, d, r, n_threads)
        from scipy import sparse

        p, pattern = self._at_rows(x), self._pattern
        data = np.empty(pattern.indices.size)
        (kernel.gram_pairs if self.complex else kernel.gram)(
            p.view(np.float64), self._row_i, self._row_j, self._firsts, pattern.by_column, pattern.column_firsts, d,
            pattern.block_indices, pattern.block_indptr, np.empty(self.n, dtype=np.intp), data,
        )  # fmt: skip
        N = self.n * (2 if self.complex else 1)
        G = sparse.csc_array((data, pattern.indices, pattern.indptr), shape=(N, N))
        G.has_sorted_indices = True
        weighted = p * (d * r)[self._row_i]
        g = _sums(self._row_j, weighted.real, self.n)
        if self.complex:
            g = np.stack([g, _sums(self._row_j, weighted.imag, self.n)], axis=1).reshape(-1)
        return G, g

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        S = np.zeros((self.n * self.n, w.shape[1]), dtype=self.number)
        self._pairs.times(np.ascontiguousarray(w, dtype=self.number), S)
        return np.ascontiguousarray(S.T).reshape(-1, self.n, self.n)

    def _inner(self, D: Number, n_threads: int) -> Number:
        terms = (self._values * D.conj()[self._j, self._k]).real
        return np.bincount(self._i, weights=terms, minlength=self.m)

    def _frobenius(self, n_threads: int) -> Number:
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
        for i in range(self.m):
            part = slice(self._firsts[i], self._firsts[i + 1])
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


class _Pattern(NamedTuple):
    """The pattern of `gram`: blocks (j, k) of coordinates by columns, and its entries, 2×2 a block for complex signals.

    `by_column` and `column_firsts` are the rows of A in the order of their coordinates: see kernels/sparse.pyx.
    """

    by_column: Indices
    column_firsts: Indices
    block_indices: NDArray[np.intc]
    block_indptr: NDArray[np.intc]
    indices: NDArray[np.intc]
    indptr: NDArray[np.intc]

    @classmethod
    def of(cls, row_i: NDArray[Any], row_j: NDArray[Any], m: int, n: int, pairs: bool) -> _Pattern:
        from scipy import sparse

        by_column = np.argsort(row_j, kind="stable")
        column_firsts = np.searchsorted(row_j[by_column], np.arange(n + 1))
        seen = sparse.csr_array((np.ones(row_i.size, dtype=np.float32), (row_i, row_j)), shape=(m, n))
        # Coordinates that nothing measures are on the diagonal, too.
        blocks = sparse.csc_array(seen.T @ seen + sparse.eye_array(n, dtype=np.float32))
        blocks.sort_indices()
        indices, indptr = blocks.indices.astype(np.intc), blocks.indptr.astype(np.intc)
        if not pairs:
            return cls(by_column, column_firsts, indices, indptr, indices, indptr)
        wide = np.stack([2 * indices, 2 * indices + 1], axis=1).reshape(-1)
        # Both columns of a pair have the same rows.
        widths = 2 * np.diff(indptr)
        starts = np.repeat(2 * indptr[:-1], 2 * widths) + _counted(widths)
        return cls(
            by_column, column_firsts, indices, indptr, wide[starts],
            np.concatenate([[0], np.cumsum(np.repeat(widths, 2))]).astype(np.intc),
        )  # fmt: skip


def _sums(places: NDArray[Any], values: Float, count: int) -> Float:
    """The sums of the values at each of `count` places."""
    # Of nothing, bincount counts in integers.
    return np.asarray(np.bincount(places, values, count), dtype=np.float64)


def _counted(widths: Indices) -> Indices:
    """0 to w − 1 twice for each of the widths w."""
    each = np.repeat(widths, 2)
    ends = np.cumsum(each)
    return np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - each, each)


def _positions(chosen: Indices, n: int) -> Indices:
    """The position of each coordinate among the chosen; −1 for the others."""
    where = np.full(n, -1, dtype=np.intp)
    where[chosen] = np.arange(chosen.size)
    return where


def _places(places: Any, name: str, shape: tuple[int, ...], bound: int) -> Indices:
    """Indices from 0 to bound − 1, one per entry."""
    array = np.asarray(places)
    if array.shape != shape or len(shape) != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"`{name}` must be a list of integers as long as `values`, got {array.dtype} of shape {array.shape} for "
            f"values of shape {shape}."
        )
    if array.size and (array.min() < 0 or array.max() >= bound):
        raise ValueError(f"`{name}` must lie between 0 and {bound - 1}, got {array.min()} to {array.max()}.")
    return array.astype(np.intp)


def _entries(matrices: Any) -> tuple[int, int, Indices, Indices, Indices, Number]:
    """m, n, and the entries as given: measurement, row, column and value."""
    from scipy import sparse

    if has_coordinates(matrices):
        m, n, width = matrices.shape
        if n != width or m == 0 or n == 0:
            raise ValueError(f"`matrices` must have shape (m, n, n) with m, n >= 1, got {matrices.shape}.")
        i, j, k = (np.asarray(each).astype(np.intp) for each in matrices.coords)
        return m, n, i, j, k, _values(np.asarray(matrices.data))
    if sparse.issparse(matrices):
        rows, n = matrices.shape
        if n == 0 or rows == 0 or rows % n:
            raise ValueError(f"`matrices` stacked must have shape (m n, n) with m, n >= 1, got {matrices.shape}.")
        coo = matrices.tocoo()
        row = coo.row.astype(np.intp)
        return rows // n, n, row // n, row % n, coo.col.astype(np.intp), _values(coo.data)
    each = _list(matrices)
    n = each[0].shape[0]
    for number, matrix in enumerate(each):
        if matrix.shape != (n, n) or n == 0:
            raise ValueError(f"`matrices` must all have one shape (n, n), got {matrix.shape} for matrix {number}.")
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
