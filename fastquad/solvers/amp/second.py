"""Whether another signal is measured together with x: light that is not quite coherent, a background.

`S = zz^T + diag(v) + A*(r)/m` is xx^T plus noise, with variance D off the diagonal. Without zz^T, its eigenvalues end
at the edge of a semicircle,

    λ <= 2 √(nD) + t √(nD) n^{-2/3},

where t follows the law of Tracy and Widom, whatever the distribution of the noise in y: t exceeds 3 once or twice in a
thousand. A signal u that is measured with x, `y_i = x^T A_i x + u^T A_i u`, moves the largest eigenvalue out to
|u|² + nD/|u|².

What that means for x, and how it shows where all of A can be looked at, is in `fastquad.engine.trust.residual`.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.numerics.eigen import leading_eigenvector
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.typing import Float

# The t beyond which it is no chance.
_CLEAR = 3.0


def second_signal(S: Float, D: float, z: Float, turning: bool = False) -> float:
    """|u|²/|x|² of another signal u that S shows beside z; 0 if what is left may be noise alone.

    `turning` says that z holds Re and Im of a complex signal in turn.
    """
    n, square = z.size, float(z @ z)
    rest = S - np.outer(z, z)
    if turning:
        i_z = turned(z)
        rest -= square * np.outer(i_z, i_z)
    v = leading_eigenvector(rest)
    largest, width = float(v @ rest @ v), math.sqrt(n * D)
    if n == 1 or largest <= (2 + _CLEAR * n ** (-2 / 3)) * width:
        return 0.0
    return (largest + math.sqrt(largest**2 - 4 * width**2)) / 2 / square
