"""PyTorch modules as decoders, and the derivatives of ours against PyTorch's."""

import numpy as np
import pytest

import fastquad as fq

torch = pytest.importorskip("torch")
nn = torch.nn


def convolutional(dtype=torch.float64):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(5, 32), nn.Unflatten(1, (2, 4, 4)), nn.BatchNorm2d(2), nn.ReLU(),
        nn.ConvTranspose2d(2, 3, 4, stride=2, padding=1), nn.Softplus(), nn.Conv2d(3, 1, 3, padding=1), nn.Sigmoid(),
    )  # fmt: skip
    return module.to(dtype).eval()


def differences(function, Z, step=1e-6):
    columns = []
    for j in range(Z.shape[1]):
        shift = np.zeros_like(Z)
        shift[:, j] = step
        columns.append((function(Z + shift) - function(Z - shift)) / (2 * step))
    return np.stack(columns, axis=2)


def test_convolutional_decoder_against_finite_differences():
    decoder = fq.decoders.TorchDecoder(convolutional(), n_latent=5)
    assert (decoder.n, decoder.dtype) == (64, np.float64)
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((3, 5)), rng.standard_normal((3, 64))
    expected = differences(decoder.forward, Z)
    values, J = decoder.jacobian(Z)
    np.testing.assert_allclose(values, decoder(Z))
    np.testing.assert_allclose(J, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(decoder.vjp(Z)[1](V), np.einsum("bnk,bn->bk", expected, V), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bundled_decoder_and_its_derivatives_are_those_of_pytorch(dtype):
    decoder = fq.decoders.mnist(dtype)
    layers = []
    for W, b, activation in zip(decoder.weights, decoder.biases, (nn.Softplus, nn.Softplus, nn.Sigmoid), strict=True):
        linear = nn.Linear(*W.shape)
        linear.weight.data, linear.bias.data = torch.tensor(W.T), torch.tensor(b)
        layers += [linear, activation()]
    wrapped = fq.decoders.TorchDecoder(nn.Sequential(*layers), n_latent=20)
    assert wrapped.dtype == decoder.dtype
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((4, 20)), rng.standard_normal((4, 784))
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(decoder(Z), wrapped(Z), **tolerance)
    np.testing.assert_allclose(decoder.jacobian(Z)[1], wrapped.jacobian(Z)[1], **tolerance)
    scale = 10 if dtype == "float32" else 1
    tolerance["atol"] *= scale  # a sum over 784 entries
    np.testing.assert_allclose(decoder.vjp(Z.astype(dtype))[1](V.astype(dtype)), wrapped.vjp(Z)[1](V), **tolerance)


def test_solves_with_a_convolutional_decoder():
    prior = fq.Generative(fq.decoders.TorchDecoder(convolutional(), n_latent=5))
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 64, 64)), prior.signal(rng.standard_normal(5))
    solution = fq.solve(A, fq.measure(A, x), prior=prior)
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-10


def test_single_precision_module_converges_to_its_rounding():
    prior = fq.Generative(fq.decoders.TorchDecoder(convolutional(torch.float32), n_latent=5))
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 64, 64)).astype(np.float32), prior.signal(rng.standard_normal(5))
    solution = fq.solve(A, fq.measure(A, x), prior=prior)
    assert solution.success
    assert fq.distance(solution.x, x) < 1e-5


class Phases(nn.Module):
    """Complex signals with smooth phases: a modulus times e^{iθ}."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.modulus, self.phase = nn.Linear(4, 30), nn.Linear(4, 30)
        self.double()

    def forward(self, z):
        return torch.polar(nn.functional.softplus(self.modulus(z)), torch.tanh(self.phase(z)))


def test_complex_decoder_against_finite_differences():
    module = Phases()
    decoder = fq.decoders.TorchDecoder(module, n_latent=4)
    assert (decoder.n, decoder.dtype) == (60, np.float64)
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((3, 4)), rng.standard_normal((3, 60))
    with torch.no_grad():
        np.testing.assert_array_equal(decoder(Z).view(complex), module(torch.tensor(Z)).numpy())
    expected = differences(decoder.forward, Z)
    np.testing.assert_allclose(decoder.jacobian(Z)[1], expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(decoder.vjp(Z)[1](V), np.einsum("bnk,bn->bk", expected, V), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("method", ["latent", fq.methods.PGD(projection="lm")])
def test_solves_with_a_complex_decoder(method):
    prior = fq.Generative(fq.decoders.TorchDecoder(Phases(), n_latent=4))
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 30, 30)) + 1j * rng.standard_normal((60, 30, 30))
    H, x = (A + A.transpose(0, 2, 1).conj()) / 2, prior.signal(rng.standard_normal(4)).view(complex)
    solution = fq.solve(H, fq.measure(H, x), prior=prior, method=method, rng=0)
    assert solution.x.dtype == complex
    assert fq.distance(solution.x, x) < (1e-10 if method == "latent" else 0.05)


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, got function"):
        fq.decoders.TorchDecoder(lambda z: z, n_latent=3)
    with pytest.raises(ValueError, match="`n_latent` must be a positive integer, got 0"):
        fq.decoders.TorchDecoder(nn.Linear(3, 4), n_latent=0)
    with pytest.raises(TypeError, match=r"must compute in float32 or float64, got torch\.float16"):
        fq.decoders.TorchDecoder(nn.Linear(3, 4).half(), n_latent=3)
