"""Statistics of a sample of A's entries, (m, c), a row for each measurement; see sample.h."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc

cdef extern from "sample.h" nogil:
    enum: GRAM_MULTIPLE
    void gram_rows(const double* W, Py_ssize_t m, Py_ssize_t n, double* G)
    double sample_largest(const double* X, Py_ssize_t count)
    double sample_fourth(const double* X, Py_ssize_t count)
    void sample_moments(const double* X, Py_ssize_t m, Py_ssize_t c, double* mean, double* square)
    void sample_centre(double* X, Py_ssize_t m, Py_ssize_t c, const double* mean)
    void sample_powers(const double* Y, Py_ssize_t m, Py_ssize_t c, double scale, int power, Py_ssize_t stride, double* X)
    double sample_correlations(const double* G, Py_ssize_t c, Py_ssize_t stride, double* inverse, Py_ssize_t* count)


cdef double* room(Py_ssize_t count, void** memory) except NULL nogil:
    """Memory for `count` numbers that starts at a cache line; `memory` is to be freed."""
    memory[0] = malloc(count * sizeof(double) + 64)
    if memory[0] == NULL:
        with gil:
            raise MemoryError("no memory for a sample of A")
    return <double*>((<uintptr_t>memory[0] + 63) // 64 * 64)


def moments(const double[:, ::1] X):
    """The mean of X², and Σ_j m mean_j²/var_j: with mean zero, a χ² with a degree for each column."""
    cdef Py_ssize_t m = X.shape[0], c = X.shape[1], j
    cdef double power = 0, statistic = 0, centre
    cdef void* memory
    cdef double* mean
    with nogil:
        mean = room(2 * c, &memory)
        sample_moments(&X[0, 0], m, c, mean, mean + c)
        for j in range(c):
            power += mean[c + j]
            # Cancellation in this difference only happens far from the centre.
            centre = mean[j] * mean[j]
            statistic += m * centre / max(mean[c + j] - centre, 1e-300)
        free(memory)
    return power / c, statistic


def dependence(const double[:, ::1] X):
    """What tells columns of X (m, c) that are independent and have one variance from others: five numbers.

    `m Σ_j (var_j/mean − 1)²/(κ − 1)` with the mean of the variances and the kurtosis κ; then, of the columns and of their
    squares, `m Σ_{j<k} corr_jk²` and how many of them vary.
    """
    cdef Py_ssize_t m = X.shape[0], c = X.shape[1], j, stride = (c + GRAM_MULTIPLE - 1) // GRAM_MULTIPLE * GRAM_MULTIPLE
    cdef Py_ssize_t count[2]
    cdef double pairs[2]
    cdef double largest, average = 0, fourth, spread = 0, scale
    cdef int power
    cdef void* memory
    cdef double* Y
    cdef double* G
    cdef double* mean
    with nogil:
        Y = room((m + stride + 2) * stride, &memory)
        G = Y + m * stride
        mean = G + stride * stride
        largest = sample_largest(&X[0, 0], m * c)
        # Relative to the largest, whose fourth power may be out of range.
        scale = 1 / largest if largest > 0 else 1.0
        for power in range(2):
            sample_powers(&X[0, 0], m, c, scale, power + 1, stride, Y)
            sample_moments(Y, m, stride, mean, mean + stride)
            sample_centre(Y, m, stride, mean)
            gram_rows(Y, m, stride, G)
            pairs[power] = m * sample_correlations(G, c, stride, mean, &count[power])
            if power == 0:
                for j in range(c):
                    average += G[j * stride + j] / (m * c)
                fourth = sample_fourth(Y, m * stride)
                if average > 0:
                    for j in range(c):
                        spread += (G[j * stride + j] / (m * average) - 1) ** 2
                    spread *= m / max(fourth / (m * c * average * average) - 1, 1.0)
        free(memory)
    return spread, pairs[0], count[0], pairs[1], count[1]
