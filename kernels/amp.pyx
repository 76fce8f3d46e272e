"""The inner loop of AMP on S alone: no read of A."""

from libc.math cimport fabs, sqrt


cdef extern from "amp.h" nogil:
    void fq_matvec(const double *S, const double *z, double *out, Py_ssize_t n)
    void fq_spike_slab(const double *b, double a, double rho, double s2, double *mean, double *variance,
                       double *weight, double *totals, Py_ssize_t n)


def denoise(const double[:, ::1] S, double D, double[:, ::1] state, double[::1] prior, double phi2, double keep,
            int max_inner, double tolerance, bint learn):
    """`b = (S z − (Σv) z_old)/D, a = |z|²/D`, then the posterior of x given them, damped, until z stands still.

    state has rows (z, z_old, v, π, three of scratch), prior is (ρ, s2), both are overwritten; `keep` is the weight
    of the old z and v; ρ is learnt by EM where `learn` is true, s2 within a factor of two of phi2/(nρ).
    """
    cdef Py_ssize_t n = S.shape[0], j
    cdef double *z = &state[0, 0]
    cdef double *z_old = &state[1, 0]
    cdef double *v = &state[2, 0]
    cdef double *b = &state[4, 0]
    cdef double *mean = &state[5, 0]
    cdef double *variance = &state[6, 0]
    cdef double totals[2]
    cdef double a, spread, moved, expected, s2, rho
    cdef int step
    with nogil:
        for step in range(max_inner):
            fq_matvec(&S[0, 0], z, b, n)
            a = 0
            spread = 0
            for j in range(n):
                a += z[j] * z[j]
                spread += v[j]
            for j in range(n):
                b[j] = (b[j] - spread * z_old[j]) / D
            fq_spike_slab(b, a / D, prior[0], prior[1], mean, variance, &state[3, 0], totals, n)
            moved = 0
            for j in range(n):
                z_old[j] = z[j]
                z[j] = keep * z[j] + (1 - keep) * mean[j]
                v[j] = keep * v[j] + (1 - keep) * variance[j]
                moved += (z[j] - z_old[j]) * (z[j] - z_old[j])
            if learn:
                prior[0] = min(max(totals[0] / n, 2.0 / n), 1 - 1e-4)
            expected = phi2 / (n * prior[0])
            s2 = totals[1] / max(totals[0], 1e-300)
            prior[1] = min(max(s2, 0.5 * expected), 2 * expected)
            # A NaN ends the loop too; the caller looks at z.
            if not moved > tolerance * tolerance * phi2:
                break
