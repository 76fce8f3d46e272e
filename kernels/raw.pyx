"""Contractions of raw tensors, for a range of measurements; see raw.h for the formulas.

Each function checks nothing and lets go of the GIL; fastquad.measurements calls it once a chunk.
"""

ctypedef fused real:
    float
    double

# A is of either type: the names are macros that choose the leaf.
cdef extern from "raw.h" nogil:
    void raw_products(const void* A, Py_ssize_t n, const double* x, double* w)
    void raw_products_on(const void* A, Py_ssize_t n, const Py_ssize_t* support, Py_ssize_t s, const double* x, double* w)
    void raw_right(const void* A, Py_ssize_t n, const double* x, double* w)
    void raw_left(const void* A, Py_ssize_t n, const double* x, double* w)
    double raw_quadratic(const void* A, Py_ssize_t n, const double* z, const double* v)
    void raw_weighted(const void* A, Py_ssize_t stride, Py_ssize_t count, const double* w, double* S)
    void raw_weighted_one(const void* A, Py_ssize_t count, double w, double* S)


# A is (m, n, n), row by row; measurements start..stop-1 are handled.


def products(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = (A_i x + A_i^T x) / 2"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            raw_products(&A[i, 0, 0], n, &x[0], &W[i, 0])


def products_on(const real[:, :, ::1] A, const Py_ssize_t[::1] support, const double[::1] x, double[:, ::1] W,
                Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Σ_{j in S} (A_i[:, j] + A_i[j, :]) x_S[j] / 2"""
    cdef Py_ssize_t n = A.shape[1], s = support.shape[0], i
    if s == 0:
        W[start:stop, :] = 0
        return
    with nogil:
        for i in range(start, stop):
            raw_products_on(&A[i, 0, 0], n, &support[0], s, &x[0], &W[i, 0])


def right(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = A_i x"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            raw_right(&A[i, 0, 0], n, &x[0], &W[i, 0])


def left(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = A_i^T x"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            raw_left(&A[i, 0, 0], n, &x[0], &W[i, 0])


cdef void add_weighted(const real* A, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t length, const double* w,
                       double* S) noexcept nogil:
    """S[k] += Σ_{t < count} w[t] A[t * stride + k] for k < length, four matrices at a time"""
    cdef Py_ssize_t t = 0
    while t + 4 <= count:
        raw_weighted(A + t * stride, stride, length, w + t, S)
        t += 4
    while t < count:
        raw_weighted_one(A + t * stride, length, w[t], S)
        t += 1


def weighted_sum(const real[:, :, ::1] A, const double[:, ::1] w, double[:, :, ::1] S, Py_ssize_t start,
                 Py_ssize_t stop):
    """S[s, j] = Σ_i w[s, i] A_i[j] for the rows start..stop-1, not symmetrised"""
    cdef Py_ssize_t m = A.shape[0], n = A.shape[1], b = w.shape[0], s, i
    S[:, start:stop, :] = 0
    with nogil:
        # Four matrices at a time, so that what b sums share is still in cache for the next of them.
        i = 0
        while i < m:
            for s in range(b):
                add_weighted(&A[i, start, 0], n * n, min(4, m - i), (stop - start) * n, &w[s, i], &S[s, start, 0])
            i += 4


def quadratic(const real[:, :, ::1] A, const double[::1] z, const double[::1] v, double[::1] q, Py_ssize_t start,
              Py_ssize_t stop):
    """q[i] = <A_i, zz^T + diag(v)>"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            q[i] = raw_quadratic(&A[i, 0, 0], n, &z[0], &v[0])


def sweep(const real[:, :, ::1] A, const double[:, ::1] z, const double[:, ::1] v, double[:, ::1] r,
          double[:, :, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """r[s, i] -= <A_i, zz^T + diag(v)>, then S[s] += Σ_i r[s, i] A_i while the matrices are in cache"""
    cdef Py_ssize_t n = A.shape[1], b = z.shape[0], i, s, t, count
    with nogil:
        i = start
        while i < stop:
            count = min(4, stop - i)
            for t in range(i, i + count):
                for s in range(b):
                    r[s, t] -= raw_quadratic(&A[t, 0, 0], n, &z[s, 0], &v[s, 0])
            for s in range(b):
                add_weighted(&A[i, 0, 0], n * n, count, n * n, &r[s, i], &S[s, 0, 0])
            i += count
