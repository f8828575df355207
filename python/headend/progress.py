"""A bar that says how far a sweep is: in a notebook below the cell, in a terminal on one line of stderr."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

_WIDTH = 30
_FROM_S, _EVERY_S = 0.3, 0.1
"""A sweep that has ended before the first shows nothing; the bar moves no more often than the second."""


def bar() -> Callable[[int, int], None]:
    """What `headend.run` calls with `progress=True`."""
    draw = _in_notebook() or (_in_terminal if sys.stderr.isatty() else None)
    started = drawn = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        due = now - started >= _FROM_S and now - drawn >= _EVERY_S
        if draw is not None and (due or (done == total and drawn > started)):
            drawn = now
            draw(done, total, _rest(now - started, done, total))

    return show


def _rest(spent_s: float, done: int, total: int) -> str:
    if done == 0 or done == total:
        return f"{spent_s:.0f} s"
    return f"{spent_s:.0f} s, {spent_s / done * (total - done):.0f} s to go"


def _in_terminal(done: int, total: int, times: str) -> None:
    filled = _WIDTH * done // total
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r\033[K[{'#' * filled}{' ' * (_WIDTH - filled)}] {done} of {total} runs, {times}{end}")
    sys.stderr.flush()


def _in_notebook() -> Callable[[int, int, str], None] | None:
    """A drawer for the notebook that this runs in, if it runs in one."""
    if "ipykernel" not in sys.modules:
        return None
    notebook: Any = importlib.import_module("IPython.display")
    handle: Any = None

    def draw(done: int, total: int, times: str) -> None:
        nonlocal handle
        shown = notebook.HTML(
            f'<progress value="{done}" max="{total}" aria-label="runs"></progress> {done} of {total} runs, {times}'
        )
        if handle is None:
            handle = notebook.display(shown, display_id=True)
        else:
            handle.update(shown)

    return draw
