"""Signals that are sparse in a basis, `x = D z`: the problem of z, and its answer as x.

The measurements of z are `D^T Ã_i D`. Where they fit in half of the memory they are computed, once, with a pass over A;
where they do not, each contraction goes through D (`fastquad.measurements.structured.basis`). What the user gives for x
is handed on for z, and what comes back is made x again. Of complex A they are `D^* Ã_i D`, for a D that may be complex.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Measurements
from fastquad.measurements.structured.basis import BasisTensor
from fastquad.priors import basis
from fastquad.priors.in_basis import InBasis
from fastquad.priors.sparse import Coefficients, Sparse
from fastquad.reductions import Given, Reduction
from fastquad.solution import Solution, distance
from fastquad.status import noted
from fastquad.typing import Number


class Basis(Reduction):
    """A signal that is sparse in a basis."""

    def problem(self, given: Given) -> Given | None:
        A, prior = given.A, given.prior
        if not isinstance(prior, Sparse):
            return None
        if (
            A.by_transform
            and A.shape_of_x
            and isinstance(prior.basis, str)
            and (given.signal == "real" or not A.complex)
        ):  # x stays as it is, and the prior knows its coefficients
            self.D = None
            return replace(given, prior=InBasis.made(prior, A.shape_of_x))
        D = self.D = basis.matrix(prior.basis, A.n)
        if np.iscomplexobj(given.y):
            raise ValueError("`y` must be real with a `basis`: it needs Hermitian A, whose measurements are real.")
        if np.iscomplexobj(D) and not (A.complex and given.signal != "real"):
            raise ValueError("`basis` must be real if A or the signal is real, got complex numbers.")
        Y = given.data()
        if given.norm is not None and not basis.orthonormal(D):
            raise ValueError("`norm` must not be given with a `basis` that is not orthonormal: leave it out.")
        x0 = _signals(given.x0, "x0", len(Y), A.n)
        if x0 is not None:
            x0 = np.linalg.lstsq(D, x0.T, rcond=None)[0].T
        X_true = _signals(given.x_true, "x_true", len(Y), A.n)
        self.seen: list[list[float]] | None = None if X_true is None else [[] for _ in Y]
        callback = self._watched(given.callback, X_true)
        in_basis = _in_basis(A, D, given.room)
        return given.with_data(in_basis, Y, x0=x0, x_true=None, callback=callback, prior=Coefficients.of(prior))

    def _watched(self, callback: Any, X_true: Number | None) -> Any:
        """The callback, which sees x in place of z; the distance to x_true is noted on the way."""
        if callback is not None and not callable(callback):
            return callback  # refused by solve
        if callback is None and X_true is None:
            return None

        def call(state: Any) -> Any:
            x, i = self.D @ state.x, state.signal or 0
            if X_true is not None and self.seen is not None:
                self.seen[i].append(distance(x, X_true[i]))
            return None if callback is None else callback(state._replace(x=x))

        return call

    def solution(self, found: Solution, i: int) -> Solution:
        """The answer for z as one for x."""
        D, history = self.D, dict(found.history)
        if D is None:
            return found
        if self.seen is not None:
            history["distance"] = np.array(self.seen[i])
        x = D @ found.x
        said = f"x has {found.support.size} nonzero coefficients in its basis."
        return replace(
            found, x=x, support=np.flatnonzero(x), history=history, message=noted(found.message, said),
            stderr=None if found.stderr is None else np.sqrt(np.abs(D) ** 2 @ found.stderr**2),
            rival=None if found.rival is None else D @ found.rival,
        )  # fmt: skip


def _signals(x: Any, name: str, b: int, n: int) -> Number | None:
    """One signal for all, or one for each of b, real or complex, as a (b, n) array."""
    if x is None or not np.iscomplexobj(x):
        return arguments.signals(x, name, b, n)
    X = arguments.array(x, name)
    if X.shape not in ((n,), (b, n)):
        raise ValueError(f"`{name}` must have shape ({n},) or ({b}, {n}), got {X.shape}.")
    return np.broadcast_to(X, (b, n)).copy()


def _in_basis(A: Measurements, D: Number, room: int) -> Measurements:
    """The measurements of z: computed where they fit in half of the memory."""
    needed = np.dtype(A.number).itemsize * A.m * D.shape[1] ** 2
    if needed <= room // 2:
        return as_measurements(np.ascontiguousarray(A.compress(D)))
    if A.complex:
        raise MemoryError(f"`memory` must be at least {2 * needed / 1e9:.3g} GB for complex A in this basis.")
    return BasisTensor(A, np.asarray(D, dtype=np.float64))
