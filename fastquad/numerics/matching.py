"""Which unknowns have equations to spare, by the pattern of what each equation contains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastquad.typing import Indices


def square_part(seen: NDArray[np.bool_]) -> Indices:
    """The unknowns that have no equation to spare, given which equation (row) sees which unknown (column).

    Each unknown is matched with an equation of its own. Those that an equation left over sees have one to spare, and so
    have those that the equations matched with them see, and so on. The others are seen by no more equations than they
    are: the square part of the decomposition of Dulmage and Mendelsohn. It is empty for most patterns, at once where
    every unknown is seen by more equations than there are unknowns.
    """
    rows, columns = seen.shape
    if columns == 0 or int(np.count_nonzero(seen, axis=0).min()) > columns:
        return np.zeros(0, dtype=np.intp)
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    matched = maximum_bipartite_matching(csr_matrix(seen), perm_type="row")  # the equation of each unknown, or −1
    spare = np.zeros(columns, dtype=bool)
    fresh = np.setdiff1d(np.arange(rows), matched)
    while fresh.size:
        reached = seen[fresh].any(axis=0) & ~spare
        spare |= reached
        fresh = matched[reached & (matched >= 0)]
    return np.flatnonzero(~spare)
