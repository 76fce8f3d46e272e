"""Complex measurements as real ones, and real ones as complex.

A Hermitian matrix is a real symmetric one of 2n interleaved coordinates, `z = x.view(float64)`: an entry h = p + iq
becomes the block [[p, −q], [q, p]], and `z^T R(H) z = x^* H x`. So every real method runs on it. No copy is made: the
contractions are those of H, viewed,

    products(z) = (H x).view(float64),    weighted_sum(w) = R(Σ w_i H_i),    diagonals: each h_jj twice.

Two attributes add what the real problem does not say: `groups`, that Re x_j and Im x_j belong together, and `gauge`,
that x is only known up to a phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastquad.measurements.base import Edges, Measurements
from fastquad.measurements.wrapped import WrappedTensor
from fastquad.numerics.transform import Transform
from fastquad.typing import Indices, Number


class View(WrappedTensor):
    """Measurements that are others seen in another way."""

    @property
    def _separate(self) -> bool:  # type: ignore[override]
        """Whether each row is read by itself, of matrices that are there."""
        return not isinstance(self.inner, View) and self.inner._separate

    def reads_rows(self, nnz: int) -> bool:
        return self.inner.reads_rows(nnz)

    def share_of_rows(self, s: int) -> float:
        return self.inner.share_of_rows(s)

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return self.inner.share_of_block(rows, cols)

    def cost_of_diagonals(self) -> float:
        return self.inner.cost_of_diagonals()

    @property
    def by_verbs(self) -> bool:  # type: ignore[override]
        """Whether the inner tensor is judged by the verbs of its Jacobian."""
        return self.inner.by_verbs

    @property
    def by_transform(self) -> bool:  # type: ignore[override]
        """Whether the inner tensor is given by a fast transform."""
        return self.inner.by_transform

    @property
    def symmetry(self) -> str:
        """What leaves all measurements as they are."""
        return self.inner.symmetry

    @property
    def shape_of_x(self) -> tuple[int, ...] | None:  # type: ignore[override]
        """The shape of the image that x is."""
        return self.inner.shape_of_x

    def _identity(self) -> tuple[Any, ...]:
        return (type(self).__name__, *self.inner._identity())

    def _expect(self, rows: Indices, n_threads: int) -> None:
        self.inner._expect(rows, n_threads)


class RealView(View):
    """Hermitian measurements as real symmetric ones of twice as many coordinates, Re and Im in turn."""

    def __init__(self, whole: Measurements, gauge: str = "phase") -> None:
        super().__init__(whole)
        self.n = 2 * whole.n
        self.dtype = np.zeros(0, dtype=whole.dtype).real.dtype
        self.gauge = gauge
        self.groups = np.repeat(np.arange(whole.n), 2)

    def matrices(self, start: int, stop: int) -> Number:
        return as_real(self.inner.matrices(start, stop))

    def reads_rows(self, nnz: int) -> bool:
        return self.inner.reads_rows(-(-nnz // 2))

    def share_of_rows(self, s: int) -> float:
        return self.inner.share_of_rows(-(-s // 2))

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return self.inner.share_of_block(np.unique(np.asarray(rows) // 2), np.unique(np.asarray(cols) // 2))

    def _part(self, start: int, stop: int) -> RealView:
        return RealView(self.inner._part(start, stop), self.gauge)

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        signals = np.ascontiguousarray(x.T).view(np.complex128)
        if x.ndim == 1:
            W = None if out is None else out.view(np.complex128)
            return self.inner._apply(signals, n_threads, W).view(np.float64)
        W = np.ascontiguousarray(self.inner._apply(np.ascontiguousarray(signals.T), n_threads).transpose(0, 2, 1))
        result = W.view(np.float64).transpose(0, 2, 1)
        if out is None:
            return np.ascontiguousarray(result)
        out[...] = result
        return out

    def _product_chunks(self, x: Number, n_threads: int) -> Iterator[tuple[slice, Number]]:
        signals = x.view(np.complex128) if x.ndim == 1 else _columns(x)
        for part, W in self.inner._product_chunks(signals, n_threads):
            if x.ndim == 1:
                yield part, np.ascontiguousarray(W).view(np.float64)
            else:
                pairs = np.ascontiguousarray(W.transpose(0, 2, 1)).view(np.float64)
                yield part, np.ascontiguousarray(pairs.transpose(0, 2, 1))

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        return self.inner._along(
            x.view(np.complex128), v.view(np.complex128) if v.ndim == 1 else _columns(v), n_threads
        )

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        return self.inner._gradient(x.view(np.complex128), w, n_threads).view(np.float64)

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        return self.inner._gram(x.view(np.complex128), d, r, n_threads)

    def _sizes(self, x: Number) -> Number:
        return self.inner._sizes(x.view(np.complex128))

    def _edges(self) -> Edges | None:
        return self.inner._edges()

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether the matrices are stored Hermitian."""
        return self.inner.symmetric

    def _sided_products(self, x: Number, transpose: bool, n_threads: int) -> Number:
        return self.inner._sided_products(x.view(np.complex128), transpose, n_threads).view(np.float64)

    def _measure(self, x: Number, n_threads: int) -> Number:
        return self.inner._measure(_columns(x), n_threads)

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return as_real(self.inner._weighted_sum(w, n_threads))

    def _inner(self, D: Number, n_threads: int) -> Number:
        # Of D only what is Hermitian counts.
        whole = D[::2, ::2] + D[1::2, 1::2] + 1j * (D[1::2, ::2] - D[::2, 1::2])
        return self.inner._inner(whole, n_threads)

    def _frobenius(self, n_threads: int) -> Number:
        return self.inner._frobenius(n_threads) * np.sqrt(2)

    def _diagonals(self, n_threads: int) -> Number:
        return np.repeat(self.inner._diagonals(n_threads), 2, axis=1)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        (some, at_row), (others, at_col) = (np.unique(each // 2, return_inverse=True) for each in (rows, cols))
        full = as_real(self.inner._block(some, others, n_threads))
        return full[:, (2 * at_row + rows % 2)[:, None], 2 * at_col + cols % 2]

    def _compress(self, U: Number, n_threads: int) -> Number:
        return self.inner._compress(_columns(U), n_threads).real

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r, S = self.inner._sweep(_columns(z), np.ascontiguousarray(v[::2] + v[1::2]), c, n_threads)
        return r, as_real(S)

    def _factors(self) -> Number:
        B = self.inner._factors()
        # Re and Im of b^T x are two real rows: (Re b, −Im b) and (Im b, Re b), in turn.
        real = np.empty((self.m, B.shape[1], 2, self.n // 2, 2))
        real[:, :, 0, :, 0] = real[:, :, 1, :, 1] = B.real
        real[:, :, 1, :, 0] = B.imag
        real[:, :, 0, :, 1] = -B.imag
        return real.reshape(self.m, -1, self.n)

    def _transform(self, real: bool) -> Transform | None:
        return self.inner._transform(real=False)

    def _expect(self, rows: Indices, n_threads: int) -> None:
        self.inner._expect(np.unique(rows // 2), n_threads)


class ComplexView(View):
    """Real symmetric measurements of complex signals: `x^* Ã_i x` with x = u + iv is `u^T Ã_i u + v^T Ã_i v`."""

    def __init__(self, whole: Measurements) -> None:
        super().__init__(whole)
        self.dtype = np.dtype(np.complex64 if whole.dtype.itemsize < 8 else np.complex128)

    def matrices(self, start: int, stop: int) -> Number:
        return self.inner.matrices(start, stop).astype(np.complex128)

    def _part(self, start: int, stop: int) -> ComplexView:
        return ComplexView(self.inner._part(start, stop))

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        W = np.empty((self.m, *x.shape), dtype=np.complex128) if out is None else out
        flat = x.reshape(self.n, -1)
        parts = self.inner._apply(np.ascontiguousarray(np.concatenate([flat.real, flat.imag], axis=1)), n_threads)
        b = flat.shape[1]
        W.real, W.imag = parts[:, :, :b].reshape(W.shape), parts[:, :, b:].reshape(W.shape)
        return W

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """Dense, or None where that of the inner tensor would be sparse."""
        return "dense" if self.inner.gram_kind == "dense" else None

    def _measure(self, x: Number, n_threads: int) -> Number:
        flat = x.reshape(self.n, -1)
        both = self.inner._measure(np.ascontiguousarray(np.concatenate([flat.real, flat.imag], axis=1)), n_threads)
        return (both[:, : flat.shape[1]] + both[:, flat.shape[1] :]).reshape(self.m, *x.shape[1:])

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        of_real, of_imag = (
            self.inner._along(np.ascontiguousarray(here), np.ascontiguousarray(there), n_threads)
            for here, there in ((x.real, v.real), (x.imag, v.imag))
        )
        return of_real + of_imag

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        of_real, of_imag = (self.inner._gradient(np.ascontiguousarray(each), w, n_threads) for each in (x.real, x.imag))
        return of_real + 1j * of_imag

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return self.inner._weighted_sum(w, n_threads).astype(np.complex128)

    def _inner(self, D: Number, n_threads: int) -> Number:
        return self.inner._inner(np.ascontiguousarray(D.real), n_threads)

    def _frobenius(self, n_threads: int) -> Number:
        return self.inner._frobenius(n_threads)

    def _diagonals(self, n_threads: int) -> Number:
        return self.inner._diagonals(n_threads)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self.inner._rows(support, n_threads).astype(self.dtype)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self.inner._block(rows, cols, n_threads).astype(np.complex128)

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        W = self._apply(np.ascontiguousarray(z), n_threads)
        r = c - np.einsum("ijs,js->is", W, z.conj()).real - self._diagonals(n_threads) @ v
        return r, self._weighted_sum(r, n_threads)

    def sweep_passes(self) -> int:
        return 2


class RealPart(View):
    """Hermitian measurements of real signals: only `Re H_i` matters."""

    def __init__(self, whole: Measurements) -> None:
        super().__init__(whole)
        self.dtype = np.zeros(0, dtype=whole.dtype).real.dtype

    def matrices(self, start: int, stop: int) -> Number:
        return self.inner.matrices(start, stop).real

    def _factors(self) -> Number:
        B = self.inner._factors()
        return np.concatenate([B.real, B.imag], axis=1)

    def _transform(self, real: bool) -> Transform | None:
        return self.inner._transform(real=True)

    def _part(self, start: int, stop: int) -> RealPart:
        return RealPart(self.inner._part(start, stop))

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        W = self.inner._apply(x.astype(np.complex128), n_threads).real
        if out is None:
            return np.ascontiguousarray(W)
        out[...] = W
        return out

    def _measure(self, x: Number, n_threads: int) -> Number:
        return self.inner._measure(x.astype(np.complex128), n_threads)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        return self.inner._along(x.astype(np.complex128), v.astype(np.complex128), n_threads)

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        return np.ascontiguousarray(self.inner._gradient(x.astype(np.complex128), w, n_threads).real)

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        if self.gram_kind != "sparse":
            return super()._gram(x, d, r, n_threads)
        G, g = self.inner._gram(x.astype(np.complex128), d, r, n_threads)
        return G[::2][:, ::2], np.ascontiguousarray(g[::2])

    def _sizes(self, x: Number) -> Number:
        return self.inner._sizes(x.astype(np.complex128))

    def _edges(self) -> Edges | None:
        edges = self.inner._edges()
        if edges is None:
            return None
        return Edges(edges.M[:, : edges.n + edges.j.size], edges.j, edges.k, edges.n, False)

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        return np.ascontiguousarray(self.inner._weighted_sum(w, n_threads).real)

    def _inner(self, D: Number, n_threads: int) -> Number:
        return self.inner._inner(D.astype(np.complex128), n_threads)

    def _frobenius(self, n_threads: int) -> Number:
        return self.inner._frobenius(n_threads)

    def _diagonals(self, n_threads: int) -> Number:
        return self.inner._diagonals(n_threads)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return np.ascontiguousarray(self.inner._rows(support, n_threads).real)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return np.ascontiguousarray(self.inner._block(rows, cols, n_threads).real)

    def _compress(self, U: Number, n_threads: int) -> Number:
        return np.ascontiguousarray(self.inner._compress(U.astype(np.complex128), n_threads).real)

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r, S = self.inner._sweep(np.ascontiguousarray(z, dtype=np.complex128), v, c, n_threads)
        return r, np.ascontiguousarray(S.real)


def as_real(H: Number) -> Number:
    """The real matrices of Hermitian ones (or of blocks of them): entries h = p + iq become [[p, −q], [q, p]]."""
    *stack, s, t = H.shape
    R = np.empty((*stack, s, 2, t, 2), dtype=H.real.dtype)
    R[..., 0, :, 0] = R[..., 1, :, 1] = H.real
    R[..., 1, :, 0] = H.imag
    np.negative(H.imag, out=R[..., 0, :, 1])
    return R.reshape(*stack, 2 * s, 2 * t)


def _columns(x: Number) -> Number:
    """Interleaved signals, the columns of (2n, b), as complex columns (n, b)."""
    return np.ascontiguousarray(np.ascontiguousarray(x.T).view(np.complex128).T)
