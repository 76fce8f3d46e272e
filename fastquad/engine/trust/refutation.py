"""Try to refute an exact answer: is there another signal, found by a descent from another start, that fits as well?

The other tests of the certificate know symmetries of A, which have a twin for every x. Some x have a twin although A
has no symmetry: where two parts of x are coupled in a way that adds up to zero, where a part of x happens to be its own
mirror image. Nothing finds all of these but a search: descents from random starts, and from starts beside x, end at one
solution or another. Where a twin was planted among random matrices, they find it in 98 or 99 of 100 problems.

Descents take time, although they read A but once: a few milliseconds on small problems, and they are left out where
they would take much longer than the solve. Where a sample of A shows a structure, they may take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust.challenge import CHALLENGE
from fastquad.numerics.levenberg_marquardt import Rule, on_block, turned
from fastquad.typing import Float, Indices

# The number of entries that all descents together read, if the entries of A look independent and if not.
_WORK, _WORK_STRUCTURED = 1.5e7, 5e7
# The number of steps in a descent, typically.
_STEPS = 30
# The number of descents: fewer tell nothing.
_FEWEST, _MOST = 4, 32
# The number of descents that come back to x, and none to another signal, after which there is hardly one.
_ENOUGH = 12
# The distance from x, relative to it, up to which a descent has come back.
_BACK = 1e-3
# When a descent among the signals orthogonal to x stops.
_BESIDE = Rule(max_steps=12, patience=5)


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
    """The signals, not x, with next to nothing left at which descents from random starts end.

    `block` is `Ã_i`, (m, n, n), on the coordinates of x, of which those that are not `free` keep their values.
    """
    back, rng = 0, np.random.default_rng(4)
    beside = None if free is not None or x.size < 3 + turning else _Beside(y, x, block, turning)
    moving = slice(None) if free is None else free
    for number in range(count):
        start = x.copy()
        direction = rng.standard_normal(start[moving].size)
        start[moving] = direction * (float(np.linalg.norm(x[moving])) / float(np.linalg.norm(direction)))
        if number % 2 and beside is not None:
            start = beside.moved(start)
        descent = on_block(y, start, block, CHALLENGE, free=free, turning=turning)
        if descent.residual < EXACT_RESIDUAL:
            if away(descent.z) > _BACK:
                yield descent.z
            else:
                back += 1
        if back == _ENOUGH:
            return


class _Beside:
    """Starts beside x: a few steps among the signals orthogonal to x, so that fewer descents come back to it."""

    def __init__(self, y: Float, x: Float, block: Float, turning: bool) -> None:
        along = [x, turned(x)] if turning else [x]
        #: A basis in which x, and ix, come first, and the matrices in it.
        self.basis = np.linalg.qr(np.column_stack([*along, np.eye(x.size)]))[0]
        self.block = self.basis.T @ block @ self.basis
        self.y, self.free = y, np.arange(len(along), x.size)

    def moved(self, start: Float) -> Float:
        """A start, moved to where signals orthogonal to x fit better."""
        z = start @ self.basis
        z[: self.free[0]] = 0.0
        return self.basis @ on_block(self.y, z, self.block, _BESIDE, free=self.free).z
