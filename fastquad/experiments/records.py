"""Keep finished trials on disk: a file of JSON lines that is only appended to, so that a killed call can be resumed.

The first line of each call says when it began, on which machine and with which versions; every other line is a finished
trial. If a process was killed while writing, its incomplete line is removed before the next one is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from fastquad.system.files import explained, open_alone, open_regular, parsed, replacing, write_all

Record = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Records:
    """The trials of one experiment, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "trials.jsonl"

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Create the folder for these settings; an error if it holds trials with other settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "settings.json"
        wanted = json.loads(json.dumps(settings))
        with suppress(FileExistsError), replacing(file, "output", fresh=True) as stream:
            stream.write((json.dumps(wanted, indent=2, ensure_ascii=False) + "\n").encode())
        try:
            with open_regular(file) as raw:
                found = dict(parsed(raw.read()))
        except (ValueError, TypeError):
            raise ValueError(f"`output`: {str(file)!r} cannot be read. Delete {str(self.folder)!r}.") from None
        differing = [key for key in sorted(wanted.keys() | found.keys()) if wanted.get(key) != found.get(key)]
        if differing:
            raise ValueError(
                f"`output`: {str(self.folder)!r} holds trials with other settings ({', '.join(differing)}): "
                "choose another folder, or delete that one."
            )

    def load(self) -> tuple[list[Record], list[Record]]:
        """(sessions, trials), without an incomplete last line."""
        sessions: list[Record] = []
        trials: list[Record] = []
        for record in self._parsed():
            (sessions if "session" in record else trials).append(record)
        return sessions, trials

    def _parsed(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        with BufferedReader(open_regular(self.path)) as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    return  # incomplete
                try:
                    yield dict(parsed(line))
                except (ValueError, TypeError):
                    raise ValueError(f"line {number} of {str(self.path)!r} is damaged: delete that line.") from None

    @contextmanager
    def appending(self, session: Mapping[str, Any]) -> Iterator[FileIO]:
        """Open the file for `write`, by this process alone, after removing an incomplete last line."""
        busy = f"`output`: another run is at work in {str(self.folder)!r}."
        with explained("output", self.path, "What is finished stays: make room and run it again to go on"):
            try:
                stream = open_alone(self.path, busy)
            except BlockingIOError:
                raise ValueError(busy) from None
            with stream:
                end = stream.read().rfind(b"\n") + 1
                stream.truncate(end)
                stream.seek(end)
                write(stream, {"session": dict(session), "started": now()})
                yield stream


def write(stream: FileIO, record: Mapping[str, Any]) -> None:
    """Append one line, which survives the end of this process from now on."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    write_all(stream, stream.tell(), line)
