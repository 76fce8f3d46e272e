"""Exhaustive searches for points with given distances, on a line and on a circle: see points.h."""

from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport calloc, free, malloc

import numpy as np


cdef extern from "points.h" nogil:
    enum:
        FQ_SEEN_ALL
        FQ_FOUND
        FQ_PAUSED
        FQ_NO_MEMORY

    ctypedef struct fq_table:
        const double *value
        int *left
        const int *bucket
        ptrdiff_t u
        ptrdiff_t buckets
        double scale
        double reach
        int doubt

    ctypedef struct fq_placed:
        fq_table table
        double length
        int circle
        int n
        int k
        int best
        double *x
        double *furthest
        int *took
        long long nodes

    ctypedef struct fq_line:
        fq_placed placed
        ptrdiff_t *top
        int *option
        int *chosen
        int *only_left
        int *partner
        int unpaired

    ctypedef struct fq_level:
        int *alive
        int *a
        int *b
        ptrdiff_t n_alive
        int placed

    ctypedef struct fq_circle:
        fq_placed placed
        const double *place
        const int *mirror
        int *who
        int *since
        int *ruled
        int *pairs_of
        fq_level *level
        int depth
        int ready
        double few

    int fq_place(fq_placed *s, double p)
    int fq_line_run(fq_line *s, long long budget)
    int fq_circle_run(fq_circle *s, long long budget)


SEEN_ALL, FOUND, PAUSED = FQ_SEEN_ALL, FQ_FOUND, FQ_PAUSED


cdef class _Search:
    """What both searches keep: the table of distances, and the points that are placed."""

    cdef const double[::1] value
    cdef int[::1] left
    cdef const int[::1] bucket
    cdef double[::1] x
    cdef double[::1] furthest
    cdef int[::1] took

    cdef void keep(self, fq_placed *at, const double[::1] value, int[::1] left, const int[::1] bucket, double scale,
                   double reach, Py_ssize_t n, double length):
        self.value, self.left, self.bucket = value, left, bucket
        self.x, self.furthest, self.took = np.zeros(n), np.zeros(n), np.zeros(n * (n - 1) // 2, dtype=np.intc)
        at.table.value, at.table.left, at.table.bucket = &value[0], &left[0], &bucket[0]
        at.table.u, at.table.buckets = value.shape[0], bucket.shape[0] - 1
        at.table.scale, at.table.reach, at.table.doubt = scale, reach, 0
        at.length, at.n, at.k, at.best, at.nodes = length, n, 1, 1, 0
        at.x, at.furthest, at.took = &self.x[0], &self.furthest[0], &self.took[0]


cdef class Line(_Search):
    """The search on a line, for n > 2 points; `left` (u,) is written to.

    `value` (u,) are the distances, ascending, `bucket` (b + 1,) the first class in each b-th of their range.
    """

    cdef fq_line state
    cdef Py_ssize_t[::1] top
    cdef int[::1] option
    cdef int[::1] chosen
    cdef int[::1] only_left
    cdef int[::1] partner

    def __init__(self, const double[::1] value, int[::1] left, const int[::1] bucket, double scale, double reach,
                 Py_ssize_t n):
        cdef fq_placed *at = &self.state.placed
        cdef Py_ssize_t u = value.shape[0]
        self.keep(at, value, left, bucket, scale, reach, n, value[u - 1])
        at.circle = 0
        self.top = np.zeros(n + 1, dtype=np.intp)
        self.option, self.only_left = np.zeros(n + 1, dtype=np.intc), np.zeros(n + 1, dtype=np.intc)
        self.chosen, self.partner = np.zeros(n, dtype=np.intc), np.zeros(n, dtype=np.intc)
        self.state.top, self.state.option, self.state.chosen = <ptrdiff_t *>&self.top[0], &self.option[0], &self.chosen[0]
        self.state.only_left, self.state.partner = &self.only_left[0], &self.partner[0]
        fq_place(at, value[u - 1])
        at.nodes = 0
        self.partner[0], self.partner[1] = 1, 0
        self.top[1] = u - 1

    def run(self, long long budget):
        """Go on: SEEN_ALL, FOUND, or PAUSED after `budget` choices."""
        cdef int end
        with nogil:
            end = fq_line_run(&self.state, budget)
        return end

    @property
    def found(self):
        """The positions of a solution, (n,)."""
        return np.array(self.x)

    @property
    def best(self):
        """The positions where most were placed."""
        return np.array(self.furthest[: self.state.placed.best])

    @property
    def nodes(self):
        """How often a point was tried."""
        return self.state.placed.nodes

    @property
    def doubt(self):
        """Whether two distances were too near to each other to tell which one a pair has."""
        return bool(self.state.placed.table.doubt)


cdef class Circle(_Search):
    """The search on a circle, for n > 2 points, two of them at 0 and at `start`; `left` (u,) is written to.

    `value` (u,) are the shorter arcs, ascending; `place` (p,) the candidates, ascending, `mirror` (p,) which of them is
    at start − place.
    """

    cdef fq_circle state
    cdef const double[::1] place
    cdef const int[::1] mirror
    cdef int[::1] who
    cdef int[::1] since
    cdef int[::1] ruled
    cdef int[::1] pairs_of

    def __init__(self, const double[::1] value, int[::1] left, const int[::1] bucket, double scale, double reach,
                 Py_ssize_t n, double length, double start, const double[::1] place, const int[::1] mirror, double few):
        cdef fq_placed *at = &self.state.placed
        cdef Py_ssize_t i, count = place.shape[0]
        self.keep(at, value, left, bucket, scale, reach, n, length)
        at.circle = 1
        self.place, self.mirror, self.pairs_of = place, mirror, np.zeros(value.shape[0], dtype=np.intc)
        self.state.place, self.state.mirror, self.state.pairs_of = &place[0], &mirror[0], &self.pairs_of[0]
        self.who = np.zeros(n, dtype=np.intc)
        self.since, self.ruled = np.zeros(count, dtype=np.intc), np.zeros(count, dtype=np.intc)
        self.state.who, self.state.since = &self.who[0], &self.since[0]
        self.state.ruled = &self.ruled[0]
        self.state.few = few
        fq_place(at, start)
        at.nodes = 0
        self.state.level = <fq_level *>calloc(n + 1, sizeof(fq_level))
        if self.state.level == NULL:
            raise MemoryError
        self.state.level[0].alive = <int *>malloc(count * sizeof(int))
        if self.state.level[0].alive == NULL:
            raise MemoryError
        for i in range(count):
            self.state.level[0].alive[i] = i
        self.state.level[0].n_alive, self.state.level[0].placed = count, 2

    def __dealloc__(self):
        cdef int i
        if self.state.level == NULL:
            return
        for i in range(self.state.placed.n + 1):
            free(self.state.level[i].alive)
            free(self.state.level[i].a)
            free(self.state.level[i].b)
        free(self.state.level)

    def run(self, long long budget):
        """Go on: SEEN_ALL, FOUND, or PAUSED after `budget` choices."""
        cdef int end
        with nogil:
            end = fq_circle_run(&self.state, budget)
        if end == FQ_NO_MEMORY:
            raise MemoryError
        return end

    @property
    def found(self):
        """The positions of a solution, (n,)."""
        return np.array(self.x)

    @property
    def best(self):
        """The positions where most were placed."""
        return np.array(self.furthest[: self.state.placed.best])

    @property
    def nodes(self):
        """How often a point was tried."""
        return self.state.placed.nodes

    @property
    def doubt(self):
        """Whether two distances were too near to each other to tell which one a pair has."""
        return bool(self.state.placed.table.doubt)
