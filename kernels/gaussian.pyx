"""Entries of the Gaussian tensor; see gaussian.h for what they are."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef extern from "gaussian.h" nogil:
    void gaussian_fill(uint64_t seed, uint32_t block, const int32_t* j, const int32_t* k, Py_ssize_t count, double* out)
    void threefry_one(const uint32_t* counter, const uint32_t* key, uint32_t* words)


def fill(uint64_t seed, uint32_t block, const int32_t[::1] j, const int32_t[::1] k, double[:, ::1] out):
    """out[p, l] = Ã_{8 block + l}[j_p, k_p], zero where j_p < 0"""
    if j.shape[0] > 0:
        with nogil:
            gaussian_fill(seed, block, &j[0], &k[0], j.shape[0], &out[0, 0])


def threefry(const uint32_t[::1] counter, const uint32_t[::1] key, uint32_t[::1] words):
    """words = Threefry-4x32-20 of the counter, all of four words: for checks against its published values"""
    threefry_one(&counter[0], &key[0], &words[0])
