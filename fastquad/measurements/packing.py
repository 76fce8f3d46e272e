"""`pack`: any measurements in the layout that is read fastest, in memory or in a folder on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.chunked import ChunkedTensor
from fastquad.measurements.convert import as_measurements, open, unwrapped
from fastquad.measurements.dense.arrays import is_dask_array, is_sliced
from fastquad.measurements.dense.make import pack_in_memory, packed_dtype, packed_room
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.sliced import SlicedSource, SlicedTensor, Slices, named_dataset
from fastquad.measurements.disk.sources import IteratedSource, MeasuredSource, Source
from fastquad.measurements.disk.writer import write
from fastquad.system import threads
from fastquad.system.memory import budget


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
        three digits, in half the bytes of float32. A solve on them ends with an error of that size, and says so. If you
        still have A, `solve(A, y, method="lm", x0=solution.x)` polishes the answer.
    out : PackedTensor, optional
        A packed tensor of the same shape and dtype that you no longer need: it is overwritten and returned. This is
        faster than packing into new memory.
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


def _source(A: Any) -> Source:
    """What can be packed to disk, as a source."""
    if isinstance(A, Iterator) and not isinstance(A, np.ndarray):
        return IteratedSource(A)
    if isinstance(A, str) and "::" in A and not os.path.exists(A):
        A = named_dataset(A)[0]
    A = arguments.on_host(unwrapped(A), "A")
    # What is read once is not gathered for that.
    if is_dask_array(A):
        return MeasuredSource(ChunkedTensor(A))
    if isinstance(A, SlicedTensor):
        return SlicedSource(A.slices)
    if not isinstance(A, Mapping | Measurements) and is_sliced(A):
        return SlicedSource(Slices(A, budget(None)))
    return MeasuredSource(as_measurements(A))
