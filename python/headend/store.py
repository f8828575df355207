"""Results of a study in a folder of Parquet files, written as they come and read without holding them in memory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headend.results import OPTIONAL, Result

if TYPE_CHECKING:
    import polars

FORMAT = "headend store 1"


@dataclass(frozen=True, slots=True)
class Store:
    """The results of a study in a folder, as `headend.run(..., store=folder)` and `headend sim --store` write them."""

    folder: Path
    build: str
    """The version of headend that the results are of, and a hash of its sources."""
    title: str
    seed: int
    points: int
    runs: int
    """Runs of each point."""
    tasks: int
    """Parts that the whole has."""

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> Store:
        """The store in a folder.

        Raises FileNotFoundError if there is none, and ValueError if what is there is none.
        """
        path = Path(folder)
        try:
            header: dict[str, Any] = json.loads((path / "store.json").read_text(encoding="utf-8"))
            if header["format"] != FORMAT:
                raise ValueError(f"{path} is of the format {header['format']!r}, where {FORMAT!r} is needed")
            own = {name: header[name] for name in ("build", "title", "seed", "points", "runs")}
            tasks = -(-header["points"] * header["runs"] // header["task_runs"])
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is no store: it has no store.json") from None
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no store: its store.json is not whole") from error
        return Store(folder=path, tasks=tasks, **own)

    @property
    def parts(self) -> list[str]:
        """The names of the parts that are there, in the order of their runs."""
        return sorted(path.stem for path in (self.folder / "parts").glob("[0-9]*.json"))

    @property
    def is_whole(self) -> bool:
        """True if every part is there."""
        return len(self.parts) == self.tasks

    def scan(self, table: str = "flows", *, partial: bool = False) -> polars.LazyFrame:
        """A table as a lazy polars frame, rows in the order of points and runs; numbers without a value are null.

        Args:
            table: "flows", "links", "circuits", "media" or "intervals".
            partial: True to take the parts that are there while others are missing.

        Raises ValueError if parts are missing, or the results have no such table.
        """
        import polars

        parts = self.parts
        if len(parts) < self.tasks and not partial:
            raise ValueError(
                f"{self.folder} has {len(parts)} of {self.tasks} parts: run the others, or ask for partial=True"
            )
        if len({name.split("-")[0] for name in parts}) < len(parts) or len(parts) > self.tasks:
            raise ValueError(f"{self.folder} has parts of another study: remove the folder, and run the study again")
        files = [path for name in parts if (path := self._file(name, table)) is not None]
        if not files:
            raise ValueError(f"{self.folder} has no table {table!r}")
        return polars.scan_parquet(files)

    def _file(self, name: str, table: str) -> Path | None:
        """The file of a part's table, as long as its record says; None if the part has no such table."""
        record = json.loads((self.folder / "parts" / f"{name}.json").read_text(encoding="utf-8"))
        if table not in record["tables"]:
            return None
        path = self.folder / table / f"{name}.parquet"
        if not path.exists() or path.stat().st_size != record["tables"][table]["bytes"]:
            raise ValueError(f"{path} is missing or not whole: run the study again, which makes this part anew")
        return path

    def load(self) -> Result:
        """All tables, in memory: what `headend.run` returns for the same study."""
        from headend.stored import table_of

        others = {name: (self.folder / name).is_dir() for name in OPTIONAL}
        version, _, _ = self.build.partition("+")
        return Result(
            flows=table_of(self.scan("flows").collect()),
            links=table_of(self.scan("links").collect()),
            **{name: table_of(self.scan(name).collect()) if there else None for name, there in others.items()},
            captures=[],
            scenario=(self.folder / "scenario.toml").read_text(encoding="utf-8"),
            seed=self.seed,
            meta={"version": version, "build": self.build},
        )


def scan(folder: str | os.PathLike[str], table: str = "flows", *, partial: bool = False) -> polars.LazyFrame:
    """A table of a folder of results as a lazy polars frame; as `headend.Store.scan`."""
    return Store.open(folder).scan(table, partial=partial)
