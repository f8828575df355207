"""Where the modem's delay comes from: the round trip at each window, with one mechanism at a time switched off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headend.papers.claim import number
from headend.papers.fast.throughput import ALPHA, FULL, PACKET
from headend.papers.fast.windows import MBPS, MSS, PLATEAU, Rest, measure
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Kind, Series
from headend.papers.runner import Runner, Settings

_CHANNEL, _MODEM = "links.access.channel", "links.access.modem"
ENOUGH = 100
"""An alpha that lets the receiver's window be the limit."""
WINDOWS = (4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 44, 48)
"""Even ones: of an odd window, one packet waits for another before it is acknowledged."""
WINDOWS_QUICK = (8, 12, 16, 20, 24, 28, 32, 36, 40)
FRAME = PACKET + 18
"""What a packet counts at the token bucket."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The modem without something, or with another value of it."""

    label: str
    set: Settings
    drawn: bool = True


VARIANTS = (
    Variant("as in the figures", {}),
    Variant("no calendar of grants", {f"{_MODEM}.grant_calendar": "0s"}),
    Variant("no calendar downstream", {f"{_MODEM}.down_granularity": "0s"}, drawn=False),
    Variant("no calendars", {f"{_MODEM}.grant_calendar": "0s", f"{_MODEM}.down_granularity": "0s"}),
    Variant("no piggy-back", {f"{_MODEM}.piggyback": False}, drawn=False),
    Variant("no concatenation", {f"{_MODEM}.concatenation": False}, drawn=False),
    Variant("bursts of 200 bytes at most", {f"{_MODEM}.burst_max": "200B"}, drawn=False),
    Variant("no contention (polled)", {f"{_CHANNEL}.access": "polled"}, drawn=False),
    Variant("no asking", {f"{_CHANNEL}.access": "free"}),
    Variant("no asking, no calendar downstream", {f"{_CHANNEL}.access": "free", f"{_MODEM}.down_granularity": "0s"}),
    Variant("look-ahead 4 ms", {f"{_CHANNEL}.look_ahead": "4ms"}, drawn=False),
    Variant("look-ahead 8 ms", {f"{_CHANNEL}.look_ahead": "8ms"}, drawn=False),
    Variant("look-ahead 12 ms", {f"{_CHANNEL}.look_ahead": "12ms"}, drawn=False),
    Variant("calendar of grants 8 ms", {f"{_MODEM}.grant_calendar": "8ms"}, drawn=False),
    Variant("calendar downstream 8 ms", {f"{_MODEM}.down_granularity": "8ms"}, drawn=False),
    Variant("path 1 ms shorter", {"links.wan.delay": "50ms"}, drawn=False),
    Variant("path 1 ms longer", {"links.wan.delay": "51ms"}, drawn=False),
    Variant(
        "grants every 18 ms, downstream 8 ms, look-ahead 8 ms",
        {f"{_MODEM}.grant_calendar": "18ms", f"{_MODEM}.down_granularity": "8ms", f"{_CHANNEL}.look_ahead": "8ms"},
        drawn=False,
    ),
)


def held(runner: Runner, variant: Variant) -> list[tuple[int, Rest]]:
    """A run for each window, which the receiver offers and the sender keeps."""

    def all_of_them() -> list[tuple[int, Rest]]:
        windows = WINDOWS_QUICK if runner.edition == "quick" else WINDOWS
        found = []
        for window in windows:
            settings = {**variant.set, "nodes.pc.tcp.receive_buffer": f"{window * MSS}B", ALPHA.path: ENOUGH}
            found.append((window, measure(runner.traced("docsis", settings, f"{variant.label}, {window}"), ENOUGH)))
        return found

    return runner.once(("fast held", variant.label), all_of_them)


def queue_ms(window: int, base_ms: float) -> float:
    """The round trip that the window would have if the downstream rate were all there is."""
    return max(base_ms, window * FRAME * 8e-3 / MBPS)


def paper_ms(window: int) -> float:
    """The mean round trip over DOCSIS that the paper's section IV-B tells of Figures 5 and 6."""
    step = 115 + 30 * min(max((window - 13) / 7, 0.0), 1.0)
    return max(step, window * FRAME * 8e-3 / MBPS)


def misfit_ms(found: Sequence[tuple[int, Rest]]) -> float:
    """How far round trips are from the paper's: root of the mean square."""
    return float(np.sqrt(np.mean([(rest.rtt_ms - paper_ms(window)) ** 2 for window, rest in found])))


GRAINS = (0, 4, 8, 16)
"""Entries of calendars that are tried [ms]: none, and the longer ones of the headend's manual."""


def _choice(runner: Runner) -> str:
    rows = []
    for down in GRAINS:
        misfits = []
        for up in GRAINS:
            settings = {f"{_MODEM}.down_granularity": f"{down}ms", f"{_MODEM}.grant_calendar": f"{up}ms"}
            found = held(runner, Variant(f"calendars of {down} and {up} ms", settings))
            misfits.append(f"{misfit_ms(found):.1f}")
        rows.append(f"| {down} ms | {' | '.join(misfits)} |")
    head = "| downstream, and grants: | " + " | ".join(f"{up} ms" for up in GRAINS) + " |"
    return "\n".join([head, "|---" * (len(GRAINS) + 1) + "|", *rows])


def _row(variant: Variant, found: Sequence[tuple[int, Rest]]) -> str:
    base = min(rest.base_ms for _, rest in found)
    phantom = {window: rest.rtt_ms - queue_ms(window, base) for window, rest in found}
    inside = [(window, rest) for window, rest in found if PLATEAU[0] <= window < PLATEAU[1]]
    most = max(rest.rate_mbps for _, rest in found)
    full = min((window for window, rest in found if rest.rate_mbps >= FULL * most), default=0)
    spread = f"{min(r.rtt_ms for _, r in inside):.0f} to {max(r.rtt_ms for _, r in inside):.0f}"
    mean = float(np.mean([phantom[window] for window, _ in inside]))
    least = min(rest.rtt_min_ms for _, rest in inside)
    return f"| {variant.label} | {base:.1f} | {spread} | {least:.0f} | {mean:.1f} | {full} | {number(most)} |"


def _curves(runner: Runner) -> list[Series]:
    drawn = ((variant.label, held(runner, variant)) for variant in VARIANTS if variant.drawn)
    return [
        Series.exact(label, [float(window) for window, _ in found], [rest.rtt_ms for _, rest in found])
        for label, found in drawn
    ]


_HEAD = (
    "| modem | base [ms] | mean round trip, windows 20 to 36 [ms] | least minimum of 4 s [ms] | "
    "phantom delay [ms] | full from [packets] | at most [Mbit/s] |"
)


def _figure(
    name: str, title: str, caption: str, kind: Kind, show: Callable[[Runner], list[Series] | str]
) -> CaseFigure[Any]:
    return CaseFigure(
        id=name,
        title=title,
        caption=caption,
        section="VI",
        kind=kind,
        x_label="Window [packets]",
        y_label="Mean round trip [ms]",
        always=1,
        run=lambda runner, *_: show(runner),
        draw=lambda shown: shown,
        notes=[
            "Held windows are even. Of an odd one, a packet always waits for its partner before both are "
            "acknowledged, and the pairs of a batch come apart; FAST rests at odd windows as well."
        ],
    )


FIGURES = (
    _figure(
        "ablation",
        "What makes the phantom delay",
        "One flow whose window the receiver holds: the mean round trip with and without what makes it.",
        "lines",
        _curves,
    ),
    _figure(
        "ablation_table",
        "Each mechanism of the modem switched off",
        "The phantom delay is what the mean round trip exceeds the base, or the time that the window "
        "takes at the downstream rate, by: the mean over windows of 20 to 36 packets.",
        "table",
        lambda runner: markdown(_HEAD, [_row(variant, held(runner, variant)) for variant in VARIANTS]).rstrip(),
    ),
    _figure(
        "choice",
        "Which calendars fit Figures 5 and 6",
        "Mean round trips of held windows against what the paper tells of Figures 5 and 6 (115 ms up "
        "to 13 packets, 145 ms from 20 to 37, the queue beyond): root of the mean square of the differences "
        "[ms].",
        "table",
        _choice,
    ),
)
