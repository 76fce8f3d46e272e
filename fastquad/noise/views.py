"""The noise of numbers that are the user's times a factor, or less a constant: as solvers see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fastquad.noise.base import Noise, real
from fastquad.noise.messages import Messages
from fastquad.typing import Float


@dataclass(frozen=True, eq=False, repr=False)
class _View(Noise):
    """A noise whose verbs are those of another one, at other numbers."""

    noise: Noise

    def _there(self, y: Float, z: Float) -> tuple[Float, Float]:
        """The user's y and z."""
        raise NotImplementedError

    @property
    def _factor(self) -> Float | float:
        """What a difference of the user's numbers is multiplied with here."""
        return 1.0

    def log_likelihood(self, y: Float, z: Float) -> Float:
        return self.noise.log_likelihood(*self._there(y, z)) - np.log(self._factor)

    def score(self, y: Float, z: Float) -> Float:
        return self.noise.score(*self._there(y, z)) / self._factor

    def weight(self, y: Float, z: Float) -> Float:
        return self.noise.weight(*self._there(y, z)) / np.square(self._factor)

    def downweight(self, y: Float, z: Float) -> Float:
        return self.noise.downweight(*self._there(y, z))

    def soundness(self, y: Float, z: Float) -> Float:
        return self.noise.soundness(*self._there(y, z))

    def learn(self, y: Float, z: Float, freedom: float) -> _View:
        return replace(self, noise=self.noise.learn(*self._there(y, z), freedom))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        return self.noise.explains(*self._there(y, z), freedom)

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        there = self._there(y, y if z is None else z)
        return self.noise.deviations(there[0], None if z is None else there[1]) * self._factor

    def messages(self, y: Float, centred: Float) -> Messages:
        return self.noise.messages(y, centred) if not self.given else super().messages(y, centred)

    @property
    def given(self) -> bool:
        return self.noise.given

    @property
    def exact(self) -> bool:
        return self.noise.exact

    @property
    def unequal(self) -> bool:
        return self.noise.unequal

    @property
    def bare(self) -> Noise:
        return self.noise.bare

    @property
    def sound(self) -> Noise:
        return self if self.noise.sound is self.noise else replace(self, noise=self.noise.sound)

    @property
    def reweighs(self) -> bool:
        return self.noise.reweighs

    @property
    def robust(self) -> bool:
        return self.noise.robust

    @property
    def positive(self) -> bool:
        return self.noise.positive


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(_View):
    """The noise of y − `y` about z − `z`."""

    y: Float | float
    z: Float | float

    def _there(self, y: Float, z: Float) -> tuple[Float, Float]:
        return real(y) + self.y, real(z) + self.z

    def check(self, y: Float) -> None:
        self.noise.check(real(y) + self.y)

    @property
    def background(self) -> Float | float:
        return self.noise.background + self.z - self.y


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(_View):
    """The noise of `by`·y about `by`·z."""

    by: Float

    @property
    def _factor(self) -> Float | float:
        return self.by

    @property
    def unequal(self) -> bool:
        return True

    def _there(self, y: Float, z: Float) -> tuple[Float, Float]:
        return real(y) / self.by, real(z) / self.by

    def check(self, y: Float) -> None:
        self.noise.check(real(y) / self.by)

    @property
    def background(self) -> Float | float:
        return self.by * self.noise.background
