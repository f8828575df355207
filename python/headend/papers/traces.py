"""Figures that show one transfer packet by packet: sequence traces and ladder diagrams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers.claim import counted, number
from headend.papers.figure import Curves, Drawn, Figure, SweepFigure
from headend.papers.model import Arrow, ArrowKind, Kind, Series
from headend.papers.runner import Runner, Settings
from headend.results import Result, Table

PACKET_BYTES = 1460


Traced = tuple[list[tuple[str, Result]], Curves]
"""What was traced, by panel, and curves of many runs for the claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFigure(Figure[Traced]):
    """When the server sent which packet, a panel for each setting; claims are judged on many runs."""

    kind: Kind = "sequence"
    x_label: str = "Time [s]"
    y_label: str = "Packet"
    scenario: str
    panels: Sequence[tuple[str, Settings]]
    measured: SweepFigure | None = None

    def runs(self, runner: Runner) -> int:
        """Those that are measured; a panel shows one."""
        return self.measured.runs(runner) if self.measured else 1

    def data(self, runner: Runner) -> Traced:
        """A run of each panel, and what is measured."""
        shown = [
            (panel, runner.traced(self.scenario, settings, f"{self.id}: {panel}")) for panel, settings in self.panels
        ]
        return shown, self.measured.data(runner) if self.measured else {}

    def show(self, data: Traced) -> Drawn:
        """The runs that were traced."""
        return Drawn(
            [series for panel, result in data[0] for series in sent_packets(result.table("packets"), panel)],
            notes=[f"{panel}: seed {result.seed}, {_outcome(result)}." for panel, result in data[0]],
        )


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet's way: when it left one host and, unless it was lost, when it reached the other."""

    sent_s: float
    received_s: float | None
    sender: str
    receiver: str | None
    """None: it was lost."""
    flags: str
    """Of SFRPA."""
    seq: int
    """Place of the first byte in the stream, from 0."""
    ack: int
    len: int
    retransmission: bool

    @property
    def kind(self) -> ArrowKind:
        """What it is to the reader of a diagram."""
        if self.retransmission:
            return "retransmission"
        if self.len > 0:
            return "data"
        return "control" if set(self.flags) & set("SFR") else "ack"

    @property
    def label(self) -> str:
        """What it is to someone who reads the exchange for the first time."""
        names = [name for flag, name in (("S", "SYN"), ("F", "FIN"), ("R", "RST")) if flag in self.flags]
        if self.len:
            names.append(f"{self.len} B from {self.seq}")
        if "A" in self.flags and not self.len:
            names.append(f"ACK {self.ack}" if self.ack else "ACK")
        return " ".join(names)


@dataclass(frozen=True, slots=True)
class Panel:
    """One exchange of a ladder diagram."""

    name: str
    scenario: str
    set: Settings
    label: Callable[[Packet], str] = lambda packet: packet.label
    shows: Callable[[Packet], bool] = lambda _: True


Exchanges = Mapping[str, tuple[Result, list[Packet]]]
"""What was traced, by panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderFigure(Figure[Exchanges]):
    """Exchanges drawn packet by packet, an arrow each."""

    kind: Kind = "ladder"
    y_label: str = "Time [s]"
    panels: Sequence[Panel]

    def data(self, runner: Runner) -> Exchanges:
        """Each panel's exchange."""
        exchanges = {}
        for panel in self.panels:
            result = runner.traced(panel.scenario, panel.set, f"{self.id}: {panel.name}")
            exchanges[panel.name] = (result, ways_of(result.table("packets")))
        return exchanges

    def show(self, data: Exchanges) -> Drawn:
        """Those of its packets that a panel shows."""
        return Drawn(
            ladder=[_arrow(way, panel) for panel in self.panels for way in data[panel.name][1] if panel.shows(way)],
            notes=[f"{panel.name}: {_outcome(data[panel.name][0])}." for panel in self.panels],
        )


def sent_packets(table: Table, group: str) -> list[Series]:
    """Data packets as they left the server, those sent again apart."""
    sent = table.where(event="sent", **{"from": "server"})
    data = sent["len"] > 0
    again = sent["retransmission"] == 1
    return [
        _dots(label, sent, chosen, group) for label, chosen in (("sent", data & ~again), ("sent again", data & again))
    ]


def ways_of(table: Table) -> list[Packet]:
    """Each packet from the host that sent it to the host that received it, in the order of sending."""
    event, place, time = table["event"], table["place"], table["time_s"]
    sender, ident = table["from"], table["id"]
    hosts = set(sender.tolist())
    received = {
        (sender[row], int(ident[row])): (float(time[row]), str(place[row]))
        for row in np.flatnonzero(event == "received")
        if place[row] in hosts and place[row] != sender[row]
    }
    columns = {name: table[name] for name in ("flags", "seq", "ack", "len", "retransmission")}
    ways = []
    for row in np.flatnonzero((event == "sent") & (place == sender)):
        arrival, receiver = received.get((sender[row], int(ident[row])), (None, None))
        ways.append(
            Packet(
                sent_s=float(time[row]),
                received_s=arrival,
                sender=str(sender[row]),
                receiver=receiver,
                flags=str(columns["flags"][row]),
                seq=int(columns["seq"][row]),
                ack=int(columns["ack"][row]),
                len=int(columns["len"][row]),
                retransmission=bool(columns["retransmission"][row]),
            )
        )
    return sorted(ways, key=lambda way: way.sent_s)


def _arrow(way: Packet, panel: Panel) -> Arrow:
    return Arrow(
        t_send_s=way.sent_s,
        t_recv_s=way.received_s,
        sender=way.sender,
        receiver=way.receiver or ("pc" if way.sender == "server" else "server"),
        label=panel.label(way),
        kind=way.kind,
        group=panel.name,
    )


def _dots(label: str, table: Table, chosen: NDArray[np.bool_], group: str) -> Series:
    time = table["time_s"][chosen].tolist()
    packet = (table["seq"][chosen] / PACKET_BYTES + 1).tolist()
    return Series.exact(label, time, packet, group, "points")


def _outcome(result: Result) -> str:
    flows: Mapping[str, Any] = result.flows
    counts = (("timeouts", "time-out"), ("fast_retransmits", "fast retransmit"))
    events = ", ".join(counted(int(flows[column].sum()), noun) for column, noun in counts)
    return (
        f"{number(float(flows['transfer_s'].max()), 's')}, {events}, {int(flows['segments_sent'].sum())} packets sent"
    )
