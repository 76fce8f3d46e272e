"""SciPy's BLAS and LAPACK routines and its `lstsq`, imported at the first call to keep `import fastquad` quick."""

from __future__ import annotations

from sys import float_info
from typing import Any

#: The rounding of a double.
EPS = float_info.epsilon


def __getattr__(name: str) -> Any:
    import scipy.linalg

    homes = (scipy.linalg, scipy.linalg.lapack, scipy.linalg.blas)
    for home in homes:
        if hasattr(home, name):
            found = globals()[name] = getattr(home, name)
            return found
    raise AttributeError(f"SciPy has no {name}")
