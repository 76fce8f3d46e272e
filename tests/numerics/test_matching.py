"""Unknowns without an equation to spare."""

from itertools import combinations

import numpy as np
import pytest

from fastquad.numerics.matching import square_part


def seen_by(seen, group):
    return int(seen[:, list(group)].any(axis=1).sum())


@pytest.mark.parametrize("seed", range(60))
def test_unknowns_that_as_few_equations_see_are_found(seed):
    """Against the definition: the groups of unknowns that are seen by no more equations than they are."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 6))
    rows = columns + int(rng.integers(0, 4))
    seen = rng.random((rows, columns)) < rng.uniform(0.3, 0.8)
    seen[np.arange(columns), np.arange(columns)] = True  # so that each has an equation
    groups = [g for k in range(1, columns + 1) for g in combinations(range(columns), k) if seen_by(seen, g) <= k]
    assert square_part(seen).tolist() == sorted(set().union(*groups))
