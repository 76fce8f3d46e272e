"""What is known of x: posteriors against sums and integrals, solves with each prior, and with a wrong one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from images import total_variation
from scipy.integrate import quad
from scipy.stats import norm

import fastquad as fq
from fastquad._kernels import piecewise
from fastquad.measurements.structured.basis import BasisTensor
from fastquad.numerics.grouping import Groups
from fastquad.numerics.nonnegative import NonnegativeDescent
from fastquad.priors import basis
from fastquad.priors.slab import PositiveSlab, StructuredSlab


def gaussian(m, n, rng):
    return rng.standard_normal((m, n, n))


def nonnegative_signal(n, k, rng):
    x = np.zeros(n)
    x[rng.permutation(n)[:k]] = np.abs(rng.standard_normal(k))
    return x


# -- posteriors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("b", [-60.0, -3.0, 0.1, 8.0])
@pytest.mark.parametrize("mu0", [-1.5, 0.0, 2.0])
def test_positive_slab_is_the_integral(b, mu0):
    a, s2 = 4.0, 1.7
    slab = PositiveSlab(s2)
    slab.mu0 = mu0

    def density(x):
        # Relative to what b says of x = 0.
        return np.exp(b * x - a * x * x / 2) * norm.pdf(x, mu0, np.sqrt(s2)) / norm.cdf(mu0 / np.sqrt(s2))

    moments = [quad(lambda x, p=p: x**p * density(x), 0, 12, epsabs=0, limit=200)[0] for p in range(3)]
    mean, second, evidence = (float(part) for part in slab.posterior(np.array(b), a))
    assert mean == pytest.approx(moments[1] / moments[0], rel=2e-3)
    assert second == pytest.approx(moments[2] / moments[0], rel=5e-3)
    assert evidence == pytest.approx(np.log(moments[0]), abs=1e-6)


def test_a_group_is_zero_or_not_as_one():
    b, a, rho, s2 = np.array([0.5, 2.0, -1.0, 0.3]), 2.0, 0.3, 1.3
    groups = Groups([0, 0, 1, 1])
    denoiser = StructuredSlab(4, rho, rho * s2 * 4, groups=groups)
    weight = denoiser.denoise(b, a).weight
    for members in ([0, 1], [2, 3]):
        # b ~ N(0, a + a² s2) where the group is there, N(0, a) where it is not.
        there = np.prod(norm.pdf(b[members], scale=np.sqrt(a + a * a * s2)))
        absent = np.prod(norm.pdf(b[members], scale=np.sqrt(a)))
        expected = rho * there / (rho * there + (1 - rho) * absent)
        np.testing.assert_allclose(weight[members], expected, rtol=1e-10)


def test_change_points_are_the_sum_over_all_cuts():
    rng = np.random.default_rng(0)
    n, a, h, s2 = 7, 2.0, 0.3, 1.4
    b = a * np.repeat([1.0, -0.5], [3, 4]) + np.sqrt(a) * rng.standard_normal(n)
    total, mean, second, jump, segments, squares = 0.0, np.zeros(n), np.zeros(n), np.zeros(n), 0.0, 0.0
    for cuts in itertools.product([False, True], repeat=n - 1):
        edges = [0, *(j + 1 for j in range(n - 1) if cuts[j]), n]
        weight = h ** sum(cuts) * (1 - h) ** (n - 1 - sum(cuts))
        levels = []
        for i, j in itertools.pairwise(edges):
            P, B = a * (j - i) + 1 / s2, b[i:j].sum()
            weight *= np.exp(0.5 * B * B / P) / np.sqrt(s2 * P)
            levels += [(B / P, B * B / P**2 + 1 / P)] * (j - i)
            squares_here = B * B / P**2 + 1 / P
            levels[-1] = (*levels[-1], squares_here)
        total += weight
        mean += weight * np.array([level[0] for level in levels])
        second += weight * np.array([level[1] for level in levels])
        jump += weight * np.array([True, *cuts])
        segments += weight * (len(edges) - 1)
        squares += weight * sum(level[2] for level in levels if len(level) == 3)
    got = piecewise.change_points(b, a, h, s2)
    for value, expected in zip(got, (mean, second, jump, segments, squares), strict=True):
        np.testing.assert_allclose(value, expected / total, rtol=1e-10)


def test_levenberg_marquardt_stays_above_zero():
    rng = np.random.default_rng(1)
    A = gaussian(60, 20, rng)
    A = (A + A.transpose(0, 2, 1)) / 2
    x = nonnegative_signal(20, 8, rng)
    y = np.einsum("ijk,j,k->i", A, x, x)
    start = np.maximum(x + 0.2 * rng.standard_normal(20), 0.0)
    descent = NonnegativeDescent(y, start, A @ start)
    while not descent.finished():
        z = descent.proposal()
        assert z.min() >= 0
        descent.advance(z, A @ z)
    np.testing.assert_allclose(descent.z, x, atol=1e-10)


# -- solves -----------------------------------------------------------------------------------------------------


def test_nonnegative_with_its_sign():
    rng = np.random.default_rng(2)
    for _ in range(3):
        A, x = gaussian(80, 100, rng), nonnegative_signal(100, 40, rng)
        solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(nonnegative=True))
        assert solution.status is fq.Status.EXACT
        assert fq.distance(solution.x, x, signed=True) < 1e-9
        assert solution.x.min() >= 0


def test_a_fit_with_as_many_numbers_as_measurements_does_not_end_the_search():
    """Another signal that is not negative fits as well, by 28 numbers; with time, the one of 15 is found."""
    rng = np.random.default_rng(2)
    A, x = gaussian(28, 50, rng), nonnegative_signal(50, 15, rng)
    y, prior = fq.measure(A, x), fq.Sparse(nonnegative=True)
    quick, patient = fq.solve(A, y, prior=prior), fq.solve(A, y, prior=prior, noise=0)
    assert quick.success == (fq.distance(quick.x, x, signed=True) < 1e-9)
    assert patient.status is fq.Status.EXACT
    assert fq.distance(patient.x, x, signed=True) < 1e-9


@pytest.mark.parametrize("method", [fq.TWF(beta=1.0), fq.methods.WF(start="full", step="exact")])
def test_nonnegative_in_a_flow(method):
    rng = np.random.default_rng(23)
    A, x = gaussian(120, 40, rng), nonnegative_signal(40, 8, rng)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(nonnegative=True), method=method)
    assert solution.success
    assert solution.x.min() >= 0
    assert fq.distance(solution.x, x, signed=True) < 1e-6


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_priors_with_outliers(noise):
    """Of eight groups in 20 from 70 sound measurements nothing is found without the prior."""
    rng = np.random.default_rng(24)
    labels = np.repeat(np.arange(20), 5)
    A, x = gaussian(90, 100, rng), np.where(labels % 5 == 0, rng.standard_normal(100), 0.0)
    y = fq.measure(A, x)
    y += noise * float(x @ x) * rng.standard_normal(90)
    y[:10] = 3 * y.std() * rng.standard_normal(10)
    solution = fq.solve(A, y, prior=fq.Sparse(groups=labels), outliers=True)
    assert solution.success
    assert fq.distance(solution.x, x) < (0.1 if noise else 1e-9)
    assert np.isin(solution.outliers, np.arange(10)).all()
    with pytest.raises(ValueError, match="`outliers` must be False with PiecewiseConstant"):
        fq.solve(A, y, prior=fq.PiecewiseConstant(), outliers=True)


def test_a_level_of_noise_for_each_measurement_with_a_prior_that_knows_no_support():
    """Such an estimate was polished on the places of its jumps."""
    rng = np.random.default_rng(25)
    A, x = gaussian(60, 100, rng), np.repeat([1.0, -2.0, 0.5, 3.0], 25)
    sigma = 0.02 * float(x @ x) * np.geomspace(0.1, 10, 60)
    solution = fq.solve(
        A, fq.measure(A, x) + sigma * rng.standard_normal(60), prior=fq.PiecewiseConstant(), noise=sigma
    )
    assert solution.success
    assert fq.distance(solution.x, x) < 0.05


@pytest.mark.parametrize(("k", "m"), [(4, 30), (10, 25), (20, 50)])
def test_pursuit_grows_by_positive_values_only(k, m):
    """Four of five are found, in a few passes."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(5):
        A, x = gaussian(m, 100, rng), nonnegative_signal(100, k, rng)
        solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(nonnegative=True))
        if solution.method == "pursuit":
            found.append(solution)
            assert solution.status is fq.Status.EXACT
            assert solution.x.min() >= 0
            assert fq.distance(solution.x, x, signed=True) < 1e-9
    assert len(found) >= 4
    assert np.median([solution.n_passes for solution in found]) < 3


def test_pursuit_is_not_tried_where_the_level_of_noise_is_given():
    rng = np.random.default_rng(5)
    A, x = gaussian(50, 100, rng), nonnegative_signal(100, 4, rng)
    y = fq.measure(A, x) + 0.05 * float(x @ x) * rng.standard_normal(50)
    solution = fq.solve(A, y, prior=fq.Sparse(nonnegative=True), noise=0.05 * float(x @ x))
    assert solution.success
    assert fq.distance(solution.x, x, signed=True) < 0.1
    # The blocks and rows of a pursuit would take more than one pass by themselves.
    assert solution.n_passes < 30


def test_groups_as_labels_or_as_index_sets():
    rng = np.random.default_rng(4)
    labels = rng.permutation(np.repeat(np.arange(20), 5))
    x = np.where(np.isin(labels, [3, 7, 12, 15]), rng.standard_normal(100), 0.0)
    A = gaussian(70, 100, rng)
    y = fq.measure(A, x)
    sets = [np.flatnonzero(labels == g) for g in range(20)]
    first, second = (fq.solve(A, y, prior=fq.Sparse(groups=groups)) for groups in (labels, sets))
    assert first.status is fq.Status.EXACT
    assert fq.distance(first.x, x) < 1e-9
    np.testing.assert_array_equal(first.x, second.x)


def test_groups_of_complex_numbers():
    rng = np.random.default_rng(15)
    labels = np.arange(40) // 4
    H = rng.standard_normal((110, 40, 40)) + 1j * rng.standard_normal((110, 40, 40))
    H = (H + H.conj().transpose(0, 2, 1)) / 2
    x = np.where(labels < 4, rng.standard_normal(40) + 1j * rng.standard_normal(40), 0.0)
    y = np.einsum("ijk,j,k->i", H, x.conj(), x).real
    solution = fq.solve(H, y, prior=fq.Sparse(groups=labels))
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-9
    with pytest.raises(ValueError, match="`nonnegative` must not be given for a complex signal"):
        fq.solve(H, y, prior=fq.Sparse(nonnegative=True), signal="complex")


def test_groups_of_complex_numbers_are_used():
    """Of 46 measurements for 31 unknowns, most are solved with the groups, and few without."""
    successes = {"groups": 0, "none": 0}
    labels = np.arange(40) // 4
    for seed in range(6):
        rng = np.random.default_rng([15, seed])
        H = rng.standard_normal((46, 40, 40)) + 1j * rng.standard_normal((46, 40, 40))
        H = (H + H.conj().transpose(0, 2, 1)) / 2
        chosen = np.isin(labels, rng.choice(10, 4, replace=False))
        x = np.where(chosen, rng.standard_normal(40) + 1j * rng.standard_normal(40), 0.0)
        y = np.einsum("ijk,j,k->i", H, x.conj(), x).real
        for name, prior in (("groups", fq.Sparse(groups=labels)), ("none", None)):
            solution = fq.solve(H, y, prior=prior, rng=0, max_time=3)
            successes[name] += solution.success and fq.distance(solution.x, x) < 1e-9
    assert successes["groups"] >= successes["none"] + 2, successes


def test_nonnegative_groups():
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(20), 5)
    x = np.where(np.isin(labels, np.arange(8)), np.abs(rng.standard_normal(100)), 0.0)
    A = gaussian(75, 100, rng)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(groups=labels, nonnegative=True))
    assert fq.distance(solution.x, x, signed=True) < 1e-9


def test_a_part_of_the_support():
    rng = np.random.default_rng(6)
    problem = fq.problems.gaussian(m=70, n=100, k=20, rng=6)
    known = rng.permutation(np.flatnonzero(problem.x))[:10]
    solution = fq.solve(problem.A, problem.y, prior=fq.Sparse(support=known, partial=True))
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, problem.x) < 1e-9


def piecewise_signal(n, segments, rng):
    cuts = np.sort(rng.permutation(n - 1)[: segments - 1] + 1)
    return rng.standard_normal(segments)[np.searchsorted(cuts, np.arange(n), side="right")]


def test_piecewise_constant():
    rng = np.random.default_rng(7)
    A, x = gaussian(50, 128, rng), piecewise_signal(128, 8, rng)
    y = fq.measure(A, x)
    solution = fq.solve(A, y, prior=fq.PiecewiseConstant())
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9
    assert np.count_nonzero(np.diff(solution.x)) == 7
    assert not fq.solve(A, y, max_passes=100).success


def test_a_small_step_that_was_missed_is_added():
    """Such signals ended as noise of a thousandth, with a success on too few intervals."""
    rng = np.random.default_rng(20)
    x = np.repeat([2.0, -1.0, -0.999, 0.5, 1.5, 1.503], 10)
    A = gaussian(40, 60, rng)
    A = (A + A.transpose(0, 2, 1)) / 2
    prior = fq.PiecewiseConstant()
    U = prior.coordinates(x, np.isin(np.arange(60), [10, 30, 40]).astype(float), 4)  # all but the small steps
    near = U @ (U.T @ x)
    W = A @ near
    larger = prior.enlarged(U, near, W, W @ near - fq.measure(A, x), 6)
    np.testing.assert_allclose(larger @ (larger.T @ x), x, atol=1e-12)
    solution = fq.solve(A, fq.measure(A, x), prior=prior)
    assert solution.status is fq.Status.EXACT
    assert np.count_nonzero(np.diff(solution.x)) == 5


@pytest.mark.parametrize("values", [(-1, 1), (0, 1), (0, 1, 2)])
def test_few_values(values):
    rng = np.random.default_rng(8)
    A, x = gaussian(90, 80, rng), rng.choice(values, 80).astype(float)
    prior = fq.Discrete(values)
    solution = fq.solve(A, fq.measure(A, x), prior=prior)
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x, signed=not prior.signed) == 0


def test_few_values_by_fewer_measurements_than_coordinates_and_entries_of_two_values():
    rng = np.random.default_rng(9)
    A, x = rng.choice([-1.0, 1.0], (60, 64, 64)), rng.choice([-1.0, 1.0], 64)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Discrete([-1, 1]))
    assert solution.status is fq.Status.EXACT
    few = fq.solve(A[:12], fq.measure(A[:12], x), prior=fq.Discrete([-1, 1]), x0=x)
    assert few.residual == 0
    assert few.status is fq.Status.UNDECIDED
    assert "2^64 signals" in few.message


def test_what_the_values_rule_out():
    """Where A is in two blocks the sign of one is free; with 0 and 1 for values it is not."""
    rng = np.random.default_rng(10)
    A = gaussian(100, 40, rng)
    A[:, :20, 20:] = A[:, 20:, :20] = 0
    for values, status in (((-1, 1), fq.Status.AMBIGUOUS), ((0, 1), fq.Status.EXACT)):
        x = rng.choice(values, 40).astype(float)
        assert fq.solve(A, fq.measure(A, x), prior=fq.Discrete(values), x0=x).status is status
    A[:, 7] = A[:, :, 7] = 0
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Discrete(values), x0=x)
    assert solution.status is fq.Status.AMBIGUOUS
    assert "do not determine the value of coordinate 7" in solution.message


PRIORS = {
    "nonnegative": (lambda rng: nonnegative_signal(60, 15, rng), fq.Sparse(nonnegative=True)),
    "piecewise": (lambda rng: piecewise_signal(60, 6, rng), fq.PiecewiseConstant()),
    "discrete": (lambda rng: rng.choice([-1.0, 1.0], 60), fq.Discrete([-1, 1])),
    "groups": (
        lambda rng: np.where(np.arange(60) // 5 < 3, rng.standard_normal(60), 0.0),
        fq.Sparse(groups=np.arange(60) // 5),
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_under_noise_each_prior_says_how_far_off_it_is(name):
    make, prior = PRIORS[name]
    rng = np.random.default_rng(11)
    A, x = gaussian(75, 60, rng), make(rng)
    y = fq.measure(A, x) + 0.05 * float(x @ x) * rng.standard_normal(75)
    solution = fq.solve(A, y, prior=prior)
    assert solution.status is fq.Status.CONVERGED
    assert solution.error is not None
    assert fq.distance(solution.x, x) < 3 * solution.error + 1e-12 < 0.3
    assert solution.n_passes < 60


@pytest.mark.parametrize("name", PRIORS)
def test_batches_kinds_of_tensors_and_checkpoints(name, tmp_path):
    make, prior = PRIORS[name]
    rng = np.random.default_rng(12)
    A, X = gaussian(75, 60, rng), np.stack([make(rng), make(rng)])
    A = (A + A.transpose(0, 2, 1)) / 2
    Y = fq.measure(A, X)
    batch = fq.solve(A, Y, prior=prior)
    assert batch.success.all()
    for solution, x, y in zip(batch, X, Y, strict=True):
        assert fq.distance(solution.x, x) < 1e-9
        packed = fq.solve(fq.pack(A), y, prior=prior)
        assert fq.distance(packed.x, x) < 1e-9
    whole = fq.solve(A, Y[0], prior=prior)
    path = tmp_path / "solve"
    fq.solve(A, Y[0], prior=prior, checkpoint=path, max_passes=3)
    resumed = fq.solve(A, Y[0], prior=prior, checkpoint=path)
    np.testing.assert_array_equal(resumed.x, whole.x)


# -- a basis ----------------------------------------------------------------------------------------------------


def sparse_signal(n, k, rng):
    z = np.zeros(n)
    z[rng.permutation(n)[:k]] = rng.standard_normal(k)
    return z


@pytest.mark.parametrize("name", ["dct", "haar", "db2"])
def test_bases_by_name_are_orthonormal_and_found(name):
    if name != "dct":
        pytest.importorskip("pywt")
    rng = np.random.default_rng(16)
    D = basis.matrix(name, 64)
    np.testing.assert_allclose(D.T @ D, np.eye(64), atol=1e-12)
    A, x = gaussian(50, 64, rng), D @ sparse_signal(64, 6, rng)
    seen = []
    solution = fq.solve(
        A, fq.measure(A, x), prior=fq.Sparse(basis=name), x_true=x, callback=lambda state: seen.append(state.x.size)
    )
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9
    assert set(seen) == {64}
    assert solution.history["distance"].shape == solution.history["residual"].shape
    assert "6 nonzero coefficients" in solution.message


@pytest.mark.parametrize("name", ["dct", "fourier"])
def test_a_basis_of_complex_signals(name):
    rng = np.random.default_rng(26)
    n = 30
    D = "dct" if name == "dct" else np.fft.ifft(np.eye(n), norm="ortho")
    H = gaussian(100, n, rng) + 1j * gaussian(100, n, rng)
    H = (H + H.conj().transpose(0, 2, 1)) / 2
    z = sparse_signal(n, 5, rng) * np.exp(2j * np.pi * rng.random(n))
    x = basis.matrix(D, n) @ z
    y = np.einsum("ijk,j,k->i", H, x.conj(), x).real
    solution = fq.solve(H, y, prior=fq.Sparse(basis=D), x_true=x)
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-9
    assert "5 nonzero coefficients" in solution.message
    if name == "fourier":
        with pytest.raises(ValueError, match="`basis` must be real if A or the signal is real"):
            fq.solve(H.real, y, prior=fq.Sparse(basis=D))


def test_what_is_not_quite_sparse_in_its_basis_is_no_noise():
    """Many small coefficients beside a few large ones look like noise for m < n: the stated error allows for them."""
    claimed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        z = 0.01 * rng.standard_normal(60)
        z[rng.permutation(60)[:4]] = rng.choice([-1.0, 1.0], 4)
        A, D = gaussian(50, 60, rng), basis.matrix("dct", 60)
        y = fq.measure(A, D @ z)
        solution = fq.solve(A, y, prior=fq.Sparse(basis="dct"))
        if solution.status is fq.Status.CONVERGED:
            claimed += 1
            assert fq.distance(solution.x, D @ z) < 2 * solution.error
            assert "small coordinates" in solution.message
            # Without a basis, what is left is taken for noise.
            assert fq.solve(D.T @ A @ D, y).error < solution.error
    assert claimed >= 4


@pytest.mark.parametrize("negative", [False, True])
def test_values_below_zero_are_no_noise(negative):
    """A signal told non-negative that has a few negative values, in noise: they are found, and the prior is named."""
    rng = np.random.default_rng(7)
    A, x = gaussian(50, 60, rng), np.zeros(60)
    x[:5] = 1.8, 0.9, *((-0.3, -0.35, -0.3) if negative else (0.3, 0.35, 0.3))
    y = fq.measure(A, x) + 0.05 * float(x @ x) * rng.standard_normal(50)
    solution = fq.solve(A, y, prior=fq.Sparse(nonnegative=True))
    assert solution.success
    assert ("the data contradict `prior`" in solution.message) is negative
    if negative:
        assert solution.x.min() < 0 < solution.x.max()
    else:
        assert fq.distance(solution.x, x, signed=True) < 0.1


def test_more_columns_than_coordinates():
    rng = np.random.default_rng(17)
    D = np.concatenate([np.eye(50), basis.matrix("dct", 50)], axis=1)
    A, x = gaussian(60, 50, rng), D @ sparse_signal(100, 3, rng)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(basis=D))
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-9


def test_a_basis_that_is_not_stored():
    rng = np.random.default_rng(18)
    A, D = gaussian(40, 30, rng), basis.matrix("dct", 30)[:, :20]
    tensor = BasisTensor(fq.as_measurements(A), D)
    assert fq.testing.check_gradient(tensor).ok
    x = D @ sparse_signal(20, 3, rng)
    solution = fq.solve(tensor, fq.measure(A, x))
    assert fq.distance(D @ solution.x, x) < 1e-9


def test_nonnegative_in_a_basis():
    rng = np.random.default_rng(19)
    A, x = gaussian(75, 100, rng), basis.matrix("dct", 100) @ nonnegative_signal(100, 30, rng)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(basis="dct", nonnegative=True))
    assert fq.distance(solution.x, x, signed=True) < 1e-9


# -- what a wrong prior must not do, and what is refused -----------------------------------------------------------


def test_a_wrong_prior_is_no_success():
    rng = np.random.default_rng(13)
    for _ in range(4):
        problem = fq.problems.gaussian(m=75, n=60, k=20, rng=rng)
        wrong = (
            fq.Sparse(nonnegative=True), fq.PiecewiseConstant(), fq.Discrete([0, 1]),
            fq.Sparse(groups=np.arange(60) // 6), fq.Sparse(support=np.flatnonzero(problem.x == 0)[:10], partial=True),
        )  # fmt: skip
        for prior in wrong:
            solution = fq.solve(problem.A, problem.y, prior=prior, max_time=2)
            assert not solution.success or fq.distance(solution.x, problem.x) < 1e-6


def test_a_right_prior_is_a_success():
    """The priors of `test_a_wrong_prior_is_no_success`, each with a signal that has it."""
    successes = dict.fromkeys(("none", "nonnegative", "pieces", "values", "groups", "support"), 0)
    for seed in range(4):
        rng = np.random.default_rng([13, seed])
        A = rng.standard_normal((75, 60, 60))
        x = np.zeros(60)
        x[rng.choice(60, 20, replace=False)] = rng.uniform(0.5, 1.5, 20)
        some = np.flatnonzero(x)[:10]
        for name, signal, prior in (
            ("none", x * rng.choice([-1, 1], 60), None), ("nonnegative", x, fq.Sparse(nonnegative=True)),
            ("pieces", np.repeat(rng.standard_normal(6), 10), fq.PiecewiseConstant()),
            ("values", (x > 0).astype(float), fq.Discrete([0, 1])),
            ("groups", x * 0 + np.where(np.arange(60) // 6 < 3, rng.standard_normal(60), 0.0),
             fq.Sparse(groups=np.arange(60) // 6)),
            ("support", x * rng.choice([-1, 1], 60), fq.Sparse(support=some, partial=True)),
        ):  # fmt: skip
            solution = fq.solve(A, fq.measure(A, signal), prior=prior)
            successes[name] += solution.success and fq.distance(solution.x, signal) < 1e-6
    assert min(successes.values()) >= 3, successes


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_values_that_are_not_quite_those_told_are_no_noise(noise):
    """Such signals ended as noise, with a success and an error of a thousandth."""
    rng = np.random.default_rng(22)
    A, x = gaussian(40, 50, rng), rng.integers(0, 2, 50).astype(float)
    x[[3, 30]] += [0.3, -0.2]
    y = fq.measure(A, x) + noise * float(x @ x) * rng.standard_normal(40)
    solution = fq.solve(A, y, prior=fq.Discrete([0, 1]))
    assert fq.distance(solution.x, x) > 0.01
    assert not solution.success


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: fq.Sparse(nonnegative=1), TypeError, "`nonnegative` must be True or False, got 1."),
        (lambda: fq.Sparse(partial=True), ValueError, "`support` must be given if `partial` is True"),
        (lambda: fq.Sparse(support=[1], nonnegative=True), ValueError, "`support` cannot be combined with"),
        (lambda: fq.Sparse(support=[1, 2], partial=True, k=1), ValueError, "`k` must be at least the 2 coordinates"),
        (lambda: fq.Sparse(groups=[[0, 1], [1, 2]]), ValueError, "`groups` must not overlap, but coordinate 1"),
        (lambda: fq.Sparse(groups=[]), ValueError, "`groups` must be labels"),
        (lambda: fq.Sparse(fixed={0: 1.0}, nonnegative=True), ValueError, "`fixed` cannot be combined with"),
        (lambda: fq.Discrete([1]), ValueError, "`values` must be at least two different numbers"),
    ],
)
def test_refused(make, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        make()


def test_a_method_that_cannot_use_the_prior_names_one_that_can():
    problem = fq.problems.gaussian(m=20, n=12, k=3, rng=0)
    for prior, what in ((fq.Sparse(nonnegative=True), "`nonnegative`"), (fq.PiecewiseConstant(), "PiecewiseConstant")):
        with pytest.raises(ValueError, match=f"`method` must be able to use {what}, as 'auto'.* are, got 'spf'"):
            fq.solve(problem.A, problem.y, prior=prior, method="spf")
    with pytest.raises(ValueError, match="`basis` must have n = 12 rows"):
        fq.solve(problem.A, problem.y, prior=fq.Sparse(basis=np.eye(5)))
    with pytest.raises(ValueError, match="`groups` must have a label for each of 12 coordinates, got 3"):
        fq.solve(problem.A, problem.y, prior=fq.Sparse(groups=[0, 0, 1]))


def test_distance_with_its_sign():
    assert fq.distance([-3.0, -4.0], [3.0, 4.0]) == 0
    assert fq.distance([-3.0, -4.0], [3.0, 4.0], signed=True) == 2


# -- one's own ------------------------------------------------------------------------------------------------------


def test_check_prior_tells_what_is_wrong():
    class NotAPosterior(fq.Prior):
        def denoise(self, b, a):
            return b / (a + 1), np.full(b.size, 2 / (a + 1))

    class Short(fq.Prior):
        def denoise(self, b, a):
            return b[:-1], b[:-1] ** 2

    assert fq.testing.check_prior(fq.Sparse(nonnegative=True, groups=np.arange(20) // 2), n=20).ok
    assert fq.testing.check_prior(fq.Discrete([-1, 0, 1]), n=20).ok
    assert "must be a posterior" in fq.testing.check_prior(NotAPosterior(), n=5).problems[0]
    assert "must give a real mean of shape (5,)" in fq.testing.check_prior(Short(), n=5).problems[0]


def test_the_values_of_ones_own_prior_are_counted():
    class Signs(fq.Prior):
        rounds = True
        alphabet = np.array([-1.0, 1.0])

        def denoise(self, b, a):
            return np.tanh(b), 1 - np.tanh(b) ** 2

        def nearest(self, x):
            return np.where(x < 0, -1.0, 1.0)

    rng = np.random.default_rng(21)
    A, x = gaussian(45, 50, rng), rng.choice([-1.0, 1.0], 50)
    solution = fq.solve(A, fq.measure(A, x), prior=Signs())
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) == 0


def test_a_prior_of_ones_own_with_one_method():
    class Normal(fq.Prior):
        """Nothing is known but the scale: one short method."""

        def denoise(self, b, a):
            return b / (a + 1), np.full(b.size, 1 / (a + 1))

    rng = np.random.default_rng(14)
    A, x = gaussian(90, 50, rng), rng.standard_normal(50)
    solution = fq.solve(A, fq.measure(A, x), prior=Normal())
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9


# -- denoisers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [0.0, 0.5])
def test_flat_images_from_fewer_random_measurements_than_pixels(background):
    """Exact ones with levels for coordinates; in noise with a right error, whether its level is told or not."""
    for seed in range(2):
        rng = np.random.default_rng([seed, 100])
        image = np.full((16, 16), background)
        image[3 + seed : 10, 4 : 11 - seed] = 1.0
        x, prior = image.ravel(), fq.Denoiser(total_variation, (16, 16))
        A = rng.standard_normal((100, 256, 256))
        y = fq.measure(A, x)
        exact = fq.solve(A, y, prior=prior)
        assert exact.status is fq.Status.EXACT
        assert fq.distance(exact.x, x) < 1e-9
        sigma = 0.1 * np.std(y)
        noisy = y + sigma * rng.standard_normal(100)
        for level in (sigma, None):
            solution = fq.solve(A, noisy, prior=prior, noise=level)
            assert solution.status is fq.Status.CONVERGED
            true = fq.distance(solution.x, x)
            assert true < 0.12
            assert 0.5 < solution.error / true < 2
