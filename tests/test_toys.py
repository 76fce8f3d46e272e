"""What CONTRIBUTING promises: each recipe, followed to the letter by a toy, is one new file and one row of a table."""

import numpy as np
import pytest
from toy_method import GaussNewton
from toy_noise import Laplace
from toy_prior import SHARE, Trits
from toy_tensor import DiagonalTensor
from tree import Tree

import fastquad as fq
from fastquad.solvers import METHODS
from fastquad.testing import check_measurements, check_noise, check_prior


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


def test_a_toy_prior_is_a_posterior_and_is_used():
    assert check_prior(Trits(), n=20).ok
    values, chances = np.array([-1.0, 0.0, 1.0]), np.array([SHARE / 2, 1 - SHARE, SHARE / 2])
    b, a = np.linspace(-4, 4, 9), 1.5
    posterior = chances * np.exp(-((b[:, None] - a * values) ** 2) / (2 * a))
    mean = (posterior @ values) / posterior.sum(axis=1)
    np.testing.assert_allclose(Trits().denoise(b, a)[0], mean, atol=1e-12)
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 50, 50)), rng.choice(values, 50, p=chances)
    y = fq.measure(A, x)
    # Twenty nonzeros among fifty, from forty measurements: enough with the prior, and not without.
    np.testing.assert_array_equal(np.abs(fq.solve(A, y, prior=Trits()).x), np.abs(x))
    assert not fq.solve(A, y).success


def test_a_toy_noise_is_one_file_and_one_row(tmp_path):
    z = np.linspace(1.0, 20.0, 40)
    assert check_noise(Laplace(0.5), z).ok
    near = z + 0.3
    slope = (Laplace(0.5).log_likelihood(z, near + 1e-6) - Laplace(0.5).log_likelihood(z, near - 1e-6)) / 2e-6
    np.testing.assert_allclose(Laplace(0.5).score(z, near), slope, rtol=1e-6)
    tree = Tree(tmp_path)
    tree.add("noise/laplace.py", "toy_noise.py")
    path = "noise/__init__.py"
    tree.change(path, '"Gaussian", "Noise"', '"Gaussian", "Laplace", "Noise"')
    assert tree.run("import fastquad as fq; print(fq.noise.Laplace(2), fq.noise.from_words('laplace:2'))") == [
        "Laplace(scale=2, corner=0.1) Laplace(scale=2.0, corner=0.1)"
    ]


def test_a_toy_stage_is_one_row_of_the_plan(tmp_path):
    tree = Tree(tmp_path)
    tree.add("solvers/toy.py", "toy_stage.py")
    tree.row(
        "solvers/plan.py",
        '    Stage("plain", "from start"',
        '    Stage("plain", "toy", "x = e_1", "toy:first_coordinate"),',
    )
    code = (
        "import numpy as np, fastquad as fq; x = np.zeros({n}); x[{at}] = 2.0; "
        "A = np.random.default_rng(0).standard_normal((30, {n}, {n})); s = fq.solve(A, fq.measure(A, x)); "
        "print(s.status, s.method, abs(s.x[{at}]).round(6))"
    )
    assert tree.run(code.format(n=12, at=0)) == ["EXACT toy 2.0"]
    status, method, value = tree.run(code.format(n=12, at=5))[0].split()  # where it does not help, the next one goes on
    assert (status, value) == ("EXACT", "2.0")
    assert method != "toy"


def test_a_toy_reduction_is_one_row_of_the_table(tmp_path):
    tree = Tree(tmp_path)
    tree.add("reductions/decibels.py", "toy_reduction.py")
    row = '    Row("decibels:Decibels", lambda given: given.signal == "decibels"),'
    tree.row("reductions/__init__.py", '    Row("basis:Basis"', row)
    code = (
        "import numpy as np, fastquad as fq; g = np.random.default_rng(0).standard_normal((60, 3, 12)); "
        "A = fq.LowRankTensor(g); x = np.arange(12.0); y = 10 * np.log10(A.measure(x)); "
        "s = fq.solve(A, y, signal='decibels'); b = fq.solve(A, np.stack([y, y]), signal='decibels'); "
        "print(fq.distance(s.x, x) < 1e-6, s.message.endswith('0.0 dB.'), len(b), b[1].message.endswith('0.0 dB.'))"
    )
    assert tree.run(code) == ["True True 2 True"]


def test_a_toy_status_is_a_member_and_a_rule(tmp_path):
    tree = Tree(tmp_path)
    tree.row("status.py", "    EXACT = (", '    LUCKY = ("LUCKY", "Lucky: x is as was wished.", True)')
    rule = "    (lambda case: abs(case.outcome.x[0]) == 7.0, _lucky),"
    tree.row("engine/verdict.py", "    (lambda case: case.end in (End.STOPPED", rule)
    maker = "def _lucky(case):\n    yield from ()\n    return Verdict(Status.LUCKY, case.outcome)\n\n"
    tree.row("engine/verdict.py", "def _as_it_ended", maker)
    tree.row("engine/advice.py", "    Status.UNDECIDED:", "    Status.LUCKY: (_MORE,),")
    code = (
        "import numpy as np, fastquad as fq; x = np.zeros(9); x[:2] = 7.0, 1.0; "
        "A = np.random.default_rng(0).standard_normal((30, 9, 9)); y = fq.measure(A, x); "
        "s = fq.solve(A, y, x0=x, method='lm'); print(s.status, s.success, s.message.split('.')[0])"
    )
    assert tree.run(code) == ["LUCKY True Lucky: x is as was wished"]


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
