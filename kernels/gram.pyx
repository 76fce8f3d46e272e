"""Gram matrices of columns that fit in cache, and least squares by them; see gram.h."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "gram.h" nogil:
    enum: GRAM_MULTIPLE
    void gram_rows(const double* W, Py_ssize_t m, Py_ssize_t n, double* G)
    double gram_factor(Py_ssize_t n, double* G)
    void gram_solve(const double* U, Py_ssize_t n, double* b)
    void gram_aside(const double* W, const double* r, Py_ssize_t m, Py_ssize_t n, double* b)


cdef struct Work:
    # W with rows of `stride` numbers, padded with zeros, its Gram matrix and a vector; `memory` is to be freed.
    Py_ssize_t stride
    double* padded
    double* sums
    double* vector
    void* memory


cdef Work prepared(const double[:, ::1] W) except * nogil:
    """W padded, and its Gram matrix."""
    cdef Work at
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], i, j
    at.stride = (n + GRAM_MULTIPLE - 1) // GRAM_MULTIPLE * GRAM_MULTIPLE
    at.memory = malloc((m + at.stride + 1) * at.stride * sizeof(double) + 64)
    if at.memory == NULL:
        with gil:
            raise MemoryError("no memory for a copy of W")
    at.padded = <double*>((<uintptr_t>at.memory + 63) // 64 * 64)
    at.sums = at.padded + m * at.stride
    at.vector = at.sums + at.stride * at.stride
    for i in range(m):
        memcpy(at.padded + i * at.stride, &W[i, 0], n * sizeof(double))
        for j in range(n, at.stride):
            at.padded[i * at.stride + j] = 0
    gram_rows(at.padded, m, at.stride, at.sums)
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
        least = gram_factor(at.stride, at.sums)
        if least > 0:
            gram_aside(at.padded, &r[0], W.shape[0], at.stride, at.vector)
            gram_solve(at.sums, at.stride, at.vector)
            memcpy(&d[0], at.vector, n * sizeof(double))
            for j in range(n):
                memcpy(&U[j, j], at.sums + j * at.stride + j, (n - j) * sizeof(double))
        free(at.memory)
    return least / trace if trace > 0 else 0.0
