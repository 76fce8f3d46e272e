"""What others call: budgets that hold, Ctrl-C, names, arrays, gauges, and functions of the user's own."""

import threading
import warnings

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.digest import Sampled, digest
from fastquad.solvers import METHODS

SPARSE = [name for name in METHODS if name not in ("latent", "pgd", "ppower")]


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


# -- names --------------------------------------------------------------------------------------------------------


def test_few_names_are_at_the_top():
    assert len(fq.__all__) == len(set(fq.__all__)) <= 45
    assert all(hasattr(fq, name) for name in dir(fq))


@pytest.mark.parametrize("name", sorted(fq._MOVED))
def test_names_that_have_moved_are_still_there(name):
    with pytest.warns(DeprecationWarning, match=rf"fastquad\.{name} is now fastquad\.{fq._MOVED[name]}\.{name}"):
        old = getattr(fq, name)
    assert old is getattr(getattr(fq, fq._MOVED[name]), name)
    assert name not in dir(fq)


def test_modules_have_their_names_and_no_others():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in (fq.methods, fq.types):
            assert all(hasattr(module, name) for name in module.__all__)
            assert not hasattr(module, "Auto")
    with pytest.raises(AttributeError, match="has no attribute 'TWFF'"):
        fq.TWFF  # noqa: B018


# -- budgets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SPARSE)
@pytest.mark.parametrize("budget", [0.01, 0.5, 1.0, 2.1, 5.0])
def test_no_more_passes_than_allowed(problem, method, budget):
    solution = fq.solve(problem.A, problem.y, method=method, prior=fq.Sparse(k=3), max_passes=budget)
    assert solution.n_passes <= budget * (1 + 1e-9)
    whole = fq.solve(problem.A, problem.y, method=method, prior=fq.Sparse(k=3), max_iter=100)
    assert solution.status is fq.Status.MAX_PASSES or whole.n_passes <= budget * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["packed", "disk", "complex", "batch", "affine"])
def test_no_more_passes_than_allowed_of_any_kind(problem, tmp_path, kind):
    A, y, options = problem.A, problem.y, {}
    if kind == "packed":
        A = fq.pack(A)
    elif kind == "disk":
        fq.pack(A, tmp_path / "A.fq")
        A = tmp_path / "A.fq"
    elif kind == "complex":
        A = A + 1j * np.random.default_rng(0).standard_normal(A.shape)
        y = fq.measure((A + A.conj().transpose(0, 2, 1)) / 2, problem.x)
    elif kind == "batch":
        y = np.stack([y, 4 * y])
    else:
        A = fq.AffineTensor(A, np.random.default_rng(0).standard_normal((60, 30)))
        y = fq.measure(A, problem.x)
    for budget in (0.01, 1.0, 2.5):
        solution = fq.solve(A, y, max_passes=budget, **options)
        assert np.all(solution.n_passes <= budget * (1 + 1e-9))
    assert np.all(fq.solve(A, y, max_passes=500, **options).success)


def test_where_nothing_can_be_read_the_start_is_the_answer(problem):
    for x0 in (None, problem.x):
        solution = fq.solve(problem.A, problem.y, x0=x0, max_passes=0.001)
        assert solution.status is fq.Status.MAX_PASSES
        assert (solution.n_passes, solution.error, solution.stderr) == (0, None, None)
        assert np.array_equal(solution.x, np.zeros(30) if x0 is None else x0)
        assert ("x0=solution.x" in solution.message) == (x0 is not None)
    assert solution.residual == np.inf
    assert "residual of x is not known" in solution.message


def test_the_verdict_is_paid_for_too(problem):
    """One pass more than the search needs: x is found, and no success."""
    whole = fq.solve(problem.A, problem.y, method="sgn", prior=fq.Sparse(k=3))
    found = whole.history["n_passes"][-1]
    assert found < whole.n_passes
    solution = fq.solve(problem.A, problem.y, method="sgn", prior=fq.Sparse(k=3), max_passes=found)
    assert solution.status is fq.Status.MAX_PASSES
    assert fq.distance(solution.x, problem.x) < 1e-9
    assert "the verdict on it needs more passes" in solution.message


# -- Ctrl-C -------------------------------------------------------------------------------------------------------


def pressed_after(count):
    """A callback that stands for Ctrl-C after some steps, and the states that it saw."""
    seen = []

    def callback(state):
        seen.append(state)
        if len(seen) == count:
            raise KeyboardInterrupt

    return callback, seen


@pytest.mark.parametrize("method", ["auto", "lm", "twf"])
def test_ctrl_c_keeps_the_best_so_far(problem, method):
    callback, seen = pressed_after(3)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fq.solve(problem.A, problem.y, method=method, callback=callback, tol=0.0)
    solution = stopped.value.solution
    assert isinstance(stopped.value, fq.Interrupted)
    assert (solution.status, solution.success, solution.n_iter) == ("STOPPED", False, 3)
    best = min(seen, key=lambda state: state.residual)
    assert np.array_equal(solution.x, best.x) or solution.error is not None  # or what AMP believes
    assert fq.solve(problem.A, problem.y, x0=solution.x).success


def test_ctrl_c_in_a_batch_keeps_all(problem):
    callback, _ = pressed_after(5)
    with pytest.raises(fq.Interrupted) as stopped:
        fq.solve(problem.A, np.stack([problem.y, 4 * problem.y]), method="twf", callback=callback)
    assert stopped.value.solution.x.shape == (2, 30)
    assert set(stopped.value.solution.status) == {fq.Status.STOPPED}


def test_ctrl_c_before_the_first_answer(problem, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    A = fq.as_measurements(problem.A)
    monkeypatch.setattr(type(A), "diagonals", pressed)
    monkeypatch.setattr(type(A), "products", pressed)
    with pytest.raises(fq.Interrupted) as stopped:
        fq.solve(A, problem.y)
    assert not stopped.value.solution.x.any()
    assert "x0=solution.x" not in stopped.value.solution.message


def test_ctrl_c_through_the_reductions(problem):
    """Each hands on what it was given for x as the user knows x."""
    rng = np.random.default_rng(0)
    H = rng.standard_normal((60, 10, 10)) + 1j * rng.standard_normal((60, 10, 10))
    B = fq.BilinearTensor(rng.standard_normal((60, 8, 6)))
    affine = fq.AffineTensor(problem.A, np.ones((60, 30)))
    cases = [
        (H + H.conj().transpose(0, 2, 1), 10, {}),
        (affine, 30, {}),
        (B, 14, {}),
        (problem.A, 30, {"prior": fq.Sparse(basis=np.linalg.qr(rng.standard_normal((30, 30)))[0])}),
    ]
    for A, n, options in cases:
        x = rng.standard_normal(n)
        with pytest.raises(fq.Interrupted) as stopped:
            fq.solve(A, fq.measure(A, x), callback=pressed_after(2)[0], **options)
        assert stopped.value.solution.x.shape == (n,)


# -- measurements as arrays ---------------------------------------------------------------------------------------


def kinds(A):
    yield fq.as_measurements(A)
    yield fq.pack(A)
    yield fq.pack(A, dtype="float32")
    yield fq.RankOneTensor(A[:, 0])
    yield fq.ShiftTensor(6)
    yield fq.as_measurements(A + 1j * A.transpose(0, 2, 1))


def test_measurements_become_the_array_of_symmetric_matrices(problem):
    for A in kinds(problem.A):
        array = np.asarray(A)
        assert array.shape == A.shape
        assert np.array_equal(array, A.matrices(0, A.m))
        assert np.allclose(array, array.conj().transpose(0, 2, 1))
        assert np.asarray(A, dtype=array.dtype.char.replace("d", "f").replace("D", "F")).dtype.itemsize in (4, 8)


def test_a_tensor_larger_than_the_memory_becomes_no_array(problem):
    packed = fq.pack(problem.A)
    packed.memory = 8 * packed.m * packed.n**2
    assert np.asarray(packed).nbytes == packed.memory
    packed.memory -= 1
    with pytest.raises(MemoryError, match=r"need 432 kB as one array, .*: A.matrices\(i, j\) gives a few"):
        np.asarray(packed)
    with pytest.raises(TypeError, match=r"has no matrices: fastquad.pack\(A\)"):
        np.asarray(fq.OperatorTensor(lambda x: x**2, m=3, n=3))


def test_the_product_with_a_tensor_names_the_verbs(problem):
    for A in kinds(problem.A):
        for product in (lambda A=A: A @ np.ones(A.n), lambda A=A: np.ones(A.n) @ A):
            with pytest.raises(TypeError, match=r"A.measure\(x\) gives"):
                product()


# -- the gauge ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cyclic", [False, True])
def test_the_distance_knows_what_an_autocorrelation_leaves_open(cyclic):
    rng = np.random.default_rng(0)
    x = np.zeros(12)
    x[2:8] = rng.integers(1, 9, 6)
    A = fq.ShiftTensor(12, cyclic=cyclic)
    gauge = fq.solve(A, A.measure(x), prior=fq.Sparse(), max_iter=1).gauge
    for other in (x, -x, x[::-1], np.roll(x, 3), -np.roll(x[::-1], -1)):
        assert np.allclose(A.measure(other), A.measure(x))
        assert fq.distance(other, x, gauge=gauge) < 1e-12
    assert fq.distance(np.roll(x, 3), x) > 0.1
    # Moved over the end it is another signal, but on a circle.
    over = np.roll(x, 6)
    assert (fq.distance(over, x, gauge=gauge) < 1e-12) == cyclic
    assert np.allclose(A.measure(over), A.measure(x)) == cyclic
    assert fq.distance(np.stack([x, 2 * x]), np.stack([x, x]), gauge=gauge).tolist() == pytest.approx([0, 1])


def test_a_gauge_is_that_of_the_solution(problem):
    assert fq.solve(problem.A, problem.y).gauge == "sign"
    z = np.array([1.0, 2j])
    assert fq.distance(1j * z, z, gauge="phase") < 1e-12
    assert fq.distance(z.conj(), z, gauge="phase") > 0.5
    assert fq.distance(1j * z.conj(), z, gauge="phase and conjugation") < 1e-12
    with pytest.raises(ValueError, match="`gauge` must be what a solution has"):
        fq.distance(z, z, gauge="mirror")
    with pytest.raises(TypeError, match="`gauge` must be a string"):
        fq.distance(z, z, gauge=1)


# -- functions of the user's own ----------------------------------------------------------------------------------


class Calls:
    """What a function was called with, and in which threads."""

    def __init__(self):
        self.threads, self.given = set(), []

    def see(self, array):
        self.threads.add(threading.current_thread())
        self.given.append(array)
        array[...] = np.nan  # a copy may be written to


class Watched(fq.Prior):
    def __init__(self, wrong=None):
        self.calls, self.wrong = Calls(), wrong

    def denoise(self, b, a):
        mean, variance = b / (a + 1), np.full(b.size, 1 / (a + 1))
        self.calls.see(b)
        if self.wrong == "shape":
            return mean[:-1], variance
        return (np.full_like(mean, np.nan) if self.wrong == "nan" else mean), variance


def test_a_denoiser_is_called_in_the_main_thread_with_a_copy():
    rng = np.random.default_rng(0)
    A, X, prior = rng.standard_normal((60, 20, 20)), rng.standard_normal((2, 20)), Watched()
    assert np.all(fq.solve(A, fq.measure(A, X), prior=prior, method="amp", n_threads=2).success)
    assert prior.calls.threads == {threading.main_thread()}
    assert {array.shape for array in prior.calls.given} == {(20,)}


@pytest.mark.parametrize(("wrong", "words"), [("shape", r"real mean of shape \(30,\)"), ("nan", "finite mean")])
def test_what_a_denoiser_gives_is_checked(problem, wrong, words):
    with pytest.raises(ValueError, match=f"`denoise` of `prior` must give a {words}"):
        fq.solve(problem.A, problem.y, prior=Watched(wrong), method="amp")


class Linear(fq.decoders.BaseDecoder):
    def __init__(self, W, wrong=None):
        self.W, (self.n_latent, self.n), self.dtype, self.wrong, self.calls = W, W.shape, W.dtype, wrong, Calls()

    def forward(self, Z):
        values = Z @ self.W
        self.calls.see(Z)
        return values[:, :-1] if self.wrong == "forward" else values

    def vjp(self, Z):
        return self.forward(Z), lambda V: V @ self.W.T * (np.nan if self.wrong == "vjp" else 1)

    def jacobian(self, Z):
        J = np.broadcast_to(self.W.T, (len(Z), self.n, self.n_latent))
        return self.forward(Z), J[..., :-1] if self.wrong == "jacobian" else J


@pytest.mark.parametrize("wrong", [None, "forward", "vjp", "jacobian"])
def test_a_decoder_is_called_with_copies_and_checked(wrong):
    rng = np.random.default_rng(0)
    W, A = rng.standard_normal((3, 20)), rng.standard_normal((40, 20, 20))
    decoder = Linear(W, wrong)
    x = rng.standard_normal(3) @ W
    method = "pgd" if wrong == "vjp" else "latent"
    if wrong is None:
        assert fq.distance(fq.solve(A, fq.measure(A, x), prior=fq.Generative(decoder)).x, x) < 1e-6
        assert decoder.calls.threads == {threading.main_thread()}
    else:
        with pytest.raises(ValueError, match=f"`{wrong}` of the decoder must give"):
            fq.solve(A, fq.measure(A, x), prior=fq.Generative(decoder), method=method)


def test_a_callback_sees_what_stays_as_it_was(problem):
    states = []
    fq.solve(problem.A, problem.y, method="twf", max_iter=5, callback=states.append)
    again = []
    fq.solve(problem.A, problem.y, method="twf", max_iter=5, callback=lambda state: again.append(state.x.copy()))
    assert all(np.array_equal(state.x, x) for state, x in zip(states, again, strict=True))


# -- what a checkpoint knows a function by ------------------------------------------------------------------------


def shrinking(factor):
    class Shrinking(fq.Prior):
        def denoise(self, b, a):
            return factor * b / (a + 1), np.full(b.size, factor / (a + 1))

    return Shrinking()


def test_a_prior_is_known_by_its_values_not_by_its_name():
    assert digest(Sampled(shrinking(1.0), 10)) == digest(Sampled(shrinking(1.0), 10))
    assert digest(Sampled(shrinking(1.0), 10)) != digest(Sampled(shrinking(0.5), 10))


def test_a_checkpoint_of_another_function_is_refused(problem, tmp_path):
    options = {"method": "amp", "checkpoint": tmp_path / "solve.ck", "max_passes": 3}
    first = fq.solve(problem.A, problem.y, prior=shrinking(1.0), **options)
    assert fq.solve(problem.A, problem.y, prior=shrinking(1.0), **options).n_passes == first.n_passes
    with pytest.raises(ValueError, match="belongs to another solve: prior differs"):
        fq.solve(problem.A, problem.y, prior=shrinking(0.5), **options)


# -- the norm -----------------------------------------------------------------------------------------------------


def test_a_norm_that_is_not_that_of_x_is_named_and_proves_nothing():
    problem = fq.problems.gaussian(m=80, n=20, k=20, rng=0)
    norm = float(np.linalg.norm(problem.x))
    right = fq.solve(problem.A, problem.y, norm=norm)
    wrong = fq.solve(problem.A, problem.y, norm=1.01 * norm)
    assert (right.status, wrong.proof) == (fq.Status.PROVEN, None)
    assert wrong.status is not fq.Status.PROVEN
    assert f"but the norm of x is {norm:.10g}" in wrong.message
