"""SciPy's LAPACK routines and its `lstsq`, imported at the first call to keep `import fastquad` quick."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import scipy.linalg

    found = scipy.linalg.lstsq if name == "lstsq" else getattr(scipy.linalg.lapack, name)
    globals()[name] = found
    return found
