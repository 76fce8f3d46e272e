"""What is around the code: versions, links, and what an import brings along."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq
from fastquad import cli
from fastquad._kernels import piecewise

ROOT = Path(__file__).parent.parent
NEEDS_TREE = pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="needs the source tree or the sdist")


def test_importing_brings_nothing_heavy():
    heavy = ("numba", "matplotlib", "click", "tqdm", "scipy.stats", "scipy.special", "scipy.linalg", "dask", "torch")
    code = f"import sys, fastquad; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_kernels_are_compiled_with_the_directives_of_setup():
    """One of them, `embedsignature`, can be seen: without it the others are missing too, and accesses are checked."""
    assert piecewise.change_points.__doc__.startswith("change_points(")


def test_a_computed_tensor_says_how_to_get_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"pip install 'fastquad\[computed\]'"):
        fq.ComputedTensor(lambda i, j, k: float(i + j + k), 3, 4)


@NEEDS_TREE
def test_the_citation_has_the_version():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == fq.__version__


@NEEDS_TREE
@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_relative_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""


@NEEDS_TREE
@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_every_block_of_the_readme_runs_as_pasted(block, tmp_path, monkeypatch, capsys):
    """Each alone, in a new session; every call of `solve` in it is a success."""
    found, solve = [], fq.solve
    monkeypatch.setattr(fq, "solve", lambda *given, **options: found.append(solve(*given, **options)) or found[-1])
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert len(found) == block.count("fq.solve(")
    assert all(np.all(solution.success) for solution in found)
    said = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*# (.*)", block)
    assert len(said) == len(promised)
    for line, words in zip(said, promised, strict=True):
        number = re.match(r"about ([\de.-]+)", words)
        if number:
            assert float(line) < 10 * float(number[1])
        elif words[0].isupper() or words[0].isdigit():
            assert line == words.partition(":")[0]


@NEEDS_TREE
def test_the_commands_of_the_readme_exist():
    commands = set(re.findall(r"\bfastquad ([a-z]+) ", README.split("## Speed")[0])) & set(cli.main.commands)
    assert commands == {"demo", "solve"}
    targets = re.findall(r"`make (\w+)`", README)
    rules = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    assert set(targets) <= set(rules)


def test_tests_do_not_import_from_each_other():
    """What they share is in tests/helpers: so each file can be read, moved and run alone."""
    found = {
        path.name: re.findall(r"^(?:from|import) (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in Path(__file__).parent.rglob("*.py")
    }
    assert {name: imports for name, imports in found.items() if imports} == {}


#: What crosses rooms, by its property: these tests are in `tests/` itself. Tests of faults have a folder of their own.
ACROSS = {
    "constants", "contract", "docs", "docstrings", "examples", "large_n", "messages", "notebook", "objects", "package",
    "paper_figures", "paper_iterates", "precision", "reading", "rewrites", "sweep", "toys", "vocabulary",
}  # fmt: skip


def test_tests_mirror_the_tree():
    """`tests/ROOM/test_NAME.py` tests a module or package NAME somewhere in that room, or the whole room."""
    tests, package = Path(__file__).parent, Path(fq.__file__).parent
    astray = []
    for path in tests.rglob("test_*.py"):
        folder, name = path.parent.relative_to(tests), path.stem.removeprefix("test_")
        room = package / str(folder).replace("kernels", "_kernels")
        there = {found.name.split(".")[0] for found in room.rglob("*")} | {folder.name}
        if name not in there and not (folder == Path() and name in ACROSS) and folder != Path("faults"):
            astray.append(str(path.relative_to(tests)))
    assert astray == []


@NEEDS_TREE
def test_without_a_compiler_the_first_line_says_so():
    """Before anything else is done or printed, and with a way out; a compiler that is there is announced."""
    if sys.platform == "win32":
        pytest.skip("setuptools finds the compiler of Windows by itself")
    for compiler, start in (
        ("no-such-cc", "fastquad: there is no C compiler 'no-such-cc'"),
        (sys.executable, "fastquad: compiling"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", _WITHOUT_SETUPTOOLS, str(ROOT / "setup.py")],
            cwd=ROOT, env=os.environ | {"CC": compiler}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr.startswith(start)
        assert "\n" not in done.stderr.strip()
        assert done.stdout == ("" if done.returncode else "built\n")
        assert (done.returncode == 0) == (compiler == sys.executable)


#: Runs setup.py with stubs for what it imports from setuptools, which need not be installed beside the package.
_WITHOUT_SETUPTOOLS = """
import sys, types, runpy
for name, words in {
    "setuptools": {"Extension": lambda *_, **__: None, "setup": lambda **_: print("built")}, "setuptools.command": {},
    "setuptools.command.build_ext": {"build_ext": object}, "setuptools.modified": {"newer_group": None},
}.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(words)
sys.argv = [sys.argv[1], "bdist_wheel"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@NEEDS_TREE
def test_the_recipe_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    said = {re.sub(r"\s", "", line) for line in re.findall(r"^ +- (.*)$", recipe, re.MULTILINE)}
    assert {*project["project"]["dependencies"], *project["build-system"]["requires"]} <= said
    assert f'version: "{fq.__version__}"' in recipe


@NEEDS_TREE
def test_the_paper_claims_what_the_documentation_measured():
    """Every number of its tables and results stands in the page that it names."""
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    results = re.findall(r"^- (.*?)\[docs/([\w-]+\.md)\]", text, re.MULTILINE | re.DOTALL)
    claims = [(number, page) for words, page in results for number in re.findall(r"\*\*([\d.,]+)\*\*", words)]
    assert len(claims) >= 5
    for number, page in claims:
        assert number in (ROOT / "docs" / page).read_text(encoding="utf-8"), (number, page)
