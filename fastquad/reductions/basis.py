"""`solve` for signals that are sparse in a basis, `x = D z`: the problem of z, and its answer as x.

The measurements of z are `D^T Ã_i D`. Where they fit in half of the memory they are computed, once, with a pass over A;
where they do not, each contraction goes through D (`fastquad.measurements.structured.basis`). What the user gives for x
is handed on for z, and what comes back is made x again. Of complex A they are `D^* Ã_i D`, for a D that may be complex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from fastquad import arguments
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Measurements
from fastquad.measurements.structured.basis import BasisTensor
from fastquad.priors import basis
from fastquad.priors.sparse import Coefficients, Sparse
from fastquad.solution import Solution, SolutionBatch, changed, distance
from fastquad.system.memory import budget
from fastquad.typing import Number

P = ParamSpec("P")
R = TypeVar("R")


def takes_basis(solve: Callable[P, R]) -> Callable[P, R]:
    """`solve`, which takes a prior with a basis too."""
    plain: Callable[..., Any] = solve

    @wraps(solve)
    def call(A: Any, y: Any, **options: Any) -> Any:
        prior = options.get("prior")
        if not isinstance(prior, Sparse) or prior.basis is None:
            return plain(A, y, **options)
        return _solve(plain, A, y, prior, dict(options))

    return cast("Callable[P, R]", call)


def _solve(solve: Callable[..., Any], A: Any, y: Any, prior: Sparse, options: dict[str, Any]) -> Any:
    measurements = as_measurements(A, memory=options.get("memory"))
    n, D = measurements.n, basis.matrix(prior.basis, measurements.n)
    turning = measurements.complex and options.get("signal") != "real"
    if np.iscomplexobj(y):
        raise ValueError("`y` must be real where `basis` is given: that of a Hermitian A is.")
    if np.iscomplexobj(D) and not turning:
        raise ValueError("`basis` must be real where A or the signal is real, got complex numbers.")
    Y, batch = arguments.data(y, measurements.m)
    if options.get("norm") is not None and not basis.orthonormal(D):
        raise ValueError("`norm` must not be given with a `basis` that is not orthonormal: that of z is not known.")
    x0 = _signals(options.get("x0"), "x0", len(Y), n)
    if x0 is not None:
        options["x0"] = np.linalg.lstsq(D, x0.T, rcond=None)[0].T
    X_true = _signals(options.pop("x_true", None), "x_true", len(Y), n)
    seen: list[list[float]] = [[] for _ in Y]
    options["callback"] = _watched(options.get("callback"), D, X_true, seen)
    options["prior"] = Coefficients.of(prior)

    def as_signals(found: Any) -> Any:
        answers = [_as_signal(each, D, None if X_true is None else seen[i]) for i, each in enumerate(found)]
        return SolutionBatch(answers) if batch else answers[0]

    return changed(lambda: solve(_in_basis(measurements, D, options.get("memory")), Y, **options), as_signals)


def _signals(x: Any, name: str, b: int, n: int) -> Number | None:
    """One signal for all, or one for each of b, real or complex, as a (b, n) array."""
    if x is None or not np.iscomplexobj(x):
        return arguments.signals(x, name, b, n)
    X = arguments.array(x, name)
    if X.shape not in ((n,), (b, n)):
        raise ValueError(f"`{name}` must have shape ({n},) or ({b}, {n}), got {X.shape}.")
    return np.broadcast_to(X, (b, n)).copy()


def _in_basis(A: Measurements, D: Number, memory: Any) -> Measurements:
    """The measurements of z: computed where they fit in half of the memory."""
    needed = np.dtype(A.number).itemsize * A.m * D.shape[1] ** 2
    if needed <= (A.memory or budget(memory)) // 2:
        return as_measurements(np.ascontiguousarray(A.compress(D)))
    if A.complex:
        raise MemoryError(f"`memory` must be at least {2 * needed / 1e9:.3g} GB for complex A in this basis.")
    return BasisTensor(A, np.asarray(D, dtype=np.float64))


def _watched(callback: Any, D: Number, X_true: Number | None, seen: list[list[float]]) -> Any:
    """The callback, which sees x in place of z; the distance to x_true is noted on the way."""
    if callback is not None and not callable(callback):
        return callback  # refused by solve
    if callback is None and X_true is None:
        return None

    def call(state: Any) -> Any:
        x, i = D @ state.x, state.signal or 0
        if X_true is not None:
            seen[i].append(distance(x, X_true[i]))
        return None if callback is None else callback(state._replace(x=x))

    return call


def _as_signal(found: Solution, D: Number, distances: list[float] | None) -> Solution:
    """The answer for z as one for x."""
    history = dict(found.history)
    if distances is not None:
        history["distance"] = np.array(distances)
    x = D @ found.x
    said = f"x has {found.support.size} nonzero coefficients in its basis."
    return replace(
        found, x=x, support=np.flatnonzero(x), history=history, message=f"{found.message} {said}",
        stderr=None if found.stderr is None else np.sqrt(np.abs(D) ** 2 @ found.stderr**2),
        rival=None if found.rival is None else D @ found.rival,
    )  # fmt: skip
