"""What one must read: how many files a default solve enters and loads, and how long the core of docs/walk.md is.

A file that creeps into every solve makes each of these numbers larger. When one of them must grow, say why here.
"""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastquad as fq

DOCS = Path(__file__).parent.parent / "docs"
PACKAGE = Path(fq.__file__).parent

#: Solves what is pickled at argv[1] twice, and prints the files that functions of the second solve are in, then those
#: that were loaded. Class bodies and the top of modules are no functions. What the system says of
#: its memory is good for the second solve, too, even if a busy machine comes to it late.
TRACED = """
import pickle, sys
with open(sys.argv[1], "rb") as stream:
    A, y = pickle.load(stream)
import fastquad as fq
import fastquad.system.memory
entered = set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:
        entered.add(frame.f_code.co_filename)
first = fq.solve(A, y)
fastquad.system.memory._FRESH = float("inf")
sys.setprofile(note)
solution = fq.solve(A, y)
sys.setprofile(None)
assert solution.status == "EXACT", solution
loaded = {module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
print(*entered, sep="\\n")
print("--")
print(*loaded, sep="\\n")
"""


def lines(path):
    return len(Path(path).read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The files of the package that a default exact solve of a packed tensor enters, and those that it loads."""
    problem = fq.problems.gaussian(m=200, n=100, k=20, rng=0)
    path = tmp_path_factory.mktemp("reading") / "problem"
    path.write_bytes(pickle.dumps((fq.pack(problem.A), problem.y)))
    done = subprocess.run([sys.executable, "-c", TRACED, str(path)], capture_output=True, text=True, check=True)
    return [
        {file for file in part.split("\n") if file.startswith(str(PACKAGE)) and file.endswith(".py")}
        for part in done.stdout.split("--\n")
    ]


def test_a_default_solve_enters_few_files(traced):
    """The aim is 35 files with 6,500 lines; it was 61 with 13,809 before imports were made where they are needed."""
    entered = traced[0]
    assert len(entered) <= 49, sorted(entered)
    assert sum(map(lines, entered)) <= 11_500


def test_a_default_solve_loads_what_it_uses(traced):
    """The aim is 12,000 lines; it was 29,912."""
    loaded = traced[1]
    assert sum(map(lines, loaded)) <= 12_700, sorted(loaded)
    others = ("structured", "computed", "disk", "cluster", "decoders", "experiments", "latent", "pursuit/solver")
    assert [file for file in loaded if any(f"/{name}" in file for name in others) and "/trust/" not in file] == []


def test_an_import_loads_no_kind_and_no_method():
    code = "import fastquad, sys; print(*(name for name in sys.modules if name.startswith('fastquad')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"fastquad", "fastquad.system", "fastquad.system.lazy"}


def test_the_core_is_an_afternoons_reading():
    """docs/walk.md lists the core in the order in which it is read: at 1,500 lines an hour, four hours."""
    core = re.findall(r"^\d+\. `([\w/]+\.py)`", (DOCS / "walk.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(core) >= 15
    assert len(set(core)) == len(core)
    assert sum(lines(PACKAGE / file) for file in core) <= 5_750
