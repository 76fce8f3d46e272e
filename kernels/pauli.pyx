"""Sums over Pauli strings given by two masks each: see fastquad/measurements/structured/pauli.py."""

from libc.stdint cimport uint32_t

cdef extern from "pauli.h" nogil:
    void pauli_forms(const double *l, const double *r, Py_ssize_t n, const uint32_t *x, const Py_ssize_t *starts,
                     Py_ssize_t first, Py_ssize_t last, const uint32_t *z, double *work, double *out)
    void pauli_gradient(const double *v, Py_ssize_t n, const uint32_t *x, const Py_ssize_t *starts, Py_ssize_t first,
                        Py_ssize_t last, const uint32_t *z, const double *w, double *work, double *g)


def forms(const double[:, :, ::1] left, const double[:, ::1] right, const uint32_t[::1] x, const Py_ssize_t[::1] starts,
          Py_ssize_t first, Py_ssize_t last, const uint32_t[::1] z, double[::1] work, double[::1] out):
    """`out_t = Σ_j (−1)^{|z_t & j|} Re or Im conj(l_{j^x}) r_j` for the groups of strings from first to last."""
    with nogil:
        pauli_forms(&left[0, 0, 0], &right[0, 0], right.shape[1], &x[0], &starts[0], first, last, &z[0], &work[0],
                    &out[0])


def gradient(const double[:, ::1] v, const uint32_t[::1] x, const Py_ssize_t[::1] starts, Py_ssize_t first,
             Py_ssize_t last, const uint32_t[::1] z, const double[::1] w, double[::1] work, double[:, :, ::1] out):
    """`out += Σ_t w_t i^{c_t mod 2} X^x Z^z v`, in the copies of out, for the groups of strings from first to last."""
    with nogil:
        pauli_gradient(&v[0, 0], v.shape[1], &x[0], &starts[0], first, last, &z[0], &w[0], &work[0], &out[0, 0, 0])
