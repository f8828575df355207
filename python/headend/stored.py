"""Results in a folder: Parquet files and what a rerun takes; those that `headend sim --out` wrote, as CSV; stores."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars

from headend.results import OPTIONAL, Capture, NativeColumn, Result, Table, columns
from headend.store import Store

FORMAT = "headend results 1"
_MANIFEST = "result.json"
_OF_COMMAND = "meta.json"
_OF_STORE = "store.json"
_FILES = {"trace": "series"}
"""Files of the command that are not called as their tables are here."""


def save(result: Result, folder: str | os.PathLike[str]) -> None:
    """As `Result.save`."""
    target = Path(folder)
    if target.exists():
        raise FileExistsError(f"{target} is there already; results are written into a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        tables = {name: getattr(result, name) for name in ("flows", "links", *OPTIONAL)}
        for name, table in tables.items():
            if table is not None:
                table.polars().write_parquet(part / f"{name}.parquet")
        captures = []
        for number, capture in enumerate(result.captures):
            (part / f"{number}.pcapng").write_bytes(capture.pcapng)
            captures.append({key: value for key, value in asdict(capture).items() if key != "pcapng"})
        manifest = {"format": FORMAT, "seed": result.seed, "meta": result.meta, "captures": captures}
        (part / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        (part / "scenario.toml").write_text(result.scenario, encoding="utf-8")
        part.chmod(0o755)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def load(folder: str | os.PathLike[str]) -> Result:
    """As `Result.load`."""
    source = Path(folder)
    if not source.is_dir():
        raise FileNotFoundError(f"there is no folder {source}")
    if (source / _OF_STORE).exists():
        return Store.open(source).load()
    try:
        if (source / _OF_COMMAND).exists():
            return _of_command(source)
        manifest: dict[str, Any] = json.loads((source / _MANIFEST).read_text(encoding="utf-8"))
        if manifest.get("format") != FORMAT:
            raise ValueError(f"{source / _MANIFEST} says {manifest.get('format')!r}, where {FORMAT!r} is needed")
        tables = {name: _table(source / f"{name}.parquet") for name in ("flows", "links")}
        others = {name: _table(path) for name in OPTIONAL if (path := source / f"{name}.parquet").exists()}
        captures = [
            Capture(**capture, pcapng=(source / f"{number}.pcapng").read_bytes())
            for number, capture in enumerate(manifest["captures"])
        ]
        scenario = (source / "scenario.toml").read_text(encoding="utf-8")
    except (OSError, json.JSONDecodeError, KeyError, TypeError, polars.exceptions.PolarsError) as error:
        raise ValueError(f"{source} is no folder of results, or not whole: {error}") from error
    optional = {name: others.get(name) for name in OPTIONAL}
    return Result(
        flows=tables["flows"],
        links=tables["links"],
        **optional,
        captures=captures,
        scenario=scenario,
        seed=int(manifest["seed"]),
        meta=dict(manifest["meta"]),
    )


def _of_command(source: Path) -> Result:
    """What `headend sim --out` or `headend lab --out` wrote."""
    meta: dict[str, Any] = json.loads((source / _OF_COMMAND).read_text(encoding="utf-8"))
    flows, links = (_from_csv(source / f"{name}.csv", name) for name in ("flows", "links"))
    paths = {name: source / f"{_FILES.get(name, name)}.csv" for name in OPTIONAL}
    others = {name: _from_csv(path, name) if path.exists() else None for name, path in paths.items()}
    return Result(
        flows=flows,
        links=links,
        **others,
        captures=[],
        scenario=(source / "scenario.toml").read_text(encoding="utf-8"),
        seed=int(meta["seed"]),
        meta={"version": str(meta["version"]), "commit": str(meta["commit"] or "")},
    )


def _from_csv(path: Path, table: str) -> Table:
    texts = polars.read_csv(path, infer_schema=False).fill_null("")
    defined = columns()
    of_table = {**defined["common"], **defined.get(_FILES.get(table, table), {})}
    units = {name: definition.unit for name, definition in of_table.items()}
    return Table({series.name: _from_texts(series, units.get(series.name, "")) for series in texts})


def _from_texts(series: polars.Series, unit: str) -> NativeColumn:
    """Numbers where all values are; swept fields are text whatever they look like, as from `headend.run`."""
    is_swept = "." in series.name
    there = series.filter(series != "")
    if is_swept or (not unit and len(there) == 0 and len(series) > 0):
        return _coded(series)
    if len(there) == len(series) and (counts := series.cast(polars.UInt64, strict=False)).null_count() == 0:
        return counts.to_numpy()
    numbers = series.cast(polars.Float64, strict=False).fill_null(float("nan"))
    return _coded(series) if there.cast(polars.Float64, strict=False).null_count() else numbers.to_numpy()


def table_of(frame: polars.DataFrame) -> Table:
    """A frame as a table; a number that is null has no value."""
    return Table({series.name: _column(series) for series in frame})


def _table(path: Path) -> Table:
    return table_of(polars.read_parquet(path))


def _column(series: polars.Series) -> NativeColumn:
    if series.dtype != polars.String:
        return series.fill_null(float("nan")).to_numpy() if series.dtype.is_float() else series.to_numpy()
    return _coded(series)


def _coded(series: polars.Series) -> NativeColumn:
    """Text as codes, in the order of first appearance."""
    names = series.unique(maintain_order=True).to_list()
    if not names:
        return np.empty(0, dtype=np.uint32), names
    codes = series.replace_strict(names, range(len(names)), return_dtype=polars.UInt32)
    return np.asarray(codes.to_numpy(), dtype=np.uint32), names
