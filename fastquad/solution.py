"""The result of a solve: the answer, its status, and a message that says why it stopped and what to try next."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.status import Status
from fastquad.typing import Float, Indices, Number

F = TypeVar("F")
G = TypeVar("G")


@dataclass(frozen=True, eq=False)
class Proof:
    """A proof that no other signal than x has these measurements.

    Attributes
    ----------
    kind : str
        "dual": with the weights μ, `S = identity·I + Σ μ_i Ã_i` is positive semidefinite, `S x = 0`, and every other
        eigenvalue is at least `margin`. "lifting": the same, if the measurements determine all of `x x^*`.
        "enumeration": all candidates were tried.
    margin : float
        The smallest eigenvalue of S apart from that of x. Of an enumeration: the difference up to which
        measurements count as equal.
    radius : float
        Every signal whose measurements agree with y within rounding is within this relative distance of x.
    weights : array of shape (m,) or None
        μ, if `kind` is "dual" or "lifting". If y is complex, the weights of Re y_i and Im y_i in turn, (2m,).
    identity : float
        The weight of the identity, whose measurement is `norm`²; 0 if `norm` was not given.

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> problem = fq.problems.gaussian(m=80, n=20, k=20, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, norm=np.linalg.norm(problem.x))
    >>> solution.status.name, solution.proof.kind, solution.proof.margin > 0, solution.proof.radius < 1e-10
    ('PROVEN', 'dual', True, True)
    """

    kind: str
    margin: float
    radius: float
    weights: Float | None = None
    identity: float = 0.0

    def __post_init__(self) -> None:
        if self.weights is not None:
            self.weights.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        """Whether everything is the same, bit for bit."""
        if not isinstance(other, Proof):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain data."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        weights = said["weights"]
        return cls(**{**said, "weights": None if weights is None else np.array(weights, dtype=np.float64)})


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The answer of `fastquad.solve`; for a batch of signals see `SolutionBatch`.

    Attributes
    ----------
    x : array of shape (n,)
        The signal, up to sign: the best found, whatever the status.
    status : Status
        Why the solve stopped.
    success : bool
        Whether the answer can be trusted: exact or converged.
    message : str
        What happened, the residual, why, and what may help.
    method : str
        The method that gave x.
    n_iter : int
        Steps taken: iterates whose residual is known, the start included.
    n_passes : float
        Passes over A; reading a part of A counts as that part. In a batch, the passes that this signal shared in.
    residual : float
        `‖r‖/‖y‖` with `r_i = x^T A_i x − y_i`.
    support : array of int
        The nonzeros of x.
    noise : float or None
        The standard deviation of the noise, as given or estimated; None if it is not known.
    stderr : array of shape (n,) or None
        The standard errors of x, if its support is right; None if x is exact or nothing is known of them.
    error : float or None
        The estimated relative distance to the signal, up to sign or phase: 0 if x is exact, 1 if x is no
        better than zero. None if nothing is known of it.
    outliers : array of int or None
        The measurements that contradict x, if `outliers=True` was given.
    history : dict of arrays
        One entry per step: "residual", "n_passes", "elapsed", and "distance" if `x_true` was given.
    elapsed : float
        Seconds.
    rival : array of shape (n,) or None
        Another signal that fits as well, if one was found: the reason for AMBIGUOUS and UNDETERMINED.
    proof : Proof or None
        What the proof rests on, if there is one. `fastquad.testing.check_proof` checks it again.
    noise_model : object or None
        The model of the noise, with its estimated parameters.
    gauge : str
        What no measurement can determine: "sign", "phase", or "phase and conjugation"; for autocorrelations also
        translations and the reflection. `fastquad.distance` takes it as `gauge`.

    `bool(solution)` is `success`.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> solution.status.name, solution.success, len(solution.support)
    ('EXACT', True, 3)
    >>> sorted(solution.to_dict())[:4]
    ['elapsed', 'error', 'gauge', 'history']
    """

    x: Number
    status: Status
    success: bool
    message: str
    method: str
    n_iter: int
    n_passes: float
    residual: float
    support: Indices
    noise: float | None
    stderr: Float | None
    error: float | None
    outliers: Indices | None
    history: dict[str, Float]
    elapsed: float
    rival: Number | None = None
    proof: Proof | None = None
    noise_model: Any = None
    gauge: str = "sign"

    def __post_init__(self) -> None:
        for array in (self.x, self.support, self.stderr, self.outliers, self.rival):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.name} by {self.method}: {len(self.support)} of {len(self.x)} entries nonzero, "
            f"residual {self.residual:.1e}, {self.n_passes:.3g} passes, {self.elapsed:.2g} s)"
        )

    def __eq__(self, other: object) -> bool:
        """Whether everything is the same, bit for bit."""
        if not isinstance(other, Solution):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """Whether the answer can be trusted."""
        return self.success

    def __getitem__(self, index: Any) -> Self:
        """Only for type checkers, to which `solve` returns a Solution: `solve(A, Y)[i]` is that of a batch."""
        raise TypeError(
            "a Solution has attributes, such as `solution.x`, and no index: only that for y of shape (b, m) has one."
        )

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Self]: ...
    else:
        #: Without this, an index would make it iterable.
        __iter__: ClassVar[None] = None

    def to_row(self) -> dict[str, Any]:
        """A row of a table: the numbers and words, without arrays, and the size of the support.

        Examples
        --------
        >>> import fastquad as fq
        >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
        >>> row = fq.solve(problem.A, problem.y).to_row()
        >>> row["status"], row["success"], row["nonzeros"]
        ('EXACT', True, 3)
        """
        names = (
            "status",
            "success",
            "method",
            "n_iter",
            "n_passes",
            "residual",
            "noise",
            "error",
            "elapsed",
            "message",
        )
        row = {name: _plain(getattr(self, name)) for name in names}
        return {**row, "nonzeros": len(self.support), "outliers": None if self.outliers is None else len(self.outliers)}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from fastquad.batch import table

        return table([self], self.message)

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain data for JSON: the status as its name, arrays as lists.

        Complex arrays become a dict of "real" and "imag".
        """
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as one `.npz` file, without pickle; `fastquad.load_solution` reads it."""
        from fastquad.solution_files import save_solutions

        save_solutions([self], path, batch=False)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a solve: `solution` has the best answer so far, with the status STOPPED.

    Attributes
    ----------
    solution : Solution or SolutionBatch
        What `fastquad.solve` would return if the callback had stopped it.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> try:
    ...     solution = fq.solve(problem.A, problem.y)
    ... except fq.Interrupted as stopped:
    ...     solution = stopped.solution  # the same attributes; `success` is False
    >>> len(solution.x)
    30
    """

    def __init__(self, solution: Any) -> None:
        super().__init__("interrupted: the best answer so far is the attribute `solution` of this exception.")
        self.solution = solution


def changed(find: Callable[[], F], change: Callable[[F], G]) -> G:
    """What `find` returns, changed; if Ctrl-C ends it, the same of the answer so far."""
    try:
        found = find()
    except Interrupted as stopped:
        raise Interrupted(change(stopped.solution)) from None
    return change(found)


def _same(a: Any, b: Any) -> bool:
    """Whether two fields are equal, NaN to NaN too."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b, equal_nan=True)
    return bool(a == b or (a != a and b != b))


def _plain(value: Any) -> Any:
    """A field as what JSON has."""
    if isinstance(value, Status):
        return value.name
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return {"real": value.real.tolist(), "imag": value.imag.tolist()} if np.iscomplexobj(value) else value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value


def distance(
    x_hat: ArrayLike, x: ArrayLike, *, conjugation: bool = False, signed: bool = False, gauge: str | None = None
) -> Any:
    """The relative distance up to sign, `min_± ‖x_hat ∓ x‖/‖x‖`; of complex signals up to a phase.

    Parameters
    ----------
    x_hat, x : arrays of shape (n,) or (b, n)
    conjugation : bool
        Whether the conjugate of x_hat counts as the same signal. It does if real symmetric matrices measure a complex
        signal.
    signed : bool
        Whether the sign counts, as it does if it is known: `‖x_hat − x‖/‖x‖`.
    gauge : str, optional
        `Solution.gauge`: everything that no measurement can determine, in place of `conjugation`. For an
        autocorrelation (`ShiftTensor`) these are also translations and the reflection.

    Returns
    -------
    float, or array of shape (b,)
        For x = 0 it is 0 if x_hat is zero too, else inf. It is NaN if either has a NaN.

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.distance([-3.0, 0.0], [3.0, 4.0])
    0.8

    An autocorrelation leaves open where a signal begins:

    >>> A, x = fq.ShiftTensor(5), [1.0, 0.0, 2.0, 0.0, 0.0]
    >>> solution = fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1, 2]))
    >>> bool(fq.distance(solution.x, x, gauge=solution.gauge) < 1e-6)
    True
    """
    if gauge is not None:
        return _up_to_gauge(x_hat, x, gauge, signed)
    x_hat, x = arguments.array(x_hat, "x_hat", finite=False), arguments.array(x, "x", finite=False)
    if x.ndim not in (1, 2) or x_hat.shape != x.shape:
        raise ValueError(f"`x_hat` must have the shape of `x`, (n,) or (b, n), got {x_hat.shape} and {x.shape}.")
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.linalg.norm(x, axis=-1)
        if np.iscomplexobj(x) or np.iscomplexobj(x_hat):
            nearest = _up_to_phase(x_hat, x)
            if conjugation:
                nearest = np.minimum(nearest, _up_to_phase(x_hat.conj(), x))
        else:
            nearest = np.linalg.norm(x_hat - x, axis=-1)
            if not signed:
                nearest = np.minimum(nearest, np.linalg.norm(x_hat + x, axis=-1))
        unreachable = np.where(nearest == 0, 0.0, np.where(np.isnan(nearest), np.nan, np.inf))
        relative = np.divide(nearest, scale, out=unreachable, where=scale != 0)
    return float(relative) if x.ndim == 1 else relative


_MOVED = re.compile(r"translation and reflection of ([\d×]+)(?: in ([\d×]+))?")


def _up_to_gauge(x_hat: ArrayLike, x: ArrayLike, gauge: str, signed: bool) -> Any:
    """The distance up to all that a gauge names: see `Solution.gauge`."""
    first, _, more = arguments.text(gauge, "gauge").partition(", ")
    moved = _MOVED.fullmatch(more)
    if first not in ("sign", "phase", "phase and conjugation") or (more and moved is None):
        raise ValueError(f"`gauge` must be what a solution has as its `gauge`, got {gauge!r}.")
    conjugation = first == "phase and conjugation"
    if moved is None:
        return distance(x_hat, x, conjugation=conjugation, signed=signed)
    x_hat, x = arguments.array(x_hat, "x_hat", finite=False), arguments.array(x, "x", finite=False)
    shape, room = (tuple(map(int, (moved[part] or moved[1]).split("×"))) for part in (1, 2))
    n = math.prod(shape)
    if x_hat.shape != x.shape or x.shape[-1:] != (n,):
        raise ValueError(f"`x_hat` and `x` must have shape ({n},) or (b, {n}), got {x_hat.shape} and {x.shape}.")
    if x.ndim == 2:
        return np.array([_up_to_gauge(*pair, gauge, signed) for pair in zip(x_hat, x, strict=True)])
    margins = [(0, large - small) for small, large in zip(shape, room, strict=True)]
    x_hat, x = (np.pad(each.reshape(shape), margins) for each in (x_hat, x))
    # Of a complex signal the reflection is conjugated.
    ways = [x_hat, np.flip(x_hat).conj()] + ([np.flip(x_hat)] if conjugation else [])
    nearest = [
        distance(_moved_to(each, x, signed).ravel(), x.ravel(), conjugation=conjugation, signed=signed) for each in ways
    ]
    return float(np.min(nearest))


def _moved_to(x_hat: Number, x: Number, signed: bool) -> Number:
    """x_hat in the place where it is most like x: the largest of its correlations with x."""
    axes = tuple(range(x.ndim))
    correlation = np.fft.ifftn(np.fft.fftn(x) * np.fft.fftn(x_hat).conj())
    alike = correlation.real if signed else np.abs(correlation)
    if not np.isfinite(alike).all():
        return x_hat
    return np.roll(x_hat, np.unravel_index(int(np.argmax(alike)), x.shape), axis=axes)


def _up_to_phase(x_hat: Number, x: Number) -> Float:
    """`min_θ ‖e^{iθ} x_hat − x‖`."""
    inner = np.sum(x_hat.conj() * x, axis=-1, keepdims=True)
    size = np.abs(inner)
    turn = np.divide(inner, size, out=np.ones_like(inner), where=size > 0)
    return np.asarray(np.linalg.norm(turn * x_hat - x, axis=-1), dtype=np.float64)
