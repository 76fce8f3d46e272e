"""Sphinx: `make docs` builds the pages with warnings as errors, and without the network."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "fastquad"
author = "The fastquad developers"
copyright = author
release = version = installed_version("fastquad")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "names",
    "messages",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "substitution"]
myst_substitutions = {"release": release}
myst_heading_anchors = 3
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py", "**sg_execution_times.rst"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["fastquad.css"]

# Backticks in docstrings are formulas and code; `_ext/names.py` makes links of those that have a page.
default_role = "code"
autosummary_generate = True
# Members of classes are listed by the template of their page.
numpydoc_show_class_members = False
autodoc_typehints = "none"
# A signature that is longer has one parameter a line.
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"

# Copy buttons leave prompts and output out.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    # Scripts named plot_*.py are run and shown; the others are commands with arguments.
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(?:^|/)(?!plot_)[^/]*\.py$",
    "doc_module": ("fastquad",),
    "backreferences_dir": "generated/used_by",
    "reference_url": {"fastquad": None},
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "plot_gallery": "True",
}
suppress_warnings = ["config.cache"]

html_theme = "pydata_sphinx_theme"
html_title = "fastquad"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "show_toc_level": 2,
    "github_url": "https://github.com/fastquad/fastquad",
    "navbar_end": ["version", "theme-switcher", "navbar-icon-links"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
html_show_sourcelink = False
