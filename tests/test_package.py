"""What is around the code: versions, links, and what an import brings along."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq
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


@NEEDS_TREE
def test_every_line_of_the_readme_runs(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    assert "fq.solve" in code
    rng = np.random.default_rng(0)
    problem = fq.problems.gaussian(m=80, n=40, signal=np.r_[np.ones(4), np.zeros(36)], rng=0)
    H = rng.standard_normal((60, 10, 10)) + 1j * rng.standard_normal((60, 10, 10))
    z = rng.standard_normal(10) + 1j * rng.standard_normal(10)
    known = {"A": problem.A, "y": problem.y, "Y": np.stack([problem.y, 4 * problem.y]), "H": H, "z": z}
    np.save(tmp_path / "A.npy", problem.A)
    monkeypatch.chdir(tmp_path)
    for line in code.splitlines():
        if not line.startswith("fq.solve"):
            exec(line, known)
            continue
        solution = eval(line.partition("#")[0], known)
        assert np.all(solution.success), line
    assert known["solution"].status is fq.Status.EXACT
    assert round(known["solution"].n_passes) == int(re.search(r"EXACT, (\d+) passes", code)[1])
    assert fq.distance(known["solution"].x, known["problem"].x) < 1e-15


def test_tests_do_not_import_from_each_other():
    """What they share is in tests/helpers: so each file can be read, moved and run alone."""
    found = {
        path.name: re.findall(r"^(?:from|import) (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in Path(__file__).parent.rglob("*.py")
    }
    assert {name: imports for name, imports in found.items() if imports} == {}
