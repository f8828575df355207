"""FAST in the kernel: what it keeps in a queue, what that costs and spares, and how far the simulator's is from it.

The lab runs the files `scenarios/lab/fast-*.toml`; `study` judges what it printed.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headend.lab.comparison import Comparison, ComparisonError, Row
from headend.lab.study import lab_study
from headend.papers import stats
from headend.papers.claim import Range, at_most, criterion, judge
from headend.papers.model import ClaimResult, Criterion, FigureResult, Series, StudyResult
from headend.papers.stats import Estimate

COMPARED = ("fast-grid", "fast-loss")
"""Scenario files that are run on both sides."""
MEASURED = ("fast-alone", "fast-five", "fast-others", "fast-and-cubic")
"""Scenario files that are run between real hosts only."""

RATE_BPS = 20e6
PACKET_BITS = 8 * 1500
"""Of the scenarios in `MEASURED`: how the time that packets wait becomes a number of them."""

QUEUE_WITHIN_PACKETS = 2.0
JAIN_MIN = 0.95
GOODPUT_WITHIN_PERCENT = 3.0
DELAY_SHARE_MAX = 0.25
GRID_WITHIN_PERCENT = 10.0
GRID_SCENARIOS_MIN = 20


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow of one run, as `headend lab --format json` has it."""

    settings: dict[str, str]
    """The swept fields by path."""
    run: int
    name: str
    goodput_bps: float
    rtt_min_s: float
    rtt_p50_s: float
    retransmits: float
    timeouts: float

    @property
    def queueing_s(self) -> float:
        """What a packet waits: the median round trip less the shortest."""
        return self.rtt_p50_s - self.rtt_min_s

    @property
    def queued_packets(self) -> float:
        """What waits of a flow that has the line for itself."""
        return self.queueing_s * RATE_BPS / PACKET_BITS

    def setting(self, ending: str) -> str:
        """The swept field whose path ends so."""
        return next(value for path, value in self.settings.items() if path.endswith(ending))


@dataclass(frozen=True, slots=True)
class Measured:
    """What the lab printed for one scenario file."""

    flows: list[Flow]
    waiting: dict[str, list[float]]
    """By the last swept field: packets that waited in the line's queue, means over whole runs, slow start included."""
    strained: int
    """Runs in which the machine did not keep up."""

    @staticmethod
    def load(path: Path) -> Measured:
        """Read what `headend lab --format json` printed.

        Raises ComparisonError, with the path, if it is something else; OSError if it cannot be read.
        """
        try:
            return _read(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ComparisonError(f"{path} is no result of a lab: {error!r}") from error


def _read(printed: dict[str, Any]) -> Measured:
    columns = printed["flows"]
    paths = [name for name in columns if "." in name]
    flows = [
        Flow(
            settings={path: str(columns[path][i]) for path in paths},
            run=int(columns["run"][i]),
            name=str(columns["flow"][i]),
            goodput_bps=float(columns["goodput_bps"][i]),
            rtt_min_s=_number(columns["rtt_min_s"][i]),
            rtt_p50_s=_number(columns["rtt_p50_s"][i]),
            retransmits=float(columns["retransmits"][i]),
            timeouts=float(columns["timeouts"][i]),
        )
        for i in range(len(columns["flow"]))
    ]
    links = printed["links"]
    waiting: dict[str, list[float]] = {}
    for i, (link, direction) in enumerate(zip(links["link"], links["direction"], strict=True)):
        if link == "line" and direction.endswith("->client"):
            # The mean counts the packet in transmission, which is there as long as the line is used.
            mean = float(links["queue_mean_packets"][i]) - float(links["utilisation"][i])
            waiting.setdefault(str(links[paths[-1]][i]), []).append(mean)
    return Measured(flows, waiting, sum(not run["kept_up"] for run in printed["runs"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def jain(goodputs: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    return sum(goodputs) ** 2 / (len(goodputs) * sum(one * one for one in goodputs))


def study(measured: dict[str, Measured], compared: Sequence[Comparison], **facts: Any) -> StudyResult:
    """The page's contents; `facts` as of `lab_study`."""
    strained = sum(one.strained for one in measured.values())
    strained += sum(row.strained for one in compared for row in one.rows)
    figures = [
        _queue(measured["fast-alone"]),
        _beside_cubic(measured["fast-others"].flows),
        _fairness(measured["fast-five"].flows),
        _grid([row for one in compared for row in one.rows]),
        _losses(measured["fast-others"].flows),
        _one_queue(measured["fast-and-cubic"].flows),
    ]
    if strained:
        figures[0].notes.append(f"In {strained} runs the machine did not keep up with the links.")
    what = "FAST as a program of the running kernel, between real hosts on a line of 20 Mbit/s and 40 ms"
    return lab_study("lab-fast", "FAST in the kernel", what, figures, 1, **facts)


def _by(flows: Sequence[Flow], ending: str) -> dict[str, list[Flow]]:
    """In the order of the sweep."""
    groups: dict[str, list[Flow]] = {}
    for flow in flows:
        groups.setdefault(flow.setting(ending), []).append(flow)
    return groups


def _queue(alone: Measured) -> FigureResult:
    flows = alone.flows
    by_alpha = {int(alpha): [one.queued_packets for one in group] for alpha, group in _by(flows, "alpha").items()}
    within = QUEUE_WITHIN_PACKETS
    criteria = [
        criterion(
            f"alpha {alpha}",
            f"{alpha} within {within:g}",
            stats.mean(queued),
            Range(alpha - within, alpha + within),
            unit="packets",
        )
        for alpha, queued in by_alpha.items()
    ]
    span = [float(alpha) for alpha in by_alpha]
    below = [alpha - 2 for alpha in span]
    return FigureResult(
        id="fig1",
        title="Own packets in the queue",
        caption="How many of its own packets wait in the queue of a line of 20 Mbit/s and 40 ms, for one connection.",
        kind="lines",
        x_label="alpha [packets]",
        y_label="Queued [packets]",
        series=[
            Series.of("by the round trip", span, [stats.mean(queued) for queued in by_alpha.values()]),
            Series.of("counted in the queue", span, [stats.mean(alone.waiting[str(alpha)]) for alpha in by_alpha]),
            Series.exact("alpha", span, span, style="dashed"),
            Series.exact("alpha - 2", span, below, style="dashed"),
        ],
        claims=[_claim("lab-fast.queue", "Own packets queued, of one connection", criteria)],
        runs=_runs(flows),
        notes=[
            "Judged by the round trip: its median less the shortest, in packets of 1500 bytes. The window is a whole "
            "number, so that it settles up to two packets below its aim (equation (5) of Andrew et al. 2005). Counted "
            "in the queue, the mean has slow start in it and pairs of packets that came together."
        ],
    )


def _beside_cubic(flows: Sequence[Flow]) -> FigureResult:
    by = _by([flow for flow in flows if flow.setting("loss") == "0%"], "controller")
    pairs = list(zip(by["fast"], by["cubic"], strict=True))
    goodput = stats.mean([100 * (fast.goodput_bps / cubic.goodput_bps - 1) for fast, cubic in pairs])
    delay = stats.mean([fast.queueing_s / cubic.queueing_s for fast, cubic in pairs])
    lines = ["| controller | goodput [Mbit/s] | queueing delay [ms] | retransmits |", "|---|---:|---:|---:|"]
    for name, group in by.items():
        cells = [
            f"{statistics.fmean(one.goodput_bps for one in group) / 1e6:.2f}",
            f"{1e3 * statistics.fmean(one.queueing_s for one in group):.1f}",
            f"{statistics.fmean(one.retransmits for one in group):.0f}",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    goal = GOODPUT_WITHIN_PERCENT
    return FigureResult(
        id="fig2",
        title="Beside CUBIC",
        caption="Each alone on the line, whose queue holds 267 packets, four times rate times round trip; alpha is 20.",
        kind="table",
        text="\n".join(lines),
        claims=[
            _claim(
                "lab-fast.goodput",
                "Goodput, beside CUBIC's",
                [criterion("difference", f"within {goal:g}%", goodput, Range(-goal, goal), unit="%")],
            ),
            _claim(
                "lab-fast.delay",
                "Queueing delay, as a share of CUBIC's",
                [criterion("share", f"at most {DELAY_SHARE_MAX:g}", delay, at_most(DELAY_SHARE_MAX))],
            ),
        ],
        runs=_runs(flows),
    )


def _fairness(flows: Sequence[Flow]) -> FigureResult:
    def index(group: Sequence[Flow]) -> Estimate:
        runs = {flow.run for flow in group}
        return stats.mean([jain([one.goodput_bps for one in group if one.run == run]) for run in sorted(runs)])

    by = _by(flows, "stagger")
    together = index(by["0s"])
    lines = ["| start | Jain's index | least [Mbit/s] | most [Mbit/s] |", "|---|---:|---:|---:|"]
    for stagger, group in by.items():
        rates = [one.goodput_bps / 1e6 for one in group]
        when = "together" if stagger == "0s" else f"within {stagger}"
        lines.append(f"| {when} | {index(group).value:.3f} | {min(rates):.2f} | {max(rates):.2f} |")
    return FigureResult(
        id="fig3",
        title="Five connections",
        caption="Five FASTs with alpha 20 and the same round trip share the line for 60 s.",
        kind="table",
        text="\n".join(lines),
        claims=[
            _claim(
                "lab-fast.fair",
                "Jain's index of five that start together",
                [criterion("index", f"at least {JAIN_MIN:g}", together, Range(lo=JAIN_MIN))],
            )
        ],
        runs=_runs(flows),
        notes=[
            "Who comes later takes the queue of those before for a part of the line, and so its shortest round trip "
            "for longer than it is: it gets more than they. Goodput counts from each one's own start."
        ],
    )


def _grid(rows: Sequence[Row]) -> FigureResult:
    def worst(measure: str, chosen: Sequence[Row]) -> tuple[float, str]:
        sizes = [(abs(row.difference(measure)), row.name) for row in chosen]
        return max(sizes, key=lambda size: math.inf if math.isnan(size[0]) else size[0])

    goodput, where = worst("goodput", rows)
    delay, where_delay = worst("rtt_p50", rows)
    within = f"at most {GRID_WITHIN_PERCENT:g}%"
    accept = at_most(GRID_WITHIN_PERCENT)
    criteria = [
        criterion(
            "scenarios",
            f"at least {GRID_SCENARIOS_MIN}",
            Estimate.exact(len(rows)),
            Range(lo=GRID_SCENARIOS_MIN),
        ),
        criterion("goodput, the largest difference", within, Estimate.exact(goodput), accept, unit="%"),
        criterion("median round trip", within, Estimate.exact(delay), accept, unit="%"),
    ]
    claim = _claim("lab-fast.grid", "Simulated FAST beside the kernel's", criteria)
    heading = (
        "| scenario | goodput, Linux [Mbit/s] | simulator | difference | RTT p50, Linux [ms] | simulator | difference |"
    )
    lines = [heading, "|---" + "|---:" * 6 + "|"]
    for row in rows:
        cells: list[str] = []
        for measure, scale in (("goodput", 1e-6), ("rtt_p50", 1e3)):
            cells += [f"{scale * side[measure]:.4g}" for side in (row.linux, row.sim)]
            cells.append(f"{row.difference(measure):+.1f}%")
        name = row.name + (" (late)" if row.strained else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return FigureResult(
        id="fig4",
        title="Simulator beside kernel",
        caption="Lines of 5 and 20 Mbit/s with round trips of 20 and 100 ms, with three alphas and with losses.",
        kind="table",
        text="\n".join(lines),
        claims=[claim],
        runs=max(row.runs for row in rows),
        notes=[f"Farthest apart: goodput in {where}, the round trip in {where_delay}."],
    )


def _losses(flows: Sequence[Flow]) -> FigureResult:
    series = []
    for name, group in _by(flows, "controller").items():
        by_loss = _by(group, "loss")
        x = [float(loss.rstrip("%")) for loss in by_loss]
        series.append(
            Series.of(name, x, [stats.mean([one.goodput_bps / 1e6 for one in of]) for of in by_loss.values()])
        )
    return FigureResult(
        id="fig5",
        title="A line that loses packets",
        caption="Goodput on 20 Mbit/s and 40 ms, where so many packets in a hundred are lost at random.",
        kind="lines",
        x_label="Loss [%]",
        y_label="Goodput [Mbit/s]",
        series=series,
        runs=_runs(flows),
        notes=[
            "FAST halves its window with a loss, as Reno does, and regains it by up to alpha / 4 packets a round trip, "
            "where Reno has one."
        ],
    )


def _one_queue(flows: Sequence[Flow]) -> FigureResult:
    lines = [
        "| queue | alpha | FAST [Mbit/s] | CUBIC [Mbit/s] | FAST's share | round trip p50 [ms] |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for queue, group in _by(flows, "queue").items():
        for alpha, both in _by(group, "alpha").items():
            mean = _means(both)
            fast, cubic = (mean(name, lambda flow: flow.goodput_bps / 1e6) for name in ("fast", "cubic"))
            trip = mean("fast", lambda flow: 1e3 * flow.rtt_p50_s)
            share = 100 * fast / (fast + cubic)
            lines.append(f"| {queue} | {alpha} | {fast:.2f} | {cubic:.2f} | {share:.0f}% | {trip:.0f} |")
    return FigureResult(
        id="fig6",
        title="FAST and CUBIC in one queue",
        caption="One connection of each on 20 Mbit/s and 40 ms for 30 s, where the queue holds so many packets.",
        kind="table",
        text="\n".join(lines),
        runs=_runs(flows),
        notes=[
            "CUBIC fills the queue until it overflows; FAST keeps alpha packets in it, and of a queue that "
            "another has filled its share is what alpha is of it. The losses that CUBIC makes strike FAST as well."
        ],
    )


def _means(flows: Sequence[Flow]) -> Callable[[str, Callable[[Flow], float]], float]:
    def mean(name: str, of: Callable[[Flow], float]) -> float:
        return statistics.fmean(of(flow) for flow in flows if flow.name == name)

    return mean


def _runs(flows: Sequence[Flow]) -> int:
    return 1 + max(flow.run for flow in flows)


def _claim(name: str, what: str, criteria: Sequence[Criterion]) -> ClaimResult:
    missed = ", ".join(one.what for one in criteria if not one.holds)
    return judge(name, what, criteria, differs=lambda: f"Missed: {missed}.")
