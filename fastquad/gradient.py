"""Whether the contractions of a kind of measurements agree with each other, for users who bring their own.

The objective `f(x) = Σ_i (x^T Ã_i x − y_i)²/(4m)` is a quartic along every line, for which the difference quotient

    f'(0) = (f(−2h) − 8 f(−h) + 8 f(h) − f(2h)) / (12 h)

is exact whatever h is: it is compared with the gradient `W^T r / m` without any error but rounding. The other
contractions are compared with the matrices themselves, or with `products`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import checks
from fastquad.measurements import Measurements, as_measurements
from fastquad.measurements.base import Float

# Directions in which the gradient is compared, coordinates on which parts of A are.
_N_DIRECTIONS = 3
_N_COORDINATES = 5


@dataclass(frozen=True)
class GradientCheck:
    """What `check_gradient` found.

    Attributes
    ----------
    errors : dict of float
        For the gradient and for each contraction, the largest error relative to the largest value.
    tol : float
        What counts as agreement.
    ok : bool
        Whether every error is at most `tol`.
    """

    errors: dict[str, float]
    tol: float

    @property
    def ok(self) -> bool:
        return all(error <= self.tol for error in self.errors.values())


def check_gradient(A: Any, x: ArrayLike | None = None, *, tol: float = 1e-6, rng: Any = None) -> GradientCheck:
    """Compare the gradient with difference quotients of the objective, and the contractions with each other.

    For measurements of your own (a subclass of `fastquad.Measurements`): run it once, on a small case. It reads A a
    few dozen times, and all of it through `matrices`.

    Parameters
    ----------
    A : Measurements, array of shape (m, n, n), or path of a .npy file
    x : array of shape (n,), optional
        Where to compare; default: a random point.
    tol : float
        The largest relative error that counts as agreement.
    rng : int or numpy.random.Generator, optional
        For the point and the directions; without one, a fixed seed is used.

    Returns
    -------
    GradientCheck

    Examples
    --------
    >>> import fastquad as fq
    >>> report = fq.check_gradient(fq.problems.gaussian(m=8, n=5, rng=0).A)
    >>> report.ok, sorted(report.errors)[:3]
    (True, ['block', 'compress', 'diagonals'])
    """
    measurements = as_measurements(A)
    tol = checks.number(tol, "tol")
    generator = checks.generator(rng, default=0)
    n = measurements.n
    X = checks.signals(x, "x", 1, n)
    point = generator.standard_normal(n) if X is None else X[0]
    errors = {"gradient": _gradient_error(measurements, point, generator)}
    errors |= _contraction_errors(measurements, point, generator)
    return GradientCheck(errors, tol)


def _gradient_error(A: Measurements, x: Float, rng: np.random.Generator) -> float:
    y = A.measure(rng.standard_normal(A.n))

    def f(z: Float) -> float:
        return float(np.sum((A.measure(z) - y) ** 2)) / (4 * A.m)

    W = A.products(x)
    gradient = (W @ x - y) @ W / A.m
    h = 0.5 * float(np.linalg.norm(x)) or 1.0
    worst = 0.0
    for _ in range(_N_DIRECTIONS):
        d = rng.standard_normal(A.n)
        d /= np.linalg.norm(d)
        values = np.array([f(x + t * h * d) for t in (-2, -1, 1, 2)])
        slope = float(values @ np.array([1.0, -8.0, 8.0, -1.0])) / (12 * h)
        # Rounding in f, divided by h, is what the quotient cannot see below.
        scale = max(abs(slope), float(np.linalg.norm(gradient)), 1e-9 * float(values.max()) / h)
        error = abs(slope - float(gradient @ d))
        worst = max(worst, error / scale if scale > 0 else 0.0)
    return worst


def _contraction_errors(A: Measurements, x: Float, rng: np.random.Generator) -> dict[str, float]:
    """Each contraction against its formula on the matrices `Ã_i` themselves."""
    m, n = A.m, A.n
    M = A.matrices(0, m)
    some = np.sort(rng.permutation(n)[:_N_COORDINATES])
    sparse = np.zeros(n)
    sparse[some[:1]] = 1.0
    w, v, U = rng.standard_normal(m), rng.standard_normal(n), rng.standard_normal((n, 2))
    diagonals = np.einsum("ijj->ij", M)
    values = np.einsum("ijk,j,k->i", M, x, x)
    r = w - values - diagonals @ v
    swept_r, swept_S = A.sweep(x, v, w)
    pairs: dict[str, tuple[Float, Float]] = {
        "symmetry": (M, M.transpose(0, 2, 1)),
        "products": (A.products(x), M @ x),
        "products of a batch": (A.products(U), M @ U),
        "products of a sparse signal": (A.products(sparse), M @ sparse),
        "measure": (A.measure(x), values),
        "weighted_sum": (A.weighted_sum(w), np.tensordot(w, M, axes=1)),
        "diagonals": (A.diagonals(), diagonals),
        "rows": (A.rows(some), M[:, some]),
        "block": (A.block(some), M[:, some[:, None], some]),
        "compress": (A.compress(U), U.T @ (M @ U)),
        "sweep, r": (swept_r, r),
        "sweep, S": (swept_S, np.tensordot(r, M, axes=1)),
    }
    return {name: _relative_error(got, expected) for name, (got, expected) in pairs.items()}


def _relative_error(got: Float, expected: Float) -> float:
    if got.shape != expected.shape:
        return np.inf
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(got - expected).max()) / scale
