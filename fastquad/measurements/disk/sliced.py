"""Arrays that are read by slices along m: HDF5, zarr, netCDF, tensorstore, blosc2.

So is whatever else has a shape, a dtype and slices, and is no array of NumPy's.

They are never loaded as a whole unless they fit in the memory budget. Slices are whole chunks of the file along m,
where a chunk is not larger than the budget, so that nothing is decompressed twice in a pass; one thread reads, one
slice ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from fastquad.arguments import unmasked
from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.parts import PartedTensor, contract
from fastquad.measurements.contractions import Answer, Contraction
from fastquad.measurements.dense.arrays import tensor, tensor_dtype
from fastquad.measurements.dense.layout import LANES
from fastquad.measurements.dense.make import empty_raw, pack_finite, raw_tensor
from fastquad.system import threads
from fastquad.typing import Float, Indices

#: Bytes that are read at once, where the budget allows: large enough that a call of a library costs nothing (guess).
_SLICE_BYTES = 32 << 20
#: The share of the budget that a slice takes: two are in memory, each perhaps with a copy in another dtype.
_SHARE = 8
# The suffixes of files that h5py opens; netCDF 4 is HDF5, and so is MATLAB's format 7.3.
_HDF5 = frozenset({".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".mat"})


class Slices:
    """An (m, n, n) array that is read by slices along m; one thread at a time."""

    def __init__(self, source: Any, room: int) -> None:
        _refuse_scaled(source)
        self.source = source
        self.shape = tuple(int(size) for size in source.shape)
        self.ndim = len(self.shape)
        #: As it is stored; `target` is as the kernels take it.
        self.dtype = np.dtype(getattr(source.dtype, "numpy_dtype", source.dtype))
        self.target = tensor_dtype(self)
        self.bytes_read = 0
        self.step = self._step(room)
        self._lock = Lock()
        self._kept: tuple[int, Float] | None = None

    def _step(self, room: int) -> int:
        """How many matrices are read at once: whole chunks, of some megabytes."""
        m, n, _ = self.shape
        matrix = n * n * max(self.dtype.itemsize, self.target.itemsize)
        chunk = min(m, _chunk(self.source))
        most = max(1, room // _SHARE // matrix)
        if chunk > most:
            return most  # a chunk is larger than the budget allows, and is read several times
        return max(chunk, min(most, _SLICE_BYTES // matrix) // chunk * chunk)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """(start, stop) of the slices."""
        return threads.chunks(self.shape[0], self.step)

    def read(self, start: int, stop: int) -> Float:
        """The matrices start <= i < stop, as the kernels take them."""
        with self._lock:
            part = self.source[start:stop]
            if hasattr(part, "read"):  # tensorstore
                part = part.read().result()
            array = np.asarray(unmasked(getattr(part, "values", part), "A"))
            self.bytes_read += array.nbytes
        if array.shape != (stop - start, *self.shape[1:]):
            raise ValueError(
                f"`A` must give matrices {start} to {stop - 1} as an array of shape {(stop - start, *self.shape[1:])}, "
                f"got {array.shape}."
            )
        return tensor(array)

    def whole(self) -> Float:
        """All of it, read slice by slice into one array."""
        out: Float = np.empty(self.shape, dtype=self.target)
        for start, stop in self.bounds:
            out[start:stop] = self.read(start, stop)
        return out

    def matrices(self, start: int, stop: int) -> Float:
        """Matrices from any place; those read one after the other read each slice once."""
        out: Float = np.empty((stop - start, *self.shape[1:]), dtype=self.target)
        for first, last in self.bounds[start // self.step : -(-stop // self.step)]:
            if self._kept is None or self._kept[0] != first:
                self._kept = None  # so that two are never in memory
                self._kept = first, self.read(first, last)
            here, there = max(start, first), min(stop, last)
            out[here - start : there - start] = self._kept[1][here - first : there - first]
        return out


class SlicedTensor(PartedTensor):
    """Measurements on an array that is read by slices in every pass."""

    numbers = medium = "disk"

    def __init__(self, slices: Slices, memory: int, path: str | None = None) -> None:
        self.slices, self.memory, self.path = slices, memory, path
        self.m, self.n, self.dtype = slices.shape[0], slices.shape[1], slices.target
        self._bounds = slices.bounds
        self._like = empty_raw(self.m, self.n, self.dtype)

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """The number of bytes read from disk so far."""
        return self.slices.bytes_read

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(
                f"a tensor on an open {type(self.slices.source).__name__} cannot be pickled: open it by its path, "
                "fastquad.open('A.h5::A'), or pack it."
            )
        return opened_again, (self.path, self.memory)

    # What is asked for is read by whole slices.
    def reads_rows(self, nnz: int) -> bool:
        return False

    def share_of_rows(self, s: int) -> float:
        return 1.0

    def share_of_block(self, rows: Indices, cols: Indices) -> float:
        return 1.0

    def cost_of_products(self, nnz: int) -> float:
        return 1.0

    def cost_of_first_products(self, nnz: int, count: int) -> float:
        return min(1.0, -(-count // self.slices.step) * self.slices.step / self.m)

    def cost_of_diagonals(self) -> float:
        return 1.0

    def _ask(self, requests: dict[int, Contraction], n_threads: int) -> Iterable[Answer]:
        parts = self._read_ahead([self._bounds[part] for part in requests])
        for part, request in zip(parts, requests.values(), strict=True):
            yield contract(part, request, n_threads)

    def _read_ahead(self, bounds: list[tuple[int, int]]) -> Iterator[Measurements]:
        if len(bounds) == 1:
            yield raw_tensor(self.slices.read(*bounds[0]))
            return
        for array in threads.ahead(self.slices.read, bounds):
            yield raw_tensor(array)


class SlicedSource:
    """An array that is read by slices, as a source that can be packed."""

    sequential = False

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self.m: int | None = slices.shape[0]
        self.n, self.dtype = slices.shape[1], slices.target

    def pack(self, first: int, out: Float, n_threads: int) -> int:
        """Fill out (blocks, entries, 8) with the blocks from `first` on; returns the number of measurements."""
        start = first * LANES
        stop = max(start, min(self.slices.shape[0], start + len(out) * LANES))
        step = max(1, self.slices.step // LANES) * LANES
        for at in range(start, stop, step):
            piece = raw_tensor(self.slices.matrices(at, min(stop, at + step)))
            place = (at - start) // LANES
            tasks = [(piece, block, out[place + block], at) for block in range(-(-piece.m // LANES))]
            threads.run(pack_finite, tasks, n_threads)
        return stop - start


def named_dataset(path: str) -> tuple[Any, str]:
    """The dataset that "FILE::NAME" names, opened for reading, and its absolute name."""
    file, _, name = path.rpartition("::")
    where = Path(file).expanduser()
    if not where.exists():
        raise FileNotFoundError(f"`path`: there is no file {file!r}.")
    if where.suffix.lower() in _HDF5:
        h5py = _library("h5py", file)
        try:
            group = h5py.File(where, "r")
        except OSError as error:
            raise ValueError(f"`path`: {file!r} is not an HDF5 file: {error}.") from error
    elif where.suffix.lower() == ".zarr" or where.is_dir():
        group = _library("zarr", file).open_group(where, mode="r")
    else:
        raise ValueError(f"`path` must name a dataset of an HDF5 or zarr file, 'A.h5::A' or 'A.zarr::A', got {path!r}.")
    found = group.get(name)
    if found is None or not hasattr(found, "shape"):
        there = ", ".join(repr(f"{file}::{key}") for key in group) or "nothing"
        raise ValueError(f"`path`: there is no dataset {name!r} in {file!r}, which has {there}.")
    return found, f"{where.absolute()}::{name}"


def opened_again(path: str, memory: int) -> SlicedTensor:
    """What a pickle names."""
    dataset, path = named_dataset(path)
    return SlicedTensor(Slices(dataset, memory), memory, path)


def _library(name: str, file: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"`path`: {file!r} is read with {name}: pip install {name}.") from None


def _chunk(source: Any) -> int:
    """How many matrices a chunk of the file has along m; 1 where it has none, or does not tell."""
    chunks: Any = getattr(source, "chunks", None)
    if chunks is None and callable(getattr(source, "chunking", None)):  # netCDF4
        chunks = source.chunking()
    layout = getattr(source, "chunk_layout", None)
    if chunks is None and layout is not None:  # tensorstore
        chunks = layout.read_chunk.shape
    try:
        return max(1, int(chunks[0]))
    except (TypeError, ValueError, IndexError):
        return 1


def _refuse_scaled(source: Any) -> None:
    """Raise where a file says that the numbers that are stored are not those that are meant."""
    attributes: Any = getattr(source, "attrs", None)
    if callable(getattr(source, "ncattrs", None)):
        attributes = {name: source.getncattr(name) for name in source.ncattrs()}
    said = {}
    for name, plain in (("scale_factor", 1), ("add_offset", 0)):
        try:
            value = None if attributes is None else attributes.get(name)
        except Exception:  # attributes that are no mapping
            value = None
        if value is not None and np.any(np.asarray(value) != plain):
            said[name] = float(np.ravel(value)[0])
    if said:
        about = " and ".join(f"{name} = {value:g}" for name, value in said.items())
        raise ValueError(
            f"`A` must hold its entries as they are, got a variable scaled by {about}: write it without scaling, or "
            "give xarray.open_dataset(path)[name], which undoes it."
        )
