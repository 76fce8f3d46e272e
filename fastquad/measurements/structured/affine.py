"""Linear and constant terms beside the quadratic ones: `y_i = x^T A_i x + b_i^T x + c_i`, for every kind of A.

With one more coordinate whose value w is known this is a quadratic form again:

    x̃ = [x; w],   Ã'_i = [[Ã_i, b_i/2w], [b_i^T/2w, 0]],   x̃^T Ã'_i x̃ = x^T A_i x + b_i^T x

so everything that holds for quadratic measurements holds here, with one coordinate fixed. Because it is fixed, x and −x
differ. Any w would do; `w = rms(b)/2τ`, with τ the root mean square of the off-diagonal entries of Ã, makes the new
entries as large as the others, as methods for entries of one size assume.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements.base import Measurements, size
from fastquad.measurements.wrapped import WrappedTensor
from fastquad.typing import Float, Indices

# The number of rows and columns of the block from which the size of A's entries is estimated.
_SAMPLE = 16


class LiftedTensor(WrappedTensor):
    """`[[Ã_i, b_i/2w], [b_i^T/2w, 0]]`, n + 1 coordinates of which the last has the known value w."""

    def __init__(self, A: Measurements, border: Float, value: float) -> None:
        super().__init__(A, A.n + 1)
        self.border = border
        self.value, self.fixed = value, {A.n: value}

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.inner.nbytes + self.border.nbytes

    def share_of_rows(self, s: int) -> float:
        # Do not count the last coordinate, which is always among them: it is not in A.
        return self.inner.share_of_rows(max(0, s - 1))

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        return self._bordered(self.inner.matrices(start, stop), self.border[start:stop])

    def _bordered(self, inner: Float, border: Float) -> Float:
        """The matrices with their last row and column, (…, n + 1, n + 1)."""
        out = np.zeros((*inner.shape[:-2], self.n, self.n))
        out[..., :-1, :-1] = inner
        out[..., -1, :-1] = out[..., :-1, -1] = border
        return out

    def _part(self, start: int, stop: int) -> LiftedTensor:
        return LiftedTensor(self.inner._part(start, stop), self.border[start:stop], self.value)

    def _apply(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        W = np.empty((self.m, *x.shape)) if out is None else out
        inner = self.inner._apply(np.ascontiguousarray(x[:-1]), n_threads)
        if x.ndim == 1:
            np.add(inner, self.border * x[-1], out=W[:, :-1])
        else:
            np.add(inner, self.border[:, :, None] * x[-1], out=W[:, :-1])
        W[:, -1] = self.border @ x[:-1]
        return W

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """Dense, or None if that of the inner tensor is not: the border is in all measurements."""
        return "dense" if self.inner.gram_kind == "dense" else None

    def _measure(self, x: Float, n_threads: int) -> Float:
        inner = np.ascontiguousarray(x[:-1])
        return self.inner._measure(inner, n_threads) + 2 * (self.border @ inner) * x[-1]

    def _along(self, x: Float, v: Float, n_threads: int) -> Float:
        inner_x, inner_v = np.ascontiguousarray(x[:-1]), np.ascontiguousarray(v[:-1])
        of_inner = self.inner._along(inner_x, inner_v, n_threads)
        cross = (self.border @ inner_x)[:, None] * v[-1] if v.ndim == 2 else (self.border @ inner_x) * v[-1]
        return of_inner + 2 * (cross + x[-1] * (self.border @ inner_v))

    def _gradient(self, x: Float, w: Float, n_threads: int) -> Float:
        inner, border = np.ascontiguousarray(x[:-1]), w @ self.border
        of_inner = self.inner._gradient(inner, w, n_threads) + 2 * x[-1] * border
        return np.append(of_inner, 2 * (border @ inner))

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        return self._bordered(self.inner._weighted_sum(w, n_threads), w.T @ self.border)

    def _diagonals(self, n_threads: int) -> Float:
        return np.concatenate([self.inner._diagonals(n_threads), np.zeros((self.m, 1))], axis=1)

    def _rows(self, support: Indices, n_threads: int) -> Float:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        n = self.inner.n
        out = np.zeros((self.m, rows.size, cols.size))
        (inner_rows, last_rows), (inner_cols, last_cols) = (
            (np.flatnonzero(each < n), np.flatnonzero(each == n)) for each in (rows, cols)
        )
        if inner_rows.size and inner_cols.size:
            inner = self.inner._block(rows[inner_rows], cols[inner_cols], n_threads)
            out[:, inner_rows[:, None], inner_cols] = inner
        out[:, last_rows[:, None], inner_cols] = self.border[:, None, cols[inner_cols]]
        out[:, inner_rows[:, None], last_cols] = self.border[:, rows[inner_rows], None]
        return out

    def _compress(self, U: Float, n_threads: int) -> Float:
        inner = self.inner._compress(np.ascontiguousarray(U[:-1]), n_threads)
        cross = (self.border @ U[:-1])[:, :, None] * U[-1]
        return inner + cross + cross.transpose(0, 2, 1)

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        linear = 2 * (self.border @ z[:-1]) * z[-1]
        inner_z, inner_v = np.ascontiguousarray(z[:-1]), np.ascontiguousarray(v[:-1])
        r, S = self.inner._sweep(inner_z, inner_v, c - linear, n_threads)
        return r, self._bordered(S, r.T @ self.border)

    def _expect(self, rows: Indices, n_threads: int) -> None:
        self.inner._expect(rows[rows < self.inner.n], n_threads)

    def _identity(self) -> tuple[Any, ...]:
        return (*self.inner._identity(), self.border, self.value)


class AffineTensor:
    """Measurements with linear and constant terms, `y_i = x^T A_i x + b_i^T x + c_i`.

    The linear terms distinguish x from −x, so they determine the sign of the answer.

    Parameters
    ----------
    A : what `fastquad.solve` takes: array of shape (m, n, n), sparse matrices, Measurements …
    b : array of shape (m, n)
        Finite, and not all zero. Without linear terms, subtract c from y and solve with A.
    c : array of shape (m,), optional
        Default: zero.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> A = fq.AffineTensor(rng.standard_normal((60, 40, 40)), 2 * rng.standard_normal((60, 40)), np.ones(60))
    >>> x = np.zeros(40)
    >>> x[[3, 14, 27]] = 1.0, -1.0, 2.0
    >>> solution = fq.solve(A, fq.measure(A, x))
    >>> bool(np.linalg.norm(solution.x - x) < 1e-9)  # with its sign
    True
    """

    def __init__(self, A: Any, b: ArrayLike, c: ArrayLike | None = None) -> None:
        from fastquad.measurements.convert import as_measurements

        self.A = as_measurements(A)
        m, n = self.m, self.n = self.A.m, self.A.n
        self.b = arguments.real_array(b, "b")
        if self.b.shape != (m, n):
            raise ValueError(
                f"`b` must have shape ({m}, {n}), one vector for each of A's matrices, got {self.b.shape}."
            )
        if not self.b.any():
            raise ValueError("`b` must not be zero: subtract `c` from y, and solve with A itself.")
        self.c = np.zeros(m) if c is None else arguments.real_array(c, "c")
        if self.c.shape != (m,):
            raise ValueError(f"`c` must have shape ({m},), got {self.c.shape}.")

    def __repr__(self) -> str:
        kind = type(self.A).__name__
        return f"AffineTensor(m={self.m}, n={self.n}, {self.dtype}, {size(self.nbytes)}, A={kind})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, n)."""
        return self.A.shape

    def __len__(self) -> int:
        return self.m

    @property
    def dtype(self) -> np.dtype:
        """Of A."""
        return self.A.dtype

    @property
    def nbytes(self) -> int:
        """Of all terms."""
        return self.A.nbytes + self.b.nbytes + self.c.nbytes

    def measure(self, x: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`x^T A_i x + b_i^T x + c_i`, of shape (m,), or (m, b) for signals of shape (n, b)."""
        x = self.A._signal(x, "x")
        quadratic = self.A.measure(x, n_threads=n_threads)
        return quadratic + self.b @ x + (self.c if x.ndim == 1 else self.c[:, None])

    def lifted(self) -> LiftedTensor:
        """The quadratic measurements of [x; w]: the values are those of this tensor, without c."""
        chosen = np.random.default_rng(0).permutation(self.n)[:_SAMPLE]
        sample = self.A.block(chosen)
        apart = sample[:, ~np.eye(chosen.size, dtype=bool)]
        entry = float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0
        entry = entry or float(np.sqrt(np.mean(sample**2))) or np.sqrt(0.5)
        value = float(np.sqrt(np.mean(self.b**2))) / (2 * entry)
        return LiftedTensor(self.A, self.b / (2 * value), value)
