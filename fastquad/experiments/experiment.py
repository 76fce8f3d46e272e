"""An experiment: settings, cells, trials, and how they become the table and the plot of a figure."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastquad.experiments import workers as pool
from fastquad.experiments.records import Record, Records, write
from fastquad.experiments.result import Result, Row, Settings, finite
from fastquad.system.progress import Bar

_log = logging.getLogger("fastquad")


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
        The number of trials for each cell: as in the paper, and for a first look.
    cells, trial, summary : functions
        `cells(settings)` lists the cells, `trial(settings, cell, number)` gives the rows that one trial found, and
        `summary(settings, rows)` makes the table of the figure.
    draw : function
        `draw(result)` plots it.
    seeds : str
        The seed that a trial gives to `numpy.random.default_rng`, in words.

    Examples
    --------
    >>> import fastquad as fq
    >>> figure = fq.experiments.FIGURES["fig2"]
    >>> figure.trials, figure.settings["n"]
    (100, 100)
    """

    name: str
    title: str
    settings: Settings
    trials: int
    quick_trials: int
    cells: Callable[[Settings], list[Row]] = field(repr=False)
    trial: Callable[[Settings, Row, int], list[Row]] = field(repr=False)
    summary: Callable[[Settings, list[Row]], list[Row]] = field(repr=False)
    draw: Callable[[Result], Any] = field(repr=False)
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
        """The missing trials: the first of every cell, then the second, so that a part of them is balanced."""
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
    units = _missing(experiment, records, trials)
    total = trials * len(experiment.cells(experiment.settings))
    before = total - len(units)
    if progress is not None:
        progress(before, total)
    if units:
        _log.info("%s: %d of %d trials are left", experiment.name, len(units), total)
        session = {"versions": _versions(), "machine": _machine(), "workers": workers, "scheduler": scheduler}
        with records.appending(session) as stream:
            # Look again, now that no other process can add trials.
            units = _missing(experiment, records, trials)
            n_done = total - len(units)
            with (
                closing(pool.run(units, workers=workers, scheduler=scheduler)) as finished,
                Bar(experiment.name, total, " trials", n_done, at_once=True) as bar,
            ):
                for record in finished:
                    if record is None:  # nothing is finished yet: redraw the clock
                        bar.advance(0)
                        continue
                    n_done += 1
                    write(stream, finite(record))
                    bar.advance()
                    if progress is not None:
                        progress(n_done, total)
    return experiment.result(folder, trials)


def _missing(experiment: Experiment, records: Records, trials: int) -> list[pool.Unit]:
    """The trials that are not on disk yet."""
    done = {(_key(record["cell"]), record["trial"]) for record in records.load()[1]}
    return experiment.units(trials, done)


def _key(cell: Row) -> str:
    return json.dumps(cell, sort_keys=True)


def _both_numbers(a: Any, b: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (a, b))


# -- when, where and for how long -------------------------------------------------------------------------------


def _about(sessions: list[Record], records: list[Record], used: list[Record]) -> dict[str, Any]:
    """When and how the trials of the table were run; the wall clock counts while any of them was running."""
    return {
        "trials": len(used),
        "cpu_seconds": round(sum(record["cpu"] for record in used), 1),
        "wall_seconds": round(sum(_busy(records)) * len(used) / max(1, len(records)), 1),
        "sessions": [session["session"] | {"started": session["started"]} for session in sessions],
    }


def _busy(records: list[Record]) -> Iterator[float]:
    """The lengths, in seconds, of the periods in which trials were running."""
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
