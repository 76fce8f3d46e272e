"""What an array hides is seen, rows may be in any unit, and equal rows count once."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.measurements import as_measurements
from fastquad.measurements.chosen import ChosenRows
from fastquad.noise.repeated import Repeated
from fastquad.reductions import hidden, rows
from fastquad.testing import check_noise, check_proof

ROOM = 10**9


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def rank_one(rng, m=60, n=12, signs=None):
    a = rng.standard_normal((m, n))
    A = a[:, :, None] * a[:, None]
    return A if signs is None else A * signs[:, None, None]


def low_rank(rng, m=60, n=16, terms=3):
    a = rng.standard_normal((m, terms, n))
    return a.transpose(0, 2, 1) @ a


def few_nonzeros(rng, m=90, n=24):
    A = np.zeros((m, n, n))
    for matrix in A:
        matrix[rng.integers(n, size=6), rng.integers(n, size=6)] = rng.standard_normal(6)
    return A


def measured(A, x):
    return np.einsum("ijk,j,k->i", A, x.conj(), x, optimize=True).real


# -- structure ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, fq.pack, np.asfortranarray], ids=["raw", "packed", "fortran"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(rank_one, fq.RankOneTensor), (low_rank, fq.LowRankTensor), (few_nonzeros, fq.SparseTensor)],
)
def test_an_array_is_seen_as_what_it_is(rng, make, kind, store):
    A = make(rng)
    seen, read = hidden.look(as_measurements(store(A)), ROOM)
    assert isinstance(seen.A, kind)
    assert read == 1
    np.testing.assert_allclose(seen.A.matrices(0, len(A)), (A + A.transpose(0, 2, 1)) / 2, atol=1e-12)


def test_complex_vectors_are_seen(rng):
    a = rng.standard_normal((50, 8, 2)).view(complex)[..., 0]
    A = a[:, :, None] * a[:, None].conj()
    seen, _ = hidden.look(as_measurements(A), ROOM)
    assert isinstance(seen.A, fq.RankOneTensor)
    np.testing.assert_allclose(seen.A.matrices(0, 50), A, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_ordinary_matrices_are_left_alone_at_once(rng, n):
    A = as_measurements(rng.standard_normal((30, n, n)))
    assert hidden.look(A, ROOM) == (None, 0.0)


def test_one_other_matrix_among_many_is_noticed(rng):
    A = rank_one(rng)
    A[17] += 1e-6 * rng.standard_normal(A[17].shape)
    seen, read = hidden.look(as_measurements(A), ROOM)
    assert seen is None
    assert 0 < read <= 1
    x = rng.standard_normal(12)
    assert fq.solve(A, measured(A, x)).success


def test_a_look_reads_three_matrices(rng, monkeypatch):
    A = as_measurements(rank_one(rng))
    asked = []
    matrices = type(A).matrices
    monkeypatch.setattr(type(A), "matrices", lambda A, i, j: asked.append(j - i) or matrices(A, i, j))
    monkeypatch.setattr(hidden, "_as_rank_one", lambda A: (None, 0.0))
    hidden.look(A, ROOM)
    assert sum(asked) <= 3


@pytest.mark.parametrize("sign", [1, -1])
def test_vectors_given_as_an_array_are_found_and_proven(rng, sign):
    """As an array 5 of 6 of these ended as STAGNATED."""
    A, x = sign * rank_one(rng, 160, 32), rng.standard_normal(32)
    solution = fq.solve(A, measured(A, x))
    assert solution.status is fq.Status.PROVEN, solution.message
    assert "RankOneTensor" in solution.message
    assert fq.distance(solution.x, x) < 1e-12
    check_proof(A, measured(A, x), solution)


def test_the_pass_that_confirms_is_counted_and_bounded(rng):
    A, x = rank_one(rng), rng.standard_normal(12)
    y = measured(A, x)
    kind = fq.RankOneTensor(A[:, :, 0] / np.sqrt(A[:, :1, 0]))
    whole, own = fq.solve(A, y), fq.solve(kind, y)
    assert whole.n_passes == pytest.approx(own.n_passes + 1)
    assert "RankOneTensor" not in fq.solve(A, y, max_passes=0.5).message  # too few to look at all of A
    assert fq.solve(A, y, max_passes=12).n_passes <= 12


# -- rows -----------------------------------------------------------------------------------------------------------


def test_chosen_rows_are_those_of_the_whole(rng):
    A = rng.standard_normal((20, 6, 6))
    some, by = np.array([1, 2, 5, 7, 11, 19]), rng.uniform(0.5, 2, 6)
    view, plain = ChosenRows(as_measurements(A), some, by), as_measurements(A[some] * by[:, None, None])
    x, v, w = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal(6)
    for name, arguments in (
        ("products", (x,)), ("measure", (x,)), ("along", (x, v)), ("gradient", (x, w)), ("weighted_sum", (w,)),
        ("diagonals", ()), ("rows", ([0, 3],)), ("block", ([0, 2], [1, 4, 5])), ("compress", (A[0][:, :2],)),
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(view, name)(*arguments), getattr(plain, name)(*arguments), atol=1e-12)
    for one, other in zip(view.gram(x, w**2, v), plain.gram(x, w**2, v), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    for one, other in zip(view.sweep(x, v**2, w), plain.sweep(x, v**2, w), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(view.matrices(1, 4), plain.matrices(1, 4))


def test_chosen_rows_of_factors(rng):
    a = rng.standard_normal((20, 6))
    some, by = np.array([1, 2, 5]), rng.uniform(0.5, 2, 3)
    B = ChosenRows(fq.RankOneTensor(a), some, by)._factors()
    np.testing.assert_allclose(B[:, 0] ** 2, by[:, None] * a[some] ** 2)


def test_units_of_rows_change_nothing(rng):
    A, x = rng.standard_normal((90, 20, 20)), np.zeros(20)
    x[[1, 5, 11]] = 1.0, -0.7, 1.2
    y = measured(A, x) + 0.03 * rng.standard_normal(90)
    unit = 10.0 ** rng.uniform(-3, 3, 90)
    one = fq.solve(A, y, noise=0.03)
    other = fq.solve(A * unit[:, None, None], unit * y, noise=0.03 * unit)
    assert one.success
    assert other.status is one.status
    assert fq.distance(one.x, other.x) < 1e-9
    assert other.error == pytest.approx(one.error, rel=1e-6)
    assert other.noise_model == fq.noise.Gaussian(0.03 * unit)
    assert other.noise == pytest.approx(0.03 * np.sqrt(np.mean(unit**2)))


@pytest.mark.parametrize("unit", [1.0, 7.0])
def test_equal_rows_are_their_mean(rng, unit):
    """In any unit: the same row times 7 is the same measurement."""
    A, x = rng.standard_normal((30, 16, 16)), np.zeros(16)
    x[[1, 5]] = 1.0, -0.7
    y, apart = measured(A, x) + 0.02 * rng.standard_normal(30), 0.02 * rng.standard_normal(30)
    one = fq.solve(A, y, noise=0.02)
    other = fq.solve(
        np.concatenate([A, unit * A]), np.concatenate([y + apart, unit * (y - apart)]),
        noise=0.02 * np.sqrt(2) * np.concatenate([np.ones(30), np.full(30, unit)]),
    )  # fmt: skip
    assert one.success
    assert other.status is one.status
    assert "30 of" in other.message
    assert fq.distance(one.x, other.x) < 1e-9
    assert other.error == pytest.approx(one.error, rel=1e-6)


def test_the_spread_of_equal_rows_is_evidence_of_the_noise(rng):
    """Ten measurements for four unknowns leave six degrees of freedom; each made 20 times, 196."""
    A, x = np.repeat(rng.standard_normal((10, 4, 4)), 20, axis=0), np.array([1.0, -2.0, 0.5, 1.5])
    estimates = []
    for seed in range(20):
        y = measured(A, x) + 0.01 * np.random.default_rng(seed).standard_normal(200)
        solution = fq.solve(A, y, x0=x)
        estimates.append(solution.noise)
        assert solution.status is not fq.Status.EXACT
    assert 0.008 < min(estimates) <= max(estimates) < 0.0125


def test_exact_rows_that_were_given_twice_are_exact(rng):
    A, x = rng.standard_normal((60, 12, 12)), rng.standard_normal(12)
    twice = np.concatenate([A, A])
    solution = fq.solve(twice, measured(twice, x))
    assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
    assert fq.distance(solution.x, x) < 1e-12


def test_means_that_fit_exactly_are_not_exact_data(rng):
    """As many means as unknowns: they fit to rounding, and their spread shows the noise."""
    A, x = rng.standard_normal((8, 8, 8)), rng.standard_normal(8)
    twice = np.concatenate([A, A])
    solution = fq.solve(twice, measured(twice, x) + 0.1 * rng.standard_normal(16), x0=x)
    assert not solution.success


def test_a_proof_is_one_of_the_rows_as_they_were_given(rng):
    A, x = rank_one(rng, 80, 10), rng.standard_normal(10)
    twice = np.concatenate([A, 3 * A[:20]])
    y = measured(twice, x)
    solution = fq.solve(twice, y)
    assert solution.status is fq.Status.PROVEN
    assert solution.proof.weights.shape == (100,)
    check_proof(twice, y, solution)


def test_rows_that_differ_are_left_alone(rng):
    A = as_measurements(rng.standard_normal((40, 9, 9)))
    assert rows._said(A, rng.standard_normal((1, 40)), fq.noise.Gaussian()) is None


def test_merged_noise_is_a_likelihood(rng):
    noise = Repeated(rng.integers(1, 4, 50).astype(float), 3.0, 30)
    z = rng.standard_normal(50)
    learnt = noise.learn(z + 0.1 * rng.standard_normal(50), z, 5)
    assert check_noise(learnt, z).problems == []


def test_the_error_for_vectors_names_their_kind(rng):
    with pytest.raises(ValueError, match="RankOneTensor"):
        fq.solve(rng.standard_normal((20, 5)), np.ones(20))


def test_units_of_rows_that_nobody_told_are_learnt():
    """Three instruments, each in its units and with its noise: what is left says so, and x is as of told noise."""
    ratios, claims = [], []
    for seed in range(8):
        rng = np.random.default_rng([12, seed])
        A, x = rng.standard_normal((60, 18, 18)), np.zeros(18)
        x[rng.choice(18, 6, replace=False)] = rng.uniform(0.5, 1.5, 6) * rng.choice([-1, 1], 6)
        unit = np.array([1.0, 0.2, 5.0])[np.arange(60) % 3]
        A = A * unit[:, None, None]
        sigma = 0.05 * unit
        y = fq.measure(A, x) + sigma * rng.standard_normal(60)
        found, told = fq.solve(A, y), fq.solve(A, y, noise=sigma)
        assert found.status is fq.Status.CONVERGED
        assert "grows with the size of its matrix" in found.message
        ratios.append(fq.distance(found.x, x) / fq.distance(told.x, x))
        claims.append(fq.distance(found.x, x) / found.error)
    assert np.median(ratios) < 1.1
    assert max(claims) < 3


def test_rows_of_many_sizes_with_one_noise_are_weighed_alike():
    """The twin of the above: sizes of rows alone say nothing of their noise."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng([13, seed])
        unit = np.array([1.0, 0.2, 5.0])[np.arange(60) % 3]
        A, x = rng.standard_normal((60, 18, 18)) * unit[:, None, None], np.zeros(18)
        x[rng.choice(18, 6, replace=False)] = rng.uniform(0.5, 1.5, 6) * rng.choice([-1, 1], 6)
        y = fq.measure(A, x) + 0.05 * rng.standard_normal(60)
        found, told = fq.solve(A, y), fq.solve(A, y, noise=0.05)
        assert found.success
        assert "grows with the size of its matrix" not in found.message
        ratios.append(fq.distance(found.x, x) / fq.distance(told.x, x))
    assert np.median(ratios) < 1.1
