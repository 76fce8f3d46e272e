"""Sparse matrices: each contraction against the dense tensor, what comes in, what it costs."""

import numpy as np
import pytest
from scipy import sparse
from tensors import assert_agrees

import fastquad as fq


def random_matrices(m, n, density, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    formats = ["csr", "coo", "lil", "csc"]
    entries = rng.standard_normal((m, n, n)) * (rng.random((m, n, n)) < density)
    return [sparse.csr_array(each.astype(dtype)).asformat(formats[i % 4]) for i, each in enumerate(entries)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("m", "n", "density"), [(1, 1, 1.0), (3, 1, 0.5), (7, 5, 0.3), (20, 33, 0.05), (4, 6, 0.0)])
def test_agrees_with_the_dense_tensor(m, n, density, dtype):
    matrices = random_matrices(m, n, density, dtype=dtype)
    array = np.stack([matrix.toarray() for matrix in matrices]).astype(float)
    A = fq.SparseTensor(matrices)
    assert A.dtype == ("float32" if dtype == "float32" else "float64")
    assert_agrees(A, array)
    assert_agrees(fq.as_measurements(sparse.vstack(matrices)), array)


def test_entries_that_are_given_twice_are_added():
    twice = sparse.coo_array(([1.0, 2.0, 5.0, -5.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    A = fq.SparseTensor([twice])
    np.testing.assert_array_equal(A.matrices(0, 1), [[[0.0, 1.5], [1.5, 0.0]]])
    assert fq.SparseTensor([sparse.coo_array(([1.0, -1.0], ([0, 1], [1, 0])), shape=(2, 2))]).nnz == 0


def test_a_pass_is_its_nonzeros():
    n, m = 5000, 3
    diagonal = sparse.eye_array(n)
    A = fq.as_measurements([diagonal] * m)  # dense: 600 MB
    assert isinstance(A, fq.SparseTensor)
    assert A.nnz == m * n
    assert A.nbytes == 12 * m * n
    np.testing.assert_allclose(A.measure(np.ones(n)), n)


def test_a_sparse_tensor_is_solved():
    n, m = 60, 240
    matrices = random_matrices(m, n, 0.05, seed=3)
    x = np.random.default_rng(0).standard_normal(n)
    solution = fq.solve(matrices, fq.SparseTensor(matrices).measure(x))
    assert fq.distance(solution.x, x) < 1e-9


@pytest.mark.parametrize(("matrices", "error", "said"), [
    ([], ValueError, "`matrices` must be at least one"),
    (np.ones((2, 2, 2)), TypeError, "`matrices` must be scipy.sparse matrices, in a list or stacked, got ndarray"),
    ([np.ones((2, 2))], TypeError, "got ndarray for matrix 0"),
    ([sparse.eye_array(2), sparse.eye_array(3)], ValueError, r"one shape \(n, n\), got \(3, 3\) for matrix 1"),
    (sparse.eye_array(3, 2), ValueError, r"stacked must have shape \(m n, n\)"),
    ([sparse.eye_array(2) * np.nan], ValueError, "`matrices` must be finite"),
    ([sparse.eye_array(2, dtype=np.longdouble)], TypeError, "`matrices` must hold numbers in single"),
])  # fmt: skip
def test_refuses(matrices, error, said):
    with pytest.raises(error, match=said):
        fq.SparseTensor(matrices)


# -- complex matrices, and those of the other structured tensors ------------------------------------------------------


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def complex_tensor(kind, m, n, rng):
    """A structured tensor of complex matrices, and the (m, n, n) array that it stands for."""
    a, w = complex_normal(rng, m, 3, n), rng.standard_normal(3)
    if kind == "low rank":
        return fq.LowRankTensor(a, w), np.einsum("r,irj,irk->ijk", w, a, a.conj())
    if kind == "rank one":
        return fq.RankOneTensor(a[:, 0]), np.einsum("ij,ik->ijk", a[:, 0], a[:, 0].conj())
    each = [sparse.csr_array(complex_normal(rng, n, n) * (rng.random((n, n)) < 0.3)) for _ in range(m)]
    return fq.SparseTensor(each), np.stack([matrix.toarray() for matrix in each])


def close(got, expected):
    return np.abs(np.asarray(got) - expected).max() <= 1e-12 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("batch", [(), (1,), (4,)])
@pytest.mark.parametrize("kind", ["sparse", "rank one", "low rank"])
def test_complex_contractions(kind, batch):
    rng = np.random.default_rng(1)
    m, n = 12, 7
    A, H = complex_tensor(kind, m, n, rng)
    H = (H + H.conj().transpose(0, 2, 1)) / 2
    assert A.complex
    x, v, c = complex_normal(rng, n, *batch), rng.random((n, *batch)), rng.standard_normal((m, *batch))
    few = x.copy()
    few[1:] = 0
    y = np.einsum("ijk,j...,k...->i...", H, x.conj(), x).real
    r = c - y - np.einsum("ijj,j...->i...", H.real, v)
    swept = A.sweep(x, v, c)
    U = complex_normal(rng, n, 3)
    pairs = [
        (A.products(x), np.einsum("ijk,k...->ij...", H, x)), (A.products(few), np.einsum("ijk,k...->ij...", H, few)),
        (A.measure(x), y), (A.weighted_sum(c), np.einsum("ijk,i...->...jk", H, c)), (swept[0], r),
        (swept[1], np.einsum("ijk,i...->...jk", H, r)), (A.diagonals(), np.einsum("ijj->ij", H).real),
        (A.rows([1, 4]), H[:, [1, 4]]), (A.block([1, 4], [0, 6]), H[:, [1, 4]][:, :, [0, 6]]),
        (A.compress(U), np.einsum("jp,ijk,kq->ipq", U.conj(), H, U)), (A.matrices(3, 8), H[3:8]),
    ]  # fmt: skip
    assert all(close(got, expected) for got, expected in pairs)


@pytest.mark.parametrize("signal", ["real", "complex"])
@pytest.mark.parametrize("kind", ["rank one", "low rank"])
def test_phase_retrieval_with_complex_vectors(kind, signal):
    rng = np.random.default_rng(5)
    n, m = 20, 80
    a = complex_normal(rng, m, 2, n)
    A = fq.RankOneTensor(a[:, 0]) if kind == "rank one" else fq.LowRankTensor(a, [0.5, 2.0])
    x = complex_normal(rng, n) if signal == "complex" else rng.standard_normal(n)
    solution = fq.solve(A, fq.measure(A, x), signal=None if signal == "complex" else "real")
    assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
    assert fq.distance(solution.x, x) < 1e-9
    assert solution.x.dtype == x.dtype


def test_a_network_of_complex_voltages_from_the_flat_start():
    rng = np.random.default_rng(0)
    n = 12
    V = (1 + 0.05 * rng.standard_normal(n)) * np.exp(0.2j * rng.standard_normal(n))
    matrices = [sparse.coo_array(([1.0 + 0j], ([i], [i])), shape=(n, n)) for i in range(n)]
    for i in range(n):
        k = (i + 1) % n
        M = sparse.coo_array((complex_normal(rng, 2), ([i, k], [i, i])), shape=(n, n))
        matrices += [(M + M.conj().T) / 2, (M - M.conj().T) / 2j]
    A = fq.SparseTensor(matrices)
    for start in (np.ones(n), None):
        solution = fq.solve(A, fq.measure(A, V), x0=start)
        assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
        assert fq.distance(solution.x, V) < 1e-9


def test_few_coordinates_are_found_where_every_matrix_sees_all():
    """Regression: a tenth of the entries of each matrix; descents on all coordinates ended at another signal."""
    rng = np.random.default_rng(0)
    m, n, filled = 150, 150, 2250
    matrices = []
    for _ in range(m):
        j, k = np.divmod(rng.choice(n * n, filled, replace=False), n)
        matrices.append(sparse.coo_array((rng.standard_normal(filled), (j, k)), shape=(n, n)))
    A = fq.SparseTensor(matrices)
    assert A.gram_kind is None
    x = np.zeros(n)
    x[[7, 50]] = 1.2, -0.8
    solution = fq.solve(A, A.measure(x))
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-9
