"""Sections 6.1 and 6.2: delayed ACK and the segment size. Figures 11 to 14."""

from __future__ import annotations

from headend.papers import reference, stats
from headend.papers.claim import RELATIVE_TOLERANCE, Claim, at_most, criterion, less_than, more_than, number
from headend.papers.figure import Curves, Line, SweepFigure
from headend.papers.model import Criterion
from headend.papers.runner import Settings
from headend.papers.stats import Estimate
from headend.papers.traces import LadderFigure, Panel
from headend.papers.tuning.network import (
    ACK_LOSS,
    JUDGED,
    PACKET,
    SIZE,
    both_eras,
    buffer,
    delayed_ack,
    era,
    initial_window,
    packets,
)

# Figure 11 ------------------------------------------------------------------------------------------------------------


FIG11 = LadderFigure(
    id="fig11",
    title="FTP and HTTP over a receiver that delays its ACKs",
    caption="The first exchanges of an FTP and of an HTTP transfer: an initial wait of up to 200 ms in both.",
    section="6.1",
    panels=[
        Panel("(a) FTP get", "fig11_ftp", era(JUDGED)),
        Panel("(b) HTTP get, header apart", "fig11_http", era(JUDGED)),
    ],
    notes=["Labels give bytes and places in the stream, from 0. The delayed ACK waits its 200 ms in full, as in ns."],
)

# Figure 12 ------------------------------------------------------------------------------------------------------------

_FIG12_BUFFERS = {"32 KB": "(a) 32 KB buffer", "8 KB": "(b) 8 KB buffer", "16 KB": "(c) 16 KB buffer"}
_FIG12_LINES: dict[str, tuple[str, Settings, str]] = {
    "immediate": ("no delayed ACK, initial window 1", {**delayed_ack(False), **initial_window(1)}, "no delack iw1"),
    "delayed": ("delayed ACK, initial window 1", {**delayed_ack(True), **initial_window(1)}, "delack iw1"),
    "remedy": ("delayed ACK, initial window 2", {**delayed_ack(True), **initial_window(2)}, "delack iw2"),
}
SMALL_KB = 150
"""The paper: "data transfers of 150 KB and less"."""


def _cost(curves: Curves, name: str, key: str, size: float) -> float:
    """Share of the throughput without delayed ACK that is lost with it."""
    with_it = curves[f"{key} {name}"].at(size).goodput_mbps[0]
    return float(1 - with_it / curves[f"immediate {name}"].at(size).goodput_mbps[0])


def _fig12(curves: Curves) -> list[Criterion]:
    criteria = []
    for name, judged in (("32 KB", True), ("8 KB", False)):
        beside = "" if judged else f"{name} buffer: "
        small = [size for size in curves[f"delayed {name}"].x if size < SMALL_KB]
        least = min(_cost(curves, name, "delayed", size) for size in small)
        worst = max(_cost(curves, name, "remedy", size) for size in [*small, SMALL_KB])
        criteria += [
            criterion(
                f"{beside}least loss below 150 KB",
                "> 0.50",
                Estimate.exact(least),
                accept=more_than(0.5),
                judged=judged,
            ),
            criterion(
                f"{beside}loss at 5 MB",
                "< 0.10",
                Estimate.exact(_cost(curves, name, "delayed", 5000)),
                accept=less_than(0.1),
                judged=judged,
            ),
            criterion(
                f"{beside}most loss up to 150 KB with an initial window of 2",
                "0",
                Estimate.exact(worst),
                accept=at_most(RELATIVE_TOLERANCE),
                judged=judged,
            ),
        ]
    return criteria


FIG12 = SweepFigure(
    id="fig12",
    title="Delayed ACK and the initial window",
    caption="What delayed ACK in subscribers' PCs costs, and what an initial window of 2 at the server saves.",
    section="6.1",
    scenario="fig12",
    axis=SIZE,
    exact=lambda _: True,
    lines=[
        Line(f"{key} {name}", label, {**settings, **buffer(name), **era(JUDGED)}, group)
        for name, group in _FIG12_BUFFERS.items()
        for key, (label, settings, _) in _FIG12_LINES.items()
    ],
    reference=lambda: [
        reference.series("p1_fig12", f"{name.replace(' ', '')} {series}", f"{label}, ns-2.35", group=group)
        for name, group in _FIG12_BUFFERS.items()
        for label, _, series in _FIG12_LINES.values()
    ],
    claims=[
        Claim(
            id="tuning.fig12.delack",
            tolerance=(
                "The inequalities as they stand, at each size below 150 KB. 'Avoids the degradation': at most 15% left."
            ),
            measure=_fig12,
            reason=lambda _, criteria: (
                "; ".join(
                    f"{c.what} {number(c.measured)} against {c.published}" for c in criteria if c.judged and not c.holds
                )
                + "."
            ),
        )
    ],
    notes=["No hand-shake, no loss. Judged with 32 KB, the buffer under which 5 MB lose less than 10%."],
)

# Figure 13 ------------------------------------------------------------------------------------------------------------

_DELACK = {"delayed": ("delayed ACK", True), "immediate": ("no delayed ACK", False)}


def ratio_at(curves: Curves, above: str, below: str, x: float) -> Estimate:
    """Mean throughput of one line over that of another."""
    return stats.ratio_of_means(curves[above].at(x).goodput_mbps, curves[below].at(x).goodput_mbps)


def _reach(curves: Curves, key: str, x: float) -> str:
    cell = curves[key].at(x)
    return f"{number(float(cell.goodput_mbps.mean()), 'Mbit/s')} ({number(float(cell['timeouts'].mean()))} time-outs)"


FIG13 = SweepFigure(
    id="fig13",
    title="Delayed ACK when ACKs are lost",
    caption="Delayed ACK makes a connection more vulnerable to ACK loss: 3 MB, 8 KB socket buffer.",
    section="6.1",
    scenario="fig13",
    axis=ACK_LOSS,
    lines=both_eras([(key, label, delayed_ack(on)) for key, (label, on) in _DELACK.items()]),
    reference=lambda: [
        reference.series("p1_fig15", f"ack loss tick=0.5 delack={int(on)}", f"{label}, ns-2.35")
        for label, on in _DELACK.values()
    ],
    claims=[
        Claim(
            id="tuning.fig13.delack",
            tolerance="An inequality: taken as it stands.",
            measure=lambda curves: [
                criterion(
                    "without over with delayed ACK at 20%",
                    "> 1",
                    ratio_at(curves, "immediate", "delayed", 20),
                    accept=more_than(1),
                )
            ],
            reason=lambda curves, _: (
                f"At 20%: {_reach(curves, 'immediate', 20)} without, {_reach(curves, 'delayed', 20)} with delayed ACK."
            ),
        )
    ],
    notes=["Initial window 1, no hand-shake."],
)

# Figure 14 ------------------------------------------------------------------------------------------------------------

_MSS = {1460: 6, 512: 16, 256: 32}
"""8 KB in packets of each size."""
_FIG14_PANELS = {"uncounted": "(a) headers not counted, as in the paper", "ipv4": "(b) with 40 bytes of headers"}


def _mss(size: int, headers: str) -> Settings:
    return {
        "nodes.server.tcp.mss": f"{size}B",
        "nodes.pc.tcp.mss": f"{size}B",
        "nodes.server.tcp.headers": headers,
        "nodes.pc.tcp.headers": headers,
        **packets(_MSS[size], size),
    }


FIG14 = SweepFigure(
    id="fig14",
    title="Segment size when ACKs are lost",
    caption="Throughput with ACK loss for different MSS values, 3 MB, delayed ACK.",
    section="6.2",
    scenario="fig14",
    axis=ACK_LOSS,
    runs_quick=40,
    lines=[
        Line(f"{size} {headers}", f"MSS {size} B", {**_mss(size, headers), **era(JUDGED)}, group)
        for headers, group in _FIG14_PANELS.items()
        for size in _MSS
    ],
    reference=lambda: [
        reference.series(
            "p1_fig14", f"MSS {size} wire {size + extra}", f"MSS {size} B, ns-2.35", group=_FIG14_PANELS[headers]
        )
        for headers, extra in (("uncounted", 0), ("ipv4", 40))
        for size in _MSS
    ],
    claims=[
        Claim(
            id="tuning.fig14.mss",
            tolerance="An inequality: taken as it stands; with and without headers.",
            measure=lambda curves: [
                criterion(
                    f"512 B over {PACKET} B at 20%{beside}",
                    "> 1",
                    ratio_at(curves, f"512 {headers}", f"{PACKET} {headers}", 20),
                    accept=more_than(1),
                )
                for headers, beside in (("uncounted", ""), ("ipv4", ", headers counted"))
            ],
            reason=lambda curves, _: (
                f"At 20%: {_reach(curves, '512 uncounted', 20)} with 512 B, "
                f"{_reach(curves, f'{PACKET} uncounted', 20)} with {PACKET} B."
            ),
        )
    ],
    notes=["An 8 KB buffer holds 6, 16 or 32 packets. Loss strikes a packet with the same chance whatever its size."],
)

FIGURES = (FIG11, FIG12, FIG13, FIG14)
