"""The guide is short, complete, and found by the words that people use."""

import importlib
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


TOLERANCES, LATENT = "engine.trust.tolerances", "solvers.latent.trust"
#: Numbers of the guide: the page, the words around the number, and where the code has it, a module and what to ask it.
QUOTED = (
    ("troubleshooting", r"\| ([\d.]+) \| none of the following", TOLERANCES, "TRUSTED"),
    ("troubleshooting", r"\| ([\d.]+) \| m ≤ n and `noise` is not given", TOLERANCES, "TRUSTED_OF_FEW"),
    ("troubleshooting", r"\| ([\d.]+) \| the entries of A depend", TOLERANCES, "TRUSTED_STRUCTURED"),
    ("troubleshooting", r"\| ([\d.]+) \| A is a `SparseTensor`", TOLERANCES, "CLEARLY_ANOTHER"),
    ("troubleshooting", r"\| ([\d.]+) \| the prior is a decoder", LATENT, "TRUSTED"),
    ("tutorial", r"gives up after ([\d,]+) steps", "solvers.twf", "TWF.max_iter"),
    ("howto-points", r"ends after (\d+) seconds unless", "points", "MAX_TIME"),
    ("howto-points", r"by less than ([\de-]+) of the largest", "numerics.distances", "EQUAL"),
    ("command", r"more than (\w+) seconds shows a bar", "system.progress", "PATIENCE"),
    ("distributed", r"this process, (\d+) MB at a time", "measurements.cluster.placement", "_PIECE_BYTES / 2**20"),
    ("measurements", r"from (\d+) draws of the noise", "numerics.transform", "sampled_variances.__defaults__[0]"),
    ("choosing", r"`lm` \| m above ([\d.]+) n", "solvers.plan", "_ALL"),
    ("theory", r"For \$m \\le (\d+)\$ the best few thousand", "solvers.pursuit.tuning", "_FEW_MEASUREMENTS"),
)
#: The same of a page that may also leave it out.
QUOTED_IF_AT_ALL = (
    (r"from ([\d.]+) measurements per unknown", TOLERANCES, "PROOF_LIKELY"),
    (r"up to (\d+) real unknowns", TOLERANCES, "4 * SMALL_N"),
    (r"up to n = (\d+)\)", TOLERANCES, "SMALL_N"),
    (r"[Bb]elow (0\.\d+): a digit", LATENT, "TRUSTED"),
    (r"small coordinates .{0,80}asks? for (0\.\d+)", TOLERANCES, "TRUSTED_OF_FEW"),
)


def number(words):
    return {"one": 1.0, "two": 2.0, "three": 3.0}.get(words) or float(words.replace(",", ""))


def of_the_code(module, what):
    return eval(what, vars(importlib.import_module(f"fastquad.{module}")))


@pytest.mark.parametrize(("page", "around", "module", "what"), QUOTED)
def test_thresholds_are_those_of_the_code(page, around, module, what):
    found = re.findall(around, " ".join(words(page)))
    assert [number(each) for each in found] == [of_the_code(module, what)]


@pytest.mark.parametrize(("around", "module", "what"), QUOTED_IF_AT_ALL)
def test_thresholds_that_are_quoted_are_those_of_the_code(around, module, what):
    for name in LISTS:
        for page in pages(name):
            found = re.findall(around, " ".join(words(page)))
            assert {number(each) for each in found} <= {of_the_code(module, what)}, page


def test_every_error_of_a_success_is_one_of_the_code():
    """Pages said 0.4 where the code had 0.25."""
    names = ("TRUSTED", "TRUSTED_OF_FEW", "TRUSTED_STRUCTURED", "CLEARLY_ANOTHER")
    known = {*(of_the_code(TOLERANCES, name) for name in names), of_the_code(LATENT, "TRUSTED")}
    for page in (each for name in LISTS for each in pages(name)):
        said = re.findall(r"error(?: is)? below (0?\.\d+)", " ".join(words(page)))
        assert {number(each) for each in said} <= known, page


def test_how_long_the_default_searches_is_said_alike():
    """A page said "thousands of passes", another "tens": it ends after tens, or a few hundred."""
    said = [" ".join(words("choosing")), " ".join(fq.solve.__doc__.split())]
    assert all("after tens of passes" in each and "few hundred" in each for each in said)
    assert not any("thousands of passes" in " ".join(words(page)) for name in LISTS for page in pages(name))
