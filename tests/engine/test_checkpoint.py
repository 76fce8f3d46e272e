"""Checkpoints: interrupted anywhere, by anything, the same call goes on and ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine import checkpoint, driver
from fastquad.measurements.disk import reader, writer
from fastquad.system.records import Journal, Record

M, N, K = 130, 60, 5


class Interrupt(Exception):
    """What the tests interrupt a solve with."""


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch):
    """Small answers are made more quickly than they are written, and small steps are shorter than the interval."""
    monkeypatch.setattr(checkpoint, "_WRITE_SPEED", 1e99)
    monkeypatch.setattr(checkpoint, "_INTERVAL", 0.0)


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=M, n=N, k=K, rng=0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "solve.ck"


@pytest.fixture
def fuse(monkeypatch):
    """fuse(count) interrupts after this number of answers; fuse(None) is off."""
    state = {"left": None, "answered": 0}

    def burning(original):
        def serve(self, *arguments):
            if state["left"] is not None:
                state["left"] -= 1
                if state["left"] < 0:
                    raise Interrupt
            state["answered"] += 1
            return original(self, *arguments)

        return serve

    for name in ("serve", "serve_together"):
        monkeypatch.setattr(driver._Answerer, name, burning(getattr(driver._Answerer, name)))

    def light(count):
        state.update(left=count, answered=0)
        return state

    return light


def assert_same(got, expected):
    """All but the time must be the same, to the last bit."""
    for name in ("x", "success", "n_iter", "n_passes", "residual"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name), err_msg=name)
    for name in ("status", "method", "message", "noise"):
        assert getattr(got, name) == getattr(expected, name)
    histories = [each.history if isinstance(each.history, list) else [each.history] for each in (got, expected)]
    for one, two in zip(*histories, strict=True):
        np.testing.assert_array_equal(one["residual"], two["residual"])
        np.testing.assert_array_equal(one["n_passes"], two["n_passes"])
        assert (np.diff(one["elapsed"]) >= 0).all()


METHODS = {
    "auto": {},
    "pursuit": {"method": "pursuit"},
    "amp": {"method": "amp"},
    "lm": {"method": "lm"},
    "twf": {"method": fq.TWF(beta=4.0)},
    "twf, exact steps": {"method": fq.TWF(beta=4.0, step="exact"), "max_iter": 60},
    "wf, exact steps": {"method": fq.methods.WF(start="full", step="exact")},
    "spf": {"method": fq.methods.SPF(k=K)},
    "sgn": {"method": fq.methods.SGN(k=K)},
    "noise": {"method": "auto", "noise": 0.1},
}


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_interrupted_again_and_again(problem, path, fuse, name, batch):
    options, y = METHODS[name], problem.y
    if name == "noise":
        y = y + 0.1 * np.random.default_rng(1).standard_normal(M)
    if batch:
        y = np.stack([y, np.zeros(M), fq.measure(problem.A, np.roll(problem.x, 7))])
    expected = fq.solve(problem.A, y, **options)
    rng, allowed, interrupts = np.random.default_rng(0), 1, 0
    while True:
        fuse(allowed)
        try:
            got = fq.solve(problem.A, y, checkpoint=path, **options)
            break
        except Interrupt:
            interrupts += 1
            allowed += int(rng.integers(1, allowed + 2))
    assert interrupts >= 2
    assert_same(got, expected)


@pytest.mark.parametrize("method", ["latent", "pgd", "ppower"])
def test_generative_methods(path, fuse, method):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 40))]
    prior = fq.Generative(fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(40)], ["tanh", "sigmoid"]))
    A, x = rng.standard_normal((60, 40, 40)), prior.signal(rng.standard_normal(3))
    y = np.stack([fq.measure(A, x), fq.measure(A, 2 * x)])
    expected = fq.solve(A, y, prior=prior, method=method)
    for allowed in (1, 2, 4, None):
        fuse(allowed)
        try:
            got = fq.solve(A, y, prior=prior, method=method, checkpoint=path)
        except Interrupt:
            continue
    assert_same(got, expected)
    weights[0][0, 0] += 0.1
    other = fq.Generative(fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(40)], ["tanh", "sigmoid"]))
    with pytest.raises(ValueError, match="belongs to another solve: prior differs"):
        fq.solve(A, y, prior=other, method=method, checkpoint=path)


@pytest.mark.parametrize("method", ["amp", "pursuit", fq.TWF(beta=4.0)])
def test_nothing_that_was_kept_is_read_again(tmp_path, monkeypatch, fuse, problem, path, method):
    monkeypatch.setattr(writer, "SECTION_BYTES", 20_000)
    monkeypatch.setattr(reader, "_READ_BYTES", 50_000)
    nbytes = fq.pack(problem.A, tmp_path / "A.fq").nbytes
    A = fq.open(tmp_path / "A.fq", memory=nbytes // 2)
    options = {"method": method, "max_iter": 200}
    counts = fuse(None)
    expected = fq.solve(A, problem.y, **options)
    whole, total = A.bytes_read, counts["answered"]
    fuse(total - 1)
    with pytest.raises(Interrupt):
        fq.solve(A, problem.y, checkpoint=path, **options)
    before = A.bytes_read
    fuse(None)
    got = fq.solve(A, problem.y, checkpoint=path, **options)
    # What is left is the last answer, or the last step.
    assert A.bytes_read - before < 0.3 * whole
    assert "GB were read from disk" in got.message
    assert got.n_passes == expected.n_passes
    np.testing.assert_array_equal(got.x, expected.x)


def test_a_finished_solve_is_not_done_again(problem, path, fuse):
    first = fq.solve(problem.A, problem.y, checkpoint=path)
    fuse(0)
    again = fq.solve(problem.A, problem.y, checkpoint=path)
    assert_same(again, first)
    assert again.elapsed == first.elapsed
    assert again.status is fq.Status.EXACT
    assert again.history.keys() == first.history.keys()
    np.testing.assert_array_equal(again.support, first.support)
    assert path.stat().st_size < 20_000


@pytest.mark.parametrize("limit", [{"max_iter": 7}, {"max_passes": 6.0}, {"callback": lambda state: state.n_iter == 5}])
@pytest.mark.parametrize("method", [fq.TWF(), "lm", "amp"])
def test_a_larger_budget_goes_on(problem, path, fuse, method, limit):
    expected = fq.solve(problem.A, problem.y, method=method, max_iter=60)
    stopped = fq.solve(problem.A, problem.y, method=method, checkpoint=path, **limit)
    again = fq.solve(problem.A, problem.y, method=method, checkpoint=path, **limit)
    assert_same(again, fq.solve(problem.A, problem.y, method=method, **limit))
    counts = fuse(None)
    got = fq.solve(problem.A, problem.y, method=method, checkpoint=path, max_iter=60)
    assert_same(got, expected)
    if method == fq.TWF():
        assert stopped.status in (fq.Status.MAX_ITER, fq.Status.MAX_PASSES, fq.Status.STOPPED)
        assert counts["answered"] < expected.n_iter


@pytest.mark.parametrize("method", [fq.TWF(), fq.methods.WF()], ids=["twf", "wf"])
def test_a_larger_budget_goes_on_with_the_signals_of_a_batch_that_need_it(path, fuse, method):
    """A batch has ended only when all of its signals have: one that is out of budget can still go on."""
    batch = fq.problems.gaussian(m=M, n=N, k=K, n_signals=2, rng=0)
    options = {"method": method, "rng": 0}
    expected = fq.solve(batch.A, batch.y, max_iter=3000, **options)
    early, late = sorted(expected.n_iter)
    assert early < late
    limit = int(early + late) // 2
    stopped = fq.solve(batch.A, batch.y, checkpoint=path, max_iter=limit, **options)
    assert sorted(stopped.success) == [False, True]
    assert fq.Status.MAX_ITER in stopped.status
    counts = fuse(None)
    got = fq.solve(batch.A, batch.y, checkpoint=path, max_iter=3000, **options)
    assert counts["answered"] > 0
    assert_same(got, expected)
    assert got.success.all()
    # now it has ended, and the same call reads nothing
    fuse(0)
    assert_same(fq.solve(batch.A, batch.y, checkpoint=path, max_iter=3000, **options), expected)


def test_callbacks_see_every_step_at_least_once(problem, path, fuse):
    seen = []
    for allowed in (5, 40, None):
        fuse(allowed)
        try:
            got = fq.solve(
                problem.A, problem.y, method=fq.TWF(beta=4.0), checkpoint=path,
                callback=lambda state: seen.append(state.n_iter),
            )  # fmt: skip
        except Interrupt:
            continue
    assert set(seen) == set(range(1, got.n_iter + 1))


def test_long_runs_take_little_room(problem, path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SNAPSHOT_BYTES", 20_000)
    largest = 0

    def watch(state):
        nonlocal largest
        if state.n_iter > 5:  # the start is kept as answers
            largest = max(largest, path.stat().st_size)

    fq.solve(problem.A, problem.y, method=fq.TWF(), max_iter=300, checkpoint=path, callback=watch)
    assert largest < 60_000


def test_the_journal_is_limited(problem, path, monkeypatch, fuse):
    packed = fq.pack(problem.A[:, :8, :8].copy())
    y = fq.measure(packed, np.ones(8))
    monkeypatch.setattr(checkpoint, "_LEAST_LIMIT", 20_000)
    expected = fq.solve(packed, y, method="lm")
    fuse(5)
    with pytest.raises(Interrupt):
        fq.solve(packed, y, method="lm", checkpoint=path)
    assert path.stat().st_size < max(20_000, packed.nbytes) + 2000
    fuse(None)
    assert_same(fq.solve(packed, y, method="lm", checkpoint=path), expected)


def test_cheap_answers_are_made_again(problem, path, monkeypatch, fuse):
    expected = fq.solve(problem.A, problem.y)
    monkeypatch.setattr(checkpoint, "_WRITE_SPEED", 0.0)
    fuse(6)
    with pytest.raises(Interrupt):
        fq.solve(problem.A, problem.y, checkpoint=path)
    assert path.stat().st_size < 2000
    fuse(None)
    assert_same(fq.solve(problem.A, problem.y, checkpoint=path), expected)


def test_the_budget_is_that_of_the_first_call(problem, path, fuse):
    fuse(3)
    with pytest.raises(Interrupt):
        fq.solve(problem.A, problem.y, checkpoint=path, memory="300 kB")
    fuse(None)
    got = fq.solve(problem.A, problem.y, checkpoint=path)
    assert_same(got, fq.solve(problem.A, problem.y, memory="300 kB"))


# -- killed -------------------------------------------------------------------------------------------------------

CODE = """
import sys, time
import numpy as np
import fastquad as fq
from fastquad.engine import checkpoint

checkpoint._WRITE_SPEED, checkpoint._INTERVAL = 1e99, 0.0

class Slow(fq.types.RawTensor):
    def _apply(self, *arguments):
        time.sleep(PAUSE)
        return super()._apply(*arguments)

    def _sweep(self, *arguments):
        time.sleep(PAUSE)
        return super()._sweep(*arguments)

    def _block(self, *arguments):
        time.sleep(PAUSE)
        return super()._block(*arguments)

PAUSE = float(sys.argv[2])
problem = fq.problems.gaussian(m=130, n=60, k=12, rng=0)
method = {"twf": fq.TWF(), "amp": "amp", "pursuit": "pursuit"}[sys.argv[1]]
solution = fq.solve(Slow(problem.A), problem.y, method=method, max_iter=100, checkpoint=sys.argv[3])
np.save(sys.argv[4], np.concatenate([solution.x, [solution.n_passes, solution.n_iter], solution.history["residual"]]))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.parametrize("method", ["twf", "amp", "pursuit"])
def test_killed_at_random_moments(tmp_path, method):
    def command(pause, name):
        result = tmp_path / f"{name}.npy"
        return [sys.executable, "-c", CODE, method, str(pause), str(tmp_path / name), str(result)], result

    plain, expected = command(0, "whole")
    subprocess.run(plain, check=True)
    slow, result = command(0.01, "killed")
    journal, rng, kills = tmp_path / "killed", np.random.default_rng(0), 0
    for _ in range(4):
        process = subprocess.Popen(slow)
        deadline = time.monotonic() + 60
        while not journal.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.25)))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 2
    again, _ = command(0, "killed")
    subprocess.run(again, check=True)
    np.testing.assert_array_equal(np.load(result), np.load(expected))


@pytest.mark.skipif(os.name == "nt", reason="needs RLIMIT_FSIZE")
def test_disk_full(problem, path):
    # A limit on the size of a file is what a full disk is to the writer: an error of the system in mid-write.
    code = f"""
import resource, fastquad as fq
from fastquad.engine import checkpoint
checkpoint._WRITE_SPEED = 1e99
problem = fq.problems.gaussian(m={M}, n={N}, k={K}, rng=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
fq.solve(problem.A, problem.y, method="lm", checkpoint={str(path)!r})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "`checkpoint`: no room for" in result.stderr
    assert "make room and call again to go on" in result.stderr
    assert 100_000 < path.stat().st_size <= 200_000
    got = fq.solve(problem.A, problem.y, method="lm", checkpoint=path)
    assert_same(got, fq.solve(problem.A, problem.y, method="lm"))


# -- another solve, another file, damage --------------------------------------------------------------------------


def interrupted(problem, path, fuse, allowed=4, **options):
    fuse(allowed)
    with pytest.raises(Interrupt):
        fq.solve(problem.A, problem.y, checkpoint=path, **options)
    fuse(None)
    return path.read_bytes()


CHANGES = {
    "A": lambda p: ((p.A + 1e-9, p.y), {}),
    "y": lambda p: ((p.A, p.y + 1e-9), {}),
    "method": lambda p: ((p.A, p.y), {"method": fq.LM(max_steps=7)}),
    "x0": lambda p: ((p.A, p.y), {"x0": p.x}),
    "norm": lambda p: ((p.A, p.y), {"norm": 1.0}),
    "noise": lambda p: ((p.A, p.y), {"noise": 0.0}),
    "tol": lambda p: ((p.A, p.y), {"tol": 1e-6}),
    "rng": lambda p: ((p.A, p.y), {"rng": 1}),
    "prior": lambda p: ((p.A, p.y), {"prior": fq.Sparse()}),
}


@pytest.mark.parametrize("part", CHANGES)
def test_another_solve_is_refused(problem, path, fuse, part):
    content = interrupted(problem, path, fuse, method="lm")
    arguments, options = CHANGES[part](problem)
    with pytest.raises(ValueError, match=f"belongs to another solve: {part} differs. Remove it, or choose another"):
        fq.solve(*arguments, checkpoint=path, **({"method": "lm"} | options))
    assert path.read_bytes() == content


def test_other_tensors_are_told_apart(tmp_path, path, problem):
    y = np.ones(24)
    fq.solve(fq.GaussianTensor(24, 6, seed=0), y, method="lm", checkpoint=path)
    with pytest.raises(ValueError, match="belongs to another solve: A differs"):
        fq.solve(fq.GaussianTensor(24, 6, seed=1), y, method="lm", checkpoint=path)
    fq.pack(fq.GaussianTensor(24, 6, seed=0), tmp_path / "A.fq")
    other = tmp_path / "other.ck"
    fq.solve(tmp_path / "A.fq", y, method="lm", checkpoint=other)
    # A folder is known by its checksums, wherever it is.
    (tmp_path / "A.fq").rename(tmp_path / "B.fq")
    fq.solve(tmp_path / "B.fq", y, method="lm", checkpoint=other)


@pytest.mark.parametrize("method", ["lm", "amp", "twf"])
@pytest.mark.parametrize("damage", ["torn", "altered", "zeros", "nonsense after"])
def test_what_is_torn_or_altered_is_done_again(problem, path, fuse, damage, method):
    expected = fq.solve(problem.A, problem.y, method=method, max_iter=50)
    content = interrupted(problem, path, fuse, 4, method=method, max_iter=50)
    head = content.index(b"\n") + 1
    for position in np.random.default_rng(0).integers(head, len(content), 12):
        altered = content[position] ^ 4
        path.write_bytes({
            "torn": content[:position],
            "altered": content[:position] + bytes([altered]) + content[position + 1 :],
            "zeros": content[:position] + bytes(len(content) - position),
            "nonsense after": content + b'[1, {"kind": "answer", "arrays": [["<f8", [1000000000000]]]}]\nmore',
        }[damage])  # fmt: skip
        assert_same(fq.solve(problem.A, problem.y, method=method, max_iter=50, checkpoint=path), expected)


def test_altered_requests_end_the_replay(problem, path, fuse):
    # As on a machine whose arithmetic differs in the last bit: the answers to other requests are of no use.
    interrupted(problem, path, fuse, 6, method="lm")
    journal = Journal(path)
    records = []
    while (record := journal.peek()) is not None:
        records.append(record)
        journal.take()
    assert len(records) > 4
    said = records[3].said | {"request": "0" * 16}
    journal.restart([*records[:3], Record(said, [array + 1 for array in records[3].arrays]), *records[4:]])
    journal.close()
    got = fq.solve(problem.A, problem.y, method="lm", checkpoint=path)
    assert_same(got, fq.solve(problem.A, problem.y, method="lm"))


@pytest.mark.parametrize("position", [0, 5, 40])
def test_a_damaged_header_is_told(problem, path, fuse, position):
    content = interrupted(problem, path, fuse)
    path.write_bytes(content[:position] + b"#" + content[position + 1 :])
    with pytest.raises(ValueError, match="is not a checkpoint, or its beginning is damaged"):
        fq.solve(problem.A, problem.y, checkpoint=path)


def test_files_of_others_are_left_alone(problem, path):
    path.write_text("my notes\n")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        fq.solve(problem.A, problem.y, checkpoint=path)
    assert path.read_text() == "my notes\n"


def test_versions(problem, path, fuse):
    interrupted(problem, path, fuse)
    journal = Journal(path)
    header = journal.peek()
    journal.restart([Record(header.said | {"version": 4}, [])])
    journal.close()
    with pytest.raises(ValueError, match="has version 4 of the format, this fastquad reads version 3"):
        fq.solve(problem.A, problem.y, checkpoint=path)
    journal = Journal(path)
    known = header.said["problem"] | {"the version of fastquad": "0.0.1"}
    journal.restart([Record(header.said | {"problem": known}, [])])
    journal.close()
    with pytest.raises(ValueError, match="another solve: the version of fastquad differs"):
        fq.solve(problem.A, problem.y, checkpoint=path)


def test_two_solves_do_not_share_a_checkpoint(problem, path):
    def call_again(state):
        with pytest.raises(OSError, match="`checkpoint`: another solve is writing to"):
            fq.solve(problem.A, problem.y, checkpoint=path)

    pytest.importorskip("fcntl")
    assert fq.solve(problem.A, problem.y, checkpoint=path, callback=call_again).success


def test_bad_paths(problem, tmp_path):
    with pytest.raises(TypeError, match="`checkpoint` must be a path, got int"):
        fq.solve(problem.A, problem.y, checkpoint=3)
    with pytest.raises(IsADirectoryError, match="`checkpoint` must be the path of a file"):
        fq.solve(problem.A, problem.y, checkpoint=tmp_path)
    with pytest.raises(FileNotFoundError, match="`checkpoint`: there is no folder"):
        fq.solve(problem.A, problem.y, checkpoint=tmp_path / "none" / "solve.ck")
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_leave_no_file(problem, path):
    with pytest.raises(ValueError, match="`y` must have shape"):
        fq.solve(problem.A, problem.y[:-1], checkpoint=path)
    assert not path.exists()


def test_nothing_to_solve_needs_no_file(problem, path):
    assert fq.solve(problem.A, np.zeros(M), checkpoint=path).success
    assert not path.exists()


def test_the_file_is_plain(problem, path):
    fq.solve(problem.A, problem.y, checkpoint=path)
    code, said = json.loads(Path(path).read_bytes().split(b"\n")[0])
    assert said["format"] == "fastquad checkpoint"
    assert isinstance(code, int)
