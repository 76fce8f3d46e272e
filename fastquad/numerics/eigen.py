"""The leading eigenvector of a symmetric matrix."""

from __future__ import annotations

import numpy as np

from fastquad.numerics import lapack
from fastquad.typing import Float

# The largest matrix for the dense eigensolver, which is as quick up to here and needs no start.
_DENSE = 200


def leading_eigenvector(S: Float) -> Float:
    """The unit eigenvector of the algebraically largest eigenvalue; its largest entry is positive."""
    v = _last_eigenvector(S) if len(S) <= _DENSE else _by_lanczos(S)
    # An eigenvector has no sign: fix one, so that the answer does not depend on the eigensolver's.
    return v * np.copysign(1.0, v[np.argmax(np.abs(v))])


def _by_lanczos(S: Float) -> Float:
    """The unit eigenvector of the largest eigenvalue, from products with S."""
    from scipy.sparse.linalg import ArpackError, eigsh  # importing fastquad does without

    # A fixed start: the same bits every time, and almost surely not orthogonal to the answer.
    v0 = np.random.default_rng(0).standard_normal(len(S))
    try:
        return eigsh(S, k=1, which="LA", v0=v0)[1][:, 0]
    except ArpackError:  # S is zero, or two eigenvalues nearly agree
        return _last_eigenvector(S)


def _last_eigenvector(S: Float) -> Float:
    """The unit eigenvector of the largest eigenvalue by LAPACK: a third of the time of all eigenvectors."""
    n = len(S)
    _, vectors, *_, info = lapack.dsyevr(S, range="I", il=n, iu=n, lower=1)
    return vectors[:, 0] if info == 0 else np.linalg.eigh(S)[1][:, -1]
