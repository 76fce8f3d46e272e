"""Arrays of other libraries, computed where they are: every contraction against NumPy, to the last digits."""

import naive
import numpy as np
import pytest
from tensors import complex_normal, relative_error

import fastquad as fq
from fastquad.measurements.dense import foreign
from fastquad.testing import check_measurements


def strict():
    """array-api-strict: NumPy with nothing but the standard."""
    return pytest.importorskip("array_api_strict").asarray


def torch():
    return pytest.importorskip("torch").asarray


def numpy():
    return np.asarray


LIBRARIES = {"numpy": numpy, "strict": strict, "torch": torch}


def dense(m, n, dtype, *, hermitian=False, seed=0):
    rng = np.random.default_rng(seed)
    A = complex_normal(rng, m, n, n) if np.dtype(dtype).kind == "c" else rng.standard_normal((m, n, n))
    return (naive.sym(A) if hermitian else A).astype(dtype)


def calls(m, n, batch, complex_signals):
    rng, shape = np.random.default_rng(1), () if batch is None else (batch,)
    x = complex_normal(rng, n, *shape) if complex_signals else rng.standard_normal((n, *shape))
    c, v = rng.standard_normal((m, *shape)), rng.random((n, *shape))
    few = np.zeros_like(x)
    few[1] = 1.5
    yield from [("products", x), ("products", few), ("measure", x), ("weighted_sum", c), ("sweep", x, v, c)]
    if batch is None:
        yield from [("diagonals",), ("rows", [4, 1]), ("block", [1, 4], [0, 2, 3]), ("gradient", x, c)]
        yield from [("along", x, x[::-1].copy()), ("along", x, np.stack([x, 2 * x], axis=1)), ("gram", x, c**2, c)]
    else:
        yield ("compress", x)


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_agrees_with_numpy(library, dtype, hermitian, batch, monkeypatch):
    m, n = 23, 9
    array = dense(m, n, dtype, hermitian=hermitian)
    monkeypatch.setattr(foreign, "_CHUNK_BYTES", 5 * array[0].nbytes)  # several chunks
    A = fq.ArrayTensor(LIBRARIES[library]()(array))
    assert A.dtype == dtype
    # Sums are in double precision, whatever A is stored in: entries are rounded, and nothing else.
    for name, *arguments in calls(m, n, batch, A.complex):
        expected = getattr(naive, name)(array, *[np.asarray(each) for each in arguments])
        assert relative_error(getattr(A, name)(*arguments), expected) < 1e-12, name
    np.testing.assert_allclose(A.matrices(3, 8), naive.sym(array)[3:8], rtol=1e-14)
    x = np.ones(n)
    for transpose in (False, True):
        got = A.sided_products(x, transpose=transpose)
        assert relative_error(got, naive.sided_products(array, x.astype(A.number), transpose)) < 1e-12


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_it_conforms(library, dtype):
    assert check_measurements(fq.ArrayTensor(LIBRARIES[library]()(dense(12, 6, dtype)))).ok


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["auto", "lm", "twf"])
def test_it_is_solved(library, method):
    problem = fq.problems.gaussian(m=90, n=30, k=4, rng=0)
    A = fq.ArrayTensor(LIBRARIES[library]()(problem.A))
    solution = fq.solve(A, problem.y, method=method)
    assert solution.success
    assert fq.distance(solution.x, problem.x) < 1e-6
    np.testing.assert_array_equal(fq.pack(A).blocks, fq.pack(problem.A).blocks)


def test_rough_products_are_of_the_stored_precision():
    array = dense(20, 12, "float32")
    A, x = fq.ArrayTensor(array), np.linspace(-1, 1, 12)
    exact, rough = A.products(x), A.products(x, precise=False)
    assert 0 < relative_error(rough, exact) < 1e-5


@pytest.mark.parametrize("library", ["strict", "torch"])
def test_the_array_never_comes_to_the_host(library, monkeypatch):
    """Whatever comes back has fewer numbers than A, where a solver asks for no part of it."""
    array = dense(60, 12, "float64")
    A = fq.ArrayTensor(LIBRARIES[library]()(array))
    came = []
    there = foreign.on_host
    monkeypatch.setattr(foreign, "on_host", lambda value: came.append(int(np.prod(value.shape))) or there(value))
    x, w = np.ones(12), np.ones(60)
    A.measure(x), A.along(x, x), A.gradient(x, w), A.gram(x, w, w), A.weighted_sum(w), A.products(x)
    assert max(came) <= 60 * 12


@pytest.mark.parametrize(("A", "error", "words"), [
    (np.ones((4, 4)), ValueError, r"`A` must have shape \(m, n, n\), got \(4, 4\)"),
    (np.ones((4, 3, 2)), ValueError, r"got \(4, 3, 2\)"),
    (np.ones((4, 3, 3), dtype=int), TypeError, "float32, float64, complex64 or complex128, got int64"),
    ([[[1.0]]], TypeError, "an array of PyTorch or of the array API standard, got list"),
])  # fmt: skip
def test_refuses(A, error, words):
    with pytest.raises(error, match=words):
        fq.ArrayTensor(A)


def test_a_gradient_is_refused():
    with pytest.raises(TypeError, match=r"must not require a gradient, .* give A.detach\(\)"):
        fq.ArrayTensor(torch()(np.ones((4, 3, 3))).requires_grad_())


def test_jax_without_double_precision():
    jax = pytest.importorskip("jax")
    array = dense(23, 9, "float32")
    A = fq.ArrayTensor(jax.numpy.asarray(array))
    for name, *arguments in calls(23, 9, None, False):
        expected = getattr(naive, name)(array, *[np.asarray(each) for each in arguments])
        assert relative_error(getattr(A, name)(*arguments), expected) < 1e-5, name
