"""Sweeps of a spike-and-slab Gibbs sampler on a packed block of A."""

cdef extern from "gibbs.h" nogil:
    ctypedef struct fq_block:
        const float *pairs
        const float *y
        Py_ssize_t length
        Py_ssize_t p

    ctypedef struct fq_posterior:
        double beta
        double rho
        double s2
        int positive

    void fq_gibbs_load(const fq_block *block, const double *z, float *r, float *W)
    Py_ssize_t fq_gibbs_sweep(const fq_block *block, const fq_posterior *post, const Py_ssize_t *order,
                             const double *random, double *z, float *r, float *W)


def anneal(const float[:, ::1] pairs, const float[::1] y, const double[::1] betas, double rho, double norm2,
           const Py_ssize_t[:, ::1] order, const double[:, :, ::1] random, double[::1] z, float[:, ::1] work,
           bint positive=False):
    """One sweep at each β = 1/(2σ²), from z, which is overwritten; how many coordinates moved in all, and |r|².

    ρ follows the share of nonzeros, s2 is norm2/(pρ). order (sweeps, p), random (sweeps, p, 2): a uniform and a normal
    number each; work (p + 1, length). `positive` keeps z from being negative.
    """
    cdef fq_block block
    cdef fq_posterior post
    cdef Py_ssize_t sweep, j, nonzeros, p = z.shape[0], length = pairs.shape[1]
    cdef Py_ssize_t moved = 0
    cdef float *W = &work[0, 0]
    cdef float *r = &work[p, 0]
    cdef double square = 0
    block.pairs = &pairs[0, 0]
    block.y = &y[0]
    block.length = length
    block.p = p
    post.rho = rho
    post.positive = positive
    with nogil:
        for sweep in range(betas.shape[0]):
            if sweep % 16 == 0:
                # Single precision drifts: from scratch again now and then.
                fq_gibbs_load(&block, &z[0], r, W)
            post.beta = betas[sweep]
            post.s2 = norm2 / (p * post.rho)
            moved += fq_gibbs_sweep(&block, &post, &order[sweep, 0], &random[sweep, 0, 0], &z[0], r, W)
            nonzeros = 0
            for j in range(p):
                if z[j] != 0:
                    nonzeros += 1
            post.rho = min(max((nonzeros + 1.0) / (p + 2.0), 2.0 / p), 0.999)
        for j in range(length):
            square += r[j] * r[j]
    return moved, square, post.rho
