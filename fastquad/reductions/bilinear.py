"""Products of two unknown vectors: the quadratic problem of both, with their balance as one more datum.

See `fastquad.measurements.structured.bilinear`. What the user gives is handed on with ‖u‖ = ‖v‖.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.measurements.structured.bilinear import BilinearTensor
from fastquad.reductions import Given, Reduction
from fastquad.solution import Solution
from fastquad.typing import Float


class Bilinear(Reduction):
    """Products of two unknown vectors."""

    def problem(self, given: Given) -> Given:
        A: BilinearTensor = given.A
        self.m, Y = A.m, given.data()
        if given.prior is not None:
            raise ValueError("`prior` must be None for a BilinearTensor: fastquad learns how sparse u and v are.")
        if given.norm is not None:
            raise ValueError("`norm` must be None for a BilinearTensor: the scales of u and v are not known apart.")
        changes: dict[str, Any] = {}
        for name in ("x0", "x_true"):
            signals = arguments.signals(getattr(given, name), name, len(Y), A.n)
            if signals is not None:
                changes[name] = np.stack([balanced(each, A.p) for each in signals])
        extended = np.concatenate([Y, np.zeros((len(Y), 1))], axis=1)
        return given.with_noise(lambda noise: noise.extended()).with_data(A.balanced(), extended, **changes)

    def solution(self, found: Solution, i: int) -> Solution:
        """The answer without what it says of the last measurement."""
        if found.outliers is None:
            return found
        return replace(found, outliers=found.outliers[found.outliers < self.m])


def balanced(x: Float, p: int) -> Float:
    """[u; v] with the scales for which ‖u‖ = ‖v‖; as it is where one of them is zero."""
    u, v = (float(np.linalg.norm(part)) for part in (x[:p], x[p:]))
    if not u * v > 0:
        return x
    scale = np.sqrt(v / u)
    return np.concatenate([x[:p] * scale, x[p:] / scale])
