"""Products with sparse rows, of which the empty ones are not kept: see fastquad/measurements/structured/sparse.py."""

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
