"""The campaign against files and processes: kills, races, flips and cuts, tampered files, full disks; one table.

    python -m benchmarks.studies.campaign.faults [SHARE] [--seed N] [--jobs N] [--only KIND] [--show]

SHARE 1.0 makes 1,000 kills, 200 races, 600 flips and cuts, 600 tampered files and 100 full disks; the default makes a
twentieth of that. A trial is reproduced by its kind, seed and number, up to the moment at which the system runs it.

Each trial has a folder of its own and works in forked processes, which are killed by SIGKILL after a random time, one
after the other, until one of them comes to the end. What is there then must be what an undisturbed run leaves, bit for
bit. Of an altered file the answer must be the right one, or a ValueError or OSError, within seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import signal
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastquad as fq
from fastquad.engine import checkpoint
from fastquad.experiments import experiment, workers
from fastquad.experiments.experiment import Experiment
from fastquad.measurements.disk import writer

Rng = np.random.Generator
M, N = 48, 7
#: Whatever takes longer hangs.
_SECONDS = 20
#: Files in memory are as good for all of this, and the disk is left in peace.
_MEMORY = "/dev/shm"
#: The number of kills after which a trial is left to end undisturbed.
_MOST_KILLS = 12


class Trial(NamedTuple):
    """What became of one trial; `wrong` says what, and is empty where nothing is."""

    kind: str
    number: int
    events: int
    refused: bool
    wrong: str


# -- processes ----------------------------------------------------------------------------------------------------


def _forked(work: Callable[[], object]) -> int:
    """Start some work in a process of its own; it ends with 0, with 2 for a ValueError or OSError, else with 1."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        work()
        code = 0
    except (ValueError, OSError):
        code = 2
    finally:
        os._exit(code)


def _killed_until_done(work: Callable[[], object], rng: Rng, longest: float) -> tuple[int, str]:
    """Kill processes at this work until one is done: how many were killed in mid-work, and what was wrong."""
    kills = 0
    while kills < _MOST_KILLS:
        pid = _forked(work)
        time.sleep(rng.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            return kills, "" if os.WEXITSTATUS(status) == 0 else f"the work ended with {os.WEXITSTATUS(status)}"
    status = os.waitpid(_forked(work), 0)[1]
    return kills, "" if status == 0 else f"the last run ended with {status}"


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- kills --------------------------------------------------------------------------------------------------------


class _Slow(fq.types.RawTensor):
    """An array whose packing takes a while, so that it can be killed anywhere."""

    def _pack(self, block: int, out: np.ndarray) -> None:
        time.sleep(0.0005)
        super()._pack(block, out)


def kill_pack(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    A = rng.standard_normal((M * 4, N, N))
    fq.pack(A, folder / "expected", n_threads=1)

    def work() -> None:
        if not (folder / "A.fq").exists():  # the last one was killed at its very end
            fq.pack(_Slow(A), folder / "A.fq", n_threads=1)

    kills, wrong = _killed_until_done(work, rng, 0.06)
    if not wrong and _bytes(folder / "A.fq") != _bytes(folder / "expected"):
        wrong = "other bytes"
    return kills, False, wrong or _rest(folder, {"A.fq", "expected"})


def kill_solve(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    method = str(rng.choice(["twf", "auto", "lm", "amp"]))
    problem = fq.problems.gaussian(m=60, n=24, k=4, rng=rng)
    expected = fq.solve(problem.A, problem.y, method=method, max_iter=60)

    def work() -> None:
        solution = fq.solve(problem.A, problem.y, method=method, max_iter=60, checkpoint=folder / "solve.ck")
        np.save(folder / "x.npy", solution.x)

    kills, wrong = _killed_until_done(work, rng, 0.08)
    if not wrong and np.load(folder / "x.npy").tobytes() != expected.x.tobytes():
        wrong = f"other bits ({method})"
    return kills, False, wrong or _rest(folder, {"solve.ck", "solve.ck.partial", "x.npy"})


def _trial(settings: dict[str, Any], cell: dict[str, Any], number: int) -> list[dict[str, Any]]:
    time.sleep(0.001)
    return [{"value": float(np.random.default_rng([cell["k"], number]).standard_normal())}]


def _summary(settings: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"k": k, "sum": sum(row["value"] for row in rows if row["k"] == k)} for k in settings["k"]]


_TINY = Experiment(
    "tiny", "tiny", {"k": [1, 2, 3]}, 8, 8, lambda settings: [{"k": k} for k in settings["k"]], _trial, _summary,
    lambda result: None, "its numbers",
)  # fmt: skip


def _in_process(units: list[Any], **_: Any) -> Iterator[dict[str, Any]]:
    return (workers.perform(unit) for unit in units)


def kill_reproduce(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    """`reproduce` with its trials in the process that is killed: the files are the same."""

    def work() -> None:
        experiment.pool.run = _in_process  # type: ignore[assignment]
        experiment.run(_TINY, folder / "out", 8).save(folder / "out")

    kills, wrong = _killed_until_done(work, rng, 0.06)
    if wrong:
        return kills, False, wrong
    done = [json.loads(line) for line in (folder / "out" / "trials.jsonl").read_text().splitlines()]
    trials = sorted((record["cell"]["k"], record["trial"]) for record in done if "trial" in record)
    if trials != [(k, i) for k in (1, 2, 3) for i in range(8)]:
        wrong = "trials are missing, or there twice"
    expected = _summary(_TINY.settings, [{"k": k, **_trial({}, {"k": k}, i)[0]} for k in (1, 2, 3) for i in range(8)])
    if json.loads((folder / "out" / "tiny.json").read_text())["rows"] != expected:
        wrong = "another table"
    return kills, False, wrong


def _rest(folder: Path, known: set[str]) -> str:
    """What is left over, as a complaint."""
    others = {path.name for path in folder.iterdir()} - known - {"A.fq.partial.lock"}
    return f"left over: {', '.join(sorted(others))}" if others else ""


# -- races --------------------------------------------------------------------------------------------------------


def race(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    """Three processes pack to one path; one may succeed, with its own data, and what is there is whole."""
    tensors = rng.standard_normal((3, 16, N, N))
    read, write = os.pipe()

    def work(A: np.ndarray) -> None:
        os.read(read, 1)  # all begin together
        time.sleep(float(np.random.default_rng().uniform(0, 0.002)))
        mine = fq.pack(A, folder / "A.fq", n_threads=1)
        assert np.array_equal(mine.matrices(0, 16), fq.pack(A).matrices(0, 16))

    pids = [_forked(lambda A=A: work(A)) for A in tensors]
    os.write(write, b"123")
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    os.close(read)
    os.close(write)
    if 1 in codes or codes.count(0) > 1:
        return 1, False, f"ended with {codes}"
    if codes.count(0) == 1:
        there = fq.open(folder / "A.fq").matrices(0, 16)
        if not np.array_equal(there, fq.pack(tensors[codes.index(0)]).matrices(0, 16)):
            return 1, False, "another's data"
    return 1, codes.count(0) == 0, ""


# -- altered files ------------------------------------------------------------------------------------------------


class _Files(NamedTuple):
    """Files of every kind in a folder, what reads each, and what that gives where nothing was altered."""

    paths: list[Path]
    read: Callable[[Path], bytes]


def _laid_out(rng: Rng, folder: Path) -> _Files:
    problem = fq.problems.gaussian(m=M, n=N, k=2, rng=rng)
    A, y = problem.A, problem.y
    fq.pack(A, folder / "A.fq", n_threads=1)
    np.save(folder / "A.npy", A)
    fq.solve(A, y, checkpoint=folder / "ended.ck")
    fq.solve(A, y, method="twf", max_iter=4, checkpoint=folder / "begun.ck")
    decoder = fq.decoders.Decoder([rng.standard_normal((3, 8))], [np.zeros(8)], ["identity"])
    decoder.save(folder / "decoder.npz")
    decoder.save(folder / "decoder.safetensors")

    def read(path: Path) -> bytes:
        if path.parent.name == "A.fq":
            memory = None if rng.uniform() < 0.5 else 6 * fq.open(path.parent).folder.block_bytes  # type: ignore[attr-defined]
            tensor = fq.open(path.parent, memory=memory)
            return tensor.products(np.ones(N)).tobytes() + tensor.diagonals().tobytes()
        if path.suffix == ".npy":
            return fq.as_measurements(path).products(np.ones(N)).tobytes()
        if path.name == "ended.ck":
            return fq.solve(A, y, checkpoint=path).x.tobytes()
        if path.name == "begun.ck":
            return fq.solve(A, y, method="twf", max_iter=30, checkpoint=path).x.tobytes()
        return fq.decoders.load(path)(np.ones((1, 3))).tobytes()

    names = ["A.fq/blocks.npy", "A.fq/diagonals.npy", "A.fq/tensor.json", "A.npy", "ended.ck", "begun.ck"]
    return _Files([folder / name for name in (*names, "decoder.npz", "decoder.safetensors")], read)


def _examined(files: _Files, path: Path, alter: Callable[[Path], object], free: bool) -> tuple[int, bool, str]:
    """Alter a file and read it: nothing but the right answer or a clear error will do; with `free`, any answer."""
    before = path.read_bytes()
    expected = files.read(path)
    path.write_bytes(before)  # a checkpoint goes on when it is read
    alter(path)
    signal.signal(signal.SIGALRM, _hung)
    signal.alarm(_SECONDS)
    try:
        found = files.read(path)
    except (ValueError, OSError):
        return 1, True, ""
    except BaseException as error:
        return 1, False, f"{path.name}: {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return 1, False, "" if free or found == expected else f"{path.name}: another answer, and no error"


def _hung(*_: object) -> None:
    raise RuntimeError("it hung")


def flip(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    """Bits are flipped, and files are cut or grow. Entries of plain arrays have no checksum: those may differ."""
    files = _laid_out(rng, folder)
    path = files.paths[int(rng.integers(len(files.paths)))]
    content = bytearray(path.read_bytes())
    way = str(rng.choice(["flip", "flips", "cut", "grow", "zero"]))
    if way.startswith("flip"):
        for place in rng.integers(len(content), size=1 if way == "flip" else 20):
            content[place] ^= 1 << int(rng.integers(8))
    elif way == "cut":
        del content[int(rng.integers(len(content))) :]
    elif way == "grow":
        content += rng.bytes(int(rng.integers(1, 5000)))
    else:
        start = int(rng.integers(len(content)))
        content[start : start + 512] = bytes(len(content[start : start + 512]))
    unprotected = path.name in ("A.npy", "decoder.npz", "decoder.safetensors")
    return _examined(files, path, lambda path: path.write_bytes(content), free=unprotected)


_VALUES: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**63, 2**64 + 5, 10**30, 1.5, 1e308, "", "x", "<f8", [], {}, [[]], [1, 2],
    {"a": 1}, "\x00", -(2**63), [2**62, 2**62], ["<f8", [3]], {"array": 0, "axes": [5]}, {"dict": {}}, "9" * 50,
]  # fmt: skip


def _mutated(value: Any, rng: Rng) -> Any:
    """JSON with one value, somewhere in it, replaced, dropped or nested."""
    if isinstance(value, dict) and value and rng.uniform() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.uniform() < 0.15:
            return {name: entry for name, entry in value.items() if name != key}
        return {name: _mutated(entry, rng) if name == key else entry for name, entry in value.items()}
    if isinstance(value, list) and value and rng.uniform() < 0.7:
        place = int(rng.integers(len(value)))
        return [*value[:place], _mutated(value[place], rng), *value[place + 1 :]]
    return copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])


def _tampered_description(path: Path, rng: Rng) -> None:
    said = json.loads(path.read_text())
    said.pop("checksum")
    said = _mutated(said, rng)
    if isinstance(said, dict):
        said |= {"checksum": zlib.crc32(json.dumps(said, sort_keys=True).encode())}
    text = json.dumps(said)
    if rng.uniform() < 0.1:
        text = text.replace(":", ":" + "[" * 20_000, 1)
    path.write_text(text)


def _tampered_journal(path: Path, rng: Rng) -> None:
    """One record says something else, with a checksum that is right."""
    content, records, start = path.read_bytes(), [], 0
    while start < len(content):
        line, _, _ = content[start:].partition(b"\n")
        said = json.loads(line)[1]
        size = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in said["arrays"])
        begin = start + len(line) + 1
        records.append((said, content[begin : begin + size]))
        start = begin + size
    which = int(rng.integers(len(records)))
    said, data = records[which]
    arrays = said.pop("arrays")
    said = _mutated(said, rng)
    if isinstance(said, dict):
        said["arrays"] = _mutated(arrays, rng) if rng.uniform() < 0.2 else arrays
    records[which] = said, data
    sealed = b""
    for said, data in records:
        text = json.dumps(said)
        sealed += f"[{zlib.crc32(data, zlib.crc32(text.encode()))}, {text}]\n".encode() + data
    path.write_bytes(sealed)


def _tampered_npy(path: Path, rng: Rng) -> None:
    parts = [
        "(",
        ")",
        "-",
        "3",
        "7, 7",
        "'",
        "{",
        "}",
        "[",
        ",",
        "'shape'",
        "'descr'",
        "'<f8'",
        "'O'",
        "True",
        "None",
        "9" * 30,
    ]
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (48, 7, 7)}"
    for _ in range(int(rng.integers(1, 4))):
        place, part = int(rng.integers(len(header))), parts[int(rng.integers(len(parts)))]
        header = header[:place] + part * int(rng.choice([1, 1, 2, 3000])) + header[place + int(rng.integers(3)) :]
    content = path.read_bytes()
    version = int(rng.choice([1, 2, 3]))
    text = (header + "\n").encode()
    length = min(len(text), 65535).to_bytes(2 if version == 1 else 4, "little")
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + text + content[128:])


def _tampered_safetensors(path: Path, rng: Rng) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = json.dumps(_mutated(json.loads(content[8 : 8 + size]), rng)).encode()
    size = len(text) if rng.uniform() < 0.8 else int(rng.integers(2**63))
    path.write_bytes(size.to_bytes(8, "little") + text + content[8 + size :])


def _fifo(path: Path, rng: Rng) -> None:
    path.unlink()
    os.mkfifo(path)


def tamper(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    """Somebody alters what a file says, and sees to it that its checksums are right."""
    files = _laid_out(rng, folder)
    by_name = {path.name: path for path in files.paths}
    ways = {
        "tensor.json": _tampered_description, "ended.ck": _tampered_journal, "begun.ck": _tampered_journal,
        "A.npy": _tampered_npy, "decoder.safetensors": _tampered_safetensors,
    }  # fmt: skip
    name = str(rng.choice(list(ways)))
    way = _fifo if rng.uniform() < 0.05 else ways[name]
    path = by_name[name]
    return _examined(files, path, lambda path: way(path, rng), free=True)


# -- full disks ---------------------------------------------------------------------------------------------------


def full(rng: Rng, folder: Path) -> tuple[int, bool, str]:
    """No file may grow beyond a limit; with more room, the same call goes on and ends with the same bits."""
    A = rng.standard_normal((M, N, N))
    fq.pack(A, folder / "expected", n_threads=1)
    limit = int(rng.integers(0, (folder / "expected" / "blocks.npy").stat().st_size))

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        fq.pack(A, folder / "A.fq", n_threads=1)

    code = os.waitstatus_to_exitcode(os.waitpid(_forked(work), 0)[1])
    if code != 2:
        return 1, False, f"ended with {code} in place of an OSError"
    fq.pack(A, folder / "A.fq", n_threads=1)
    same = _bytes(folder / "A.fq") == _bytes(folder / "expected")
    return 1, True, "" if same else "other bytes"


KINDS: dict[str, tuple[Callable[[Rng, Path], tuple[int, bool, str]], int]] = {
    # What each trial does, and how many events of its kind a share of 1 has.
    "kills of pack": (kill_pack, 340),
    "kills of a checkpointed solve": (kill_solve, 340),
    "kills of reproduce": (kill_reproduce, 340),
    "races of packers": (race, 200),
    "flips and cuts": (flip, 600),
    "tampered files": (tamper, 600),
    "full disks": (full, 100),
}


def run(job: tuple[str, int, int]) -> Trial:
    """One trial in a folder of its own."""
    kind, seed, number = job
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    writer.SECTION_BYTES = writer._UNIT_BYTES = 1  # a section for each block of 8
    checkpoint._INTERVAL = 0.0  # every snapshot is written
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as folder:
        try:
            return Trial(kind, number, *KINDS[kind][0](rng, Path(folder)))
        except Exception as error:  # of the undisturbed part
            return Trial(kind, number, 1, False, f"{type(error).__name__}: {error}")


def table(trials: list[Trial]) -> str:
    """One line a kind."""
    by_kind = defaultdict(list)
    for trial in trials:
        by_kind[trial.kind].append(trial)
    lines = [f"{'fault':32}{'trials':>8}{'events':>8}{'refused':>9}{'wrong':>7}"]
    for kind, group in by_kind.items():
        events, refused = sum(t.events for t in group), sum(t.refused for t in group)
        lines.append(f"{kind:32}{len(group):8}{events:8}{refused:9}{sum(bool(t.wrong) for t in group):7}")
    return "\n".join(lines)


def _jobs(kind: str, wanted: int, seed: int, pool: Any) -> Iterator[Trial]:
    """Run trials of a kind until it has this number of events, which a trial does not tell beforehand."""
    events = number = 0
    while events < wanted:
        for trial in pool.imap(run, [(kind, seed, number + i) for i in range(16)]):
            events += trial.events
            yield trial
        number += 16


def main() -> int:
    """Run the campaign; the exit code tells whether anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("share", type=float, nargs="?", default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=list(KINDS), help="one kind")
    parser.add_argument("--show", action="store_true", help="list what was wrong")
    given = parser.parse_args()
    trials: list[Trial] = []
    with Pool(given.jobs) as pool:
        for kind in [given.only] if given.only else KINDS:
            trials += _jobs(kind, round(given.share * KINDS[kind][1]), given.seed, pool)
    print(table(trials))
    for trial in trials:
        if given.show and trial.wrong:
            print(f"WRONG  {trial.kind}, seed {given.seed}, number {trial.number}: {trial.wrong}")
    return int(any(trial.wrong for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
