"""`solve` for products of two unknown vectors: the quadratic problem of both, with their balance as one more datum.

See `fastquad.measurements.structured.bilinear`. What the user gives is handed on with ‖u‖ = ‖v‖.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from fastquad import arguments
from fastquad.measurements.structured.bilinear import BilinearTensor
from fastquad.noise import as_noise
from fastquad.solution import Solution, SolutionBatch, changed
from fastquad.typing import Float

P = ParamSpec("P")
R = TypeVar("R")


def takes_bilinear(solve: Callable[P, R]) -> Callable[P, R]:
    """`solve`, which takes a `BilinearTensor` too."""

    @wraps(solve)
    def call(A: Any, y: Any, **options: Any) -> Any:
        plain: Callable[..., Any] = solve
        return _solve(plain, A, y, options) if isinstance(A, BilinearTensor) else plain(A, y, **options)

    return cast("Callable[P, R]", call)


def _solve(solve: Callable[..., Any], A: BilinearTensor, y: Any, options: dict[str, Any]) -> Any:
    Y, batch = arguments.data(y, A.m)
    options = dict(options)
    if options.get("prior") is not None:
        raise ValueError("`prior` must be None for a BilinearTensor: how sparse u and v are, is learned for each.")
    if options.get("norm") is not None:
        raise ValueError("`norm` must be None for a BilinearTensor: the scales of u and v are not known apart.")
    for name in ("x0", "x_true"):
        given = arguments.signals(options.get(name), name, len(Y), A.n)
        if given is not None:
            options[name] = np.stack([balanced(each, A.p) for each in given])
    if options.get("noise") is not None:
        options["noise"] = as_noise(options["noise"], A.m).extended()
    extended = np.concatenate([Y, np.zeros((len(Y), 1))], axis=1)

    def without_balance(found: Any) -> Any:
        solutions = [_without_balance(each, A.m) for each in found]
        return SolutionBatch(solutions) if batch else solutions[0]

    return changed(lambda: solve(A.balanced(), extended, **options), without_balance)


def balanced(x: Float, p: int) -> Float:
    """[u; v] with the scales for which ‖u‖ = ‖v‖; as it is where one of them is zero."""
    u, v = (float(np.linalg.norm(part)) for part in (x[:p], x[p:]))
    if not u * v > 0:
        return x
    scale = np.sqrt(v / u)
    return np.concatenate([x[:p] * scale, x[p:] / scale])


def _without_balance(found: Solution, m: int) -> Solution:
    """The answer without what it says of the last measurement."""
    if found.outliers is None:
        return found
    return replace(found, outliers=found.outliers[found.outliers < m])
