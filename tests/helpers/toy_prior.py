"""A toy prior: only even coordinates of x may be nonzero."""

from typing import ClassVar

import numpy as np

from fastquad.priors.base import Prior


class EvenCoordinates(Prior):
    """x is zero at 1, 3, 5, …"""

    kind: ClassVar[str] = "sparse"
    support = None

    def check(self, n):
        self.support = np.arange(0, n, 2)
