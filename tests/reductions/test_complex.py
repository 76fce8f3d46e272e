"""Complex signals: every method on them, what A and y say, the gauge, and what is proven."""

import naive
import numpy as np
import pytest
from hermitian import agrees, make
from tensors import calls, relative_error

import fastquad as fq
from fastquad.measurements.views import ComplexView, RealPart, RealView, as_real


def hermitian(m, n, rng):
    """Matrices of the Gaussian unitary ensemble, E|h|² = 1."""
    A = rng.standard_normal((m, n, n)) + 1j * rng.standard_normal((m, n, n))
    return (A + A.transpose(0, 2, 1).conj()) / 2


def sparse_signal(n, k, rng):
    x = np.zeros(n, dtype=complex)
    x[rng.permutation(n)[:k]] = rng.standard_normal(k) + 1j * rng.standard_normal(k)
    return x / np.linalg.norm(x)


def problem(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    H, x = hermitian(m, n, rng), sparse_signal(n, k, rng)
    return H, fq.measure(H, x), x


# -- the views of A ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["raw", "packed", "both", "user's own"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (9, 17), (20, 50)])
@pytest.mark.parametrize("part", ["all", "real"])
def test_a_view_agrees_with_its_twin(kind, shape, part):
    tensor, H = make(kind, *shape)
    view, R = (RealView(tensor), as_real(naive.sym(H))) if part == "all" else (RealPart(tensor), naive.sym(H).real)
    for batch in (None, 1, 3):
        for name, *arguments in calls(view.m, view.n, batch):
            expected = getattr(naive, name)(R, *arguments)
            assert relative_error(getattr(view, name)(*arguments), expected) < 1e-13, (name, batch)


def test_a_real_tensor_measures_complex_signals():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((9, 5, 5)), rng.standard_normal(5) + 1j * rng.standard_normal(5)
    assert np.allclose(ComplexView(fq.pack(A)).products(x), naive.sym(A) @ x)


# -- methods ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "m", "n", "k"),
    [
        ("auto", 90, 30, 30), ("auto", 40, 60, 3), ("auto", 70, 40, 12), ("amp", 70, 40, 10), ("lm", 100, 30, 30),
        ("pursuit", 40, 60, 3), (fq.TWF(), 160, 40, 4), (fq.TWF(threshold="hard"), 160, 40, 4),
        (fq.methods.WF(), 200, 40, 10),
        (fq.methods.SGN(k=4), 160, 40, 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_methods_find_complex_signals(method, m, n, k, packed):
    H, y, x = problem(m, n, k)
    solution = fq.solve(fq.pack(H) if packed else H, y, method=method, x_true=x)
    assert solution.success
    assert solution.x.dtype == np.complex128
    assert fq.distance(solution.x, x) < 1e-7
    assert solution.history["distance"][-1] < 1e-3
    if solution.status is fq.Status.EXACT:
        assert set(solution.support) == set(np.flatnonzero(x))


def test_spf_finds_complex_signals_with_matrices_that_are_not_hermitian():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 40, 40)) + 1j * rng.standard_normal((200, 40, 40))
    x = sparse_signal(40, 3, rng)
    y = fq.as_measurements(A).measure(x)
    solution = fq.solve(A, y, method=fq.methods.SPF(k=3))
    assert fq.distance(solution.x, x) < 1e-7


def test_amp_reads_little_more_than_its_sweeps():
    # Two sweeps, S0, the block of the support and one pass for the proof: nothing is read again to clean the support.
    passes = [fq.solve(H, y, method="amp", rng=0).n_passes for H, y, _ in (problem(128, 64, 20, s) for s in range(3))]
    assert np.median(passes) < 6


def test_one_measurement_more_than_unknowns():
    # The valleys are long there, and close together: a descent that takes another's end for its own finds a third.
    found = [
        fq.solve(H, y, method=fq.AMP(n_attempts=7), rng=0) for H, y, _ in (problem(64, 32, 32, s) for s in range(8))
    ]
    assert sum(each.status.name == "EXACT" for each in found) >= 5


def test_a_known_support_is_used():
    H, y, x = problem(20, 60, 4)
    solution = fq.solve(H, y, prior=fq.Sparse(support=np.flatnonzero(x)))
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-12


def test_a_start_and_a_batch_and_a_callback():
    H, y, x = problem(90, 30, 30)
    rng = np.random.default_rng(5)
    start = x + 0.1 * (rng.standard_normal(30) + 1j * rng.standard_normal(30)) / np.sqrt(30)
    seen = []
    solution = fq.solve(H, y, x0=start, callback=lambda state: seen.append(state.x))
    assert solution.success
    assert seen[0].dtype == np.complex128
    assert seen[0].shape == (30,)
    other = sparse_signal(30, 30, rng)
    batch = fq.solve(H, np.stack([y, fq.measure(H, other)]))
    assert batch.x.shape == (2, 30)
    assert (fq.distance(batch.x, np.stack([x, other])) < 1e-12).all()


def test_streamed_and_checkpointed(tmp_path, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.disk.writer.SECTION_BYTES", 60_000)
    H, y, _ = problem(500, 40, 40)
    fq.pack(H, tmp_path / "H.fq")
    solution = fq.solve(tmp_path / "H.fq", y, memory="5 MB", checkpoint=tmp_path / "saved")
    assert solution.success
    assert "read from disk" in solution.message
    again = fq.solve(tmp_path / "H.fq", y, memory="5 MB", checkpoint=tmp_path / "saved")
    assert (again.x == solution.x).all()


# -- what A and y say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [False, True])
def test_complex_data_are_two_hermitian_measurements_each(real):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((48, 40, 40)) + (0 if real else 1j * rng.standard_normal((48, 40, 40)))
    x = sparse_signal(40, 40, rng)
    y = fq.measure(A, x)
    assert np.allclose(y, np.einsum("j,ijk,k->i", x.conj(), A, x))
    solution = fq.solve(A, y)
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-10


def test_real_data_of_matrices_that_are_not_hermitian():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((100, 30, 30)) + 1j * rng.standard_normal((100, 30, 30))
    x = sparse_signal(30, 30, rng)
    solution = fq.solve(A, fq.measure(A, x).real)
    assert fq.distance(solution.x, x) < 1e-10


def test_hermitian_matrices_with_complex_data_are_an_error_beyond_rounding():
    H, y, _ = problem(90, 30, 30)
    assert fq.solve(H, y * (1 + 1e-14j)).success
    for A in (H, fq.pack(H), H.real.copy()):
        with pytest.raises(ValueError, match="`y` must be real, because A is Hermitian"):
            fq.solve(A, y * (1 + 1e-3j))


def test_a_real_signal_needs_half_as_many_measurements():
    rng = np.random.default_rng(2)
    H, x = hermitian(60, 40, rng), rng.standard_normal(40)
    y = fq.measure(H, x)
    solution = fq.solve(H, y, signal="real")
    assert solution.status is fq.Status.EXACT
    assert solution.x.dtype == np.float64
    assert fq.distance(solution.x, x) < 1e-10


def test_a_complex_answer_that_is_real_says_so():
    rng = np.random.default_rng(2)
    H, x = hermitian(120, 40, rng), rng.standard_normal(40)
    solution = fq.solve(H, fq.measure(H, x))
    assert "x is real" in solution.message
    assert not solution.x.imag.any()


def test_real_symmetric_matrices_with_a_complex_signal():
    rng = np.random.default_rng(3)
    A, x = rng.standard_normal((120, 30, 30)), sparse_signal(30, 30, rng)
    A = naive.sym(A)
    solution = fq.solve(A, fq.measure(A, x), signal="complex")
    assert solution.success
    assert fq.distance(solution.x, x, conjugation=True) < 1e-10
    assert "up to a phase and conjugation" in solution.message


@pytest.mark.parametrize("signal", ["imaginary", 3])
def test_signal_is_checked(signal):
    H, y, _ = problem(5, 4, 2)
    with pytest.raises(ValueError, match="`signal` must be 'real' or 'complex'"):
        fq.solve(H, y, signal=signal)


def test_a_prior_that_is_not_for_complex_signals_is_refused():
    H, y, _ = problem(5, 4, 2)
    with pytest.raises(ValueError, match="`fixed` must not be given for a complex signal"):
        fq.solve(H, y, prior=fq.Sparse(fixed={0: 1.0}))


# -- the gauge --------------------------------------------------------------------------------------------------


def test_distance_is_up_to_a_phase():
    x = np.array([1 + 1j, 2.0, 0])
    assert fq.distance(x * np.exp(0.7j), x) < 1e-15
    assert fq.distance(x.conj(), x) > 0.1
    assert fq.distance(x.conj(), x, conjugation=True) < 1e-15
    assert fq.distance(np.stack([x, 1j * x]), np.stack([x, x])).max() < 1e-15


def test_the_largest_entry_is_real_and_positive():
    H, y, _ = problem(90, 30, 30)
    found = fq.solve(H, y).x
    at = np.argmax(np.abs(found))
    assert found[at].imag == 0
    assert found[at].real > 0


def test_the_sentence_says_up_to_a_phase():
    H, y, _ = problem(90, 30, 30)
    assert "certified, up to a phase" in fq.solve(H, y).message


def test_spectral_init_of_a_complex_signal():
    H, y, x = problem(400, 50, 2)
    start = fq.methods.spectral_init(H, y)
    assert start.dtype == np.complex128
    assert fq.distance(start, x) < 0.5
    assert fq.distance(fq.methods.spectral_init(H, y, support=np.flatnonzero(x)), x) < 0.5


# -- what is proven -------------------------------------------------------------------------------------------


def test_the_count_of_unknowns_is_sharp():
    # 2k − 1 < m determines x, 2k − 1 = m does not.
    H, y, x = problem(12, 6, 6)
    assert fq.solve(H, y, x0=x * 1.001).status is fq.Status.EXACT
    assert fq.solve(H[:11], y[:11], x0=x * 1.001, method="lm").status is fq.Status.UNDECIDED
    assert fq.solve(H[:10], y[:10], x0=x * 1.001, method="lm").status is not fq.Status.EXACT


def test_parts_whose_phases_are_free_are_ambiguous():
    rng = np.random.default_rng(0)
    H = hermitian(80, 12, rng)
    H[:, :6, 6:] = H[:, 6:, :6] = 0
    x = sparse_signal(12, 12, rng)
    solution = fq.solve(H, fq.measure(H, x), x0=x * 1.001)
    assert solution.status is fq.Status.AMBIGUOUS
    assert "up to a phase" in solution.message


def test_the_conjugate_fits_real_matrices_as_well():
    rng = np.random.default_rng(0)
    H, x = hermitian(80, 12, rng).real.astype(complex), sparse_signal(12, 12, rng)
    solution = fq.solve(H, fq.measure(H, x), x0=x * 1.001)
    assert solution.status is fq.Status.AMBIGUOUS
    assert "conjugated fits as well" in solution.message


def test_reversed_signals_fit_matrices_that_are_the_same_reversed():
    rng = np.random.default_rng(0)
    H, x = hermitian(80, 12, rng), sparse_signal(12, 12, rng)
    H = (H + H[:, ::-1, ::-1]) / 2
    solution = fq.solve(H, fq.measure(H, x), x0=x * 1.001)
    assert solution.status is fq.Status.AMBIGUOUS


def test_a_coordinate_that_nothing_measures():
    rng = np.random.default_rng(0)
    H, x = hermitian(80, 12, rng), sparse_signal(12, 12, rng)
    x[3] = 0
    H[:, 3] = H[:, :, 3] = 0
    solution = fq.solve(H, fq.measure(H, x), x0=x * 1.001)
    assert solution.status is fq.Status.AMBIGUOUS


def test_noise():
    H, y, x = problem(200, 40, 3)
    solution = fq.solve(H, y + 0.05 * np.random.default_rng(0).standard_normal(200))
    assert solution.success
    assert fq.distance(solution.x, x) < 0.03
    assert solution.noise == pytest.approx(0.05, rel=0.3)
    assert solution.stderr is None or solution.stderr.shape == (40,)


# -- tensors that are computed, and simulated problems ------------------------------------------------------------


def test_the_complex_gaussian_tensor_is_the_unitary_ensemble():
    A = fq.GaussianTensor(m=100, n=21, seed=3, dtype=complex)
    H = A.matrices(0, 100)
    assert np.allclose(H, H.transpose(0, 2, 1).conj())
    off = H[:, *np.triu_indices(21, 1)]
    assert np.mean(np.abs(off) ** 2) == pytest.approx(1, rel=0.05)
    assert np.mean(off.real**2) == pytest.approx(0.5, rel=0.05)
    assert np.mean(off**2) == pytest.approx(0, abs=0.03)
    assert A.entry(9, 3, 7) == H[9, 3, 7] == np.conj(A.entry(9, 7, 3))
    agrees(A, H, 1e-13)
    x = sparse_signal(21, 2, np.random.default_rng(0))
    solution = fq.solve(A, fq.measure(A, x))
    assert fq.distance(solution.x, x) < 1e-9
    assert np.allclose(fq.pack(A).block([3], [5]), H[:, 3, 5][:, None, None])


@pytest.mark.parametrize("symmetric", [False, True])
def test_computed_tensors_with_complex_entries(symmetric):
    pytest.importorskip("numba")

    def entry(i, j, k):
        return np.cos(1.0 + i * j * k) + np.cos(i + j + k) + 1j * np.sin(0.7 * i * (j - k))

    A = fq.ComputedTensor(entry, m=19, n=13, symmetric=symmetric)
    H = np.array([[[entry(i, j, k) for k in range(13)] for j in range(13)] for i in range(19)])
    agrees(A, H, 1e-13)


@pytest.mark.parametrize("ensemble", ["gaussian", "rademacher", "uniform", "bernoulli", "biased", "rank_one"])
def test_simulated_complex_problems(ensemble):
    made = fq.problems.simulate(20, 12, 3, ensemble=ensemble, dtype="complex64", rng=0)
    assert made.A.dtype == np.complex64
    assert np.allclose(made.A, made.A.transpose(0, 2, 1).conj())
    assert np.count_nonzero(made.x) == 3
    assert np.allclose(made.y, naive.measure(made.A, made.x))
    again = fq.problems.simulate(20, 12, 3, ensemble=ensemble, dtype="complex64", rng=0)
    assert (again.y == made.y).all()


def test_the_command_line_knows_complex_signals(tmp_path):
    from click.testing import CliRunner

    from fastquad.cli import main

    H, y, x = problem(90, 30, 30)
    np.save(tmp_path / "H.npy", H)
    np.save(tmp_path / "y.npy", y)
    packed = CliRunner().invoke(main, ["pack", str(tmp_path / "H.npy"), str(tmp_path / "H.fq")])
    assert packed.exit_code == 0, packed.output
    for A in ("H.npy", "H.fq"):
        done = CliRunner().invoke(
            main,
            ["solve", str(tmp_path / A), str(tmp_path / "y.npy"), "-o", str(tmp_path / "x.npy"), "--signal", "complex"],
        )
        assert done.exit_code == 0, done.output
        assert fq.distance(np.load(tmp_path / "x.npy"), x) < 1e-10


def test_real_matrices_of_few_unknowns_are_still_seen_to_be_real():
    # With three unknowns no block off the diagonal is looked at.
    rng = np.random.default_rng(0)
    H, x = hermitian(10, 3, rng).real.astype(complex), sparse_signal(3, 3, rng)
    assert fq.solve(H, fq.measure(H, x), x0=x * 1.001).status is fq.Status.AMBIGUOUS


# -- decoders ---------------------------------------------------------------------------------------------------------


def network(outputs, rng, n_latent=4):
    """A small network, whose outputs have a mean as pictures do: a start that is constant then says something."""
    weights = [rng.standard_normal((n_latent, 16)), rng.standard_normal((16, outputs))]
    return fq.decoders.Decoder(weights, [rng.standard_normal(16), np.full(outputs, 3.0)], ["tanh", "identity"])


class Linear(fq.decoders.BaseDecoder):
    """`G(z) = z W` in complex numbers, z of two real numbers each: its range has every phase."""

    def __init__(self, W):
        self.J = as_real(W[None])[0].T.copy()
        (self.n, self.n_latent), self.dtype = self.J.shape, self.J.dtype

    def forward(self, Z):
        return Z @ self.J.T

    def vjp(self, Z):
        return self.forward(Z), lambda V: V @ self.J

    def jacobian(self, Z):
        return self.forward(Z), np.broadcast_to(self.J, (len(Z), *self.J.shape))


@pytest.mark.parametrize("method", [None, fq.methods.PGD(projection="lm")])
@pytest.mark.parametrize("packed", [False, True])
def test_a_decoder_with_two_outputs_an_entry_makes_complex_signals(method, packed):
    rng = np.random.default_rng(0)
    prior, H = fq.Generative(network(40, rng)), hermitian(120, 20, rng)
    x = 3 * prior.signal(rng.standard_normal(4)).view(complex)
    options = {} if method is None else {"method": method}
    found = fq.solve(fq.pack(H) if packed else H, fq.measure(H, x), prior=prior, rng=0, **options)
    assert found.x.dtype == complex
    assert fq.distance(found.x, x) < (1e-10 if method is None else 0.05)
    assert method is not None or found.status.name == "EXACT"


def test_a_decoder_whose_range_has_every_phase_is_exact_up_to_it():
    rng = np.random.default_rng(1)
    prior = fq.Generative(Linear(rng.standard_normal((3, 15)) + 1j * rng.standard_normal((3, 15))), normalize=False)
    H, z = hermitian(40, 15, rng), rng.standard_normal(6)
    x = prior.signal(z).view(complex)
    found = fq.solve(H, fq.measure(H, x), prior=prior, rng=0)
    assert (found.status.name, bool(fq.distance(found.x, x) < 1e-8)) == ("EXACT", True)
    # Matrices that see two entries only leave more open than the phase.
    blind = np.zeros_like(H)
    blind[:, :2, :2] = H[:, :2, :2]
    assert not fq.solve(blind, fq.measure(blind, x), prior=prior, rng=0).success


def test_one_matrix_many_times_proves_nothing_of_a_decoder():
    # Once a LinAlgError: directions of the code that nothing sees were divided by their ridge of zero.
    rng = np.random.default_rng(6)
    prior, H = fq.Generative(network(40, rng)), np.repeat(hermitian(1, 20, rng), 30, axis=0)
    x = prior.signal(rng.standard_normal(4)).view(complex)
    assert not fq.solve(H, fq.measure(H, x), prior=prior, rng=0).success


def test_as_many_latent_numbers_as_measurements_prove_nothing():
    rng = np.random.default_rng(5)
    prior, H = fq.Generative(network(40, rng, n_latent=8), normalize=False), hermitian(8, 20, rng)
    x = prior.signal(rng.standard_normal(8)).view(complex)
    assert fq.solve(H, fq.measure(H, x), prior=prior, rng=0).status.name != "EXACT"


def test_a_decoder_of_real_signals_uses_the_real_parts():
    rng = np.random.default_rng(2)
    prior, H = fq.Generative(network(20, rng)), hermitian(60, 20, rng)
    x = prior.signal(rng.standard_normal(4))
    found = fq.solve(H, fq.measure(H, x.astype(complex)), prior=prior, rng=0)
    assert found.x.dtype == float
    assert fq.distance(found.x, x) < 1e-10


def test_a_decoder_of_another_length_is_refused():
    rng = np.random.default_rng(3)
    with pytest.raises(ValueError, match="must have 40 outputs for a complex signal of n = 20"):
        fq.solve(hermitian(60, 20, rng), np.ones(60), prior=fq.Generative(network(30, rng)))


def test_a_complex_function_of_jax_is_a_decoder():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(4)
    W = rng.standard_normal((4, 20)) + 1j * rng.standard_normal((4, 20))
    decoder = fq.decoders.JaxDecoder(lambda z: jax.numpy.tanh(z) @ W, n_latent=4)
    assert (decoder.n, decoder.dtype) == (40, np.float32)
    z = rng.standard_normal(4)
    assert np.allclose(decoder(z).view(np.complex64), np.tanh(z) @ W, atol=1e-5)
    H, x = hermitian(120, 20, rng), decoder(z).view(np.complex64).astype(complex)
    assert fq.distance(fq.solve(H, fq.measure(H, x), prior=fq.Generative(decoder), rng=0).x, x) < 1e-4


@pytest.mark.parametrize(("k", "m"), [(40, 100), (12, 70), (4, 50)])
def test_real_matrices_find_a_complex_signal_near_the_limit(k, m):
    # Without an estimate of rank two none of these was found.
    rng = np.random.default_rng([k, m])
    A, x = rng.standard_normal((m, 40, 40)), np.zeros(40, dtype=complex)
    x[:k] = rng.standard_normal(k) + 1j * rng.standard_normal(k)
    x = rng.permutation(x)
    found = fq.solve((A + A.transpose(0, 2, 1)) / 2, fq.measure(A, x).real, signal="complex", rng=0)
    assert found.status.name == "EXACT"
    assert fq.distance(found.x, x, conjugation=True) < 1e-10


def test_the_denoiser_of_rank_two_is_the_posterior_of_its_rows():
    from fastquad.priors.base import Estimate
    from fastquad.priors.rank_two import RankTwo

    rng = np.random.default_rng(0)
    n, D, s2, rho = 6, 0.3, 0.4, 0.5
    Z, N = rng.standard_normal((n, 2)), rng.standard_normal((n, n))
    S = np.kron(N + N.T, np.eye(2))  # nothing but y in it
    at = Estimate(Z.reshape(-1), 0.1)
    denoiser = RankTwo(2 * n, rho, 2 * n * rho * s2, learns=False)
    denoiser.estimate(S, D, at, 2 * n * rho * s2, 0.0, 1)
    b, a = ((N + N.T) @ Z - Z * 0.1 * n) / D, Z.T @ Z / D
    # Sum over a grid of values of a row: likelihood exp(b·z − ½ z^T a z), slab N(0, s2), and a point at zero.
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-6, 6, 1201)]), axis=-1).reshape(-1, 2)
    slab = rho * np.exp(-0.5 * np.sum(grid**2, axis=1) / s2) / (2 * np.pi * s2) * 0.01**2
    for j in range(n):
        p = slab * np.exp(grid @ b[j] - 0.5 * np.einsum("gc,cd,gd->g", grid, a, grid))
        total = p.sum() + 1 - rho
        np.testing.assert_allclose(at.weight[2 * j : 2 * j + 2], p.sum() / total, rtol=1e-6)
        np.testing.assert_allclose(at.z[2 * j : 2 * j + 2], p @ grid / total, rtol=1e-6, atol=1e-9)
