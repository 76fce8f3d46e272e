"""`W^T W`, the matrix of the inner products of columns."""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gram as kernels
from fastquad.typing import Float

# Columns of at most this many bytes stay in the second-level cache while all their inner products are made.
_CACHED = 1 << 20


def gram(W: Float) -> Float:
    """`W^T W`: for small W in half the time of a BLAS that does not know the processor's longest vectors."""
    if W.nbytes > _CACHED or W.dtype != np.float64 or not W.flags.c_contiguous or W.size == 0:
        return W.T @ W
    out = np.empty((W.shape[1], W.shape[1]))
    kernels.gram(W, out)
    return out
