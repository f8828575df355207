"""The words in which the proxies paper's experiments differ from one another, as settings of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headend.papers import stats
from headend.papers.figure import Axis, Curves, Line
from headend.papers.runner import Cell, Settings
from headend.papers.stats import Estimate, ratio_of_means

PACKET = 536
"""Bytes of a data packet on the wire, which is also what it carries (section 3.1, as the reference curves read it)."""

BUFFER_PACKETS: Mapping[str, int] = {"8 KB": 15, "32 KB": 61}
"""Socket buffers in whole packets, rounded up."""

LOSS = Axis("Loss of data packets on the cable [%]", "links.cable.down.loss")
REMOTE_LOSS = Axis("Loss of data packets on the Internet [%]", "links.internet.loss")
SIZE = Axis("Size of the transfer [KB]", "flows.get.bytes", log=True)
DELAY = Axis("Round trip between proxy and server [ms]", "links.internet.delay")
"""The file sweeps the delay one way [s]; figures show the round trip."""

JUDGED = "ns-2.35"
"""Loss-recovery rules under which claims are judged, as in the tuning paper's study."""

OTHER = "ns-1996"
"""A reconstruction of the rules of the simulator that the paper ran: shown beside, without a say."""

VIA: Settings = {"flows.get.via": "proxy"}
STORE: Settings = {**VIA, "nodes.proxy.relay": "store"}
BUFFER: Settings = {**VIA, "nodes.proxy.relay": "buffer"}
"""No limit of its own: a buffer-and-forward proxy has two socket buffers, and nothing between."""

TUNED: Settings = {
    "nodes.proxy.local.tcp.rto_tick": "200ms",
    "nodes.proxy.local.tcp.rto_min": "400ms",
    "nodes.proxy.local.tcp.dupack_threshold": 1,
}
"""Section 3.6: the 200 ms timer and super fast retransmit, on the local connection."""


def era(name: str) -> Settings:
    """The loss-recovery rules of every sender of data."""
    return {f"nodes.{sender}.tcp.era": name for sender in ("server", "proxy.local", "proxy.remote")}


def remote_buffer(name: str) -> Settings:
    """The socket buffer of the proxy's remote connection, which is the server's window."""
    return {"nodes.proxy.remote.tcp.receive_buffer": f"{BUFFER_PACKETS[name] * PACKET}B"}


def remote_delay(round_trip_ms: int) -> Settings:
    """The round trip of the remote connection, half each way."""
    return {"links.internet.delay": f"{round_trip_ms // 2}ms"}


def both_eras(lines: Iterable[tuple[str, str, Settings]], group: str = "") -> list[Line]:
    """Each (key, label, settings) under the judged rules, and dashed under the other ones with the key "other KEY"."""
    known: Sequence[tuple[str, str, Settings]] = list(lines)
    return [
        *(Line(key, label, {**settings, **era(JUDGED)}, group) for key, label, settings in known),
        *(
            Line(f"other {key}", f"{label}, rules of 1996", {**settings, **era(OTHER)}, group, "dashed")
            for key, label, settings in known
        ),
    ]


def gain(curves: Curves, above: str, below: str, x: float) -> Estimate:
    """Mean throughput of one line over that of another at `x`."""
    return ratio_of_means(curves[above].at(x).goodput_mbps, curves[below].at(x).goodput_mbps)


def mean(curves: Curves, key: str, x: float) -> float:
    """Mean throughput of a line at `x` [Mbit/s]."""
    return float(curves[key].at(x).goodput_mbps.mean())


def mean_kbps(cell: Cell) -> Estimate:
    """Mean goodput over the runs [kbit/s]."""
    return stats.mean(cell.goodput_mbps * 1000)
