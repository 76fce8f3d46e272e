"""Products with sparse rows, of which the empty ones are not kept: see fastquad/measurements/structured/sparse.py."""

# The rows of one matrix are next to each other: those of matrix i are firsts[i] <= t < firsts[i + 1]. `by_column` has the
# rows again, in the order of their coordinates: those of coordinate k are column_firsts[k] to column_firsts[k + 1].

ctypedef fused number:
    double
    double complex


def rows(
    const number[::1] values,
    const int[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] places,
    const number[:, ::1] X,
    number[:, ::1] out,
):
    """`out[places[t]] = Σ_{e of row t} values[e] X[columns[e]]`; row t has the entries starts[t] to starts[t + 1]."""
    cdef Py_ssize_t t, e, s, b = X.shape[1]
    cdef number total
    with nogil:
        for t in range(places.shape[0]):
            if b == 1:
                total = 0.0
                for e in range(starts[t], starts[t + 1]):
                    total = total + values[e] * X[columns[e], 0]
                out[places[t], 0] = total
            else:
                for s in range(b):
                    out[places[t], s] = 0.0
                for e in range(starts[t], starts[t + 1]):
                    for s in range(b):
                        out[places[t], s] = out[places[t], s] + values[e] * X[columns[e], s]


def forms(
    const number[::1] values,
    const int[::1] columns,
    const Py_ssize_t[::1] starts,
    const int[::1] matrices,
    const int[::1] coordinates,
    const number[:, ::1] X,
    double[:, ::1] out,
):
    """`out[matrices[t]] += Re(X̄[coordinates[t]] Σ_{e of row t} values[e] X[columns[e]])`: quadratic forms."""
    cdef Py_ssize_t t, e, s, b = X.shape[1]
    cdef number total, x
    with nogil:
        for t in range(matrices.shape[0]):
            for s in range(b):
                total = 0.0
                for e in range(starts[t], starts[t + 1]):
                    total = total + values[e] * X[columns[e], s]
                x = X[coordinates[t], s]
                if number is double:
                    out[matrices[t], s] += x * total
                else:
                    out[matrices[t], s] += x.real * total.real + x.imag * total.imag


def gram(
    const double[::1] p,
    const int[::1] matrices,
    const int[::1] coordinates,
    const Py_ssize_t[::1] firsts,
    const Py_ssize_t[::1] by_column,
    const Py_ssize_t[::1] column_firsts,
    const double[::1] d,
    const int[::1] indices,
    const int[::1] indptr,
    Py_ssize_t[::1] place,
    double[::1] out,
):
    """`out = Σ_i d_i p_i p_i^T` on a pattern by columns that holds it; p_i has p[t] at coordinates[t]."""
    cdef Py_ssize_t k, e, t, q, a
    cdef double scaled
    with nogil:
        for k in range(indptr.shape[0] - 1):
            for q in range(indptr[k], indptr[k + 1]):
                place[indices[q]] = q
                out[q] = 0.0
            for e in range(column_firsts[k], column_firsts[k + 1]):
                t = by_column[e]
                scaled = d[matrices[t]] * p[t]
                for a in range(firsts[matrices[t]], firsts[matrices[t] + 1]):
                    out[place[coordinates[a]]] += scaled * p[a]


def gram_pairs(
    const double[::1] p,
    const int[::1] matrices,
    const int[::1] coordinates,
    const Py_ssize_t[::1] firsts,
    const Py_ssize_t[::1] by_column,
    const Py_ssize_t[::1] column_firsts,
    const double[::1] d,
    const int[::1] indices,
    const int[::1] indptr,
    Py_ssize_t[::1] place,
    double[::1] out,
):
    """The same of pairs of coordinates, Re and Im: p_i has p[2t], p[2t + 1] at coordinates[t]; each place is 2×2.

    The columns 2k and 2k + 1 of `out` are next to each other, each with the rows 2j and 2j + 1 for j of the pattern.
    """
    cdef Py_ssize_t k, e, t, q, a, at, width
    cdef double of_real, of_imag
    with nogil:
        for k in range(indptr.shape[0] - 1):
            width = 2 * (indptr[k + 1] - indptr[k])
            for q in range(indptr[k], indptr[k + 1]):
                place[indices[q]] = 2 * indptr[k] + 2 * q
            for q in range(4 * <Py_ssize_t> indptr[k], 4 * <Py_ssize_t> indptr[k + 1]):
                out[q] = 0.0
            for e in range(column_firsts[k], column_firsts[k + 1]):
                t = by_column[e]
                of_real, of_imag = d[matrices[t]] * p[2 * t], d[matrices[t]] * p[2 * t + 1]
                for a in range(firsts[matrices[t]], firsts[matrices[t] + 1]):
                    at = place[coordinates[a]]
                    out[at] += of_real * p[2 * a]
                    out[at + 1] += of_real * p[2 * a + 1]
                    out[at + width] += of_imag * p[2 * a]
                    out[at + width + 1] += of_imag * p[2 * a + 1]
