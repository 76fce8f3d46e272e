"""Type checkers see the package, also in an editable install: they find the mistakes in a script and nothing else."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "helpers" / "typed_script.py"
TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
PLANTED = [number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if "# planted:" in line]


def code_of_the_tutorial():
    """What a reader types."""
    page = TUTORIAL.read_text(encoding="utf-8") if TUTORIAL.is_file() else ""
    return "".join(re.findall(r"^(?:>>>|\.\.\.) (.*\n)", page, re.MULTILINE))


def check(command, tmp_path):
    """The lines in which a checker found errors, and all that it said: of the script, and of the tutorial."""
    script = shutil.copy(SCRIPT, tmp_path / "script.py")
    tutorial = tmp_path / "tutorial.py"
    tutorial.write_text(code_of_the_tutorial(), encoding="utf-8")
    said = [*command, str(script), str(tutorial)]
    done = subprocess.run(said, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert not re.findall(r"tutorial\.py:\d+[^\n]*error", done.stdout), done.stdout
    return sorted({int(line) for line in re.findall(r"script\.py:(\d+)[^\n]*error", done.stdout)}), done.stdout


def test_the_script_has_five_mistakes():
    assert len(PLANTED) == 5
    assert 55 <= len(SCRIPT.read_text().splitlines()) <= 70


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_mypy_finds_the_planted_mistakes_and_nothing_else(tmp_path):
    found, said = check(
        [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-defs", "--allow-untyped-calls"], tmp_path
    )
    assert found == PLANTED, said


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="needs pyright")
def test_pyright_finds_the_planted_mistakes_and_nothing_else(tmp_path):
    found, said = check([sys.executable, "-m", "pyright", "--pythonpath", sys.executable], tmp_path)
    assert found == PLANTED, said
