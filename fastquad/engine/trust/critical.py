"""Critical measurements, and the other solutions that they leave near x.

Without a critical measurement i the Jacobian loses a direction v, the one with `J v = e_i` (rows weighted): as many
measurements as unknowns say what is there. A square system of quadratic equations has several roots. Along x + u v

    ‖w r(u)‖² = u² ‖p + u q‖²,    p = w J v = e_i,  q = w z(v)

for exact data, so that the other root is near `u = −p^T q / q^T q`, the more so the smaller the angle between p and q.
From there a descent finds it. Of a power grid it is the low voltage at which a bus takes the same power.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.measurements.contractions import Along, Gradient, Measure
from fastquad.typing import Asks, Float, Indices

# A measurement is critical if its redundancy, 1 − leverage, is below this. On grids of 14 to 2,869 buses critical ones
# have at most 1e-15, and others nearly always more than 1e-6.
_CRITICAL = 1e-8
# How many random residuals are looked at. With four, a measurement of redundancy 1e-3 passes for one below _SUSPECT
# once in 10^6 times, and one of redundancy _CRITICAL for one below _CERTAIN never.
_PROBES, _SUSPECT, _CERTAIN = 4, 1e-6, 1e-16
# How often a least-squares solution from the normal equations is corrected by its own residual.
_CORRECTIONS = 3
# How many critical measurements are looked at for another root, and how many roots are tried: a guess. On a grid of
# 1,354 buses with 300 critical meters 6 of the 8 best were roots.
_LOOKED_AT, _TRIED = 48, 6
# A root that is farther away than this, in units of x, is none of the same system. A guess.
_FAR = 2.0


def projected(case: Any, g: Float) -> Asks[tuple[Float, Float]]:
    """The least-squares solution v of `w J v = g`, and what it leaves of g, (m,)."""
    v = np.zeros(case.problem.n)
    for _ in range(_CORRECTIONS):
        step = case.factor.solve((yield Gradient(case.x, case.w * g)))
        v = v + step
        g = g - case.w * (yield Along(case.x, step))
    return v, g


def critical(case: Any) -> Asks[Indices]:
    """The measurements of redundancy zero, in ascending order."""
    m = case.problem.m
    rng = np.random.default_rng(8)
    squares = np.zeros(m)
    for _ in range(_PROBES):
        squares += (yield from projected(case, rng.standard_normal(m)))[1] ** 2 / _PROBES
    found: list[int] = np.flatnonzero(squares <= _CERTAIN).tolist()
    for i in np.flatnonzero((squares > _CERTAIN) & (squares < _SUSPECT)).tolist():
        _, left = yield from projected(case, _unit(m, i))
        if float(left @ left) <= _CRITICAL:
            found.append(i)
    return np.sort(np.array(found, dtype=np.intp))


def other_roots(case: Any) -> Asks[list[Float]]:
    """Signals near which other roots are, of the systems that critical measurements close; the nearest to one first."""
    places = yield from critical(case)
    if places.size > _LOOKED_AT:
        places = np.random.default_rng(9).choice(places, _LOOKED_AT, replace=False)
    found: list[tuple[float, Float]] = []
    for i in places:
        v, _ = yield from projected(case, _unit(case.problem.m, i))
        p, q = case.w * (yield Along(case.x, v)), case.w * (yield Measure(v))
        square, both = float(q @ q), float(p @ q)
        if not square > 0:
            continue
        u = -both / square
        if 0 < abs(u) * float(np.linalg.norm(v)) <= _FAR * case.norm:
            found.append((1 - both**2 / (square * float(p @ p)), case.x + u * v))
    found.sort(key=lambda each: each[0])
    return [start for _, start in found[:_TRIED]]


def _unit(m: int, i: int) -> Float:
    unit = np.zeros(m)
    unit[i] = 1.0
    return unit
