"""Try to refute an exact answer: is there another signal, found by a descent from another start, that fits as well?

The other tests of the certificate know symmetries of A, which have a twin for every x. Some x have a twin although A has
no symmetry: where two parts of x are coupled in a way that adds up to zero, where a part of x happens to be its own
mirror image, where few equations see a part of x in a basis of its own. Nothing finds all of these but a search. Random
starts end at one solution or another, and seldom at x alone where there are several: of 330 such answers, with as many
coordinates as these problems have, 16 descents refuted 90 of 100, and of 39 others none.

A search takes time where it reads no more of A: as much as 16 descents on small problems, fewer on larger ones, and none
where a descent takes longer than the solve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from fastquad.engine.challenge import CHALLENGE
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.typing import Float, Indices

# The number of entries that all descents together read, if the entries of A look independent and if not.
_WORK, _WORK_STRUCTURED = 3e7, 3e8
# The number of steps in a descent, typically.
_STEPS = 30
# The number of descents: fewer tell nothing.
_FEWEST, _MOST = 4, 32
# The number of descents that come back to x, and none to another signal, after which there is hardly one.
_ENOUGH = 12
# The distance from x, relative to it, up to which a descent has come back.
_BACK = 1e-3


def starts(m: int, n: int, s: int, *, independent: bool) -> int:
    """The number of descents on n coordinates, s of them nonzero, that are worth their time; 0 if it takes too long.

    Where there are no more measurements than coordinates, the descents are on the nonzero ones alone.
    """
    size = n if independent or m > n else s
    count = int((_WORK if independent else _WORK_STRUCTURED) // (_STEPS * m * max(size, 1) ** 2))
    return min(count, _MOST) if count >= _FEWEST else 0


def other_ends(
    y: Float,
    x: Float,
    block: Float,
    count: int,
    away: Callable[[Float], float],
    *,
    free: Indices | None = None,
    turning: bool = False,
) -> Iterator[Float]:
    """The signals, not x, with next to nothing left at which descents from random starts end; every other is orthogonal
    to x.

    `block` is `Ã_i`, (m, n, n), on the coordinates of x, of which those that are not `free` keep their values.
    """
    back, moving = 0, slice(None) if free is None else free
    rng = np.random.default_rng(4)
    for number in range(count):
        direction = rng.standard_normal(x[moving].size)
        if number % 2:
            direction -= x[moving] * (direction @ x[moving]) / float(x[moving] @ x[moving])
        descent = on_block(y, _started(y, x, block, direction, moving), block, CHALLENGE, free=free, turning=turning)
        if descent.residual < EXACT_RESIDUAL:
            if away(descent.z) > _BACK:
                yield descent.z
            else:
                back += 1
        if back == _ENOUGH:
            return


def _started(y: Float, x: Float, block: Float, direction: Float, moving: slice | Indices) -> Float:
    """A start along a direction whose measurements are as large as y: another signal may be shorter than x, or longer."""
    start = x.copy()
    start[moving] = direction
    size = float(np.linalg.norm((block @ start) @ start))
    start[moving] *= math.sqrt(float(np.linalg.norm(y)) / size) if size > 0 else 1.0
    return start
