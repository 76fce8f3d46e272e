"""Encode answers and states as JSON with separate arrays, and decode them."""

from __future__ import annotations

from typing import Any

import numpy as np


class Encoder:
    """Encodes plain values as JSON; arrays are collected in a list, each once, and referred to by their index."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._known: dict[int, dict[str, Any]] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in self._known:
                self._known[id(value)] = self._put(value)
            return self._known[id(value)]
        if is_sparse(value):
            return {"sparse": [self(each) for each in (value.data, value.indices, value.indptr)], "shape": value.shape}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {"dict": {key: self(entry) for key, entry in value.items()}}
        if isinstance(value, tuple):
            return {"tuple": [self(entry) for entry in value]}
        if isinstance(value, list):
            return [self(entry) for entry in value]
        return value

    def _put(self, array: np.ndarray) -> dict[str, Any]:
        narrow, axes = _narrow(array), _axes(array)
        # Write the entries in their order in memory.
        self.arrays.append((array if narrow is None else narrow).transpose(axes))
        said = {"array": len(self.arrays) - 1, "axes": axes}
        return said if narrow is None else said | {"dtype": array.dtype.str}


def decoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """The value that was encoded."""
    if isinstance(value, list):
        return [decoded(entry, arrays) for entry in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        array = arrays[value["array"]].transpose(np.argsort(value["axes"]))
        return array.astype(value["dtype"]) if "dtype" in value else array
    if "sparse" in value:
        from scipy import sparse

        return sparse.csc_array(tuple(decoded(each, arrays) for each in value["sparse"]), shape=tuple(value["shape"]))
    if "tuple" in value:
        return tuple(decoded(entry, arrays) for entry in value["tuple"])
    return {key: decoded(entry, arrays) for key, entry in value["dict"].items()}


def is_sparse(value: Any) -> bool:
    """Whether this is the sparse answer of a contraction, by columns."""
    return getattr(value, "format", None) == "csc"


def _narrow(array: np.ndarray) -> np.ndarray | None:
    """The array in single precision if nothing is lost by it, as for entries of a float32 tensor; else None."""
    if array.dtype != np.float64 or array.size < 1000 or np.float32(array.flat[0]) != array.flat[0]:
        return None
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    return narrow if np.array_equal(narrow, array) else None


def _axes(array: np.ndarray) -> list[int]:
    """The axes from the slowest in memory to the fastest.

    A decoded array must have the same layout in memory as before: the last bits computed from it may depend on that.
    """
    return [int(axis) for axis in np.argsort([-stride for stride in array.strides], kind="stable")]


def dense(answer: Any) -> Any:
    """An answer without gaps between its entries."""
    if isinstance(answer, tuple):
        return tuple(dense(part) for part in answer)
    if is_sparse(answer):
        return answer
    return answer if answer.transpose(_axes(answer)).flags.c_contiguous else np.ascontiguousarray(answer)
