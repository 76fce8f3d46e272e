"""SciPy's BLAS and LAPACK routines and its `lstsq`, imported at the first call to keep `import fastquad` quick."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import scipy.linalg

    homes = (scipy.linalg, scipy.linalg.lapack, scipy.linalg.blas)
    for home in homes:
        if hasattr(home, name):
            found = globals()[name] = getattr(home, name)
            return found
    raise AttributeError(f"SciPy has no {name}")
