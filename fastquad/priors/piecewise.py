"""The signal is constant on intervals: the exact posterior of where it jumps, and of its levels.

Between two neighbours there is a jump with probability h, and each level is N(0, s2). An interval of length L on which
`b = a x + sqrt(a) N(0, I)` sums up to B has, with P = aL + 1/s2, the log evidence

    log Z = −½ log(s2 P) + ½ B²/P,      level N(B/P, 1/P),

and the sums over all ways to cut the signal are those of a forward and a backward pass, O(n²) (kernels/piecewise.pyx).
EM learns h, from the expected number of jumps, and s2, from the mean square of the levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastquad._kernels import piecewise as kernel
from fastquad.numerics.eigen import leading_eigenvector
from fastquad.priors.base import Denoiser, Posterior, Prior, Seen, Start
from fastquad.typing import Float, Indices

# The least probability of a jump that is handed over.
_LIKELY = 0.1
# The number of further jumps that are handed over.
_SPARE = 2
# The difference of neighbours, as a share of the largest value, below which they are equal.
_EQUAL = 1e-9
# The lengths of the steps that the starts are made of.
_LENGTHS = (5, 10, 2, 4, 20)


@dataclass(frozen=True, eq=False)
class PiecewiseConstant(Prior):
    """The signal is constant on intervals. Neither their number nor their places need be known.

    This works for signals with fewer than about m/2 levels, in the order of the coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> x = np.repeat([2.0, -1.0, 0.5, 1.5], 16)
    >>> A = rng.standard_normal((30, 64, 64))
    >>> solution = fq.solve(A, fq.measure(A, x), prior=fq.PiecewiseConstant())
    >>> solution.status.name, bool(fq.distance(solution.x, x) < 1e-9)
    ('EXACT', True)
    """

    max_sweeps: ClassVar[int] = 80

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Denoiser:
        return ChangePoints(n, phi2, learns)

    def starts(self, seen: Seen) -> list[Start]:
        return [
            Start(self._in_steps(seen, length), self.denoiser(seen.n, 0.1, 1.1 * seen.phi2), inner=3)
            for length in _LENGTHS
            if 2 * length <= seen.n
        ]

    def _in_steps(self, seen: Seen, length: int) -> Float:
        """The leading eigenvector of S0 among signals that are constant on steps of this length."""
        steps = np.arange(seen.n) // length
        sizes = np.bincount(steps)
        U = np.zeros((seen.n, sizes.size))
        U[np.arange(seen.n), steps] = 1 / np.sqrt(sizes[steps])
        return U @ leading_eigenvector(np.ascontiguousarray(U.T @ seen.S0 @ U))

    def coordinates(self, z: Float, weight: Float, size: int) -> Indices | Float:
        """The indicators of the intervals between likely jumps, normalised, (n, p): `weight` is P(jump before j)."""
        jump = np.asarray(weight[1:])
        count = min(int(np.count_nonzero(jump > _LIKELY)) + _SPARE, size - 1, jump.size)
        cuts = np.sort(np.argsort(-jump, kind="stable")[:count]) + 1
        return indicators(cuts, z.size)

    def enlarged(self, where: Any, x: Float, W: Float, r: Float, size: int) -> Float:
        """The intervals, cut if that explains most of the residual: one cut after the other."""
        U = np.asarray(where)
        n, count = U.shape
        part = np.argmax(U, axis=1)
        # The measurements change with a cut before j as with the part of its interval from j on.
        tails = np.cumsum(W[:, ::-1], axis=1)[:, ::-1]
        last = np.searchsorted(part, part, side="right")
        tails = tails - np.concatenate([tails, np.zeros((len(W), 1))], axis=1)[:, last]
        cuts: list[int] = (np.flatnonzero(np.diff(part)) + 1).tolist()
        columns = np.linalg.qr(W @ U)[0]
        r = r - columns @ (columns.T @ r)
        tails -= columns @ (columns.T @ tails)
        least = 1e-12 * float(np.einsum("ij,ij->", W, W))
        for _ in range(count, min(size, n)):
            squares = np.einsum("ij,ij->j", tails, tails)
            gain = np.where(squares > least, (r @ tails) ** 2 / np.maximum(squares, least), 0.0)
            gain[[0, *cuts]] = 0.0
            best = int(np.argmax(gain))
            if not gain[best] > 0:
                break
            cuts.append(best)
            column = tails[:, best] / np.sqrt(squares[best])
            r = r - column * (column @ r)
            tails -= np.outer(column, column @ tails)
        return indicators(np.sort(np.array(cuts, dtype=np.intp)), n)

    def nearest(self, x: Float) -> Float:
        """x itself, with neighbours that are equal to rounding made equal."""
        jumps = np.abs(np.diff(x)) > _EQUAL * float(np.abs(x).max(initial=0.0))
        part = np.concatenate([[0], np.cumsum(jumps)])
        means = np.bincount(part, weights=x) / np.bincount(part)
        return np.asarray(means[part], dtype=np.float64)

    def freedom(self, x: Float) -> int:
        """The number of levels."""
        return 1 + int(np.count_nonzero(np.diff(x)))

    def sparse_form(self, x: Float, every: bool) -> tuple[Float, Float]:
        """Steps: column l is 1 from coordinate l on, and z has the jumps of x."""
        n, jumps = x.size, np.diff(x, prepend=0.0)
        places = np.arange(n)
        if not every:
            steps = np.flatnonzero(jumps)
            places = np.union1d([0, *steps], np.linspace(0, n - 1, min(n, 2 * steps.size + 2)).astype(np.intp))
        return np.greater_equal.outer(np.arange(n), places).astype(np.float64), jumps[places]


def indicators(cuts: Indices, n: int) -> Float:
    """The normalised indicators of the intervals between cuts, (n, p)."""
    part = np.zeros(n, dtype=np.intp)
    part[cuts] = 1
    part = np.cumsum(part)
    sizes = np.bincount(part)
    U = np.zeros((n, sizes.size))
    U[np.arange(n), part] = 1 / np.sqrt(sizes[part])
    return U


class ChangePoints(Denoiser):
    """The posterior of a signal that jumps with probability h before each coordinate, to levels N(0, s2).

    As the weight of a coordinate it gives the probability of a jump before it.
    """

    dense: ClassVar[bool] = True

    def __init__(self, n: int, phi2: float, learns: bool = True) -> None:
        self.learns = learns
        #: (h, s2)
        self.h, self.s2 = 0.1, phi2 / n
        #: The expected number of intervals, and the sum of their squared levels.
        self.totals = (1.0, phi2 / n)

    def denoise(self, b: Float, a: float) -> Posterior:
        mean, second, jump, segments, squares = kernel.change_points(np.ascontiguousarray(b), a, self.h, self.s2)
        self.totals = segments, squares
        return Posterior(mean, np.maximum(second - mean**2, 0.0), jump)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        n = posterior.mean.size
        segments, squares = self.totals
        if self.learns and n > 1:
            self.h = float(np.clip((segments - 1) / (n - 1), 0.5 / n, 0.9))
        self.s2 = float(np.clip(squares / max(segments, 1e-300), 0.3 * phi2 / n, 3 * phi2 / n))
