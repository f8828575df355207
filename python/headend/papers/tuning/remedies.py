"""Sections 6.3, 6.4 and 7: the timer, super fast retransmit, and both. Figures 15 to 18."""

from __future__ import annotations

from collections.abc import Sequence

from headend.papers import reference
from headend.papers.claim import GENERAL_TOLERANCE, Claim, about, criterion, exactly, less_than, more_than, number
from headend.papers.figure import Curves, Line, SweepFigure
from headend.papers.model import Criterion, Series, Style
from headend.papers.runner import Settings
from headend.papers.stats import Estimate
from headend.papers.traces import Exchanges, LadderFigure, Packet, Panel
from headend.papers.tuning.acks import ratio_at
from headend.papers.tuning.loss import kept
from headend.papers.tuning.network import (
    ACK_LOSS,
    DATA_LOSS,
    JUDGED,
    PACKET,
    REMEDIES,
    SIZE,
    both_eras,
    buffer,
    delayed_ack,
    era,
    initial_window,
    packets,
    threshold,
    timer,
)

# Figure 15 ------------------------------------------------------------------------------------------------------------

_FIG15_PANELS = {"data loss": "(a) downstream packet loss", "ack loss": "(b) upstream ACK loss"}
_TIMERS: dict[str, tuple[str, Settings, str]] = {
    "500": ("500 ms timer", timer(500), "tick=0.5"),
    "200": ("200 ms timer", timer(200), "tick=0.2"),
}


def _fig15(curves: Curves) -> list[Criterion]:
    readings = (
        ("", "200 ms over 500 ms at 3%", True),
        ("other ", "rules of 1996", False),
        ("immediate ", "no delayed ACK", False),
    )
    return [
        criterion(what, "~2", ratio_at(curves, f"{prefix}200", f"{prefix}500", 3), judged=judged, accept=about(2, 0.1))
        for prefix, what, judged in readings
    ]


def _fig15_reason(curves: Curves, criteria: Sequence[Criterion]) -> str:
    slow, fast = curves["500"].at(3), curves["200"].at(3)
    per_timeout = float((slow["transfer_s"].mean() - fast["transfer_s"].mean()) / slow["timeouts"].mean())
    return (
        f"The same {number(float(slow['timeouts'].mean()))} time-outs take "
        f"{number(float(slow['transfer_s'].mean()), 's')} with one timer and "
        f"{number(float(fast['transfer_s'].mean()), 's')} with the other: each waits "
        f"{number(per_timeout, 's')} less, but the rest of the transfer takes as long as before. The gain is "
        f"{number(criteria[0].measured)} and not 2."
    )


FIG15 = SweepFigure(
    id="fig15",
    title="A finer timer",
    caption="What a granularity of 200 ms for the retransmission timer gains: 3 MB, 8 KB socket buffer.",
    section="6.3",
    scenario="fig15",
    axis=DATA_LOSS,
    lines=[
        *both_eras(
            [(key, label, settings) for key, (label, settings, _) in _TIMERS.items()], _FIG15_PANELS["data loss"]
        ),
        *(
            Line(f"immediate {key}", label, {**settings, **delayed_ack(False), **era(JUDGED)}, shown=False)
            for key, (label, settings, _) in _TIMERS.items()
        ),
        *(
            Line(
                f"ack {key}",
                label,
                {**settings, **era(JUDGED)},
                _FIG15_PANELS["ack loss"],
                scenario="fig13",
                axis=ACK_LOSS,
            )
            for key, (label, settings, _) in _TIMERS.items()
        ),
    ],
    reference=lambda: [
        reference.series("p1_fig15", f"{which} {tick} delack=1", f"{label}, ns-2.35", group=group)
        for which, group in _FIG15_PANELS.items()
        for label, _, tick in _TIMERS.values()
    ],
    claims=[
        Claim(
            id="tuning.fig15.timer",
            tolerance=f"{GENERAL_TOLERANCE}: the paper says 'almost two-fold'.",
            measure=_fig15,
            reason=_fig15_reason,
        )
    ],
    notes=["Delayed ACK, initial window 1, no hand-shake."],
)

# Figure 16 ------------------------------------------------------------------------------------------------------------

_FIG16_OFFSET = 24
"""Our packet 35 is the paper's 11: it takes a loss in slow start to bring the sender to congestion avoidance at 8."""
_FIG16_FIRST, _FIG16_SECOND = 11, 14


def _number(stream: int) -> int:
    """The paper's number of the packet that begins at this byte."""
    return stream // PACKET + 1 - _FIG16_OFFSET


def _fig16_label(packet: Packet) -> str:
    return str(_number(packet.seq)) if packet.len else f"ACK {_number(packet.ack)}"


def _fig16_shows(packet: Packet) -> bool:
    shown = _number(packet.seq if packet.len else packet.ack)
    return 8 <= shown <= 24


_FIG16 = {"(a) fast retransmit": 3, "(b) super fast retransmit": 1}


def _fig16(exchanges: Exchanges) -> list[Criterion]:
    """Counts on the exchange itself; ACKs that repeat the number of a lost packet are its duplicates."""
    criteria = []
    for (panel, _), (expected_timeouts, duplicates_of_second) in zip(_FIG16.items(), ((1, 2), (0, 1)), strict=True):
        _, ways = exchanges[panel]
        again = [way for way in ways if way.retransmission]
        first = [way for way in again if _number(way.seq) == _FIG16_FIRST]
        second = [way for way in again if _number(way.seq) == _FIG16_SECOND]
        # A fast retransmit leaves at the moment when an ACK arrives; one after a time-out does not.
        arrivals = {way.received_s for way in ways if way.sender == "pc"}
        timeouts = sum(way.sent_s not in arrivals for way in first + second)
        acks = [
            way
            for way in ways
            if way.sender == "pc" and _number(way.ack) == _FIG16_SECOND and second and _before(way, second[0])
        ]
        criteria += [
            _exactly(f"{panel}: retransmissions of 11", len(first), 1),
            _exactly(f"{panel}: retransmissions of 14", len(second), 1),
            _exactly(f"{panel}: duplicate ACKs for 14 before it is sent again", len(acks) - 1, duplicates_of_second),
            _exactly(f"{panel}: time-outs", timeouts, expected_timeouts),
        ]
    return criteria


def _before(ack: Packet, again: Packet) -> bool:
    return ack.received_s is not None and ack.received_s <= again.sent_s


def _exactly(what: str, measured: int, expected: int) -> Criterion:
    return criterion(what, str(expected), Estimate.exact(float(measured)), accept=exactly(expected))


FIG16 = LadderFigure(
    id="fig16",
    title="Two losses in a window of eight",
    caption="Packets 11 and 14 are lost: fast retransmit needs a time-out for 14, super fast retransmit does not.",
    section="6.4",
    panels=[
        Panel(name, "fig16", {**threshold(count), **era(JUDGED)}, _fig16_label, _fig16_shows)
        for name, count in _FIG16.items()
    ],
    claims=[
        Claim(
            id="tuning.fig16.sfr",
            tolerance="Exact: the sequence of section 6.4, event by event.",
            measure=_fig16,
            reason=lambda _, criteria: (
                "; ".join(f"{c.what}: {c.measured:g} and not {c.published}" for c in criteria if not c.holds) + "."
            ),
        )
    ],
    notes=[
        "The window must be 8 by congestion avoidance: 8 by socket buffer leaves no room to inflate, and no duplicate "
        "ACK for 14 would come. So a packet is lost in slow start first, from a window of 16; the packets after that "
        "are numbered as in the paper, ours less 24."
    ],
)

# Figure 17 ------------------------------------------------------------------------------------------------------------

_FIG17: dict[str, tuple[str, Settings, str]] = {
    "normal": ("500 ms timer, 3 duplicate ACKs", {**timer(500), **threshold(3)}, "tick=0.5 numdup=3"),
    "timer": ("200 ms timer", {**timer(200), **threshold(3)}, "tick=0.2 numdup=3"),
    "sfr": ("super fast retransmit", {**timer(500), **threshold(1)}, "tick=0.5 numdup=1"),
    "both": ("both", REMEDIES, "tick=0.2 numdup=1"),
}
_FIG17_PANELS = {"delack=1 iw=1": "(a) delayed ACK, initial window 1", "delack=0 iw=2": "(b) none, initial window 2"}


def _fig17(curves: Curves) -> list[Criterion]:
    losses = [x for x in curves["both"].x if 0 < x <= 7]
    best = {x: max(("timer", "sfr"), key=lambda key: curves[key].at(x).goodput_mbps.mean()) for x in losses}
    over_best = min((ratio_at(curves, "both", best[x], x) for x in losses), key=lambda estimate: estimate.value)
    gain, other = (
        max((ratio_at(curves, f"{prefix}both", f"{prefix}normal", x) for x in losses), key=lambda e: e.value)
        for prefix in ("", "other ")
    )
    return [
        criterion("both over the better one, at least", "> 1", over_best, accept=more_than(1)),
        criterion("largest gain up to 7%", "> 3", gain, accept=more_than(3)),
        criterion("rules of 1996: largest gain up to 7%", "> 3", other, accept=more_than(3), judged=False),
    ]


FIG17 = SweepFigure(
    id="fig17",
    title="Both remedies",
    caption="The complementary effects of a finer timer and of super fast retransmit: 3 MB, 8 KB socket buffer.",
    section="6.4",
    scenario="fig15",
    axis=DATA_LOSS,
    lines=[
        *both_eras(
            [(key, label, settings) for key, (label, settings, _) in _FIG17.items()], _FIG17_PANELS["delack=1 iw=1"]
        ),
        *(
            Line(
                f"immediate {key}",
                label,
                {**settings, **delayed_ack(False), **initial_window(2), **era(JUDGED)},
                _FIG17_PANELS["delack=0 iw=2"],
            )
            for key, (label, settings, _) in _FIG17.items()
        ),
    ],
    reference=lambda: [
        reference.series("p1_fig17", f"{series} {which}", f"{label}, ns-2.35", group=group)
        for which, group in _FIG17_PANELS.items()
        for label, _, series in _FIG17.values()
    ],
    claims=[
        Claim(
            id="tuning.fig17.both",
            tolerance="Inequalities: taken as they stand.",
            measure=_fig17,
            reason=lambda _, criteria: (
                f"Both remedies reach {number(criteria[0].measured)} times the better one where they gain least, and "
                f"{number(criteria[1].measured)} times the normal sender where they gain most."
            ),
        )
    ],
)

# Figure 18 ------------------------------------------------------------------------------------------------------------

_LOSSES = (1, 3, 5, 10)
_SENDERS: dict[str, Settings] = {"normal": {**timer(500), **threshold(3)}, "modified": REMEDIES}


def _runs(small: int, middle: int, large: int, kilobytes: float) -> int:
    """Short transfers vary more and cost less."""
    return small if kilobytes <= 100 else middle if kilobytes <= 300 else large


def _gains(curves: Curves, prefix: str = "") -> dict[tuple[int, float], Estimate]:
    """Modified over normal, by loss and size."""
    return {
        (loss, size): ratio_at(curves, f"{prefix}modified {loss}", f"{prefix}normal {loss}", size)
        for loss in _LOSSES
        for size in curves[f"normal {loss}"].x
    }


def _fig18(curves: Curves) -> list[Criterion]:
    criteria = []
    for prefix, name, judged in (("", "", True), ("other ", "rules of 1996: ", False)):
        gains = _gains(curves, prefix)
        large = [estimate for (_, size), estimate in gains.items() if size >= 50]
        rows = (
            ("least gain, 50 KB and above", "1.25", min(large, key=lambda e: e.value), about(1.25, 0.01)),
            ("most gain, 50 KB and above", "4.0", max(large, key=lambda e: e.value), about(4.0, 0.1)),
            ("30 KB at 10%", "2.0", gains[10, 30], about(2.0, 1)),
        )
        criteria += [criterion(f"{name}{what}", value, e, judged=judged, accept=band) for what, value, e, band in rows]
    return criteria


def _fig18_reason(curves: Curves, criteria: Sequence[Criterion]) -> str:
    gains = {place: gain for place, gain in _gains(curves).items() if place[1] >= 50}
    least, most = min(gains, key=lambda p: gains[p].value), max(gains, key=lambda p: gains[p].value)
    missed = "; ".join(
        f"{c.what} {number(c.measured)} against {c.published}" for c in criteria if c.judged and not c.holds
    )
    spared = float((curves[f"normal {least[0]}"].at(least[1])["retransmits"] == 0).mean())
    before, after = (
        float(curves[f"{sender} {most[0]}"].at(most[1])["timeouts"].mean()) for sender in ("normal", "modified")
    )
    return (
        f"{missed}. The least gain is that of {least[1]:g} KB at {least[0]}% ({number(gains[least].value)}): "
        f"{number(100 * spared)}% of these transfers lose nothing, and there is nothing to gain. The most is that of "
        f"{most[1]:g} KB at {most[0]}% ({number(gains[most].value)}): {number(before)} time-outs become "
        f"{number(after)}, each shorter."
    )


def _fig18_draw(curves: Curves) -> list[Series]:
    shown = []
    styles: tuple[tuple[str, str, Style], ...] = (("", "", "line"), ("other ", ", rules of 1996", "dashed"))
    for prefix, rules, style in styles:
        gains = _gains(curves, prefix)
        for loss in _LOSSES:
            of = {size: gain for (at, size), gain in gains.items() if at == loss}
            shown.append(Series.of(f"{loss}% loss{rules}", of, of.values(), style=style))
    return shown


def _fig18_reference() -> list[Series]:
    def curve(sender: str, loss: int) -> Series:
        return reference.series("p1_fig18", f"{sender} loss={loss}%", "")

    return [
        reference.ratio(curve("modified", loss), curve("normal", loss), f"{loss}% loss, ns-2.35") for loss in _LOSSES
    ]


FIG18 = SweepFigure(
    id="fig18",
    title="The remedies and the size of the transfer",
    caption="What modified TCP gains for different transfer sizes and data loss rates, 8 KB socket buffer.",
    section="6.4",
    scenario="fig18",
    axis=SIZE,
    y_label="Throughput, modified over normal",
    exact=lambda _: False,
    runs_quick=lambda kilobytes: _runs(1000, 300, 60, kilobytes),
    runs_full=lambda kilobytes: _runs(4000, 1000, 300, kilobytes),
    lines=[
        line
        for loss in _LOSSES
        for line in both_eras(
            [
                (f"{sender} {loss}", f"{sender}, {loss}%", {**settings, "links.cable.down.loss": f"{loss}%"})
                for sender, settings in _SENDERS.items()
            ]
        )
    ],
    draw=_fig18_draw,
    reference=_fig18_reference,
    claims=[
        Claim(
            id="tuning.fig18.sizes",
            tolerance=f"{GENERAL_TOLERANCE}; for both ends of the range and for 30 KB.",
            measure=_fig18,
            reason=_fig18_reason,
        )
    ],
    notes=["Delayed ACK, initial window 2 and one round trip of set-up for both senders, as Figures 6 and 7."],
)

# Section 7 ------------------------------------------------------------------------------------------------------------

_TUNED: dict[str, tuple[str, Settings]] = {
    **{name: (f"{name} buffer", buffer(name)) for name in ("8 KB", "16 KB", "24 KB", "32 KB")},
    "16 KB, MSS 512": (
        "16 KB buffer, MSS 512 B",
        {"nodes.server.tcp.mss": "512B", "nodes.pc.tcp.mss": "512B", **packets(31, 512)},
    ),
    "16 KB, no delayed ACK": ("16 KB buffer, no delayed ACK", {**buffer("16 KB"), **delayed_ack(False)}),
}
_CAN_BE_SET_AT_THE_SERVER = ("8 KB", "16 KB", "16 KB, MSS 512")
"""Buffers that the modem allows (19 KB) and a smaller MSS; delayed ACK is the subscriber's."""


def _s7(curves: Curves) -> list[Criterion]:
    losses = {key: _reduction(curves, key, 20) for key in _TUNED}
    best = min(_CAN_BE_SET_AT_THE_SERVER, key=lambda key: losses[key].value)
    return [
        criterion(f"reduction at 20%, at best ({_TUNED[best][0]})", "< 0.10", losses[best], accept=less_than(0.1)),
        *(
            criterion(_TUNED[key][0], "< 0.10", losses[key], accept=less_than(0.1), judged=False)
            for key in _TUNED
            if key != best
        ),
    ]


def _reduction(curves: Curves, key: str, x: float) -> Estimate:
    share = kept(curves, key, x)
    return Estimate(1 - share.value, 1 - share.hi, 1 - share.lo)


def _s7_reason(curves: Curves, criteria: Sequence[Criterion]) -> str:
    cell = curves["16 KB"].at(20)
    quiet = cell["timeouts"] == 0
    without = (
        f"; the {int(quiet.sum())} without any reach {number(float(cell.goodput_mbps[quiet].mean()), 'Mbit/s')}"
        if quiet.any()
        else ""
    )
    return (
        f"At 20% the best setting loses {number(100 * criteria[0].measured)}%. With 16 KB, {len(quiet)} transfers have "
        f"{number(float(cell['timeouts'].mean()))} time-outs each and reach "
        f"{number(float(cell.goodput_mbps.mean()), 'Mbit/s')}{without}; loss-free: "
        f"{number(float(curves['16 KB'].at(0).goodput_mbps.mean()), 'Mbit/s')}."
    )


S7 = SweepFigure(
    id="s7",
    title="ACK loss with the remedies",
    caption="Section 7: with the enhancements even a 20% loss of ACKs costs less than 10% (3 MB).",
    section="7",
    scenario="s7",
    axis=ACK_LOSS,
    lines=[
        Line(key, label, {**settings, **REMEDIES, **initial_window(2), **era(JUDGED)})
        for key, (label, settings) in _TUNED.items()
    ],
    claims=[
        Claim(
            id="tuning.s7.ack20",
            tolerance=(
                "An inequality: taken as it stands. Judged on the best of what the server can set by itself within the "
                "19 KB of section 5.2; the rest is shown beside."
            ),
            measure=_s7,
            reason=_s7_reason,
        )
    ],
    notes=["200 ms timer, super fast retransmit, initial window 2. Delayed ACK unless the line says otherwise."],
)

FIGURES = (FIG15, FIG16, FIG17, FIG18, S7)
