"""A step of Levenberg–Marquardt along a line; see descent.h."""

cdef extern from "descent.h" nogil:
    void line_terms(const double* W, const double* V, const double* d, const double* r, Py_ssize_t m, Py_ssize_t s,
                    double* sums)
    double line_move(const double* V, double u, const double* z, const double* y, Py_ssize_t m, Py_ssize_t s, double* W,
                     double* r)


def terms(const double[:, ::1] W, const double[:, ::1] V, const double[::1] d, const double[::1] r):
    """(r·p, p·p, r·q, p·q, q·q) with p = 2 W d and q = V d"""
    cdef double sums[5]
    with nogil:
        line_terms(&W[0, 0], &V[0, 0], &d[0], &r[0], W.shape[0], W.shape[1], sums)
    return sums[0], sums[1], sums[2], sums[3], sums[4]


def move(const double[:, ::1] V, double u, const double[::1] z, const double[::1] y, double[:, ::1] W, double[::1] r):
    """W += u V, then r = W z − y; returns ‖r‖²"""
    cdef double square
    with nogil:
        square = line_move(&V[0, 0], u, &z[0], &y[0], W.shape[0], W.shape[1], &W[0, 0], &r[0])
    return square
