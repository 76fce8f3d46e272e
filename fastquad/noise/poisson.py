"""Counts: the noise of photons, of decays, of shots on a quantum computer, with what a detector adds.

`y = gain·N + read·ε` with N ~ Poisson((z + background)/gain) and ε ~ N(0, 1). Without read noise y/gain is a Poisson
count. With it, `k = (y + read²/gain)/gain` has mean and variance `λ = (z + background)/gain + read²/gain²`, and is
taken for a Poisson count of real value (Snyder's shifted Poisson):

    log p = k log λ − λ − ln Γ(k + 1),    score = (k/λ − 1)/gain = (y − z − background)/v,    weight = 1/v,

with the variance `v = gain (z + background) + read²`. The score and the information are those of a Gaussian of that
variance, at few counts as well: only the weights change with z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fastquad.noise.base import Noise, chance, parameter, real
from fastquad.typing import Float, Indices

# The least λ, in counts: it keeps a dark measurement from having all the weight.
_LEAST = 1e-9
# Counts beyond which the deviance is that of a χ² of one degree, to a hundredth; and how many are summed up to there.
_MANY, _SUMMED = 60.0, 200


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(Noise):
    """`y_i = gain·N_i + read·ε_i` with N_i ~ Poisson((z_i + background)/gain) and ε_i ~ N(0, 1).

    Parameters
    ----------
    gain : float or array of shape (m,)
        What one count adds to y, in the units of y.
    background : float or array of shape (m,)
        The mean of y without a signal (dark counts, stray light), in the units of y. It is subtracted.
    read : float or array of shape (m,)
        The standard deviation of the noise that reading the detector adds, in the units of y.

    Notes
    -----
    x^* A_i x must not be negative, so matrices that are not positive semidefinite are refused, and so is complex y.
    Without read noise y < 0 is refused as well. If a background was subtracted before, add it to y again and give
    it as `background`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> a, x = rng.standard_normal((200, 20)), 3 * rng.standard_normal(20)
    >>> y = rng.poisson((a @ x) ** 2)
    >>> solution = fq.solve(fq.RankOneTensor(a), y, noise=fq.noise.Poisson())
    >>> solution.success, bool(fq.distance(solution.x, x) < 0.05)
    (True, True)
    """

    gain: float | Float = 1.0
    background: float | Float = 0.0
    read: float | Float = 0.0

    def __post_init__(self) -> None:
        parameter(self, "gain", above=True)
        parameter(self, "background")
        parameter(self, "read")

    def _counts(self, y: Float, z: Float) -> tuple[Float, Float]:
        """k, at least 0, and λ."""
        more = np.square(self.read) / self.gain
        k = np.maximum((real(y) + more) / self.gain, 0.0)
        return k, np.maximum((real(z) + self.background + more) / self.gain, _LEAST)

    def log_likelihood(self, y: Float, z: Float) -> Float:
        from scipy.special import gammaln, xlogy

        k, rate = self._counts(y, z)
        return xlogy(k, rate) - rate - gammaln(k + 1) - np.log(self.gain)

    def score(self, y: Float, z: Float) -> Float:
        k, rate = self._counts(y, z)
        return (k / rate - 1) / self.gain

    def weight(self, y: Float, z: Float) -> Float:
        return 1 / (np.square(self.gain) * self._counts(y, z)[1])

    def downweight(self, y: Float, z: Float) -> Float:
        """½ (1 + √(k/λ)): a step in the amplitude √z then ends at the most likely one, √k, and not beyond."""
        k, rate = self._counts(y, z)
        return 0.5 * (1 + np.sqrt(k / rate))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        """By the deviance, whose mean and variance at few counts are summed up from the distribution itself."""
        from scipy.special import xlogy

        k, rate = self._counts(y, z)
        deviance = 2 * (xlogy(k, k / rate) - (k - rate))
        mean, variance = (values(rate) for values in _moments())
        spare = max(k.size - freedom, 0.0) / k.size
        return chance(float(deviance.sum()), float(mean.sum()) * spare, float(variance.sum()) * spare)

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        if z is not None:
            return 1 / np.sqrt(self.weight(y, z))
        # y itself is a poor guess of its variance if few are counted: one count more.
        return np.sqrt(self.gain * np.maximum(real(y) + self.gain, self.gain) + np.square(self.read))

    def check(self, y: Float) -> None:
        y = real(y)
        if not np.any(self.read) and y.min(initial=0.0) < 0:
            raise ValueError(
                f"`y` must not be negative with Poisson noise, got {y.min()}: counts are not. If a background was "
                "subtracted, add it again and give Poisson(background=...); or give the read noise of the detector, "
                "read=..."
            )

    def pooled(self, Y: Float, of: Indices, by: Float) -> tuple[Float, Float, Noise] | None:
        """The mean of c counts is a count of gain/c."""
        if not (by == 1).all() or any(np.ndim(each) for each in (self.gain, self.background, self.read)):
            return None
        count = np.bincount(of).astype(np.float64)
        share = 1 / count[of]
        means = np.array([np.bincount(of, share * y) for y in Y])
        return means, share, Poisson(self.gain / count, self.background, self.read / np.sqrt(count))

    @property
    def positive(self) -> bool:
        return True

    def repeated(self, parts: int) -> Poisson:
        if parts > 1:
            raise ValueError("`y` must be real with Poisson noise, got complex numbers: counts are real.")
        return self


@cache
def _moments():  # type: ignore[no-untyped-def]
    """The mean and the variance of the deviance of a Poisson count of rate λ, as functions of λ."""
    from scipy.special import gammaln, xlogy

    rates = np.geomspace(1e-6, _MANY, 240)
    k = np.arange(_SUMMED)[:, None]
    p = np.exp(xlogy(k, rates) - rates - gammaln(k + 1))
    deviance = 2 * (xlogy(k, k / rates) - (k - rates))
    mean = np.sum(p * deviance, axis=0)
    variance = np.sum(p * (deviance - mean) ** 2, axis=0)

    def interpolated(values: Float, beyond: float):  # type: ignore[no-untyped-def]
        return lambda rate: np.where(rate < _MANY, np.interp(np.log(rate), np.log(rates), values), beyond)

    return interpolated(mean, 1.0), interpolated(variance, 2.0)
