"""One run of a user's own results in time: rates, queues and windows, packets as they left, and a ladder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headend.papers.model import Arrow, FigureResult, Series
from headend.papers.traces import Packet, ways_of
from headend.report import formats
from headend.results import Result, Table

PANELS_MOST = 6
SAMPLES_MOST = 1500
"""Of a curve: a plot is not wider than this in pixels."""
ARROWS_MOST = 40
"""Of a ladder: the beginning of a connection."""
LADDERS_MOST = 2
PACKETS_MOST = 4000


def figures(result: Result) -> Iterator[FigureResult]:
    """Figures of the first run of the first point, as far as the results have its tables."""
    first = result.point(int(result.flows["point"][0]))
    run = int(first.flows["run"][0])
    seed = int(first.flows["seed"][0])
    where = f"One run: seed {seed}" + (", the first point of the sweep." if any("." in n for n in first.flows) else ".")
    if first.intervals is not None:
        yield from _intervals(first.intervals.where(run=run), where, seed)
    if first.trace is not None and first.trace.rows:
        yield _windows(first.trace.where(run=run), where, seed)
    if first.packets is not None and first.packets.rows:
        packets = first.packets.where(run=run)
        yield _left(packets, where, seed)
        delays = _delays(packets, where, seed)
        if delays.series:
            yield delays
        yield _ladder(packets, where, seed)


def _intervals(table: Table, where: str, seed: int) -> Iterator[FigureResult]:
    ends = np.unique(table["end_s"])
    span = float(ends[0]) if ends.size else 0.0
    if span <= 0:
        return
    kinds = (
        ("flow", "bytes", 8e-6 / span, "Rates over time", "Arriving at the receiver [Mbit/s]", "intervals-flows"),
        ("link", "queue_bytes", 1e-3, "Queues over time", "Waiting before the link [kB]", "intervals-queues"),
    )
    for kind, column, factor, title, label, name in kinds:
        of_kind = table.where(kind=kind)
        names = [f"{a} {b}" if kind == "link" or b != "0" else a for a, b in _pairs(of_kind)]
        series = []
        for (one, part), called in zip(_pairs(of_kind), names, strict=True):
            rows = of_kind.where(name=one, part=part)
            if kind == "flow" or rows[column].max(initial=0) > 0:
                kept = _kept(rows.rows)
                values = (rows[column] * factor)[kept].tolist()
                series.append(Series.exact(called, rows["end_s"][kept].tolist(), values, "", "trace"))
        if series:
            yield FigureResult(
                id=name,
                title=title,
                caption=f"{where} One value for each {formats.shown(span)} s.",
                section="One run",
                kind="lines",
                x_label="Time [s]",
                y_label=label,
                series=series[: 2 * PANELS_MOST],
                seed=seed,
            )


def _pairs(table: Table) -> list[tuple[str, str]]:
    both = zip(table["name"].tolist(), table["part"].astype(np.str_).tolist(), strict=True)
    return list(dict.fromkeys(both))


def _windows(table: Table, where: str, seed: int) -> FigureResult:
    series = []
    instances = _instances(table)
    for group, here in instances[:PANELS_MOST]:
        rows = table._rows(here)
        time = rows["time_s"]
        for label, column in (
            ("congestion window", "cwnd_bytes"),
            ("in flight", "in_flight_bytes"),
            ("slow-start threshold", "ssthresh_bytes"),
        ):
            values = np.asarray(rows[column], dtype=np.float64)
            there = np.flatnonzero(~np.isnan(values) & (values < 1e9))
            kept = there[_kept(there.size)]
            if kept.size:
                kilobytes = (values[kept] * 1e-3).tolist()
                series.append(Series.exact(label, time[kept].tolist(), kilobytes, group, "trace"))
    return FigureResult(
        id="windows",
        title="Windows of the senders",
        caption=f"{where} What the sender may have under way, and what it has.",
        section="One run",
        kind="lines",
        x_label="Time [s]",
        y_label="Bytes [kB]",
        series=series,
        seed=seed,
        notes=_left_out(len(instances), PANELS_MOST),
    )


def _left(table: Table, where: str, seed: int) -> FigureResult:
    """When each packet with data left, and which of them were sent again."""
    series = []
    instances = _instances(table)
    for group, here in instances[:PANELS_MOST]:
        sent = table._rows(here & (table["event"] == "sent") & (table["place"] == table["from"]) & (table["len"] > 0))
        again = sent["retransmission"] == 1
        for label, chosen in (("sent", ~again), ("sent again", again)):
            rows = np.flatnonzero(chosen)[:PACKETS_MOST]
            if rows.size:
                places = (sent["seq"][rows] / max(int(sent["len"].max()), 1) + 1).tolist()
                series.append(Series.exact(label, sent["time_s"][rows].tolist(), places, group, "points"))
    return FigureResult(
        id="sequence",
        title="Packets as they left",
        caption=f"{where} A dot for each packet with data: when it was sent, and which of the stream it is. A dot "
        "below the line is one that was sent again.",
        section="One run",
        kind="sequence",
        x_label="Time [s]",
        y_label="Packet of the stream",
        series=series,
        seed=seed,
        notes=_left_out(len(instances), PANELS_MOST),
    )


def _delays(table: Table, where: str, seed: int) -> FigureResult:
    """The distribution of the time from host to host, of packets with data."""
    series = []
    for group, here in _instances(table)[:PANELS_MOST]:
        ways = [way for way in ways_of(table._rows(here)) if way.len > 0 and way.received_s is not None]
        delays = np.sort([1e3 * (way.received_s - way.sent_s) for way in ways if way.received_s is not None])
        if delays.size > 1:
            kept = _kept(delays.size, 200)
            shares = (100.0 * (kept + 1) / delays.size).tolist()
            series.append(Series.exact(group or "packets with data", delays[kept].tolist(), shares, "", "trace"))
    return FigureResult(
        id="delays",
        title="How long packets are under way",
        caption=f"{where} The share of the packets with data that arrived within a time, from host to host.",
        section="One run",
        kind="lines",
        x_label="Time from host to host [ms]",
        y_label="Share of the packets that arrived [%]",
        series=series,
        seed=seed,
    )


def _ladder(table: Table, where: str, seed: int) -> FigureResult:
    arrows = []
    instances = _instances(table)
    for group, here in instances[:LADDERS_MOST]:
        ways = ways_of(table._rows(here))[:ARROWS_MOST]
        arrows += [_arrow(way, ways, group) for way in ways]
    return FigureResult(
        id="ladder",
        title="Packet by packet",
        caption=f"{where} The first {ARROWS_MOST} packets, an arrow each.",
        section="One run",
        kind="ladder",
        ladder=arrows,
        seed=seed,
        notes=_left_out(len(instances), LADDERS_MOST),
    )


def _arrow(way: Packet, ways: list[Packet], group: str) -> Arrow:
    # A packet that was lost was for whom the sender's other packets reached.
    partner = next((one.receiver for one in ways if one.sender == way.sender and one.receiver), None)
    partner = partner or next((one.sender for one in ways if one.sender != way.sender), "?")
    return Arrow(way.sent_s, way.received_s, way.sender, way.receiver or partner, way.label, way.kind, group)


def _instances(table: Table) -> list[tuple[str, NDArray[np.bool_]]]:
    """Each instance of each flow by what its panel is called, and its rows; a single one needs no name."""
    flows, instances = table["flow"], table["instance"]
    found = list(dict.fromkeys(zip(flows.tolist(), instances.tolist(), strict=True)))
    several = {flow for flow, instance in found if instance > 0}
    return [
        (
            "" if len(found) == 1 else f"{flow} {instance}" if flow in several else flow,
            (flows == flow) & (instances == instance),
        )
        for flow, instance in found
    ]


def _kept(count: int, most: int = SAMPLES_MOST) -> NDArray[np.int64]:
    """Which of so many samples are drawn: all, or evenly so many, the last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64))


def _left_out(instances: int, shown: int) -> list[str]:
    return [f"The first {shown} of {instances} flows are shown."] if instances > shown else []
