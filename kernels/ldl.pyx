"""`L D L^T` of sparse symmetric matrices, and the entries of the inverse on the pattern of L.

A matrix is given by the upper half of its columns: column k has the rows `indices[indptr[k]:indptr[k + 1]]`, all <= k.
L has ones on its diagonal, which are not stored; its columns have their rows in ascending order. See
fastquad/numerics/sparse_factor.py.
"""


def tree(
    const int[::1] indptr,
    const int[::1] indices,
    int[::1] parent,
    int[::1] seen,
    Py_ssize_t[::1] starts,
):
    """The elimination tree of the columns of L, and where each of them starts; the end of the last is their number."""
    cdef Py_ssize_t k, e, n = parent.shape[0], total = 0
    cdef int i
    with nogil:
        for k in range(n + 1):
            starts[k] = 0
        for k in range(n):
            parent[k], seen[k] = -1, <int> k
            for e in range(indptr[k], indptr[k + 1]):
                i = indices[e]
                # Row k of L has an entry in each column on the way from i to k.
                while seen[i] != k:
                    if parent[i] < 0:
                        parent[i] = <int> k
                    starts[i + 1] += 1
                    seen[i] = <int> k
                    i = parent[i]
        for k in range(n):
            total += starts[k + 1]
            starts[k + 1] = total


def factor(
    const int[::1] indptr,
    const int[::1] indices,
    const double[::1] values,
    const double[::1] least,
    const int[::1] parent,
    const Py_ssize_t[::1] starts,
    int[::1] rows,
    double[::1] L,
    double[::1] inverse,
    int[::1] seen,
    int[::1] stack,
    Py_ssize_t[::1] ends,
    double[::1] y,
):
    """Write L and the inverse of D; how many pivots are at most `least`: these coordinates are held, with 0 for 1/D.

    Row k of L solves a triangular system with the rows above it, of which the tree says what is not zero.
    """
    cdef Py_ssize_t k, e, p, n = parent.shape[0], top, depth
    cdef int i, held = 0
    cdef double pivot, value, entry
    with nogil:
        for k in range(n):
            ends[k], seen[k], y[k] = starts[k], -1, 0.0
        for k in range(n):
            top, pivot = n, 0.0
            seen[k] = <int> k
            for e in range(indptr[k], indptr[k + 1]):
                i = indices[e]
                if i == k:
                    pivot = values[e]
                    continue
                y[i] = values[e]
                depth = 0
                while seen[i] != k:
                    stack[depth] = i
                    depth += 1
                    seen[i] = <int> k
                    i = parent[i]
                while depth > 0:
                    depth -= 1
                    top -= 1
                    stack[top] = stack[depth]
            for e in range(top, n):
                i = stack[e]
                value, y[i] = y[i], 0.0
                for p in range(starts[i], ends[i]):
                    y[rows[p]] -= L[p] * value
                entry = value * inverse[i]
                pivot -= entry * value
                rows[ends[i]], L[ends[i]] = <int> k, entry
                ends[i] += 1
            if pivot > least[k]:
                inverse[k] = 1.0 / pivot
            else:
                inverse[k] = 0.0
                held += 1
    return held


def solve(
    const Py_ssize_t[::1] starts,
    const int[::1] rows,
    const double[::1] L,
    const double[::1] inverse,
    double[::1] x,
):
    """`x = (L D L^T)^{-1} x` in place, zero at the coordinates that are held."""
    cdef Py_ssize_t k, p, n = inverse.shape[0]
    cdef double value
    with nogil:
        for k in range(n):
            value = x[k]
            if value != 0.0:
                for p in range(starts[k], starts[k + 1]):
                    x[rows[p]] -= L[p] * value
        for k in range(n):
            x[k] *= inverse[k]
        for k in range(n - 1, -1, -1):
            value = x[k]
            for p in range(starts[k], starts[k + 1]):
                value -= L[p] * x[rows[p]]
            x[k] = value


def back(const Py_ssize_t[::1] starts, const int[::1] rows, const double[::1] L, double[::1] x):
    """`x = L^{-T} x` in place."""
    cdef Py_ssize_t k, p
    cdef double value
    with nogil:
        for k in range(x.shape[0] - 1, -1, -1):
            value = x[k]
            for p in range(starts[k], starts[k + 1]):
                value -= L[p] * x[rows[p]]
            x[k] = value


def inverse(
    const Py_ssize_t[::1] starts,
    const int[::1] rows,
    const double[::1] L,
    const double[::1] pivots,
    double[::1] Z,
    double[::1] diagonal,
    double[::1] y,
    double[::1] column,
    int[::1] seen,
):
    """The entries of the inverse on the pattern of L, Z, and on the diagonal; `pivots` are those of 1/D.

    `Z L = L^{-T} D^{-1}` is upper triangular: column j of it gives `Z_j = −Z L_j` below the diagonal, on rows that the
    columns further on have among each other, and `Z_jj = 1/D_j − L_j^T Z_j`.
    """
    cdef Py_ssize_t j, p, q, n = diagonal.shape[0]
    cdef int k
    cdef double value, total
    with nogil:
        for j in range(n):
            seen[j] = -1
        for j in range(n - 1, -1, -1):
            for p in range(starts[j], starts[j + 1]):
                seen[rows[p]], column[rows[p]], y[rows[p]] = <int> j, L[p], 0.0
            for p in range(starts[j], starts[j + 1]):
                k, value = rows[p], L[p]
                total = diagonal[k] * value
                for q in range(starts[k], starts[k + 1]):
                    if seen[rows[q]] == j:
                        y[rows[q]] -= Z[q] * value
                        total += Z[q] * column[rows[q]]
                y[k] -= total
            total = pivots[j]
            for p in range(starts[j], starts[j + 1]):
                Z[p] = y[rows[p]]
                total -= L[p] * y[rows[p]]
            diagonal[j] = total
