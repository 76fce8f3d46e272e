"""What tensors of few terms of rank one, `A_i = Σ_r w_ir a_ir a_ir^*`, share: what parts of them cost."""

from __future__ import annotations

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.typing import Indices


class FactoredTensor(Measurements):
    """Measurements by vectors a_ir, all of which are read whatever rows are asked for."""

    _separate = True

    def share_of_rows(self, s: int) -> float:
        return 1.0

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return np.union1d(rows, cols).size / self.n

    def cost_of_diagonals(self) -> float:
        return 1.0
