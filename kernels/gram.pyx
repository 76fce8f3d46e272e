"""Gram matrices of columns that fit in cache; see gram.h."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "gram.h" nogil:
    enum: GRAM_MULTIPLE
    void gram_rows(const double* W, Py_ssize_t m, Py_ssize_t n, double* G)


def gram(const double[:, ::1] W, double[:, ::1] G):
    """G = W^T W"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], wide = (n + GRAM_MULTIPLE - 1) // GRAM_MULTIPLE * GRAM_MULTIPLE
    cdef Py_ssize_t i, j, k
    cdef double value
    cdef void* memory
    cdef double* padded
    cdef double* sums
    with nogil:
        memory = malloc((m + wide) * wide * sizeof(double) + 64)
        if memory == NULL:
            with gil:
                raise MemoryError("no memory for a copy of W")
        padded = <double*>((<uintptr_t>memory + 63) // 64 * 64)
        sums = padded + m * wide
        for i in range(m):
            memcpy(padded + i * wide, &W[i, 0], n * sizeof(double))
            for j in range(n, wide):
                padded[i * wide + j] = 0
        gram_rows(padded, m, wide, sums)
        for j in range(n):
            memcpy(&G[j, j], sums + j * wide + j, (n - j) * sizeof(double))
            for k in range(j):
                G[j, k] = sums[k * wide + j]
        free(memory)
