"""How Sphinx builds the book."""

import sys
from pathlib import Path

import headend

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "headend"
author = "The headend authors"
copyright = "2026, The headend authors"  # noqa: A001 - the name is Sphinx's
version = release = headend.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "gallery",
    "highlighting",
    "pictures",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_gallery"]
nitpicky = True
# Types in signatures of the Python package; the book has no pages for NumPy's, for private ones, or for type variables.
nitpick_ignore_regex = [("py:.*", ".*")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
copybutton_prompt_text = "$ "

# Headings down to the third level can be linked to; tables in pages are wide, so prose may be too.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "dollarmath"]

html_theme = "furo"
html_title = f"headend {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
