"""Contractions as values: what they cost on each kind of A, and that parts of them make the whole."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.driver import drive
from fastquad.engine.problem import Problem
from fastquad.measurements.cluster.parts import contract, merged
from fastquad.measurements.contractions import (
    Along,
    Block,
    Cells,
    Compress,
    Contraction,
    Diagonals,
    FirstProducts,
    Gradient,
    Gram,
    Matrices,
    Measure,
    Products,
    Rows,
    SidedProducts,
    Sweep,
    WeightedSum,
)
from fastquad.noise import Gaussian

M, N = 24, 10


@pytest.fixture(scope="module")
def raw():
    return fq.as_measurements(np.random.default_rng(0).standard_normal((M, N, N)))


def requests(b: int | None) -> list[Contraction]:
    rng = np.random.default_rng(1)
    columns = () if b is None else (b,)
    x, w = rng.standard_normal((N, *columns)), rng.standard_normal((M, *columns))
    shared = [Products(x), Measure(x), WeightedSum(w), Sweep(x, x**2, w), Diagonals(), Matrices(3, 19)]
    some = np.array([1, 4, 7])
    if b:
        return shared
    verbs = [Along(x, x**2), Gradient(x, w), Gram(x, w**2, w)]
    return [*shared, *verbs, SidedProducts(x, True), Rows(some), Block(some), Compress(np.eye(N)[:, :3])]


@pytest.mark.parametrize("packed", [False, True])
def test_rows_in_another_unit(raw, packed):
    """The answer for w_i A_i, from that for A_i; of 21 rows, which fill no whole number of groups."""
    rng = np.random.default_rng(3)
    array, w = np.asarray(raw)[:21], rng.random(21)
    A, other = fq.as_measurements(array), fq.as_measurements(array * w[:, None, None])
    if packed:
        A, other = fq.pack(A), fq.pack(other)
    x, some = rng.standard_normal(N), np.array([1, 4, 7, 8])
    asked = [Products(x), FirstProducts(x, 9), Measure(x), Along(x, x**2), Diagonals(), Matrices(3, 19)]
    asked += [Rows(some), Block(some), Cells(np.arange(N), N), SidedProducts(x, True), Compress(np.eye(N)[:, :3])]
    for request in asked:
        expected = request.answer(other, 1)
        np.testing.assert_allclose(request.scaled(request.answer(A, 1), w), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("b", [None, 1, 3])
@pytest.mark.parametrize("kind", ["raw", "packed"])
def test_parts_make_the_whole(raw, kind, b):
    A = raw if kind == "raw" else fq.pack(raw)
    for request in requests(b):
        whole = request.split(request.answer(A, 1))
        parts = []
        for start, stop in ((0, 8), (8, 16), (16, M)):
            own = request.of_part(start, stop)
            if own is not None:
                parts.append(contract(A._part(start, stop), own, 1))
        for expected, got in zip(whole, merged(parts), strict=True):
            assert (expected is None) == (got is None)
            if expected is None:
                continue
            pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_several_sweeps_are_one(raw):
    """Also where one of them has several columns, as a batch of starts has."""
    rng = np.random.default_rng(2)
    one = Sweep(*(rng.standard_normal(size) for size in (N, N, M)))
    two = Sweep(*(rng.standard_normal((size, 2)) for size in (N, N, M)))
    for request, (r, S) in zip((one, two, one), Sweep.answer_all(raw, [one, two, one], 1), strict=True):
        expected = request.answer(raw, 1)
        np.testing.assert_allclose(r, expected[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(S, expected[1], rtol=1e-12, atol=1e-12)


def test_the_kind_of_A_says_what_a_part_costs():
    rows, cols = np.arange(8), np.arange(4, 12)
    n = 100
    dense = fq.pack(np.zeros((8, n, n)))
    assert Rows(rows).cost(dense) == pytest.approx((8 * n - 28) / (n * (n + 1) / 2))
    assert Block(rows, cols).cost(dense) == pytest.approx((64 - 6) / (n * (n + 1) / 2))
    assert Diagonals().cost(dense) == pytest.approx(2 / (n + 1))
    # Of a vector a_i, a block reads the entries of its rows and columns, and everything else all of it.
    for A in (fq.RankOneTensor(np.ones((8, n))), fq.LowRankTensor(np.ones((8, 2, n)))):
        assert Rows(rows[:1]).cost(A) == 1.0
        assert Block(rows, cols).cost(A) == pytest.approx(12 / n)
        assert Diagonals().cost(A) == 1.0


def test_diagonals_are_read_once_whoever_asks(raw, monkeypatch):
    from fastquad.engine.run import Limits, Run
    from fastquad.engine.steps import End, Outcome, Step

    reads = []
    monkeypatch.setattr(type(raw), "_diagonals", lambda self, n_threads: reads.append(1) or np.ones((M, N)))

    def steps():
        yield Diagonals()
        yield Diagonals()
        yield Step(np.ones(N), 1.0)
        return Outcome(np.ones(N), 1.0, End.MAX_ITER)

    given = {"prior": None, "x0": None, "norm": None, "noise": Gaussian(), "tol": 1e-6, "memory": 2**30}
    problem = Problem(m=M, n=N, y=np.ones(M), dtype=raw.dtype, random=lambda: np.random.default_rng(0), **given)
    runs = [Run(problem, steps(), "toy", Limits(), signal=i) for i in range(2)]
    solutions = drive(raw, runs)
    assert len(reads) == 1
    assert [solution.n_passes for solution in solutions] == [pytest.approx(2 / (N + 1)), 0.0]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_number_of_threads_reaches_pursuit(n_threads, monkeypatch):
    from fastquad.system import threads

    seen = set()
    run = threads.run
    monkeypatch.setattr(threads, "run", lambda task, tasks, n: seen.add(n) or run(task, tasks, n))
    problem = fq.problems.gaussian(m=40, n=60, k=3, rng=0)
    fq.solve(problem.A, problem.y, method="pursuit", n_threads=n_threads)
    assert max(seen) == n_threads
