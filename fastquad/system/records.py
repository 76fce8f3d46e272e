"""A file of records that survives its writer: appended to, checked when it is read, replaced in one stroke.

A record is a line of JSON, then the bytes of its arrays:

    [CRC-32, {..., "arrays": [["<f8", [50, 20]], ...]}]
    bytes of the first array, of the second, ...

The checksum is that of the line's object and of the arrays. A writer that is killed leaves at most one record that is
not whole, the last; it is dropped, and so is whatever follows a record that was altered. Plain data: nothing that is
read is executed.
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

from fastquad.system.files import explained, is_at, open_alone, parsed, rename_synced, write_all

_REMEDY = "What is written stays: make room and call again to go on"
#: No line of JSON is longer.
_MAX_LINE = 1 << 24


class Record(NamedTuple):
    """What was said, in JSON, and the arrays that belong to it."""

    said: dict[str, Any]
    arrays: list[np.ndarray]


class Journal:
    """The file at a path, open and locked for this process, where there is one; `create` makes one.

    It is read from its beginning, record by record, before it is written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Where the next record begins; and what `peek` has read there, with its end.
        self.position = 0
        self._next: tuple[Record, int] | None = None
        self._file: FileIO | None = None
        with suppress(FileNotFoundError):
            self._open(flags=0)

    def create(self) -> None:
        """Make the file, unless it is there."""
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
        """Close the file, which lets go of the lock."""
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
        """The next record, or None after the last that is whole."""
        if self._next is None and self._file is not None:
            self._stream.seek(self.position)
            self._next = _read(self._stream)
        return None if self._next is None else self._next[0]

    def take(self) -> None:
        """Go on to the record after the next."""
        assert self._next is not None
        self.position, self._next = self._next[1], None

    def drop_rest(self) -> None:
        """Forget the next record and all after it."""
        self._next = None
        self._stream.truncate(self.position)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Write a record at the end of what was taken; what was there is dropped."""
        self.drop_rest()
        with explained("checkpoint", self.path, _REMEDY):
            self.position = _write(self._stream, self.position, record)

    def restart(self, records: list[Record]) -> None:
        """Put these records in the place of everything: written beside, and renamed when they are on the disk."""
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
    """The record at the stream's position, and where it ends; None where it is not whole."""
    start, size = stream.tell(), os.fstat(stream.fileno()).st_size
    line = _line(stream, start)
    try:
        _, said = parsed(line)
        shapes = [(np.dtype(dtype), tuple(map(int, shape))) for dtype, shape in said.pop("arrays")]
        lengths = [math.prod(shape) * dtype.itemsize for dtype, shape in shapes]
        # Before memory is taken for it: a line that was altered may say anything.
        if min(lengths, default=0) < 0 or start + len(line) + sum(lengths) > size:
            return None
        if any(dtype.kind not in "fiubc" for dtype, _ in shapes):
            return None
    except (ValueError, TypeError, KeyError, AttributeError, SyntaxError):
        return None
    stream.seek(start + len(line))
    arrays = [np.empty(shape, dtype) for dtype, shape in shapes]
    for array in arrays:
        _fill(stream, _bytes(array))
    record = Record(said, arrays)
    if _encoded(record) != line:
        return None
    return record, start + len(line) + sum(lengths)


def _line(stream: FileIO, start: int) -> bytes:
    """The line at a position, with its end."""
    found = b""
    while b"\n" not in found and len(found) < _MAX_LINE:
        stream.seek(start + len(found))
        piece = stream.read(1 << 16)
        if not piece:
            break
        found += piece
    return found[: found.find(b"\n") + 1]


def _fill(stream: FileIO, view: memoryview) -> None:
    while view:
        got = stream.readinto(view)
        if not got:
            raise OSError(errno.EIO, "a checkpoint was cut short while it was read")
        view = view[got:]


def _write(stream: FileIO, position: int, record: Record) -> int:
    """Write a record at a position; where it ends."""
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
    """In here, an error of missing permission names the argument."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        said = f"`checkpoint`: {str(path)!r} cannot be read and written ({os.strerror(error.errno)})"
        raise PermissionError(error.errno, said) from error
