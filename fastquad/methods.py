"""The methods as objects, for those with options of their own: `fq.solve(A, y, method=fq.methods.SPF(k=10))`.

`fq.TWF`, `fq.LM`, `fq.AMP` and `fq.Pursuit` are the same classes. Each is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.engine.driver import finish
from fastquad.engine.steps import State
from fastquad.measurements import as_measurements
from fastquad.reductions.complex import complex_signal, read
from fastquad.solvers import CLASSES, load
from fastquad.solvers.base import Solver
from fastquad.solvers.parts.spectral import spectral_start
from fastquad.system import threads
from fastquad.typing import Float, Number

if TYPE_CHECKING:  # at run time each is imported when it is first asked for, below
    from fastquad.solvers.amp.amp import AMP
    from fastquad.solvers.latent.solver import LatentLM
    from fastquad.solvers.lm import LM
    from fastquad.solvers.pgd import PGD
    from fastquad.solvers.ppower import PPower
    from fastquad.solvers.pursuit.solver import Pursuit
    from fastquad.solvers.sgn import SGN
    from fastquad.solvers.spf import SPF
    from fastquad.solvers.twf import TWF, WF

__all__ = [
    "AMP",
    "LM",
    "PGD",
    "SGN",
    "SPF",
    "TWF",
    "WF",
    "LatentLM",
    "PPower",
    "Pursuit",
    "Solver",
    "State",
    "spectral_init",
]


if not TYPE_CHECKING:  # a type checker must see a name that does not exist

    def __getattr__(name: str) -> Any:
        """A solver class, imported when it is first asked for."""
        if name in __all__ and name in CLASSES:
            return load(CLASSES[name])
        raise AttributeError(f"module 'fastquad.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def spectral_init(
    A: Any,
    y: ArrayLike,
    *,
    alpha: float = 0.5,
    norm: float | None = None,
    support: str | ArrayLike = "estimated",
    signal: str | None = None,
    n_threads: int | None = None,
) -> Number:
    """The spectral start: `φ` times the leading eigenvector of a block of `S_in = Σ_i y_i Ã_i / m`.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file, or Measurements
    y : array of shape (m,)
    alpha : float
        The support test is `I_l > alpha φ² sqrt(log n / m)`, with I the diagonal of S_in. If no index passes, the
        largest is taken.
    norm : float, optional
        ‖x‖; default: `φ = (mean y²)^(1/4)`.
    support : {"estimated", "full"} or list of int
        The block: the indices that pass the support test, all, or the given ones. Only this block of A is read,
        and for the estimate the diagonals.
    signal : {"real", "complex"}, optional
        Whether x is real or complex, as in `solve`.
    n_threads : int, optional

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=300, n=50, k=2, rng=0)
    >>> x0 = fq.methods.spectral_init(problem.A, problem.y)
    >>> bool(fq.distance(x0, problem.x) < 0.5)
    True
    """
    reading = read(as_measurements(A), y, signal)
    measurements, pair = reading.A, 1 + reading.complex
    n = measurements.n
    Y, batch = arguments.data(reading.y, measurements.m)
    if batch:
        raise ValueError(f"`y` must have shape ({measurements.m},), got {Y.shape}.")
    phi = arguments.norms(norm, 1)[0] or float(np.mean(Y**2)) ** 0.25
    within = None
    estimate: float | None = arguments.number(alpha, "alpha")
    if not isinstance(support, str):
        within, estimate = arguments.indices(support, "support"), None
        if within[-1] >= n // pair:
            raise ValueError(f"`support` must lie between 0 and {n // pair - 1}, got {within[-1]}.")
        if reading.complex:
            within = np.sort(np.concatenate([2 * within, 2 * within + 1]))
    elif arguments.choice(support, "support", ("estimated", "full")) == "full":
        estimate = None
    if not Y.any():
        return np.zeros(n // pair, dtype=np.complex128 if reading.complex else np.float64)
    start = spectral_start(Y[0], n, phi, alpha=estimate, within=within, count=n // pair)
    x: Float = finish(measurements, start, threads.resolve(n_threads))[0]
    return complex_signal(x) if reading.complex else x
