"""A toy kind of measurements: diagonal matrices, `y_i = Σ_j d_ij x_j²`. All that a kind needs is in this file."""

import numpy as np

import fastquad as fq


class DiagonalTensor(fq.Measurements):
    """m diagonal matrices, given by their diagonals d of shape (m, n)."""

    def __init__(self, d):
        self.d = np.asarray(d, dtype=np.float64)
        (self.m, self.n), self.dtype = self.d.shape, self.d.dtype

    def matrices(self, start, stop):
        return self.d[start:stop, :, None] * np.eye(self.n)

    # One contraction by a faster way; the rest are made of `matrices`.
    def _diagonals(self, n_threads):
        return self.d.copy()
