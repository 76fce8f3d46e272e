"""Contractions of computed tensors, a strip of a packed block at a time; see strips.h."""

from libc.stdint cimport int32_t

ctypedef fused real:
    float
    double

cdef extern from "strips.h" nogil:
    enum: LANES, GROUP
    Py_ssize_t group_offset(Py_ssize_t g, Py_ssize_t n)
    void strip_pairs(Py_ssize_t n, Py_ssize_t first, Py_ssize_t last, int32_t* j, int32_t* k)
    void strip_products(const double* P, Py_ssize_t n, Py_ssize_t first, Py_ssize_t last, const double* x, double* W)
    void packed_weighted_f32(const float* P, Py_ssize_t count, const double* w, double* S)
    void packed_weighted_f64(const double* P, Py_ssize_t count, const double* w, double* S)


def offset(Py_ssize_t group, Py_ssize_t n):
    """Where a group of rows begins in a packed block."""
    return group_offset(group, n)


def pairs(Py_ssize_t n, Py_ssize_t first, Py_ssize_t last, int32_t[::1] j, int32_t[::1] k):
    """j, k = row and column of each entry of the groups first..last-1; the row is -1 where it lies beyond n"""
    with nogil:
        strip_pairs(n, first, last, &j[0], &k[0])


def products(const double[:, ::1] P, Py_ssize_t first, Py_ssize_t last, const double[:, ::1] x, double[:, :, ::1] W,
             Py_ssize_t n):
    """W[s, k, l] += Σ_j Ã_l[k, j] x[s, j] over the entries of the groups first..last-1 and their mirror images; x and
    W are padded to a multiple of 4"""
    cdef Py_ssize_t s
    with nogil:
        for s in range(x.shape[0]):
            strip_products(&P[0, 0], n, first, last, &x[s, 0], &W[s, 0, 0])


def weighted(const real[:, :, ::1] P, const double[:, ::1] w, double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """S[s, e] += Σ_l w[s, 8 block + l] P[block, e, l] over all blocks, for the entries start <= e < stop, multiples of
    4"""
    cdef Py_ssize_t s, block, count = (stop - start) // GROUP
    with nogil:
        for block in range(P.shape[0]):
            for s in range(w.shape[0]):
                if real is float:
                    packed_weighted_f32(&P[block, start, 0], count, &w[s, block * LANES], &S[s, start])
                else:
                    packed_weighted_f64(&P[block, start, 0], count, &w[s, block * LANES], &S[s, start])


def transposed(const double[:, ::1] entries, real[:, :] out):
    """out[l, p] = entries[p, l], as many of the 8 measurements l as out has; its rows are contiguous"""
    cdef Py_ssize_t count = out.shape[1], start, p, l
    cdef real* row
    with nogil:
        # A few cache lines of entries at a time, which stay in the L1 cache for all measurements.
        for start in range(0, count, 64):
            for l in range(out.shape[0]):
                row = &out[l, 0]
                for p in range(start, min(count, start + 64)):
                    row[p] = <real>entries[p, l]
