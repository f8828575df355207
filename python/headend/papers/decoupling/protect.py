"""Section 4.9: what protects headers, and what that buys where losses do not depend on a packet's size."""

from __future__ import annotations

from collections.abc import Sequence

from headend.papers import stats
from headend.papers.claim import Claim, criterion, more_than, number
from headend.papers.decoupling.equations import packet_error_rate
from headend.papers.decoupling.sockets import (
    BBR,
    CONTROL,
    DECOUPLING,
    HEADER,
    LINUX,
    NOW,
    PACKET,
    RENO,
    RS2_BER,
    RTTS_MS,
    SACK,
    THEN,
    Panel,
    Results,
    SocketFigure,
    bits,
    kbytes,
    link_bound,
    round_trip,
    through,
)
from headend.papers.figure import Settings
from headend.papers.model import Criterion

LOSSES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of all packets alike, and in both directions [%]."""
FAR_MS = 100.0


def per_cent(loss: float) -> Settings:
    """The link loses so many packets, whatever their size."""
    return {"links.ef.loss": f"{loss:g}%"}


def larger(vmss: int) -> Settings:
    """Both sockets with this VMSS, and the router's buffer that equation (2) then gives: 50 headers may wait."""
    buffer = 50 * HEADER + (50 + 2) * vmss
    return {**through(CONTROL, vmss=f"{vmss}B"), "links.ef.queue.buffer": f"{buffer}B"}


TWICE, VJ, COPY = "compression with twice", "compression without twice", "two of each header"
COPIES = "three of each header"
VMSS_4 = "VMSS 6000"
OPTIONS: dict[str, Settings] = {
    DECOUPLING: THEN[DECOUPLING],
    TWICE: {**THEN[DECOUPLING], "links.ef.header_compression": "twice"},
    VJ: {**THEN[DECOUPLING], "links.ef.header_compression": "vj"},
    COPY: through(CONTROL, copies=1),
    "VMSS 3000": larger(3000),
    VMSS_4: larger(6000),
}
"""What section 4.9 proposes, one at a time."""
PROTECTED: dict[str, Settings] = {
    DECOUPLING: THEN[DECOUPLING],
    COPY: OPTIONS[COPY],
    COPIES: through(CONTROL, copies=2),
    VMSS_4: OPTIONS[VMSS_4],
    "decoupling by Linux, three of each header": {
        **NOW["decoupling, control TCP of Linux"],
        **through({"personality": "linux"}, copies=2),
    },
    RENO: THEN[RENO],
    SACK: THEN[SACK],
    LINUX: NOW[LINUX],
    BBR: NOW[BBR],
}
"""With losses that do not depend on a packet's size; compression then changes nothing."""

SHOWN = (TWICE, COPY, "VMSS 3000", VMSS_4)


def _measure(results: Results) -> list[Criterion]:
    plain = kbytes(results["", DECOUPLING, FAR_MS])

    def over(line: str, judged: bool) -> Criterion:
        gain = stats.ratio_of_means(kbytes(results["", line, FAR_MS]), plain)
        return criterion(f"{line} over decoupling", "> 1", gain, more_than(1), judged=judged)

    return [*(over(line, True) for line in SHOWN), over(VJ, False)]


def _reason(_: Results, criteria: Sequence[Criterion]) -> str:
    return "; ".join(f"{c.what} {number(c.measured)}" for c in criteria if c.judged and not c.holds) + "."


BUSY = "bound: link (1 - PER)"

RS_OPTIONS = SocketFigure(
    id="rs-options",
    title="What protects headers, against the round trip",
    caption="Bit error rate 2e-6, as in Figure 23: the improvements that section 4.9 proposes, one at a time.",
    section="4.9",
    x_label="Round trip [ms]",
    panels=[
        Panel(
            points={rtt: {**bits(RS2_BER), **round_trip(rtt)} for rtt in RTTS_MS},
            lines=OPTIONS,
            bounds={BUSY: lambda _: link_bound(packet_error_rate(RS2_BER, PACKET))},
        )
    ],
    claims=[
        Claim(
            id="decoupling.s4_9",
            measure=_measure,
            reason=_reason,
            tolerance="The direction, at 100 ms: goodput over that of sockets without.",
        )
    ],
    notes=[
        "Compressed headers take 16 bytes on the link instead of 52: 4 of RFC 1144, the connection's number included, "
        "and 12 of timestamps. The thesis counts 15.",
        "Copies follow their headers at once and count as headers in the router.",
    ],
)

RS_PACKETS = SocketFigure(
    id="rs-packets",
    title="Goodput where a packet's size does not matter to its loss",
    caption="Each packet is lost with the same chance, in both directions.",
    section="4.6",
    x_label="Loss [%]",
    panels=[
        Panel(
            group=f"{part} round trip {rtt:g} ms",
            points={loss: {**per_cent(loss), **round_trip(rtt)} for loss in LOSSES},
            lines=PROTECTED,
            bounds={BUSY: lambda loss: link_bound(loss / 100)},
        )
        for part, rtt in (("(a)", 10.0), ("(b)", FAR_MS))
    ],
    notes=[
        "The thesis's gain is that headers are small. Here a header is lost as often as a full packet, and decoupling "
        "alone gains nothing.",
    ],
)

FIGURES = (RS_OPTIONS, RS_PACKETS)
