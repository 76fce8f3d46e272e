"""The Jacobian at x with a factor of its normal equations: what it does not see, and which measurements are critical.

Rows are multiplied by weights w. Some coordinates are held: known ones, for complex x one that says its phase, and one
for each direction that no measurement sees. Of complex x the inverse is that with one coordinate held, Σ; orthogonal to
the free direction u it is `PΣP` with `P = 1 − uu^T`, whose diagonal needs one more solve.

Without a critical measurement i the Jacobian loses a direction v, the one with `J v = e_i`: as many measurements as
unknowns say what is there. A square system of quadratic equations has several roots. Along x + u v

    ‖w r(u)‖² = u² ‖p + u q‖²,    p = w J v = e_i,  q = w z(v)

for exact data, so that the other root is near `u = −p^T q / q^T q`, the more so the smaller the angle between p and q.
Of a power grid it is the low voltage at which a bus takes the same power.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.engine.trust import tolerances as tol
from fastquad.engine.verbs import Normals
from fastquad.measurements.contractions import Verbs
from fastquad.numerics.forms import Forms, JacobianAt
from fastquad.numerics.levenberg_marquardt import turned
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

    @staticmethod
    def at(normals: Normals, x: Float, w: Float, held: Indices | None = None) -> Asks[tuple[Factored, Float]]:
        """The factor at x, where what no measurement sees is held, and the unseen directions, (n, d)."""
        J = Factored(normals, (yield Verbs()), x, w, normals.held(x) if held is None else held)
        return J, (yield from J._find_unseen())

    def weighted(self, w: Float) -> Asks[Factored]:
        """The same with other weights of the rows."""
        J = Factored(self.normals, self.forms, self.x, w, self.held)
        J.factor = J.normals.factor((yield from self._gram(w)), J.held)
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

    def _find_unseen(self) -> Asks[Float]:
        """The directions that no measurement sees, (n, d), beside the phase; all of them are held afterwards.

        A pivot that is rounding, or a vector that the inverse of the normal equations makes large, is a candidate; it
        is refined until `J v` is its own, and unseen if that is rounding.
        """
        given, n = self.held, self.x.size
        G = yield from self._gram(self.w)
        diagonal = np.asarray(G.diagonal(), dtype=np.float64)
        positive = np.where(diagonal > 0, diagonal, 1.0)
        self.factor = self.normals.factor(G, given)
        # Candidates one by one would take a factor each: those whose pivots are rounding come at once.
        candidates, found = np.setdiff1d(self.factor.held, given), []
        rng = np.random.default_rng(5)
        while True:
            if candidates.size:
                self.factor = self.normals.factor(G, np.concatenate([given, candidates]))
                confirmed = []
                for c in candidates[: tol.MOST_UNSEEN]:
                    v, seen = self._refined(int(c), positive, bool(diagonal[c] > 0))
                    if seen <= tol.UNSEEN:
                        found.append(v)
                        confirmed.append(c)
                given = np.concatenate([given, np.array(confirmed, dtype=np.intp)])
                if len(confirmed) < candidates.size:
                    self.factor = self.normals.factor(G, given)
                    break
            if given.size >= n or len(found) >= tol.MOST_UNSEEN:
                break
            v = rng.standard_normal(n) / np.sqrt(positive)
            for _ in range(tol.SETTLING + 1):
                v = self.factor.solve(positive * v)
                v /= np.linalg.norm(np.sqrt(positive) * v) or 1.0
            # A vector from the normal equations alone is accurate to the root of rounding.
            if float(np.linalg.norm(self.forward(v))) > np.sqrt(tol.UNSEEN):
                break
            candidates = np.array([int(np.argmax(np.sqrt(positive) * np.abs(v)))])
        self.held = given
        return np.array(found).T if found else np.zeros((n, 0))

    def _refined(self, c: int, positive: Float, in_terms: bool) -> tuple[Float, float]:
        """The direction with a one at coordinate c that is seen least, and how much of it is, relative to its terms."""
        v = np.zeros(self.x.size)
        v[c] = 1.0
        for _ in range(tol.SETTLING):
            v = v - self.factor.solve(self.adjoint(self.forward(v)))
        size = float(np.linalg.norm(np.sqrt(positive) * v)) if in_terms else 1.0
        return v / np.linalg.norm(v), float(np.linalg.norm(self.forward(v))) / (size or 1.0)

    # -- critical measurements ----------------------------------------------------------------------------------------

    def critical(self) -> Indices:
        """The measurements of redundancy zero, in ascending order."""
        m = self.shape[0]
        rng = np.random.default_rng(8)
        squares = np.zeros(m)
        # With four, a measurement of redundancy 1e-3 passes for one below 1e-6 once in 10^6 times.
        for _ in range(4):
            squares += self.left(rng.standard_normal(m)) ** 2 / 4
        # Squares of residuals of unit data: those that are rounding, and those that are tested one by one.
        found = list(np.flatnonzero(squares <= tol.CRITICAL**2))
        for i in np.flatnonzero((squares > tol.CRITICAL**2) & (squares < 100 * tol.CRITICAL)):
            left = self.left(_unit(m, int(i)))
            if float(left @ left) <= tol.CRITICAL:
                found.append(i)
        return np.sort(np.array(found, dtype=np.intp))

    def other_roots(self) -> list[Float]:
        """Signals near which other roots are of the systems that critical measurements close, the nearest first."""
        places, (m, _) = self.critical(), self.shape
        if places.size > tol.MOST:
            places = np.random.default_rng(9).choice(places, tol.MOST, replace=False)
        found: list[tuple[float, Float]] = []
        for i in places:
            v = self.least_squares(_unit(m, int(i)))
            p, q = self.forward(v), self.w * self.forms.measure(v)
            square, both = float(q @ q), float(p @ q)
            if not square > 0:
                continue
            u = -both / square
            # A root that is farther away is none of the same system (guess).
            if 0 < abs(u) * float(np.linalg.norm(v)) <= 2 * self.norm:
                found.append((1 - both**2 / (square * float(p @ p)), self.x + u * v))
        found.sort(key=lambda each: each[0])
        return [start for _, start in found[: tol.FEW]]


def _unit(m: int, i: int) -> Float:
    unit = np.zeros(m)
    unit[i] = 1.0
    return unit
