"""The grid as a study for the report: how well the two sides agree, which scenarios do not, and the windows of some."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from headend.lab.comparison import Comparison, Row
from headend.papers.model import ClaimResult, Criterion, FigureResult, Series, StudyResult, Style

MEDIAN_MAX_PERCENT = 5.0
"""Goal: the median difference of goodput."""
WITHIN_PERCENT = 15.0
WITHIN_SHARE_MIN_PERCENT = 90.0
"""Goal: so many scenarios differ by no more than `WITHIN_PERCENT`."""
SCENARIOS_MIN = 60
"""Goal: the grid has as many."""


def study(
    comparisons: Sequence[Comparison], *, command: str, machine: str, version: str, started: str, elapsed_s: float
) -> StudyResult:
    """The page's contents."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    seed = comparisons[0].seed
    figures = [
        _goodput(rows, command, seed),
        _distribution(rows, command, seed),
        _round_trips(rows, command, seed),
        _retransmissions(rows, command, seed),
        _windows(comparisons, command, seed),
        _table(rows, command, seed),
    ]
    return StudyResult(
        id="lab",
        title="The simulator beside Linux",
        paper=f"{len(rows)} scenarios of {len(comparisons)} networks, each in virtual time and between real hosts",
        edition="full",
        command=command,
        seed=seed,
        machine=machine,
        version=version,
        started=started,
        elapsed_s=elapsed_s,
        figures=figures,
        subject="lab",
    )


def _goodput(rows: Sequence[Row], command: str, seed: int) -> FigureResult:
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
        command=command,
        runs=runs,
        seed=seed,
        notes=notes,
    )


def claims(rows: Sequence[Row]) -> list[ClaimResult]:
    """The goals, judged over all rows that delivered anything."""
    sizes = sorted(abs(row.difference()) for row in rows if math.isfinite(row.difference()))
    median = statistics.median(sizes) if sizes else math.inf
    within = sum(size <= WITHIN_PERCENT for size in sizes)
    share = 100 * within / len(sizes) if sizes else 0.0
    outliers = sorted((row for row in rows if not abs(row.difference()) <= WITHIN_PERCENT), key=_size, reverse=True)
    named = "; ".join(f"{row.name}: {row.difference():+.0f}%" for row in outliers[:12])
    return [
        _judged(
            "lab.scenarios",
            "Scenarios that were compared",
            Criterion(
                "scenarios",
                "",
                f"at least {SCENARIOS_MIN}",
                len(rows),
                len(rows),
                len(rows),
                SCENARIOS_MIN,
                None,
                len(rows) >= SCENARIOS_MIN,
            ),
            "",
        ),
        _judged(
            "lab.median",
            "Goodput of simulator and kernel: the median of the differences, without their signs",
            Criterion(
                "median difference",
                "%",
                f"at most {MEDIAN_MAX_PERCENT:g}%",
                median,
                *_median_interval(sizes),
                None,
                MEDIAN_MAX_PERCENT,
                median <= MEDIAN_MAX_PERCENT,
            ),
            f"The largest: {named}." if named else "",
        ),
        _judged(
            "lab.within",
            f"Scenarios whose goodput differs by no more than {WITHIN_PERCENT:g}%",
            Criterion(
                "share",
                "%",
                f"at least {WITHIN_SHARE_MIN_PERCENT:g}%",
                share,
                *_share_interval(within, len(sizes)),
                WITHIN_SHARE_MIN_PERCENT,
                None,
                share >= WITHIN_SHARE_MIN_PERCENT,
            ),
            f"Beyond: {named}." if named else "",
        ),
    ]


def _judged(claim: str, what: str, criterion: Criterion, reason: str) -> ClaimResult:
    return ClaimResult(
        id=claim,
        what=what,
        published=criterion.published,
        measured=f"{criterion.measured:.3g}{criterion.unit}",
        interval=f"{criterion.lo:.3g} to {criterion.hi:.3g}",
        verdict="reproduced" if criterion.holds else "differs",
        reason=reason,
        criteria=[criterion],
    )


def _median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """95%, from order statistics with the normal approximation of the binomial; the whole range of few values."""
    n = len(ordered)
    if n == 0:
        return (math.inf, math.inf)
    half = 0.98 * math.sqrt(n)
    lo, hi = math.floor(n / 2 - half), math.ceil(n / 2 + half)
    return ordered[max(lo, 0)], ordered[min(hi, n - 1)]


def _share_interval(part: int, n: int) -> tuple[float, float]:
    """95%, Wilson's, in per cent."""
    if n == 0:
        return (0.0, 100.0)
    z2 = 1.96**2
    middle = (part + z2 / 2) / (n + z2)
    half = 1.96 * math.sqrt(part * (n - part) / n + z2 / 4) / (n + z2)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


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
    lines = [_exact("equal", span, span, group, "trace")]
    if band_percent:
        for factor in (1 + band_percent / 100, 1 - band_percent / 100):
            lines.append(
                _exact(f"equal, {100 * (factor - 1):+.0f}%", span, [factor * v for v in span], group, "dashed")
            )
    points = [
        _exact(label, [at[0] for at in sorted(chosen)], [at[1] for at in sorted(chosen)], group, "points")
        for label, chosen in by.items()
    ]
    return [*points, *lines]


def _exact(label: str, x: list[float], y: list[float], group: str = "", style: Style = "line") -> Series:
    return Series(label, x, y, y, y, group, style)


def _distribution(rows: Sequence[Row], command: str, seed: int) -> FigureResult:
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
            series.append(_exact(label, shares, sizes, style="trace"))
    return FigureResult(
        id="fig2",
        title="How far apart",
        caption="So many scenarios differ in goodput by no more than so much.",
        kind="lines",
        x_label="Scenarios [%]",
        y_label="Difference at most [%]",
        series=series,
        command=command,
        seed=seed,
    )


def _round_trips(rows: Sequence[Row], command: str, seed: int) -> FigureResult:
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
        command=command,
        seed=seed,
    )


def _retransmissions(rows: Sequence[Row], command: str, seed: int) -> FigureResult:
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
        command=command,
        seed=seed,
    )


def _windows(comparisons: Sequence[Comparison], command: str, seed: int) -> FigureResult:
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
                    series.append(_exact(label, window.time_s, kilobytes, comparison.rows[index].name, "trace"))
    return FigureResult(
        id="fig5",
        title="Congestion windows",
        caption="The first run of some scenarios, both sides laid over each other.",
        kind="lines",
        x_label="Time [s]",
        y_label="Window [KB]",
        series=series,
        command=command,
        seed=seed,
        notes=[
            "The kernel's is what TCP_INFO said every 5 ms; of either side at most the tips of every 50 ms are drawn."
        ],
    )


def _table(rows: Sequence[Row], command: str, seed: int) -> FigureResult:
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
        command=command,
        seed=seed,
    )


def _unbroken(text: str) -> str:
    """On one line, however narrow the column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
