"""Turn the saved runs of pytest-benchmark into docs/benchmarks.md.

`python benchmarks/tools/report.py [--output .benchmarks/report.md] [FILE ...]`

Without files: what .benchmarks holds for the commit that was measured last. A commit may be measured in several runs,
of all benchmarks or of some: a ratio is then the median of the runs that have it, and the report shows their range.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median_low

STORAGE = Path(__file__).parents[2] / ".benchmarks"

HEADER = """# Benchmarks

Made by `make bench`; losses included. Everything in a row was measured in turns in one run (kernel, rival, kernel,
rival, …), and a ratio is the median over the ratios of neighbours, because memory on a shared machine is fast in one
second and slow in the next. Times are medians. The read bandwidth is that of the best of a plain reading loop and
loops with software prefetch, over the same bytes with the same number of threads. Turns during which other processes
used the cores are taken again; where patience ran out, the last column says how many stayed. Where a row was measured
in more than one run, it is the median of them, and their number and range are given.
"""


def saved_runs(storage: Path = STORAGE) -> list[dict]:
    """All runs in the storage of pytest-benchmark, oldest first."""
    return sorted((json.loads(path.read_text()) for path in storage.rglob("*.json")), key=lambda run: run["datetime"])


def commit(run: dict) -> str:
    """The commit that was measured, with a plus sign where the tree had changed since."""
    info = run["commit_info"]
    return info["id"][:10] + ("+" if info.get("dirty") else "")


def newest(runs: Iterable[dict]) -> dict[str, dict]:
    """Benchmarks by name, from runs given oldest first."""
    return {benchmark["fullname"].rpartition("/")[2]: benchmark for run in runs for benchmark in run["benchmarks"]}


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines) + "\n"


def machine_section(run: dict, benchmarks: list[dict]) -> str:
    about = run["machine_info"]["fastquad"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"- {about['processor']}: {about['architecture']} with {about['simd']}, {about['cores']} cores,"
        f" {about['cache']} of last-level cache; {about['threads']} threads where nothing else is said",
    ]
    for benchmark in benchmarks:
        info = benchmark["extra_info"]
        if benchmark["name"].startswith("test_packed_pass"):
            lines.append(f"- read bandwidth during `{benchmark['name']}`: {info['bandwidth']:.1f} GB/s")
        if "multiply_adds" in info:
            lines.append(
                f"- fused multiply-adds of doubles during `{benchmark['name']}`: {info['multiply_adds']:.1f} · 10⁹/s"
            )
    lines.append(f"- Python {about['python']}, {versions}")
    return "\n".join(lines) + "\n"


def target(row: dict) -> tuple[str, str]:
    """What was asked for, and whether it was reached."""
    if row["at_least"] is not None:
        return f"≥ {row['at_least']:g}", "yes" if row["value"] >= row["at_least"] else "**no**"
    if row["at_most"] is not None:
        return f"≤ {row['at_most']:g}", "yes" if row["value"] <= row["at_most"] else "**no**"
    return "", ""


def measured_rows(runs: list[dict]) -> list[dict]:
    """A row for each ratio: that of the median run, with the values of all runs and the share of disturbed turns."""
    found: dict[str, list[dict]] = {}
    for info in (benchmark["extra_info"] for run in runs for benchmark in run["benchmarks"]):
        for row in info.get("rows", []):
            found.setdefault(row["what"], []).append(row | {"disturbed": info.get("disturbed", 0)})
    rows = []
    for repeats in found.values():
        values = [row["value"] for row in repeats]
        rows.append(repeats[values.index(median_low(values))] | {"values": sorted(values)})
    return rows


def ratio_table(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        values, note = row["values"], row["note"]
        if len(values) > 1:
            note = f"{len(values)} runs: {values[0]:.2f} to {values[-1]:.2f}" + ("; " if note else "") + note
        disturbed = f"{100 * row['disturbed']:.0f} %" if row["disturbed"] else ""
        lines.append([row["what"], f"{row['value']:.2f}", *target(row), note, disturbed])
    return table(["what", "measured", "asked for", "reached", "", "disturbed"], lines)


def peer_section(info: dict) -> str:
    rows = [["fastquad, packed", f"{1e3 * info['fastquad']:.3g}", "1"]]
    for name in sorted(info["seconds"], key=info["seconds"].__getitem__):
        rows.append([name, f"{1e3 * info['seconds'][name]:.3g}", f"{info['ratios'][name]:.2f}"])
    rows += [[name, "missing", ""] for name in info["missing"]]
    return f"### {info['case']}\n\n" + table(["", "ms", "times fastquad's"], rows)


def report(runs: list[dict]) -> str:
    benchmarks = list(newest(runs).values())
    rows = measured_rows(runs)
    asked = [row for row in rows if row["at_least"] is not None or row["at_most"] is not None]
    peers = [benchmark["extra_info"]["peers"] for benchmark in benchmarks if "peers" in benchmark["extra_info"]]
    sections = [
        HEADER,
        f"## The machine\n\n{machine_section(runs[-1], benchmarks)}",
        "## What was asked for\n\n" + ratio_table(asked),
        "## Other ratios\n\n" + ratio_table([row for row in rows if row not in asked]),
        "## Residual and gradient for one signal, by everyone\n\n"
        "Peers compute in the dtype of A, fastquad in float64 whatever the storage. What needs doing only once"
        " (symmetrising, packing, compiling) is not timed.\n",
        *map(peer_section, peers),
    ]
    return "\n".join(sections)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="JSON files of pytest-benchmark, oldest first")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    arguments = parser.parse_args()
    if arguments.files:
        runs = [json.loads(path.read_text()) for path in arguments.files]
    else:
        runs = saved_runs()
        runs = [run for run in runs if commit(run) == commit(runs[-1])]
    if not runs:
        parser.error(f"there are no runs in {STORAGE.name}; `make bench` makes one.")
    text = report(runs)
    print(text)
    if arguments.output:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
