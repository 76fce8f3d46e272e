"""Noise with heavy tails: Student's t, a Gaussian whose variance is itself drawn for each measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastquad.noise.base import Noise, chance, parameter, real
from fastquad.noise.messages import Heavy, Messages
from fastquad.typing import Float

# The number of EM steps for the scale: it converges at a rate of about 2/(ν + 3).
_STEPS = 30


@dataclass(frozen=True, eq=False, repr=False)
class Student(Noise):
    """`y_i = z_i + σ_i t_i` with t_i of Student's t distribution.

    Parameters
    ----------
    dof : float
        The degrees of freedom ν: 1 is Cauchy, 4 has the tails of many instruments, 30 is nearly Gaussian.
    sigma : float or array of shape (m,), optional
        The scale, in the units of y; the standard deviation is σ √(ν/(ν − 2)) for ν > 2. Default: it is estimated.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=150, n=30, k=5, rng=0)
    >>> y = problem.y + 0.02 * np.random.default_rng(0).standard_t(2, 150)
    >>> solution = fq.solve(problem.A, y, noise=fq.noise.Student(2))
    >>> bool(fq.distance(solution.x, problem.x) < 0.05)
    True
    """

    dof: float
    sigma: float | Float | None = None

    def __post_init__(self) -> None:
        parameter(self, "dof", above=True)
        if np.ndim(self.dof):
            raise TypeError(f"`dof` must be a number above 0, got an array of shape {np.shape(self.dof)}.")
        parameter(self, "sigma", above=True, optional=True)

    def _scale(self) -> Float | float:
        return 1.0 if self.sigma is None else self.sigma

    def log_likelihood(self, y: Float, z: Float) -> Float:
        nu, t = self.dof, (real(y) - z) / self._scale()
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        return constant - np.log(self._scale()) - (nu + 1) / 2 * np.log1p(t**2 / nu)

    def score(self, y: Float, z: Float) -> Float:
        t = (real(y) - z) / self._scale()
        return (self.dof + 1) * t / (self.dof + t**2) / self._scale()

    def weight(self, y: Float, z: Float) -> Float:
        information = (self.dof + 1) / (self.dof + 3) / np.square(self._scale())
        return np.broadcast_to(information, np.shape(y))

    def downweight(self, y: Float, z: Float) -> Float:
        t = (real(y) - z) / self._scale()
        return (self.dof + 3) / (self.dof + t**2)

    def learn(self, y: Float, z: Float, freedom: float) -> Student:
        if self.sigma is not None:
            return self
        square = np.square(real(y) - z)
        # A fit makes residuals smaller: those of a Gaussian by the share of the freedom that it took.
        spare = max(1.0, square.size - freedom) / square.size
        s2 = max((1.4826 * float(np.median(np.sqrt(square)))) ** 2, 1e-300)
        for _ in range(_STEPS):
            s2 = max(float(np.mean((self.dof + 1) * square / (self.dof + square / s2))), 1e-300)
        return replace(self, sigma=math.sqrt(s2 / spare))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        """By the logarithm ln(1 + t²/ν), which has moments even if t has none."""
        from scipy.special import polygamma, psi

        if self.sigma is None:
            return 1.0
        nu, t = self.dof, (real(y) - z) / self.sigma
        # 1/(1 + t²/ν) is Beta(ν/2, ½) distributed.
        mean = float(psi((nu + 1) / 2) - psi(nu / 2))
        variance = float(polygamma(1, nu / 2) - polygamma(1, (nu + 1) / 2))
        degrees = np.size(y) - freedom
        return chance(float(np.log1p(t**2 / nu).sum()), mean * degrees, variance * degrees)

    @property
    def given(self) -> bool:
        return self.sigma is not None

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def unequal(self) -> bool:
        return isinstance(self.sigma, np.ndarray)

    def with_level(self, sigma: float | None, share: float | None = None) -> Student:
        if self.given or not sigma:
            return self
        return replace(self, sigma=sigma * math.sqrt((self.dof - 2) / self.dof) if self.dof > 2 else sigma)

    def messages(self, y: Float, centred: Float) -> Messages:
        return Heavy(self.dof)

    def shifted(self, y: Float | float, z: Float | float) -> Noise:
        return self if np.array_equal(y, z) else super().shifted(y, z)

    def scaled(self, by: Float) -> Noise:
        return super().scaled(by) if self.sigma is None else replace(self, sigma=by * self.sigma)
