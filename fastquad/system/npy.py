"""Read `.npy` files from untrusted sources: the array, or a ValueError that says what the file is instead."""

from __future__ import annotations

import io
import math
import mmap
from pathlib import Path

import numpy as np

from fastquad.system.files import open_regular

_MAGIC = b"\x93NUMPY"
#: The longest header that is read: twice what NumPy itself allows.
_HEADER_BYTES = 20_000


def mapped(path: Path, argument: str) -> np.ndarray:
    """Map the array in a file, read-only; errors name `argument`, which gave the path."""
    try:
        with open_regular(path) as stream:
            if not stream.seek(0, io.SEEK_END):
                raise ValueError(f"`{argument}`: {str(path)!r} cannot be read as a .npy array: it is empty.")
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise FileNotFoundError(f"`{argument}`: there is no file {str(path)!r}.") from None
    except OSError as error:
        raise OSError(error.errno, f"`{argument}`: {str(path)!r} cannot be read: {error.strerror}") from error
    return array(content, argument, str(path))


def array(content: bytes | mmap.mmap, argument: str, name: str) -> np.ndarray:
    """The array in the content of a file, read-only and in place."""
    failed = f"`{argument}`: {name!r} cannot be read as a .npy array:"
    if not len(content):
        raise ValueError(f"{failed} it is empty.")
    if content[:4] == b"PK\x03\x04":
        raise ValueError(f"{failed} it is an archive (.npz). Give one array of it, numpy.load({name!r})[key].")
    if content[:6] != _MAGIC:
        raise ValueError(f"{failed} it begins with {content[:6]!r}. A table of text is read by numpy.loadtxt.")
    header = io.BytesIO(content[:_HEADER_BYTES])
    try:
        version = np.lib.format.read_magic(header)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(header)
    except Exception as error:  # an altered header makes NumPy and its parser raise anything
        raise ValueError(f"{failed} {error}") from error
    if dtype.hasobject:
        raise ValueError(f"{failed} it holds Python objects (dtype {dtype}), not numbers.")
    start, size = header.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or start + size > len(content):
        raise ValueError(f"{failed} its header says shape {shape} of {dtype}, but it has {len(content)} bytes.")
    return np.ndarray(shape, dtype, content, start, order="F" if fortran else "C")
