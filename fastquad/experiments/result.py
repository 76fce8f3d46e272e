"""The table and the plot of a figure, and the files they are kept in."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastquad.system.files import replacing

if TYPE_CHECKING:
    from fastquad.experiments.experiment import Experiment

Row = dict[str, Any]
Settings = dict[str, Any]


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
        The number of trials, when and with which versions they were run, and the time that they took.

    Examples
    --------
    >>> import tempfile
    >>> import fastquad as fq
    >>> small = {"n": 10, "k": [2], "m": [40], "methods": ["TWF"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = fq.experiments.reproduce("fig2", folder + "/fig2", trials=1, settings=small, workers=1)
    >>> len(result.trials), result.rows[0]["m"], {"rate", "low", "high"} <= result.rows[0].keys()
    (1, 40, True)
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
        with replacing(description, "output") as stream:
            stream.write(f"{text}\n".encode())
        return [table, trials, description]

    def draw(self, folder: Path) -> list[Path]:
        """Write the plot, as PNG and SVG."""
        figure = self.experiment.draw(self)
        paths = [folder / f"{self.experiment.name}.{end}" for end in ("png", "svg")]
        for path in paths:
            # Leave the date out of the file, so that the same data give the same bytes.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            with replacing(path, "output") as stream:
                figure.savefig(stream, format=path.suffix[1:], dpi=150, metadata=metadata)
        return paths


def finite(value: Any) -> Any:
    """The value for JSON: null for NaN and inf, and plain numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_csv(path: Path, rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    with replacing(path, "output") as stream:
        stream.write(text.getvalue().encode())


def _cell(value: Any) -> Any:
    value = finite(value)
    return f"{value:.6g}" if isinstance(value, float) else value
