"""What got slower since a commit: `python benchmarks/tools/compare.py BASE [-- PYTEST ARGUMENTS]`.

Each benchmark's time is a multiple of what the machine's memory (or its arithmetic) took for the same work in the
same run, so two commits can be compared although the machine was faster on one day than on the other. A benchmark is
called slower when its median is by more than a tenth, and when the middle halves of its rounds do not overlap. Results
are taken from .benchmarks; a commit that is not there is measured, in a checkout of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from report import STORAGE, commit, newest, saved_runs, table

ROOT = STORAGE.parent
TOLERANCE = 1.1


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def measure(folder: Path, options: list[str]) -> None:
    """Run the benchmarks of the tree in `folder`, and save them with ours."""
    command = [sys.executable, "-m", "pytest", "benchmarks/kernels", "--benchmark-only", "--benchmark-autosave", "-q"]
    subprocess.run([*command, f"--benchmark-storage={STORAGE.as_uri()}", *options], cwd=folder, check=True)


def build(folder: Path) -> None:
    """Compile the kernels of the tree in `folder`, in place: by way of a wheel, for which pip gets the build tools."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with tempfile.TemporaryDirectory() as wheels:
        subprocess.run([*pip, "--wheel-dir", wheels, str(folder)], check=True)
        with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("fastquad/_kernels/")])


def measure_commit(name: str, options: list[str]) -> None:
    """Build a commit in a checkout of its own and measure it there."""
    with tempfile.TemporaryDirectory() as folder:
        git("worktree", "add", "--detach", folder, name)
        try:
            build(Path(folder))
            measure(Path(folder), options)
        finally:
            git("worktree", "remove", "--force", folder)


def results(name: str) -> dict[str, dict]:
    """The saved benchmarks of a commit, by name."""
    return newest(run for run in saved_runs() if commit(run) == name)


def comparison(base: dict[str, dict], new: dict[str, dict]) -> Iterator[tuple[str, float, float, str]]:
    """(benchmark, relative time before, now, verdict) of what both have."""
    for name in base.keys() & new.keys():
        before, now = base[name]["extra_info"].get("relative"), new[name]["extra_info"].get("relative")
        if before is None or now is None:
            continue
        verdict = ""
        if now["median"] > TOLERANCE * before["median"] and now["low"] > before["high"]:
            verdict = "**slower**"
        elif before["median"] > TOLERANCE * now["median"] and before["low"] > now["high"]:
            verdict = "faster"
        yield name.partition("::")[2], before["median"], now["median"], verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("options", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    base = git("rev-parse", arguments.base + "^{commit}")[:10]
    head = git("rev-parse", "HEAD")[:10] + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    if not results(base):
        measure_commit(base, arguments.options)
    if head.endswith("+") or not results(head):
        measure(ROOT, arguments.options)
    if not results(base):
        sys.exit(f"{base} has no benchmarks that could be compared.")
    rows = sorted(comparison(results(base), results(head)), key=lambda row: row[1] / row[2])
    print(f"Time in units of the machine's own for the same work, {base} and {head}:\n")
    print(
        table(
            ["benchmark", base, head, "ratio", ""],
            (
                [name, f"{before:.2f}", f"{now:.2f}", f"{now / before:.2f}", verdict]
                for name, before, now, verdict in rows
            ),
        )
    )
    return any(verdict == "**slower**" for *_, verdict in rows)


if __name__ == "__main__":
    sys.exit(main())
