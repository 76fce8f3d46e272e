"""Every status can be reached, says what to try, and is a success only where the answer can be trusted."""

import re
import time
from pathlib import Path

import numpy as np
import pytest
from images import total_variation

import fastquad as fq
from fastquad import Status
from fastquad.measurements.contractions import Products
from fastquad.system import deadline


@pytest.fixture(scope="module")
def easy():
    return fq.problems.gaussian(m=80, n=30, k=3, rng=0)


@pytest.fixture(scope="module")
def noisy():
    return fq.problems.gaussian(m=80, n=30, k=3, noise=0.05, unit_norm=True, rng=0)


def check(solution, status):
    assert solution.status is status
    assert solution.success is status.success
    assert solution.message.startswith(status.sentence)
    assert solution.n_iter == len(solution.history["residual"])
    return solution


def test_exact(easy):
    solution = check(fq.solve(easy.A, easy.y, method="twf", tol=1e-10), Status.EXACT)
    assert solution.residual < 1e-10
    assert fq.distance(solution.x, easy.x) < 1e-9


def test_converged(easy):
    solution = check(fq.solve(easy.A, easy.y, method="twf"), Status.CONVERGED)
    assert 1e-9 <= solution.residual < 1e-8


def test_exact_even_where_the_budget_ends_there(easy):
    steps = fq.solve(easy.A, easy.y, method="twf", tol=1e-10).n_iter
    check(fq.solve(easy.A, easy.y, method="twf", tol=0.0, max_iter=steps), Status.EXACT)


def test_converged_even_where_the_budget_ends_there(easy):
    steps = fq.solve(easy.A, easy.y, method="twf").n_iter
    check(fq.solve(easy.A, easy.y, method="twf", max_iter=steps), Status.CONVERGED)
    check(fq.solve(easy.A, easy.y, method="twf", max_iter=steps - 1), Status.MAX_ITER)


@pytest.mark.parametrize("tol", [1e-8, 1e-10])
def test_undetermined(tol):
    """Wirtinger flow fits 20 measurements with 40 unknowns: a zero residual that proves nothing."""
    problem = fq.problems.gaussian(m=20, n=40, k=3, rng=0)
    solution = check(fq.solve(problem.A, problem.y, method="wf", tol=tol), Status.UNDETERMINED)
    assert solution.residual < tol
    assert solution.support.size >= 20
    assert fq.distance(solution.x, problem.x) > 0.1


def test_as_many_nonzeros_as_measurements_is_isolated():
    """m equations for m unknowns have other solutions as well, but not near this one."""
    problem = fq.problems.gaussian(m=12, n=12, rng=2)
    solution = fq.solve(problem.A, problem.y, method="wf", x0=problem.x)
    assert solution.support.size == 12
    check(solution, Status.UNDECIDED)


def test_stagnated(noisy):
    solution = check(fq.solve(noisy.A, noisy.y, method="twf"), Status.STAGNATED)
    assert f"{solution.residual:.1e}" in solution.message


def test_converged_to_the_noise(noisy):
    """The same end, where the user says how large the noise is."""
    check(fq.solve(noisy.A, noisy.y, method="twf", noise=0.05), Status.CONVERGED)
    check(fq.solve(noisy.A, noisy.y, method="twf", noise=0.005), Status.STAGNATED)


def test_exact_to_the_rounding_of_a_float32_tensor(easy):
    solution = check(fq.solve(easy.A.astype(np.float32), easy.y, method="twf"), Status.EXACT)
    assert 1e-8 < solution.residual < 1e-6
    assert fq.distance(solution.x, easy.x) < 1e-6


def test_empty_support(noisy):
    solution = check(fq.solve(noisy.A, noisy.y, method=fq.TWF(alpha=1e6)), Status.EMPTY_SUPPORT)
    assert "the largest one alone" in solution.message


def test_empty_support_is_said_where_it_did_no_harm(easy):
    solution = check(fq.solve(easy.A, easy.y, method=fq.TWF(alpha=1e6)), Status.CONVERGED)
    assert "the largest one alone" in solution.message
    solution = check(fq.solve(easy.A, easy.y, method=fq.TWF(alpha=1e6), max_iter=3), Status.MAX_ITER)
    assert "the largest one alone" in solution.message


def test_max_iter(easy):
    solution = check(fq.solve(easy.A, easy.y, method="twf", max_iter=7), Status.MAX_ITER)
    assert solution.n_iter == 7
    assert solution.residual == solution.history["residual"].min()


def test_max_passes(easy):
    solution = check(fq.solve(easy.A, easy.y, method="wf", max_passes=5.5), Status.MAX_PASSES)
    assert 4.5 < solution.n_passes <= 5.5


def test_max_time(easy):
    solution = check(fq.solve(easy.A, easy.y, method="twf", tol=0.0, max_time=1e-9), Status.MAX_TIME)
    assert solution.n_iter == 1


def _asks_forever(problem, outcome):
    while True:
        yield Products(outcome.x)


def _computes_forever(problem, outcome):
    yield Products(outcome.x)
    while True:
        deadline.check()


@pytest.mark.parametrize("verdict", [_asks_forever, _computes_forever])
def test_max_time_bounds_the_verdict_too(easy, monkeypatch, verdict):
    monkeypatch.setattr("fastquad.engine.run.judge", verdict)
    monkeypatch.setattr("fastquad.engine.run._GRACE", 0.01)
    solution = check(fq.solve(easy.A, easy.y, max_time=0.5), Status.MAX_TIME)
    assert "the verdict on it needs more" in solution.message
    assert fq.distance(solution.x, easy.x) < 1e-6


def test_the_verdict_on_an_image_ends_in_time():
    """The matrices of 256 levels of grey took nine gigabytes, and their products minutes."""
    rng = np.random.default_rng(0)
    at = np.indices((64, 64)) / 64
    image = np.round(255 * (0.4 + 0.3 * np.sin(5 * at[0]) * np.cos(3 * at[1] ** 2) + 0.2 * (at[1] > 0.7))) / 255
    A = fq.FourierTensor(rng.choice([-1.0, 1.0], (4, 64, 64)))
    begin = time.perf_counter()
    solution = fq.solve(A, A.measure(image.ravel()), signal="real", prior=fq.Denoiser(total_variation), max_time=2)
    assert time.perf_counter() - begin < 8
    assert solution.status in (Status.MAX_TIME, Status.EXACT)
    assert fq.distance(solution.x, image.ravel()) < 1e-6


@pytest.mark.parametrize("method", [fq.methods.WF(mu=30.0, step="constant"), fq.TWF(mu=30.0)])
def test_diverged(easy, method):
    solution = check(fq.solve(easy.A, easy.y, method=method), Status.DIVERGED)
    assert np.isfinite(solution.x).all()
    assert solution.residual == solution.history["residual"].min()


def test_overflow_is_divergence_too(easy):
    x0 = np.full(30, 1e200)
    check(fq.solve(easy.A, easy.y, method="wf", x0=x0), Status.DIVERGED)


def test_stopped_by_the_callback(easy):
    solution = check(fq.solve(easy.A, easy.y, method="twf", callback=lambda state: state.n_iter == 4), Status.STOPPED)
    assert solution.n_iter == 4
    assert solution.residual == solution.history["residual"].min()


def test_stopped_with_the_best_iterate(noisy):
    """Pursuit's fits do not become better and better: what the callback stops is not returned for being the last."""
    solution = fq.solve(noisy.A, noisy.y, method="amp", noise=0, callback=lambda state: state.n_iter == 12)
    assert solution.residual == solution.history["residual"].min()


def test_trivial(easy):
    solution = check(fq.solve(easy.A, np.zeros(80), method="twf"), Status.TRIVIAL)
    assert not solution.x.any()
    assert solution.n_passes < 1.1  # to see whether others measure zero


def test_ambiguous():
    """The autocorrelation of x is that of x reversed, or shifted."""
    problem = fq.problems.simulate(m=24, n=24, k=3, ensemble="toeplitz", rng=0)
    solution = check(fq.solve(problem.A, problem.y), Status.AMBIGUOUS)
    assert solution.residual < 1e-9
    assert fq.distance(solution.x, problem.x) > 0.1


def test_an_answer_that_a_budget_ends_on_is_doubted_too():
    """The rule is one: the same fit is not exact because `max_iter` ended the run on it."""
    problem = fq.problems.simulate(m=24, n=24, k=3, ensemble="toeplitz", rng=0)
    for method in ("twf", "wf", fq.methods.SGN(k=3)):
        for options in ({"max_iter": 1}, {}):
            solution = fq.solve(problem.A, problem.y, x0=problem.x, method=method, **options)
            assert solution.status is Status.AMBIGUOUS, (method, options)


def test_too_noisy():
    problem = fq.problems.gaussian(m=300, n=100, unit_norm=True, noise=1.0, rng=0)
    check(fq.solve(problem.A, problem.y), Status.NOISY)


def test_exact_for_most():
    problem = fq.problems.gaussian(m=60, n=20, k=3, rng=0)
    y = problem.y.copy()
    y[[3, 30]] += 10.0
    check(fq.solve(problem.A, y, outliers=True), Status.EXACT_FOR_MOST)


def test_every_status_has_a_test_that_reaches_it():
    """Each is the second argument of a `check` in this file."""
    reached = set(re.findall(r"check\(.*Status\.(\w+)\)", Path(__file__).read_text()))
    assert reached >= {status.name for status in Status} - {"PROVEN"}  # reached in trust/test_proof.py


def test_sentences_tell_what_happened():
    """What to try depends on the call: see test_messages.py."""
    for status in Status:
        assert re.fullmatch(r"[A-Z].*\.", status.sentence)
        assert not re.search(r"\b(Raise|Try|Use|Lower|method=)", status.sentence)


def test_spf_statuses(easy):
    assert fq.solve(easy.A, easy.y, method=fq.methods.SPF(k=3), tol=1e-10).status is Status.EXACT
    assert fq.solve(easy.A, easy.y, method=fq.methods.SPF(k=3)).success
    # one coordinate of fifteen explains nothing
    many = fq.problems.gaussian(m=80, n=30, k=15, rng=0)
    assert fq.solve(many.A, many.y, method=fq.methods.SPF(k=1)).status is Status.STAGNATED
    for limit in (1, 2):
        stopped = fq.solve(easy.A, easy.y, method=fq.methods.SPF(k=3), max_iter=limit)
        assert stopped.status is Status.MAX_ITER
        assert stopped.n_iter == len(stopped.history["residual"]) == limit


def test_no_failure_is_called_a_success():
    """Where TWF at the paper's β often ends with a zero residual and as many nonzeros as measurements."""
    for seed in range(25):
        problem = fq.problems.gaussian(m=12, n=20, k=3, rng=seed)
        solution = fq.solve(problem.A, problem.y, method="twf", max_iter=1500)
        if solution.success:
            assert fq.distance(solution.x, problem.x) < 1e-3


def test_a_stationary_point_is_not_a_success():
    """Levenberg–Marquardt ends in a wrong valley about once in four here; the gradient vanishes there too."""
    wrong = 0
    for seed in range(20):
        problem = fq.problems.gaussian(m=25, n=20, rng=seed)
        solution = fq.solve(problem.A, problem.y, method="lm")
        if fq.distance(solution.x, problem.x) > 1e-3:
            wrong += 1
            assert not solution.success
    assert wrong


@pytest.mark.parametrize("method", ["lm", "twf", "auto", "pursuit"])
def test_an_exact_answer_is_ambiguous_where_its_reversal_or_shift_fits_as_well(method):
    """Symmetric Toeplitz matrices are the same in reverse order, and moved by one."""
    rng = np.random.default_rng(0)
    n, m = 6, 40
    entries = rng.standard_normal((m, n))
    A = entries[:, np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    x = np.array([1.0, 0.0, -2.0, 0.5, 0.0, 0.0])
    solution = fq.solve(A, fq.measure(A, x), method=method, x0=x, tol=1e-10)
    assert solution.status is Status.AMBIGUOUS
    assert not solution.success
    assert "reversed fits" in solution.message or "moved by one fits" in solution.message


def test_a_known_support_rules_the_reversal_out():
    rng = np.random.default_rng(0)
    entries = rng.standard_normal((40, 6))
    A = entries[:, np.abs(np.subtract.outer(np.arange(6), np.arange(6)))]
    x = np.array([1.0, 0.0, -2.0, 0.5, 0.0, 0.0])
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(support=[0, 2, 3]), method="lm", x0=x)
    assert solution.status is Status.EXACT


@pytest.mark.parametrize("seed", range(4))
def test_noise_without_a_signal_is_noisy_and_not_ambiguous(seed):
    """The twin: the same matrices with a signal in the same noise, which is found."""
    rng = np.random.default_rng([41, seed])
    A, noise = rng.standard_normal((60, 20, 20)), 3 * rng.standard_normal(60)
    nothing = fq.solve(A, noise, noise=3.0)
    assert nothing.status is fq.Status.NOISY
    assert (nothing.rival, nothing.error) == (None, 1.0)
    assert "No signal is seen" in nothing.message
    x = 10 * rng.standard_normal(20)
    assert fq.solve(A, fq.measure(A, x) + noise, noise=3.0).success


@pytest.mark.parametrize("seed", range(4))
def test_an_error_is_at_most_that_of_zero(seed):
    rng = np.random.default_rng([42, seed])
    A, x = rng.standard_normal((40, 10, 10)), rng.standard_normal(10)
    A[:, 3] = A[:, :, 3] = 0  # coordinate 3 is not measured
    for noise in (0.5, 50.0):
        solution = fq.solve(A, fq.measure(A, x, noise=noise, rng=rng), noise=noise)
        assert solution.error is None or 0 <= solution.error <= 1
