"""MNIST files: what is read, and every way in which a file can be wrong."""

import gzip
import hashlib
import struct
import sys
import types

import numpy as np
import pytest

from fastquad import datasets


def idx(array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with four small files in the format of MNIST, which the reader is made to expect."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((6, 4, 4), (6,), (3, 4, 4), (3,))]
    expected = []
    for file, array in zip(datasets._FILES, arrays, strict=True):
        compressed = gzip.compress(idx(array))
        (tmp_path / f"{file.name}.gz").write_bytes(compressed)
        digest, md5 = hashlib.sha256(idx(array)).hexdigest(), hashlib.md5(compressed).hexdigest()
        expected.append(file._replace(shape=array.shape, content_sha256=digest, gz_md5=md5))
    monkeypatch.setattr(datasets, "_FILES", tuple(expected))
    monkeypatch.delenv("FASTQUAD_DATA", raising=False)
    return tmp_path, arrays


def same(data, arrays):
    return all(np.array_equal(got, array) for got, array in zip(data, arrays, strict=True))


def test_reads_compressed_and_plain_files(small):
    folder, arrays = small
    assert same(datasets.mnist(folder), arrays)
    for path in list(folder.glob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert same(datasets.mnist(str(folder)), arrays)


@pytest.mark.parametrize("inner", [".", "mnist"])
def test_folder_from_the_environment(small, tmp_path_factory, monkeypatch, inner):
    folder, arrays = small
    home = tmp_path_factory.mktemp("home")
    (home / inner).mkdir(exist_ok=True)
    for path in folder.glob("*.gz"):
        (home / inner / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("FASTQUAD_DATA", str(home))
    assert same(datasets.mnist(), arrays)


def break_first(folder, change):
    path = next(folder.glob("train-images*"))
    path.write_bytes(change(path.read_bytes()))


def flipped(content):
    """The same length, one pixel changed."""
    plain = bytearray(gzip.decompress(content))
    plain[-1] ^= 1
    return gzip.compress(bytes(plain))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 2], "truncated or corrupt"),
        (lambda content: gzip.decompress(content)[:-5], "is truncated: shape .* takes 112 bytes, got 107"),
        (lambda content: gzip.decompress(content)[:9], "header of 16 bytes ends after 9"),
        (lambda content: gzip.decompress(content) + b"more", "trailing bytes"),
        (lambda content: b"\x89PNG, really", "not an IDX file"),
        (lambda content: b"", "not an IDX file"),
        (lambda content: b"\0\0\x0d\x01" + bytes(8), "IDX type 8.*got type 13"),
        (lambda content: idx(np.zeros((2, 4, 4))), r"must hold an array of shape \(6, 4, 4\), got \(2, 4, 4\)"),
        (flipped, "SHA-256"),
    ],
)
def test_what_is_wrong_is_said(small, change, message):
    folder, _ = small
    break_first(folder, change)
    with pytest.raises(ValueError, match=message):
        datasets.mnist(folder)


def test_corrupt_gzip_stream(small):
    folder, _ = small
    break_first(folder, lambda content: content[:20] + bytes(8) + content[28:])
    with pytest.raises(ValueError, match="truncated or corrupt"):
        datasets.mnist(folder)


def test_missing_file(small):
    folder, _ = small
    next(folder.glob("t10k-labels*")).unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        datasets.mnist(folder)


class FakePooch(types.ModuleType):
    """`retrieve` as pooch has it, from a folder in place of the network."""

    def __init__(self, source, cache, down=()):
        super().__init__("pooch")
        self.source, self.cache, self.down, self.asked = source, cache, down, []

    def os_cache(self, name):
        return self.cache / name

    def retrieve(self, url, known_hash, fname, path):
        self.asked.append(url)
        if any(url.startswith(mirror) for mirror in self.down):
            raise OSError("no route")
        content = (self.source / fname).read_bytes()
        if known_hash != f"md5:{hashlib.md5(content).hexdigest()}":
            raise ValueError("the hash does not match")
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_bytes(content)
        return str(path / fname)


def test_download_tries_the_next_mirror(small, tmp_path_factory, monkeypatch):
    folder, arrays = small
    pooch = FakePooch(folder, tmp_path_factory.mktemp("cache"), down=datasets._MIRRORS[:1])
    monkeypatch.setitem(sys.modules, "pooch", pooch)
    assert same(datasets.mnist(), arrays)
    assert len(pooch.asked) == 8


def test_download_that_fails_everywhere(small, tmp_path_factory, monkeypatch):
    folder, _ = small
    break_first(folder, lambda content: content + b"x")
    monkeypatch.setitem(sys.modules, "pooch", FakePooch(folder, tmp_path_factory.mktemp("cache")))
    with pytest.raises(OSError, match="could not be downloaded"):
        datasets.mnist()


def test_download_without_pooch_says_what_to_do(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"fastquad\[data\].*FASTQUAD_DATA"):
        datasets.mnist()


def test_samples_that_come_with_the_package():
    images, labels = datasets.mnist_samples()
    assert images.shape == (50, 28, 28)
    assert images.dtype == np.uint8
    assert labels.shape == (50,)
    assert set(labels) == set(range(10))
    assert (images.reshape(50, -1).max(axis=1) > 200).all()
