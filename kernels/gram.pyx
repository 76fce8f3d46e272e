"""Gram matrices of columns that fit in cache, and least squares by them; see gram.h."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "gram.h" nogil:
    enum: GRAM_MULTIPLE
    void gram_rows(const double* W, Py_ssize_t m, Py_ssize_t n, double* G)
    double gram_factor(Py_ssize_t rows, Py_ssize_t n, double* G)
    void gram_rest(Py_ssize_t rows, Py_ssize_t n, double* G)
    void gram_solve(const double* U, Py_ssize_t n, double* b)
    void gram_aside(const double* W, const double* r, Py_ssize_t m, Py_ssize_t n, double* b)


cdef struct Work:
    # Columns side by side, rows of `stride` numbers, their Gram matrix and a vector; `memory` is to be freed.
    Py_ssize_t stride
    double* padded
    double* sums
    double* vector
    void* memory


cdef inline Py_ssize_t whole(Py_ssize_t n) noexcept nogil:
    """n, rounded up to whole vectors."""
    return (n + GRAM_MULTIPLE - 1) // GRAM_MULTIPLE * GRAM_MULTIPLE


cdef Work room(Py_ssize_t m, Py_ssize_t stride) except * nogil:
    """Memory for rows of this length."""
    cdef Work at
    at.stride = stride
    at.memory = malloc((m + stride + 1) * stride * sizeof(double) + 64)
    if at.memory == NULL:
        with gil:
            raise MemoryError("no memory for a copy of W")
    at.padded = <double*>((<uintptr_t>at.memory + 63) // 64 * 64)
    at.sums = at.padded + m * stride
    at.vector = at.sums + stride * stride
    return at


cdef void put(Work at, Py_ssize_t first, const double[:, ::1] W) noexcept nogil:
    """Copy W to the columns from `first` on, and zeros after it up to a whole vector."""
    cdef Py_ssize_t n = W.shape[1], i, j
    cdef double* row
    for i in range(W.shape[0]):
        row = at.padded + i * at.stride + first
        memcpy(row, &W[i, 0], n * sizeof(double))
        for j in range(n, whole(n)):
            row[j] = 0


cdef Work prepared(const double[:, ::1] W) except * nogil:
    """W padded, and its Gram matrix."""
    cdef Work at = room(W.shape[0], whole(W.shape[1]))
    put(at, 0, W)
    gram_rows(at.padded, W.shape[0], at.stride, at.sums)
    return at


def gram(const double[:, ::1] W, double[:, ::1] G):
    """G = W^T W"""
    cdef Py_ssize_t n = W.shape[1], j, k
    cdef Work at
    with nogil:
        at = prepared(W)
        for j in range(n):
            memcpy(&G[j, j], at.sums + j * at.stride + j, (n - j) * sizeof(double))
            for k in range(j):
                G[j, k] = at.sums[k * at.stride + j]
        free(at.memory)


def damped(const double[:, ::1] W, const double[::1] r, double damping, double[:, ::1] U, double[::1] d):
    """U^T U = W^T W + damping, of which only the upper half is written, and d = (U^T U)^{-1} W^T r

    Returns the least square of a pivot, as a share of the trace of U^T U; where that is not positive, d is not written.
    """
    cdef Py_ssize_t n = W.shape[1], j
    cdef Work at
    cdef double trace = 0, least
    with nogil:
        at = prepared(W)
        for j in range(n):
            at.sums[j * at.stride + j] += damping
            trace += at.sums[j * at.stride + j]
        for j in range(n, at.stride):
            at.sums[j * at.stride + j] = trace
        least = gram_factor(at.stride, at.stride, at.sums)
        if least > 0:
            gram_aside(at.padded, &r[0], W.shape[0], at.stride, at.vector)
            gram_solve(at.sums, at.stride, at.vector)
            memcpy(&d[0], at.vector, n * sizeof(double))
            for j in range(n):
                memcpy(&U[j, j], at.sums + j * at.stride + j, (n - j) * sizeof(double))
        free(at.memory)
    return least / trace if trace > 0 else 0.0


def beside(const double[:, ::1] W, const double[:, ::1] V, double[:, ::1] S):
    """S = V^T V − V^T W (W^T W)^{-1} W^T V, the Gram matrix of V off the span of W; whether W^T W is positive definite."""
    cdef Py_ssize_t m = W.shape[0], s = W.shape[1], n = V.shape[1], first = whole(s), j, k
    cdef Work at
    cdef double trace = 0, least
    cdef double* sums
    with nogil:
        at = room(m, first + whole(n))
        put(at, 0, W)
        put(at, first, V)
        gram_rows(at.padded, m, at.stride, at.sums)
        for j in range(s):
            trace += at.sums[j * at.stride + j]
        for j in range(s, first):
            at.sums[j * at.stride + j] = trace
        least = gram_factor(first, at.stride, at.sums)
        if least > 0:
            gram_rest(first, at.stride, at.sums)
            sums = at.sums + first * (at.stride + 1)
            for j in range(n):
                memcpy(&S[j, j], sums + j * at.stride + j, (n - j) * sizeof(double))
                for k in range(j):
                    S[j, k] = sums[k * at.stride + j]
        free(at.memory)
    return least > 0
