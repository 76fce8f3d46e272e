"""Products of two unknown vectors, `y_i = u^T B_i v`: the quadratic measurements of [u; v], and one more.

    x = [u; v],   Ã_i = [[0, B_i/2], [B_i^T/2, 0]],   x^T Ã_i x = u^T B_i v

(c u, v/c) measures the same as (u, v) for every c. The scale is fixed by balance, ‖u‖ = ‖v‖, which is a quadratic
measurement too: `κ (‖u‖² − ‖v‖²) = 0`. With it, x is known up to its sign. κ makes its matrix as large as the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.typing import Float, Indices

# Measurements that are swept together, so that their matrices stay in cache between the two uses: in bytes.
_CHUNK = 256 << 10


class BalancedTensor(Measurements):
    """The matrices [[0, B_i/2], [B_i^T/2, 0]], and behind them κ diag(1, …, 1, −1, …, −1)."""

    def __init__(self, B: Float, dtype: np.dtype) -> None:
        self.B, self.dtype = B, dtype
        count, self.bilinear, self.q = B.shape
        self.m, self.n = count + 1, self.bilinear + self.q
        self._flat = B.reshape(count, -1)
        mean_square = float(np.mean(B**2))
        self.kappa = np.sqrt(mean_square * self.bilinear * self.q / (2 * self.n)) or 1.0
        self._signs = np.where(np.arange(self.n) < self.bilinear, self.kappa, -self.kappa)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.B.nbytes

    def share_of_rows(self, s: int) -> float:
        # On average over the two sides.
        return min(1.0, 2 * s / self.n)

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return min(1.0, self._pairs(rows, cols) / (self.bilinear * self.q))

    def cost_of_diagonals(self) -> float:
        return 0.0

    def _pairs(self, rows: Indices, cols: Indices) -> int:
        """How many entries of a B_i these rows and columns take."""
        ru, cu = (int(np.count_nonzero(each < self.bilinear)) for each in (rows, cols))
        rv, cv = rows.size - ru, cols.size - cu
        return ru * cv if rows is cols else ru * cv + rv * cu

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        everything = np.arange(self.n)
        return self._block(everything, everything, 1)[start:stop]

    def _apply(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        W = np.empty((self.m, *x.shape)) if out is None else out
        p = self.bilinear
        u, v = x[:p], x[p:]
        np.matmul(self.B, v, out=W[:-1, :p])
        if x.ndim == 1:
            np.matmul(u, self.B, out=W[:-1, p:])
        else:
            np.matmul(self.B.transpose(0, 2, 1), u, out=W[:-1, p:])
        W[:-1] *= 0.5
        W[-1] = (self._signs * x.T).T
        return W

    def _product_chunks(self, x: Float, n_threads: int) -> Iterator[tuple[slice, Float]]:
        # The products are far smaller than A.
        yield slice(0, self.m), self._apply(x, n_threads)

    def _measure(self, x: Float, n_threads: int) -> Float:
        columns = x.reshape(self.n, -1)
        pairs = np.einsum("js,ks->jks", columns[: self.bilinear], columns[self.bilinear :])
        y = np.concatenate([self._flat @ pairs.reshape(-1, columns.shape[1]), self._signs[None] @ columns**2])
        return y.reshape(self.m, *x.shape[1:])

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        return self._spread(w[:-1].T @ self._flat, w[-1])

    def _spread(self, sums: Float, balance: Float) -> Float:
        """The matrices of `Σ w_i B_i`, (b, p q), with the weight of the balance on the diagonal."""
        p, S = self.bilinear, np.zeros((len(sums), self.n, self.n))
        half = 0.5 * sums.reshape(-1, p, self.q)
        S[:, :p, p:], S[:, p:, :p] = half, half.transpose(0, 2, 1)
        S[:, np.arange(self.n), np.arange(self.n)] = balance[:, None] * self._signs
        return S

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        pairs = np.einsum("js,ks->jks", z[: self.bilinear], z[self.bilinear :]).reshape(-1, z.shape[1])
        r, sums = c.copy(), np.zeros((z.shape[1], self._flat.shape[1]))
        step = max(1, _CHUNK // self._flat[0].nbytes)
        for start in range(0, self.m - 1, step):
            part = slice(start, min(start + step, self.m - 1))
            r[part] -= self._flat[part] @ pairs
            sums += r[part].T @ self._flat[part]
        r[-1] -= self._signs @ (z**2 + v)
        return r, self._spread(sums, r[-1])

    def _diagonals(self, n_threads: int) -> Float:
        d = np.zeros((self.m, self.n))
        d[-1] = self._signs
        return d

    def _rows(self, support: Indices, n_threads: int) -> Float:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        p, out = self.bilinear, np.zeros((self.m, rows.size, cols.size))
        (ru, rv), (cu, cv) = ((np.flatnonzero(each < p), np.flatnonzero(each >= p)) for each in (rows, cols))
        out[:-1, ru[:, None], cv] = 0.5 * self.B[:, rows[ru][:, None], cols[cv] - p]
        out[:-1, rv[:, None], cu] = 0.5 * self.B[:, cols[cu], rows[rv][:, None] - p]
        out[-1] = np.where(rows[:, None] == cols, self._signs[rows][:, None], 0.0)
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        p = self.bilinear
        half = 0.5 * (U[:p].T @ (self.B @ U[p:]))
        balance = U.T @ (self._signs[:, None] * U)
        return np.concatenate([half + half.transpose(0, 2, 1), balance[None]])

    def _identity(self) -> tuple[Any, ...]:
        return self.m, self.n, self.dtype.name, self.bilinear, self.B[:, :16, :16]


class BilinearTensor:
    """Measurements of products of two vectors, `y_i = u^T B_i v`.

    Both are unknown, and each may be sparse; how sparse is learnt for each. A signal is x = [u; v], and `split`
    takes it apart. Because (c u, v/c) measures the same for every c, an answer has ‖u‖ = ‖v‖. Its sign cannot be
    known.

    Parameters
    ----------
    B : array of shape (m, p, q)

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> A = fq.BilinearTensor(rng.standard_normal((60, 40, 8)))
    >>> u, v = np.zeros(40), rng.standard_normal(8)
    >>> u[[3, 14, 27]] = 1.0, -1.0, 2.0
    >>> solution = fq.solve(A, A.measure(np.concatenate([u, v])))
    >>> found_u, found_v = A.split(solution.x)
    >>> bool(np.allclose(np.outer(found_u, found_v), np.outer(u, v)))
    True
    """

    def __init__(self, B: ArrayLike) -> None:
        given = np.asarray(B)
        values = arguments.real_array(B, "B")
        if values.ndim != 3 or 0 in values.shape:
            raise ValueError(f"`B` must have shape (m, p, q) with m, p, q >= 1, got {values.shape}.")
        dtype = given.dtype if given.dtype.char in "fd" else np.dtype(np.float64)
        self.m, self.p, self.q = values.shape
        self.n, self.dtype = self.p + self.q, dtype
        self.B = np.ascontiguousarray(values, dtype=np.float64)

    def __repr__(self) -> str:
        return f"BilinearTensor(m={self.m}, p={self.p}, q={self.q})"

    def split(self, x: ArrayLike) -> tuple[Float, Float]:
        """u of shape (…, p) and v of shape (…, q), from x of shape (…, p + q)."""
        x = arguments.real_array(x, "x")
        if x.ndim == 0 or x.shape[-1] != self.n:
            raise ValueError(f"`x` must have shape (…, {self.n}), got {x.shape}.")
        return x[..., : self.p], x[..., self.p :]

    def measure(self, x: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`u^T B_i v` for x = [u; v], of shape (m,), or (m, b) for signals of shape (p + q, b)."""
        return self.balanced().measure(x, n_threads=n_threads)[:-1]

    def balanced(self) -> BalancedTensor:
        """The quadratic measurements of [u; v], and behind them that of the balance, which is 0."""
        return BalancedTensor(self.B, self.dtype)
