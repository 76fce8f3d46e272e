"""The interface of a prior: what it offers to the methods.

AMP turns the measurements into `b = a x + sqrt(a) N(0, I)`: the signal itself, seen in Gaussian noise. A prior then
only has to give the posterior of x given b, and needs to know nothing of A or y. A prior of your own is a class with
that one method:

    class Mine(fastquad.Prior):
        def denoise(self, b, a):
            return mean, variance                 E x_j and Var x_j given b, each (n,); P(x_j ≠ 0) may follow

What else a prior may offer, and who asks for it:

    starts(seen)                   starts for AMP, the likeliest first; default: from the first weighted sum alone
    coordinates(z, weight, size)   the coordinates for Levenberg–Marquardt: a support, or the columns of a matrix
    enlarged(where, x, W, r, size) these and more, if a fit leaves little; default: those that explain most of it
    nearest(x)                     the signal of this kind nearest to x: for PGD, for TWF after each step, and for AMP's
                                   hand-over if `rounds`
    freedom(x)                     the number of free parameters of x: a fit proves nothing unless there are fewer than
    m

and for the certificate, which looks for other signals that fit as well:

    admits(x)                      whether x is of this kind; only such signals are rivals
    alphabet                       the few values of a coordinate, if there are few: then the signals can be counted
    sparse_form(x, every)          the columns in which signals of this kind are sparse, where rivals are looked for

A prior with parameters to learn makes a `Denoiser` for each attempt of AMP, which keeps what it has learnt:

    mean, variance, weight = denoiser.denoise(b, a)
    denoiser.learn(posterior, phi2)                     EM: its own parameters (ρ, the slab …), given |x|² ≈ phi2

AMP calls `estimate` after every pass over A. It repeats `denoise` and `learn` a few times on the matrix S of the pass;
a denoiser with a compiled loop overrides it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fastquad.typing import Float, Indices

#: The inner loop ends when a step moves z by less than this share of |x|.
INNER_TOLERANCE = 1e-3


class Posterior(NamedTuple):
    """The posterior of each coordinate: its mean, its variance, and the probability that it is not zero."""

    mean: Float
    variance: Float
    weight: Float


class Estimate:
    """What AMP holds of x, updated in place: z, the z before, the variances v and the weights π, (n,) each."""

    def __init__(self, z: Float, v: Float | float) -> None:
        self.z, self.z_old, self.v = z.copy(), z.copy(), np.full(z.size, v, dtype=np.float64)
        self.weight = np.zeros(z.size)


class Denoiser(ABC):
    """The posterior of x given `b = a x + sqrt(a) N(0, I)`: all that AMP needs from a prior."""

    #: The least |z|², as a share of |x|²: without it z = 0 is a trap for m < n. 0 if a coordinate is known.
    floor: ClassVar[float] = 0.3
    #: Whether x has no zeros, so that the weights may mean something else.
    dense: ClassVar[bool] = False
    #: Whether the parameters are learnt, so that the posterior's variances can be trusted.
    learns: bool = True
    #: Whether `denoise` takes a precision a (n,) for each coordinate, too.
    unequal: ClassVar[bool] = False
    #: Whether the variance is only the divergence of a function, and not that of a posterior.
    estimated: ClassVar[bool] = False

    @abstractmethod
    def denoise(self, b: Float, a: float) -> Posterior:
        """The mean, the variance and P(x_j ≠ 0) of each coordinate."""

    def overlap(self, z: Float, v: Float) -> float:
        """`<X, V>` of the estimate X of xx^T and its variances V: AMP's memory term is in proportion to it."""
        return float(z @ z) * float(v.sum())

    def learn(self, posterior: Posterior, phi2: float) -> None:  # noqa: B027  (a prior may have nothing to learn)
        """Update the parameters by EM, given the posterior under the old ones and |x|² ≈ phi2."""

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        """Estimate the spike xx^T in S, whose off-diagonal entries have noise of variance D, in place.

        `b = (S z − (Σv) z_old)/D, a = |z|²/D`, then the posterior of x given them, with the share `keep` of the old
        estimate, at most `inner` times.
        """
        z, z_old, v = at.z, at.z_old, at.v
        for _ in range(inner):
            b = (S @ z - float(v.sum()) * z_old) / D
            posterior = self.denoise(b, float(z @ z) / D)
            z_old[:] = z
            z *= keep
            z += (1 - keep) * posterior.mean
            v *= keep
            v += (1 - keep) * posterior.variance
            at.weight[:] = posterior.weight
            self.learn(posterior, phi2)
            # End the loop for NaN, too, which AMP then finds in z.
            if not float(np.sum((z - z_old) ** 2)) > INNER_TOLERANCE**2 * phi2:
                break


class Plain(Denoiser):
    """The denoiser of a prior with nothing to learn: its own `denoise`."""

    def __init__(self, function: Callable[[Float, float], Any]) -> None:
        self.function = function

    def denoise(self, b: Float, a: float) -> Posterior:
        mean, variance, *rest = self.function(b.copy(), a)
        found = Posterior(*(np.asarray(each) for each in (mean, variance, rest[0] if rest else np.ones(b.size))))
        for name, value in found._asdict().items():
            if value.shape != b.shape or value.dtype.kind not in "fiub":
                raise ValueError(
                    f"`denoise` of `prior` must give a real {name} of shape {b.shape}, got {value.dtype} of shape "
                    f"{value.shape}."
                )
            if not np.isfinite(value).all() and np.isfinite(b).all():
                raise ValueError(f"`denoise` of `prior` must give a finite {name}, got NaN or inf.")
        return found


class Seen(NamedTuple):
    """What AMP has read before its first estimate: `S0 = Σ y_i Ã_i/m` at unit scale, |x|² estimated from y, m and n."""

    S0: Float
    phi2: float
    m: int
    n: int


class Start(NamedTuple):
    """A start of AMP: a direction (n,), its denoiser, and settings.

    `keep` is the share of the old estimate in the new one, `inner` the number of inner steps after each pass, `norm`
    |x|² relative to its estimate from y. A `patient` run takes more sweeps before it counts as settled.
    """

    direction: Float
    denoiser: Denoiser
    keep: float = 0.4
    inner: int = 10
    norm: float = 1.1
    patient: bool = False


class Prior(ABC):  # noqa: B024  (which of its methods a prior needs depends on the method that asks)
    """What is known of the signal. Subclass it for a prior of your own.

    One method is enough, `denoise(b, a)`: the posterior mean and variance of each coordinate of x, given
    `b = a x + sqrt(a) N(0, I)`. `fastquad.testing.check_prior` checks whether it does what AMP expects.

    Examples
    --------
    A signal whose entries are ±1, as a class of one's own:

    >>> import numpy as np
    >>> import fastquad as fq
    >>> class Signs(fq.Prior):
    ...     rounds = True
    ...
    ...     def denoise(self, b, a):
    ...         return np.tanh(b), 1 - np.tanh(b) ** 2
    ...
    ...     def nearest(self, x):
    ...         return np.where(x < 0, -1.0, 1.0)
    >>> fq.testing.check_prior(Signs(), n=50).ok
    True
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((50, 50, 50)), rng.choice([-1.0, 1.0], 50)
    >>> solution = fq.solve(A, fq.measure(A, x), prior=Signs())
    >>> fq.distance(solution.x, x)
    0.0
    """

    #: "sparse", "generative" or "denoiser": each method lists the kinds that it works with.
    kind: ClassVar[str] = "denoiser"
    #: Whether −x is as likely as x.
    signed: bool = True
    #: Whether a signal is given by a code: the certificate can then only count its numbers.
    decoded: ClassVar[bool] = False
    #: Whether many small coordinates may be left beside those that are found: they count in the error of an answer.
    compressible: ClassVar[bool] = False
    #: The few values that a coordinate can have, ascending; None if there is a continuum.
    alphabet: Float | None = None
    #: Whether AMP hands over by rounding to `nearest`, for signals without a continuum.
    rounds: ClassVar[bool] = False
    #: The largest number of sweeps in a run of AMP.
    max_sweeps: ClassVar[int] = 60

    @property
    def traits(self) -> tuple[str, ...]:
        """The names of what is known beyond the kind; a method must declare that it uses them."""
        return ()

    def check(self, n: int) -> None:  # noqa: B027  (most fit any length)
        """Raise a ValueError if this cannot be the prior of a signal of length n."""

    def shaped(self, shape: tuple[int, ...]) -> Self:
        """The same prior for x that is an image of this shape, flattened."""
        return self

    def seeded(self, rng: np.random.Generator) -> Self:
        """The same prior for one solve, with its source of everything random."""
        return self

    def denoise(self, b: Float, a: float) -> Any:
        """The mean, the variance and, if x has zeros, P(x_j ≠ 0) of each coordinate, given b."""
        raise TypeError(f"`prior` must define denoise(b, a) for this method, which {type(self).__name__} does not.")

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Denoiser:
        """A new denoiser, for a signal with about `ρ n` nonzeros and `|x|² ≈ phi2`."""
        return Plain(self.denoise)

    def starts(self, seen: Seen) -> list[Start]:
        """Starts for AMP, before its usual ones, which have no sign."""
        return []

    def coordinates(self, z: Float, weight: Float, size: int) -> Indices | Float:
        """The likely coordinates of x, given AMP's estimate: at most `size` of them, or a matrix (n, p) of columns.

        `weight` is P(x_j ≠ 0).
        """
        count = min(int(np.count_nonzero(weight > 0.1)) + 2, size)
        return np.sort(np.argsort(-(np.abs(z) + 1e-300) * weight, kind="stable")[:count])

    def enlarged(self, where: Any, x: Float, W: Float, r: Float, size: int) -> Indices | Float:
        """`where`, as `coordinates` gave it, with those added that explain most of the residual r (m,) of a fit x.

        W (m, n) are the products of x, half the derivatives of the measurements. The result has at most `size` columns.
        """
        if np.ndim(where) == 2:
            return np.asarray(where)
        score = r @ W / np.sqrt(np.einsum("ij,ij->j", W, W) + 1e-300)
        # If a coordinate can only grow, count only what growing would explain.
        score = np.abs(score) if self.signed else -score
        score[where] = np.inf
        return np.sort(np.argsort(-score, kind="stable")[:size])

    def nearest(self, x: Float) -> Float:
        """The signal of this kind that is nearest to x."""
        return x

    def admits(self, x: Float) -> bool:
        """Whether x is a signal of this kind, to rounding: one of the `alphabet`, if there is one."""
        if self.alphabet is None:
            return True
        off = np.abs(x[:, None] - self.alphabet).min(axis=1).max(initial=0.0)
        return bool(off <= 1e-6 * float(np.abs(self.alphabet).max()))

    def freedom(self, x: Float) -> int:
        """The number of free parameters of a signal of this kind, at x."""
        return int(np.count_nonzero(x))

    def sparse_form(self, x: Float, every: bool) -> tuple[Float, Float] | None:
        """C (n, p) and a sparse z (p,) with x = C z, if signals of this kind are sparse in other columns than e_j.

        C has every such column, or only those of x and a few more. None if x is sparse in its own coordinates.
        """
        return None
