"""Greedy growth from many seeds on a packed block of A."""

from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport free, malloc


cdef extern from "growth.h" nogil:
    enum:
        FQ_MULTIPLE
        FQ_MAX_SUPPORT
        FQ_TILE

    ctypedef struct fq_block:
        const float *pairs
        const float *y
        ptrdiff_t length
        ptrdiff_t p
        int width
        int nonnegative

    ctypedef struct fq_support:
        int size
        ptrdiff_t member[64]
        double z[64]
        double rss
        float *r
        float *W
        float *V
        float *scratch

    ctypedef struct fq_plan:
        int skip_first
        int skip_second
        int limit
        int milestone
        double cut

    void fq_grow(const fq_block *block, fq_support *T, ptrdiff_t seed, const fq_plan *plan, double *curve)
    void fq_load(const fq_block *block, fq_support *T)
    void fq_add(const fq_block *block, fq_support *T, ptrdiff_t j)
    void fq_add_pair(const fq_block *block, fq_support *T, ptrdiff_t j)
    void fq_fit(const fq_block *block, fq_support *T, double goal)
    int fq_best_gains(const fq_block *block, fq_support *T, int count, float *best, ptrdiff_t *where)
    void fq_prune(const fq_block *block, fq_support *T, double allowance, ptrdiff_t m)
    void fq_axpy(float c, const float *v, float *out, ptrdiff_t length)
    void fq_products(const float *pairs, const double *c, ptrdiff_t s, ptrdiff_t m, ptrdiff_t length, double *sums,
                     double *out)


#: Vectors over the measurements are padded with zeros to a multiple of this.
MULTIPLE = FQ_MULTIPLE
MAX_SUPPORT = FQ_MAX_SUPPORT


cdef class Block:
    """What growth works on: pairs (p(p+1)/2, length) of the first p coordinates, and y (length,).

    `width` places are added together: 2 for Re and Im of a complex entry. With `nonnegative` no value goes below zero.
    """

    cdef const float[:, ::1] pairs
    cdef const float[::1] y
    cdef fq_block view

    def __init__(self, const float[:, ::1] pairs, const float[::1] y, Py_ssize_t p, int width=1,
                 bint nonnegative=False):
        self.pairs, self.y = pairs, y
        self.view.pairs, self.view.y = &pairs[0, 0], &y[0]
        self.view.length, self.view.p, self.view.width = pairs.shape[1], p, width
        self.view.nonnegative = nonnegative

    @property
    def work_size(self):
        """How many floats a call needs to work in."""
        return (2 * FQ_MAX_SUPPORT + 3) * self.view.length


cdef class Plan:
    """Which additions pass over better candidates, the largest size, and where a run above `cut` is given up."""

    cdef fq_plan view

    def __init__(self, *, int skip_first, int skip_second, int limit, int milestone, double cut):
        self.view.skip_first, self.view.skip_second = skip_first, skip_second
        self.view.limit, self.view.milestone, self.view.cut = limit, milestone, cut


cdef void _work_in(fq_support *T, const fq_block *block, float[::1] work) noexcept:
    """Point a support at memory for its products."""
    T.W = &work[0]
    T.V = T.W + FQ_MAX_SUPPORT * block.length
    T.r = T.V + FQ_MAX_SUPPORT * block.length
    T.scratch = T.r + block.length


cdef void _take(const fq_block *block, fq_support *T, const Py_ssize_t *members, const double *values,
                Py_ssize_t size) noexcept nogil:
    """Put a support in T, with its products and residual."""
    cdef Py_ssize_t a
    T.size = <int>size
    for a in range(size):
        T.member[a] = members[a]
        T.z[a] = values[a]
    fq_load(block, T)


def grow(Block block, Plan plan, const Py_ssize_t[::1] seeds, float[::1] work, Py_ssize_t[:, ::1] members,
         double[:, ::1] values, double[:, ::1] curves, Py_ssize_t[::1] sizes):
    """Grow a support from each seed: its members, values, RSS curve and size."""
    cdef fq_support T
    cdef Py_ssize_t i, a
    _work_in(&T, &block.view, work)
    with nogil:
        for i in range(seeds.shape[0]):
            fq_grow(&block.view, &T, seeds[i], &plan.view, &curves[i, 0])
            sizes[i] = T.size
            for a in range(T.size):
                members[i, a] = T.member[a]
                values[i, a] = T.z[a]


def prune(Block block, Py_ssize_t m, double allowance, float[::1] work, Py_ssize_t[::1] members, double[::1] values):
    """Drop members while the RSS grows less than 1 + allowance/(m − s) times; the size that is left, and the RSS.

    members and values are overwritten.
    """
    cdef fq_support T
    cdef Py_ssize_t a
    _work_in(&T, &block.view, work)
    with nogil:
        _take(&block.view, &T, &members[0], &values[0], members.shape[0])
        fq_prune(&block.view, &T, allowance, m)
        for a in range(T.size):
            members[a] = T.member[a]
            values[a] = T.z[a]
    return T.size, T.rss


def extend(Block block, double goal, float[::1] work, const Py_ssize_t[:, ::1] members, double[:, ::1] values,
           double[::1] rss):
    """Add the last `width` members of each support to the others, at their best values, and fit all: values and RSS.

    members and values (supports, s); the last of each row of values are not looked at. A fit ends at an RSS of `goal`.
    """
    cdef fq_support T
    cdef Py_ssize_t i, a, last = members.shape[1] - block.view.width
    _work_in(&T, &block.view, work)
    with nogil:
        for i in range(members.shape[0]):
            _take(&block.view, &T, &members[i, 0], &values[i, 0], last)
            if block.view.width == 1:
                fq_add(&block.view, &T, members[i, last])
            else:
                fq_add_pair(&block.view, &T, members[i, last])
            fq_fit(&block.view, &T, goal)
            for a in range(T.size):
                values[i, a] = T.z[a]
            rss[i] = T.rss


def best_gains(Block block, float[::1] work, const Py_ssize_t[:, ::1] members, const double[:, ::1] values,
               Py_ssize_t[:, ::1] best, float[:, ::1] gains):
    """The coordinates with the largest gains for each support, the largest first, and their gains; of pairs the first.

    members and values (supports, s), best and gains (supports, at most p − s).
    """
    cdef fq_support T
    cdef Py_ssize_t i
    _work_in(&T, &block.view, work)
    with nogil:
        for i in range(members.shape[0]):
            _take(&block.view, &T, &members[i, 0], &values[i, 0], members.shape[1])
            fq_best_gains(&block.view, &T, <int>best.shape[1], &gains[i, 0], <ptrdiff_t *>&best[i, 0])


def add_scaled(float c, const float[::1] v, float[::1] out):
    """`out += c v`"""
    with nogil:
        fq_axpy(c, &v[0], &out[0], v.shape[0])


def products(const float[:, ::1] pairs, const double[::1] c, double[:, ::1] out):
    """`out[i, a] = Σ_b pairs[a, b][i] c_b`, (m, s), summed in double precision, of the packed pairs of s places.

    pairs has at least s(s+1)/2 rows, padded to at least m entries.
    """
    cdef Py_ssize_t s = c.shape[0]
    cdef double *sums
    if s == 0 or out.shape[0] == 0:
        return
    with nogil:
        sums = <double *>malloc(s * FQ_TILE * sizeof(double))
        if sums == NULL:
            with gil:
                raise MemoryError("no memory for the products of a tile")
        fq_products(&pairs[0, 0], &c[0], s, out.shape[0], pairs.shape[1], sums, &out[0, 0])
        free(sums)
