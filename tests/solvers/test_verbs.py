"""The search by the verbs of the Jacobian: its starts, and the way from there to the bottom of the likelihood."""

import numpy as np
import pytest
from small_grid import grid, typical

import fastquad as fq


@pytest.mark.parametrize("n", [40, 100])
def test_noise_does_not_choose_the_basin(n):
    """Where noise is told, rows of large terms have small errors: a start that is a little wrong has huge residuals."""
    reached = []
    for seed in range(4):
        A, kinds, V = grid(n, seed, meters=0.3, flows=0.5)
        z = A.measure(V)
        sigma = 0.01 * typical(z, kinds)
        y = z + sigma * np.random.default_rng(seed).standard_normal(A.m)
        told = fq.solve(A, y, x0=V, noise=sigma)
        for start in (None, np.ones(n)):
            found = fq.solve(A, y, x0=start, noise=sigma)
            reached.append(found.status == "CONVERGED" and fq.distance(found.x, told.x) < 1e-3 * told.error)
    # Before rows were scaled by their terms it was none without a start, and six of eight with one.
    assert sum(reached) >= 7
