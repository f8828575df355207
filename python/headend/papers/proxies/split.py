"""Sections 3.3 and 3.4: what the split alone gains, and delayed ACK. Figures 5 to 7."""

from __future__ import annotations

from collections.abc import Sequence

from headend.papers import reference
from headend.papers.claim import GENERAL_TOLERANCE, Claim, about, criterion, number
from headend.papers.figure import Curves, Line, SweepFigure
from headend.papers.model import Criterion
from headend.papers.proxies.network import BUFFER, JUDGED, SIZE, STORE, era, gain, mean, remote_delay
from headend.papers.runner import Settings
from headend.papers.stats import Estimate
from headend.papers.traces import LadderFigure, Panel

_NO_CHANCE = "No loss, so nothing is random: one run is exact, and the rules of loss recovery do not matter."

# Figure 5 -------------------------------------------------------------------------------------------------------------

_ROUND_TRIPS_MS = (20, 100, 300)
_FIG5_LINES: dict[str, tuple[str, Settings, str]] = {
    "direct": ("direct", {}, "direct"),
    "store": ("store and forward", STORE, "sf"),
    "buffer": ("buffer and forward", BUFFER, "bf"),
}
LARGE_KB = 500
"""The paper: "for data transfers of 500KB and above"."""


def _fig5(curves: Curves) -> list[Criterion]:
    sizes = [x for x in curves["direct 100"].x if x >= LARGE_KB]
    least = min((gain(curves, "store 100", "direct 100", x) for x in sizes), key=lambda ratio: ratio.value)
    extra = Estimate(least.value - 1, least.lo - 1, least.hi - 1)
    return [
        criterion("store over direct, 500 KB and above", "1.25", least, accept=about(1.25, 0.01)),
        criterion("the gain itself", "0.25", extra, accept=about(0.25, 0.01), judged=False),
    ]


FIG5 = SweepFigure(
    id="fig5",
    title="A split connection without loss",
    caption="Throughput by size of the transfer, through a proxy and directly, for three round trips to the server.",
    section="3.3",
    scenario="fig05",
    axis=SIZE,
    exact=lambda _: True,
    lines=[
        Line(f"{key} {ms}", label, {**settings, **remote_delay(ms), **era(JUDGED)}, f"round trip {ms} ms")
        for ms in _ROUND_TRIPS_MS
        for key, (label, settings, _) in _FIG5_LINES.items()
    ],
    reference=lambda: [
        reference.series("p2_fig05", f"{name} remRTT={ms}ms", f"{label}, ns-2.35", group=f"round trip {ms} ms")
        for ms in _ROUND_TRIPS_MS
        for label, _, name in _FIG5_LINES.values()
    ],
    claims=[
        Claim(
            id="proxies.fig5",
            tolerance=f"{GENERAL_TOLERANCE}, of the ratio; the least over sizes. The gain itself is shown beside.",
            measure=_fig5,
            reason=lambda curves, _: (
                f"At 3 MB the store reaches {number(mean(curves, 'store 100', 3000))} Mbit/s and the direct connection "
                f"{number(mean(curves, 'direct 100', 3000))} Mbit/s."
            ),
        )
    ],
    notes=[
        _NO_CHANCE,
        "Of the paper's three round trips only 100 ms is in the text; 20 and 300 ms are ours. With a "
        "window of 8 KB the "
        "throughput goes as one over the round trip: 120 ms directly and 100 ms remotely, so the most that the split "
        "can gain is 20%.",
    ],
)

# Figure 6 -------------------------------------------------------------------------------------------------------------


_PROMPT: Settings = {"nodes.proxy.remote.tcp.delayed_ack": 1}
"""The proxy acknowledges the server's packets at once."""

FIG6 = LadderFigure(
    id="fig6",
    title="A header, a packet, and a wait for the delayed ACK",
    caption="The first exchanges of an HTTP transfer. The header leaves in a segment of its own and fills half of a "
    "window of two; the receiver waits for more before it acknowledges.",
    section="3.4",
    panels=[
        Panel("(a) direct", "fig06", {}),
        Panel("(b) through a proxy that acknowledges at once", "fig06", {**STORE, **_PROMPT}),
    ],
    notes=[
        "Labels give bytes and places in the stream, from 0. The last ACK of the hand-shake opens "
        "the server's window to "
        "two packets. In (b) the server is not kept waiting; the PC still delays its own ACKs, over 20 ms and not 120."
    ],
)

# Figure 7 -------------------------------------------------------------------------------------------------------------

_FIG7_LINES: dict[str, tuple[str, Settings, str]] = {
    "delayed": ("delayed ACK at the proxy", STORE, "delack at proxy"),
    "prompt": ("no delayed ACK at the proxy", {**STORE, **_PROMPT}, "no delack at proxy"),
    "wide": (
        "and an initial window of 2 on the local connection",
        {**STORE, **_PROMPT, "nodes.proxy.local.tcp.initial_window_segments": 2},
        "no delack at proxy + iw2 local",
    ),
}
SMALL_KB = 150
"""The paper: "data transfers of 150KB and less"."""


def _fig7(curves: Curves) -> list[Criterion]:
    sizes = [x for x in curves["delayed"].x if x <= SMALL_KB]
    most = max((gain(curves, "prompt", "delayed", x) for x in sizes), key=lambda ratio: ratio.value)
    beside = [
        criterion(
            f"at {x:g} KB", "up to 1.30", gain(curves, "prompt", "delayed", x), accept=about(1.3, 0.1), judged=False
        )
        for x in (50, 100, SMALL_KB)
    ]
    return [criterion("largest gain, 150 KB and less", "up to 1.30", most, accept=about(1.3, 0.1)), *beside]


def _fig7_reason(curves: Curves, _: Sequence[Criterion]) -> str:
    slow, fast = (float(curves[key].at(5)["transfer_s"].mean()) for key in ("delayed", "prompt"))
    return (
        f"5 KB take {number(slow, 's')} with delayed ACK and {number(fast, 's')} without: the first wait of 200 ms and "
        "the next ones are most of a small transfer. The paper's 30% is what transfers of about 100 KB gain."
    )


FIG7 = SweepFigure(
    id="fig7",
    title="No delayed ACK at the proxy",
    caption="Throughput by size, with and without delayed ACK at the proxy as the receiver of the remote connection.",
    section="3.4",
    scenario="fig07",
    axis=SIZE,
    exact=lambda _: True,
    lines=[Line(key, label, {**settings, **era(JUDGED)}) for key, (label, settings, _) in _FIG7_LINES.items()],
    reference=lambda: [
        reference.series("p2_fig07", name, f"{label}, ns-2.35") for label, _, name in _FIG7_LINES.values()
    ],
    claims=[
        Claim(
            id="proxies.fig7",
            tolerance=f"{GENERAL_TOLERANCE}, of the largest ratio over sizes.",
            measure=_fig7,
            reason=_fig7_reason,
        )
    ],
    notes=[_NO_CHANCE, "An initial window of 2 on the local connection gains nothing, as the paper found."],
)

FIGURES = (FIG5, FIG6, FIG7)
