"""What a solve returns: the answer, and why it stopped, in a sentence that says what to try next."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastquad import checks


class Status(Enum):
    """Why a solve stopped. The value is the sentence for the user, with the remedy in it."""

    EXACT = (
        "Exact: the relative residual is below 1e-9 with fewer free coordinates than measurements, "
        "so x is certified up to sign."
    )
    CONVERGED = "Converged: the stopping test of the method was met."
    UNDETERMINED = (
        "The residual is zero, but x has at least as many free coordinates as there are measurements, so many "
        "signals fit as well and this proves nothing. Use more measurements, or a method or prior that gives a "
        "sparser x (method='auto', a larger beta)."
    )
    AMBIGUOUS = (
        "The residual is zero, but the structure of A lets another signal have the same measurements: x is one of "
        "them. Use measurements without that structure, more of them, or more knowledge of the signal to choose."
    )
    STAGNATED = (
        "Stagnated: the steps became negligible while the residual did not. Try another start (x0), more "
        "measurements, or method='auto'; with noisy data, pass the level as `noise`."
    )
    EMPTY_SUPPORT = (
        "Stagnated, from a poor start: no coordinate passed the support test. Lower `alpha`, start from all "
        "coordinates (start='full') or another x0, or use method='auto'."
    )
    MAX_ITER = "Out of iterations. Raise `max_iter`, or start from this answer with x0=solution.x."
    MAX_PASSES = "Out of passes over A. Raise `max_passes`, or start from this answer with x0=solution.x."
    MAX_TIME = "Out of time. Raise `max_time`, or start from this answer with x0=solution.x."
    DIVERGED = "Diverged: the iterates grew without bound. Use a smaller step, another start (x0), or method='auto'."
    STOPPED = "Stopped by the callback."
    TRIVIAL = "Every measurement is zero: x = 0 explains them, and nothing was computed."

    @property
    def sentence(self) -> str:
        """The sentence for the user."""
        return self.value

    @property
    def success(self) -> bool:
        """Whether the answer can be trusted: exact, or converged; never merely out of budget."""
        return self in (Status.EXACT, Status.CONVERGED, Status.TRIVIAL)


@dataclass(frozen=True)
class Solution:
    """The answer of `fastquad.solve`.

    For a batch of b signals `x` has shape (b, n); of the other fields those that are numbers have shape (b,), and the
    rest are lists of b.

    Attributes
    ----------
    x : array of shape (n,) or (b, n)
        The signal, up to sign: the best found, by residual, whatever the status.
    status : Status
        Why the solve stopped.
    success : bool
        Whether the answer can be trusted: exact or converged.
    message : str
        The status's sentence, the residual, and what the method has to add.
    method : str
        The method that gave x.
    n_iter : int
        Steps taken: iterates whose residual is known, the start included.
    n_passes : float
        Passes over A; reading a part of A counts as that part. In a batch, the passes that this signal shared in.
    residual : float
        `‖r‖/‖y‖` with `r_i = x^T A_i x − y_i`.
    support : array of int
        The nonzeros of x.
    noise : float or None
        The standard deviation of the noise, where the method estimates it.
    history : dict of arrays
        One entry a step: "residual", "n_passes", "elapsed", and "distance" where `x_true` was given.
    elapsed : float
        Seconds.
    """

    x: NDArray[np.float64] = field(repr=False)
    status: Any
    success: Any
    message: Any = field(repr=False)
    method: Any
    n_iter: Any
    n_passes: Any
    residual: Any
    support: Any = field(repr=False)
    noise: Any
    history: Any = field(repr=False)
    elapsed: Any


def trivial(n: int, method: str) -> Solution:
    """The answer for y = 0."""
    status = Status.TRIVIAL
    return Solution(
        x=np.zeros(n), status=status, success=status.success, message=status.sentence, method=method, n_iter=0,
        n_passes=0.0, residual=0.0, support=np.empty(0, dtype=np.intp), noise=None,
        history={name: np.empty(0) for name in ("residual", "n_passes", "elapsed")}, elapsed=0.0,
    )  # fmt: skip


def stacked(solutions: list[Solution]) -> Solution:
    """The answers for b signals as one."""
    columns: dict[str, Any] = {f.name: [getattr(solution, f.name) for solution in solutions] for f in fields(Solution)}
    for name in ("x", "success", "n_iter", "n_passes", "residual", "elapsed"):
        columns[name] = np.array(columns[name])
    return Solution(**columns)


def distance(x_hat: ArrayLike, x: ArrayLike) -> Any:
    """The relative distance up to sign, `min_± ‖x_hat ∓ x‖/‖x‖`.

    Parameters
    ----------
    x_hat, x : arrays of shape (n,) or (b, n)

    Returns
    -------
    float, or array of shape (b,)
        For x = 0 it is 0 where x_hat is zero too, and inf where it is not.

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.distance([-3.0, 0.0], [3.0, 4.0])
    0.8
    """
    x_hat, x = checks.real_array(x_hat, "x_hat"), checks.real_array(x, "x")
    if x.ndim not in (1, 2) or x_hat.shape != x.shape:
        raise ValueError(f"`x_hat` must have the shape of `x`, (n,) or (b, n), got {x_hat.shape} and {x.shape}.")
    scale = np.linalg.norm(x, axis=-1)
    nearest = np.minimum(np.linalg.norm(x_hat - x, axis=-1), np.linalg.norm(x_hat + x, axis=-1))
    unreachable = np.where(nearest > 0, np.inf, 0.0)
    relative = np.divide(nearest, scale, out=unreachable, where=scale > 0)
    return float(relative) if x.ndim == 1 else relative
