"""Tensors on disk that somebody has altered, or alters while they are in use; and what must not be packed.

Whatever is in a file, the answer is a prompt ValueError or OSError. Everything happens in `tmp_path`.
"""

import io
import json
import os
import pickle
import zlib

import numpy as np
import pytest
from hanging import deadline

import fastquad as fq
from fastquad import console
from fastquad.measurements.disk import writer

pytestmark = pytest.mark.skipif(os.name == "nt", reason="FIFOs and alarms of Unix")
M, N = 40, 9


@pytest.fixture(autouse=True)
def hangs_are_failures():
    with deadline(60):
        yield


@pytest.fixture
def A():
    return np.random.default_rng(0).standard_normal((M, N, N))


@pytest.fixture
def folder(A, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "SECTION_BYTES", 1)
    fq.pack(A, tmp_path / "A.fq")
    return tmp_path / "A.fq"


def streamed(folder):
    tensor = fq.open(folder, memory=12_000)
    assert isinstance(tensor, fq.types.StreamedTensor)
    return tensor


# -- descriptions -------------------------------------------------------------------------------------------------


def seal(folder, **changes):
    """Change entries of a description, with a new checksum: only what it says can be wrong."""
    path = folder / "tensor.json"
    said = json.loads(path.read_text()) | changes
    said.pop("checksum")
    path.write_text(json.dumps(said | {"checksum": zlib.crc32(json.dumps(said, sort_keys=True).encode())}))


@pytest.mark.parametrize(
    "changes",
    [
        {"m": 2**63}, {"m": 2**200}, {"n": 2**62}, {"n": 10**30}, {"n": 2**31 - 1}, {"m": 2**40}, {"section": 2**70},
        {"m": -5}, {"m": 1.5}, {"m": True}, {"m": None}, {"m": "40"}, {"section": 0}, {"dtype": "object"},
        {"dtype": []}, {"checksums": []}, {"checksums": 5}, {"checksums": [[]] * 5}, {"checksums": ["x"] * 5},
        {"diagonals_checksum": None}, {"m": 8, "checksums": [1]}, {"m": 2**62, "section": 2**62, "checksums": [1]},
    ],
)  # fmt: skip
def test_descriptions_that_say_anything(folder, changes):
    seal(folder, **changes)
    with pytest.raises(ValueError, match=r"`path`: .* is damaged"):
        fq.open(folder)
    with pytest.raises(ValueError, match=r"`path`: .* is damaged"):
        fq.solve(folder, np.ones(M))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 200_000,
        b"{" * 10,
        b'{"a":' * 100_000,
        b"\xff\xfe\x00",
        b"null",
        b"9" * 5000,
        b"NaN",
        b'"' + b"x" * 9,
    ],
)
def test_descriptions_that_are_anything(folder, content):
    (folder / "tensor.json").write_bytes(content)
    with pytest.raises(ValueError, match="`path`: "):
        fq.open(folder)


def test_an_endless_description(folder):
    os.truncate(folder / "tensor.json", 1 << 40)  # with a hole, so it takes no room
    with pytest.raises(ValueError, match="far too long"):
        fq.open(folder)


@pytest.mark.parametrize("name", ["tensor.json", "blocks.npy", "diagonals.npy"])
def test_a_fifo_or_a_folder_in_the_place_of_a_file(folder, name):
    open_one = streamed(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(OSError, match="regular file, but this is a FIFO"):
        fq.open(folder)
    with pytest.raises(OSError, match=r"regular file|in use|FIFO"):
        open_one.products(np.ones(N)) if name == "blocks.npy" else fq.solve(folder, np.ones(M))
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(OSError, match="regular file, but this is a folder"):
        fq.open(folder)


# -- .npy files ---------------------------------------------------------------------------------------------------


def npy(header, data=b"\0" * 800, version=1):
    text = header.encode("latin1")
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def said(shape="(10, 3, 3)", descr="'<f8'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n"


NPY = {
    "negative": npy(said("(-10, -3, 3)")),
    "one negative": npy(said("(10, -3, 3)")),
    "huge": npy(said(f"({2**62}, 3, 3)")),
    "beyond 64 bits": npy(said(f"({2**80}, 3, 3)")),
    "no numbers": npy(said("('a', 3, 3)")),
    "objects": npy(said(descr="'|O'")),
    "deep shape": npy(said("(" * 500 + ")" * 500)),
    "deep header": npy("[" * 9000),
    "minuses": npy("-" * 9000 + "1"),
    "no dictionary": npy("[1, 2]\n"),
    "call": npy("__import__('os').abort()\n"),
    "other dtype": npy(said(descr="'<q9'")),
    "deep dtype": npy(said(descr="[('a'," * 300 + "'f8'" + ")]" * 300)),
    "cut header": npy(said())[:30],
    "cut data": npy(said())[:-200],
    "long header": npy(said() + " " * 70_000, version=2),
    "longer than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "version": b"\x93NUMPY\x09\x00" + npy(said())[8:],
    "text": b"1.0 2.0 3.0\n4.0 5.0 6.0\n",
    "pickle": pickle.dumps([1, 2, 3]),
    "archive": b"PK\x03\x04" + b"\0" * 50,
    "empty": b"",
    "one byte": b"\x93",
    "two dimensions": npy(said("(30, 3)")),
}


@pytest.mark.parametrize("name", NPY)
@pytest.mark.filterwarnings("ignore::UserWarning")  # NumPy's, on headers that it reads with difficulty
def test_altered_npy_files(tmp_path, name):
    path = tmp_path / "A.npy"
    path.write_bytes(NPY[name])
    for read in (fq.as_measurements, lambda p: fq.pack(p, tmp_path / "A.fq"), lambda p: fq.solve(p, np.ones(10))):
        with pytest.raises(ValueError, match="`A`") as caught:
            read(path)
        assert "pickled data" not in str(caught.value)
    if name == "two dimensions":
        return
    with pytest.raises(ValueError, match="`Y`") as caught:
        console.load(str(path), "Y")
    assert "pickled data" not in str(caught.value)


def test_what_is_no_npy_file_is_told_by_what_it_is(tmp_path):
    path = tmp_path / "A.npy"
    for content, words in [(NPY["text"], "numpy.loadtxt"), (NPY["archive"], "archive"), (NPY["objects"], "objects")]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            fq.as_measurements(path)
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"`A`: .* cannot be read: expected a regular file"):
        fq.solve(path, np.ones(3))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", "<f4", ">f8", "<f2", "<i4"])
def test_sound_npy_files_are_as_before(tmp_path, A, dtype, order):
    array = np.asarray((A * 9).astype(dtype), order=order)
    np.save(tmp_path / "A.npy", array)
    np.testing.assert_array_equal(fq.as_measurements(tmp_path / "A.npy").array, array)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(3, 0))
    (tmp_path / "A.npy").write_bytes(buffer.getvalue())
    np.testing.assert_array_equal(fq.as_measurements(tmp_path / "A.npy").array, array)


# -- changed while in use -----------------------------------------------------------------------------------------


def touch(path):
    """As a write would: with a later time of change."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))


def replace_folder(folder, A):
    folder.rename(folder.with_name("old"))
    fq.pack(A + 1, folder)


def rewrite(folder, A):
    fq.pack(A + 1, folder.with_name("other"))
    (folder / "blocks.npy").write_bytes((folder.with_name("other") / "blocks.npy").read_bytes())
    touch(folder / "blocks.npy")


def cut(folder, A):
    os.truncate(folder / "blocks.npy", 4096 + 100)


@pytest.mark.parametrize("harm", [replace_folder, rewrite, cut])
def test_a_folder_that_is_changed_while_it_is_streamed(folder, A, harm):
    tensor = streamed(folder)
    before = tensor.products(np.ones(N))
    harm(folder, A)
    for read in (
        lambda: tensor.products(np.ones(N)), lambda: tensor.rows([1]), lambda: tensor.matrices(0, 8),
        lambda: tensor.weighted_sum(np.ones(M)), lambda: fq.solve(tensor, before @ np.ones(N), method="twf"),
    ):  # fmt: skip
        with pytest.raises(OSError, match=r"`A`: .*A\.fq' was changed while it was in use: open it again"):
            read()


def test_a_folder_that_is_changed_in_the_middle_of_a_pass(folder, A):
    tensor = streamed(folder)
    parts = tensor._reader()
    next(parts)
    touch(folder / "blocks.npy")
    with pytest.raises(OSError, match="was changed while it was in use"):
        list(parts)


@pytest.mark.parametrize("harm", [rewrite, cut])
def test_a_mapped_folder_that_is_changed(folder, A, harm):
    tensor = fq.open(folder)
    tensor.products(np.ones(N))
    harm(folder, A)
    for read in (
        lambda: tensor.products(np.ones(N)), lambda: tensor.rows([1]), lambda: tensor.matrices(0, 8),
        lambda: tensor.sweep(np.ones(N), np.ones(N), np.ones(M)), lambda: fq.solve(tensor, np.ones(M), method="twf"),
    ):  # fmt: skip
        with pytest.raises(OSError, match="was changed while it was in use"):
            read()


def test_a_mapped_folder_that_is_replaced_stays_what_it_was(folder, A):
    tensor = fq.open(folder)
    before = tensor.products(np.ones(N))
    replace_folder(folder, A)
    np.testing.assert_array_equal(tensor.products(np.ones(N)), before)


def test_a_mapped_array_that_is_cut(tmp_path, A):
    np.save(tmp_path / "A.npy", A)
    tensor = fq.as_measurements(tmp_path / "A.npy")
    tensor.products(np.ones(N))
    os.truncate(tmp_path / "A.npy", 500)
    with pytest.raises(OSError, match=r"A\.npy' was changed while it was in use"):
        tensor.products(np.ones(N))
    with pytest.raises(OSError, match=r"A\.npy' was changed while it was in use"):
        fq.pack(tensor)


# -- pickles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mapped", "streamed", "npy"])
def test_a_tensor_that_has_a_path_travels_as_its_path(folder, A, tmp_path, kind, monkeypatch):
    np.save(tmp_path / "A.npy", A)
    monkeypatch.chdir(tmp_path)
    tensor = {
        "mapped": lambda: fq.open("A.fq"), "streamed": lambda: streamed("A.fq"),
        "npy": lambda: fq.as_measurements("A.npy"),
    }[kind]()  # fmt: skip
    content = pickle.dumps(tensor)
    assert len(content) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(content)
    assert type(again) is type(tensor)
    np.testing.assert_array_equal(again.products(np.ones(N)), tensor.products(np.ones(N)))
    if kind == "streamed":
        assert again.memory == tensor.memory
    if kind == "npy":
        np.save(tmp_path / "A.npy", A[:8])
    else:
        replace_folder(folder, A)
    with pytest.raises(ValueError, match="holds another tensor than the one that was pickled"):
        pickle.loads(content)


@pytest.mark.parametrize("kind", ["mapped", "streamed", "npy"])
def test_complex_tensors_too(A, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(writer, "SECTION_BYTES", 1)
    H = A + 1j * A.transpose(0, 2, 1)
    path = tmp_path / "H"
    if kind == "npy":
        np.save(path.with_suffix(".npy"), H)
        path = path.with_suffix(".npy")
        tensor = fq.as_measurements(path)
    else:
        fq.pack(H, path)
        tensor = fq.open(path, memory=30_000 if kind == "streamed" else None)
    assert type(tensor).__name__ == {
        "mapped": "HermitianFolderTensor", "streamed": "StreamedTensor", "npy": "MappedComplexTensor",
    }[kind]  # fmt: skip
    x = np.ones(N) + 0j
    content = pickle.dumps(tensor)
    assert len(content) < 1000
    np.testing.assert_array_equal(pickle.loads(content).products(x), tensor.products(x))
    os.truncate(path if kind == "npy" else path / "blocks.npy", 4096)
    with pytest.raises(OSError, match="was changed while it was in use"):
        tensor.products(x)
    H[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match="`A` must be finite, got NaN or inf in matrix 3"):
        fq.pack(H)


# -- what must not be packed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["array", "iterator", "measurements"])
@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_what_is_not_finite_is_not_packed(A, tmp_path, source, where, bad):
    if source == "iterator" and where == "memory":
        pytest.skip("an iterator needs a path")
    A[21, 3, 4] = bad
    given = {"array": A, "iterator": iter(A), "measurements": fq.as_measurements(A)}[source]
    path = tmp_path / "A.fq" if where == "disk" else None
    expected = "overflows float32; give a dtype of double precision" if bad == 1e39 else "`A` must be finite, got"
    with pytest.raises(ValueError, match=expected):
        fq.pack(given, path, dtype="float32")
    assert not list(tmp_path.iterdir())
    if bad == 1e39:
        fq.pack(A, dtype="float64")
    elif source != "iterator":
        with pytest.raises(ValueError, match="`A` must be finite, got NaN or inf in matrix 21"):
            fq.pack(given, path)


def test_large_numbers_that_fit_are_packed(A, tmp_path):
    A *= 1e37
    np.testing.assert_allclose(fq.pack(A, dtype="float32").diagonals(), np.einsum("ijj->ij", A), rtol=1e-6)
