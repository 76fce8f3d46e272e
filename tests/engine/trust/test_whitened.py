"""Rows in units of their noise: every answer is scaled, in whatever layout it comes."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.driver import finish
from fastquad.engine.trust.whitened import _scaled
from fastquad.measurements.contractions import Block, Cells, Diagonals, Products
from fastquad.measurements.dense.layout import packed_rows


@pytest.mark.parametrize("m", [7, 8, 19])
def test_rows_are_scaled_in_every_layout(m):
    """Regression: packed cells, 8 measurements side by side, were multiplied with the wrong rows."""
    rng = np.random.default_rng(m)
    A, w, x = rng.standard_normal((m, 5, 5)), rng.uniform(0.5, 2, m), rng.standard_normal(5)
    A = A + A.transpose(0, 2, 1)
    everything = np.arange(5)

    def asked():
        answers = []
        for request in (Cells(everything, 5), Block(everything), Diagonals(), Products(x)):
            answers.append((yield request))
        return answers

    cells, block, diagonals, products = finish(fq.as_measurements(A), _scaled(asked(), w), 1)
    scaled = w[:, None, None] * A
    assert np.allclose(cells, packed_rows(scaled))
    assert np.allclose(block, scaled)
    assert np.allclose(diagonals, np.einsum("ijj->ij", scaled))
    assert np.allclose(products, scaled @ x)
