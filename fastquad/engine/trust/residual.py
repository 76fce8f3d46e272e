"""Whether what x leaves of y is not noise: dependent measurements, a majority that fits, a second signal.

**Dependent measurements.** `Σ c_i A_i = 0` means `Σ c_i y_i = 0` without noise: noise contradicts that, and what a
wrong x leaves does not.

**A majority.** Another signal fits most of the measurements to rounding and contradicts the others: outliers, of which
nobody was told. Least trimmed squares: fit the half of the measurements that fit best, and choose them anew, until they
stay the same. Noise leaves something of every half.

**Two signals** at once, `y_i = x^T Ã_i x + u^T Ã_i u`: light not quite coherent, a background. What is found then is
the larger principal axis of xx^T + uu^T, with the squares λ1 and λ2, and what it leaves looks like noise. Levenberg–
Marquardt on both tells: from x and the direction that the residual leans to, it ends where two signals leave nothing,
or far less than they would of noise. The two are known up to a rotation of the pair, which is the phase of x + iu. So
λ2/λ1 = ε does not determine how far the axis is from x: not at all where the two are orthogonal, by |u|²/2|x|² where
they are nearly parallel, with ε = sin²φ |u|²/|x|² for an angle of φ. `error` allows for √ε/2, which covers a u of up to
√ε of the power of x. For a complex x the same holds of Re and Im in turn; the rotations of the pair are then complex.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.measurements.dense.kept import Kept
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import singular_values_exceed
from fastquad.numerics.levenberg_marquardt import by_products, on_block
from fastquad.typing import Float, Indices


def no_noise(A: Kept, answer: Answer) -> str:
    """Whether what is left of y cannot be noise: where the A_i are dependent, noise contradicts that, and r does not.

    `Σ c_i A_i = 0` means `Σ c_i y_i = 0` for data without noise. Such c are the null vectors of the inner products of
    the A_i; noise has as much of its square along each of them as along any other direction that x cannot fit. The
    ratio of the two mean squares has an F distribution; that of a wrong x, which leaves signal as well, is too large.
    """
    from scipy.special import fdtrc

    m, n = A.tensor.m, A.members.size
    if m > 32 * tol.SMALL_N or _independent(A):
        return ""
    flat = A.block(np.arange(n)).reshape(m, -1)
    sizes = np.sqrt(np.einsum("ij,ij->i", flat, flat))
    unit = flat / np.where(sizes > 0, sizes, 1.0)[:, None]
    values, vectors = np.linalg.eigh(unit @ unit.T)
    null = vectors[:, values < 1e-9 * values[-1]]
    # c for the A_i as they are: an orthonormal basis.
    basis = np.linalg.qr(null / np.where(sizes > 0, sizes, 1.0)[:, None])[0] if null.shape[1] else null
    count = basis.shape[1]
    others = m - count - answer.unknowns
    if count == 0 or others <= 0:
        return ""
    noise = float(np.sum((basis.T @ answer.r) ** 2))
    rest = float(answer.r @ answer.r) - noise
    if fdtrc(others, count, rest / others / max(noise / count, 1e-300)) > tol.ALPHA:
        return ""
    return "Measurements that depend on each other agree far better than x fits them: not all that x leaves is noise."


def _independent(A: Kept) -> bool:
    """Whether a few entries of the matrices show that none of these is a combination of the others."""
    m, n = A.tensor.m, A.members.size
    rng = np.random.default_rng(0)
    part = A.entries(rng.integers(0, n, 2 * m), rng.integers(0, n, 2 * m))
    unit = part / np.maximum(np.sqrt(np.einsum("ij,ij->i", part, part)), 1e-300)[:, None]
    return singular_values_exceed(gram(np.ascontiguousarray(unit.T)), 1e-3)


def fits_most(y: Float, x: Float, block: Float, unknowns: int, *, turning: bool) -> str:
    """A sentence if a signal near x fits most measurements to rounding; empty if not.

    `block` is all of `Ã_i`, (m, n, n); `turning` says that x holds Re and Im in turn.
    """
    m, z = len(y), x
    count = max(m // 2 + 1, unknowns + tol.SPARE_ROWS)
    chosen = np.zeros(0, dtype=np.intp)
    for _ in range(tol.SEVERAL if count < m else 0):
        left = np.abs((block @ z) @ z - y)
        before, chosen = chosen, np.sort(np.argpartition(left, count)[:count])
        if np.array_equal(before, chosen):
            return ""
        if np.count_nonzero(y[chosen]) < unknowns + tol.SPARE_ROWS:
            return ""  # a signal of zero fits zeros
        descent = on_block(y[chosen], z, np.ascontiguousarray(block[chosen]), tol.CHALLENGE, turning=turning)
        z = descent.z
        if descent.residual < EXACT_RESIDUAL:
            fits = int(np.count_nonzero(np.abs((block @ z) @ z - y) < tol.NOTHING * float(np.abs(y).max())))
            return f"Another signal fits {fits} of {m} measurements to rounding: outliers=True may find it."
    return ""


def second_signal(y: Float, x: Float, A: Kept, r: Float, *, turning: bool) -> float:
    """ε of another signal u, measured together with x, that explains what x leaves; 0 if none does.

    A has all coordinates, and r is the residual of x; `turning` says that x holds Re and Im in turn.
    """
    m, left = len(y), float(r @ r)
    u = _leaning(A, r)
    where = _likeliest(x, u, m, turning)
    if where is None:
        return 0.0
    pair = np.stack([x[where], u[where]], axis=1)
    flat = A.block(where).reshape(-1, where.size) if where.size < x.size else None

    def products(d: Float) -> Float:
        """The products of both signals, in turn."""
        both = d.reshape(-1, 2)
        return (A.tensor._apply(both, 1) if flat is None else flat @ both).reshape(m, -1)

    descent = by_products(y, pair.reshape(-1), products, tol.CHALLENGE, turning=True)
    share = descent.square / max(left, 1e-300)
    found = share < tol.NOTHING or (where.size == x.size and _no_chance(share, x, m, turning))
    return _smaller_share(descent.z, turning) if found else 0.0


def _no_chance(share: float, x: Float, m: int, turning: bool) -> bool:
    """Whether two signals leave a smaller share of ‖r‖² than noise would.

    The share has a beta distribution: of the degrees of freedom that x leaves, the zeros of x take one each, and the
    unknowns of the other signal more. In 3,000 problems of noise alone the smallest chance was 6e-4.
    """
    from scipy.special import betainc

    one = x.size - turning
    spare = m - (int(np.count_nonzero(x)) - turning)
    taken = spare - (m - one) + tol.TAKEN * (_unknowns(x.size, turning) - one)
    return spare > taken and betainc((spare - taken) / 2, taken / 2, min(share, 1.0)) < tol.ALPHA


def _smaller_share(pair: Float, turning: bool) -> float:
    """ε of xx^T + uu^T, for the coordinates of x and u in turn."""
    both = pair.reshape(-1, 2)
    both = both[::2] + 1j * both[1::2] if turning else both
    least, most = np.linalg.eigvalsh(both.conj().T @ both)
    return max(float(least), 0.0) / max(float(most), 1e-300)


def _unknowns(size: int, turning: bool) -> int:
    """The unknowns of two signals with this many real coordinates each, less the rotations of the pair."""
    return 2 * size - (4 if turning else 1)


def _leaning(A: Kept, r: Float) -> Float:
    """The signal u for which r + A(uu^T) is least, along the direction that −r leans to most."""
    v = np.ascontiguousarray(np.linalg.eigh(-A.tensor._weighted_sum(r[:, None], 1)[0])[1][:, -1])
    q = A.tensor._apply(v, 1) @ v
    return v * math.sqrt(max(-float(r @ q) / max(float(q @ q), 1e-300), 0.0))


def _likeliest(x: Float, u: Float, m: int, turning: bool) -> Indices | None:
    """The coordinates of the two signals: all, or as many as measurements determine in time; None if x has more."""
    if _unknowns(x.size, turning) + tol.SPARE_ROWS <= m and m * x.size**2 <= tol.INDEPENDENT_ENTRIES:
        return np.arange(x.size)
    entries = (x**2 + u**2).reshape(-1, 1 + turning).sum(axis=1)
    count = max(0, min((m - tol.SPARE_ROWS) // 2, math.isqrt(tol.INDEPENDENT_ENTRIES // m))) // (1 + turning)
    if np.count_nonzero(x.reshape(-1, 1 + turning).any(axis=1)) > count:
        return None
    chosen = np.sort(np.argsort(-entries, kind="stable")[:count])
    return (chosen[:, None] * (1 + turning) + np.arange(1 + turning)).reshape(-1)
