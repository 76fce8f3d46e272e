"""The functions that run on the workers: they make, keep and contract a part of the measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.parts import contract
from fastquad.measurements.contractions import Answer, Block, Contraction
from fastquad.measurements.dense.arrays import tensor
from fastquad.measurements.dense.complex import ComplexTensor
from fastquad.measurements.dense.layout import LANES, aligned_empty, stored_as
from fastquad.measurements.dense.make import pack_in_memory, packed_shape, packed_tensor, raw_tensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.dense.raw import RawTensor
from fastquad.measurements.disk.folder import Folder, folder_tensor
from fastquad.system import npy
from fastquad.system.threads import chunks, run
from fastquad.typing import Float, Indices

#: The number of bytes of a block that are rounded to float32 at a time before it is sent.
_BLOCK_BYTES = 8 << 20


def shape_of(A: Measurements) -> tuple[int, int]:
    return A.m, A.n


def contract_part(A: Measurements, request: Contraction) -> Answer:
    """The answer of one part, computed on the threads that Dask gave this worker."""
    if isinstance(request, Block) and isinstance(A, PackedTensor) and A.dtype in (np.float32, np.complex64):
        return _block_as_stored(A, request.rows, request.rows if request.cols is None else request.cols), None
    return contract(A, request, worker_threads())


def _block_as_stored(A: PackedTensor, rows: Indices, cols: Indices) -> Float:
    """`Ã_i[S, T]` in the precision of storage: for float32, half the bytes to send."""
    out = np.empty((A.m, rows.size, cols.size), dtype=A.dtype)
    matrices = _BLOCK_BYTES // (8 * max(1, rows.size * cols.size))
    for start, stop in chunks(A.m, max(1, matrices // LANES) * LANES):
        out[start:stop] = A._part(start, stop)._block(rows, cols, worker_threads())
    return out


def worker_threads() -> int:
    from distributed import get_worker

    return get_worker().state.nthreads


def from_chunks(matrices: list[np.ndarray], target: np.dtype | None) -> Measurements:
    whole = np.asarray(matrices[0]) if len(matrices) == 1 else np.concatenate(matrices)
    return settled(raw_tensor(tensor(whole)), target)


def from_file(path: Path, start: int, stop: int, target: np.dtype | None) -> Measurements:
    return settled(raw_tensor(tensor(npy.mapped(path, "A")[start:stop])), target)


def from_folder(path: Path, start: int, stop: int, target: np.dtype | None) -> Measurements:
    folder = Folder.open(path)
    blocks = folder_tensor(folder).blocks[start // LANES : -(-stop // LANES)]
    first = start // LANES // folder.section
    for index, (low, high) in enumerate(chunks(len(blocks), folder.section), first):
        folder.check_section(index, blocks[low:high])
    return settled(packed_tensor(blocks, stop - start, folder.n, folder.dtype), target)


def room_for(m: int, n: int, dtype: np.dtype, target: np.dtype | None) -> Float:
    """Empty memory for a part: blocks of the packed layout if a target dtype is given, else matrices."""
    if target is None:
        return np.empty((m, n, n), dtype=dtype)
    return aligned_empty(packed_shape(m, n, target), stored_as(target))


def filled(store: Float, piece: Measurements, start: int, target: np.dtype | None) -> Float:
    """Copy a piece to its place in the store and return the store; doing it twice changes nothing."""
    if not store.flags.writeable:  # it may have come from another worker
        store = store.copy()
    if target is None:
        assert isinstance(piece, RawTensor | ComplexTensor)
        store[start : start + piece.m] = piece.array
    else:
        piece = settled(piece, None)
        blocks = store[start // LANES : -(-(start + piece.m) // LANES)]
        run(piece._pack, list(enumerate(blocks)), worker_threads())
    return store


def finished_part(store: Float, m: int, n: int, target: np.dtype | None) -> Measurements:
    return settled(raw_tensor(store) if target is None else packed_tensor(store, m, n, target), None)


def settled(part: Measurements, target: np.dtype | None) -> Measurements:
    """A part as its worker keeps it: packed if asked for, in memory that is aligned for the kernels."""
    if target is not None and not (isinstance(part, PackedTensor) and part.dtype == target):
        return pack_in_memory(part, target, worker_threads())
    if isinstance(part, RawTensor | ComplexTensor):
        return raw_tensor(np.require(part.array, requirements=["C", "A"]))
    if isinstance(part, PackedTensor) and part.blocks.ctypes.data % 64:
        blocks: Float = aligned_empty(part.blocks.shape, part.blocks.dtype)
        blocks[...] = part.blocks
        return part._of(blocks, part.m)
    return part
