"""Section 4.9: what protects headers, and what that buys where losses do not depend on a packet's size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, criterion, more_than, number
from headend.papers.decoupling.equations import packet_error_rate
from headend.papers.decoupling.sockets import (
    BBR,
    BERS,
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
    SocketTable,
    bits,
    kbytes,
    link_bound,
    round_trip,
    through,
)
from headend.papers.figure import markdown
from headend.papers.model import Criterion
from headend.papers.runner import Settings
from headend.results import Result

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


def on_link(copies: int) -> Settings:
    """So many copies of each header on the link that damages them."""
    return {"links.ef.header_copies": copies}


TWICE, VJ = "compression with twice", "compression without twice"
COPY, COPIES = "two of each header on the link", "three of each header on the link"
END_TO_END = "two of each header from end to end"
AGAIN = "lost headers sent again on the link"
VMSS_4 = "VMSS 6000"
OPTIONS: dict[str, Settings] = {
    DECOUPLING: THEN[DECOUPLING],
    TWICE: {**THEN[DECOUPLING], "links.ef.header_compression": "twice"},
    VJ: {**THEN[DECOUPLING], "links.ef.header_compression": "vj"},
    COPY: {**THEN[DECOUPLING], **on_link(1)},
    END_TO_END: through(CONTROL, copies=1),
    AGAIN: {**THEN[DECOUPLING], "links.ef.header_repeats": 3},
    "VMSS 3000": larger(3000),
    VMSS_4: larger(6000),
}
"""What section 4.9 proposes, one at a time."""
PROTECTED: dict[str, Settings] = {
    DECOUPLING: THEN[DECOUPLING],
    COPY: OPTIONS[COPY],
    COPIES: {**THEN[DECOUPLING], **on_link(2)},
    VMSS_4: OPTIONS[VMSS_4],
    "decoupling by Linux, three of each header": {
        **NOW["decoupling, control TCP of Linux"],
        **on_link(2),
    },
    RENO: THEN[RENO],
    SACK: THEN[SACK],
    LINUX: NOW[LINUX],
    BBR: NOW[BBR],
}
"""With losses that do not depend on a packet's size; compression then changes nothing."""

SHOWN = (TWICE, COPY, END_TO_END, AGAIN, "VMSS 3000", VMSS_4)


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
        "Copies from end to end count as headers in the router, and hide its drops as well: see decoupling.rs-shares.",
    ],
)

RS_OPTIONS_ERRORS = SocketFigure(
    id="rs-options-errors",
    title="What protects headers, against the bit error rate",
    caption="Round trip 10 ms, as in Figure 22: the improvements that section 4.9 proposes, one at a time.",
    section="4.9",
    x_label="Bit error rate",
    panels=[
        Panel(
            points={ber: {**bits(ber), **round_trip(10)} for ber in BERS},
            lines=OPTIONS,
            bounds={BUSY: lambda ber: link_bound(packet_error_rate(ber, PACKET))},
        )
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


def only_first(**more: object) -> Settings:
    """Both connections through sockets, the first with something more."""
    return {"flows.first.socket": {**CONTROL, **more}, "flows.second.socket": dict(CONTROL)}


SHARES: dict[str, Settings] = {
    "neither": THEN[DECOUPLING],
    "first: two of each header from end to end": only_first(copies=1),
    "both: two of each header from end to end": OPTIONS[END_TO_END],
    COPY: OPTIONS[COPY],
    "first: VMSS 3000": {
        **only_first(vmss="3000B"),
        "links.ef.queue.buffer": OPTIONS["VMSS 3000"]["links.ef.queue.buffer"],
    },
}
"""What protects headers, and whose."""
_SHARES_HEAD = "| protected | first [KB/s] | second [KB/s] | headers dropped | data packets dropped |"


def each_kbytes(result: Result, flow: str) -> NDArray[np.float64]:
    """Goodput of one connection, in each run [KB/s]."""
    return np.asarray(result.flows.where(flow=flow)["goodput_bps"] / 8e3)


def _shares(results: Results) -> str:
    rows = []
    for (_, line, _), result in results.items():
        link = result.links.where(link="ef", direction="e->f")
        goodput = (f"{each_kbytes(result, flow).mean():.0f}" for flow in ("first", "second"))
        dropped = (f"{link[f'dropped_{what}'].mean():.0f}" for what in ("headers", "user"))
        rows.append(f"| {' | '.join((line, *goodput, *dropped))} |")
    return markdown(_SHARES_HEAD, rows)


RS_SHARES = SocketTable(
    id="rs-shares",
    title="Who gets what of a full link when headers are protected",
    caption="Two sockets, round trip 10 ms, nothing damaged: the router alone drops.",
    section="4.9",
    panels=[Panel(points={10.0: {**bits(0), **round_trip(10)}}, lines=SHARES, bounds={})],
    table=_shares,
    notes=[
        "A router drops some headers early, each by itself. Where a copy follows, one drop is not noticed, and the "
        "socket goes on. Copies that are made on the link, behind the queue, hide damage alone.",
    ],
)

FIGURES = (RS_OPTIONS_ERRORS, RS_OPTIONS, RS_SHARES, RS_PACKETS)
