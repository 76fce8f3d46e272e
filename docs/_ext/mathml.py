"""Formulas as MathML, which browsers draw themselves: no script, and nothing from the network."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number

# Names of functions, after which browsers leave no space: log n is no product.
_FUNCTION = re.compile(r"(<mi>(?:log|ln|exp|det|max|min)</mi>)(?=<m[inrs])")


def drawn(formula: str, display: str = "inline") -> str:
    """A formula as MathML, with the spaces that the converter leaves out."""
    said = _FUNCTION.sub(r'\1<mspace width="0.167em" />', convert(formula, display=display))
    return said.replace("<mi>:</mi>", '<mo lspace="0.25em" rspace="0.25em">:</mo>')


def inline(writer, node: nodes.math) -> None:
    writer.body.append(drawn(node.astext()))
    raise nodes.SkipNode


def block(writer, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})</span>')
    writer.body.append(drawn(node.astext(), display="block"))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
