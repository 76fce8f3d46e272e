"""The posterior of a piecewise constant signal: where it jumps, and its levels, summed over all ways to cut it."""

from libc.math cimport INFINITY, exp, log

import numpy as np


def change_points(const double[::1] b, double a, double h, double s2):
    """Given `b = a x + sqrt(a) N(0, I)`, a jump with probability h before each coordinate and levels N(0, s2).

    Returns the means (n,), the second moments (n,), P(a jump before j) (n,) with 1 at j = 0, the expected number of
    intervals and the expected sum of their squared levels. O(n²), with a table of n(n + 1)/2 numbers.
    """
    cdef Py_ssize_t n = b.shape[0], i, j, at
    cdef double jump = log(h), stay = log(1 - h)
    cdef double P, B, top, total, share, level, square, segments = 0, squares = 0
    # Z[row of j] holds the log of what the intervals [i, j) contribute, i < j; F and G sum what is before and after.
    table = np.empty(n * (n + 1) // 2)
    cdef double[::1] Z = table
    cdef double[::1] F = np.zeros(n + 1), G = np.zeros(n + 1), sums = np.zeros(n + 1), constant = np.empty(n + 1)
    mean_array, second_array, jump_array = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    cdef double[::1] mean = mean_array, second = second_array, before = jump_array
    with nogil:
        for j in range(n):
            sums[j + 1] = sums[j] + b[j]
            # What depends on the length alone.
            constant[j + 1] = -0.5 * log(s2 * (a * (j + 1) + 1 / s2)) + j * stay
        for j in range(1, n + 1):
            at = j * (j - 1) // 2
            top = -INFINITY
            for i in range(j):
                B = sums[j] - sums[i]
                Z[at + i] = constant[j - i] + 0.5 * B * B / (a * (j - i) + 1 / s2) + (jump if i > 0 else 0)
                if F[i] + Z[at + i] > top:
                    top = F[i] + Z[at + i]
            total = 0
            for i in range(j):
                # Below this nothing is added.
                if F[i] + Z[at + i] - top > -40:
                    total += exp(F[i] + Z[at + i] - top)
            F[j] = top + log(total)
        for i in range(n - 1, -1, -1):
            top = -INFINITY
            for j in range(i + 1, n + 1):
                share = Z[j * (j - 1) // 2 + i] + G[j]
                if share > top:
                    top = share
            total = 0
            for j in range(i + 1, n + 1):
                share = Z[j * (j - 1) // 2 + i] + G[j] - top
                if share > -40:
                    total += exp(share)
            G[i] = top + log(total)
        for j in range(1, n + 1):
            for i in range(j):
                share = F[i] + Z[j * (j - 1) // 2 + i] + G[j] - F[n]
                if share < -40:
                    continue
                share = exp(share)
                P = a * (j - i) + 1 / s2
                level = (sums[j] - sums[i]) / P
                square = level * level + 1 / P
                segments += share
                squares += share * square
                before[i] += share
                # Differences: summed up below.
                mean[i] += share * level
                mean[j] -= share * level
                second[i] += share * square
                second[j] -= share * square
        for j in range(1, n):
            mean[j] += mean[j - 1]
            second[j] += second[j - 1]
    return mean_array[:n], second_array[:n], jump_array[:n], segments, squares
