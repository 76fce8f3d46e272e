"""Measurements with linear terms: the quadratic problem of one more coordinate, and its answer without it.

See `fastquad.measurements.structured.affine` for how the terms become quadratic. What the user gives for signals of
length n is handed on for length n + 1, and what comes back is cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.measurements.structured.affine import AffineTensor, LiftedTensor
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.reductions import Given, Reduction
from fastquad.solution import Solution
from fastquad.typing import Float


class Affine(Reduction):
    """Measurements with linear terms."""

    def problem(self, given: Given) -> Given:
        A: AffineTensor = given.A
        lifted, Y = A.lifted(), given.data()
        changes: dict[str, Any] = {"prior": _longer_prior(given.prior, A.n)}
        for name in ("x0", "x_true"):
            signals = arguments.signals(getattr(given, name), name, len(Y), A.n)
            if signals is not None:
                changes[name] = _longer(signals, lifted)
        self.x_true: Float | None = changes.get("x_true")
        if given.norm is not None:
            changes["norm"] = np.sqrt(arguments.real_array(given.norm, "norm") ** 2 + lifted.value**2)
        given = given.with_callback(lambda state: state._replace(x=state.x[:-1]))
        given = given.with_noise(lambda noise: noise.shifted(A.c, A.c))
        return given.with_data(lifted, Y - A.c, **changes)

    def solution(self, found: Solution, i: int) -> Solution:
        """The answer without the known value."""
        x = found.x[:-1]
        history = dict(found.history)
        if self.x_true is not None:
            # The known value has no error, and counts for the size of [x; w] alone.
            x_true = self.x_true[i]
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


def _longer(X: Float, lifted: LiftedTensor) -> Float:
    """The signals with the known value behind them."""
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
        raise ValueError(
            f"`{name}` cannot be used with an AffineTensor: give a prior without it, or A without linear terms."
        )
    prior.check(n)
    changes: dict[str, Any] = {}
    if prior.support is not None:
        changes["support"] = np.append(prior.support, n)
    if prior.k is not None:
        changes["k"] = prior.k + 1
    return replace(prior, **changes)
