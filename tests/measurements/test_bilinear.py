"""Products of two unknown vectors: the balanced tensor against its matrices, and solves up to the scale."""

import numpy as np
import pytest
from tensors import assert_agrees

import fastquad as fq


def instance(m, p, q, k=None, seed=0):
    """Gaussian matrices, u with k nonzeros and v without a zero."""
    rng = np.random.default_rng([m, p, q, seed])
    A, u, v = fq.BilinearTensor(rng.standard_normal((m, p, q))), np.zeros(p), rng.standard_normal(q)
    chosen = rng.permutation(p)[: p if k is None else k]
    u[chosen] = rng.standard_normal(chosen.size)
    return A, u, v


def apart(A, x, u, v):
    """The relative distance of the outer products, which do not depend on the scale."""
    return np.linalg.norm(np.outer(*A.split(x)) - np.outer(u, v)) / np.linalg.norm(np.outer(u, v))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("m", "p", "q"), [(5, 1, 1), (7, 4, 2), (20, 3, 30)])
def test_the_balanced_tensor_agrees_with_its_matrices(m, p, q, dtype):
    B = (3 * np.random.default_rng([m, p, q]).standard_normal((m, p, q))).astype(dtype)
    tensor = fq.BilinearTensor(B).balanced()
    array = np.zeros((m + 1, p + q, p + q))
    array[:m, :p, p:] = B
    array[m] = np.diag(np.r_[np.full(p, tensor.kappa), np.full(q, -tensor.kappa)])
    assert_agrees(tensor, array)
    x = np.random.default_rng(1).standard_normal(p + q)
    expected = [x[:p] @ each @ x[p:] for each in B.astype(float)]
    np.testing.assert_allclose(fq.measure(fq.BilinearTensor(B), x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("p", "q", "k", "m"), [(64, 10, 5, 45), (10, 64, None, 200), (120, 20, 10, 100)])
def test_sparse_and_dense_sides_are_told_apart(p, q, k, m):
    for seed in range(3):
        A, u, v = instance(m, p, q, k, seed)
        solution = fq.solve(A, fq.measure(A, np.concatenate([u, v])))
        assert solution.status is fq.Status.EXACT
        assert apart(A, solution.x, u, v) < 1e-9
        found_u, found_v = A.split(solution.x)
        assert np.linalg.norm(found_u) == pytest.approx(np.linalg.norm(found_v))
        assert np.count_nonzero(found_u) == np.count_nonzero(u)


def test_noise_ends_near_least_squares_on_the_true_support():
    A, u, v = instance(80, 64, 10, 5)
    y = fq.measure(A, np.concatenate([u, v]))
    y = y + 0.05 * np.sqrt(np.mean(y**2)) * np.random.default_rng(0).standard_normal(80)
    solution = fq.solve(A, y)
    true = np.flatnonzero(u)
    part, x = fq.BilinearTensor(A.B[:, true]), np.concatenate([u[true], v])
    best = fq.solve(part, y, x0=x, method="lm")
    oracle = np.zeros_like(np.outer(u, v))
    oracle[true] = np.outer(*part.split(best.x))
    error = np.linalg.norm(oracle - np.outer(u, v)) / np.linalg.norm(np.outer(u, v))
    assert solution.status is fq.Status.CONVERGED
    assert apart(A, solution.x, u, v) < 1.5 * error
    # The error of the product is that of both vectors together.
    assert 0.5 * error < np.sqrt(2) * solution.error < 2 * error


def test_batches_starts_and_truth_of_any_scale():
    A, u, v = instance(60, 12, 6)
    x = np.concatenate([30.0 * u, v])
    solutions = fq.solve(A, np.stack([fq.measure(A, x), fq.measure(A, 2 * x)]), x0=x, x_true=x)
    assert len(solutions) == 2
    assert solutions[0].history["distance"][-1] < 1e-9
    assert apart(A, solutions[1].x, 30 * u, 4 * v) < 1e-9


def test_too_few_measurements_are_no_success():
    A, u, v = instance(12, 20, 10)
    assert not fq.solve(A, fq.measure(A, np.concatenate([u, v])), max_time=2).success


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: fq.BilinearTensor(np.ones((3, 4))), ValueError, r"`B` must have shape \(m, p, q\)"),
    (lambda: fq.BilinearTensor(np.ones((3, 4, 2)) * 1j), TypeError, "`B` must hold real numbers"),
    (lambda: fq.BilinearTensor(np.ones((3, 4, 2))).split(np.ones(5)), ValueError, r"`x` must have shape \(…, 6\)"),
    (lambda: fq.solve(fq.BilinearTensor(np.ones((3, 4, 2))), np.ones(4)), ValueError, r"`y` must have shape \(3,\)"),
    (lambda: fq.solve(fq.BilinearTensor(np.ones((3, 4, 2))), np.ones(3), prior=fq.Sparse()), ValueError, "`prior`"),
    (lambda: fq.solve(fq.BilinearTensor(np.ones((3, 4, 2))), np.ones(3), norm=1.0), ValueError, "`norm` must be None"),
])  # fmt: skip
def test_refuses(call, error, said):
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize("m", [40, 90])
def test_a_convolution_is_never_called_exact(m):
    """A zero of the one polynomial may be one of the other: such a pair was once found, and called exact."""
    rng = np.random.default_rng(m)
    p, q = 32, 6
    codes = rng.standard_normal((m, p + q - 1))
    A = fq.BilinearTensor(np.lib.stride_tricks.sliding_window_view(codes, q, axis=1))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        u, v = np.zeros(p), rng.standard_normal(q)
        u[rng.permutation(p)[:4]] = rng.standard_normal(4)
        y = fq.measure(A, np.concatenate([u, v]))
        np.testing.assert_allclose(y, codes @ np.convolve(u, v), rtol=1e-10)
        assert not fq.solve(A, y, max_time=2).success


def test_too_few_equations_are_not_taken_for_noise():
    """Four coordinates that were chosen among 16 explain much of 11 numbers by chance: once called signal in noise."""
    successes = {11: 0, 40: 0}
    for seed in range(8):
        for m in successes:
            A, u, v = instance(m, 8, 8, 4, seed)
            solution = fq.solve(A, fq.measure(A, np.concatenate([u, v])), max_time=2)
            assert not solution.success or apart(A, solution.x, u, v) < 1e-6
            successes[m] += solution.success
    assert successes[40] >= 7


def test_a_coordinate_that_is_a_thousandth_of_the_others():
    """Message passing takes it for noise; a fit that lacks only such ones is completed, and then exact."""
    rng = np.random.default_rng([31, 2032, 64, 40, 14])
    A = fq.BilinearTensor(rng.standard_normal((40, 64, 10)))
    u, v = np.zeros(64), rng.standard_normal(10)
    u[rng.permutation(64)[:5]] = rng.standard_normal(5)
    assert np.abs(u[u != 0]).min() < 2e-3
    solution = fq.solve(A, fq.measure(A, np.concatenate([u, v])))
    assert solution.status is fq.Status.EXACT
    np.testing.assert_allclose(np.outer(*A.split(solution.x)), np.outer(u, v), atol=1e-12)
