"""Section 5: the socket buffer and the modem's. Figures 8 to 10 and the equations of 5.2."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from headend.papers import reference, stats
from headend.papers.claim import GENERAL_TOLERANCE, Claim, about, at_most, counted, criterion, less_than, number
from headend.papers.figure import CaseFigure, Curve, Curves, Drawn, Line, SweepFigure, mean_of_runs_mbps
from headend.papers.model import Criterion
from headend.papers.stats import Estimate
from headend.papers.traces import SequenceFigure
from headend.papers.tuning.network import (
    BUFFER_PACKETS,
    JUDGED,
    PACKET,
    SIZE,
    WINDOW,
    both_eras,
    buffer,
    delayed_ack,
    era,
    initial_window,
)

MODEM_PACKETS = 7
"""A modem buffer of 10 KB, the packet in transmission included."""
DOWN, LAN = 25, 10
"""Downstream channel and Ethernet [Mbit/s]."""

# Figure 8 -------------------------------------------------------------------------------------------------------------

_FIG8_BUFFERS = ("8 KB", "16 KB", "24 KB", "48 KB")
_FIG8_PANELS = {
    "delack=0 iw=1": "(a) no delayed ACK",
    "delack=1 iw=1": "(b) delayed ACK, initial window 1",
    "delack=1 iw=2": "(c) delayed ACK, initial window 2",
}
LARGE_KB = 16000


def crossing_kb(curves: Curves, key: str, base: str) -> float:
    """The size from which on `key` is at least as fast as `base`, between points on a straight line in log size.

    The largest measured size if it never is; 0 if it always is.
    """
    upper, lower = curves[key], curves[base]
    sizes = np.array(upper.x)
    lead = np.array([cell.goodput_mbps.mean() - lower.at(cell.x).goodput_mbps.mean() for cell in upper.cells])
    behind = np.flatnonzero(lead < 0)
    if behind.size == 0:
        return 0.0
    last = int(behind[-1])
    if last == sizes.size - 1:
        return float(sizes[-1])
    share = lead[last] / (lead[last] - lead[last + 1])
    return float(np.exp(np.log(sizes[last]) + share * (np.log(sizes[last + 1]) - np.log(sizes[last]))))


def _fig8(curves: Curves) -> list[Criterion]:
    criteria = []
    for prefix, name, judged in (("", "", True), ("other ", "rules of 1996: ", False)):
        large, small = (curves[f"{prefix}{kb} KB"].at(LARGE_KB).goodput_mbps[0] for kb in (16, 8))
        below = crossing_kb(curves, f"{prefix}24 KB", f"{prefix}16 KB") / 1000
        criteria += [
            criterion(
                f"{name}16 KB over 8 KB at 16 MB",
                "~2",
                Estimate.exact(float(large / small)),
                judged=judged,
                accept=about(2, 0.5),
            ),
            criterion(
                f"{name}24 KB below 16 KB up to",
                "8",
                Estimate.exact(below),
                unit="MB",
                judged=judged,
                accept=about(8, 1),
            ),
        ]
    return criteria


def _fig8_reason(curves: Curves, criteria: Sequence[Criterion]) -> str:
    slow, fast = curves["24 KB"].at(LARGE_KB), curves["16 KB"].at(LARGE_KB)
    timeouts, again = (int(slow[column][0]) for column in ("timeouts", "retransmits"))
    reached, beside = (number(float(cell.goodput_mbps[0]), "Mbit/s") for cell in (slow, fast))
    return (
        f"24 KB has {counted(timeouts, 'time-out')} and {counted(again, 'packet')} sent again, then gains: at 16 MB it "
        f"reaches {reached} against {beside}, and the time lost is made up after {number(criteria[1].measured, 'MB')}. "
        f"16 KB is {number(criteria[0].measured)} times as fast as 8 KB."
    )


FIG8 = SweepFigure(
    id="fig8",
    title="Socket buffer and modem buffer",
    caption="Effect of a modem buffer of 10 KB on throughput, without media errors.",
    section="5.1",
    scenario="fig08",
    axis=SIZE,
    exact=lambda _: True,
    lines=[
        *both_eras([(name, f"{name} buffer", buffer(name)) for name in _FIG8_BUFFERS], _FIG8_PANELS["delack=0 iw=1"]),
        *(
            Line(
                f"{series} {name}",
                f"{name} buffer",
                {**buffer(name), **era(JUDGED), **delayed_ack(True), **initial_window(int(series[-1]))},
                _FIG8_PANELS[series],
            )
            for series in ("delack=1 iw=1", "delack=1 iw=2")
            for name in _FIG8_BUFFERS
        ),
    ],
    reference=lambda: [
        reference.series("p1_fig08", f"{name.replace(' ', '')} {series}", f"{name} buffer, ns-2.35", group=group)
        for series, group in _FIG8_PANELS.items()
        for name in _FIG8_BUFFERS
    ],
    claims=[
        Claim(
            id="tuning.fig8.buffer",
            tolerance=f"{GENERAL_TOLERANCE}; the crossing between points on a straight line.",
            measure=_fig8,
            reason=_fig8_reason,
        )
    ],
    notes=["Judged without delayed ACK: with it, 24 KB never overflows a modem buffer of 7 packets."],
)

# Figure 9 -------------------------------------------------------------------------------------------------------------

FIG9 = SequenceFigure(
    id="fig9",
    title="The time-out in slow start",
    caption="A time-out that occurs in slow start because the socket buffer (24 KB) is much larger than the modem's.",
    section="5.1",
    scenario="fig09",
    panels=[("24 KB socket buffer, 10 KB modem buffer", {})],
    notes=["After the time-out the window grows by a packet each round trip, and an overrun loses one packet only."],
)

# Figure 10 ------------------------------------------------------------------------------------------------------------

_FIG10_PANELS = {
    "delack=0 iw=1": "(a) no delayed ACK",
    "delack=1 iw=1": "(b) delayed ACK, initial window 1",
    "delack=1 iw=2": "(c) delayed ACK, initial window 2",
}


def _fig10(curves: Curves) -> list[Criterion]:
    criteria = []
    readings = (("", "", True), ("other ", "rules of 1996: ", False), ("delack=1 iw=1", "delayed ACK: ", False))
    for key, name, judged in readings:
        curve = curves[key]
        estimates = {buffer_kb: mean_of_runs_mbps(curve.at(count)) for buffer_kb, count in BUFFER_PACKETS.items()}
        smallest, *rest = estimates.values()
        best = max(estimate.value for estimate in rest)
        criteria.append(
            criterion(
                f"{name}best larger buffer over 8 KB",
                "< 1",
                Estimate(
                    best / smallest.value,
                    max(e.lo for e in rest) / smallest.hi,
                    max(e.hi for e in rest) / smallest.lo,
                ),
                accept=less_than(1.0),
                judged=judged,
            )
        )
        steps = list(zip(estimates.values(), rest, strict=False))
        rise = max(after.lo - before.hi for before, after in steps)
        criteria.append(
            criterion(
                f"{name}largest rise from a buffer to the next, beyond the intervals",
                "<= 0",
                Estimate.exact(rise),
                unit="Mbit/s",
                accept=at_most(0.0),
                judged=judged,
            )
        )
    return criteria


def _fig10_reason(curves: Curves, _: Sequence[Criterion]) -> str:
    cells = {name: curves[""].at(count) for name, count in BUFFER_PACKETS.items()}
    estimates = {name: mean_of_runs_mbps(cell) for name, cell in cells.items()}
    values = (
        f"{name} {number(estimates[name].value)} ({number(float(cell['timeouts'].mean()))} time-outs)"
        for name, cell in cells.items()
    )
    rises = (
        f" From {before} to {after} it rises by {100 * (estimates[after].value / estimates[before].value - 1):.1f}%."
        for before, after in itertools.pairwise(estimates)
        if estimates[after].lo > estimates[before].hi
    )
    return f"Mbit/s a connection: {', '.join(values)}.{''.join(rises)}"


FIG10 = SweepFigure(
    id="fig10",
    title="Three connections over one modem",
    caption="Throughput of each of three connections, 300 KB each, that share a modem buffer of 10 KB.",
    section="5.1",
    scenario="fig10",
    axis=WINDOW,
    measure=mean_of_runs_mbps,
    exact=lambda _: False,
    runs_quick=100,
    runs_full=1000,
    lines=[
        *both_eras([("", "three connections", {})], _FIG10_PANELS["delack=0 iw=1"]),
        *(
            Line(
                series,
                "three connections",
                {**era(JUDGED), **delayed_ack(True), **initial_window(int(series[-1]))},
                _FIG10_PANELS[series],
            )
            for series in ("delack=1 iw=1", "delack=1 iw=2")
        ),
    ],
    reference=lambda: [
        reference.series("p1_fig10", f"3 conns {series}", "three connections, ns-2.35", group=group)
        for series, group in _FIG10_PANELS.items()
    ],
    claims=[
        Claim(
            id="tuning.fig10.three",
            tolerance=(
                "8, 16, 24, 32 and 48 KB: 8 KB strictly best; from each to the next no rise beyond the sum of both 95% "
                "intervals, since equal buffers would rise by chance half the time."
            ),
            measure=_fig10,
            reason=_fig10_reason,
        )
    ],
    notes=["The connections start within 20 ms of each other. Judged without delayed ACK, as Figure 8."],
)

# Equations of 5.2 -----------------------------------------------------------------------------------------------------


def largest_buffer_packets(modem: int, down: int, lan: int, connections: int = 1) -> Fraction:
    """Section 5.2: the largest socket buffer that overruns the modem by one packet at most.

    A window of B packets reaches the modem back to back at rate `down`. Sending on at rate `lan` starts when the first
    has come; from then on B-1 packets come and the modem keeps the share 1 - lan/down of them, which must not be more
    than its C places. With n connections n(B-1) stands for B-1.
    """
    return 1 + Fraction(modem) / (1 - Fraction(lan, down)) / connections


def _without_timeout(curve: Curve) -> float:
    """The largest window below the first that has a time-out, in packets."""
    for before, cell in zip(curve.cells, curve.cells[1:], strict=False):
        if cell["timeouts"].max() > 0:
            return before.x
    return curve.cells[-1].x


def _equation(curves: Curves) -> list[Criterion]:
    model = float(largest_buffer_packets(MODEM_PACKETS, DOWN, LAN)) * PACKET / 1000
    simulated = _without_timeout(curves[""]) * PACKET / 1000
    delayed = _without_timeout(curves["delayed"]) * PACKET / 1000
    return [
        criterion("the equation", "19", Estimate.exact(model), unit="KB", accept=about(19, 1)),
        criterion("simulated", "19", Estimate.exact(simulated), unit="KB", accept=about(19, 1)),
        criterion(
            "simulated, delayed ACK", "19", Estimate.exact(delayed), unit="KB", judged=False, accept=about(19, 1)
        ),
    ]


def derivation() -> str:
    """Section 5.2 as Markdown, every number computed."""
    keeps = 1 - Fraction(LAN, DOWN)
    one = largest_buffer_packets(MODEM_PACKETS, DOWN, LAN)
    none_lost = 1 + (MODEM_PACKETS - 1) / keeps
    several = "\n".join(
        f"| {n} | {float(largest_buffer_packets(MODEM_PACKETS, DOWN, LAN, n)):.2f} | "
        f"{float(largest_buffer_packets(MODEM_PACKETS, DOWN, LAN, n)) * PACKET / 1000:.1f} |"
        for n in (1, 2, 3, 4, 8)
    )
    return f"""\
Let *B* be the socket buffer and *C* = {MODEM_PACKETS} the modem's buffer, in packets of *P* = {PACKET} bytes. A whole
window comes to the modem at {DOWN} Mbit/s, a packet each {PACKET * 8 / DOWN:.1f} us, and leaves at {LAN} Mbit/s, a
packet each {PACKET * 8 / LAN:.0f} us.

The modem begins to send when the first packet has come whole; then *C* - 1 places are free. While the other *B* - 1
packets come, it sends (*B* - 1) x {LAN}/{DOWN} of them, so (*B* - 1)(1 - {LAN}/{DOWN}) = {float(keeps):g}(*B* - 1)
pile up.

- Nothing is lost if {float(keeps):g}(*B* - 1) <= *C* - 1, so *B* <= {float(none_lost):.2f} packets.
- One lost packet is repaired by a fast retransmit; only several cause a time-out. At most one is lost if
  {float(keeps):g}(*B* - 1) <= *C*, so *B* <= 1 + {MODEM_PACKETS}/{float(keeps):g} = {float(one):.2f} packets =
  **{float(one) * PACKET / 1000:.1f} KB**. The paper says 19 KB.
- *n* connections may send their windows together: {float(keeps):g} *n* (*B* - 1) <= *C*.

| n | B [packets] | B [KB] |
|---|---|---|
{several}
"""


_MEASURED = SweepFigure(
    id="eq52",
    title="",
    scenario="eq52",
    axis=WINDOW,
    exact=lambda _: True,
    y_label="Time-outs of a 3 MB transfer",
    measure=lambda cell: stats.mean(cell["timeouts"]),
    lines=[
        *both_eras([("", "no delayed ACK", {})]),
        Line("delayed", "delayed ACK", {**delayed_ack(True), **era(JUDGED)}),
    ],
)
"""The simulation that the equations predict."""

EQUATION: CaseFigure[Curves] = CaseFigure(
    id="eq52",
    title="How large a socket buffer may be",
    caption="The largest socket buffer without a time-out in slow start, derived and simulated.",
    section="5.2",
    kind="derivation",
    x_label=_MEASURED.x_label,
    y_label=_MEASURED.y_label,
    always=1,
    run=lambda runner, *_: _MEASURED.data(runner),
    draw=lambda curves: Drawn(_MEASURED.series(curves), text=derivation()),
    claims=[
        Claim(
            id="tuning.eq.buffer",
            tolerance=f"{GENERAL_TOLERANCE}; for the equation and for the simulation.",
            measure=_equation,
            reason=lambda _, criteria: (
                f"The equation gives {number(criteria[0].measured, 'KB')}, the simulation has its first time-out above "
                f"{number(criteria[1].measured, 'KB')}."
            ),
        )
    ],
    notes=["The equations are garbled in the text that survives; they are derived anew from its words."],
)

FIGURES = (FIG8, FIG9, FIG10, EQUATION)
