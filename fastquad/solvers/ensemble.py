"""What kind of random numbers A holds, from a small sample of its entries.

AMP and pursuit are derived for independent, centred, Gaussian-like entries. Of these, the scale and the mean can be
put right without a read of A: `A_i − Ā` and `y_i − ȳ` obey the same equations. Dependence cannot; it is looked for so
that the user can be told, and so that an answer is not certified where the structure of A allows others.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem
from fastquad.solvers.driver import Block, Diagonals

# The sample is a block of so many rows and columns.
_SIDE = 8
# Chance exceeds a test statistic by more than this many standard deviations in less than one of a million samples.
_DEVIATIONS = 6.0


class Entries(NamedTuple):
    """The entries of A, as far as a sample tells.

    `gain` is 1/σ² with σ² twice the variance of an off-diagonal entry of Ã (σ = 1 for A of independent standard normal
    entries); `centred` says that they have no common mean, `independent` that no dependence shows. `symmetries` may
    hold "reversed" and "shifted": A is the same with its coordinates in reverse order, or moved by one. `bits` is the
    information in an entry (−log2 of the chance that two are equal): infinite unless entries take few values.
    """

    gain: float = 1.0
    centred: bool = True
    independent: bool = True
    symmetries: tuple[str, ...] = ()
    bits: float = math.inf

    def describe(self) -> str:
        """What is special, as a sentence; empty where nothing is."""
        traits = []
        if not self.centred:
            traits.append("have a common mean, which was removed")
        if not self.independent:
            traits.append("are not independent, as AMP and pursuit assume")
        return f"The entries of A {' and '.join(traits)}." if traits else ""


def sample_entries(problem: Problem) -> Generator[Any, Any, Entries]:
    """Look at the diagonals and at a small block off the diagonal."""
    m, n = problem.m, problem.n
    diagonals = yield Diagonals()
    side = min(_SIDE, (n - 1) // 2)
    if side == 0 or m < 4:
        return Entries(bits=_bits(_thinned(diagonals)))
    chosen = np.random.default_rng(0).permutation(n - 1)[: 2 * side]
    rows, columns = np.sort(chosen[:side]), np.sort(chosen[side:])
    block = yield Block(rows, columns)
    sample = block.reshape(m, -1)
    symmetries = []
    # A thousand entries tell whether they repeat themselves, between matrices or within one.
    few = _thinned(sample)
    bits = min(_bits(few), _bits(_thinned(diagonals)))
    if bits < math.inf or (np.diff(np.sort(few, axis=1), axis=1) == 0).any():
        reverse = yield Block(n - 1 - rows, n - 1 - columns)
        shifted = yield Block(rows + 1, columns + 1)
        symmetries = [name for name, other in (("reversed", reverse), ("shifted", shifted)) if (other == block).all()]
    centred = _no_mean(sample) and _no_mean(diagonals)
    variance = float(np.mean(sample**2) if centred else np.mean(np.var(sample, axis=0, ddof=1)))
    scale = float(np.mean(sample**2) + np.mean(diagonals**2))
    if variance <= 1e-12 * scale:
        return Entries(gain=1 / scale if scale > 0 else 1.0, independent=False, symmetries=tuple(symmetries), bits=bits)
    return Entries(
        gain=1 / (2 * variance),
        centred=centred,
        independent=not symmetries and _full_rank(block) and _uncorrelated(sample) and _uncorrelated(sample**2),
        symmetries=tuple(symmetries),
        bits=bits,
    )


def _no_mean(sample: Float) -> bool:
    """Whether the means of the columns are those of centred variables: Σ m mean²/var is χ² with a degree for each."""
    m, count = sample.shape
    variance = np.var(sample, axis=0)
    statistic = float(np.sum(m * np.mean(sample, axis=0) ** 2 / np.maximum(variance, 1e-300)))
    return bool(statistic < count + _DEVIATIONS * np.sqrt(2.0 * count))


def _bits(sample: Float) -> float:
    """−log2 of the chance that two of these numbers are equal; infinite where that is less than one in a thousand."""
    ordered = np.sort(sample, axis=None)
    ends = np.flatnonzero(np.diff(ordered, append=np.nan) != 0)
    counts = np.diff(ends, prepend=-1)
    chance = float(np.sum(counts * (counts - 1.0))) / max(1.0, sample.size * (sample.size - 1.0))
    return -math.log2(chance) if chance > 1e-3 else math.inf


def _thinned(sample: Float) -> Float:
    """At most 32 measurements, and as many of their entries."""
    m, count = sample.shape
    return sample[:: max(1, m // 32), :: max(1, count // 32)][:32, :32]


def _full_rank(blocks: Float) -> bool:
    """Whether the matrices are of full rank, as far as a few of their blocks tell."""
    some = blocks[:: max(1, len(blocks) // 8)]
    return bool((np.linalg.matrix_rank(some, tol=None) == min(some.shape[1:])).mean() > 0.5)


def _uncorrelated(sample: Float) -> bool:
    """Whether the columns are uncorrelated: Σ corr² over their pairs is about a χ²/m with a degree for each pair."""
    m, count = sample.shape
    centred = sample - sample.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    normalised = centred[:, norms > 0] / norms[norms > 0]
    count = normalised.shape[1]
    pairs = count * (count - 1) / 2
    if pairs == 0:
        return False
    correlations = normalised.T @ normalised
    statistic = m * (float(np.sum(correlations**2)) - count) / 2
    # Squares of heavy-tailed entries scatter more than the χ² law says: twice the mean is far beyond that, too.
    return bool(statistic < pairs + max(_DEVIATIONS * np.sqrt(2 * pairs), pairs))
