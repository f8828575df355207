"""Users' own results as a study that the report draws: what was swept, queues, times of transfers, one run."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend import _native
from headend.papers.model import FigureResult, Series, StudyResult
from headend.papers.stats import Estimate
from headend.report import formats, traced
from headend.results import Result, Table, columns
from headend.summary import by_run, median, summary, swept

LINES_MOST = 12
"""Of a panel: more curves than these cannot be told apart."""
ROWS_MOST = 200
"""Of the table of all points."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shown:
    """A column that is drawn against what was swept."""

    column: str
    title: str
    label: str
    factor: float = 1.0


FLOWS = (
    Shown("goodput_bps", "Goodput", "Goodput [Mbit/s]", 1e-6),
    Shown("transfer_s", "Time of a transfer", "Time of a transfer [s]"),
    Shown("rtt_p95_s", "Round trips that the sender measured", "Quantile 95% of the round trips [ms]", 1e3),
    Shown("retransmits", "Packets sent again", "Packets sent again"),
    Shown("timeouts", "Time-outs", "Time-outs"),
)
LINKS = (
    Shown("queue_mean_packets", "Packets that wait at each link", "Packets waiting or being sent, mean"),
    Shown("sojourn_mean_s", "How long packets wait at each link", "Mean time in the queue and being sent [ms]", 1e3),
    Shown("utilisation", "How busy each link is", "Share of the run in which it sends [%]", 100.0),
)


def study(results: Mapping[str, Result], command: str = "") -> StudyResult:
    """Results as a study, the first of them drawn solid and those that are compared with it dashed.

    Args:
        results: Each by the name that the legend gives it.
        command: What draws the report again.
    """
    first = next(iter(results.values()))
    own = _Own(results)
    figures = [*own.against_the_sweep(), own.times(), own.points(), *traced.figures(first)]
    return StudyResult(
        id="own",
        title=_title(first) or "Results",
        paper=_lead(results),
        edition="full",
        command=command,
        seed=first.seed,
        machine="",
        version=" ".join(filter(None, (first.meta.get("version"), first.meta.get("commit")))),
        started="",
        elapsed_s=0.0,
        figures=[figure for figure in figures if figure is not None],
        subject="own",
    )


def _lead(results: Mapping[str, Result]) -> str:
    """What the page says it shows."""
    first = next(iter(results.values()))
    points, runs = (len(np.unique(first.flows[name])) for name in ("point", "run"))
    fields = swept(first)
    what = f"{points} points, over {' and '.join(fields)}" if fields else "one point, with nothing swept"
    lead = f"Results of {what}, each with {runs} run{'s' if runs > 1 else ''}."
    if len(results) > 1:
        names = list(results)
        lead += f" Solid lines are {names[0]}; dashed ones are {' and '.join(names[1:])}, compared with it."
    return lead


def _title(result: Result) -> str:
    return str(tomllib.loads(result.scenario).get("title", ""))


class _Own:
    """Some results and how their sweep is laid out: one field along the axis, the others a curve for each value."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self.results = results
        self.first = next(iter(results.values()))
        self.fields = swept(self.first)
        self.axis = max(self.fields, key=lambda name: _worth(self.first.flows, name), default=None)
        self.runs = max(len(np.unique(result.flows["run"])) for result in results.values())

    def against_the_sweep(self) -> Iterator[FigureResult]:
        """A figure for each column that says something, if anything was swept."""
        if self.axis is None:
            return
        for of, table, panel in ((FLOWS, "flows", "flow"), (LINKS, "links", "direction")):
            for shown in of:
                series = [
                    one
                    for name, result in self.results.items()
                    for one in self._curves(name, result, table, panel, shown)
                ]
                if any(value > 0 for one in series for value in one.y):
                    yield self._figure(shown, series)

    def _figure(self, shown: Shown, series: list[Series]) -> FigureResult:
        assert self.axis is not None, "only a sweep is drawn against its axis"
        values = [y for one in series for y in one.y]
        names, _ = _axis(self.first.flows, self.axis)
        return FigureResult(
            id=shown.column,
            title=shown.title,
            caption=f"{_meaning(shown.column)} {_how_many(self.runs)}",
            section="Transfers" if shown in FLOWS else "Links",
            kind="lines",
            x_label=names,
            y_label=shown.label,
            y_log=min(values) > 0 and max(values) / min(values) > 100,
            series=series,
            runs=self.runs,
            seed=self.first.seed,
        )

    def _curves(self, name: str, result: Result, table: str, panel: str, shown: Shown) -> Iterator[Series]:
        rows: Table = getattr(result, table)
        axis = self.axis
        if axis is None or axis not in rows:
            return
        others = [field for field in self.fields if field != axis and field in rows and _count(rows, field) > 1]
        labels = _joined(rows, others)
        panels = _joined(rows, ["link", "direction"]) if panel == "direction" else rows[panel]
        _, at = _axis(rows, axis)
        is_first = result is self.first
        for group in dict.fromkeys(panels.tolist()):
            members = list(dict.fromkeys(labels[panels == group].tolist()))
            for label in members[:LINES_MOST]:
                here = (panels == group) & (labels == label)
                found = [(x, _estimate(rows, shown, here & (at == x))) for x in np.unique(at[here]).tolist()]
                points = [(x, estimate) for x, estimate in found if estimate is not None]
                base = label or ("median" if len(self.results) == 1 else next(iter(self.results)))
                called = base if is_first else (f"{label}, {name}" if label else name)
                yield Series.of(
                    called,
                    [x for x, _ in points],
                    [estimate for _, estimate in points],
                    str(group) if _count_of(panels) > 1 else "",
                    "line" if is_first else "dashed",
                )

    def times(self) -> FigureResult | None:
        """The share of all transfers that have ended by a time."""
        series = [one for name, result in self.results.items() for one in self._ended(name, result)]
        if not series:
            return None
        return FigureResult(
            id="ended",
            title="How long transfers take, all of them",
            caption="The share of all transfers of a point that had ended by a time. A curve that stays below 100% has "
            "transfers that never ended.",
            section="Transfers",
            kind="lines",
            x_label="Time since the start of the transfer [s]",
            y_label="Share of the transfers that have ended [%]",
            x_log=_spans([x for one in series for x in one.x]),
            series=series,
            runs=self.runs,
            seed=self.first.seed,
        )

    def _ended(self, name: str, result: Result) -> Iterator[Series]:
        flows = result.flows
        labels = _joined(flows, [field for field in swept(result) if _count(flows, field) > 1])
        for flow in dict.fromkeys(flows["flow"].tolist()):
            here = flows["flow"] == flow
            for label in list(dict.fromkeys(labels[here].tolist()))[:LINES_MOST]:
                times = flows["transfer_s"][here & (labels == label)]
                ended = np.sort(times[~np.isnan(times)])
                if ended.size == 0 or times.size < 2:
                    continue
                shares = 100.0 * np.arange(1, ended.size + 1) / times.size
                kept = np.unique(np.linspace(0, ended.size - 1, min(ended.size, 200)).astype(np.int64))
                called = label or "all"
                yield Series.exact(
                    called if result is self.first else f"{called}, {name}",
                    ended[kept].tolist(),
                    shares[kept].tolist(),
                    flow if _count(flows, "flow") > 1 else "",
                    "trace" if result is self.first else "dashed",
                )

    def points(self) -> FigureResult:
        """All points as a table, with the ratio to the first result where there are several."""
        tables = {name: summary(result) for name, result in self.results.items()}
        text = "\n\n".join(
            (f"**{name}**\n\n" if len(tables) > 1 else "")
            + _markdown(table, tables if name != next(iter(tables)) else {})
            for name, table in tables.items()
        )
        return FigureResult(
            id="points",
            title="All points in numbers",
            caption=f"The same as headend sim prints it. {_how_many(self.runs)}",
            section="All points",
            kind="table",
            text=text,
            runs=self.runs,
            seed=self.first.seed,
        )


def _markdown(table: Table, beside: Mapping[str, Table]) -> str:
    """A summary for a reader; `beside` has the first of several, with which goodput is compared."""
    fields = [name for name in table if "." in name]
    base = next(iter(beside.values())) if beside else None
    heads = [*fields, "flow", "runs", "completed [%]", "goodput [Mbit/s]", "95% interval", "transfer [s]", "time-outs"]
    heads += [f"goodput over that of {next(iter(beside))}"] if beside else []
    columns_of: list[Sequence[str]] = [[_cell(value) for value in table[name].tolist()] for name in (*fields, "flow")]
    columns_of.append([str(value) for value in table["runs"].tolist()])
    columns_of.append([formats.shown(100 * value, 3) for value in table["completed"].tolist()])
    goodput = [1e-6 * table[name] for name in ("goodput_bps", "goodput_bps_from", "goodput_bps_to")]
    columns_of.append([_number(value) for value in goodput[0].tolist()])
    columns_of.append([_interval(lo, hi) for lo, hi in zip(goodput[1].tolist(), goodput[2].tolist(), strict=True)])
    columns_of.append([_number(value) for value in table["transfer_s"].tolist()])
    columns_of.append([_number(value) for value in table["timeouts"].tolist()])
    if base is not None:
        columns_of.append(_ratios(table, base, fields))
    rows = [f"| {' | '.join(row)} |" for row in zip(*columns_of, strict=True)]
    more = [f"\n{len(rows) - ROWS_MOST} more points are in the results."] if len(rows) > ROWS_MOST else []
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows[:ROWS_MOST], *more])


def _ratios(table: Table, base: Table, fields: Sequence[str]) -> list[str]:
    """Each point's goodput over that of the same point of another result; empty where that has no such point."""

    def keys(of: Table) -> list[tuple[Any, ...]]:
        return list(zip(*(of[name].tolist() for name in (*fields, "flow") if name in of), strict=True))

    theirs = dict(zip(keys(base), base["goodput_bps"].tolist(), strict=True))
    ours = zip(keys(table), table["goodput_bps"].tolist(), strict=True)
    found = [value / theirs[key] if theirs.get(key) else math.nan for key, value in ours]
    return [_number(ratio) for ratio in found]


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|")


def _number(value: float) -> str:
    return "" if math.isnan(value) else formats.shown(value, 3)


def _interval(lo: float, hi: float) -> str:
    return "" if math.isnan(lo) else f"{formats.shown(lo, 3)} to {formats.shown(hi, 3)}"


def _how_many(runs: int) -> str:
    if runs == 1:
        return "One run of each point: there is no interval."
    if runs < 6:
        return f"Medians of {runs} runs, too few for an interval: six are needed."
    return f"Medians of {runs} runs; the bands are their 95% intervals."


def _meaning(column: str) -> str:
    found = next((table[column].meaning for table in columns().values() if column in table), "")
    return found.replace("`", "")


def _estimate(rows: Table, shown: Shown, which: NDArray[np.bool_]) -> Estimate | None:
    points, runs = rows["point"][which].astype(np.int64), rows["run"][which].astype(np.int64)
    one = (points * (int(runs.max(initial=0)) + 1) + runs).astype(np.uint64)
    middle, low, high = (shown.factor * value for value in median(by_run(one, rows[shown.column][which])))
    if math.isnan(middle):
        return None
    return Estimate.exact(middle) if math.isnan(low) else Estimate(middle, low, high)


def _worth(rows: Table, name: str) -> tuple[bool, int]:
    """Numbers make a better axis than names, many values a better one than few."""
    values = set(rows[name].tolist())
    return all(_native.quantity(value) is not None for value in values), len(values)


_UNITS: tuple[tuple[str, str, float], ...] = (
    ("%", "%", 100.0),
    ("bit/s", "Mbit/s", 1e-6),
    ("B", "kB", 1e-3),
    ("packets", "packets", 1.0),
    ("s", "ms", 1e3),
)


def _axis(rows: Table, name: str) -> tuple[str, Floats]:
    """What the axis is called, and where each row stands on it; names stand one beside another, numbered from 1."""
    texts = list(dict.fromkeys(rows[name].tolist()))
    if not _worth(rows, name)[0]:
        places = {text: float(place) for place, text in enumerate(texts, 1)}
        names = ", ".join(f"{place:.0f} {text}" for text, place in places.items())
        return f"{name}: {names}", np.array([places[text] for text in rows[name].tolist()])
    for ending, unit, factor in _UNITS:
        if all(text.endswith(ending) for text in texts if text not in ("0", "unlimited")) and any(
            text.endswith(ending) for text in texts
        ):
            # A percentage times 100 is not always the decimal number that was written.
            return f"{name} [{unit}]", np.round(rows.numbers(name) * factor, 9)
    return name, rows.numbers(name)


def _count(rows: Table, name: str) -> int:
    return _count_of(rows[name])


def _count_of(values: NDArray[Any]) -> int:
    return len(np.unique(values))


def _joined(rows: Table, names: Sequence[str]) -> NDArray[Any]:
    if not names:
        return np.zeros(rows.rows, dtype=np.str_)
    parts: list[Sequence[str]] = [rows[name].astype(np.str_).tolist() for name in names]
    return np.array([", ".join(row) for row in zip(*parts, strict=True)])


def _spans(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > 30
