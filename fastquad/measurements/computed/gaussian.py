"""An ensemble of standard normal tensors that takes no storage: see kernels/gaussian.h for how an entry is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import fastquad._kernels.gaussian as kernel
from fastquad import arguments
from fastquad.measurements.computed.blocks import GeneratedTensor, Places
from fastquad.measurements.computed.hermitian import HermitianGaussianTensor
from fastquad.measurements.dense.layout import LANES
from fastquad.typing import Float

# The number added to the seed for imaginary parts.
_OTHER_SEED = 0x9E3779B97F4A7C15


class GaussianTensor(GeneratedTensor):
    """m matrices with independent standard normal entries, made by a counter-based generator and never stored.

    The symmetric part is generated: entries of variance 1 on the diagonal and ½ off it. An entry is a function of
    (seed, i, j, k) alone: it has the same bits on every machine, for any number of threads, and in a tensor with more
    measurements or more unknowns. Entries are float32 numbers, so `fastquad.pack(A, dtype="float32")` stores them
    without rounding. For a sparse signal, only the rows of its support are generated.

    Parameters
    ----------
    m, n : int
        The number of measurements and the length of the signal, both below 2³¹.
    seed : int
        Between 0 and 2⁶⁴ − 1.
    dtype : dtype
        Complex for Hermitian matrices, of the Gaussian unitary ensemble: off the diagonal `E|h|² = 1`, of which Re and
        Im have half each, and entries of variance 1 on it. Precision is single in either case.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> A = fq.GaussianTensor(m=400, n=2000, seed=7)
    >>> A.entry(3, 5, 1500) == A.entry(3, 1500, 5)
    True
    >>> x = np.zeros(2000)
    >>> x[[10, 500, 1700]] = 1.0, -2.0, 0.5
    >>> solution = fq.solve(A, fq.measure(A, x))
    >>> solution.success, float(fq.distance(solution.x, x)) < 1e-9
    (True, True)
    """

    def __new__(cls, m: int, n: int, seed: int = 0, dtype: DTypeLike = np.float32) -> Any:
        """Make a tensor; one of another class if the dtype is complex."""
        kind = np.dtype(dtype)
        if kind.kind not in "fc":
            raise TypeError(f"`dtype` must be float or complex, got {kind}.")
        if kind.kind == "f":
            return super().__new__(cls)
        return HermitianGaussianTensor(cls(m, n, seed), cls(m, n, (int(seed) + _OTHER_SEED) % 2**64))

    def __getnewargs__(self) -> tuple[int, int, int]:
        return self.m, self.n, self.seed

    def __init__(self, m: int, n: int, seed: int = 0, dtype: DTypeLike = np.float32) -> None:
        self.m, self.n = arguments.count(m, "m"), arguments.count(n, "n")
        for name, value in (("m", m), ("n", n)):
            if value >= 2**31:
                raise ValueError(f"`{name}` must be below 2^31, got {value}.")
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"`seed` must be an integer between 0 and 2^64 - 1, got {seed!r}.")
        if not 0 <= seed < 2**64:
            raise ValueError(f"`seed` must be an integer between 0 and 2^64 - 1, got {seed}.")
        self.seed = int(seed)
        self.dtype = np.dtype(np.float32)

    def _about(self) -> tuple[str, ...]:
        return (*super()._about(), f"seed={self.seed}")

    def entry(self, i: int, j: int, k: int) -> float:
        """`Ã_i[j, k]`."""
        for name, value, end in (("i", i, self.m), ("j", j, self.n), ("k", k, self.n)):
            if not 0 <= value < end:
                raise ValueError(f"`{name}` must lie between 0 and {end - 1}, got {value}.")
        out = np.empty((1, LANES))
        self._fill(i // LANES, np.array([j], dtype=np.int32), np.array([k], dtype=np.int32), out)
        return float(out[0, i % LANES])

    def _identity(self) -> tuple[Any, ...]:
        return (repr(self),)

    def _fill(self, block: int, j: Places, k: Places, out: Float) -> None:
        kernel.fill(self.seed, block, j, k, out)
        if (block + 1) * LANES > self.m:
            out[:, self.m - block * LANES :] = 0.0
