"""A packed tensor on disk: a folder of plain `.npy` files, and a JSON file that says what they hold.

    blocks.npy       (ceil(m/8), entries, 8), the packed layout (see kernels/layout.h), or for complex matrices
                     (ceil(m/8), 2 entries, 8) (see kernels/hermitian.h); its data begin at byte 4096
    diagonals.npy    (m, n), so that a sparse start reads almost nothing
    tensor.json      shape, dtype, layout, and a CRC-32 of every section (some 8 MB) of the blocks

A folder is written as PATH.partial and renamed when it is complete (see `writer.py`). So a folder under its own name is
complete, unless something else truncated or altered it: sizes are checked whenever it is opened, checksums when it is
verified.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fastquad.measurements.dense.hermitian import PackedHermitianTensor
from fastquad.measurements.dense.layout import GROUP, LANES, aligned_empty, stored_as
from fastquad.measurements.dense.make import packed_shape
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.system import threads
from fastquad.system.files import Stamp, Watch, changed, open_regular, parsed, read_all, stamp
from fastquad.system.progress import Bar
from fastquad.typing import Float

FORMAT, VERSION = "fastquad packed tensor", 1
BLOCKS, DIAGONALS, DESCRIPTION = "blocks.npy", "diagonals.npy", "tensor.json"
_DTYPES = ("float16", "float32", "float64", "complex64", "complex128")
#: The offset of the entries in blocks.npy: a whole page, so that they can be read past the page cache.
DATA_START = 4096
#: The largest size of a section, the unit of a checksum, in bytes; a section is at least one block.
SECTION_BYTES = 8 << 20
# The name of its files in errors.
_FILE = "the file of a packed tensor"
#: The longest description that is read, in bytes: it has a checksum for each section.
_DESCRIPTION_BYTES = 256 << 20


@dataclass(frozen=True)
class Folder:
    """A complete packed folder, as its description says; made by `Folder.open`."""

    path: Path
    m: int
    n: int
    dtype: np.dtype
    #: The number of blocks in a section; the last section may have fewer.
    section: int
    checksums: tuple[int, ...]
    diagonals_checksum: int
    #: The stamp of blocks.npy when the folder was opened.
    stamp: Stamp | None = field(default=None, compare=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Folder:
        """Open the folder at a path, checking everything but its checksums."""
        path = Path(path)
        folder = cls._described(path)
        _check_file(path, DIAGONALS, (folder.m, folder.n), folder.stored)
        seen = _check_file(path, BLOCKS, folder.shape, folder.stored)
        # Make the path absolute: the process may change its working directory while it reads.
        return replace(folder, path=path.absolute(), stamp=seen)

    @classmethod
    def open_again(cls, path: str, description: str) -> Folder:
        """Open the folder that a pickle names, if it still has the same description."""
        folder = cls.open(path)
        if folder.describe() != description:
            raise ValueError(f"`path`: {path!r} holds another tensor than the one that was pickled.")
        return folder

    @classmethod
    def _described(cls, path: Path) -> Folder:
        said = _read_description(path)
        try:
            m, n, section = (_positive(said[key]) for key in ("m", "n", "section"))
            if n >= 1 << 30 or m * n * n >= 1 << 59:
                raise ValueError(f"no disk holds {m} matrices of {n} by {n}")
            dtype = np.dtype({name: name for name in _DTYPES}[said["dtype"]])
            checksums, diagonals = tuple(map(int, said["checksums"])), int(said["diagonals_checksum"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"{DESCRIPTION} lacks a valid entry ({error})") from error
        folder = cls(path, m, n, dtype, section, checksums, diagonals)
        if len(checksums) != -(-folder.shape[0] // section):
            raise _damaged(path, f"{DESCRIPTION} has {len(checksums)} checksums, which do not fit its shape")
        return folder

    def describe(self) -> str:
        """The content of tensor.json."""
        content = {
            "format": FORMAT, "version": VERSION, "m": self.m, "n": self.n, "dtype": self.dtype.name, "lanes": LANES,
            "group": GROUP, "section": self.section, "checksums": list(self.checksums),
            "diagonals_checksum": self.diagonals_checksum,
        }  # fmt: skip
        return json.dumps(content | {"checksum": _checksum_of(content)})

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of blocks.npy."""
        return packed_shape(self.m, self.n, self.dtype)

    @property
    def stored(self) -> np.dtype:
        """The dtype of the numbers in its files."""
        return stored_as(self.dtype)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of 8 measurements."""
        return self.shape[1] * LANES * self.stored.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.shape[0] * self.block_bytes

    def sections(self) -> list[tuple[int, int]]:
        """(start, stop) of the blocks of each section."""
        return threads.chunks(self.shape[0], self.section)

    def check_unchanged(self, descriptor: int) -> None:
        """Raise an error if the open blocks.npy was changed or replaced since the folder was opened."""
        if stamp(descriptor) != self.stamp:
            raise changed(self.path)

    def read(self, start: int, stop: int) -> Float:
        """The blocks start <= i < stop, in memory."""
        blocks = aligned_empty((stop - start, *self.shape[1:]), self.stored)
        with open_regular(self.path / BLOCKS) as stream:
            self.check_unchanged(stream.fileno())
            stream.seek(DATA_START + start * self.block_bytes)
            read_all(stream, blocks.data.cast("B"), _FILE)
            self.check_unchanged(stream.fileno())
        return blocks

    def diagonals(self) -> Float:
        """The diagonals, read and checked, in double precision."""
        diagonals = np.empty((self.m, self.n), self.stored)
        with open_regular(self.path / DIAGONALS) as stream:
            stream.seek(DATA_START)
            read_all(stream, diagonals.data.cast("B"), _FILE)
        if checksum(diagonals) != self.diagonals_checksum:
            with open_regular(self.path / BLOCKS) as stream:
                self.check_unchanged(stream.fileno())
            raise _damaged(self.path, f"the checksum of {DIAGONALS} does not match")
        return diagonals.astype(np.float64)

    def check_section(self, index: int, data: Float) -> None:
        """Raise an error if the blocks of a section are not those that were written."""
        if checksum(data) != self.checksums[index]:
            raise _damaged(self.path, f"the checksum of section {index} of {BLOCKS} does not match")

    def verify(self, n_threads: int) -> None:
        """Read everything and check it."""
        self.diagonals()
        with Bar(f"checking {self.path.name}", self.nbytes, "B") as bar:

            def check(index: int, start: int, stop: int) -> None:
                self.check_section(index, self.read(start, stop))
                bar.advance((stop - start) * self.block_bytes)

            threads.run(check, [(index, *section) for index, section in enumerate(self.sections())], n_threads)


class FolderTensor(PackedTensor):
    """A packed folder that fits in memory: mapped, and cached by the system once it has been read.

    Every read of the blocks first checks whether the file was changed. That is an error, while reading beyond the end
    of a truncated mapped file would kill the process (as it still does if the file is truncated in the middle of a
    pass). A pickle holds the path.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._watch = Watch(folder.path / BLOCKS, folder.path)
        folder.check_unchanged(self._watch.descriptor)
        content = mmap.mmap(self._watch.descriptor, 0, access=mmap.ACCESS_READ)
        super().__init__(np.ndarray(folder.shape, folder.stored, content, DATA_START), folder.m, folder.n)

    @property
    def blocks(self) -> Float:
        self._watch.check()
        return self._mapped

    @blocks.setter
    def blocks(self, mapped: Float) -> None:
        self._mapped = mapped

    def __reduce__(self) -> tuple[Any, ...]:
        return _mapped_again, (str(self.folder.path), self.folder.describe())

    def _identity(self) -> tuple[Any, ...]:
        return (self.folder.describe(),)

    def _diagonals(self, n_threads: int) -> Float:
        return self.folder.diagonals()


class HermitianFolderTensor(FolderTensor, PackedHermitianTensor):
    """The same for complex matrices."""


def folder_tensor(folder: Folder) -> FolderTensor:
    """The tensor of a folder that fits in memory."""
    return (HermitianFolderTensor if folder.dtype.kind == "c" else FolderTensor)(folder)


def _mapped_again(path: str, description: str) -> FolderTensor:
    return folder_tensor(Folder.open_again(path, description))


def checksum(array: Float) -> int:
    """CRC-32 of the bytes of a contiguous array."""
    return zlib.crc32(array.data)


def header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The beginning of a `.npy` file whose data start at `DATA_START`."""
    said = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": shape}
    # Write magic, version 1.0 and the length of the rest in two bytes; then the rest, padded with spaces as NumPy does.
    rest = repr(said).encode("latin1").ljust(DATA_START - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(rest).to_bytes(2, "little") + rest


# -- checks -----------------------------------------------------------------------------------------------------


def _read_description(path: Path) -> dict[str, Any]:
    """The content of tensor.json, if its version is known and its checksum is right."""
    if not path.exists():
        unfinished = path.with_name(path.name + ".partial")
        more = f"; {str(unfinished)!r} is unfinished: pack the same A again to go on" if unfinished.exists() else ""
        raise FileNotFoundError(f"`path`: there is no folder {str(path)!r}{more}.")
    try:
        with open_regular(path / DESCRIPTION) as stream:
            if os.fstat(stream.fileno()).st_size > _DESCRIPTION_BYTES:
                raise ValueError("it is far too long")
            said = parsed(stream.read())
    except FileNotFoundError:
        raise ValueError(f"`path`: {str(path)!r} is not a packed tensor: it has no {DESCRIPTION}.") from None
    except NotADirectoryError:
        raise ValueError(f"`path`: {str(path)!r} is not a packed tensor: it is not a folder.") from None
    except ValueError as error:
        raise _damaged(path, f"{DESCRIPTION} cannot be read ({error})") from error
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise ValueError(f"`path`: {str(path)!r} is not a packed tensor: {DESCRIPTION} does not say so.")
    if said.get("version") != VERSION:
        raise ValueError(
            f"`path`: {str(path)!r} has version {said.get('version')!r} of the format, this fastquad reads version "
            f"{VERSION}: use the fastquad that wrote it, or pack again."
        )
    if said.pop("checksum", None) != _checksum_of(said):
        raise _damaged(path, f"{DESCRIPTION} was altered")
    return said


def _checksum_of(content: dict[str, Any]) -> int:
    """CRC-32 of a description, whatever the order of its entries."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _check_file(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Stamp:
    """The stamp of a file, after checking that it is a complete array of this shape."""
    expected = header(shape, dtype)
    try:
        with open_regular(path / name) as stream:
            found, seen = stream.read(len(expected)), stamp(stream.fileno())
    except FileNotFoundError:
        raise _damaged(path, f"{name} is missing") from None
    except PermissionError:
        raise PermissionError(f"`path`: {str(path / name)!r} cannot be read: permission denied.") from None
    whole = len(expected) + math.prod(shape) * dtype.itemsize
    if seen[2] != whole:
        raise _damaged(path, f"{name} has {seen[2]} bytes in place of {whole}")
    if found != expected:
        raise _damaged(path, f"{name} does not begin as {DESCRIPTION} says")
    return seen


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a positive integer")
    return value


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"`path`: {str(path)!r} is damaged: {what}. Pack it again.")
