"""Decoders: values against a loop, derivatives against finite differences, and what a file may hold."""

import json
import pickle
import time
from itertools import pairwise

import numpy as np
import pytest

import fastquad as fq
from fastquad.decoders import Decoder
from fastquad.priors.generative import Normalized

ACTIVATIONS = {
    "softplus": lambda a: np.log1p(np.exp(a)),
    "relu": lambda a: np.maximum(a, 0),
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "identity": lambda a: a,
}


def network(activations, dtype=np.float64, seed=0, widths=(4, 7, 9, 12)):
    rng = np.random.default_rng(seed)
    widths = widths[: len(activations)] + widths[-1:]
    weights = [rng.standard_normal(shape) for shape in pairwise(widths)]
    return Decoder(weights, [rng.standard_normal(width) for width in widths[1:]], activations, dtype=dtype)


def naive(decoder, Z):
    """The network layer by layer, as its definition says."""
    h = np.asarray(Z, dtype=np.float64)
    for W, b, name in zip(decoder.weights, decoder.biases, decoder.activations, strict=True):
        h = ACTIVATIONS[name](h @ W.astype(np.float64) + b)
    return h


def differences(function, Z, step=1e-6):
    """∂function/∂z_j by central differences: (b, n, k)."""
    columns = []
    for j in range(Z.shape[1]):
        shift = np.zeros_like(Z)
        shift[:, j] = step
        columns.append((function(Z + shift) - function(Z - shift)) / (2 * step))
    return np.stack(columns, axis=2)


LAYERS = [[name] for name in ACTIVATIONS] + [["softplus", "softplus", "sigmoid"], ["relu", "tanh", "identity"]]


@pytest.mark.parametrize("activations", LAYERS, ids="-".join)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_those_of_the_definition(activations, dtype):
    decoder = network(activations, dtype)
    Z = np.random.default_rng(1).standard_normal((5, 4))
    values = decoder(Z)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(decoder, Z), rtol=2e-5 if dtype == np.float32 else 1e-12, atol=1e-6)
    np.testing.assert_array_equal(decoder(Z[2].astype(dtype)).shape, (12,))


@pytest.mark.parametrize("activations", LAYERS, ids="-".join)
@pytest.mark.parametrize("wrap", [lambda decoder: decoder, Normalized], ids=["plain", "normalised"])
def test_derivatives_agree_with_finite_differences(activations, wrap):
    decoder = wrap(network(activations))
    rng = np.random.default_rng(2)
    Z, V = rng.standard_normal((5, 4)), rng.standard_normal((5, 12))
    expected = differences(decoder.forward, Z)
    values, J = decoder.jacobian(Z)
    np.testing.assert_allclose(values, decoder.forward(Z), rtol=1e-13)
    np.testing.assert_allclose(J, expected, rtol=1e-6, atol=1e-8)
    values, pullback = decoder.vjp(Z)
    np.testing.assert_allclose(values, decoder.forward(Z), rtol=1e-13)
    np.testing.assert_allclose(pullback(V), np.einsum("bnk,bn->bk", expected, V), rtol=1e-6, atol=1e-8)


def test_normalised_signals_have_norm_one_and_a_vanishing_one_stays_zero():
    g = Normalized(network(["softplus", "sigmoid"]))
    np.testing.assert_allclose(np.linalg.norm(g(np.ones((3, 4))), axis=1), 1)
    zero = Normalized(Decoder([np.ones((2, 5))], [np.zeros(5)], ["relu"]))
    values, J = zero.jacobian(-np.ones((1, 2)))
    assert not values.any()
    assert not J.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_far_out_nothing_overflows_and_no_number_is_denormal(dtype, name):
    # Denormal numbers made a saturated decoder many times slower; overflow would warn.
    decoder = Decoder([np.ones((1, 1))], [np.zeros(1)], [name], dtype=dtype)
    Z = np.concatenate([np.linspace(-1e4, 1e4, 41), np.linspace(-110, -70, 41)])[:, None]
    values, J = decoder.jacobian(Z.astype(dtype))
    for array in (values, J):
        assert np.isfinite(array).all()
        assert not ((array != 0) & (np.abs(array) < np.finfo(dtype).tiny)).any()
    assert values[40, 0] == {"tanh": 1, "sigmoid": 1}.get(name, 1e4)


def test_single_and_double_precision_agree():
    decoder = fq.decoders.mnist()
    Z = np.random.default_rng(0).standard_normal((3, 20))
    np.testing.assert_allclose(decoder.astype(np.float32)(Z), decoder(Z), atol=2e-5)
    assert decoder.astype(np.float64) is decoder


def test_arrays_are_copied_and_frozen():
    W, b = np.ones((2, 3)), np.zeros(3)
    decoder = Decoder([W], [b], ["tanh"])
    W[:] = 7
    assert (decoder.weights[0] == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        decoder.weights[0][0, 0] = 2


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("stored", [None, np.float32, np.float16])
def test_save_and_load(tmp_path, stored, suffix):
    decoder = network(["softplus", "sigmoid"])
    path = tmp_path / f"decoder.{suffix}"
    decoder.save(path, dtype=stored, origin="a test")
    again = fq.decoders.load(path)
    assert again.activations == decoder.activations
    for mine, arrays in ((again.weights, decoder.weights), (again.biases, decoder.biases)):
        for array, expected in zip(mine, arrays, strict=True):
            np.testing.assert_array_equal(array, expected.astype(stored or np.float64).astype(np.float64))
    assert fq.decoders.load(path, activations=["relu", "tanh"], dtype=np.float32).activations == ("relu", "tanh")
    if suffix == "npz":
        with np.load(path) as arrays:
            assert str(arrays["info_origin"]) == "a test"
    else:
        content = path.read_bytes()
        assert int.from_bytes(content[:8], "little") % 8 == 0
        assert b'"origin": "a test"' in content


def test_no_other_format_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in \.npz or \.safetensors, got .*decoder\.pt'"):
        network(["tanh"]).save(tmp_path / "decoder.pt")


def test_the_safetensors_library_reads_and_writes_the_same(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    decoder, path = network(["softplus", "sigmoid"]), tmp_path / "decoder.safetensors"
    decoder.save(path)
    arrays = library.load_file(path)
    for layer in range(2):
        np.testing.assert_array_equal(arrays[f"{layer}.weight"].T, decoder.weights[layer])
        np.testing.assert_array_equal(arrays[f"{layer}.bias"], decoder.biases[layer])
    library.save_file(arrays, path)
    again = fq.decoders.load(path, activations=decoder.activations)
    np.testing.assert_array_equal(again(np.ones(4)), decoder(np.ones(4)))


def safetensors(header, data=b""):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_layers_saved_from_elsewhere(tmp_path):
    # Twelve layers, so that 10 has to sort behind 9; half precision of the other kind; no bias; an integer counter.
    path = tmp_path / "net.safetensors"
    header = {"steps": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}
    data = bytes(8)
    for layer in reversed(range(12)):
        shape = [2, 3] if layer == 0 else [2, 2]  # (outputs, inputs)
        values = (layer + 1) * np.ones(shape, dtype=np.float32)
        values[0, -1] = -1.5
        upper = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        place = [len(data), len(data) + len(upper)]
        header[f"net.{layer}.weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": place}
        data += upper
    path.write_bytes(safetensors(header, data))
    decoder = fq.decoders.load(path, activations=["identity"] * 12)
    assert decoder.n_latent == 3
    for layer, W in enumerate(decoder.weights):
        np.testing.assert_array_equal(W[:, 1], layer + 1)
        assert W[-1, 0] == -1.5
        assert (decoder.biases[layer] == 0).all()
    with pytest.raises(ValueError, match="does not name its activations: give `activations`, one for each of its 12"):
        fq.decoders.load(path)


def test_load_refuses_pickles_and_other_files(tmp_path):
    path = tmp_path / "decoder.npz"
    np.savez(path, activations=np.array(["tanh"], dtype=object))
    with pytest.raises(ValueError, match=r"does not hold a decoder.*allow_pickle"):
        fq.decoders.load(path)
    np.savez(path, something=np.ones(3))
    with pytest.raises(ValueError, match="does not hold a decoder"):
        fq.decoders.load(path)
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    wrong = [
        (b"not a file of arrays", "neither .npz nor safetensors, or truncated"),
        (b"", "neither .npz nor safetensors, or truncated"),
        (pickle.dumps(np.ones(3)), "neither .npz nor safetensors, or truncated"),
        (safetensors({"a": entry}, bytes(16)), "no array has a name that ends in .weight"),
        (safetensors({"a.weight": entry}, bytes(15)), "array a.weight is truncated or misplaced"),
        (safetensors({"a.weight": entry | {"data_offsets": [-16, 0]}}, bytes(16)), "truncated or misplaced"),
        (safetensors({"a.weight": entry | {"shape": [2, 3]}}, bytes(16)), "truncated or misplaced"),
        (safetensors({"a.weight": {"dtype": "F32"}}, bytes(16)), "'shape'"),
        (safetensors([1, 2]), "does not hold a decoder"),
    ]
    for content, message in wrong:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"does not hold a decoder.*{message}|{message}"):
            fq.decoders.load(path)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, suffix):
    path = tmp_path / f"decoder.{suffix}"
    network(["softplus", "sigmoid"]).save(path)
    content = path.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 50)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="does not hold a decoder"):
            fq.decoders.load(path)


@pytest.mark.parametrize(
    ("weights", "biases", "activations", "message"),
    [
        ([], [], [], "one entry per layer, got 0, 0 and 0"),
        ([np.ones((2, 3))], [np.ones(3)], ["tanh", "tanh"], "one entry per layer, got 1, 1 and 2"),
        ([np.ones(3)], [np.ones(3)], ["tanh"], r"`weights\[0\]` must have shape \(inputs, outputs\), got \(3,\)"),
        ([np.ones((2, 3)), np.ones((4, 5))], [np.ones(3), np.ones(5)], ["tanh"] * 2, r"`weights\[1\]`.*\(3, outputs\)"),
        ([np.ones((2, 3))], [np.ones(2)], ["tanh"], r"`biases\[0\]` must have shape \(3,\), got \(2,\)"),
        ([np.ones((2, 3))], [np.ones(3)], ["gelu"], "must be one of softplus, .* got 'gelu'"),
        ([np.full((2, 3), np.nan)], [np.ones(3)], ["tanh"], "must be finite"),
    ],
)
def test_what_is_wrong_with_a_network_is_said(weights, biases, activations, message):
    with pytest.raises(ValueError, match=message):
        Decoder(weights, biases, activations)


def test_wrong_codes_and_dtypes_are_refused():
    decoder = network(["tanh"])
    with pytest.raises(ValueError, match=r"`z` must have shape \(4,\) or \(b, 4\), got \(5,\)"):
        decoder(np.zeros(5))
    with pytest.raises(ValueError, match="float32 or float64, got float16"):
        decoder.astype(np.float16)


def test_bundled_decoder():
    fq.decoders.mnist.cache_clear()
    start = time.perf_counter()
    decoder = fq.decoders.mnist()
    # Milliseconds; the bound leaves room for a machine at work.
    assert time.perf_counter() - start < 1
    assert decoder.n_latent == 20
    assert [W.shape for W in decoder.weights] == [(20, 500), (500, 500), (500, 784)]
    assert decoder.activations == ("softplus", "softplus", "sigmoid")


def test_bundled_decoder_explains_digits():
    # The reconstruction of a test image by the nearest of the decoder's signals: on average 0.96 or more.
    images, _ = fq.datasets.mnist_samples()
    X = images[::5].reshape(10, 784) / np.linalg.norm(images[::5].reshape(10, 784).astype(float), axis=1)[:, None]
    prior = fq.Generative(fq.decoders.mnist())
    cosines = np.einsum("bn,bn->b", prior.signal(prior.project(X, method="lm")), X)
    assert cosines.mean() > 0.93


def test_jax_decoder_agrees():
    jax = pytest.importorskip("jax")
    decoder = network(["softplus", "sigmoid"])
    weights = [jax.numpy.asarray(W, dtype="float32") for W in decoder.weights]
    biases = [jax.numpy.asarray(b, dtype="float32") for b in decoder.biases]

    def function(z):
        h = jax.nn.softplus(z @ weights[0] + biases[0])
        return jax.nn.sigmoid(h @ weights[1] + biases[1]).reshape(3, 4)

    wrapped = fq.decoders.JaxDecoder(function, n_latent=4)
    assert repr(wrapped) == "JaxDecoder(4-12, float32)"
    Z, V = np.random.default_rng(0).standard_normal((5, 4)), np.random.default_rng(1).standard_normal((5, 12))
    np.testing.assert_allclose(wrapped(Z), decoder(Z), atol=1e-5)
    np.testing.assert_allclose(wrapped.jacobian(Z)[1], decoder.jacobian(Z)[1], atol=1e-5)
    np.testing.assert_allclose(wrapped.vjp(Z)[1](V), decoder.vjp(Z)[1](V), atol=1e-5)
