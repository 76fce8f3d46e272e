"""A tensor given by a function of (i, j, k), compiled by Numba and never stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.measurements.computed.blocks import GeneratedTensor, Places
from fastquad.measurements.computed.hermitian import HermitianComputedTensor
from fastquad.measurements.dense.layout import LANES
from fastquad.typing import Float, Number


class ComputedTensor(GeneratedTensor):
    """m matrices with the entries `A_i[j, k] = entry(i, j, k)`, computed when they are needed and never stored.

    Parameters
    ----------
    entry : function
        Takes integers i, j and k (and `args`) and returns a number. If the number is complex, signals are complex.
        The function is decorated with `numba.njit`, or Numba can compile it. Several threads call it at once.
    m, n : int
        The number of measurements and the length of the signal, both below 2³¹.
    args : sequence, optional
        Further arguments of `entry`: arrays and numbers that it needs, such as the phases of each measurement.
    symmetric : bool
        Whether `entry(i, j, k) == entry(i, k, j)`, or its conjugate if it is complex. If not, the mean of both is
        used, and each entry is computed twice: only the symmetric (Hermitian) part of a matrix matters.

    Notes
    -----
    Numba compiles one small loop around `entry` when the tensor is made, in about a second; another tensor of the
    same function does not compile again.

    Examples
    --------
    >>> import numba, numpy as np, fastquad as fq
    >>> @numba.njit
    ... def entry(i, j, k, frequency):
    ...     return np.cos(frequency[i] * (j - k)) / (1 + abs(j - k))
    >>> frequency = np.linspace(0, np.pi, 30)
    >>> A = fq.ComputedTensor(entry, m=30, n=20, args=(frequency,), symmetric=True)
    >>> A.products(np.ones(20)).shape
    (30, 20)
    """

    def __new__(
        cls, entry: Callable[..., Any], m: int, n: int, *, args: Sequence[Any] = (), symmetric: bool = False
    ) -> Any:
        """Make a tensor; one of another class if the entries are complex."""
        made = super().__new__(cls)
        if not callable(entry) or not _is_complex(entry, tuple(args)):
            return made
        remake = (_remade, (entry, m, n, tuple(args), bool(symmetric)))
        m, n = arguments.count(m, "m"), arguments.count(n, "n")
        return HermitianComputedTensor(_compiled(entry, bool(symmetric)), m, n, tuple(args), remake)

    def __init__(
        self, entry: Callable[..., float], m: int, n: int, *, args: Sequence[Any] = (), symmetric: bool = False
    ) -> None:
        if not callable(entry):
            raise TypeError(f"`entry` must be a function of (i, j, k), got {type(entry).__name__}.")
        self.m, self.n = arguments.count(m, "m"), arguments.count(n, "n")
        for name, value in (("m", m), ("n", n)):
            if value >= 2**31:
                raise ValueError(f"`{name}` must be below 2^31, got {value}.")
        self.entry, self.args, self.symmetric = entry, tuple(args), bool(symmetric)
        self.dtype = np.dtype(np.float64)
        self._loop = _compiled(entry, self.symmetric)
        self._try()

    def __reduce__(self) -> tuple[Any, ...]:
        # Compile the loop again in the process that unpickles it.
        return _remade, (self.entry, self.m, self.n, self.args, self.symmetric)

    def _try(self) -> None:
        """Compile for these `args`, by computing one entry."""
        from numba.core.errors import NumbaError

        one, out = np.zeros(1, dtype=np.int32), np.empty((1, LANES))
        try:
            self._fill(0, one, one, out)
        except (NumbaError, TypeError) as error:
            raise TypeError(
                f"`entry` must be a function of (i, j, k) and `args` that Numba can compile to a real number: {error}"
            ) from error

    def _fill(self, block: int, j: Places, k: Places, out: Float) -> None:
        first = block * LANES
        self._loop(first, min(LANES, self.m - first), j, k, out, self.args)


def _is_complex(entry: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether an entry is a complex number; False if it cannot be compiled, which is an error later."""
    try:
        value = entry if _is_compiled(entry) else _numba().njit(entry)
        return isinstance(value(0, 0, 0, *args), complex)
    except ImportError:
        raise
    except Exception:
        return False


def _is_compiled(entry: Callable[..., Any]) -> bool:
    return isinstance(entry, _numba().core.dispatcher.Dispatcher)


def _remade(entry: Callable[..., float], m: int, n: int, args: tuple[Any, ...], symmetric: bool) -> ComputedTensor:
    return ComputedTensor(entry, m, n, args=args, symmetric=symmetric)


def _numba() -> Any:
    """Import Numba, which no other kind of measurements needs."""
    try:
        import numba
    except ImportError:
        raise ImportError("`ComputedTensor` compiles its entry with Numba: pip install 'fastquad[computed]'.") from None
    return numba


@lru_cache(maxsize=64)
def _compiled(entry: Callable[..., Any], symmetric: bool) -> Callable[..., None]:
    """The loop of `_fill` around a real or complex entry, compiled at its first call."""
    numba = _numba()
    value = entry if _is_compiled(entry) else numba.njit(nogil=True)(entry)

    def loop(first: int, count: int, j: Places, k: Places, out: Number, args: tuple[Any, ...]) -> None:
        for p in range(j.size):
            row, column = np.int64(j[p]), np.int64(k[p])
            out[p, :] = 0.0
            if row < 0:
                continue
            for lane in range(count):
                if symmetric:
                    out[p, lane] = value(first + lane, row, column, *args)
                else:
                    mirrored = value(first + lane, column, row, *args)
                    out[p, lane] = 0.5 * (value(first + lane, row, column, *args) + np.conj(mirrored))

    compiled: Callable[..., None] = numba.njit(nogil=True)(loop)
    return compiled
