"""`python -m headend.plot DIR|FILE`, or `headend plot`: results in a folder, or those of a scenario, drawn.

headend sim scenarios/hfc.toml --out out/hfc
python -m headend.plot out/hfc -y transfer_s -o transfer.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import matplotlib as mpl
import typer

from headend import Result, ScenarioError, run

FORMATS = ("svg", "pdf", "png")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def draw(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE",
            help="What `headend sim --out` or `Result.save` wrote, or a store; or a scenario, which is simulated.",
        ),
    ],
    y: Annotated[str, typer.Option("-y", "--y", help="A column of the table of flows.")] = "goodput_bps",
    x: Annotated[str | None, typer.Option("-x", "--x", help="A swept field, if several are; or a column.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="What has a line for each value; else all that differs.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The file: .svg, .pdf or .png.")] = None,
) -> None:
    """Draw medians over the runs with their 95% intervals, against what was swept.

    Example: python -m headend.plot out/hfc -y timeouts -x links.cable.down.loss -o timeouts.pdf
    """
    file = out or (results if results.is_dir() else Path()) / f"{y}.svg"
    if file.suffix.removeprefix(".") not in FORMATS:
        raise _refusal(f"{file}: a plot is one of {', '.join('.' + name for name in FORMATS)}")
    if not file.parent.is_dir():
        raise _refusal(f"{file}: there is no folder {file.parent}")
    mpl.use("agg")
    try:
        shown = run(results) if results.is_file() else Result.load(results)
        axes = shown.plot(y, x=x, by=by)
    except (ValueError, OSError, ScenarioError) as error:
        raise _refusal(str(error)) from error
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes are on a figure"
    figure.savefig(file)
    typer.echo(f"wrote {file}", err=True)


def _refusal(message: str) -> typer.Exit:
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(2)


if __name__ == "__main__":
    app(prog_name="python -m headend.plot")
