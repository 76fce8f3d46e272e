"""The examples in docstrings and on the pages of the documentation, run; and the reference lists every public name."""

import doctest
import importlib
import inspect
import operator
import pkgutil
import re
from pathlib import Path

import pytest

import fastquad as fq

DOCS = Path(__file__).parent.parent / "docs"
# After a plain install the tests run without the pages beside them; an empty list is skipped.
PAGES = sorted(DOCS.glob("*.md"))
MODULES = [
    module.name
    for module in pkgutil.walk_packages(fq.__path__, "fastquad.")
    if not module.name.startswith(("fastquad._kernels", "fastquad.__main__"))
]


def run(test):
    """Run the examples of a doctest; what failed is in the message."""
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert not runner.summarize(verbose=False).failed, "".join(report)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        if test.examples:
            run(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    """Each page is one session, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    # The fences are taken away, for doctest would read them as output.
    blocks = re.findall(r"^```python\n(>>>.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    run(test)


@pytest.mark.skipif(not PAGES, reason="the documentation is not here")
def test_every_name_of_the_reference_has_an_example():
    names = re.findall(r"^   ([A-Za-z_][\w.]*)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 50
    assert [name for name in names if ">>>" not in (operator.attrgetter(name)(fq).__doc__ or "")] == []


@pytest.mark.skipif(not PAGES, reason="the documentation is not here")
@pytest.mark.parametrize("name", [name for name in fq.__all__ if not inspect.ismodule(getattr(fq, name))])
def test_the_reference_lists_every_public_name(name):
    assert re.search(rf"^   {name}$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
