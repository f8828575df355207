"""Parts of a page of the docs that a command writes, between two comments that name them."""

from __future__ import annotations

import re
from pathlib import Path


def write(page: Path, name: str, text: str) -> None:
    """Puts `text` where the page has the part `name`."""
    begin, end = f"<!-- {name}: written by the command above -->", f"<!-- end of {name} -->"
    before = page.read_text()
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    after, found = pattern.subn(lambda _: f"{begin}\n{text.strip()}\n{end}", before)
    if found != 1:
        raise SystemExit(f"{page}: expected {begin} and {end} once, found them {found} times")
    page.write_text(after)
