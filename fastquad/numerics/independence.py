"""Test whether columns are linearly independent, and how clearly; cheap where they clearly are."""

from __future__ import annotations

import math

import numpy as np

from fastquad._kernels.gram import beside
from fastquad.numerics import lapack
from fastquad.numerics.gram import cached, gram
from fastquad.typing import Float, Indices

# The least reciprocal condition number at which a Gram matrix proves anything: below it, eigenvalues are rounding.
_SHOWN = 1e-11
# LAPACK's estimate of the condition number is seldom off by more than this factor.
_ESTIMATE = 4.0


class Gram:
    """`G = C^T C` of columns C: its Cholesky factor, and a lower bound of the least singular value of C."""

    def __init__(self, gram: Float) -> None:
        self.gram = gram
        #: The lower bound of the least singular value of C; zero where nothing is proven.
        self.least = 0.0
        self.factor: Float | None = None
        if gram.shape[0] == 0:
            self.least = math.inf
            return
        norm = float(gram.trace())  # as large as the largest eigenvalue, and s times as large at most
        factor, info = lapack.dpotrf(gram, lower=1)
        if info == 0 and math.isfinite(norm):
            rcond = lapack.dpocon(factor, norm, uplo="L")[0]
            if rcond > _SHOWN:
                self.factor = factor
                # The 2-norm of a symmetric inverse is at most its 1-norm, which LAPACK slightly underestimates.
                self.least = math.sqrt(rcond * norm / _ESTIMATE)

    def part(self, which: Indices) -> Gram:
        """The Gram matrix of some of the columns."""
        return self if which.size == len(self.gram) else Gram(np.asfortranarray(self.gram[which[:, None], which]))

    def solve(self, b: Float) -> Float:
        """`G^{-1} b`, where there is a factor."""
        assert self.factor is not None
        return lapack.dpotrs(self.factor, b, lower=1)[0]

    def whiten(self, b: Float) -> Float:
        """`L^{-1} b`; for `b = C^T v`, its norms are those of the projections of v onto the span of C."""
        assert self.factor is not None
        return lapack.dtrtrs(self.factor, b, lower=1)[0]


def gram_beside(W: Float, columns: Gram, V: Float) -> Float:
    """The Gram matrix of V (m, s) off the span of W, whose own is given, with a factor."""
    out = np.empty((V.shape[1], V.shape[1]))
    if cached(W) and cached(V) and beside(W, V, out):
        return out
    inside = columns.whiten((V.T @ W).T)  # in the order that LAPACK takes
    return gram(V) - gram(np.ascontiguousarray(inside))


def singular_values_exceed(gram: Float, limit: float) -> bool:
    """Whether all singular values of C exceed a limit, given `G = C^T C`; where it is below rounding, exceed that.

    They do if `G` less the square of the limit is positive definite, which a Cholesky factor shows.
    """
    shift = max(limit**2, _SHOWN * float(gram.trace()))
    if not math.isfinite(shift):
        return False
    less = gram.copy()
    less.reshape(-1)[:: len(gram) + 1] -= shift
    return bool(lapack.dpotrf(less.T, lower=1, overwrite_a=1, clean=0)[1] == 0)


def least_squares(columns: Float, target: Float, gram: Gram | None = None) -> Float:
    """The d that minimises `‖columns d − target‖`; the one of least norm where there are several."""
    if gram is not None and gram.factor is not None:
        return gram.solve(columns.T @ target)
    return np.linalg.lstsq(columns, target, rcond=1e-13)[0]


def left_over(columns: Float, others: Float) -> Float:
    """The norm of the part of each of `others` that is orthogonal to the span of `columns`."""
    basis, values, _ = np.linalg.svd(columns, full_matrices=False)
    basis = basis[:, values > 1e-13 * values.max(initial=0.0)]
    rest = others - basis @ (basis.T @ others)
    rest -= basis @ (basis.T @ rest)  # a second projection removes the rounding of the first
    return np.sqrt(np.einsum("ij,ij->j", rest, rest))


def standard_errors(columns: Float, gram: Gram, which: Indices) -> Float:
    """`‖row j of C^+‖` for some j: the standard error of a least-squares coefficient for noise of variance one."""
    if gram.factor is not None:
        unit = np.zeros((columns.shape[1], which.size))
        unit[which, np.arange(which.size)] = 1.0
        inverse = gram.whiten(unit)
        return np.sqrt(np.einsum("ij,ij->j", inverse, inverse))
    inverse = np.linalg.pinv(columns, rcond=1e-12)
    return np.sqrt(np.einsum("ij,ij->i", inverse, inverse))[which]
