"""Plots of users' own results: medians over the runs with their 95% intervals, by point."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from headend import _native
from headend.results import Result, columns
from headend.summary import by_run, median, swept

_TICKS_MOST = 10
"""With more values than these their texts would overlap."""


def plot(result: Result, y: str, *, x: str | None, by: str | None, ax: Axes | None) -> Axes:
    """As `Result.plot`."""
    fields = swept(result)
    if x is None:
        if len(fields) != 1:
            what = "nothing is swept" if not fields else f"several fields are swept: {', '.join(fields)}"
            raise ValueError(f"{what}; say with x= what the x axis has")
        x = fields[0]
    x, y, by = named(result, x), named(result, y), by and named(result, by)
    if result.flows[y].dtype.kind == "U":
        raise ValueError(f"the column {y!r} is text, which the y axis cannot show")
    if ax is None:
        ax = pyplot.subplots(layout="constrained")[1]
    lines = [by] if by is not None else [name for name in (*fields, "flow") if name != x and _differs(result, name)]
    labels = _joined(result, lines)
    at, ticks = _abscissae(result, x)
    for label in dict.fromkeys(labels.tolist()):
        rows = labels == label
        places = np.unique(at[rows])
        found = np.array([_median(result, y, rows & (at == place)) for place in places])
        drawn = ax.plot(places, found[:, 0], marker="o", markersize=4, label=label or None)[0]
        ax.fill_between(places, found[:, 1], found[:, 2], color=drawn.get_color(), alpha=0.2, linewidth=0)
    if 0 < len(ticks) <= _TICKS_MOST:
        ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    unit = columns()["flows"].get(y)
    if unit is not None and unit.unit:
        ax.yaxis.set_major_formatter(EngFormatter(unit=unit.unit))
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    ax.grid(alpha=0.3)
    if lines:
        ax.legend(title=", ".join(lines), frameon=False)
    return ax


def named(result: Result, name: str) -> str:
    """The column of the flows that is called so. Raises ValueError if there is none."""
    try:
        return result.flows.named(name)
    except KeyError as error:
        raise ValueError(f"the flows: {error}") from None


def _differs(result: Result, name: str) -> bool:
    return len(np.unique(result.flows[name])) > 1


def _joined(result: Result, names: list[str]) -> NDArray[Any]:
    """What a row's line is called."""
    if not names:
        return np.zeros(result.flows.rows, dtype=np.str_)
    parts = [result.flows[name].astype(np.str_).tolist() for name in names]
    return np.array([", ".join(row) for row in zip(*parts, strict=True)])


def _abscissae(result: Result, x: str) -> tuple[NDArray[np.float64], dict[float, str]]:
    """Where each row stands on the axis, and for text what is written there; names stand one beside another."""
    column = result.flows[x]
    if column.dtype.kind != "U":
        return result.flows.numbers(x), {}
    texts = list(dict.fromkeys(column.tolist()))
    if all(_native.quantity(text) is not None for text in texts):
        at = result.flows.numbers(x)
    else:
        at = np.array([texts.index(text) for text in column.tolist()], dtype=np.float64)
    return at, dict(zip(at.tolist(), column.tolist(), strict=True))


def _median(result: Result, y: str, rows: NDArray[np.bool_]) -> tuple[float, float, float]:
    # Points that share a line and a place are runs of it.
    points, runs = result.flows["point"][rows].astype(np.int64), result.flows["run"][rows].astype(np.int64)
    which = points * (int(runs.max(initial=0)) + 1) + runs
    return median(by_run(which.astype(np.uint64), result.flows[y][rows]))
