"""What a model of the noise has to say: the verbs that every method asks, and nothing else.

With `z_i = x^* A_i x` the signal of a measurement and y_i what was measured, a model is the likelihood p(y_i | z_i).
Its verbs, all of shape (m,) but for the last three:

    log_likelihood(y, z)        log p(y_i | z_i)
    score(y, z)                 its derivative by z_i
    weight(y, z)                the information that y_i has on z_i, −E ∂²log p/∂z²: 1/σ_i² for Gaussian noise
    downweight(y, z)            what steps multiply that with, to be safe far from the optimum: near 0 for an outlier
    soundness(y, z)             P(the measurement is no outlier): 1 but for models that allow for some
    learn(y, z, freedom)        the model with its parameters learnt, at a fit that took so many degrees of freedom
    explains(y, z, freedom)     the p-value of what a fit leaves
    rows(some)                  the model of some of the measurements

A method that has x in some valley goes to the bottom of the likelihood by weighted least squares: with the weights
`w = weight·downweight` at the current z, to the values `z + score/w`, again and again. If that stands still,
`Jᵀ score = 0`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import numpy as np

from fastquad.noise.messages import Messages, Unequal
from fastquad.typing import Float, Indices

#: The least standard deviation, as a share of the largest: an exact measurement must not be the only one that counts.
LEAST = 1e-12


class Noise(ABC):
    """A model of the noise: a frozen dataclass of numbers, or of arrays with one number for each measurement.

    `log_likelihood`, `score` and `weight` are enough; the other verbs follow from them, and a model may say them
    better. `fastquad.testing.check_noise` compares them with each other. See the page on noise models of your own.

    Examples
    --------
    >>> import fastquad as fq
    >>> noise = fq.noise.Poisson()
    >>> noise.weight([4.0, 9.0], [5.0, 10.0])
    array([0.2, 0.1])
    """

    # -- the verbs ----------------------------------------------------------------------------------------------

    @abstractmethod
    def log_likelihood(self, y: Float, z: Float) -> Float:
        """log p(y_i | z_i), (m,)."""

    @abstractmethod
    def score(self, y: Float, z: Float) -> Float:
        """The derivative of the log likelihood by z_i, (m,)."""

    @abstractmethod
    def weight(self, y: Float, z: Float) -> Float:
        """The expected information −E ∂²log p/∂z_i², (m,), positive."""

    def downweight(self, y: Float, z: Float) -> Float:
        """What steps multiply the information with, (m,), positive: near 0 for a measurement that is likely an outlier.

        The optimum does not depend on it. A step for one measurement alone, score/(weight·downweight), should not lead
        beyond the most likely z.
        """
        return np.ones(np.shape(y))

    def soundness(self, y: Float, z: Float) -> Float:
        """P(the measurement is sound), (m,)."""
        return np.ones(np.shape(y))

    def learn(self, y: Float, z: Float, freedom: float) -> Self:
        """The model with what was not given learnt at z, a fit that took `freedom` degrees of freedom."""
        return self

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        """The probability that this noise leaves as much as a fit z with `freedom` degrees of freedom leaves.

        Here `Σ score²/weight` is compared with χ² of m − freedom degrees. 1 if the level is not known.
        """
        left = float(np.sum(self.score(y, z) ** 2 / self.weight(y, z)))
        return chance(left, np.size(y) - freedom, 2.0 * np.size(y))

    def rows(self, some: Indices) -> Self:
        """The model of some of the measurements."""
        return self.each(lambda values: values[some])

    # -- what is known beforehand -------------------------------------------------------------------------------

    @property
    def given(self) -> bool:
        """Whether its level is known before the solve."""
        return True

    @property
    def exact(self) -> bool:
        """Whether it is known that there is no noise."""
        return False

    @property
    def unequal(self) -> bool:
        """Whether measurements differ in their noise, as far as is known beforehand."""
        return self.given

    @property
    def reweighs(self) -> bool:
        """Whether weights depend on the fit, so that they must be computed again on the way to the optimum."""
        return True

    @property
    def robust(self) -> bool:
        """Whether some measurements may be anything."""
        return False

    @property
    def sound(self) -> Noise:
        """The noise of the measurements that are not outliers."""
        return self

    def with_level(self, sigma: float | None, share: float | None = None) -> Self:
        """The model with what a method has learnt: the standard deviation, and the share of outliers."""
        return self

    def with_outliers(self) -> Noise:
        """The same noise of measurements of which some may be anything."""
        from fastquad.noise.outliers import Outliers

        return Outliers(of=self)

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        """The standard deviation of each measurement, (m,), at a fit z, or as y suggests; 0 if it is not known."""
        if not self.given:
            return np.zeros(np.shape(y))
        return 1 / np.sqrt(self.weight(y, y if z is None else z))

    def level(self, y: Float, z: Float | None = None) -> float:
        """The standard deviation as one number: the root mean square; 0 if it is not known."""
        return float(np.sqrt(np.mean(self.deviations(y, z) ** 2)))

    def messages(self, y: Float, centred: Float) -> Messages:
        """What AMP makes of residuals; `centred` is y without a mean that A has in common."""
        return Unequal.of(self.deviations(y), centred)

    # -- measurements that were made again, and rows in other units ------------------------------------------------

    @property
    def each_level(self) -> Float | None:
        """The standard deviation of each measurement, (m,), by which rows may be divided beforehand; or None."""
        return None

    def pooled(self, Y: Float, of: Indices, by: Float) -> tuple[Float, Float, Noise] | None:
        """The data with equal rows merged: their means (b, groups), the share of each measurement in its mean
        (m,), and the noise of the means. None if they must stay apart.

        `Y` is (b, m), `of` (m,) are the groups, and row i is `by[i]` times the one that its group is said in.
        """
        return None

    @property
    def repeats(self) -> tuple[float, int]:
        """What merged measurements have shown: the square of their spread in units of σ, and its degrees of freedom."""
        return 0.0, 0

    @property
    def disturbed(self) -> bool:
        """Whether it is known that there is noise, whatever fits the means of the measurements."""
        return False

    # -- the same noise, said of other numbers ------------------------------------------------------------------

    def check(self, y: Float) -> None:  # noqa: B027 -- most models leave any data
        """Refuse data that this noise cannot have left, with the reason: raise a ValueError that names `y`."""

    @property
    def bare(self) -> Noise:
        """The noise as the user said it, of the user's numbers."""
        return self

    @property
    def background(self) -> Float | float:
        """What y is on the average if the signal is zero."""
        return 0.0

    @property
    def positive(self) -> bool:
        """Whether signals below zero are impossible: x^* A_i x must then never be negative."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether −y has the same noise about −z."""
        return False

    def shifted(self, y: Float | float, z: Float | float) -> Noise:
        """The noise of y − (y that is given) about z − (z that is given)."""
        from fastquad.noise.views import Shifted

        return Shifted(self, y, z)

    def scaled(self, by: Float) -> Noise:
        """The noise of by·y about by·z, for positive factors (m,)."""
        from fastquad.noise.views import Scaled

        return Scaled(self, by)

    def repeated(self, parts: int) -> Self:
        """The noise of so many real measurements in the place of each; for the parts of complex ones."""
        return self if parts == 1 else self.each(lambda values: np.repeat(values, parts))

    def extended(self) -> Self:
        """The noise of one measurement more, which is as good as the best."""
        return self.each(lambda values: np.append(values, values.min()))

    def each(self, change: Any) -> Self:
        """The model with its arrays changed: those fields that have one number for each measurement."""
        changed = {name: change(value) for name, value in self._fields() if np.ndim(value) == 1}
        changed |= {name: value.each(change) for name, value in self._fields() if isinstance(value, Noise)}
        return replace(self, **changed) if changed else self  # type: ignore[type-var]

    def fitted(self, m: int) -> Self:
        """The same, after a check that its arrays have the shape (m,)."""
        for name, value in self._fields():
            if isinstance(value, Noise):
                value.fitted(m)
            elif np.ndim(value) and np.shape(value) != (m,):
                raise ValueError(f"`{name}` of `noise` must be a number or have shape ({m},), got {np.shape(value)}.")
        return self

    # -- as data ------------------------------------------------------------------------------------------------

    def _fields(self) -> list[tuple[str, Any]]:
        if not is_dataclass(self):
            raise TypeError(
                f"`noise` must be a frozen dataclass, so that it can be saved; {type(self).__name__} is not."
            )
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data, which JSON takes: its name and its parameters."""

        def plain(value: Any) -> Any:
            return value.to_dict() if isinstance(value, Noise) else value.tolist() if np.ndim(value) else value

        return {"model": type(self).__name__} | {name: plain(value) for name, value in self._fields()}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in self._fields() if value is not None)
        return f"{type(self).__name__}({given})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(mine, others) if np.ndim(mine) else mine == others
            for (_, mine), (_, others) in zip(self._fields(), other._fields(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]


def parameter(noise: Noise, name: str, *, least: float = 0.0, above: bool = False, optional: bool = False) -> None:
    """Check a parameter of a model, and make it a float or a read-only array of doubles; None if it is optional."""
    value = getattr(noise, name)
    if value is None and optional:
        return
    what = f"a number {'above' if above else 'of at least'} {least:g}, or an array with one for each measurement"
    if isinstance(value, (bool, np.bool_, str)) or value is None:
        raise TypeError(f"`{name}` must be {what}, got {value!r}.")
    values = np.asarray(value)
    if values.ndim > 1 or values.dtype.kind not in "iuf" or not values.size:
        raise TypeError(f"`{name}` must be {what}, got {value!r}.")
    if not np.isfinite(values).all() or values.min() < least or (above and values.min() == least):
        raise ValueError(f"`{name}` must be {what}, got {values.min()!r}.")
    if values.ndim == 0:
        object.__setattr__(noise, name, float(values))
        return
    values = values.astype(np.float64)
    values.flags.writeable = False
    object.__setattr__(noise, name, values)


def _shown(value: Any) -> str:
    """A parameter in a few characters."""
    return f"<{value.size} numbers, {value.min():.3g} to {value.max():.3g}>" if np.ndim(value) else f"{value!r}"


def real(values: Any) -> Float:
    """Numbers as an array of doubles."""
    return np.asarray(values, dtype=np.float64)


def chance(left: float, mean: float, variance: float) -> float:
    """The probability of at least `left`, by the gamma distribution of this mean and variance (2·mean is χ²)."""
    from scipy.special import gammaincc

    if mean <= 0:
        return 1.0
    scale = max(variance, 1e-300) / mean
    return float(gammaincc(mean / scale, max(left, 0.0) / scale)) if math.isfinite(left) else 0.0
