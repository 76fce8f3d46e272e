"""A proof that no other signal has the same measurements, where there is one; else a start for rivals.

**The dual certificate.** If `S = Σ μ_i Ã_i` is positive semidefinite with `S x = 0` and rank n − 1, then every z with
the measurements of x has `z^* S z = Σ μ_i y_i = x^* S x = 0`, so that z is a multiple of x, and y ≠ 0 makes it ±x (of
complex signals, x times a phase). Where the norm of x is measured, the identity is one of the Ã_i.

**How it is found.** A base `B = Σ b_i Ã_i` that is positive definite: the identity where the norm is known, else the
sum of the matrices that look semidefinite, each with its sign. Then `S = B − M` with `M = Σ λ_i Ã_i` and `M x = B x`, n
linear equations `W^T λ = B x`. The λ of least norm comes first; if an eigenvalue of S off x is not positive, L-BFGS
lowers the soft maximum of those of −S (`fastquad.numerics.dual`) along the λ that solve the equations. An evaluation is
a weighted sum, and the gradient the inner products of all matrices with a density matrix: two passes.

Where the Ã_i span all symmetric matrices (lifting: xx^* is known linearly), B is the identity and `M = x̂x̂^*`.

**What rounding leaves of it.** Each measurement of another signal z may differ from y_i by a tolerance t_i: what x
itself leaves, and the rounding of a quadratic form. With a least eigenvalue g of S off x, bounded from below by a
Cholesky factorisation, `z = c x̂ + w` with w orthogonal to x has

    g ‖w‖² <= z^* S z + s (‖z‖² + 2 ‖z‖ ‖w‖),      z^* S z <= |Σ μ_i y_i| + Σ |μ_i| t_i,      s >= ‖S x̂‖,

and b bounds ‖z‖ and c. So z lies within some ρ of ±x, about the root of rounding. There J proves the rest: for two
signals, `z^* Ã_i z − x^* Ã_i x = 2 Re (z − x)^* Ã_i q` with their mean q, at most ρ/2 from x. Hence

    ‖z − x‖ <= 2 ‖t‖ / (σ − ρ L),      σ the least singular value of J = 2W,  ‖(Ã_i u)_i‖ <= L ‖u‖,

which is the radius of the proof: every signal whose measurements agree within rounding is as near to ±x. Where J does
not see a direction, which S may tell apart nevertheless, the radius is ρ.

All of it is in units of the matrices: rows are divided by their Frobenius norms.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.gauge import far
from fastquad.measurements.contractions import Block, Compress, Inner, Products, WeightedSum
from fastquad.numerics import lapack
from fastquad.numerics.dual import Point, least_eigenvalue, lowered
from fastquad.numerics.gram import gram
from fastquad.numerics.lapack import EPS
from fastquad.numerics.levenberg_marquardt import Descent, on_block, turned
from fastquad.solution import Proof
from fastquad.typing import Asks, Float, Number


def dual(case: Case, weights: Float | None, lifts: bool) -> Asks[tuple[Point | None, Proof | None]]:
    """The best S that is found, and the proof by it."""
    if lifts and not case.measured:
        yield from case.lift()
    if not case.feasible and (weights is not None or case.measured):
        yield from case.set_base(weights)
    if not case.feasible:
        return None, None
    point, positive = yield from lowered(case, case.problem.n <= 4 * tol.SMALL_N)
    return point, case.proof(case.b - point.lam, point.S) if positive else None


class Case:
    """x with its measurements in units of the matrices, the norm as the last of them where it is known.

    Matrices are complex (n, n) where x is, not real ones of Re and Im.
    """

    b: Float
    start: Float

    def __init__(self, problem: Problem, x: Float, W: Float, sizes: Float, noisy: bool = False) -> None:
        self.problem, self.x, self.noisy = problem, x, noisy
        self.kind, self.feasible = "dual", False
        r = W @ x - problem.y
        #: `‖r‖/‖y‖`
        self.residual = float(np.linalg.norm(r) / np.linalg.norm(problem.y))
        self.sizes = np.where(sizes > 0, sizes, 1.0)
        self.square = float(x @ x)
        self.W, self.y, self.r = W / self.sizes[:, None], problem.y / self.sizes, r / self.sizes
        self.gram = gram(self.W)
        #: Whether the identity is the last row.
        self.measured = problem.norm is not None
        self.mismatch = 0.0
        if problem.norm is not None:
            root = math.sqrt(problem.n)
            self.mismatch = math.sqrt(self.square) - problem.norm
            self._own_gram, self.gram = self.gram, self.gram + np.outer(x, x) / problem.n
            self.W = np.concatenate([self.W, x[None] / root])
            self.y = np.append(self.y, problem.norm**2 / root)
            self.r = np.append(self.r, (self.square - problem.norm**2) / root)
        rounding = (2 * problem.n + 8) * EPS * self.square
        #: How far the measurements of another signal may be from y: each of them, or in noise their norm.
        self.tolerance = np.abs(self.r) + rounding
        if noisy:
            spare = max(1, problem.m - problem.unknowns)
            self.tolerance *= math.sqrt(problem.m / spare) * (1 + 3 / math.sqrt(2 * spare))
        self.unit: Number = x.view(np.complex128) if problem.turning else x
        self.unit = self.unit / np.linalg.norm(self.unit)

    def another_norm(self) -> str:
        """A sentence if the norm that is given is not that of x."""
        if not self.measured:
            return ""
        values = np.linalg.eigvalsh(self._own_gram)[1 if self.problem.turning else 0 :]
        least = math.sqrt(max(float(values[0]), tol.TINY * float(values[-1])))
        error = float(np.linalg.norm(self.tolerance[: self.problem.m])) / least
        if abs(self.mismatch) <= error:
            return ""
        own, norm = math.sqrt(self.square), self.problem.norm
        return f"`norm` is {norm:.10g}, but the norm of x is {own:.10g}: there is no proof."

    def away(self, z: Float) -> float:
        """The distance of another signal from x."""
        return far(z, self.x, self.problem)

    # -- the equations ----------------------------------------------------------------------------------------

    def lift(self) -> Asks[None]:
        """Set B to the identity and M to x̂x̂^*, where the matrices span all symmetric (Hermitian) ones."""
        n = len(self.unit)
        block = (yield Block(np.arange(self.problem.n))) / self.sizes[:, None, None]
        if self.problem.turning:
            block = block[:, ::2, ::2] + 1j * block[:, 1::2, ::2]
        above, below = np.triu_indices(n)
        root = np.where(above == below, 1.0, math.sqrt(2))

        def numbers(H: Number) -> Float:
            """The numbers of a Hermitian matrix, with its inner products."""
            entries = H[..., above, below] * root
            return np.concatenate([entries.real, entries.imag[..., above < below]], axis=-1)

        T = numbers(block)
        T = T if self.problem.turning else T[:, : above.size]
        wanted = np.stack([np.eye(n), np.outer(self.unit, self.unit.conj())])
        targets = numbers(wanted)[:, : T.shape[1]]
        factor, info = lapack.dpotrf(gram(T), lower=1)
        if info == 0:
            weights = T @ lapack.dpotrs(factor, targets.T, lower=1)[0]
            weights += T @ lapack.dpotrs(factor, targets.T - T.T @ weights, lower=1)[0]
            yield from self.set_base(weights[:, 0], weights[:, 1])
            self.kind = "lifting" if self.feasible else "dual"

    def set_base(self, weights: Float | None, start: Float | None = None) -> Asks[None]:
        """Set B, from weights of the measurements; the identity where the norm is measured.

        `start` are λ that solve the equations nearly, in place of those of least norm.
        """
        n = len(self.unit)
        self.b = np.zeros(len(self.y))
        if weights is None:
            self.b[-1] = math.sqrt(self.problem.n)
            self.B = np.eye(n, dtype=self.unit.dtype)
            self.least = 1.0
        else:
            self.b[: weights.size] = weights
            B = yield from self.sum(self.b)
            scale = float(np.einsum("jj->j", B).real.mean())
            self.b, self.B = self.b / scale, B / scale
            self.least = least_eigenvalue(self.B) - self._formed(self.b)
        values, vectors = np.linalg.eigh(self.gram)
        seen = values > tol.TINY * values[-1]
        self._root = vectors[:, seen] / np.sqrt(values[seen])
        target = self.B @ self.unit * math.sqrt(self.square)
        self.target = target.view(np.float64) if self.problem.turning else target
        #: Where the search starts: if nothing else is given, the λ of least norm with W^T λ = B x.
        self.start = self.solve(self.target) if start is None else start
        self.start += self.solve(self.target - self.start @ self.W)
        left = float(np.linalg.norm(self.start @ self.W - self.target))
        #: Whether B is positive definite, and the equations have a solution.
        self.feasible = self.least > 0 and left <= tol.ROUNDING * float(np.linalg.norm(self.target))

    def solve(self, target: Float) -> Float:
        """The λ of least norm with `W^T λ = target`."""
        return self.W @ (self._root @ (target @ self._root))

    def kept(self, gradient: Float) -> Float:
        """The part of a gradient along which the equations stay solved."""
        gradient = gradient - self.solve(gradient @ self.W)
        return gradient - self.solve(gradient @ self.W)  # again, for the rounding of the first

    def sum(self, mu: Float) -> Asks[Number]:
        """`Σ μ_i Ã_i` in units of the matrices, (n, n)."""
        m = self.problem.m
        S: Number = yield WeightedSum(mu[:m] / self.sizes)
        if self.problem.turning:
            S = S[::2, ::2] + 1j * S[1::2, ::2]
        if self.measured:
            S = S + mu[m] / math.sqrt(self.problem.n) * np.eye(len(S))
        return S

    def inner(self, D: Number) -> Asks[Float]:
        """`<Ã_i, D>` in units of the matrices, for a D of trace one."""
        if self.problem.turning:
            whole = np.empty((len(D), 2, len(D), 2))
            whole[:, 0, :, 0] = whole[:, 1, :, 1] = D.real / 2
            whole[:, 1, :, 0], whole[:, 0, :, 1] = D.imag / 2, -D.imag / 2
            D = whole.reshape(2 * len(D), -1)
        values: Float = (yield Inner(np.ascontiguousarray(D))) / self.sizes
        return np.append(values, 1 / math.sqrt(self.problem.n)) if self.measured else values

    # -- the proof --------------------------------------------------------------------------------------------

    def _formed(self, mu: Float) -> float:
        """How far a weighted sum may be from the true one, by rounding."""
        return (self.problem.m + self.problem.n + 16) * EPS * float(np.abs(mu).sum())

    def proof(self, mu: Float, S: Number) -> Proof | None:
        """The proof by these μ and their S, if rounding leaves one."""
        margin = least_eigenvalue(S, self.unit) - self._formed(mu)
        if not margin > 0:
            return None
        radius = self._radius(mu, S, margin)
        if radius is None:
            return None
        m = self.problem.m
        identity = float(mu[m]) / math.sqrt(self.problem.n) if self.measured else 0.0
        return Proof(self.kind, margin, radius, mu[:m] / self.sizes, identity)

    def _open(self, mu: Float) -> float:
        """How far `Σ μ_i z^* Ã_i z` may be from `Σ μ_i y_i` for another signal z, in units of the matrices."""
        rounding = len(mu) * EPS * float(np.abs(mu) @ np.abs(self.y))
        if self.noisy:
            m = self.problem.m  # the norm has no noise
            whole = float(np.linalg.norm(mu[:m]) * np.linalg.norm(self.tolerance[:m]))
            return whole + float(np.abs(mu[m:]) @ self.tolerance[m:]) + rounding
        return float(np.abs(mu) @ self.tolerance) + rounding

    def _radius(self, mu: Float, S: Number, margin: float) -> float | None:
        """The relative radius around x of all signals whose measurements agree, if there is one."""
        n, rows, size = self.problem.n, len(mu), math.sqrt(self.square)
        s = float(np.linalg.norm(S @ self.unit)) + n * EPS * float(np.linalg.norm(S)) + self._formed(mu)
        value, slack = abs(float(mu @ self.y)) + self._open(mu), self._open(self.b)
        longest = math.sqrt((float(self.b @ self.y) + slack) / self.least)
        # w, the part of another signal off x, and c, that along it.
        w = (s * longest + math.sqrt((s * longest) ** 2 + margin * (value + s * longest**2))) / margin
        Bx = self.B @ self.unit
        base = float((self.unit.conj() @ Bx).real)
        beside = float(np.linalg.norm(Bx - base * self.unit)) + n * EPS * base  # all that w sees of it
        turning = 2 * longest * w * beside + w**2 * float(np.linalg.norm(self.B, 2))
        rho = (1 + 1e-9) * math.hypot(w, (2 * slack + turning) / (size * base))  # for the rounding of these lines
        free = turned(self.x) if self.problem.turning else None
        rounding = 4 * (rows + n) * EPS * float(self.gram.trace())
        square = least_eigenvalue(4 * self.gram, free) - rounding
        seen = (math.sqrt(square) if square > 0 else 0.0) - rho * math.sqrt(rows)
        nearest = 2 * float(np.linalg.norm(self.tolerance)) / seen if seen > 0 else math.inf
        radius = min(rho, nearest) / size
        return radius if radius < (1.0 if self.noisy else tol.ROUNDED) else None


# -- rivals: where there is no proof, the vectors that prevent it are the first starts for another signal --------


def another_by(case: Case, point: Point) -> Asks[Float | None]:
    """Another signal with the measurements of x, if descents from x and the vectors of least `z^* S z` find one.

    Of every other signal z with the measurements of x, `z^* S z = 0`. If S is positive semidefinite, z lies in its
    null space: a problem of a few unknowns, which is searched first. Elsewhere its ends are starts for all of x.
    """
    n = case.problem.n
    values, vectors = np.linalg.eigh(point.S)
    least = vectors[:, values < values[0] + tol.PART][:, : tol.SEVERAL]
    least = least - np.outer(case.unit, case.unit.conj() @ least)
    basis, sizes, _ = np.linalg.svd(least, full_matrices=False)
    U = np.column_stack([case.unit, basis[:, sizes > 0.1]])
    if case.problem.turning:
        real = np.empty((n, 2 * U.shape[1]))
        real[:, ::2] = np.ascontiguousarray(U.T).view(np.float64).T
        real[:, 1::2] = np.ascontiguousarray(1j * U.T).view(np.float64).T
        U = real
    block = (yield Compress(np.ascontiguousarray(U))) / case.sizes[:, None, None]
    if case.measured:
        block = np.concatenate([block, np.eye(U.shape[1])[None] / math.sqrt(n)])
    rng = np.random.default_rng(0)
    ends: list[tuple[float, Float]] = []
    for _ in range(tol.MOST):
        direction = np.asarray(rng.standard_normal(U.shape[1]))
        length = math.sqrt(case.square) / float(np.linalg.norm(direction))
        end = on_block(case.y, direction * length, block, tol.TO_ROUNDING, turning=case.problem.turning)
        z = U @ end.z
        if case.away(z) > tol.TWIN_APART and all(far(z, other, case.problem) > tol.APART for _, other in ends):
            ends.append((end.square, z))
    ends.sort(key=lambda each: each[0])
    for _, end_at in ends[: tol.FEW]:
        other = yield from _descent(case, end_at)
        if other is not None and case.away(other) > tol.TWIN_APART and case.problem.admits(other):
            return other
    return None


def _descent(case: Case, z: Float) -> Asks[Float | None]:
    """The signal that a descent on all measurements from z ends at, if it fits to rounding."""

    def products(d: Float) -> Asks[Float]:
        W: Float = (yield Products(d)) / case.sizes[:, None]
        return np.concatenate([W, d[None] / math.sqrt(case.problem.n)]) if case.measured else W

    descent = Descent(case.y, z, (yield from products(z)), turning=case.problem.turning)
    while not (descent.finished(tol.TO_ROUNDING) or descent.ends()):
        d = descent.direction()
        descent.advance(d, (yield from products(d)))
    return descent.z if descent.residual < EXACT_RESIDUAL else None
