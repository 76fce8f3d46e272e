"""Slow twins of the contractions, one line each: their definition, and the oracle for the kernels.

A is any (m, n, n) array, symmetric or not; `sym(A)` is the part of it that matters: the Hermitian one of complex
A, whose transposes are conjugated.
"""

import numpy as np


def sym(A):
    A = double(A)
    return (A + A.transpose(0, 2, 1).conj()) / 2


def double(A):
    return np.asarray(A, dtype=np.complex128 if np.iscomplexobj(A) else np.float64)


def both(A):
    """The two Hermitian matrices behind a complex measurement, (A + A^*)/2 and (A − A^*)/2i of each matrix, in turn."""
    A = np.asarray(A, dtype=np.complex128)
    return np.stack([sym(A), sym(-1j * A)], axis=1).reshape(-1, *A.shape[1:])


def products(A, x):
    return np.einsum("ijk,k...->ij...", sym(A), x)


def sided_products(A, x, transpose=False):
    return np.einsum("ikj,k->ij", double(A).conj(), x) if transpose else np.einsum("ijk,k->ij", double(A), x)


def measure(A, x):
    return np.einsum("ijk,j...,k...->i...", sym(A), np.conj(x), x).real


def along(A, x, v):
    return 2 * np.einsum("ijk,j,k...->i...", sym(A), np.conj(x), v).real


def gradient(A, x, w):
    return 2 * np.einsum("ijk,k,i->j", sym(A), x, w)


def gram(A, x, d, r):
    J = np.ascontiguousarray(2 * products(A, x)).view(np.float64)
    return J.T @ np.diag(d) @ J, J.T @ (d * r)


def weighted_sum(A, w):
    return np.einsum("ijk,i...->...jk", sym(A), w)


def diagonals(A):
    return np.einsum("ijj->ij", double(A)).real


def rows(A, support):
    return sym(A)[:, support]


def block(A, rows, cols=None):
    return sym(A)[:, rows][:, :, rows if cols is None else cols]


def compress(A, U):
    return np.einsum("jp,ijk,kq->ipq", np.conj(U), sym(A), U, optimize=True)


def sweep(A, z, v, c):
    r = c - measure(A, z) - np.einsum("ij,j...->i...", diagonals(A), v)
    return r, weighted_sum(A, r)
