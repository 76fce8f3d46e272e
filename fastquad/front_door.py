"""The front door: every check on what the user gives, then one call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import checks, parallel
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Float, Measurements
from fastquad.memory import budget
from fastquad.priors.base import Prior
from fastquad.solution import Solution, stacked, trivial
from fastquad.solvers import METHODS, by_name, load
from fastquad.solvers.base import Problem, Solver
from fastquad.solvers.driver import Limits, Run, State, drive, finish

Seed = int | np.random.Generator | None


def solve(
    A: Any,
    y: ArrayLike,
    *,
    prior: Prior | None = None,
    method: str | Solver = "auto",
    x0: ArrayLike | None = None,
    norm: ArrayLike | None = None,
    noise: float | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_passes: float | None = None,
    max_time: float | None = None,
    callback: Callable[[State], object] | None = None,
    x_true: ArrayLike | None = None,
    memory: int | str | None = None,
    checkpoint: str | os.PathLike | None = None,
    n_threads: int | None = None,
    rng: Seed = None,
    verbose: int = 0,
    **unknown: Any,
) -> Solution:
    """Find x, up to sign, from the measurements `y_i = x^T A_i x`.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file or of a packed folder, or Measurements
        Whatever `fastquad.as_measurements` takes.
    y : array of shape (m,) or (b, m)
        The measurements of one signal, or of b signals that share A and every pass over it.
    prior : fastquad.Sparse or fastquad.Generative, optional
        What is known of x. Without it x may be sparse, or not.
    method : str or Solver
        A name ("auto", "pursuit", "amp", "lm", "twf", "wf", "spf", "sgn", "latent", "pgd", "ppower"), or a solver
        object with its own options, such as `fastquad.TWF(beta=4.0)`.
    x0 : array of shape (n,) or (b, n), optional
        Where to start, in place of the method's own start.
    norm : float or array of shape (b,), optional
        ‖x‖, where it is known.
    noise : float, optional
        The standard deviation of the noise in y. 0 says that there is none.
    tol : float
        The relative residual ‖r‖/‖y‖, with `r_i = x^T A_i x − y_i`, below which a method has converged.
    max_iter : int, optional
        At most so many steps. Default: as the method says.
    max_passes : float, optional
        At most so many passes over A.
    max_time : float, optional
        No further step after so many seconds of this call.
    callback : function, optional
        Called after every step with the state (`state.x, state.n_iter, state.n_passes, state.residual`, for a batch
        also `state.signal`); the solve of this signal stops where it returns True.
    x_true : array of shape (n,) or (b, n), optional
        The signal, to follow the distance to it in `Solution.history["distance"]`. No method looks at it.
    memory : int or str, optional
        A budget for the whole solve, in bytes or such as "4 GB"; default: half of what this process can have. A packed
        folder that is larger is read anew for every pass (see `fastquad.open`; what was read is told in
        `Solution.message`), and solvers keep no more of A than fits. An array that is in memory is not counted.
    checkpoint : str or path, optional
        A file that keeps what the solve has got so far. Killed at any moment, the same call goes on from the last
        complete step and ends with the same bits; so does one with a larger budget (`max_iter`, `max_passes`,
        `max_time`), after a solve that ran out of it. After a solve that ended by itself, the same call returns its
        answer. See the page on large tensors.
    n_threads : int, optional
        Default: see `fastquad.set_num_threads`. The answer does not depend on it.
    rng : int or numpy.random.Generator, optional
        For everything random. The same seed gives the same bits; without one, a fixed seed is used.
    verbose : int
        1 prints on stderr after 1, 2, 5, 10, 20, … steps and at the end, 2 after every step.

    Returns
    -------
    Solution
        With `success` only where the answer can be trusted. Not to converge is a status, never an exception.

    Notes
    -----
    The verdict on an answer x with f free coordinates (for most methods, its nonzeros):

    - EXACT where ‖r‖/‖y‖ < 1e-9 and f < m;
    - CONVERGED where the method's own test was met and f < m; or where its steps became negligible at a residual that
      the rounding of A (‖r‖/‖y‖ at most 8 eps of its dtype) or the given noise explains (‖r‖ at most
      σ sqrt(d + 3 sqrt(2d)), with d = m for f at most m/2, and m − f beyond);
    - UNDETERMINED in the place of both where f >= m: so many unknowns fit any data;
    - otherwise the reason for which the solve stopped.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=100, n=60, k=5, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """
    # It brings SciPy's linear algebra, which importing fastquad does without.
    from fastquad.solvers.verdict import doubted

    for option in unknown:
        raise TypeError(_unknown_option(option))
    if memory is None and checkpoint is not None:
        memory = _memory_of(checkpoint)
    measurements = as_measurements(A, memory=memory)
    room = measurements.memory or budget(memory)
    m, n = measurements.m, measurements.n
    Y, batch = checks.data(y, m)
    b = len(Y)
    _check_prior(prior, n)
    solver = _solver(method, prior)
    X0 = _starts(x0, Y, n)
    X_true = checks.signals(x_true, "x_true", b, n)
    norms = checks.norms(norm, b)
    noise = None if noise is None else checks.number(noise, "noise")
    tol = checks.number(tol, "tol")
    limits = _limits(solver.max_iter if max_iter is None else max_iter, max_passes, max_time, callback, verbose)
    n_threads = parallel.resolve(n_threads)
    rngs = checks.generators(rng, b)

    def start(i: int, resume: dict[str, Any] | None) -> Run:
        problem = Problem(
            m=m, n=n, y=Y[i], dtype=measurements.dtype, prior=prior, x0=None if X0 is None else X0[i],
            norm=norms[i], noise=noise, tol=tol, rng=rngs[i], memory=room, resume=resume,
        )  # fmt: skip
        steps = solver.steps(problem)
        return Run(
            steps if solver.certifies else doubted(problem, steps), m, solver.name, limits,
            x_true=None if X_true is None else X_true[i], rounding=8 * float(np.finfo(measurements.dtype).eps),
            noise=(noise or 0.0) / float(np.linalg.norm(Y[i])), signal=i if batch else None,
        )  # fmt: skip

    signals = [i for i in range(b) if Y[i].any()]
    decodes = solver.uses_blas(prior)
    if checkpoint is None or not signals:
        read = measurements.bytes_read
        found = drive(measurements, [start(i, None) for i in signals], n_threads, blas_threads=decodes)
        found = _with_bytes_read(found, measurements.bytes_read - read)
    else:
        what = {
            "A": measurements._identity(), "y": Y, "prior": prior, "method": (solver.name, solver), "x0": X0,
            "norm": norms, "noise": noise, "tol": tol, "rng": [each.bit_generator.state for each in rngs],
        }  # fmt: skip
        found = _with_checkpoint(checkpoint, what, measurements, room, signals, start, n_threads, decodes)
    solutions = dict(zip(signals, found, strict=True))
    every = [solutions[i] if i in solutions else trivial(n, solver.name) for i in range(b)]
    return stacked(every) if batch else every[0]


def _with_checkpoint(
    path: str | os.PathLike,
    what: dict[str, Any],
    measurements: Measurements,
    memory: int,
    signals: list[int],
    start: Callable[[int, dict[str, Any] | None], Run],
    n_threads: int,
    blas_threads: bool,
) -> list[Solution]:
    """The answers for these signals: from a checkpoint, or by going on from it."""
    from fastquad.solvers.checkpoint import Checkpoint, restored

    with Checkpoint(path) as saved:
        saved.begin(what, memory, measurements.nbytes, lambda: measurements.bytes_read)
        found = saved.solutions()
        if found is None:
            states = zip(signals, saved.states(len(signals)), strict=True)
            runs = [restored(partial(start, i), state) for i, state in states]
            found = drive(measurements, runs, n_threads, saved, blas_threads=blas_threads)
            found = _with_bytes_read(found, saved.total_read)
            saved.finish(found)
    return found


def _memory_of(checkpoint: str | os.PathLike) -> int | None:
    """The budget that a checkpoint was begun with, where there is one: with the same budget come the same bits."""
    from fastquad.solvers.checkpoint import Checkpoint

    with Checkpoint(checkpoint) as saved:
        return saved.memory


def _with_bytes_read(solutions: list[Solution], count: int) -> list[Solution]:
    """The solutions, with what was read from disk in their messages."""
    if not count:
        return solutions
    said = f"{count / 1e9:.3g} GB were read from disk."
    return [replace(solution, message=f"{solution.message} {said}") for solution in solutions]


def spectral_init(
    A: Any,
    y: ArrayLike,
    *,
    alpha: float = 0.5,
    norm: float | None = None,
    support: str | ArrayLike = "estimated",
    n_threads: int | None = None,
) -> Float:
    """The spectral start: `φ` times the leading eigenvector of a block of `S_in = Σ_i y_i Ã_i / m`.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file, or Measurements
    y : array of shape (m,)
    alpha : float
        Of the support test: `I_l > alpha φ² sqrt(log n / m)`, with I the diagonal of S_in. Where no index passes, the
        largest is taken.
    norm : float, optional
        ‖x‖; default: `φ = (mean y²)^(1/4)`.
    support : {"estimated", "full"} or list of int
        The block: the indices that pass the support test, all, or the given ones. Only this block of A is read,
        and for the estimate the diagonals.
    n_threads : int, optional

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=300, n=50, k=2, rng=0)
    >>> x0 = fq.spectral_init(problem.A, problem.y)
    >>> bool(fq.distance(x0, problem.x) < 0.5)
    True
    """
    measurements = as_measurements(A)
    n = measurements.n
    Y, batch = checks.data(y, measurements.m)
    if batch:
        raise ValueError(f"`y` must have shape ({measurements.m},), got {Y.shape}.")
    phi = checks.norms(norm, 1)[0] or float(np.mean(Y**2)) ** 0.25
    within = None
    estimate: float | None = checks.number(alpha, "alpha")
    if not isinstance(support, str):
        within, estimate = checks.indices(support, "support"), None
        if within[-1] >= n:
            raise ValueError(f"`support` must lie between 0 and {n - 1}, got {within[-1]}.")
    elif checks.choice(support, "support", ("estimated", "full")) == "full":
        estimate = None
    if not Y.any():
        return np.zeros(n)
    from fastquad.solvers.spectral import spectral_start  # like a method, loaded when it is used

    start = spectral_start(Y[0], n, phi, alpha=estimate, within=within)
    return finish(measurements, start, parallel.resolve(n_threads))[0]


def measure(A: Any, x: ArrayLike, *, noise: float = 0.0, rng: Seed = None, n_threads: int | None = None) -> Float:
    """`y_i = x^T A_i x`, with Gaussian noise on request.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file, or Measurements
    x : array of shape (n,) or (b, n)
    noise : float
        Its standard deviation.
    rng : int or numpy.random.Generator, optional
        For the noise.
    n_threads : int, optional

    Returns
    -------
    array of shape (m,) or (b, m)

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> fq.measure(np.ones((2, 3, 3)), [1.0, 2.0, 3.0])
    array([36., 36.])
    """
    measurements = as_measurements(A)
    x = checks.real_array(x, "x")
    if x.ndim not in (1, 2) or x.shape[-1] != measurements.n or not x.size:
        raise ValueError(f"`x` must have shape ({measurements.n},) or (b, {measurements.n}), got {x.shape}.")
    sigma = checks.number(noise, "noise")
    y = np.ascontiguousarray(measurements.measure(x.T, n_threads=n_threads).T)
    return y + sigma * checks.generator(rng, default=None).standard_normal(y.shape) if sigma else y


# -- checks that need to know the methods -----------------------------------------------------------------------


def _limits(max_iter: Any, max_passes: Any, max_time: Any, callback: Any, verbose: Any) -> Limits:
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be a function of the state, got {type(callback).__name__}.")
    if not isinstance(verbose, (int, np.integer)) or verbose < 0:
        raise ValueError(f"`verbose` must be 0, 1 or 2, got {verbose!r}.")
    return Limits(
        max_iter=None if max_iter is None else checks.count(max_iter, "max_iter"),
        max_passes=None if max_passes is None else checks.number(max_passes, "max_passes", positive=True, finite=False),
        max_time=None if max_time is None else checks.number(max_time, "max_time", positive=True, finite=False),
        callback=callback,
        verbose=int(verbose),
    )


def _starts(x0: Any, Y: Float, n: int) -> Float | None:
    """x0 as (b, n)."""
    X0 = checks.signals(x0, "x0", len(Y), n)
    if X0 is not None and (Y.any(axis=1) & ~X0.any(axis=1)).any():
        raise ValueError("`x0` must not be zero: no method can leave that point.")
    return X0


def _check_prior(prior: Any, n: int) -> None:
    if prior is None:
        return
    if not isinstance(prior, Prior):
        raise TypeError(f"`prior` must be a prior such as fastquad.Sparse(), or None, got {_name(prior)}.")
    prior.check(n)


def _solver(method: Any, prior: Prior | None) -> Solver:
    """The solver object, which can work with this prior."""
    solver = _named_solver(method, prior) if isinstance(method, str) else method
    if not isinstance(solver, Solver):
        raise TypeError(f"`method` must be a name or a solver object such as fastquad.TWF(), got {_name(method)}.")
    kind = "sparse" if prior is None else prior.kind
    if kind not in solver.priors:
        came = "none" if prior is None else f"a {kind} one"
        raise ValueError(f"`method` {solver.name!r} needs a {' or '.join(solver.priors)} prior, got {came}.")
    if getattr(prior, "support", None) is not None and not solver.uses_support:
        raise ValueError(
            f"`method` must be able to use the known support, as 'lm', 'twf' and 'wf' are, got {solver.name!r}."
        )
    return solver


def _named_solver(name: str, prior: Prior | None) -> Solver:
    if name == "auto":
        if prior is not None and prior.kind == "generative":
            name = "latent"
        elif getattr(prior, "support", None) is not None:
            # With the support known there is nothing left to search for.
            name = "lm"
    return by_name(name)()


def _name(value: Any) -> str:
    """What something is, for an error: the class itself, or an object of it."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _unknown_option(option: str) -> str:
    known = [p.name for p in inspect.signature(solve).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in METHODS:
        cls = load(METHODS[name])
        if option in inspect.signature(cls).parameters:
            example = f"method=fastquad.{cls.__name__}({option}=...)"
            return f"solve() has no option `{option}`, which belongs to the method: {example}."
    return f"solve() has no option `{option}`{checks.nearest(option, known)}"
