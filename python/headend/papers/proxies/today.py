"""Beyond the paper: Figures 8 and 13 with Linux at every end. What does a proxy still gain today?"""

from __future__ import annotations

from headend.papers.figure import Line, SweepFigure
from headend.papers.proxies.network import BUFFER, BUFFER_PACKETS, LOSS, PACKET, STORE, TUNED, remote_buffer
from headend.papers.runner import Settings

_ENDS: Settings = {
    f"nodes.{node}.{field}": value
    for node in ("server", "pc", "proxy.local", "proxy.remote")
    for field, value in (("personality", "linux"), ("tcp.era", "rfc"))
}
"""Linux everywhere: selective acknowledgement takes two. The era's rules are those of the sender of 1996 alone."""

_OLD_LOCAL: Settings = {
    **TUNED,
    "nodes.proxy.local.personality": "bsd-reno-1996",
    "nodes.proxy.local.tcp.era": "ns-2.35",
}
"""The paper's remedy as it was, between Linux hosts."""


def _sockets(local: str, remote: str) -> Settings:
    """Send and receive buffers: of the PC and the proxy's local connection, of the proxy's remote one."""
    return {
        "nodes.server.tcp.send_buffer": "4MB",
        "nodes.pc.tcp.receive_buffer": local,
        "nodes.proxy.local.tcp.send_buffer": local,
        "nodes.proxy.remote.tcp.receive_buffer": remote,
    }


def _lines(group: str, buffers: Settings) -> list[Line]:
    rows: tuple[tuple[str, str, Settings], ...] = (
        ("direct", "direct", {}),
        ("buffer", "buffer and forward", BUFFER),
        ("store", "store and forward", STORE),
        ("remedy", "store and forward, the remedy of 1996", {**STORE, **_OLD_LOCAL}),
    )
    return [Line(f"{group} {key}", label, {**_ENDS, **settings, **buffers}, group) for key, label, settings in rows]


_SMALL = f"{BUFFER_PACKETS['8 KB'] * PACKET}B"
_NOTE = (
    "linux: CUBIC with SACK, RACK and tail loss probes, timestamps, a minimum RTO of 200 ms and an "
    "initial window of ten. "
    "The remedy of 1996 is a Reno sender with a 200 ms timer that retransmits at the first duplicate ACK."
)

FIG8_TODAY = SweepFigure(
    id="fig8-linux",
    title="Losses on the cable, today",
    caption="Figure 8 again with Linux at all four ends: with the paper's socket buffers, and with those of today.",
    section="3.5",
    scenario="fig08",
    axis=LOSS,
    runs_quick=20,
    runs_full=100,
    lines=[
        *_lines("(a) 8 KB buffers", _sockets(_SMALL, _SMALL)),
        *_lines("(b) 4 MB buffers", _sockets("4MB", "4MB")),
    ],
    notes=[_NOTE],
)

FIG13_TODAY = SweepFigure(
    id="fig13-linux",
    title="A larger buffer towards the server, today",
    caption="Figure 13 again with Linux at all four ends: 32 KB on the proxy's remote connection, 8 KB elsewhere.",
    section="4.3",
    scenario="fig08",
    axis=LOSS,
    runs_quick=20,
    runs_full=100,
    lines=_lines("", {**_sockets(_SMALL, _SMALL), **remote_buffer("32 KB")}),
    notes=[_NOTE],
)

FIGURES = (FIG8_TODAY, FIG13_TODAY)
