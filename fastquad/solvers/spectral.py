"""The spectral start (algorithm 1 of the paper).

With `S_in = Σ_i y_i Ã_i / m` and independent standard normal A, `E S_in = xx^T`: its leading eigenvector points
at x, and `φ = (mean y²)^(1/4)` is near ‖x‖. For a sparse x the diagonal of S_in alone tells where x is large,

    I_l = Σ_i y_i (A_i)_ll / m,    E I_l = x_l²,    S_0 = { l : I_l > α φ² sqrt(log n / m) },

and the eigenvector of the block S_0 × S_0 is far less noisy than that of the whole. Only the diagonals and that
block of A are read. Where nothing passes the test, S_0 is the largest I_l alone.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse.linalg import ArpackError, eigsh

from fastquad.measurements.base import Float
from fastquad.solvers.driver import Block, Diagonals, Request, WeightedSum

#: Said where the support test left nothing.
EMPTY_SUPPORT_NOTE = "No coordinate passed the support test: the start was the largest one alone."

# A dense eigensolver is as quick up to this size, and needs no start.
_DENSE = 200
# The block of A is read in pieces of at most so many bytes.
_PIECE_BYTES = 64 << 20


def spectral_start(
    y: Float, n: int, phi: float, *, alpha: float | None, within: NDArray[np.intp] | None = None
) -> Generator[Request, Any, tuple[Float, bool]]:
    """`φ v_1`, (n,), and whether the support estimate was empty; to be used with `yield from`.

    The support is estimated where alpha is given, and is a part of `within` where that is given.
    """
    empty = False
    if alpha is not None:
        support, empty = yield from estimated_support(y, n, phi, alpha, within)
    else:
        support = np.arange(n) if within is None else within
    S = yield from sub_block(y, n, support)
    x = np.zeros(n)
    x[support] = phi * leading_eigenvector(S)
    return x, empty


def estimated_support(
    y: Float, n: int, phi: float, alpha: float, within: NDArray[np.intp] | None = None
) -> Generator[Request, Any, tuple[NDArray[np.intp], bool]]:
    """The indices that pass the support test, and whether there were none, so that the largest was taken."""
    m = len(y)
    diagonals = yield Diagonals()
    candidates = np.arange(n) if within is None else within
    scores = (y @ diagonals / m)[candidates]
    passed = candidates[scores > alpha * phi**2 * np.sqrt(np.log(n) / m)]
    if passed.size:
        return passed, False
    return candidates[[np.argmax(scores)]], True


def sub_block(y: Float, n: int, support: NDArray[np.intp]) -> Generator[Request, Any, Float]:
    """`S_in[S, S]`, symmetric; the pairs outside S × S are not read."""
    m, s = len(y), len(support)
    if s == n:
        return (yield WeightedSum(y)) / m
    S = np.zeros((s, s))
    step = max(1, _PIECE_BYTES // (8 * m * s))
    for start in range(0, s, step):
        stop = min(s, start + step)
        # The columns before `start` are known by symmetry.
        piece = yield Block(support[start:stop], support[start:])
        S[start:stop, start:] = np.tensordot(y, piece, axes=1)
        S[start:, start:stop] = S[start:stop, start:].T
    return S / m


def leading_eigenvector(S: Float) -> Float:
    """The unit eigenvector of the algebraically largest eigenvalue; its largest entry is positive."""
    v = _last_eigenvector(S) if len(S) <= _DENSE else _by_lanczos(S)
    # An eigenvector has no sign: fix one, so that the answer does not depend on the eigensolver's.
    return v * np.copysign(1.0, v[np.argmax(np.abs(v))])


def _by_lanczos(S: Float) -> Float:
    """The unit eigenvector of the largest eigenvalue, from products with S."""
    # A fixed start: the same bits every time, and almost surely not orthogonal to the answer.
    v0 = np.random.default_rng(0).standard_normal(len(S))
    try:
        return eigsh(S, k=1, which="LA", v0=v0)[1][:, 0]
    except ArpackError:  # S is zero, or two eigenvalues nearly agree
        return _last_eigenvector(S)


def _last_eigenvector(S: Float) -> Float:
    """The unit eigenvector of the largest eigenvalue alone: a third of the time of all of them."""
    n = len(S)
    _, vectors, *_, info = lapack.dsyevr(S, range="I", il=n, iu=n, lower=1)
    return vectors[:, 0] if info == 0 else np.linalg.eigh(S)[1][:, -1]
