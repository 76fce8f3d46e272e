"""Files: locks, writing beside and renaming, and what is no file. Everything happens in `tmp_path`."""

import errno
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from hanging import deadline

import fastquad as fq
from fastquad.measurements.disk import writer
from fastquad.system import files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="FIFOs, forks and limits of Unix")
fork = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def hangs_are_failures():
    """Whatever waits for the other end of a FIFO is interrupted."""
    with deadline(120):
        yield


# -- locks --------------------------------------------------------------------------------------------------------


def test_a_file_is_open_to_one(tmp_path):
    path = tmp_path / "file"
    with files.open_alone(path, "busy"), pytest.raises(BlockingIOError, match="busy"):
        files.open_alone(path, "busy")
    files.open_alone(path, "busy").close()


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    path = tmp_path / "file"
    held = fork.Event()

    def hold():
        with files.open_alone(path, "busy"):
            held.set()
            time.sleep(60)

    process = fork.Process(target=hold)
    process.start()
    assert held.wait(30)
    with pytest.raises(BlockingIOError, match="busy"):
        files.open_alone(path, "busy")
    process.kill()
    process.join()
    files.open_alone(path, "busy").close()


def test_only_one_is_in_there_and_no_file_is_left(tmp_path):
    path, counter = tmp_path / "lock", tmp_path / "counter"
    counter.write_text("0")

    def enter(times):
        for _ in range(times):
            while True:
                try:
                    with files.alone(path, "busy"):
                        seen = int(counter.read_text())
                        time.sleep(1e-4)
                        counter.write_text(str(seen + 1))
                    break
                except BlockingIOError:
                    time.sleep(1e-4)

    processes = [fork.Process(target=enter, args=(50,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert counter.read_text() == "200"
    assert not path.exists()


def test_locks_of_windows(tmp_path, monkeypatch):
    # As msvcrt has them: bytes from the position on, which others may not lock too.
    taken = {}

    class Msvcrt:
        LK_NBLCK = 2

        @staticmethod
        def locking(descriptor, mode, count):
            at = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
            if taken.setdefault(at, descriptor) != descriptor:
                raise PermissionError(errno.EACCES, "locked")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt)
    (tmp_path / "file").write_bytes(b"content")
    with open(tmp_path / "file", "rb") as one, open(tmp_path / "file", "rb") as two:
        assert files.lock(one)
        assert not files.lock(two)
        assert two.read() == b"content"


# -- writing beside -----------------------------------------------------------------------------------------------


def test_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")

    def write_half():
        with files.replacing(path, "path") as stream:
            stream.write(b"new")
            stream.flush()
            assert path.read_text() == "old"
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    assert path.read_text() == "old"
    with files.replacing(path, "path") as stream:
        stream.write(b"new")
        with pytest.raises(BlockingIOError, match="`path`: another process is writing"):
            files.replacing(path, "path").__enter__()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_killed_writer_left_is_taken_over(tmp_path):
    (tmp_path / "x.partial").write_bytes(b"torn and longer than the new content")
    with files.replacing(tmp_path / "x", "path") as stream:
        stream.write(b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]


def test_links_are_followed(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with files.replacing(tmp_path / "link", "path") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with files.replacing(path, "path") as stream:
        stream.write(b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert path.is_fifo()


def test_fresh_means_that_nothing_was_there(tmp_path):
    with files.replacing(tmp_path / "x", "path", fresh=True) as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError), files.replacing(tmp_path / "x", "path", fresh=True) as stream:
        stream.write(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("what", ["decoder", "solution", "csv"])
def test_a_full_disk_is_told_by_all_that_write(tmp_path, what):
    # A limit on the size of a file is what a full disk is to the writer: an error of the system in mid-write.
    (tmp_path / "y.npy").write_bytes(b"old")
    code = {
        "decoder": "fq.decoders.mnist().save('y.npz')",
        "solution": "from fastquad import console; console.save(np.zeros(1000), 'y.npy')",
        "csv": "from fastquad.experiments.result import _write_csv; from pathlib import Path; "
        "_write_csv(Path('y.csv'), [{'a': i} for i in range(1000)])",
    }[what]
    result = subprocess.run(
        [sys.executable, "-c", f"import fastquad as fq, numpy as np; {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )  # fmt: skip
    argument = {"decoder": "path", "solution": "--output", "csv": "output"}[what]
    assert result.returncode == 1
    assert f"`{argument}`: no room for" in result.stderr
    assert os.listdir(tmp_path) == ["y.npy"]
    assert (tmp_path / "y.npy").read_bytes() == b"old"


# -- what is no file ----------------------------------------------------------------------------------------------


def odd(tmp_path, kind):
    """A path of something that is no regular file."""
    path = tmp_path / "odd"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "link to a FIFO":
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to(tmp_path / "fifo")
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    return path


@pytest.mark.parametrize("kind", ["FIFO", "link to a FIFO", "folder", "socket"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = odd(tmp_path, kind)
    with pytest.raises(OSError, match=r"regular file|directory|No such device"):
        files.open_regular(path)
    with pytest.raises(OSError, match=r"regular file|directory|symbolic|No such device"):
        files.open_alone(path, "busy")
    with pytest.raises(OSError, match=r"regular file|directory|No such device"):
        fq.decoders.load(path)


def test_json_of_any_depth():
    with pytest.raises(ValueError, match="nested too deep"):
        files.parsed("[" * 100_000 + "]" * 100_000)


# -- packing ------------------------------------------------------------------------------------------------------


def pack_some(path, seed, start):
    """Pack the tensor of a seed; whose data the caller got, or None where it was refused."""
    writer.SECTION_BYTES = writer._UNIT_BYTES = 1
    A = np.random.default_rng(seed).standard_normal((20, 5, 5))
    start.wait()
    try:
        tensor = fq.pack(A, path, n_threads=1)
    except OSError:
        os._exit(2)
    same = np.array_equal(tensor.matrices(0, 20), fq.pack(A).matrices(0, 20))
    os._exit(0 if same else 1)


def test_packers_that_race(tmp_path):
    for race in range(15):
        path = tmp_path / f"{race}.fq"
        start = fork.Barrier(3)
        processes = [fork.Process(target=pack_some, args=(path, seed, start)) for seed in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        codes = [process.exitcode for process in processes]
        # One or none of them got through, and what it was given and what is there are its own.
        assert sorted(codes)[-1] == 2
        assert codes.count(0) <= 1
        assert codes.count(1) == 0
        if 0 in codes:
            A = np.random.default_rng(codes.index(0)).standard_normal((20, 5, 5))
            np.testing.assert_array_equal(fq.open(path).matrices(0, 20), fq.pack(A).matrices(0, 20))


@pytest.mark.parametrize("name", ["progress.jsonl", "blocks.npy"])
def test_a_fifo_in_an_unfinished_folder(tmp_path, name):
    (tmp_path / "A.fq.partial").mkdir()
    os.mkfifo(tmp_path / "A.fq.partial" / name)
    with pytest.raises(OSError, match="regular file"):
        fq.pack(np.ones((3, 2, 2)), tmp_path / "A.fq")


@pytest.mark.parametrize(
    "line", [b"{}", b"[1]", b"[1, -5]", b"[1, 1e99]", b"[" * 10_000, b"[1, 100000000000000000000]"]
)
def test_altered_progress_is_not_believed(tmp_path, line, monkeypatch):
    monkeypatch.setattr(writer, "SECTION_BYTES", 1)
    monkeypatch.setattr(writer, "_UNIT_BYTES", 1)
    A = np.random.default_rng(0).standard_normal((20, 5, 5))
    partial = tmp_path / "A.fq.partial"

    class Failing(type(fq.as_measurements(A))):
        def _pack(self, block, out):
            if block == 2:
                raise RuntimeError("the power went")
            super()._pack(block, out)

    with pytest.raises(RuntimeError, match="the power went"):
        fq.pack(Failing(A), tmp_path / "A.fq", n_threads=1)
    lines = (partial / "progress.jsonl").read_bytes().splitlines()
    (partial / "progress.jsonl").write_bytes(b"\n".join([lines[0], line, *lines[1:]]) + b"\n")
    tensor = fq.pack(A, tmp_path / "A.fq")
    np.testing.assert_array_equal(tensor.matrices(0, 20), fq.pack(A).matrices(0, 20))
