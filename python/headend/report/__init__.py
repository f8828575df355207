"""A study as one page for a browser: `render` writes it, `python -m headend.report` writes it again from JSON.

The page is a single file that asks for nothing from outside: plots, styles and data are in it. Beside it lie
the same figures as SVG for print, and the study as JSON in full precision.
"""

from headend.report.folder import FolderError
from headend.report.page import render

__all__ = ["FolderError", "render"]
