"""ns-2's curves beside ours: tables measured for this project, see reference/ns2/README.md."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from headend.papers.model import Series, Style
from headend.papers.stats import student_t95

FOLDER = Path(__file__).parent / "reference" / "ns2"

ERA = {"ns2": "ns-2.35", "ns96": "ns-1996"}
"""Our loss-recovery rules for a table's `sim`; its third, ns-2.35's own defaults, is not rerun."""

UNUSED = frozenset(
    {
        "min_Mbps",
        "max_Mbps",
        "mean_ack_Mbps",
        "sd_T_s",
        "timeouts_p25",
        "timeouts_p50",
        "timeouts_p75",
        "fastrtx_mean",
        "rexmit_mean",
        "seed",
    }
)
"""Columns of results that nothing is compared with."""

Statistic = Literal["mean", "quartiles"]


@dataclass(frozen=True, slots=True)
class Row:
    """A point of a reference curve; the columns are explained in the README of the tables."""

    fig: str
    sim: str
    series: str
    xname: str
    x: float
    bytes: float
    win_pkts: float
    iw: float
    delack: float
    tick_s: float
    numdup: float
    wire_B: float  # noqa: N815 - the table's name
    dloss: float
    uloss: float
    rloss: float
    rtt_s: float
    remrtt_s: float | None
    cmq: float | None
    nconn: float
    proxy: str
    reps: float
    mean_Mbps: float  # noqa: N815
    p25_Mbps: float  # noqa: N815
    p50_Mbps: float  # noqa: N815
    p75_Mbps: float  # noqa: N815
    sd_Mbps: float  # noqa: N815
    agg_Mbps: float  # noqa: N815
    mean_T_s: float  # noqa: N815
    timeouts_mean: float
    sent_mean: float

    @property
    def mean_half_width(self) -> float:
        """Half of the 95% interval of `mean_Mbps`."""
        if self.reps < 2:
            return 0.0
        return student_t95(int(self.reps) - 1) * self.sd_Mbps / math.sqrt(self.reps)


@cache
def rows(fig: str) -> tuple[Row, ...]:
    """All rows of a table such as "p1_fig04"."""
    path = FOLDER / f"{fig}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(_row(path, line) for line in csv.DictReader(file))


def tables(prefix: str) -> list[str]:
    """The names of the tables that begin so."""
    return sorted(path.stem for path in FOLDER.glob(f"{prefix}*.csv"))


def series(
    fig: str,
    name: str,
    label: str,
    *,
    sim: str = "ns2",
    statistic: Statistic = "mean",
    group: str = "",
    style: Style = "points",
    where: Iterable[tuple[str, Any]] = (),
    x_scale: float = 1.0,
) -> Series:
    """A curve of a table with its 95% interval, or its median between the quartiles."""
    found = [row for row in rows(fig) if row.sim == sim and row.series == name]
    found = [row for row in found if all(getattr(row, column) == value for column, value in where)]
    if not found:
        raise KeyError(f"{fig}: no series {name!r} of {sim}")
    if statistic == "mean":
        points = [(r.mean_Mbps, r.mean_Mbps - r.mean_half_width, r.mean_Mbps + r.mean_half_width) for r in found]
    else:
        points = [(r.p50_Mbps, r.p25_Mbps, r.p75_Mbps) for r in found]
    y, lo, hi = (list(column) for column in zip(*points, strict=True))
    return Series(label, [row.x * x_scale for row in found], y, lo, hi, group, style)


def ratio(above: Series, below: Series, label: str, *, group: str = "") -> Series:
    """One reference curve over another, where both have points; intervals by propagation of error."""
    under = {x: (y, hi - lo) for x, y, lo, hi in zip(below.x, below.y, below.lo, below.hi, strict=True)}
    points = []
    for x, y, lo, hi in zip(above.x, above.y, above.lo, above.hi, strict=True):
        if x in under:
            base, width = under[x]
            half = y / base * math.hypot((hi - lo) / 2 / y, width / 2 / base)
            points.append((x, y / base, y / base - half, y / base + half))
    xs, ys, los, his = (list(column) for column in zip(*points, strict=True))
    return Series(label, xs, ys, los, his, group, "points")


def _row(path: Path, line: dict[str, str]) -> Row:
    unknown = set(line) - {column.name for column in dataclasses.fields(Row)} - UNUSED
    if unknown:
        raise ValueError(
            f"{path}: unknown columns, which no rerun would follow: {', '.join(sorted(map(str, unknown)))}"
        )
    values: dict[str, Any] = {}
    for column in dataclasses.fields(Row):
        text = line[column.name]
        if column.type == "str":
            values[column.name] = text
        elif text == "" and "None" in str(column.type):
            values[column.name] = None
        else:
            try:
                values[column.name] = float(text)
            except ValueError as error:
                raise ValueError(f"{path}: {column.name}: {text!r} is not a number") from error
    return Row(**values)
