"""Twins of a complex answer x: other signals, not x with another phase, that have the same measurements.

With Re and Im in turn, a Hermitian matrix is a real symmetric B_i, and a linear or antilinear map that leaves the
measurements as they are is a real Q with `Q^T B_i Q = B_i`. Then `B_i Qx = Q^{-T} B_i x`: each row of the matrices,
times u = Qx, is a combination of the columns of W, `W[i] = B_i x`. That is linear in u. Where a few rows leave no
solution but x and ix, there is no such twin; where they leave more, Levenberg–Marquardt looks for it among those alone.

Relabelled entries are found as in `fastquad.engine.trust.twins`, by the moduli of the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from fastquad.engine.trust.answer import BLOCK_BYTES
from fastquad.engine.trust.challenge import (
    APART,
    CHALLENGE,
    CHALLENGE_INDEPENDENT,
    CHALLENGE_STRUCTURED,
    NOT_AGAIN,
    Challenge,
    Met,
    starts,
)
from fastquad.engine.trust.evidence import SPARE_NATS, against_chance, evidence_of
from fastquad.engine.trust.refutation import other_ends
from fastquad.engine.trust.refutation import starts as starts_to_refute
from fastquad.engine.trust.rivals import expand
from fastquad.engine.trust.subsystem import hardly_seen, solutions
from fastquad.engine.trust.valleys import BEYOND_CHANCE, gain
from fastquad.measurements.contractions import Block, Compress, FirstProducts, Products
from fastquad.numerics import symmetry
from fastquad.numerics.gram import gram
from fastquad.numerics.independence import Gram
from fastquad.numerics.levenberg_marquardt import on_block, turned
from fastquad.numerics.relabelling import nearly_fitting, relabellings
from fastquad.solution import distance
from fastquad.typing import Asks, Float, Indices, Number

if TYPE_CHECKING:
    from fastquad.engine.entries import Entries
    from fastquad.engine.trust.turning import Turned

# The number of exchanges of two entries that are tried.
_EXCHANGES = 8
# The number of directions in which a line is looked for.
_LINES = 4
# The number of measurements, beyond the unknowns, whose rows are likely to see every direction.
_SPARE_ROWS = 8
# The square of what the rows see of a direction, relative to the average, below which a twin may lie along it, in
# double precision.
_UNSEEN = 1e-11
# The same in single precision.
_UNSEEN_ROUNDED = 1e-9
# The same in noise.
_UNSEEN_NOISY = 1e-2
# The largest number of such directions that are searched.
_DIRECTIONS = 16
# The number of starts of that search.
_STARTS = 12
# The largest number of steps to another signal.
_STEPS = 8
# The number of them to the bottom of a valley in noise.
_SETTLING = 3
# The largest number of relabellings from which steps are taken, of those that nearly fit.
_RELABELLINGS = 20
# The largest share of y that such a one leaves, and the same as a multiple of what x leaves.
_NEARLY, _ERRORS = 0.1, 3.0
# The number of matrices that they must preserve.
_MATRICES = 24
# The difference of moduli, relative to the largest, below which they are equal, in double precision.
_ALIKE = 2e-11
# The same in single precision.
_ROUNDED_ALIKE = 3e-5


def named(case: Turned, diagonals: Float, entries: Entries | None) -> Iterator[tuple[str, Number]]:
    """Signals that fit as well where A has the symmetry, by name: those that a look at A does not rule out."""
    z: Number = case.x.view(np.complex128)
    # A few complex entries that were seen rule it out.
    seen = entries is not None and entries.block is not None and not entries.real
    if not seen and case.problem.gauge == "phase":
        yield "conjugated", z.conj().copy()
    repeated = _alike(diagonals, np.flatnonzero(z))
    if not repeated:
        return
    reverse = np.ascontiguousarray(z[::-1])
    yield "reversed", reverse
    yield "reversed and conjugated", reverse.conj().copy()
    yield "moved by one", np.roll(z, 1)
    yield "moved by one", np.roll(z, -1)
    for j, k in repeated[:_EXCHANGES]:
        twin = z.copy()
        twin[[j, k]] = twin[[k, j]]
        yield f"with the entries {j} and {k} exchanged", twin


def _alike(diagonals: Float, support: Indices) -> list[tuple[int, int]]:
    """Pairs of entries, one of them on the support, with the same diagonals."""
    size = np.abs(diagonals).max(initial=0.0) or 1.0
    keys: dict[bytes, list[int]] = {}
    for j, column in enumerate(np.round(diagonals.T / (1e-9 * size))):
        keys.setdefault(column.tobytes(), []).append(j)
    inside = set(support.tolist())
    return [
        (j, k)
        for same in keys.values()
        for i, j in enumerate(same)
        for k in same[i + 1 :]
        if j in inside or k in inside
    ]


def line(case: Turned) -> Asks[bool]:
    """Whether x + tv fits for every t, although there are more measurements than unknowns; the doubt is noted."""
    m, n = case.problem.m, case.problem.n
    if case.S.size == n or m <= n:
        return False
    if case.read.size == n:
        seen = _all_seen(case, case.x, case.W)
    else:
        # A vector that is measured neither alone nor with x is not measured with the largest entries of x, either.
        largest = case.groups.members(np.argsort(-case.groups.norms(case.x), kind="stable")[:2])
        z = np.where(np.isin(np.arange(n), largest), case.x, 0.0)
        seen = _all_seen(case, z, (yield FirstProducts(z, n + _SPARE_ROWS)))
    if seen:
        return False
    if case.read.size < n:
        case.W, case.read = (yield Products(case.x)), np.arange(n)
    J = case.scaled(case.W)
    pin = float(np.linalg.norm(J, axis=0).max()) * turned(case.x)
    values, vectors = np.linalg.svd(np.concatenate([J, pin[None]]), full_matrices=False)[1:]
    for v in vectors[values <= case.need][:_LINES]:
        if (yield from fits(case, case.x + case.norm * v, np.arange(n), "Another signal")):
            return True
    return False


def _all_seen(case: Turned, z: Float, W: Float) -> bool:
    """Whether rows of the products W of z clearly see every direction but that of the phase of z."""
    size = float(np.linalg.norm(W)) / math.sqrt(W.shape[1])
    seen = Gram(gram(np.concatenate([W, size * turned(z)[None]])))
    return 2 * case.norm * seen.least > case.need * float(case.delta.max())


def linear(case: Turned) -> Asks[bool]:
    """Whether a linear or antilinear map gives a twin on the support; the doubt is noted."""
    S = case.S
    m, s, z = case.problem.m, S.size, case.x[S]
    if s <= 2 or m <= s - 1:
        return False
    count = min(s, 2 * (math.ceil((s - 2) / (m - s + 1)) + 3))
    entries = np.argsort(-case.groups.norms(case.x)[case.groups.touched(S)], kind="stable")[: count // 2]
    rows = yield Block(S[np.sort(np.concatenate([2 * entries, 2 * entries + 1]))], S)
    basis, values, _ = np.linalg.svd(case.W[:, S], full_matrices=False)
    basis = basis[:, values > 1e-12 * values[0]]
    i_z = turned(z)
    total = np.outer(z, z) / float(z @ z) + np.outer(i_z, i_z)
    scale = max(float(np.einsum("ijk,ijk->", rows, rows)) / s, 1e-300)
    for c in range(rows.shape[1]):
        outside = rows[:, c] - basis @ (basis.T @ rows[:, c])
        total += outside.T @ outside * (rows.shape[1] / scale)
    limit = _UNSEEN_NOISY if case.noisy else _UNSEEN_ROUNDED if case.problem.dtype.itemsize < 8 else _UNSEEN
    sizes, vectors = np.linalg.eigh(total)
    null = vectors[:, sizes < limit * rows.shape[1]][:, :_DIRECTIONS]
    if null.shape[1] == 0:
        return False
    space = np.zeros((case.problem.n, 2 + null.shape[1]))
    space[S] = np.column_stack([z / float(np.linalg.norm(z)), i_z, null])
    small = yield Compress(space)
    rng = np.random.default_rng(3)
    for _ in range(_STARTS):
        start = rng.standard_normal(space.shape[1])
        found = on_block(case.problem.y, start * (case.norm / float(np.linalg.norm(start))), small, CHALLENGE)
        if (yield from fits(case, space @ found.z, S, "Another signal")):
            return True
    return False


def fits(case: Turned, start: Float, support: Indices, name: str) -> Asks[bool]:
    """Whether a few steps from a start, on a support, lead to another signal that fits; the doubt is noted."""
    x, before, settling = start.copy(), math.inf, _SETTLING if case.noisy else 0
    for step in range(_STEPS):
        if case.away(x) <= case.nearer:
            return False
        W = yield Products(x)
        r = (W @ x - case.problem.y) / case.delta
        size = math.sqrt(float(r @ r) / r.size)
        if size < case.fits and settling == 0:
            if case.another(x):
                case.doubt = f"{name} fits as well, {case.away(x):.2g} away."
            return bool(case.doubt)
        # In noise much around a valley fits: go on to its bottom.
        settling -= size < case.fits
        if not math.isfinite(size) or (step > 2 and size > max(0.25 * before, case.fits)):
            return False
        before = size
        J = W[:, support] / case.delta[:, None]
        pin = float(np.linalg.norm(J)) / math.sqrt(support.size) * turned(x[support])
        x[support] -= 0.5 * np.linalg.lstsq(np.concatenate([J, pin[None]]), np.append(r, 0.0), rcond=1e-13)[0]
    return False


def relabelled(case: Turned, diagonals: Float) -> Asks[bool]:
    """Whether x, or its conjugate, on other entries fits as well; `diagonals` (m, n) are real."""
    z: Number = case.x.view(np.complex128)
    tolerance = _ROUNDED_ALIKE if case.problem.dtype.itemsize < 8 else _ALIKE
    kind = symmetry.alike(diagonals, tolerance)
    inside = np.flatnonzero(z)
    members = np.flatnonzero(np.isin(kind, kind[inside]))
    alone = (np.bincount(kind, minlength=kind.size)[kind[inside]] == 1).all()
    if alone or 16 * case.problem.m * members.size**2 > min(BLOCK_BYTES, case.problem.memory // 8):
        return False
    block = yield Block(2 * members, np.sort(np.concatenate([2 * members, 2 * members + 1])))
    moduli = np.hypot(block[..., ::2], block[..., 1::2])
    some = symmetry.largest(moduli, _MATRICES)
    where = np.searchsorted(members, inside)
    found = relabellings(moduli[some], where, kind[members], tolerance)

    def moved() -> Iterator[Number]:
        for images, _ in found:
            for values in (z[inside], z[inside].conj()):
                yield _placed(values, images, members.size)

    limit = max(_NEARLY * float(np.linalg.norm(case.problem.y)), _ERRORS * float(np.linalg.norm(case.r)))
    hermitian = block[..., ::2] - 1j * block[..., 1::2]
    apart = (twin for twin in nearly_fitting(hermitian, moved(), case.problem.y, limit))
    for twin in islice(apart, _RELABELLINGS):
        start = _placed(twin, members, z.size).view(np.float64)
        support = case.groups.whole(np.flatnonzero(start))
        if (yield from fits(case, start, support, "x, or its conjugate, on other entries")):
            return True
    return False


def _placed(values: Number, where: Indices, size: int) -> Number:
    """A complex vector with these values there, zero elsewhere."""
    out = np.zeros(size, dtype=np.complex128)
    out[where] = values
    return out


def subsystem(case: Turned) -> Asks[bool]:
    """Whether some entries have other values that fit as well, see the module `subsystem`; the doubt is noted."""
    problem, S = case.problem, case.S
    limit = case.need * case.delta / (2 * case.norm)
    part = hardly_seen(case.W[:, S], limit, case.residual if case.noisy else None, turning=True)
    if part is None:
        return False
    if 8 * problem.m * S.size**2 <= min(BLOCK_BYTES, problem.memory // 8):
        block = (yield Block(S))[part.rows]
        if part.linear(block, part.unknowns):
            return False
        for z in solutions(problem.y[part.rows], case.x[S], block, part.unknowns, noisy=case.noisy):
            if (yield from fits(case, expand(z, S, problem.n), S, "Another signal")):
                return True
    case.doubt = part.doubt("some entries")
    return bool(case.doubt)


def challenged(case: Turned, independent: bool) -> Asks[bool]:
    """Whether random starts lead to another signal that fits as well, or not to x again; the doubt is noted."""
    problem, m = case.problem, case.problem.m
    most = CHALLENGE_INDEPENDENT if independent else CHALLENGE_STRUCTURED
    near, better = (case.apart, APART) if independent else (APART, case.nearer)
    challenge, met = Challenge(near, better, case.nearer), Met.NOTHING
    nats, by_chance = against_chance(problem, case.S.size, problem.sigma or float(np.median(case.delta)))
    count = None
    if independent and nats > BEYOND_CHANCE * (by_chance + SPARE_NATS):
        count = starts_to_refute(m, problem.n, case.S.size, independent=True)
        if count == 0:
            return False
    everything = np.arange(problem.n)
    for where in (everything, case.S) if m >= problem.n else (case.S,):
        if m * where.size**2 > most or where.size > m:
            return False
        block = yield Block(where)
        met = challenge.meet(_descents(case, block, where, count), case.away, case.rival)
        if met in (Met.ANOTHER, Met.BETTER):
            case.twin = challenge.found
            how = "fits as well" if met is Met.ANOTHER else "is far likelier"
            case.doubt = f"Another signal, {challenge.away:.2g} away, {how}."
            return True
        if met is Met.AGAIN:
            break
    if not independent:
        case.blur = max(case.blur, challenge.blur)
    # Noise of a given level that is found again speaks for x as well.
    if independent or problem.noise.given or met is Met.AGAIN:
        return False
    case.doubt = NOT_AGAIN
    return True


def refuted(case: Turned, entries: Entries) -> Asks[bool]:
    """Whether descents from other starts find another exact answer; the doubt is noted."""
    problem = case.problem
    count = starts_to_refute(problem.m, problem.n, case.S.size, independent=entries.independent)
    for where in (np.arange(problem.n), case.S) if count else ():
        if where.size > problem.m:
            continue
        block = yield Block(where)
        # Without more independent measurements than coordinates there are always others that are dense.
        if where.size > case.S.size and not _all_seen(case, case.x, block @ case.x):
            continue

        def far(z: Float, where: Indices = where) -> float:
            return away(case, expand(z, where, problem.n))

        for z in other_ends(problem.y, case.x[where], block, count, far, turning=True):
            if (yield from fits(case, expand(z, where, problem.n), where, "Another signal")):
                return True
        return False
    return False


def _descents(case: Turned, block: Float, where: Indices, count: int | None) -> Iterator[tuple[float, Float]]:
    """Signals that Levenberg–Marquardt finds from random ones, with the evidence for each less that for x."""
    evidence = evidence_of(case.problem, case.x, case.W, case.r, case.S)
    rng = np.random.default_rng(2)
    for _ in range(starts(block.size) if count is None else count):
        start = rng.standard_normal(where.size)
        descent = on_block(
            case.problem.y, start * (case.norm / float(np.linalg.norm(start))), block, CHALLENGE, turning=True
        )
        x = expand(descent.z, where, case.problem.n)
        yield gain(case.problem, evidence, x, descent, where, where), x


def away(case: Turned, x: Float) -> float:
    """How far another signal is from x, relative and up to a phase."""
    both = (np.ascontiguousarray(part).view(np.complex128) for part in (x, case.x))
    return float(distance(*both, conjugation=case.problem.gauge != "phase"))
