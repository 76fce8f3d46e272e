"""MNIST: the standard IDX files, read and checked, and a few test images that come with the package.

An IDX file is a big-endian header (two zero bytes, a type code, the number of dimensions, then one 32-bit length a
dimension) followed by the bytes of the array. Only unsigned bytes (type 8) occur in MNIST.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import struct
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MNIST", "mnist", "mnist_samples"]


class MNIST(NamedTuple):
    """Handwritten digits: images of shape (N, 28, 28), uint8, and their labels, shape (N,), uint8.

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.datasets.MNIST._fields
    ('train_images', 'train_labels', 'test_images', 'test_labels')
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


class _File(NamedTuple):
    name: str
    shape: tuple[int, ...]
    content_sha256: str  # of the file as it is after decompression, so that any compression of it passes
    gz_md5: str  # of the compressed file as it is distributed, checked on download


# In the order of the fields of MNIST.
_FILES = (
    _File(
        "train-images-idx3-ubyte",
        (60000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    _File(
        "train-labels-idx1-ubyte",
        (60000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    _File(
        "t10k-images-idx3-ubyte",
        (10000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    _File(
        "t10k-labels-idx1-ubyte",
        (10000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def mnist(folder: str | os.PathLike[str] | None = None) -> MNIST:
    """MNIST, from its four standard IDX files, each checked against its SHA-256.

    Parameters
    ----------
    folder : path, optional
        Where the files are, compressed (`.gz`) or not. Default: the folder that the environment variable
        FASTQUAD_DATA names, or its subfolder `mnist`; if it is not set, the files are downloaded once, with the
        optional package `pooch`, and kept in the user's cache.

    Returns
    -------
    MNIST
        `train_images` (60000, 28, 28), `train_labels` (60000,), `test_images` (10000, 28, 28) and `test_labels`
        (10000,), all uint8.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file is truncated, corrupt, or not what it should be.
    ImportError
        If the files have to be downloaded and pooch is not installed.

    Examples
    --------
    >>> import fastquad as fq
    >>> digits = fq.datasets.mnist()  # doctest: +SKIP
    >>> digits.test_images.shape  # doctest: +SKIP
    (10000, 28, 28)
    """
    if folder is None and os.environ.get("FASTQUAD_DATA"):
        folder = os.environ["FASTQUAD_DATA"]
        inner = Path(folder) / "mnist"
        if inner.is_dir():
            folder = inner
    paths = _download() if folder is None else [_find(Path(folder), file.name) for file in _FILES]
    return MNIST(*(_read_checked(path, file) for path, file in zip(paths, _FILES, strict=True)))


def mnist_samples() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A few images of the MNIST test set that come with the package: no download, no file needed.

    Returns
    -------
    images : uint8 array of shape (50, 28, 28)
        Drawn at random from the test set.
    labels : uint8 array of shape (50,)

    Examples
    --------
    >>> import fastquad as fq
    >>> images, labels = fq.datasets.mnist_samples()
    >>> images.shape
    (50, 28, 28)
    """
    with (files("fastquad") / "data" / "mnist_samples.npz").open("rb") as stream, np.load(stream) as arrays:
        return arrays["images"], arrays["labels"]


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"`folder` must hold {name}.gz or {name}; {folder} does not.")


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    # By content, not by name: some distributions store plain files under .gz names and the other way round.
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is truncated or corrupt: {error}") from error


def _parse_idx(content: bytes, path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(f"{path} is not an IDX file: it must begin with two zero bytes.")
    kind, ndim = content[2], content[3]
    if kind != 8:
        raise ValueError(f"{path} must hold unsigned bytes (IDX type 8), got type {kind}.")
    start = 4 + 4 * ndim
    if len(content) < start:
        raise ValueError(f"{path} is truncated: its header of {start} bytes ends after {len(content)}.")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    expected = start + math.prod(shape)
    if len(content) != expected:
        trouble = "is truncated" if len(content) < expected else "has trailing bytes"
        raise ValueError(f"{path} {trouble}: shape {shape} takes {expected} bytes, got {len(content)}.")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _read_checked(path: Path, file: _File) -> NDArray[np.uint8]:
    content = _content(path)
    array = _parse_idx(content, path)
    if array.shape != file.shape:
        raise ValueError(f"{path} must hold an array of shape {file.shape}, got {array.shape}.")
    if hashlib.sha256(content).hexdigest() != file.content_sha256:
        raise ValueError(
            f"{path} is corrupt, or another data set in the same format: its SHA-256 is not that of MNIST's."
        )
    return array


def _download() -> list[Path]:
    """The four files in the user's cache, fetched if they are not there yet."""
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "MNIST has to be downloaded, which needs the package pooch: pip install 'fastquad[data]'. Or give the "
            "folder that holds its four files: fq.datasets.mnist(folder), or the environment variable FASTQUAD_DATA."
        ) from None
    cache = pooch.os_cache("fastquad") / "mnist"
    return [_fetch(pooch, cache, file) for file in _FILES]


def _fetch(pooch: Any, cache: Path, file: _File) -> Path:
    name = f"{file.name}.gz"
    failures = []
    for mirror in _MIRRORS:
        try:
            return Path(pooch.retrieve(mirror + name, known_hash=f"md5:{file.gz_md5}", fname=name, path=cache))
        except (OSError, ValueError) as error:  # unreachable (requests' errors are OSErrors); wrong checksum
            failures.append(f"{mirror}: {error}")
    raise OSError(f"{name} could not be downloaded.\n" + "\n".join(failures))
