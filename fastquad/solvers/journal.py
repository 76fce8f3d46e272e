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
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastquad.locks import lock

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
        if path.exists():
            self._open("r+b")

    def create(self) -> None:
        """Make the file, unless it is there."""
        if self._file is None:
            try:
                self._open("x+b")
            except FileExistsError:
                raise _occupied(self.path) from None

    def _open(self, mode: str) -> None:
        try:
            file = FileIO(self.path, mode)
        except FileExistsError:
            raise
        except OSError as error:
            raise _explained(error, self.path) from error
        _lock(file, self.path)
        if not os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
            # Between the two lines above, another process has put a new file here.
            file.close()
            raise _occupied(self.path)
        self._file = file

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
        try:
            self.position = _write(self._stream, self.position, record)
        except OSError as error:
            raise _explained(error, self.path) from error

    def restart(self, records: list[Record]) -> None:
        """Put these records in the place of everything: written beside, and renamed when they are on the disk."""
        beside = self.path.with_name(self.path.name + ".partial")
        try:
            stream = FileIO(beside, "w+b")
            _lock(stream, self.path)
            position = 0
            for record in records:
                position = _write(stream, position, record)
            os.fsync(stream.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise _explained(error, self.path) from error
        self._stream.close()
        self._file, self._next, self.position = stream, None, position


def _read(stream: FileIO) -> tuple[Record, int] | None:
    """The record at the stream's position, and where it ends; None where it is not whole."""
    start, size = stream.tell(), os.fstat(stream.fileno()).st_size
    line = _line(stream, start)
    try:
        _, said = json.loads(line)
        shapes = [(np.dtype(dtype), tuple(map(int, shape))) for dtype, shape in said.pop("arrays")]
        lengths = [math.prod(shape) * dtype.itemsize for dtype, shape in shapes]
        # Before memory is taken for it: a line that was altered may say anything.
        if min(lengths, default=0) < 0 or start + len(line) + sum(lengths) > size:
            return None
        if any(dtype.kind not in "fiub" for dtype, _ in shapes):
            return None
    except (ValueError, TypeError, KeyError, AttributeError):
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
    stream.seek(position)
    for view in (memoryview(_encoded(record)), *map(_bytes, record.arrays)):
        while view:  # the system may take less at once
            view = view[stream.write(view) or 0 :]
    return stream.tell()


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


def _lock(stream: FileIO, path: Path) -> None:
    """Raise where another process is at it."""
    if not lock(stream):
        stream.close()
        raise _occupied(path)


def _occupied(path: Path) -> OSError:
    return BlockingIOError(errno.EAGAIN, f"`checkpoint`: another solve is writing to {str(path)!r}")


def _explained(error: OSError, path: Path) -> OSError:
    """The error, with the argument in it, and the way out where the disk is full."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        said = f"`checkpoint`: {str(path)!r} cannot be read and written ({os.strerror(error.errno)})"
        return PermissionError(error.errno, said)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return error
    return OSError(
        error.errno,
        f"`checkpoint`: no room for {str(path)!r} ({os.strerror(error.errno)}). What is written stays: make room and "
        "call again to go on",
    )
