"""The tool that asks which numbers and rules a test notices, on a module of a few lines."""

import ast
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "benchmarks" / "tools"
pytestmark = pytest.mark.skipif(not TOOLS.is_dir(), reason="the tool comes with the sources")
MODULE = '''"""Numbers."""

_A, B = 2 / 3, 7
ONE = 1
NAMES = ("a", "b", "c")
RULES = ((f, 1), (g, 2), (h, 3))


class C:
    share: float = 0.25

    def rule(self):
        return self.share * B
'''


@pytest.fixture
def constants(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("constants", None)
    import constants

    monkeypatch.setattr(constants, "ROOT", tmp_path)
    (tmp_path / "fastquad").mkdir()
    (tmp_path / "fastquad" / "toy.py").write_text(MODULE, encoding="utf-8")
    return constants


def test_numbers_and_rules_are_found(constants, tmp_path):
    found = list(constants.places(tmp_path / "fastquad" / "toy.py"))
    assert [(place.name, place.part, place.row) for place in found] == [
        ("_A", 0, None), ("B", 1, None), ("RULES", None, 0), ("RULES", None, 1), ("RULES", None, 2),
        ("share", None, None),
    ]  # fmt: skip
    assert constants.named_in(found[1]) == constants.named_in(found[-1]) == {"fastquad/toy.py:C.rule"}


def test_a_change_is_one_number_or_one_row(constants, tmp_path):
    for place in constants.places(tmp_path / "fastquad" / "toy.py"):
        tree = constants.changed(MODULE, {**place._asdict(), "factor": 3.0})
        said = ast.unparse(tree).splitlines()
        was = ast.unparse(ast.parse(MODULE)).splitlines()
        assert sum(a != b for a, b in zip(said, was, strict=True)) == 1
        values = {"f": 0, "g": 0, "h": 0}
        exec(compile(tree, "toy", "exec"), values)
        expected = {"_A": 2.0, "B": 21, "share": 0.75}
        if place.row is not None:
            assert len(values["RULES"]) == 2
        else:
            holder = vars(values["C"]) if place.name == "share" else values
            assert holder[place.name] == pytest.approx(expected[place.name])
