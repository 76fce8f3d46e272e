"""The parts of pursuit: what it keeps of A and extension over all coordinates."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.solvers.extension import Extension, Support
from fastquad.solvers.pairs import PairStore


def driven(steps, A):
    """What a generator of requests returns, with A answering them; and how many passes that took."""
    passes, answer = 0.0, None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            return end.value, passes
        passes += request.cost(A)
        answer = request.answer(A, 1)


@pytest.fixture
def case():
    """A tensor, a signal of six coordinates, and a store in the order of the diagonals."""
    A = fq.GaussianTensor(40, 90, seed=3)
    rng = np.random.default_rng(3)
    x = np.zeros(90)
    x[rng.choice(90, 6, replace=False)] = [1.0, -0.9, 0.8, 0.3, -0.2, 0.1]
    y = fq.measure(A, x)
    order = np.argsort(-(y @ A.diagonals()), kind="stable")
    return A, x, y, PairStore(40, order, 1.0, max_rows=50)


def test_pairs_come_from_the_block_from_rows_and_one_by_one(case):
    A, _, _, store = case
    driven(store.read_block(10), A)
    driven(store.read_rows([3, 50]), A)
    places, others = np.array([2, 3, 50, 60]), np.array([1, 70, 80])
    _, passes = driven(store.read_pairs(places, others), A)
    dense = A.block(store.order[places], store.order[others])
    np.testing.assert_allclose(store.between(places, others)[:, :, :40], dense.transpose(1, 2, 0), rtol=1e-5, atol=1e-6)
    # Of 2 and 60 the block and the rows have but one pair with these; nothing is read twice.
    assert passes <= 6 / (90 * 91 / 2) + 1e-12
    assert driven(store.read_pairs(others, places), A)[1] == 0
    z = np.array([1.0, -2.0, 3.0, 4.0])
    with_rows = A.block(store.order[[3, 50]], np.arange(90))[:, :, store.order]
    np.testing.assert_allclose(
        store.products(places, z)[:, :40].T, np.einsum("t,itj->ij", z[1:3], with_rows), rtol=1e-4, atol=1e-5
    )


def test_extension_finds_the_rest_from_the_rows_of_the_largest(case):
    A, x, y, store = case
    place = np.argsort(store.order)
    part = place[np.argsort(-np.abs(x))[:3]]
    support = Support(part, x[store.order[part]], 0.0)
    found, passes = driven(Extension(store, y, A.diagonals())(support, max_rows=3), A)
    assert set(store.order[found.places]) >= set(np.flatnonzero(x))
    assert found.rss < 1e-18 * (y @ y)
    # A row has 90 pairs, and the support six: rows of all of them would have taken 0.13.
    assert store.rows_read <= 3
    assert passes < 0.1


def test_extension_keeps_to_its_rows_where_nothing_is_found(case):
    A, _, y, store = case
    support = Support(np.array([80, 81, 82, 83]), np.array([0.5, -0.5, 0.4, 0.3]), 0.0)
    found, _ = driven(Extension(store, np.random.default_rng(0).permutation(y), A.diagonals())(support, max_rows=2), A)
    assert store.rows_read <= 2
    assert found.places.size <= 6
