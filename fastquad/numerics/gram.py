"""`W^T W`, the matrix of the inner products of columns."""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gram as kernels
from fastquad.system.deadline import check
from fastquad.typing import Float

# Columns of at most this many bytes stay in the second-level cache while all their inner products are made.
_CACHED = 1 << 20


def cached(W: Float) -> bool:
    """Whether the kernels take W: small enough, and row by row in memory."""
    return W.nbytes <= _CACHED and W.dtype == np.float64 and W.flags.c_contiguous and W.size > 0


def gram(W: Float) -> Float:
    """`W^T W`: for small W in half the time of a BLAS that does not know the processor's longest vectors."""
    if not cached(W):
        check(2.0 * W.size * W.shape[1])
        return W.T @ W
    out = np.empty((W.shape[1], W.shape[1]))
    kernels.gram(W, out)
    return out
