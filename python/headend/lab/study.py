"""What a lab's pages have in common: figures of one seed and one command, as a study for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from headend.papers.model import FigureResult, StudyResult


def lab_study(
    name: str, title: str, what: str, figures: Sequence[FigureResult], seed: int, **facts: Any
) -> StudyResult:
    """The page's contents; `facts` are the study's `command`, `machine`, `version`, `started` and `elapsed_s`."""
    return StudyResult(
        id=name,
        title=title,
        paper=what,
        edition="full",
        seed=seed,
        figures=[dataclasses.replace(figure, command=facts["command"], seed=seed) for figure in figures],
        subject="lab",
        **facts,
    )
