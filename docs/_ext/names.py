"""Names of the API in code become links to their pages, in docstrings and prose: `fq.solve(A, y)`, `Solution`.

And each page of the API ends with links to the page of the guide and to the names of its section. The sections of
`api.rst` become pages of their own below it, so that the navigation shows them, and not one list of all names.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_API = Path(__file__).parent.parent / "api.rst"
_NAMES = set(re.findall(r"^   ([A-Za-z_][\w.]*)$", _API.read_text(encoding="utf-8"), re.MULTILINE))
_SECTIONS = {
    title: re.findall(r"^   ([A-Za-z_][\w.]*)$", content, re.MULTILINE)
    for title, content in re.findall(
        r"^(\w[\w ]*)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", _API.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
}
#: The page of the guide that a section of the reference belongs to.
_GUIDE = {
    "Solve": "tutorial",
    "Points": "howto-points",
    "What measurements can see": "measurements",
    "Measurements": "measurements",
    "Priors": "priors",
    "Noise": "noise",
    "Methods": "choosing",
    "Decoders": "generative",
    "Tests of your own classes": "measurements",
    "Problems and data": "tutorial",
    "Plots": "howto-compare",
    "Experiments": "reproduction",
}
_CODE = re.compile(r"(?:(?P<package>fq|fastquad)\.)?(?P<name>[A-Za-z_][\w.]*)(?:\(.*\)|=.*)?$", re.DOTALL)


def target(code: str) -> str | None:
    """The full name of what a piece of code is about, where that has a page."""
    match = _CODE.match(code)
    # A bare name is taken for the API's only where it is a class: `open` and `solve` may be anything.
    if match is None or not (match["package"] or match["name"][0].isupper()):
        return None
    name = match["name"]
    while name and name not in _NAMES:
        name = name.rpartition(".")[0]
    return f"fastquad.{name}" if name else None


def link(app: Sphinx, tree: nodes.document) -> None:
    """Put each piece of code that is about the API into a reference to it."""
    here = app.env.docname
    for literal in list(tree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title):
            continue
        name = target(literal.astext())
        if name is None or here == f"generated/{name}":
            continue
        literal.replace_self(reference(literal.deepcopy(), name, here))


def link_types(app: Sphinx, tree: nodes.document) -> None:
    """The same for the types of parameters, which are not code."""
    here = app.env.docname
    for classifier in list(tree.findall(nodes.classifier)):
        parts: list[nodes.Node] = []
        for word in re.split(r"((?:fastquad\.)?[A-Z]\w+)", classifier.astext()):
            name = target(word) if word[:1].isupper() or word.startswith("fastquad.") else None
            text = nodes.inline("", word)
            parts.append(text if name is None or here == f"generated/{name}" else reference(text, name, here))
        classifier.children.clear()
        classifier += parts


def see_also(app: Sphinx, tree: nodes.document) -> None:
    """End each page of the API with its page of the guide and its neighbours."""
    here = app.env.docname
    name = here.removeprefix("generated/fastquad.")
    title = next((title for title, names in _SECTIONS.items() if name in names), None)
    if here == name or title is None:
        return
    guide = addnodes.pending_xref(
        "", nodes.inline("", ""), refdomain="std", reftype="doc", reftarget=f"/{_GUIDE[title]}", refexplicit=False,
        refwarn=True, refdoc=here,
    )  # fmt: skip
    line = nodes.paragraph("", "", guide, nodes.Text(": "))
    for number, other in enumerate(other for other in _SECTIONS[title] if other != name):
        line += [nodes.Text(", ")] * bool(number)
        line += reference(nodes.literal("", other), f"fastquad.{other}", here)
    next(tree.findall(nodes.section)).append(addnodes.seealso("", line))


def reference(node: nodes.Node, name: str, here: str) -> nodes.Node:
    """A node as a link to the page of a name."""
    found = addnodes.pending_xref(
        "", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=False, refdoc=here
    )
    found += node
    return found


def write_sections(app: Sphinx, config: object) -> None:
    """A page for each section of the reference."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for title, names in _SECTIONS.items():
        lines = [title, "=" * len(title), "", ".. currentmodule:: fastquad", "", ".. autosummary::"]
        lines += ["   :toctree: ../generated", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        path, text = folder / f"{_page(title)}.rst", "\n".join(lines)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def list_sections(app: Sphinx, docname: str, source: list[str]) -> None:
    """The reference as a page: its tables, and the pages of its sections below it in the navigation."""
    if docname == "api":
        pages = "".join(f"   reference/{_page(title)}\n" for title in _SECTIONS)
        text = source[0].replace("   :toctree: generated\n", "")
        source[0] = f"{text}\n.. toctree::\n   :hidden:\n\n{pages}"


def _page(title: str) -> str:
    return title.lower().replace(" ", "-")


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", write_sections)
    app.connect("source-read", list_sections)
    app.connect("doctree-read", link)
    app.connect("doctree-read", link_types)
    app.connect("doctree-read", see_also)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
