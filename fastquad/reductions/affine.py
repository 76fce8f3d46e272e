"""`solve` for measurements with linear terms: the quadratic problem of one more coordinate, and its answer without it.

See `fastquad.measurements.structured.affine` for how the terms become quadratic. What the user gives for signals of
length n is handed on for length n + 1, and what comes back is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from fastquad import arguments
from fastquad.measurements.structured.affine import AffineTensor, LiftedTensor
from fastquad.noise import as_noise
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.solution import Solution, SolutionBatch, changed
from fastquad.typing import Float

P = ParamSpec("P")
R = TypeVar("R")


def takes_affine(solve: Callable[P, R]) -> Callable[P, R]:
    """`solve`, which takes an `AffineTensor` too."""

    @wraps(solve)
    def call(A: Any, y: Any, **options: Any) -> Any:
        plain: Callable[..., Any] = solve
        return _solve(plain, A, y, options) if isinstance(A, AffineTensor) else plain(A, y, **options)

    return cast("Callable[P, R]", call)


def _solve(solve: Callable[..., Any], A: AffineTensor, y: Any, options: dict[str, Any]) -> Any:
    lifted = A.lifted()
    Y, batch = arguments.data(y, A.m)
    options = dict(options)
    for name in ("x0", "x_true"):
        if options.get(name) is not None:
            options[name] = _longer(arguments.signals(options[name], name, len(Y), A.n), lifted)
    x_true = options.get("x_true")
    if options.get("norm") is not None:
        options["norm"] = np.sqrt(arguments.real_array(options["norm"], "norm") ** 2 + lifted.value**2)
    if options.get("callback") is not None:
        options["callback"] = _cut_callback(options["callback"])
    if options.get("noise") is not None:
        options["noise"] = as_noise(options["noise"], A.m).shifted(A.c, A.c)
    options["prior"] = _longer_prior(options.get("prior"), A.n)

    def cut(found: Any) -> Any:
        solutions = [_cut(each, None if x_true is None else x_true[i]) for i, each in enumerate(found)]
        return SolutionBatch(solutions) if batch else solutions[0]

    return changed(lambda: solve(lifted, Y - A.c, **options), cut)


def _longer(X: Float | None, lifted: LiftedTensor) -> Float:
    """The signals with the known value behind them."""
    assert X is not None
    return np.concatenate([X, np.full((len(X), 1), lifted.value)], axis=1)


def _longer_prior(prior: Any, n: int) -> Any:
    """The prior for one more coordinate, which is known."""
    if prior is None or not isinstance(prior, Prior):
        return prior  # what is not a prior is refused by solve
    if not isinstance(prior, Sparse):
        raise ValueError(
            f"`prior` must be fastquad.Sparse(...) or None for an AffineTensor, got {type(prior).__name__}."
        )
    if prior.traits or prior.basis is not None:
        name = (*prior.traits, "basis")[0]
        raise ValueError(f"`{name}` cannot be used with an AffineTensor, whose linear terms are a known value.")
    prior.check(n)
    changes: dict[str, Any] = {}
    if prior.support is not None:
        changes["support"] = np.append(prior.support, n)
    if prior.k is not None:
        changes["k"] = prior.k + 1
    return replace(prior, **changes)


def _cut_callback(callback: Any) -> Any:
    """The callback, which sees the signal without the known value."""
    if not callable(callback):
        return callback  # refused by solve
    return lambda state: callback(state._replace(x=state.x[:-1]))


def _cut(found: Solution, x_true: Float | None) -> Solution:
    """The answer without the known value."""
    x = found.x[:-1]
    history = dict(found.history)
    if x_true is not None:
        # The known value has no error, and counts for the size of [x; w] alone.
        size = float(np.linalg.norm(x_true[:-1]))
        history["distance"] = history["distance"] * (float(np.linalg.norm(x_true)) / size if size else np.inf)
    error = found.error
    if error is not None and np.any(x):
        error = error * float(np.linalg.norm(found.x) / np.linalg.norm(x))
    return replace(
        found, x=x, support=np.flatnonzero(x), history=history, error=error,
        stderr=None if found.stderr is None else found.stderr[:-1],
        rival=None if found.rival is None else found.rival[:-1],
    )  # fmt: skip
