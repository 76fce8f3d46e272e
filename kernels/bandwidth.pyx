"""What the machine can do, measured in the run that measures the kernels; see bandwidth.h."""

cdef extern from "bandwidth.h" nogil:
    enum: CHAINS
    double read_doubles(const double*, Py_ssize_t, Py_ssize_t, int)
    double multiply_add(Py_ssize_t, double, double)
    int chain_width()

#: Multiply-adds of doubles in one round of `multiply`.
per_round = chain_width() * CHAINS


def read(const double[::1] a, Py_ssize_t ahead, bint once, double[::1] sums, Py_ssize_t task, Py_ssize_t start,
         Py_ssize_t stop):
    """sums[task] = Σ a[start:stop], prefetched `ahead` cache lines ahead, 0: not at all; not kept where read `once`"""
    with nogil:
        sums[task] = read_doubles(&a[start], stop - start, ahead, once)


def multiply(Py_ssize_t rounds, double a, double b, double[::1] sums, Py_ssize_t task):
    """sums[task] = the sum of `per_round` numbers after `rounds` of `t = t a + b`, from registers alone"""
    with nogil:
        sums[task] = multiply_add(rounds, a, b)
