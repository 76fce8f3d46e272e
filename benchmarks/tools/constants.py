"""Which numbers and which rules does a test notice? Multiply each by 3 and by 1/3, or leave it out, and run its tests.

    python benchmarks/tools/constants.py index tests/engine tests/solvers     which test enters which function
    python benchmarks/tools/constants.py table --sample 20 --seed 1           a table of numbers drawn at random
    python benchmarks/tools/constants.py table --rules                        rows of tables, each left out in turn

A number is one at the top of a module, or a default of a class there; its tests are those that enter a function which
names it, the quickest first, as many as fit in `--seconds`. A rule is a row of a table at the top of a module, such as
`_RULES` of the verdict or `PLAN` of the default method.

What the table says: a number that nobody notices is either robust, and then its comment should say over which range, or
its rule does nothing, and then it goes. "–" means that no test enters a function with that name. The source of the
package is not touched: the module is compiled from a changed tree when pytest imports it, whose plugin this file is.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / ".benchmarks" / "constants.json"
RECORD, CHANGE = "FASTQUAD_RECORD", "FASTQUAD_CHANGE"
FACTORS = (3.0, 1 / 3)


class Place(NamedTuple):
    """A number, or a row of a table: `row` is None for a number, and `part` its place in a tuple of names."""

    path: str
    line: int
    name: str
    value: str
    part: int | None = None
    row: int | None = None


# -- what there is ------------------------------------------------------------------------------------------------


def places(path: Path) -> Iterator[Place]:
    """The numbers and the rows of a file."""
    said = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for top in tree.body if isinstance(top, ast.ClassDef) for node in top.body]
    for node in [*tree.body, *classes]:
        target, value = _assigned(node)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for part, (name, each) in enumerate(zip(target.elts, value.elts, strict=False)):
                if isinstance(name, ast.Name) and _number(each) is not None:
                    yield Place(said, node.lineno, name.id, ast.unparse(each), part)
        elif isinstance(target, ast.Name) and _number(value) is not None:
            yield Place(said, node.lineno, target.id, ast.unparse(value))
        elif isinstance(target, ast.Name) and target.id.isupper() and _is_table(value):
            for row, each in enumerate(value.elts):
                yield Place(said, node.lineno, target.id, ast.unparse(each)[:60], row=row)


def _is_table(value: Any) -> bool:
    """Whether this is a tuple of rows, which are tuples or calls."""
    rows = value.elts if isinstance(value, ast.Tuple) else []
    return len(rows) > 2 and all(isinstance(each, ast.Tuple | ast.Call | ast.Starred) for each in rows)


def _assigned(node: ast.stmt) -> tuple[Any, Any]:
    if isinstance(node, ast.Assign):
        return node.targets[0], node.value
    return (node.target, node.value) if isinstance(node, ast.AnnAssign) else (None, None)


def _number(node: ast.expr | None) -> float | None:
    """The value of an expression of numbers alone, none of which is 0 or 1; None for others."""
    if node is None or not all(isinstance(each, _PLAIN) for each in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    return value if type(value) in (int, float) and value not in (0, 1) else None


_PLAIN = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def named_in(place: Place) -> set[str]:
    """The functions, "path:qualified name", that name this number or table; methods are meant by their class, too."""
    found = set()
    for path in (ROOT / "fastquad").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if place.name in text:
            said = str(path.relative_to(ROOT))
            found |= {f"{said}:{name}" for name in _functions(ast.parse(text), place.name)}
    return found


def _functions(node: ast.AST, wanted: str, prefix: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            name = prefix + child.name
            if any(wanted in (getattr(each, "id", ""), getattr(each, "attr", "")) for each in ast.walk(child)):
                yield name
            yield from _functions(child, wanted, f"{name}.<locals>.")
        else:
            yield from _functions(
                child, wanted, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            )


# -- as a plugin of pytest ----------------------------------------------------------------------------------------


def changed(text: str, change: dict[str, Any]) -> ast.Module:
    """The tree of a module with one number multiplied, or one row left out."""
    tree = ast.parse(text)
    classes = [node for top in tree.body if isinstance(top, ast.ClassDef) for node in top.body]
    node = next(each for each in [*tree.body, *classes] if each.lineno == change["line"] and _assigned(each)[0])
    value = _assigned(node)[1]
    if change["row"] is not None:
        del value.elts[change["row"]]
    else:
        old = value if change["part"] is None else value.elts[change["part"]]
        number: Any = _number(old)
        new = number * change["factor"] if isinstance(number, float) else max(1, round(number * change["factor"]))
        if change["part"] is None:
            node.value = ast.Constant(new)  # type: ignore[attr-defined]
        else:
            value.elts[change["part"]] = ast.Constant(new)
    return ast.fix_missing_locations(tree)


def install(change: dict[str, Any]) -> None:
    """From now on the module is compiled from its changed tree."""
    usual = SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        if Path(self.path).parts[-len(Path(change["path"]).parts) :] != Path(change["path"]).parts:
            return usual(self, fullname)
        return compile(changed(Path(self.path).read_text(encoding="utf-8"), change), self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


if CHANGE in os.environ:
    install(json.loads(os.environ[CHANGE]))

if RECORD in os.environ:
    import pytest

    _seen: dict[str, Any] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(item: Any) -> Iterator[None]:
        """Note the functions of the package that a test enters, and how long it takes."""
        entered: set[Any] = set()

        def note(frame: Any, event: str, argument: object) -> None:
            if event == "call":
                entered.add(frame.f_code)

        began = time.perf_counter()
        sys.setprofile(note)
        yield
        sys.setprofile(None)
        names = {(code.co_filename.rpartition("/fastquad/")[2], code.co_qualname) for code in entered}
        functions = sorted(f"fastquad/{path}:{name}" for path, name in names if not path.startswith("/"))
        _seen[item.nodeid] = {"seconds": time.perf_counter() - began, "functions": functions}

    def pytest_sessionfinish() -> None:
        """Write what was noted."""
        Path(os.environ[RECORD]).write_text(json.dumps(_seen), encoding="utf-8")


# -- the command --------------------------------------------------------------------------------------------------


def run(tests: list[str], environment: dict[str, str], seconds: float | None = None) -> str:
    """What became of tests: "passed", "failed", or "too slow"."""
    path = os.pathsep.join(filter(None, [str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "constants", "-p", "no:cacheprovider", *tests]
    said = {"cwd": ROOT, "env": os.environ | {"PYTHONPATH": path} | environment, "capture_output": True}
    try:
        done = subprocess.run(command, check=False, timeout=seconds, **said)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return "too slow"
    return "passed" if done.returncode == 0 else "failed"


def tests_of(place: Place, index: dict[str, Any], seconds: float) -> list[str]:
    """The quickest tests that enter a function which names this, as many as fit."""
    functions = named_in(place)
    able = [name for name, seen in index.items() if not functions.isdisjoint(seen["functions"])]
    chosen: list[str] = []
    for name in sorted(able, key=lambda name: index[name]["seconds"]):
        seconds -= index[name]["seconds"]
        if seconds < 0:
            break
        chosen.append(name)
    return chosen


def table(chosen: list[Place], seconds: float) -> None:
    """Print a row for each."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    print("| where | what | ×3 or without | ×1/3 | tests |\n| --- | --- | --- | --- | --- |")
    for place in chosen:
        tests = tests_of(place, index, seconds)
        ends = []
        for factor in FACTORS if place.row is None else (0.0,):
            change = json.dumps({**place._asdict(), "factor": factor})
            ends.append(run(tests, {CHANGE: change}, 6 * seconds + 20) if tests else "–")
        cells = [{"passed": "not noticed", "failed": "noticed"}.get(end, end) for end in ends] + [""]
        what = f"`{place.name} = {place.value}`" if place.row is None else f"row {place.row} of `{place.name}`"
        print(f"| {place.path}:{place.line} | {what} | {cells[0]} | {cells[1]} | {len(tests)} |", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("index", "table"))
    parser.add_argument("paths", nargs="*", help="tests for an index; files or folders of the package for a table")
    parser.add_argument("--sample", type=int, help="as many, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long the tests of one may take")
    parser.add_argument("--rules", action="store_true", help="rows of tables in place of numbers")
    said = parser.parse_intermixed_args()
    if said.command == "index":
        INDEX.parent.mkdir(exist_ok=True)
        print(run(said.paths or ["tests"], {RECORD: str(INDEX)}))
        return
    roots = [ROOT / path for path in said.paths or ["fastquad"]]
    files = sorted(file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py")))
    found = [place for file in files for place in places(file) if (place.row is not None) == said.rules]
    if said.sample is not None:
        found = sorted(random.Random(said.seed).sample(found, min(said.sample, len(found))))
    with suppress(KeyboardInterrupt):
        table(found, said.seconds)


if __name__ == "__main__":
    main()
