"""The spectral start (algorithm 1 of the paper).

With `S_in = Σ_i y_i Ã_i / m` and independent standard normal A, `E S_in = xx^T`: its leading eigenvector points
at x, and `φ = (mean y²)^(1/4)` is near ‖x‖. For a sparse x the diagonal of S_in alone tells where x is large,

    I_l = Σ_i y_i (A_i)_ll / m,    E I_l = x_l²,    S_0 = { l : I_l > α φ² sqrt(log n / m) },

and the eigenvector of the block S_0 × S_0 is far less noisy than that of the whole. Only the diagonals and that
block of A are read. Where nothing passes the test, S_0 is the largest I_l alone.
"""

from __future__ import annotations

import numpy as np

from fastquad.measurements.contractions import Block, Diagonals, WeightedSum
from fastquad.numerics.eigen import leading_eigenvector
from fastquad.typing import Asks, Float, Indices

#: The note if no coordinate passed the support test.
EMPTY_SUPPORT_NOTE = "No coordinate passed the support test: the start was the largest one alone."

# The largest piece of the block of A that is read at once, in bytes.
_PIECE_BYTES = 64 << 20


def spectral_start(
    y: Float,
    n: int,
    phi: float,
    *,
    alpha: float | None,
    within: Indices | None = None,
    count: int | None = None,
) -> Asks[tuple[Float, bool]]:
    """`φ v_1`, (n,), and whether the support estimate was empty; to be used with `yield from`.

    The support is estimated if alpha is given, and lies in `within` if that is given. `count` is the number of entries
    of x: n, or half of that if they are complex and have two coordinates each, with the same diagonals.
    """
    empty = False
    if alpha is not None:
        support, empty = yield from estimated_support(y, count or n, phi, alpha, within)
    else:
        support = np.arange(n) if within is None else within
    S = yield from sub_block(y, n, support)
    x = np.zeros(n)
    x[support] = phi * leading_eigenvector(S)
    return x, empty


def estimated_support(
    y: Float, n: int, phi: float, alpha: float, within: Indices | None = None
) -> Asks[tuple[Indices, bool]]:
    """The indices that pass the support test, or else the largest one; and whether none passed."""
    m = len(y)
    diagonals = yield Diagonals()
    candidates = np.arange(diagonals.shape[1]) if within is None else within
    scores = (y @ diagonals / m)[candidates]
    passed = candidates[scores > alpha * phi**2 * np.sqrt(np.log(n) / m)]
    if passed.size:
        return passed, False
    best = candidates[np.argmax(scores)]
    # Take both coordinates of a complex entry.
    return (np.array([best]) if n == diagonals.shape[1] else best // 2 * 2 + np.arange(2)), True


def sub_block(y: Float, n: int, support: Indices) -> Asks[Float]:
    """`S_in[S, S]`, symmetric; the pairs outside S × S are not read."""
    m, s = len(y), len(support)
    if s == n:
        return (yield WeightedSum(y)) / m
    S = np.zeros((s, s))
    step = max(1, _PIECE_BYTES // (8 * m * s))
    for start in range(0, s, step):
        stop = min(s, start + step)
        # Skip the columns before `start`, which are known by symmetry.
        piece = yield Block(support[start:stop], support[start:])
        S[start:stop, start:] = np.tensordot(y, piece, axes=1)
        S[start:, start:stop] = S[start:stop, start:].T
    return S / m
