"""The data of one signal, as `solve` hands it to a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fastquad.measurements.contractions import Products
from fastquad.noise import Noise
from fastquad.noise.base import LEAST
from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.typing import Float, Indices


def _nothing(request: Any) -> float:
    """The price if none is known."""
    return 0.0


@dataclass(frozen=True)
class Problem:
    """The data of one signal, as `solve` hands it to a method: everything is checked, and y is not all zero."""

    m: int
    n: int
    y: Float
    dtype: np.dtype
    prior: Prior | None
    x0: Float | None
    norm: float | None
    #: What is known of the noise of y: see `fastquad.noise`.
    noise: Noise
    tol: float
    #: The source of everything random, which most solves do without: see `rng`.
    random: Callable[[], np.random.Generator]
    #: The budget for the whole solve, in bytes: see `fastquad.system.memory`.
    memory: int
    #: A snapshot of this method to resume from.
    resume: dict[str, Any] | None = None
    #: The user's budget of passes. With one, a method may search on; without, it ends by itself.
    max_passes: float | None = None
    #: Coordinates with known values, and these values; they distinguish x from −x.
    fixed: Mapping[int, float] = field(default_factory=dict)
    #: How many coordinates come first that are multiplied with the others only; 0 if x is not of two vectors.
    bilinear: int = 0
    #: Whether `A_i = B_i^T B_i` with a fast transform B, by which x is found and judged without a matrix.
    by_transform: bool = False
    #: Whether x is found and judged by the verbs of the Jacobian; and nothing is known of x but single values.
    by_verbs: bool = False
    #: What `Gram` is answered with: a "dense" matrix, a "sparse" one, or None if it should not be asked.
    gram: str | None = "dense"
    #: Whether x is found and judged by `measure`, `along` and `gradient` alone: see `Measurements.matrix_free`.
    matrix_free: bool = False
    #: Whether A answers nothing else.
    only_verbs: bool = False
    #: Groups of coordinates that are zero together, such as Re and Im of a complex number; None if there are none.
    groups: Groups | None = None
    #: What the measurements cannot determine of x: its "sign"; or, for a complex x whose Re and Im are the coordinates
    #: 2j and 2j + 1, its "phase" or "phase and conjugation".
    gauge: str = "sign"
    #: What a request costs, in seconds of the model of `fastquad.engine.cost`.
    price: Callable[[Any], float] = _nothing
    #: Whether x may also be anywhere, and reversed: images whose transform is measured without masks. See `symmetry` of
    #: `fastquad.numerics.transform`.
    movable: bool = False

    @property
    def phi(self) -> float:
        """‖x‖: as given, or estimated by `(mean y²)^(1/4)`."""
        return self.norm if self.norm is not None else float(np.mean(self.y**2)) ** 0.25

    @cached_property
    def rng(self) -> np.random.Generator:
        """The source of everything random."""
        return self.random()

    @cached_property
    def pass_price(self) -> float:
        """What a pass costs, in those seconds."""
        return self.price(Products(np.ones(self.n)))

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of the noise as one number: the root mean square, 0 if it is not known."""
        return self.noise.level(self.y)

    def deviations(self, r: Float) -> Float:
        """The standard deviation that the noise gives each measurement at a fit that leaves r = z − y, (m,).

        None is below a share of the largest: one exact measurement must not be the only one that counts.
        """
        sigma = self.noise.deviations(self.y, self.y + r)
        return np.maximum(sigma, LEAST * float(sigma.max()))

    @property
    def noiseless(self) -> bool:
        """Whether it is known that there is no noise."""
        return self.noise.exact

    @property
    def outliers(self) -> bool:
        """Whether some of the measurements may be arbitrarily wrong."""
        return self.noise.robust

    @property
    def turning(self) -> bool:
        """Whether x is a complex signal, known up to a phase."""
        return self.gauge != "sign"

    @property
    def rank_two(self) -> bool:
        """Whether real matrices measure a complex x: they see Re xx^*, a matrix of rank two."""
        alone = self.groups is None or int(self.groups.sizes.max(initial=0)) <= 2
        return self.gauge == "phase and conjugation" and alone

    @property
    def entries(self) -> int:
        """The number of entries of x: n, or n/2 complex ones."""
        return self.n // 2 if self.turning else self.n

    @property
    def unknowns(self) -> int:
        """The number of unknowns: the real numbers in x, less what no measurement can determine."""
        return self.n - self.turning

    @property
    def known(self) -> Indices:
        """The coordinates whose values are known, in ascending order."""
        return np.array(sorted(self.fixed), dtype=np.intp)

    def completed(self, x: Float) -> Float:
        """x with its known values put in, after choosing the sign that agrees with them better."""
        if not self.fixed:
            return x
        known = self.known
        values = np.array([self.fixed[int(j)] for j in known])
        x = -x if float(values @ x[known]) < 0 else x.copy()
        x[known] = values
        return x

    @property
    def support(self) -> Indices | None:
        """The coordinates that may be nonzero, if the prior knows them, in ascending order."""
        return None if getattr(self.prior, "partial", False) else getattr(self.prior, "support", None)

    @property
    def k(self) -> int | None:
        """How many coordinates are known to be nonzero."""
        return self.prior.k if isinstance(self.prior, Sparse) else None

    def admits(self, x: Float) -> bool:
        """Whether x or −x is a signal as the prior says, to rounding."""
        return self.prior is None or self.prior.admits(x) or self.prior.admits(-x)
