"""Whether two signals are measured at once, `y_i = x^T Ã_i x + u^T Ã_i u`: light not quite coherent, a background.

What is found then is the larger principal axis of xx^T + uu^T, with the squares λ1 and λ2, and what it leaves looks
like noise. Levenberg–Marquardt on both signals tells: from x and the direction that the residual leans to, it ends
where two signals leave nothing, or far less than they would of noise. The two are known up to a rotation of the pair,
which is the phase of x + iu. So λ2/λ1 = ε does not determine how far the axis is from x: not at all where the two are
orthogonal, by |u|²/2|x|² where they are nearly parallel, with ε = sin²φ |u|²/|x|² for an angle of φ. `error` allows for
√ε/2, which covers a u of up to √ε of the power of x.

For a complex x the same holds of its real and imaginary parts in turn; the rotations of the pair are then complex.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.trust.challenge import CHALLENGE
from fastquad.numerics.levenberg_marquardt import by_products
from fastquad.typing import Float, Indices

# The share of ‖r‖² below which nothing is left.
_NOTHING = 1e-6
# The chance below which noise alone does not leave so little.
_BY_CHANCE = 1e-3
# How much of the noise another signal takes away, for each of its unknowns: it is the best of many.
_TAKEN = 1.4
# The measurements to spare beyond the unknowns of two signals: with fewer, a pair fits anything.
_TO_SPARE = 8
# The largest number of entries of the matrices that a pair is fitted to: a step takes a millisecond (a work bound).
_ENTRIES = 400_000


def second_signal(y: Float, x: Float, block: Float, r: Float, *, turning: bool) -> float:
    """ε of another signal u, measured together with x, that explains what x leaves; 0 if none does.

    `block` is all of `Ã_i`, (m, n, n), and r the residual of x; `turning` says that x holds Re and Im in turn.
    """
    m, left = len(y), float(r @ r)
    u = _leaning(block, r)
    where = _likeliest(x, u, m, turning)
    if where is None:
        return 0.0
    part = block if where.size == x.size else np.ascontiguousarray(block[:, where[:, None], where])
    flat, pair = part.reshape(-1, where.size), np.stack([x[where], u[where]], axis=1)

    def products(d: Float) -> Float:
        """The products of both signals, in turn."""
        return (flat @ d.reshape(-1, 2)).reshape(m, -1)

    descent = by_products(y, pair.reshape(-1), products, CHALLENGE, turning=True)
    share = descent.square / max(left, 1e-300)
    found = share < _NOTHING or (where.size == x.size and _no_chance(share, x, m, turning))
    return _smaller_share(descent.z, turning) if found else 0.0


def _no_chance(share: float, x: Float, m: int, turning: bool) -> bool:
    """Whether two signals leave a smaller share of ‖r‖² than noise would.

    The share has a beta distribution: of the degrees of freedom that x leaves, the zeros of x take one each, and the
    unknowns of the other signal more. In 3,000 problems of noise alone the smallest chance was 6e-4.
    """
    from scipy.special import betainc

    one = x.size - turning
    spare = m - (int(np.count_nonzero(x)) - turning)
    taken = spare - (m - one) + _TAKEN * (_unknowns(x.size, turning) - one)
    return spare > taken and betainc((spare - taken) / 2, taken / 2, min(share, 1.0)) < _BY_CHANCE


def widened(error: float, second: float) -> float:
    """The error of x if another signal is measured with it."""
    return math.hypot(error, math.sqrt(second) / 2)


def _smaller_share(pair: Float, turning: bool) -> float:
    """ε of xx^T + uu^T, for the coordinates of x and u in turn."""
    both = pair.reshape(-1, 2)
    both = both[::2] + 1j * both[1::2] if turning else both
    least, most = np.linalg.eigvalsh(both.conj().T @ both)
    return max(float(least), 0.0) / max(float(most), 1e-300)


def _unknowns(size: int, turning: bool) -> int:
    """The unknowns of two signals with this many real coordinates each, less the rotations of the pair."""
    return 2 * size - (4 if turning else 1)


def _leaning(block: Float, r: Float) -> Float:
    """The signal u for which r + A(uu^T) is least, along the direction that −r leans to most."""
    v = np.linalg.eigh(-np.tensordot(r, block, 1))[1][:, -1]
    q = (block @ v) @ v
    return v * math.sqrt(max(-float(r @ q) / max(float(q @ q), 1e-300), 0.0))


def _likeliest(x: Float, u: Float, m: int, turning: bool) -> Indices | None:
    """The coordinates of the two signals: all, or as many as measurements determine in time; None if x has more."""
    if _unknowns(x.size, turning) + _TO_SPARE <= m and m * x.size**2 <= _ENTRIES:
        return np.arange(x.size)
    entries = (x**2 + u**2).reshape(-1, 1 + turning).sum(axis=1)
    count = max(0, min((m - _TO_SPARE) // 2, math.isqrt(_ENTRIES // m))) // (1 + turning)
    if np.count_nonzero(x.reshape(-1, 1 + turning).any(axis=1)) > count:
        return None
    chosen = np.sort(np.argsort(-entries, kind="stable")[:count])
    return (chosen[:, None] * (1 + turning) + np.arange(1 + turning)).reshape(-1)
