"""Read and write decoders as `.npz` or safetensors files, neither of which can hold code.

In a `.npz` file, layer l is `weight_l` (inputs, outputs) and `bias_l`. A safetensors file is a 64-bit little-endian
length, a JSON header of that length, which gives every array's type, shape and place, and the bytes of the arrays.
Its layers are named and shaped as PyTorch's `Linear` layers: `name.weight` (outputs, inputs), and `name.bias` if there
is one. So files saved from a PyTorch network are read as they are, and the other way round; only the activations are
not in such a file. The format is simple enough to be read and written here without its library.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastquad.system.files import open_regular, replacing

Array = NDArray[Any]

# The dtypes of safetensors. bfloat16 is the upper half of a float32, so its bits are read as an integer.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_HEADER_LIMIT = 100_000_000  # the library's own limit


class Layers(NamedTuple):
    """The network in a file; `activations` is None if the file does not name them."""

    weights: list[Array]
    biases: list[Array]
    activations: list[str] | None


def write(path: str | os.PathLike[str], layers: Layers, dtype: DTypeLike, info: dict[str, str]) -> None:
    """Write a network in the format of the file's name."""
    layers = layers._replace(
        weights=[W.astype(dtype) for W in layers.weights], biases=[b.astype(dtype) for b in layers.biases]
    )
    formats = {".npz": _write_npz, ".safetensors": _write_safetensors}
    suffix = Path(path).suffix
    if suffix not in formats:
        raise ValueError(f"`path` must end in .npz or .safetensors, got {os.fspath(path)!r}.")
    formats[suffix](path, layers, info)


def read(path: str | os.PathLike[str]) -> Layers:
    """Read the network in a file of either format, recognised by its content."""
    with open_regular(Path(path)) as stream:
        zipped = stream.read(4) == b"PK\3\4"
    try:
        return _read_npz(path) if zipped else _read_safetensors(path)
    except Exception as error:  # a damaged file makes zipfile, NumPy or JSON raise anything
        raise ValueError(f"{os.fspath(path)!r} does not hold a decoder: {error}") from error


# -- .npz -----------------------------------------------------------------------------------------------------


def _write_npz(path: str | os.PathLike[str], layers: Layers, info: dict[str, str]) -> None:
    arrays: dict[str, Any] = {f"weight_{layer}": W for layer, W in enumerate(layers.weights)}
    arrays |= {f"bias_{layer}": b for layer, b in enumerate(layers.biases)}
    arrays |= {f"info_{key}": np.array(text) for key, text in info.items()}
    with replacing(path, "path") as stream:
        np.savez_compressed(stream, activations=np.array(layers.activations), **arrays)


def _read_npz(path: str | os.PathLike[str]) -> Layers:
    # Open the file here: np.load would not close one that is no archive.
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        activations = [str(name) for name in arrays["activations"]]
        n_layers = range(len(activations))
        weights = [arrays[f"weight_{layer}"] for layer in n_layers]
        return Layers(weights, [arrays[f"bias_{layer}"] for layer in n_layers], activations)


# -- safetensors ----------------------------------------------------------------------------------------------


def _write_safetensors(path: str | os.PathLike[str], layers: Layers, info: dict[str, str]) -> None:
    arrays: dict[str, Array] = {}
    for layer, (W, b) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        arrays |= {f"{layer}.weight": W.T, f"{layer}.bias": b}
    types = {np.dtype(code): name for name, code in _TYPES.items() if name != "BF16"}
    header: dict[str, Any] = {"__metadata__": info | {"activations": ",".join(layers.activations or [])}}
    start, parts = 0, []
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<")
        parts.append(np.ascontiguousarray(array, dtype=dtype).tobytes())
        place = [start, start := start + len(parts[-1])]
        header[name] = {"dtype": types[dtype], "shape": list(array.shape), "data_offsets": place}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    with replacing(path, "path") as stream:
        stream.writelines([len(text).to_bytes(8, "little"), text, *parts])


def _read_safetensors(path: str | os.PathLike[str]) -> Layers:
    arrays, metadata = _parse_safetensors(Path(path).read_bytes())
    names = sorted((name for name in arrays if name.endswith(".weight")), key=_by_number)
    if not names:
        raise ValueError("no array has a name that ends in .weight.")
    weights = [arrays[name].T for name in names]
    biases = [
        arrays.get(f"{name.removesuffix('.weight')}.bias", np.zeros(W.shape[-1]))
        for name, W in zip(names, weights, strict=True)
    ]
    activations = metadata.get("activations")
    return Layers(weights, biases, activations.split(",") if activations else None)


def _parse_safetensors(content: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the metadata of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or not 2 <= length <= min(len(content) - 8, _HEADER_LIMIT):
        raise ValueError("it is neither .npz nor safetensors, or truncated.")
    header = json.loads(content[8 : 8 + length])
    data = memoryview(content)[8 + length :]
    metadata = header.pop("__metadata__", {})
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if entry["dtype"] not in _TYPES:
            continue  # not weights: counters and the like
        shape, (start, stop), code = tuple(entry["shape"]), entry["data_offsets"], np.dtype(_TYPES[entry["dtype"]])
        if not 0 <= start <= stop <= len(data) or stop - start != math.prod(shape) * code.itemsize:
            raise ValueError(f"array {name} is truncated or misplaced.")
        array = np.frombuffer(data[start:stop], dtype=code).reshape(shape)
        if entry["dtype"] == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = array
    return arrays, metadata


def _by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts layer 10 behind layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
