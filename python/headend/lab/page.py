"""The grid as a study for the report: how well the two sides agree, which scenarios do not, and the windows of some."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headend.lab.comparison import Comparison, Row
from headend.lab.study import lab_study
from headend.papers import stats
from headend.papers.claim import MeasurementError, Range, at_most, criterion, judge
from headend.papers.model import ClaimResult, FigureResult, Series, StudyResult
from headend.papers.stats import Estimate

MEDIAN_MAX_PERCENT = 5.0
"""Goal: the median difference of goodput."""
WITHIN_PERCENT = 15.0
WITHIN_SHARE_MIN_PERCENT = 90.0
"""Goal: so many scenarios differ by no more than `WITHIN_PERCENT`."""
SCENARIOS_MIN = 60
"""Goal: the grid has as many."""


def study(comparisons: Sequence[Comparison], **facts: Any) -> StudyResult:
    """The page's contents; `facts` as of `lab_study`."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    figures = [
        _goodput(rows),
        _distribution(rows),
        _round_trips(rows),
        _retransmissions(rows),
        _windows(comparisons),
        _table(rows),
    ]
    what = f"{len(rows)} scenarios of {len(comparisons)} networks, each in virtual time and between real hosts"
    return lab_study("lab", "The simulator beside Linux", what, figures, comparisons[0].seed, **facts)


def _goodput(rows: Sequence[Row]) -> FigureResult:
    strained = sum(row.strained > 0 for row in rows)
    notes = ["Dashed: 15% more and 15% less than the kernel."]
    if strained:
        notes.append(
            f"In {strained} of {len(rows)} scenarios the machine did not keep up with the links in at least one "
            "run; the table marks them. Their kernel side is not to be relied on."
        )
    runs = max(row.runs for row in rows)
    return FigureResult(
        id="fig1",
        title="Goodput",
        caption="Every scenario a marker: across what the kernel delivered, upwards what the simulator did.",
        kind="lines",
        x_label="Linux [Mbit/s]",
        y_label="Simulator [Mbit/s]",
        x_log=True,
        y_log=True,
        series=_scatter(
            rows, lambda row: row.linux["goodput"] / 1e6, lambda row: row.sim["goodput"] / 1e6, WITHIN_PERCENT
        ),
        claims=claims(rows),
        runs=runs,
        notes=notes,
    )


def claims(rows: Sequence[Row]) -> list[ClaimResult]:
    """The goals, judged over all rows that delivered anything."""
    sizes = [abs(row.difference()) for row in rows if math.isfinite(row.difference())]
    if not sizes:
        raise MeasurementError("lab: no flow of any scenario delivered anything between the hosts")
    share = stats.proportion([size <= WITHIN_PERCENT for size in sizes])
    outliers = sorted((row for row in rows if not abs(row.difference()) <= WITHIN_PERCENT), key=_size, reverse=True)
    named = "; ".join(f"{row.name}: {row.difference():+.0f}%" for row in outliers[:12])
    scenarios = criterion("scenarios", f"at least {SCENARIOS_MIN}", Estimate.exact(len(rows)), Range(lo=SCENARIOS_MIN))
    median = criterion(
        "median difference",
        f"at most {MEDIAN_MAX_PERCENT:g}%",
        stats.median(sizes),
        at_most(MEDIAN_MAX_PERCENT),
        unit="%",
    )
    within = criterion(
        "share",
        f"at least {WITHIN_SHARE_MIN_PERCENT:g}%",
        Estimate(100 * share.value, 100 * share.lo, 100 * share.hi),
        Range(lo=WITHIN_SHARE_MIN_PERCENT),
        unit="%",
    )
    return [
        judge("lab.scenarios", "Scenarios that were compared", [scenarios]),
        judge(
            "lab.median",
            "Goodput of simulator and kernel: the median of the differences, without their signs",
            [median],
            always=f"The largest: {named}." if named else "",
        ),
        judge(
            "lab.within",
            f"Scenarios whose goodput differs by no more than {WITHIN_PERCENT:g}%",
            [within],
            always=f"Beyond: {named}." if named else "",
        ),
    ]


def _size(row: Row) -> float:
    """Of the difference; of one that is no number, more than any."""
    difference = abs(row.difference())
    return math.inf if math.isnan(difference) else difference


def _scatter(
    rows: Iterable[Row],
    x: Callable[[Row], float],
    y: Callable[[Row], float],
    band_percent: float = 0.0,
    group: str = "",
) -> list[Series]:
    """A marker for each row, by congestion control, and the line on which both sides are equal."""
    by: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        at = (x(row), y(row))
        if all(map(math.isfinite, at)):
            by.setdefault(row.controller or row.flow, []).append(at)
    ends = [value for points in by.values() for at in points for value in at]
    span = [min(ends), max(ends)] if ends else [0.0, 1.0]
    lines = [Series.exact("equal", span, span, group, "trace")]
    if band_percent:
        for factor in (1 + band_percent / 100, 1 - band_percent / 100):
            lines.append(
                Series.exact(f"equal, {100 * (factor - 1):+.0f}%", span, [factor * v for v in span], group, "dashed")
            )
    points = [
        Series.exact(label, [at[0] for at in sorted(chosen)], [at[1] for at in sorted(chosen)], group, "points")
        for label, chosen in by.items()
    ]
    return [*points, *lines]


def _distribution(rows: Sequence[Row]) -> FigureResult:
    kinds = {
        "all": rows,
        "no losses but the queue's": [row for row in rows if not row.loses],
        "a link that loses packets": [row for row in rows if row.loses],
    }
    series = []
    for label, chosen in kinds.items():
        sizes = sorted(abs(row.difference()) for row in chosen if math.isfinite(row.difference()))
        shares = [100 * (i + 1) / len(sizes) for i in range(len(sizes))]
        if sizes:
            series.append(Series.exact(label, shares, sizes, style="trace"))
    return FigureResult(
        id="fig2",
        title="How far apart",
        caption="So many scenarios differ in goodput by no more than so much.",
        kind="lines",
        x_label="Scenarios [%]",
        y_label="Difference at most [%]",
        series=series,
    )


def _round_trips(rows: Sequence[Row]) -> FigureResult:
    series = []
    for measure, group in (("rtt_p50", "(a) median"), ("rtt_p95", "(b) 95th percentile")):

        def of(side: str, measure: str = measure) -> Callable[[Row], float]:
            return lambda row: 1e3 * (row.linux if side == "linux" else row.sim)[measure]

        series += _scatter(rows, of("linux"), of("sim"), group=group)
    return FigureResult(
        id="fig3",
        title="Round-trip times",
        caption="As the senders measured them, queueing included.",
        kind="lines",
        x_label="Linux [ms]",
        y_label="Simulator [ms]",
        x_log=True,
        y_log=True,
        series=series,
    )


def _retransmissions(rows: Sequence[Row]) -> FigureResult:
    def share(side: dict[str, float]) -> float:
        return 100 * side["retransmits"] / side["segments_sent"] if side["segments_sent"] else math.nan

    return FigureResult(
        id="fig4",
        title="Retransmissions",
        caption="Of a hundred data segments, so many were sent again.",
        kind="lines",
        x_label="Linux [%]",
        y_label="Simulator [%]",
        series=_scatter(rows, lambda row: share(row.linux), lambda row: share(row.sim)),
    )


def _windows(comparisons: Sequence[Comparison]) -> FigureResult:
    """Of each network two scenarios: CUBIC where nothing is lost but by the queue, and Reno where the link loses."""
    series = []
    for comparison in comparisons:
        for wanted in (("cubic", False), ("reno", True)):
            index = next(
                (i for i, row in enumerate(comparison.rows) if (row.controller, row.loses) == wanted),
                None,
            )
            if index is None:
                continue
            for window in comparison.windows[index]:
                label = "Linux" if window.side == "linux" else "simulator"
                kilobytes = [cwnd / 1e3 for cwnd in window.cwnd_bytes]
                if kilobytes:
                    series.append(Series.exact(label, window.time_s, kilobytes, comparison.rows[index].name, "trace"))
    return FigureResult(
        id="fig5",
        title="Congestion windows",
        caption="The first run of some scenarios, both sides laid over each other.",
        kind="lines",
        x_label="Time [s]",
        y_label="Window [KB]",
        series=series,
        notes=[
            "The kernel's is what TCP_INFO said every 5 ms; of either side at most the tips of every 50 ms are drawn."
        ],
    )


def _table(rows: Sequence[Row]) -> FigureResult:
    heading = (
        "| network | setting | Linux [Mbit/s] | simulator | difference | RTT p50 [ms] | simulator "
        "| retransmits | simulator | time-outs | simulator |"
    )
    lines = [heading, "|---" * 2 + "|---:" * 9 + "|"]
    for row in sorted(rows, key=_size, reverse=True):
        difference = f"{row.difference():+.1f}%" if math.isfinite(row.difference()) else "-"
        cells = [
            _unbroken(row.title),
            _unbroken(", ".join(row.settings.values()) + (" (late)" if row.strained else "")),
            *(f"{side['goodput'] / 1e6:.3g}" for side in (row.linux, row.sim)),
            difference,
            *(f"{1e3 * side['rtt_p50']:.4g}" for side in (row.linux, row.sim)),
            *(f"{side['retransmits']:.4g}" for side in (row.linux, row.sim)),
            *(f"{side['timeouts']:.3g}" for side in (row.linux, row.sim)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return FigureResult(
        id="fig6",
        title="All scenarios",
        caption="Means over the runs, the farthest apart first. Marked (late): the machine did not keep up in a run.",
        kind="table",
        text="\n".join(lines),
    )


def _unbroken(text: str) -> str:
    """On one line, however narrow the column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
