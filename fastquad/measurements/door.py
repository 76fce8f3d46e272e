"""The one door: what a user calls A becomes measurements here, checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad import parallel
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.packed import PackedTensor, pack_in_memory
from fastquad.measurements.raw import RawTensor


def as_measurements(A: Any) -> Measurements:
    """A as measurements.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a `.npy` file, or Measurements
        A C-contiguous float32 or float64 array, in memory or mapped from disk, is used as it is, never copied or
        written to. Other layouts and other real dtypes are copied: float16 to float32, integers and bool to float64,
        which takes m n² times 4 or 8 bytes. A `.npy` file is mapped, never loaded whole.

    Returns
    -------
    Measurements

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> measurements = fq.as_measurements(np.ones((3, 2, 2)))
    >>> measurements.products([1.0, 0.5]).shape
    (3, 2)
    """
    if isinstance(A, Measurements):
        return A
    if isinstance(A, str | os.PathLike):
        A = _mapped(Path(A))
    return RawTensor(_checked(np.asanyarray(A)))


def pack(
    A: Any, path: str | os.PathLike | None = None, *, dtype: DTypeLike | None = None, n_threads: int | None = None
) -> PackedTensor:
    """Pack the symmetric parts of A: half the bytes, and the layout that is read fastest.

    One pass over A; needs the memory of the result beside A.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a `.npy` file, or Measurements
    dtype : float32 or float64, optional
        Default: the dtype of A. Entries are symmetrised in float64 and then rounded once.
    n_threads : int, optional

    Returns
    -------
    PackedTensor

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=16, n=10, k=2, rng=0)
    >>> packed = fq.pack(problem.A, dtype="float32")
    >>> packed.dtype, packed.m, packed.n
    (dtype('float32'), 16, 10)
    """
    if path is not None:
        raise NotImplementedError("`path`: packing to disk is not there yet; leave it out to pack in memory.")
    measurements = as_measurements(A)
    target = np.dtype(measurements.dtype if dtype is None else dtype)
    if target not in (np.float32, np.float64):
        raise TypeError(f"`dtype` must be float32 or float64, got {target}.")
    n_threads = parallel.resolve(n_threads)
    if isinstance(measurements, PackedTensor) and measurements.dtype == target:
        return measurements
    return pack_in_memory(measurements, target, n_threads)


def _mapped(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"`A`: there is no file {str(path)!r}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"`A`: {str(path)!r} cannot be read as a .npy array: {error}") from error


def _checked(A: np.ndarray) -> Float:
    if A.dtype.kind not in "fiub" or A.dtype.itemsize > 8:
        raise TypeError(
            f"`A` must hold real numbers (float32 or float64 are used without a copy), got dtype {A.dtype}."
        )
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        raise ValueError(f"`A` must have shape (m, n, n), got {A.shape}.")
    if 0 in A.shape:
        raise ValueError(f"`A` must have at least one measurement of at least one unknown, got shape {A.shape}.")
    dtype: np.dtype = A.dtype.newbyteorder("=") if A.dtype.kind == "f" else np.dtype(np.float64)
    if dtype == np.float16:
        dtype = np.dtype(np.float32)
    # Cython's kernels want native, aligned, C-contiguous data.
    return np.require(A, dtype=dtype, requirements=["C", "A"])
