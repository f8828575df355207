"""A figure's numbers as tables to read and as CSV to take away."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headend.papers.model import FigureResult, Series
from headend.report import formats
from headend.report.panels import Panel

SHOWN_ROWS = 60
"""A longer table is cut in the page; the CSV is whole."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for a reader."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    total: int
    """Rows there are; `rows` holds the first of them, if there are too many."""


def tables(figure: FigureResult, shown: Iterable[Panel]) -> list[Table]:
    """A table a panel: a row for each swept value, a column for each curve; packets as they come."""
    if figure.ladder or figure.kind == "sequence":
        rows = [tuple(_text(cell) for cell in row) for row in _rows(figure)]
        return [Table("", _header(figure), rows[:SHOWN_ROWS], len(rows))] if rows else []
    result = []
    for panel in shown:
        series = [curve.series for curve in panel.curves]
        cells = [dict(zip(one.x, _cells(one), strict=True)) for one in series]
        swept = sorted({x for one in series for x in one.x})
        rows = [(formats.shown(x, 6), *(column.get(x, "") for column in cells)) for x in swept]
        header = (figure.x_label, *(one.label for one in series))
        result.append(Table(panel.title, header, rows[:SHOWN_ROWS], len(rows)))
    return result


def _cells(series: Series) -> Iterator[str]:
    for y, lo, hi in zip(series.y, series.lo, series.hi, strict=True):
        bounds = formats.interval(lo, hi)
        yield f"{formats.shown(y)} ({bounds})" if bounds else formats.shown(y)


def _text(cell: str | float) -> str:
    return cell if isinstance(cell, str) else formats.shown(cell, 6)


def csv_text(figure: FigureResult) -> str:
    """Every number of a figure as CSV; empty if there is none."""
    rows = list(_rows(figure))
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_header(figure))
    writer.writerows(rows)
    return out.getvalue()


def _header(figure: FigureResult) -> tuple[str, ...]:
    if figure.ladder:
        return ("panel", "sent [s]", "received [s]", "from", "to", "packet", "kind")
    if figure.kind == "sequence":
        return ("panel", "series", figure.x_label, figure.y_label)
    bounds = ("25%", "75%") if figure.kind == "quartiles" else ("95% from", "95% to")
    return ("panel", "series", figure.x_label, figure.y_label, *bounds)


def _rows(figure: FigureResult) -> Iterator[tuple[str | float, ...]]:
    for arrow in figure.ladder:
        received = "lost" if arrow.t_recv_s is None else arrow.t_recv_s
        yield (arrow.group, arrow.t_send_s, received, arrow.sender, arrow.receiver, arrow.label, arrow.kind)
    for one in (*figure.series, *figure.reference):
        for x, y, lo, hi in zip(one.x, one.y, one.lo, one.hi, strict=True):
            yield (one.group, one.label, x, y) if figure.kind == "sequence" else (one.group, one.label, x, y, lo, hi)
