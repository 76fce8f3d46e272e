"""Fourier intensities behind masks: contractions, the transform, what is recovered, and what is called ambiguous."""

import math
import pickle
import tracemalloc

import naive
import numpy as np
import pytest
from tensors import calls, relative_error

import fastquad as fq
from fastquad.measurements.contractions import Factors
from fastquad.measurements.views import RealPart, RealView
from fastquad.numerics import krylov
from fastquad.numerics.transform import DenseTransform, Jacobian, sampled_variances
from fastquad.testing import check_measurements


def phases(rng, *shape):
    """Masks of random phases."""
    return np.exp(2j * np.pi * rng.random(shape))


def octanary(rng, *shape):
    """The masks of Candès, Li and Soltanolkotabi (2015): four phases, and two moduli."""
    return 1j ** rng.integers(0, 4, shape) * np.where(rng.random(shape) < 0.8, np.sqrt(0.5), np.sqrt(3.0))


def kinds():
    """Tensors of every form, with the vectors a_i^* by `numpy.fft`."""
    rng = np.random.default_rng(0)
    for masks, size, share in (
        (phases(rng, 2, 7), None, 1.0), (rng.standard_normal((1, 5)), (9,), 1.0),
        (octanary(rng, 3, 3, 4), None, 0.6), (phases(rng, 2, 2, 3, 2), (3, 3, 4), 0.5),
    ):  # fmt: skip
        pixels = masks.shape[1:] if size is None else size
        measured = rng.random((len(masks), *pixels)) < share
        units = np.eye(math.prod(masks.shape[1:])).reshape(-1, 1, *masks.shape[1:])
        B = np.fft.fftn(masks * units, s=pixels, axes=range(2, 2 + len(pixels)))[:, measured].T
        yield fq.FourierTensor(masks, size=size, measured=None if share == 1 else measured), B


@pytest.mark.parametrize("case", range(4))
def test_contractions(case):
    A, B = list(kinds())[case]
    array = B.conj()[:, :, None] * B[:, None, :]
    for batch in (None, 1, 3):
        for name, *arguments in calls(A.m, A.n, batch, complex_signals=True):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_allclose(A.matrices(1, A.m), array[1:], atol=1e-12)
    assert check_measurements(RealPart(A)).ok
    assert check_measurements(RealView(A)).ok
    part = A._part(2, A.m - 1)
    x = np.random.default_rng(1).standard_normal(A.n) + 1j
    np.testing.assert_allclose(part.measure(x), A.measure(x)[2:-1])
    copied = pickle.loads(pickle.dumps(A))
    np.testing.assert_array_equal(copied.measure(x), A.measure(x))
    assert A.nbytes == A.masks.nbytes


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("view", [RealPart, RealView])
def test_the_transform_is_that_of_the_vectors(case, view):
    """Against the same verbs of a stored B, for real signals and for complex ones."""
    A, B = list(kinds())[case]
    fast = Factors().answer(view(A), 1)
    dense = Factors().answer(view(fq.RankOneTensor(B.conj())), 1)
    assert isinstance(dense, DenseTransform)
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal(fast.n), rng.standard_normal(fast.m * fast.R)
    np.testing.assert_allclose(fast.forward(x), dense.forward(x), atol=1e-12)
    np.testing.assert_allclose(fast.adjoint(z), dense.adjoint(z), atol=1e-12)
    unit, ordinary = fast.unit().transform, dense.unit()
    for got, expected in zip(fast.unit()[1:], ordinary[1:], strict=True):
        np.testing.assert_allclose(got, expected)
    np.testing.assert_allclose(unit.forward(x), ordinary.transform.forward(x), atol=1e-12)
    np.testing.assert_allclose(unit.norms, ordinary.transform.norms)
    # With all pixels B^T B is diagonal.
    assert unit.complete == (A.measured is None)
    rows = np.array([unit.forward(each) for each in np.eye(unit.n)])
    np.testing.assert_allclose(np.diagonal(rows @ rows.T), unit.norms)
    if unit.complete:
        np.testing.assert_allclose(rows @ rows.T, np.diag(unit.eigenvalues), atol=1e-12)
    np.testing.assert_allclose(unit.scaled(0.5, x), np.sqrt(unit.eigenvalues) * x)


def test_leading_vectors():
    rng = np.random.default_rng(2)
    B = fq.FourierTensor(phases(rng, 4, 6, 5))._transform(real=True)
    weights = rng.random(B.m)
    S = np.array([B.adjoint(np.repeat(weights, 2) * B.forward(each)) for each in np.eye(30)])
    for got, expected in zip(B.leading(weights), np.linalg.eigh(S)[1][:, [-1, -2]].T, strict=True):
        assert abs(got @ expected) == pytest.approx(1, abs=1e-9)


# -- what is recovered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [phases, octanary])
@pytest.mark.parametrize("real", [True, False])
def test_images_are_recovered_and_certified(make, real):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = fq.FourierTensor(make(rng, 4, 12, 15))
        x = rng.random(A.n) * (1 if real else phases(rng, A.n))
        solution = fq.solve(A, fq.measure(A, x), signal="real" if real else None)
        assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
        assert solution.method == "vamp"
        assert fq.distance(solution.x, x) < 1e-13


def test_the_answer_is_that_of_the_stored_vectors():
    masks = phases(np.random.default_rng(3), 4, 20)
    A, x = fq.FourierTensor(masks), np.random.default_rng(4).standard_normal(20)
    B = np.concatenate([np.fft.fft(mask * np.eye(20)).T for mask in masks])
    y = fq.measure(A, x)
    np.testing.assert_allclose(y, np.abs(B @ x) ** 2)
    for options in ({"signal": "real"}, {}):
        one, other = fq.solve(A, y, **options), fq.solve(fq.RankOneTensor(B.conj()), y, **options)
        assert one.status is other.status
        assert one.status is (fq.Status.PROVEN if options else fq.Status.EXACT)
        assert fq.distance(one.x, other.x) < 1e-12


def test_pixels_that_are_not_measured():
    """One mask and a half; a beam stop; and between the pixels, with zeros around the object."""
    rng = np.random.default_rng(5)
    image = rng.random((16, 16))
    half = np.ones((2, 16, 16), dtype=bool)
    half[1, 8:] = False
    stop = np.ones((3, 16, 16), dtype=bool)
    stop[:, :2, :2] = stop[:, -1:, :2] = stop[:, :2, -1:] = stop[:, -1:, -1:] = False
    for A in (
        fq.FourierTensor(1j ** rng.integers(0, 4, (2, 16, 16)), measured=half),
        fq.FourierTensor(phases(rng, 3, 16, 16), measured=stop),
        fq.FourierTensor(phases(rng, 1, 16, 16), size=(32, 30)),
    ):
        solution = fq.solve(A, fq.measure(A, image.ravel()), signal="real")
        assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
        assert fq.distance(solution.x, image.ravel()) < 1e-12


def test_a_dark_background_is_zero():
    rng = np.random.default_rng(6)
    image = np.zeros((16, 16))
    image[4:10, 5:12] = rng.random((6, 7))
    for signal, turn in (("real", 1.0), (None, phases(rng, 16, 16))):
        A, x = fq.FourierTensor(phases(rng, 4, 16, 16)), (image * turn).ravel()
        solution = fq.solve(A, fq.measure(A, x), signal=signal)
        assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
        np.testing.assert_array_equal(solution.support, np.flatnonzero(x))


def test_a_photograph_never_meets_a_matrix():
    """64×64 pixels, 4 masks: one array of m×n numbers would take 540 MB."""
    rng = np.random.default_rng(7)
    A, x = fq.FourierTensor(phases(rng, 4, 64, 64)), rng.random(4096)
    y = fq.measure(A, x)
    tracemalloc.start()
    solution = fq.solve(A, y, signal="real", memory="64 MB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
    assert fq.distance(solution.x, x) < 1e-13
    assert peak < 64e6


def test_batches_and_starts_and_bits():
    rng = np.random.default_rng(8)
    A, X = fq.FourierTensor(phases(rng, 4, 9, 9)), rng.random((3, 81))
    for solution, x in zip(fq.solve(A, fq.measure(A, X), signal="real"), X, strict=True):
        assert solution.status in (fq.Status.EXACT, fq.Status.PROVEN)
        assert fq.distance(solution.x, x) < 1e-13
    y = fq.measure(A, X[0])
    near = fq.solve(A, y, signal="real", x0=X[0] + 0.01 * rng.standard_normal(81))
    assert near.method == "lm"
    assert near.status in (fq.Status.EXACT, fq.Status.PROVEN)
    answers = [fq.solve(A, y, signal="real", n_threads=count).x for count in (1, 2)]
    np.testing.assert_array_equal(*answers)


# -- what is not certain ----------------------------------------------------------------------------------------------


def test_without_masks_the_place_of_x_and_a_reflection_are_its_gauge():
    rng = np.random.default_rng(9)
    A, x = fq.FourierTensor(np.ones((1, 8, 8)), size=(16, 16)), rng.random(64)
    for signal, start in (("real", x), (None, x * phases(rng, 64))):
        solution = fq.solve(A, fq.measure(A, start), signal=signal, x0=start)
        assert solution.status is fq.Status.UNDECIDED
        assert "up to its place and a reflection" in solution.message
        assert solution.gauge.endswith(", translation and reflection of 8×8 in 16×16")
        assert fq.distance(solution.x[::-1].conj(), start, gauge=solution.gauge) < 1e-12
    # On a line other signals than these measure the same.
    A = fq.FourierTensor(np.ones((1, 64)), size=(128,))
    solution = fq.solve(A, fq.measure(A, x), signal="real", x0=x)
    assert solution.status is fq.Status.AMBIGUOUS
    assert "reversed" in solution.message


@pytest.mark.parametrize("memory", [None, "20 kB"])
def test_masks_with_a_symmetry_are_found_out(memory):
    """Real masks that are the same at j and −j: x at −j measures the same, which is no flat reversal."""
    rng = np.random.default_rng(10)
    masks = rng.standard_normal((6, 9, 9))
    masks = masks + np.roll(masks[:, ::-1, ::-1], 1, axis=(1, 2))
    A, x = fq.FourierTensor(masks), rng.random((9, 9))
    twin = np.roll(x[::-1, ::-1], 1, axis=(0, 1))
    y = fq.measure(A, x.ravel())
    np.testing.assert_allclose(fq.measure(A, twin.ravel()), y)
    solution = fq.solve(A, y, signal="real", x0=x.ravel(), memory=memory)
    if memory is None:
        assert solution.status is fq.Status.AMBIGUOUS
    else:
        assert solution.status is fq.Status.UNDECIDED
        assert "was not shown" in solution.message


@pytest.mark.parametrize("signal", ["real", None])
def test_masks_that_leave_more_than_a_phase_open(signal):
    """Period 10: x moved by 10 fits. Halves that no mask joins: their signs are free. Equal masks: too few;
    whether a descent ends at another signal of theirs is chance."""
    rng = np.random.default_rng(18)
    halves = phases(rng, 8, 20)
    halves[:4, :10] = halves[4:, 10:] = 0
    x = rng.standard_normal(20) + (0 if signal else 1j * rng.standard_normal(20))
    doubt, found = {fq.Status.AMBIGUOUS}, {fq.Status.PROVEN if signal else fq.Status.EXACT}
    few = {fq.Status.AMBIGUOUS, fq.Status.UNDECIDED}
    for masks, expected in (
        (np.tile(phases(rng, 8, 10), (1, 2)), doubt),
        (halves, doubt),
        (np.repeat(phases(rng, 1 if signal else 2, 20), 4, axis=0), few),
        (phases(rng, 4, 20), found),
    ):
        A = fq.FourierTensor(masks)
        assert fq.solve(A, fq.measure(A, x), x0=x, signal=signal).status in expected


def test_a_pixel_behind_no_mask():
    rng = np.random.default_rng(11)
    masks = phases(rng, 4, 8, 8)
    masks[:, 3, 4] = 0
    A, x = fq.FourierTensor(masks), rng.random(64)
    solution = fq.solve(A, fq.measure(A, x), signal="real")
    assert solution.status is fq.Status.AMBIGUOUS
    assert "coordinate 28" in solution.message


def test_nothing_found_without_matrices_is_said():
    """Two masks are too few for a complex object; other methods would need more memory."""
    rng = np.random.default_rng(12)
    A, x = fq.FourierTensor(phases(rng, 2, 32, 32)), rng.random(1024) * phases(rng, 1024)
    solution = fq.solve(A, fq.measure(A, x), memory="64 MB")
    assert not solution.success
    assert "do not fit in `memory`" in solution.message


# -- noise ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [True, False])
def test_photons_are_counted(real):
    """The error that is told is that which is made, and the standard errors are those of the coordinates."""
    rng = np.random.default_rng(13)
    A = fq.FourierTensor(phases(rng, 4, 16, 16))
    x = rng.random(256) * (1 if real else phases(rng, 256))
    exact = fq.measure(A, x)
    counts = rng.poisson(300 * exact / exact.mean())
    scale = exact.mean() / 300
    solution = fq.solve(
        A, counts * scale, noise=np.sqrt(np.maximum(counts, 1)) * scale, signal="real" if real else None
    )
    assert solution.status is fq.Status.CONVERGED
    assert solution.error == pytest.approx(fq.distance(solution.x, x), rel=0.25)
    turn = np.vdot(solution.x, x)
    missed = np.abs(solution.x * turn / abs(turn) - x) / solution.stderr
    assert np.sqrt(np.mean(missed**2)) == pytest.approx(1, abs=0.2)


def test_noise_of_one_level_that_nobody_told():
    rng = np.random.default_rng(14)
    A, x = fq.FourierTensor(octanary(rng, 4, 20, 20)), rng.random(400)
    y = fq.measure(A, x)
    level = 0.03 * np.sqrt(np.mean(y**2))
    solution = fq.solve(A, y + level * rng.standard_normal(A.m), signal="real")
    assert solution.status is fq.Status.CONVERGED
    assert solution.noise == pytest.approx(level, rel=0.05)
    assert solution.error == pytest.approx(fq.distance(solution.x, x), rel=0.2)


def test_small_problems_are_judged_as_those_of_stored_vectors():
    """Whether the noise is too much or not, both say the same; a tenth of that noise is never too much."""
    for seed in range(12):
        rng = np.random.default_rng([77, seed])
        masks = phases(rng, 4, 6)
        A, x = fq.FourierTensor(masks), rng.standard_normal(6) + 1j * rng.standard_normal(6)
        y = fq.measure(A, x)
        y += (0.02 if seed % 2 else 0.2) * np.sqrt(np.mean(y**2)) * rng.standard_normal(24)
        stored = fq.RankOneTensor(np.concatenate([np.fft.fft(mask * np.eye(6)).T for mask in masks]).conj())
        one, other = fq.solve(A, y), fq.solve(stored, y)
        assert one.status is other.status
        assert fq.distance(one.x, other.x) < 1e-5
        assert one.success or seed % 2 == 0
        assert not one.success or fq.distance(one.x, x) < 3 * one.error


# -- numerics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, 600])
def test_a_bound_of_the_least_eigenvalue(n):
    rng = np.random.default_rng(15)
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    for least, gap in ((0.05, 0.0), (0.01, 0.3), (0.0, 0.1)):
        values = np.concatenate([[least], np.linspace(max(least, 0.01) + gap, 1, n - 1)])
        S = (V * values) @ V.T
        found = krylov.least_eigenvalue(lambda v, S=S: S @ v, n, rng, [])
        assert found.bound <= least + 1e-12
        assert found.shown == (least > 0)
        assert found.largest == pytest.approx(1, rel=0.01)
        # Beside the first eigenvector it is the next one.
        beside = krylov.least_eigenvalue(lambda v, S=S: S @ v, n, rng, [V[:, 0]])
        assert 0.4 * values[1] < beside.bound <= values[1] + 1e-12


def test_least_squares_and_variances_by_products():
    rng = np.random.default_rng(16)
    B = DenseTransform(rng.standard_normal((80, 2, 12)))
    x, weights = rng.standard_normal(12), rng.uniform(0.5, 2, 80)
    J = Jacobian(B, B.forward(x), weights)
    matrix = 2 * weights[:, None] * np.einsum("ir,irj->ij", B.forward(x).reshape(80, 2), B.factors)
    d, target = rng.standard_normal(12), rng.standard_normal(80)
    np.testing.assert_allclose(J.forward(d), matrix @ d)
    np.testing.assert_allclose(J.adjoint(target), matrix.T @ target)
    np.testing.assert_allclose(J.least_squares(target, 1e-12, 100), np.linalg.lstsq(matrix, target)[0], atol=1e-9)
    inverse = np.linalg.inv(matrix.T @ matrix)
    variances, leverage = sampled_variances(J, rng, draws=4000)
    np.testing.assert_allclose(variances, inverse.diagonal(), rtol=0.15)
    np.testing.assert_allclose(leverage, np.einsum("ij,jk,ik->i", matrix, inverse, matrix), rtol=0.15, atol=1e-3)


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"masks": np.ones(3)}, ValueError, r"`masks` must have shape \(L, ...\)"),
    ({"masks": np.ones((2, 3), object)}, TypeError, "`masks` must hold"),
    ({"masks": [[1.0, np.nan]]}, ValueError, "`masks` must be finite"),
    ({"masks": [[1.0, 2.0], [0.0, 0.0]]}, ValueError, "none of them zero everywhere"),
    ({"masks": np.ones((2, 3)), "size": (2,)}, ValueError, "`size` must be at least the shape"),
    ({"masks": np.ones((2, 3)), "size": (4, 4)}, ValueError, "`size` must be at least the shape"),
    ({"masks": np.ones((2, 3)), "measured": np.ones((2, 3))}, ValueError, "`measured` must be a boolean array"),
    ({"masks": np.ones((2, 3)), "measured": np.zeros((2, 3), bool)}, ValueError, "not all False"),
])  # fmt: skip
def test_refuses(options, error, said):
    with pytest.raises(error, match=said):
        fq.FourierTensor(**options)


def test_the_rigidity_of_masks():
    """Near 1 for random ones; 0 where a map other than a phase leaves all measurements, and where nothing is known."""
    rng = np.random.default_rng(19)

    def rigidity(masks, real=False, **options):
        return fq.FourierTensor(masks, **options)._transform(real=real).rigidity

    masks = phases(rng, 3, 12, 10)
    assert rigidity(masks) > 0.4
    assert rigidity(octanary(rng, 3, 12, 10)) > 0.2
    # Moved by five pixels x measures the same, and conjugated where masks are the same at j and −j.
    assert rigidity(np.tile(phases(rng, 3, 12, 5), (1, 1, 2))) == pytest.approx(0)
    opposite = np.roll(np.flip(masks, axis=(1, 2)), 1, axis=(1, 2))
    assert rigidity(np.exp(1j * (np.angle(masks) - np.angle(opposite)))) == pytest.approx(0)
    assert rigidity(np.repeat(masks[:1], 3, axis=0)) == pytest.approx(0)
    for case in ({"size": (20, 20)}, {"measured": rng.random((3, 12, 10)) < 0.9}):
        assert rigidity(masks, **case) == 0
    # Each of them is what the slow test of all maps says.
    for A, rigid in ((fq.FourierTensor(masks), True), (fq.FourierTensor(np.repeat(masks[:2], 2, axis=0)[:2]), False)):
        assert (A._transform(real=False).rigidity > 0.3) == rigid


def test_the_rigidity_of_masks_for_real_signals():
    """Against all maps Q: `J(g_t) Q x = −J(x) h_t` has one solution where masks are rigid, and more elsewhere."""
    rng = np.random.default_rng(21)

    def maps(A):
        M, x, g = A.matrices(0, A.m).real, rng.standard_normal(A.n), rng.standard_normal((2, A.n))
        nothing = np.zeros((A.m, A.n))
        rows = np.block([[M @ g[0], M @ x, nothing], [M @ g[1], nothing, M @ x]])
        values = np.linalg.svd(rows, compute_uv=False)
        return int(np.count_nonzero(values < 1e-10 * values[0]))

    masks = phases(rng, 3, 8, 7)
    opposite = np.roll(np.flip(masks, axis=(1, 2)), 1, axis=(1, 2))
    eighths = np.exp(0.25j * np.pi * rng.integers(0, 8, (3, 8, 7)))
    cases = {
        "random": (masks, 1), "two": (masks[:2], 1), "eight phases": (eighths, 1),
        "one modulus": (masks * (0.5 + rng.random((8, 7))), 1),
        "reversed": (np.exp(1j * (np.angle(masks) - np.angle(opposite))), 2),
        "periodic": (np.tile(phases(rng, 3, 4, 7), (1, 2, 1)), 2),
    }  # fmt: skip
    for name, (each, count) in cases.items():
        A = fq.FourierTensor(each)
        found = A._transform(real=True).rigidity
        assert found > 0.1 if count == 1 else found == 0, name
        assert maps(A) == count if count == 1 else maps(A) > 1, name
    # Where it does not tell, it is 0.
    for other in (rng.standard_normal((3, 8, 7)), masks * rng.random((3, 8, 7)), masks[:1]):
        assert fq.FourierTensor(other)._transform(real=True).rigidity == pytest.approx(0, abs=1e-6)
