"""A file of records that survives a crash of its writer: appended to, checked when read, replaced atomically.

A record is a line of JSON, then the bytes of its arrays:

    [CRC-32, {..., "arrays": [["<f8", [50, 20]], ...]}]
    bytes of the first array, of the second, ...

The checksum covers the line's object and the arrays. A writer that is killed leaves at most one incomplete record, the
last; it is dropped, and so is everything after a record that was altered. Records are plain data: nothing that is read
is executed.
"""

from __future__ import annotations

import errno
import json
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastquad.system.files import explained, is_at, open_alone, parsed, read_all, rename_synced, write_all

_REMEDY = "What is written stays: make room and call again to go on"
#: The longest line of JSON that is read, in bytes.
_MAX_LINE = 1 << 24


class Record(NamedTuple):
    """A record: an object of JSON, and the arrays that belong to it."""

    said: dict[str, Any]
    arrays: list[np.ndarray]


class Journal:
    """A file of records, open and locked for this process if it exists; `create` makes it.

    It is read from its beginning, record by record, before it is written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Where the next record begins; `_next` is what `peek` has read there, and where that ends.
        self.position = 0
        self._next: tuple[Record, int] | None = None
        self._file: FileIO | None = None
        with suppress(FileNotFoundError):
            self._open(flags=0)

    def create(self) -> None:
        """Create the file, unless it exists."""
        if self._file is None:
            try:
                self._open(flags=os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                raise BlockingIOError(errno.EAGAIN, self._busy) from None

    def _open(self, flags: int) -> None:
        with _permitted(self.path):
            self._file = open_alone(self.path, self._busy, flags=flags)

    @property
    def _busy(self) -> str:
        return f"`checkpoint`: another solve is writing to {str(self.path)!r}"

    def close(self) -> None:
        """Close the file, which releases the lock."""
        if self._file is not None:
            self._file.close()

    @property
    def _stream(self) -> FileIO:
        assert self._file is not None
        return self._file

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether there is nothing in the file."""
        return self._file is None or os.fstat(self._file.fileno()).st_size == 0

    def peek(self) -> Record | None:
        """The next record, or None after the last complete one."""
        if self._next is None and self._file is not None:
            self._stream.seek(self.position)
            self._next = _read(self._stream)
        return None if self._next is None else self._next[0]

    def take(self) -> None:
        """Move past the record that `peek` returned."""
        assert self._next is not None
        self.position, self._next = self._next[1], None

    def drop_rest(self) -> None:
        """Forget the next record and all after it."""
        self._next = None
        self._stream.truncate(self.position)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Write a record after the last one taken, dropping what followed."""
        self.drop_rest()
        with explained("checkpoint", self.path, _REMEDY):
            self.position = _write(self._stream, self.position, record)

    def restart(self, records: list[Record]) -> None:
        """Replace the whole file by these records: written beside it, synced to disk and renamed."""
        beside = self.path.with_name(self.path.name + ".partial")
        with explained("checkpoint", self.path, _REMEDY), _permitted(self.path):
            stream, position = open_alone(beside, self._busy), 0
            try:
                stream.truncate(0)
                for record in records:
                    position = _write(stream, position, record)
                if not is_at(self._stream, self.path):
                    raise OSError(errno.EEXIST, f"`checkpoint`: {str(self.path)!r} was replaced while it was in use")
                rename_synced(stream, beside, self.path)
            except BaseException:
                stream.close()
                raise
        self._stream.close()
        self._file, self._next, self.position = stream, None, position


def _read(stream: FileIO) -> tuple[Record, int] | None:
    """The record at the stream's position, and where it ends; None if it is incomplete or altered."""
    start, size = stream.tell(), os.fstat(stream.fileno()).st_size
    line = _line(stream, start)
    try:
        _, said = parsed(line)
        shapes = [(np.dtype(dtype), tuple(map(int, shape))) for dtype, shape in said.pop("arrays")]
        lengths = [math.prod(shape) * dtype.itemsize for dtype, shape in shapes]
        # Check sizes before allocating: a line that was altered may claim any.
        if min(lengths, default=0) < 0 or start + len(line) + sum(lengths) > size:
            return None
        if any(dtype.kind not in "fiubc" for dtype, _ in shapes):
            return None
    except (ValueError, TypeError, KeyError, AttributeError, SyntaxError):
        return None
    stream.seek(start + len(line))
    arrays = [np.empty(shape, dtype) for dtype, shape in shapes]
    for array in arrays:
        read_all(stream, _bytes(array), "a checkpoint")
    record = Record(said, arrays)
    if _encoded(record) != line:
        return None
    return record, start + len(line) + sum(lengths)


def _line(stream: FileIO, start: int) -> bytes:
    """The line at a position, including its newline."""
    found = b""
    while b"\n" not in found and len(found) < _MAX_LINE:
        stream.seek(start + len(found))
        piece = stream.read(1 << 16)
        if not piece:
            break
        found += piece
    return found[: found.find(b"\n") + 1]


def _write(stream: FileIO, position: int, record: Record) -> int:
    """Write a record at a position; returns where it ends."""
    return write_all(stream, position, _encoded(record), *map(_bytes, record.arrays))


def _bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, in place."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _encoded(record: Record) -> bytes:
    """The line of a record."""
    shapes = [[array.dtype.str, list(array.shape)] for array in record.arrays]
    said = json.dumps(record.said | {"arrays": shapes})
    code = zlib.crc32(said.encode())
    for array in record.arrays:
        code = zlib.crc32(_bytes(array), code)
    return f"[{code}, {said}]\n".encode()


@contextmanager
def _permitted(path: Path) -> Iterator[None]:
    """Make an error of missing permission in this block name the argument."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        said = f"`checkpoint`: {str(path)!r} cannot be read and written ({os.strerror(error.errno)})"
        raise PermissionError(error.errno, said) from error
