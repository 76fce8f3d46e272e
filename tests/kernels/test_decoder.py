"""The compiled network: products, activations, derivatives and Adam, against plain NumPy."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

import fastquad as fq
from fastquad._kernels import decoder as kernel
from fastquad.decoders.compiled import KINDS, Network, panels
from fastquad.priors import projection

EPSILON = np.finfo(np.float32).eps

# f and f' in double precision, as their definitions say.
TRUTH = {
    "softplus": (lambda a: np.logaddexp(0, a), lambda a: 1 / (1 + np.exp(-a))),
    "relu": (lambda a: np.maximum(a, 0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: np.cosh(a) ** -2.0),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), lambda a: np.exp(-np.abs(a)) / (1 + np.exp(-np.abs(a))) ** 2),
    "identity": (lambda a: a, np.ones_like),
}


def decoder(widths, activations, seed=0):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in pairwise(widths)]
    biases = [rng.standard_normal(width) for width in widths[1:]]
    return fq.decoders.Decoder(weights, biases, activations, dtype=np.float32)


def signals(network, Z):
    out = np.full((len(Z), network.shapes[-1, 1]), np.nan, dtype=np.float32)
    work = np.full(network.layers.work_size(len(Z)), np.nan, dtype=np.float32)
    kernel.signals(network.layers, Z, out, work)
    return out


def gradients(network, Z, targets, unit):
    out = np.full_like(Z, np.nan)
    work = np.full(network.layers.work_size(len(Z)), np.nan, dtype=np.float32)
    kernel.gradients(network.layers, unit, Z, targets, out, work)
    return out


@pytest.mark.parametrize("name", list(KINDS))
def test_activations_to_a_few_roundings(name):
    f, slope = TRUTH[name]
    a = np.concatenate([np.linspace(-75, 85, 4001), np.linspace(-2, 2, 2001), [-1e-6, 0.0, 1e-6, 1e-20]])
    a = a.astype(np.float32)[:, None]
    # h = f(z · 1 + 0): what comes back along G − v = 1 is f'.
    network = Network([np.ones((1, 1))], [np.zeros(1)], [name])
    values = signals(network, a)
    expected = f(a.astype(np.float64))
    np.testing.assert_allclose(values, expected, rtol=4 * EPSILON, atol=1e-33)
    slopes = gradients(network, a, values - np.float32(1), unit=False)
    # G − (G − 1) is one only to the rounding of G.
    exact = slope(a.astype(np.float64)) * (values - (values - np.float32(1)).astype(np.float64))
    np.testing.assert_allclose(slopes, exact, rtol=8 * EPSILON, atol=1e-29)


@pytest.mark.parametrize("name", list(KINDS))
def test_activations_never_overflow(name):
    network = Network([np.ones((1, 1))], [np.zeros(1)], [name])
    a = np.array([[-1e30], [-300.0], [300.0], [1e30]], dtype=np.float32)
    values = signals(network, a)
    f = {"softplus": np.maximum, "relu": np.maximum}.get(name)
    expected = f(a, 0) if f else a if name == "identity" else np.array([[-1 if name == "tanh" else 0]] * 2 + [[1]] * 2)
    np.testing.assert_allclose(values, expected, rtol=EPSILON, atol=1e-30)
    assert np.isfinite(gradients(network, a, values, unit=False)).all()


@pytest.mark.parametrize("widths", [(1, 1), (3, 16), (5, 17, 33), (20, 50, 30, 40)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 50])
def test_values_and_derivatives_are_those_of_the_decoder(widths, rows):
    G = decoder(widths, ["softplus", "tanh", "sigmoid"][-len(widths) + 1 :])
    exact = G.astype(np.float64)
    rng = np.random.default_rng(rows)
    Z = rng.standard_normal((rows, widths[0])).astype(np.float32)
    V = rng.random((rows, widths[-1])).astype(np.float32)
    network = G.compiled().network
    np.testing.assert_allclose(signals(network, Z), exact.forward(Z), rtol=1e-5, atol=1e-6)
    for unit, g in ((False, exact), (True, fq.Generative(exact).range)):
        values, pullback = g.vjp(Z.astype(np.float64))
        expected = pullback(values - V)
        np.testing.assert_allclose(gradients(network, Z, V, unit), expected, atol=2e-6 * (1 + np.abs(expected).max()))


def test_an_output_that_vanishes_has_no_direction():
    network = Network([np.zeros((2, 5))], [np.zeros(5)], ["relu"])
    Z, V = np.ones((3, 2), dtype=np.float32), np.ones((3, 5), dtype=np.float32)
    np.testing.assert_array_equal(gradients(network, Z, V, unit=True), 0)


def test_panels_hold_the_columns_in_turn():
    W = np.arange(2 * 20, dtype=np.float32).reshape(2, 20)
    width = kernel.PANEL_WIDTH
    laid = panels(W).reshape(-1, 2, width)
    full = np.concatenate(list(laid), axis=1)
    np.testing.assert_array_equal(full[:, :20], W)
    np.testing.assert_array_equal(full[:, 20:], 0)


@pytest.mark.parametrize("unit", [False, True])
def test_adam_steps_are_those_of_its_twin(unit):
    G = decoder((4, 30, 50), ["softplus", "sigmoid"])
    g = fq.Generative(G, normalize=unit).range
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((9, 4))
    targets = g.forward(rng.standard_normal((9, 4)).astype(np.float32))
    at, twin, schedule = projection.descents(Z, g), projection.descents(Z, g), projection.make_schedule(20, 0.05)
    projection.descend(g, twin, targets, schedule)
    compiled = g.compiled()
    assert compiled.unit is unit
    compiled.network.descend(at, targets, schedule, unit=unit, n_threads=1)
    for got, expected in zip(at, twin, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-4)
    assert np.abs(twin.Z - at.Z).max() < 1e-3 * np.abs(twin.Z).max()


def test_rows_do_not_depend_on_threads_or_on_each_other():
    G = decoder((20, 300, 300), ["softplus", "sigmoid"])
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((50, 20)), rng.random((50, 300)).astype(np.float32)
    schedule, ends = projection.make_schedule(10), []
    for parts, n_threads in (
        ([slice(0, 50)], 1),
        ([slice(0, 50)], 2),
        ([slice(0, 50)], 5),
        ([slice(0, 3), slice(3, 50)], 1),
    ):
        at = projection.descents(Z, G)
        for part in parts:
            G.compiled().network.descend(at.rows(part), V[part], schedule, unit=True, n_threads=n_threads)
        ends.append(np.stack(at))
    for end in ends[1:]:
        np.testing.assert_array_equal(end, ends[0])


def test_a_saturated_network_is_not_slowed_by_denormal_numbers():
    # Slopes of e^-80 times small differences would be denormal numbers further down: they are zero instead.
    network = Network(
        [np.full((1, 32), -79.0), np.ones((32, 4))], [np.zeros(32), np.zeros(4)], ["softplus", "identity"]
    )
    Z, V = np.ones((2, 1), dtype=np.float32), np.full((2, 4), 1e-4, dtype=np.float32)
    slopes = gradients(network, Z, V, unit=False)
    assert ((slopes == 0) | (np.abs(slopes) > np.finfo(np.float32).tiny)).all()


def test_only_single_precision_is_compiled_and_it_can_be_pickled():
    G = decoder((4, 30, 50), ["softplus", "sigmoid"])
    assert G.astype(np.float64).compiled() is None
    network = G.compiled().network
    again = pickle.loads(pickle.dumps(G)).compiled().network
    np.testing.assert_array_equal(again.parameters, network.parameters)
