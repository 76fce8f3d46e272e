"""What the user gives as A: `as_measurements` and `open`. A kind is imported when A is of it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.arrays import check_format, is_dask_array, is_sliced, is_sparse_tensor, tensor
from fastquad.system import threads
from fastquad.system.memory import budget


def as_measurements(A: Any, *, memory: Any = None) -> Measurements:
    """Turn A into measurements.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a `.npy` file or of a packed folder, Dask array, sparse, or Measurements
        A C-contiguous array of float32, float64, complex64 or complex128, in memory or mapped from disk, is used as it
        is, never copied or written to. Other layouts and other dtypes are copied: float16 to float32, integers and bool
        to float64, which takes m n² times 4 or 8 bytes. A `.npy` file is mapped, never loaded whole; a folder that
        `fastquad.pack` wrote is opened by `fastquad.open`. A Dask array is distributed over the workers of the current
        client, as by `fastquad.distribute`; without a client it is computed once, if it fits in half of the memory that
        this process can get, or else chunk by chunk in every pass. A list of scipy.sparse matrices, or one stacked of
        shape (m n, n), becomes a `fastquad.SparseTensor`. A dataset of h5py, zarr, netCDF4, tensorstore or blosc2, or
        whatever else has a shape, a dtype and slices, is read by slices along m: once, if it fits in that half of the
        memory, or else in every pass. So is a path such as "A.h5::A", which names a dataset of an HDF5 or zarr file.
        An array of xarray stands for what it holds. Arrays of PyTorch and JAX on this machine are used without a copy;
        see `fastquad.ArrayTensor` for those on a GPU.
    memory : int or str, optional
        A budget for a packed folder, or for a tensor that was opened from one: see `fastquad.open`; for a Dask array
        without a client and for what is read by slices, in place of half of the memory.

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
    if memory is not None:
        budget(memory)  # check it, even if it is not used
    if isinstance(A, Measurements):
        folder = getattr(A, "folder", None)
        return A if memory is None or folder is None else open(folder.path, memory=memory, verify=False)
    if isinstance(A, str) and "::" in A and not os.path.exists(A):
        return open(A, memory=memory)
    if isinstance(A, str | os.PathLike):
        path = Path(A).expanduser()
        check_format(path)
        if path.is_dir():
            return open(path, memory=memory)
        from fastquad.measurements.disk.mapped import mapped_tensor

        return mapped_tensor(path)
    if isinstance(A, Iterator):
        packed = "pack it first, fastquad.pack(A, 'A.fq'), or give numpy.stack(list(A))"
        way = "give numpy.load(A)" if hasattr(A, "read") else packed
        raise TypeError(f"`A` must be read more than once, and a {type(A).__name__} can be read only once: {way}.")
    if isinstance(A, Mapping):
        named = ", ".join(map(repr, A))
        raise TypeError(f"`A` must be one array, got a {type(A).__name__} of {named}: give one of them.")
    if is_sparse_tensor(A):
        from fastquad.measurements.structured.sparse import SparseTensor

        return SparseTensor(A)
    if hasattr(A, "matvec") and hasattr(A, "rmatvec"):
        raise TypeError(
            f"`A` must have a matrix for each measurement, got the linear operator {type(A).__name__}: for y = |A x|² "
            "give fastquad.OperatorTensor.from_linear_operator(A)."
        )
    A = arguments.on_host(unwrapped(A), "A")
    if is_dask_array(A):
        return _from_dask(A, memory)
    if is_sliced(A):
        return _from_slices(A, memory)
    try:
        array = np.asanyarray(A)
    except ValueError:
        raise ValueError("`A` must have shape (m, n, n), got lists of different lengths.") from None
    from fastquad.measurements.dense.make import raw_tensor

    return raw_tensor(tensor(array))


def open(
    path: str | os.PathLike[str], *, memory: Any = None, verify: bool = True, n_threads: int | None = None
) -> Measurements:
    """Open a packed folder that `fastquad.pack` wrote, or a dataset of an HDF5 or zarr file.

    Parameters
    ----------
    path : str or path
        A folder; or "FILE::NAME", such as "A.h5::group/A", for a dataset, which h5py or zarr reads.
    memory : int or str, optional
        A budget, in bytes or as a string such as "4 GB"; default: half of what this process can get. A folder that is
        no larger is mapped, and stays in memory once it has been read; a larger one is read again for every pass.
    verify : bool
        Whether to compare the data with their checksums: at once if the folder is mapped, else during the first pass.
        (Reads of a few rows are not compared.)
    n_threads : int, optional
        For the checksums.

    Returns
    -------
    Measurements
        A PackedTensor, or a StreamedTensor if the folder is larger than the budget. A dataset is read into memory if it
        fits in the budget, or else by slices in every pass.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=16, n=10, k=2, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "A.fq")
    ...     written = fq.pack(problem.A, path)
    ...     A = fq.open(path)
    >>> A.m, A.n
    (16, 10)
    """
    if isinstance(path, str) and "::" in path and not os.path.exists(path):
        from fastquad.measurements.disk.sliced import named_dataset

        dataset, name = named_dataset(path)
        return _from_slices(dataset, memory, name)
    from fastquad.measurements.disk.folder import Folder, folder_tensor

    folder = Folder.open(Path(path).expanduser())
    room = budget(memory)
    if folder.nbytes > room:
        from fastquad.measurements.disk.streamed import StreamedTensor

        return StreamedTensor(folder, room, verify=verify)
    if verify:
        folder.verify(threads.resolve(n_threads))
    return folder_tensor(folder)


def unwrapped(A: Any) -> Any:
    """What an array of xarray's holds: one in memory, one of Dask's, or itself if it is read from a file by slices."""
    if type(A).__module__.partition(".")[0] != "xarray" or not hasattr(A, "variable"):
        return A
    # Asking for the data of one that is still in its file would load it.
    return A.data if A.chunks is not None or A.variable._in_memory else A


def _from_slices(source: Any, memory: Any, path: str | None = None) -> Measurements:
    """An array that is read by slices: now, if it fits in the budget, or else in every pass."""
    from fastquad.measurements.dense.make import raw_tensor
    from fastquad.measurements.disk.sliced import SlicedTensor, Slices

    room = budget(memory)
    slices = Slices(source, room)
    fits = slices.target.itemsize * math.prod(slices.shape) <= room
    return raw_tensor(slices.whole()) if fits else SlicedTensor(slices, room, path)


def _from_dask(array: Any, memory: Any) -> Measurements:
    """A Dask array: on the workers of the current client, in memory, or chunk by chunk."""
    from fastquad.measurements.cluster.chunked import ChunkedTensor
    from fastquad.measurements.cluster.placement import current_client, distribute
    from fastquad.measurements.dense.make import raw_tensor

    if current_client() is not None:
        return distribute(array)
    chunks = ChunkedTensor(array)
    return chunks if chunks.nbytes > budget(memory) else raw_tensor(tensor(np.asarray(chunks.array.compute())))
