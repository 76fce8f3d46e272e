"""One signal's data, as the front door hands it to a solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.typing import Float, Indices


@dataclass(frozen=True)
class Problem:
    """One signal's data, as the front door hands it to a solver: everything is checked, y is not all zero."""

    m: int
    n: int
    y: Float
    dtype: np.dtype
    prior: Prior | None
    x0: Float | None
    norm: float | None
    #: The standard deviation of the noise: one for all measurements, or one each.
    noise: float | Float | None
    #: Whether some of y may be anything.
    outliers: bool
    tol: float
    rng: np.random.Generator
    #: The budget for the whole solve, in bytes: see `fastquad.system.memory`.
    memory: int
    #: A snapshot to go on from, of those that this method gives.
    resume: dict[str, Any] | None = None
    #: The budget of passes that the user gave: a method may search on where it is there, and ends by itself without.
    max_passes: float | None = None
    #: Coordinates whose values are known, and these: then −x is told from x.
    fixed: Mapping[int, float] = field(default_factory=dict)
    #: How many coordinates come first that are multiplied with the others only; 0 where x is not of two vectors.
    bilinear: int = 0
    #: Coordinates that are zero together, such as Re and Im of a complex number; None where each is by itself.
    groups: Groups | None = None
    #: Up to what x is known: its "sign"; or, for a complex x whose Re and Im are the coordinates 2j and 2j + 1, its
    #: "phase", or "phase and conjugation".
    gauge: str = "sign"

    @property
    def phi(self) -> float:
        """‖x‖: as given, or estimated by `(mean y²)^(1/4)`."""
        return self.norm if self.norm is not None else float(np.mean(self.y**2)) ** 0.25

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise as one number: root mean square, 0 where none is known."""
        return 0.0 if self.noise is None else float(np.sqrt(np.mean(np.square(self.noise))))

    @property
    def noiseless(self) -> bool:
        """Whether it is known that there is no noise."""
        return self.noise is not None and self.sigma == 0

    @property
    def turning(self) -> bool:
        """Whether x is a complex signal, known up to a phase."""
        return self.gauge != "sign"

    @property
    def entries(self) -> int:
        """How many entries x has: n, or half as many complex ones."""
        return self.n // 2 if self.turning else self.n

    @property
    def unknowns(self) -> int:
        """How many numbers x has, less those that no measurement can tell."""
        return self.n - self.turning

    @property
    def known(self) -> Indices:
        """The coordinates whose values are known, in ascending order."""
        return np.array(sorted(self.fixed), dtype=np.intp)

    def completed(self, x: Float) -> Float:
        """x with the values that are known put in, with the sign for which it agrees with them better."""
        if not self.fixed:
            return x
        known = self.known
        values = np.array([self.fixed[int(j)] for j in known])
        x = -x if float(values @ x[known]) < 0 else x.copy()
        x[known] = values
        return x

    @property
    def support(self) -> Indices | None:
        """The coordinates outside of which x is known to be zero, in ascending order."""
        return None if getattr(self.prior, "partial", False) else getattr(self.prior, "support", None)

    @property
    def k(self) -> int | None:
        """How many coordinates are known to be nonzero."""
        return self.prior.k if isinstance(self.prior, Sparse) else None
