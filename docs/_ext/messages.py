"""The sentences that a solve may print, as a table of one page: collected from the code when the pages are built.

Every text of five words or more in the rooms that write messages is one, but docstrings and errors. What a sentence
says of the call stands in braces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "fastquad"
#: The rooms and files that write messages.
_ROOMS = ("status.py", "points.py", "engine", "noise", "reductions", "solvers")
_FEWEST_WORDS = 5


def sentences() -> list[tuple[str, str]]:
    """The file and the text of each sentence."""
    files = [path for room in _ROOMS for path in sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / room]]
    return [(str(path.relative_to(PACKAGE)), text) for path in files for text in _of_file(path)]


def _of_file(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = {id(part) for node in ast.walk(tree) for part in _no_message(node)}
    for node in ast.walk(tree):
        text = "" if id(node) in left_out else _text(node)
        if len(text.split()) >= _FEWEST_WORDS and text[0] != "<":
            yield text


def _no_message(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, errors, the log, and the parts of longer texts."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    said = isinstance(node, ast.Call) and re.search(r"Error$|^Stage$|_log|repr", ast.unparse(node.func))
    if isinstance(node, ast.Raise) or said or (isinstance(node, ast.FunctionDef) and node.name == "__repr__"):
        yield from ast.walk(node)
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in ast.walk(node) if part is not node)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    parts = [str(part.value) if isinstance(part, ast.Constant) else f"{{{_name(part)}}}" for part in node.values]
    return "".join(parts)


def _name(part: ast.expr) -> str:
    """The last name in what is filled in."""
    assert isinstance(part, ast.FormattedValue)
    names = [node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(part.value)
             if isinstance(node, ast.Attribute | ast.Name)]  # fmt: skip
    return names[0] if names else "…"


def setup(app) -> dict:
    """The directive `messages`: the table."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class Messages(Directive):
        def run(self) -> list[nodes.Node]:
            for path in {path for path, _ in sentences()}:  # the page is made anew if one of them changed
                self.state.document.settings.record_dependencies.add(str(PACKAGE / path))
            rows = [
                nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in (text, path)))
                for path, text in sentences()
            ]
            columns = [nodes.colspec(colwidth=width) for width in (80, 20)]
            head = nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in ("sentence", "file")))
            group = nodes.tgroup("", *columns, nodes.thead("", head), nodes.tbody("", *rows), cols=2)
            return [nodes.table("", group)]

    app.add_directive("messages", Messages)
    return {"parallel_read_safe": True}
