"""What the gallery's examples are made of, on small cases: the physics by another way to compute it, and a solve."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq

EXAMPLES = Path(__file__).parent.parent / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not here")


@pytest.fixture
def definitions(monkeypatch):
    """The names that an example defines above its first cell, by the example's name; nothing else of it is run."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name, *needs):
        for each in needs:
            pytest.importorskip(each)
        path = EXAMPLES / f"{name}.py"
        names = {"__name__": name}
        exec(compile(path.read_text(encoding="utf-8").split("# %%")[0], str(path), "exec"), names)
        return names

    return load


@pytest.fixture
def grids(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    pytest.importorskip("pypower")
    spec = importlib.util.spec_from_file_location("grids", EXAMPLES / "grids.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "grids", module)  # where its dataclass looks for its names
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import peers

    return peers


def test_powers_of_a_grid(grids):
    """Against complex powers by the admittances; then all of it from the flat start, and a broken meter."""
    grid = grids.load("case9")
    A = fq.SparseTensor(grids.matrices(grid, grids.SETS["full"]))
    S = grid.V * np.conj(grid.Y @ grid.V)
    into_lines = [grid.V[bus] * np.conj(Y @ grid.V) for Y, bus in grid.ends]
    powers = np.concatenate([each.view(np.float64) for each in (S, *into_lines)])
    y = fq.measure(A, grid.V)
    np.testing.assert_allclose(y, np.concatenate([powers, np.abs(grid.V) ** 2]), atol=1e-12)
    assert len(grids.labels(grid, grids.SETS["full"])) == A.m
    for start in (np.ones(grid.n), None):
        assert grids.error(fq.solve(A, y, x0=start).x, grid.V) < 1e-9
    sigma = 0.01 * np.maximum(np.abs(y), 0.1)
    noisy = y + sigma * np.random.default_rng(0).standard_normal(A.m)
    solution = fq.solve(A, noisy, noise=sigma, x0=np.ones(grid.n))
    reference = grids.weighted_least_squares(A, noisy, sigma, np.ones(grid.n, dtype=complex))
    assert grids.error(solution.x, reference) < 1e-6
    noisy[20] += 20 * sigma[20]
    assert 20 in fq.solve(A, noisy, noise=sigma, outliers=True, x0=np.ones(grid.n)).outliers


def test_coded_diffraction(definitions, peers):
    """Two functions for the masks' transform, and both methods on 8×8 pixels with and without some of them."""
    example = definitions("plot_coded_diffraction", "skimage", "matplotlib")
    rng = np.random.default_rng(0)
    codes, x = example["masks"](4, rng, 8), rng.random(64)
    measured = rng.random(codes.shape) < 0.9
    forward, adjoint = peers.coded_diffraction(codes, measured)
    w = rng.standard_normal(measured.sum()) + 1j * rng.standard_normal(measured.sum())
    np.testing.assert_allclose(forward(x), np.fft.fft2(codes * x.reshape(8, 8))[measured] / 8, atol=1e-13)
    assert np.vdot(w, forward(x)) == pytest.approx(np.vdot(adjoint(w), x))
    for share in (1.0, 0.5):
        ours, flow = example["compared"](codes, x, rng, share)
        assert fq.distance(ours, x) < 1e-12
        assert fq.distance(flow, x) < 1e-6


def test_partially_coherent_light(definitions):
    """Intensities against the sum over pairs of holes; exact if positive, no success where a sign is open."""
    example = definitions("plot_coherent_imaging", "matplotlib")
    factors, weights = example["optics"](1.0, side=6, pixels=12, limit=1.5)
    x = example["holes"]([(0, 0), (0, 1), (5, 5)], [1.0, 0.7, 1.2], side=6)
    A = fq.LowRankTensor(factors, weights)
    row, column = np.divmod(np.arange(36), 6)
    coherence = np.exp(-((row[:, None] - row) ** 2 + (column[:, None] - column) ** 2) / 2)
    place = np.linspace(-1, 6, 12)
    for i in (0, 37, 143):
        h = np.sinc((place[i // 12] - row) / 1.5) * np.sinc((place[i % 12] - column) / 1.5)
        assert fq.measure(A, x)[i] == pytest.approx((h * x) @ coherence @ (h * x), abs=1e-7)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Sparse(nonnegative=True))
    assert fq.distance(solution.x, x, signed=True) < 1e-9
    # exp(−25) of the light of the two groups interferes: next to nothing tells the sign.
    assert not fq.solve(A, fq.measure(A, x, noise=1e-6, rng=0), noise=1e-6).success


@pytest.mark.parametrize("name", ["sparta", "copram", "htp"])
def test_peers_of_sparse_phase_retrieval(peers, name):
    """Where measurements are plenty each of them recovers x, as its authors say."""
    rng = np.random.default_rng(1)
    a, x = rng.standard_normal((150, 40)), np.zeros(40)
    x[[3, 17, 30]] = 1.0, -0.8, 1.3
    assert fq.distance(getattr(peers, name)(a, np.abs(a @ x), 3), x) < 1e-6


def test_reweighted_amplitude_flow(peers):
    rng = np.random.default_rng(1)
    a, x = rng.standard_normal((120, 20)), rng.standard_normal(20)
    assert fq.distance(peers.reweighted_amplitude_flow(a, np.abs(a @ x)), x) < 1e-6


def test_quadratic_equations(definitions):
    """The system has the solution that it was made from, and SciPy's answer is judged by what it leaves."""
    example = definitions("plot_quadratic_equations", "matplotlib")
    A, b, c, x = example["system"](12, 0)
    np.testing.assert_allclose(np.einsum("ijk,j,k->i", A, x, x) + b @ x + c, 0, atol=1e-9)
    assert example["by_scipy"](A, b, c, x + 1e-3)


def test_a_restriction_map(definitions):
    lengths_of = definitions("plot_points", "matplotlib")["lengths_of"]
    sites = np.array([0, 3, 10, 24, 50])
    solution = fq.points.line(lengths_of(sites))
    assert solution.status == "PROVEN"
    np.testing.assert_array_equal(np.sort(lengths_of(solution.x)), np.sort(lengths_of(sites)))


def test_counts_of_pauli_strings(definitions):
    """Bits count for the letters but I, the first letter is the first bit."""
    example = definitions("plot_tomography", "matplotlib")
    y, sigma = example["expectation"]("IZ", {"00": 30, "10": 40, "01": 20, "11": 10})
    assert y == pytest.approx(0.4)
    assert sigma == pytest.approx(np.sqrt((1 - 0.4**2) / 100), rel=0.02)
    assert example["expectation"]("ZI", {"00": 50})[1] > 0
    assert example["fidelity"](np.array([1, 1j]), np.array([1j, -1])) == pytest.approx(1)


def test_moments_do_not_see_a_turn(definitions):
    example = definitions("plot_second_moments", "matplotlib")
    at = example["voxels"](3)
    x = np.random.default_rng(0).random(len(at))
    shells = np.linspace(0.3, 3, 4)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    here, there = (np.einsum("ijk,j,k->i", example["moments"](v, 3, shells), x, x) for v in (at, at @ turn))
    np.testing.assert_allclose(here, there, atol=1e-10)
    same = example["shell_correlation"](at, x, 2 * x, [1.0, 2.0], np.random.default_rng(0))
    np.testing.assert_allclose(same, 1)


@pytest.mark.filterwarnings("ignore")
def test_wrong_meters_of_a_large_grid(monkeypatch):
    """The whole script on a smaller net: it asserts that the wrong meters are those that it finds."""
    pytest.importorskip("pandapower")
    pytest.importorskip("matplotlib").use("Agg")
    text = (EXAMPLES / "plot_large_grid.py").read_text(encoding="utf-8").replace("case2869pegase", "case118")
    exec(compile(text, "plot_large_grid.py", "exec"), {"__name__": "plot_large_grid"})


def test_the_decoder_of_faces():
    """Trained on images that two numbers tell, it shows them, and a face comes back from its measurements."""
    text = (EXAMPLES / "plot_faces.py").read_text(encoding="utf-8")
    body = text[text.index("def train(") : text.index("images = faces(SIDE)")]
    names = {"np": np, "fq": fq}
    exec(body, names)
    rng = np.random.default_rng(0)
    pattern = rng.random((2, 4, 4))
    pattern += pattern[:, :, ::-1]  # mirrored, they are the same
    images = 1 + rng.standard_normal((30, 2)) @ pattern.reshape(2, 16)
    decoder = names["train"](images, 2)
    x = decoder(np.array([0.5, -1.0]))
    A = fq.GaussianTensor(12, 16, seed=0)
    solution = fq.solve(A, fq.measure(A, x), prior=fq.Generative(decoder))
    assert fq.distance(solution.x, x) < 1e-6


def test_a_picture_from_few_photons_and_a_crystal(definitions):
    example = definitions("plot_photons", "matplotlib")
    rng = np.random.default_rng(0)
    # The divergence is the transpose of the slopes, with its sign.
    p, x = rng.standard_normal((2, 6, 5)), rng.standard_normal((6, 5))
    slopes = np.stack([np.diff(x, axis=axis, append=x.take([-1], axis)) for axis in (0, 1)])
    assert np.vdot(p, slopes) == pytest.approx(np.vdot(example["divergence"](p), x))
    x, solution = example["developed"](32, 2, 10, rng)
    assert solution.success
    true = fq.distance(solution.x, x.ravel())
    assert true < 0.13
    assert 0.6 < solution.error / true < 1.5
    x, solution = example["crystal"](24, 5, rng)
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x.ravel(), gauge=solution.gauge) < 1e-6
