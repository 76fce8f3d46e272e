"""How likely the data are if a signal is right: one number, by which two explanations of y are compared.

`f` free real numbers explain m measurements and leave the residual r. With noise of a standard deviation σ that is not
known (its logarithm is as likely to be anywhere), and values of x that are as likely to be anywhere within ‖x‖, all
values of these numbers and all σ together give y the probability

    ln evidence = −(m − f)/2 ln ‖r‖² + ln Γ((m − f)/2) − ½ ln det(J^T J) − ln C(n, s) + a constant,

where J is the change of the measurements for a change of x by its norm, and C(n, s) the number of supports that s of n
entries have. So the freedom of an explanation is paid for: a dense signal nearly always leaves less than a sparse one,
which says nothing. Where the noise is given the first two terms are −‖r/σ‖²/2. ‖r‖² is not less than what rounding
leaves, so that the same number holds for exact data; there it is the count of bits that chance would have to match.

Bits count chance, not structure: planted twins, symmetries and equal rows give none. So they speak for a signal only
after a search for such twins has found none.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.numerics.gram import gram
from fastquad.typing import Float, Indices


def log_evidence(
    r: Float, columns: Float, norm: float, choices: float, *, floor: float = 0.0, sigma: float | Float | None = None
) -> float:
    """The log of the evidence for a signal, but for a constant that is the same for all signals.

    `r` (m,) are its residuals, `columns` (m, s) its products on the coordinates that were fitted, `norm` is ‖x‖, and
    `choices` the log of the number of supports of its size. `floor` is the least ‖r‖² that rounding leaves. `sigma` is
    the noise, where it is given. Directions that the measurements do not see, such as the phase, are not counted as
    free. A signal with as many free numbers as measurements explains nothing: −inf.
    """
    m = r.size
    if sigma is not None:
        scale = np.maximum(sigma, 1e-300)
        left = r / scale
        seen = _squares_seen(columns / np.broadcast_to(scale, r.shape)[:, None], norm)
        return -0.5 * float(left @ left) - 0.5 * float(np.log1p(seen).sum()) - choices
    square = max(float(r @ r), floor, 1e-300)
    values = _squares_seen(columns, norm)
    seen = values[values > square / max(1, m - min(values.size, m - 1))]
    spare = m - seen.size
    if spare <= 0:
        return -math.inf
    return -0.5 * spare * math.log(square) + math.lgamma(0.5 * spare) - 0.5 * float(np.log(seen).sum()) - choices


def evidence_of(problem: Problem, x: Float, W: Float, r: Float, free: Indices) -> float:
    """`log_evidence` of a signal of this problem, with its products (m, n) and residuals, fitted on these coordinates.

    The evidence is that of the best values of these coordinates. Where a prior has shrunk x, or a descent has stopped,
    they are a step of least squares away.
    """
    columns, groups = W if free.size == problem.n else W[:, free], problem.groups
    unknowns = problem.n - len(problem.fixed) if problem.support is None else problem.support.size
    n, s = (unknowns, free.size) if groups is None else (groups.count, groups.touched(free).size)
    floor = rounding_floor(columns, x[free], problem.y)
    if free.size < r.size:
        r = r - columns @ np.linalg.lstsq(columns, r, rcond=1e-10)[0]
    norm = float(np.linalg.norm(x[free])) or 1.0
    sigma = problem.deviations(r) if problem.sigma > 0 else None
    return log_evidence(r, columns, norm, log_choices(max(n, s), s), floor=floor, sigma=sigma)


def likelihood_of(problem: Problem, r: Float, free: int) -> float:
    """What the residual (m,) adds to the log of the evidence, with so many free numbers."""
    if problem.sigma > 0:
        left = r / np.maximum(problem.deviations(r), 1e-300)
        return -0.5 * float(left @ left)
    return -0.5 * (r.size - free) * math.log(max(float(r @ r), 1e-300))


def against_chance(problem: Problem, s: int, noise: float, spread: float | None = None) -> tuple[float, float]:
    """How improbable it is that a wrong signal leaves only this noise, and what chance can do, both in nats.

    A signal in a wrong valley, or on wrong coordinates, leaves an equation at the level of the noise with a chance of
    about σ over the `spread` of y, and those to spare all at once. Up to 2^s signals differ in signs, which linear
    terms determine, and C(n, s) in their supports. `s` counts free real numbers.
    """
    width = 1 + problem.turning
    ratio = max((width_of(problem.y, noise) if spread is None else spread) / max(noise, 1e-300), 1.0)
    signs = 0.0 if problem.fixed else s * math.log(2)
    n = problem.n if problem.support is None else problem.support.size
    choices = log_choices(max(n, s) // width, s // width)
    return (problem.m - s + problem.turning) * math.log(ratio), signs + choices


def width_of(y: Float, noise: float) -> float:
    """The standard deviation of the normal distribution that has the entropy of y, nowhere denser than its noise is.

    It is less than that of y where a few measurements are far larger than the others, which chance meets more easily:
    by e for squares of normal numbers. The entropy is that of the gaps between values √m apart (Vasicek's estimate),
    each less the mean of its logarithm by chance, 1/g + ... + 1/m.
    """
    m, normal = y.size, 0.5 * math.log(2 * math.pi * math.e)
    if m < 3:
        return float(np.std(y))
    ordered, i = np.sort(y), np.arange(m)
    k = min(max(1, round(math.sqrt(m))), (m - 1) // 2)
    low, high = np.maximum(i - k, 0), np.minimum(i + k, m - 1)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, m + 1))])
    logs = np.log(np.maximum(ordered[high] - ordered[low], 1e-300)) + harmonic[m] - harmonic[high - low - 1]
    least = math.log(max(noise, 1e-300)) + normal - 0.5
    return math.exp(float(np.mean(np.maximum(logs, least))) - normal)


def rounding_floor(columns: Float, z: Float, y: Float) -> float:
    """‖r‖² that rounding alone may leave of a signal with these values and products."""
    return float(np.sum((8 * tol.EPS * (np.abs(columns) @ np.abs(z) + np.abs(y))) ** 2))


def log_choices(n: int, s: int) -> float:
    """ln of (n choose s)."""
    return math.lgamma(n + 1) - math.lgamma(s + 1) - math.lgamma(n - s + 1)


def bits_of(y: Float, residual: float = 0.0) -> Float:
    """How many bits each measurement may speak against chance: log2 of the number of values that it could have taken.

    About 40 for a number that is equal to no other and on no common grid, whatever the entries of A are; or as many as
    the relative residual tells, where A is rounded. Numbers on a
    grid, such as sums of integers, could have taken the steps between the least and the largest; values that repeat
    are taken as often as they are seen.
    """
    size = float(np.abs(y).max(initial=0.0))
    if size == 0.0 or y.size < 2:
        return np.zeros(y.size)
    keys = np.round(y / (4 * size / 2**tol.GENERIC_BITS))
    step = _common_step(np.abs(y) / size)
    # As many steps as a normal distribution of this width has, by the chance that two draws are equal.
    steps = min(float(np.ptp(y)), 2 * math.sqrt(math.pi) * float(np.std(y))) / size / step if step else math.inf
    generic = min(tol.GENERIC_BITS, -math.log2(min(max(residual, 1e-300), 1.0)))
    most = min(math.log2(1 + steps), generic) if steps < 2**tol.SPARE_BITS else generic
    ordered = np.sort(keys)
    if (ordered[1:] > ordered[:-1]).all():
        return np.full(y.size, most)
    _, where, counts = np.unique(keys, return_inverse=True, return_counts=True)
    repeated = counts[where.reshape(-1)]
    return np.where(repeated > 1, np.minimum(-np.log2(repeated / y.size), most), most)


def short_of(bits: Float, s: int, width: int, choices: float) -> str:
    """What is missing if bits of the measurements do not rule chance out; empty if they do.

    s real numbers were fitted, which takes as many measurements, those that say most. `choices` is the log of the
    number of supports. Where measurements take few values, so does x, it may be: each entry, of `width` numbers, may
    have another sign. Other signals on the support are few and far between elsewhere; these a search has to find.
    """
    bits = np.sort(bits)
    spare = float(bits[: max(0, bits.size - s)].sum())
    signs = s / width if bits[0] < tol.FEW_BITS else 0.0
    needed = signs + choices / math.log(2) + tol.SPARE_BITS
    if spare >= needed:
        return ""
    return (
        f"The measurements take few values: those beyond the unknowns give {spare:.0f} bits of evidence, and "
        f"{needed:.0f} bits are needed to rule out that another signal fits by chance."
    )


def product_bits(V: Float) -> Float:
    """How many bits each measurement may speak against chance, (m,), by its products V (m, s) with coordinates of x.

    −log2 of the chance that two products are equal, tol.GENERIC_BITS where none are; a measurement that does not see a
    coordinate says as little as others do so, too. The coordinate of which all say least counts.
    """
    least = 1e-10 * float(np.abs(V).max(initial=0.0))
    seen = np.abs(V) > least
    values, bits = V[seen], tol.GENERIC_BITS
    counts = np.unique(np.round(values / (least or 1.0)), return_counts=True)[1]
    pairs = float(np.sum(counts * (counts - 1.0)))
    if pairs > 0:
        bits = -math.log2(pairs / (values.size * (values.size - 1.0)))
    each = np.where(seen, bits, -np.log2(np.maximum(1 - seen.mean(axis=0), 1e-300)))
    return np.asarray(each[:, np.argmin(each.sum(axis=0))])


def _squares_seen(columns: Float, norm: float) -> Float:
    """The eigenvalues of J^T J, at least 0, for J = 2 norm · columns."""
    m, s = columns.shape
    square = gram(columns) if s <= m else columns @ columns.T
    return np.maximum(np.linalg.eigvalsh(square), 0.0) * (2 * norm) ** 2


def _common_step(sizes: Float) -> float:
    """The largest number that these, between 0 and 1, are multiples of; 0 if none is above 2**−SPARE_BITS."""
    step = 0.0
    for size in np.sort(sizes):
        a, b = float(size), step
        while b > 1 / 2**tol.SPARE_BITS:
            a, b = b, a % b
            b = 0.0 if b < 1e-9 or a - b < 1e-9 else b
        if b > 0.0:
            return 0.0
        step = a
        if 0 < step <= 1 / 2**tol.SPARE_BITS:
            return 0.0
    return step
