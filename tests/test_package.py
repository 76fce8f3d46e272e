"""What is around the code: versions, links, and what an import brings along."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastquad as fq

ROOT = Path(__file__).parent.parent
NEEDS_TREE = pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="needs the source tree or the sdist")


def test_importing_brings_nothing_heavy():
    heavy = ("numba", "matplotlib", "click", "tqdm", "scipy.stats", "scipy.linalg", "dask", "torch")
    code = f"import sys, fastquad; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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


def test_tests_do_not_import_from_each_other():
    """What they share is in tests/helpers: so each file can be read, moved and run alone."""
    found = {
        path.name: re.findall(r"^(?:from|import) (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in Path(__file__).parent.rglob("*.py")
    }
    assert {name: imports for name, imports in found.items() if imports} == {}
