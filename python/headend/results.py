"""What a simulation yields: tables of equally long columns, each named with its unit last."""

from __future__ import annotations

import difflib
import html
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headend import _native

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

NativeColumn: TypeAlias = "NDArray[Any] | tuple[NDArray[np.uint32], list[str]]"
"""Numbers, or for text the place of each row's text in a list."""


class ColumnError(KeyError):
    """A table has no column of this name."""

    def __str__(self) -> str:
        return str(self.args[0])


class Table(Mapping[str, NDArray[Any]]):
    """Columns by name, in order; rows by position.

    Number columns are the simulator's own memory (`uint64` or `float64`, NaN for "no value"). Text columns are kept as
    codes and become arrays of `str` when asked for.
    """

    def __init__(self, columns: Mapping[str, NativeColumn]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[self.named(name)]
        if isinstance(column, tuple):
            codes, names = column
            return np.array(names, dtype=np.str_)[codes] if names else np.empty(0, dtype=np.str_)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        names = list(self._columns)
        shown = ", ".join(names[:_COLUMNS_SHOWN])
        return f"Table({self.rows} rows, {len(names)} columns: {shown}{', ...' if len(names) > _COLUMNS_SHOWN else ''})"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        shown = self.head(_ROWS_SHOWN)
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
        columns = [[_cell(value) for value in column] for column in shown.values()]
        rows = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
        more = f"<p>{self.rows - shown.rows} more rows</p>" if self.rows > shown.rows else ""
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def __eq__(self, other: object) -> bool:
        """True if the other table has the same columns in the same order, with the same values; NaN equals NaN."""
        if not isinstance(other, Table):
            return NotImplemented
        return list(self) == list(other) and all(_same(self[name], other[name]) for name in self)

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table for whoever speaks Arrow: pandas.DataFrame.from_arrow, pyarrow.table, duckdb."""
        return self.polars().__arrow_c_stream__(requested_schema)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        for column in self._columns.values():
            return len(column[0] if isinstance(column, tuple) else column)
        return 0

    def head(self, rows: int = 10) -> Table:
        """The first rows."""
        return self._rows(slice(rows))

    def where(self, **equal: Any) -> Table:
        """The rows in which every named column has the given value.

        A column of text compares with text as it stands, and with a number as the quantity that the text is, in bit/s,
        bytes, seconds, or from 0 to 1: `where(**{"links.cable.down.loss": 0.01})` finds "1%", and so does
        `where(loss=0.01)` if no other swept field ends in "loss".

        Raises KeyError for a column that there is not, and TypeError for a number where the texts are no quantities.
        """
        keep = np.ones(self.rows, dtype=np.bool_)
        for name, value in equal.items():
            name = self.named(name)
            column = self._columns[name]
            if isinstance(column, tuple):
                codes, texts = column
                keep &= np.isin(codes, [code for code, text in enumerate(texts) if _is(name, text, value)])
            else:
                keep &= column == value
        return self._rows(keep)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers; quantities as text, such as those of a swept field, in bit/s, bytes, seconds, or 0 to 1.

        Raises ValueError if one of its texts is no quantity.
        """
        name = self.named(name)
        column = self._columns[name]
        if not isinstance(column, tuple):
            return np.asarray(column, dtype=np.float64)
        codes, texts = column
        return np.array([_quantity(name, text) for text in texts], dtype=np.float64)[codes]

    def named(self, name: str) -> str:
        """The column of this name; a swept field also goes by the end of its path, if no other ends so: "loss".

        Raises KeyError, with what there is.
        """
        if name in self._columns:
            return name
        ending = [column for column in self._columns if column.endswith(f".{name}")]
        if len(ending) == 1:
            return ending[0]
        if ending:
            raise ColumnError(f"several columns end in {name!r}: {', '.join(ending)}")
        near = difflib.get_close_matches(name, self._columns, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self._columns)}"
        raise ColumnError(f"there is no column {name!r}; {hint}")

    def _rows(self, which: NDArray[np.bool_] | slice) -> Table:
        return Table(
            {
                name: (column[0][which], column[1]) if isinstance(column, tuple) else column[which]
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


_COLUMNS_SHOWN, _ROWS_SHOWN = 8, 20


def _cell(value: Any) -> str:
    return f"<td>{value:.6g}</td>" if isinstance(value, float) else f"<td>{html.escape(str(value))}</td>"


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _quantity(name: str, text: str) -> float:
    number = _native.quantity(text)
    if number is None:
        raise ValueError(f"{name} is {text!r} in a row, which is no quantity")
    return number


def _is(name: str, text: str, value: Any) -> bool:
    if isinstance(value, str):
        return text == value
    number = _native.quantity(text)
    if number is None:
        raise TypeError(f"{name} is text, such as {text!r}: compare it with text, not with {value!r}")
    return bool(np.isclose(number, value, rtol=1e-12, atol=0.0))


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


@dataclass(frozen=True, slots=True, repr=False)
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

    def __repr__(self) -> str:
        points, runs = (len(np.unique(self.flows[name])) for name in ("point", "run"))
        others = [name for name in OPTIONAL if getattr(self, name) is not None]
        more = f", {', '.join(others)}" if others else ""
        return f"Result({points} points x {runs} runs from seed {self.seed}; flows, links{more})"

    def _repr_html_(self) -> str:
        """The summary, for a notebook."""
        return f"<p>{html.escape(repr(self))}</p>{self.summary()._repr_html_()}"

    def summary(self) -> Table:
        """Medians over the runs, a row for each point and flow, as `headend sim` prints them.

        `goodput_bps` and `transfer_s` come with the 95% interval of the median, `_from` and `_to`, NaN for fewer than
        six runs.
        """
        from headend.summary import summary

        return summary(self)

    def plot(
        self, y: str = "goodput_bps", *, x: str | None = None, by: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw medians over the runs with their 95% intervals, on matplotlib axes.

        Args:
            y: A column of `flows`.
            x: A swept field, or a column of `flows`; the sweep's field if there is one alone.
            by: A swept field or a column of `flows` with a line for each of its values; else the rest of the sweep and
                the flow.
            ax: Axes to draw on; new ones unless given.

        Raises ValueError if there is nothing to put on the x axis, or no such column.
        """
        from headend.plotting import plot

        return plot(self, y, x=x, by=by, ax=ax)

    def report(self, folder: str | os.PathLike[str], *, name: str = "these", **others: Result) -> str:
        """Write a page for the browser: all that was swept with intervals, queues and times, and of a trace one run.

        Args:
            folder: Where `index.html` goes, which needs nothing else.
            name: What these results are called where others are compared with them.
            others: Results to compare with, each by its name: `result.report("out", before=old)`.

        Returns the path of the page. Raises `headend.report.FolderError` if the folder cannot be written.
        """
        from headend.report import own, render

        return str(render(own.study({name: self, **others}), os.fspath(folder)))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write tables as Parquet, captures, and what a rerun takes into a new folder, whole or not at all.

        Raises FileExistsError if the folder is there.
        """
        from headend.stored import save

        save(self, folder)

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> Result:
        """What `save` has written, `headend sim` or `headend lab` with `--out`, or a whole store.

        Raises FileNotFoundError if there is no such folder, and ValueError if it holds no such results.
        """
        from headend.stored import load

        return load(folder)

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
