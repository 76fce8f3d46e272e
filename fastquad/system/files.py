"""Write files safely: under a lock, beside the old file and renamed, with one sentence for a full disk.

A file that others may read is never written in place. It is written as PATH.partial, synced to disk and renamed
atomically: a reader of PATH finds the old content or the new one, and a writer that is killed leaves at most
PATH.partial, which the next writer takes over. A writer holds a lock on the file, which ends with its process.

Nothing here blocks: a FIFO, a device or a socket in place of a file is an error.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

#: Error numbers that mean a full disk: no room, no room for this user, or a file larger than allowed.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Flags for every open, where the platform has them. Without O_NONBLOCK, opening a FIFO would wait for its other end.
_OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# The byte to lock on Windows, where others cannot read what is locked: far beyond the end of any file.
_LOCKED_BYTE = 1 << 42

#: Identifies a file and its state: device, inode, size, time of the last change.
Stamp = tuple[int, int, int, int]


# -- one process at a file --------------------------------------------------------------------------------------------


def lock(stream: IO[bytes] | FileIO) -> bool:
    """Lock an open file for this process; whether that succeeded. True as well on a file system without locks.

    A lock ends when the file is closed or the process ends.
    """
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(stream)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            return True
        raise
    return True


def _lock_on_windows(stream: IO[bytes] | FileIO) -> bool:
    try:
        import msvcrt
    except ImportError:  # neither POSIX nor Windows
        return True
    position = stream.tell()
    stream.seek(_LOCKED_BYTE)
    try:
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    finally:
        stream.seek(position)
    return True


def open_alone(path: Path, busy: str, *, flags: int = os.O_CREAT) -> FileIO:
    """Open the regular file at a path for reading and writing, by this process alone until it is closed.

    A missing file is created, unless `flags` (of `os.open`) say otherwise. Where another process has it open, the error
    says `busy`.
    """
    for _ in range(100):
        stream = _opened(path, os.O_RDWR | _NOFOLLOW | flags, "r+b")
        try:
            if not lock(stream):
                raise BlockingIOError(errno.EAGAIN, busy)
            if is_at(stream, path):
                return stream
        except BaseException:
            stream.close()
            raise
        # Its last user renamed or removed it between our opening and our lock: try again.
        stream.close()
    raise BlockingIOError(errno.EAGAIN, busy)


@contextmanager
def alone(path: Path, busy: str) -> Iterator[None]:
    """Keep other processes out of this block while it lasts, by a lock file at `path` that has no other use.

    The file is removed while it is locked: a process that opened it before notices, and creates a new one.
    """
    with open_alone(path, busy):
        try:
            yield
        finally:
            with suppress(PermissionError):  # Windows does not remove an open file
                path.unlink(missing_ok=True)


def is_at(stream: FileIO, path: Path) -> bool:
    """Whether a path still leads to this open file."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


# -- reading ----------------------------------------------------------------------------------------------------------


def open_regular(path: Path) -> FileIO:
    """The regular file at a path, open for reading; an OSError where it is a FIFO, a device or the like."""
    return _opened(path, os.O_RDONLY, "rb")


def stamp(descriptor: int) -> Stamp:
    """The stamp of an open file: it changes when the file is written to, truncated or replaced."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Watch:
    """Hold a regular file open for reading, and notice when somebody changes it; errors name `path`."""

    def __init__(self, file: Path, path: Path | None = None) -> None:
        self.path = file if path is None else path
        self.descriptor = os.open(file, os.O_RDONLY | _OPEN_FLAGS)
        # Close it with this object, or when the process ends.
        weakref.finalize(self, os.close, self.descriptor)
        kind = os.fstat(self.descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise not_regular(file, kind)
        self.stamp = stamp(self.descriptor)

    def check(self) -> None:
        """Raise an OSError if the file was written to or truncated."""
        if stamp(self.descriptor) != self.stamp:
            raise changed(self.path)


def changed(path: Path) -> OSError:
    """The error for a file that was written to, truncated or replaced while it was in use."""
    return OSError(errno.ESTALE, f"`A`: {str(path)!r} was changed while it was in use: open it again")


def parsed(text: str | bytes) -> Any:
    """Parse JSON from a file that anybody may have altered: whatever is wrong with it is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists are nested too deep") from None


def _opened(path: Path, flags: int, mode: str) -> FileIO:
    descriptor = os.open(path, flags | _OPEN_FLAGS, 0o666)
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise not_regular(path, kind)
        return FileIO(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def not_regular(path: Path, mode: int) -> OSError:
    """The error for a path that leads to something else than a regular file."""
    kinds = {
        stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }  # fmt: skip
    what = kinds.get(stat.S_IFMT(mode), "something else")
    kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    return kind(number, f"expected a regular file, but this is {what}", str(path))


# -- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str], argument: str, *, fresh: bool = False) -> Iterator[BinaryIO]:
    """A stream whose content replaces a file, all of it or nothing; errors name `argument`, which gave the path.

    A link is followed. A pipe or a device is written to directly: there is nothing to replace. With `fresh`, a file
    that exists already is a FileExistsError.
    """
    target = Path(os.path.realpath(path))
    with explained(argument, target, "Make room and try again"):
        try:
            special = not stat.S_ISREG(target.stat().st_mode)
        except FileNotFoundError:
            special = False
        if special:
            with target.open("wb") as stream:
                yield stream
            return
        beside = target.with_name(f"{target.name}.partial")
        busy = f"`{argument}`: another process is writing to {str(target)!r}"
        try:
            raw = open_alone(beside, busy)
        except (FileNotFoundError, PermissionError) as error:
            refused = f"`{argument}`: {str(target)!r} cannot be written: {error.strerror}"
            raise type(error)(error.errno, refused) from None
        with cast(BinaryIO, BufferedWriter(raw)) as stream:
            try:
                if fresh and target.exists():
                    raise FileExistsError(errno.EEXIST, "it exists already", str(target))
                stream.truncate(0)
                yield stream
                stream.flush()
                rename_synced(stream, beside, target)
            except BaseException:
                with suppress(OSError):
                    beside.unlink()
                raise


def rename_synced(stream: IO[bytes] | FileIO, beside: Path, target: Path) -> None:
    """Sync what was written to disk, then rename it to its target."""
    os.fsync(stream.fileno())
    if os.name == "nt":  # Windows does not rename an open file
        stream.close()
    beside.replace(target)
    sync_folder(target.parent)


def read_all(stream: FileIO, view: memoryview, what: str) -> None:
    """Fill a view from a stream, in as many calls as the system needs; `what` is named if the file ends too soon."""
    while view:
        got = stream.readinto(view)
        if not got:
            raise OSError(errno.EIO, f"{what} was cut short while it was read")
        view = view[got:]


def write_all(stream: FileIO, position: int, *contents: bytes | memoryview) -> int:
    """Write all contents at a position, in as many calls as the system needs; returns where they end."""
    stream.seek(position)
    for content in contents:
        view = memoryview(content)
        while view:
            view = view[stream.write(view) or 0 :]
    return stream.tell()


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(argument: str, path: Path, remedy: str) -> Iterator[None]:
    """Make a full disk's error in this block name the argument, the file and the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        reason = error.strerror if error.filename is None else os.strerror(error.errno)
        raise OSError(error.errno, f"`{argument}`: no room for {str(path)!r} ({reason}). {remedy}") from error
