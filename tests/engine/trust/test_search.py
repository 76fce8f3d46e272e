"""Answers with a twin that no symmetry of A shows: a search finds it, or vectors that no matrix sees, or counting."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.problem import Problem
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.local import exact_measure
from fastquad.engine.trust.residual import fits_most
from fastquad.engine.trust.search import Search, to_refute
from fastquad.noise import Gaussian


def symmetric(rng, m, n):
    A = rng.standard_normal((m, n, n))
    return (A + A.transpose(0, 2, 1)) / 2


def blind_to(A, u, v):
    """A without its component along uu^* − vv^*."""
    D = np.outer(u, u.conj()) - np.outer(v, v.conj())
    return A - (np.einsum("ijk,jk->i", A, D.conj()) / np.sum(np.abs(D) ** 2))[:, None, None] * D


def statuses(make, count=6, **options):
    """The statuses of a few problems, and whether a success was ever wrong."""
    found = []
    for seed in range(count):
        A, x = make(np.random.default_rng(seed))
        solution = fq.solve(A, fq.measure(A, x), **options)
        assert not solution.success or fq.distance(solution.x, x) < 1e-3
        found.append(solution.status.name)
    return found


# -- a search ---------------------------------------------------------------------------------------------------------


def unit(x):
    return x / np.linalg.norm(x)


def planted(rng):
    u, v = map(unit, rng.standard_normal((2, 12)))
    return blind_to(symmetric(rng, 36, 12), u, v), u


def complex_planted(rng):
    u, v = map(unit, rng.standard_normal((2, 6)) + 1j * rng.standard_normal((2, 6)))
    A = rng.standard_normal((36, 6, 6)) + 1j * rng.standard_normal((36, 6, 6))
    return blind_to((A + A.conj().transpose(0, 2, 1)) / 2, u, v), u


def balanced(rng):
    """Two halves of x, each constant, whose couplings add up to zero."""
    A = symmetric(rng, 48, 16)
    across = A[:, :8, 8:]
    across = across - across.mean(axis=1, keepdims=True)
    across = across - across.mean(axis=2, keepdims=True)
    A[:, :8, 8:], A[:, 8:, :8] = across, across.transpose(0, 2, 1)
    return A, np.repeat([1.3, 0.7], 8)


@pytest.mark.parametrize("make", [planted, complex_planted, balanced])
def test_a_twin_that_only_a_search_finds(make):
    assert statuses(make) == ["AMBIGUOUS"] * 6


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("told", [True, False])
def test_a_twin_is_a_rival_in_noise_however_large_it_is(width, told):
    """A smaller twin had evidence for its size alone: nearly all of these answers were a success."""
    named, n = [], 12 // width
    for seed in range(20):
        rng = np.random.default_rng(seed)
        draw = rng.standard_normal((width, 2, n))
        u, v = map(unit, draw[0] if width == 1 else draw[0] + 1j * draw[1])
        A = symmetric(rng, 36, n)
        if width == 2:
            skew = rng.standard_normal((36, n, n))
            A = A + 0.5j * (skew - skew.transpose(0, 2, 1))
        A = blind_to(A, 1.5 * u, v)
        y = fq.measure(A, 1.5 * u)
        sigma = 0.02 * np.std(y)
        solution = fq.solve(A, y + sigma * rng.standard_normal(y.size), noise=sigma if told else None)
        named.append(solution.status.name)
    assert named.count("AMBIGUOUS") >= 17, named


def test_the_deeper_of_two_bottoms_side_by_side_is_the_answer():
    """A hundredth from x the data are fitted to a millionth, which looked like noise of that size."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, v = map(unit, rng.standard_normal((2, 12)))
        beside = x + 0.008 * v
        A = blind_to(symmetric(rng, 48, 12), beside, x)
        D = np.outer(beside, beside) - np.outer(x, x)
        A = A + 1e-3 * rng.standard_normal(48)[:, None, None] * D / np.linalg.norm(D)
        solution = fq.solve(A, fq.measure(A, x))
        assert solution.error is None or fq.distance(solution.x, x) < max(3 * solution.error, 1e-6)
        assert not solution.success or solution.status.name == "EXACT"


@pytest.mark.parametrize("left", [1e-11, 1e-8])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("begins", ["at the twin", "anywhere"])
def test_a_rival_that_fits_to_rounding_is_the_answer(width, left, begins):
    """One signal fits to eight digits and another to sixteen: this one was called a rival of the first."""
    for seed in range(8):
        rng, n = np.random.default_rng(seed), 12 // width
        draw = rng.standard_normal((2, 2, n))
        x, twin = map(unit, draw[0] if width == 1 else draw[0] + 1j * draw[1])
        A = symmetric(rng, 36, n)
        if width == 2:
            skew = rng.standard_normal(A.shape)
            A = A + 0.5j * (skew - skew.transpose(0, 2, 1))
        A = blind_to(A, x, twin) + left * symmetric(rng, 36, n)
        options = {"x0": twin, "method": "lm"} if begins == "at the twin" else {}
        solution = fq.solve(A, fq.measure(A, x), rng=seed, **options)
        assert solution.status.name in ("EXACT", "PROVEN"), (seed, solution.message)
        assert fq.distance(solution.x, x) < 1e-12


def test_ordinary_answers_are_not_refuted():
    assert statuses(lambda rng: (symmetric(rng, 30, 12), rng.standard_normal(12))) == ["EXACT"] * 6


def test_descents_from_other_starts_end_at_the_other_signal():
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((2, 10))
    A = blind_to(symmetric(rng, 40, 10), u, v)
    y, everything = fq.measure(A, u), np.arange(10)
    problem = Problem(40, 10, y, A.dtype, None, None, None, Gaussian(), 1e-8, lambda: rng, 1 << 30)
    answer = Answer(problem, u, A @ u, (A @ u) @ u - y)
    case = Search(answer, np.einsum("ijj->ij", A), np.full(40, 1e-12), exact_measure(40), None)
    descents = case.descents(A, everything, everything, 16, weak=False)
    others = [d.z for d in descents if d.residual < 1e-9 and fq.distance(d.z, u) > 1e-3]
    assert len(others) > 0
    assert max(fq.distance(z, v) for z in others) < 1e-6


def test_a_search_is_made_only_where_it_is_quick():
    assert to_refute(40, 20, 5, independent=True) > 10
    assert to_refute(200, 100, 100, independent=True) == 0
    assert to_refute(160, 40, 40, independent=False) > 0
    assert to_refute(60, 500, 5, independent=True) == 0


# -- vectors that no matrix sees --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.7, 1.0])
def test_a_twin_along_a_vector_that_no_matrix_sees(share):
    def make(rng):
        n = 24
        T = np.eye(n)
        T[:, 3] = T[:, 0] + T[:, 1] - T[:, 2]  # so that (1, 1, −1, −1) is not seen
        x = np.zeros(n)
        x[:2], x[[10, 15]] = 1.0, rng.standard_normal(2)
        return T.T @ symmetric(rng, int(share * n), n) @ T, x

    assert "EXACT" not in statuses(make)


def test_pictures_with_the_same_sums_of_rows_and_columns():
    def make(rng):
        D = np.concatenate([np.kron(np.eye(4), np.ones(4)), np.kron(np.ones(4), np.eye(4))])
        x = np.zeros(16)
        x[[0, 5]] = 1.0  # for which 1 and 4 have the same sums
        return D.T @ symmetric(rng, 32, 8) @ D, x

    assert "EXACT" not in statuses(make, prior=fq.Discrete([0.0, 1.0]))


def test_a_sparse_answer_of_ordinary_matrices_lies_on_no_flat():
    def make(rng):
        x = np.zeros(24)
        x[:3] = 1.0, -0.7, 0.5
        return symmetric(rng, 18, 24), x

    assert statuses(make) == ["EXACT"] * 6


# -- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 60])
def test_directions_that_as_many_measurements_see(n):
    """Quadratic equations with an even number of solutions, in a basis of their own."""

    def make(rng):
        A = symmetric(rng, 3 * n, n)
        A[:-2, :2], A[:-2, :, :2] = 0.0, 0.0
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        return Q @ A @ Q.T, rng.standard_normal(n)

    assert "EXACT" not in statuses(make)


def test_a_value_known_in_each_of_two_blocks_tells_their_signs():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((60, 14, 14)), rng.uniform(0.5, 1.5, 14)
    A[:, :7, 7:] = A[:, 7:, :7] = 0.0
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(fixed={0: x[0], 13: x[13]}))
    assert solution.status.name == "EXACT"
    np.testing.assert_allclose(solution.x, x, atol=1e-8)


def test_a_part_whose_measurements_are_zero():
    """It ended in a division by zero."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((24, 8, 8))
    A[:22, :2], A[:22, :, :2] = 0.0, 0.0
    A[22:] = rng.integers(-3, 4, (2, 8, 8))
    A[22:, 2, 2] -= A[22:].sum(axis=(1, 2))
    solution = fq.solve(A, fq.measure(A, np.ones(8)))
    assert not solution.success


# -- priors and kinds of A --------------------------------------------------------------------------------------------


def test_pieces_in_strong_noise_of_a_told_level_are_no_success_without_an_error():
    successes = 0
    for seed in range(8):
        for level in (0.6, 0.1):
            rng = np.random.default_rng(seed)
            A, x = symmetric(rng, 36, 18), np.repeat(rng.standard_normal(4), [5, 4, 5, 4])
            y = fq.measure(A, x)
            sigma = level * float(np.sqrt(np.mean(y**2)))
            solution = fq.solve(A, y + sigma * rng.standard_normal(36), prior=fq.PiecewiseConstant(), noise=sigma)
            assert not solution.success or solution.error is not None
            successes += level == 0.1 and solution.success and fq.distance(solution.x, x) < 3 * solution.error
    assert successes >= 6


def test_a_decoded_signal_that_a_budget_ended_is_not_called_exact():
    rng = np.random.default_rng(0)
    decoder = fq.decoders.Decoder([rng.standard_normal((3, 12))], [rng.standard_normal(12)], ["tanh"])
    prior = fq.Generative(decoder)
    A = np.repeat(rng.standard_normal((1, 12, 12)), 40, axis=0)
    y = fq.measure(A, prior.signal(rng.standard_normal(3)))
    assert not fq.solve(A, y, prior=prior, method="pgd").success


def test_complex_matrices_that_are_hermitian_only_at_first():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 5, 5)) + 1j * rng.standard_normal((40, 5, 5))
    A[:10] = (A[:10] + A[:10].conj().transpose(0, 2, 1)) / 2
    x = rng.standard_normal(5) + 1j * rng.standard_normal(5)
    y = fq.measure(A, x)
    np.testing.assert_allclose(y, np.einsum("ijk,j,k->i", A, x.conj(), x))
    assert fq.distance(fq.solve(A, y).x, x) < 1e-8


# -- measurements of something else -----------------------------------------------------------------------------------


@pytest.mark.parametrize("turning", [False, True])
def test_outliers_that_nobody_told_of_are_no_noise(turning):
    rng = np.random.default_rng(2)
    A, x = symmetric(rng, 60, 8), rng.standard_normal(8)
    if turning:
        A, x = rng.standard_normal((60, 8, 8)) + 1j * rng.standard_normal((60, 8, 8)), x + 1j * rng.standard_normal(8)
        A = (A + A.conj().transpose(0, 2, 1)) / 2
    y = fq.measure(A, x)
    y[::6] += 3 * rng.standard_normal(10)
    solution = fq.solve(A, y)
    assert not solution.success
    assert "of 60 measurements to rounding: outliers=True" in solution.message
    assert fq.distance(fq.solve(A, y, outliers=True).x, x) < 1e-8


def test_noise_leaves_something_of_every_half():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A, x = symmetric(rng, 40, 8), rng.standard_normal(8)
        y = fq.measure(A, x) + 0.01 * rng.standard_normal(40)
        assert fits_most(y, x, A, 8, turning=False) == ""


@pytest.mark.parametrize("method", ["auto", "latent", "pgd", "ppower"])
def test_matrices_that_are_zero_on_the_range_of_a_decoder(method):
    rng = np.random.default_rng(0)
    decoder = fq.decoders.Decoder([rng.standard_normal((3, 12))], [rng.standard_normal(12)], ["tanh"])
    solution = fq.solve(np.zeros((20, 12, 12)), np.ones(20), prior=fq.Generative(decoder), method=method)
    assert not solution.success
    assert np.isfinite(solution.x).all()


def test_two_coordinates_that_are_zero_and_measured_alike():
    """Opposite values there measure nothing, and products with x do not show it: fewer measurements than unknowns."""
    for seed in range(4):
        rng = np.random.default_rng([5, seed])
        A, x = symmetric(rng, 34, 40), np.zeros(40)
        x[:5] = rng.standard_normal(5)
        A[:, 20, :] = A[:, 21, :]
        A[:, :, 20] = A[:, :, 21]
        A[:, 20, 20] = A[:, 21, 21]
        solution = fq.solve(A, fq.measure(A, x), rng=seed)
        assert solution.status is fq.Status.AMBIGUOUS
        np.testing.assert_allclose(fq.measure(A, solution.rival), fq.measure(A, x), atol=1e-9)


@pytest.mark.parametrize(("seed", "method"), [(15, "auto"), (31, "auto")])
def test_a_few_large_measurements_with_large_errors(seed, method):
    """One level of noise for all rows would take x for better known than it is."""
    rng = np.random.default_rng([88, seed])
    n = int(rng.integers(6, 16))
    m = int(rng.uniform(2, 4) * n)
    A, size = rng.standard_normal((m, n, n)), np.exp(2.5 * rng.standard_normal(m))
    A *= size[:, None, None]
    x = rng.standard_normal(n)
    y = fq.measure(A, x) + 0.05 * size * np.linalg.norm(x) ** 2 * rng.standard_normal(m)
    solution = fq.solve(A, y, method=method, rng=seed)
    assert not solution.success or fq.distance(solution.x, x) < 3 * solution.error


def test_a_twin_that_is_as_sparse_is_met_by_descents_on_all_coordinates():
    """Regression: the end of a dense descent paid for all of its coordinates, most of which were noise."""
    wrong, alone = 0, 0
    for seed in range(16):
        rng = np.random.default_rng([6, seed])
        n = int(rng.integers(8, 17))
        v = np.zeros(n)
        v[:4] = 0.5
        H = np.eye(n) - 2 * np.outer(v, v)
        A = symmetric(rng, int(rng.uniform(1.5, 3) * n), n)
        x = np.zeros(n)
        x[:2], x[4:7] = 1.0, rng.standard_normal(3)
        noise = 0.03 * rng.standard_normal(len(A))
        mirrored = (A + H @ A @ H) / 2
        for tensor in (mirrored, A):
            z = fq.measure(tensor, x)
            solution = fq.solve(tensor, z + np.sqrt(np.mean(z**2)) * noise)
            if tensor is A:
                alone += solution.success
            else:
                wrong += solution.success
    assert wrong <= 1
    assert alone >= 14
