"""What AMP makes of a residual under a model of the noise: its score.

AMP never fits y itself. Each pass leaves a residual r, corrected so that it behaves like the error of predicting
measurements that were not used. The estimate's own error, of variance τ, adds to the noise:

    score.g        −d log p(y_i | prediction)/d prediction, (m,): what each measurement pulls with
    score.alpha    the mean of its derivative
    score.power    mean(g²)/α²: the variance of a measurement as the estimate sees it
    score.tau      the variance of a sound residual that the estimate itself causes, for the memory term
    score.weight   P(the measurement is sound), (m,)

and from these AMP has everything (gain = 1/variance of A's entries):

    S = X + A*(g) gain/(mα),    D = power gain/(2m),    r ← y − A(X) + min(τ, 2|z|² Σv/gain) g.

Four models are enough for every noise (`fastquad.noise.base.Noise.messages` chooses): one unknown σ, where r and S
come of one fused pass; a σ for each measurement, given or as the data suggest it; measurements of which some may be
anything; and residuals with heavy tails. Any but the first takes two passes a sweep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from fastquad.typing import Float


class Score(NamedTuple):
    """What a residual says under a model of the noise: see the module's docstring."""

    g: Float
    alpha: float
    power: float
    tau: float
    weight: Float


class Messages(ABC):
    """A model of AMP's residual; it may keep what it has learnt of one run, so each run has its own (`fresh`)."""

    #: Whether g is r times one number: then r and S come of one pass.
    linear: ClassVar[bool] = False
    #: Whether measurements are sorted into sound ones and others: a choice that evidence must pay for.
    sorts: ClassVar[bool] = False
    #: Whether the level of the noise is part of the model, so that the residual need not show that it is noise.
    told: ClassVar[bool] = False

    @abstractmethod
    def fresh(self) -> Messages:
        """One that has learnt nothing yet."""

    @abstractmethod
    def score(self, r: Float) -> Score:
        """What the residual r of a prediction says, (m,)."""

    @abstractmethod
    def mean_square(self, y: Float) -> float:
        """The mean square that y would have without noise: never below a hundredth of what it has."""

    def weights(self, r: Float) -> Float | None:
        """What least squares multiplies each equation with, given residuals r; None if all count the same."""
        return None

    def explained(self, r: Float, y: Float) -> float:
        """R² = 1 − |r|²/|y|², in the units that this noise weighs measurements with."""
        weight = self.score(r).weight
        return 1 - float(weight @ r**2) / max(float(weight @ y**2), 1e-300)

    @staticmethod
    def floor(mean_square: float, y: Float) -> float:
        """At least a hundredth of the mean square of y."""
        return max(mean_square, 0.01 * float(np.mean(y**2)))


# -- one σ ----------------------------------------------------------------------------------------------------------


@dataclass
class Linear(Messages):
    """`N(0, σ²)`: the residual's mean square holds it by itself; a σ that is given is its least value."""

    sigma: float | None = None
    linear: ClassVar[bool] = True

    def fresh(self) -> Linear:
        return self

    def score(self, r: Float) -> Score:
        square = max(float(r @ r) / r.size, 1e-300)  # zero if y is constant and A has a common mean
        power = max(square, (self.sigma or 0.0) ** 2)
        return Score(r / square, 1 / square, power, square, np.ones(r.size))

    def mean_square(self, y: Float) -> float:
        square = float(np.mean(y**2))
        return max(square - (self.sigma or 0.0) ** 2, 0.01 * square)

    def explained(self, r: Float, y: Float) -> float:
        return 1 - float(r @ r) / float(y @ y)


# -- a σ for each measurement -----------------------------------------------------------------------------------------

# The number of steps by which τ is learnt.
_STEPS = 8
# τ is at least this share of the mean square of y.
_FLOOR = 1e-6


@dataclass
class Unequal(Messages):
    """`N(0, σ_i²)` with σ_i known, (m,); `scale` is the mean square of y without noise.

    Scaling each measurement by 1/σ_i is right for least squares, and wrong for AMP, whose rows must be of one size.
    Here the estimate's own error τ adds to the noise of each,

        g_i = r_i/(τ + σ_i²),    τ = Σ w (r² − σ²)/Σ w  with  w = (τ + σ²)^−2, a few times.
    """

    sigma: Float
    scale: float = 1.0
    told: ClassVar[bool] = True

    @classmethod
    def of(cls, sigma: Float, y: Float) -> Unequal:
        """The model for data y."""
        found = cls(sigma)
        found.scale = found.mean_square(y)
        return found

    def fresh(self) -> Unequal:
        return self

    def score(self, r: Float) -> Score:
        known, square = self.sigma**2, r**2
        least = _FLOOR * self.scale
        tau = max(float(np.mean(square)), least)
        for _ in range(_STEPS):
            w = (tau + known) ** -2
            tau = max(float(w @ (square - known)) / float(w.sum()), least)
        inverse = 1 / (tau + known)
        g, alpha = r * inverse, float(inverse.mean())
        # In expectation mean(g²) is α: a small τ must not make the estimate surer than the noise allows.
        return Score(g, alpha, max(float(np.mean(g**2)), alpha) / alpha**2, tau, np.ones(r.size))

    def mean_square(self, y: Float) -> float:
        w = 1 / (float(np.median(y**2)) + self.sigma**2) ** 2
        return self.floor(float(w @ (y**2 - self.sigma**2)) / float(w.sum()), y[self.sigma <= np.median(self.sigma)])

    def weights(self, r: Float) -> Float:
        return float(self.sigma.min()) / self.sigma

    def explained(self, r: Float, y: Float) -> float:
        weight = 1 / (self.scale + self.sigma**2)
        return 1 - float(weight @ r**2) / float(weight @ y**2)


# -- some measurements may be anything --------------------------------------------------------------------------------

# The number of EM steps after each pass.
_EM_STEPS = 6
# The least share of outliers that is learnt.
_FEWEST = 0.01
# The largest share of outliers that is learnt.
_MOST = 0.4
# The least mean derivative of the score, as a share of that without outliers.
_LEAST_SLOPE = 0.3


@dataclass
class Mixture(Messages):
    """Sound measurements with noise of an unknown σ, and a share of up to 40 % that may be anything.

    A residual is `N(0, τ)` if its measurement is sound, and the measurement itself is `N(0, B²)` if it is not.
    The share ε of outliers, τ and B² are learnt from the residuals by EM:

        w_i = P(sound | r_i),   τ = Σ w r²/Σ w,   ε = mean(1 − w),   B² = Σ (1−w) y²/Σ (1−w)
        g = w r/τ,              α = mean(w/τ − w(1−w) r²/τ²)
    """

    y: Float
    share: float = 0.1
    #: (τ, B²) as learnt so far; None before the first residual.
    learnt: list[float] = field(default_factory=list)
    sorts: ClassVar[bool] = True

    @property
    def typical(self) -> float:
        """A mean square of y that outliers do not move."""
        return max((1.4826 * float(np.median(np.abs(self.y)))) ** 2, 1e-300)

    def fresh(self) -> Mixture:
        return Mixture(self.y, self.share)

    def score(self, r: Float) -> Score:
        square, data = r**2, self.y**2
        tau, broad = self.learnt or [self.typical, 25 * self.typical]
        for _ in range(_EM_STEPS):
            weight = self._sound(square, tau, broad)
            sound = float(weight.sum())
            tau = max(float(weight @ square) / max(sound, 1e-300), 1e-300)
            self.share = float(np.clip(1 - sound / r.size, _FEWEST, _MOST))
            broad = max(float((1 - weight) @ data) / max(r.size - sound, 1e-300), self.typical)
        self.learnt = [tau, broad]
        g = weight * r / tau
        slope = float(np.mean(weight / tau - weight * (1 - weight) * square / tau**2))
        alpha = max(slope, _LEAST_SLOPE * sound / (r.size * tau))
        return Score(g, alpha, float(np.mean(g**2)) / alpha**2, tau, weight)

    def _sound(self, square: Float, tau: float, broad: float) -> Float:
        """P(sound) of each measurement."""
        odds = np.log(self.share / (1 - self.share)) + 0.5 * np.log(tau / broad)
        odds = odds + 0.5 * square / tau - 0.5 * self.y**2 / broad
        return 1 / (1 + np.exp(np.clip(odds, -700, 700)))

    def mean_square(self, y: Float) -> float:
        return self.typical


# -- heavy tails ------------------------------------------------------------------------------------------------------


@dataclass
class Heavy(Messages):
    """Student's t with ν degrees of freedom and a scale s that is learnt, which the estimate's own error widens.

    g = (ν+1) r/(ν s² + r²), with s² by EM: s² = mean((ν+1) r²/(ν + r²/s²)).
    """

    dof: float
    told: ClassVar[bool] = False

    def fresh(self) -> Heavy:
        return self

    def score(self, r: Float) -> Score:
        square = r**2
        s2 = max((1.4826 * float(np.median(np.abs(r)))) ** 2, 1e-300)
        for _ in range(_EM_STEPS):
            s2 = max(float(np.mean((self.dof + 1) * square / (self.dof + square / s2))), 1e-300)
        down = (self.dof + 1) / (self.dof + square / s2)
        g = down * r / s2
        slope = float(np.mean((self.dof + 1) * (self.dof - square / s2) / (self.dof + square / s2) ** 2)) / s2
        alpha = max(slope, _LEAST_SLOPE * float(down.mean()) / s2)
        return Score(g, alpha, float(np.mean(g**2)) / alpha**2, s2, np.ones(r.size))

    def mean_square(self, y: Float) -> float:
        return max((1.4826 * float(np.median(np.abs(y)))) ** 2, 1e-300)

    def explained(self, r: Float, y: Float) -> float:
        down = self.dof / (self.dof + r**2 / max(self.score(r).tau, 1e-300))
        return 1 - float(down @ r**2) / max(float(down @ y**2), 1e-300)
