"""Labelled pairs: each contraction against the dense tensor, against shifts, and what comes in."""

import numpy as np
import pytest
from tensors import assert_agrees

import fastquad as fq


def dense(labels, m):
    A = (labels == np.arange(m)[:, None, None]).astype(float)
    return (A + A.transpose(0, 2, 1)) / 2


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (7, 4), (12, 30), (33, 5)])
def test_agrees_with_the_dense_tensor(n, m):
    labels = np.random.default_rng(n).integers(-1, m, (n, n))
    labels[0, 0] = m - 1
    A = fq.PairTensor(labels)
    assert (A.m, A.n) == (m, n)
    assert_agrees(A, dense(labels, m))


def test_the_conformance_suite():
    labels = np.random.default_rng(0).integers(-1, 9, (10, 10))
    assert fq.testing.check_measurements(fq.PairTensor(labels, m=11)).ok


@pytest.mark.parametrize("cyclic", [False, True])
def test_distances_on_a_line_and_on_a_circle_are_shifts(cyclic):
    n = 12
    j = np.arange(n)
    apart = np.abs(j[:, None] - j)
    labels = np.minimum(apart, n - apart) if cyclic else apart
    x = np.random.default_rng(0).standard_normal(n)
    shifts = fq.ShiftTensor(n, cyclic=cyclic)
    # Both ways: twice, but for the distance 0, and half the circle, which a cyclic shift counts twice, too.
    both = np.full(shifts.m, 2.0)
    both[0] = 1.0
    if cyclic:
        both[-1] = 1.0
    np.testing.assert_allclose(fq.PairTensor(labels).measure(x), both * shifts.measure(x))


def test_it_is_solved():
    n, m, found = 24, 120, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A, x = fq.PairTensor(rng.integers(0, m, (n, n)), m=m), rng.standard_normal(n)
        solution = fq.solve(A, A.measure(x))
        assert not solution.success or fq.distance(solution.x, x) < 1e-6
        found += fq.distance(solution.x, x) < 1e-6
    assert found >= 3


def test_it_stays_as_it_is():
    labels = np.array([[0, 1], [1, -1]])
    A = fq.PairTensor(labels)
    labels[0, 0] = 7
    np.testing.assert_array_equal(A.measure([1.0, 1.0]), [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        A.labels[0, 0] = 1


@pytest.mark.parametrize(("labels", "options", "error", "said"), [
    ([[0.5]], {}, TypeError, "`labels` must be integers, got dtype float64"),
    ([0, 1], {}, ValueError, r"`labels` must have shape \(n, n\), got \(2,\)"),
    ([[0, 1, 2]], {}, ValueError, r"`labels` must have shape \(n, n\)"),
    ([[-2]], {}, ValueError, "`labels` must be −1 for no measurement"),
    ([[-1]], {}, ValueError, "one at least, got -1 to -1"),
    ([[3]], {"m": 3}, ValueError, "`labels` must be below `m`, got the label 3 and m=3"),
])  # fmt: skip
def test_bad_input_is_named(labels, options, error, said):
    with pytest.raises(error, match=said):
        fq.PairTensor(labels, **options)
