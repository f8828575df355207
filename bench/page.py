"""Parts of a page of the docs that a command writes: `headend.report.marked`, without the package around it.

COMMAND | python3 bench/page.py PAGE NAME
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "headend" / "report"))

import marked


def write(page: Path, name: str, text: str) -> None:
    """Puts `text` where the page has the part `name`."""
    try:
        marked.write(page, name, text)
    except marked.MarkedError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], sys.stdin.read())
