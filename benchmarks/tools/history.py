"""Plot the history of every benchmark: `python benchmarks/tools/history.py [--output docs/benchmarks_history.svg]`.

One line a benchmark over the commits that .benchmarks holds, oldest first; the time is in units of what the machine
itself took for the same work in the same run, so that a slow day is not a slow commit.
"""

from __future__ import annotations

import argparse
import sys
from itertools import cycle
from pathlib import Path

from report import STORAGE, commit, newest, saved_runs

# Okabe and Ito's, which colour-blind readers tell apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")


def history() -> tuple[list[str], dict[str, list[float]]]:
    """The commits, oldest first, and the relative times of each benchmark, NaN where it was not measured."""
    runs = saved_runs()
    commits = list(dict.fromkeys(commit(run) for run in runs))
    lines: dict[str, list[float]] = {}
    for position, name in enumerate(commits):
        for test, benchmark in newest(run for run in runs if commit(run) == name).items():
            if relative := benchmark["extra_info"].get("relative"):
                line = lines.setdefault(test.partition("::")[2], [float("nan")] * len(commits))
                line[position] = relative["median"]
    return commits, lines


def plot(commits: list[str], lines: dict[str, list[float]], output: Path) -> None:
    from matplotlib.figure import Figure

    tests = sorted({name.partition("[")[0] for name in lines})
    figure = Figure(figsize=(9, 2.2 * len(tests) + 1.5), layout="constrained")
    for axes, test in zip(figure.subplots(len(tests), sharex=True, squeeze=False)[:, 0], tests, strict=True):
        mine = {name: line for name, line in sorted(lines.items()) if name.partition("[")[0] == test}
        for (name, line), color, marker in zip(mine.items(), cycle(COLORS), cycle("osv^Dx"), strict=False):
            label = name.partition("[")[2].rstrip("]") or test
            axes.plot(range(len(commits)), line, color=color, marker=marker, label=label)
        highest = max(value for line in mine.values() for value in line if value == value)  # not NaN
        axes.set(title=test.removeprefix("test_").replace("_", " "), ylim=(0, 1.15 * highest))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_xticks(range(len(commits)), commits, rotation=45, ha="right")
    figure.supylabel("time, in units of the machine's own", fontsize="medium")
    figure.savefig(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--output", type=Path, default=STORAGE.parent / "docs" / "benchmarks_history.svg")
    arguments = parser.parse_args()
    commits, lines = history()
    if not lines:
        sys.exit(f"There are no runs in {STORAGE.name}; `make bench` makes one.")
    try:
        plot(commits, lines, arguments.output)
    except ModuleNotFoundError:
        sys.exit("The plot needs matplotlib: pip install 'fastquad[plots]'.")


if __name__ == "__main__":
    main()
