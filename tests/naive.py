"""Slow twins of the contractions, one line each: what they mean, and the oracle that the kernels are held to.

A is any (m, n, n) array, symmetric or not; `sym(A)` is the part of it that matters.
"""

import numpy as np


def sym(A):
    A = np.asarray(A, dtype=np.float64)
    return (A + A.transpose(0, 2, 1)) / 2


def products(A, x):
    return np.einsum("ijk,k...->ij...", sym(A), x)


def sided_products(A, x, transpose=False):
    return np.einsum("ikj,k->ij" if transpose else "ijk,k->ij", np.asarray(A, dtype=np.float64), x)


def measure(A, x):
    return np.einsum("ijk,j...,k...->i...", sym(A), x, x)


def weighted_sum(A, w):
    return np.einsum("ijk,i...->...jk", sym(A), w)


def diagonals(A):
    return np.einsum("ijj->ij", np.asarray(A, dtype=np.float64))


def rows(A, support):
    return sym(A)[:, support]


def block(A, rows, cols=None):
    return sym(A)[:, rows][:, :, rows if cols is None else cols]


def compress(A, U):
    return np.einsum("jp,ijk,kq->ipq", U, sym(A), U, optimize=True)


def sweep(A, z, v, c):
    r = c - measure(A, z) - np.einsum("ij,j...->i...", diagonals(A), v)
    return r, weighted_sum(A, r)
