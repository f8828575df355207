"""`python -m headend.papers list | run ID... | report | validate`.

Standard output is for results alone; progress and messages go to standard error. Exit code 2 for a wrong request, 1 for
a failure, 130 for Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import headend
from headend.papers import reference, tables
from headend.papers import validate as ns2
from headend.papers.claim import MeasurementError, interval, number
from headend.papers.figure import Figure
from headend.papers.kept import Kept, KeptError
from headend.papers.model import ClaimResult, FigureResult, StudyResult
from headend.papers.runner import SEED, Runner
from headend.papers.study import PAPERS, Paper, UnknownFigureError, choose, run_figures
from headend.report import FolderError, marked, render

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Published papers rerun figure by figure, each claim measured and judged.",
)


class Format(StrEnum):
    """Forms of the output, called as those of `headend`."""

    TABLE = "table"
    JSON = "json"


Quick = Annotated[bool, typer.Option("--quick", help="Enough runs for a verdict on every claim, in a minute or two.")]
Runs = Annotated[int | None, typer.Option("--runs", min=1, help="Runs of every random point.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the first run.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time; as many as cores unless given.")]
Form = Annotated[Format, typer.Option("--format", help="Form of the output; json is for programs.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report, written whole or not at all.")]
PageOption = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="A page of the docs whose table is to be this run's.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Take up the finished runs that an interruption left.")]

errors = Console(stderr=True, highlight=False)


@app.command("list")
def list_(form: Form = Format.TABLE) -> None:
    """What can be run."""
    if form is Format.JSON:
        rows = [
            {"id": f"{paper.id}.{figure.id}", "title": figure.title, "claims": [claim.id for claim in figure.claims]}
            for paper in PAPERS.values()
            for figure in paper.figures
        ]
        print(json.dumps(rows, indent=1))
        return
    console = Console(highlight=False)
    for paper in PAPERS.values():
        table = Table(title=f"{paper.id}: {paper.title}", title_justify="left", show_edge=False)
        for column in ("id", "figure", "claims"):
            table.add_column(column, overflow="fold")
        for figure in paper.figures:
            table.add_row(f"{paper.id}.{figure.id}", figure.title, ", ".join(claim.id for claim in figure.claims))
        console.print(table)


@app.command()
def run(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="tuning, tuning.fig4 or fig4; see `list`.")],
    quick: Quick = False,
    runs: Runs = None,
    seed: Seed = SEED,
    jobs: Jobs = None,
    form: Form = Format.TABLE,
    out: Out = None,
    resume: Resume = False,
    page: PageOption = None,
) -> None:
    """Run figures, measure their claims and judge them.

    Ctrl-C keeps the finished runs beside the report's folder, if there is to be one, for --resume.
    """
    if resume and out is None:
        _wrong("--resume takes up the runs beside a report's folder: say which with --out DIR")
    for paper, figures in _chosen(ids):
        runner = _runner(paper, figures, out, quick=quick, runs=runs, seed=seed, jobs=jobs, resume=resume)
        study = _study(paper, figures, runner)
        if form is Format.JSON:
            print(json.dumps([_claim_row(claim) for claim in study.claims()], indent=1, ensure_ascii=False))
        else:
            show(study, Console(highlight=False))
        if out is not None:
            _write(study, out, runner)
        if page is not None:
            _mark(page, f"claims {paper.id}", tables.claims(study))


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = Path("out/report"),
    paper: Annotated[str, typer.Argument(help="Which paper.")] = "tuning",
    quick: Quick = False,
    runs: Runs = None,
    seed: Seed = SEED,
    jobs: Jobs = None,
    resume: Resume = False,
) -> None:
    """Run a paper whole and write its report, one page for a browser."""
    for chosen, figures in _chosen([paper]):
        runner = _runner(chosen, figures, out, quick=quick, runs=runs, seed=seed, jobs=jobs, resume=resume)
        _write(_study(chosen, figures, runner), out, runner)


@app.command()
def validate(
    paper: Annotated[str, typer.Argument(help="Which paper's reference curves.")] = "tuning",
    only: Annotated[list[str] | None, typer.Option("--table", help="Only this table, such as p1_fig04.")] = None,
    quick: Quick = False,
    runs: Runs = None,
    seed: Seed = SEED,
    jobs: Jobs = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="How many of the points that differ to list.")] = 20,
    form: Form = Format.TABLE,
    page: PageOption = None,
) -> None:
    """Rerun ns-2's curves with the same rules and compare point by point."""
    if paper not in ns2.PREFIX:
        _wrong(f"no reference curves for {paper!r}; there are some for {', '.join(ns2.PREFIX)}")
    known = reference.tables(ns2.PREFIX[paper])
    for table in only or ():
        if table not in known:
            _wrong(f"no table is called {table!r}; there are {', '.join(known)}")
    with _progress("reference rows", 0) as progress, _failures(None):
        runner = Runner(
            paper=paper,
            edition="quick" if quick else "full",
            runs_asked=runs,
            seed=seed,
            threads=jobs,
            progress=progress,
        )
        compared = ns2.validate(runner, figures=only or ())
    if form is Format.JSON:
        print(json.dumps([dataclasses.asdict(c) for c in compared], indent=1, allow_nan=False))
    else:
        show_validation(compared, worst, Console(highlight=False))
    if page is not None:
        _mark(page, f"ns-2 {paper}", tables.ns2(compared, _command()))


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m headend.papers")


def show(study: StudyResult, console: Console) -> None:
    """The claims as a table, then why some differ."""
    table = Table(title=f"{study.title}: {study.edition} edition, seed {study.seed}, {study.elapsed_s:.0f} s")
    for column in ("claim", "", "published", "measured", "95% interval", "verdict"):
        table.add_column(column, overflow="fold")
    for claim in study.claims():
        colour = "green" if claim.verdict == "reproduced" else "yellow"
        name, verdict = escape(claim.id.removeprefix(f"{study.id}.")), f"[{colour}]{claim.verdict}[/]"
        for of in (criterion for criterion in claim.criteria if criterion.judged):
            mark = "" if of.holds else " *"
            row = (of.what, of.published, number(of.measured, of.unit) + mark, interval(of))
            table.add_row(name, *map(escape, row), verdict)
            name = verdict = ""
    console.print(table)
    for claim in study.claims():
        if claim.reason:
            console.print(f"[bold]{escape(claim.id)}[/] {claim.verdict}. {escape(claim.reason)}")
    reproduced = sum(claim.verdict == "reproduced" for claim in study.claims())
    figures = "1 figure" if len(study.figures) == 1 else f"{len(study.figures)} figures"
    console.print(f"{reproduced} of {len(study.claims())} claims reproduced, {figures}.")


def show_validation(compared: list[ns2.Comparison], worst: int, console: Console) -> None:
    """A row for each reference curve, then the points that are farthest off."""
    table = Table(title="headend beside ns-2")
    for column in ("table", "rules", "series", "points", "agree", "exact", "equal", "farthest"):
        table.add_column(column, justify="left" if column in ("table", "rules", "series") else "right", overflow="fold")
    for (fig, sim, series), points in ns2.by_series(compared).items():
        exact = [c for c in points if c.exact]
        chance = [c for c in points if not c.exact]
        farthest = max(points, key=lambda c: abs(c.off))
        table.add_row(
            fig,
            reference.ERA[sim],
            escape(series),
            str(len(chance)),
            str(sum(c.verdict == "agrees" for c in chance)),
            str(len(exact)),
            str(sum(c.verdict == "agrees" for c in exact)),
            f"{100 * farthest.off:+.1f}%",
        )
    console.print(table)
    for c in ns2.worst(compared, worst):
        console.print(
            f"{c.fig} {reference.ERA[c.sim]} {escape(c.series)} at {c.x:g}: {c.measured_mbps:.4g} against "
            f"{c.reference_mbps:.4g} Mbit/s ({100 * c.off:+.1f}%, band {100 * c.band_mbps / c.reference_mbps:.1f}%), "
            f"{c.measured_s:.5g} against {c.reference_s:.5g} s, {c.measured_sent:.6g} against {c.reference_sent:.6g} "
            f"packets sent, {c.measured_timeouts:.4g} against {c.reference_timeouts:.4g} time-outs"
        )
    agree = sum(c.verdict == "agrees" for c in compared)
    console.print(f"{agree} of {len(compared)} points agree.")


def _claim_row(claim: ClaimResult) -> dict[str, object]:
    return {
        "id": claim.id,
        "what": claim.what,
        "published": claim.published,
        "measured": claim.measured,
        "interval": claim.interval,
        "verdict": claim.verdict,
        "reason": claim.reason,
        "tolerance": claim.tolerance,
        "criteria": [dataclasses.asdict(criterion) for criterion in claim.criteria],
    }


def _chosen(names: list[str]) -> list[tuple[Paper, list[Figure[Any]]]]:
    try:
        return choose(names)
    except UnknownFigureError as error:
        _wrong(str(error))


def _runner(
    paper: Paper,
    figures: list[Figure[Any]],
    out: Path | None,
    *,
    quick: bool,
    runs: int | None,
    seed: int,
    jobs: int | None,
    resume: bool,
) -> Runner:
    """A runner that keeps finished runs beside the folder of the report."""
    runner = Runner(paper=paper.id, edition="quick" if quick else "full", runs_asked=runs, seed=seed, threads=jobs)
    if out is not None:
        names = [figure.id for figure in figures]
        request = {"paper": paper.id, "figures": names, "edition": runner.edition, "runs": runs, "seed": seed}
        try:
            runner.kept = Kept.open(out, request, resume=resume)
        except KeptError as error:
            _wrong(str(error))
        if runner.kept.outdated:
            errors.print(
                f"the runs in {escape(str(runner.kept.folder))} were of another request or build: starting anew"
            )
    return runner


def _study(paper: Paper, figures: list[Figure[Any]], runner: Runner) -> StudyResult:
    with _progress(paper.id, len(figures)) as progress, _failures(runner.kept):
        runner.progress = progress

        def done(figure: FigureResult) -> None:
            progress.figure(figure.id)

        return run_figures(paper, figures, runner, _command(), done)


def _command() -> str:
    """What was asked, without what only says where results go."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    if "--page" in words:
        at = words.index("--page")
        del words[at : at + 2]
    return " ".join(["python -m headend.papers", *words])


class _Progress:
    """One bar for what is being run now, and how many figures are done."""

    def __init__(self, bar: Progress, title: str, figures: int) -> None:
        self._bar = bar
        self._task = bar.add_task(title, total=None)
        self._done = 0
        self._figures = figures

    def __call__(self, label: str, done: int, total: int) -> None:
        if self._figures > 1:
            label = f"figure {min(self._done + 1, self._figures)} of {self._figures}, {label}"
        self._bar.update(self._task, description=escape(label), completed=done, total=total)

    def figure(self, name: str) -> None:
        self._done += 1
        if not self._bar.console.is_terminal:
            self._bar.console.print(f"{name} done, {self._done} of {self._figures}")


@contextmanager
def _progress(title: str, figures: int) -> Iterator[_Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        yield _Progress(bar, title, figures)


@contextmanager
def _failures(kept: Kept | None) -> Iterator[None]:
    """What can go wrong in a study, as a message and exit code 1; what is kept of it, and how to go on."""
    try:
        yield
    except (headend.ScenarioError, headend.SimulationError, MeasurementError, OSError) as error:
        errors.print(f"error: {escape(str(error))}")
        if kept is not None:
            _left(kept)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        errors.print("interrupted")
        if kept is not None:
            _left(kept)
        else:
            errors.print("nothing is kept; `run` and `report` keep finished runs beside the folder of --out")
        raise typer.Exit(130) from stop


def _left(kept: Kept) -> None:
    runs = kept.runs()
    if runs == 0:
        kept.remove()
        errors.print("no run had finished, so nothing is kept")
        return
    errors.print(
        f"finished runs are kept: {runs:,} in {escape(str(kept.folder))}. To go on, repeat the command with --resume.",
        soft_wrap=True,
    )


def _write(study: StudyResult, out: Path, runner: Runner) -> None:
    try:
        page = render(study, out)
    except FolderError as error:
        errors.print(f"error: {escape(str(error))}")
        if runner.kept is not None:
            _left(runner.kept)
        raise typer.Exit(1) from error
    if runner.kept is not None:
        runner.kept.remove()
    errors.print(f"wrote {escape(str(page))}", soft_wrap=True)


def _mark(page: Path, name: str, text: str) -> None:
    try:
        marked.write(page, name, text)
    except (marked.MarkedError, OSError) as error:
        errors.print(f"error: {escape(str(error))}")
        raise typer.Exit(1) from error
    errors.print(f"wrote {escape(name)} into {escape(str(page))}", soft_wrap=True)


def _wrong(message: str) -> NoReturn:
    errors.print(f"error: {escape(message)}")
    raise typer.Exit(2)
