"""Put what `fastquad reproduce all -o FOLDER` made into the documentation: `python docs/collect_figures.py FOLDER`.

Copies tables and plots to docs/figures, and writes the tables that docs/reproduction.md includes.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parent / "figures"
Rows = list[dict[str, Any]]


def main(folder: Path) -> None:
    FIGURES.mkdir(exist_ok=True)
    found = {}
    for name in (*(f"fig{number}" for number in range(1, 9)), "noise"):
        for end in ("csv", "json", "png", "svg"):
            source = folder / name / f"{name}.{end}"
            if source.exists():
                shutil.copyfile(source, FIGURES / source.name)
        if (FIGURES / f"{name}.json").exists():
            found[name] = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    write("times", times(found))
    if "fig2" in found:
        write("fig2_methods", success_by_method(found["fig2"]["rows"]))
    if "fig3" in found:
        write("fig3_errors", errors(found["fig3"]["rows"]))
    if "noise" in found:
        write("noise_errors", levels(found["noise"]["rows"]))
    for name, along in (("fig6", "m"), ("fig8", "sigma")):
        if name in found:
            write(f"{name}_cosines", cosines(found[name]["rows"], along))


def write(name: str, lines: list[list[str]]) -> None:
    header, *rows = lines
    text = "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows))
    (FIGURES / f"{name}.inc").write_text(text + "\n", encoding="utf-8")


def times(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """How many trials each figure has, and what they took."""
    lines = [["figure", "trials of each cell", "trials in all", "processor time", "wall clock", "begun"]]
    for name, said in found.items():
        each = {row.get("trials", row.get("draws")) for row in said["rows"]}
        count = str(min(each)) if len(each) == 1 else f"{min(each)} to {max(each)}"
        minutes = [f"{said[key] / 60:.1f} min" for key in ("cpu_seconds", "wall_seconds")]
        lines.append([name, count, str(said["trials"]), *minutes, said["sessions"][0]["started"][:10]])
    return lines


def success_by_method(rows: Rows) -> list[list[str]]:
    """Figure 2 in one line a method."""
    lines = [["method", "mean rate of all cells", "cells above one half", "wrong “success”", "processor time, mean"]]
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        rate = sum(row["rate"] for row in mine) / len(mine)
        above = sum(row["rate"] > 0.5 for row in mine)
        wrong = sum(row["false_successes"] for row in mine)
        trials = sum(row["trials"] for row in mine)
        cpu = sum(row["mean_cpu"] for row in mine) / len(mine)
        lines.append([method, f"{rate:.3f}", f"{above} of {len(mine)}", f"{wrong} of {trials}", f"{cpu:.2f} s"])
    return lines


def errors(rows: Rows) -> list[list[str]]:
    """Figure 3: the mean error, and its slope."""
    m = sorted({row["m"] for row in rows})
    lines = [["σ", "method", *(f"m = {value}" for value in m), "slope"]]
    for sigma in sorted({row["sigma"] for row in rows}):
        for method in dict.fromkeys(row["method"] for row in rows):
            mine = {row["m"]: row for row in rows if (row["sigma"], row["method"]) == (sigma, method)}
            means = [f"{mine[value]['mean']:.4f}" for value in m]
            lines.append([f"{sigma:g}", method, *means, f"{mine[m[-1]]['slope']:.2f}".replace("-", "−")])
    return lines


def levels(rows: Rows) -> list[list[str]]:
    """The error against the level of the noise: the mean of each method."""
    sigmas = sorted({row["sigma"] for row in rows})
    lines = [["k, m", "method", *(f"σ = {sigma:g}" for sigma in sigmas)]]
    for k, m in dict.fromkeys((row["k"], row["m"]) for row in rows):
        for method in dict.fromkeys(row["method"] for row in rows):
            mean = {row["sigma"]: row["mean"] for row in rows if (row["k"], row["method"]) == (k, method)}
            lines.append([f"{k}, {m}", method, *(f"{mean[sigma]:.3f}" for sigma in sigmas)])
    return lines


def cosines(rows: Rows, along: str) -> list[list[str]]:
    """Figures 6 and 8: the mean cosine similarity."""
    values = sorted({row[along] for row in rows})
    symbol = {"sigma": "σ"}.get(along, along)
    lines = [["method", *(f"{symbol} = {value:g}" for value in values)]]
    for method in dict.fromkeys(row["method"] for row in rows):
        mean = {row[along]: row["mean"] for row in rows if row["method"] == method}
        lines.append([method, *(f"{mean[value]:.3f}" for value in values)])
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
