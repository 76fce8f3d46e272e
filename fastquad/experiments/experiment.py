"""An experiment: settings, cells, trials, and how they become the table and the plot of a figure."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fastquad.experiments import workers as pool
from fastquad.experiments.records import Record, Records, write

Row = dict[str, Any]
Settings = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Attributes
    ----------
    name : str
        Such as "fig2".
    title : str
    settings : dict
        Everything that a trial depends on, except its number.
    trials, quick_trials : int
        How many trials a cell has: as in the paper, and for a first look.
    cells, trial, summary : functions
        `cells(settings)` lists the cells, `trial(settings, cell, number)` gives the rows that one trial found, and
        `summary(settings, rows)` makes the table of the figure.
    draw : str
        The function in `fastquad.experiments.drawing` that plots the result.
    seeds : str
        What `numpy.random.default_rng` is given for a trial.
    """

    name: str
    title: str
    settings: Settings
    trials: int
    quick_trials: int
    cells: Callable[[Settings], list[Row]] = field(repr=False)
    trial: Callable[[Settings, Row, int], list[Row]] = field(repr=False)
    summary: Callable[[Settings, list[Row]], list[Row]] = field(repr=False)
    draw: str = field(repr=False)
    seeds: str = field(repr=False)

    def changed(self, settings: Mapping[str, Any]) -> Experiment:
        """The experiment with some settings replaced."""
        for key, value in settings.items():
            if key not in self.settings:
                raise ValueError(f"`settings`: {self.name} has no {key!r}; it has {', '.join(self.settings)}.")
            if type(value) is not type(self.settings[key]) and not _both_numbers(value, self.settings[key]):
                kind = type(self.settings[key]).__name__
                raise ValueError(f"`settings`: {key!r} of {self.name} must be a {kind}, got {value!r}.")
        return replace(self, settings=self.settings | dict(settings))

    def units(self, trials: int, done: set[tuple[str, int]]) -> list[pool.Unit]:
        """What is left to do: the first trial of every cell, then the second, so that a part is a smaller whole."""
        return [
            (self.trial, self.settings, cell, number)
            for number in range(trials)
            for cell in self.cells(self.settings)
            if (_key(cell), number) not in done
        ]

    def result(self, folder: Path, trials: int) -> Result:
        """The table of the first `trials` trials that are on disk."""
        sessions, records = Records(folder).load()
        order = {_key(cell): position for position, cell in enumerate(self.cells(self.settings))}
        used = sorted(
            (record for record in records if record["trial"] < trials and _key(record["cell"]) in order),
            key=lambda record: (order[_key(record["cell"])], record["trial"]),
        )
        rows = [{**record["cell"], "trial": record["trial"], **row} for record in used for row in record["rows"]]
        return Result(self, rows, self.summary(self.settings, rows), _about(sessions, records, used))


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Attributes
    ----------
    experiment : Experiment
    trials : list of dict
        One row for each trial and method.
    rows : list of dict
        The table of the figure: means, medians or rates, with 95% confidence intervals in "low" and "high".
    about : dict
        How many trials there are, when and with which versions they were run, and the time that they took.
    """

    experiment: Experiment
    trials: list[Row] = field(repr=False)
    rows: list[Row] = field(repr=False)
    about: dict[str, Any] = field(repr=False)

    def save(self, folder: Path) -> list[Path]:
        """Write the tables (CSV), and settings, versions and table (JSON)."""
        name = self.experiment.name
        table, trials, description = (folder / f"{name}{end}" for end in (".csv", "-trials.csv", ".json"))
        _write_csv(table, self.rows)
        _write_csv(trials, [{key: row[key] for key in row if key != "pixels"} for row in self.trials])
        content = {
            "figure": name,
            "title": self.experiment.title,
            "settings": self.experiment.settings,
            "seeds": self.experiment.seeds,
            "confidence": "95%: Clopper–Pearson for rates, order statistics for medians, Student's for means",
            **self.about,
            "rows": self.rows,
        }
        text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False)
        _replace(description, text + "\n")
        return [table, trials, description]

    def draw(self, folder: Path) -> list[Path]:
        """Write the plot, as PNG and SVG."""
        figure = getattr(import_module("fastquad.experiments.drawing"), self.experiment.draw)(self)
        paths = [folder / f"{self.experiment.name}.{end}" for end in ("png", "svg")]
        for path in paths:
            # No date in the file: the same data give the same bytes.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=150, metadata=metadata)
        return paths


def run(
    experiment: Experiment,
    folder: Path,
    trials: int,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Run the trials that are not on disk yet, and make the table."""
    records = Records(folder)
    records.claim(experiment.settings)
    done = {(_key(record["cell"]), record["trial"]) for record in records.load()[1]}
    units = experiment.units(trials, done)
    total = trials * len(experiment.cells(experiment.settings))
    if progress is not None:
        progress(total - len(units), total)
    if units:
        session = {"versions": _versions(), "machine": _machine(), "workers": workers, "scheduler": scheduler}
        with (
            records.appending(session) as stream,
            closing(pool.run(units, workers=workers, scheduler=scheduler)) as finished,
        ):
            for count, record in enumerate(finished, 1):
                write(stream, finite(record))
                if progress is not None:
                    progress(total - len(units) + count, total)
    return experiment.result(folder, trials)


def finite(value: Any) -> Any:
    """For JSON: with null for NaN and inf, and plain numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _key(cell: Row) -> str:
    return json.dumps(cell, sort_keys=True)


def _both_numbers(a: Any, b: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (a, b))


def _write_csv(path: Path, rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    beside = path.with_name(path.name + ".part")
    with beside.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(lines)
    beside.replace(path)


def _cell(value: Any) -> Any:
    value = finite(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


# -- when, where and for how long -------------------------------------------------------------------------------


def _about(sessions: list[Record], records: list[Record], used: list[Record]) -> dict[str, Any]:
    """Times are those of the trials in the table; the wall clock ran while any of them was at work."""
    return {
        "trials": len(used),
        "cpu_seconds": round(sum(record["cpu"] for record in used), 1),
        "wall_seconds": round(sum(_busy(records)) * len(used) / max(1, len(records)), 1),
        "sessions": [session["session"] | {"started": session["started"]} for session in sessions],
    }


def _busy(records: list[Record]) -> Iterator[float]:
    """The lengths, in seconds, of the periods in which trials were at work."""
    spans = []
    for record in records:
        end = datetime.fromisoformat(record["finished"]).timestamp()
        spans.append((end - record["wall"], end))
    reached = -math.inf
    for start, end in sorted(spans):
        yield max(0.0, end - max(start, reached))
        reached = max(reached, end)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in ("fastquad", "numpy", "scipy")}


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"
