"""Shifts: the measurements are the autocorrelation of x, of which no matrix is ever formed.

With the shift `(P_d x)_j = x_{j+d}`, linear (zeros come in from outside) or cyclic, `Ã_d = (P_d + P_d^T)/2`. So a
product is two shifted copies of x, a weighted sum is a Toeplitz matrix, and all autocorrelations at once are a fast
Fourier transform (Wiener–Khinchin): `Σ_j x_j x_{j+d}` are the coefficients of |x̂|².
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.typing import Float, Indices

#: Up to this many lags the autocorrelation is faster without Fourier transforms.
_FEW_LAGS = 8
#: The correlation of two columns is faster by them if the lags times the coordinates are at least this many.
_WORTH_A_TRANSFORM = 1 << 17


class ShiftTensor(Measurements):
    """Measurements `y_d = Σ_j x_j x_{j+d}`, one for each lag d: the autocorrelation of x.

    If x_j is 1 for a point at j and 0 otherwise, y_d counts the pairs of points at the distance d. Finding the
    points is the turnpike problem. With cyclic shifts, for points on a circle, it is the beltway problem. The
    reversed signal has the same autocorrelation. So has a signal that is moved, if there is room or the shifts are
    cyclic. Then the status is `Status.AMBIGUOUS`.

    Parameters
    ----------
    n : int
        The length of x.
    cyclic : bool
        Whether j + d is taken modulo n. Otherwise entries beyond the ends count as zero.
    lags : list of int, optional
        Distinct integers from 0 to n − 1. Default: all that differ, 0 to n − 1. For cyclic shifts 0 to n//2,
        because the lag n − d measures the same as d.

    Examples
    --------
    >>> import fastquad as fq
    >>> points = [1.0, 1.0, 0.0, 0.0, 1.0]  # at 0, 1 and 4
    >>> fq.ShiftTensor(5).measure(points)  # three points; one pair each at the distances 1, 3 and 4
    array([3., 1., 0., 1., 1.])
    >>> fq.ShiftTensor(5, cyclic=True).measure(points)
    array([3., 2., 1.])
    """

    def __init__(self, n: int, *, cyclic: bool = False, lags: ArrayLike | None = None) -> None:
        self.n, self.cyclic = arguments.count(n, "n"), bool(cyclic)
        self.lags = np.arange(self.n // 2 + 1 if cyclic else self.n) if lags is None else self._indices(lags, "lags")
        self.lags.flags.writeable = False
        self.m, self.dtype = self.lags.size, np.dtype(np.float64)
        # Which measurement has a lag; −1 for none.
        self._which = np.full(self.n, -1, dtype=np.intp)
        self._which[self.lags] = np.arange(self.m)
        if not self.m or np.count_nonzero(self._which >= 0) != self.m:
            raise ValueError("`lags` must be distinct, and at least one.")

    def _about(self) -> tuple[str]:
        return (f"cyclic={self.cyclic}",)

    @property
    def symmetry(self) -> str:
        """Which maps leave all measurements as they are, as `fastquad.distance` reads it."""
        return f", translation and reflection of {self.n}" + ("" if self.cyclic else f" in {2 * self.n}")

    def _shifts(self) -> tuple[bool, Indices]:
        return self.cyclic, self.lags

    def matrices(self, start: int, stop: int) -> Float:
        self._check_range(start, stop)
        if start == stop:
            return np.empty((0, self.n, self.n))
        everything = np.arange(self.n)
        return self._part(start, stop)._block(everything, everything, 1)

    def _part(self, start: int, stop: int) -> ShiftTensor:
        return ShiftTensor(self.n, cyclic=self.cyclic, lags=self.lags[start:stop])

    # -- products: shifted copies -----------------------------------------------------------------------------------

    def _products(self, x: Float, W: Float, n_threads: int) -> None:
        # A window of n at n + d in (0, x, 0), or in (x, x, x), is x shifted by d.
        sides = x if self.cyclic else np.zeros_like(x)
        windows = sliding_window_view(np.concatenate([sides, x, sides]), self.n, axis=0)
        if x.ndim == 2:
            windows = windows.transpose(0, 2, 1)
        np.add(windows[self.n + self.lags], windows[self.n - self.lags], out=W)
        W /= 2

    def _products_on(self, support: Indices, values: Float, W: Float, n_threads: int) -> None:
        W[...] = 0.0
        everyone = np.arange(self.m)
        for j, value in zip(support, values, strict=True):
            for to in (j + self.lags, j - self.lags):
                if self.cyclic:
                    W[everyone, to % self.n] += value / 2
                else:
                    inside = (to >= 0) & (to < self.n)
                    W[everyone[inside], to[inside]] += value / 2

    # -- autocorrelations -------------------------------------------------------------------------------------------

    def _measure(self, x: Float, n_threads: int) -> Float:
        if self.m <= _FEW_LAGS:
            return np.stack([np.einsum("j...,j...->...", *pair) for pair in self._shifted(x)])
        return self._correlations(np.abs(self._transformed(x)) ** 2)

    def _along(self, x: Float, v: Float, n_threads: int) -> Float:
        # Σ_j x_j v_{j+d} + v_j x_{j+d}
        here = self._transformed(x).conj()
        return self._correlations(2 * ((here if v.ndim == 1 else here[:, None]) * self._transformed(v)).real)

    def _gradient(self, x: Float, w: Float, n_threads: int) -> Float:
        # Σ_d w_d (x_{j+d} + x_{j−d}), a convolution
        kernel = np.zeros(self._period)
        kernel[self.lags] = w
        kernel += kernel[-np.arange(self._period)]
        return np.fft.irfft(np.fft.rfft(kernel) * self._transformed(x), self._period)[: self.n]

    def _shifted(self, x: Float) -> Iterator[tuple[Float, Float]]:
        """For each lag the entries x_j and x_{j+d}, if there are both."""
        for d in self.lags:
            yield (x, np.roll(x, -d, axis=0)) if self.cyclic else (x[: self.n - d], x[d:])

    def _transformed(self, x: Float) -> NDArray[np.complexfloating]:
        return np.fft.rfft(x, self._period, axis=0)

    def _correlations(self, spectrum: NDArray[Any]) -> Float:
        """The entries at the lags of the sequence with this transform."""
        return np.fft.irfft(spectrum, self._period, axis=0)[self.lags]

    @property
    def _period(self) -> int:
        """Of the transforms: with as many zeros as there are entries, what is cyclic does not meet its other end."""
        return self.n if self.cyclic else 1 << (2 * self.n - 1).bit_length()

    def _compress(self, U: Float, n_threads: int) -> Float:
        C = np.empty((self.m, U.shape[1], U.shape[1]))
        if self.m * self.n < _WORTH_A_TRANSFORM:
            for out, (here, there) in zip(C, self._shifted(U), strict=True):
                np.matmul(here.T, there, out=out)
        else:
            transformed = self._transformed(U)
            for p, column in enumerate(transformed.T):
                # Σ_j u_j v_{j+d}, the correlation of two columns, has the transform conj(û) v̂.
                C[:, p] = self._correlations(column.conj()[:, None] * transformed)
        C += C.transpose(0, 2, 1).copy()
        C /= 2
        return C

    # -- Toeplitz matrices --------------------------------------------------------------------------------------------

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        # S[j, k] depends on |j − k| alone: ½ w_d from k = j + d, and the same from j = k + d.
        b = w.shape[1]
        entry = np.zeros((self.n, b))
        entry[self.lags] = w / 2
        if self.cyclic:
            entry += entry[-np.arange(self.n)]
        else:
            entry[0] *= 2
        both = np.concatenate([entry[:0:-1], entry])
        return np.ascontiguousarray(sliding_window_view(both, self.n, axis=0).transpose(1, 0, 2)[:, ::-1])

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r = c - self._measure(z, n_threads)
        if self._which[0] >= 0:
            r[self._which[0]] -= v.sum(axis=0)
        return r, self._weighted_sum(r, n_threads)

    # -- entries: few are not zero ----------------------------------------------------------------------------------

    def _diagonals(self, n_threads: int) -> Float:
        d = np.zeros((self.m, self.n))
        if self._which[0] >= 0:
            d[self._which[0]] = 1.0
        return d

    def _rows(self, support: Indices, n_threads: int) -> Float:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Float:
        out = np.zeros((self.m, rows.size, cols.size))
        apart = rows[:, None] - cols
        for gap in (apart, -apart):
            gap = gap % self.n if self.cyclic else gap
            which = np.where(gap >= 0, self._which[gap], -1)
            s, t = np.nonzero(which >= 0)
            out[which[s, t], s, t] += 0.5
        return out
