"""The user's own complex array: (m, n, n), complex64 or complex128, in memory or mapped from disk, never copied.

For real y only the Hermitian part `H = (A + A^*)/2` of a matrix matters. Complex y are two Hermitian measurements each,

    Re y_i = x^* H_i x,    Im y_i = x^* K_i x,    K = (A − A^*)/2i = Herm(−iA),

of which one read gives both: `A x` and `A^* x` have the products of H and of K, and `Σ_i (w_i − i w'_i) A_i` has the
weighted sums. They stand in turn, H_1, K_1, H_2, …, so that the data are `y.view(float64)`.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import hermitian as kernels
from fastquad.measurements.base import symmetrised
from fastquad.measurements.dense.chunks import StoredTensor
from fastquad.measurements.dense.layout import LANES
from fastquad.system import threads
from fastquad.typing import Indices, Number

#: The size in bytes of what is added up at once, as doubles.
_PIECE_BYTES = 4 << 20


class ComplexTensor(StoredTensor):
    """Measurements on an (m, n, n) array of complex numbers as it is, Hermitian or not.

    With `both`, each matrix is two measurements: of its Hermitian part and of its skew-Hermitian part over i.
    """

    symmetric = False

    def __init__(self, array: Number, both: bool = False) -> None:
        # Frozen, so that nothing here can write to the user's data.
        self.array = array.view(np.ndarray)
        self.array.flags.writeable = False
        self.both = both
        self.m, self.n, self.dtype = len(array) * (1 + both), array.shape[1], array.dtype
        self._units, self._unit_bytes = len(array), self.n * self.n * self.dtype.itemsize
        self._numbers = self.array.view(self.array.real.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.array.nbytes

    def _parts(self, A: Number, mirrored: Number) -> Number:
        """The entries of the measurements from those of A and the mirrored ones of A^*, (matrices, …)."""
        H = (A.astype(np.complex128) + mirrored.conj()) / 2
        if not self.both:
            return H
        K = (A.astype(np.complex128) - mirrored.conj()) / 2j
        return np.stack([H, K], axis=1).reshape(2 * len(A), *A.shape[1:])

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        first, last = (start // 2, -(-stop // 2)) if self.both else (start, stop)
        A = self.array[first:last]
        parts = self._parts(A, A.transpose(0, 2, 1))
        offset = start - first * (1 + self.both)
        return parts[offset : offset + stop - start]

    def reads_rows(self, nnz: int) -> bool:
        # Each entry of a column is a cache line of its own, so gathering pays later than in the packed layout.
        return 64 // self.dtype.itemsize * nnz <= self.n

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        if x.ndim == 1:
            out = W.view(np.float64)
            self._run(kernels.raw_products, self._numbers, x.view(np.float64), out, self.both, n_threads=n_threads)
            return
        for s in range(x.shape[1]):
            one = np.empty((self.m, self.n), dtype=np.complex128)
            self._products(np.ascontiguousarray(x[:, s]), one, n_threads)
            W[:, :, s] = one

    def _sided_products(self, x: Number, transpose: bool, n_threads: int) -> Number:
        if self.both:
            return super()._sided_products(x, transpose, n_threads)
        right, left = np.empty((2, self.m, self.n), dtype=np.complex128)
        outs = right.view(np.float64), left.view(np.float64)
        self._run(kernels.sides, self._numbers, x.view(np.float64), *outs, n_threads=n_threads)
        return left if transpose else right

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        sums = self._new_sums(1, w.shape[1])[0]
        weights, flat = np.ascontiguousarray(w.T), self._numbers.reshape(self._units, -1)
        step = max(1, _PIECE_BYTES // (8 * self._units))

        def task(start: int, stop: int) -> None:
            piece = flat[:, start:stop].astype(np.float64, copy=False)
            sums.reshape(len(sums), -1)[:, start:stop] = self._each(weights) @ piece

        threads.run(task, threads.chunks(flat.shape[1], step), threads.worthwhile(n_threads, self.nbytes))
        return self._as_matrices(sums)

    def _each(self, w: Number) -> Number:
        """Weights of measurements (b, m) as those of matrices: with `both`, those of the H and then those of the K."""
        return np.concatenate([w[:, ::2], w[:, 1::2]]) if self.both else w

    def _diagonals(self, n_threads: int) -> Number:
        d = np.einsum("ijj->ij", self.array).astype(np.complex128)
        return np.stack([d.real, d.imag], axis=1).reshape(self.m, self.n) if self.both else d.real.copy()

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._parts(self.array[:, support], self.array[:, :, support].transpose(0, 2, 1))

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self._parts(self.array[:, rows[:, None], cols], self.array[:, cols, rows[:, None]])

    def _part(self, start: int, stop: int) -> ComplexTensor:
        step = 1 + self.both
        return ComplexTensor(self.array[start // step : stop // step], self.both)

    def _pack(self, block: int, out: Number) -> None:
        step = 1 + self.both
        A = self._numbers[block * LANES // step : (block + 1) * LANES // step]
        kernels.pack(A, out, len(A) * step, self.both)

    # -- the sweep ------------------------------------------------------------------------------------------

    @property
    def _sweep_bytes(self) -> int:
        return self._group * self._unit_bytes

    @property
    def _group(self) -> int:
        """Matrices whose residuals are computed before they are added up: as doubles, some megabytes."""
        return max(1, _PIECE_BYTES // (16 * self.n * self.n))

    def _aligned(self, z: Number, v: Number, c: Number) -> tuple[Number, Number, Number]:
        return np.ascontiguousarray(z.T), np.ascontiguousarray(v.T), np.array(c.T, order="C")

    def _new_sums(self, count: int, b: int) -> Number:
        return np.zeros((count, b * (1 + self.both), self.n, 2 * self.n))

    def _sweep_chunk(self, z: Number, v: Number, r: Number, sums: Number, start: int, stop: int) -> None:
        for first, last in threads.chunks(stop - start, self._group):
            self._add_to_sweep(z, v, r, sums, start + first, start + last)

    def _add_to_sweep(self, z: Number, v: Number, r: Number, sums: Number, start: int, stop: int) -> None:
        A = self._numbers[start:stop]
        step, q = 1 + self.both, np.empty((len(A), 2))
        for s in range(len(z)):
            kernels.raw_quadratic(A, z[s].view(np.float64), v[s], q, 0, len(A))
            r[s, step * start : step * stop] -= q.reshape(-1) if self.both else q[:, 0]
        piece = A.reshape(len(A), -1).astype(np.float64, copy=False)
        sums += (self._each(r[:, step * start : step * stop]) @ piece).reshape(sums.shape)

    def _as_matrices(self, sums: Number) -> Number:
        S = sums.view(np.complex128)
        if self.both:
            b = len(S) // 2
            S = S[:b] - 1j * S[b:]
        return symmetrised(S)

    def _quadratic(self, z: Number, v: Number, r: Number, n_threads: int) -> None:
        q = np.empty((self._units, 2))
        for s in range(len(z)):
            self._run(kernels.raw_quadratic, self._numbers, z[s].view(np.float64), v[s], q, n_threads=n_threads)
            r[s] -= q.reshape(-1) if self.both else q[:, 0]
