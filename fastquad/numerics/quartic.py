"""Minimisers of quartics, exactly and many at once.

Along any direction d the objective is a quartic: with `p = 2 W d` and `q_i = d^T Ã_i d`,

    ‖r + u p + u² q‖² = ‖r‖² + 2u<r,p> + u²(|p|² + 2<r,q>) + 2u³<p,q> + u⁴|q|².

Its minimum over u is a root of a cubic, which has a closed form; so neither a line search nor the gain of a new
coordinate needs an iteration or another read of A.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fastquad.typing import Float


def minimise(c1: ArrayLike, c2: ArrayLike, c3: ArrayLike, c4: ArrayLike) -> tuple[Float, Float]:
    """The u that minimises `c1 u + c2 u² + c3 u³ + c4 u⁴`, and the minimum, elementwise; c4 >= 0.

    >>> minimise(0.0, -2.0, 0.0, 1.0)
    (np.float64(1.0), np.float64(-1.0))
    """
    c1, c2, c3, c4 = np.broadcast_arrays(*(np.asarray(c, dtype=np.float64) for c in (c1, c2, c3, c4)))
    positive = c4 > 0
    with np.errstate(over="ignore", invalid="ignore"):
        u, value = _best_root(c1, c2, c3, np.where(positive, c4, 1.0))
    good = positive & np.isfinite(value)
    u, value = np.where(good, u, 0.0), np.where(good, value, 0.0)
    # If the quartic term is negligible, the roots are rounding: take the minimum of the quadratic.
    flat = np.where(c2 > 0, -c1 / np.where(c2 > 0, 2 * c2, 1.0), 0.0)
    flat = _newton(flat, c1, c2, c3, c4)
    flat_value = flat * (c1 + flat * (c2 + flat * (c3 + flat * c4)))
    better = flat_value < value
    return np.where(better, flat, u)[()], np.where(better, flat_value, value)[()]


def minimise_upwards(c1: ArrayLike, c2: ArrayLike, c3: ArrayLike, c4: ArrayLike) -> tuple[Float, Float]:
    """The u >= 0 that minimises `c1 u + c2 u² + c3 u³ + c4 u⁴`, and the minimum, elementwise; c4 >= 0.

    >>> minimise_upwards(1.0, -2.0, 0.0, 1.0)[0] > 0, minimise_upwards(1.0, 2.0, 0.0, 1.0)[0]
    (np.True_, np.float64(0.0))
    """
    c1, c2, c3, c4 = np.broadcast_arrays(*(np.asarray(c, dtype=np.float64) for c in (c1, c2, c3, c4)))
    with np.errstate(over="ignore", invalid="ignore"):
        roots = _outer_roots(c1, c2, c3, np.where(c4 > 0, c4, 1.0))
        flat = _newton(np.where(c2 > 0, -c1 / np.where(c2 > 0, 2 * c2, 1.0), 0.0), c1, c2, c3, c4)
        u = np.stack([*np.where(c4 > 0, roots, 0.0), flat])
        values = u * (c1 + u * (c2 + u * (c3 + u * c4)))
    allowed = (u > 0) & np.isfinite(values)
    u, values = np.where(allowed, u, 0.0), np.where(allowed, values, 0.0)
    best = np.argmin(values, axis=0)[None]
    value = np.take_along_axis(values, best, axis=0)[0]
    return np.where(value < 0, np.take_along_axis(u, best, axis=0)[0], 0.0)[()], value[()]


def _best_root(c1: Float, c2: Float, c3: Float, c4: Float) -> tuple[Float, Float]:
    """The better of the outer roots of the derivative, for c4 > 0."""
    u = _outer_roots(c1, c2, c3, c4)
    values = u * (c1 + u * (c2 + u * (c3 + u * c4)))
    first = values[0] <= values[1]
    return np.where(first, u[0], u[1]), np.where(first, values[0], values[1])


def _outer_roots(c1: Float, c2: Float, c3: Float, c4: Float) -> Float:
    """The outer roots of the derivative, for c4 > 0 (the middle one is a maximum); twice the same if there is one."""
    shift = c3 / (4 * c4)
    # With u = t − shift the derivative is 4 c4 (t³ + 3P t + 2Q).
    P = c2 / (6 * c4) - shift**2
    Q = shift**3 - shift * c2 / (4 * c4) + c1 / (8 * c4)
    discriminant = Q**2 + P**3
    root = np.sqrt(np.maximum(discriminant, 0.0))
    # One real root, by Cardano without cancellation; or the outer two of three, by cosines.
    big = -np.copysign(np.cbrt(np.abs(Q) + root), Q)
    single = big - np.divide(P, big, out=np.zeros_like(big), where=big != 0)
    radius = np.sqrt(np.maximum(-P, 0.0))
    cosine = np.divide(-Q, radius**3, out=np.zeros_like(radius), where=radius > 0)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0)) / 3
    several = discriminant < 0
    roots = np.stack([
        np.where(several, 2 * radius * np.cos(angle), single),
        np.where(several, 2 * radius * np.cos(angle + 2 * np.pi / 3), single),
    ])  # fmt: skip
    return _newton(roots - shift, c1, c2, c3, c4)


def _newton(u: Float, c1: Float, c2: Float, c3: Float, c4: Float) -> Float:
    """One Newton step on the derivative: the closed form loses digits where its terms cancel."""
    slope = c1 + u * (2 * c2 + u * (3 * c3 + u * 4 * c4))
    curvature = 2 * c2 + u * (6 * c3 + u * 12 * c4)
    return u - np.divide(slope, curvature, out=np.zeros_like(u), where=curvature > 0)


def along(r: Float, p: Float, q: Float) -> tuple[float, float]:
    """The u that minimises `‖r + u p + u² q‖²`, and the change of the square there."""
    return minimise_one(*coefficients(r, p, q))


def coefficients(r: Float, p: Float, q: Float) -> tuple[float, float, float, float]:
    """`‖r + u p + u² q‖² − ‖r‖²` as `c1 u + c2 u² + c3 u³ + c4 u⁴`."""
    return 2 * float(r.dot(p)), float(p.dot(p) + 2 * r.dot(q)), 2 * float(p.dot(q)), float(q.dot(q))


def minimise_one(c1: float, c2: float, c3: float, c4: float) -> tuple[float, float]:
    """`minimise` for one quartic, without the cost of arrays."""
    candidates = [-c1 / (2 * c2)] if c2 > 0 else []
    # If the quartic term is negligible, take the minimum of the quadratic: the closed form would overflow.
    if max(abs(c1), abs(c2), abs(c3)) < 1e45 * c4:
        shift = c3 / (4 * c4)
        P = c2 / (6 * c4) - shift**2
        Q = shift**3 - shift * c2 / (4 * c4) + c1 / (8 * c4)
        discriminant = Q * Q + P**3
        if discriminant >= 0:
            big = -math.copysign(math.cbrt(abs(Q) + math.sqrt(discriminant)), Q)
            candidates.append((big - P / big if big else 0.0) - shift)
        else:
            radius = math.sqrt(-P)
            angle = math.acos(max(-1.0, min(1.0, -Q / radius**3))) / 3
            candidates += [2 * radius * math.cos(angle + turn) - shift for turn in (0.0, 2 * math.pi / 3)]
    best, value = 0.0, 0.0
    for u in candidates:
        curvature = 2 * c2 + u * (6 * c3 + u * 12 * c4)
        if curvature > 0:
            u -= (c1 + u * (2 * c2 + u * (3 * c3 + u * 4 * c4))) / curvature
        change = u * (c1 + u * (c2 + u * (c3 + u * c4)))
        if change < value:
            best, value = u, change
    return best, value


def gains(r: Float, W: Float, a: Float) -> tuple[Float, Float]:
    """How much `‖r‖²` falls when coordinate j is added, for every j; and its value u_j.

    `r` (m,) is `y − A(zz^T)`, W (m, n) the products of z, a (m, n) the diagonals: the new residual is
    `r − 2u W_j − u² a_j`.
    """
    WW, Wa, aa = (np.einsum("ij,ij->j", *pair) for pair in ((W, W), (W, a), (a, a)))
    u, change = minimise(-4 * (r @ W), 4 * WW - 2 * (r @ a), 4 * Wa, aa)
    return -change, u
