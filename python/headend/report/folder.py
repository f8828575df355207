"""A folder of files, written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

FIGURES = "figures"


class FolderError(Exception):
    """The report cannot go where it was asked to."""


def write(out: Path, files: Mapping[str, bytes], last: str) -> None:
    """Write `files`, by path within `out`, so that no reader finds half of them.

    A new folder appears complete. In an existing one every file is replaced at once, `last` after all others; figures
    of an earlier report that are no longer drawn go, anything else in the folder stays.

    Raises FolderError if `out` is a file or may not be written.
    """
    if out.exists() and not out.is_dir():
        raise FolderError(f"{out} is a file; the report needs a folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
            stage = Path(scratch) / out.name
            for name, content in files.items():
                path = stage / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            if out.exists():
                _replace(stage, out, files, last)
            else:
                stage.rename(out)
    except OSError as error:
        raise FolderError(f"{error.filename or out}: {error.strerror or error}") from error


def _replace(stage: Path, out: Path, files: Mapping[str, bytes], last: str) -> None:
    for name in sorted(files, key=lambda name: name == last):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(out / name)
    for stale in (out / FIGURES).glob("*.*"):
        if stale.suffix in (".svg", ".csv") and f"{FIGURES}/{stale.name}" not in files:
            stale.unlink()
    shutil.rmtree(stage)
