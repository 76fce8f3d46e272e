"""Whether x can be moved along vectors that no matrix sees, to another signal that is as sparse, or of the same values.

If `Ã_i v = 0` for all i, x + v fits like x: a whole flat of signals does. With more measurements than unknowns that
shows in the products of x. With fewer some vectors are unseen there in any case, but not by whole matrices: one or two
of them tell. Of a flat the sparsest signal is preferred, and the answer is ambiguous where another is as sparse. It is
looked for by

    one vector v          x + tv has one zero more than x at t = −x_j/v_j: all of these are counted
    several, sparse       linear programs: the least Σ w_j |x_j + v_j| with random weights w is at a sparse signal
    several, few values   an integer program: another signal of these values on the flat
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.gauge import names
from fastquad.measurements.contractions import Matrices, Products
from fastquad.numerics import lapack
from fastquad.typing import Asks, Float


def another_on_flat(
    problem: Problem, x: Float, values: Float | None = None, *, small: float = 0.0
) -> Asks[tuple[str, Float | None]]:
    """The doubt, and that signal, if another as sparse as x or of the same few values lies on a flat unseen by A.

    Under noise, coordinates of up to `small` count as zero.
    """
    if problem.n > tol.SMALL_N or problem.m < max(2, problem.n / 2) or problem.fixed or problem.bilinear:
        return "", None
    N = yield from _unseen_vectors(problem)
    if N is None:
        return "", None
    nonzeros, apart = max(int(np.count_nonzero(x)), problem.k or 0), tol.APART_IN_NOISE if small else tol.APART
    for twin in _of_values(x, N, values) if values is not None else _sparse(x, N, problem.turning, small):
        far = min(np.linalg.norm(twin - x), np.linalg.norm(twin + x)) > apart * np.linalg.norm(x)
        if far and problem.admits(twin) and (values is not None or np.count_nonzero(twin) <= nonzeros):
            changed = np.flatnonzero(np.abs(twin - x) > tol.NOTHING * np.linalg.norm(x))
            return f"No measurement changes if {names(changed)} change together: another signal fits as well.", twin
    return "", None


def _unseen_vectors(problem: Problem) -> Asks[Float | None]:
    """An orthonormal basis, (n, d), of the vectors that no matrix sees; None where there are none."""
    n, share = problem.n, tol.ROUNDED if problem.dtype.itemsize < 8 else tol.UNSEEN
    one = (yield Matrices(0, 1))[0]
    if _regular(one, share):
        return None
    values, vectors = np.linalg.svd(np.concatenate([one, (yield Matrices(1, 2))[0]]))[1:]
    unseen = vectors[values <= share * values[0]] if values[0] > 0 else vectors
    if len(unseen) == 0 or len(unseen) == n:
        return None
    # A random one of them is seen by another matrix, if any is.
    v = np.random.default_rng(0).standard_normal(len(unseen)) @ unseen
    W = yield Products(v / np.linalg.norm(v))
    return unseen.T if float(np.abs(W).max(initial=0.0)) <= n * share * values[0] else None


def _regular(matrix: Float, share: float) -> bool:
    """Whether a matrix clearly sees every vector, by an estimate of its condition."""
    factor, _, info = lapack.dgetrf(matrix)
    norm = float(np.abs(matrix).sum(axis=0).max())
    return info == 0 and bool(lapack.dgecon(factor, norm)[0] > len(matrix) * share)


def _sparse(x: Float, N: Float, turning: bool, small: float) -> Iterator[Float]:
    """Sparse signals on the flat x + N c."""
    width = 1 + turning
    if N.shape[1] == width:
        at, v = (np.ascontiguousarray(part).view(np.complex128 if turning else np.float64) for part in (x, N[:, 0]))
        for j in np.flatnonzero(np.abs(v) > tol.NOTHING):
            yield _cleaned((at - (at[j] / v[j]) * v).view(np.float64), small)
        return
    if turning:
        return
    from scipy.optimize import linprog

    n, d = N.shape
    rng = np.random.default_rng(1)
    bound = np.block([[N, -np.eye(n)], [-N, -np.eye(n)]])
    for _ in range(tol.FEW):
        # −u <= x + N c <= u, and the least Σ w_j u_j.
        cost = np.concatenate([np.zeros(d), rng.uniform(0.2, 1.0, n)])
        found = linprog(cost, bound, np.concatenate([-x, x]), bounds=[(None, None)] * d + [(0, None)] * n)
        if found.status == 0:
            yield _cleaned(x + N @ found.x[:d], small)


def _of_values(x: Float, N: Float, values: Float) -> Iterator[Float]:
    """Another signal of these values on the flat x + N c, if there is one."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, count = x.size, values.size
    # One choice of a value for each coordinate, which differs from that of x somewhere, and no component off the flat.
    seen = np.eye(n) - N @ N.T
    chosen = np.kron(np.eye(n), values)
    ones = np.kron(np.eye(n), np.ones(count))
    at_x = (values == x[:, None]).astype(np.float64).ravel()
    slack = 1e-6 * float(np.abs(values).max())
    mirrored = (values == -x[:, None]).astype(np.float64).ravel()
    rules = [
        LinearConstraint(seen @ chosen, seen @ x - slack, seen @ x + slack),
        LinearConstraint(ones, 1, 1),
        LinearConstraint(np.stack([at_x, mirrored]), -np.inf, n - 1),
    ]
    found = milp(np.zeros(n * count), integrality=np.ones(n * count), bounds=Bounds(0, 1), constraints=rules,
                 options={"time_limit": 5.0})  # fmt: skip
    if found.x is not None:
        yield chosen @ np.round(found.x)


def _cleaned(x: Float, small: float) -> Float:
    """x with true zeros."""
    return np.where(np.abs(x) > max(small, tol.NOTHING * float(np.abs(x).max(initial=0.0))), x, 0.0)
