"""The constants of the judgement: few, in one file, and each says where it comes from."""

import ast
import re
from pathlib import Path

import fastquad.engine.trust as room
from fastquad.engine.trust import tolerances

FILES = sorted(Path(room.__file__).parent.glob("*.py"))
MOST = 60


def assigned(tree):
    """The names that a module assigns, with the line and the value of each."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(target, ast.Tuple) else [node.value]
                for name, value in zip(names, values, strict=True):
                    yield name.id, node.lineno, value


def test_there_are_few_and_each_says_what_measured_it():
    text = Path(tolerances.__file__).read_text()
    lines, names = text.splitlines(), list(assigned(ast.parse(text)))
    assert 0 < len(names) <= MOST
    for name, line, _ in names:
        said = []
        while lines[line - 2 - len(said)].startswith("#: "):
            said.append(lines[line - 2 - len(said)])
        # The comment of the lines above counts for a line that follows at once.
        if not said:
            said = [lines[line - 3]]
        assert re.search(r"\d|[Gg]uess", " ".join(said)), name


def test_no_other_file_of_the_room_has_one():
    for path in FILES:
        if path.name == "tolerances.py":
            continue
        for name, _, value in assigned(ast.parse(path.read_text())):
            numbers = [
                each
                for each in ast.walk(value)
                if isinstance(each, ast.Constant) and isinstance(each.value, int | float)
            ]
            assert not numbers, f"{path.name}: {name}"


def test_all_are_used():
    used = "".join(path.read_text() for path in FILES if path.name != "tolerances.py")
    used += (FILES[0].parents[1] / "verdict.py").read_text()
    for name, _, _ in assigned(ast.parse(Path(tolerances.__file__).read_text())):
        assert f"tol.{name}" in used, name
