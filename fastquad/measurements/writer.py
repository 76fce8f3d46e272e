"""Packing to disk: any source, a section at a time, so that a crash or a full disk costs one section.

The folder grows under the name PATH.partial, beside its place:

    blocks.npy        sections, one after the other
    progress.jsonl    a line that says what is being packed, then the checksum of each section that was written

and takes its name when it is whole and on the disk. A second call finds PATH.partial, checks each section that it
claims against its checksum, checks that A is the same (bit for bit, where it looks), drops what is torn, and goes on.
While one section is written, the next one is packed.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.locks import lock
from fastquad.measurements.base import Float
from fastquad.measurements.packed import LANES, aligned_empty
from fastquad.measurements.sources import Source
from fastquad.measurements.store import (
    BLOCKS,
    DATA_START,
    DESCRIPTION,
    DIAGONALS,
    FORMAT,
    SECTION_BYTES,
    VERSION,
    Folder,
    checksum,
    header,
)

_PROGRESS = "progress.jsonl"
#: What is packed at once.
_UNIT_BYTES = 256 << 20
#: The system may hold back so much of what was written.
_SYNC_BYTES = 256 << 20
# Not on every platform.
_sync_data = getattr(os, "fdatasync", os.fsync)


def write(source: Source, path: Path, dtype: np.dtype, n_threads: int) -> None:
    """Pack a source into a folder at this path, or go on where an earlier call ended."""
    if path.exists():
        raise FileExistsError(f"`path`: {str(path)!r} exists already: remove it, or choose another name.")
    partial = path.with_name(path.name + ".partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with (partial / _PROGRESS).open("a+b") as progress:
            if not lock(progress):
                raise BlockingIOError(f"`path`: another process is packing into {str(partial)!r}.")
            _Packing(source, partial, dtype, n_threads).run(progress)
        (partial / _PROGRESS).unlink()
        _sync(partial)
        partial.rename(path)
        _sync(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(
                error.errno,
                f"`path`: no room for {str(partial)!r} ({os.strerror(error.errno)}). What is packed stays: make room "
                "and pack the same A again to go on, or remove it",
            ) from error
        raise


class _Packing:
    """One call of `write`."""

    def __init__(self, source: Source, partial: Path, dtype: np.dtype, n_threads: int) -> None:
        self.source, self.partial, self.dtype, self.n_threads = source, partial, dtype, n_threads
        self.entries = stored.entries(source.n)
        self.block_bytes = self.entries * LANES * dtype.itemsize
        self.section = max(1, SECTION_BYTES // self.block_bytes)
        # Sections that are packed together, so that all threads have something to do.
        self.unit = self.section * max(1, _UNIT_BYTES // (self.section * self.block_bytes))
        self.unsynced = 0
        self.checksums: list[int] = []
        self.diagonals: list[Float] = []
        shape = (self.unit, self.entries, LANES)
        self.buffers = [aligned_empty(shape, dtype) for _ in range(2)]

    def run(self, progress: BinaryIO) -> None:
        """Write what is missing, and the description."""
        mode = "r+b" if (self.partial / BLOCKS).exists() else "w+b"
        with FileIO(self.partial / BLOCKS, mode) as blocks:
            written = self._resume(progress, blocks)
            self._check_room(blocks)
            m = written
            for data, count in self._packed_units(len(self.checksums) * self.section, written):
                for start, stop in parallel.chunks(len(data), self.section):
                    self._append(progress, blocks, data[start:stop], min(count, stop * LANES) - start * LANES)
                m += count
            if self.source.m not in (None, m):
                raise ValueError(f"`A` must have {self.source.m} matrices, got {m}.")
            _write_at(blocks, 0, header((-(-m // LANES), self.entries, LANES), self.dtype))
            os.fsync(blocks.fileno())
        diagonals = np.concatenate(self.diagonals)
        _write_synced(self.partial / DIAGONALS, header(diagonals.shape, self.dtype) + diagonals.tobytes())
        folder = Folder(
            self.partial, m, self.source.n, self.dtype, self.section, tuple(self.checksums), checksum(diagonals)
        )
        _write_synced(self.partial / DESCRIPTION, folder.describe().encode())

    # -- sections -----------------------------------------------------------------------------------------------

    def _packed_units(self, first: int, done: int) -> Iterator[tuple[Float, int]]:
        """(blocks, how many measurements they hold) from a block on; while some are written, the next are packed."""
        if self.source.m is not None and done >= self.source.m:
            return
        for data, count in parallel.ahead(self._pack_unit, ((first, index) for index in itertools.count())):
            if count:
                yield data, count
            if count < self.unit * LANES:
                return

    def _pack_unit(self, first: int, index: int) -> tuple[Float, int]:
        """A unit of the source, packed; it is overwritten two units later."""
        buffer = self.buffers[index % 2]
        count = self.source.pack(first + index * self.unit, buffer, self.n_threads)
        return buffer[: -(-count // LANES)], count

    def _append(self, progress: BinaryIO, blocks: FileIO, data: Float, count: int) -> None:
        """Write a section, and say so. Should the power fail, its checksum tells whether the disk had it."""
        position = DATA_START + len(self.checksums) * self.section * self.block_bytes
        _write_at(blocks, position, data.data.cast("B"))
        self.unsynced += data.nbytes
        if self.unsynced > _SYNC_BYTES:
            _sync_data(blocks.fileno())
            if hasattr(os, "posix_fadvise"):
                # It will not be read soon: leave the memory to others.
                os.posix_fadvise(blocks.fileno(), 0, position + data.nbytes, os.POSIX_FADV_DONTNEED)
            self.unsynced = 0
        self._note(data, count)
        progress.write(f"{json.dumps([self.checksums[-1], count])}\n".encode())
        progress.flush()

    def _note(self, data: Float, count: int) -> None:
        """Keep what the description will say of a section."""
        self.checksums.append(checksum(data))
        diagonals = np.empty((count, self.source.n))
        stored.packed_diagonals(data, diagonals, 0, len(data))
        self.diagonals.append(diagonals.astype(self.dtype))

    # -- going on -------------------------------------------------------------------------------------------------

    def _resume(self, progress: BinaryIO, blocks: FileIO) -> int:
        """Take over the sections that an earlier call wrote; how many measurements they hold."""
        what: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "m": self.source.m, "n": self.source.n, "dtype": self.dtype.name,
            "section": self.section,
        }  # fmt: skip
        progress.seek(0)
        lines = progress.read().split(b"\n")[:-1]  # the last one is torn, or empty
        if not lines:
            progress.truncate(0)
            progress.write(f"{json.dumps(what)}\n".encode())
            return 0
        if lines[0] != json.dumps(what).encode():
            raise ValueError(f"`path`: {str(self.partial)!r} was begun with another A or dtype: remove it.")
        total, end = 0, len(lines[0]) + 1
        for index, line in enumerate(lines[1:]):
            expected, count = json.loads(line)
            data = self._read(blocks, index, count)
            if data is None or checksum(data) != expected:
                break
            self._check_same(index, data, count)
            self._note(data, count)
            total, end = total + count, end + len(line) + 1
        progress.truncate(end)
        return total

    def _read(self, blocks: FileIO, index: int, count: int) -> Float | None:
        """A section that was written, or None where it is not whole."""
        data = self.buffers[0][: -(-count // LANES)]
        blocks.seek(DATA_START + index * self.section * self.block_bytes)
        view, position = data.data.cast("B"), 0
        while position < len(view):
            got = blocks.readinto(view[position:])
            if not got:
                return None
            position += got
        return data

    def _check_same(self, index: int, data: Float, count: int) -> None:
        """Raise where A is not what this section was packed from."""
        again = self.buffers[1][: self.section]
        if self.source.sequential:
            # It has to be read anyway.
            same = self.source.pack(index * self.section, again, self.n_threads) == count
            same = same and again[: len(data)].tobytes() == data.tobytes()
        else:
            self.source.pack(index * self.section, again[:1], self.n_threads)
            same = again[0].tobytes() == data[0].tobytes()
        if not same:
            raise ValueError(f"`path`: {str(self.partial)!r} was begun with another A: remove it.")

    def _check_room(self, blocks: FileIO) -> None:
        """Raise before the work where the disk has no room for what is missing."""
        if self.source.m is None:
            return
        needed = DATA_START + -(-self.source.m // LANES) * self.block_bytes - os.fstat(blocks.fileno()).st_size
        free = shutil.disk_usage(self.partial).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")


def _write_at(stream: FileIO, position: int, content: bytes | memoryview) -> None:
    """Write all of it: the system may take less at once."""
    view = memoryview(content)
    stream.seek(position)
    while view:
        view = view[stream.write(view) :]


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
