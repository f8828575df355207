"""Beyond the paper: Figures 4 and 17 with the senders of today beside those of 1996."""

from __future__ import annotations

from headend.papers.figure import Line, SweepFigure
from headend.papers.runner import Settings
from headend.papers.tuning.network import DATA_LOSS, JUDGED, REMEDIES, era, initial_window, packets

_OLD = "bsd-reno-1996"
_MODERN = ("newreno", "sack", "linux")
_OWN = "the buffers of today (4 MB)"


def _both_ends(personality: str) -> Settings:
    """The server's and the subscriber's TCP: SACK and delayed ACK take two."""
    return {"nodes.server.personality": personality, "nodes.pc.personality": personality}


def _buffers(size: str) -> Settings:
    return {"nodes.server.tcp.send_buffer": size, "nodes.pc.tcp.receive_buffer": size}


def _panel(group: str, buffers: Settings, modern: Settings) -> list[Line]:
    return [
        Line(
            f"{group} {name}", name, {**_both_ends(name), **buffers, **(era(JUDGED) if name == _OLD else modern)}, group
        )
        for name in (_OLD, *_MODERN)
    ]


# The modern personalities bring RFC rules; the scenario file's `era` is for the sender of 1996.
_RFC = era("rfc")

_SENDERS_NOTE = (
    "newreno, sack and linux at both ends, with their own initial windows, timers and delayed ACK; linux is CUBIC."
)

FIG4_TODAY = SweepFigure(
    id="fig4-today",
    title="Loss of data packets, today",
    caption="Figure 4 again: the senders of today beside that of 1996, with its window and with their own.",
    section="4.3",
    scenario="fig04",
    axis=DATA_LOSS,
    runs_quick=40,
    lines=[
        *_panel("(a) 8 KB buffer", packets(6), _RFC),
        *_panel("(b) 32 KB buffer", packets(22), _RFC),
        *_panel(f"(c) {_OWN}; 1996: 64 KB", packets(44), {**_RFC, **_buffers("4MB")}),
    ],
    notes=[_SENDERS_NOTE, "In (c) the sender of 1996 has 44 packets, the most that it can announce without scaling."],
)

FIG17_TODAY = SweepFigure(
    id="fig17-today",
    title="The remedies, today",
    caption="Figure 17 again: what the paper's remedies are worth beside the loss recovery of today.",
    section="6.4",
    scenario="fig15",
    axis=DATA_LOSS,
    runs_quick=40,
    lines=[
        line
        for group, buffers, modern in (
            ("(a) 8 KB buffer", packets(6), _RFC),
            (f"(b) {_OWN}; 1996: 64 KB", packets(44), {**_RFC, **_buffers("4MB")}),
        )
        for line in (
            *_panel(group, buffers, modern),
            Line(
                f"{group} tuned",
                "1996 with both remedies",
                {**buffers, **REMEDIES, **initial_window(2), **era(JUDGED)},
                group,
            ),
        )
    ],
    notes=[_SENDERS_NOTE],
)

FIGURES = (FIG4_TODAY, FIG17_TODAY)
