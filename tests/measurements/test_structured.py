"""Ready-made tensors: shifts and sums of rank-one terms, each contraction against the tensor that they stand for."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from tensors import assert_agrees

import fastquad as fq
from fastquad.measurements.structured import shifts

EXAMPLES = Path(__file__).parents[2] / "examples"


def shift_matrices(n, cyclic, lags):
    """The matrices of the shifts, entry by entry."""
    A = np.zeros((len(lags), n, n))
    for i, d in enumerate(lags):
        for j in range(n):
            if cyclic or j + d < n:
                A[i, j, (j + d) % n] += 1
    return A


# -- shifts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [-1, 1 << 30], ids=["by transforms", "directly"])
@pytest.mark.parametrize("lags", [None, "last", "all, reversed"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33, 50])
@pytest.mark.parametrize("cyclic", [False, True])
def test_shifts_agree_with_their_twin(cyclic, n, lags, threshold, monkeypatch):
    monkeypatch.setattr(shifts, "_WORTH_A_TRANSFORM", threshold)
    monkeypatch.setattr(shifts, "_FEW_LAGS", threshold)
    lags = {None: None, "last": [n - 1], "all, reversed": list(range(n))[::-1]}[lags]
    A = fq.ShiftTensor(n, cyclic=cyclic, lags=lags)
    assert_agrees(A, shift_matrices(n, cyclic, A.lags))


def test_shifts_packed_are_the_same():
    A = fq.ShiftTensor(21)
    np.testing.assert_array_equal(fq.pack(A).block(np.arange(21)), A.block(np.arange(21)))


def test_the_autocorrelation_of_a_long_signal_takes_no_matrix():
    n = 1 << 20  # the products alone would take 8 TB
    x = np.zeros(n)
    x[[0, 5, n - 1]] = 1.0, 2.0, 3.0
    y = fq.measure(fq.ShiftTensor(n), x)
    expected = np.zeros(n)
    expected[[0, 5, n - 6, n - 1]] = 14.0, 2.0, 6.0, 3.0
    np.testing.assert_allclose(y, expected, atol=1e-12)


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"n": 0}, ValueError, "`n` must be a positive integer"),
    ({"n": 5, "lags": [5]}, ValueError, "`lags` must lie between 0 and 4"),
    ({"n": 5, "lags": [1, 1]}, ValueError, "`lags` must be distinct"),
    ({"n": 5, "lags": []}, ValueError, "`lags` must be distinct, and at least one"),
    ({"n": 5, "lags": [0.5]}, ValueError, "`lags` must be a list of integers"),
])  # fmt: skip
def test_shifts_refuse(options, error, said):
    with pytest.raises(error, match=said):
        fq.ShiftTensor(**options)


def test_a_reversed_signal_is_reported_as_ambiguous():
    A = fq.ShiftTensor(30)
    x = np.zeros(30)
    x[[0, 3, 10, 29]] = 1.0, 1.0, 1.0, 1.0
    solution = fq.solve(A, fq.measure(A, x))
    assert solution.status is fq.Status.AMBIGUOUS
    assert min(fq.distance(solution.x, x), fq.distance(solution.x[::-1], x)) < 1e-9


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not here")
@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_example_finds_points_from_their_distances(cyclic, seed):
    example = runpy.run_path(str(EXAMPLES / "turnpike.py"))
    hidden = np.random.default_rng(seed).choice(300, 8, replace=False)
    x = np.zeros(300)
    x[hidden] = 1.0
    y = np.rint(fq.measure(fq.ShiftTensor(300, cyclic=cyclic), x))
    points = example["recover"](y, 300, cyclic=cyclic)
    assert points is not None
    assert example["congruent"](points, hidden, 300, cyclic=cyclic)
    assert not example["congruent"](np.append(hidden[1:], (hidden[0] + 1) % 300), hidden, 300, cyclic=cyclic)


# -- sums of rank-one terms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, "R", "m, R"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("m", "R", "n"), [(1, 1, 1), (1, 3, 5), (7, 2, 1), (20, 3, 33)])
def test_low_rank_agrees_with_its_twin(m, R, n, dtype, weights):
    rng = np.random.default_rng([m, R, n])
    a = 3 * rng.standard_normal((m, R, n))
    a = a.astype(dtype)
    w = {None: None, "R": rng.standard_normal(R), "m, R": rng.random((m, R))}[weights]
    each = np.broadcast_to(1.0 if w is None else w, (m, R))
    wide = a.astype(complex)
    array = np.einsum("ir,irj,irk->ijk", each, wide, wide.conj()).real
    A = fq.LowRankTensor(a, w)
    assert A.dtype == ("float32" if dtype == "float32" else "float64")
    assert_agrees(A, array)


def test_one_term_is_rank_one():
    a = np.random.default_rng(0).standard_normal((9, 5))
    x = np.ones(5)
    np.testing.assert_allclose(fq.LowRankTensor(a[:, None]).products(x), fq.RankOneTensor(a).products(x), rtol=1e-13)


@pytest.mark.parametrize(("factors", "weights", "error", "said"), [
    (np.ones((3, 4)), None, ValueError, r"`factors` must have shape \(m, R, n\)"),
    (np.ones((3, 0, 4)), None, ValueError, "with m, R, n >= 1"),
    (np.array([[["a"]]]), None, TypeError, "`factors` must hold numbers"),
    (np.ones((3, 2, 4)), np.ones(3), ValueError, r"`weights` must have shape \(2,\) or \(3, 2\), got \(3,\)"),
    (np.ones((3, 2, 4)), [1j, 1], TypeError, "`weights` must hold real numbers"),
])  # fmt: skip
def test_low_rank_refuses(factors, weights, error, said):
    with pytest.raises(error, match=said):
        fq.LowRankTensor(factors, weights)
