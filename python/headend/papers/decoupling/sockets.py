"""Section 4.7: two connections over a link that damages packets, through reliable sockets and as plain TCPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, about, at_most, criterion, more_than, number
from headend.papers.decoupling.equations import packet_error_rate, throughput, window
from headend.papers.figure import Drawn, Figure, markdown
from headend.papers.model import Criterion, Kind, Series
from headend.papers.runner import Runner, Settings, load, scenarios
from headend.papers.stats import Estimate
from headend.results import Result

SCENARIO = "rs"
LINK_KBYTES = 1200.0
"""What the link carries, in IP packets."""
PACKET, PAYLOAD, HEADER = 1500, 1448, 52
BERS = (1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5)
RTTS_MS = (10.0, 20.0, 50.0, 100.0, 200.0)
RS2_BER = 2e-6
RS2_RTT_MS = 100.0
"""For which the text states a goodput."""

CONTROL: Mapping[str, Any] = {"personality": "bsd-reno-1996", "tcp": {"timestamps": True, "era": "bsd-4.4"}}
"""The thesis's control TCP: Reno with a clock of 500 ms, and timestamps."""


def hosts(personality: str, **tcp: Any) -> Settings:
    """All four hosts with this TCP, and buffers that hold nothing back."""
    fields = {"personality": personality, "tcp": {"socket_buffer": "1MB", **tcp}}
    return {f"nodes.{node}.{name}": value for node in "acgh" for name, value in fields.items()}


def through(control: Mapping[str, Any], **more: Any) -> Settings:
    """Both flows through sockets with this control TCP."""
    return {"flows.*.socket": {**control, **more}}


def windows(size: str) -> Settings:
    """All four hosts with buffers of this size."""
    return {f"nodes.{node}.tcp.{buffer}": size for node in "acgh" for buffer in ("send_buffer", "receive_buffer")}


DECOUPLING = "decoupling"
QUEUED = "decoupling, queue of 50 packets and windows of 64 KiB"
RENO, SACK = "Reno", "SACK"
BY_SACK = "decoupling, control TCP with SACK"
THEN: dict[str, Settings] = {
    QUEUED: {**through(CONTROL, queue=50), **windows("64KiB")},
    DECOUPLING: through(CONTROL),
    BY_SACK: {**hosts("sack"), **through({"personality": "sack"})},
    RENO: {},
    SACK: hosts("sack"),
}
"""The TCPs of the thesis.

The queue is that of Figure 21, as long as BSD's interfaces have theirs; the windows are those of section 3.7.3, the
largest without scaling. The line without them makes each segment when it may leave.
"""
LINUX, BBR = "Linux (CUBIC, RACK)", "BBR"
NOW: dict[str, Settings] = {
    "decoupling, control TCP of Linux": {**hosts("linux"), **through({"personality": "linux"})},
    "decoupling, control TCP with BBR": {
        **hosts("linux"),
        **through({"personality": "linux", "tcp": {"controller": "bbr"}}),
    },
    LINUX: hosts("linux"),
    BBR: hosts("linux", controller="bbr"),
}
"""Those of today."""


def bits(rate: float) -> Settings:
    """A bit error rate of the link."""
    return {"links.ef.loss": {"model": "bit", "rate": rate}}


def round_trip(rtt_ms: float) -> Settings:
    """Both ways of the link together take this long."""
    return {"links.ef.delay": f"{rtt_ms * 500:.0f}us"}


def link_bound(loss: float) -> float:
    """Goodput of a link that is always busy and sends nothing twice that arrived [KB/s]."""
    return LINK_KBYTES * PAYLOAD / PACKET * (1 - loss)


def window_bound(ber: float, rtt_ms: float, connections: int) -> float:
    """The same where equations (4) and (5) bound the windows of so many connections."""
    loss = packet_error_rate(ber, PACKET)
    mat = throughput(window(packet_error_rate(ber, HEADER)), PACKET, rtt_ms / 1e3) / 1e3
    return min(link_bound(loss), connections * mat * PAYLOAD / PACKET * (1 - loss))


def kbytes(result: Result) -> NDArray[np.float64]:
    """Goodput of all connections together, in each run [KB/s]."""
    return np.asarray(result.flows.by_run(result.flows["goodput_bps"]) / 8e3)


def utilisation(result: Result) -> NDArray[np.float64]:
    """Of the link, in each run [%]."""
    return np.asarray(100 * result.links.where(link="ef", direction="e->f")["utilisation"])


def redundancy(result: Result) -> str:
    """What a run sends again of data, and what is lost of all packets."""
    link, runs = result.links.where(link="ef", direction="e->f"), result.flows["run"].max() + 1
    again, lost = result.flows["retransmits"].sum(), link["lost"].sum() + link["dropped_user"].sum()
    return f"{again / runs:.0f} data packets are sent again where {lost / runs:.0f} packets are lost"


def timeouts(result: Result) -> float:
    """Of what controls congestion, the control TCPs or else the TCPs themselves: a run's mean."""
    table = result.circuits if result.circuits is not None and result.circuits.rows else result.flows
    return float(table["timeouts"].sum() / (table["run"].max() + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines over one abscissa."""

    points: Mapping[float, Settings]
    lines: Mapping[str, Settings]
    bounds: Mapping[str, Callable[[float], float]]
    group: str = ""
    beside: Mapping[str, tuple[float, Settings]] = field(default_factory=dict)
    """Points of their own that a claim needs, and the abscissa of each; not drawn."""
    scenario: Callable[[str], str | Mapping[str, Any]] = lambda _: SCENARIO
    """What is run for a line, if not the file."""


Results = Mapping[tuple[str, str, float], Result]
"""What was run, by panel, line and abscissa."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketFigure(Figure[Results]):
    """Goodput of the two connections together."""

    section: str = "4.7"
    y_label: str = "Goodput of both connections [KB/s]"
    x_log: bool = True
    panels: Sequence[Panel]

    def runs(self, runner: Runner) -> int:
        """As asked, or as the edition says."""
        return runner.runs(2, 20)

    def data(self, runner: Runner) -> Results:
        """Every point of every line."""
        return self.run(runner, self.runs(runner))

    def show(self, data: Results) -> Drawn:
        """The lines with their bounds."""
        return Drawn([line for panel in self.panels for line in _series(panel, data)])

    def run(self, runner: Runner, runs: int, **every: Any) -> Results:
        """What every point yields, `every` set in all of them."""
        results = {}
        for panel in self.panels:
            points = {(line, x): settings for line, settings in panel.lines.items() for x in panel.points}
            points |= {(line, x): settings for line, (x, settings) in panel.beside.items()}
            for (line, x), settings in points.items():
                chosen = {**panel.points[x], **settings, **every}
                label = f"{self.id}: {line}, {x:g}"
                results[panel.group, line, x] = runner.shared(panel.scenario(line), chosen, label, runs)
        return results


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketTable(SocketFigure):
    """The same as a table."""

    kind: Kind = "table"
    y_label: str = ""
    x_log: bool = False
    table: Callable[[Results], str]

    def show(self, data: Results) -> Drawn:
        """A row for each line."""
        return Drawn(text=self.table(data))


def _series(panel: Panel, results: Results) -> list[Series]:
    xs = list(panel.points)
    bounds = [
        Series.exact(name, xs, [bound(x) for x in xs], panel.group, "dashed") for name, bound in panel.bounds.items()
    ]
    lines = [
        Series.of(line, xs, [stats.mean(kbytes(results[panel.group, line, x])) for x in xs], panel.group)
        for line in panel.lines
    ]
    return bounds + lines


OVERHEAD = HEADER / PACKET
"""Header packets beside data, as section 2.3.3 has it: 3.4%."""
LEAST = Range(lo=1 - OVERHEAD)
"""Below another by no more than that."""


def _ratios(results: Results, group: str, line: str, other: str) -> dict[float, Estimate]:
    xs = [x for (of, name, x) in results if (of, name) == (group, line) and (group, other, x) in results]
    return {x: stats.ratio_of_means(kbytes(results[group, line, x]), kbytes(results[group, other, x])) for x in xs}


def _least(ratios: Mapping[float, Estimate]) -> Estimate:
    return min(ratios.values(), key=lambda estimate: estimate.value)


def _never_far_below(results: Results, group: str) -> list[Criterion]:
    lines = (
        (QUEUED, RENO, True),
        (QUEUED, SACK, True),
        (DECOUPLING, RENO, False),
        (DECOUPLING, SACK, False),
        (BY_SACK, SACK, False),
    )
    return [
        criterion(
            f"{line} over {other}, least",
            "0.97",
            _least(_ratios(results, group, line, other)),
            LEAST,
            judged=judged,
        )
        for line, other, judged in lines
    ]


PUBLISHED = "(a) the thesis's TCPs"
TODAY = "(b) TCPs of today"


def _measure_rs1(results: Results) -> list[Criterion]:
    above = [
        criterion(
            f"over {other} at {ber:g}",
            "> 1",
            _ratios(results, PUBLISHED, QUEUED, other)[ber],
            more_than(2 if ber == BERS[-1] else 1),
        )
        for other in (RENO, SACK)
        for ber in (RS2_BER, BERS[-1])
    ]
    shares = [
        stats.mean(kbytes(results[PUBLISHED, QUEUED, ber]) / link_bound(packet_error_rate(ber, PACKET))) for ber in BERS
    ]
    most = max(shares, key=lambda share: share.value)
    return [*above, criterion("of the bound, most", "< 1", most, at_most(1)), *_never_far_below(results, PUBLISHED)]


def _reason_rs1(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = "; ".join(f"{c.what} {number(c.measured)}" for c in criteria if c.judged and not c.holds)
    names = (QUEUED, DECOUPLING, BY_SACK, RENO, SACK)
    first = {name: results[PUBLISHED, name, BERS[0]] for name in names}
    busy = ", ".join(
        f"{name} {kbytes(result).mean():.0f} KB/s with {timeouts(result):.0f} time-outs and the link busy "
        f"{utilisation(result).mean():.1f}% of the time"
        for name, result in first.items()
    )
    return (
        f"{wrong}. At {BERS[0]:g}: {busy}. Header packets are {100 * OVERHEAD:.1f}% of the data. What is missing "
        "beyond is the time in which control TCPs of the thesis's kind wait for their timers of 500 ms, because the "
        "router dropped several headers of one window, and what is sent again for nothing: "
        f"{redundancy(first[QUEUED])}."
    )


RS1 = SocketFigure(
    id="rs1",
    title="Suite RS1: goodput against the bit error rate",
    caption="Figure 22: two connections, round trip 10 ms; and the same with TCPs of today.",
    x_label="Bit error rate",
    panels=[
        Panel(
            group=group,
            points={ber: {**bits(ber), **round_trip(10)} for ber in BERS},
            lines=lines,
            bounds={"bound: link (1 - PER)": lambda ber: link_bound(packet_error_rate(ber, PACKET))},
        )
        for group, lines in ((PUBLISHED, THEN), (TODAY, NOW))
    ],
    claims=[
        Claim(
            id="decoupling.rs1",
            measure=_measure_rs1,
            reason=_reason_rs1,
            tolerance="Above Reno and SACK at 2e-6, more than twice both at 1e-5, never above the bound, and at no "
            "bit error rate below either by more than the header packets: 52 bytes for each 1500.",
        )
    ],
    notes=[
        "SACK is that of RFC 6675 with the timers of RFC 6298; the thesis's was that of Windows 98.",
    ],
)

WITH_100 = "with a queue of 100 packets"
ALONE = "one connection alone"
ALONE_PROMPT = "one connection alone, each header acknowledged"
WINDOWS = {f"without the queue, windows of {size} KiB": windows(f"{size}KiB") for size in (32, 64)}
RS2_KBYTES, RS2_BOUND_KBYTES = 560, 615
"""Of Figure 23's text."""


def _alone(line: str) -> str | Mapping[str, Any]:
    """The file, or with one of its two connections for the lines of that name."""
    if not line.startswith(ALONE):
        return SCENARIO
    document = load(scenarios("decoupling") / f"{SCENARIO}.toml")
    return {**document, "flows": {"first": document["flows"]["first"]}}


def _measure_rs2(results: Results) -> list[Criterion]:
    goodput = Range(0.9 * RS2_KBYTES, 1.1 * RS2_KBYTES)
    loss = packet_error_rate(RS2_BER, PACKET)
    # The thesis rounds W to 56.
    bound = throughput(56, PACKET, RS2_RTT_MS / 1e3) / 1e3 * (1 - loss) * PAYLOAD / PACKET

    def at(line: str, judged: bool) -> Criterion:
        measured = stats.mean(kbytes(results[PUBLISHED, line, RS2_RTT_MS]))
        what = "both connections at 100 ms" if line == QUEUED else f"{line}, at 100 ms"
        return criterion(what, f"{RS2_KBYTES} KB/s", measured, goodput, unit="KB/s", judged=judged)

    return [
        at(QUEUED, True),
        criterion(
            "bound of one at 100 ms", f"{RS2_BOUND_KBYTES} KB/s", Estimate.exact(bound), about(615, 1), unit="KB/s"
        ),
        *_never_far_below(results, PUBLISHED),
        *(at(line, False) for line in (DECOUPLING, WITH_100, ALONE, ALONE_PROMPT, *WINDOWS)),
    ]


def _reason_rs2(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if c.judged and not c.holds)
    mean = {
        line: kbytes(results[PUBLISHED, line, RS2_RTT_MS]).mean()
        for line in (QUEUED, DECOUPLING, ALONE, ALONE_PROMPT, *WINDOWS)
    }
    small, large = (mean[line] for line in WINDOWS)
    return (
        f"{wrong}. The thesis's bound of {RS2_BOUND_KBYTES} KB/s is equation (5)'s for one TCP; for two it is "
        f"{window_bound(RS2_BER, RS2_RTT_MS, 2):.0f}. One connection alone gets {mean[ALONE]:.0f}, and "
        f"{mean[ALONE_PROMPT]:.0f} where each header is acknowledged, as equation (4) supposes and section 2.3.3 "
        f"does not. Two get {mean[QUEUED]:.0f} with the queue of Figure 21 and 64 KiB; without the queue "
        f"{mean[DECOUPLING]:.0f} if no window holds them back, {large:.0f} with 64 KiB, {small:.0f} with 32 KiB. The "
        "thesis does not state its buffers here. It puts its gap to the bound down to redundancy; here "
        f"{redundancy(results[PUBLISHED, QUEUED, RS2_RTT_MS])}."
    )


RS2 = SocketFigure(
    id="rs2",
    title="Suite RS2: goodput against the round trip",
    caption="Figure 23: two connections, bit error rate 2e-6; and the same with TCPs of today.",
    x_label="Round trip [ms]",
    panels=[
        Panel(
            group=group,
            points={rtt: {**bits(RS2_BER), **round_trip(rtt)} for rtt in RTTS_MS},
            lines=lines,
            bounds={
                "bound, windows of two TCPs": lambda rtt: window_bound(RS2_BER, rtt, 2),
                "bound, window of one TCP": lambda rtt: window_bound(RS2_BER, rtt, 1),
            }
            if group == PUBLISHED
            else {"bound: link (1 - PER)": lambda _: link_bound(packet_error_rate(RS2_BER, PACKET))},
            beside=beside,
            scenario=_alone,
        )
        for group, lines, beside in (
            (
                PUBLISHED,
                THEN,
                {
                    WITH_100: (RS2_RTT_MS, {**through(CONTROL, queue=100), **windows("64KiB")}),
                    ALONE: (RS2_RTT_MS, through(CONTROL)),
                    ALONE_PROMPT: (
                        RS2_RTT_MS,
                        through({**CONTROL, "tcp": {**CONTROL["tcp"], "delayed_ack": 1}}),
                    ),
                    **{line: (RS2_RTT_MS, {**through(CONTROL), **buffers}) for line, buffers in WINDOWS.items()},
                },
            ),
            (TODAY, NOW, {}),
        )
    ],
    claims=[
        Claim(
            id="decoupling.rs2",
            measure=_measure_rs2,
            reason=_reason_rs2,
            tolerance="Within 10% of 560 KB/s; the bound as the thesis works it out; at no round trip below Reno or "
            "SACK by more than the header packets.",
        )
    ],
    notes=[
        "The text gives the goodput of both connections together, and a bound that is one connection's: both bounds "
        "are drawn.",
    ],
)


def _resent(results: Results) -> str:
    rows = []
    for (group, line, x), result in results.items():
        link, flows = result.links.where(link="ef", direction="e->f"), result.flows
        runs = int(flows["run"].max()) + 1
        sent, again = int(flows["segments_sent"].sum()), int(flows["retransmits"].sum())
        lost = int(link["lost"].sum()) + int(link["dropped_user"].sum())
        rows.append(
            f"| {line} | {group.format(x)} | {kbytes(result).mean():.0f} | {again / runs:.0f} | {lost / runs:.0f} | "
            f"{100 * max(0, again - lost) / sent:.1f}% |"
        )
    return markdown(_RESENT_HEAD, rows)


_RESENT_HEAD = "| sockets | path | KB/s | data packets sent again | packets lost | of what was sent, for nothing |"

RS_RESENT = SocketTable(
    id="rs-resent",
    title="What sockets send again for nothing",
    caption="RS1 and RS2 with the queue of Figure 21 and without: data packets sent again and packets lost in a "
    "run, headers included.",
    panels=[
        Panel(group=group, points=points, lines={line: THEN[line] for line in (QUEUED, DECOUPLING)}, bounds={})
        for group, points in (
            ("{:g}, 10 ms", {ber: {**bits(ber), **round_trip(10)} for ber in BERS}),
            ("2e-6, {:g} ms", {rtt: {**bits(RS2_BER), **round_trip(rtt)} for rtt in RTTS_MS}),
        )
    ],
    table=_resent,
)

FIGURES = (RS1, RS2, RS_RESENT)
