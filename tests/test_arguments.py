"""Every kind of bad input has its error, through the front door; every kind of good input works."""

import re

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status, arguments


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=40, n=12, k=3, rng=0)


def refused(error, words, *args, **options):
    with pytest.raises(error, match=re.escape(words)):
        fq.solve(*args, **{"method": "twf", **options})


# -- y -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (np.ones(39), ValueError, "`y` must have shape (40,) or (b, 40), got (39,)."),
        (
            np.ones((40, 3)),
            ValueError,
            "`y` must have shape (40,) or (b, 40), got (40, 3); one row per signal: give y.T.",
        ),
        (np.ones((1, 1, 40)), ValueError, "`y` must have shape (40,) or (b, 40), got (1, 1, 40)."),
        (np.ones((0, 40)), ValueError, "`y` must have shape (40,) or (b, 40), got (0, 40)."),
        (3.0, ValueError, "`y` must have shape (40,) or (b, 40), got ()."),
        (np.ones(40, dtype=complex), TypeError, "`y` must hold real numbers, got dtype complex128."),
        (np.ones(40, dtype=object), TypeError, "`y` must hold real numbers, got dtype object."),
        (["a"] * 40, TypeError, "`y` must hold real numbers, got dtype <U1."),
        (None, TypeError, "`y` must hold real numbers, got dtype object."),
        ([[1.0], [1.0, 2.0]], ValueError, "`y` must be an array of numbers, got rows of different lengths."),
        (np.r_[np.ones(39), np.nan], ValueError, "`y` must be finite, got NaN or inf."),
        (np.r_[np.ones(39), np.inf], ValueError, "`y` must be finite, got NaN or inf."),
        (np.full(40, 1e-200), ValueError, "`y` must be of a size between 1e-100 and 1e100, or zero, got 1e-200"),
        (np.full(40, 1e200), ValueError, "`y` must be of a size between 1e-100 and 1e100, or zero, got 1e+200"),
    ],
)
def test_bad_y(problem, y, error, words):
    refused(error, words, problem.A, y)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint16, np.float16, np.float32, np.longdouble])
def test_y_of_another_real_dtype(problem, dtype):
    y = np.asarray(np.abs(4 * problem.y)).astype(dtype)
    expected = fq.solve(problem.A, y.astype(np.float64), method="twf", max_iter=20)
    np.testing.assert_array_equal(fq.solve(problem.A, y, method="twf", max_iter=20).x, expected.x)


@pytest.mark.parametrize("scale", [1e-60, 1e-3, 1e60])
def test_scale_of_y(problem, scale):
    solution = fq.solve(problem.A, scale * problem.y, method="twf")
    assert solution.success
    assert fq.distance(solution.x, np.sqrt(scale) * problem.x) < 1e-6


# -- A -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("A", "error"),
    [
        (np.ones((3, 4, 5)), ValueError),
        (np.ones((4, 4)), ValueError),
        (np.ones((0, 4, 4)), ValueError),
        (np.ones((4, 0, 0)), ValueError),
        (np.ones((3, 4, 4), dtype=object), TypeError),
        (None, TypeError),
    ],
)
def test_bad_A(A, error):
    refused(error, "`A` must", A, np.ones(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "method", ["twf", "wf", fq.methods.SPF(k=3), fq.TWF(start="full"), fq.methods.WF(step="exact")]
)
def test_non_finite_A_is_found_on_the_way(problem, bad, method):
    A = problem.A.copy()
    # Within the support of x, off the diagonal: every method reads it sooner or later.
    j, k = np.argsort(-np.abs(problem.x))[:2]
    A[7, j, k] = bad
    refused(ValueError, "`A` must be finite, got NaN or inf.", A, problem.y, method=method)
    refused(ValueError, "`A` must be finite, got NaN or inf.", A, problem.y, method=method, x0=problem.x + 0.01)
    refused(ValueError, "`A` must be finite", A, np.stack([problem.y, 2 * problem.y]), method=method)


def test_non_finite_A_where_it_is_not_read(problem):
    """Nothing outside the support of sparse iterates matters, so nothing is read there."""
    A = np.zeros((40, 30, 30))
    A[:, :12, :12] = problem.A
    A[0, 28, 29] = np.nan
    support = np.flatnonzero(problem.x)
    x0 = np.zeros(30)
    x0[:12] = problem.x + 0.01 * (problem.x != 0)
    assert fq.solve(A, problem.y, method="twf", x0=x0, prior=fq.Sparse(support=support)).success


# -- starts, norms, truths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x0", "x_true"])
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (np.ones(11), ValueError, "must have shape (12,) or (1, 12), got (11,)."),
        (np.ones((2, 12)), ValueError, "must have shape (12,) or (1, 12), got (2, 12)."),
        (np.full(12, np.nan), ValueError, "must be finite, got NaN or inf."),
        (np.ones(12, dtype=complex), TypeError, "must hold real numbers, got dtype complex128."),
        ("x", TypeError, "must be an array, got the path 'x': give numpy.load('x')."),
    ],
)
def test_bad_signals(problem, name, value, error, words):
    refused(error, f"`{name}` {words}", problem.A, problem.y, **{name: value})


def test_zero_start(problem):
    refused(ValueError, "`x0` must not be zero", problem.A, problem.y, x0=np.zeros(12))
    refused(ValueError, "`x0` must not be zero on the support.", problem.A, problem.y, x0=np.eye(12)[0],
            prior=fq.Sparse(support=[1, 2]))  # fmt: skip


@pytest.mark.parametrize(
    ("norm", "error", "words"),
    [
        (-1.0, ValueError, "`norm` must be positive, got -1.0."),
        (0, ValueError, "`norm` must be positive, got 0.0."),
        (np.nan, ValueError, "`norm` must be finite"),
        ([1.0, 2.0], ValueError, "`norm` must be a number or have shape (1,), got shape (2,)."),
        (1j, TypeError, "`norm` must hold real numbers"),
    ],
)
def test_bad_norm(problem, norm, error, words):
    refused(error, words, problem.A, problem.y, norm=norm)


# -- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"noise": -0.1}, ValueError, "`noise` must be a number, at least 0, got -0.1."),
        ({"noise": np.inf}, ValueError, "`noise` must be a number, at least 0, got inf."),
        (
            {"noise": "student:4"},
            TypeError,
            "`noise` must be a number, an array or a model such as fastquad.noise.Student(...), got 'student:4'.",
        ),
        ({"tol": -1e-8}, ValueError, "`tol` must be a number, at least 0, got -1e-08."),
        ({"tol": np.nan}, ValueError, "`tol` must be a number, at least 0, got nan."),
        ({"tol": None}, TypeError, "`tol` must be a number, at least 0, got None."),
        ({"tol": True}, TypeError, "`tol` must be a number, at least 0, got True."),
        ({"max_iter": 0}, ValueError, "`max_iter` must be a positive integer, got 0."),
        ({"max_iter": -5}, ValueError, "`max_iter` must be a positive integer, got -5."),
        ({"max_iter": 2.5}, TypeError, "`max_iter` must be a positive integer, got 2.5."),
        ({"max_iter": True}, TypeError, "`max_iter` must be a positive integer, got True."),
        ({"max_passes": 0}, ValueError, "`max_passes` must be a positive number, got 0."),
        ({"max_passes": "all"}, TypeError, "`max_passes` must be a positive number, got 'all'."),
        ({"max_time": -1}, ValueError, "`max_time` must be a positive number, got -1."),
        ({"max_time": np.nan}, ValueError, "`max_time` must be a positive number, got nan."),
        ({"callback": 3}, TypeError, "`callback` must be a function of the state, got int."),
        ({"verbose": -1}, ValueError, "`verbose` must be 0, 1 or 2, got -1."),
        ({"verbose": "yes"}, ValueError, "`verbose` must be 0, 1 or 2, got 'yes'."),
        ({"rng": "seed"}, TypeError, "`rng` must be a seed or a numpy.random.Generator, got str."),
        ({"rng": -1}, ValueError, "`rng` must not be negative, got -1."),
        ({"rng": 1.5}, TypeError, "`rng` must be a seed or a numpy.random.Generator, got float."),
        ({"n_threads": 0}, ValueError, "`n_threads` must be a positive integer, got 0."),
    ],
)
def test_bad_options(problem, options, error, words):
    refused(error, words, problem.A, problem.y, **options)


def test_endless_budgets(problem):
    assert fq.solve(problem.A, problem.y, method="twf", max_time=np.inf, max_passes=np.inf).success


# -- methods and priors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        ("twff", ValueError, "`method` must be one of"),
        ("twff", ValueError, "did you mean 'twf'?"),
        ("TWF", ValueError, "did you mean 'twf'?"),
        (3, TypeError, "`method` must be a name or a solver object such as fastquad.TWF(), got int."),
        (None, TypeError, "`method` must be a name or a solver object such as fastquad.TWF(), got NoneType."),
        (fq.TWF, TypeError, "`method` must be a name or a solver object such as fastquad.TWF(), got the class TWF."),
        (
            "spf",
            ValueError,
            "`k` must be given to SPF: method=fastquad.methods.SPF(k=...) or prior=fastquad.Sparse(k=...).",
        ),
        (fq.methods.SPF(k=13), ValueError, "`k` must be at most n = 12, got 13."),
    ],
)
def test_bad_method(problem, method, error, words):
    refused(error, words, problem.A, problem.y, method=method)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("max_iters", "solve() has no option `max_iters`: give `max_iter=...`"),
        ("alpha", "which belongs to the method: `method=fastquad.TWF(alpha=...)`."),
        ("qqq", "solve() has no option `qqq`; it has `prior`, `method`,"),
    ],
)
def test_unknown_options_of_solve(problem, option, words):
    refused(TypeError, words, problem.A, problem.y, **{option: 1})


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: fq.TWF(alfa=1), TypeError, "TWF has no option `alfa`; did you mean `alpha`?"),
        (lambda: fq.methods.WF(beta=1), TypeError, "WF has no option `beta`"),
        (lambda: fq.methods.WF(zzz=1), TypeError, "it has `alpha`, `mu`, `step`, `start`."),
        (lambda: fq.TWF(0.5), TypeError, "TWF takes its options by name"),
        (lambda: fq.TWF(alpha=-1), ValueError, "`alpha` must be a number, at least 0, got -1."),
        (lambda: fq.TWF(beta="big"), TypeError, "`beta` must be a number, at least 0, got 'big'."),
        (lambda: fq.TWF(mu=0), ValueError, "`mu` must be a positive number, got 0."),
        (lambda: fq.TWF(step="exakt"), ValueError, "got 'exakt'; did you mean 'exact'?"),
        (lambda: fq.TWF(start="empty"), ValueError, "`start` must be 'estimated' or 'full', got 'empty'."),
        (lambda: fq.TWF(threshold="smooth"), ValueError, "`threshold` must be 'soft', 'hard' or a function"),
        (lambda: fq.methods.SPF(k=0), ValueError, "`k` must be a positive integer, got 0."),
        (lambda: fq.methods.SPF(k=2.0), TypeError, "`k` must be a positive integer, got 2.0."),
        (lambda: fq.methods.SPF(max_inner=0), ValueError, "`max_inner` must be a positive integer, got 0."),
        (lambda: fq.Sparse(k=-1), ValueError, "`k` must be a positive integer, got -1."),
        (lambda: fq.Sparse(support=[]), ValueError, "`support` must be a non-empty list of integers"),
        (lambda: fq.Sparse(support=[0.5]), ValueError, "`support` must be a non-empty list of integers"),
        (lambda: fq.Sparse(support=[-1]), ValueError, "`support` must not be negative, got -1."),
    ],
)
def test_bad_solver_options(make, error, words):
    with pytest.raises(error, match=re.escape(words)):
        make()


def test_bad_prior(problem):
    refused(TypeError, "`prior` must be a prior such as fastquad.Sparse(), or None, got str.", problem.A, problem.y,
            prior="sparse")  # fmt: skip
    refused(TypeError, "got the class Sparse.", problem.A, problem.y, prior=fq.Sparse)
    refused(ValueError, "`k` must be at most n = 12, got 13.", problem.A, problem.y, prior=fq.Sparse(k=13))
    refused(ValueError, "`support` must lie between 0 and 11, got 12.", problem.A, problem.y,
            prior=fq.Sparse(support=[3, 12]))  # fmt: skip
    refused(ValueError, "`method` must be able to use the known support", problem.A, problem.y,
            prior=fq.Sparse(support=[3]), method=fq.methods.SPF(k=1))  # fmt: skip


@pytest.mark.parametrize(
    "threshold",
    [lambda a, tau: a[:3], lambda a, tau: np.full_like(a, np.nan), lambda a, tau: 0.0],
)
def test_bad_shrinkage_function(problem, threshold):
    words = "`threshold` must return 12 finite numbers"
    refused(ValueError, words, problem.A, problem.y, method=fq.TWF(threshold=threshold))


def test_a_class_of_solver_shows_its_options():
    import inspect

    assert list(inspect.signature(fq.TWF).parameters) == ["alpha", "mu", "step", "start", "beta", "threshold"]
    assert fq.TWF(beta=2.0) == fq.TWF(beta=2.0)
    assert "beta=2.0" in repr(fq.TWF(beta=2.0))


# -- the other doors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"alpha": -1}, ValueError, "`alpha` must be a number, at least 0, got -1."),
        ({"norm": -1}, ValueError, "`norm` must be positive, got -1.0."),
        ({"support": "all"}, ValueError, "`support` must be 'estimated' or 'full', got 'all'."),
        ({"support": [12]}, ValueError, "`support` must lie between 0 and 11, got 12."),
        ({"support": []}, ValueError, "`support` must be a non-empty list of integers"),
    ],
)
def test_bad_spectral_init(problem, options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        fq.methods.spectral_init(problem.A, problem.y, **options)


def test_spectral_init_takes_one_signal(problem):
    with pytest.raises(ValueError, match=re.escape("`y` must have shape (40,), got (1, 40).")):
        fq.methods.spectral_init(problem.A, problem.y[None])
    assert not fq.methods.spectral_init(problem.A, np.zeros(40)).any()


def test_bad_measure(problem):
    with pytest.raises(ValueError, match=re.escape("`x` must have shape (12,) or (b, 12), got (11,).")):
        fq.measure(problem.A, np.ones(11))
    with pytest.raises(ValueError, match="`noise` must be a number, at least 0, got -1"):
        fq.measure(problem.A, problem.x, noise=-1)


def test_bad_distance():
    with pytest.raises(ValueError, match=re.escape("`x_hat` must have the shape of `x`")):
        fq.distance(np.ones(3), np.ones(4))


def test_statuses_are_not_exceptions(problem):
    assert fq.solve(problem.A, problem.y, method="twf", max_iter=1).status is Status.MAX_ITER


def test_without_a_seed_it_is_zero():
    for one, other in zip(arguments.generators(None, 3), arguments.generators(0, 3), strict=True):
        assert one().bit_generator.state == other().bit_generator.state


def test_the_names_of_methods_that_type_checkers_know_are_all():
    from typing import get_args

    from fastquad.solvers import METHODS, Method

    assert set(get_args(Method)) == set(METHODS)
