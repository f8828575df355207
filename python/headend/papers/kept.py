"""Finished runs on disk, beside the report that they are for, so that an interruption loses none of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headend import _native

REQUEST = "request.json"
"""Says of which request and build the runs are; every folder of kept runs has it."""


class KeptError(Exception):
    """Runs cannot be kept where they would have to be."""


@dataclass(frozen=True)
class Kept:
    """The folder `NAME.part` beside a report's folder `NAME`, with a journal for each sweep."""

    folder: Path
    outdated: bool = False
    """Runs of another request or build were here, and had to go."""

    @classmethod
    def open(cls, out: Path, request: Mapping[str, Any], *, resume: bool) -> Kept:
        """Make the folder that belongs to `out`, or with `resume` take up the one that an interruption left.

        Runs of another request or another build would not be those that are asked for: then it starts anew.

        Raises KeptError if there are runs and `resume` is not asked for, or something that is not ours.
        """
        if out.exists() and not out.is_dir():
            raise KeptError(f"{out} is a file; the report needs a folder")
        folder = out.absolute().with_name(f"{out.absolute().name}.part")
        marker = folder / REQUEST
        wanted = json.dumps({**request, "build": build()}, indent=1) + "\n"
        outdated = False
        try:
            if folder.exists():
                if not marker.is_file():
                    raise KeptError(f"{folder} is there and holds no interrupted run (no {REQUEST}); move it away")
                if not resume:
                    raise KeptError(f"{folder}: an interrupted run is kept here; --resume takes it up, or remove it")
                if marker.read_text(encoding="utf-8") == wanted:
                    return cls(folder)
                shutil.rmtree(folder)
                outdated = True
            folder.mkdir(parents=True)
            marker.write_text(wanted, encoding="utf-8")
        except OSError as error:
            raise KeptError(f"{error.filename or folder}: {error.strerror or error}") from error
        return cls(folder, outdated)

    def journal(self, scenario: Path, *sweep: Any) -> Path:
        """Where the runs go of one sweep of a scenario file: a folder for each content of the file and each sweep."""
        digest = hashlib.sha256(scenario.read_bytes())
        digest.update(repr(sweep).encode())
        return self.folder / digest.hexdigest()[:16]

    def runs(self) -> int:
        """How many runs are here."""
        # The first line of a journal says whose it is, and every line ends with a line break.
        counts = (path.read_bytes().count(b"\n") - 1 for path in self.folder.glob("*/journal.jsonl"))
        return sum(max(count, 0) for count in counts)

    def remove(self) -> None:
        """The report is written; the runs are no longer needed."""
        shutil.rmtree(self.folder, ignore_errors=True)


def build() -> str:
    """What tells this build from others: the native module's hash, which changes with every change of the simulator."""
    assert _native.__file__ is not None, "the native module is a file"
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
