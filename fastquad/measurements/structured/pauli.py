"""Expectations of Pauli strings, `y_i = x^* P_i x`, as in the tomography of pure states; no matrix is stored.

A string of q letters I, X, Y, Z is a Kronecker product of 2×2 matrices. With two masks of q bits, x of its letters X
and Y, and z of its letters Z and Y, and with c = |x & z| letters Y,

    P = i^c X^x Z^z,    (P v)_{j ^ x} = i^c (−1)^{|z & j|} v_j,

one permutation of the entries with signs. So l^* P r is a sum of the products conj(l_{j ^ x}) r_j with the signs of z:
a coefficient of their Walsh–Hadamard transform. Strings with one x share the products, and by the leading bits of z
they share sums (kernels/pauli.h): a string costs n = 2^q additions or less, and all 4^q of them n² log n. The
transpose, Σ_i w_i P_i v, is the same tree read from its leaves. Memory is that of a few signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import pauli as kernels
from fastquad.measurements.base import Measurements
from fastquad.system import threads
from fastquad.typing import Float, Indices, Number

# The largest number of qubits: two masks fit in 32 bits with room to spare, and a signal has 16 million entries.
_MOST_QUBITS = 24
# Additions below which a chunk of strings is not worth a task of its own: about half a millisecond (guess).
_CHUNK = 1 << 20
# The most chunks: each of the transposed product has a sum of its own, of 16 n numbers.
_MOST_CHUNKS = 16
# The size in bytes of what dense answers take at a time.
_PIECE_BYTES = 4 << 20
# The largest n of which matrices are formed, to prove that a state is the only one: of 128, 4 s against 0.1 s.
_SMALL = 64
_LETTERS = "IXYZ"


class PauliTensor(Measurements):
    """Measurements `y_i = x^* P_i x` with Pauli strings P_i: tomography of a pure state of q qubits.

    x is the state vector, complex, of length n = 2^q. y_i is the expectation of a string, between −‖x‖² and ‖x‖².
    The norm ‖x‖ is not assumed to be 1: measure the string "I…I", whose expectation is ‖x‖² = 1, or give `solve`
    `norm=1`.

    Parameters
    ----------
    labels : list of m str
        Strings of the letters I, X, Y and Z, all of one length q. The first letter acts on the most significant bit of
        an index, so that "XZ" is `kron(X, Z)`: the order in which Qiskit writes labels. An object with a method
        `to_labels`, such as Qiskit's PauliList, works too.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> A = fq.PauliTensor(["ZI", "XX", "YY"])
    >>> A
    PauliTensor(m=3, n=4, complex128, 24 bytes, 2 qubits)
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> A.measure(bell).round(12).tolist()
    [0.0, 1.0, -1.0]
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = _labels(labels)
        self.qubits = len(self.labels[0])
        self.m, self.n, self.dtype = len(self.labels), 1 << self.qubits, np.dtype(np.complex128)
        letters = np.frombuffer("".join(self.labels).encode(), dtype=np.uint8).reshape(self.m, self.qubits)
        bits = np.uint32(1) << np.arange(self.qubits, dtype=np.uint32)[::-1]
        x = ((letters == ord("X")) | (letters == ord("Y"))) @ bits
        z = ((letters == ord("Z")) | (letters == ord("Y"))) @ bits
        #: The masks of each string: letters that flip a bit, and letters that give it a sign.
        self.x, self.z = x.astype(np.uint32), z.astype(np.uint32)
        count = np.bitwise_count(self.x & self.z).astype(np.intp)
        #: i^c, the factor of each string.
        self._factor = np.array([1, 1j, -1, -1j])[count % 4]
        self._order = np.lexsort((self.z, count % 2, self.x))
        self._set_groups(self.x[self._order], count[self._order] % 2)
        self._sorted_z = np.ascontiguousarray(self.z[self._order])
        # Re(i^c T) is ±Re T for even c and ∓Im T for odd c; i^c is ±1 or ±i.
        sign = np.where(count % 4 < 2, 1.0, -1.0)[self._order]
        self._form_sign = np.where(count[self._order] % 2, -sign, sign)
        self._sum_sign = sign

    def _set_groups(self, x: NDArray[np.uint32], odd: Indices) -> None:
        """The strings of each x, sorted: those with an even number of Y, then those with an odd one."""
        groups, first = np.unique(x, return_index=True)
        last = np.append(first[1:], x.size)
        evens = np.add.reduceat(1 - odd, first)
        self._groups = np.ascontiguousarray(groups)
        starts = np.empty(2 * groups.size + 1, dtype=np.intp)
        starts[:-1:2], starts[1::2], starts[-1] = first, first + evens, x.size
        self._starts = starts
        effort = np.cumsum((last - first + 4) * self.n)
        count = int(min(_MOST_CHUNKS, max(1, effort[-1] // _CHUNK)))
        bounds = np.searchsorted(effort, effort[-1] * np.arange(1, count) / count) + 1
        #: (first, last) of the groups of each chunk.
        self._chunks = [
            (int(start), int(stop))
            for start, stop in zip([0, *bounds], [*bounds, groups.size], strict=True)
            if start < stop
        ]

    def _about(self) -> tuple[str]:
        return (f"{self.qubits} qubit{'s' if self.qubits > 1 else ''}",)

    @property
    def matrix_free(self) -> bool:  # type: ignore[override]
        """Whether products of all strings take longer than the strings themselves: from 7 qubits on."""
        return self.n > _SMALL

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """Dense, or None if steps are made by conjugate gradients."""
        return None if self.matrix_free else "dense"

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads: two masks a string."""
        return 8 * self.m

    def _identity(self) -> tuple[Any, ...]:
        return "pauli", self.qubits, self.x, self.z

    def _part(self, start: int, stop: int) -> PauliTensor:
        return PauliTensor(self.labels[start:stop])

    def __reduce__(self) -> tuple[Any, ...]:
        return PauliTensor, (self.labels,)

    # -- by the tree of signs -----------------------------------------------------------------------------------------

    def _forms(self, left: Number, right: Number, n_threads: int) -> Float:
        """`Re l^* P_i r`, (m,), for l and r of shape (n,)."""
        copies = np.arange(min(8, self.n))[:, None] ^ np.arange(self.n)
        L = np.ascontiguousarray(np.stack([left.real[copies], left.imag[copies]], axis=1))
        R = np.ascontiguousarray(np.stack([right.real, right.imag]))
        out = np.empty(self.m)

        def task(first: int, last: int) -> None:
            work = np.empty(2 * self.n)
            kernels.forms(L, R, self._groups, self._starts, first, last, self._sorted_z, work, out)

        threads.run(task, self._chunks, n_threads)
        found = np.empty(self.m)
        found[self._order] = out * self._form_sign
        return found

    def _sums(self, w: Float, v: Number, n_threads: int) -> Number:
        """`Σ_i w_i P_i v`, (n,), for w of shape (m,) and v of shape (n,)."""
        block = min(8, self.n)
        V = np.ascontiguousarray(np.stack([v.real, v.imag]))
        weights = np.ascontiguousarray(w[self._order] * self._sum_sign)
        sums = np.zeros((len(self._chunks), block, 2, self.n))

        def task(number: int, first: int, last: int) -> None:
            work = np.empty(3 * self.n)
            kernels.gradient(V, self._groups, self._starts, first, last, self._sorted_z, weights, work, sums[number])

        threads.run(task, [(number, *chunk) for number, chunk in enumerate(self._chunks)], n_threads)
        total = sums.sum(axis=0)
        # Copy c of a sum is at j ^ c.
        places = np.arange(block)[:, None] ^ np.arange(self.n)
        gathered = np.take_along_axis(total, np.broadcast_to(places[:, None], total.shape), axis=2).sum(axis=0)
        return gathered[0] + 1j * gathered[1]

    def _measure(self, x: Number, n_threads: int) -> Float:
        if x.ndim == 1:
            return self._forms(x, x, n_threads)
        return _columns([self._forms(each, each, n_threads) for each in x.T])

    def _along(self, x: Number, v: Number, n_threads: int) -> Float:
        """`2 Re(x^* P_i v)`, (m,) or (m, b)."""
        if v.ndim == 1:
            return 2 * self._forms(x, v, n_threads)
        return _columns([2 * self._forms(x, each, n_threads) for each in v.T])

    def _gradient(self, x: Number, w: Float, n_threads: int) -> Number:
        """`2 Σ_i w_i P_i x`, (n,)."""
        return 2 * self._sums(w, x, n_threads)

    # -- by transforms of all signs -----------------------------------------------------------------------------------

    def _weighted_sum(self, w: Float, n_threads: int) -> Number:
        S = np.empty((w.shape[1], self.n, self.n), dtype=np.complex128)
        j = np.arange(self.n)
        for out, column in zip(S, w.T, strict=True):
            # T[z, x] = Σ i^c w_i; its transform by z has at j the entry S[j ^ x, j].
            T = np.zeros((self.n, self.n), dtype=np.complex128)
            np.add.at(T, (self.z, self.x), self._factor * column)
            _transform(T)
            for x in range(self.n):
                out[j ^ x, j] = T[:, x]
        return S

    def _sweep(self, z: Number, v: Float, c: Float, n_threads: int) -> tuple[Float, Number]:
        r = c - self._measure(z, n_threads)
        diagonal = np.flatnonzero(self.x == 0)
        if diagonal.size:
            values = np.array(v, dtype=np.float64)
            _transform(values)
            r[diagonal] -= values[self.z[diagonal]]
        return r, self._weighted_sum(r, n_threads)

    # -- entries ------------------------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return False

    def share_of_rows(self, s: int) -> float:
        return s / self.n

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return rows.size * cols.size / self.n**2

    def cost_of_diagonals(self) -> float:
        return 1 / self.n

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        out = np.zeros((stop - start, self.n, self.n), dtype=np.complex128)
        j = np.arange(self.n, dtype=np.uint32)
        for matrix, i in zip(out, range(start, stop), strict=True):
            matrix[j ^ self.x[i], j] = self._factor[i] * _signs(self.z[i : i + 1], j)[0]
        return out

    def _pieces(self, width: int) -> list[slice]:
        """Ranges of strings of which a dense answer with this many numbers each takes a few megabytes."""
        return [slice(*each) for each in threads.chunks(self.m, max(1, _PIECE_BYTES // (16 * width)))]

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        j = np.arange(self.n, dtype=np.uint32)
        for part in self._pieces(x.size):
            source = j ^ self.x[part, None]
            signed = self._factor[part, None] * _signs(self.z[part], source)
            W[part] = signed.reshape(*signed.shape, *[1] * (x.ndim - 1)) * x[source]

    def _compress(self, U: Number, n_threads: int) -> Number:
        out = np.empty((self.m, U.shape[1], U.shape[1]), dtype=np.complex128)
        j = np.arange(self.n, dtype=np.uint32)
        for part in self._pieces(U.size):
            source = j ^ self.x[part, None]
            W = (self._factor[part, None] * _signs(self.z[part], source))[:, :, None] * U[source]
            np.matmul(U.conj().T, W, out=out[part])
        return (out + out.transpose(0, 2, 1).conj()) / 2

    def _diagonals(self, n_threads: int) -> Float:
        d = np.zeros((self.m, self.n))
        diagonal = np.flatnonzero(self.x == 0)
        d[diagonal] = _signs(self.z[diagonal], np.arange(self.n, dtype=np.uint32))
        return d

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        out = np.zeros((self.m, rows.size, cols.size), dtype=np.complex128)
        columns = cols.astype(np.uint32)
        apart = rows.astype(np.uint32)[:, None] ^ columns
        for part in self._pieces(max(1, apart.size)):
            signed = self._factor[part, None] * _signs(self.z[part], columns)
            out[part] = np.where(apart == self.x[part, None, None], signed[:, None, :], 0)
        return out


def _signs(z: NDArray[np.uint32], j: NDArray[np.uint32]) -> Float:
    """`(−1)^{|z & j|}` for each z, (strings,), and its j, (n,) or (strings, n)."""
    return 1.0 - 2.0 * (np.bitwise_count(z[:, None] & j) & 1)


def _transform(a: Number) -> None:
    """The Walsh–Hadamard transform of the first axis, in place: `a_j ← Σ_z (−1)^{|z & j|} a_z`."""
    n, step = len(a), 1
    while step < n:
        pairs = a.reshape(n // (2 * step), 2, step, *a.shape[1:])
        low, high = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        pairs[:, 0], pairs[:, 1] = low, high
        step *= 2


def _columns(found: list[Float]) -> Float:
    """Vectors as the columns of a matrix."""
    return np.ascontiguousarray(np.stack(found, axis=1))


def _labels(labels: Any) -> list[str]:
    """Labels as a list of strings, checked."""
    if hasattr(labels, "to_labels"):
        labels = labels.to_labels()
    if isinstance(labels, str):
        raise TypeError(f"`labels` must be a list of strings, got one string: give [{labels!r}].")
    try:
        given = [str(label) if isinstance(label, np.str_) else label for label in labels]
    except TypeError:
        raise TypeError(f"`labels` must be a list of strings, got {type(labels).__name__}.") from None
    if not given:
        raise ValueError("`labels` must be at least one string, got an empty list.")
    for i, label in enumerate(given):
        if not isinstance(label, str):
            raise TypeError(f"`labels` must be strings such as 'XIZY', got {type(label).__name__} for label {i}.")
        wrong = label.strip(_LETTERS)
        if wrong or not label:
            way_out = "" if label.upper().strip(_LETTERS) else f": give {label.upper()!r}" if label else ""
            if label[:1] in "+-" or label[:1] == "i":
                way_out = ": leave the sign or the factor out, and change the sign of y"
            raise ValueError(f"`labels` must have the letters I, X, Y and Z, got {label!r} for label {i}{way_out}.")
        if len(label) != len(given[0]):
            raise ValueError(
                f"`labels` must have one length, got {given[0]!r} and {label!r} (label {i}): write I for what is not "
                "measured."
            )
    if len(given[0]) > _MOST_QUBITS:
        raise ValueError(f"`labels` must have at most {_MOST_QUBITS} letters, got {len(given[0])}.")
    return given
