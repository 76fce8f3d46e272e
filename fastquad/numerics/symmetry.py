"""Find symmetries of a set of symmetric matrices: linear maps Q with `Q^T A_i Q = A_i`, so that Qx fits like x."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fastquad.numerics.independence import Gram, gram_beside, singular_values_exceed
from fastquad.typing import Float, Indices

# The rounding of a Gram matrix, relative to its trace.
_ROUNDING = 1e-13
# By which factor what is shown must exceed rounding, which is only estimated.
_CLEARLY = 2.0
# How many others a column is compared with, before a product of all with all takes less time: 3 µs for two columns, and
# 2.7 ms for all (Zen 5, n = 400, m = 800).
_COMPARED = 2
# The tolerance from which on the product tells distances: below, their squares are lost in the rounding of the squares.
_LOOSE = 1e-6
# The coupling of two parts of a signal, as a share, below which their relative sign may be wrong.
_WEAK = 0.5


def no_linear_twin(W: Float, columns: Gram, rows: Float, known: Float, least: float = 0.0) -> bool:
    """Whether it is proven that no linear symmetry of the A_i moves z, the first of the `known` (1 + d, s).

    The others are directions that the A_i do not see at z, orthogonal to it; W holds them as rows, and they are
    solutions as z is.

    A twin u = Qz has `A_i u = Q^{-T} A_i z`: for each vector c, `c^T A_i u` is a combination of the columns of W,
    `W[i] = A_i z`. That is linear in u, and the only solution is a multiple of z if the parts of the given rows
    `rows[i, c] = c^T A_i`, (m, q, s), that W does not span have no other common null vector. Under noise, none that
    they see by less than the share `least` of what they see on average. Where W hardly sees some direction, rounding
    turns its span, and what is shown must be more than that.
    """
    if columns.factor is None:
        return False
    s = known.shape[1]
    unit = known / np.linalg.norm(known, axis=1, keepdims=True)
    total = unit.T @ unit
    scale = 0.0
    rounding = math.sqrt(_ROUNDING * float(columns.gram.trace())) / columns.least
    limit = _CLEARLY * max(least, rounding) * math.sqrt(rows.shape[1])
    for c in range(rows.shape[1]):
        V = np.ascontiguousarray(rows[:, c])
        scale = max(scale, float(np.vdot(V, V)) / s)
        total += gram_beside(W, columns, V) / (scale or 1.0)
        if singular_values_exceed(total, limit):  # further rows can only see more
            return True
    return False


def rows_needed(m: int, s: int) -> int:
    """How many rows of each matrix `no_linear_twin` needs to show anything."""
    return math.ceil((s - 1) / (m - s)) if m > s else s + 1


def turned_at_weakest(block: Float, z: Float, count: int) -> list[Float]:
    """z with the other sign in a part that is weakly coupled to the rest: at most `count` parts, the weakest first.

    Two coordinates are linked by `z_j² z_k² Σ_i A_i[j, k]²`, what the measurements see of their relative sign. The
    strongest tree that joins all coordinates falls into two parts without one of its links; their coupling is the sum
    of all links between them, as a share of those within the smaller one.
    """
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    used = np.flatnonzero(z)
    strength = (np.einsum("ijk,ijk->jk", block, block) * np.outer(z**2, z**2))[used[:, None], used]
    largest = float(strength.max(initial=0.0))
    if used.size < 2 or largest == 0:
        return []
    # Lengths are at least 1: the sparse graph takes a length of 0 for no link.
    tree = minimum_spanning_tree(1 - np.log(np.maximum(strength / largest, 1e-300))).tocoo()
    order, before = breadth_first_order(tree, 0, directed=False)
    # What hangs on each coordinate, if the tree stands on the first one.
    hanging = np.eye(used.size, dtype=bool)
    for v in order[:0:-1]:
        hanging[before[v]] |= hanging[v]
    above = ~hanging[np.where(before[tree.col] == tree.row, tree.col, tree.row)]
    sides = above.astype(np.float64)  # a row for each link
    between = np.sum(sides @ strength * (1 - sides), axis=1)
    of_each = strength.sum(axis=1)
    coupling = between / np.maximum(np.minimum(sides @ of_each, (1 - sides) @ of_each), 1e-300)
    weakest = np.argsort(coupling, kind="stable")[: min(count, int(np.count_nonzero(coupling < _WEAK)))]
    turned = np.tile(z, (weakest.size, 1))
    for row, link in zip(turned, weakest, strict=True):
        row[used[above[link]]] *= -1
    return list(turned)


@lru_cache(maxsize=16)
def fixed_direction(m: int) -> Float:
    """A fixed random vector, shared by all callers: do not write to it."""
    return np.random.default_rng(0).standard_normal(m) / math.sqrt(m)


def alike(columns: Float, tolerance: float) -> Indices:
    """A label for each column: the same for columns that agree to the tolerance, relative to the largest norm."""
    m, n = columns.shape
    squares = np.einsum("ij,ij->j", columns, columns)
    close = 8 * tolerance * math.sqrt(float(squares.max(initial=0.0)))
    # Columns that agree have nearly the same random projection: those near in that order are compared in full.
    projected = fixed_direction(m) @ columns
    order = np.argsort(projected, kind="stable")
    ordered = projected[order]
    edges = np.zeros((n, n), dtype=bool)
    step = 1
    while step < n and (near := ordered[step:] - ordered[:-step] <= close).any():
        if tolerance > _LOOSE and step * near.sum() > _COMPARED * n:
            edges = squares + squares[:, None] - 2 * (columns.T @ columns) <= close**2
            break
        here, there = order[:-step][near], order[step:][near]
        edges[here, there] = np.linalg.norm(columns[:, there] - columns[:, here], axis=0) <= close
        step += 1
    return _components(edges)[1].astype(np.intp) if edges.any() else np.arange(n)


def _components(edges: NDArray[np.bool_]) -> tuple[int, Indices]:
    """The connected components of a graph: how many, and which one each vertex is in."""
    # SciPy's graphs take a tenth of a second to import, and few solves need them.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return connected_components(csr_array(edges), directed=False)


def largest(block: Float, count: int) -> Indices:
    """Which of the matrices (m, s, s) have the largest entries; of those that differ by rounding alone, the first."""
    sizes = np.abs(block).max(axis=(1, 2))
    return np.argsort(-np.round(sizes / max(float(sizes.max(initial=0.0)), 1e-300), 9), kind="stable")[:count]
