"""Measurements that are a user's functions: against the matrices that they stand for, and how they are called."""

import re
import threading

import naive
import numpy as np
import pytest
from tensors import complex_normal, relative_error

import fastquad as fq
from fastquad.testing import check_measurements


def functions(array):
    """The functions of a dense tensor."""
    H = naive.sym(array)
    return (
        lambda x: np.einsum("j,ijk,k->i", x.conj(), H, x).real,
        lambda x, v: 2 * np.einsum("j,ijk,k->i", x.conj(), H, v).real,
        lambda x, w: 2 * np.einsum("i,ijk,k->j", w, H, x),
    )


def tensor(m, n, *, complex_signals=False, given=3, seed=0, dtype=None):
    rng = np.random.default_rng([seed, m, n])
    array = complex_normal(rng, m, n, n) if complex_signals else rng.standard_normal((m, n, n))
    dtype = dtype or (complex if complex_signals else float)
    chosen = dict(zip(("measure", "jvp", "vjp"), functions(array)[:given], strict=False))
    return fq.OperatorTensor(**chosen, m=m, n=n, dtype=dtype), array


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("given", [1, 2, 3])
@pytest.mark.parametrize("complex_signals", [False, True])
def test_agrees_with_the_matrices(complex_signals, given, batch):
    m, n = 9, 5
    A, array = tensor(m, n, complex_signals=complex_signals, given=given)
    rng, shape = np.random.default_rng(1), () if batch is None else (batch,)
    x = complex_normal(rng, n, *shape) if complex_signals else rng.standard_normal((n, *shape))
    c, v = rng.standard_normal((m, *shape)), rng.random((n, *shape))
    calls = [("products", x), ("measure", x), ("weighted_sum", c), ("sweep", x, v, c)]
    if batch is None:
        calls += [("diagonals",), ("rows", [1, 4]), ("block", [1, 4], [0, 2, 3]), ("gradient", x, c)]
        calls += [("along", x, x[::-1].copy()), ("gram", x, c**2, c)]
    else:
        calls += [("compress", x)]
    for name, *arguments in calls:
        expected = getattr(naive, name)(array, *[np.asarray(each) for each in arguments])
        assert relative_error(getattr(A, name)(*arguments), expected) < 1e-12, name
    np.testing.assert_allclose(A.matrices(2, 5), naive.sym(array)[2:5], rtol=1e-12, atol=1e-12)
    assert fq.testing.check_gradient(A).ok


def test_a_wrong_derivative_is_found():
    measure, jvp, vjp = functions(np.random.default_rng(0).standard_normal((9, 5, 5)))
    wrong = fq.OperatorTensor(measure, jvp, lambda x, w: vjp(x, w) / 2, m=9, n=5)
    assert not fq.testing.check_gradient(wrong).ok
    conjugated = functions(complex_normal(np.random.default_rng(0), 9, 5, 5))
    wrong = fq.OperatorTensor(*conjugated[:2], lambda x, w: conjugated[2](x, w).conj(), m=9, n=5, dtype=complex)
    assert not fq.testing.check_gradient(wrong).ok


def test_how_functions_are_called():
    measure, jvp, vjp = functions(np.random.default_rng(0).standard_normal((40, 8, 8)))
    here, seen = threading.get_ident(), []

    def watched(function):
        def call(*arguments):
            assert threading.get_ident() == here
            assert all(each.shape in ((8,), (40,)) for each in arguments)  # one signal at a time
            seen.append(function)
            answer = function(*arguments)
            for each in arguments:
                each[...] = np.nan  # they are copies
            return answer

        return call

    A = fq.OperatorTensor(watched(measure), watched(jvp), watched(vjp), m=40, n=8)
    x = np.arange(1.0, 9.0)
    Y = np.stack([A.measure(x), A.measure(x[::-1])])
    solutions = fq.solve(A, Y, n_threads=3)
    assert all(fq.distance(found.x, true) < 1e-8 for found, true in zip(solutions, (x, x[::-1]), strict=True))
    assert set(seen) == {measure, jvp, vjp}


@pytest.mark.parametrize(("answer", "words"), [
    (np.ones(8), "`measure` must give real numbers of shape (9,), got float64 of shape (8,)"),
    (np.ones((9, 1)), "got float64 of shape (9, 1)"),
    (np.ones(9, dtype=complex), "`measure` must give real numbers of shape (9,), got complex128"),
    (None, "`measure` must give real numbers of shape (9,), got object of shape ()"),
    (np.full(9, np.nan), "`measure` must give finite numbers, got NaN or inf"),
])  # fmt: skip
def test_answers_are_checked(answer, words):
    A = fq.OperatorTensor(lambda x: answer, m=9, n=5)
    with pytest.raises(ValueError, match=re.escape(words)):
        A.measure(np.ones(5))
    with pytest.raises(ValueError, match=re.escape(words)):
        fq.solve(A, np.ones(9))


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"measure": 3}, TypeError, "`measure` must be a function, got int"),
    ({"measure": abs, "vjp": 3}, TypeError, "`vjp` must be a function, got int"),
    ({"measure": abs, "m": 0}, ValueError, "`m` must be a positive integer, got 0"),
    ({"measure": abs, "dtype": int}, TypeError, "`dtype` must be float32, float64, complex64 or complex128, got int64"),
])  # fmt: skip
def test_refuses(arguments, error, words):
    with pytest.raises(error, match=words):
        fq.OperatorTensor(**{"m": 9, "n": 5, **arguments})


def test_single_precision_is_what_functions_get():
    A = fq.OperatorTensor(lambda x: (x.dtype == np.float32) * np.ones(3), m=3, n=2, dtype="float32")
    np.testing.assert_array_equal(A.measure([1.0, 2.0]), 1.0)


def test_it_conforms_but_for_its_cost():
    A, _ = tensor(12, 5)
    with pytest.raises(AssertionError) as caught:
        check_measurements(A)
    # A product is as many calls as there are coordinates, and says so.
    assert all("cost of" in line for line in str(caught.value).splitlines()[1:])


# -- adaptors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [float, complex])
def test_a_linear_operator_of_scipy(dtype):
    from scipy.sparse.linalg import aslinearoperator

    rng = np.random.default_rng(0)
    B = complex_normal(rng, 80, 12) if dtype is complex else rng.standard_normal((80, 12))
    A = fq.OperatorTensor.from_linear_operator(aslinearoperator(B))
    assert A.dtype == dtype
    assert fq.testing.check_gradient(A).ok
    x = complex_normal(rng, 12) if dtype is complex else rng.standard_normal(12)
    solution = fq.solve(A, np.abs(B @ x) ** 2)
    assert fq.distance(solution.x, x) < 1e-9
    real = fq.OperatorTensor.from_linear_operator(aslinearoperator(B), dtype=float)  # of real x
    assert fq.testing.check_gradient(real).ok
    with pytest.raises(TypeError, match=r"`B` must be a linear operator .* got ndarray"):
        fq.OperatorTensor.from_linear_operator(B)
    with pytest.raises(TypeError, match=r"fastquad.OperatorTensor.from_linear_operator"):
        fq.solve(aslinearoperator(B), np.abs(B @ x) ** 2)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_function_of_jax(dtype):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    B = (complex_normal(rng, 60, 10) if dtype == "complex64" else rng.standard_normal((60, 10))).astype(dtype)
    A = fq.OperatorTensor.from_jax(lambda x: jax.numpy.abs(B @ x) ** 2, 10, dtype=dtype)
    assert (A.m, A.n, A.dtype) == (60, 10, dtype)
    assert fq.testing.check_gradient(A, tol=1e-4).ok
    x = complex_normal(rng, 10) if dtype == "complex64" else rng.standard_normal(10)
    assert fq.distance(fq.solve(A, np.abs(B @ x) ** 2).x, x) < 1e-4
    with pytest.raises(ValueError, match="`function` must give real numbers of shape"):
        fq.OperatorTensor.from_jax(lambda x: B @ x if dtype == "complex64" else (B @ x)[:, None], 10, dtype=dtype)


class Physics:
    """A physics of deepinv's, as its phase retrieval is: squared lengths, and their vector-Jacobian product."""

    def __init__(self, torch, B):
        self.torch, self.B = torch, torch.as_tensor(B)

    def buffers(self):
        return iter([self.B])

    def A(self, x):
        return (x.reshape(len(x), -1).to(self.B.dtype) @ self.B.T).abs().square()

    def A_vjp(self, x, v):
        z = x.reshape(len(x), -1).to(self.B.dtype) @ self.B.T
        return (2 * (v * z) @ self.B.conj()).reshape(x.shape)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_a_physics_of_deepinv(dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    B = complex_normal(rng, 100, 12).astype(dtype)
    A = fq.OperatorTensor.from_deepinv(Physics(torch, B), (1, 3, 4), dtype=dtype)
    assert (A.m, A.n) == (100, 12)
    tol = 1e-10 if dtype == "complex128" else 1e-4
    assert fq.testing.check_gradient(A, tol=tol).ok
    x = complex_normal(rng, 12)
    assert fq.distance(fq.solve(A, np.abs(B @ x) ** 2).x, x) < 10 * tol


# -- what runs on functions alone -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "words"), [
    ({"method": "amp"}, "`method` 'amp' needs the entries of A"),
    ({"method": "pursuit"}, "`method` 'pursuit' needs the entries of A"),
    ({"prior": fq.Sparse(k=2, groups=[0, 0, 1, 1, 2])}, "`prior` Sparse is used by methods that need the entries of A"),
])  # fmt: skip
def test_methods_that_need_entries_say_so(options, words):
    A, _ = tensor(30, 5)
    with pytest.raises(ValueError, match=words):
        fq.solve(A, A.measure(np.arange(5.0)), **options)


@pytest.mark.parametrize("complex_signals", [False, True])
def test_no_entry_is_asked_for(complex_signals, monkeypatch):
    """The default method, its verdict and "lm" need the three functions, and no product or matrix."""
    A, _ = tensor(60, 10, complex_signals=complex_signals)
    x = complex_normal(np.random.default_rng(0), 10) if complex_signals else np.arange(10.0)
    y = A.measure(x)
    for name in ("_apply", "_block", "_diagonals", "_weighted_sum", "_compress", "matrices", "_sweep"):
        monkeypatch.setattr(fq.OperatorTensor, name, None)
    for method in ("auto", "lm"):
        solution = fq.solve(A, y, method=method)
        assert solution.status == "EXACT"
        assert fq.distance(solution.x, x) < 1e-10
        assert solution.n_passes > 10
    noisy = y + 0.01 * np.abs(y).mean() * np.random.default_rng(1).standard_normal(60)
    solution = fq.solve(A, noisy)
    assert solution.success
    assert fq.distance(solution.x, x) < 3 * solution.error


def test_the_error_in_noise_is_that_of_least_squares():
    ratios = []
    for seed in range(8):
        A, _ = tensor(120, 12, seed=seed)
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(12)
        sigma = np.where(np.arange(120) % 2, 0.1, 1.0)
        solution = fq.solve(A, A.measure(x) + sigma * rng.standard_normal(120), noise=sigma)
        J = 2 * A.products(x) / sigma[:, None]
        expected = np.sqrt(np.trace(np.linalg.inv(J.T @ J))) / np.linalg.norm(x)
        assert 0.6 < solution.error / expected < 1.6
        ratios.append(fq.distance(solution.x, x) / solution.error)
    assert max(ratios) < 3


def test_another_signal_is_found():
    # Every sign of every entry measures the same: a diagonal tensor.
    d = np.random.default_rng(0).standard_normal((40, 6))
    A = fq.OperatorTensor(lambda x: d @ x**2, lambda x, v: 2 * d @ (x * v), lambda x, w: 2 * (w @ d) * x, m=40, n=6)
    solution = fq.solve(A, d @ np.arange(1.0, 7.0) ** 2)
    assert solution.status == "AMBIGUOUS"
    assert solution.rival is not None
    np.testing.assert_allclose(A.measure(solution.rival), A.measure(solution.x), rtol=1e-7)
    assert fq.distance(solution.rival, solution.x) > 0.05


def test_a_function_is_known_to_a_checkpoint_by_its_values(tmp_path):
    A, _ = tensor(40, 6)
    other, _ = tensor(40, 6, seed=1)
    y, path = A.measure(np.arange(6.0)), tmp_path / "solve.ck"
    first = fq.solve(A, y, checkpoint=path)
    again = fq.solve(fq.OperatorTensor(*A._functions.values(), m=40, n=6), y, checkpoint=path)
    np.testing.assert_array_equal(first.x, again.x)
    with pytest.raises(ValueError, match="belongs to another solve: A differs"):
        fq.solve(other, y, checkpoint=path)
