"""Linear transforms B of signals whose squared lengths are measured, `y_i = ‖B_i x‖²`: verbs in the place of a matrix.

VAMP, descents and the certificate ask for Bx and B^T z, for the spectrum of B^T B and for the leading vectors of
`Σ_i t_i B_i^T B_i`. A stored B answers by its products and by an eigendecomposition; a masked Fourier transform never
has a matrix, and its B^T B is diagonal (`fastquad.measurements.structured.fourier`).

The Jacobian of the squared lengths at x is `J d = 2 <Bx, Bd>_i`, so that a step of Levenberg–Marquardt, or a standard
error, is a least-squares problem for conjugate gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fastquad.numerics import krylov
from fastquad.numerics.forms import JacobianAt
from fastquad.typing import Float, Indices

# The share of the largest eigenvalue of B^T B below which another one is taken for it in a change of scale.
_LEAST = 1e-12
# The share of the mean value below which a row of J is not brought to the size of the others: with .03 and .01 there
# are hardly fewer steps of Lanczos and of conjugate gradients (3 and 4 random masks of 64² pixels).
_SMALL_VALUE = 0.1


class Transform(ABC):
    """B, from signals (n,) to R numbers for each of m measurements, one measurement after the other, (mR,)."""

    m: int
    R: int
    n: int
    #: Whether the eigenvalues of B^T B are known, and whether its eigenvectors are the coordinates.
    complete: bool = True
    diagonal: bool = False
    #: What leaves all measurements as they are, but a sign or a phase, as `fastquad.distance` reads it after a gauge.
    symmetry: str = ""
    #: How many products were made, and how many of them were charged.
    products: int = 0
    _charged: int = 0

    def forward(self, x: Float) -> Float:
        """`B x`, (mR,)."""
        self.products += 1
        return self._forward(x)

    def adjoint(self, z: Float) -> Float:
        """`B^T z`, (n,)."""
        self.products += 1
        return self._adjoint(z)

    def uncharged(self) -> int:
        """The products since this was last asked."""
        new, self._charged = self.products - self._charged, self.products
        return new

    def measure(self, x: Float) -> Float:
        """`‖B_i x‖²`, (m,)."""
        return self.lengths(self.forward(x)) ** 2

    def jacobian(self, x: Float, weights: Float | None = None) -> Jacobian:
        """J at x, its rows times weights (m,) if there are any."""
        return Jacobian(self, self.forward(x), weights)

    def levelling(self, values: Float) -> Float:
        """The weights (m,) that bring the rows of J to one size where these are the values, but for the smallest."""
        return 1 / np.sqrt(np.maximum(values, 0.0) + _SMALL_VALUE * max(float(values.mean()), 1e-300))

    @property
    def dark(self) -> Indices:
        """The coordinates that no measurement depends on."""
        values = self.eigenvalues
        return np.flatnonzero(values <= 1e-14 * float(values.max()))

    @property
    def equations(self) -> int:
        """The number of measurements that are not equal by themselves."""
        return self.m

    @property
    def shortest(self) -> float:
        """The least eigenvalue of `B^T B`."""
        return float(self.eigenvalues.min())

    @abstractmethod
    def _forward(self, x: Float) -> Float: ...

    @abstractmethod
    def _adjoint(self, z: Float) -> Float: ...

    @abstractmethod
    def unit(self) -> Unit:
        """B with measurements of norm 1, without those that are zero whatever x is."""

    @property
    @abstractmethod
    def norms(self) -> Float:
        """The squared norms of the columns of B, (n,): the diagonal of `B^T B`."""

    @property
    @abstractmethod
    def eigenvalues(self) -> Float:
        """The eigenvalues of `B^T B`, in the order of its eigenvectors V."""

    @abstractmethod
    def filtered(self, shares: Float, v: Float) -> Float:
        """`V diag(shares) V^T v` with the eigenvectors V of `B^T B`."""

    @abstractmethod
    def leading(self, weights: Float) -> tuple[Float, Float]:
        """The two leading eigenvectors of `Σ_i w_i B_i^T B_i`."""

    @property
    def rigidity(self) -> float:
        """How far B is from a linear or antilinear map, other than a phase, that leaves all measurements: 0 to 1.

        0 if its form does not tell.
        """
        return 0.0

    def twins(self, x: Float) -> Iterator[tuple[str, Float]]:
        """Other signals that B by its form cannot tell from x, with a name."""
        yield from ()

    def room(self) -> Room:
        """Where x may be, and all pixels of its transform, where B is a Fourier transform without masks."""
        raise NotImplementedError

    def lengths(self, z: Float) -> Float:
        """|z_i| of R numbers each, (m,)."""
        return np.abs(z) if self.R == 1 else np.linalg.norm(z.reshape(-1, self.R), axis=1)

    def scaled(self, power: float, v: Float) -> Float:
        """`(B^T B)^power v`."""
        values = self.eigenvalues
        return self.filtered(np.maximum(values, _LEAST * float(values.max(initial=0.0))) ** power, v)


class Room(NamedTuple):
    """A Fourier transform of this shape, of real or complex signals, times a number.

    `places` are those of x in the room, `source` says which of y each pixel is, or −1 where that is not known.
    """

    shape: tuple[int, ...]
    real: bool
    scale: float
    places: Indices
    source: Indices


class Within(Transform):
    """The columns of another transform on a support: B of the signals that are zero elsewhere."""

    def __init__(self, whole: Transform, support: Indices) -> None:
        self.whole, self.support = whole, support
        self.m, self.R, self.n, self.diagonal = whole.m, whole.R, support.size, whole.diagonal
        self.complete = whole.complete and whole.diagonal

    def expanded(self, x: Float) -> Float:
        """The signal with these values on the support."""
        out = np.zeros(self.whole.n)
        out[self.support] = x
        return out

    def _forward(self, x: Float) -> Float:
        return self.whole._forward(self.expanded(x))

    def _adjoint(self, z: Float) -> Float:
        return self.whole._adjoint(z)[self.support]

    def unit(self) -> Unit:
        """The same of the other transform with measurements of norm 1."""
        whole, norms, source = self.whole.unit()
        return Unit(Within(whole, self.support), norms, source)

    @property
    def norms(self) -> Float:
        return self.whole.norms[self.support]

    @property
    def equations(self) -> int:
        return self.whole.equations

    @property
    def eigenvalues(self) -> Float:
        """The squared norms of the columns, which they are if B^T B is diagonal."""
        return self.norms

    def filtered(self, shares: Float, v: Float) -> Float:
        return shares * v

    def leading(self, weights: Float) -> tuple[Float, Float]:
        first, second = self.whole.leading(weights)
        return first[self.support], second[self.support]


class Unit(NamedTuple):
    """A transform with measurements of norm 1, their norms before, and which of y each belongs to."""

    transform: Transform
    norms: Float
    source: Indices


class DenseTransform(Transform):
    """A stored B, (m, R, n)."""

    def __init__(self, factors: Float) -> None:
        self.factors = factors
        self.m, self.R, self.n = factors.shape
        self.B = factors.reshape(-1, self.n)
        self._eigh: tuple[Float, Float] | None = None

    def _forward(self, x: Float) -> Float:
        return self.B @ x

    def _adjoint(self, z: Float) -> Float:
        return self.B.T @ z

    def unit(self) -> Unit:
        """B without the measurements that are zero whatever x is."""
        norms = np.sqrt(np.einsum("irj,irj->i", self.factors, self.factors))
        kept = norms > 1e-12 * norms.max(initial=0.0)
        return Unit(DenseTransform(self.factors[kept] / norms[kept, None, None]), norms[kept], np.flatnonzero(kept))

    @cached_property
    def norms(self) -> Float:
        return np.einsum("ij,ij->j", self.B, self.B)

    def _eigen(self) -> tuple[Float, Float]:
        if self._eigh is None:
            values, vectors = np.linalg.eigh(self.B.T @ self.B)
            self._eigh = np.maximum(values, 0.0), vectors
        return self._eigh

    @property
    def eigenvalues(self) -> Float:
        return self._eigen()[0]

    def filtered(self, shares: Float, v: Float) -> Float:
        vectors = self._eigen()[1]
        return vectors @ (shares * (vectors.T @ v))

    def leading(self, weights: Float) -> tuple[Float, Float]:
        _, vectors = np.linalg.eigh((self.B * np.repeat(weights, self.R)[:, None]).T @ self.B)
        return vectors[:, -1], vectors[:, -min(2, self.n)]


class Jacobian:
    """`J d = 2 <z_i, (Bd)_i> w_i` of the squared lengths at x with z = Bx, times weights w (m,) if there are any."""

    def __init__(self, B: Transform, z: Float, weights: Float | None = None) -> None:
        self.B, self.z, self.shape = B, z, (B.m, B.n)
        self._twice = 2 * z if weights is None else np.repeat(2 * weights, B.R) * z

    def forward(self, d: Float) -> Float:
        """`J d`, (m,)."""
        return self.of_image(self.B.forward(d))

    def of_image(self, image: Float) -> Float:
        """`J d` of a d with the image Bd."""
        return np.einsum("ir,ir->i", self._twice.reshape(-1, self.B.R), image.reshape(-1, self.B.R))

    def adjoint(self, u: Float) -> Float:
        """`J^T u`, (n,)."""
        return self.B.adjoint(np.repeat(u, self.B.R) * self._twice)

    def normal(self, d: Float) -> Float:
        """`J^T J d`."""
        return self.adjoint(self.forward(d))

    def typical(self, rng: np.random.Generator | None = None) -> float:
        """The mean eigenvalue of `(B^T B)^{-1} J^T J`, if z is as large in all directions."""
        return float(np.vdot(self._twice, self._twice)) / (self.B.m * self.B.R)

    def least_squares(
        self, target: Float, tol: float, max_steps: int, *, damping: float = 0.0, free: Float | None = None
    ) -> Float:
        """The d that minimises `‖J d − target‖² + damping ‖Bd‖²`, to a share `tol` of its gradient.

        With `free` (n,), of zeros and ones, the coordinates with a zero stay zero.
        """
        B = self.B

        def apply(d: Float) -> Float:
            moved = self.normal(d)
            if damping:
                moved += damping * B.scaled(1.0, d)
            return moved if free is None else free * moved

        def precondition(v: Float) -> Float:
            return B.scaled(-1.0, v) if free is None else free * B.scaled(-1.0, v)

        b = self.adjoint(target)
        return krylov.conjugate_gradients(apply, b if free is None else free * b, precondition, tol, max_steps)

    def least(self, rng: np.random.Generator, without: list[Float], need: float) -> krylov.Least:
        """The least eigenvalue of `(B^T B)^{-1/2} J^T J (B^T B)^{-1/2}`, beside known null vectors of J.

        More than `need` is enough.
        """
        B = self.B

        def apply(v: Float) -> Float:
            return B.scaled(-0.5, self.normal(B.scaled(-0.5, v)))

        return krylov.least_eigenvalue(apply, B.n, rng, [B.scaled(0.5, d) for d in without], need)


def sampled_variances(J: Jacobian | JacobianAt, rng: np.random.Generator, draws: int = 24) -> tuple[Float, Float]:
    """The diagonals of `(J^T J)^{-1}` (n,) and of `J (J^T J)^{-1} J^T` (m,), from least squares of random data.

    Of so few draws a variance is known to a third. Where they differ by no more than that from each other, it is their
    mean that is known: each is drawn towards it as far as that explains their spread.
    """
    m, n = J.shape
    variances, leverage = np.zeros(n), np.zeros(m)
    for _ in range(draws):
        d = J.least_squares(rng.standard_normal(m), 1e-3, 200)
        variances += d**2 / draws
        leverage += J.forward(d) ** 2 / draws
    return _towards_mean(variances, draws), np.minimum(_towards_mean(leverage, draws), 1.0)


def _towards_mean(variances: Float, draws: int) -> Float:
    mean, spread = float(variances.mean()), float(variances.var())
    by_chance = 2 / (draws + 2) * float(np.mean(variances**2))
    share = max(0.0, 1 - by_chance / spread) if spread > 0 else 0.0
    return mean + share * (variances - mean)
