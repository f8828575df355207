"""A figure's numbers as a table to read and as CSV to take away."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from headend.papers.model import Arrow, FigureResult, Series
from headend.report import numbers

SHOWN_ROWS = 240
"""A longer table is cut in the page; the CSV is whole."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a figure shows, in rows."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    total: int
    """Rows there are; `rows` holds the first of them only, if there are too many."""
    csv_link: str
    """The whole as a data URI."""


def table(figure: FigureResult) -> Table | None:
    """The numbers of a figure; None if it shows none."""
    header = _header(figure)
    rows = list(_rows(figure))
    if not rows:
        return None
    shown = [tuple(numbers.shown(v) if isinstance(v, float) else v for v in row) for row in rows[:SHOWN_ROWS]]
    return Table(header, shown, len(rows), _csv_link(header, rows))


def _header(figure: FigureResult) -> tuple[str, ...]:
    if figure.ladder:
        return ("panel", "sent [s]", "received [s]", "from", "to", "packet", "kind")
    bounds = ("25%", "75%") if figure.kind == "quartiles" else ("95% from", "95% to")
    return ("panel", "series", figure.x_label, figure.y_label, *bounds)


def _rows(figure: FigureResult) -> Iterator[tuple[str | float, ...]]:
    if figure.ladder:
        yield from map(_arrow_row, figure.ladder)
        return
    for source, series in (("", figure.series), ("ns-2: ", figure.reference)):
        for one in series:
            yield from _series_rows(source, one)


def _arrow_row(arrow: Arrow) -> tuple[str | float, ...]:
    received = "lost" if arrow.t_recv_s is None else arrow.t_recv_s
    return (arrow.group, arrow.t_send_s, received, arrow.sender, arrow.receiver, arrow.label, arrow.kind)


def _series_rows(source: str, series: Series) -> Iterator[tuple[str | float, ...]]:
    exact = series.lo == series.y == series.hi
    for x, y, lo, hi in zip(series.x, series.y, series.lo, series.hi, strict=True):
        yield (series.group, source + series.label, x, y, *(("", "") if exact else (lo, hi)))


def _csv_link(header: tuple[str, ...], rows: list[tuple[str | float, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[numbers.carried(v, 7) if isinstance(v, float) else v for v in row] for row in rows])
    return "data:text/csv;charset=utf-8," + quote(out.getvalue(), safe=" ,:;()[]/=+-.!*'")
