"""Intensities through a transform with a prior: denoisers, what is known of the error, and what is refused."""

import numpy as np
import pytest
from images import counted, phantom, total_variation

import fastquad as fq


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
