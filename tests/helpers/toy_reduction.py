"""A toy reduction: y in decibels, said by `signal="decibels"`."""

from dataclasses import replace

import numpy as np

from fastquad.reductions import Given, Reduction


class Decibels(Reduction):
    """Data that are 10 log10(y)."""

    def problem(self, given: Given) -> Given:
        return given.with_data(given.A, 10 ** (given.data() / 10), signal=None)

    def solution(self, found, i):
        return replace(found, message=f"{found.message} It leaves {10 * np.log10(1 + found.residual):.1f} dB.")
