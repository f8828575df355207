"""Parts of a page of the docs that a command writes, between two comments that name them.

The scripts in `bench` use this file too, without the package: it imports nothing of it.
"""

from __future__ import annotations

import re
from pathlib import Path


class MarkedError(Exception):
    """The page has no place for the part."""


def write(page: Path, name: str, text: str) -> None:
    """Put `text` where the page has the part `name`.

    Raises MarkedError if the page does not have it exactly once; OSError if it cannot be read or written.
    """
    begin, end = f"<!-- {name}: written by the command above -->", f"<!-- end of {name} -->"
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    after, found = pattern.subn(lambda _: f"{begin}\n{text.strip()}\n{end}", before)
    if found != 1:
        raise MarkedError(f"{page}: expected {begin} and {end} once, found them {found} times")
    page.write_text(after, encoding="utf-8")
