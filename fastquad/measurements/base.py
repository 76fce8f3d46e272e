"""The interface of a kind of measurements: the contractions of A that solvers are built on.

Only the symmetric part `Ã_i = (A_i + A_i^T)/2` of a matrix matters to `x^T A_i x`, so every contraction but
`sided_products` is in terms of it. If `dtype` is complex it is the Hermitian part, `(A_i + A_i^*)/2`, and signals
are complex: transposes are conjugated, measurements `x^* Ã_i x` are real, and so are diagonals and weights. The public
methods check their arguments; a kind overrides the private ones. The implementations here need only
`matrices(start, stop)`: slow, but enough for a kind of measurements of your own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements.dense.layout import LANES, pack_block, packed_rows
from fastquad.numerics.gram import gram
from fastquad.system import threads
from fastquad.system.deadline import check
from fastquad.system.memory import budget
from fastquad.typing import Float, Indices, Number

if TYPE_CHECKING:
    from fastquad.numerics.transform import Transform

_BLOCK_BYTES = 32 << 20
#: A pass over no more than this is done by one thread.
_SMALL_BYTES = 1 << 20

_FLOAT64, _COMPLEX128 = np.dtype(np.float64), np.dtype(np.complex128)


class Measurements(ABC):
    """m symmetric n×n matrices `Ã_i`, Hermitian if `dtype` is complex, and their contractions.

    A subclass sets `m`, `n` and `dtype` and implements `matrices`. It overrides the underscored contractions for
    which it knows a faster way. Signals are vectors of shape (n,), or b of them as the columns of (n, b).

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> A = fq.as_measurements(np.ones((3, 2, 2)))
    >>> A
    RawTensor(m=3, n=2, float64, 96 bytes)
    >>> A.measure([1.0, 2.0])
    array([9., 9., 9.])
    >>> A.products([1.0, 2.0]).shape, A.weighted_sum([1.0, 0.0, 2.0]).shape
    ((3, 2), (2, 2))
    """

    m: int
    n: int
    dtype: np.dtype
    #: Whether the matrices are stored symmetric, so that `sided_products` are `products`.
    symmetric: bool = True
    #: The number of bytes read from disk so far.
    bytes_read: int = 0
    #: For the real view of a complex tensor: the label of the complex number that each coordinate belongs to, and the
    #: gauge, the transformation up to which x is known.
    groups: Indices | None = None
    gauge: str = "sign"
    #: The memory budget that the tensor was opened with, if any: see `fastquad.system.memory`.
    memory: int | None = None
    #: Coordinates of the signal with known values, and these values: see `fastquad.AffineTensor`.
    fixed: Mapping[int, float] = MappingProxyType({})
    #: Whether `A_i = B_i^T B_i` with a transform B that is quicker than a product with a stored B, and needs no memory.
    by_transform: bool = False
    #: The shape of the image that x is, flattened, if it is known to be one.
    shape_of_x: tuple[int, ...] | None = None
    #: How many coordinates come first that are multiplied with the others only; 0: no such. See `BilinearTensor`.
    bilinear: int = 0
    #: What `gram` answers with: a "dense" matrix, a "sparse" one, or None if it should not be asked, because `along`
    #: and `gradient` are far cheaper.
    gram_kind: str | None = "dense"
    #: Whether x is found and judged by these verbs, `along`, `gradient` and `gram`, rather than by products and blocks.
    by_verbs: bool = False
    #: Whether `measure`, `along` and `gradient` are all that A should be asked for: entries and products are far
    #: dearer.
    matrix_free: bool = False
    #: Whether they are all that A has, so that methods that need more are refused.
    only_verbs: bool = False
    #: Whether measurements are sums of squares, as intensities are.
    intensities: bool = False
    #: Where the matrices are if they are plain numbers, which may hide what they are: in "memory" or on "disk".
    numbers: str = ""
    #: Where A is read from, which tells what that costs: "memory", "disk", "cluster", or "computed".
    medium: str = "memory"

    @property
    def has_rows(self) -> bool:
        """Whether rows can be taken apart, and no method weighs them by itself."""
        by_others = self.by_verbs or self.by_transform or self.matrix_free or self.only_verbs
        return self._separate and not (by_others or self.bilinear)

    #: Whether each row is read by itself.
    _separate: bool = False

    @property
    def complex(self) -> bool:
        """Whether the matrices are Hermitian, and signals complex."""
        return self.dtype.kind == "c"

    @property
    def number(self) -> type[np.float64] | type[np.complex128]:
        """The type of signals and answers: float64 or complex128."""
        return np.complex128 if self.complex else np.float64

    def _check_range(self, start: int, stop: int) -> None:
        """Raise if these are not consecutive measurements."""
        if not 0 <= start <= stop <= self.m:
            raise ValueError(f"`start` and `stop` must have 0 <= start <= stop <= {self.m}, got {start} and {stop}.")

    @abstractmethod
    def matrices(self, start: int, stop: int) -> Number:
        """The matrices `Ã_i`, start <= i < stop, of shape (stop − start, n, n): float64, or complex128."""

    def __repr__(self) -> str:
        about = "".join(f", {said}" for said in self._about())
        return f"{type(self).__name__}(m={self.m}, n={self.n}, {self.dtype}, {size(self.nbytes)}{about})"

    def _about(self) -> Sequence[str]:
        """Further parts of the repr of a kind, such as "seed=0"."""
        return ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, n)."""
        return (self.m, self.n, self.n)

    def __len__(self) -> int:
        return self.m

    @property
    def symmetry(self) -> str:
        """What else leaves all measurements as they are, apart from the sign; `fastquad.distance` reads it."""
        return ""

    # -- as NumPy sees it ---------------------------------------------------------------------------------

    #: An operator of NumPy, such as `x @ A`, leaves the answer to this class.
    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Number:
        """The matrices `Ã_i` as one array of shape (m, n, n), if they fit in `memory`."""
        if self.only_verbs:
            raise TypeError(f"a {type(self).__name__} has no matrices: fastquad.pack(A) forms them.")
        if copy is False:
            raise ValueError("the matrices must be computed: numpy.asarray(A) does so, copy=False cannot.")
        needed, room = np.dtype(self.number).itemsize * self.m * self.n**2, self.memory or budget(None)
        if needed > room:
            raise MemoryError(
                f"the matrices need {size(needed)} as one array, and `memory` allows {size(room)}: A.matrices(i, j) "
                "gives a few at a time."
            )
        A = self.matrices(0, self.m)
        return A if dtype is None else A.astype(dtype)

    def __matmul__(self, x: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} is no matrix, and `@` is not defined for it: A.measure(x) gives y_i = x^* A_i x, "
            "A.products(x) the vectors A_i x."
        )

    __rmatmul__ = __matmul__

    # -- public: checks, then one call --------------------------------------------------------------------

    def products(
        self, x: ArrayLike, *, out: Number | None = None, precise: bool = True, n_threads: int | None = None
    ) -> Number:
        """`W[i] = Ã_i x`.

        One pass over A gives residual `W x − y`, gradient `W^T r / m` and Jacobian `2 W`. If few entries
        of x are nonzero, only their rows of A are read (see `reads_rows`).

        Parameters
        ----------
        x : array of shape (n,) or (n, b)
        out : array of the shape and dtype of W, optional
            Memory for W: allocating it costs as much as reading a small tensor.
        precise : bool
            False allows float arithmetic if the entries are stored as float32 or float16, with an error of about
            1e-7 of W: faster, and enough while a solve is far from its answer. float64 entries are always used in
            double.
        n_threads : int, optional
            Default: what `fastquad.set_num_threads` set, else the cores this process may use.

        Returns
        -------
        W : float64 (or complex128) array of shape (m, n) or (m, n, b)
        """
        x = self._signal(x, "x")
        # If a pass takes a microsecond, so does asking how many threads there are: it needs one.
        n_threads = 1 if n_threads is None and self.nbytes <= _SMALL_BYTES else threads.resolve(n_threads)
        if out is not None:
            _check_output(out, (self.m, *x.shape), self.number)
        apply = self._apply if precise else self._apply_single
        if x.ndim == 2 and x.shape[1] == 1:
            return apply(x[:, 0].copy(), n_threads, None if out is None else out[:, :, 0])[:, :, None]
        return apply(x, n_threads, out)

    def sided_products(self, x: ArrayLike, *, transpose: bool = False, n_threads: int | None = None) -> Number:
        """`A_i x`, or `A_i^T x` (`A_i^* x`), of the matrices as given; `products` if A is stored symmetric."""
        x = self._signal(x, "x")
        if x.ndim != 1:
            raise ValueError(f"`x` must have shape ({self.n},), got {x.shape}.")
        return self._sided_products(x, bool(transpose), threads.resolve(n_threads))

    def measure(self, x: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`y_i = x^T Ã_i x`, real, of shape (m,), or (m, b) for signals of shape (n, b)."""
        return self._measure(self._signal(x, "x"), threads.resolve(n_threads))

    def along(self, x: ArrayLike, v: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`2 Re(x^* Ã_i v)`, the derivative of the measurements of x in the direction v.

        Parameters
        ----------
        x : array of shape (n,)
        v : array of shape (n,) or (n, b)

        Returns
        -------
        float64 array of shape (m,) or (m, b)
        """
        return self._along(self._point(x), self._signal(v, "v"), threads.resolve(n_threads))

    def gradient(self, x: ArrayLike, w: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`g = 2 Σ_i w_i Ã_i x`, the adjoint of `along`: `Re(v^* g) = Σ_i w_i along(x, v)_i`.

        Parameters
        ----------
        x : array of shape (n,)
        w : array of shape (m,)

        Returns
        -------
        float64 (or complex128) array of shape (n,)
        """
        return self._gradient(self._point(x), self._of_measurements(w, "w"), threads.resolve(n_threads))

    def gram(self, x: ArrayLike, d: ArrayLike, r: ArrayLike, *, n_threads: int | None = None) -> tuple[Any, Number]:
        """`J^T diag(d) J` and `J^T diag(d) r`, with J the Jacobian of the measurements at x, `J v = along(x, v)`.

        Of complex signals these are in interleaved real coordinates, Re and Im of each entry in turn: N = 2n; else
        N = n. No m×n array is formed.

        Parameters
        ----------
        x : array of shape (n,)
        d, r : arrays of shape (m,)

        Returns
        -------
        G : float64 array of shape (N, N), or a scipy.sparse.csc_array if `gram_kind` is "sparse"
        g : float64 array of shape (N,)
        """
        d, r = self._of_measurements(d, "d"), self._of_measurements(r, "r")
        return self._gram(self._point(x), d, r, threads.resolve(n_threads))

    def weighted_sum(self, w: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`S = Σ_i w_i Ã_i`.

        Parameters
        ----------
        w : array of shape (m,) or (m, b)

        Returns
        -------
        S : float64 (or complex128) array of shape (n, n) or (b, n, n), symmetric (Hermitian)
        """
        w = _finite(w, "w")
        if w.ndim not in (1, 2) or w.shape[0] != self.m:
            raise ValueError(f"`w` must have shape ({self.m},) or ({self.m}, b), got {w.shape}.")
        S = self._weighted_sum(w.reshape(self.m, -1), threads.resolve(n_threads))
        return S[0] if w.ndim == 1 else S

    def diagonals(self, *, n_threads: int | None = None) -> Number:
        """`d[i] = diag(Ã_i)`, float64 of shape (m, n)."""
        return self._diagonals(threads.resolve(n_threads))

    def rows(self, support: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`Ã_i[S, :]`, of shape (m, s, n), in double precision, or in single if the entries are stored so."""
        return self._rows(self._indices(support, "support"), threads.resolve(n_threads))

    def block(self, rows: ArrayLike, cols: ArrayLike | None = None, *, n_threads: int | None = None) -> Number:
        """`Ã_i[S, T]`, in double precision, of shape (m, s, t); T = S unless given."""
        rows = self._indices(rows, "rows")
        cols = rows if cols is None else self._indices(cols, "cols")
        return self._block(rows, cols, threads.resolve(n_threads))

    def compress(self, U: ArrayLike, *, n_threads: int | None = None) -> Number:
        """`U^T Ã_i U` (`U^* Ã_i U`), of shape (m, p, p) for U of shape (n, p): a tensor, of a smaller problem."""
        U = self._signal(U, "U")
        if U.ndim != 2:
            raise ValueError(f"`U` must have shape ({self.n}, p), got {U.shape}.")
        check(2.0 * self.m * U.shape[1] ** 2)
        return self._compress(U, threads.resolve(n_threads))

    def sweep(
        self, z: ArrayLike, v: ArrayLike, c: ArrayLike, *, precise: bool = True, n_threads: int | None = None
    ) -> tuple[Number, Number]:
        """`r_i = c_i − <Ã_i, zz^T + diag(v)>` and `S = Σ_i r_i Ã_i`, with one read of A if a matrix fits in cache.

        Parameters
        ----------
        z, v : arrays of shape (n,) or (n, b); v is real
        c : array of shape (m,) or (m, b)
        precise : bool
            False allows float arithmetic, as in `products`.

        Returns
        -------
        r : float64 array of the shape of c
        S : float64 (or complex128) array of shape (n, n) or (b, n, n)
        """
        z, v, c = self._signal(z, "z"), self._signal(v, "v", np.float64), _finite(c, "c")
        if v.shape != z.shape:
            raise ValueError(f"`v` must have the shape of `z`, {z.shape}, got {v.shape}.")
        if c.shape != (self.m, *z.shape[1:]):
            raise ValueError(f"`c` must have shape {(self.m, *z.shape[1:])}, got {c.shape}.")
        n, m = self.n, self.m
        sweep = self._sweep if precise else self._sweep_single
        r, S = sweep(z.reshape(n, -1), v.reshape(n, -1), c.reshape(m, -1), threads.resolve(n_threads))
        return (r[:, 0], S[0]) if z.ndim == 1 else (r, S)

    def expect(self, rows: ArrayLike, *, n_threads: int | None = None) -> None:
        """Announce that these rows of every `Ã_i` will be needed, in parts.

        A tensor on disk reads them now, in one pass, and keeps them; others do nothing.
        """
        self._expect(self._indices(rows, "rows"), threads.resolve(n_threads))

    # -- costs ----------------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        """Whether `products` of a signal with `nnz` nonzeros reads only their rows."""
        return 4 * nnz <= self.n

    def signals_apart(self, count: int) -> bool:
        """Whether the products of so many signals take less time one by one, although each of them reads A."""
        return False

    def share_of_rows(self, s: int) -> float:
        """The share of A that s rows of every `Ã_i` hold."""
        return (s * self.n - s * (s - 1) / 2) / (self.n * (self.n + 1) / 2)

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        """The share of A that `Ã_i[S, T]` takes: here, of its distinct entries."""
        S, T = set(rows.tolist()), set(cols.tolist())
        both = len(S & T)
        # Pairs within the intersection are counted twice.
        return (len(S) * len(T) - both * (both - 1) // 2) / (self.n * (self.n + 1) / 2)

    def cost_of_products(self, nnz: int) -> float:
        """The cost of `products` of a signal with `nnz` nonzeros, in passes."""
        return self.share_of_rows(nnz) if self.reads_rows(nnz) else 1.0

    def cost_of_first_products(self, nnz: int, count: int) -> float:
        """The cost of `products` of a signal with `nnz` nonzeros by the first measurements alone, in passes."""
        part = self._first(count)
        return part.cost_of_products(nnz) * (part.nbytes / self.nbytes)

    def cost_of_diagonals(self) -> float:
        """The cost of `diagonals`, in passes."""
        return 2 / (self.n + 1)

    def sweep_passes(self) -> int:
        """How often `sweep` reads A."""
        return 1

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.m * self.n * (self.n + 1) // 2 * self.dtype.itemsize

    # -- private: what a kind overrides. Arguments are checked float64 arrays ---------------------------------

    def _blocks(self) -> Iterator[tuple[slice, Number]]:
        """(slice, matrices) in turn, a few at a time."""
        step = max(1, _BLOCK_BYTES // (np.dtype(self.number).itemsize * self.n * self.n))
        for start in range(0, self.m, step):
            stop = min(self.m, start + step)
            yield slice(start, stop), self.matrices(start, stop)

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        """`products` without the checks, which take a tenth of the time if A is small."""
        W = np.empty((self.m, *x.shape), dtype=self.number) if out is None else out
        nonzero = x if x.ndim == 1 else x.any(axis=1)
        if self.reads_rows(int(np.count_nonzero(nonzero))):
            support = np.flatnonzero(nonzero)
            self._products_on(support, x[support], W, n_threads)
        else:
            self._products(x, W, n_threads)
        return W

    def _apply_single(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        """`products` if float arithmetic is precise enough; a kind with float entries may be faster with it."""
        return self._apply(x, n_threads, out)

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        for part, A in self._blocks():
            check()
            np.matmul(A, x, out=W[part])

    def _products_on(self, support: Indices, values: Number, W: Number, n_threads: int) -> None:
        """`W[i] = Σ_{j in S} Ã_i[:, j] x_j`, from the rows of S alone; values = x[S]."""
        np.einsum("isj,s...->ij...", self._rows(support, n_threads).conj(), values, out=W)

    def _measure(self, x: Number, n_threads: int) -> Number:
        W = self.products(x, n_threads=n_threads)
        return (W @ x.conj() if x.ndim == 1 else np.einsum("ijs,js->is", W, x.conj())).real

    def _product_chunks(self, x: Number, n_threads: int) -> Iterator[tuple[slice, Number]]:
        """(slice, products of these measurements) in turn: of all of them if they are no more than a block."""
        step = LANES * max(1, _BLOCK_BYTES // (LANES * np.dtype(self.number).itemsize * x.size))
        if step >= self.m:
            yield slice(0, self.m), self._apply(x, n_threads)
            return
        for start in range(0, self.m, step):
            stop = min(self.m, start + step)
            yield slice(start, stop), self._part(start, stop)._apply(x, n_threads)

    def _along(self, x: Number, v: Number, n_threads: int) -> Number:
        return np.concatenate([along_of(W, v) for _, W in self._product_chunks(x, n_threads)])

    def _sizes(self, x: Number) -> Number:
        """The size of the terms of `x^* Ã_i x`, (m,), to which it is rounded: `|x|^T |Ã_i| |x|` if that is known."""
        z: Number = np.abs(self._measure(x, 1))
        return z + float(z.mean())

    def _edges(self) -> Edges | None:
        """The matrices as one sparse matrix, if they are stored so: see `Edges`."""
        return None

    def _gradient(self, x: Number, w: Number, n_threads: int) -> Number:
        g = np.zeros(self.n, dtype=self.number)
        for part, W in self._product_chunks(x, n_threads):
            g += gradient_of(W, w[part])
        return g

    def _gram(self, x: Number, d: Number, r: Number, n_threads: int) -> tuple[Any, Number]:
        N = self.n * (2 if self.complex else 1)
        G, g = np.zeros((N, N)), np.zeros(N)
        for part, W in self._product_chunks(x, n_threads):
            square, slope = gram_of(W, d[part], r[part])
            G += square
            g += slope
        return G, g

    def _sided_products(self, x: Number, transpose: bool, n_threads: int) -> Number:
        return self.products(x, n_threads=n_threads)

    def _weighted_sum(self, w: Number, n_threads: int) -> Number:
        S = np.zeros((w.shape[1], self.n, self.n), dtype=self.number)
        for part, A in self._blocks():
            S += np.tensordot(w[part].T, A, axes=1)
        return symmetrised(S)

    def _diagonals(self, n_threads: int) -> Number:
        return np.concatenate([np.einsum("ijj->ij", A).real for _, A in self._blocks()])

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return np.concatenate([A[:, support] for _, A in self._blocks()])

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return np.concatenate([A[:, rows[:, None], cols] for _, A in self._blocks()])

    def _cells(self, members: Indices, new: int, n_threads: int) -> Float:
        """`Ã_i[P, P]` of some coordinates P, −1 for none, in the packed layout, but only its first `new` rows."""
        rows, cols = np.flatnonzero(members[:new] >= 0), np.flatnonzero(members >= 0)
        block = self._block(members[rows], members[cols], n_threads)
        if rows.size == new and cols.size == members.size:
            return packed_rows(block)
        padded = np.zeros((self.m, new, members.size))
        padded[:, rows[:, None], cols] = block
        return packed_rows(padded)

    def _compress(self, U: Number, n_threads: int) -> Number:
        return np.concatenate([U.conj().T @ (A @ U) for _, A in self._blocks()])

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        r = c.copy()
        S = np.zeros((z.shape[1], self.n, self.n), dtype=self.number)
        for part, A in self._blocks():
            r[part] -= np.einsum("js,ijs->is", z.conj(), A @ z).real + np.einsum("ijj,js->is", A.real, v)
            S += np.tensordot(r[part].T, A, axes=1)
        return r, symmetrised(S)

    def _inner(self, D: Number, n_threads: int) -> Number:
        """`Re <Ã_i, D>`, (m,), for a symmetric (Hermitian) D (n, n): what `weighted_sum` is the transpose of."""
        flat = D.conj().reshape(-1)
        return np.concatenate([(A.reshape(len(A), -1) @ flat).real for _, A in self._blocks()])

    def _frobenius(self, n_threads: int) -> Number:
        """`‖Ã_i‖_F` or little more, (m,)."""
        return np.concatenate([frobenius(A) for _, A in self._blocks()])

    def _factors(self) -> Number:
        """B, (m, R, n), such that `x^T A_i x = ‖B_i x‖²`; R = 0 if A is not stored as such factors."""
        return np.empty((self.m, 0, self.n))

    def _transform(self, real: bool) -> Transform | None:
        """B as a fast transform, of real signals or of complex ones as Re and Im in turn, if there is one."""
        return None

    def _shifts(self) -> tuple[bool, Indices] | None:
        """Whether A shifts cyclically, and by which lags, (m,); None if it does not shift."""
        return None

    def _sweep_single(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        """`sweep` if float arithmetic is precise enough."""
        return self._sweep(z, v, c, n_threads)

    def _expect(self, rows: Indices, n_threads: int) -> None:
        return None

    def _identity(self) -> tuple[Any, ...]:
        """What distinguishes this tensor from another one: here, a sample of the entries of every matrix."""
        chosen = np.random.default_rng(0).permutation(self.n)[:16]
        return self.m, self.n, self.dtype.name, self.block(chosen)

    def _part(self, start: int, stop: int) -> Measurements:
        """The measurements start <= i < stop, as measurements of their own; start is a multiple of 8."""
        return _Part(self, start, stop)

    def _first(self, count: int) -> Measurements:
        """The first measurements; all of them if parts of their rows cannot be read without their matrices."""
        part = self._part(0, count)
        return self if isinstance(part, _Part) else part

    def _first_products(self, x: Number, count: int, n_threads: int) -> Number:
        """`products` of the first measurements, or of all."""
        return self._first(count).products(x, n_threads=n_threads)

    def _pack(self, block: int, out: Number) -> None:
        """The measurements 8 block, …, 8 block + 7 in the packed layout, (entries, 8), rounded to the dtype of out."""
        matrices = self.matrices(block * LANES, min(self.m, (block + 1) * LANES))
        pack_block(np.ascontiguousarray(matrices), out)

    # -- checks ---------------------------------------------------------------------------------------------

    def _signal(self, x: ArrayLike, name: str, number: type | None = None) -> Number:
        x = _finite(x, name, self.number if number is None else number)
        if x.ndim not in (1, 2) or x.shape[0] != self.n:
            raise ValueError(f"`{name}` must have shape ({self.n},) or ({self.n}, b), got {x.shape}.")
        return x

    def _point(self, x: ArrayLike) -> Number:
        """One signal."""
        x = self._signal(x, "x")
        if x.ndim != 1:
            raise ValueError(f"`x` must have shape ({self.n},), got {x.shape}.")
        return x

    def _of_measurements(self, value: ArrayLike, name: str) -> Number:
        """Real numbers, one for each measurement."""
        array = _finite(value, name)
        if array.shape != (self.m,):
            raise ValueError(f"`{name}` must have shape ({self.m},), got {array.shape}.")
        return array

    def _indices(self, support: ArrayLike, name: str) -> Indices:
        indices = np.asarray(support)
        if indices.ndim != 1 or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
            raise ValueError(f"`{name}` must be a list of integers, got {indices.dtype} of shape {indices.shape}.")
        if indices.size and (indices.min() < 0 or indices.max() >= self.n):
            raise ValueError(f"`{name}` must lie between 0 and {self.n - 1}, got {indices.min()} to {indices.max()}.")
        return np.ascontiguousarray(indices, dtype=np.intp)


class Edges(NamedTuple):
    """Measurements as linear ones of the products of the coordinates that they see together.

    `y = M t` with `t = (|x_1|², …, |x_n|², Re x̄_j x_k, Im x̄_j x_k)`: the real parts for all pairs j < k that some
    matrix has, and behind them the imaginary parts if signals are complex. M is a scipy.sparse.csr_array.
    """

    M: Any
    j: Indices
    k: Indices
    n: int
    complex: bool


class _Part(Measurements):
    """A range of consecutive measurements, given by their matrices."""

    def __init__(self, whole: Measurements, start: int, stop: int) -> None:
        self.whole, self.start = whole, start
        self.m, self.n, self.dtype = stop - start, whole.n, whole.dtype

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        return self.whole.matrices(self.start + start, self.start + stop)


def _check_output(out: Number, shape: tuple[int, ...], number: type) -> None:
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != number or not out.flags.c_contiguous:
        raise ValueError(f"`out` must be a C-contiguous {number.__name__} array of shape {shape}.")


def _finite(value: ArrayLike, name: str, number: type = np.float64) -> Number:
    """value as a C-contiguous array of float64 or complex128; an error if it is not real, or not finite."""
    # Handle the usual case first, in a quarter of the time: a sum of squares is finite only if all of them are. Masked
    # arrays take the slow path.
    if (
        type(value) is np.ndarray
        and value.dtype is (_FLOAT64 if number is np.float64 else _COMPLEX128)
        and value.flags.c_contiguous
        and math.isfinite(abs(value.dot(value) if value.ndim == 1 else np.vdot(value, value)))
    ):
        return value
    array = np.asarray(arguments.unmasked(value, name))
    arguments.check_numbers(array, name, complex_too=number is not np.float64)
    array = np.ascontiguousarray(array, dtype=number)
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, got NaN or inf.")
    return array


def along_of(W: Number, v: Number) -> Number:
    """`2 Re(W_i^* v)`, (m,) or (m, b), from the products W of x."""
    return 2 * (W.conj() @ v).real


def gradient_of(W: Number, w: Number) -> Number:
    """`2 Σ_i w_i W_i`, (n,), from the products W of x."""
    return 2 * (w @ W)


def gram_of(W: Number, d: Number, r: Number) -> tuple[Number, Number]:
    """`J^T diag(d) J` and `J^T diag(d) r` of the Jacobian J = 2 W in real coordinates; W is overwritten."""
    J = np.ascontiguousarray(W).view(np.float64)
    if d.min(initial=0.0) < 0:
        scaled = J * d[:, None]
        return 4 * (J.T @ scaled), 2 * (r @ scaled)
    roots = np.sqrt(d)
    if not (d == 1).all():
        J = np.multiply(J, roots[:, None], out=J if J.flags.writeable else None)
    return 4 * gram(J), 2 * ((roots * r) @ J)


def symmetrised(S: Number) -> Number:
    """`(S + S^T)/2` of a stack of matrices, or `(S + S^*)/2`."""
    S = S + S.transpose(0, 2, 1).conj()
    S /= 2
    return S


def frobenius(A: Number) -> Number:
    """The Frobenius norms of a stack of matrices."""
    flat = A.reshape(len(A), -1)
    return np.asarray(np.sqrt(np.vecdot(flat, flat).real))


def size(nbytes: int) -> str:
    """A number of bytes with its unit, such as "3.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes = nbytes / 1000  # type: ignore[assignment]
    return f"{nbytes:.3g} TB"
