"""An evaluation as a study, which the papers' report makes a page of."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from headend import _native
from headend.evaluate import text
from headend.evaluate.runner import Evaluation, Found, Row
from headend.papers.model import FigureResult, Series, StudyResult
from headend.papers.stats import Estimate
from headend.papers.study import machine

PANELS_MAX = 8
"""Panels of a figure; its table has everything."""


def study(evaluation: Evaluation) -> StudyResult:
    """The page's contents: the sections, every case, and the definitions. Simulated, it has no time of day."""
    request = evaluation.request
    used = list(dict.fromkeys(name for found in evaluation.found for name in found.case.metrics))
    figures = [
        _table(
            "rfc9743", "Sections of RFC 9743", "What was run for each, and what was not.", text.rfc_table(evaluation)
        ),
        *(_figure(evaluation, found) for found in evaluation.found),
        _table("metrics", "Definitions", "Each metric, and where it comes from.", text.definitions(used)),
        _table("rfc5166", "Metrics of RFC 5166", "What stands for each.", text.metrics_table()),
    ]
    return StudyResult(
        id=request.controller,
        title=f"Evaluation of {text.title(evaluation)}",
        paper="What RFC 9743 asks of a new congestion control, by the metrics of RFC 5166",
        edition="quick" if request.edition == "quick" else "full",
        command=request.command,
        seed=request.seed,
        machine=machine() if request.is_live else "",
        version=f"headend {_native.__version__} ({_native.__commit__})",
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds") if request.is_live else "",
        elapsed_s=0.0,
        figures=figures,
        subject="evaluation",
    )


def _table(name: str, title: str, caption: str, lines: Iterator[str]) -> FigureResult:
    return FigureResult(id=name, title=title, caption=caption, kind="table", text="\n".join(lines))


def _figure(evaluation: Evaluation, found: Found) -> FigureResult:
    case = found.case
    series = list(_series(evaluation, found))
    axis = next(iter(case.points[0].values), "") if series else ""
    return FigureResult(
        id=case.id,
        title=case.title,
        caption=case.why,
        section=", ".join(case.sections),
        kind="lines" if series else "table",
        x_label=_AXES.get(axis, axis),
        y_label="",
        x_log=axis in ("line.buffer_bdp", "line.loss", "flows.own.count"),
        series=series,
        text="\n".join(text.case_table(evaluation, found)),
        runs=evaluation.request.runs or case.runs or found.rows[0].values[0].runs,
        seed=evaluation.request.seed,
        command=f"{evaluation.request.command} --only {case.id}" if not evaluation.request.only else "",
    )


_AXES = {
    "line.buffer_bdp": "Buffer [BDP]",
    "line.loss": "Lost at random [%]",
    "line.rtt_ms": "Round trip [ms]",
    "line.back_mbit": "Rate of the way back [Mbit/s]",
    "flows.own.count": "Flows",
    "flows.other.rtt_times": "Ratio of the round trips",
}


def _series(evaluation: Evaluation, found: Found) -> Iterator[Series]:
    """A curve for each control and metric, where one number is varied and takes three values at least."""
    case = found.case
    if len(case.points) < 3 or any(len(point.values) != 1 or point.label for point in case.points):
        return
    path = next(iter(case.points[0].values))
    if path not in _AXES:
        return
    for metric in case.metrics[:PANELS_MAX]:
        rows = [row for row in found.rows if row.metric.name == metric]
        for column, name in enumerate(evaluation.request.headings):
            points = [(_number(row, path), row.values[column]) for row in rows]
            there = [(x, value) for x, value in points if value.mean is not None and x > 0]
            estimates = [
                Estimate(value.mean, value.lo, value.hi)
                if value.lo is not None and value.hi is not None
                else Estimate.exact(value.mean)
                for _, value in there
                if value.mean is not None
            ]
            if there:
                yield Series.of(name, [x for x, _ in there], estimates, text.heading(rows[0]))


def _number(row: Row, path: str) -> float:
    value = row.point.values[path]
    if isinstance(value, str):
        return 100 * (_native.quantity(value) or 0.0)
    return float(value)
