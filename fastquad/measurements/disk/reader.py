"""Read packed blocks from disk, ahead of the computation.

A few threads read some 64 MB each, with single large reads past the page cache, which neither fill it nor copy from it.
The next parts are read while one is used. The buffers are allocated once, and are all the memory that reading takes.

If only some byte ranges of a block are needed, they are read to their places in the buffer, and the rest of the buffer
is left as it is: kernels that touch only those ranges work on it as on any block.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from fastquad.measurements.disk.folder import BLOCKS, DATA_START, Folder
from fastquad.system import threads
from fastquad.typing import Float, Indices

#: Reads past the page cache begin and end at multiples of this.
_PAGE = 4096
#: The longest gap, in bytes, that is read and thrown away rather than skipped: a new read takes about 20 µs on a
#: solid-state disk, as long as reading this much.
_WORTH_SKIPPING = 48 << 10
#: The size of one read in bytes, if memory allows.
_READ_BYTES = 64 << 20
#: The number of reads in flight: enough to keep the disk busy.
_READS = 4

Ranges = list[tuple[int, int]]


class Reader:
    """Read the blocks of a folder, a few at a time, into buffers of its own.

    Parameters
    ----------
    folder : Folder
    memory : int
        The largest total size of the buffers, in bytes: at least two sections.
    verify : bool
        Whether to check a section against its checksum when it is first read as a whole.
    """

    def __init__(self, folder: Folder, memory: int, verify: bool) -> None:
        self.folder = folder
        room, unit = _READS + 1, folder.section * folder.block_bytes
        # Read whole sections of the folder, because only those can be verified.
        count = max(1, _READ_BYTES // unit)
        while count > 1 and room * count * unit > memory:
            count //= 2
        while room > 2 and room * count * unit > memory:
            room -= 1
        if room * count * unit > memory:
            raise ValueError(
                f"`memory` must be at least {2 * unit / 1e6:.1f} MB for this folder, got {memory / 1e6:.1f} MB."
            )
        self._parts = threads.chunks(folder.shape[0], count * folder.section)
        self.verifies = verify
        self._unverified = set(folder.sections()) if verify else set()
        # Leave a margin at both ends, because reads begin and end at whole pages.
        size = count * unit + 2 * _PAGE
        self._buffers = [np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8) for _ in range(room)]
        self._lock = Lock()
        self.bytes_read = 0

    def __call__(self, ranges: Ranges | None = None) -> Iterator[tuple[int, Float]]:
        """(index of the first block, blocks) of each part in turn; of each block only `ranges`, where given.

        The blocks are overwritten by a later part.
        """
        descriptor, direct = _open(self.folder)
        try:
            self.folder.check_unchanged(descriptor)
            tasks = [(descriptor, direct, index, ranges) for index in range(len(self._parts))]
            depth = len(self._buffers) - 1
            yield from threads.ahead(self._read, tasks, depth, min(depth, _READS))
            self.folder.check_unchanged(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, direct: bool, index: int, ranges: Ranges | None) -> tuple[int, Float]:
        start, stop = self._parts[index]
        size = self.folder.block_bytes
        first = DATA_START + start * size
        buffer = self._buffers[index % len(self._buffers)]
        # Place the data in the buffer as in the file, relative to pages.
        shift = first % _PAGE
        if ranges is None:
            count = _fill(descriptor, buffer, first - shift, 0, shift + (stop - start) * size)
        else:
            count = 0
            for block in range(stop - start):
                for low, high in ranges:
                    low, high = shift + block * size + low, shift + block * size + high
                    count += _fill(descriptor, buffer, first - shift, low // _PAGE * _PAGE, high)
        with self._lock:
            self.bytes_read += count
        if not direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, first, (stop - start) * size, os.POSIX_FADV_DONTNEED)
        data = buffer[shift : shift + (stop - start) * size].view(self.folder.stored)
        blocks = data.reshape(stop - start, *self.folder.shape[1:])
        if ranges is None:
            self._verify(start, blocks)
        return start, blocks

    def _verify(self, start: int, blocks: Float) -> None:
        """Check the sections in these blocks that were not checked before."""
        for first, last in threads.chunks(len(blocks), self.folder.section):
            section = (start + first, start + last)
            if section in self._unverified:
                self.folder.check_section(section[0] // self.folder.section, blocks[first:last])
                self._unverified.discard(section)


def _open(folder: Folder) -> tuple[int, bool]:
    """A descriptor of the blocks, and whether it reads past the page cache."""
    path = folder.path / BLOCKS
    # Do not wait for the other end of a FIFO, if there is one by now.
    patience = getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT | patience), True
    except (AttributeError, OSError) as error:  # not every platform or file system has O_DIRECT
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY | patience | getattr(os, "O_BINARY", 0)), False


def _fill(descriptor: int, buffer: NDArray[np.uint8], origin: int, low: int, high: int) -> int:
    """Read the file from origin + low on into buffer[low:high], and up to a whole page more; returns the bytes read."""
    end = -(-high // _PAGE) * _PAGE
    position = low
    while position < high:
        got = os.preadv(descriptor, [buffer[position:end].data], origin + position)
        if got == 0:
            raise OSError(errno.EIO, "the file of a packed tensor was cut short while it was read")
        position += got
    return position - low


def ranges_of(cells: Indices, width: int, size: int) -> Ranges | None:
    """The byte ranges that hold these cells of `width` bytes, in a block of `size`; None for the whole block.

    Ranges that lie close together are merged, with the gap between them.
    """
    starts = np.unique(cells) * width
    if not starts.size:
        return []
    breaks = np.flatnonzero(np.diff(starts) > _WORTH_SKIPPING)
    lows, highs = starts[np.append(0, breaks + 1)], starts[np.append(breaks, starts.size - 1)] + width
    if (highs - lows).sum() + lows.size * _WORTH_SKIPPING > 0.9 * size:
        return None
    return list(zip(lows.tolist(), highs.tolist(), strict=True))
