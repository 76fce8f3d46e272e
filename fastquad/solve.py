"""The front door: every check on what the user gives, then one call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import parallel
from fastquad.measurements import Measurements, as_measurements
from fastquad.measurements.base import Float
from fastquad.priors.base import Prior
from fastquad.solution import Solution, Status
from fastquad.solvers import METHODS, by_name, load
from fastquad.solvers.base import Problem, Solver, suggest
from fastquad.solvers.driver import Limits, Run, State, drive

Rng = int | np.random.Generator | None


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
    n_threads: int | None = None,
    rng: Rng = None,
    verbose: int = 0,
    **unknown: Any,
) -> Solution:
    """Find x, up to sign, with `x^T A_i x = y_i`."""
    for option in unknown:
        raise TypeError(_unknown_option(option))
    measurements = as_measurements(A)
    m, n = measurements.m, measurements.n
    Y, batch = _data(y, m)
    b = len(Y)
    _check_prior(prior, n)
    solver = _solver(method, prior)
    X0 = _signals(x0, "x0", b, n)
    X_true = _signals(x_true, "x_true", b, n)
    norms = _norms(norm, b)
    noise = _number(noise, "noise", positive=False)
    limits = Limits(
        max_iter=_count(max_iter, "max_iter") or solver.max_iter,
        max_passes=_number(max_passes, "max_passes"),
        max_time=_number(max_time, "max_time"),
        callback=_callable(callback),
        verbose=_verbosity(verbose),
    )
    tol = _number(tol, "tol", positive=False)
    n_threads = parallel.resolve(n_threads)
    rngs = _generator(rng).spawn(b)
    if X0 is not None and not (X0.any(axis=1) | ~Y.any(axis=1)).all():
        raise ValueError("`x0` must not be zero, which is a stationary point of every method.")
    runs = []
    solutions: list[Solution | None] = [None] * b
    for i in range(b):
        if not Y[i].any():
            solutions[i] = _trivial(n, solver.name)
            continue
        problem = Problem(
            m=m, n=n, y=Y[i], dtype=measurements.dtype, prior=prior, x0=None if X0 is None else X0[i],
            norm=norms[i], noise=noise, tol=tol, rng=rngs[i],
        )  # fmt: skip
        run = Run(
            solver.steps(problem), m, solver.name, limits, x_true=None if X_true is None else X_true[i],
            accuracy=_accuracy(measurements, Y[i], noise), label=f" {i}" if batch else "",
        )  # fmt: skip
        runs.append((i, run))
    for (i, _), solution in zip(runs, drive(measurements, [run for _, run in runs], n_threads), strict=True):
        solutions[i] = solution
    return _stacked(solutions) if batch else solutions[0]


def _accuracy(A: Measurements, y: Float, noise: float | None) -> float:
    """The relative residual that rounding of A, or the noise, leaves even at the true signal."""
    rounding = 8 * float(np.finfo(A.dtype).eps)
    if not noise:
        return rounding
    # ‖noise‖² is σ² χ²_m: three standard deviations above its mean.
    m = len(y)
    return max(rounding, noise * math.sqrt(m + 3 * math.sqrt(2 * m)) / float(np.linalg.norm(y)))


def _trivial(n: int, method: str) -> Solution:
    status = Status.TRIVIAL
    history = {name: np.empty(0) for name in ("residual", "n_passes", "elapsed")}
    return Solution(
        x=np.zeros(n), status=status, success=status.success, message=status.sentence, method=method, n_iter=0,
        n_passes=0.0, residual=0.0, support=np.empty(0, dtype=np.intp), noise=None, history=history, elapsed=0.0,
    )  # fmt: skip


def _stacked(solutions: list[Solution]) -> Solution:
    """One Solution of b: arrays where a field is a number, lists elsewhere."""

    def every(name: str) -> list:
        return [getattr(solution, name) for solution in solutions]

    return Solution(
        x=np.stack(every("x")), status=every("status"), success=np.array(every("success")), message=every("message"),
        method=every("method"), n_iter=np.array(every("n_iter")), n_passes=np.array(every("n_passes")),
        residual=np.array(every("residual")), support=every("support"), noise=every("noise"),
        history=every("history"), elapsed=np.array(every("elapsed")),
    )  # fmt: skip


# -- checks -------------------------------------------------------------------------------------------------


def _unknown_option(option: str) -> str:
    for place in METHODS.values():
        if find_spec(place.split(":")[0]) is None:
            continue
        cls = load(place)
        if option in inspect.signature(cls).parameters:
            return f"`{option}` is an option of a method: solve(A, y, method=fq.{cls.__name__}({option}=...))."
    known = [p.name for p in inspect.signature(solve).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return f"solve() has no option `{option}`{suggest(option, known)}"


def _solver(method: Any, prior: Prior | None) -> Solver:
    if isinstance(method, type) and issubclass(method, Solver):
        raise TypeError(f"`method` must be a name or a solver object, got the class: use {method.__name__}().")
    if isinstance(method, str):
        method = _named_solver(method, prior)
    if not isinstance(method, Solver):
        raise TypeError(f"`method` must be a name or a solver object, got {type(method).__name__}.")
    kind = "sparse" if prior is None else prior.kind
    if kind not in method.priors:
        raise ValueError(f"`method` {method.name!r} needs a {' or '.join(method.priors)} prior, got {prior!r}.")
    if getattr(prior, "support", None) is not None and not method.uses_support:
        raise ValueError(f"`method` {method.name!r} cannot use a known support: use 'twf' or 'lm'.")
    return method


def _named_solver(name: str, prior: Prior | None) -> Solver:
    if name == "auto":
        if prior is not None and prior.kind == "generative":
            name = "latent"
        elif find_spec("fastquad.solvers.auto") is None:
            name = "twf"
    return by_name(name)()


def _check_prior(prior: Any, n: int) -> None:
    if prior is None:
        return
    if not isinstance(prior, Prior):
        raise TypeError(f"`prior` must be a prior such as fq.Sparse(), or None, got {type(prior).__name__}.")
    prior.check(n)


def _real(value: Any, name: str) -> Float:
    """value as a C-contiguous float64 array of finite numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, got NaN or inf.")
    return array


def _data(y: Any, m: int) -> tuple[Float, bool]:
    """y as (b, m), and whether it is a batch."""
    Y = _real(y, "y")
    if np.ndim(y) not in (1, 2) or Y.shape[-1] != m or not Y.size:
        raise ValueError(f"`y` must have shape ({m},) or (b, {m}), got {np.shape(y)}.")
    return Y.reshape(-1, m), Y.ndim == 2


def _signals(x: Any, name: str, b: int, n: int) -> Float | None:
    """x as (b, n)."""
    if x is None:
        return None
    X = _real(x, name)
    if np.shape(x) not in ((n,), (b, n)):
        raise ValueError(f"`{name}` must have shape ({n},) or ({b}, {n}), got {np.shape(x)}.")
    return np.broadcast_to(X, (b, n)).copy()


def _norms(norm: Any, b: int) -> list[float | None]:
    if norm is None:
        return [None] * b
    norms = _real(norm, "norm")
    if np.shape(norm) not in ((), (b,)):
        raise ValueError(f"`norm` must be a number or have shape ({b},), got shape {np.shape(norm)}.")
    if not (norms > 0).all():
        raise ValueError(f"`norm` must be positive, got {norm!r}.")
    return np.broadcast_to(norms, (b,)).tolist()


def _number(value: Any, name: str, *, positive: bool = True) -> float | None:
    if value is None:
        return None
    what = "a positive number" if positive else "a number, at least 0"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"`{name}` must be {what}, got {value!r}.")
    if math.isnan(value) or value < 0 or (positive and value == 0):
        raise ValueError(f"`{name}` must be {what}, got {value!r}.")
    return float(value)


def _count(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a positive integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
    return int(value)


def _callable(callback: Any) -> Any:
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be a function of the state, got {type(callback).__name__}.")
    return callback


def _verbosity(verbose: Any) -> int:
    if not isinstance(verbose, (int, np.integer)) or verbose < 0:
        raise ValueError(f"`verbose` must be 0, 1 or 2, got {verbose!r}.")
    return int(verbose)


def _generator(rng: Any) -> np.random.Generator:
    """A generator from a seed; a fixed one where none is given."""
    if rng is None:
        return np.random.default_rng(0)
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"`rng` must be a seed or a numpy Generator, got {type(rng).__name__}.")
    if rng < 0:
        raise ValueError(f"`rng` must not be negative, got {rng}.")
    return np.random.default_rng(rng)
