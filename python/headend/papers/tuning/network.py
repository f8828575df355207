"""The words in which the tuning paper's experiments differ from one another, as settings of a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headend.papers.figure import Axis, Line
from headend.papers.runner import Settings

PACKET = 1460
"""Bytes of a data packet on the wire, which is also what it carries: headers are not counted (section 4.1)."""

BUFFER_PACKETS: Mapping[str, int] = {"8 KB": 6, "16 KB": 11, "24 KB": 17, "32 KB": 22, "48 KB": 34}
"""Socket buffers in whole packets, rounded up."""

DATA_LOSS = Axis("Loss of data packets [%]", "links.cable.down.loss")
ACK_LOSS = Axis("Loss of ACKs [%]", "links.cable.up.loss")
SIZE = Axis("Size of the transfer [KB]", "flows.get.bytes", log=True)
WINDOW = Axis("Socket buffer [packets]", "nodes.pc.tcp.receive_buffer", packet_bytes=PACKET)

JUDGED = "ns-2.35"
"""Loss-recovery rules under which claims are judged: Reno as documented, and as 4.4BSD has it.

The paper ran a 1996 ns. What is known of its rules is a reconstruction that was chosen after trying many against this
paper's own text, so agreement under it is a fit; it is shown beside, and has no say in a verdict.
"""

OTHER = "ns-1996"
"""The reconstruction."""


def packets(count: int, size: int = PACKET) -> Settings:
    """A socket buffer of so many packets; the subscriber's is the smaller one."""
    return {"nodes.pc.tcp.receive_buffer": f"{count * size}B"}


def buffer(name: str) -> Settings:
    """A socket buffer as the paper names it: "8 KB"."""
    return packets(BUFFER_PACKETS[name])


def era(name: str) -> Settings:
    """The sender's loss-recovery rules."""
    return {"nodes.server.tcp.era": name}


def delayed_ack(on: bool) -> Settings:
    """Every second packet is acknowledged, or every one."""
    return {"nodes.pc.tcp.delayed_ack": 2 if on else 1}


def initial_window(segments: int) -> Settings:
    """The server's initial window."""
    return {"nodes.server.tcp.initial_window_segments": segments}


def timer(tick_ms: int) -> Settings:
    """Granularity of the server's retransmission timer; the smallest RTO is two ticks, as in BSD."""
    return {"nodes.server.tcp.rto_tick": f"{tick_ms}ms", "nodes.server.tcp.rto_min": f"{2 * tick_ms}ms"}


def threshold(duplicates: int) -> Settings:
    """Duplicate ACKs that mean a loss: 3, or 1 for super fast retransmit (section 6.4)."""
    return {"nodes.server.tcp.dupack_threshold": duplicates}


REMEDIES: Settings = {**timer(200), **threshold(1)}
"""Section 6: the 200 ms timer and super fast retransmit."""


def both_eras(lines: Sequence[tuple[str, str, Mapping[str, Any]]], group: str = "") -> list[Line]:
    """Each (key, label, settings) under the judged rules, and dashed under the other ones with the key "other KEY"."""
    return [
        *(Line(key, label, {**settings, **era(JUDGED)}, group) for key, label, settings in lines),
        *(
            Line(f"other {key}", f"{label}, rules of 1996", {**settings, **era(OTHER)}, group, "dashed")
            for key, label, settings in lines
        ),
    ]
