"""Packed folders: written from any source, whole or not at all, and damage is told."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import naive
import numpy as np
import pytest
from click.testing import CliRunner

import fastquad as fq
from fastquad import cli
from fastquad.measurements.disk import writer
from fastquad.measurements.disk.folder import DATA_START

M, N = 45, 13


@pytest.fixture
def A():
    return np.random.default_rng(0).standard_normal((M, N, N))


@pytest.fixture
def small_sections(monkeypatch):
    """Sections of one block, so that a small tensor has several; each is packed by itself."""
    monkeypatch.setattr(writer, "SECTION_BYTES", 1)
    monkeypatch.setattr(writer, "_UNIT_BYTES", 1)


def holds(tensor, A):
    """Whether a packed tensor is that of an array, up to the rounding of its dtype."""
    x = np.random.default_rng(1).standard_normal(A.shape[1])
    expected = naive.products(naive.sym(A).astype(tensor.dtype), x)
    np.testing.assert_allclose(tensor.products(x), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(tensor.diagonals(), naive.diagonals(A).astype(tensor.dtype))
    assert (tensor.m, tensor.n) == A.shape[:2]
    return True


# -- sources ----------------------------------------------------------------------------------------------------


def test_sources(A, tmp_path, small_sections):
    np.save(tmp_path / "A.npy", A)
    sources = {
        "array": A,
        "float32": A.astype(np.float32),
        "memory map": np.load(tmp_path / "A.npy", mmap_mode="r"),
        "path": tmp_path / "A.npy",
        "measurements": fq.as_measurements(A),
        "packed": fq.pack(A),
        "generator": (matrix for matrix in A),
        "list": list(A),
        "iterator of lists": iter(A.tolist()),
    }
    for name, source in sources.items():
        tensor = fq.pack(source, tmp_path / name)
        assert holds(tensor, A.astype(np.float32) if name == "float32" else A), name
        assert holds(fq.open(tmp_path / name), A.astype(np.float32) if name == "float32" else A)
        assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 16])
def test_shapes_and_dtypes(tmp_path, m, dtype, small_sections):
    A = np.random.default_rng(m).standard_normal((m, 5, 5))
    tensor = fq.pack(A, tmp_path / "A.fq", dtype=dtype)
    assert tensor.dtype == dtype
    assert holds(tensor, A)


def test_a_computed_tensor_is_packed_without_rounding(tmp_path, small_sections):
    G = fq.GaussianTensor(21, 30, seed=4)
    tensor = fq.pack(G, tmp_path / "A.fq")
    np.testing.assert_array_equal(tensor.matrices(0, 21), G.matrices(0, 21))


def test_files_are_plain_npy(A, tmp_path):
    fq.pack(A, tmp_path / "A.fq")
    blocks = np.load(tmp_path / "A.fq" / "blocks.npy")
    np.testing.assert_array_equal(blocks, fq.pack(A).blocks)
    np.testing.assert_array_equal(np.load(tmp_path / "A.fq" / "diagonals.npy"), naive.diagonals(A))
    # The entries begin at a whole page.
    assert (tmp_path / "A.fq" / "blocks.npy").stat().st_size == DATA_START + blocks.nbytes
    json.loads((tmp_path / "A.fq" / "tensor.json").read_text())


def test_a_folder_is_solved_like_any_tensor(tmp_path):
    problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    fq.pack(problem.A, tmp_path / "A.fq")
    solution = fq.solve(tmp_path / "A.fq", problem.y)
    assert solution.status is fq.Status.EXACT
    np.testing.assert_array_equal(solution.x, fq.solve(fq.pack(problem.A), problem.y).x)


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        (iter([]), ValueError, "`A` must have at least one matrix"),
        (iter([np.ones((2, 3))]), ValueError, r"`A` must give matrices of shape \(n, n\), got one of shape \(2, 3\)"),
        (
            iter([np.eye(2), np.eye(3)]),
            ValueError,
            r"`A` must give matrices of shape \(2, 2\), got one of shape \(3, 3\)",
        ),
        (iter([np.array([["a"]])]), TypeError, "`A` must hold numbers"),
        (np.ones((2, 3)), ValueError, r"`A` must have shape \(m, n, n\)"),
    ],
)
def test_bad_sources(tmp_path, source, error, said):
    with pytest.raises(error, match=said):
        fq.pack(source, tmp_path / "A.fq")
    assert not (tmp_path / "A.fq").exists()


# -- going on after an interruption ------------------------------------------------------------------------------


class Failing:
    """Matrices, of which reading stops with an error after some."""

    def __init__(self, A, good):
        self.A, self.good = A, good

    def __iter__(self):
        for i, matrix in enumerate(self.A):
            if i == self.good:
                raise RuntimeError("the power went")
            yield matrix


class Own(fq.Measurements):
    """Measurements that count what is read of them, and may fail."""

    def __init__(self, A, good=None):
        self.A, (self.m, self.n), self.dtype = A, A.shape[:2], A.dtype
        self.good, self.read = good, []

    def matrices(self, start, stop):
        if self.good is not None and start >= self.good:
            raise RuntimeError("the power went")
        self.read.append(start)
        return naive.sym(self.A[start:stop])


def interrupted(A, path, good=24):
    with pytest.raises(RuntimeError, match="the power went"):
        fq.pack(Own(A, good), path, n_threads=1)
    return path.with_name(path.name + ".partial")


def test_an_interrupted_pack_goes_on(A, tmp_path, small_sections):
    path = tmp_path / "A.fq"
    partial = interrupted(A, path)
    assert not path.exists()
    assert partial.exists()
    with pytest.raises(FileNotFoundError, match=r"there is no folder .* unfinished: pack the same A again to go on"):
        fq.open(path)
    own = Own(A)
    assert holds(fq.pack(own, path, n_threads=1), A)
    assert [own.read.count(start) for start in (24, 32, 40)] == [1, 1, 1]
    assert not partial.exists()
    assert holds(fq.open(path), A)


def test_an_interrupted_iterator_goes_on(A, tmp_path, small_sections):
    path = tmp_path / "A.fq"
    with pytest.raises(RuntimeError, match="the power went"):
        fq.pack(iter(Failing(A, 30)), path)
    assert holds(fq.pack(iter(A), path), A)


@pytest.mark.parametrize("damage", ["torn section", "altered section", "torn line", "no line", "nothing"])
def test_what_is_torn_is_written_again(A, tmp_path, damage, small_sections):
    path = tmp_path / "A.fq"
    partial = interrupted(A, path)
    blocks, progress = partial / "blocks.npy", partial / "progress.jsonl"
    if damage == "torn section":
        os.truncate(blocks, blocks.stat().st_size - 100)
    elif damage == "altered section":
        flip(blocks, DATA_START + 40)
    elif damage == "torn line":
        os.truncate(progress, progress.stat().st_size - 3)
    elif damage == "no line":
        progress.write_bytes(b"")
    assert holds(fq.pack(Own(A), path), A)
    assert holds(fq.open(path), A)


@pytest.mark.parametrize("change", ["values", "dtype", "shape", "last of an iterator"])
def test_another_tensor_is_not_mixed_in(A, tmp_path, change, small_sections):
    path = tmp_path / "A.fq"
    if change == "last of an iterator":
        with pytest.raises(RuntimeError, match="the power went"):
            fq.pack(iter(Failing(A, 24)), path)
        other = A.copy()
        other[15, 0, 0] += 1
        source, options = iter(other), {}
    else:
        interrupted(A, path)
        source, options = {"values": (A + 1, {}), "dtype": (A, {"dtype": "float32"}), "shape": (A[:30], {})}[change]
    with pytest.raises(ValueError, match="was begun with another A"):
        fq.pack(source, path, **options)
    assert not path.exists()


def test_killed_while_packing(tmp_path, small_sections):
    path = tmp_path / "A.fq"
    code = f"""
import time, numpy as np, fastquad as fq
from fastquad.measurements.disk import writer
writer.SECTION_BYTES = writer._UNIT_BYTES = 1
class Slow(fq.GaussianTensor):
    def _pack(self, block, out):
        time.sleep(0.02)
        super()._pack(block, out)
fq.pack(Slow(400, 20, seed=3), {str(path)!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    progress = tmp_path / "A.fq.partial" / "progress.jsonl"
    deadline = time.monotonic() + 60
    while not (progress.exists() and progress.read_bytes().count(b"\n") > 5):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()
    done = progress.read_bytes().count(b"\n")
    assert done < 50
    subprocess.run([sys.executable, "-c", code.replace("0.02", "0")], check=True)
    G = fq.GaussianTensor(400, 20, seed=3)
    np.testing.assert_array_equal(fq.open(path).matrices(0, 400), G.matrices(0, 400))


def test_disk_full(tmp_path, small_sections):
    # A limit on the size of a file is what a full disk is to the writer: an error of the system in mid-write.
    path = tmp_path / "A.fq"
    code = f"""
import resource, fastquad as fq
from fastquad.measurements.disk import writer
writer.SECTION_BYTES = writer._UNIT_BYTES = 1
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
fq.pack(fq.GaussianTensor(100, 20, seed=3), {str(path)!r})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "`path`: no room for" in result.stderr
    assert "pack the same A again to go on" in result.stderr
    assert not path.exists()
    G = fq.GaussianTensor(100, 20, seed=3)
    tensor = fq.pack(G, path)
    np.testing.assert_array_equal(tensor.matrices(0, 100), G.matrices(0, 100))


def test_too_little_room_is_told_before_the_work(A, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(OSError, match="`path`: no room for"):
        fq.pack(Own(A, good=0), tmp_path / "A.fq")


def test_two_packers_do_not_meet(A, tmp_path, small_sections):
    path = tmp_path / "A.fq"

    class Nosy(Own):
        def matrices(self, start, stop):
            with pytest.raises(BlockingIOError, match="another process is packing"):
                fq.pack(A, path)
            return super().matrices(start, stop)

    assert holds(fq.pack(Nosy(A), path, n_threads=1), A)


def test_an_existing_folder_is_not_overwritten(A, tmp_path):
    fq.pack(A, tmp_path / "A.fq")
    with pytest.raises(FileExistsError, match="exists already"):
        fq.pack(A + 1, tmp_path / "A.fq")
    assert holds(fq.open(tmp_path / "A.fq"), A)


def test_the_command_packs_solves_and_verifies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    np.save("A.npy", problem.A)
    np.save("y.npy", problem.y)

    def run(*arguments):
        return CliRunner().invoke(cli.main, arguments)

    assert json.loads(run("pack", "A.npy", "A.fq").stdout)["path"] == "A.fq"
    assert json.loads(run("info", "A.fq").stdout)["verified"] is True
    assert run("solve", "A.fq", "y.npy", "-o", "x.npy").exit_code == 0
    assert fq.distance(np.load("x.npy"), problem.x) < 1e-9
    flip(tmp_path / "A.fq" / "blocks.npy", 5000)
    result = run("info", "A.fq")
    assert result.exit_code == 2
    assert "checksum of section 0" in result.stderr


# -- damage -----------------------------------------------------------------------------------------------------


def flip(path, position):
    """Alter one bit of a file."""
    with path.open("r+b") as stream:
        stream.seek(position)
        byte = stream.read(1)[0]
        stream.seek(position)
        stream.write(bytes([byte ^ 4]))


def rewrite(path, **changes):
    """Change entries of a description without its checksum."""
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | changes))


DAMAGE = {
    "blocks cut": (lambda p: os.truncate(p / "blocks.npy", 9000), "damaged: blocks.npy has .* bytes in place of"),
    "blocks empty": (lambda p: os.truncate(p / "blocks.npy", 0), "damaged: blocks.npy has .* bytes in place of"),
    "diagonals cut": (
        lambda p: os.truncate(p / "diagonals.npy", 5000),
        "damaged: diagonals.npy has .* bytes in place of",
    ),
    "blocks missing": (lambda p: (p / "blocks.npy").unlink(), "damaged: blocks.npy is missing"),
    "blocks altered": (lambda p: flip(p / "blocks.npy", 20_000), "the checksum of section 2 of blocks.npy"),
    "diagonals altered": (lambda p: flip(p / "diagonals.npy", 5000), "the checksum of diagonals.npy"),
    "header altered": (lambda p: flip(p / "blocks.npy", 60), "damaged: blocks.npy does not begin as tensor.json says"),
    "no description": (lambda p: (p / "tensor.json").unlink(), "is not a packed tensor: it has no tensor.json"),
    "torn description": (lambda p: os.truncate(p / "tensor.json", 50), "damaged: tensor.json cannot be read"),
    "other description": (lambda p: (p / "tensor.json").write_text("[1]"), "is not a packed tensor"),
    "m altered": (lambda p: rewrite(p / "tensor.json", m=M - 1), "damaged: tensor.json was altered"),
    "version": (lambda p: rewrite(p / "tensor.json", version=2), "has version 2 of the format, .* reads version 1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told(A, tmp_path, damage, small_sections):
    path = tmp_path / "A.fq"
    fq.pack(A, path)
    harm, said = DAMAGE[damage]
    harm(path)
    with pytest.raises(ValueError, match=said):
        fq.open(path)
    with pytest.raises(ValueError, match=said):
        fq.solve(path, np.ones(M))


def test_what_is_no_folder(tmp_path, A):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        fq.open(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="it is not a folder"):
        fq.open(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        fq.pack(A, tmp_path / "file" / "A.fq")


@pytest.mark.skipif(os.name == "nt", reason="needs permissions as Unix has them")
def test_unreadable(A):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "A.fq"
        fq.pack(A, path)
        journal, begun = Path(folder) / "solve.ck", Path(folder) / "begun.ck"
        # What is imported on first use may be out of nobody's reach.
        fq.solve(path, np.ones(M), method="lm", checkpoint=begun)
        (path / "blocks.npy").chmod(0)
        begun.chmod(0)
        with unprivileged():
            with pytest.raises(PermissionError, match="cannot be read: permission denied"):
                fq.open(path)
            with pytest.raises(PermissionError, match=r"B\.fq"):
                fq.pack(A, Path(folder) / "B.fq")
            for file in (journal, begun):
                with pytest.raises(PermissionError, match=r"`checkpoint`: .* cannot be read and written"):
                    fq.solve(A, np.ones(M), method="lm", checkpoint=file)
        path.chmod(0)
        with unprivileged(), pytest.raises(PermissionError, match=r"A\.fq"):
            fq.solve(path, np.ones(M), method="lm")
        path.chmod(0o755)


@contextlib.contextmanager
def unprivileged():
    """As nobody, for root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
