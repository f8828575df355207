"""Papers by name, and running figures of one."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headend import _native
from headend.papers import decoupling, fast, proxies, tuning
from headend.papers.figure import Figure
from headend.papers.model import FigureResult, StudyResult
from headend.papers.runner import Runner


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper and its figures."""

    id: str
    title: str
    authors: str
    figures: Sequence[Figure[Any]]


PAPERS = {
    "tuning": Paper("tuning", tuning.TITLE, tuning.PAPER, tuning.FIGURES),
    "proxies": Paper("proxies", proxies.TITLE, proxies.PAPER, proxies.FIGURES),
    "fast": Paper("fast", fast.TITLE, fast.PAPER, fast.FIGURES),
    "decoupling": Paper("decoupling", decoupling.TITLE, decoupling.PAPER, decoupling.FIGURES),
}


class UnknownFigureError(ValueError):
    """No paper and no figure has this name, or more than one has it."""


def choose(names: Iterable[str]) -> list[tuple[Paper, list[Figure[Any]]]]:
    """The figures that "tuning", "tuning.fig4" or "fig4" name, in the order of each paper, none twice.

    Raises UnknownFigureError, which lists what there is, or between what to choose.
    """
    chosen: dict[str, set[str]] = {}
    for name in names:
        if name in PAPERS:
            chosen.setdefault(name, set()).update(figure.id for figure in PAPERS[name].figures)
            continue
        full = [f"{paper.id}.{figure.id}" for paper in PAPERS.values() for figure in paper.figures]
        found = [known for known in full if name in (known, known.partition(".")[2])]
        if not found:
            known = ", ".join([*PAPERS, *full])
            raise UnknownFigureError(f"no figure or paper is called {name!r}; there are {known}")
        if len(found) > 1:
            raise UnknownFigureError(f"more than one paper has a {name!r}: say {' or '.join(found)}")
        paper_id, _, figure_id = found[0].partition(".")
        chosen.setdefault(paper_id, set()).add(figure_id)
    return [
        (paper, [figure for figure in paper.figures if figure.id in chosen[paper.id]])
        for paper in PAPERS.values()
        if paper.id in chosen
    ]


def run_figures(
    paper: Paper, figures: Sequence[Figure[Any]], runner: Runner, command: str, done: Callable[[FigureResult], None]
) -> StudyResult:
    """Produce these figures; `done` hears of each."""
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    results = []
    for figure in figures:
        results.append(figure.produce(runner))
        done(results[-1])
    return StudyResult(
        id=paper.id,
        title=paper.title,
        paper=paper.authors,
        edition=runner.edition,
        command=command,
        seed=runner.seed,
        machine=machine(),
        version=f"headend {_native.__version__} ({_native.__commit__})",
        started=started.isoformat(timespec="seconds"),
        elapsed_s=round(time.monotonic() - clock, 3),
        figures=results,
    )


def machine() -> str:
    """Processor, cores and system, as far as they are known."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {cores} core{'' if cores == 1 else 's'}, {system}"
