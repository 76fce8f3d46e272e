"""Evidence against chance: as many nats as chance would have to match, for data of any distribution."""

import numpy as np
import pytest

from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.evidence import product_bits, width_of


@pytest.mark.parametrize("m", [20, 40, 200])
def test_the_width_of_normal_numbers_is_their_deviation(m):
    rng = np.random.default_rng(m)
    logs = [np.log(width_of(3 * rng.standard_normal(m), 1e-9) / 3) for _ in range(200)]
    assert abs(np.mean(logs)) < 0.15


def test_a_few_large_measurements_do_not_widen_the_others():
    """The entropy of squares of normal numbers is one nat below that of normal numbers of their variance."""
    rng = np.random.default_rng(0)
    logs = [np.log(width_of(rng.standard_normal(200) ** 2, 1e-9) / np.sqrt(2)) for _ in range(50)]
    assert np.mean(logs) == pytest.approx(-0.98, abs=0.15)


def test_equal_measurements_are_no_denser_than_noise():
    y = np.repeat([0.0, 1.0], 50)
    assert 1e-3 / 2 < width_of(y, 1e-3) < 1e-2


def test_of_sparse_matrices_only_those_count_that_see_a_coordinate():
    """Two of 30 matrices see it, to spare: as many bits as two numbers have, and hardly more."""
    V = np.zeros((30, 1))
    V[:3, 0] = 1.1, -0.7, 0.4
    bits = np.sort(product_bits(V))
    assert bits[-3:] == pytest.approx(tol.GENERIC_BITS)
    assert bits[:-3].sum() == pytest.approx(27 * np.log2(30 / 27))


def test_the_coordinate_of_which_all_say_least_counts():
    V = np.random.default_rng(0).standard_normal((20, 3))
    assert (product_bits(V) == tol.GENERIC_BITS).all()
    V[:, 1] = 1.0
    assert product_bits(V).sum() < 20 * tol.GENERIC_BITS / 4
