# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, language_level=3
"""Greedy growth from many seeds on a packed block of A."""

from libc.stddef cimport ptrdiff_t


cdef extern from "growth.h" nogil:
    enum:
        FQ_LANES
        FQ_MAX_SUPPORT

    ctypedef struct fq_block:
        const float *pairs
        const float *y
        ptrdiff_t length
        ptrdiff_t p

    ctypedef struct fq_support:
        int size
        ptrdiff_t member[64]
        double z[64]
        double rss
        float *r
        float *W
        float *V
        float *scratch

    void fq_grow(const fq_block *block, fq_support *T, ptrdiff_t seed, int skip1, int skip2, int limit,
                 int checkpoint, double cut, double *curve)


LANES = FQ_LANES
MAX_SUPPORT = FQ_MAX_SUPPORT


def work_size(Py_ssize_t length):
    """How many floats `grow` needs to work in."""
    return (2 * FQ_MAX_SUPPORT + 3) * length


def grow(const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, const Py_ssize_t[::1] seeds,
         const int[::1] plan, double cut, float[::1] work, Py_ssize_t[:, ::1] members, double[:, ::1] values,
         double[:, ::1] curves, Py_ssize_t[::1] sizes):
    """Grow a support of the first p coordinates from each seed: its members, values, RSS curve and size.

    pairs (p(p+1)/2, length), y (length,); plan is (skip1, skip2, limit, checkpoint): which additions to skip, the
    largest size, and the size at which a run with an RSS above `cut` is given up.
    """
    cdef fq_block block
    cdef fq_support T
    cdef Py_ssize_t i, a, length = pairs.shape[1]
    block.pairs = &pairs[0, 0]
    block.y = &y[0]
    block.length = length
    block.p = p
    T.W = &work[0]
    T.V = T.W + FQ_MAX_SUPPORT * length
    T.r = T.V + FQ_MAX_SUPPORT * length
    T.scratch = T.r + length
    with nogil:
        for i in range(seeds.shape[0]):
            fq_grow(&block, &T, seeds[i], plan[0], plan[1], plan[2], plan[3], cut, &curves[i, 0])
            sizes[i] = T.size
            for a in range(T.size):
                members[i, a] = T.member[a]
                values[i, a] = T.z[a]
