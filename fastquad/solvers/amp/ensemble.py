"""What AMP needs to know of A, and its pass over A for several estimates at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.measurements.contractions import Diagonals, Products, Sweep, WeightedSum
from fastquad.noise.messages import Messages, Score
from fastquad.typing import Asks, Float

# The number of n×n matrices of doubles in memory at once: S0, one S for each run of a batch, and the workspace of an
# eigendecomposition.
MATRICES = 14

# |x|² over ‖Re xx^*‖, which y tells: between 1 and √2.
_RANK_TWO = 1.3


def affordable(problem: Problem) -> bool:
    """Whether AMP's matrices fit in half of the memory."""
    return 8 * MATRICES * problem.n**2 <= problem.memory // 2


class Pass(NamedTuple):
    """The result of a pass for one estimate: r, its score, `A*(g) gain/(mα)`, and the values `z^T Ã_i z`."""

    r: Float
    score: Score
    S: Float
    values: Float


@dataclass
class Ensemble:
    """The scale of A's entries, their common mean, the model of the noise, and the first weighted sum.

    `gain` is 1/σ², `mean` is Ā or None where the entries are centred, `S0 = Σ y_i Ã_i /(mσ²)` (centred) and
    `phi2 = |x|²` as y says.
    """

    y: Float
    gain: float
    mean: Float | None
    S0: Float
    diagonals: Float
    phi2: float
    noise: Messages

    def sweep(self, Z: Float, V: Float, C: Float, noises: list[Messages]) -> Asks[list[Pass]]:
        """A pass for each column of Z, V (n, b) and C (m, b).

        `r = c − A(zz^T + diag v)`, centred. One pass where the noise is linear, two where it is not.
        """
        shift = np.zeros(Z.shape[1])
        if self.mean is not None:
            shift = np.einsum("jb,jk,kb->b", Z, self.mean, Z) + np.diagonal(self.mean) @ V
        C = C + shift
        if self.noise.linear:
            R, S = yield from _fused(Z, V, C)
            values = C - R - self.diagonals @ V
            scores = [noise.score(R[:, i]) for i, noise in enumerate(noises)]
            # S is the sum for r, which is g/α here.
            factors, sums = np.ones(len(noises)), R.sum(axis=0)
        else:
            W = yield Products(np.ascontiguousarray(Z))
            values = np.einsum("jb,ijb->ib", Z, W)
            del W
            R = C - values - self.diagonals @ V
            scores = [noise.score(R[:, i]) for i, noise in enumerate(noises)]
            G = np.stack([score.g for score in scores], axis=1)
            S = yield WeightedSum(G)
            factors, sums = np.array([1 / score.alpha for score in scores]), G.sum(axis=0)
        answers: list[Pass] = []
        for i, score in enumerate(scores):
            matrix = S[i]
            if self.mean is not None:
                matrix -= sums[i] * self.mean
            matrix *= factors[i] * self.gain / len(R)
            answers.append(Pass(np.ascontiguousarray(R[:, i]), score, matrix, values[:, i]))
        return answers


def _fused(Z: Float, V: Float, C: Float) -> Asks[tuple[Float, Float]]:
    """`R = C − A(zz^T + diag v)` and `Σ_i r_i Ã_i` of each column, one pass.

    Float arithmetic is enough if A is stored in float: AMP only finds the support, which is then fitted in double.
    """
    if Z.shape[1] > 1:
        Z, V, C = (np.ascontiguousarray(part) for part in (Z, V, C))
        return (yield Sweep(Z, V, C, precise=False))
    z, v, c = (np.ascontiguousarray(part[:, 0]) for part in (Z, V, C))
    r, S = yield Sweep(z, v, c, precise=False)
    return r[:, None], S[None]


def prepare(problem: Problem, entries: Entries) -> Asks[Ensemble]:
    """Read what AMP needs for its starts: the diagonals, S0, and Ā if A is not centred."""
    m, y, gain = problem.m, problem.y, entries.gain
    diagonals = yield Diagonals()
    mean = None if entries.centred else (yield WeightedSum(np.full(m, 1 / m)))
    if mean is not None:
        y = y - y.mean()
    noise = problem.noise.messages(problem.y, y)
    first = noise.fresh().score(y)
    # Weigh y by its score: all equal for Gaussian noise, less for outliers and noisier measurements.
    weighted = y if noise.linear else first.g / first.alpha
    S0 = yield WeightedSum(weighted)
    if mean is not None:
        S0 = S0 - weighted.sum() * mean
    phi2 = float(np.sqrt(noise.mean_square(y) * gain)) if problem.norm is None else problem.norm**2
    if problem.fixed and problem.norm is None and not diagonals[:, problem.known].any():
        # Correct for known values w, whose own squares are not in y: E y² gain = |x|⁴ − Σ w⁴.
        phi2 = float(np.sqrt(phi2**2 + sum(value**4 for value in problem.fixed.values())))
    if problem.rank_two and problem.norm is None:
        phi2 *= _RANK_TWO
    return Ensemble(y, gain, mean, S0 * (gain / m), diagonals, phi2, noise)
