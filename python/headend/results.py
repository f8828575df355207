"""What a simulation yields: tables of equally long columns, each named with its unit last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headend import _native

if TYPE_CHECKING:
    import polars

NativeColumn: TypeAlias = "NDArray[Any] | tuple[NDArray[np.uint32], list[str]]"
"""Numbers, or for text the place of each row's text in a list."""


class Table(Mapping[str, NDArray[Any]]):
    """Columns by name, in order; rows by position.

    Number columns are the simulator's own memory (`uint64` or `float64`, NaN for "no value"). Text columns are kept as
    codes and become arrays of `str` when asked for.
    """

    def __init__(self, columns: Mapping[str, NativeColumn]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, tuple):
            codes, names = column
            return np.array(names, dtype=np.str_)[codes] if names else np.empty(0, dtype=np.str_)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.rows} rows: {', '.join(self._columns)})"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        for column in self._columns.values():
            return len(column[0] if isinstance(column, tuple) else column)
        return 0

    def where(self, **equal: Any) -> Table:
        """The rows in which every named column has the given value; text columns compare by their code."""
        keep = np.ones(self.rows, dtype=np.bool_)
        for name, value in equal.items():
            column = self._columns[name]
            if isinstance(column, tuple):
                codes, names = column
                keep &= np.isin(codes, [code for code, text in enumerate(names) if text == value])
            else:
                keep &= column == value
        return Table(
            {
                name: (column[0][keep], column[1]) if isinstance(column, tuple) else column[keep]
                for name, column in self._columns.items()
            }
        )

    def by_run(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sums of a value of each row, by run."""
        return np.asarray(np.bincount(self["run"].astype(np.int64), weights=values), dtype=np.float64)

    def polars(self) -> polars.DataFrame:
        """The table as a polars frame; text columns are of type String."""
        import polars

        return polars.DataFrame(
            {
                name: polars.Series(name, column[1], dtype=polars.String).gather(column[0])
                if isinstance(column, tuple)
                else column
                for name, column in self._columns.items()
            }
        )


@dataclass(frozen=True, slots=True)
class Definition:
    """What the values of a column are."""

    unit: str
    """Such as "s" or "bit/s"; empty for text, a count or a ratio."""
    meaning: str


def columns() -> dict[str, dict[str, Definition]]:
    """The definitions of all columns, by table and name; those that every table has are in "common"."""
    tables: dict[str, dict[str, Definition]] = {}
    for table, name, unit, meaning in _native.columns():
        tables.setdefault(table, {})[name] = Definition(unit, meaning)
    return tables


@dataclass(frozen=True, slots=True)
class Capture:
    """What one host saw in one run, as a pcapng file that Wireshark reads."""

    point: int
    run: int
    host: str
    pcapng: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """A sweep's results, with what is needed to have them again."""

    flows: Table
    """One row per flow instance."""
    links: Table
    """One row per link direction."""
    trace: Table | None
    """With `trace=True`: cwnd, ssthresh, flight and RTO of the senders, a row for each change."""
    packets: Table | None
    """With `trace=True`: what happened to each packet."""
    captures: list[Capture]
    """With `trace=True`: one file for each run and host."""
    scenario: str
    """The scenario as it ran, settings applied: TOML text."""
    seed: int
    meta: dict[str, str]
    """`version` and `commit` of headend."""
    circuits: Table | None = None
    """If the scenario has circuits: one row for each."""
    media: Table | None = None
    """If the scenario has flows of frames: what became of the frames of each."""
    intervals: Table | None = None
    """If the scenario has an `interval`: one row per flow instance and link direction and interval."""

    def table(self, name: str) -> Table:
        """One of the tables that not every scenario has: "circuits", "media", "intervals", "trace" or "packets".

        Raises ValueError if the results are without it.
        """
        table = getattr(self, name)
        if not isinstance(table, Table):
            raise ValueError(f"the results have no table {name!r}: the scenario or the request asked for nothing of it")
        return table

    def point(self, index: int) -> Result:
        """What one point of the sweep yielded, with all its tables."""
        tables = {name: getattr(self, name) for name in ("flows", "links", *OPTIONAL)}
        return replace(self, **{name: table and table.where(point=index) for name, table in tables.items()})


OPTIONAL = ("circuits", "media", "intervals", "trace", "packets")
"""Tables that depend on the scenario, or on `trace=True`."""
