"""Sphinx: `make docs` builds the pages with warnings as errors."""

from importlib.metadata import version as installed_version

project = "fastquad"
author = "The fastquad developers"
copyright = author
release = version = installed_version("fastquad")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# Backticks in docstrings are formulas and code.
default_role = "code"
autosummary_generate = True
# Members of classes are listed by the template of their page.
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "pydata_sphinx_theme"
html_title = "fastquad"
html_theme_options = {"show_prev_next": True, "navigation_with_keys": False}
html_show_sourcelink = False
