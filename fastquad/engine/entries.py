"""Test which kind of random numbers A holds, on a small sample of its entries.

AMP and pursuit are derived for independent, centred, Gaussian-like entries. A wrong scale or mean can be corrected
without reading A: `A_i − Ā` and `y_i − ȳ` satisfy the same equations. Dependence cannot be corrected; it is detected to
tell the user, and so that no answer is certified where the structure of A allows others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from fastquad._kernels import sample as kernels
from fastquad.engine.problem import Problem
from fastquad.measurements.contractions import Block, Diagonals
from fastquad.numerics.lapack import EPS
from fastquad.typing import Asks, Float, Indices

# The number of rows and of columns of the sampled block.
_SIDE = 8
# The threshold of tests, in standard deviations: chance exceeds it in less than one of a million samples.
_DEVIATIONS = 6.0


@dataclass(frozen=True)
class Entries:
    """What a sample shows of the entries of A.

    `gain` is 1/σ² with σ² twice the variance of an off-diagonal entry of Ã (σ = 1 for A of independent standard normal
    entries); `centred` says that they have no common mean, `independent` that no dependence shows. `symmetries` may
    hold "reversed" and "shifted": A is the same with its coordinates in reverse order, or moved by one; where two
    vectors are multiplied, "repeated": two of their products have the same coefficient in every measurement. `bits` is
    the information in an entry (−log2 of the chance that two are equal): infinite unless entries take few values.
    `block` is the sample, (m, s, s), where there is one that varies.
    """

    gain: float = 1.0
    centred: bool = True
    symmetries: tuple[str, ...] = ()
    bits: float = math.inf
    block: Float | None = field(default=None, repr=False)
    #: Whether it is known without a sample that entries are not independent: nothing varies, or A is of rank one.
    constant: bool = False
    #: For Hermitian matrices: whether no imaginary part was seen.
    real: bool = False

    @cached_property
    def independent(self) -> bool:
        """Whether no dependence shows; tested at the first use, which the quickest solves do without."""
        if self.block is None:
            return not self.constant
        if self.symmetries:
            return False
        m = len(self.block)
        sample = np.ascontiguousarray(self.block, dtype=np.float64).reshape(m, -1)
        spread, *correlations = kernels.dependence(sample)
        if not _within(spread, sample.shape[1]) or not _full_rank(self.block):
            return False
        return _uncorrelated(*correlations[:2]) and _uncorrelated(*correlations[2:])

    def describe(self) -> str:
        """A sentence on what is special about the entries; empty if nothing is."""
        said = "" if self.centred else "The entries of A have a common mean, which was removed. "
        if not self.independent:
            said += "The entries of A are not independent, but AMP and pursuit assume that they are."
        return said.strip()


def sample_entries(problem: Problem) -> Asks[Entries]:
    """Look at the diagonals and at a small block off the diagonal."""
    m, n = problem.m, problem.n
    if problem.by_transform:
        return (yield from _sample_transform(problem))
    if problem.matrix_free:
        return Entries(constant=True)  # a look at them would cost more than finding x
    diagonals = yield Diagonals()
    if problem.turning:
        return (yield from _sample_complex(problem, diagonals[:, ::2]))
    if problem.bilinear:
        return (yield from _sample_bilinear(problem, diagonals))
    side = min(_SIDE, (n - 1) // 2)
    if side == 0 or m < 4:
        return Entries(bits=_bits(_thinned(diagonals)))
    rows, columns = _places(n, side)
    block = yield Block(rows, columns)
    few = _thinned(block.reshape(m, -1))
    symmetries = []
    # Look among a thousand entries for values that repeat, between matrices or within one.
    repeated = _repeats(few)
    bits = min(_bits(few) if repeated else math.inf, _bits(_thinned(diagonals)))
    if bits < math.inf or (repeated and any(_repeats(row) for row in few)):
        reverse = yield Block(n - 1 - rows, n - 1 - columns)
        shifted = yield Block(rows + 1, columns + 1)
        symmetries = [name for name, other in (("reversed", reverse), ("shifted", shifted)) if (other == block).all()]
    return _described(problem.y, block, diagonals, tuple(symmetries), bits)


def _sample_transform(problem: Problem) -> Asks[Entries]:
    """`sample_entries` where A is of rank one, so that its entries depend on each other, and without the diagonals."""
    side = min(_SIDE // 2, (problem.n - 1) // 2)
    if side == 0:
        return Entries(constant=True)
    block = yield Block(*_places(problem.n, side))
    square, bits = float(np.mean(block**2)), _bits(_thinned(block.reshape(problem.m, -1)))
    return Entries(1 / (2 * square) if square > 0 else 1.0, bits=bits, constant=True)


def _sample_bilinear(problem: Problem, diagonals: Float) -> Asks[Entries]:
    """`sample_entries` where the matrices hold only products of two vectors, and the last one their balance."""
    n, p = problem.n, problem.bilinear
    side = min(_SIDE, p, n - p)
    if problem.m < 5:
        return Entries()
    # Neighbours: in a convolution the products j, l and j + 1, l − 1 have one coefficient.
    rows, columns = (p - side) // 2 + np.arange(side), p + (n - p - side) // 2 + np.arange(side)
    block = (yield Block(rows, columns))[:-1]
    twice = len(np.unique(block.reshape(len(block), -1), axis=1).T) < side * side
    bits = _bits(_thinned(block.reshape(len(block), -1)))
    found = _described(problem.y[:-1], block, diagonals[:-1], ("repeated",) if twice else (), bits)
    # Add a zero matrix for the balance: the certificate expects a sample of all measurements.
    whole = None if found.block is None else np.concatenate([found.block, np.zeros((1, side, side))])
    return replace(found, block=whole)


def _sample_complex(problem: Problem, diagonals: Float) -> Asks[Entries]:
    """`sample_entries` for Hermitian matrices: rows of Re hold every number once, Re and Im in turn."""
    m, n = problem.m, problem.n // 2
    side = min(_SIDE // 2, (n - 1) // 3)
    bits = _bits(_thinned(diagonals))
    if side == 0 or m < 4:
        return Entries(bits=bits)
    # Take twice as many rows as columns, so that the block of Re and Im is square.
    chosen = np.random.default_rng(0).permutation(n - 1)[: 3 * side]
    columns = np.sort(chosen[2 * side :])
    block = yield Block(2 * np.sort(chosen[: 2 * side]), np.sort(np.concatenate([2 * columns, 2 * columns + 1])))
    # Leave out the imaginary parts of real matrices: zeros there are no repetition.
    varied = block if block[..., 1::2].any() else np.ascontiguousarray(block[:, :side, ::2])
    found = _described(problem.y, varied, diagonals, (), min(_bits(_thinned(varied.reshape(m, -1))), bits))
    return found if varied is block else replace(found, real=True)


def _described(y: Float, block: Float, diagonals: Float, symmetries: tuple[str, ...], bits: float) -> Entries:
    """The entries as described by the moments of a sample."""
    m = len(block)
    sample = block.reshape(m, -1)
    square, about_mean = kernels.moments(np.ascontiguousarray(sample, dtype=np.float64))
    diagonal_square, about_diagonals = kernels.moments(np.ascontiguousarray(diagonals, dtype=np.float64))
    # Do not centre where all y_i are the same: nothing would be left of them.
    same = float(y.max() - y.min()) <= 1e-12 * float(np.abs(y).max())
    centred = same or (_no_mean(about_mean, sample.shape[1]) and _no_mean(about_diagonals, diagonals.shape[1]))
    variance = square if centred else float(np.mean(np.var(sample, axis=0, ddof=1)))
    scale = square + diagonal_square
    if variance <= 1e-12 * scale:
        gain = 1 / scale if scale > 0 else 1.0
        return Entries(gain, True, symmetries, bits, constant=True)
    return Entries(1 / (2 * variance), centred, symmetries, bits, block)


@lru_cache(maxsize=16)
def _places(n: int, side: int) -> tuple[Indices, Indices]:
    """The rows and columns of the sample: distinct, and without the last coordinate. Do not write to them."""
    chosen = np.random.default_rng(0).permutation(n - 1)[: 2 * side]
    return np.sort(chosen[:side]), np.sort(chosen[side:])


def _no_mean(statistic: float, columns: int) -> bool:
    """Whether means are consistent with mean zero: Σ m mean²/var is χ², with a degree for each column."""
    return statistic < columns + _DEVIATIONS * math.sqrt(2.0 * columns)


def _repeats(sample: Float) -> bool:
    """Whether two of these numbers are equal."""
    ordered = np.sort(sample, axis=None)
    return bool((ordered[1:] == ordered[:-1]).any())


def _bits(sample: Float) -> float:
    """−log2 of the chance that two of these numbers are equal; infinite where that is less than one in a thousand."""
    if not _repeats(sample):
        return math.inf
    counts = np.unique(sample, return_counts=True)[1]
    chance = float(np.sum(counts * (counts - 1.0))) / (sample.size * (sample.size - 1.0))
    return -math.log2(chance) if chance > 1e-3 else math.inf


def few_valued(sample: Float) -> bool:
    """Whether entries, a row for each measurement, take so few values that sums of them may be equal by chance."""
    return math.isfinite(_bits(_thinned(sample)))


def _thinned(sample: Float) -> Float:
    """At most 32 measurements, and at most 32 entries of each."""
    m, count = sample.shape
    return sample[:: max(1, m // 32), :: max(1, count // 32)][:32, :32]


def _full_rank(blocks: Float) -> bool:
    """Whether a few square blocks of the matrices have full rank."""
    some = blocks[:: max(1, len(blocks) // 8)]
    size = some.shape[1]
    norms = np.sqrt(np.einsum("ijk,ijk->i", some, some))
    unit = some / np.where(norms > 0, norms, 1.0)[:, None, None]
    # Try the determinant first: for a matrix of norm 1 it bounds the least singular value from below.
    full = np.abs(np.linalg.det(unit)) > size * EPS
    if 2 * np.count_nonzero(full) > len(some):
        return True
    return bool((np.linalg.matrix_rank(some, tol=None) == size).mean() > 0.5)


def _within(statistic: float, degrees: float) -> bool:
    """Whether chance explains a χ² of these degrees; heavy tails scatter more than it: up to twice the mean."""
    return statistic < degrees + max(_DEVIATIONS * math.sqrt(2 * degrees), degrees)


def _uncorrelated(statistic: float, count: int) -> bool:
    """Whether columns are uncorrelated: m Σ corr² over the pairs of those that vary is a χ² with a degree for each."""
    pairs = count * (count - 1) / 2
    return pairs > 0 and _within(statistic, pairs)
