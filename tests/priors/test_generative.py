"""The generative prior: projection, and the three solvers on small networks and on the bundled decoder."""

import numpy as np
import pytest
from scipy.optimize import least_squares as scipy_least_squares

import fastquad as fq
from fastquad.engine.requests import Together
from fastquad.measurements.contractions import Compress, Products
from fastquad.numerics.least_squares import Normal, minimize, normal
from fastquad.priors import projection
from fastquad.solvers.latent.model import Anchor, Local
from fastquad.solvers.latent.search import NoiseLevel, Unknowns, quadratic_residuals


def small_prior(seed=0, n=40, k=3, **options):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((k, 16)), rng.standard_normal((16, n))]
    biases = [rng.standard_normal(16), rng.standard_normal(n)]
    return fq.Generative(fq.decoders.Decoder(weights, biases, ["tanh", "sigmoid"]), **options)


def small_problem(m=30, b=1, seed=0, **options):
    prior = small_prior(seed, **options)
    rng = np.random.default_rng(seed + 1)
    A = rng.standard_normal((m, prior.decoder.n, prior.decoder.n))
    X = prior.signal(rng.standard_normal((b, prior.decoder.n_latent)))
    return prior, A, X, np.stack([fq.measure(A, x) for x in X])


def cosines(x, X):
    return np.einsum("bn,bn->b", x, X) / (np.linalg.norm(x, axis=1) * np.linalg.norm(X, axis=1))


@pytest.fixture(scope="module")
def digits():
    """The bundled decoder, A for 120 measurements, packed in float32, and ten test images of norm one."""
    rng = np.random.default_rng(0)
    A = fq.pack(rng.standard_normal((120, 784, 784), dtype=np.float32))
    images = fq.datasets.mnist_samples()[0][::5].reshape(10, 784).astype(np.float64)
    return fq.Generative(fq.decoders.mnist()), A, images / np.linalg.norm(images, axis=1, keepdims=True)


# -- least squares in batches ---------------------------------------------------------------------------------


def test_batched_levenberg_marquardt_agrees_with_scipy():
    rng = np.random.default_rng(0)
    M, C = rng.standard_normal((4, 9, 3)), rng.standard_normal((4, 9))
    ridge = np.array([0.0, 0.1, 1.0, 10.0])

    def residual(i, z):
        return np.tanh(M[i] @ z) - C[i]

    def evaluate(Z, which):
        values = np.tanh(np.einsum("bmk,bk->bm", M[which], Z))
        return normal(values - C[which], M[which] * (1 - values**2)[:, :, None])

    Z0 = 0.1 * rng.standard_normal((4, 3))
    found = minimize(evaluate, Z0, ridge=ridge[:, None], max_steps=100, tol=1e-14)
    for i in range(4):
        expected = scipy_least_squares(
            lambda z, i=i: np.concatenate([residual(i, z), np.sqrt(ridge[i]) * z]), Z0[i], xtol=1e-14, ftol=1e-14
        )
        np.testing.assert_allclose(found.value[i], 2 * expected.cost, rtol=1e-9)
        np.testing.assert_allclose(found.Z[i], expected.x, atol=1e-5)


def test_a_latent_number_without_effect_leaves_the_system_regular():
    def evaluate(Z, which):
        J = np.zeros((len(Z), 2, 2))
        J[:, 0, 0] = 1
        return normal(np.stack([Z[:, 0] - 3, np.zeros(len(Z))], axis=1), J)

    found = minimize(evaluate, np.ones((1, 2)), ridge=0.0, max_steps=50, tol=1e-12)
    np.testing.assert_allclose(found.Z, [[3, 1]])


def test_a_worse_point_is_not_taken():
    def evaluate(Z, which):
        # The gradient points the wrong way: no step can be good.
        return Normal(np.full(len(Z), 5.0) + Z[:, 0] ** 2, -Z, np.ones((len(Z), 1, 1)))

    found = minimize(evaluate, np.ones((1, 1)), ridge=0.0, max_steps=5, tol=0.0)
    assert found.Z == 1
    assert found.damping > 1


# -- projection -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["adam", "lm"])
@pytest.mark.parametrize("normalize", [True, False])
def test_projection_finds_signals_of_the_decoder(method, normalize):
    prior = small_prior(normalize=normalize)
    X = prior.signal(np.random.default_rng(3).standard_normal((5, 3)))
    found = prior.signal(prior.project(X, method=method, rng=1))
    assert (np.linalg.norm(found - X, axis=1) < 0.05 * np.linalg.norm(X, axis=1)).all()
    alone = prior.signal(prior.project(X[0], method=method, rng=1))
    assert np.linalg.norm(alone - X[0]) < 0.05 * np.linalg.norm(X[0])


def test_projection_of_a_vector_off_the_range_is_not_beaten_by_any_sample():
    prior = small_prior()
    V = np.random.default_rng(0).random((6, 40))
    signals = prior.samples[1]
    for method in ("adam", "lm"):
        distances = np.linalg.norm(V - prior.signal(prior.project(V, method=method)), axis=1)
        best_sample = np.linalg.norm(V[:, None] - signals[None], axis=2).min(axis=1)
        assert (distances < best_sample + 0.02).all()


def test_norm_of_the_target_does_not_change_its_projection():
    prior = small_prior()
    V = prior.signal(np.random.default_rng(3).standard_normal((4, 3)))
    starts = prior.nearest_samples(V, 3)
    for scale in (0.1, 7.0):
        noise = np.full(4, 1e-6 * scale**2)
        Z = projection.levenberg_marquardt(prior.range, scale * V, starts, noise=noise, unit=True, tol=1e-10)
        np.testing.assert_allclose(prior.signal(Z), V, atol=1e-3)


def test_a_race_of_restarts_ends_near_where_they_all_end():
    prior = small_prior()
    rng = np.random.default_rng(0)
    V = prior.signal(rng.standard_normal((20, 3))) + 0.05 * rng.standard_normal((20, 40))
    starts = rng.standard_normal((20, 5, 3))
    ends = [prior.signal(projection.adam(prior.range, V, starts, race=race)) for race in (True, False)]
    first, second = (np.linalg.norm(V - end, axis=1) for end in ends)
    assert np.median(first / second) < 1.01
    np.testing.assert_array_less(second, first + 1e-6)


# -- solvers on a small network -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [None, "given"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_signals_in_range_are_exact_whatever_their_norm(norm, scale):
    prior, A, X, Y = small_problem(m=20, b=6)
    solution = fq.solve(A, scale**2 * Y, prior=prior, norm=scale if norm else None)
    assert [status.name for status in solution.status] == ["EXACT"] * 6
    for x_hat, x in zip(solution.x, scale * X, strict=True):
        assert fq.distance(x_hat, x) < 1e-10


@pytest.mark.parametrize("scale", [1e-3, 50.0])
@pytest.mark.parametrize("norm", [None, 1.0])
def test_the_scale_of_A_does_not_matter(scale, norm):
    prior, A, X, Y = small_problem(m=20, b=6)
    solution = fq.solve(scale * A, scale * Y, prior=prior, norm=norm)
    for x_hat, x in zip(solution.x, X, strict=True):
        assert fq.distance(x_hat, x) < 1e-10


def test_decoder_taken_as_it_is():
    prior, A, X, Y = small_problem(m=20, b=4, normalize=False)
    assert not np.allclose(np.linalg.norm(X, axis=1), 1)
    solution = fq.solve(A, Y, prior=prior)
    for x_hat, x in zip(solution.x, X, strict=True):
        assert fq.distance(x_hat, x) < 1e-10
    for method, least in (("ppower", 0.8), (fq.methods.PGD(projection="lm"), 0.98), (fq.methods.PGD(), 0.95)):
        prior, A, X, Y = small_problem(m=300, b=4, normalize=False)
        found = fq.solve(A, Y, prior=prior, method=method).x
        assert (cosines(found, X) > least).all()
        # the size is that of the signal as well: nothing makes it one
        size = np.linalg.norm(found, axis=1) / np.linalg.norm(X, axis=1)
        assert np.all(np.abs(np.log(size)) < 0.2), size


def test_automatic_method_is_latent():
    prior, A, _, Y = small_problem()
    solution = fq.solve(A, Y[0], prior=prior)
    assert solution.method == "latent"
    assert solution.n_passes < 12


@pytest.mark.parametrize("method", ["latent", "pgd", "ppower", fq.methods.PGD(projection="lm")], ids=str)
def test_batch_gives_what_each_signal_gives_alone(method):
    prior, A, _, Y = small_problem(m=60, b=3)
    together = fq.solve(A, Y, prior=prior, method=method, rng=5)
    rngs = np.random.default_rng(5).spawn(3)
    for i, y in enumerate(Y):
        # The first of one spawned generator is what a solve alone draws from.
        single = fq.solve(A, y, prior=prior, method=method, rng=_as_parent(rngs[i]))
        assert fq.distance(together.x[i], single.x) < (1e-10 if method == "latent" else 1e-2)


def _as_parent(rng):
    """A generator whose first child is this one."""

    class Parent(np.random.Generator):
        def spawn(self, n):
            return [rng]

    return Parent(np.random.PCG64(0))


class Counting(fq.Measurements):
    """Measurements that count the calls."""

    def __init__(self, A):
        self.A, self.calls = fq.as_measurements(A), []
        self.m, self.n, self.dtype = self.A.m, self.A.n, self.A.dtype

    def matrices(self, start, stop):
        return self.A.matrices(start, stop)

    def _products(self, x, W, n_threads):
        self.calls.append(("products", x.shape))
        W[...] = self.A.products(x)

    def _compress(self, U, n_threads):
        self.calls.append(("compress", U.shape))
        return self.A.compress(U)


def test_a_batch_shares_its_passes():
    prior, A, _, Y = small_problem(m=60, b=10)
    counting = Counting(A)
    solution = fq.solve(counting, Y, prior=prior, method=fq.methods.PGD(min_step=0.0))
    # The start has one vector for all; each of the further passes has all ten.
    assert counting.calls == [("products", (40,))] + [("products", (40, 10))] * 11
    assert (solution.n_passes == 12).all()
    counting = Counting(A)
    solution = fq.solve(counting, Y, prior=prior)
    assert counting.calls[:2] == [("compress", (40, 40)), ("products", (40, 10))]
    assert len(counting.calls) == solution.n_passes.max()


def test_projections_of_a_batch_are_one_batch(monkeypatch):
    shapes = []
    adam = projection.adam
    monkeypatch.setattr(
        projection, "adam", lambda g, V, starts, **options: shapes.append(starts.shape) or adam(g, V, starts, **options)
    )
    prior, A, _, Y = small_problem(m=60, b=10)
    fq.solve(A, Y, prior=prior, method="ppower")
    assert shapes == [(10, 5, 3)]


def test_together_calls_each_function_once():
    calls = []

    def double(values):
        calls.append(values)
        return [2 * value for value in values]

    def negate(values):
        calls.append(values)
        return [-value for value in values]

    requests = [Together(double, 1), Together(negate, 5), Together(double, 2)]
    assert Together.answer_all(None, requests, None) == [2, -5, 4]
    assert calls == [[1, 2], [5]]
    assert requests[0].answer(None, None) == 2
    assert Together.shared_cost(None, requests) == 0


def test_equal_vectors_are_read_once():
    _, A, X, _ = small_problem(b=2)
    counting = Counting(A)
    x, other = X
    answers = Products.answer_all(counting, [Products(x), Products(other), Products(x)], None)
    assert counting.calls == [("products", (40, 2))]
    for answer, expected in zip(answers, X[[0, 1, 0]], strict=True):
        np.testing.assert_allclose(answer, fq.as_measurements(A).products(expected), rtol=1e-12)
    U = np.eye(40)[:, :5]
    first, second = Compress.answer_all(counting, [Compress(U), Compress(U)], None)
    assert first is second
    assert counting.calls[1:] == [("compress", (40, 5))]


@pytest.mark.parametrize("square", [None, 1.0])
def test_the_model_between_passes(square):
    prior, A, _, Y = small_problem(m=25, b=3)
    measurements, rng = fq.as_measurements(A), np.random.default_rng(4)
    unknowns = [Unknowns(prior, y, square, 0.0) for y in Y]
    size, level = unknowns[0].size, NoiseLevel(np.ones(1), np.ones(1))

    def exact(theta):
        codes, t = unknowns[0].split(theta)
        g, J = prior.range.jacobian(codes)
        return g, quadratic_residuals(np.stack([measurements.products(x) for x in g]), g, J, t, Y, square is None)

    at, there = np.abs(rng.standard_normal((2, 3, size)))
    anchors = [
        Anchor(u, z, g, measurements.products(g), level) for u, z, g in zip(unknowns, at, exact(at)[0], strict=True)
    ]
    which = np.arange(3)
    # At the anchor it is exact whatever U leaves out; with all of A it is exact everywhere.
    few = Local(measurements.compress(prior.basis(2)), anchors)
    for got, expected in zip(few.evaluate(at, which), exact(at)[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
    everything = Local(measurements.compress(prior.basis(40)), anchors)
    for got, expected in zip(everything.evaluate(there, which), exact(there)[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    # And its gradient is that of its value.
    value = few.evaluate(there, which)
    for j in range(size):
        step = np.zeros(size)
        step[j] = 1e-6
        up, down = (few.evaluate(there + sign * step, which).square for sign in (1, -1))
        np.testing.assert_allclose((up - down) / 2e-6, 2 * value.gradient[:, j], rtol=1e-4, atol=1e-5)


def test_a_wrong_model_does_no_harm(monkeypatch):
    # It sends every signal somewhere else; damped steps then find the way.
    prior, A, _, Y = small_problem(m=60, b=4)
    monkeypatch.setattr(Local, "minimize", lambda self: [np.full_like(anchor.theta, 3.0) for anchor in self.anchors])
    solution = fq.solve(A, Y, prior=prior)
    assert [status.name for status in solution.status] == ["EXACT"] * 4


def test_start_from_a_given_vector():
    prior, A, X, Y = small_problem(m=60, b=2)
    solution = fq.solve(A, Y, prior=prior, x0=X + 0.02 * np.random.default_rng(0).standard_normal(X.shape))
    assert all(status is fq.Status.EXACT for status in solution.status)
    assert (solution.n_passes < 9).all()
    first = fq.solve(A, Y, prior=prior, method="pgd", x0=np.full(40, 40**-0.5))  # the paper's PGD1
    assert (cosines(first.x, X) > 0.95).all()


def test_noise_is_estimated_and_the_answer_has_its_size():
    prior, A, X, Y = small_problem(m=400, b=5)
    Y = Y + 0.3 * np.random.default_rng(0).standard_normal(Y.shape)
    for noise in (None, 0.3):
        solution = fq.solve(A, Y, prior=prior, noise=noise)
        assert solution.success.all()
        np.testing.assert_allclose(solution.noise, 0.3, rtol=0.15)
        # Four unknowns from 400 measurements at noise 0.3: about 0.3 sqrt(4/400)/2.
        assert max(fq.distance(x_hat, x) for x_hat, x in zip(solution.x, X, strict=True)) < 0.06


def test_pure_noise_is_never_exact():
    prior, A, _, _ = small_problem(m=12)
    Y = np.random.default_rng(0).standard_normal((20, 12))
    solution = fq.solve(A, Y, prior=prior)
    assert not any(status is fq.Status.EXACT for status in solution.status)


@pytest.mark.parametrize("method", ["latent", "pgd", "ppower"])
def test_the_residual_is_that_of_x_even_where_nothing_fits(method):
    # −y would need a negative ‖x‖².
    prior, A, _, Y = small_problem(m=40, b=5)
    solution = fq.solve(A, -Y, prior=prior, method=method)
    for x, y, residual in zip(solution.x, -Y, solution.residual, strict=True):
        assert np.linalg.norm(fq.measure(A, x) - y) == pytest.approx(residual * np.linalg.norm(y))
    if method == "latent":  # fits the norm, so it ends near zero, and says that this is no answer
        assert (solution.residual < 1.01).all()
        assert not solution.success.any()


def test_too_few_measurements_prove_nothing():
    prior, A, _, Y = small_problem(m=4, b=8)
    solution = fq.solve(A, Y, prior=prior)
    assert not any(status is fq.Status.EXACT for status in solution.status)


@pytest.mark.parametrize("method", ["latent", "pgd", "ppower"])
def test_budgets_and_callback(method):
    prior, A, _, Y = small_problem(m=60)
    states = []
    solution = fq.solve(A, Y[0], prior=prior, method=method, callback=lambda state: states.append(state) or True)
    assert solution.status is fq.Status.STOPPED
    assert len(states) == 1
    assert solution.x.shape == (40,)
    solution = fq.solve(A, Y[0], prior=prior, method=method, max_passes=2)
    assert solution.n_passes <= 2


def test_same_seed_same_answer():
    prior, A, _, Y = small_problem(m=60, b=2)
    first, second = (fq.solve(A, Y, prior=prior, method="pgd", rng=3) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)


def test_inputs_are_not_modified():
    prior, A, X, Y = small_problem(m=60, b=2)
    copies = A.copy(), Y.copy(), X.copy()
    for method in ("latent", "pgd", "ppower"):
        fq.solve(A, Y, prior=prior, method=method, x0=X)
    for array, copy in zip((A, Y, X), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_what_is_wrong_is_said():
    prior, A, _, Y = small_problem()
    with pytest.raises(TypeError, match=r"`decoder` must be a decoder, such as .* got ndarray"):
        fq.Generative(np.zeros(3))
    with pytest.raises(ValueError, match="signals of length 40, but A has n = 7"):
        fq.solve(np.zeros((5, 7, 7)), np.ones(5), prior=prior)
    with pytest.raises(ValueError, match="'pgd' needs a generative prior"):
        fq.solve(A, Y[0], method="pgd")
    with pytest.raises(ValueError, match="`projection` must be 'adam' or 'lm', got 'sgd'"):
        fq.methods.PGD(projection="sgd")
    with pytest.raises(ValueError, match="`restarts` must be at least 1"):
        fq.methods.PPower(restarts=0)
    with pytest.raises(ValueError, match="`basis` must be at least 1"):
        fq.methods.LatentLM(basis=0)
    with pytest.raises(ValueError, match=r"`v` must have shape \(40,\) or \(b, 40\), got \(3,\)"):
        prior.project(np.zeros(3))
    with pytest.raises(ValueError, match="`method` must be 'adam' or 'lm', got 'newton'"):
        prior.project(np.zeros(40), method="newton")


# -- the bundled decoder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "accuracy"), [("float32", 1e-5), ("float64", 1e-10)])
def test_signals_of_the_bundled_decoder_are_exact(dtype, accuracy):
    prior = fq.Generative(fq.decoders.mnist())
    rng = np.random.default_rng(1)
    A = fq.pack(rng.standard_normal((60, 784, 784), dtype=np.float32), dtype=dtype)
    X = prior.signal(rng.standard_normal((20, 20)))
    solution = fq.solve(A, A.measure(np.ascontiguousarray(X.T)).T, prior=prior)
    assert [status.name for status in solution.status] == ["EXACT"] * 20
    assert max(fq.distance(x_hat, x) for x_hat, x in zip(solution.x, X, strict=True)) < accuracy


def test_digits_from_far_fewer_measurements_than_pixels(digits):
    prior, A, X = digits
    Y = A.measure(np.ascontiguousarray(X.T)).T
    found = {name: fq.solve(A, Y, prior=prior, method=name, rng=0) for name in ("latent", "pgd", "ppower")}
    means = {name: cosines(solution.x, X).mean() for name, solution in found.items()}
    assert means["latent"] > 0.93
    assert means["latent"] > means["pgd"] - 0.005
    assert means["pgd"] > means["ppower"] + 0.1
    # Most are a success, and those are as near as their error says.
    latent = found["latent"]
    assert latent.success.mean() > 0.5
    far = np.array([fq.distance(x_hat, x) for x_hat, x in zip(latent.x, X, strict=True)])
    assert (far[latent.success] < np.minimum(0.5, 1.5 * np.array(latent.error, dtype=float)[latent.success])).all()
    assert found["latent"].n_passes.mean() <= 0.5 * found["pgd"].n_passes.mean()


@pytest.mark.statistical
def test_latent_beats_pgd_where_it_is_hard(digits):
    prior, _, X = digits
    rng = np.random.default_rng(2)
    few = fq.pack(rng.standard_normal((40, 784, 784), dtype=np.float32))
    cases = [(few, 0.0, 0.1), (fq.pack(rng.standard_normal((200, 784, 784), dtype=np.float32)), 2.0, 0.05)]
    for tensor, sigma, margin in cases:
        Y = tensor.measure(np.ascontiguousarray(X.T)).T
        Y = Y + sigma * rng.standard_normal(Y.shape)
        pgd, latent = (
            cosines(fq.solve(tensor, Y, prior=prior, method=method, norm=1.0, rng=0).x, X).mean()
            for method in ("pgd", "latent")
        )
        assert latent > pgd + margin
