"""What CONTRIBUTING promises: a kind of measurements, a prior and a method are one new file and one row of a table."""

import numpy as np
import pytest
from toy_method import GaussNewton
from toy_prior import EvenCoordinates
from toy_tensor import DiagonalTensor

import fastquad as fq
from fastquad.solvers import METHODS
from fastquad.testing import check_measurements


def test_a_toy_kind_conforms_and_is_solved():
    rng = np.random.default_rng(0)
    A = DiagonalTensor(rng.standard_normal((30, 12)))
    assert check_measurements(A).ok
    x = np.zeros(12)
    x[[2, 5, 7]] = [1.0, 2.0, 0.5]
    solution = fq.solve(A, A.measure(x))
    np.testing.assert_allclose(np.abs(solution.x), x, atol=1e-9)
    # Every sign of every entry gives the same measurements, and the verdict knows.
    assert solution.status.name == "AMBIGUOUS"
    assert fq.solve(fq.pack(A), A.measure(x)).residual < 1e-9


def test_a_toy_prior_is_used():
    problem = fq.problems.gaussian(m=30, n=40, rng=0)
    x = np.where(np.arange(40) % 2, 0.0, problem.x)
    # 20 unknowns from 30 measurements: enough with the prior, and not without.
    solution = fq.solve(problem.A, fq.measure(problem.A, x), prior=EvenCoordinates())
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-8


def test_a_toy_method_is_one_row_of_the_table(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", "toy_method:GaussNewton")
    problem = fq.problems.gaussian(m=90, n=20, rng=0)
    near = problem.x + 0.05 * np.random.default_rng(1).standard_normal(20)
    solution = fq.solve(problem.A, problem.y, method="toy", x0=near)
    assert solution.success
    assert solution.method == "toy"
    assert fq.distance(solution.x, problem.x) < 1e-8
    assert solution.n_passes == pytest.approx(solution.n_iter, abs=1.5)
    # Budgets, batches and other kinds of A are the driver's business: nothing of them is in the method.
    assert fq.solve(problem.A, problem.y, method=GaussNewton(), x0=near, max_iter=1).status.name == "MAX_ITER"
    assert fq.solve(fq.pack(problem.A), np.stack([problem.y] * 2), method="toy", x0=near).success.all()


class Wrong(DiagonalTensor):
    """A toy kind with a mistake for each of the suite's checks."""

    def __init__(self, d, mistake):
        super().__init__(d)
        self.mistake, self.count = mistake, 0

    def _diagonals(self, n_threads):
        d = self.d.copy()
        if self.mistake == "value":
            d[0, 0] += 1.0
        if self.mistake == "threads":
            d *= 1 + 1e-15 * n_threads
        if self.mistake == "again":
            self.count += 1
            d *= 1 + 1e-14 * self.count
        if self.mistake == "dtype":
            return np.rint(d).astype(int)
        return d


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("value", "diagonals: rel"),
        ("threads", "three threads"),
        ("again", "second call"),
        ("dtype", "floats"),
    ],
)
def test_the_suite_finds_mistakes(mistake, words):
    with pytest.raises(AssertionError, match=words):
        check_measurements(Wrong(np.random.default_rng(0).standard_normal((9, 5)), mistake))


@pytest.mark.parametrize(
    "A",
    [
        fq.as_measurements(np.random.default_rng(0).standard_normal((9, 5, 5))),
        fq.pack(np.random.default_rng(0).standard_normal((9, 5, 5))),
        fq.RankOneTensor(np.random.default_rng(0).standard_normal((9, 5))),
        fq.LowRankTensor(np.random.default_rng(0).standard_normal((9, 2, 5))),
        fq.ShiftTensor(7),
        fq.GaussianTensor(9, 5, 0),
    ],
    ids=lambda A: type(A).__name__,
)
def test_what_comes_with_fastquad_conforms(A):
    assert check_measurements(A, tol=1e-5).ok
