"""What the user gives as an array, checked, as the kernels want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fastquad.measurements.base import Float


def tensor_dtype(A: Any) -> np.dtype:
    """The dtype in which the kernels take an array, of NumPy's or Dask's; an error where it is no (m, n, n) tensor."""
    if A.dtype.kind not in "fiub" or A.dtype.itemsize > 8:
        raise TypeError(
            f"`A` must hold real numbers (float32 or float64 are used without a copy), got dtype {A.dtype}."
        )
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        raise ValueError(f"`A` must have shape (m, n, n), got {A.shape}.")
    if 0 in A.shape:
        raise ValueError(f"`A` must have at least one measurement of at least one unknown, got shape {A.shape}.")
    dtype: np.dtype = A.dtype.newbyteorder("=") if A.dtype.kind == "f" else np.dtype(np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def tensor(A: np.ndarray) -> Float:
    """A as the kernels want it: native, aligned, C-contiguous; itself where it is so already."""
    return np.require(A, dtype=tensor_dtype(A), requirements=["C", "A"])


def mapped(path: Path) -> np.ndarray:
    """A `.npy` file, mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"`A`: there is no file {str(path)!r}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"`A`: {str(path)!r} cannot be read as a .npy array: {error}") from error


def is_dask_array(A: Any) -> bool:
    """Whether A is a Dask array; Dask is not imported for it."""
    return type(A).__module__.partition(".")[0] == "dask" and hasattr(A, "__dask_graph__") and hasattr(A, "chunks")
