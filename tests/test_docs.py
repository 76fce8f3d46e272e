"""The guide is short, complete, and found by the words that people use."""

import re
from pathlib import Path

import pytest

import fastquad as fq

DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation comes with the sources")
#: What the navigation shows: the pages of these lists. The appendix, the examples and the reference are not counted.
LISTS = ("guide", "howto")
MOST_WORDS = 16_000


def pages(name):
    """The pages that a list names, and itself."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    tree = re.search(r"```\{toctree\}(.*?)```", text, re.S)
    return [name, *re.findall(r"^[a-z][\w-]*$", tree.group(1), re.M)]


def words(name):
    """What `wc -w` counts."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8").split()


def test_the_guide_is_short():
    counted = {page: len(words(page)) for name in LISTS for page in pages(name)}
    assert len(counted) > 15
    assert sum(counted.values()) + len(words("index")) <= MOST_WORDS, counted


def test_every_page_is_in_a_list():
    listed = {page for name in ("index", *LISTS, "appendix", "developing") for page in pages(name)}
    assert {path.stem for path in DOCS.glob("*.md")} - listed == set()


@pytest.mark.parametrize("word", ["initial guess", "gpu", "pandas", "photon counts"])
def test_words_that_people_look_for_are_there(word):
    assert any(word in " ".join(words(page)).lower() for name in LISTS for page in pages(name))


def test_every_status_has_a_cure():
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert [status.name for status in fq.Status if f"`{status.name}`" not in text] == []


def test_every_section_of_the_reference_has_a_page_of_the_guide():
    names = (DOCS / "_ext" / "names.py").read_text(encoding="utf-8")
    guide = dict(re.findall(r'^    "([^"]+)": "([\w-]+)",$', names, re.M))
    sections = re.findall(r"^(\w[\w ]*)\n-+$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.M)
    assert len(sections) > 5
    assert [section for section in sections if not (DOCS / f"{guide.get(section)}.md").is_file()] == []
