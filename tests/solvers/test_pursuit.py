"""The parts of pursuit: what it keeps of A, extension over all coordinates, and the broad search."""

import naive
import numpy as np
import pytest

import fastquad as fq
from fastquad._kernels import growth as kernel
from fastquad.solvers.parts.descent import GrowingBlock
from fastquad.solvers.pursuit.beam import _distinct, beam
from fastquad.solvers.pursuit.extension import Extension, Support
from fastquad.solvers.pursuit.growth import Growth
from fastquad.solvers.pursuit.members import Members
from fastquad.solvers.pursuit.pairs import PairStore


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


@pytest.mark.parametrize(("m", "s"), [(1, 1), (16, 3), (30, 7), (64, 5), (100, 20), (131, 70)])
def test_products_of_packed_pairs(m, s):
    rng = np.random.default_rng(m)
    rows, columns = np.tril_indices(s)
    # One more than is asked for, as where a support has room to grow.
    pairs = np.full((rows.size + 1, -(-m // kernel.MULTIPLE) * kernel.MULTIPLE), np.nan, dtype=np.float32)
    pairs[:-1, :m] = rng.standard_normal((rows.size, m))
    A, z, W = np.empty((m, s, s)), rng.standard_normal(s), np.empty((m, s))
    A[:, rows, columns] = A[:, columns, rows] = pairs[:-1, :m].T
    kernel.products(pairs, z, W)
    np.testing.assert_allclose(W, naive.products(A, z), rtol=0, atol=1e-14 * s)


def test_a_support_that_grows_has_the_products_of_its_block(case):
    """Its pairs come from the block, from rows and one by one, and are not lost when a row is dropped."""
    A, _, _, store = case
    driven(store.read_block(10), A)
    driven(store.read_rows([50, 20]), A)
    members, rng = Members(store), np.random.default_rng(0)
    places = np.zeros(0, dtype=np.intp)
    for added in ([4, 50, 60], [9], [70, 71], [20]):
        places = np.append(places, added)
        driven(store.read_pairs(places, places), A)
        members.grow(places)
        z, block = rng.standard_normal(places.size), A.block(store.order[places])
        np.testing.assert_allclose(members.products(z), block @ z, rtol=0, atol=1e-5)
        if 60 in added:
            del store.rows[50]
    assert driven(store.read_pairs(places[::-1], places), A)[1] == 0


def test_extension_finds_the_rest_from_the_rows_of_the_largest(case):
    A, x, y, store = case
    place = np.argsort(store.order)
    part = place[np.argsort(-np.abs(x))[:3]]
    support = Support(part, x[store.order[part]], 0.0)
    found, passes = driven(Extension(store, y, A.diagonals(), GrowingBlock(A.m))(support, max_rows=3), A)
    assert set(store.order[found.places]) >= set(np.flatnonzero(x))
    assert found.rss < 1e-18 * (y @ y)
    # A row has 90 pairs, and the support six: rows of all of them would have taken 0.13.
    assert store.rows_read <= 3
    assert passes < 0.1


def test_extension_with_no_value_below_zero(case):
    """The coordinate that would save most, with a negative value, is not added; those of x are."""
    A, x, _, store = case
    x = np.abs(x)
    y = fq.measure(A, x)
    place = np.argsort(store.order)
    part = place[np.argsort(-x)[:3]]
    # A start with a coordinate too many, which goes to zero and stays there.
    places, z = np.append(part, place[np.flatnonzero(x == 0)[0]]), np.append(x[store.order[part]], 0.3)
    extension = Extension(store, y, A.diagonals(), GrowingBlock(A.m), nonnegative=True)
    found, _ = driven(extension(Support(places, z, 0.0), max_rows=4), A)
    assert found.z.min() >= 0
    assert set(store.order[found.places[found.z > 1e-9]]) == set(np.flatnonzero(x))
    assert found.rss < 1e-18 * (y @ y)
    rng = np.random.default_rng(1)
    W, r = rng.standard_normal((90, store.length)).astype(np.float32), rng.standard_normal(40)
    u, change = extension._changes(r, W, extension.diagonals)
    assert u.min() >= 0
    assert (change <= 0).all()
    assert (u == 0).any()


def test_extension_keeps_to_its_rows_where_nothing_is_found(case):
    A, _, y, store = case
    support = Support(np.array([80, 81, 82, 83]), np.array([0.5, -0.5, 0.4, 0.3]), 0.0)
    found, _ = driven(
        Extension(store, np.random.default_rng(0).permutation(y), A.diagonals(), GrowingBlock(A.m))(
            support, max_rows=2
        ),
        A,
    )
    assert store.rows_read <= 2
    assert found.places.size <= 6


def test_a_support_that_comes_from_several_is_taken_once_and_at_its_best():
    places = np.array([[0, 1], [1, 2], [0, 3]])
    added = np.array([[2, 5], [0, 6], [4, 1]])
    left = np.array([[3.0, 9.0], [2.0, 5.0], [4.0, 8.0]])
    parents, last = _distinct(places, added, left, 4)
    assert [(*places[i], j) for i, j in zip(parents, last, strict=True)] == [(1, 2, 0), (0, 3, 4), (1, 2, 6), (0, 3, 1)]
    assert len(_distinct(places, added, left, 2)[0]) == 2


def test_the_broad_search_finds_what_no_seed_leads_to():
    """Five of eighty coordinates that are equally large, from eighteen measurements."""
    found = {"beam": 0, "seeds": 0}
    for seed in range(4):
        A = fq.GaussianTensor(18, 80, seed=seed)
        x = np.zeros(80)
        x[np.random.default_rng(seed).choice(80, 5, replace=False)] = 1.0
        y = fq.measure(A, x)
        store = PairStore(18, np.arange(80), 1.0, max_rows=80)
        driven(store.read_block(80), A)
        runs, passes = driven(beam(Growth(store, y), 6), A)
        assert passes == 0
        assert all(run.curve[-1] < 1e-6 * (y @ y) for run in runs)
        found["beam"] += any(set(run.places) >= set(np.flatnonzero(x)) for run in runs)
        found["seeds"] += fq.solve(A, y, method=fq.Pursuit(max_skips=0)).success
    assert found["beam"] >= 3
    assert found["beam"] > found["seeds"]
