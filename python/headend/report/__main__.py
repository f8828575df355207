"""`python -m headend.report STUDY.json --out DIR`: the report again, from the study's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headend.papers.model import StudyResult
from headend.report import FolderError, render

app = typer.Typer(add_completion=False)


@app.command()
def main(
    study: Annotated[Path, typer.Argument(metavar="STUDY.json", help="The study.json of an earlier report.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")],
) -> None:
    """Write the report of a study again, from the JSON that lies beside it."""
    try:
        result = StudyResult.from_json(study.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refusal(f"{study}: {error.strerror or error}") from error
    except ValueError as error:  # not JSON, not UTF-8, or not a study
        raise _refusal(f"{study} is not a study: {error}") from error
    try:
        page = render(result, out)
    except FolderError as error:
        raise _refusal(str(error)) from error
    typer.echo(page)


def _refusal(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(2)


if __name__ == "__main__":
    app(prog_name="python -m headend.report")
