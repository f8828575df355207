"""`python -m headend.report RESULTS... --out DIR`: a report of results in folders, or again of a study's JSON.

headend sim scenarios/hfc.toml --out out/hfc
python -m headend.report out/hfc --out out/report
python -m headend.report out/hfc out/linux --out out/compared
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from headend.papers.model import StudyResult
from headend.report import FolderError, own, render
from headend.results import Result

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="Folders that `headend sim` or `headend lab` wrote (--out, --store), or `Result.save`, the first "
            "compared with the others; or the study.json of an earlier report.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")],
) -> None:
    """Write results as a page for the browser: DIR/index.html, which needs nothing else."""
    if any(path.is_file() or path.suffix == ".json" for path in results):
        if len(results) > 1:
            raise _refusal("a study.json stands alone; what can be compared are folders of results")
        study = _study(results[0])
    else:
        read = {}
        for path in results:
            try:
                read[_name(path, results)] = Result.load(path)
            except (OSError, ValueError) as error:
                raise _refusal(str(error)) from error
        words = ["python", "-m", "headend.report", *map(str, results), "--out", str(out)]
        study = own.study(read, shlex.join(words))
    try:
        page = render(study, out)
    except FolderError as error:
        raise _refusal(str(error)) from error
    typer.echo(page)


def _study(path: Path) -> StudyResult:
    try:
        return StudyResult.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refusal(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # not JSON, not UTF-8, or not a study
        raise _refusal(f"{path} is not a study: {error}") from error


def _name(path: Path, others: list[Path]) -> str:
    """The folder's name, or as much of its path as tells it from the others."""
    same = [other for other in others if other.name == path.name]
    return path.name if len(same) == 1 and path.name else str(path)


def _refusal(message: str) -> typer.Exit:
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(2)


if __name__ == "__main__":
    app(prog_name="python -m headend.report")
