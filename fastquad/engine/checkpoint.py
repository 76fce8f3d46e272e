"""Checkpoints: resume a solve that was killed, and end with the same bits.

A solver is a deterministic generator that asks for contractions of A, so the answers that it was given are its state:
replayed from a journal, they bring a new generator to where the old one was. An answer is far smaller than what was
read for it, 4/n of a pass for products. It is saved if writing it is quicker than computing it again; answers that were
not saved are computed again. The journal grows to at most the size of A (or 1 GB); later answers are not saved.

Methods of many cheap steps yield at each step a `Snapshot` that they could resume from. For them the last snapshot is
saved, and no answers.

    header      format, version, digests of what is solved (see `fingerprint`), the memory budget
    answer *    in the order of the requests, each with the digest of its request; if a digest differs, as it may on a
                machine with another BLAS, the rest is dropped and the solve goes on from there
  or snapshot *
  or solutions  of a solve that has ended by itself: the same call returns them
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fastquad.engine.digest import digest
from fastquad.engine.encoding import Encoder, decoded, dense
from fastquad.engine.run import Run
from fastquad.noise import from_dict
from fastquad.solution import Proof, Solution
from fastquad.status import Status
from fastquad.system.records import Journal, Record

FORMAT, VERSION = "fastquad checkpoint", 3
# The speed of a disk, in bytes per second: an answer that is computed faster than it would be written is not saved.
_WRITE_SPEED = 1e9
# Seconds between two snapshots.
_INTERVAL = 0.2
# The size in bytes beyond which a file of snapshots is started afresh.
_SNAPSHOT_BYTES = 32 << 20
_LEAST_LIMIT = 1 << 30
# The statuses after which a solve can go on with a larger budget.
_UNFINISHED = (Status.MAX_ITER, Status.MAX_PASSES, Status.MAX_TIME, Status.STOPPED)


class Checkpoint:
    """The checkpoint of one call of `solve`; a context manager, which closes the file.

    `memory` is the budget that the solve was begun with, and `bytes_read` the bytes that earlier calls read from disk.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _checked(path)
        self.journal = Journal(self.path)
        self.header: Record | None = None
        self.memory: int | None = None
        self.bytes_read = 0
        #: The requests answered once in a solve that the runs of the last snapshot were already charged for.
        self.paid: list[str] = []
        #: When the last answer was given, in seconds of solving; None if it was not replayed.
        self.elapsed: float | None = None
        self._index = 0
        self._recording = True
        self._snapshot: Record | None = None
        self._saved_at = -np.inf
        self._limit = _LEAST_LIMIT
        self._read_by_now: Callable[[], int] = lambda: 0
        try:
            self._read_header()
        except BaseException:
            self.journal.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.journal.close()

    # -- the beginning ------------------------------------------------------------------------------------------

    def _read_header(self) -> None:
        if self.journal.empty:
            return
        header = self.journal.peek()
        if header is None or header.said.get("format") != FORMAT:
            raise ValueError(
                f"`checkpoint`: {str(self.path)!r} is not a checkpoint, or its beginning is damaged: remove it, or "
                "choose another name."
            )
        if header.said.get("version") != VERSION:
            raise ValueError(
                f"`checkpoint`: {str(self.path)!r} has version {header.said.get('version')!r} of the format, this "
                f"fastquad reads version {VERSION}: use the fastquad that wrote it, or remove it."
            )
        with self._reading():
            self.header, self.memory = header, int(header.said["memory"])
        self.journal.take()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Report an error in decoding records as an altered file: a right checksum does not rule that out."""
        try:
            yield
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError, ValueError) as error:
            raise ValueError(f"`checkpoint`: {str(self.path)!r} was altered: remove it.") from error

    def begin(self, parts: Mapping[str, Any], memory: int, nbytes: int, read_by_now: Callable[[], int]) -> None:
        """Bind the file to this solve, or raise an error if it belongs to another one.

        `parts` are the arguments of the solve by name, `nbytes` the size of A, and `read_by_now()` the bytes read from
        disk so far.
        """
        digests = {"the version of fastquad": _version()}
        digests |= {name: digest(value) for name, value in parts.items()}
        self._limit = max(_LEAST_LIMIT, nbytes)
        start = read_by_now()
        self._read_by_now = lambda: read_by_now() - start
        if self.header is None:
            said = {"format": FORMAT, "version": VERSION, "memory": memory, "problem": digests}
            self.header = Record(said, [])
            self.journal.create()
            self.journal.restart([self.header])
            return
        with self._reading():
            known = dict(self.header.said["problem"])
        other = [name for name in digests if known.get(name) != digests[name]]
        if other:
            raise ValueError(
                f"`checkpoint`: {str(self.path)!r} belongs to another solve: {' and '.join(other)} "
                f"{'differs' if len(other) == 1 else 'differ'}. Remove it, or choose another name."
            )
        while (record := self.journal.peek()) is not None and record.said.get("kind") == "snapshot":
            self._snapshot = record
            self.journal.take()
        if self._snapshot is not None:
            self._recording = False
            with self._reading():
                self.bytes_read = int(self._snapshot.said["bytes_read"])
                self.paid = [str(name) for name in self._snapshot.said["paid"]]

    def solutions(self) -> list[Solution] | None:
        """The solutions, if the solve has ended by itself."""
        record = self.journal.peek()
        if record is None or record.said.get("kind") != "solutions":
            return None
        with self._reading():
            return [_solution(state) for state in decoded(record.said["solutions"], record.arrays)]

    def states(self, count: int) -> list[dict[str, Any] | None]:
        """The state of each of `count` runs at the last snapshot; None for each if there is no snapshot."""
        if self._snapshot is None:
            return [None] * count
        with self._reading():
            states = list(decoded(self._snapshot.said["runs"], self._snapshot.arrays))
            if len(states) != count or not all(isinstance(state, dict) for state in states):
                raise ValueError(f"these are not the states of {count} runs")
            return states

    def restored(self, start: Callable[[dict[str, Any] | None], Run], state: dict[str, Any] | None) -> Run:
        """A run in a saved state; `start` makes a run whose method resumes from its snapshot."""
        run = start(None if state is None else state.get("solver"))
        if state is not None:
            with self._reading():
                if "solution" in state:
                    run.solution = _solution(state["solution"])
                else:
                    run.restore(state["run"])
        return run

    # -- answers ------------------------------------------------------------------------------------------------

    @property
    def replaying(self) -> bool:
        """Whether there are answers left from an earlier call."""
        return self._recording and self.journal.peek() is not None

    def answers(self, requests: list[Any], make: Callable[[], list[Any]], elapsed: float) -> list[Any]:
        """The answers to these requests: from the journal, or computed by `make`."""
        index, self._index = self._index, self._index + 1
        self.elapsed = None
        if not self._recording:
            return make()
        key = digest(*(_known_by(request) for request in requests))
        record = self.journal.peek()
        if record is not None and record.said.get("index") == index:
            if record.said.get("request") == key:
                self.journal.take()
                with self._reading():
                    self.elapsed, self.bytes_read = float(record.said["elapsed"]), int(record.said["bytes_read"])
                    return list(decoded(record.said["answers"], record.arrays))
            self.journal.drop_rest()
            record = None
        start = time.perf_counter()
        answers = [dense(answer) for answer in make()]
        seconds = time.perf_counter() - start
        # Only append: an answer cannot be inserted before one that is already saved.
        if record is None:
            self._write_answers(answers, {"index": index, "request": key, "elapsed": elapsed + seconds}, seconds)
        return answers

    def _write_answers(self, answers: list[Any], said: dict[str, Any], seconds: float) -> None:
        encoder = Encoder()
        encoded = encoder(answers)
        nbytes = sum(array.nbytes for array in encoder.arrays)
        if nbytes > _WRITE_SPEED * seconds:
            return
        if self.journal.position + nbytes > self._limit:
            self._recording = False
            return
        said = {"kind": "answer", **said, "bytes_read": self.total_read, "answers": encoded}
        self.journal.append(Record(said, encoder.arrays))

    @property
    def total_read(self) -> int:
        """The bytes that this call and earlier ones have read from disk."""
        return self.bytes_read + self._read_by_now()

    # -- snapshots and the end ----------------------------------------------------------------------------------

    def pause(self, runs: list[Run]) -> None:
        """Between two answers: save a snapshot of the runs, if all of them offer one."""
        live = [run for run in runs if run.solution is None]
        if all(run.snapshot is None for run in live):
            return
        now = time.perf_counter()
        if self.replaying or any(run.snapshot is None for run in live) or now - self._saved_at < _INTERVAL:
            return
        encoder = Encoder()
        # Make all states before encoding: the encoder knows arrays by their addresses, so none may be freed meanwhile.
        states = [_state(run) for run in runs]
        said = {"kind": "snapshot", "bytes_read": self.total_read, "paid": self.paid}
        record = Record(said | {"runs": encoder(states)}, encoder.arrays)
        if self._recording or self.journal.position > _SNAPSHOT_BYTES:
            # Replace the answers so far by the first snapshot.
            assert self.header is not None
            self.journal.restart([self.header, record])
        else:
            self.journal.append(record)
        self._recording, self._saved_at = False, now

    def finish(self, solutions: list[Solution]) -> None:
        """Replace the file's content by the solutions, unless the solve could go on with a larger budget."""
        if any(solution.status in _UNFINISHED for solution in solutions):
            return
        encoder = Encoder()
        encoded = encoder([_plain(solution) for solution in solutions])
        assert self.header is not None
        self.journal.restart([self.header, Record({"kind": "solutions", "solutions": encoded}, encoder.arrays)])


def _checked(path: Any) -> Path:
    """The path of a file that exists or can be created; links are followed, so that their target is replaced."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`checkpoint` must be a path, got {type(path).__name__}.")
    file = Path(os.path.realpath(Path(path).expanduser()))
    if file.is_dir():
        raise IsADirectoryError(f"`checkpoint` must be the path of a file, but {str(path)!r} is a folder.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"`checkpoint`: there is no folder {str(file.parent)!r}.")
    if os.path.lexists(file) and not file.is_file():
        raise ValueError(f"`checkpoint` must be the path of a regular file, but {str(path)!r} is none: choose another.")
    return file


# -- plain data ---------------------------------------------------------------------------------------------------


def _known_by(request: Any) -> tuple[Any, ...]:
    """What identifies a request: its kind and its arguments."""
    return (type(request).__name__, *(part for part in request.arguments() if not callable(part)))


def _state(run: Run) -> dict[str, Any]:
    """The state of a run: its solution, or what it can resume from."""
    if run.solution is not None:
        return {"solution": _plain(run.solution)}
    return {"run": run.state(), "solver": run.snapshot}


def _plain(solution: Solution) -> dict[str, Any]:
    state = {field.name: getattr(solution, field.name) for field in fields(Solution)}
    model = None if solution.noise_model is None else solution.noise_model.to_dict()
    proof = None if solution.proof is None else solution.proof.to_dict()
    return state | {"status": solution.status.name, "noise_model": model, "proof": proof}


def _solution(state: dict[str, Any]) -> Solution:
    model = None if state["noise_model"] is None else from_dict(state["noise_model"])
    proof = None if state["proof"] is None else Proof.from_dict(state["proof"])
    return Solution(**(state | {"status": Status[state["status"]], "noise_model": model, "proof": proof}))


@cache
def _version() -> str:
    """This version of fastquad, looked up once because it is read from a file."""
    return version("fastquad")
