"""Points from distances with Gaussian noise of a known level, on a line and on a circle.

What is searched is the likelihood. With the density f of the given distances, smoothed by the noise, and their mean
density λ around, a pair of points at the distance e speaks for itself by

    g(e) = log(f(e)/λ(e) + ε)

which is positive where a distance near e was measured. On a line there are points at 0, at the largest distance and at
the second largest one; on a circle at 0 and at some arc. Every distance is that of a candidate to the point at 0, and
each candidate is weighed by its sum of g over the points so far. From many starts the likeliest candidates are added
(`_sprouts`); the best start is completed, now with what its pairs have explained taken out of f (`_completed`).

At the end both lists are sorted, the distances of the points and the given ones, and matched by rank: of all matchings
that has the smallest sum of squares. The positions of least squares for it are a mean, `x_j = mean_i ±d_ij`. Matching
and fitting are repeated until nothing changes (`_fitted`). With n points the standard error of a position is
`σ √(2/n)` on a line, relative to the first point, and `σ/√n` on a circle, where each pair has two arcs. It is larger
where distances without labels tell less (`_weighed`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import gaussian_filter1d

from fastquad.numerics.distances import Limits, circle_form, line_form
from fastquad.typing import Float, Indices

# The width of a cell of the tables, in standard deviations; a guess.
_CELL = 0.5
# The largest number of cells; below a cell the noise is so small that candidates are sure without it.
_CELLS = 1 << 18
# The spread of a measured distance around that of two candidates, in standard deviations: 1 + 1 + a part of 1 squared.
_SPREAD = 1.5
# The floor of a likelihood ratio, for distances that another pair took; a guess.
_FLOOR = 1e-3
# How many starts are grown side by side, and to how many points; guesses.
_STARTS, _SPROUT = 48, 14
# How often points that explain little are exchanged; a guess.
_ROUNDS = 12
# Up to how many points sets of them are looked for that explain the distances as well; more are told by the evidence.
_RIVALS = 20
# A fit explains the distances up to so many standard deviations of χ² above its mean; a guess.
_SURE = 4.0


@dataclass
class NoisyFound:
    """What a search in noise found: points, ascending, and how well they explain the distances."""

    x: Float
    stderr: Float
    #: The sum of squares that is left, in units of σ², and its freedom.
    chi2: float
    freedom: int
    #: ln of the evidence for these points, against distances that chance put there.
    evidence: float
    #: "all", or "time", "nodes".
    end: str = "all"
    nodes: int = 0
    rivals: list[Float] = field(default_factory=list)

    @property
    def explained(self) -> bool:
        """Whether the noise explains what is left."""
        return self.chi2 <= self.freedom + _SURE * np.sqrt(2 * self.freedom)


@dataclass
class _Setting:
    """A line or a circle with what was measured."""

    d: Float  # ascending
    n: int
    sigma: float
    length: float  # of the circle; 0 for a line
    cell: float
    density: Float  # of the distances, smoothed, a cell each
    around: Float  # the mean density

    @classmethod
    def of(cls, d: Float, n: int, sigma: float, length: float) -> _Setting:
        span = length or float(d[-1]) + 8 * sigma
        cell = max(_CELL * sigma, span / _CELLS)
        cells = int(np.ceil(span / cell))
        cell = span / cells
        mode = "wrap" if length else "reflect"
        where = np.clip((d / cell).astype(np.intp), 0, cells - 1)
        count = np.bincount(where, minlength=cells).astype(np.float64)
        width = max(_SPREAD * sigma / cell, 0.5)
        density = gaussian_filter1d(count, width, mode=mode)
        around = _around(count, max(40 * width, 100 * cells / d.size), mode)
        return cls(d, n, sigma, length, cell, density, around)

    @property
    def blur(self) -> float:
        """How far a candidate may be off: σ, or what a cell hides."""
        return max(self.sigma, self.cell / _CELL)

    def table(self, density: Float) -> Float:
        """g for each cell; on a circle, of both arcs of a pair."""
        g = np.log(np.maximum(density, 0.0) / self.around + _FLOOR)
        return g + g[::-1] if self.length else g

    def cells(self, p: Float, q: Float) -> Indices:
        """The cell of the distance from each q to each p."""
        apart = np.mod(q - p, self.length) if self.length else np.abs(q - p)
        return np.minimum((apart / self.cell).astype(np.intp), self.density.size - 1)

    def pairs(self, x: Float) -> tuple[Float, Indices, Indices, Float]:
        """Distances in ascending order with the pairs (i, j) and the signs of x_j − x_i; on a circle both arcs."""
        i, j = np.triu_indices(x.size, 1)
        e = x[j] - x[i]  # x ascends
        if self.length:
            e, i, j = np.concatenate([e, self.length - e]), np.tile(i, 2), np.tile(j, 2)
            sign = np.repeat([1.0, -1.0], i.size // 2)
        else:
            sign = np.ones(i.size)
        order = np.argsort(e, kind="stable")
        return e[order], i[order], j[order], sign[order]


def _around(count: Float, broad: float, mode: str) -> Float:
    """The mean of counts over about `broad` cells on both sides, found on coarser cells."""
    bins = int(np.clip(4 * count.size / broad, 8, 4096))
    edges = np.linspace(0, count.size, bins + 1).astype(np.intp)
    sums = np.add.reduceat(count, edges[:-1]) / np.diff(edges)
    smooth = gaussian_filter1d(sums, min(bins / 6, broad * bins / count.size), mode=mode, truncate=3.0)
    # A fifth of a distance in the whole range is the least; a guess.
    around: Float = np.interp(np.arange(count.size) + 0.5, (edges[:-1] + edges[1:]) / 2, smooth) + 0.2 / count.size
    return around


def on_line(d: Float, n: int, sigma: float, limits: Limits) -> NoisyFound:
    """n points on a line that explain these ascending distances best."""
    s = _Setting.of(d, n, sigma, 0.0)
    if n <= 3:
        middle = [d[-2]] if n == 3 else []
        return _judged(s, [np.array([0.0, *middle, d[-1]])], line_form)
    start = np.array([0.0, d[-1], d[-2]])
    return _search(s, [start], limits, line_form)


def on_circle(d: Float, n: int, length: float, sigma: float, limits: Limits) -> NoisyFound:
    """n points on a circle that explain these ascending arcs, both ways, best."""
    s = _Setting.of(d, n, sigma, length)

    def standard(x: Float) -> Float:
        return circle_form(np.mod(x, length), length)

    if n <= 2:
        return _judged(s, [np.array([0.0, d[0]])], standard)
    # The arcs that are most clearly there, of those that are not so short that noise may turn them around.
    g = s.table(s.density)
    some = d[(d > length / 20) & (d < length / 2)] if d.size > 40 else d[d <= length / 2]
    best = some[np.argsort(-g[s.cells(np.zeros(1), some)], kind="stable")]
    return _search(s, [np.array([0.0, arc]) for arc in best[:8]], limits, standard)


def _search(s: _Setting, starts: list[Float], limits: Limits, standard: Callable[[Float], Float]) -> NoisyFound:
    """The best of what grows from these starts and each likely further point, until one explains the distances."""
    begin, g = time.perf_counter(), s.table(s.density)
    best: NoisyFound | None = None
    seen: list[NoisyFound] = []
    tried, end, skip = 0, "all", 0
    for skip in range(0, s.d.size, _STARTS):
        sprouts = [x for start in starts for x in _sprouts(s, g, start, skip)]
        for x in sprouts:
            found = _judged(s, [_completed(s, x)], standard)
            tried += 1
            if best is None or found.chi2 < best.chi2:
                best = found
            if found.explained:
                seen.append(found)
            if best.explained and s.n > _RIVALS:
                break
            if limits.max_time is not None and time.perf_counter() - begin >= limits.max_time:
                end = "time"
            elif limits.max_nodes is not None and tried >= limits.max_nodes:
                end = "nodes"
            if end != "all":
                break
        if not sprouts or end != "all" or (best is not None and best.explained):
            break
    assert best is not None
    best.nodes, best.end = tried, end
    for other in sorted(seen, key=lambda each: each.chi2):
        as_likely = other.chi2 - best.chi2 < 2 * np.log(20)
        apart = all(_differ(other.x, x, best.stderr) for x in [best.x, *best.rivals])
        if as_likely and apart:
            best.rivals.append(other.x)
    return best


def _differ(x: Float, other: Float, stderr: Float) -> bool:
    """Whether two sets of points, in standard form, are further apart than noise explains."""
    apart = float(np.linalg.norm(x - other))
    return apart > max(3 * float(np.linalg.norm(stderr)), 0.05 * float(np.linalg.norm(x)))


def _sprouts(s: _Setting, g: Float, start: Float, skip: int) -> list[Float]:
    """Starts with one further point each, grown to `_SPROUT` points: those with the largest likelihood first."""
    C = s.d
    weight = g[s.cells(start[:, None], C)].sum(axis=0)
    weight[(np.abs(C[:, None] - start) < 4 * s.blur).any(axis=1)] = -np.inf
    thirds = np.argsort(-weight, kind="stable")[skip : skip + _STARTS]
    thirds = thirds[weight[thirds] > -np.inf]
    if not thirds.size:
        return []
    size = min(_SPROUT, s.n)
    X = np.empty((thirds.size, size))
    X[:, : start.size] = start
    W = np.tile(weight, (thirds.size, 1))
    rows, total, chosen = np.arange(thirds.size), np.zeros(thirds.size), thirds
    for k in range(start.size, size):
        total += W[rows, chosen]
        X[:, k] = C[chosen]
        if k + 1 < size:
            apart = C - X[:, k, None]
            W += g[s.cells(X[:, k, None], C)]
            W[np.abs(apart) < 4 * s.blur] = -np.inf
            chosen = W.argmax(axis=1)
    order = np.argsort(-total, kind="stable")
    good = order[np.isfinite(total[order])]
    return [X[i] for i in good[: max(3, _STARTS // 8)]] if good.size else [X[order[0]]]


def _completed(s: _Setting, x: Float) -> Float:
    """n points that begin with these: the likeliest candidates, with the distances that are explained taken out."""
    x = _settled(s, x)
    for round_ in range(_ROUNDS):
        while x.size < s.n:
            g = _left(s, x)
            weight = g[s.cells(x[:, None], s.d)].sum(axis=0)
            # Several at a time, as long as they are apart from each other: each changes what is left a little.
            some = max(1, min(s.n - x.size, x.size // 10))
            added = [float(s.d[weight.argmax()])]
            for c in np.argsort(-weight, kind="stable")[1 : 20 * some]:
                if len(added) == some:
                    break
                if min(abs(float(s.d[c]) - a) for a in added) > 20 * s.blur:
                    added.append(float(s.d[c]))
            x = np.append(x, added)
            x = _settled(s, x, x.size - len(added))
        x = _fitted(s, x)
        if round_ + 1 == _ROUNDS or _chi2(s, x) <= s.d.size:
            break
        # Exchange those that explain least, more at first.
        worth = _worth(s, x)
        x = x[np.sort(np.argsort(-worth, kind="stable")[: s.n - max(1, s.n // (8 + 4 * round_))])]
    return x


def _left(s: _Setting, x: Float) -> Float:
    """The table of the density without the distances of these points."""
    e = s.pairs(np.sort(x))[0]
    where = np.clip((e / s.cell).astype(np.intp), 0, s.density.size - 1)
    taken = np.bincount(where, minlength=s.density.size).astype(np.float64)
    width = max(_SPREAD * s.sigma / s.cell, 0.5)
    left = s.density - gaussian_filter1d(taken, width, mode="wrap" if s.length else "reflect")
    return s.table(left)


def _worth(s: _Setting, x: Float) -> Float:
    """How well each point's distances are among the given ones: the mean of −|misfit| after matching, capped."""
    x.sort()
    e, i, j, _ = s.pairs(x)
    misfit = np.minimum(np.abs(e - s.d) / s.sigma, 10.0)
    return np.asarray(-np.bincount(i, misfit, x.size) - np.bincount(j, misfit, x.size), dtype=np.float64)


def _settled(s: _Setting, x: Float, first: int = 0) -> Float:
    """Points from `first` on moved to the mean of their likelihood within three standard deviations, one by one."""
    x = x.copy()
    shifts = np.arange(-3.0, 3.01, 0.5) * s.blur
    log = np.log(np.maximum(s.density, 0) / s.around + _FLOOR)
    table = log + log[::-1] if s.length else log
    for k in range(max(first, 1), x.size):
        others = np.delete(x, k)
        weight = table[s.cells(others[:, None], x[k] + shifts)].sum(axis=0)
        p = np.exp(weight - weight.max())
        x[k] += float(p @ shifts / p.sum())
    return x


def _fitted(s: _Setting, x: Float) -> Float:
    """Matching by rank and least squares in turn, until the matching is the same."""
    x = np.sort(x)
    before: Float = np.empty(0)
    for _ in range(100):
        _, i, j, sign = s.pairs(x)
        # A measured arc the long way around is length − d the short way.
        d = np.where(sign > 0, s.d, s.length - s.d)
        x = (np.bincount(j, d, x.size) - np.bincount(i, d, x.size)) / (x.size * (2 if s.length else 1))
        x = np.sort(x - x.min())
        if before.size and np.abs(x - before).max() <= 1e-9 * s.sigma:
            break
        before = x
    return x


def _chi2(s: _Setting, x: Float) -> float:
    return float(np.sum((s.pairs(np.sort(x))[0] - s.d) ** 2)) / s.sigma**2


def _judged(s: _Setting, sets: list[Float], standard: Callable[[Float], Float]) -> NoisyFound:
    """The best of these sets, fitted, in standard form, with its errors and its evidence."""
    fitted = [_fitted(s, x) for x in sets]
    chi2 = [_chi2(s, x) for x in fitted]
    best = int(np.argmin(chi2))
    seen, evidence = _weighed(s, fitted[best])
    stderr = np.full(s.n, s.sigma * np.sqrt((1.0 if s.length else 2.0) / (s.n * seen)))
    stderr[0] = 0.0
    return NoisyFound(standard(fitted[best]), stderr, chi2[best], max(1, s.d.size - s.n + 1), evidence)


def _weighed(s: _Setting, x: Float) -> tuple[float, float]:
    """How much of its information a distance keeps without its label, and ln evidence for these points against chance.

    With f(u) = Σ_pairs φ(u − e) the information on e is `σ² ∫ φ'(u − e)²/f(u) du` of what it is with the label. The
    evidence is `Σ_t ln f(d_t)/λ(d_t)`, less ln(length/σ) for each position that was fitted.
    """
    e = s.pairs(x)[0]
    steps = np.arange(-4.0, 4.01, 0.5)
    phi = np.exp(-0.5 * steps**2) / np.sqrt(2 * np.pi)
    # Pairs within four σ of a distance are among the few of neighbouring rank.
    where, reach = np.searchsorted(e, s.d), 12
    near = np.clip(where[:, None] + np.arange(-reach, reach), 0, e.size - 1)
    new = np.diff(near, axis=1, prepend=-1) != 0
    f = (np.exp(-0.5 * ((s.d[:, None] - e[near]) / s.sigma) ** 2) * new).sum(axis=1) / np.sqrt(2 * np.pi)
    # In units of σ: one pair has the density φ, and the others come on top of it.
    order = np.clip(np.arange(e.size)[:, None] + np.arange(-reach, reach + 1), 0, e.size - 1)
    once = np.diff(order, axis=1, prepend=-1) != 0
    apart = np.where(once, (e[order] - e[:, None]) / s.sigma, np.inf)
    total = sum(np.exp(-0.5 * (steps - apart[:, k, None]) ** 2) for k in range(apart.shape[1])) / np.sqrt(2 * np.pi)
    seen = float(np.mean((steps**2 * phi**2 / np.maximum(total, phi)).sum(axis=1)) / (steps**2 * phi).sum())
    cell = np.clip((s.d / s.cell).astype(np.intp), 0, s.around.size - 1)
    chance = s.around[cell] * s.sigma / s.cell
    span = s.length or float(s.d[-1])
    freedom = (s.n - 1) * np.log(max(span / s.sigma, 1.0))
    return min(1.0, seen), float(np.log(np.maximum(f, 1e-30) / chance).sum() - freedom)
