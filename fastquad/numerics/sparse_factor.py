"""`P G P^T = L D L^T` of sparse positive semidefinite matrices of one pattern, and their inverse on the pattern of L.

The order P is SuperLU's least degree on the pattern, found once, by a factor of one matrix; after that a factor takes
only its multiplications. Where a pivot is rounding, the coordinate is held: it is taken for known. So a singular matrix
has a factor too, that of the directions that it sees, and the coordinates that are held name those that it does not:
column j of `L^{-T}` is such a direction, because `G L^{-T} e_j = d_j L e_j`.

The inverse on the pattern of L needs no other entry of the inverse (Takahashi, Fagan and Chin 1973): from
`Z L = L^{-T} D^{-1}`, column by column from the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fastquad._kernels import ldl as kernels
from fastquad.numerics import lapack
from fastquad.typing import Float, Indices

# The share of a diagonal entry at which the pivot left of it is rounding: what 10,000 sums of doubles leave.
_ROUNDING = 1e-12


class Pattern:
    """The order of elimination for matrices of one pattern, and where L is not zero.

    Parameters
    ----------
    G : scipy.sparse.csc_array of shape (N, N)
        Symmetric, with sorted indices, positive semidefinite; only the pattern is kept.
    """

    def __init__(self, G: Any) -> None:
        self.N = G.shape[0]
        self.order = _order(G)
        place = np.empty(self.N, dtype=np.intp)
        place[self.order] = np.arange(self.N)
        column = np.repeat(np.arange(self.N), np.diff(G.indptr))
        row, column = place[G.indices], place[column]
        upper = np.flatnonzero(row <= column)
        upper = upper[np.lexsort((row[upper], column[upper]))]
        #: Which entries of a matrix make the upper half of the one in order.
        self.take = upper
        self.indices = row[upper].astype(np.intc)
        self.indptr = np.searchsorted(column[upper], np.arange(self.N + 1)).astype(np.intc)
        self.diagonal = np.flatnonzero(row[upper] == column[upper])
        self.parent, seen = np.empty((2, self.N), dtype=np.intc)
        self.starts = np.empty(self.N + 1, dtype=np.intp)
        kernels.tree(self.indptr, self.indices, self.parent, seen, self.starts)

    @property
    def fill(self) -> int:
        """How many entries L has below its diagonal."""
        return int(self.starts[-1])

    def factor(
        self, data: Float, damping: Float | None = None, held: Indices | None = None, rounding: float = _ROUNDING
    ) -> Factor:
        """The factor of the matrix with these entries, in the order of the pattern, plus a diagonal (N,).

        Coordinates in `held`, and those whose pivot is rounding, are held.
        """
        N, values = self.N, data[self.take]
        # A matrix may be damped; what rounding leaves of a pivot goes with the entry itself.
        least = rounding * np.abs(values[self.diagonal])
        if damping is not None:
            values[self.diagonal] += damping[self.order]
        if held is not None and held.size:
            given = np.zeros(N, dtype=bool)
            given[held] = True
            least[given[self.order]] = np.inf
        rows, L, inverse = np.empty(self.fill, dtype=np.intc), np.empty(self.fill), np.empty(N)
        seen, stack = np.empty((2, N), dtype=np.intc)
        count = kernels.factor(
            self.indptr, self.indices, values, least, self.parent, self.starts, rows, L, inverse, seen, stack,
            np.empty(N, dtype=np.intp), np.empty(N),
        )  # fmt: skip
        return Factor(self, rows, L, inverse, count)


@dataclass(frozen=True)
class Factor:
    """`L D L^T` of one matrix; `inverse` are the entries of 1/D, zero where a coordinate is held."""

    pattern: Pattern
    rows: Any
    L: Float
    inverse: Float
    count: int

    @cached_property
    def held(self) -> Indices:
        """The coordinates that are held."""
        return np.sort(self.pattern.order[self.inverse == 0]) if self.count else np.zeros(0, dtype=np.intp)

    def solve(self, b: Float) -> Float:
        """`G^{-1} b`, zero at the coordinates that are held."""
        x = b[self.pattern.order]
        kernels.solve(self.pattern.starts, self.rows, self.L, self.inverse, x)
        out = np.empty_like(x)
        out[self.pattern.order] = x
        return out

    def unseen(self, most: int | None = None) -> Float:
        """The directions of the coordinates that are held, (N, d): G takes them to rounding. At most `most` of them."""
        at = np.flatnonzero(self.inverse == 0)[:most]
        out = np.zeros((self.pattern.N, at.size))
        for column, place in enumerate(at):
            x = np.zeros(self.pattern.N)
            x[place] = 1.0
            kernels.back(self.pattern.starts, self.rows, self.L, x)
            # Other coordinates that are held are directions of their own.
            out[self.pattern.order, column] = x
        return out

    @cached_property
    def _selected(self) -> tuple[Float, Float]:
        N, pattern = self.pattern.N, self.pattern
        Z, diagonal = np.empty(pattern.fill), np.empty(N)
        kernels.inverse(
            pattern.starts, self.rows, self.L, self.inverse, Z, diagonal, np.empty(N), np.empty(N),
            np.empty(N, dtype=np.intc),
        )  # fmt: skip
        return Z, diagonal

    def inverse_diagonal(self) -> Float:
        """The diagonal of the inverse, (N,); zero at the coordinates that are held."""
        out = np.empty(self.pattern.N)
        out[self.pattern.order] = self._selected[1]
        return out

    def inverse_on_pattern(self) -> Any:
        """The inverse on the pattern of L, of its transpose and on the diagonal: a symmetric scipy.sparse.csr_array."""
        from scipy import sparse

        Z, diagonal = self._selected
        N, order = self.pattern.N, self.pattern.order
        column = order[np.repeat(np.arange(N), np.diff(self.pattern.starts))]
        row = order[self.rows]
        everything = (np.concatenate([row, column, order]), np.concatenate([column, row, order]))
        return sparse.csr_array((np.concatenate([Z, Z, diagonal]), everything), shape=(N, N))


@dataclass(frozen=True)
class DenseFactor:
    """The same of a dense matrix, by Cholesky on the coordinates that are not held."""

    N: int
    free: Indices
    L: Float

    @classmethod
    def of(cls, G: Float, damping: Float | None, held: Indices) -> DenseFactor:
        """The factor; coordinates are held as their pivots turn out to be rounding."""
        N = len(G)
        free = np.setdiff1d(np.arange(N), held)
        diagonal = np.abs(G.diagonal())
        free = free[diagonal[free] > 0]
        while True:
            part = G[np.ix_(free, free)]
            if damping is not None:
                part.reshape(-1)[:: free.size + 1] += damping[free]
            if not free.size:
                return cls(N, free, part)
            L, info = lapack.dpotrf(part.T, lower=1, clean=1)
            reached = free.size if info == 0 else info - 1
            small = np.flatnonzero(L.diagonal()[:reached] ** 2 <= _ROUNDING * diagonal[free[:reached]])
            if info == 0 and not small.size:
                return cls(N, free, L)
            free = np.delete(free, small[0] if small.size else info - 1)

    @property
    def held(self) -> Indices:
        """The coordinates that are held."""
        return np.setdiff1d(np.arange(self.N), self.free)

    def solve(self, b: Float) -> Float:
        """`G^{-1} b`, zero at the coordinates that are held."""
        out = np.zeros(self.N)
        if self.free.size:
            out[self.free] = lapack.dpotrs(self.L, b[self.free], lower=1)[0]
        return out

    def inverse_diagonal(self) -> Float:
        """The diagonal of the inverse, (N,); zero at the coordinates that are held."""
        out = np.zeros(self.N)
        if self.free.size:
            inverse = lapack.dtrtri(self.L, lower=1)[0]
            out[self.free] = np.einsum("ij,ij->j", inverse, inverse)
        return out

    def inverse_root(self) -> Float:
        """C with `C C^T` the inverse, (N, free); its rows are zero at the coordinates that are held."""
        out = np.zeros((self.N, self.free.size))
        if self.free.size:
            out[self.free] = lapack.dtrtri(self.L, lower=1)[0].T
        return out

    def inverse_on_pattern(self) -> Float:
        """The inverse, (N, N)."""
        out = np.zeros((self.N, self.N))
        if self.free.size:
            inverse = lapack.dtrtri(self.L, lower=1)[0]
            out[np.ix_(self.free, self.free)] = inverse.T @ inverse
        return out


@dataclass(frozen=True)
class Extended:
    """A factor, with the inverse on directions that are seen too weakly for it: `G^{-1} = F^{-1} + U U^T`.

    G itself knows `v^T G v` to the rounding of its entries alone. Of G = J^T J and a direction v that is orthogonal to
    what F has, `J v` knows it to twice the digits.

    Parameters
    ----------
    base : Factor or DenseFactor
        F, where some coordinates are held.
    U : array of shape (N, d)
        The directions, with d of these coordinates alone: `J^T J U` is zero at the coordinates that F has, and the
        columns of J U are orthonormal.
    """

    base: Factor | DenseFactor
    U: Float

    @classmethod
    def of(cls, base: Factor | DenseFactor, V: Float, images: Float) -> Extended:
        """The factor with directions V of whatever length, (N, d), whose images under J are these, (m, d)."""
        size = np.linalg.norm(images, axis=0)
        R: Any = np.linalg.qr(images / size, mode="r")
        return cls(base, np.linalg.solve(R.T, (V / size).T).T)

    def solve(self, b: Float) -> Float:
        """`G^{-1} b`, zero at the coordinates that are held."""
        return np.asarray(self.base.solve(b) + self.U @ (self.U.T @ b))

    def inverse_diagonal(self) -> Float:
        """The diagonal of the inverse, (N,)."""
        return self.base.inverse_diagonal() + np.einsum("ij,ij->i", self.U, self.U)

    def inverse_on_pattern(self) -> Any:
        """The inverse on the pattern of that of F."""
        Z = self.base.inverse_on_pattern()
        if isinstance(Z, np.ndarray):
            return Z + self.U @ self.U.T
        rows = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        Z.data += sum(column[rows] * column[Z.indices] for column in self.U.T)
        return Z


def _order(G: Any) -> Indices:
    """An order of elimination that keeps L sparse: least degree on the pattern."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    # The numbers do not matter: a matrix that is certainly regular has the same order.
    N = G.shape[0]
    column = np.repeat(np.arange(N), np.diff(G.indptr))
    data = np.where(G.indices == column, np.diff(G.indptr)[column] + 1.0, -1.0)
    like = sparse.csc_array((data, G.indices, G.indptr), shape=G.shape)
    lu = splu(like, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    # SuperLU's perm_c[j] is the place of column j.
    order = np.empty(N, dtype=np.intp)
    order[lu.perm_c] = np.arange(N)
    return order
