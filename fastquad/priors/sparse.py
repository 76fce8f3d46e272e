"""Few coordinates of the signal are nonzero, and whatever else is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fastquad import arguments
from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Denoiser, Prior, Seen, Start
from fastquad.typing import Float, Indices, Number

# A value below this share of the largest is taken for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Sparse(Prior):
    """Few coordinates of the signal are nonzero.

    You need not know how many: most methods learn it. Whatever else you know reduces the measurements needed, and
    can be combined, for example groups without negative values.

    Parameters
    ----------
    k : int, optional
        How many are nonzero at most. SPF and SGN need it. For other methods it rules out signals with more.
    support : list of int, optional
        The places of the nonzeros: the signal is zero elsewhere. Methods that cannot use this refuse it.
    partial : bool
        Whether `support` is only a part of the places. The signal is nonzero there, and may be nonzero elsewhere.
    nonnegative : bool
        Whether no coordinate is negative, as for an intensity or a concentration. Then the sign of x is known.
    groups : list of labels, or list of lists of int, optional
        Coordinates that are zero together: a label for each coordinate, or a list of the coordinates of each group.
        A coordinate in no group is a group of its own.
    basis : array of shape (n, p), or str, optional
        x = D z, and all other arguments describe z. D may be any matrix, with linearly independent columns or not;
        "dct" and, with PyWavelets, the names of wavelets ("haar", "db4") are the orthonormal ones of length n, and for
        real images behind the masks of a `FourierTensor` those of their shape. For complex signals D may be complex.
    fixed : dict of int to float, optional
        Coordinates with known values. A value that is not zero determines the sign of x. The default method and LM
        use it. Other methods refuse it.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=80, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, prior=fq.Sparse(k=3), method="spf")
    >>> fq.distance(solution.x, problem.x) < 1e-6
    True

    Forty nonzeros from 75 measurements, because none is negative; the sign is right, too:

    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros(100)
    >>> x[:40] = np.abs(rng.standard_normal(40))
    >>> A = rng.standard_normal((75, 100, 100))
    >>> solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(nonnegative=True))
    >>> fq.distance(solution.x, x, signed=True) < 1e-9
    True
    """

    kind: ClassVar[str] = "sparse"
    max_sweeps: ClassVar[int] = 200

    k: int | None = None
    support: Any = None
    partial: bool = False
    nonnegative: bool = False
    groups: Any = None
    basis: Any = None
    fixed: Any = None

    def __post_init__(self) -> None:
        if self.k is not None:
            arguments.count(self.k, "k")
        if self.support is not None:
            object.__setattr__(self, "support", arguments.indices(self.support, "support"))
        for name in ("partial", "nonnegative"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(f"`{name}` must be True or False, got {getattr(self, name)!r}.")
        if self.partial and self.support is None:
            raise ValueError("`support` must be given if `partial` is True: the coordinates that are nonzero.")
        if self.groups is not None:
            object.__setattr__(self, "groups", _labels(self.groups))
        if self.basis is not None and not isinstance(self.basis, str):
            object.__setattr__(self, "basis", _matrix(self.basis))
        if self.fixed is not None:
            object.__setattr__(self, "fixed", _fixed(self.fixed))
        self._refuse_combinations()

    def _refuse_combinations(self) -> None:
        if self.fixed is not None and any(value < 0 for value in self.fixed.values()) and self.nonnegative:
            raise ValueError("`fixed` must not be negative if `nonnegative` is True.")
        if self.fixed is not None and (self.traits or self.basis is not None):
            other = (*self.traits, "basis")[0]
            raise ValueError(f"`fixed` cannot be combined with `{other}`: give one of them.")
        if self.support is not None and not self.partial and self.traits:
            raise ValueError(
                f"`support` cannot be combined with `{self.traits[0]}` if it is all of the support: nothing is left "
                "to search for. Give one of them, or `partial=True` if x may be nonzero elsewhere."
            )
        if self.partial and self.k is not None and self.k < self.support.size:
            raise ValueError(f"`k` must be at least the {self.support.size} coordinates of `support`, got {self.k}.")

    def check(self, n: int) -> None:
        """Raise ValueError if k or the support do not fit signals of length n."""
        if self.k is not None and self.k > n:
            raise ValueError(f"`k` must be at most n = {n}, got {self.k}.")
        if self.support is not None and np.max(self.support) >= n:
            raise ValueError(f"`support` must lie between 0 and {n - 1}, got {np.max(self.support)}.")
        if self.fixed is not None and max(self.fixed) >= n:
            raise ValueError(f"`fixed` must name coordinates between 0 and {n - 1}, got {max(self.fixed)}.")
        if self.groups is not None:
            self.grouping(n)

    @property
    def traits(self) -> tuple[str, ...]:
        given = {"nonnegative": self.nonnegative, "groups": self.groups is not None, "partial": self.partial}
        return tuple(name for name, value in given.items() if value)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """Whether −x is as likely as x."""
        return not self.nonnegative

    @cached_property
    def _groupings(self) -> dict[int, Groups]:
        return {}

    def grouping(self, n: int) -> Groups | None:
        """The groups of n coordinates."""
        if self.groups is None:
            return None
        if n not in self._groupings:
            self._groupings[n] = Groups(_every_label(self.groups, n))
        return self._groupings[n]

    # -- for AMP ----------------------------------------------------------------------------------------------

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Denoiser:
        from fastquad.priors.slab import StructuredSlab  # scipy.special takes a moment to load

        groups = self.grouping(n)
        return StructuredSlab(
            n, rho, phi2, nonnegative=self.nonnegative, groups=groups, known=self._known(n), learns=learns
        )

    def _known(self, n: int) -> Indices | None:
        """The coordinates that are known to be nonzero, with their groups."""
        if not self.partial:
            return None
        groups = self.grouping(n)
        return self.support if groups is None else groups.whole(self.support)

    def starts(self, seen: Seen) -> list[Start]:
        from fastquad.numerics.eigen import leading_eigenvector

        n, known, groups = seen.n, self._known(seen.n), self.grouping(seen.n)
        if self.nonnegative:
            ones, make = np.ones(n), self.denoiser
            return [Start(ones, make(n, 0.5, 1.1 * seen.phi2), inner=inner, patient=True) for inner in (10, 3)]
        found = []
        if known is not None:
            v = np.zeros(n)
            v[known] = leading_eigenvector(np.ascontiguousarray(seen.S0[known[:, None], known]))
            found.append(Start(v, self.denoiser(n, 0.3, 1.1 * seen.phi2)))
        if groups is not None:
            sums = groups.sums(np.diagonal(seen.S0)) / np.sqrt(groups.sizes)
            likely = groups.members(np.argsort(-sums, kind="stable")[: max(2, groups.count // 4)])
            v = np.zeros(n)
            v[likely] = leading_eigenvector(np.ascontiguousarray(seen.S0[likely[:, None], likely]))
            found.append(Start(v, self.denoiser(n, 0.3, 1.1 * seen.phi2)))
        return found

    def coordinates(self, z: Float, weight: Float, size: int) -> Indices | Float:
        known, groups = self._known(z.size), self.grouping(z.size)
        importance = z**2 + 1e-300 * weight
        if known is not None:
            importance[known] += np.max(importance)
        if groups is None:
            count = min(int(np.count_nonzero(weight > 0.1)) + 2, size)
            return np.sort(np.argsort(-importance, kind="stable")[:count])
        touched = groups.sums(weight) / groups.sizes > 0.1
        count = int(groups.sizes[touched].sum() + groups.sizes.max())
        return groups.largest(importance, min(count, size))

    def nearest(self, x: Float) -> Float:
        """x without what is negative, if that is known."""
        return np.maximum(x, 0.0) if self.nonnegative else x

    def admits(self, x: Float) -> bool:
        small = _ROUNDING * float(np.abs(x).max(initial=0.0))
        if self.nonnegative and float(x.min(initial=0.0)) < -small:
            return False
        nonzero = np.abs(x) > small
        return self.k is None or int(np.count_nonzero(nonzero)) <= self.k


class Coefficients(Sparse):
    """The coefficients of a signal in its basis, in which few signals are quite sparse."""

    compressible: ClassVar[bool] = True

    @classmethod
    def of(cls, prior: Sparse) -> Coefficients:
        """What a prior with a basis says of the coefficients."""
        told = {each.name: getattr(prior, each.name) for each in fields(prior)}
        return cls(**{**told, "basis": None})


def _labels(groups: Any) -> Any:
    """Labels as an array, index sets as a tuple of arrays; checked."""
    items = list(groups) if not isinstance(groups, str) else []
    if not items:
        raise ValueError(f"`groups` must be labels, one per coordinate, or a list of index sets, got {groups!r}.")
    if all(np.ndim(item) == 0 for item in items):
        return np.asarray(items)
    if not all(np.ndim(item) == 1 for item in items):
        raise ValueError("`groups` must be labels, one per coordinate, or a list of index sets, got a mixture.")
    sets = tuple(arguments.indices(item, "groups") for item in items)
    count = np.bincount(np.concatenate(sets))
    if count.max() > 1:
        raise ValueError(f"`groups` must not overlap, but coordinate {int(np.argmax(count))} is in several.")
    return sets


def _every_label(groups: Any, n: int) -> Any:
    """A label for each of n coordinates."""
    if isinstance(groups, np.ndarray):
        if groups.size != n:
            raise ValueError(f"`groups` must have a label for each of {n} coordinates, got {groups.size}.")
        return groups
    largest = max(int(each[-1]) for each in groups)
    if largest >= n:
        raise ValueError(f"`groups` must lie between 0 and {n - 1}, got {largest}.")
    labels = np.arange(n) + len(groups)
    for number, members in enumerate(groups):
        labels[members] = number
    return labels


def _matrix(basis: Any) -> Number:
    """A basis as a matrix, checked."""
    D = arguments.array(basis, "basis")
    if D.ndim != 2 or not D.size:
        raise ValueError(f"`basis` must be a matrix of shape (n, p), or a name, got shape {D.shape}.")
    return D


def _fixed(fixed: Any) -> dict[int, float]:
    """Known values by their coordinates, checked."""
    if not isinstance(fixed, Mapping) or not fixed:
        raise TypeError(f"`fixed` must be a dict of coordinate to known value, got {fixed!r}.")
    known = {}
    for index, value in fixed.items():
        if isinstance(index, bool) or not isinstance(index, int | np.integer) or index < 0:
            raise ValueError(f"`fixed` must name coordinates by integers from 0, got {index!r}.")
        number = arguments.real_array(value, "fixed")
        if number.ndim:
            raise ValueError(f"`fixed` must give one number for each coordinate, got {value!r} for {index}.")
        known[int(index)] = float(number)
    return known
