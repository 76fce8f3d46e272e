"""What the user gives as A: what it is, whether it can be used, and the array that the kernels take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastquad.arguments import unmasked
from fastquad.typing import Float


def tensor_dtype(A: Any) -> np.dtype:
    """The dtype in which the kernels take an array, of NumPy's or Dask's; an error where it is no (m, n, n) tensor."""
    if A.dtype.kind not in "fiubc" or A.dtype.itemsize > (16 if A.dtype.kind == "c" else 8):
        raise TypeError(
            f"`A` must hold numbers (float32, float64, complex64 and complex128 are used without a copy), got dtype "
            f"{A.dtype}."
        )
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        turned = A.ndim == 3 and A.shape[0] == A.shape[1]
        way_out = ": give numpy.moveaxis(A, -1, 0)" if turned else ""
        if A.ndim == 1:
            way_out = "; A comes first, then y"
        if A.ndim == 2:
            way_out = "; with a vector a_i in each row and y_i = |a_i^* x|², give fastquad.RankOneTensor(A)"
        raise ValueError(f"`A` must have shape (m, n, n), got {A.shape}{way_out}.")
    if 0 in A.shape:
        raise ValueError(f"`A` must have at least one measurement of at least one unknown, got shape {A.shape}.")
    dtype: np.dtype = A.dtype.newbyteorder("=") if A.dtype.kind in "fc" else np.dtype(np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def tensor(A: np.ndarray) -> Float:
    """A as the kernels want it: native, aligned, C-contiguous; itself where it is so already."""
    return np.require(unmasked(A, "A"), dtype=tensor_dtype(A), requirements=["C", "A"])


#: How to give A where its file is of another format.
_OTHER_FORMATS = {
    ".npz": "give one of its arrays, numpy.load(path)['A'], or save that with numpy.save",
    ".csv": "read it, numpy.loadtxt(path, delimiter=',').reshape(m, n, n), and give the array",
    ".txt": "read it, numpy.loadtxt(path).reshape(m, n, n), and give the array",
    ".mat": "read it with scipy.io.loadmat(path) and give the array",
    ".pt": "give torch.load(path).numpy()",
} | dict.fromkeys((".h5", ".hdf5", ".hdf", ".nc", ".zarr"), "name its dataset behind two colons, {path}::A")


def check_format(path: Path) -> None:
    """Raise where the name says that a file is of another format, with what to do."""
    way_out = _OTHER_FORMATS.get(path.suffix.lower())
    if way_out is not None and path.exists():
        raise ValueError(f"`A`: {str(path)!r} is not a .npy file: {way_out.format(path=path)}.")


def is_dask_array(A: Any) -> bool:
    """Whether A is a Dask array; Dask is not imported for it."""
    return type(A).__module__.partition(".")[0] == "dask" and hasattr(A, "__dask_graph__") and hasattr(A, "chunks")


def is_sparse_tensor(A: Any) -> bool:
    """Whether A is a sparse array of three axes, a stacked sparse matrix, or a list of sparse matrices."""
    if has_coordinates(A):
        return True
    # Without scipy.sparse there is no such matrix; importing it takes longer than all the rest.
    scipy_sparse = sys.modules.get("scipy.sparse")
    if scipy_sparse is None:
        return False
    is_one = scipy_sparse.issparse
    return bool(is_one(A)) or (isinstance(A, Sequence) and len(A) > 0 and all(map(is_one, A)))


def has_coordinates(A: Any) -> bool:
    """Whether A is a sparse array given by the coordinates of its entries, SciPy's of three axes or a `sparse.COO`."""
    return len(getattr(A, "shape", ())) == 3 and hasattr(A, "coords") and hasattr(A, "nnz") and hasattr(A, "data")


def is_sliced(A: Any) -> bool:
    """Whether A has a shape, a dtype and slices, and is no array in memory."""
    if isinstance(A, np.ndarray | np.generic) or hasattr(A, "nnz") or not hasattr(A, "__getitem__"):
        return False
    try:
        return isinstance(A.shape, tuple) and hasattr(A, "dtype") and not hasattr(A, "iloc")
    except AttributeError:
        return False
    except Exception as error:  # h5py of a closed file
        raise ValueError(f"`A` must be open, got a {type(A).__name__} that cannot be read: {error}.") from error
