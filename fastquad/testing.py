"""Check measurements, priors and noise models of your own: whether what they say agrees with itself.

The objective `f(x) = Σ_i (x^T Ã_i x − y_i)²/(4m)` is a quartic along every line, so the difference quotient

    f'(0) = (f(−2h) − 8 f(−h) + 8 f(h) − f(2h)) / (12 h)

is exact for any h, and differs from the gradient `W^T r / m` only by rounding. The other contractions are compared with
the matrices themselves, or with `products`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.measurements import Measurements, as_measurements
from fastquad.measurements.contractions import Along, Block, Diagonals, Gradient, Gram, Products, Rows
from fastquad.measurements.views import RealView
from fastquad.noise import Noise, from_dict
from fastquad.priors.base import Prior
from fastquad.reductions.complex import interleaved
from fastquad.solution import Solution
from fastquad.typing import Float, Number

# Directions in which the gradient is compared, coordinates on which parts of A are.
_N_DIRECTIONS = 3
_N_COORDINATES = 5


@dataclass(frozen=True)
class PriorCheck:
    """What `check_prior` found.

    Attributes
    ----------
    problems : list of str
        The problems that were found, a sentence for each.
    remarks : list of str
        What a method will do with the prior that you may not expect, a sentence for each. These are no problems.
    ok : bool
        Whether there are no problems.

    Examples
    --------
    >>> import fastquad as fq
    >>> check = fq.testing.check_prior(fq.Sparse(nonnegative=True), n=20)
    >>> check.ok, check.problems
    (True, [])
    """

    problems: list[str]
    remarks: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def check_prior(prior: Prior, n: int, *, rng: Any = None) -> PriorCheck:
    """Check whether a prior of your own does what AMP expects of it.

    Its `denoise(b, a)` must return finite arrays of shape (n,) without negative variances, and be the posterior of some
    prior: the derivative of E x_j with respect to b_j is then Var x_j, which is compared with difference quotients.

    Parameters
    ----------
    prior : fastquad.Prior
    n : int
        The length of the signals to try it on.
    rng : int or numpy.random.Generator, optional
        For the inputs that it is tried on; without one, a fixed seed is used.

    Returns
    -------
    PriorCheck

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.testing.check_prior(fq.PiecewiseConstant(), n=20).ok
    True
    """
    if not isinstance(prior, Prior):
        raise TypeError(f"`prior` must be a fastquad.Prior, got {type(prior).__name__}.")
    n = arguments.count(n, "n")
    generator = arguments.generator(rng, default=0)
    problems: list[str] = []
    for a in (0.3, 3.0, 30.0):
        x = generator.standard_normal(n)
        b = a * x + np.sqrt(a) * generator.standard_normal(n)
        problems += _posterior_problems(prior, b, a)
    near = np.asarray(prior.nearest(generator.standard_normal(n)))
    if near.shape != (n,) or not np.isfinite(near).all():
        problems.append(f"nearest(x) must be finite and of shape ({n},).")
    elif not prior.admits(near):
        problems.append("admits(x) must be True for what nearest gives.")
    return PriorCheck(list(dict.fromkeys(problems)), [] if problems else _remarks(prior, n, generator))


def _remarks(prior: Prior, n: int, rng: np.random.Generator) -> list[str]:
    """What AMP will do after its last sweep, if that is not what the posterior suggests."""
    a = 1e6  # hardly any noise: what is left of the posterior is the set of signals that the prior knows
    posterior = prior.denoiser(n, 0.3, float(n)).denoise(a * rng.standard_normal(n), a)
    values = np.unique(np.round(posterior.mean, 6))
    found = []
    if values.size <= max(2, n // 4) and not prior.rounds:
        found.append(
            f"denoise(b, a) gives {values.size} values if there is little noise, and `rounds` is False: after its "
            "last sweep AMP fits the coordinates to the data, and does not round them. Set `rounds = True` and define "
            "`nearest(x)`; with `alphabet` the verdict can count the signals."
        )
    elif not prior.rounds and prior.kind == "denoiser" and (posterior.weight == 1).all():
        found.append(
            "denoise(b, a) gives no P(x_j ≠ 0), or 1 everywhere: after its last sweep AMP fits all n coordinates to "
            "the data, which takes more than n measurements."
        )
    return found


def _posterior_problems(prior: Prior, b: Float, a: float) -> list[str]:
    """What is wrong with the posterior at b."""
    n = b.size
    try:
        posterior = prior.denoiser(n, 0.3, float(n)).denoise(b, a)
    except ValueError as error:
        return [str(error)]
    found = []
    if np.min(posterior.variance) < 0:
        found.append("denoise(b, a) must not give a negative variance.")
    if np.min(posterior.weight) < 0 or np.max(posterior.weight) > 1 + 1e-9:
        found.append("denoise(b, a) must give weights between 0 and 1.")
    step = 1e-4 * np.sqrt(a)
    for j in range(0, n, max(1, n // 8)):
        ends = [prior.denoiser(n, 0.3, float(n)).denoise(b + side * np.eye(n)[j], a).mean[j] for side in (step, -step)]
        slope, variance = (ends[0] - ends[1]) / (2 * step), float(posterior.variance[j])
        if abs(slope - variance) > 1e-3 * (abs(slope) + variance) + 1e-7:
            found.append(
                "denoise(b, a) must be a posterior: the derivative of the mean by b is the variance, here they are "
                f"{slope:.3g} and {variance:.3g}."
            )
            break
    return found


@dataclass(frozen=True)
class NoiseCheck(PriorCheck):
    """What `check_noise` found: `problems`, a sentence for each, and `ok`.

    Examples
    --------
    >>> import fastquad as fq
    >>> check = fq.testing.check_noise(fq.noise.Poisson(), [3.0, 10.0, 40.0], rng=0)
    >>> check.ok, check.problems
    (True, [])
    """


def check_noise(noise: Noise, z: ArrayLike, *, y: ArrayLike | None = None, rng: Any = None) -> NoiseCheck:
    """Check whether the verbs of a noise model of your own agree with each other.

    `score` is compared with difference quotients of `log_likelihood`. `weight` must be positive, `explains` a
    probability, and `rows` the same noise of some measurements. `learn` must not lower the likelihood, and `to_dict` be
    plain data of which the model is made again.

    Parameters
    ----------
    noise : fastquad.noise.Noise
        With all its parameters given, unless `y` is: then they are learnt.
    z : array of shape (m,)
        Signals, `x^* A_i x`, at which it is tried.
    y : array of shape (m,), optional
        Data that it can have left; without it, signals disturbed by numbers of the model's own `deviations`.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    NoiseCheck

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> fq.testing.check_noise(fq.noise.Poisson(read=0.5), np.linspace(1, 20, 40)).ok
    True
    """
    if not isinstance(noise, Noise):
        raise TypeError(f"`noise` must be a fastquad.noise.Noise, got {type(noise).__name__}.")
    z = arguments.real_array(z, "z")
    generator = arguments.generator(rng, default=0)
    problems: list[str] = []
    if y is None:
        if not noise.given:
            raise ValueError("`y` must be given if the model has parameters to learn.")
        y = z + noise.deviations(z, z) * generator.uniform(-1, 1, z.size)
    data = arguments.real_array(y, "y")
    learnt = noise.learn(data, z, 0.0)
    if float(np.sum(learnt.log_likelihood(data, z))) < float(np.sum(noise.log_likelihood(data, z))) - 1e-9 * z.size:
        problems.append("learn(y, z, 0) must not lower the likelihood of y.")
    problems += _likelihood_problems(learnt, data, z)
    some = np.arange(0, z.size, 2)
    parts = learnt.sound.rows(some).score(data[some], z[some])
    if not np.allclose(parts, learnt.sound.score(data, z)[some], equal_nan=True):
        problems.append("rows(some) must be the noise of these measurements: their scores are others.")
    if not 0 <= learnt.explains(data, z, 0.0) <= 1:
        problems.append(f"explains(y, z, freedom) must be between 0 and 1, got {learnt.explains(data, z, 0.0)}.")
    if from_dict(json.loads(json.dumps(learnt.to_dict()))) != learnt:
        problems.append("to_dict() must be plain data, of which the same model is made again.")
    return NoiseCheck(problems)


def _likelihood_problems(noise: Noise, y: Float, z: Float) -> list[str]:
    """What is wrong with score, weight and downweight."""
    found = []
    for name in ("log_likelihood", "score", "weight", "downweight", "soundness"):
        values = getattr(noise, name)(y, z)
        if np.shape(values) != z.shape or not np.isfinite(values).all():
            return [f"{name}(y, z) must be finite and of shape {z.shape}, got shape {np.shape(values)}."]
        if name in ("weight", "downweight") and not np.min(values) > 0:
            found.append(f"{name}(y, z) must be positive.")
    step = 1e-4 / np.sqrt(noise.weight(y, z))
    ends = [noise.log_likelihood(y, z + side * step) for side in (1.0, -1.0, 2.0, -2.0)]
    slope = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * step)
    score, size = noise.score(y, z), np.sqrt(noise.weight(y, z))
    worst = int(np.argmax(np.abs(score - slope) / (size + np.abs(score))))
    if abs(score[worst] - slope[worst]) > 1e-5 * (size[worst] + abs(score[worst])):
        found.append(
            "score(y, z) must be the derivative of log_likelihood(y, z) by z, here they are "
            f"{score[worst]:.6g} and {slope[worst]:.6g}."
        )
    return found


@dataclass(frozen=True)
class GradientCheck:
    """What `check_gradient` found.

    Attributes
    ----------
    errors : dict of float
        For the gradient and for each contraction, the largest error relative to the largest value.
    tol : float
        The largest error that counts as agreement.
    ok : bool
        Whether every error is at most `tol`.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=8, n=5, rng=0)
    >>> check = fq.testing.check_gradient(problem.A)
    >>> check.ok, max(check.errors.values()) <= check.tol
    (True, True)
    """

    errors: dict[str, float]
    tol: float

    @property
    def ok(self) -> bool:
        return all(error <= self.tol for error in self.errors.values())


def check_gradient(A: Any, x: ArrayLike | None = None, *, tol: float = 1e-6, rng: Any = None) -> GradientCheck:
    """Compare the gradient with difference quotients of the objective, and the contractions with each other.

    For measurements of your own (a subclass of `fastquad.Measurements`): run it once, on a small case. It reads A a few
    dozen times, also through `matrices`.

    Parameters
    ----------
    A : Measurements, array of shape (m, n, n), or path of a .npy file
    x : array of shape (n,), optional
        The point of comparison; default: a random one. Complex A are compared in real coordinates.
    tol : float
        The largest relative error that counts as agreement.
    rng : int or numpy.random.Generator, optional
        For the point and the directions; without one, a fixed seed is used.

    Returns
    -------
    GradientCheck

    Examples
    --------
    >>> import fastquad as fq
    >>> report = fq.testing.check_gradient(fq.problems.gaussian(m=8, n=5, rng=0).A)
    >>> report.ok, sorted(report.errors)[:3]
    (True, ['adjoint', 'along', 'along several'])
    """
    measurements = as_measurements(A)
    tol = arguments.number(tol, "tol")
    generator = arguments.generator(rng, default=0)
    if measurements.complex:  # in real coordinates, Re and Im in turn
        measurements = RealView(measurements)
        x = None if x is None else interleaved(x, "x", measurements.n // 2)
    n = measurements.n
    X = arguments.signals(x, "x", 1, n)
    point = generator.standard_normal(n) if X is None else X[0]
    errors = {"gradient": _gradient_error(measurements, point, generator)}
    errors |= _contraction_errors(measurements, point, generator)
    return GradientCheck(errors, tol)


@dataclass(frozen=True)
class ProofCheck:
    """What `check_proof` found. All numbers are relative. If the proof holds, all but `margin` are rounding errors.

    Attributes
    ----------
    margin : float
        The least eigenvalue of S off x, in units of the proof's own.
    kernel : float
        `‖S x‖`, relative to `‖S‖ ‖x‖`.
    misfit : float
        The largest `|x^* Ã_i x − y_i|`, relative to `‖Ã_i‖ ‖x‖²`.
    tol : float
        The largest `kernel` and `misfit`, and the share of the margin that may be missing.
    ok : bool
        Whether the proof holds.

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> problem = fq.problems.gaussian(m=40, n=10, k=10, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, norm=np.linalg.norm(problem.x))
    >>> check = fq.testing.check_proof(problem.A, problem.y, solution)
    >>> check.ok, check.kernel < 1e-12
    (True, True)
    """

    margin: float
    kernel: float
    misfit: float
    tol: float

    @property
    def ok(self) -> bool:
        return 1 - self.margin <= self.tol and self.kernel <= self.tol and self.misfit <= self.tol


def check_proof(
    A: Any, y: ArrayLike, solution: Solution, *, basis: ArrayLike | None = None, tol: float = 1e-6
) -> ProofCheck:
    """Check a proof again, with NumPy alone: S from the matrices, and its eigenvalues.

    `S = identity·I + Σ μ_i Ã_i` must have `S x = 0` and no other eigenvalue below the margin of the proof, and x must
    fit y. Then every z with the same measurements (and the same norm, if the identity has a weight) has
    `z^* S z = x^* S x = 0`, so that it is a multiple of x. All matrices are in memory at once.

    Parameters
    ----------
    A, y
        As they were given to `solve`, for one signal.
    solution : Solution
        With a `proof` of the kind "dual" or "lifting".
    basis : array of shape (n, p), optional
        The matrix that was given as `fastquad.Sparse(basis=...)`: the proof is among the signals in its range.
    tol : float
        What counts as rounding.

    Returns
    -------
    ProofCheck

    Raises
    ------
    AssertionError
        If the proof does not hold, with the numbers.
    ValueError
        If there is no proof with weights.

    Examples
    --------
    >>> import fastquad as fq
    >>> import numpy as np
    >>> problem = fq.problems.gaussian(m=40, n=10, k=10, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, norm=np.linalg.norm(problem.x))
    >>> fq.testing.check_proof(problem.A, problem.y, solution).ok
    True
    """
    proof, x = solution.proof, np.asarray(solution.x)
    if proof is None or proof.weights is None:
        kind = "no proof" if proof is None else f"one by {proof.kind}, which is checked by making it again"
        raise ValueError(f"`solution` must have a proof with weights, got {kind}.")
    matrices, y = np.asarray(_matrices(A)), np.asarray(y)
    if np.iscomplexobj(y) and len(proof.weights) == 2 * len(y):  # Re y and Im y in turn
        matrices, y = np.stack([matrices, -1j * matrices], axis=1).reshape(-1, *matrices.shape[1:]), y.view(np.float64)
    H, y = (matrices + matrices.conj().transpose(0, 2, 1)) / 2, y.real
    H = H.real if np.isrealobj(x) else H
    if basis is not None:
        D = np.asarray(basis)
        H, x = D.conj().T @ H @ D, np.linalg.lstsq(D, x, rcond=None)[0]
    square, sizes = float(np.vdot(x, x).real), np.linalg.norm(H, axis=(1, 2))
    if square == 0 or not y.any():
        raise AssertionError("the proof does not hold: it says nothing of x = 0 or y = 0.")
    S = proof.identity * np.eye(len(x)) + np.tensordot(proof.weights, H, axes=1)
    values = np.linalg.eigvalsh(S)
    # In noise the proof bounds the distance of other signals; what x leaves is no part of it.
    exact = solution.status == "PROVEN"
    misfit = exact * np.abs(np.einsum("ijk,j,k->i", H, x.conj(), x).real - y) / np.where(sizes > 0, sizes * square, 1.0)
    margin = float(values[1] / proof.margin) if len(x) > 1 else 1.0
    kernel = float(np.linalg.norm(S @ x) / np.linalg.norm(S) / square**0.5)
    found = ProofCheck(margin, kernel, float(misfit.max()), arguments.number(tol, "tol"))
    if not (found.ok and values[0] >= -found.tol * values[-1]):
        raise AssertionError(f"the proof does not hold: {found}.")
    return found


def _matrices(A: Any) -> Number:
    """The matrices of A as an array, (m, n, n)."""
    if isinstance(A, np.ndarray):
        return A
    measurements = as_measurements(A)
    return measurements.matrices(0, measurements.m)


def check_measurements(A: Any, *, tol: float = 1e-6, rng: Any = None) -> GradientCheck:
    """Run the conformance suite on measurements of your own; an error lists everything that fails.

    Every solver works with measurements that pass: contractions agree with the matrices and with each other
    (`check_gradient`), have the right shapes and dtypes, do not modify their arguments, give the same bits again and on
    any number of threads, and have a cost between zero and a few passes.

    Parameters
    ----------
    A : Measurements
        A small case, of a few measurements of at least two unknowns: all of A is read dozens of times.
    tol : float
        The largest relative error that counts as agreement.
    rng : int or numpy.random.Generator, optional
        For the points at which contractions are compared; without one, a fixed seed is used.

    Returns
    -------
    GradientCheck
        The errors that were found, all of them at most `tol`.

    Raises
    ------
    AssertionError
        If a check fails, with all that fail.

    Examples
    --------
    >>> import fastquad as fq
    >>> A = fq.RankOneTensor(fq.problems.gaussian(m=12, n=5, rng=0).A[:, 0])
    >>> fq.testing.check_measurements(A).ok
    True
    """
    if not isinstance(A, Measurements):
        raise TypeError(f"`A` must be Measurements, got {type(A).__name__}.")
    generator = arguments.generator(rng, default=0)
    if A.complex:
        A = RealView(A)
    found = check_gradient(A, tol=tol, rng=generator)
    wrong = [f"{name}: relative error {error:.1e}" for name, error in found.errors.items() if not error <= found.tol]
    wrong += _wrong_attributes(A)
    for name, *given in _calls(A, generator):
        wrong += _wrong_call(A, name, given)
    wrong += _wrong_costs(A, generator)
    if wrong:
        raise AssertionError(f"{type(A).__name__} does not conform:\n  " + "\n  ".join(wrong))
    return found


def _wrong_attributes(A: Measurements) -> list[str]:
    """Problems with m, n and dtype."""
    wrong = [f"`{name}` must be a positive int" for name in ("m", "n") if not _is_count(getattr(A, name, None))]
    if not isinstance(getattr(A, "dtype", None), np.dtype):
        wrong.append("`dtype` must be a numpy.dtype")
    if A.shape != (A.m, A.n, A.n) or len(A) != A.m:
        wrong.append("`shape` must be (m, n, n), and len m")
    return wrong


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _calls(A: Measurements, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Each contraction with its arguments, for one signal and for two."""
    m, n = A.m, A.n
    some = np.sort(rng.permutation(n)[:_N_COORDINATES])
    found: list[tuple[Any, ...]] = [("diagonals",), ("rows", some), ("block", some)]
    for shape in ((), (2,)):
        x, v, w = rng.standard_normal((n, *shape)), rng.random((n, *shape)), rng.standard_normal((m, *shape))
        found += [("products", x), ("measure", x), ("weighted_sum", w), ("sweep", x, v, w)]
    x, v, w, d = rng.standard_normal(n), rng.standard_normal((n, 2)), rng.standard_normal(m), rng.random(m)
    found += [("along", x, v), ("gradient", x, w), ("gram", x, d, w)]
    return [*found, ("compress", rng.standard_normal((n, 2)))]


def _wrong_call(A: Measurements, name: str, given: list[Any]) -> list[str]:
    """Problems with one contraction: modified arguments, a wrong dtype, bits that change."""
    before = [each.copy() for each in given]
    contraction = getattr(A, name)
    first, again, threaded = (contraction(*given, n_threads=count) for count in (1, 1, 3))
    wrong = []
    if not all(np.array_equal(a, b) for a, b in zip(before, given, strict=True)):
        wrong.append(f"{name} writes to what it is given")
    for what, other in (("a second call", again), ("three threads", threaded)):
        pairs = zip(_parts(first), _parts(other), strict=True)
        if not all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs):
            wrong.append(f"{name} gives other bits for {what}")
    if any(part.dtype.kind not in "fc" for part in _parts(first)):
        wrong.append(f"{name} must give floats")
    if name == "gram" and _is_sparse(first[0]) != (A.gram_kind == "sparse"):
        wrong.append(f"gram must give what `gram_kind` says, {A.gram_kind!r}")
    return wrong


def _wrong_costs(A: Measurements, rng: np.random.Generator) -> list[str]:
    """Costs that are not a plausible number of passes."""
    some = np.arange(min(2, A.n))
    x, w = rng.standard_normal(A.n), rng.standard_normal(A.m)
    asked = [Products(x), Diagonals(), Rows(some), Block(some, some), Along(x, x), Gradient(x, w), Gram(x, w, w)]
    costs = {type(request).__name__: request.cost(A) for request in asked}
    return [
        f"the cost of {name} must be between 0 and 4 passes, is {c}" for name, c in costs.items() if not 0 <= c <= 4
    ]


def _parts(answer: Any) -> tuple[Float, ...]:
    parts = answer if isinstance(answer, tuple) else (answer,)
    return tuple(part.toarray() if _is_sparse(part) else part for part in parts)


def _is_sparse(part: Any) -> bool:
    """Whether an answer is a sparse matrix."""
    return hasattr(part, "toarray")


def _gradient_error(A: Measurements, x: Float, rng: np.random.Generator) -> float:
    y = A.measure(rng.standard_normal(A.n))

    def f(z: Float) -> float:
        return float(np.sum((A.measure(z) - y) ** 2)) / (4 * A.m)

    W = A.products(x)
    gradient = (W @ x - y) @ W / A.m
    h = 0.5 * float(np.linalg.norm(x)) or 1.0
    worst = 0.0
    for _ in range(_N_DIRECTIONS):
        d = rng.standard_normal(A.n)
        d /= np.linalg.norm(d)
        values = np.array([f(x + t * h * d) for t in (-2, -1, 1, 2)])
        slope = float(values @ np.array([1.0, -8.0, 8.0, -1.0])) / (12 * h)
        # Allow for the rounding of f, which the quotient divides by h.
        scale = max(abs(slope), float(np.linalg.norm(gradient)), 1e-9 * float(values.max()) / h)
        error = abs(slope - float(gradient @ d))
        worst = max(worst, error / scale if scale > 0 else 0.0)
    return worst


def _contraction_errors(A: Measurements, x: Float, rng: np.random.Generator) -> dict[str, float]:
    """Each contraction against its formula on the matrices `Ã_i` themselves."""
    m, n = A.m, A.n
    M = A.matrices(0, m)
    some = np.sort(rng.permutation(n)[:_N_COORDINATES])
    sparse = np.zeros(n)
    sparse[some[:1]] = 1.0
    w, v, U = rng.standard_normal(m), rng.standard_normal(n), rng.standard_normal((n, 2))
    diagonals = np.einsum("ijj->ij", M)
    values = np.einsum("ijk,j,k->i", M, x, x)
    r = w - values - diagonals @ v
    swept_r, swept_S = A.sweep(x, v, w)
    # The derivatives in real coordinates, as the matrices have them; and one against a difference, which is exact.
    J = np.ascontiguousarray(2 * (M @ x)).view(np.float64)
    d, step, directions = rng.random(m), x if x.any() else v, _real(U, A)
    G, slope = _parts(A.gram(x, d, w))
    along = A.along(x, U)
    pairs: dict[str, tuple[Float, Float]] = {
        "symmetry": (M, M.transpose(0, 2, 1)),
        "products": (A.products(x), M @ x),
        "products of a batch": (A.products(U), M @ U),
        "products of a sparse signal": (A.products(sparse), M @ sparse),
        "measure": (A.measure(x), values),
        "weighted_sum": (A.weighted_sum(w), np.tensordot(w, M, axes=1)),
        "diagonals": (A.diagonals(), diagonals),
        "rows": (A.rows(some), M[:, some]),
        "block": (A.block(some), M[:, some[:, None], some]),
        "compress": (A.compress(U), U.T @ (M @ U)),
        "sweep, r": (swept_r, r),
        "sweep, S": (swept_S, np.tensordot(r, M, axes=1)),
        "along": (A.along(x, v), J @ _real(v, A)),
        "along several": (along, J @ directions),
        "along, by a difference": ((A.measure(step + v) - A.measure(step - v)) / 2, A.along(step, v)),
        "gradient": (np.ascontiguousarray(A.gradient(x, w)).view(np.float64), w @ J),
        "adjoint": (_real(A.gradient(x, w), A) @ directions, w @ along),
        "gram": (G, J.T @ (d[:, None] * J)),
        "gram, slope": (slope, (d * w) @ J),
    }
    return {name: _relative_error(got, expected) for name, (got, expected) in pairs.items()}


def _real(v: Any, A: Measurements) -> Float:
    """A signal, or the columns of signals, in real coordinates: Re and Im in turn if signals are complex."""
    rows = np.ascontiguousarray(np.asarray(v).T, dtype=A.number)
    return rows.view(np.float64).T


def _relative_error(got: Float, expected: Float) -> float:
    if got.shape != expected.shape:
        return np.inf
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(got - expected).max()) / scale
