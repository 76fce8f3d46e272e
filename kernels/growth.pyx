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
    void fq_load(const fq_block *block, fq_support *T)
    void fq_add(const fq_block *block, fq_support *T, ptrdiff_t j)
    void fq_fit(const fq_block *block, fq_support *T, double goal)
    int fq_best_gains(const fq_block *block, fq_support *T, int count, float *best, ptrdiff_t *where)
    void fq_prune(const fq_block *block, fq_support *T, double allowance, ptrdiff_t m)
    void fq_axpy(float c, const float *v, float *out, ptrdiff_t length)


LANES = FQ_LANES
MAX_SUPPORT = FQ_MAX_SUPPORT


def work_size(Py_ssize_t length):
    """How many floats `grow` needs to work in."""
    return (2 * FQ_MAX_SUPPORT + 3) * length


cdef void _bind(fq_block *block, fq_support *T, const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p,
                float[::1] work) noexcept:
    """Point the structures at the arrays."""
    cdef Py_ssize_t length = pairs.shape[1]
    block.pairs = &pairs[0, 0]
    block.y = &y[0]
    block.length = length
    block.p = p
    T.W = &work[0]
    T.V = T.W + FQ_MAX_SUPPORT * length
    T.r = T.V + FQ_MAX_SUPPORT * length
    T.scratch = T.r + length


cdef void _take(const fq_block *block, fq_support *T, const Py_ssize_t *members, const double *values,
                Py_ssize_t size) noexcept nogil:
    """Put a support in T, with its products and residual."""
    cdef Py_ssize_t a
    T.size = <int>size
    for a in range(size):
        T.member[a] = members[a]
        T.z[a] = values[a]
    fq_load(block, T)


def grow(const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, const Py_ssize_t[::1] seeds,
         const int[::1] plan, double cut, float[::1] work, Py_ssize_t[:, ::1] members, double[:, ::1] values,
         double[:, ::1] curves, Py_ssize_t[::1] sizes):
    """Grow a support of the first p coordinates from each seed: its members, values, RSS curve and size.

    pairs (p(p+1)/2, length), y (length,); plan is (skip1, skip2, limit, checkpoint): which additions to skip, the
    largest size, and the size at which a run with an RSS above `cut` is given up.
    """
    cdef fq_block block
    cdef fq_support T
    cdef Py_ssize_t i, a
    _bind(&block, &T, pairs, y, p, work)
    with nogil:
        for i in range(seeds.shape[0]):
            fq_grow(&block, &T, seeds[i], plan[0], plan[1], plan[2], plan[3], cut, &curves[i, 0])
            sizes[i] = T.size
            for a in range(T.size):
                members[i, a] = T.member[a]
                values[i, a] = T.z[a]


def prune(const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, Py_ssize_t m, double allowance,
          float[::1] work, Py_ssize_t[::1] members, double[::1] values):
    """Drop members while the RSS grows less than 1 + allowance/(m − s) times; the size that is left, and the RSS.

    members and values are overwritten.
    """
    cdef fq_block block
    cdef fq_support T
    cdef Py_ssize_t a
    _bind(&block, &T, pairs, y, p, work)
    with nogil:
        _take(&block, &T, &members[0], &values[0], members.shape[0])
        fq_prune(&block, &T, allowance, m)
        for a in range(T.size):
            members[a] = T.member[a]
            values[a] = T.z[a]
    return T.size, T.rss


def extend(const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, double goal, float[::1] work,
           const Py_ssize_t[:, ::1] members, double[:, ::1] values, double[::1] rss):
    """Add the last member of each support to the others, at its best value, and fit all: values and RSS.

    members and values (supports, s); the last of each row of values is not looked at. A fit ends at an RSS of `goal`.
    """
    cdef fq_block block
    cdef fq_support T
    cdef Py_ssize_t i, a, last = members.shape[1] - 1
    _bind(&block, &T, pairs, y, p, work)
    with nogil:
        for i in range(members.shape[0]):
            _take(&block, &T, &members[i, 0], &values[i, 0], last)
            fq_add(&block, &T, members[i, last])
            fq_fit(&block, &T, goal)
            for a in range(T.size):
                values[i, a] = T.z[a]
            rss[i] = T.rss


def best_gains(const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, float[::1] work,
               const Py_ssize_t[:, ::1] members, const double[:, ::1] values, Py_ssize_t[:, ::1] best,
               float[:, ::1] gains):
    """The coordinates with the largest gains for each support, the largest first, and their gains.

    members and values (supports, s), best and gains (supports, at most p − s).
    """
    cdef fq_block block
    cdef fq_support T
    cdef Py_ssize_t i
    _bind(&block, &T, pairs, y, p, work)
    with nogil:
        for i in range(members.shape[0]):
            _take(&block, &T, &members[i, 0], &values[i, 0], members.shape[1])
            fq_best_gains(&block, &T, <int>best.shape[1], &gains[i, 0], <ptrdiff_t *>&best[i, 0])


def add_scaled(float c, const float[::1] v, float[::1] out):
    """`out += c v`"""
    with nogil:
        fq_axpy(c, &v[0], &out[0], v.shape[0])
