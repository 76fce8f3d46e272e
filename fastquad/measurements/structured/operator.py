"""Measurements that are a user's functions: the measurements of x, and their derivative forwards and backwards.

The measurements are `z(x) = (x^* Ã_i x)_i`, and J v = 2 Re(x^* Ã_i v) their derivative in the direction v. What is
homogeneous of degree two is known by its values: `J v = (z(x + v) − z(x − v))/2` exactly, and `J^T w` by J of each unit
vector.

Levenberg–Marquardt, the start and the verdict need no more. A matrix, or a product `Ã_i x`, takes as many calls as it
has entries of one measurement: a small problem may ask for them, and each call is counted as a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad import arguments
from fastquad.measurements.base import Measurements, symmetrised
from fastquad.typing import Float, Indices, Number


class OperatorTensor(Measurements):
    """Measurements `y_i = x^* A_i x` by functions of your own; no matrix A_i is known.

    Parameters
    ----------
    measure : function
        `measure(x)` gives the m real numbers `x^* A_i x` for x of shape (n,).
    jvp : function, optional
        `jvp(x, v)` gives `2 Re(x^* A_i v)`, (m,): the derivative of the measurements in the direction v. Default: the
        difference of two measurements, which is exact because they are quadratic forms.
    vjp : function, optional
        `vjp(x, w)` gives `2 Σ_i w_i A_i x`, (n,), the gradient of `Σ_i w_i measure(x)_i`. It is paired with v by
        `Re(v^* vjp(x, w))`. The vjp of JAX is the conjugate of this. Without it, a gradient takes n calls of
        `jvp`, or 2n for complex signals.
    m, n : int
        How many measurements there are, and the length of x.
    dtype : float32, float64, complex64 or complex128
        The dtype in which the functions get x: complex for complex signals, single if they compute in single precision.

    Notes
    -----
    The functions are called one signal at a time and in the thread that called `solve`, with copies that they may write
    to. Their answers must have the right shape and be finite. One call counts as one pass.

    `solve` takes the default method and `"lm"`. Other methods need the entries of A: `fastquad.pack` computes them,
    with n² calls or more.

    `fastquad.testing.check_gradient` compares the three functions with each other.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> B = np.random.default_rng(0).standard_normal((60, 12))
    >>> A = fq.OperatorTensor(
    ...     lambda x: (B @ x) ** 2,
    ...     lambda x, v: 2 * (B @ x) * (B @ v),
    ...     lambda x, w: 2 * B.T @ (w * (B @ x)),
    ...     m=60, n=12,
    ... )
    >>> fq.testing.check_gradient(A).ok
    True
    >>> x = np.arange(12.0)
    >>> bool(fq.distance(fq.solve(A, A.measure(x)).x, x) < 1e-9)
    True
    """

    matrix_free = only_verbs = True
    gram_kind = None

    def __init__(
        self,
        measure: Callable[[Any], Any],
        jvp: Callable[[Any, Any], Any] | None = None,
        vjp: Callable[[Any, Any], Any] | None = None,
        *,
        m: int,
        n: int,
        dtype: DTypeLike = float,
    ) -> None:
        for name, function, needed in (("measure", measure, True), ("jvp", jvp, False), ("vjp", vjp, False)):
            if not callable(function) and (needed or function is not None):
                raise TypeError(f"`{name}` must be a function, got {type(function).__name__}.")
        self.m, self.n, self.dtype = arguments.count(m, "m"), arguments.count(n, "n"), np.dtype(dtype)
        if self.dtype.char not in "fdFD":
            raise TypeError(f"`dtype` must be float32, float64, complex64 or complex128, got {self.dtype}.")
        self._functions = {"measure": measure, "jvp": jvp, "vjp": vjp}

    @classmethod
    def from_linear_operator(cls, B: Any, *, dtype: DTypeLike | None = None) -> OperatorTensor:
        """`y = |B x|²` for a linear operator B of SciPy or PyLops, or whatever has `shape`, `matvec` and `rmatvec`.

        Parameters
        ----------
        B : linear operator of shape (m, n)
        dtype : dtype, optional
            That of x. Default: that of B.

        Examples
        --------
        >>> import numpy as np, fastquad as fq
        >>> from scipy.sparse.linalg import aslinearoperator
        >>> B = np.random.default_rng(0).standard_normal((50, 10))
        >>> fq.OperatorTensor.from_linear_operator(aslinearoperator(B))
        OperatorTensor(m=50, n=10, float64, 480 bytes)
        """
        from fastquad.measurements.adaptors import linear_operator

        return cls(**linear_operator(B, dtype))

    @classmethod
    def from_jax(cls, function: Callable[[Any], Any], n: int, *, dtype: DTypeLike | None = None) -> OperatorTensor:
        """Measurements by a function of JAX, `function(x)` of shape (m,), which JAX differentiates and compiles.

        Parameters
        ----------
        function : function
            A quadratic form of x, (n,), for each measurement; real.
        n : int
            The length of x.
        dtype : dtype, optional
            That of x: complex for complex signals. Default: JAX's real numbers, of single precision unless its
            `jax_enable_x64` is set.
        """
        from fastquad.measurements.adaptors import jax_function

        return cls(**jax_function(function, n, dtype))

    @classmethod
    def from_deepinv(cls, physics: Any, shape: tuple[int, ...], *, dtype: DTypeLike | None = None) -> OperatorTensor:
        """Measurements by a `deepinv` physics with `A` and `A_vjp`, such as its phase retrieval, for images of a shape.

        Parameters
        ----------
        physics : deepinv.physics.Physics
            Its `A` must be quadratic in the image.
        shape : tuple of int
            The shape of an image, without the batch: (channels, height, width). x is the image, flattened.
        dtype : dtype, optional
            That of the image. Default: complex64, as in phase retrieval.
        """
        from fastquad.measurements.adaptors import deepinv_physics

        return cls(**deepinv_physics(physics, shape, dtype))

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads: here, a signal and its measurements."""
        return 8 * self.m + self.dtype.itemsize * self.n

    def _identity(self) -> tuple[Any, ...]:
        # A function has no name that says what it computes: its values on a signal that is always the same do.
        rng = np.random.default_rng(0)
        x = rng.standard_normal(self.n) + (1j * rng.standard_normal(self.n) if self.complex else 0)
        return "operator", self.m, self.n, self.dtype.name, self._measure(x, 1)

    # -- calls of the user's functions --------------------------------------------------------------------------------

    def _call(self, name: str, size: int, x: Number, other: Number | None = None) -> Number:
        """A call of a user's function with copies, its answer checked."""
        function = self._functions[name]
        assert function is not None
        given = [x.astype(self.dtype)]
        if other is not None:  # a direction, or weights, which are real
            given.append(other.astype(self.dtype if name == "jvp" else self.dtype.type(0).real.dtype))
        answer = np.asarray(arguments.on_host(function(*given), name))
        complex_too = name == "vjp" and self.complex
        if answer.shape != (size,) or answer.dtype.kind not in ("fiubc" if complex_too else "fiub"):
            what = "numbers" if complex_too else "real numbers"
            raise ValueError(
                f"`{name}` must give {what} of shape ({size},), got {answer.dtype} of shape {answer.shape}."
            )
        if not np.isfinite(answer).all():
            raise ValueError(
                f"`{name}` must give finite numbers, got NaN or inf for a signal of norm {np.linalg.norm(x):.3g}."
            )
        return answer.astype(self.number if complex_too else np.float64)

    def _value(self, x: Number) -> Float:
        return self._call("measure", self.m, x)

    def _slope(self, x: Number, v: Number) -> Float:
        """`J v` at x."""
        if self._functions["jvp"] is not None:
            return self._call("jvp", self.m, x, v)
        # The difference is exact for any length of v; it is rounded least for that of x.
        length, size = float(np.linalg.norm(v)), float(np.linalg.norm(x))
        if length == 0 or size == 0:
            return np.zeros(self.m)
        step = size / length
        return (self._value(x + step * v) - self._value(x - step * v)) / (2 * step)

    def _pull(self, x: Number, w: Float) -> Number:
        """`J^T w` at x."""
        if self._functions["vjp"] is not None:
            return self._call("vjp", self.n, x, w)
        g = np.empty(self.n, dtype=self.number)
        for j, unit in self._units():
            g[j] = w @ self._slope(x, unit)
            if self.complex:
                g[j] += 1j * (w @ self._slope(x, 1j * unit))
        return g

    def _units(self) -> Iterator[tuple[int, Number]]:
        for j in range(self.n):
            unit = np.zeros(self.n, dtype=self.number)
            unit[j] = 1.0
            yield j, unit

    # -- contractions -------------------------------------------------------------------------------------------------

    def _measure(self, x: Number, n_threads: int) -> Float:
        return self._value(x) if x.ndim == 1 else _columns([self._value(each) for each in x.T], self.m)

    def _along(self, x: Number, v: Number, n_threads: int) -> Float:
        return self._slope(x, v) if v.ndim == 1 else _columns([self._slope(x, each) for each in v.T], self.m)

    def _gradient(self, x: Number, w: Float, n_threads: int) -> Number:
        return self._pull(x, w)

    def _product(self, x: Number) -> Number:
        """`W[i] = Ã_i x`, by the fewer of n (2n) slopes or m gradients."""
        W: Number = np.empty((self.m, self.n), dtype=self.number)
        if self._functions["vjp"] is not None and self.m < self.n * (1 + self.complex):
            for i in range(self.m):
                W[i] = self._pull(x, np.eye(1, self.m, i)[0]) / 2
            return W
        for j, unit in self._units():
            W[:, j] = self._slope(x, unit) / 2
            if self.complex:
                W[:, j] += 1j * (self._slope(x, 1j * unit) / 2)
        return W

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        if x.ndim == 1:
            W[...] = self._product(x)
            return
        for s, each in enumerate(x.T):
            W[:, :, s] = self._product(np.ascontiguousarray(each))

    def _weighted_sum(self, w: Float, n_threads: int) -> Number:
        S = np.empty((w.shape[1], self.n, self.n), dtype=self.number)
        for out, column in zip(S, w.T, strict=True):
            for j, unit in self._units():
                out[:, j] = self._pull(unit, np.ascontiguousarray(column)) / 2
        return symmetrised(S)

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        everything = np.arange(self.n)
        return self._block(everything, everything, 1)[start:stop]

    def _diagonals(self, n_threads: int) -> Float:
        return np.stack([self._value(unit) for _, unit in self._units()], axis=1)

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        units = np.eye(self.n, dtype=self.number)
        return self._forms(units[rows], units[cols])

    def _compress(self, U: Number, n_threads: int) -> Number:
        out = self._forms(U.T, U.T)
        return (out + out.transpose(0, 2, 1).conj()) / 2

    def _forms(self, left: Number, right: Number) -> Number:
        """`l^* Ã_i r` for the rows of left and of right, (m, rows, rows)."""
        out: Number = np.empty((self.m, len(left), len(right)), dtype=self.number)
        for p, one in enumerate(left):
            for q, other in enumerate(right):
                out[:, p, q] = self._slope(one, other) / 2
                if self.complex:  # Re(i a) = −Im a
                    out[:, p, q] -= 1j * (self._slope(one, 1j * other) / 2)
        return out

    def _sweep(self, z: Number, v: Float, c: Float, n_threads: int) -> tuple[Float, Number]:
        r = c - self._measure(z, n_threads) - self._diagonals(n_threads) @ v
        return r, self._weighted_sum(r, n_threads)

    # -- costs: a call is a pass --------------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return False

    @property
    def _calls_of_slope(self) -> int:
        return 1 if self._functions["jvp"] is not None else 2

    def cost_of_products(self, nnz: int) -> float:
        both = 1 + self.complex
        slopes = float(self.n * both * self._calls_of_slope)
        return min(slopes, self.m) if self._functions["vjp"] is not None else slopes

    def cost_of_first_products(self, nnz: int, count: int) -> float:
        return self.cost_of_products(nnz)

    def cost_of_diagonals(self) -> float:
        return float(self.n)

    def share_of_rows(self, s: int) -> float:
        return float(s * self.n * (1 + self.complex) * self._calls_of_slope)

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return float(rows.size * cols.size * (1 + self.complex) * self._calls_of_slope)

    def sweep_passes(self) -> int:
        return 2 * self.n


def _columns(found: list[Float], m: int) -> Float:
    """Vectors as the columns of a matrix."""
    return np.ascontiguousarray(np.stack(found, axis=1)) if found else np.empty((m, 0))
