"""Place measurements on the workers of a cluster: which worker gets which part, and how it gets there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad.arguments import on_host
from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.chunked import bounds_of, whole_matrices
from fastquad.measurements.cluster.tensor import Bounds, DistributedTensor, reaches_workers
from fastquad.measurements.cluster.worker import (
    filled,
    finished_part,
    from_chunks,
    from_file,
    from_folder,
    room_for,
    settled,
)
from fastquad.measurements.dense.arrays import is_dask_array, tensor, tensor_dtype
from fastquad.measurements.dense.chunks import StoredTensor
from fastquad.measurements.dense.layout import LANES
from fastquad.measurements.dense.make import empty_packed, empty_raw, packed_dtype, raw_tensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.folder import Folder, FolderTensor
from fastquad.measurements.disk.streamed import StreamedTensor
from fastquad.system import npy
from fastquad.system.threads import chunks

#: The size of the pieces in which arrays in memory are sent, in bytes.
_PIECE_BYTES = 128 << 20


def distribute(
    A: Any, client: Any = None, *, packed: bool = False, dtype: DTypeLike | None = None
) -> DistributedTensor:
    """Distribute measurements over the workers of a Dask cluster, each of which keeps a part of them.

    Every solver runs on the result: a pass over A is one round trip to the workers, which run the same kernels, and the
    answer is that of one machine up to rounding. It does not depend on timing. Losing a worker costs only time: its
    part is made again elsewhere.

    Parameters
    ----------
    A : array of shape (m, n, n), Dask array, path of a `.npy` file or of a packed folder, or Measurements
        A path must be valid on every worker: each maps the part that it keeps. The chunks of a Dask array are computed
        on the workers, and neighbours are put together into one part per worker. Anything else is sent from here.
        It must not change, because it is sent again if a worker is lost.
    client : distributed.Client, optional
        Default: the current one.
    packed : bool
        Whether the workers pack their parts: half the bytes in memory, and faster passes; see `fastquad.pack`.
    dtype : float32 or float64, optional
        Of the packed entries; default: that of A.

    Returns
    -------
    DistributedTensor
        It keeps the parts alive as long as it exists; delete it to release the workers' memory.

    Notes
    -----
    Each worker gets one part, in proportion to its threads; for small m some get none.

    Examples
    --------
    >>> import fastquad as fq
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("scheduler:8786")  # doctest: +SKIP
    >>> A = fq.distribute("/shared/A.fq", client)  # doctest: +SKIP
    >>> solution = fq.solve(A, y)  # doctest: +SKIP
    """
    client = _checked_client(client)
    if dtype is not None and not packed:
        raise ValueError("`dtype` is that of packed entries: give packed=True as well.")
    if isinstance(A, DistributedTensor):
        return A
    if isinstance(A, FolderTensor | StreamedTensor):
        A = A.folder.path
    if is_dask_array(A):
        like, edges, source = _dask_source(A, client)
    elif isinstance(A, str | os.PathLike):
        like, edges, source = _path_source(Path(A).absolute(), client)
    else:
        like, edges, source = _memory_source(A, client)
    target = _packed_dtype(like, packed, dtype)
    if target is not None:
        like = empty_packed(like.m, like.n, target)
    bounds = _parts(edges, [threads for _, threads in sorted(client.nthreads().items())])

    def send(part: int, workers: list[str] | None) -> Any:
        return source(bounds[part], target, {"workers": workers, "allow_other_workers": True} if workers else {})

    return DistributedTensor(client, like, bounds, send)


def current_client() -> Any:
    """The current Dask client, or None; there is none unless `distributed` was imported."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


Source = Callable[[tuple[int, int], np.dtype | None, dict[str, Any]], Any]


def _dask_source(array: Any, client: Any) -> tuple[Measurements, list[int], Source]:
    import dask

    dtype = tensor_dtype(array)
    array = whole_matrices(array)
    delayed = array.to_delayed().ravel()
    edges = bounds_of(array)

    def source(bounds: tuple[int, int], target: np.dtype | None, where: dict[str, Any]) -> Any:
        start, stop = bounds
        wanted = [chunk for chunk, (first, last) in zip(delayed, edges, strict=True) if start <= first and last <= stop]
        return client.compute(dask.delayed(from_chunks, pure=False)(wanted, target), **where)

    m, n = map(int, array.shape[:2])
    return empty_raw(m, n, dtype), [0, *(stop for _, stop in edges)], source


def _path_source(path: Path, client: Any) -> tuple[Measurements, list[int], Source]:
    if path.is_dir():
        folder = Folder.open(path)
        like: Measurements = empty_packed(folder.m, folder.n, folder.dtype)
        # Split between sections, because only whole sections can be verified.
        edges = [0, *(min(folder.m, stop * LANES) for _, stop in folder.sections())]
        task: Callable[..., Measurements] = from_folder
    else:
        array = npy.mapped(path, "A")
        dtype = tensor_dtype(array)
        like, edges, task = empty_raw(array.shape[0], array.shape[1], dtype), _edges(len(array)), from_file

    def source(bounds: tuple[int, int], target: np.dtype | None, where: dict[str, Any]) -> Any:
        return client.submit(task, path, *bounds, target, pure=False, **where)

    return like, edges, source


def _memory_source(A: Any, client: Any) -> tuple[Measurements, list[int], Source]:
    A = on_host(A, "A")
    if not isinstance(A, np.ndarray | Measurements) and hasattr(A, "chunks"):
        raise TypeError(
            f"`A` must be in memory, or a path that every worker sees, got a {type(A).__name__}: pack it to a shared "
            "disk, fastquad.pack(A, path), and give that path, or give dask.array.from_array(A)."
        )
    measurements = A if isinstance(A, Measurements) else raw_tensor(tensor(np.asanyarray(A)))
    direct = reaches_workers(client)

    def scatter(start: int, stop: int, where: dict[str, Any]) -> Any:
        return client.scatter(measurements._part(start, stop), workers=where.get("workers"), direct=direct, hash=False)

    def source(bounds: tuple[int, int], target: np.dtype | None, where: dict[str, Any]) -> Any:
        start, stop = bounds
        if not isinstance(measurements, StoredTensor) or measurements.nbytes <= _PIECE_BYTES:
            return client.submit(settled, scatter(start, stop, where), target, pure=False, **where)
        # Send a piece at a time, so that the worker never holds its part twice.
        if target is None and isinstance(measurements, PackedTensor):
            target = measurements.dtype
        m, n = stop - start, measurements.n
        part = client.submit(room_for, m, n, measurements.dtype, target, pure=False, **where)
        step = max(1, _PIECE_BYTES * measurements.m // measurements.nbytes // LANES) * LANES
        for first, last in chunks(m, step):
            piece = scatter(start + first, start + last, where)
            part = client.submit(filled, part, piece, first, target, pure=False, **where)
        return client.submit(finished_part, part, m, n, target, pure=False, **where)

    return measurements, _edges(measurements.m), source


def _edges(m: int) -> list[int]:
    """The places where m measurements may be split: between blocks of 8."""
    return [*range(0, m, LANES), m]


def _parts(edges: list[int], threads: list[int]) -> Bounds:
    """A part for each worker, in proportion to its threads, with bounds among the edges."""
    shares = np.cumsum([0, *threads]) / sum(threads)
    nearest = np.searchsorted(edges, shares * edges[-1] - 1e-9).clip(0, len(edges) - 1)
    return [(edges[i], edges[j]) for i, j in pairwise(nearest.tolist()) if i < j]


def _checked_client(client: Any) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("`fastquad.distribute` needs Dask: pip install 'fastquad[dask]'.") from error
    client = current_client() if client is None else client
    if client is None:
        raise ValueError("`client`: there is no current one: make one, distributed.Client(...).")
    if not isinstance(client, distributed.Client):
        raise TypeError(f"`client` must be a distributed.Client, got {type(client).__name__}.")
    if client.asynchronous:
        raise ValueError("`client` must not be asynchronous.")
    if not client.nthreads():
        raise ValueError("`client` has no workers: wait for them, client.wait_for_workers(n).")
    return client


def _packed_dtype(like: Measurements, packed: bool, dtype: DTypeLike | None) -> np.dtype | None:
    """The dtype to pack to, or None where parts stay as they are."""
    return packed_dtype(like.dtype, dtype) if packed else None
