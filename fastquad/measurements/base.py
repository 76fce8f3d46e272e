"""What a kind of measurements can do: the contractions of A that solvers are written on.

Only the symmetric part `Ã_i = (A_i + A_i^T)/2` of a matrix matters to `x^T A_i x`, so every contraction but
`sided_products` is in terms of it. The public methods check their arguments; a kind overrides the private
ones. The implementations here need nothing but `matrices(start, stop)`: they are what a user's own kind of
measurements starts from, and slow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastquad import parallel
from fastquad._kernels import stored

Float = NDArray[np.floating]

_BLOCK_BYTES = 32 << 20


class Measurements(ABC):
    """m symmetric n×n matrices `Ã_i`, and their contractions.

    A subclass sets `m`, `n` and `dtype` and implements `matrices`; it overrides the underscored contractions
    where it knows a faster way. Signals are vectors of shape (n,), or b of them as the columns of (n, b).
    """

    m: int
    n: int
    dtype: np.dtype
    #: Bytes that were read from a disk so far.
    bytes_read: int = 0
    #: The budget that it was opened with, where it was: see `fastquad.memory`.
    memory: int | None = None

    @abstractmethod
    def matrices(self, start: int, stop: int) -> Float:
        """The symmetric matrices `Ã_i`, start <= i < stop, as a float64 array of shape (stop − start, n, n)."""

    # -- public: checks, then one call --------------------------------------------------------------------

    def products(self, x: ArrayLike, *, out: Float | None = None, n_threads: int | None = None) -> Float:
        """`W[i] = Ã_i x`.

        One pass over A gives residual `W x − y`, gradient `W^T r / m` and Jacobian `2 W`. Where few entries
        of x are nonzero, only their rows of A are read (see `reads_rows`).

        Parameters
        ----------
        x : array of shape (n,) or (n, b)
        out : float64 array of the shape of W, optional
            Where to put W: new memory costs as much as reading a small tensor.
        n_threads : int, optional
            Default: what `fastquad.set_num_threads` set, else the cores this process may use.

        Returns
        -------
        W : float64 array of shape (m, n) or (m, n, b)
        """
        x = self._signal(x, "x")
        n_threads = parallel.resolve(n_threads)
        if out is not None:
            _check_output(out, (self.m, *x.shape))
        if x.ndim == 2 and x.shape[1] == 1:
            return self._apply(x[:, 0].copy(), n_threads, None if out is None else out[:, :, 0])[:, :, None]
        return self._apply(x, n_threads, out)

    def sided_products(self, x: ArrayLike, *, transpose: bool = False, n_threads: int | None = None) -> Float:
        """`A_i x`, or `A_i^T x`, of the matrices as given; the same as `products` where A is stored symmetric."""
        x = self._signal(x, "x")
        if x.ndim != 1:
            raise ValueError(f"`x` must have shape ({self.n},), got {x.shape}.")
        return self._sided_products(x, bool(transpose), parallel.resolve(n_threads))

    def measure(self, x: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`y_i = x^T A_i x`, of shape (m,), or (m, b) for signals of shape (n, b)."""
        return self._measure(self._signal(x, "x"), parallel.resolve(n_threads))

    def weighted_sum(self, w: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`S = Σ_i w_i Ã_i`.

        Parameters
        ----------
        w : array of shape (m,) or (m, b)

        Returns
        -------
        S : float64 array of shape (n, n) or (b, n, n), symmetric
        """
        w = _finite(w, "w")
        if w.ndim not in (1, 2) or w.shape[0] != self.m:
            raise ValueError(f"`w` must have shape ({self.m},) or ({self.m}, b), got {w.shape}.")
        S = self._weighted_sum(w.reshape(self.m, -1), parallel.resolve(n_threads))
        return S[0] if w.ndim == 1 else S

    def diagonals(self, *, n_threads: int | None = None) -> Float:
        """`d[i] = diag(A_i)`, float64 of shape (m, n)."""
        return self._diagonals(parallel.resolve(n_threads))

    def rows(self, support: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`Ã_i[S, :]`, of shape (m, s, n): float64, or float32 where the entries are stored so."""
        return self._rows(self._indices(support, "support"), parallel.resolve(n_threads))

    def block(self, rows: ArrayLike, cols: ArrayLike | None = None, *, n_threads: int | None = None) -> Float:
        """`Ã_i[S, T]`, float64 of shape (m, s, t); T = S unless given."""
        rows = self._indices(rows, "rows")
        cols = rows if cols is None else self._indices(cols, "cols")
        return self._block(rows, cols, parallel.resolve(n_threads))

    def compress(self, U: ArrayLike, *, n_threads: int | None = None) -> Float:
        """`U^T Ã_i U`, float64 of shape (m, p, p) for U of shape (n, p): itself a tensor, of a smaller problem."""
        U = self._signal(U, "U")
        if U.ndim != 2:
            raise ValueError(f"`U` must have shape ({self.n}, p), got {U.shape}.")
        return self._compress(U, parallel.resolve(n_threads))

    def sweep(self, z: ArrayLike, v: ArrayLike, c: ArrayLike, *, n_threads: int | None = None) -> tuple[Float, Float]:
        """`r_i = c_i − <Ã_i, zz^T + diag(v)>` and `S = Σ_i r_i Ã_i`, with one read of A where a matrix fits in cache.

        Parameters
        ----------
        z, v : arrays of shape (n,) or (n, b)
        c : array of shape (m,) or (m, b)

        Returns
        -------
        r : float64 array of the shape of c
        S : float64 array of shape (n, n) or (b, n, n)
        """
        z, v, c = self._signal(z, "z"), self._signal(v, "v"), _finite(c, "c")
        if v.shape != z.shape:
            raise ValueError(f"`v` must have the shape of `z`, {z.shape}, got {v.shape}.")
        if c.shape != (self.m, *z.shape[1:]):
            raise ValueError(f"`c` must have shape {(self.m, *z.shape[1:])}, got {c.shape}.")
        n, m = self.n, self.m
        r, S = self._sweep(z.reshape(n, -1), v.reshape(n, -1), c.reshape(m, -1), parallel.resolve(n_threads))
        return (r[:, 0], S[0]) if z.ndim == 1 else (r, S)

    def expect(self, rows: ArrayLike, *, n_threads: int | None = None) -> None:
        """Say that these rows of every `Ã_i` are going to be asked for, in parts.

        A tensor on disk reads them now, at once, and keeps them; for others there is nothing to do.
        """
        self._expect(self._indices(rows, "rows"), parallel.resolve(n_threads))

    # -- what a read costs ----------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        """Whether `products` of a signal with `nnz` nonzeros reads their rows alone."""
        return 4 * nnz <= self.n

    def share_of_rows(self, s: int) -> float:
        """The share of A's distinct entries that s rows of every `Ã_i` hold."""
        return (s * self.n - s * (s - 1) / 2) / (self.n * (self.n + 1) / 2)

    def sweep_passes(self) -> int:
        """How often `sweep` reads A."""
        return 1

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.m * self.n * (self.n + 1) // 2 * self.dtype.itemsize

    # -- private: what a kind overrides. Arguments are checked float64 arrays ---------------------------------

    def _blocks(self) -> Iterator[tuple[slice, Float]]:
        """(slice, matrices) in turn, a few at a time."""
        step = max(1, _BLOCK_BYTES // (8 * self.n * self.n))
        for start in range(0, self.m, step):
            stop = min(self.m, start + step)
            yield slice(start, stop), self.matrices(start, stop)

    def _apply(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        """`products` without the checks, which take a tenth of the time where A is small."""
        W = np.empty((self.m, *x.shape)) if out is None else out
        nonzero = x if x.ndim == 1 else x.any(axis=1)
        if self.reads_rows(int(np.count_nonzero(nonzero))):
            support = np.flatnonzero(nonzero)
            self._products_on(support, x[support], W, n_threads)
        else:
            self._products(x, W, n_threads)
        return W

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        for part, A in self._blocks():
            np.matmul(A, x, out=W[part])

    def _products_on(self, support: NDArray[np.intp], values: Float, W: Float, n_threads: int) -> None:
        """`W[i] = Σ_{j in S} Ã_i[:, j] x_j`, from the rows of S alone; values = x[S]."""
        np.einsum("isj,s...->ij...", self._rows(support, n_threads), values, out=W)

    def _measure(self, x: Float, n_threads: int) -> Float:
        W = self.products(x, n_threads=n_threads)
        return W @ x if x.ndim == 1 else np.einsum("ijs,js->is", W, x)

    def _sided_products(self, x: Float, transpose: bool, n_threads: int) -> Float:
        return self.products(x, n_threads=n_threads)

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        S = np.zeros((w.shape[1], self.n, self.n))
        for part, A in self._blocks():
            S += np.tensordot(w[part].T, A, axes=1)
        return symmetrised(S)

    def _diagonals(self, n_threads: int) -> Float:
        return np.concatenate([np.einsum("ijj->ij", A) for _, A in self._blocks()])

    def _rows(self, support: NDArray[np.intp], n_threads: int) -> Float:
        return np.concatenate([A[:, support] for _, A in self._blocks()])

    def _block(self, rows: NDArray[np.intp], cols: NDArray[np.intp], n_threads: int) -> Float:
        return np.concatenate([A[:, rows[:, None], cols] for _, A in self._blocks()])

    def _compress(self, U: Float, n_threads: int) -> Float:
        return np.concatenate([U.T @ (A @ U) for _, A in self._blocks()])

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r = c.copy()
        S = np.zeros((z.shape[1], self.n, self.n))
        for part, A in self._blocks():
            r[part] -= np.einsum("js,ijs->is", z, A @ z) + np.einsum("ijj,js->is", A, v)
            S += np.tensordot(r[part].T, A, axes=1)
        return r, symmetrised(S)

    def _expect(self, rows: NDArray[np.intp], n_threads: int) -> None:
        return None

    def _identity(self) -> tuple:
        """What tells this tensor from another one: here, a sample of the entries of every matrix."""
        chosen = np.random.default_rng(0).permutation(self.n)[:16]
        return self.m, self.n, self.dtype.name, self.block(chosen)

    def _part(self, start: int, stop: int) -> Measurements:
        """The measurements start <= i < stop, as measurements of their own; start is a multiple of 8."""
        return _Part(self, start, stop)

    def _pack(self, block: int, out: Float) -> None:
        """The measurements 8 block, …, 8 block + 7 in the packed layout, (entries, 8), rounded to the dtype of out."""
        matrices = self.matrices(block * stored.lanes, min(self.m, (block + 1) * stored.lanes))
        stored.pack(np.ascontiguousarray(matrices), out[None], 0, 1)

    # -- checks ---------------------------------------------------------------------------------------------

    def _signal(self, x: ArrayLike, name: str) -> Float:
        x = _finite(x, name)
        if x.ndim not in (1, 2) or x.shape[0] != self.n:
            raise ValueError(f"`{name}` must have shape ({self.n},) or ({self.n}, b), got {x.shape}.")
        return x

    def _indices(self, support: ArrayLike, name: str) -> NDArray[np.intp]:
        indices = np.asarray(support)
        if indices.ndim != 1 or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
            raise ValueError(f"`{name}` must be a list of integers, got {indices.dtype} of shape {indices.shape}.")
        if indices.size and (indices.min() < 0 or indices.max() >= self.n):
            raise ValueError(f"`{name}` must lie between 0 and {self.n - 1}, got {indices.min()} to {indices.max()}.")
        return np.ascontiguousarray(indices, dtype=np.intp)


class _Part(Measurements):
    """Consecutive ones of some measurements, by their matrices."""

    def __init__(self, whole: Measurements, start: int, stop: int) -> None:
        self.whole, self.start = whole, start
        self.m, self.n, self.dtype = stop - start, whole.n, whole.dtype

    def matrices(self, start: int, stop: int) -> Float:
        return self.whole.matrices(self.start + start, self.start + stop)


def _check_output(out: Float, shape: tuple[int, ...]) -> None:
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
        raise ValueError(f"`out` must be a C-contiguous float64 array of shape {shape}.")


def _finite(value: ArrayLike, name: str) -> Float:
    """value as a C-contiguous float64 array; an error where it is not real and finite."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, got NaN or inf.")
    return array


def symmetrised(S: Float) -> Float:
    """`(S + S^T)/2` of a stack of matrices."""
    S = S + S.transpose(0, 2, 1)
    S /= 2
    return S
