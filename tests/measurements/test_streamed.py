"""Packed folders larger than the memory budget: the same answers, within the budget, and no more read than needed."""

import os
import subprocess
import sys

import naive
import numpy as np
import pytest
from tensors import calls, relative_error

import fastquad as fq
from fastquad.measurements.disk import reader, writer
from fastquad.measurements.disk.folder import DATA_START
from fastquad.system import memory


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """Sections of a block or two and small reads, so that a small tensor has many."""
    monkeypatch.setattr(writer, "SECTION_BYTES", 20_000)
    monkeypatch.setattr(reader, "_READ_BYTES", 50_000)


def make(path, m, n, dtype="float32", budget=None):
    """A tensor on disk that does not fit in its budget, and the array that it stands for."""
    A = np.random.default_rng([m, n]).standard_normal((m, n, n))
    tensor = fq.pack(A, path, dtype=dtype)
    least = 2 * tensor.folder.section * tensor.folder.block_bytes
    tensor = fq.open(path, memory=budget or max(least, tensor.nbytes // 2))
    assert isinstance(tensor, fq.types.StreamedTensor)
    return tensor, naive.sym(A).astype(dtype)


@pytest.mark.parametrize("gap", [64, 4096, 48 << 10])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(25, 4), (100, 30), (37, 60)])
def test_agrees_with_its_twin(tmp_path, monkeypatch, m, n, dtype, gap):
    monkeypatch.setattr(reader, "_WORTH_SKIPPING", gap)
    monkeypatch.setattr(writer, "SECTION_BYTES", 1)
    A, array = make(tmp_path / "A.fq", m, n, dtype)
    for batch in (None, 1, 2, 5):
        for name, *arguments in calls(m, n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_array_equal(A.matrices(3, m - 2), array[3 : m - 2])


def test_bits_depend_neither_on_threads_nor_on_the_budget(tmp_path):
    A, _ = make(tmp_path / "A.fq", 100, 30)
    tensors = [A, fq.open(tmp_path / "A.fq", memory=A.nbytes - 1)]
    for batch in (None, 3):
        for name, *arguments in calls(100, 30, batch):
            results = [getattr(A, name)(*arguments, n_threads=threads) for A in tensors for threads in (1, 3)]
            for other in results[1:]:
                pairs = [part if isinstance(part, tuple) else (part,) for part in (results[0], other)]
                for one, two in zip(*pairs, strict=True):
                    np.testing.assert_array_equal(one, two)


def test_the_same_solve_as_in_memory(tmp_path):
    problem = fq.problems.gaussian(m=90, n=60, k=5, rng=0)
    packed = fq.pack(problem.A, tmp_path / "A.fq")
    on_disk = fq.open(tmp_path / "A.fq", memory=3 * packed.nbytes // 4)
    for method in ("auto", "pursuit", "amp", fq.TWF(beta=4.0)):
        in_memory = fq.solve(fq.pack(problem.A), problem.y, method=method, max_iter=300)
        streamed = fq.solve(on_disk, problem.y, method=method, max_iter=300)
        assert streamed.status is in_memory.status
        np.testing.assert_allclose(streamed.x, in_memory.x, atol=1e-9)


def test_reads_are_counted_and_a_full_pass_reads_everything_once(tmp_path):
    A, _ = make(tmp_path / "A.fq", 100, 30)
    assert A.bytes_read == 0
    A.products(np.ones(30))
    once = A.bytes_read
    # Reads begin and end at whole pages, so each part has one page more at most.
    assert A.nbytes <= once <= A.nbytes + 8192 * len(A._reader._parts)
    A.sweep(np.ones(30), np.ones(30), np.ones(100))
    assert A.bytes_read == 2 * once
    A.diagonals()
    assert A.bytes_read == 2 * once


def test_a_block_reads_only_what_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_WORTH_SKIPPING", 4096)
    A, array = make(tmp_path / "A.fq", 24, 400, "float64", budget=11_000_000)
    rows = np.array([0, 3, 50])
    np.testing.assert_array_equal(A.block(rows), naive.block(array, rows))
    assert A.bytes_read < 0.01 * A.nbytes


def test_rows_of_a_sparse_signal_are_gathered_once_and_stay_in_memory(tmp_path):
    A, array = make(tmp_path / "A.fq", 200, 60, budget=1_200_000)
    assert A._rows_that_fit == 6
    x = np.zeros(60)
    x[[5, 40, 41]] = 1.0, 2.0, 3.0
    for _ in range(3):
        np.testing.assert_allclose(A.products(x), naive.products(array, x), rtol=0, atol=1e-12)
    once = A.bytes_read
    assert once < 1.2 * A.nbytes
    assert (A.block([40, 5], [1, 2]) == naive.block(array, [40, 5], [1, 2])).all()
    assert A.bytes_read == once
    # Rows that were not used for longest make room.
    A.expect([10, 11, 12])
    A.products(x)
    A.expect([20, 21])
    assert set(A._kept) == {5, 40, 41, 12, 20, 21}
    A.expect(range(7))  # more than fit: nothing is kept for that
    assert set(A._kept) == {5, 40, 41, 12, 20, 21}


def test_the_solution_tells_what_was_read(tmp_path):
    problem = fq.problems.gaussian(m=200, n=60, k=5, rng=0)
    packed = fq.pack(problem.A, tmp_path / "A.fq")
    solution = fq.solve(tmp_path / "A.fq", problem.y, memory=3 * packed.nbytes // 4)
    assert solution.success
    assert "GB were read from disk." in solution.message
    both = fq.solve(tmp_path / "A.fq", np.stack([problem.y] * 2), memory=3 * packed.nbytes // 4)
    assert all("GB were read from disk." in message for message in both.message)
    assert "read from disk" not in fq.solve(packed, problem.y).message


# -- memory -------------------------------------------------------------------------------------------------------


def test_folders_that_fit_are_mapped(tmp_path):
    fq.pack(np.ones((9, 5, 5)), tmp_path / "A.fq")
    assert isinstance(fq.open(tmp_path / "A.fq"), fq.types.PackedTensor)
    assert isinstance(fq.open(tmp_path / "A.fq", memory="1 MB"), fq.types.PackedTensor)


def test_too_small_a_budget_is_told(tmp_path):
    fq.pack(np.ones((90, 30, 30)), tmp_path / "A.fq")
    with pytest.raises(ValueError, match=r"`memory` must be at least 0\..* MB for this folder, got 0.0 MB"):
        fq.open(tmp_path / "A.fq", memory=1000)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("4 GB", 4 * 10**9), ("1.5gib", 3 << 29), ("200k", 200_000), ("7", 7), (10, 10), (2e9, 2 * 10**9)],
)
def test_budgets(given, expected):
    assert memory.budget(given) == expected


def test_default_budget_is_half_of_what_can_be_had():
    assert memory.budget(None) == pytest.approx(memory.available() / 2, rel=0.2)


@pytest.mark.parametrize(
    ("given", "error"), [("a lot", ValueError), ("-1", ValueError), ("1.2.3", ValueError), (0, ValueError),
                         ([], TypeError), (True, TypeError), (float("nan"), ValueError)]
)  # fmt: skip
def test_bad_budgets(given, error):
    with pytest.raises(error, match="`memory` must be a number of bytes, or a string such as '4 GB'"):
        memory.budget(given)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is asked of Linux")
def test_peak_memory_stays_within_the_budget(tmp_path):
    # 165 MB on disk, a budget of 40 MB: measured from outside, as the growth of a process over one that does nothing.
    path = tmp_path / "A.fq"
    fq.pack(fq.GaussianTensor(m=800, n=320, seed=0), path)
    code = f"""
import resource, numpy as np, fastquad as fq
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
A = fq.open({str(path)!r}, memory="40 MB")
fq.GaussianTensor(8, 320).products(np.ones(320))
before = peak()
for _ in range(2):
    A.products(np.ones(320)), A.sweep(np.ones(320), np.ones(320), np.ones(800))
print(peak() - before)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 40e6


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is asked of Linux")
@pytest.mark.parametrize("options", [{}, {"method": "amp"}, {"method": "lm"}, {"method": "pursuit"}])
def test_peak_memory_of_a_solve_stays_within_the_budget(tmp_path, options):
    # 131 MB on disk, a budget of 60 MB, of which the arrays of shape (m, n), 2.6 MB each, are not a part.
    path = tmp_path / "A.fq"
    fq.pack(fq.GaussianTensor(m=1000, n=250, seed=0), path, dtype="float32")
    code = f"""
import resource, numpy as np, fastquad as fq
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
fq.solve(small.A, small.y, **{options}), fq.solve(small.A, small.y, method="lm")
x = np.zeros(250)
x[:10] = np.arange(1, 11)
y = fq.measure(fq.GaussianTensor(1000, 250, seed=0), x)
before = peak()
solution = fq.solve({str(path)!r}, y, memory="60 MB", **{options})
print(peak() - before, fq.distance(solution.x, x) < 1e-6, "GB were read" in solution.message)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    grown, right, streamed = result.stdout.split()
    assert (right, streamed) == ("True", "True")
    assert int(grown) * 1024 < 60e6


def test_matrices_that_do_not_fit_are_left_out():
    problem = fq.problems.gaussian(m=60, n=100, k=40, rng=0)
    with pytest.raises(MemoryError, match=r"`memory` must be at least 0.00224 GB for AMP with n = 100, got 0.0003 GB"):
        fq.solve(problem.A, problem.y, method="amp", memory="300 kB")
    solution = fq.solve(problem.A, problem.y, memory="300 kB")
    assert not solution.success
    assert "AMP was left out: its n×n matrices do not fit in `memory`." in solution.message


# -- damage -------------------------------------------------------------------------------------------------------


def flip(path, position):
    with path.open("r+b") as stream:
        stream.seek(position)
        byte = stream.read(1)[0]
        stream.seek(position)
        stream.write(bytes([byte ^ 1]))


def test_altered_blocks_are_told_in_the_first_pass(tmp_path):
    path = tmp_path / "A.fq"
    A, _ = make(path, 100, 30)
    flip(path / "blocks.npy", DATA_START + 5 * A.folder.block_bytes)
    with pytest.raises(OSError, match="was changed while it was in use"):
        A.products(np.ones(30))
    A = fq.open(path, memory=A.memory)
    with pytest.raises(ValueError, match="the checksum of section"):
        A.products(np.ones(30))
    with pytest.raises(ValueError, match="the checksum of section"):
        fq.solve(A, np.ones(100), method="twf")
    fq.open(path, memory=A.memory, verify=False).products(np.ones(30))


def test_blocks_cut_short_while_open_are_told(tmp_path):
    path = tmp_path / "A.fq"
    A, _ = make(path, 100, 30)
    A.products(np.ones(30))
    os.truncate(path / "blocks.npy", (path / "blocks.npy").stat().st_size // 2)
    with pytest.raises(OSError, match="was changed while it was in use"):
        A.products(np.ones(30))


def test_file_systems_without_direct_reads(tmp_path, monkeypatch):
    A, array = make(tmp_path / "A.fq", 100, 30)
    original = os.open

    def refusing(path, flags, *rest):
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return original(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)
    np.testing.assert_allclose(A.products(np.ones(30)), naive.products(array, np.ones(30)), atol=1e-12)
