"""`python -m headend.evaluate CONTROLLER`. `headend evaluate` is the same, and describes the options.

Standard output is for results alone; progress and messages go to standard error. Exit code 2 for a wrong request, 1 for
a failure, 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

import headend
from headend.evaluate import page, text
from headend.evaluate.cases import cases
from headend.evaluate.runner import BESIDE, Evaluation, Request, evaluate
from headend.lab.measure import LabError
from headend.report import FolderError, marked, render

EVALUATION, CARD = "evaluation.json", "card.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate what the command line asks for."""
    given = _parser().parse_args(arguments)
    if given.list:
        for case in cases("live" if given.kernel else "full"):
            print(f"{case.id:24}{', '.join(case.sections):14}{case.title}")
        return 0
    if given.controller is None:
        return _wrong("which congestion control? For example `headend evaluate fast --quick`")
    if given.out is not None and (reason := _unfit(given.out)):
        return _wrong(f"--out {given.out}: {reason}")
    try:
        request = Request(
            controller=given.controller,
            beside=_beside(given),
            tcp=dict(map(_setting, given.settings)),
            edition="live" if given.kernel else "quick" if given.quick else "full",
            only=tuple(given.only),
            seed=given.seed,
            runs=given.runs,
            threads=given.threads,
            binary=os.environ.get("HEADEND_BINARY"),
        )
        begin = time.process_time()
        evaluation = _evaluated(request)
        spent = time.process_time() - begin
    except (ValueError, headend.ScenarioError) as error:
        return _wrong(str(error))
    except (headend.SimulationError, LabError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing is kept of an evaluation that has not ended", file=sys.stderr)
        return 130
    if given.format == "json":
        print(evaluation.to_json(), end="")
    else:
        text.show(evaluation, Console(highlight=False))
    print(f"{spent:.0f} s of CPU time", file=sys.stderr)
    return _write(evaluation, given.out, given.page)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headend evaluate", description="Measure what RFC 9743 asks of a congestion control.", allow_abbrev=False
    )
    parser.add_argument("controller", nargs="?")
    parser.add_argument("--beside", metavar="NAME,...")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--kernel", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="CASE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--jobs", dest="threads", type=int)
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page of the docs whose card is to be this one")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--list", action="store_true")
    return parser


def _beside(given: argparse.Namespace) -> tuple[str, ...]:
    """The controls to compare with; a kernel has no BBRv3."""
    if given.beside is None:
        return ("cubic", "bbr") if given.kernel else BESIDE
    return tuple(name for name in given.beside.split(",") if name)


def _unfit(folder: Path) -> str | None:
    """The reason why a report cannot go to a folder, told before the work and not after it."""
    if folder.exists() and not folder.is_dir():
        return "is a file; the report needs a folder"
    if folder.is_dir() and any(folder.iterdir()) and not (folder / EVALUATION).exists():
        return "holds something else; name a new folder, or that of an earlier evaluation, which is replaced"
    return None


def _setting(words: str) -> tuple[str, int | str]:
    name, equals, value = words.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {words}: expected FIELD=VALUE, such as fast_alpha=12")
    return name, int(value) if value.isdecimal() else value


def _evaluated(request: Request) -> Evaluation:
    errors = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def progress(case: str, done: int, total: int) -> None:
            bar.update(task, description=case, completed=done, total=total)

        return evaluate(request, progress)


def _write(evaluation: Evaluation, out: Path | None, docs: Path | None) -> int:
    try:
        if docs is not None:
            marked.write(docs, f"card {evaluation.request.controller}", text.card(evaluation))
        if out is None:
            return 0
        shown = render(page.study(evaluation), out)
        (out / EVALUATION).write_text(evaluation.to_json(), encoding="utf-8")
        (out / CARD).write_text(f"# {text.title(evaluation)}\n\n{text.card(evaluation)}", encoding="utf-8")
    except (FolderError, marked.MarkedError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {shown}", file=sys.stderr)
    return 0


def _wrong(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
