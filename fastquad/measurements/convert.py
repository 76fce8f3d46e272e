"""Convert and check what the user gives as A: `as_measurements`, `pack` and `open`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.chunked import ChunkedTensor
from fastquad.measurements.cluster.placement import current_client, distribute
from fastquad.measurements.dense.arrays import check_format, is_dask_array, tensor
from fastquad.measurements.dense.make import pack_in_memory, packed_dtype, raw_tensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.folder import Folder, FolderTensor, folder_tensor
from fastquad.measurements.disk.mapped import mapped_tensor
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
        shape (m n, n), becomes a `fastquad.SparseTensor`.
    memory : int or str, optional
        A budget for a packed folder, or for a tensor that was opened from one: see `fastquad.open`; for a Dask array
        without a client, in place of half of the memory.

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
        return A
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
    if is_dask_array(A):
        return _from_dask(A, memory)
    return raw_tensor(tensor(np.asanyarray(A)))


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
        A Dask array is packed a chunk or two at a time. An iterator, which needs a path, gives the (n, n) matrices one
        after the other.
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
    source = _source(A) if path is not None else MeasuredSource(_chunk_by_chunk(A))
    target = packed_dtype(source.dtype, out.dtype if dtype is None and out is not None else dtype)
    n_threads = threads.resolve(n_threads)
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
    """Open a packed folder that `fastquad.pack` wrote.

    Parameters
    ----------
    path : str or path
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
        A PackedTensor, or a StreamedTensor if the folder is larger than the budget.

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
    return MeasuredSource(_chunk_by_chunk(A))


def _chunk_by_chunk(A: Any) -> Measurements:
    """A as measurements that are read once: a Dask array is not gathered for that."""
    if is_dask_array(A):
        return ChunkedTensor(A)
    return as_measurements(A)


def _from_dask(array: Any, memory: Any) -> Measurements:
    """A Dask array: on the workers of the current client, in memory, or chunk by chunk."""
    if current_client() is not None:
        return distribute(array)
    chunks = ChunkedTensor(array)
    return chunks if chunks.nbytes > budget(memory) else raw_tensor(tensor(np.asarray(chunks.array.compute())))
