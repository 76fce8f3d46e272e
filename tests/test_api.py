"""Properties of `solve` that hold whatever the method."""

import threading

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status
from fastquad.engine.steps import End, Outcome, Step
from fastquad.measurements.contractions import Diagonals, Products

METHODS = {
    "twf": fq.TWF(),
    "twf, hard": fq.TWF(threshold="hard", beta=2.0),
    "twf, exact steps": fq.TWF(step="exact", beta=2.0),
    "wf": fq.methods.WF(),
    "wf, exact steps": fq.methods.WF(step="exact", start="full"),
    "spf": fq.methods.SPF(k=3),
}


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=20, k=3, rng=0)


@pytest.fixture(scope="module")
def batch():
    return fq.problems.gaussian(m=60, n=20, k=3, n_signals=4, rng=5)


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


def test_recovers(problem, method):
    solution = fq.solve(problem.A, problem.y, method=method)
    assert solution.success
    assert solution.method == method.name
    assert fq.distance(solution.x, problem.x) < 1e-6
    r = np.einsum("ijk,j,k->i", problem.A, solution.x, solution.x) - problem.y
    assert solution.residual == pytest.approx(np.linalg.norm(r) / np.linalg.norm(problem.y), abs=1e-14)
    np.testing.assert_array_equal(solution.support, np.flatnonzero(solution.x))


def test_names_are_the_default_objects(problem):
    for name in ("twf", "wf"):
        by_name = fq.solve(problem.A, problem.y, method=name, max_iter=30)
        by_object = fq.solve(problem.A, problem.y, method=getattr(fq.methods, name.upper())(), max_iter=30)
        np.testing.assert_array_equal(by_name.x, by_object.x)
    by_name = fq.solve(problem.A, problem.y, method="spf", prior=fq.Sparse(k=3))
    np.testing.assert_array_equal(by_name.x, fq.solve(problem.A, problem.y, method=fq.methods.SPF(k=3)).x)


def test_input_is_not_modified(problem, method):
    A, y, x0 = problem.A.copy(), problem.y.copy(), problem.x + 0.1
    given = x0.copy()
    fq.solve(A, y, method=method, x0=x0, x_true=problem.x, max_iter=20)
    np.testing.assert_array_equal(A, problem.A)
    np.testing.assert_array_equal(y, problem.y)
    np.testing.assert_array_equal(x0, given)


def test_read_only_memmap(problem, method, tmp_path):
    path = tmp_path / "A.npy"
    np.save(path, problem.A)
    in_memory = fq.solve(problem.A, problem.y, method=method, max_iter=50)
    y = problem.y.copy()
    y.flags.writeable = False
    for A in (np.load(path, mmap_mode="r"), path, str(path)):
        np.testing.assert_array_equal(fq.solve(A, y, method=method, max_iter=50).x, in_memory.x)


def test_same_seed_same_bits(problem, method):
    first, second = (fq.solve(problem.A, problem.y, method=method, rng=7) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.history["residual"], second.history["residual"])


def test_same_bits_for_any_number_of_threads(method):
    problem = fq.problems.gaussian(m=150, n=64, k=3, rng=0)
    one, *more = (fq.solve(problem.A, problem.y, method=method, max_iter=40, n_threads=t) for t in (1, 2, 4))
    for other in more:
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.history["residual"], other.history["residual"])


def test_several_threads_may_solve_at_once(problem, method):
    expected = fq.solve(problem.A, problem.y, method=method).x
    answers = [None] * 4

    def work(i):
        answers[i] = fq.solve(problem.A, problem.y, method=method).x

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)


class OnlyMatrices(fq.Measurements):
    """A user's own kind, which implements no more than it must."""

    def __init__(self, A):
        self.A, (self.m, self.n, _), self.dtype = A, A.shape, A.dtype

    def matrices(self, start, stop):
        return (self.A[start:stop] + self.A[start:stop].transpose(0, 2, 1)) / 2


@pytest.mark.parametrize("kind", [OnlyMatrices, fq.pack], ids=["own", "packed"])
def test_every_kind_of_measurements(problem, method, kind):
    # SPF takes A as given, which a symmetric kind cannot know.
    symmetric = (problem.A + problem.A.transpose(0, 2, 1)) / 2
    expected = fq.solve(symmetric, problem.y, method=method, max_iter=40)
    got = fq.solve(kind(problem.A), problem.y, method=method, max_iter=40)
    assert got.status is expected.status
    assert np.linalg.norm(got.x - expected.x) <= 1e-9 * np.linalg.norm(expected.x)


def test_phase_retrieval(method):
    vectors = np.random.default_rng(0).standard_normal((80, 12))
    x = np.zeros(12)
    x[[2, 5, 7]] = [1.0, -2.0, 0.5]
    tensor = fq.RankOneTensor(vectors)
    y = fq.measure(tensor, x)
    solution = fq.solve(tensor, y, method=method, x0=x + 0.02, max_iter=30)
    expected = fq.solve(vectors[:, :, None] * vectors[:, None, :], y, method=method, x0=x + 0.02, max_iter=30)
    assert solution.status is expected.status
    assert np.linalg.norm(solution.x - expected.x) <= 1e-9 * np.linalg.norm(expected.x)


# -- batches -------------------------------------------------------------------------------------------------


def test_batch_equals_single_solves(batch, method):
    together = fq.solve(batch.A, batch.y, method=method, max_iter=60)
    assert together.x.shape == (4, 20)
    for i in range(4):
        alone = fq.solve(batch.A, batch.y[i], method=method, max_iter=60)
        assert np.linalg.norm(together.x[i] - alone.x) <= 1e-9 * np.linalg.norm(alone.x)
        assert together.status[i] is alone.status
        assert together.message[i] == alone.message
        assert abs(together.n_iter[i] - alone.n_iter) <= 1


def test_fields_of_a_batch(batch):
    Y = np.concatenate([batch.y, np.zeros((1, 60))])
    solution = fq.solve(batch.A, Y, method="twf")
    assert solution.success.tolist() == [True] * 5
    assert solution.status[4] is Status.TRIVIAL
    assert solution.n_iter.shape == solution.n_passes.shape == solution.residual.shape == solution.elapsed.shape == (5,)
    for field in ("status", "message", "method", "support", "noise", "history"):
        assert len(getattr(solution, field)) == 5
    assert fq.distance(solution.x[:4], batch.x).shape == (4,)
    assert (fq.distance(solution.x[:4], batch.x) < 1e-6).all()


def test_a_batch_of_one_keeps_its_shape(problem):
    solution = fq.solve(problem.A, problem.y[None], method="twf")
    assert solution.x.shape == (1, 20)
    assert solution.success.tolist() == [True]


class Counting(fq.types.RawTensor):
    """Counts how often A is read."""

    def __init__(self, array):
        super().__init__(array)
        self.passes = 0

    def _products(self, x, W, n_threads):
        self.passes += 1
        super()._products(x, W, n_threads)


def test_a_batch_shares_its_passes(batch):
    A = Counting(batch.A)
    solution = fq.solve(A, batch.y, method=fq.methods.WF(start="full"), max_iter=50)
    assert A.passes == 50
    assert (solution.n_iter == 50).all()
    # And the weighted sum of the start.
    np.testing.assert_allclose(solution.n_passes, 51)


def test_a_batch_with_warm_starts_norms_and_truths(batch):
    norms = np.linalg.norm(batch.x, axis=1)
    solution = fq.solve(batch.A, batch.y, method="twf", x0=batch.x * 1.01, norm=norms, x_true=batch.x)
    assert solution.success.all()
    for history in solution.history:
        assert history["distance"][0] == pytest.approx(0.01)
        assert history["distance"][-1] < 1e-7


def test_the_callback_stops_one_signal_of_a_batch(batch):
    solution = fq.solve(batch.A, batch.y, method="twf", callback=lambda state: state.signal == 2)
    assert [status is Status.STOPPED for status in solution.status] == [False, False, True, False]
    assert solution.n_iter[2] == 1


# -- budgets, callback, history, starts ----------------------------------------------------------------------


def test_one_pass_a_step(problem):
    solution = fq.solve(problem.A, problem.y, method=fq.methods.WF(start="full"), max_iter=30)
    np.testing.assert_allclose(np.diff(solution.history["n_passes"]), 1.0)
    exact = fq.solve(problem.A, problem.y, method=fq.methods.WF(start="full", step="exact"), max_iter=30)
    np.testing.assert_allclose(np.diff(exact.history["n_passes"]), 1.0)
    exact = fq.solve(problem.A, problem.y, method=fq.TWF(start="full", step="exact", beta=0.0), max_iter=30)
    np.testing.assert_allclose(np.diff(exact.history["n_passes"]), 2.0)


def test_sparse_iterates_read_their_rows_only():
    problem = fq.problems.gaussian(m=90, n=100, k=3, rng=0)
    solution = fq.solve(problem.A, problem.y, method=fq.TWF(beta=6.0))
    assert solution.success
    assert solution.n_passes < 0.5 * solution.n_iter
    start = fq.solve(problem.A, problem.y, method="twf", max_iter=1)
    nonzeros = np.count_nonzero(start.x)
    read = 100 + nonzeros * (nonzeros + 1) / 2 + nonzeros * 100 - nonzeros * (nonzeros - 1) / 2
    # Diagonals, block, rows.
    assert start.n_passes == pytest.approx(read / (100 * 101 / 2))


class Asks(fq.methods.Solver):
    """Asks for the diagonals `times` times, and twice for a pass."""

    name = "asks"

    def __init__(self, times):
        self.times = times

    def steps(self, problem):
        for _ in range(self.times):
            yield Diagonals()
        x = problem.y[: problem.n].copy()
        for _ in range(2):
            yield Products(x)
        yield Step(x, 1.0)
        return Outcome(x, 1.0, End.STAGNATED)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("make", [np.asarray, fq.pack])
def test_diagonals_are_read_and_charged_once(make, batch):
    """However often they are asked for, and by however many signals of a batch."""
    problem = fq.problems.gaussian(m=40, n=10, n_signals=3 if batch else None, rng=0)
    A = fq.as_measurements(make(problem.A))
    share = A.cost_of_diagonals()
    assert 0 < share < 1
    passes = [np.atleast_1d(fq.solve(A, problem.y, method=Asks(times)).n_passes) for times in (0, 1, 2, 5)]
    extra = [np.sum(each - passes[0]) for each in passes]
    # the signal that asks first pays
    np.testing.assert_allclose(extra, [0, share, share, share], rtol=1e-12)


def test_exact_steps_take_fewer_passes(problem):
    fixed = fq.solve(problem.A, problem.y, method=fq.methods.WF(start="full"))
    exact = fq.solve(problem.A, problem.y, method=fq.methods.WF(start="full", step="exact"))
    assert exact.success
    assert exact.n_passes < 0.5 * fixed.n_passes
    assert (np.diff(exact.history["residual"]) < 1e-12).all()


def test_warm_start_goes_on(problem):
    whole = fq.solve(problem.A, problem.y, method=fq.TWF(step="constant"), max_iter=60, tol=0.0)
    first = fq.solve(problem.A, problem.y, method=fq.TWF(step="constant"), max_iter=30, tol=0.0)
    second = fq.solve(problem.A, problem.y, method=fq.TWF(step="constant"), max_iter=31, tol=0.0, x0=first.x)
    np.testing.assert_allclose(second.x, whole.x, rtol=0, atol=1e-12)


def test_start_from_the_answer(problem):
    solution = fq.solve(problem.A, problem.y, method="twf", x0=problem.x)
    assert solution.status is Status.EXACT
    assert solution.n_iter == 1


def test_history(problem):
    solution = fq.solve(problem.A, problem.y, method="twf", x_true=problem.x)
    assert set(solution.history) == {"residual", "n_passes", "elapsed", "distance"}
    assert all(len(values) == solution.n_iter for values in solution.history.values())
    assert (np.diff(solution.history["elapsed"]) >= 0).all()
    assert (np.diff(solution.history["n_passes"]) > 0).all()
    assert solution.history["distance"][-1] == pytest.approx(fq.distance(solution.x, problem.x))
    assert "distance" not in fq.solve(problem.A, problem.y, method="twf").history


def test_the_truth_changes_nothing(problem, method):
    with_truth = fq.solve(problem.A, problem.y, method=method, x_true=problem.x)
    np.testing.assert_array_equal(with_truth.x, fq.solve(problem.A, problem.y, method=method).x)


def test_callback_sees_every_step(problem):
    states = []
    solution = fq.solve(problem.A, problem.y, method="twf", callback=states.append)
    assert [state.n_iter for state in states] == list(range(1, solution.n_iter + 1))
    np.testing.assert_array_equal([state.residual for state in states], solution.history["residual"])
    np.testing.assert_array_equal([state.n_passes for state in states], solution.history["n_passes"])
    assert states[0].signal is None
    np.testing.assert_array_equal(states[-1].x, solution.x)


def test_callback_cannot_change_the_iterate(problem):
    def spoil(state):
        state.x[:] = 0

    with pytest.raises(ValueError, match="read-only"):
        fq.solve(problem.A, problem.y, method="twf", callback=spoil)


def test_an_error_of_the_callback_is_the_users(problem):
    def fail(state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fq.solve(problem.A, problem.y, method="twf", callback=fail)


def test_verbose(problem, batch, capsys):
    fq.solve(problem.A, problem.y, method="twf", max_iter=25)
    assert capsys.readouterr() == ("", "")
    fq.solve(problem.A, problem.y, method="twf", max_iter=25, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(":")[1] for line in err.splitlines()[:-1]] == [f" step {i}" for i in (1, 2, 5, 10, 20)]
    assert "twf: max_iter after 25 steps" in err.splitlines()[-1]
    fq.solve(problem.A, problem.y, method="twf", max_iter=25, verbose=2)
    assert len(capsys.readouterr().err.splitlines()) == 26
    fq.solve(batch.A, batch.y, method="twf", max_iter=1, verbose=1)
    assert "signal 3: step 1" in capsys.readouterr().err


def test_known_norm_is_used(problem):
    """A wrong norm gives a wrong start: it is not ignored."""
    start = fq.solve(problem.A, problem.y, method="twf", norm=5.0, max_iter=1)
    assert np.linalg.norm(start.x) == pytest.approx(5.0)


def test_known_support(problem):
    support = np.flatnonzero(problem.x)
    for method in ("twf", "wf", "lm", "auto"):
        solution = fq.solve(problem.A, problem.y, method=method, prior=fq.Sparse(support=support), x0=problem.x + 0.1)
        assert solution.success
        assert set(solution.support) <= set(support)
        assert fq.distance(solution.x, problem.x) < 1e-6
    # Fewer measurements than unknowns, but more than the support has: now Wirtinger flow is determined.
    small = fq.problems.gaussian(m=15, n=40, k=3, rng=1)
    solution = fq.solve(small.A, small.y, method="wf", prior=fq.Sparse(support=np.flatnonzero(small.x)))
    assert solution.success
    assert fq.distance(solution.x, small.x) < 1e-6


@pytest.mark.parametrize(
    ("A", "y"),
    [
        (np.zeros((5, 3, 3)), np.ones(5)),
        (np.zeros((3, 210, 210)), np.ones(3)),
        (np.array([[[0.0, 1.0], [-1.0, 0.0]]] * 3), np.ones(3)),
        (np.ones((4, 1, 1)), np.full(4, -4.0)),
    ],
    ids=["zero", "zero, large", "skew", "negative"],
)
def test_measurements_that_nothing_explains(A, y):
    for method in (
        fq.TWF(),
        fq.methods.WF(start="full"),
        fq.methods.WF(step="exact"),
        fq.TWF(step="exact"),
        fq.methods.SPF(k=1),
    ):
        solution = fq.solve(A, y, method=method)
        assert not solution.success
        assert np.isfinite(solution.x).all()
        assert solution.residual >= 1


@pytest.mark.parametrize("m", [1, 4])
def test_one_unknown(m):
    for method in (
        fq.TWF(),
        fq.methods.WF(start="full"),
        fq.methods.WF(step="exact"),
        fq.TWF(step="exact"),
        fq.methods.SPF(k=1),
    ):
        solution = fq.solve(np.ones((m, 1, 1)), np.full(m, 4.0), method=method)
        assert abs(solution.x[0]) == pytest.approx(2.0)
        assert solution.status is (Status.UNDECIDED if m == 1 else Status.EXACT)


def test_solution_is_short_in_print(problem):
    text = repr(fq.solve(problem.A, problem.y, method="twf"))
    assert "CONVERGED" in text
    assert len(text) < 400


# -- the other doors -----------------------------------------------------------------------------------------


def test_measure(problem, batch):
    y = fq.measure(problem.A, problem.x)
    np.testing.assert_allclose(y, np.einsum("ijk,j,k->i", problem.A, problem.x, problem.x), atol=1e-12)
    assert fq.measure(batch.A, batch.x).shape == (4, 60)
    np.testing.assert_allclose(fq.measure(batch.A, batch.x), batch.y, atol=1e-12)
    noisy = fq.measure(problem.A, problem.x, noise=0.5, rng=3)
    np.testing.assert_array_equal(noisy, fq.measure(problem.A, problem.x, noise=0.5, rng=3))
    assert 0.3 < np.std(noisy - y) < 0.7


def test_distance():
    assert fq.distance([1.0, 0.0], [-1.0, 0.0]) == 0.0
    assert fq.distance([0.0, 0.0], [0.0, 0.0]) == 0.0
    assert fq.distance([1.0, 0.0], [0.0, 0.0]) == np.inf
    np.testing.assert_allclose(fq.distance([[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, -2.0]]), [0.0, 0.5])


def test_check_gradient(problem):
    assert fq.testing.check_gradient(problem.A).ok
    assert fq.testing.check_gradient(problem.A, problem.x, rng=1).ok
    assert fq.testing.check_gradient(problem.A.astype(np.float32)).ok


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("gradient", {"_products": lambda self, x, W, n_threads: np.copyto(W, np.tensordot(self.array, x, axes=1))}),
        ("products", {"_products": lambda self, x, W, n_threads: W.fill(0)}),
        ("weighted_sum", {"_weighted_sum": lambda self, w, n_threads: np.zeros((w.shape[1], self.n, self.n))}),
        ("diagonals", {"_diagonals": lambda self, n_threads: np.ones((self.m, self.n))}),
        ("block", {"_block": lambda self, rows, cols, n_threads: np.ones((self.m, len(rows), len(cols)))}),
        ("compress", {"_compress": lambda self, U, n_threads: np.ones((self.m, U.shape[1], U.shape[1]))}),
        ("rows", {"_rows": lambda self, support, n_threads: np.ones((self.m, len(support), self.n))}),
    ],
)
def test_check_gradient_finds_the_error(problem, name, broken):
    report = fq.testing.check_gradient(type("Broken", (fq.types.RawTensor,), broken)(problem.A))
    assert not report.ok
    assert report.errors[name] > 1e-3
