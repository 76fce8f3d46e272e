"""Points from the distances between them, when nobody knows which two points a distance belongs to.

On a line this is the turnpike problem: a digest of DNA cuts it at every site, and the lengths of all pieces are
measured. On a circle it is the beltway problem, of a plasmid. Distances without noise are searched exhaustively, so
that the answer is proven, or every rival is listed. Distances with noise are searched by likelihood, then fitted by
least squares. Two sets of points that are mirror images have the same distances: one of the two is given.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.noise import Gaussian
from fastquad.noise.base import Noise
from fastquad.numerics import distances as exact
from fastquad.numerics.distances import Found, Limits
from fastquad.solution import Proof, Solution
from fastquad.status import Status
from fastquad.typing import Float

if TYPE_CHECKING:
    from fastquad.numerics.noisy_distances import NoisyFound

__all__ = ["Points", "circle", "line"]

#: Seconds after which a search ends by default. The worst cases take exponential time.
MAX_TIME = 60.0
#: What rests on an exhaustive search: distances that differ by less than `margin` of the largest are equal.
PROOF = Proof("enumeration", margin=exact.EQUAL, radius=exact.EQUAL)


class Points(Solution):
    """The answer of `fastquad.points.line` and `fastquad.points.circle`: a `Solution` whose x are positions.

    `x` (n,) are the positions, ascending from 0. `rival` (n,) is another set of points with the same distances, if
    there is one, and `rivals` (r, n) are all that were found. `proof` is of the kind "enumeration". `stderr` (n,)
    are the standard errors of the positions, in the units of the distances; `error` is relative to x.

    Examples
    --------
    >>> import fastquad as fq
    >>> solution = fq.points.line([1, 2, 3, 4, 5, 6])
    >>> solution.success, solution.x, solution.rivals.shape
    (True, array([0., 1., 4., 6.]), (0, 4))
    """

    @property
    def rivals(self) -> Float:
        """The other sets of points that have these distances, (r, n)."""
        return self.history.get("rivals", np.empty((0, len(self.x))))

    def __repr__(self) -> str:
        return (
            f"Points({self.status.name}: {len(self.x)} points, residual {self.residual:.1e}, {self.n_iter} tried, "
            f"{self.elapsed:.2g} s)"
        )


def line(
    distances: ArrayLike, noise: Any = None, *, max_time: float | None = MAX_TIME, max_nodes: int | None = None
) -> Points:
    """Points on a line, from the distances of all pairs in any order: the turnpike problem.

    Parameters
    ----------
    distances : array of shape (n (n − 1)/2,)
        The distance of every pair of n points, in any order. Points may coincide: then zeros are among them.
    noise : float, optional
        The standard deviation of a distance. Without it, or with 0, distances are exact: those that differ by less than
        1e-9 of the largest are equal.
    max_time : float or None
        Seconds after which the search ends, with a status that says so. None: no limit.
    max_nodes : int, optional
        The largest number of placements to try. With it, the answer is the same on every machine.

    Returns
    -------
    Points
        A `Solution` with the positions `x` (n,), ascending from 0; of the two mirror images the one with the smaller
        second gap. Its status is PROVEN if an exhaustive search found no others with these distances, AMBIGUOUS if it
        did (see `rival` and `rivals`), CONVERGED for distances with noise that the points explain, and STAGNATED if no
        points have these distances.

    Examples
    --------
    >>> import fastquad as fq
    >>> solution = fq.points.line([8, 3, 10, 5, 2, 7])
    >>> solution.status.name, solution.x
    ('PROVEN', array([ 0.,  2.,  7., 10.]))

    Some sets of points have the same distances although they are no mirror images of each other:

    >>> two = fq.points.line([1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 10, 11])
    >>> two.status.name, two.x, two.rival
    ('AMBIGUOUS', array([ 0.,  1.,  2.,  6.,  8., 11.]), array([ 0.,  2.,  4.,  5., 10., 11.]))
    """
    start = time.perf_counter()
    d = np.sort(_distances(distances, "distances"))
    n = round((1 + (1 + 8 * d.size) ** 0.5) / 2)
    if n * (n - 1) // 2 != d.size:
        raise ValueError(
            f"`distances` must be those of all n (n − 1)/2 pairs of n points, such as {n * (n - 1) // 2} for n = {n}, "
            f"got {d.size}: list a distance once for each pair that has it."
        )
    limits, sigma = _limits(max_time, max_nodes), _sigma(noise)
    if sigma == 0:
        _check_not_negative(d)
        found = exact.on_line(d, n).go_on(limits)
        given = [exact.line_distances(x)[0] - d for x in found.solutions[:1]]
        return _exact(found, n, d, given, "a line", start)
    from fastquad.numerics import noisy_distances as noisy  # it needs SciPy's filters

    return _noisy(noisy.on_line(d, n, sigma, limits), n, d, sigma, "a line", start)


def circle(
    distances: ArrayLike,
    length: float,
    noise: Any = None,
    *,
    max_time: float | None = MAX_TIME,
    max_nodes: int | None = None,
) -> Points:
    """Points on a circle, from the arcs of all pairs, both ways, in any order: the beltway problem.

    Parameters
    ----------
    distances : array of shape (n (n − 1),)
        For every pair of n points both arcs between them, which add up to `length`, in any order.
    length : float
        The circumference.
    noise : float, optional
        The standard deviation of an arc. Without it, or with 0, arcs are exact to 1e-9 of the length.
    max_time, max_nodes
        As for `line`.

    Returns
    -------
    Points
        As for `line`. The positions `x` (n,) ascend from 0, with the smallest gap first; of the two mirror images it is
        the one with the smaller second gap.

    Examples
    --------
    >>> import fastquad as fq
    >>> solution = fq.points.circle([1, 9, 3, 7, 4, 6], length=10)
    >>> solution.status.name, solution.x
    ('PROVEN', array([0., 1., 4.]))
    """
    start = time.perf_counter()
    d = np.sort(_distances(distances, "distances"))
    length = arguments.number(length, "length", positive=True)
    n = round((1 + (1 + 4 * d.size) ** 0.5) / 2)
    if n * (n - 1) != d.size:
        half = round((1 + (1 + 8 * d.size) ** 0.5) / 2)
        once = half * (half - 1) // 2 == d.size
        way = ": give both arcs of each pair, d and length − d." if once else "."
        raise ValueError(
            f"`distances` must be the arcs of all pairs of n points both ways, n (n − 1) of them, such as "
            f"{n * (n - 1)} for n = {n}, got {d.size}{way}"
        )
    limits, sigma = _limits(max_time, max_nodes), _sigma(noise)
    pairs = d.size // 2
    sums = d[:pairs] + d[pairs:][::-1]
    # The sum of all arcs is that of the pairs times the length.
    slack = 4 * exact.EQUAL * length if sigma == 0 else 10 * sigma
    if np.abs(sums.mean() - length) > slack or (sigma == 0 and np.abs(sums - length).max() > slack):
        raise ValueError(
            f"`length` must be the sum of the two arcs of each pair, got {length:.10g}, but the mean sum of two arcs "
            f"is {sums.mean():.10g}: give that length, or all arcs both ways{', or `noise`' if sigma == 0 else ''}."
        )
    if sigma == 0:
        _check_not_negative(d)
        arcs = np.sort((d[:pairs] + (length - d[pairs:][::-1])) / 2)
        found = exact.on_circle(arcs, n, length).go_on(limits)
        given = [exact.circle_arcs(x, length)[0] - arcs for x in found.solutions[:1]]
        return _exact(found, n, arcs, given, "a circle", start)
    from fastquad.numerics import noisy_distances as noisy

    return _noisy(noisy.on_circle(d, n, length, sigma, limits), n, d, sigma, "a circle", start)


def _distances(distances: ArrayLike, name: str) -> Float:
    """The distances, finite, at least one."""
    d = arguments.real_array(distances, name)
    if d.ndim != 1 or not d.size:
        raise ValueError(f"`{name}` must be a list of at least one distance, got shape {d.shape}.")
    if not d.any():
        return d
    largest = float(np.abs(d).max())
    if not 1e-100 < largest < 1e100:
        raise ValueError(f"`{name}` must be of a size between 1e-100 and 1e100, got {largest:.3g}: use another unit.")
    return d


def _check_not_negative(d: Float) -> None:
    if d[0] < 0:
        raise ValueError(f"`distances` must not be negative, got {d[0]:.6g}.")


def _limits(max_time: float | None, max_nodes: int | None) -> Limits:
    return Limits(
        None if max_time is None else arguments.number(max_time, "max_time"),
        None if max_nodes is None else arguments.count(max_nodes, "max_nodes"),
    )


def _sigma(noise: Any) -> float:
    """The standard deviation, from a number or from `fastquad.noise.Gaussian`."""
    if isinstance(noise, Noise):
        if type(noise) is not Gaussian or noise.sigma is None:
            raise ValueError(
                "`noise` must be the standard deviation of a distance, or fastquad.noise.Gaussian(sigma), "
                f"got {noise!r}."
            )
        noise = noise.sigma
    return 0.0 if noise is None else arguments.number(noise, "noise")


# -- verdicts -----------------------------------------------------------------------------------------------------

_LIMIT = {"time": "`max_time`", "nodes": "`max_nodes`"}


def _exact(found: Found, n: int, d: Float, misfit: Sequence[Float], where: str, start: float) -> Points:
    """The verdict on an exhaustive search."""
    count, others = len(found.solutions), found.solutions[1:]
    many = f"at least {count}" if not found.complete else str(count)
    if count > 1:
        status = Status.AMBIGUOUS
        said = (
            f"Ambiguous: {many} sets of {n} points on {where} have these distances, none the mirror image of another. "
            "They are `x` and `rivals`. Only further knowledge of the points can tell which set is right."
        )
    elif count and found.complete:
        status = Status.PROVEN
        said = (
            f"Proven: these {n} points on {where} have exactly the given distances, and an exhaustive search found no "
            "others, up to the mirror image."
        )
    elif count:
        status = Status.UNDECIDED
        why = (
            "some distances differ by hardly more than 1e-9 of the largest, and the search had to choose between "
            "them. Give the distances more precisely, or pass their error as `noise`."
            if found.end == "all"
            else f"{_LIMIT[found.end]} ended the search for others. Raise it to go on."
        )
        said = f"Undecided: these {n} points on {where} have exactly the given distances, but {why}"
    elif found.end == "all":
        status = Status.STAGNATED
        said = (
            f"Not found: no {n} points on {where} have exactly these distances. The search placed at most "
            f"{found.best.size} of them. A distance is wrong, or all are rounded: pass their error as `noise`."
        )
    else:
        status = Status.MAX_TIME if found.end == "time" else Status.MAX_ITER
        said = (
            f"Out of {'time' if found.end == 'time' else 'nodes'}: the search placed at most {found.best.size} of {n} "
            f"points on {where}; `x` holds them. Raise {_LIMIT[found.end]}."
        )
    x = found.solutions[0] if count else found.best
    rival = others[0] if others else None
    size = float(np.linalg.norm(d)) or 1.0
    error = None
    if status is Status.PROVEN:
        error = 0.0
    elif rival is not None:
        error = float(np.linalg.norm(rival - x) / np.linalg.norm(x))
    return _points(
        x, status, said, found.nodes, float(np.linalg.norm(misfit[0]) / size) if misfit else 1.0, error, None, None,
        np.array(others) if others else None, PROOF if status is Status.PROVEN else None, start,
    )  # fmt: skip


def _noisy(found: NoisyFound, n: int, d: Float, sigma: float, where: str, start: float) -> Points:
    """The verdict on a search in noise."""
    error = float(np.linalg.norm(found.stderr) / (np.linalg.norm(found.x) or 1.0))
    ratio = found.chi2 / found.freedom
    fit = f"what is left is {np.sqrt(ratio):.3g} times the noise of {sigma:.3g}"
    stderr: Float | None = found.stderr
    if found.rivals:
        status = Status.AMBIGUOUS
        said = (
            f"Ambiguous: at least {1 + len(found.rivals)} sets of {n} points on {where} explain the distances within "
            "their noise. They are `x` and `rivals`. Measure the distances more precisely."
        )
    elif found.explained and found.evidence < np.log(20):
        status = Status.UNDECIDED
        said = (
            f"Undecided: {n} points on {where} explain the distances; {fit}. But for so few points the noise is too "
            f"large to rule out that others do: ln evidence is {found.evidence:.3g}, and {np.log(20):.3g} is needed. "
            "Measure the distances more precisely."
        )
    elif found.explained and error < 0.5:
        status = Status.CONVERGED
        said = f"Converged: {n} points on {where} explain the distances within their noise; {fit}."
    elif found.explained:
        status = Status.NOISY
        said = f"Found, but the noise is as large as the positions: {fit}. Measure the distances more precisely."
    else:
        status = {"all": Status.STAGNATED, "time": Status.MAX_TIME, "nodes": Status.MAX_ITER}[found.end]
        more = "" if found.end == "all" else f", or raise {_LIMIT[found.end]}"
        said = (
            f"Not found: no {n} points on {where} were found that explain the distances; {fit}. A distance is wrong or "
            f"missing, the noise is larger than given, or it hides too many distances from each other: check `noise`"
            f"{more}."
        )
        stderr = None
    residual = float(np.sqrt(found.chi2) * sigma / (np.linalg.norm(d) or 1.0))
    rivals = np.array(found.rivals) if found.rivals else None
    return _points(
        found.x, status, said, found.nodes, residual, None if stderr is None else error, sigma, stderr, rivals, None,
        start,
    )  # fmt: skip


def _points(
    x: Float, status: Status, message: str, tried: int, residual: float, error: float | None, noise: float | None,
    stderr: Float | None, rivals: Float | None, proof: Any, start: float,
) -> Points:  # fmt: skip
    """The solution with these fields."""
    return Points(
        x=x, status=status, success=status.success, message=message, method="points", n_iter=tried, n_passes=0.0,
        residual=residual, support=np.flatnonzero(x), noise=noise, stderr=stderr, error=error, outliers=None,
        history={} if rivals is None else {"rivals": rivals}, elapsed=time.perf_counter() - start,
        rival=None if rivals is None else rivals[0].copy(), proof=proof,
    )  # fmt: skip
