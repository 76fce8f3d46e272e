"""The public functions `solve` and `measure`: check all arguments, then make one call."""

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
from fastquad.engine.cost import seconds
from fastquad.engine.driver import drive
from fastquad.engine.problem import Problem
from fastquad.engine.run import Limits, Run
from fastquad.engine.steps import End, Outcome, State, Steps
from fastquad.measurements.base import Measurements
from fastquad.noise import Noise, as_noise
from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Prior
from fastquad.priors.sparse import Sparse
from fastquad.reductions import Given, reduced
from fastquad.solution import Solution, changed
from fastquad.solvers import METHODS, Method, by_name, load
from fastquad.solvers.base import Solver
from fastquad.status import noted
from fastquad.system import threads
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
                from fastquad.options import unknown

                raise TypeError(unknown(option, known))
        return function(*args, **options)

    return call


@_explained
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
        An initial guess, in place of the method's own start.
    norm : float or array of shape (b,), optional
        The norm ‖x‖, if you know it.
    noise : float, array of shape (m,), or object of `fastquad.noise`, optional
        The standard deviation of the noise in y: one for all measurements, or one for each. 0 means that there is none.
        An object such as `fastquad.noise.Poisson()` describes other noise. Default: the level is estimated.
    outliers : bool
        Whether some measurements may be arbitrarily wrong; `Solution.outliers` then lists those that contradict x.
    tol : float
        The relative residual ‖r‖/‖y‖, with `r_i = x^T A_i x − y_i`, below which a method has converged.
    max_iter : int, optional
        The largest number of steps. Default: that of the method.
    max_passes : float, optional
        The largest number of passes over A. Without it the default method ends by itself, after tens of passes, or
        a few hundred if nothing is found. With it, or with `noise=0`, it searches longer.
    max_time : float, optional
        The number of seconds after which no further step is begun. The verdict may take a little longer: a quarter of
        it, and a second at least.
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
    One rule decides which answers are a success, whatever the method. The pages "It did not work" and "What success
    means" list the statuses and what they rest on.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=100, n=60, k=5, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> solution.success, bool(fq.distance(solution.x, problem.x) < 1e-6)
    (True, True)
    """
    return _answer(
        Given(
            A, y, prior=prior, method=method, signal=signal, x0=x0, norm=norm, noise=noise, outliers=outliers, tol=tol,
            max_iter=max_iter, max_passes=max_passes, max_time=max_time, callback=callback, x_true=x_true,
            memory=memory, checkpoint=checkpoint, n_threads=n_threads, rng=rng, verbose=verbose,
        )
    )  # fmt: skip


def _answer(given: Given) -> Solution:
    """The answer to a call of `solve`: said as the problem that the solvers know, found, and said as it was asked."""
    A = _measurements(given.A, given.memory)
    given = given if A is given.A else replace(given, A=A)
    lacking = [f"`{name}`" for name in ("m", "n", "dtype") if not hasattr(given.A, name)]
    if lacking:
        raise TypeError(f"`A` must have `m`, `n` and `dtype`: set {' and '.join(lacking)} of {type(given.A).__name__}.")
    posed, chain = reduced(given)

    def said(found: list[Solution]) -> Any:
        for reduction in reversed(chain):
            found = [reduction.solution(each, i) for i, each in enumerate(found)]
        if np.ndim(given.y) < 2:
            return found[0]
        from fastquad.batch import SolutionBatch

        return SolutionBatch(found)

    # Claim a Solution: a type checker cannot see from the shape of y that it is a batch, and `Solution` has an index
    # for it.
    return cast(Solution, changed(lambda: _found(posed), said))


def _measurements(A: Any, memory: Any = None) -> Any:
    """A as measurements; the terms of an AffineTensor or a BilinearTensor, which are no matrices yet, as they are."""
    if (isinstance(A, Measurements) and memory is None) or hasattr(type(A), "lifted") or hasattr(type(A), "balanced"):
        return A
    from fastquad.measurements.convert import as_measurements

    return as_measurements(A, memory=memory)


def _found(given: Given) -> list[Solution]:
    """The answers to a problem that no reduction changes any more."""
    with _checkpoint(given.checkpoint) as saved:
        if given.memory is None and saved is not None and saved.memory is not None:
            # The same budget, for the same bits.
            given = replace(given, A=_measurements(given.A, saved.memory), memory=saved.memory)
        call = _Checked(given)
        A, b = call.A, len(call.Y)
        if saved is None or not call.Y.any():
            read = A.bytes_read
            runs = [call.run(i, None) for i in range(b)]
            find = partial(drive, A, runs, call.n_threads, blas_threads=call.blas_threads)
            return changed(find, lambda found: call.told(_with_bytes_read(found, A.bytes_read - read)))
        saved.begin(call.identity(), call.room, A.nbytes, lambda: A.bytes_read)
        return changed(lambda: saved.solutions() or _going_on(saved, call), call.told)


class _Checked:
    """The arguments of a call, checked, and the runs that they make."""

    def __init__(self, given: Given) -> None:
        A, prior = given.A, given.prior
        _check_prior(prior, A.n)
        if prior is not None and A.shape_of_x is not None:
            prior = prior.shaped(A.shape_of_x)
            given = replace(given, prior=prior)
        self.given, self.A, self.room = given, A, given.room
        self.Y, self.batch = arguments.data(given.y, A.m)
        b = len(self.Y)
        self.fixed = {**(getattr(prior, "fixed", None) or {}), **A.fixed}
        self.alone = None if A.groups is None else Groups(A.groups)
        self.groups = self.alone
        if self.groups is not None and isinstance(prior, Sparse):
            self.groups = prior.grouping(A.n) or self.groups  # the user's groups, each with Re and Im of its entries
        self.solver = _solver(given.method, prior, bool(self.fixed), A.by_transform)
        if A.only_verbs:
            _check_verbs(self.solver, prior)
        self.X0 = _starts(given.x0, self.Y, A.n)
        self.X_true = arguments.signals(given.x_true, "x_true", b, A.n)
        self.norms = arguments.norms(given.norm, b)
        self.symmetry = A.symmetry if _says_little(prior) else ""
        self.noise = as_noise(given.noise, A.m, given.outliers)
        for each in self.Y:
            self.noise.check(each)
        if np.any(self.noise.background):
            background = self.noise.background
            self.Y, self.noise = self.Y - background, self.noise.shifted(background, 0.0)
        self.tol = arguments.number(given.tol, "tol")
        self.limits = _limits(given, self.solver)
        self.rngs = arguments.generators(given.rng, b)
        self.blas_threads = self.solver.uses_blas(prior)
        self.n_threads = threads.resolve(given.n_threads)

    def posed(
        self, i: int, prior: Prior | None, groups: Groups | None, solver: Solver, resume: dict[str, Any] | None = None
    ) -> tuple[Problem, Steps]:
        """The problem of the i-th signal, and the method on it."""
        A, y, noise, little = self.A, self.Y[i], self.noise, _says_little(prior)
        problem = Problem(
            m=A.m, n=A.n, y=y, dtype=A.dtype, prior=None if prior is None else prior.seeded(self.rngs[i]()),
            x0=None if self.X0 is None else self.X0[i], norm=self.norms[i], noise=noise, tol=self.tol,
            random=self.rngs[i], memory=self.room, resume=resume,
            fixed=self.fixed, bilinear=A.bilinear, groups=groups, gauge=A.gauge, max_passes=self.limits.max_passes,
            by_transform=A.by_transform, movable=A.by_transform and "×" in A.symmetry,
            by_verbs=A.by_verbs and not (noise.robust or noise.reweighs) and _says_little(prior, fixed=True),
            gram=A.gram_kind, matrix_free=A.matrix_free and little and not self.fixed and not noise.reweighs,
            only_verbs=A.only_verbs, price=partial(seconds, A),
        )  # fmt: skip
        if not y.any() and getattr(prior, "fixed", None):
            raise ValueError("`y` must not be all zero if values of x are fixed.")
        steps = solver.steps(problem) if y.any() else _nothing_to_find(problem)
        if not noise.positive:
            return problem, steps
        from fastquad.engine.positive import refusing

        return problem, refusing(problem, steps)

    def run(self, i: int, resume: dict[str, Any] | None) -> Run:
        """The solve of the i-th signal."""
        given, prior, solver = self.given, self.given.prior, self.solver
        problem, steps = self.posed(i, prior, self.groups, solver, resume)
        call = Call(
            "auto" if given.automatic else solver.name, prior is not None, given.x0 is not None,
            self.noise.given, given.norm is not None, bool(given.outliers),
            intensities=self.A.intensities and bool(self.Y[i].min() >= 0),
        )  # fmt: skip
        free = None
        if given.automatic and not _says_little(prior, fixed=True) and prior is not None and not prior.decoded:
            left = Sparse(fixed=prior.fixed) if isinstance(prior, Sparse) and prior.fixed else None
            free = partial(self.posed, i, left, self.alone, by_name("auto")())
        x = None if self.X_true is None else self.X_true[i]
        return Run(
            problem, steps, solver.name, self.limits, x_true=x, signal=i if self.batch else None, call=call,
            without_prior=free,
        )  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to."""
        from fastquad.engine.digest import Sampled

        prior = self.given.prior
        return {
            "A": self.A._identity(), "y": self.Y, "prior": None if prior is None else Sampled(prior, self.A.n),
            "method": (self.solver.name, self.solver), "x0": self.X0, "norm": self.norms, "noise": self.noise,
            "tol": self.tol, "rng": [each().bit_generator.state for each in self.rngs],
        }  # fmt: skip

    def told(self, found: list[Solution]) -> list[Solution]:
        """The answers, with all that leaves the measurements as they are."""
        if not self.symmetry:
            return found
        if self.A.by_transform:
            said = "up to sign" + self.symmetry
            found = [replace(each, message=each.message.replace("up to sign", said)) for each in found]
        return [replace(each, gauge=each.gauge + self.symmetry) for each in found]


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


def _going_on(saved: Checkpoint, call: _Checked) -> list[Solution]:
    """The solutions of all signals, resumed from the checkpoint."""
    runs = [saved.restored(partial(call.run, i), state) for i, state in enumerate(saved.states(len(call.Y)))]
    found = drive(call.A, runs, call.n_threads, saved, blas_threads=call.blas_threads)
    found = _with_bytes_read(found, saved.total_read)
    saved.finish(found)
    return found


def _with_bytes_read(solutions: list[Solution], count: int) -> list[Solution]:
    """The solutions, with the bytes read from disk in their messages."""
    if not count:
        return solutions
    said = f"{count / 1e9:.3g} GB were read from disk."
    return [replace(solution, message=noted(solution.message, said)) for solution in solutions]


def measure(A: Any, x: ArrayLike, *, noise: float = 0.0, rng: Seed = None, n_threads: int | None = None) -> Number:
    """The measurements `y_i = x^T A_i x`, or `x^* A_i x` of complex signals, with Gaussian noise on request.

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
    measurements = _measurements(A)
    x = arguments.array(x, "x")
    if x.ndim not in (1, 2) or x.shape[-1] != measurements.n or not x.size:
        raise ValueError(f"`x` must have shape ({measurements.n},) or (b, {measurements.n}), got {x.shape}.")
    sigma = arguments.number(noise, "noise")
    if not isinstance(measurements, Measurements) or not (measurements.complex or np.iscomplexobj(x)):
        y = np.ascontiguousarray(measurements.measure(x.T, n_threads=n_threads).T)
    else:
        from fastquad.reductions.complex import complex_data

        y = complex_data(measurements, x, threads.resolve(n_threads))
    if not sigma:
        return y
    generator = arguments.generator(rng, default=None)
    if np.iscomplexobj(y):
        return y + sigma * generator.standard_normal((*y.shape, 2)).view(np.complex128)[..., 0]
    return y + sigma * generator.standard_normal(y.shape)


# -- checks that need to know the methods -----------------------------------------------------------------------


def _limits(given: Given, solver: Solver) -> Limits:
    callback, verbose = given.callback, given.verbose
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` must be a function of the state, got {type(callback).__name__}.")
    if not isinstance(verbose, (int, np.integer)) or verbose < 0:
        raise ValueError(f"`verbose` must be 0, 1 or 2, got {verbose!r}.")
    steps = solver.max_iter if given.max_iter is None else arguments.count(given.max_iter, "max_iter")
    most = {
        name: None if value is None else arguments.number(value, name, positive=True, finite=False)
        for name, value in (("max_passes", given.max_passes), ("max_time", given.max_time))
    }
    return Limits(max_iter=steps, **most, callback=callback, verbose=int(verbose))


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


def _says_little(prior: Prior | None, *, fixed: bool = False) -> bool:
    """Whether a prior says nothing about single coordinates; with `fixed`, nothing but the values of some."""
    if not isinstance(prior, Sparse):
        return prior is None
    if fixed and (prior.k is not None or prior.nonnegative or prior.basis is not None):
        return False
    given = (prior.support, None if fixed else prior.fixed, prior.groups, prior.partial)
    return all(each is None or each is False for each in given)


def _solver(method: Any, prior: Prior | None, fixed: bool, by_transform: bool) -> Solver:
    """The solver object, after checking that it can use this prior and the known values, if there are any."""
    solver = _named_solver(method, prior, by_transform) if isinstance(method, str) else method
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
    if _whole_support(prior) and not (solver.uses_support or (by_transform and solver.name == "auto")):
        raise ValueError(
            f"`method` must be able to use the known support, as 'lm', 'twf' and 'wf' are, got {solver.name!r}."
        )
    if fixed and not solver.uses_fixed:
        raise ValueError(
            f"`method` must be able to use known values of x, as 'auto' and 'lm' are, got {solver.name!r}."
        )
    return solver


def _check_verbs(solver: Solver, prior: Prior | None) -> None:
    """Raise if a method or a prior needs more of A than its functions."""
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


def _named_solver(name: str, prior: Prior | None, by_transform: bool) -> Solver:
    if name == "auto":
        if prior is not None and prior.kind == "generative":
            name = "latent"
        elif _whole_support(prior) and not by_transform:
            # With the support known there is nothing left to search for.
            name = "lm"
    return by_name(name)()


def _name(value: Any) -> str:
    """The name of a value in an error: the class itself, or an object of it."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
