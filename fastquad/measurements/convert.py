"""Convert and check what the user gives as A: `as_measurements`, `pack` and `open`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.chunked import ChunkedTensor
from fastquad.measurements.cluster.placement import current_client, distribute
from fastquad.measurements.dense.arrays import check_format, is_dask_array, tensor
from fastquad.measurements.dense.make import pack_in_memory, packed_dtype, packed_room, raw_tensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.folder import Folder, FolderTensor, folder_tensor
from fastquad.measurements.disk.mapped import mapped_tensor
from fastquad.measurements.disk.sliced import SlicedSource, SlicedTensor, Slices, is_sliced, named_dataset
from fastquad.measurements.disk.sources import IteratedSource, MeasuredSource, Source
from fastquad.measurements.disk.streamed import StreamedTensor
from fastquad.measurements.disk.writer import write
from fastquad.measurements.structured.sparse import SparseTensor, is_sparse_tensor
from fastquad.system import threads
from fastquad.system.memory import budget


def as_measurements(A: Any, *, memory: Any = None) -> Measurements:
    """A as measurements.

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
    if isinstance(A, FolderTensor | StreamedTensor) and memory is not None:
        return open(A.folder.path, memory=memory, verify=False)
    if isinstance(A, Measurements):
        lacking = [f"`{name}`" for name in ("m", "n", "dtype") if not hasattr(A, name)]
        if lacking:
            raise TypeError(f"`A` must have `m`, `n` and `dtype`: set {' and '.join(lacking)} of {type(A).__name__}.")
        return A
    if isinstance(A, str) and "::" in A and not os.path.exists(A):
        return open(A, memory=memory)
    if isinstance(A, str | os.PathLike):
        path = Path(A).expanduser()
        check_format(path)
        return open(path, memory=memory) if path.is_dir() else mapped_tensor(path)
    if isinstance(A, Iterator):
        raise TypeError(
            f"`A` must be read more than once, which a {type(A).__name__} cannot be: pack it first, "
            "fastquad.pack(A, 'A.fq'), or give numpy.stack(list(A))."
        )
    if isinstance(A, Mapping):
        named = ", ".join(map(repr, A))
        raise TypeError(f"`A` must be one array, got a {type(A).__name__} of {named}: give one of them.")
    if is_sparse_tensor(A):
        return SparseTensor(A)
    if hasattr(A, "matvec") and hasattr(A, "rmatvec"):
        raise TypeError(
            f"`A` must have a matrix for each measurement, got the linear operator {type(A).__name__}: for y = |A x|² "
            "give fastquad.OperatorTensor.from_linear_operator(A)."
        )
    A = arguments.on_host(_unwrapped(A), "A")
    if is_dask_array(A):
        return _from_dask(A, memory)
    if is_sliced(A):
        return _from_slices(A, memory)
    try:
        array = np.asanyarray(A)
    except ValueError:
        raise ValueError("`A` must have shape (m, n, n), got lists of different lengths.") from None
    return raw_tensor(tensor(array))


def pack(
    A: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: DTypeLike | None = None,
    out: PackedTensor | None = None,
    n_threads: int | None = None,
) -> Measurements:
    """Pack the symmetric (Hermitian) parts of A: half the bytes, and the layout that is read fastest.

    One pass over A. Without a path the result is in memory. With one it is a folder on disk, written a few MB at a
    time, so that neither A nor the result need fit in memory; it is written as PATH.partial and renamed when it is
    complete. If the process is killed or the disk is full, the same call goes on from there.

    Parameters
    ----------
    A : array of shape (m, n, n), path of a `.npy` file or packed folder, Dask array, or Measurements; or an iterator
        Whatever `fastquad.as_measurements` takes. A Dask array is packed a chunk or two at a time, and a dataset of
        h5py, zarr, … or a path such as "A.h5::A" slice by slice: neither is loaded as a whole. An iterator, which needs
        a path, gives the (n, n) matrices one after the other.
    path : str or path, optional
        The path of the folder, which must not exist.
    dtype : float16, float32 or float64, or complex64 or complex128 for complex A, optional
        Default: the dtype of A. Entries are symmetrised in double precision and then rounded once. As float16 they keep
        three digits, in half the bytes of float32: a solve on them ends with an error of that size, and says so; where
        A is at hand, `solve(A, y, method="lm", x0=solution.x)` polishes what it found.
    out : PackedTensor, optional
        A packed tensor of the same shape and dtype that is no longer needed: it is overwritten and returned. New memory
        costs more time than packing into old.
    n_threads : int, optional

    Returns
    -------
    Measurements
        A PackedTensor, or what `fastquad.open` gives for the folder.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=16, n=10, k=2, rng=0)
    >>> packed = fq.pack(problem.A, dtype="float32")
    >>> packed.dtype, packed.m, packed.n
    (dtype('float32'), 16, 10)
    """
    if path is None and isinstance(A, Iterator):
        as_measurements(A)  # it raises the error
    source = _source(A)
    target = packed_dtype(source.dtype, out.dtype if dtype is None and out is not None else dtype)
    n_threads = threads.resolve(n_threads)
    if isinstance(source, SlicedSource) and path is None:
        packed, blocks = packed_room(source.slices.shape[0], source.n, target, out)
        source.pack(0, blocks, n_threads)
        return packed
    if path is not None:
        if out is not None:
            raise ValueError("`out` is memory, and `path` a folder: give one of them.")
        write(source, Path(path).expanduser(), target, n_threads)
        return open(path, verify=False)
    assert isinstance(source, MeasuredSource)
    if isinstance(source.measurements, PackedTensor) and source.dtype == target and out is None:
        return source.measurements
    return pack_in_memory(source.measurements, target, n_threads, out)


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
        return _from_slices(*_named(path, memory))
    folder = Folder.open(Path(path).expanduser())
    room = budget(memory)
    if folder.nbytes > room:
        return StreamedTensor(folder, room, verify=verify)
    if verify:
        folder.verify(threads.resolve(n_threads))
    return folder_tensor(folder)


def _source(A: Any) -> Source:
    """What can be packed to disk, as a source."""
    if isinstance(A, Iterator) and not isinstance(A, np.ndarray):
        return IteratedSource(A)
    if isinstance(A, str) and "::" in A and not os.path.exists(A):
        A = named_dataset(A)[0]
    A = arguments.on_host(_unwrapped(A), "A")
    # What is read once is not gathered for that.
    if is_dask_array(A):
        return MeasuredSource(ChunkedTensor(A))
    if isinstance(A, SlicedTensor):
        return SlicedSource(A.slices)
    if not isinstance(A, Mapping) and is_sliced(A):
        return SlicedSource(Slices(A, budget(None)))
    return MeasuredSource(as_measurements(A))


def _unwrapped(A: Any) -> Any:
    """What an array of xarray's holds: one in memory, one of Dask's, or itself if it is read from a file by slices."""
    if type(A).__module__.partition(".")[0] != "xarray" or not hasattr(A, "variable"):
        return A
    # Asking for the data of one that is still in its file would load it.
    return A.data if A.chunks is not None or A.variable._in_memory else A


def _named(path: str, memory: Any) -> tuple[Any, Any, str]:
    """The arguments of `_from_slices` for a dataset that a path names."""
    dataset, name = named_dataset(path)
    return dataset, memory, name


def _from_slices(source: Any, memory: Any, path: str | None = None) -> Measurements:
    """An array that is read by slices: now, if it fits in the budget, or else in every pass."""
    room = budget(memory)
    slices = Slices(source, room)
    fits = slices.target.itemsize * math.prod(slices.shape) <= room
    return raw_tensor(slices.whole()) if fits else SlicedTensor(slices, room, path)


def _from_dask(array: Any, memory: Any) -> Measurements:
    """A Dask array: on the workers of the current client, in memory, or chunk by chunk."""
    if current_client() is not None:
        return distribute(array)
    chunks = ChunkedTensor(array)
    return chunks if chunks.nbytes > budget(memory) else raw_tensor(tensor(np.asarray(chunks.array.compute())))
