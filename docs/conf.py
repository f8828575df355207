"""How Sphinx builds the book."""

import sys
from pathlib import Path

import headend

sys.path.insert(0, str(Path(__file__).parent))  # pictures.py

project = "headend"
author = "The headend authors"
copyright = "2026, The headend authors"  # noqa: A001 - the name is Sphinx's
version = release = headend.__version__

extensions = ["myst_parser", "pictures"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

# Headings down to the third level can be linked to; tables in pages are wide, so prose may be too.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "dollarmath"]

html_theme = "furo"
html_title = f"headend {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
