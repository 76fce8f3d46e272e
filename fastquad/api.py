"""The public functions `solve`, `spectral_init` and `measure`: check all arguments, then make one call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.engine.advice import Call
from fastquad.engine.digest import Sampled
from fastquad.engine.driver import drive, finish
from fastquad.engine.positive import refusing
from fastquad.engine.problem import Problem
from fastquad.engine.run import Limits, Run
from fastquad.engine.steps import End, Outcome, State, Steps
from fastquad.measurements import as_measurements
from fastquad.measurements.base import Measurements
from fastquad.measurements.structured.affine import AffineTensor
from fastquad.measurements.structured.bilinear import BilinearTensor
from fastquad.measurements.structured.rank_one import RankOneTensor
from fastquad.noise import Noise, as_noise
from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.reductions.affine import takes_affine
from fastquad.reductions.basis import takes_basis
from fastquad.reductions.bilinear import takes_bilinear
from fastquad.reductions.complex import complex_data, complex_signal, read, takes_complex
from fastquad.reductions.hidden import sees_structure
from fastquad.reductions.rows import takes_any_rows
from fastquad.solution import Solution, SolutionBatch, changed
from fastquad.solvers import METHODS, Method, by_name, load
from fastquad.solvers.base import Solver
from fastquad.system import threads
from fastquad.system.memory import budget
from fastquad.typing import Float, Number

if TYPE_CHECKING:
    from fastquad.engine.checkpoint import Checkpoint

# The methods that need no more of A than `measure`, `along` and `gradient`.
_BY_VERBS = ("auto", "lm")
Seed = int | np.random.Generator | None
P = ParamSpec("P")
R = TypeVar("R")


def _explained(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an error for an unknown option that says what to give instead."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for option in options:
            if option not in known:
                raise TypeError(_unknown_option(option))
        return function(*args, **options)

    return call


@_explained
@takes_affine
@takes_bilinear
@takes_basis
@sees_structure
@takes_complex
@takes_any_rows
def solve(
    A: Any,
    y: ArrayLike,
    *,
    prior: Prior | None = None,
    method: Method | Solver = "auto",
    signal: str | None = None,
    x0: ArrayLike | None = None,
    norm: ArrayLike | None = None,
    noise: ArrayLike | Noise | None = None,
    outliers: bool = False,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_passes: float | None = None,
    max_time: float | None = None,
    callback: Callable[[State], object] | None = None,
    x_true: ArrayLike | None = None,
    memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    rng: Seed = None,
    verbose: int = 0,
) -> Solution:
    """Find x, up to sign, from the measurements `y_i = x^T A_i x`; complex x up to a phase, from `y_i = x^* A_i x`.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file or of a packed folder, or Measurements
        Whatever `fastquad.as_measurements` takes.
    y : array of shape (m,) or (b, m)
        The measurements of one signal, or of b signals that share A and every pass over it. A complex measurement
        counts as two real ones.
    prior : Prior, optional
        What is known of x: `fastquad.Sparse`, `fastquad.PiecewiseConstant`, `fastquad.Discrete`,
        `fastquad.Generative`, or one of your own. Without it x may be sparse, or not.
    method : str or Solver
        A name ("auto", "pursuit", "amp", "lm", "twf", "wf", "spf", "sgn", "latent", "pgd", "ppower"), or a solver
        object with its own options, such as `fastquad.TWF(beta=4.0)`.
    signal : {"real", "complex"}, optional
        Whether x is real or complex. Default: complex if A or y is, else real. See the page on complex signals.
    x0 : array of shape (n,) or (b, n), optional
        The start, in place of the method's own.
    norm : float or array of shape (b,), optional
        ‖x‖, if it is known.
    noise : float or array of shape (m,), optional
        The standard deviation of the noise in y: one for all measurements, or one for each. 0 means that there is none.
    outliers : bool
        Whether some measurements may be arbitrarily wrong; `Solution.outliers` then lists those that contradict x.
    tol : float
        The relative residual ‖r‖/‖y‖, with `r_i = x^T A_i x − y_i`, below which a method has converged.
    max_iter : int, optional
        The largest number of steps. Default: that of the method.
    max_passes : float, optional
        The largest number of passes over A. Without it the default method ends by itself after tens of passes, or a few
        hundred if nothing is found; with it, or with `noise=0`, it searches on.
    max_time : float, optional
        The number of seconds after which no further step is begun.
    callback : function, optional
        Called after every step with the state (`state.x, state.n_iter, state.n_passes, state.residual`, for a batch
        also `state.signal`); if it returns True, the solve of this signal stops.
    x_true : array of shape (n,) or (b, n), optional
        The true signal, to record the distance to it in `Solution.history["distance"]`. No method uses it.
    memory : int or str, optional
        A memory budget for the whole solve, in bytes or as a string such as "4 GB"; default: half of what this process
        can get. A packed folder that is larger is read again for every pass (see `fastquad.open`; `Solution.message`
        says how much was read), and solvers keep no more of A than fits. An array that is in memory already is not
        counted.
    checkpoint : str or path, optional
        A file that keeps the progress of the solve. If the solve is killed at any moment, the same call resumes from
        the last complete step and ends with the same bits. After a solve that ran out of a budget (`max_iter`,
        `max_passes`, `max_time`), the same call with a larger budget goes on; after one that ended by itself, the same
        call returns its answer. See the page on large tensors.
    n_threads : int, optional
        Default: see `fastquad.set_num_threads`. The answer does not depend on it.
    rng : int or numpy.random.Generator, optional
        The source of everything random. The same seed gives the same bits; without one, a fixed seed is used.
    verbose : int
        1 prints on stderr after 1, 2, 5, 10, 20, … steps and at the end, 2 after every step.

    Returns
    -------
    Solution
        `success` is true only if the answer can be trusted. A solve that does not converge has another status; it
        raises no exception. For y of shape (b, m), a `SolutionBatch`, whose entries are solutions.

    Notes
    -----
    One rule decides what each status means and which answers are a success: see `fastquad.engine.verdict`.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=100, n=60, k=5, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """
    with _checkpoint(checkpoint) as saved:
        if memory is None and saved is not None:
            memory = saved.memory  # the same budget, for the same bits
        measurements = as_measurements(A, memory=memory)
        room = measurements.memory or budget(memory)
        m, n = measurements.m, measurements.n
        Y, batch = arguments.data(y, m)
        b = len(Y)
        _check_prior(prior, n)
        if prior is not None and measurements.shape_of_x is not None:
            prior = prior.shaped(measurements.shape_of_x)
        fixed = {**(getattr(prior, "fixed", None) or {}), **measurements.fixed}
        groups = None if measurements.groups is None else Groups(measurements.groups)
        if groups is not None and isinstance(prior, Sparse):
            groups = prior.grouping(n) or groups  # the user's groups, each with Re and Im of its entries
        solver = _solver(method, prior, bool(fixed))
        if measurements.only_verbs:
            _check_verbs(solver, prior)
        X0 = _starts(x0, Y, n)
        X_true = arguments.signals(x_true, "x_true", b, n)
        norms = arguments.norms(norm, b)
        symmetry = measurements.symmetry if _says_little(prior) else ""
        model = as_noise(noise, m, outliers)
        for each in Y:
            model.check(each)
        if np.any(model.background):
            Y, model = Y - model.background, model.shifted(model.background, 0.0)
        tol = arguments.number(tol, "tol")
        limits = _limits(solver.max_iter if max_iter is None else max_iter, max_passes, max_time, callback, verbose)
        rngs = arguments.generators(rng, b)
        blas_threads = solver.uses_blas(prior)
        n_threads = threads.resolve(n_threads)

        automatic = isinstance(method, str) and method == "auto"

        def posed(
            i: int, prior: Prior | None, groups: Groups | None, solver: Solver, resume: dict[str, Any] | None = None
        ) -> tuple[Problem, Steps]:
            problem = Problem(
                m=m, n=n, y=Y[i], dtype=measurements.dtype,
                prior=None if prior is None else prior.seeded(rngs[i]), x0=None if X0 is None else X0[i],
                norm=norms[i], noise=model, tol=tol, rng=rngs[i], memory=room, resume=resume,
                fixed=fixed, bilinear=measurements.bilinear, groups=groups, gauge=measurements.gauge,
                max_passes=limits.max_passes, by_transform=measurements.by_transform,
                by_verbs=(
                    measurements.by_verbs and not (model.robust or model.reweighs) and _says_little(prior, fixed=True)
                ),
                gram=measurements.gram_kind,
                matrix_free=measurements.matrix_free and _says_little(prior) and not fixed and not model.reweighs,
            )  # fmt: skip
            if not Y[i].any() and getattr(prior, "fixed", None):
                raise ValueError("`y` must not be all zero where values of x are fixed.")
            steps = solver.steps(problem) if Y[i].any() else _nothing_to_find(problem)
            return problem, refusing(problem, steps) if model.positive else steps

        def start(i: int, resume: dict[str, Any] | None) -> Run:
            problem, steps = posed(i, prior, groups, solver, resume)
            call = Call(
                "auto" if automatic else solver.name, prior is not None, x0 is not None, noise is not None,
                norm is not None, bool(outliers), intensities=_intensities(measurements, Y[i]),
            )  # fmt: skip
            free = None
            if automatic and not _says_little(prior, fixed=True) and prior is not None and not prior.decoded:
                left = Sparse(fixed=prior.fixed) if isinstance(prior, Sparse) and prior.fixed else None
                alone = None if measurements.groups is None else Groups(measurements.groups)
                free = partial(posed, i, left, alone, by_name("auto")())
            x = None if X_true is None else X_true[i]
            return Run(
                problem, steps, solver.name, limits, x_true=x, signal=i if batch else None, call=call,
                without_prior=free,
            )  # fmt: skip

        def told(found: list[Solution]) -> Any:
            found = [replace(each, gauge=each.gauge + symmetry) for each in found]
            return SolutionBatch(found) if batch else found[0]

        if saved is None or not Y.any():
            read = measurements.bytes_read
            runs = [start(i, None) for i in range(b)]
            find = partial(drive, measurements, runs, n_threads, blas_threads=blas_threads)
            found = changed(find, lambda found: told(_with_bytes_read(found, measurements.bytes_read - read)))
        else:
            what = {
                "A": measurements._identity(), "y": Y, "prior": None if prior is None else Sampled(prior, n),
                "method": (solver.name, solver), "x0": X0,
                "norm": norms, "noise": model, "tol": tol,
                "rng": [each.bit_generator.state for each in rngs],
            }  # fmt: skip
            saved.begin(what, room, measurements.nbytes, lambda: measurements.bytes_read)
            found = changed(
                lambda: saved.solutions() or _going_on(saved, measurements, start, b, n_threads, blas_threads), told
            )
    # Claim a Solution: a type checker cannot see from the shape of y that it is a batch, and `Solution` has an index
    # for it.
    return cast(Solution, found)


def _nothing_to_find(problem: Problem) -> Steps:
    """The steps for y = 0: there are none."""
    yield from ()
    return Outcome(problem.completed(np.zeros(problem.n)), 0.0, End.ZERO)


@contextmanager
def _checkpoint(path: str | os.PathLike[str] | None) -> Iterator[Checkpoint | None]:
    """The checkpoint at a path, opened and locked for one call; None without a path."""
    if path is None:
        yield None
        return
    from fastquad.engine.checkpoint import Checkpoint

    with Checkpoint(path) as saved:
        yield saved


def _going_on(
    saved: Checkpoint,
    measurements: Measurements,
    start: Callable[[int, dict[str, Any] | None], Run],
    b: int,
    n_threads: int,
    blas_threads: bool,
) -> list[Solution]:
    """The solutions of b signals, resumed from the checkpoint."""
    runs = [saved.restored(partial(start, i), state) for i, state in enumerate(saved.states(b))]
    found = drive(measurements, runs, n_threads, saved, blas_threads=blas_threads)
    found = _with_bytes_read(found, saved.total_read)
    saved.finish(found)
    return found


def _with_bytes_read(solutions: list[Solution], count: int) -> list[Solution]:
    """The solutions, with the bytes read from disk in their messages."""
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
    from fastquad.solvers.parts.spectral import spectral_start  # like a method, loaded when it is used

    start = spectral_start(Y[0], n, phi, alpha=estimate, within=within, count=n // pair)
    x: Float = finish(measurements, start, threads.resolve(n_threads))[0]
    return complex_signal(x) if reading.complex else x


def measure(A: Any, x: ArrayLike, *, noise: float = 0.0, rng: Seed = None, n_threads: int | None = None) -> Number:
    """`y_i = x^T A_i x`, or `x^* A_i x` for complex signals, with Gaussian noise on request.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a .npy file, Measurements, AffineTensor or BilinearTensor
    x : array of shape (n,) or (b, n)
    noise : float
        The standard deviation of the noise; for complex y, that of the real and of the imaginary part.
    rng : int or numpy.random.Generator, optional
        For the noise.
    n_threads : int, optional

    Returns
    -------
    array of shape (m,) or (b, m)
        Real, unless A is an array of matrices that are not Hermitian and A or x are complex.

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> fq.measure(np.ones((2, 3, 3)), [1.0, 2.0, 3.0])
    array([36., 36.])
    """
    measurements = A if isinstance(A, AffineTensor | BilinearTensor) else as_measurements(A)
    x = arguments.array(x, "x")
    if x.ndim not in (1, 2) or x.shape[-1] != measurements.n or not x.size:
        raise ValueError(f"`x` must have shape ({measurements.n},) or (b, {measurements.n}), got {x.shape}.")
    sigma = arguments.number(noise, "noise")
    if not isinstance(measurements, Measurements) or not (measurements.complex or np.iscomplexobj(x)):
        y = np.ascontiguousarray(measurements.measure(x.T, n_threads=n_threads).T)
    else:
        y = complex_data(measurements, x, threads.resolve(n_threads))
    if not sigma:
        return y
    generator = arguments.generator(rng, default=None)
    if np.iscomplexobj(y):
        return y + sigma * generator.standard_normal((*y.shape, 2)).view(np.complex128)[..., 0]
    return y + sigma * generator.standard_normal(y.shape)


# -- checks that need to know the methods -----------------------------------------------------------------------


def _limits(max_iter: Any, max_passes: Any, max_time: Any, callback: Any, verbose: Any) -> Limits:
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be a function of the state, got {type(callback).__name__}.")
    if not isinstance(verbose, (int, np.integer)) or verbose < 0:
        raise ValueError(f"`verbose` must be 0, 1 or 2, got {verbose!r}.")
    return Limits(
        max_iter=None if max_iter is None else arguments.count(max_iter, "max_iter"),
        max_passes=None
        if max_passes is None
        else arguments.number(max_passes, "max_passes", positive=True, finite=False),
        max_time=None if max_time is None else arguments.number(max_time, "max_time", positive=True, finite=False),
        callback=callback,
        verbose=int(verbose),
    )


def _starts(x0: Any, Y: Float, n: int) -> Float | None:
    """x0 as (b, n)."""
    X0 = arguments.signals(x0, "x0", len(Y), n)
    if X0 is not None and (Y.any(axis=1) & ~X0.any(axis=1)).any():
        raise ValueError("`x0` must not be zero: no method can leave that point.")
    return X0


def _check_prior(prior: Any, n: int) -> None:
    if prior is None:
        return
    if not isinstance(prior, Prior):
        raise TypeError(f"`prior` must be a prior such as fastquad.Sparse(), or None, got {_name(prior)}.")
    prior.check(n)


def _intensities(A: Measurements, y: Float) -> bool:
    """Whether y may be intensities, or the amplitudes that some have in place of them."""
    whole = getattr(A, "inner", A)
    return bool(y.min() >= 0) and (isinstance(whole, RankOneTensor) or whole.by_transform)


def _says_little(prior: Prior | None, *, fixed: bool = False) -> bool:
    """Whether a prior says nothing about single coordinates; with `fixed`, nothing but the values of some."""
    if not isinstance(prior, Sparse):
        return prior is None
    if fixed and (prior.k is not None or prior.nonnegative or prior.basis is not None):
        return False
    given = (prior.support, None if fixed else prior.fixed, prior.groups, prior.partial)
    return all(each is None or each is False for each in given)


def _solver(method: Any, prior: Prior | None, fixed: bool) -> Solver:
    """The solver object, after checking that it can use this prior and the known values, if there are any."""
    solver = _named_solver(method, prior) if isinstance(method, str) else method
    if not isinstance(solver, Solver):
        raise TypeError(f"`method` must be a name or a solver object such as fastquad.TWF(), got {_name(method)}.")
    kind = "sparse" if prior is None else prior.kind
    if kind not in solver.priors and kind != "denoiser":
        came = "none" if prior is None else f"a {kind} one"
        raise ValueError(f"`method` {solver.name!r} needs a {' or '.join(solver.priors)} prior, got {came}.")
    if kind not in solver.priors or (prior is not None and not solver.uses.issuperset(prior.traits)):
        assert prior is not None
        lacking = [trait for trait in prior.traits if trait not in solver.uses]
        what = f"`{lacking[0]}`" if lacking else type(prior).__name__
        able = [name for name in METHODS if _takes(load(METHODS[name]), prior)]
        names = " and ".join(filter(None, [", ".join(map(repr, able[:-1])), repr(able[-1])]))
        raise ValueError(f"`method` must be able to use {what}, as {names} are, got {solver.name!r}.")
    if _whole_support(prior) and not solver.uses_support:
        raise ValueError(
            f"`method` must be able to use the known support, as 'lm', 'twf' and 'wf' are, got {solver.name!r}."
        )
    if fixed and not solver.uses_fixed:
        raise ValueError(
            f"`method` must be able to use known values of x, as 'auto' and 'lm' are, got {solver.name!r}."
        )
    return solver


def _check_verbs(solver: Solver, prior: Prior | None) -> None:
    """Raise where a method or a prior needs more of A than its functions."""
    needs = None if _says_little(prior) else f"`prior` {type(prior).__name__} is used by methods that need"
    if solver.name in METHODS and solver.name not in _BY_VERBS:
        needs = f"`method` {solver.name!r} needs"
    if needs:
        raise ValueError(
            f"{needs} the entries of A, and an OperatorTensor has none: use method='auto' or 'lm' without a prior, or "
            "form the matrices, fastquad.pack(A), with n calls of `measure` or more for each of their rows."
        )


def _whole_support(prior: Prior | None) -> bool:
    """Whether a prior gives all coordinates that may be nonzero."""
    return getattr(prior, "support", None) is not None and not getattr(prior, "partial", False)


def _takes(solver: type[Solver], prior: Prior) -> bool:
    """Whether a method uses all that a prior says."""
    return prior.kind in solver.priors and solver.uses.issuperset(prior.traits)


def _named_solver(name: str, prior: Prior | None) -> Solver:
    if name == "auto":
        if prior is not None and prior.kind == "generative":
            name = "latent"
        elif _whole_support(prior):
            # With the support known there is nothing left to search for.
            name = "lm"
    return by_name(name)()


def _name(value: Any) -> str:
    """The name of a value in an error: the class itself, or an object of it."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


#: Names of options in other libraries, and what they are called here.
_ELSEWHERE = (
    dict.fromkeys(("k", "sparsity", "n_nonzero_coefs"), "prior=fastquad.Sparse(k=...)")
    | dict.fromkeys(("seed", "random_state", "random_seed"), "rng=...")
    | dict.fromkeys(("n_jobs", "num_threads", "threads", "workers"), "n_threads=...")
    | dict.fromkeys(("maxiter", "max_iters", "n_iter", "iterations"), "max_iter=...")
    | dict.fromkeys(("sigma", "noise_std", "noise_level"), "noise=...")
    | dict.fromkeys(("init", "x_init", "start", "initial"), "x0=...")
    | dict.fromkeys(("solver", "algorithm"), "method=...")
    | {
        "support": "prior=fastquad.Sparse(support=...)",
        "decoder": "prior=fastquad.Generative(...)",
        "nonnegative": "prior=fastquad.Sparse(nonnegative=True)",
        "dtype": "fastquad.pack(A, dtype=...) as A",
        "progress": "fastquad.set_progress(...)",
    }
)


def _unknown_option(option: str) -> str:
    if option in _ELSEWHERE:
        return f"solve() has no option `{option}`: give `{_ELSEWHERE[option]}`."
    known = [p.name for p in inspect.signature(solve).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in METHODS:
        cls = load(METHODS[name])
        if option in inspect.signature(cls).parameters:
            place = "" if cls.__name__ in ("AMP", "LM", "TWF", "Pursuit") else "methods."
            example = f"method=fastquad.{place}{cls.__name__}({option}=...)"
            return f"solve() has no option `{option}`, which belongs to the method: `{example}`."
    return f"solve() has no option `{option}`{arguments.nearest(option, known)}"
