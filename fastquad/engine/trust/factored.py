"""The Jacobian at x with a factor of its normal equations: what it does not see, and which measurements are critical.

Rows are multiplied by weights w. Some coordinates are held: known ones, for complex x one that says its phase, and one
for each direction that no measurement sees. Of complex x the inverse is that with one coordinate held, Σ; orthogonal to
the free direction u it is `PΣP` with `P = 1 − uu^T`, whose diagonal needs one more solve.

Without a critical measurement i the Jacobian loses a direction v, the one with `J v = e_i`: as many measurements as
unknowns say what is there. A square system of quadratic equations has several roots. Along x + u v

    ‖w r(u)‖² = u² ‖p + u q‖²,    p = w J v = e_i,  q = w z(v)

beside what x leaves, so that the other root is near `u = −p^T q / q^T q`, the more so the less is left there. In noise
a measurement that is nearly critical does the same. Of a power grid it is the low voltage at which a bus takes the same
power.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.engine.trust import tolerances as tol
from fastquad.engine.verbs import Normals
from fastquad.measurements.contractions import Verbs
from fastquad.numerics import lapack
from fastquad.numerics.forms import Forms, JacobianAt
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.numerics.sparse_factor import Extended
from fastquad.typing import Asks, Float, Indices


class Factored(JacobianAt):
    """J at x, its rows times the weights w, and the factor of its normal equations with what is held."""

    #: The least eigenvalue beside what is held: solutions are exact, so that no bound is needed.
    bound = np.inf

    def __init__(self, normals: Normals, forms: Forms, x: Float, w: Float, held: Indices) -> None:
        super().__init__(forms, x, w)
        self.normals, self.w, self.held = normals, w, held
        self.norm = float(np.linalg.norm(x)) or 1.0
        self.factor: Any = None
        #: Coordinates of directions that are seen, but too weakly for the normal equations.
        self.weak = np.zeros(0, dtype=np.intp)

    @staticmethod
    def at(normals: Normals, x: Float, w: Float, held: Indices | None = None) -> Asks[tuple[Factored, Float]]:
        """The factor at x, where what no measurement sees is held, and the unseen directions, (n, d)."""
        J = Factored(normals, (yield Verbs()), x, w, normals.held(x) if held is None else held)
        return J, (yield from J._find_unseen())

    def weighted(self, w: Float) -> Asks[Factored]:
        """The same with other weights of the rows."""
        J = Factored(self.normals, self.forms, self.x, w, self.held)
        G = yield from J._gram(w)
        J._extend(J._candidates(G, self.weak))
        return J

    def _gram(self, w: Float) -> Asks[Any]:
        G, _ = yield from self.normals.gram(self.x, w**2, np.zeros_like(w))
        return G

    def least_squares(self, target: Float, *rest: Any, **others: Any) -> Float:
        """The d that minimises `‖J d − target‖²`, zero at what is held."""
        d = np.zeros(self.x.size)
        for _ in range(tol.SETTLING):
            step = self.factor.solve(self.adjoint(target))
            d, target = d + step, target - self.forward(step)
        return d

    def left(self, target: Float) -> Float:
        """What least squares leaves of a target, (m,)."""
        return target - self.forward(self.least_squares(target))

    def stderr(self, sigma: float) -> Float:
        """The standard errors where the weighted rows have this standard deviation."""
        variance = self.factor.inverse_diagonal()
        if self.normals.problem.turning:
            u = turned(self.x)
            free = u.copy()
            free[self.held] = 0.0
            Su = self.factor.solve(free)
            variance = np.maximum(variance - 2 * u * Su + u * u * float(u @ Su), 0.0)
        return np.asarray(sigma * np.sqrt(variance))

    # -- what is not seen ---------------------------------------------------------------------------------------------

    def _candidates(self, G: Any, known: Indices) -> Indices:
        """Coordinates whose pivots are rounding, and the known ones; afterwards the factor has all others."""
        self.factor = self.normals.factor(G, np.concatenate([self.held, known]))
        found = np.setdiff1d(self.factor.held, self.held)
        if found.size > known.size:
            self.factor = self.normals.factor(G, np.concatenate([self.held, found]))
        return found

    def _refined(self, candidates: Indices) -> tuple[Float, Float]:
        """For each candidate the direction with a one there that is seen least, (n, d), and `J v` of them, (m, d)."""
        V, images = np.zeros((candidates.size, self.x.size)), np.empty((candidates.size, self.shape[0]))
        for v, image, c in zip(V, images, candidates, strict=True):
            v[c] = 1.0
            for _ in range(tol.SETTLING):
                v -= self.factor.solve(self.adjoint(self.forward(v)))
            image[:] = self.forward(v)
        return V.T, images.T

    def _extend(self, weak: Indices) -> None:
        """Give the factor the directions of these candidates, from J itself."""
        self.weak = weak
        if weak.size:
            self.factor = Extended.of(self.factor, *self._refined(weak))

    def _find_unseen(self) -> Asks[Float]:
        """The directions that no measurement sees, (n, d), beside the phase; all of them are held afterwards.

        A pivot that is rounding, or a vector that the inverse of the normal equations makes large, is a candidate. All
        candidates are refined until `J v` is their own: combinations for which it is rounding are unseen.
        """
        n = self.x.size
        G = yield from self._gram(self.w)
        diagonal = np.asarray(G.diagonal(), dtype=np.float64)
        size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        rng = np.random.default_rng(5)
        candidates = self._candidates(G, np.zeros(0, dtype=np.intp))
        while self.held.size + candidates.size < n and candidates.size < tol.MOST_UNSEEN:
            v = rng.standard_normal(n) / size
            for _ in range(tol.SETTLING + 1):
                v = self.factor.solve(size**2 * v)
                v /= np.linalg.norm(size * v) or 1.0
            # A vector from the normal equations alone is accurate to the root of rounding.
            if float(np.linalg.norm(self.forward(v))) > np.sqrt(tol.UNSEEN):
                break
            candidates = self._candidates(G, np.append(candidates, int(np.argmax(size * np.abs(v)))))
        looked_at = candidates[: tol.MOST_UNSEEN]
        if not looked_at.size:
            return np.zeros((n, 0))
        V, images = self._refined(looked_at)
        # The singular values of J on the span of the candidates, relative to the terms.
        Q, R = np.linalg.qr(size[:, None] * V)
        _, seen, mixed = np.linalg.svd(np.linalg.qr(np.linalg.solve(R.T, images.T).T, mode="r"))
        Q = Q @ mixed[seen <= tol.UNSEEN].T
        # One coordinate for each unseen direction is held, those that the directions move most; the others are weak.
        places = lapack.qr(Q[looked_at].T, mode="economic", pivoting=True)[2] if Q.size else np.arange(0)
        held = looked_at[places[: Q.shape[1]]]
        self.held = np.concatenate([self.held, held, candidates[tol.MOST_UNSEEN :]])
        self._extend(self._candidates(G, np.setdiff1d(looked_at, held)))
        directions = Q / size[:, None]
        return directions / np.linalg.norm(directions, axis=0)

    # -- critical measurements ----------------------------------------------------------------------------------------

    def _redundancies(self) -> Float:
        """About how much of its own error the residual of each measurement shows, (m,): squares at random residuals."""
        m, rng = self.shape[0], np.random.default_rng(8)
        # With four, a measurement of redundancy 1e-3 passes for one below 1e-6 once in 10^6 times.
        return np.mean([self.left(rng.standard_normal(m)) ** 2 for _ in range(4)], axis=0)

    def critical(self) -> Indices:
        """The measurements of redundancy zero, in ascending order."""
        m, squares = self.shape[0], self._redundancies()
        # Those that are rounding, and those that are tested one by one.
        found = list(np.flatnonzero(squares <= tol.CRITICAL**2))
        for i in np.flatnonzero((squares > tol.CRITICAL**2) & (squares < 100 * tol.CRITICAL)):
            left = self.left(_unit(m, int(i)))
            if float(left @ left) <= tol.CRITICAL:
                found.append(i)
        return np.sort(np.array(found, dtype=np.intp))

    def other_roots(self) -> list[Float]:
        """Signals near which other roots are of the systems that (nearly) critical measurements close, likely first."""
        squares, (m, _) = np.maximum(self._redundancies(), tol.CRITICAL), self.shape
        # The nearest to critical, and at random among those that are.
        order = np.lexsort((np.random.default_rng(9).random(m), squares))[: tol.MOST_UNSEEN]
        places = order[squares[order] < tol.PART]
        found: list[tuple[float, Float]] = []
        for i in places:
            # The direction need not be exact.
            v = self.factor.solve(self.adjoint(_unit(m, int(i))))
            p, q = self.forward(v), self.w * self.forms.measure(v)
            square, both = float(q @ q), float(p @ q)
            if not square > 0:
                continue
            u = -both / square
            # A root that is farther away is none of the same system (guess).
            if tol.APART * self.norm <= abs(u) * float(np.linalg.norm(v)) <= 2 * self.norm:
                found.append((u * u * (float(p @ p) - both**2 / square), self.x + u * v))
        found.sort(key=lambda each: each[0])
        return [start for _, start in found[: tol.FEW]]


def _unit(m: int, i: int) -> Float:
    unit = np.zeros(m)
    unit[i] = 1.0
    return unit
