"""Pack any source to disk, a section at a time, so that a crash or a full disk costs one section.

The folder is written as PATH.partial:

    blocks.npy        sections, one after the other
    progress.jsonl    a line that says what is being packed, then the checksum of each section that was written

and renamed when it is complete and synced to disk. A second call finds PATH.partial, checks each of its sections
against the checksum, checks that A is the same (by a block of each section), drops incomplete sections, and goes on.
The next section is packed while one is written.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import shutil
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from fastquad.measurements.dense.layout import LANES, aligned_empty, block_rows, stored_as
from fastquad.measurements.dense.make import NotFinite, packed_tensor
from fastquad.measurements.disk.folder import (
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
from fastquad.measurements.disk.sources import Source
from fastquad.system import threads
from fastquad.system.files import alone, explained, open_alone, parsed, sync_folder, write_all
from fastquad.system.progress import Bar
from fastquad.typing import Float

_log = logging.getLogger("fastquad")

_PROGRESS = "progress.jsonl"
#: The number of bytes that are packed at once; two such pieces are in memory, so that 2 GB pack within 500 MB.
_UNIT_BYTES = 64 << 20
#: The number of bytes written between two syncs to disk.
_SYNC_BYTES = 256 << 20
# Sync the data of a file; not every platform has fdatasync.
_sync_data = getattr(os, "fdatasync", os.fsync)


def write(source: Source, path: Path, dtype: np.dtype, n_threads: int) -> None:
    """Pack a source into a folder at this path, or go on where an earlier call ended."""
    partial = path.with_name(path.name + ".partial")
    busy = f"`path`: another process is packing into {str(partial)!r}."
    with explained("path", partial, "What is packed stays: make room and pack the same A again to go on, or remove it"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hold the lock until the folder is renamed, so that the next process finds it in place.
        with alone(path.with_name(path.name + ".partial.lock"), busy):
            if os.path.lexists(path):
                raise FileExistsError(f"`path`: {str(path)!r} exists already: remove it, or choose another name.")
            partial.mkdir(exist_ok=True)
            try:
                with open_alone(partial / _PROGRESS, busy) as progress:
                    _Packing(source, partial, dtype, n_threads).run(progress)
            except NotFinite:
                # Remove what no later call could continue.
                shutil.rmtree(partial)
                raise
            (partial / _PROGRESS).unlink()
            sync_folder(partial)
            partial.rename(path)
            sync_folder(path.parent)


class _Packing:
    """One call of `write`."""

    def __init__(self, source: Source, partial: Path, dtype: np.dtype, n_threads: int) -> None:
        self.source, self.partial, self.dtype, self.n_threads = source, partial, dtype, n_threads
        self.entries, self.stored = block_rows(source.n, dtype), stored_as(dtype)
        self.block_bytes = self.entries * LANES * self.stored.itemsize
        self.section = max(1, SECTION_BYTES // self.block_bytes)
        # The number of sections packed at once, enough for all threads.
        self.unit = self.section * max(1, _UNIT_BYTES // (self.section * self.block_bytes))
        self.unsynced = 0
        self.checksums: list[int] = []
        self.diagonals: list[Float] = []
        shape = (self.unit, self.entries, LANES)
        self.buffers = [aligned_empty(shape, self.stored) for _ in range(2)]

    def run(self, progress: FileIO) -> None:
        """Write the missing sections and the description."""
        with open_alone(self.partial / BLOCKS, f"`path`: {str(self.partial)!r} is in use.") as blocks:
            m = written = self._resume(progress, blocks)
            if written:
                _log.info("going on with %s: %d matrices are packed", self.partial, written)
            self._check_room(blocks)
            with Bar("packing", self.source.m, " matrices", written) as bar:
                for data, count in self._packed_units(len(self.checksums) * self.section, written):
                    for start, stop in threads.chunks(len(data), self.section):
                        part = min(count, stop * LANES) - start * LANES
                        self._append(progress, blocks, data[start:stop], part)
                        bar.advance(part)
                    m += count
            if self.source.m not in (None, m):
                raise ValueError(f"`A` must have {self.source.m} matrices, got {m}.")
            write_all(blocks, 0, header((-(-m // LANES), self.entries, LANES), self.stored))
            os.fsync(blocks.fileno())
        diagonals = np.concatenate(self.diagonals)
        _write_synced(self.partial / DIAGONALS, header(diagonals.shape, self.stored) + diagonals.tobytes())
        folder = Folder(
            self.partial, m, self.source.n, self.dtype, self.section, tuple(self.checksums), checksum(diagonals)
        )
        _write_synced(self.partial / DESCRIPTION, folder.describe().encode())

    # -- sections -----------------------------------------------------------------------------------------------

    def _packed_units(self, first: int, done: int) -> Iterator[tuple[Float, int]]:
        """(blocks, number of measurements in them) from a block on; the next are packed while some are written."""
        if self.source.m is not None and done >= self.source.m:
            return
        for data, count in threads.ahead(self._pack_unit, ((first, index) for index in itertools.count())):
            if count:
                yield data, count
            if count < self.unit * LANES:
                return

    def _pack_unit(self, first: int, index: int) -> tuple[Float, int]:
        """Pack a unit of the source, into a buffer that is overwritten two units later."""
        buffer = self.buffers[index % 2]
        count = self.source.pack(first + index * self.unit, buffer, self.n_threads)
        return buffer[: -(-count // LANES)], count

    def _append(self, progress: FileIO, blocks: FileIO, data: Float, count: int) -> None:
        """Write a section, then its checksum: after a power failure that tells whether the section is complete."""
        position = DATA_START + len(self.checksums) * self.section * self.block_bytes
        write_all(blocks, position, data.data.cast("B"))
        self.unsynced += data.nbytes
        if self.unsynced > _SYNC_BYTES:
            _sync_data(blocks.fileno())
            if hasattr(os, "posix_fadvise"):
                # Drop what was written from the page cache: it will not be read soon.
                os.posix_fadvise(blocks.fileno(), 0, position + data.nbytes, os.POSIX_FADV_DONTNEED)
            self.unsynced = 0
        self._note(data, count)
        write_all(progress, progress.tell(), f"{json.dumps([self.checksums[-1], count])}\n".encode())

    def _note(self, data: Float, count: int) -> None:
        """Remember the entries of the description for a section."""
        self.checksums.append(checksum(data))
        diagonals = packed_tensor(data, count, self.source.n, self.dtype)._diagonals(1)
        self.diagonals.append(diagonals.astype(self.stored))

    # -- going on -------------------------------------------------------------------------------------------------

    def _resume(self, progress: FileIO, blocks: FileIO) -> int:
        """Take over the sections that an earlier call wrote; returns the number of measurements in them."""
        what: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "m": self.source.m, "n": self.source.n, "dtype": self.dtype.name,
            "section": self.section,
        }  # fmt: skip
        progress.seek(0)
        lines = progress.read().split(b"\n")[:-1]  # the last one is incomplete, or empty
        if not lines:
            progress.truncate(0)
            write_all(progress, 0, f"{json.dumps(what)}\n".encode())
            return 0
        if lines[0] != json.dumps(what).encode():
            raise ValueError(f"`path`: {str(self.partial)!r} was begun with another A or dtype: remove it.")
        total, end = 0, len(lines[0]) + 1
        with Bar("checking what is packed", len(lines) - 1, " sections") as bar:
            for index, line in enumerate(lines[1:]):
                expected, count = _entry(line)
                data = self._read(blocks, index, count)
                if data is None or checksum(data) != expected:
                    break
                self._check_same(index, data, count)
                self._note(data, count)
                total, end = total + count, end + len(line) + 1
                bar.advance()
        progress.truncate(end)
        progress.seek(end)
        return total

    def _read(self, blocks: FileIO, index: int, count: int) -> Float | None:
        """A section that was written, or None if it is incomplete."""
        if not 0 < count <= self.section * LANES:
            return None
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
        """Raise an error if this section was packed from another A."""
        again = self.buffers[1][: self.section]
        if self.source.sequential:
            # A sequential source has to be read anyway, so compare all of it.
            same = self.source.pack(index * self.section, again, self.n_threads) == count
            same = same and again[: len(data)].tobytes() == data.tobytes()
        else:
            self.source.pack(index * self.section, again[:1], self.n_threads)
            same = again[0].tobytes() == data[0].tobytes()
        if not same:
            raise ValueError(f"`path`: {str(self.partial)!r} was begun with another A: remove it.")

    def _check_room(self, blocks: FileIO) -> None:
        """Raise an error early if the disk has no room for the missing sections."""
        if self.source.m is None:
            return
        needed = DATA_START + -(-self.source.m // LANES) * self.block_bytes - os.fstat(blocks.fileno()).st_size
        free = shutil.disk_usage(self.partial).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")


def _entry(line: bytes) -> tuple[int, int]:
    """(checksum, number of measurements) of a section, from its line; zeros if the line is something else."""
    try:
        expected, count = map(int, parsed(line))
    except (ValueError, TypeError):
        return 0, 0
    return expected, count


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
