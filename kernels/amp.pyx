"""The inner loop of AMP on S alone: no read of A."""

from libc.math cimport fabs, sqrt


cdef extern from "amp.h" nogil:
    void fq_matvec(const double *S, const double *z, double *out, Py_ssize_t n)
    void fq_spike_slab(const double *b, double a, double rho, double s2, double *mean, double *variance,
                       double *weight, double *totals, Py_ssize_t n)


cdef class Estimate:
    """What AMP holds of x: z, the z before, the variances v and the weights π, (n,) each; work is (3, n)."""

    cdef double[::1] z, z_old, v, weight
    cdef double[:, ::1] work

    def __init__(self, double[::1] z, double[::1] z_old, double[::1] v, double[::1] weight, double[:, ::1] work):
        self.z, self.z_old, self.v, self.weight, self.work = z, z_old, v, weight, work


cdef class SpikeSlab:
    """The prior `ρ N(0, s2) + (1−ρ) δ_0`; ρ is learnt where `learns`, s2 always."""

    cdef readonly double rho, s2
    cdef bint learns

    def __init__(self, double rho, double s2, bint learns):
        self.rho, self.s2, self.learns = rho, s2, learns


def denoise(const double[:, ::1] S, double D, Estimate at, SpikeSlab prior, double phi2, double keep, int max_inner,
            double tolerance):
    """`b = (S z − (Σv) z_old)/D, a = |z|²/D`, then the posterior of x given them, damped, until z stands still.

    The estimate and the prior are updated in place; `keep` is the weight of the old z and v; ρ and s2 are learnt by EM,
    s2 within a factor of two of phi2/(nρ).
    """
    cdef Py_ssize_t n = S.shape[0], j
    cdef double *z = &at.z[0]
    cdef double *z_old = &at.z_old[0]
    cdef double *v = &at.v[0]
    cdef double *b = &at.work[0, 0]
    cdef double *mean = &at.work[1, 0]
    cdef double *variance = &at.work[2, 0]
    cdef double totals[2]
    cdef double a, spread, moved, expected
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
            fq_spike_slab(b, a / D, prior.rho, prior.s2, mean, variance, &at.weight[0], totals, n)
            moved = 0
            for j in range(n):
                z_old[j] = z[j]
                z[j] = keep * z[j] + (1 - keep) * mean[j]
                v[j] = keep * v[j] + (1 - keep) * variance[j]
                moved += (z[j] - z_old[j]) * (z[j] - z_old[j])
            if prior.learns:
                prior.rho = min(max(totals[0] / n, 2.0 / n), 1 - 1e-4)
            expected = phi2 / (n * prior.rho)
            prior.s2 = min(max(totals[1] / max(totals[0], 1e-300), 0.5 * expected), 2 * expected)
            # A NaN ends the loop too; the caller looks at z.
            if not moved > tolerance * tolerance * phi2:
                break
