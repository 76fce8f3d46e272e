"""Measurements in a `.npy` file, which is mapped and never loaded as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastquad.measurements.dense.arrays import tensor
from fastquad.measurements.dense.complex import ComplexTensor
from fastquad.measurements.dense.raw import RawTensor
from fastquad.system import npy
from fastquad.system.files import Watch
from fastquad.typing import Number


class _Mapped:
    """A mapped array in place of one in memory.

    Every read of the array first checks whether the file was changed: see `FolderTensor`. A pickle holds the path.
    """

    m: int
    n: int
    dtype: Any

    def __init__(self, path: Path, array: Number) -> None:
        self.path = path.absolute()
        self._watch = Watch(path)
        super().__init__(array)  # type: ignore[call-arg]

    @property
    def array(self) -> Number:
        self._watch.check()
        return self._mapped

    @array.setter
    def array(self, mapped: Number) -> None:
        self._mapped = mapped

    def __reduce__(self) -> tuple[Any, ...]:
        return _mapped_again, (str(self.path), self.m, self.n, self.dtype.name)


class MappedTensor(_Mapped, RawTensor):
    """Measurements on the array in a `.npy` file."""


class MappedComplexTensor(_Mapped, ComplexTensor):
    """Measurements on the array of complex numbers in a `.npy` file."""

    @property
    def _numbers(self) -> Number:
        return self.array.view(self.array.real.dtype)

    @_numbers.setter
    def _numbers(self, numbers: Number) -> None:
        """Do nothing: the numbers are a view of the array."""


def mapped_tensor(path: Path) -> MappedTensor | MappedComplexTensor:
    """The tensor in a `.npy` file."""
    array = tensor(npy.mapped(path, "A"))
    return (MappedComplexTensor if array.dtype.kind == "c" else MappedTensor)(path, array)


def _mapped_again(path: str, m: int, n: int, dtype: str) -> MappedTensor | MappedComplexTensor:
    again = mapped_tensor(Path(path))
    if (again.m, again.n, again.dtype.name) != (m, n, dtype):
        raise ValueError(f"`A`: {path!r} holds another tensor than the one that was pickled.")
    return again
