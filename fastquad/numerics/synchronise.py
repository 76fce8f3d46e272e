"""A signal from products of its coordinates: first the products, then a phase and a length for each coordinate.

Measurements `x^* A_i x` with sparse A_i are linear in `t = (|x_j|², x̄_j x_k)` for the pairs that are seen together.
Where there are enough of them t follows from least squares; where not, it stays near that of a constant signal. Along
a tree of the largest products each coordinate follows from the one before; then the phases are those that all products
agree on best, by a Laplacian of the graph: `min Σ_jk w_jk (θ_k − θ_j − arg t_jk)²`, with whole turns as along the tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastquad.numerics.sparse_factor import Pattern
from fastquad.typing import Float, Indices, Number

# How strongly t is held near that of a constant signal, as a share of the diagonal: a guess; small beside what is
# measured, and large beside rounding.
_RIDGE = 1e-6


class Lifted(NamedTuple):
    """The products, and whether the measurements determine all of them."""

    squares: Float
    products: Number
    determined: bool


def lifted(M: Any, y: Float, weights: Float, n: int, complex_signal: bool, square: float) -> Lifted:
    """The products t with `M t = y`; what M leaves open is as for a constant signal with entries of this square."""
    from scipy import sparse

    scaled = sparse.csr_array(M.multiply(weights[:, None]))
    normal = sparse.csc_array(scaled.T @ scaled)
    diagonal = normal.diagonal()
    ridge = _RIDGE * np.where(diagonal > 0, diagonal, 1.0)
    # With the ridge each product is on the diagonal, also one that is not measured.
    normal = sparse.csc_array(normal + sparse.diags_array(ridge))
    normal.sort_indices()
    edges = (M.shape[1] - n) // (2 if complex_signal else 1)
    flat = np.zeros(M.shape[1])
    flat[: n + edges] = square
    left = weights * y - scaled @ flat
    pattern = Pattern(normal)
    t = flat + pattern.factor(normal.data).solve(scaled.T @ left)
    products = t[n : n + edges] + (1j * t[n + edges :] if complex_signal else 0.0)
    return Lifted(t[:n], products, pattern.factor(normal.data, -ridge).count == 0)


def _sums(places: Indices, values: Float, count: int) -> Float:
    """The sums of the values at each of `count` places."""
    return np.asarray(np.bincount(places, values, count), dtype=np.float64)


def determines(M: Any, weights: Float) -> bool:
    """Whether `M t = y` has one solution."""
    from scipy import sparse

    if M.shape[0] < M.shape[1]:
        return False
    scaled = sparse.csr_array(M.multiply(weights[:, None]))
    normal = sparse.csc_array(scaled.T @ scaled)
    normal.sort_indices()
    return not (normal.diagonal() == 0).any() and Pattern(normal).factor(normal.data).count == 0


def signal_of(found: Lifted, j: Indices, k: Indices, square: float) -> Number:
    """A signal with about these products, (n,); what no product ties to the rest is real and positive."""
    from scipy import sparse
    from scipy.sparse import csgraph

    n = found.squares.size
    lengths = np.sqrt(np.where(found.squares > 1e-3 * square, found.squares, square))
    sizes = np.abs(found.products)
    tied = sizes > 1e-9 * square
    j, k, products, sizes = j[tied], k[tied], found.products[tied], sizes[tied]
    x = lengths.astype(products.dtype)
    if not j.size:
        return x
    # The tree of the largest products, relative to the lengths of their ends.
    share = np.minimum(sizes / (lengths[j] * lengths[k]), 1.0)
    tree = shortest_tree(2.0 - share, j, k, n)
    graph = sparse.csr_array(tree + tree.T)
    phase = np.ones(n, dtype=products.dtype)
    turns = sparse.csr_array((products / sizes, (j, k)), shape=(n, n))
    turns = sparse.csr_array(turns + turns.conj().T)
    _, component = csgraph.connected_components(graph, directed=False)
    for root in np.unique(component, return_index=True)[1]:
        order, before = csgraph.breadth_first_order(graph, root, directed=False)
        if order.size < 2:
            continue
        # x̄_j x_k has the phase of x_k over that of x_j.
        steps = np.asarray(turns[before[order[1:]], order[1:]]).reshape(-1)
        for at, step in zip(order[1:].tolist(), steps.tolist(), strict=True):
            phase[at] = phase[before[at]] * step
    if np.iscomplexobj(products):
        phase = phase * np.exp(1j * _agreed(phase, j, k, products, sizes))
    return lengths * phase


def _agreed(phase: Number, j: Indices, k: Indices, products: Number, sizes: Float) -> Float:
    """Angles to add to phases so that the phases of all products are met best."""
    from scipy import sparse

    n = phase.size
    left = np.angle(products * phase[j] * phase[k].conj())
    ends = (np.concatenate([j, k, np.arange(n)]), np.concatenate([k, j, np.arange(n)]))
    degree = _sums(j, sizes, n) + _sums(k, sizes, n)
    # A little on the diagonal holds each part of the graph.
    degree = degree + 1e-9 * max(float(degree.mean()), 1e-300)
    laplacian = sparse.csc_array((np.concatenate([-sizes, -sizes, degree]), ends), shape=(n, n))
    laplacian.sort_indices()
    pull = _sums(k, sizes * left, n) - _sums(j, sizes * left, n)
    return Pattern(laplacian).factor(laplacian.data).solve(pull)


def shortest_tree(lengths: Float, j: Indices, k: Indices, n: int) -> Any:
    """The shortest tree of edges with these lengths that joins all that they join, as a sparse matrix (n, n)."""
    from scipy import sparse
    from scipy.sparse import csgraph

    ends = (j.astype(np.int32), k.astype(np.int32))  # older versions of SciPy take no others
    return csgraph.minimum_spanning_tree(sparse.csr_array((lengths, ends), shape=(n, n)))
