"""Finished trials on disk: a file of JSON lines that is only ever appended to, so that a killed run can go on.

The first line of each run says when it began, on what and with which versions; every other line is one finished trial.
A line that the end of a process cut short is taken away before the next one is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fastquad.locks import lock

Record = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Records:
    """The trials of one experiment, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "trials.jsonl"

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Make the folder for these settings; an error where it holds trials with others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "settings.json"
        wanted = json.loads(json.dumps(settings))
        if not file.exists():
            beside = file.with_suffix(".part")
            beside.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            beside.replace(file)
            return
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"`output`: {str(file)!r} cannot be read. Delete {str(self.folder)!r}.") from None
        differing = [key for key in sorted(wanted.keys() | found.keys()) if wanted.get(key) != found.get(key)]
        if differing:
            raise ValueError(
                f"`output`: {str(self.folder)!r} holds trials with other settings ({', '.join(differing)}): "
                "choose another folder, or delete that one."
            )

    def load(self) -> tuple[list[Record], list[Record]]:
        """(sessions, trials); a last line that was cut short is left out."""
        sessions: list[Record] = []
        trials: list[Record] = []
        for record in self._parsed():
            (sessions if "session" in record else trials).append(record)
        return sessions, trials

    def _parsed(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    return  # cut short
                try:
                    yield json.loads(line)
                except ValueError:
                    raise ValueError(f"line {number} of {str(self.path)!r} is damaged: delete that line.") from None

    @contextmanager
    def appending(self, session: Mapping[str, Any]) -> Iterator[IO[bytes]]:
        """The file, open for `write`, for this process alone; what was cut short is gone."""
        with self.path.open("ab+") as stream:
            _lock(stream, self.folder)
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)
            write(stream, {"session": dict(session), "started": now()})
            yield stream


def write(stream: IO[bytes], record: Mapping[str, Any]) -> None:
    """Append one line; it is with the system when this returns, and outlives the process."""
    stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    stream.flush()


def _lock(stream: IO[bytes], folder: Path) -> None:
    """Keep a second run out of the folder, where the system can."""
    try:
        alone = lock(stream)
    except OSError:  # a file system without locks
        return
    if not alone:
        raise ValueError(f"`output`: another run is at work in {str(folder)!r}.")
