"""Measurements over the workers of a Dask cluster.

Each worker keeps a part, consecutive measurements, and runs the kernels of its kind on it. A contraction is one round
trip: one task a part goes out with the signal, and what comes back is put together in the order of the parts, never in
that of arrival. Sums over measurements, of which every part has one of (n, n), are added up eight by eight on the
workers before they come back, so that as few cross the client's network whatever the number of workers.

A part is a future, and Dask makes it anew on another worker where its own is lost: it reads the file again, or computes
the chunks of the Dask array again. What was sent from this process's memory is sent again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastquad.measurements.arrays import is_dask_array, mapped, tensor, tensor_dtype
from fastquad.measurements.base import Float, Measurements
from fastquad.measurements.chunked import bounds_of, empty_raw, whole_matrices
from fastquad.measurements.packed import LANES, PackedTensor, aligned_empty, empty_packed, pack_in_memory
from fastquad.measurements.parted import Answer, PartedTensor, Places, contract, merged
from fastquad.measurements.raw import RawTensor
from fastquad.measurements.store import Folder, FolderTensor
from fastquad.measurements.stored import StoredTensor
from fastquad.measurements.streamed import StreamedTensor
from fastquad.parallel import chunks, run

#: So many sums are added up at once: the client gets no more of them than that.
_FAN_IN = 8
#: Signals that take more go to the workers once, ahead of the tasks, in place of once with each task.
_LARGE = 1 << 20
#: What is sent from memory goes in pieces of about this size.
_PIECE_BYTES = 128 << 20
#: A block of A on its way is rounded to float32 so much at a time.
_BLOCK_BYTES = 8 << 20
#: A contraction is asked for again where a worker was lost with what it needs, but not for ever.
_ATTEMPTS = 5

Bounds = list[tuple[int, int]]
Send = Callable[[int, list[str] | None], Any]


class DistributedTensor(PartedTensor):
    """Measurements over the workers of a Dask cluster; made by `fastquad.distribute`.

    `client` is Dask's. The workers use the threads that Dask gave them, whatever `n_threads` says.
    """

    def __init__(self, client: Any, like: Measurements, bounds: Bounds, send: Send) -> None:
        self.client = client
        self.m, self.n, self.dtype = like.m, like.n, like.dtype
        self._like, self._bounds, self._send = like, bounds, send
        self._direct = _reaches_workers(client)
        self._futures = [send(part, self._worker(part)) for part in range(len(bounds))]
        shapes = self._gather(lambda: client.map(_shape, self._futures, pure=False))
        if shapes != [(stop - start, self.n) for start, stop in bounds]:
            raise ValueError(f"`A` changed while it was distributed: its parts have the shapes {shapes}.")

    def __repr__(self) -> str:
        return f"DistributedTensor(m={self.m}, n={self.n}, dtype={self.dtype}, parts={len(self._bounds)})"

    def _ask(self, call: str, common: tuple, own: dict[int, tuple], n_threads: int) -> Iterable[Answer]:
        def submit() -> list[Any]:
            sent: Sequence[Any] = common
            if sum(part.nbytes for part in common if isinstance(part, np.ndarray)) > _LARGE:
                sent = self.client.scatter(list(common), broadcast=True, hash=False)
            parts = [self._futures[part] for part in own]
            tasks = self.client.map(_contract, parts, [call] * len(own), list(own.values()), common=sent, pure=False)
            while call in ("_weighted_sum", "_sweep") and len(tasks) > _FAN_IN:
                groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
                tasks = self.client.map(merged, groups, pure=False)
            return tasks

        return self._gather(submit)

    # -- when a worker is lost --------------------------------------------------------------------------------------

    def _gather(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """The results of the tasks; they are submitted again where something that they need was lost."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self.client.gather(submit(), direct=self._direct)
            except CancelledError:
                # What came from this process, and not from a task, Dask cannot make again.
                self._send_again()
        return self.client.gather(submit(), direct=self._direct)

    def _send_again(self) -> None:
        for part, future in enumerate(self._futures):
            if future.status in ("cancelled", "lost"):
                self._futures[part] = self._send(part, self._worker(part))

    def _worker(self, part: int) -> list[str] | None:
        """Where a part should go, if there is a choice."""
        workers = sorted(self.client.nthreads())
        return [workers[part % len(workers)]] if workers else None


def distribute(
    A: Any, client: Any = None, *, packed: bool = False, dtype: DTypeLike | None = None
) -> DistributedTensor:
    """Distribute measurements over the workers of a Dask cluster, each of which keeps a part of them.

    Every solver runs on the result: a pass over A is one round trip to the workers, which run the same kernels, and the
    answer is that of one machine up to rounding. It does not depend on timing. A worker that is lost changes nothing
    but the time: its part is made again elsewhere.

    Parameters
    ----------
    A : array of shape (m, n, n), Dask array, path of a `.npy` file or of a packed folder, or Measurements
        A path must be valid on every worker: each maps the part that it keeps. The chunks of a Dask array are computed
        on the workers, and neighbours are put together to one part a worker. Anything else is sent from here, and must
        stay as it is, to be sent again where a worker is lost.
    client : distributed.Client, optional
        Default: the current one.
    packed : bool
        Whether the workers pack their parts: half the bytes in memory, and faster passes; see `fastquad.pack`.
    dtype : float32 or float64, optional
        Of the packed entries; default: that of A.

    Returns
    -------
    DistributedTensor
        It holds on to the parts as long as it exists. Release the workers' memory by dropping it.

    Notes
    -----
    There are as many parts as workers, in proportion to their threads, and fewer for small m.

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
    """The current Dask client, or None. Where `distributed` was not imported there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


# -- sources: (measurements like it, edges of what must stay together, bounds -> a future of the part) ----------------

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
        return client.compute(dask.delayed(_from_chunks, pure=False)(wanted, target), **where)

    m, n = map(int, array.shape[:2])
    return empty_raw(m, n, dtype), [0, *(stop for _, stop in edges)], source


def _path_source(path: Path, client: Any) -> tuple[Measurements, list[int], Source]:
    if path.is_dir():
        folder = Folder.open(path)
        like: Measurements = empty_packed(folder.m, folder.n, folder.dtype)
        # Whole sections, because those can be verified.
        edges = [0, *(min(folder.m, stop * LANES) for _, stop in folder.sections())]
        task: Callable[..., Measurements] = _from_folder
    else:
        array = mapped(path)
        dtype = tensor_dtype(array)
        like, edges, task = empty_raw(array.shape[0], array.shape[1], dtype), _edges(len(array)), _from_file

    def source(bounds: tuple[int, int], target: np.dtype | None, where: dict[str, Any]) -> Any:
        return client.submit(task, path, *bounds, target, pure=False, **where)

    return like, edges, source


def _memory_source(A: Any, client: Any) -> tuple[Measurements, list[int], Source]:
    measurements = A if isinstance(A, Measurements) else RawTensor(tensor(np.asanyarray(A)))
    direct = _reaches_workers(client)

    def scatter(start: int, stop: int, where: dict[str, Any]) -> Any:
        return client.scatter(measurements._part(start, stop), workers=where.get("workers"), direct=direct, hash=False)

    def source(bounds: tuple[int, int], target: np.dtype | None, where: dict[str, Any]) -> Any:
        start, stop = bounds
        if not isinstance(measurements, StoredTensor) or measurements.nbytes <= _PIECE_BYTES:
            return client.submit(_settled, scatter(start, stop, where), target, pure=False, **where)
        # A piece at a time, so that the worker never holds its part twice.
        if target is None and isinstance(measurements, PackedTensor):
            target = measurements.dtype
        m, n = stop - start, measurements.n
        part = client.submit(_empty, m, n, measurements.dtype, target, pure=False, **where)
        step = max(1, _PIECE_BYTES * measurements.m // measurements.nbytes // LANES) * LANES
        for first, last in chunks(m, step):
            piece = scatter(start + first, start + last, where)
            part = client.submit(_filled, part, piece, first, target, pure=False, **where)
        return client.submit(_finished, part, m, n, target, pure=False, **where)

    return measurements, _edges(measurements.m), source


def _edges(m: int) -> list[int]:
    """Blocks of 8, which stay together in every layout."""
    return [*range(0, m, LANES), m]


def _parts(edges: list[int], threads: list[int]) -> Bounds:
    """A part for each worker, in proportion to its threads, with bounds among the edges."""
    shares = np.cumsum([0, *threads]) / sum(threads)
    nearest = np.searchsorted(edges, shares * edges[-1] - 1e-9).clip(0, len(edges) - 1)
    return [(edges[i], edges[j]) for i, j in pairwise(nearest.tolist()) if i < j]


# -- what runs on the workers -----------------------------------------------------------------------------------------


def _shape(A: Measurements) -> tuple[int, int]:
    return A.m, A.n


def _contract(A: Measurements, call: str, own: tuple, common: Sequence[Any]) -> Answer:
    if call == "_block" and isinstance(A, PackedTensor) and A.dtype == np.float32:
        return _block_as_stored(A, *common), None
    return contract(A, call, (*common, *own), _threads())


def _block_as_stored(A: PackedTensor, rows: Places, cols: Places) -> Float:
    """`Ã_i[S, T]` in the precision in which it is stored: half the bytes on the way."""
    out = np.empty((A.m, rows.size, cols.size), dtype=A.dtype)
    matrices = _BLOCK_BYTES // (8 * max(1, rows.size * cols.size))
    for start, stop in chunks(A.m, max(1, matrices // LANES) * LANES):
        out[start:stop] = A._part(start, stop)._block(rows, cols, _threads())
    return out


def _threads() -> int:
    from distributed import get_worker

    return get_worker().state.nthreads


def _from_chunks(matrices: list[np.ndarray], target: np.dtype | None) -> Measurements:
    whole = np.asarray(matrices[0]) if len(matrices) == 1 else np.concatenate(matrices)
    return _settled(RawTensor(tensor(whole)), target)


def _from_file(path: Path, start: int, stop: int, target: np.dtype | None) -> Measurements:
    return _settled(RawTensor(tensor(mapped(path)[start:stop])), target)


def _from_folder(path: Path, start: int, stop: int, target: np.dtype | None) -> Measurements:
    folder = Folder.open(path)
    blocks = folder.blocks()[start // LANES : -(-stop // LANES)]
    first = start // LANES // folder.section
    for index, (low, high) in enumerate(chunks(len(blocks), folder.section), first):
        folder.check_section(index, blocks[low:high])
    return _settled(PackedTensor(blocks, stop - start, folder.n), target)


def _empty(m: int, n: int, dtype: np.dtype, target: np.dtype | None) -> Float:
    """Room for a part: blocks of the packed layout where a target is given, else matrices."""
    if target is None:
        return np.empty((m, n, n), dtype=dtype)
    return aligned_empty(empty_packed(m, n, target).blocks.shape, target)


def _filled(store: Float, piece: Measurements, start: int, target: np.dtype | None) -> Float:
    """A store with a piece put in its place. In place: to do it twice changes nothing."""
    if not store.flags.writeable:  # as it may arrive from another worker
        store = store.copy()
    if target is None:
        assert isinstance(piece, RawTensor)
        store[start : start + piece.m] = piece.array
    else:
        piece = _settled(piece, None)
        blocks = store[start // LANES : -(-(start + piece.m) // LANES)]
        run(piece._pack, list(enumerate(blocks)), _threads())
    return store


def _finished(store: Float, m: int, n: int, target: np.dtype | None) -> Measurements:
    return _settled(RawTensor(store) if target is None else PackedTensor(store, m, n), None)


def _settled(part: Measurements, target: np.dtype | None) -> Measurements:
    """A part where it stays: packed on request, and at an address that suits the kernels, wherever it arrived."""
    if target is not None and not (isinstance(part, PackedTensor) and part.dtype == target):
        return pack_in_memory(part, target, _threads())
    if isinstance(part, RawTensor):
        return RawTensor(np.require(part.array, requirements=["C", "A"]))
    if isinstance(part, PackedTensor) and part.blocks.ctypes.data % 64:
        blocks: Float = aligned_empty(part.blocks.shape, part.dtype)
        blocks[...] = part.blocks
        return PackedTensor(blocks, part.m, part.n)
    return part


# -- checks -----------------------------------------------------------------------------------------------------------


def _checked_client(client: Any) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("`fastquad.distribute` needs Dask: install fastquad[dask].") from error
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
    if not packed:
        return None
    target = np.dtype(like.dtype if dtype is None else dtype)
    if target not in (np.float32, np.float64):
        raise TypeError(f"`dtype` must be float32 or float64, got {target}.")
    return target


def _reaches_workers(client: Any) -> bool:
    """Whether data may go between client and workers without passing through the scheduler."""
    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    return client.scheduler.address.startswith(("tcp://127.0.0.1", "inproc://"))
