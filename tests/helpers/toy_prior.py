"""A toy prior: entries that are −1, 0 or 1, most of them 0.

Seen in Gaussian noise, `b = a x + sqrt(a) N(0, 1)`, a value v has the likelihood exp(b v − a v²/2).
"""

from typing import ClassVar

import numpy as np

import fastquad as fq

#: P(x_j ≠ 0).
SHARE = 0.4


class Trits(fq.Prior):
    """x_j ∈ {−1, 0, 1}."""

    alphabet = np.array([-1.0, 0.0, 1.0])
    rounds: ClassVar[bool] = True

    def denoise(self, b, a):
        log_odds = np.log(SHARE / (2 * (1 - SHARE))) - a / 2
        up, down = np.exp(np.clip(log_odds + b, -700, 300)), np.exp(np.clip(log_odds - b, -700, 300))
        total = 1 + up + down
        mean, weight = (up - down) / total, (up + down) / total
        return mean, weight - mean**2, weight

    def nearest(self, x):
        return np.clip(np.rint(x), -1.0, 1.0)
