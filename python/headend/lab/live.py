"""The proxies paper's experiment, live: a real proxy between real hosts, beside the same in the simulator.

One scenario file says everything; what is varied is the server's congestion control, how the flow goes, and the loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headend
from headend.lab.study import lab_study
from headend.papers import stats
from headend.papers.claim import Range, criterion, judge
from headend.papers.model import ClaimResult, Criterion, FigureResult, Series, StudyResult, Style
from headend.papers.stats import Estimate

LOSS = "links.cable.down.loss"
GET = "flows.get.via"
LOCAL = "nodes.proxy.local.personality"

SERVERS: Mapping[str, str] = {"reno": "Reno", "cubic": "CUBIC", "bbr": "BBR"}
"""Congestion control of the server, by the names of both kernel and simulator."""

WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "direct": ("direct", {}),
    "proxy": ("proxy", {GET: "proxy"}),
    "remedy": (
        "proxy, the paper's remedy",
        {GET: "proxy", LOCAL: "hfc-local", "nodes.proxy.local.tcp.controller": "cubic"},
    ),
    "tuned": ("proxy, the remedy with BBR", {GET: "proxy", LOCAL: "hfc-local"}),
    "fair": (
        "proxy, the remedy with Backfill",
        {GET: "proxy", LOCAL: "hfc-local", "nodes.proxy.local.tcp.controller": "backfill"},
    ),
}
"""How the flow goes, and what says so in the scenario."""

OLD: Mapping[str, str] = {"nodes.server.personality": "bsd-reno-1996", "nodes.server.tcp.send_buffer": "64KB"}
"""The paper's server, whose windows have no scale; simulated only."""

KEPT_MIN = 0.95
"""Goal: the share of its loss-free throughput that the tuned proxy keeps at 1% loss."""
GAIN_MIN = 2.0
"""Goal: the tuned proxy over the direct connection, from `HEAVY` on."""
HEAVY = 3.0

Settings = Mapping[str, str]


class LiveError(ValueError):
    """Measured results are not what they should be."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Goodput of every run [Mbit/s], by loss [%]."""

    by_loss: Mapping[float, NDArray[np.float64]]
    incomplete: int
    """Transfers that the limit of time cut short: they count with what had arrived."""

    @staticmethod
    def of(flows: Mapping[str, Any]) -> Curve:
        """From the columns of a table of flows."""
        try:
            losses = np.array([float(str(text).rstrip("%")) for text in flows[LOSS]])
            goodput = np.asarray(flows["goodput_bps"], dtype=np.float64) / 1e6
            completed = np.asarray(flows["completed"])
        except (KeyError, TypeError, ValueError) as error:
            raise LiveError(f"no table of flows over {LOSS}: {error!r}") from error
        by_loss = {float(loss): goodput[losses == loss] for loss in np.unique(losses)}
        return Curve(by_loss, int(np.count_nonzero(completed == 0)))

    def series(self, label: str, group: str, style: Style) -> Series:
        """Means with their 95% intervals."""
        return Series.of(label, self.by_loss, map(stats.mean, self.by_loss.values()), group, style)


@dataclass(frozen=True, slots=True)
class Live:
    """Everything that was measured: by server and way."""

    linux: Mapping[tuple[str, str], Curve]
    simulated: Mapping[tuple[str, str], Curve]
    """The same, and with the server "1996"."""
    runs: int
    late: int
    """Runs between real hosts in which the machine did not keep up with the links."""
    seed: int


def settings(server: str, way: str) -> Settings:
    """What the scenario is told for one curve."""
    chosen = OLD if server == "1996" else {"nodes.server.tcp.controller": server}
    return {**chosen, **WAYS[way][1]}


def simulate(file: Path, runs: int) -> dict[tuple[str, str], Curve]:
    """Every curve in the simulator."""
    curves = {}
    for server in ("1996", *SERVERS):
        for way in WAYS:
            flows = headend.run(file, set=settings(server, way), runs=runs).flows
            curves[server, way] = Curve.of({name: flows[name] for name in (LOSS, "goodput_bps", "completed")})
    return curves


def read(kept: Mapping[tuple[str, str], Path]) -> tuple[dict[tuple[str, str], Curve], int, int]:
    """What `headend lab --format json` printed for each server and way: curves, runs of a point, late runs."""
    curves, late, runs = {}, 0, 0
    for key, path in kept.items():
        printed = json.loads(path.read_text(encoding="utf-8"))
        try:
            curves[key] = Curve.of(printed["flows"])
            late += sum(not run["kept_up"] for run in printed["runs"])
        except (KeyError, TypeError, LiveError) as error:
            raise LiveError(f"{path}: {error}") from error
        runs = max(runs, *(goodput.size for goodput in curves[key].by_loss.values()))
    return curves, runs, late


def study(live: Live, **facts: Any) -> StudyResult:
    """The page's contents; `facts` as of `lab_study`."""
    what = "3 MB through a real proxy between real hosts, and the same in virtual time"
    return lab_study(
        "live", "The proxies paper, live", what, [_today(live), _gain(live), _old(live)], live.seed, **facts
    )


def _panel(server: str) -> str:
    return f"({'abc'[list(SERVERS).index(server)]}) server on {SERVERS[server]}"


def _today(live: Live) -> FigureResult:
    series = []
    for server in SERVERS:
        for way, (label, _) in WAYS.items():
            series.append(live.linux[server, way].series(label, _panel(server), "line"))
            series.append(live.simulated[server, way].series(f"{label}, simulated", _panel(server), "dashed"))
    cut = sum(curve.incomplete for curve in live.linux.values())
    notes = [
        "Linux at every end. The paper's remedy as the kernel has it: a time-out of 50 ms at least, acknowledgements "
        "at once and a duplicate-ACK threshold of 1, which RACK makes of little account; congestion control is CUBIC.",
        f"{cut} transfers between real hosts were cut short by the limit of time and count with what had arrived.",
    ]
    if live.late:
        notes.append(f"In {live.late} runs the machine did not keep up with the links.")
    return FigureResult(
        id="fig1",
        title="A proxy today",
        caption="Goodput of 3 MB over 100 ms and 20 ms, by loss on the cable.",
        kind="lines",
        x_label="Loss of data packets on the cable [%]",
        y_label="Goodput [Mbit/s]",
        y_log=True,
        series=series,
        claims=claims(live),
        runs=live.runs,
        notes=notes,
    )


def _gain(live: Live) -> FigureResult:
    heading = "| server | loss | direct [Mbit/s] | " + " | ".join(label for label, _ in list(WAYS.values())[1:])
    lines = [f"{heading} | tuned over direct |", "|---|---:|---:" + "|---:" * len(WAYS) + "|"]
    for server, name in SERVERS.items():
        for loss in live.linux[server, "direct"].by_loss:
            means = [f"{stats.mean(live.linux[server, way].by_loss[loss]).value:.3g}" for way in WAYS]
            lines.append(f"| {name} | {loss:g}% | {' | '.join(means)} | {_over(live, server, loss).value:.3g} |")
    return FigureResult(
        id="fig2",
        title="Between real hosts, in figures",
        caption="Means over the runs.",
        kind="table",
        text="\n".join(lines),
    )


def _old(live: Live) -> FigureResult:
    return FigureResult(
        id="fig3",
        title="A server of 1996 behind the proxy of today",
        caption="Simulated: Reno without selective acknowledgements on a 500 ms clock, windows of 64 KB at most.",
        kind="lines",
        x_label="Loss of data packets on the cable [%]",
        y_label="Goodput [Mbit/s]",
        y_log=True,
        series=[live.simulated["1996", way].series(label, "", "line") for way, (label, _) in WAYS.items()],
        runs=live.runs,
    )


def _over(live: Live, server: str, loss: float) -> Estimate:
    """The tuned proxy's throughput over that of the direct connection to the same server."""
    tuned, direct = (live.linux[server, way].by_loss[loss] for way in ("tuned", "direct"))
    return stats.ratio_of_means(tuned, direct)


def claims(live: Live) -> list[ClaimResult]:
    """The goals of the experiment, judged between real hosts."""
    tuned = {name: live.linux[server, "tuned"].by_loss for server, name in SERVERS.items()}
    kept = [_at_least(name, stats.ratio_of_means(of[1.0], of[0.0]), KEPT_MIN) for name, of in tuned.items()]
    heavy = [loss for loss in live.linux["reno", "tuned"].by_loss if loss >= HEAVY]
    least = {server: min((_over(live, server, loss) for loss in heavy), key=lambda e: e.value) for server in SERVERS}
    gains = [_at_least(name, least[server], GAIN_MIN, judged=server != "bbr") for server, name in SERVERS.items()]
    return [
        judge(
            "live.kept",
            "Throughput that the tuned proxy keeps at 1% loss, of that without",
            kept,
            published=f"at least {KEPT_MIN:g}",
        ),
        judge(
            "live.gain",
            "The tuned proxy over the direct connection, least from 3% loss on",
            gains,
            published=f"at least {GAIN_MIN:g}",
            always="A direct connection to a server on BBR loses little by itself: the least gain is "
            f"{least['bbr'].value:.2f}.",
        ),
    ]


def _at_least(server: str, measured: Estimate, least: float, *, judged: bool = True) -> Criterion:
    return criterion(f"server on {server}", f"at least {least:g}", measured, Range(lo=least), judged=judged)
