"""Intensities through a transform with a prior: denoisers, what is known of the error, and what is refused."""

import numpy as np
import pytest
from images import counted, phantom, total_variation

import fastquad as fq
from fastquad.priors.in_basis import InBasis


def phases(rng, *shape):
    """Masks of random phases."""
    return np.exp(2j * np.pi * rng.random(shape))


def binary(rng, *shape):
    """Masks of zeros and ones of which every pixel is behind at least one."""
    masks = (rng.random(shape) < 0.5) * 1.0
    masks[0][~masks.any(axis=0)] = 1
    return masks


@pytest.mark.parametrize(("make", "masks", "photons", "least"), [
    (phases, 1, 10, 0.16), (phases, 2, 10, 0.12), (phases, 4, 10, 0.10), (phases, 2, 100, 0.05), (binary, 4, 100, 0.06),
])  # fmt: skip
def test_a_denoiser_finds_an_image_from_few_photons(make, masks, photons, least):
    """And the error that is stated is that which is made."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        image = phantom(32, rng)
        A = fq.FourierTensor(make(rng, masks, 32, 32))
        y, gain = counted(fq.measure(A, image.ravel()), photons, rng)
        prior = fq.Denoiser(total_variation)
        solution = fq.solve(A, y, signal="real", noise=fq.noise.Poisson(gain=gain), prior=prior)
        assert solution.status is fq.Status.CONVERGED
        assert solution.method == "vamp"
        true = fq.distance(solution.x, image.ravel())
        assert true < least
        ratios.append(solution.error / true)
        assert np.sqrt(np.sum(solution.stderr**2)) == pytest.approx(solution.error * np.linalg.norm(image), rel=0.1)
    assert 0.7 < np.median(ratios) < 1.4


def test_without_a_level_it_is_learnt_and_exact_data_are_exact():
    rng = np.random.default_rng(4)
    image = phantom(24, rng)
    A = fq.FourierTensor(phases(rng, 2, 24, 24))
    y = fq.measure(A, image.ravel())
    exact = fq.solve(A, y, signal="real", prior=fq.Denoiser(total_variation))
    assert exact.status in (fq.Status.EXACT, fq.Status.PROVEN)
    assert fq.distance(exact.x, image.ravel()) < 1e-10
    sigma = 0.1 * y.mean()
    noisy = y + sigma * rng.standard_normal(y.size)
    solution = fq.solve(A, noisy, signal="real", prior=fq.Denoiser(total_variation))
    assert solution.status is fq.Status.CONVERGED
    true = fq.distance(solution.x, image.ravel())
    assert true < 0.1
    assert 0.7 < solution.error / true < 1.5


def test_one_mask_is_enough_for_an_image():
    """As many measurements as pixels: nothing is certified without the prior, and nothing is called a success."""
    rng = np.random.default_rng(5)
    image = phantom(32, rng)
    A = fq.FourierTensor(phases(rng, 1, 32, 32))
    solution = fq.solve(A, fq.measure(A, image.ravel()), signal="real", noise=0, prior=fq.Denoiser(total_variation))
    assert fq.distance(solution.x, image.ravel()) < 3e-3
    assert solution.status is fq.Status.UNDECIDED
    assert "the prior chose it" in solution.message


def test_complex_images():
    rng = np.random.default_rng(6)
    x = phantom(32, rng) * np.exp(1j * phantom(32, rng))
    A = fq.FourierTensor(phases(rng, 3, 32, 32))
    y, gain = counted(fq.measure(A, x.ravel()), 20, rng)
    solution = fq.solve(A, y, noise=fq.noise.Poisson(gain=gain), prior=fq.Denoiser(total_variation))
    assert solution.status is fq.Status.CONVERGED
    true = fq.distance(solution.x, x.ravel())
    assert true < 0.15
    assert 0.7 < solution.error / true < 1.4


def test_pixels_that_nothing_measures_are_the_prior_s_alone():
    rng = np.random.default_rng(7)
    masks = phases(rng, 2, 24, 24)
    masks[:, 10:13, 5:9] = 0
    image, A = phantom(24, rng), fq.FourierTensor(masks)
    y, gain = counted(fq.measure(A, image.ravel()), 50, rng)
    solution = fq.solve(A, y, signal="real", noise=fq.noise.Poisson(gain=gain), prior=fq.Denoiser(total_variation))
    assert solution.status is fq.Status.AMBIGUOUS
    assert fq.distance(solution.x, image.ravel()) < 0.3


def test_the_function_is_called_with_copies_and_its_answer_is_checked():
    rng = np.random.default_rng(8)
    A, image = fq.FourierTensor(phases(rng, 2, 8, 6)), phantom(8, rng)[:, :6]
    y = fq.measure(A, image.ravel())
    seen = []

    def spoil(u, sigma):
        seen.append((u.shape, u.dtype, type(sigma)))
        u[...] = u / (1 + sigma)
        return u

    fq.solve(A, y, signal="real", prior=fq.Denoiser(spoil))
    assert set(seen) == {((8, 6), np.dtype(float), float)}
    for wrong, said in (
        (lambda u, sigma: u[1:], r"shape \(8, 6\)"), (lambda u, sigma: np.nan * u, "finite"),
        (lambda u, sigma: u + 0j, "a real image"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            fq.solve(A, y, signal="real", prior=fq.Denoiser(wrong))
    with pytest.raises(TypeError, match="`f` must be a function"):
        fq.Denoiser(3)
    with pytest.raises(ValueError, match="`shape` must have n = 48"):
        fq.solve(A, y, signal="real", prior=fq.Denoiser(spoil, shape=(7, 6)))


def test_the_divergence_is_that_of_the_function():
    """Of a linear function its trace; and the same probes are drawn from the same seed."""
    rng = np.random.default_rng(9)
    M = rng.standard_normal((30, 30)) / 30 + 0.3 * np.eye(30)
    prior = fq.Denoiser(lambda u, sigma: M @ u, probes=4000)
    posterior = prior.denoiser(30, 1.0, 1.0).denoise(rng.standard_normal(30), 2.0)
    assert posterior.variance[0] * 2.0 * 30 == pytest.approx(np.trace(M), abs=0.15)
    A, x = fq.FourierTensor(phases(rng, 3, 30)), rng.random(30)
    y = fq.measure(A, x) * (1 + 0.02 * rng.standard_normal(A.m))
    smooth = fq.Denoiser(lambda u, sigma: u / (1 + sigma**2))
    answers = [fq.solve(A, y, signal="real", prior=smooth, rng=3).x for _ in range(2)]
    np.testing.assert_array_equal(*answers)


# -- priors of single coordinates -------------------------------------------------------------------------------------


def sparse_signals(n=24):
    """What is known, a signal of this kind, and whether it is real; with the number of masks that suffice."""
    rng = np.random.default_rng(11)
    size = n * n
    at = rng.choice(size, 60, replace=False)
    positive, complex_x, grouped = np.zeros(size), np.zeros(size, dtype=complex), np.zeros(size)
    positive[at] = rng.exponential(size=60)
    complex_x[at] = rng.standard_normal(60) + 1j * rng.standard_normal(60)
    grouped[:48] = rng.standard_normal(48)
    yield "nonnegative", 1, positive, fq.Sparse(nonnegative=True), None
    yield "k", 2, positive * rng.choice([-1, 1], size), fq.Sparse(k=60), "real"
    yield "complex", 3, complex_x, fq.Sparse(), None
    yield "groups", 2, grouped, fq.Sparse(groups=np.arange(size) // 8), "real"
    yield "values", 1, (rng.random(size) < 0.3) * 1.0, fq.Discrete([0, 1]), None
    yield "pieces", 2, np.repeat(rng.standard_normal(8), size // 8), fq.PiecewiseConstant(), "real"


@pytest.mark.parametrize("case", range(6))
def test_every_prior_goes_through_transforms(case):
    name, masks, x, prior, signal = list(sparse_signals())[case]
    rng = np.random.default_rng(12)
    A = fq.FourierTensor(phases(rng, masks, 24, 24))
    solution = fq.solve(A, fq.measure(A, x), prior=prior, signal=signal)
    assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN), name
    assert solution.method == "vamp"
    assert fq.distance(solution.x, x) < 1e-9


@pytest.mark.parametrize("make", [phases, binary])
def test_missing_pixels_of_a_sparse_image_in_noise(make):
    """Half as many intensities as pixels, and no array of m×n numbers."""
    rng = np.random.default_rng(13)
    x = np.zeros(64 * 64)
    x[rng.choice(x.size, 300, replace=False)] = rng.exponential(size=300)
    measured = np.zeros((2, 64, 64), dtype=bool)
    measured.reshape(-1)[rng.choice(measured.size, x.size // 2, replace=False)] = True
    A = fq.FourierTensor(make(rng, 2, 64, 64), measured=measured)
    y = fq.measure(A, x)
    sigma = 0.03 * np.sqrt(np.mean(y**2))
    y += sigma * rng.standard_normal(A.m)
    solution = fq.solve(A, y, noise=sigma, prior=fq.Sparse(nonnegative=True), memory="48 MB")
    true = fq.distance(solution.x, x)
    if make is phases:
        assert solution.status is fq.Status.CONVERGED
        assert true < 0.03
    assert not solution.success or 0.6 < solution.error / true < 1.5


@pytest.mark.parametrize("name", ["dct", "db2"])
def test_images_that_are_sparse_in_a_basis(name):
    """Cosines and wavelets of the image, by their fast transforms, and no m×n array."""
    if name != "dct":
        pytest.importorskip("pywt")
    rng = np.random.default_rng(14)
    prior = InBasis.made(fq.Sparse(basis=name), (32, 32))
    v = rng.standard_normal(1024)
    np.testing.assert_allclose(prior.back(prior.forward(v)), v, atol=1e-10)
    assert np.linalg.norm(prior.forward(v)) == pytest.approx(np.linalg.norm(v))
    z = np.zeros(1024)
    z[rng.choice(1024, 60, replace=False)] = rng.standard_normal(60)
    x, A = prior.back(z), fq.FourierTensor(phases(rng, 2, 32, 32))
    y = fq.measure(A, x)
    sigma = 0.05 * y.mean()
    y += sigma * rng.standard_normal(y.size)
    solution = fq.solve(A, y, signal="real", noise=sigma, prior=fq.Sparse(basis=name), memory="64 MB")
    assert solution.status is fq.Status.CONVERGED
    true = fq.distance(solution.x, x)
    assert true < 0.03
    assert 0.6 < solution.error / true < 1.5


def test_real_masks_measure_real_images_half_as_often():
    """Opposite pixels are equal: two such masks are as many equations as pixels, and the prior chooses, soon."""
    rng = np.random.default_rng(15)
    image, A = phantom(32, rng), fq.FourierTensor(binary(rng, 2, 32, 32))
    B = A._transform(real=True)
    assert B.equations == 2 * (32 * 32 + 4) // 2
    assert fq.FourierTensor(phases(rng, 2, 32, 32))._transform(real=True).equations == A.m
    assert A._transform(real=False).equations == A.m
    prior = fq.Denoiser(total_variation)
    solution = fq.solve(A, fq.measure(A, image.ravel()), signal="real", noise=0, prior=prior, max_time=60)
    assert solution.status is fq.Status.UNDECIDED
    assert solution.n_passes < 3000
    assert fq.distance(solution.x, image.ravel()) < 0.02
