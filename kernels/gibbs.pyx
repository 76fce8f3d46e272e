"""Sweeps of a sampler on a packed block of A: of a spike-and-slab posterior, or of signals of a few values."""

cdef extern from "gibbs_pairs.h" nogil:
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
                             const double *uniform, const double *normal, double *z, float *r, float *W)
    Py_ssize_t fq_pairs_sweep(const fq_block *block, const fq_posterior *post, const Py_ssize_t *order,
                             const double *uniform, const double *normal, double *z, float *r, float *W)
    Py_ssize_t fq_values_sweep(const fq_block *block, double beta, const double *values, Py_ssize_t count,
                               const Py_ssize_t *order, const double *other, const double *taken, double *z,
                               float *r, float *W)


cdef class Chain:
    """A Markov chain: pairs (p(p+1)/2, length) of A, y (length,), the sample z (p,), work (p + 1, length).

    z is overwritten by every sweep. ρ follows its share of nonzeros; the variance of the slab is norm2/(pρ). `positive`
    keeps z from being negative. `turning` says that Re and Im of complex entries are neighbours: they are drawn together.
    """

    cdef const float[:, ::1] pairs
    cdef const float[::1] y
    cdef double[::1] z
    cdef float[:, ::1] work
    cdef fq_block block
    cdef fq_posterior post
    cdef double norm2
    cdef bint turning

    def __init__(self, const float[:, ::1] pairs, const float[::1] y, double[::1] z, float[:, ::1] work, *,
                 double rho, double norm2, bint positive=False, bint turning=False):
        self.turning = turning
        self.pairs, self.y, self.z, self.work, self.norm2 = pairs, y, z, work, norm2
        self.block.pairs, self.block.y = &pairs[0, 0], &y[0]
        self.block.length, self.block.p = pairs.shape[1], z.shape[0]
        self.post.rho, self.post.positive = rho, positive

    def anneal(self, const double[::1] betas, const Py_ssize_t[:, ::1] order, const double[:, ::1] uniform,
               const double[:, ::1] normal):
        """One sweep at each β = 1/(2σ²): how many coordinates moved in all, and |r|².

        order, uniform and normal are (sweeps, p): the order of the coordinates, and the random numbers of their draws. Of
        complex entries order and uniform are (sweeps, p/2).
        """
        cdef Py_ssize_t sweep, j, nonzeros, p = self.block.p
        cdef Py_ssize_t moved = 0
        cdef float *W = &self.work[0, 0]
        cdef float *r = &self.work[p, 0]
        cdef double square = 0
        with nogil:
            for sweep in range(betas.shape[0]):
                if sweep % 16 == 0:
                    # Single precision drifts: compute W and r from scratch now and then.
                    fq_gibbs_load(&self.block, &self.z[0], r, W)
                self.post.beta = betas[sweep]
                self.post.s2 = self.norm2 / (p * self.post.rho)
                if self.turning:
                    moved += fq_pairs_sweep(&self.block, &self.post, &order[sweep, 0], &uniform[sweep, 0],
                                            &normal[sweep, 0], &self.z[0], r, W)
                else:
                    moved += fq_gibbs_sweep(&self.block, &self.post, &order[sweep, 0], &uniform[sweep, 0],
                                            &normal[sweep, 0], &self.z[0], r, W)
                nonzeros = 0
                for j in range(p):
                    if self.z[j] != 0:
                        nonzeros += 1
                self.post.rho = min(max((nonzeros + 1.0) / (p + 2.0), 2.0 / p), 0.999)
            for j in range(self.block.length):
                square += r[j] * r[j]
        return moved, square


cdef class ValuesChain:
    """A Markov chain of signals whose coordinates have one of the values, which ascend; the rest is as for `Chain`."""

    cdef const float[:, ::1] pairs
    cdef const float[::1] y
    cdef const double[::1] values
    cdef double[::1] z
    cdef float[:, ::1] work
    cdef fq_block block

    def __init__(self, const float[:, ::1] pairs, const float[::1] y, const double[::1] values, double[::1] z,
                 float[:, ::1] work):
        self.pairs, self.y, self.values, self.z, self.work = pairs, y, values, z, work
        self.block.pairs, self.block.y = &pairs[0, 0], &y[0]
        self.block.length, self.block.p = pairs.shape[1], z.shape[0]

    def anneal(self, const double[::1] betas, const Py_ssize_t[:, ::1] order, const double[:, ::1] other,
               const double[:, ::1] taken, *, double enough):
        """One sweep at each β = 1/(2σ²), until |r|² < enough: how many coordinates moved in all, and |r|².

        order (sweeps, p) is that of the coordinates; other and taken, uniform numbers, tell which value is proposed to
        each, and whether it is taken.
        """
        cdef Py_ssize_t sweep, j, p = self.block.p
        cdef Py_ssize_t moved = 0
        cdef float *W = &self.work[0, 0]
        cdef float *r = &self.work[p, 0]
        cdef double square = 0
        with nogil:
            for sweep in range(betas.shape[0]):
                if sweep % 16 == 0:
                    # Single precision drifts: compute W and r from scratch now and then.
                    fq_gibbs_load(&self.block, &self.z[0], r, W)
                moved += fq_values_sweep(&self.block, betas[sweep], &self.values[0], self.values.shape[0],
                                         &order[sweep, 0], &other[sweep, 0], &taken[sweep, 0], &self.z[0], r, W)
                square = 0
                for j in range(self.block.length):
                    square += r[j] * r[j]
                if square < enough:
                    break
        return moved, square
