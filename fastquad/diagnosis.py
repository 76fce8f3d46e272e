"""What measurements can and cannot tell of a signal, before any are taken: `fastquad.diagnose`.

Near x the measurements are linear, with the Jacobian `J v = 2 Re(x^* Ã_i v)`. With rows divided by their noise, the
fitted values of a least-squares fit are `H y`, with the projection H onto the range of J, so that of measurement i

    leverage      h_i = H_ii = j_i^T (J^T J)^+ j_i, between 0 and 1: how much its fitted value follows its own error
    redundancy    1 − h_i: how much of an error of its own the residual shows. Their sum is m less the rank of J

A measurement of leverage one is critical: without it a direction is lost that J sees with it, and no residual will ever
show its error. This does not depend on the noise. Let `e = g − H g` be the residual of random g, refined to rounding.
It is zero at critical measurements, and nowhere else but by chance; those that are near zero are tested one by one.

Everything goes through the verbs of the Jacobian. If the normal equations are sparse, so is what is made of them: of
the inverse only the entries on the pattern of the factor are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.engine.driver import finish
from fastquad.engine.problem import Problem
from fastquad.engine.trust.factored import Factored
from fastquad.engine.trust.tolerances import MOST_UNSEEN
from fastquad.engine.verbs import Normals, rows_scaled
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Measurements
from fastquad.measurements.contractions import Along, Sizes, SparseMatrices
from fastquad.measurements.views import RealView
from fastquad.noise import as_noise
from fastquad.numerics.sparse_factor import DenseFactor, Extended
from fastquad.system import threads
from fastquad.system.memory import budget
from fastquad.typing import Asks, Float, Indices, Number

__all__ = ["Diagnosis", "diagnose"]

# The largest number of columns of the Jacobian that are formed at a time, and of pairs of its entries: tens of MB.
_COLUMNS, _PAIRS = 64, 1 << 21
#: A direction moves a coordinate by more than this share of the coordinate that it moves most.
MOVED = 1e-6


@dataclass(frozen=True)
class Diagnosis:
    """What `fastquad.diagnose` found. `print` shows it in words, `to_rows` as a table, `fastquad.plot.diagnosis` drawn.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=30, n=10, k=3, rng=0)
    >>> found = fq.diagnose(problem.A, problem.x)
    >>> found.unseen.shape, len(found.critical), round(float(found.redundancy.sum()))
    ((10, 0), 0, 20)

    Attributes
    ----------
    unseen : array of shape (n, d)
        Directions in which x can move without a change of any measurement, to first order: each of length one. The
        phase of a complex x is not among them.
    critical : int array
        The measurements whose loss leaves one more direction unseen. An error of such a measurement cannot be noticed.
    redundancy : array of shape (m,)
        How much of its own error the residual of each measurement shows, between 0 (critical) and 1.
    stderr : array of shape (n,), or None
        The standard error that each coordinate will have, inf if an unseen direction moves it; None if no `noise` was
        given. Of complex coordinates it is that of the complex number, as in `Solution.stderr`.
    x : array of shape (n,)
        The signal near which all this holds.
    random : bool
        Whether x was drawn at random, because none was given.
    complete : bool
        Whether all unseen directions were listed: at most 200 are.
    """

    unseen: Number
    critical: Indices
    redundancy: Float
    stderr: Float | None
    x: Number
    random: bool
    complete: bool = True
    labels: Sequence[str] | None = field(default=None, repr=False)

    @property
    def m(self) -> int:
        """How many measurements there are."""
        return self.redundancy.size

    @property
    def leverage(self) -> Float:
        """How much the fitted value of each measurement follows its own error, (m,)."""
        return 1 - self.redundancy

    @property
    def moved(self) -> Indices:
        """The coordinates that some unseen direction moves."""
        if not self.unseen.size:
            return np.zeros(0, dtype=np.intp)
        size = np.abs(self.unseen)
        return np.flatnonzero((size > MOVED * size.max(axis=0)).any(axis=1))

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each measurement, those with the least redundancy first: for a table, or a pandas.DataFrame."""
        critical = np.zeros(self.m, dtype=bool)
        critical[self.critical] = True
        return [
            {
                "measurement": int(i),
                **({} if self.labels is None else {"label": self.labels[i]}),
                "redundancy": float(self.redundancy[i]),
                "critical": bool(critical[i]),
            }
            for i in np.lexsort((np.arange(self.m), self.redundancy))
        ]

    def to_dict(self) -> dict[str, Any]:
        """What was found as plain data, for JSON."""
        return {
            "m": self.m,
            "n": len(self.x),
            "random_x": self.random,
            "unseen": self.unseen.shape[1],
            "complete": self.complete,
            "moved": self.moved.tolist(),
            "critical": self.critical.tolist(),
            "redundancy": self.redundancy.tolist(),
            "stderr": None if self.stderr is None else self.stderr.tolist(),
        }

    def __str__(self) -> str:
        """The diagnosis in sentences."""
        said = ["Near a random signal, because no x was given:"] if self.random else []
        d = self.unseen.shape[1]
        if d:
            more = "" if self.complete else "at least "
            said.append(f"{more}{d} direction{'s' if d > 1 else ''} of x {'are' if d > 1 else 'is'} unseen.")
            said.append(f"Coordinates that they move: {_some(self.moved, None)}.")
        else:
            said.append("every direction of x is seen." if said else "Every direction of x is seen.")
        if self.critical.size:
            are = "measurements are" if self.critical.size > 1 else "measurement is"
            said.append(f"{self.critical.size} {are} critical: {_some(self.critical, self.labels)}.")
        else:
            said.append("No measurement is critical.")
        others = np.delete(self.redundancy, self.critical)
        if others.size:
            said.append(f"The redundancy of the others is {others.min():.2g} to {others.max():.2g}.")
        if self.stderr is not None:
            finite = self.stderr[np.isfinite(self.stderr)]
            if finite.size:
                said.append(f"Standard errors will be {finite.min():.2g} to {finite.max():.2g}.")
        return " ".join(said)


def diagnose(
    A: Any,
    x: ArrayLike | None = None,
    noise: Any = None,
    *,
    signal: str | None = None,
    labels: Sequence[str] | None = None,
    n_threads: int | None = None,
) -> Diagnosis:
    """Which directions near x no measurement of A sees, and which measurements are critical.

    This needs no data, so it also works for measurements that are only planned.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file or of a packed folder, or Measurements
        Whatever `fastquad.as_measurements` takes.
    x : array of shape (n,), optional
        Without it x is a random signal of a fixed seed. That shows what is unseen near almost all signals. Near
        your signal more may be unseen.
    noise : float, array of shape (m,), or an object of `fastquad.noise`, optional
        The standard deviation of each measurement, for the redundancies and for `stderr`. Without it the error of
        each measurement is assumed to be the same share of its terms. What is unseen or critical does not depend on
        it.
    signal : {"real", "complex"}, optional
        Whether x is real or complex, as in `fastquad.solve`.
    labels : list of m str, optional
        Names of the measurements, for what is printed and drawn.
    n_threads : int, optional

    Returns
    -------
    Diagnosis

    Examples
    --------
    Three distances from the origin see nothing but squares; the sum of two coordinates ties their signs.

    >>> import numpy as np, fastquad as fq
    >>> A = np.zeros((4, 3, 3))
    >>> A[0, 0, 0] = A[1, 1, 1] = A[2, 2, 2] = 1.0   # x_0², x_1², x_2²
    >>> A[3, :2, :2] = 1.0                           # (x_0 + x_1)²
    >>> print(fq.diagnose(A, [1.0, 2.0, 3.0]))
    Every direction of x is seen. 1 measurement is critical: 2. The redundancy of the others is 0.25 to 0.49.
    """
    given = as_measurements(A)
    measurements = _viewed(given, x, signal)
    point, random = _point(measurements, x)
    if labels is not None and len(labels) != measurements.m:
        raise ValueError(f"`labels` must be {measurements.m}, one for each measurement, got {len(labels)}.")
    model = as_noise(noise, measurements.m)
    problem = Problem(
        m=measurements.m, n=measurements.n, y=measurements.measure(point), dtype=measurements.dtype, prior=None,
        x0=None, norm=None, noise=model, tol=0.0, random=lambda: np.random.default_rng(0), memory=budget(None),
        fixed=measurements.fixed, gram=measurements.gram_kind, gauge=measurements.gauge,
    )  # fmt: skip
    normals = Normals.of(problem)
    if not normals.affordable:
        raise ValueError(
            f"`A`: its normal equations, of {problem.n} numbers, do not fit in half of the memory of this process. Ask "
            "for fewer coordinates or measurements."
        )
    with np.errstate(over="ignore", invalid="ignore"), threads.single_threaded_blas():
        routine = _diagnosed(normals, point, noise is not None and problem.sigma > 0)
        found = finish(measurements, routine, threads.resolve(n_threads))
    return replace(_as_given(found, measurements), random=random, labels=labels)


def _viewed(A: Measurements, x: Any, signal: str | None) -> Measurements:
    """The measurements in real coordinates."""
    from fastquad.reductions.complex import read

    if signal is None and x is not None and np.iscomplexobj(x) and not A.complex:
        signal = "complex"
    return read(A, np.zeros(A.m), signal).A


def _point(A: Measurements, x: Any) -> tuple[Float, bool]:
    """x in real coordinates, and whether it was drawn at random."""
    turning = isinstance(A, RealView)
    n = A.n // 2 if turning else A.n
    if x is None:
        point = np.random.default_rng(0).standard_normal(A.n)
        for j, value in A.fixed.items():
            point[j] = value
        return point, True
    array = arguments.array(x, "x")
    if array.shape != (n,):
        raise ValueError(f"`x` must have shape ({n},), got {array.shape}.")
    if not turning and np.iscomplexobj(array):
        raise ValueError("`x` must be real, because signal='real' was given.")
    if not np.isfinite(array).all() or not array.any():
        raise ValueError("`x` must be finite and not zero: near zero the measurements change in no direction.")
    return np.ascontiguousarray(array, dtype=np.complex128 if turning else np.float64).view(np.float64), False


def _as_given(found: Diagnosis, A: Measurements) -> Diagnosis:
    """The diagnosis in complex coordinates if the signal is complex."""
    if not isinstance(A, RealView):
        return found
    directions = np.ascontiguousarray(found.unseen.T).view(np.complex128).T
    stderr = None if found.stderr is None else np.linalg.norm(found.stderr.reshape(-1, 2), axis=1)
    return replace(found, unseen=directions, stderr=stderr, x=found.x.view(np.complex128))


def _some(places: Indices, labels: Sequence[str] | None) -> str:
    """The first few of these places, by their names."""
    shown = [str(i) if labels is None else labels[i] for i in places[:6]]
    return ", ".join(shown) + (f" and {places.size - 6} more" if places.size > 6 else "")


# -- by the verbs ----------------------------------------------------------------------------------------------------


def _diagnosed(normals: Normals, x: Float, noisy: bool) -> Asks[Diagnosis]:
    """The diagnosis at x in real coordinates."""
    problem = normals.problem
    # Rows of one size: what is unseen, and what is critical, do not depend on how rows are scaled.
    case, directions = yield from seen(normals, x)
    critical = case.critical()
    stderr = None
    if noisy:
        case = yield from case.weighted(1 / problem.deviations(np.zeros(problem.m)))
        stderr = case.stderr(1.0)
        size = np.abs(directions)
        stderr[(size > MOVED * size.max(axis=0, initial=0.0)).any(axis=1)] = np.inf
        stderr[problem.known] = 0.0
    redundancy = np.clip(1 - (yield from _leverages(case)), 0.0, 1.0)
    redundancy[critical] = 0.0
    complete = directions.shape[1] < MOST_UNSEEN
    return Diagnosis(directions, critical, redundancy, stderr, x, False, complete)


def seen(
    normals: Normals, x: Float, weights: Float | None = None, held: Indices | None = None
) -> Asks[tuple[Factored, Float]]:
    """The factor of the normal equations at x, with what is not seen held, and the unseen directions, (N, d).

    Rows have these weights, or one size. `held` are the coordinates that hold the phase of a complex x.
    """
    case, directions = yield from Factored.at(normals, x, rows_scaled((yield Sizes(x))), held)
    return (case if weights is None else (yield from case.weighted(weights))), directions


def _leverages(case: Factored) -> Asks[Float]:
    """`w_i² j_i^T (J^T D J)^+ j_i` of each row of the Jacobian, (m,)."""
    factor: Any = case.factor
    root, out = np.empty((case.x.size, 0)), np.zeros(case.shape[0])
    if isinstance(factor, Extended):
        factor, root = factor.base, factor.U
    if isinstance(factor, DenseFactor):
        root = np.hstack([factor.inverse_root(), root])
    else:
        edges = yield SparseMatrices()
        J = _jacobian(edges, case.x, case.normals.problem.turning)
        out += _on_pattern(J, factor.inverse_on_pattern())
    for start in range(0, root.shape[1], _COLUMNS):
        image = yield Along(case.x, np.ascontiguousarray(root[:, start : start + _COLUMNS]))
        out += np.einsum("ij,ij->i", image, image)
    return case.w**2 * out


def _jacobian(edges: Any, x: Float, turning: bool) -> Any:
    """The Jacobian as a sparse matrix, (m, N), from the products of coordinates that the measurements are linear in."""
    from scipy import sparse

    n, j, k = edges.n, edges.j, edges.k
    ones, pairs = np.arange(n), n + np.arange(j.size)
    if not turning:
        rows = [ones, pairs, pairs]
        columns = [ones, j, k]
        values = [2 * x, x[k], x[j]]
    else:
        a, b = x[::2], x[1::2]
        imaginary = pairs + j.size
        # Re x̄_j x_k = a_j a_k + b_j b_k, and Im x̄_j x_k = a_j b_k − b_j a_k.
        rows = [ones, ones, *[pairs] * 4, *[imaginary] * 4]
        columns = [2 * ones, 2 * ones + 1, 2 * j, 2 * k, 2 * j + 1, 2 * k + 1, 2 * j, 2 * k + 1, 2 * j + 1, 2 * k]
        values = [2 * a, 2 * b, a[k], a[j], b[k], b[j], b[k], a[j], -a[k], -b[j]]
    shape = (edges.M.shape[1], x.size)
    D = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    return sparse.csr_array(edges.M @ D)


def _on_pattern(J: Any, Z: Any) -> Float:
    """`Σ_ab J_ia J_ib Z_ab` of each row i of J, of a Z that has at least the entries that rows need."""
    N = J.shape[1]
    Z.sort_indices()
    places = np.repeat(np.arange(N, dtype=np.int64), np.diff(Z.indptr)) * N + Z.indices
    lengths = np.diff(J.indptr).astype(np.int64)
    out = np.zeros(J.shape[0])
    # All pairs of entries of a row, of as many rows at a time as have so many pairs.
    bounds = np.cumsum(lengths**2)
    start = 0
    while start < J.shape[0]:
        before = bounds[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(bounds, before + _PAIRS, side="right")))
        some = lengths[start:stop]
        row = np.repeat(np.arange(start, stop), some**2)
        within = np.arange(row.size) - np.repeat(np.cumsum(some**2) - some**2, some**2)
        first, width = J.indptr[row], lengths[row]
        one, other = first + within // width, first + within % width
        wanted = J.indices[one].astype(np.int64) * N + J.indices[other]
        at = np.minimum(np.searchsorted(places, wanted), places.size - 1)
        entries = np.where(places[at] == wanted, Z.data[at], 0.0)
        out[start:stop] = np.bincount(row - start, J.data[one] * J.data[other] * entries, stop - start)
        start = stop
    return out
