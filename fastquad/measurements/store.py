"""A packed tensor on disk: a folder of plain `.npy` files, and a JSON file that says what they hold.

    blocks.npy       (ceil(m/8), entries, 8), the packed layout (see kernels/packed.h); its data begin at byte 4096
    diagonals.npy    (m, n), so that a sparse start reads almost nothing
    tensor.json      shape, dtype, layout, and a CRC-32 of every section (some 8 MB) of the blocks

A folder is written beside, under the name PATH.partial, and renamed when it is whole (see `writer.py`). So what bears
its name is complete, unless something else cut or altered it: the sizes are checked whenever it is opened, the
checksums when it is verified.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastquad._kernels.stored as stored
from fastquad import parallel
from fastquad.measurements.base import Float
from fastquad.measurements.packed import GROUP, LANES, PackedTensor

FORMAT, VERSION = "fastquad packed tensor", 1
BLOCKS, DIAGONALS, DESCRIPTION = "blocks.npy", "diagonals.npy", "tensor.json"
#: Where the entries begin in blocks.npy: a whole page, so that they can be read past the page cache.
DATA_START = 4096
#: A section, the unit of a checksum, has at most so many bytes, but at least a block.
SECTION_BYTES = 8 << 20


@dataclass(frozen=True)
class Folder:
    """A complete packed folder: what its description says. Make it by `Folder.open`."""

    path: Path
    m: int
    n: int
    dtype: np.dtype
    #: Blocks in a section; the last section may have fewer.
    section: int
    checksums: tuple[int, ...]
    diagonals_checksum: int

    @classmethod
    def open(cls, path: str | os.PathLike) -> Folder:
        """The folder at a path, checked but for its checksums."""
        path = Path(path)
        folder = cls._described(path)
        for name, shape in ((BLOCKS, folder.shape), (DIAGONALS, (folder.m, folder.n))):
            _check_file(path, name, shape, folder.dtype)
        return folder

    @classmethod
    def _described(cls, path: Path) -> Folder:
        said = _read_description(path)
        try:
            m, n, section = (_positive(said[key]) for key in ("m", "n", "section"))
            dtype = np.dtype({"float32": np.float32, "float64": np.float64}[said["dtype"]])
            checksums, diagonals = tuple(map(int, said["checksums"])), int(said["diagonals_checksum"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"{DESCRIPTION} lacks a valid entry ({error})") from error
        folder = cls(path, m, n, dtype, section, checksums, diagonals)
        if len(checksums) != len(folder.sections()):
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
        return (-(-self.m // LANES), stored.entries(self.n), LANES)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of 8 measurements."""
        return self.shape[1] * LANES * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.shape[0] * self.block_bytes

    def sections(self) -> list[tuple[int, int]]:
        """(start, stop) of the blocks of each section."""
        return parallel.chunks(self.shape[0], self.section)

    def blocks(self) -> Float:
        """The blocks, mapped."""
        return np.load(self.path / BLOCKS, mmap_mode="r", allow_pickle=False)

    def diagonals(self) -> Float:
        """The diagonals, read and checked, in double precision."""
        diagonals = np.load(self.path / DIAGONALS, allow_pickle=False)
        if checksum(diagonals) != self.diagonals_checksum:
            raise _damaged(self.path, f"the checksum of {DIAGONALS} does not match")
        return diagonals.astype(np.float64)

    def check_section(self, index: int, data: Float) -> None:
        """Raise where the blocks of a section are not those that were written."""
        if checksum(data) != self.checksums[index]:
            raise _damaged(self.path, f"the checksum of section {index} of {BLOCKS} does not match")

    def verify(self, n_threads: int) -> None:
        """Read everything and check it."""
        self.diagonals()
        blocks = self.blocks()
        tasks = [(index, blocks[start:stop]) for index, (start, stop) in enumerate(self.sections())]
        parallel.run(self.check_section, tasks, n_threads)


class FolderTensor(PackedTensor):
    """A packed folder that fits in memory: mapped, and kept there by the system once it has been read."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder.blocks(), folder.m, folder.n)
        self.folder = folder

    def _identity(self) -> tuple:
        return (self.folder.describe(),)

    def _diagonals(self, n_threads: int) -> Float:
        return self.folder.diagonals()


def checksum(array: Float) -> int:
    """CRC-32 of the bytes of a contiguous array."""
    return zlib.crc32(array.data)


def header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The beginning of a `.npy` file whose data start at `DATA_START`."""
    said = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": shape}
    # Magic, version 1.0, the length of the rest in two bytes; the rest is padded with spaces, as NumPy's own.
    rest = repr(said).encode("latin1").ljust(DATA_START - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(rest).to_bytes(2, "little") + rest


# -- checks -----------------------------------------------------------------------------------------------------


def _read_description(path: Path) -> dict[str, Any]:
    """tensor.json, of a version that this code reads and as it was written."""
    if not path.exists():
        unfinished = path.with_name(path.name + ".partial")
        more = f"; {str(unfinished)!r} is unfinished: pack the same A again to go on" if unfinished.exists() else ""
        raise FileNotFoundError(f"`path`: there is no folder {str(path)!r}{more}.")
    try:
        said = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
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


def _check_file(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise where a file is not an array of this shape, all of it."""
    expected = header(shape, dtype)
    try:
        with (path / name).open("rb") as stream:
            found, size = stream.read(len(expected)), os.fstat(stream.fileno()).st_size
    except FileNotFoundError:
        raise _damaged(path, f"{name} is missing") from None
    except PermissionError:
        raise PermissionError(f"`path`: {str(path / name)!r} cannot be read: permission denied.") from None
    whole = len(expected) + math.prod(shape) * dtype.itemsize
    if size != whole:
        raise _damaged(path, f"{name} has {size} bytes in place of {whole}")
    if found != expected:
        raise _damaged(path, f"{name} does not begin as {DESCRIPTION} says")


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a positive integer")
    return value


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"`path`: {str(path)!r} is damaged: {what}. Pack it again.")
