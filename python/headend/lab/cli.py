"""`python -m headend.lab run | live | report`. Exit code 2 for a wrong request, 1 for a failure."""

from __future__ import annotations

import datetime
import json
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

import headend
from headend import _native
from headend.lab import drawn, live
from headend.lab import fast as fast_study
from headend.lab import page as grid
from headend.lab import sockets as live_sockets
from headend.lab import trunks as live_trunks
from headend.lab.comparison import Comparison, ComparisonError
from headend.lab.measure import LabError, installed
from headend.papers import tables
from headend.papers.claim import MeasurementError
from headend.papers.model import StudyResult
from headend.papers.study import machine
from headend.report import FolderError, marked, render

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The simulator beside the kernel, over a grid of scenarios.",
)

KEPT = "comparisons"
"""Within the report's folder: what was measured, a file for each scenario file."""

Controller = Literal["reno", "cubic", "bbr", "backfill"]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")]
PageOption = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="A page of the docs whose tables are to be this run's.")
]


@app.command()
def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files.")],
    out: Out,
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 4,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the files that have been measured.")] = False,
    page: PageOption = None,
) -> None:
    """Compare every scenario file and write the report. Takes root."""
    taking = _Taking(out, ["run", *map(str, files)])
    kept = {
        out / KEPT / f"{file.stem}.json": [str(binary), "compare", str(file), "--together", str(together)]
        for file in files
    }
    taking.measure(kept, resume=resume)
    _draw(out, list(kept), page, **taking.facts())


@app.command("live")
def live_(
    out: Out,
    file: Annotated[Path, typer.Option(help="The scenario.")] = Path("scenarios/live.toml"),
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 3,
    runs: Annotated[int, typer.Option(min=2, help="Runs of every point.")] = 6,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the curves that have been measured.")] = False,
    page: PageOption = None,
) -> None:
    """The proxies paper's experiment between real hosts and in the simulator, with its report. Takes root."""
    taking = _Taking(out, ["live"])
    kept = {(server, way): out / KEPT / f"{server}-{way}.json" for server in live.SERVERS for way in live.WAYS}
    words = [str(binary), "lab", str(file), "--runs", str(runs), "--together", str(together)]
    with _failures(), installed(binary, "backfill"):
        taking.measure(
            {
                target: [*words, *(f"--set={path}={value}" for path, value in live.settings(*curve).items())]
                for curve, target in kept.items()
            },
            resume=resume,
        )
    with _failures():
        linux, runs, late = live.read(kept)
        measured = live.Live(linux, live.simulate(file, runs), runs, late, seed=1)
        study = live.study(measured, **taking.facts())
        _show(study, out, page, study.figures[1].text)


@app.command()
def fast(
    out: Out,
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    scenarios: Annotated[Path, typer.Option(help="Folder of the scenario files fast-*.toml.")] = Path("scenarios/lab"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a point at a time.")] = 4,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the files that have been measured.")] = False,
    page: PageOption = None,
) -> None:
    """Judge FAST in the kernel: its queue, fairness, CUBIC and the simulator beside it. Takes root and 20 minutes."""
    taking = _Taking(out, ["fast"])
    commands = dict.fromkeys(fast_study.MEASURED, "lab") | dict.fromkeys(fast_study.COMPARED, "compare")
    kept = {name: out / KEPT / f"{name}.json" for name in commands}
    taking.measure(
        {
            kept[name]: [str(binary), command, str(scenarios / f"{name}.toml"), "--together", str(together)]
            for name, command in commands.items()
        },
        resume=resume,
    )
    with _failures():
        measured = {name: fast_study.Measured.load(kept[name]) for name in fast_study.MEASURED}
        compared = [Comparison.load(kept[name]) for name in fast_study.COMPARED]
        study = fast_study.study(measured, compared, **taking.facts())
        _show(study, out, page, tables.lines(study.figures[4]), study.figures[5].text)


@app.command("random")
def random_(
    out: Out,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 1,
    count: Annotated[int, typer.Option(min=1, help="Scenarios to draw.")] = 20,
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    together: Annotated[int, typer.Option(min=1, help="Runs of a scenario at a time.")] = 3,
    controller: Annotated[
        Controller | None, typer.Option(help="Every server's congestion control, in place of one that is drawn.")
    ] = None,
) -> None:
    """Compare scenarios that are drawn at random, flow by flow and in the aggregate. Takes root and 5 minutes."""
    with _failures(), installed(binary, controller or drawn.CONTROLLERS[0]):
        lines = _drawn(
            out / f"seed-{seed}{f'-{controller}' if controller else ''}", seed, count, binary, together, controller
        )
    typer.echo("\n".join(lines))


def _drawn(out: Path, seed: int, count: int, binary: Path, together: int, controller: str | None) -> list[str]:
    """The table of scenarios that are drawn at random and compared, which is also left beside the folder `out`."""
    draw = random.Random(seed)
    results = []
    for number in range(count):
        folder = out / f"{number:02}"
        folder.mkdir(parents=True, exist_ok=True)
        text = drawn.scenario(draw, number, seed, controller)
        (folder / "drawn.toml").write_text(text, encoding="utf-8")
        title = text.split('"', 2)[1]
        typer.echo(f"{number + 1} of {count}: {title}", err=True)
        words = [
            str(binary),
            "compare",
            str(folder / "drawn.toml"),
            "--together",
            str(together),
            "--quiet",
            "--accept-late",
        ]
        ended = subprocess.run(
            [*words, "--out", str(folder / "compared"), "--force"], capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            _wrong(ended.stderr.strip())
        results.append(drawn.read(title, folder / "compared"))
    lines = drawn.table(results)
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


@app.command("trunks")
def trunks_(
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    page: PageOption = None,
    accept_late: Annotated[bool, typer.Option("--accept-late", help="Take results of a slow machine too.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="live-trunk or live-trunk-web; both unless said.")] = None,
    scenarios: Annotated[Path, typer.Option(help="Folder of web.toml and web-trunks.toml.")] = Path("scenarios/lab"),
) -> None:
    """The thesis's TT1, and TT2's web users, between real trunks; the simulator beside them. Takes root, 6 minutes."""
    parts = {
        "live-trunk": lambda: live_trunks.run(binary, accept_late),
        "live-trunk-web": lambda: live_trunks.web(scenarios, binary, accept_late),
    }
    with _failures():
        for name in only or parts:
            if name not in parts:
                raise typer.BadParameter(f"{name}: expected one of {', '.join(parts)}")
            lines = parts[name]()
            if page is not None:
                marked.write(page, name, "\n".join(lines))
            typer.echo("\n".join([*lines, ""]))


@app.command("sockets")
def sockets_(
    binary: Annotated[Path, typer.Option(help="The headend command.")] = Path("target/release/headend"),
    page: PageOption = None,
    accept_late: Annotated[bool, typer.Option("--accept-late", help="Take results of a slow machine too.")] = False,
    runs: Annotated[int, typer.Option(help="Runs of each point, either side.", min=1)] = 3,
) -> None:
    """The thesis's RS1 and RS2 through real sockets, Reno and the simulator beside. Takes root, 10 minutes."""
    with _failures():
        lines = live_sockets.run(binary, accept_late, runs)
        if page is not None:
            marked.write(page, "live-socket", "\n".join(lines))
        typer.echo("\n".join([*lines, ""]))


@app.command()
def report(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of an earlier report.")], page: PageOption = None
) -> None:
    """Draw the page again from what was measured."""
    try:
        earlier = json.loads((out / "study.json").read_text(encoding="utf-8"))
        facts = {"command": str(earlier["command"]), "started": str(earlier["started"])}
        elapsed_s = float(earlier["elapsed_s"])
    except (OSError, ValueError, KeyError) as error:
        _wrong(f"{out}: no report of a lab: {error}")
    _draw(out, sorted((out / KEPT).glob("*.json")), page, **facts, **_here(), elapsed_s=elapsed_s)


class _Taking:
    """Measurements that are being taken: what was asked, since when, and by which build."""

    def __init__(self, out: Path, words: list[str]) -> None:
        self._folder = out / KEPT
        self._command = shlex.join(["python", "-m", "headend.lab", *words, "--out", str(out)])
        self._started = datetime.datetime.now(datetime.UTC)
        self._clock = time.monotonic()

    def measure(self, commands: Mapping[Path, list[str]], *, resume: bool) -> None:
        """Run each command and keep what it prints, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number, (target, command) in enumerate(commands.items(), 1):
            if resume and target.exists():
                continue
            typer.echo(f"{number} of {len(commands)}: {target.stem}", err=True)
            # The page says which runs fell behind.
            _keep(target, [*command, "--accept-late", "--format", "json"])

    def facts(self) -> dict[str, Any]:
        """What a study says of itself."""
        return {
            "command": self._command,
            "started": self._started.isoformat(timespec="seconds"),
            "elapsed_s": round(time.monotonic() - self._clock, 3),
            **_here(),
        }


def _here() -> dict[str, str]:
    return {"machine": machine(), "version": f"headend {_native.__version__} ({_native.__commit__})"}


def _draw(out: Path, kept: list[Path], page: Path | None, **facts: Any) -> None:
    """The page of the grid."""
    if not kept:
        _wrong(f"{out / KEPT}: nothing was measured there")
    with _failures():
        _show(grid.study([Comparison.load(path) for path in kept], **facts), out, page)


def _show(study: StudyResult, out: Path, page: Path | None, *more: str) -> None:
    """The report, the verdicts, where the report is, and the part of a page of the docs that is this study's."""
    written = render(study, out)
    if page is not None:
        marked.write(page, study.id, "\n".join([tables.goals(study), *("\n" + table.strip() for table in more)]))
    for claim in study.claims():
        verdict = "met" if claim.verdict == "reproduced" else "missed"
        typer.echo(f"{claim.id}: {claim.measured}, goal {claim.published}: {verdict}")
    typer.echo(written)


@contextmanager
def _failures() -> Iterator[None]:
    """What can go wrong with what was measured, as a message and exit code 1."""
    try:
        yield
    except (
        ComparisonError,
        LabError,
        live.LiveError,
        MeasurementError,
        headend.ScenarioError,
        headend.SimulationError,
        OSError,
        FolderError,
        marked.MarkedError,
    ) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from error


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
