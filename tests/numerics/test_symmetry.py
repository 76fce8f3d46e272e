"""Which columns are alike, to a given tolerance."""

import numpy as np
import pytest

from fastquad.numerics.symmetry import alike


@pytest.mark.parametrize("tolerance", [1e-13, 1e-11, 1e-7, 1e-4])
@pytest.mark.parametrize("kinds", [1, 2, 3, 20])
def test_columns_that_agree_to_the_tolerance_have_one_label(kinds, tolerance):
    """The squares of distances of many alike columns, as differences of squares, were lost in their rounding."""
    rng = np.random.default_rng(kinds)
    m, n = 60, 40
    kind = rng.integers(0, kinds, n)
    columns = rng.standard_normal((m, kinds))[:, kind]
    columns = columns * (1 + tolerance * rng.uniform(-0.1, 0.1, (m, n)))
    labels = alike(columns, tolerance)
    assert ((labels[:, None] == labels) == (kind[:, None] == kind)).all()
    assert not (alike(rng.standard_normal((m, n)), tolerance)[:, None] == labels).all()
