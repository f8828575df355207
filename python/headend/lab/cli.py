"""`python -m headend.lab run | live | report`. Exit code 2 for a wrong request, 1 for a failure."""

from __future__ import annotations

import datetime
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import headend
from headend import _native
from headend.lab import fast as fast_study
from headend.lab import live, page
from headend.lab.comparison import Comparison, ComparisonError
from headend.papers.model import StudyResult
from headend.papers.study import machine
from headend.report import FolderError, render

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The simulator beside the kernel, over a grid of scenarios.",
)

KEPT = "comparisons"
"""Within the report's folder: what was measured, a file for each scenario file."""

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")]


@app.command()
def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files.")],
    out: Out,
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 4,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the files that have been measured.")] = False,
) -> None:
    """Compare every scenario file and write the report. Takes root."""
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    folder = out / KEPT
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files, 1):
        target = folder / f"{file.stem}.json"
        if resume and target.exists():
            continue
        typer.echo(f"{number} of {len(files)}: {file}", err=True)
        _keep(target, [str(binary), "compare", str(file), "--together", str(together), "--format", "json"])
    command_line = shlex.join(["python", "-m", "headend.lab", "run", *map(str, files), "--out", str(out)])
    _write(out, command_line, started.isoformat(timespec="seconds"), round(time.monotonic() - clock, 3), files)


@app.command("live")
def live_(
    out: Out,
    file: Annotated[Path, typer.Option(help="The scenario.")] = Path("scenarios/live.toml"),
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 3,
    runs: Annotated[int, typer.Option(min=2, help="Runs of every point.")] = 6,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the curves that have been measured.")] = False,
) -> None:
    """The proxies paper's experiment between real hosts and in the simulator, with its report. Takes root."""
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    folder = out / KEPT
    folder.mkdir(parents=True, exist_ok=True)
    kept = {(server, way): folder / f"{server}-{way}.json" for server in live.SERVERS for way in live.WAYS}
    for number, ((server, way), target) in enumerate(kept.items(), 1):
        if resume and target.exists():
            continue
        typer.echo(f"{number} of {len(kept)}: server on {live.SERVERS[server]}, {live.WAYS[way][0]}", err=True)
        words = [str(binary), "lab", str(file), "--runs", str(runs), "--together", str(together), "--format", "json"]
        settings = (f"--set={path}={value}" for path, value in live.settings(server, way).items())
        _keep(target, [*words, *settings])
    try:
        linux, runs, late = live.read(kept)
        study = live.study(
            live.Live(linux, live.simulate(file, runs), runs, late, seed=1),
            command=shlex.join(["python", "-m", "headend.lab", "live", "--out", str(out)]),
            machine=machine(),
            version=f"headend {_native.__version__} ({_native.__commit__})",
            started=started.isoformat(timespec="seconds"),
            elapsed_s=round(time.monotonic() - clock, 3),
        )
        written = render(study, out)
    except (live.LiveError, headend.ScenarioError, headend.SimulationError, OSError, FolderError) as error:
        _fail(str(error))
    _show(study, written)


@app.command()
def fast(
    out: Out,
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    scenarios: Annotated[Path, typer.Option(help="Folder of the scenario files fast-*.toml.")] = Path("scenarios/lab"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 4,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the files that have been measured.")] = False,
) -> None:
    """Judge FAST in the kernel: its queue, fairness, CUBIC and the simulator beside it. Takes root and 20 minutes."""
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    folder = out / KEPT
    folder.mkdir(parents=True, exist_ok=True)
    commands = dict.fromkeys(fast_study.MEASURED, "lab") | dict.fromkeys(fast_study.COMPARED, "compare")
    for number, (name, command) in enumerate(commands.items(), 1):
        target = folder / f"{name}.json"
        if not (resume and target.exists()):
            file = scenarios / f"{name}.toml"
            typer.echo(f"{number} of {len(commands)}: {file}", err=True)
            _keep(target, [str(binary), command, str(file), "--together", str(together), "--format", "json"])
    try:
        study = fast_study.study(
            {name: fast_study.Measured.load(folder / f"{name}.json") for name in fast_study.MEASURED},
            [Comparison.load(folder / f"{name}.json") for name in fast_study.COMPARED],
            command=shlex.join(["python", "-m", "headend.lab", "fast", "--out", str(out)]),
            machine=machine(),
            version=f"headend {_native.__version__} ({_native.__commit__})",
            started=started.isoformat(timespec="seconds"),
            elapsed_s=round(time.monotonic() - clock, 3),
        )
        written = render(study, out)
    except (ComparisonError, OSError, FolderError) as error:
        _fail(str(error))
    _show(study, written)


@app.command()
def report(out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of an earlier report.")]) -> None:
    """Draw the page again from what was measured."""
    try:
        earlier = json.loads((out / "study.json").read_text(encoding="utf-8"))
        facts = (str(earlier["command"]), str(earlier["started"]), float(earlier["elapsed_s"]))
    except (OSError, ValueError, KeyError) as error:
        _wrong(f"{out}: no report of a lab: {error}")
    _write(out, *facts, files=[])


def _write(out: Path, command: str, started: str, elapsed_s: float, files: list[Path]) -> None:
    """The page of these files, or of all that were measured."""
    folder = out / KEPT
    kept = [folder / f"{file.stem}.json" for file in files] or sorted(folder.glob("*.json"))
    if not kept:
        _wrong(f"{folder}: nothing was measured there")
    try:
        comparisons = [Comparison.load(path) for path in kept]
        version = f"headend {_native.__version__} ({_native.__commit__})"
        study = page.study(
            comparisons, command=command, machine=machine(), version=version, started=started, elapsed_s=elapsed_s
        )
        written = render(study, out)
    except (ComparisonError, OSError, FolderError) as error:
        _fail(str(error))
    _show(study, written)


def _show(study: StudyResult, written: Path) -> None:
    """The verdicts, and where the page is."""
    for claim in study.claims():
        verdict = "met" if claim.verdict == "reproduced" else "missed"
        typer.echo(f"{claim.id}: {claim.measured}, goal {claim.published}: {verdict}")
    typer.echo(written)


def _keep(target: Path, command: list[str]) -> None:
    """Write what a command prints to `target`, whole or not at all."""
    printed = _output(command)
    part = target.with_suffix(".part")
    part.write_text(printed, encoding="utf-8")
    part.replace(target)


def _output(command: list[str]) -> str:
    """Of a command whose messages go to ours."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        _wrong(f"{command[0]}: {error.strerror}; build it with `cargo build --release`, or say where it is: --binary")
    if done.returncode != 0:
        raise typer.Exit(done.returncode if done.returncode > 0 else 1)
    return done.stdout


def _wrong(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(2)


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(1)
