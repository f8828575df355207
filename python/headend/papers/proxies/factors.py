"""Section 4: where the server is, how much is sent, buffers, and losses on the Internet. Figures 10 to 14."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headend.papers import reference, stats
from headend.papers.claim import GENERAL_TOLERANCE, Claim, Range, about, criterion, more_than, number
from headend.papers.figure import Curves, Line, SweepFigure
from headend.papers.model import Criterion, Series, Style
from headend.papers.proxies.loss import HEAVY, LINES
from headend.papers.proxies.network import (
    DELAY,
    JUDGED,
    LOSS,
    OTHER,
    REMOTE_LOSS,
    SIZE,
    STORE,
    TUNED,
    both_eras,
    gain,
    mean,
    mean_kbps,
    remote_buffer,
)
from headend.papers.runner import Settings
from headend.papers.stats import Estimate

# Figures 10 and 11 ----------------------------------------------------------------------------------------------------

_ALONE: dict[str, tuple[str, Settings, str]] = {
    "normal": ("local connection alone", {}, "local alone normal 3%"),
    "tuned": (
        "local connection alone, tuned",
        {key.replace("proxy.local", "proxy"): value for key, value in TUNED.items()},
        "local alone modified 3%",
    ),
}
_FIG10_LINES = {key: LINES[key] for key in ("direct", "store", "tuned store")}


def _round_trips(shown: Series) -> Series:
    """From one-way delays [s] to round trips [ms]."""
    return Series(shown.label, [2000 * x for x in shown.x], shown.y, shown.lo, shown.hi, shown.group, shown.style)


def _fig10_drawn(curves: Curves) -> list[Series]:
    lines = {line.key: line for line in FIG10.lines}
    return [_round_trips(curves[key].through(FIG10.measure, style=line.style)) for key, line in lines.items()]


FIG10 = SweepFigure(
    id="fig10",
    title="Servers near and far",
    caption="3 MB at 3% loss on the cable, by round trip between the proxy and the server.",
    section="4.1",
    scenario="fig10",
    axis=DELAY,
    exact=lambda _: False,
    lines=both_eras([(key, label, settings) for key, (label, settings, _) in _FIG10_LINES.items()]),
    runs_quick=40,
    runs_full=200,
    draw=_fig10_drawn,
    reference=lambda: [
        reference.series("p2_fig10_11", name, f"{label}, ns-2.35") for label, _, name in _FIG10_LINES.values()
    ],
    notes=["The cable's 20 ms come on top of the round trip of a direct connection."],
)


def _crossing(curves: Curves, which: str) -> Estimate:
    """The round trip [ms] from which the remote connection alone is slower than the local one alone."""
    remote = curves["remote"]
    round_trips = np.array([2000 * x for x in remote.x])
    # One over the throughput of a window-limited connection is a line in the round trip.
    slowness = np.array([1 / cell.goodput_mbps.mean() for cell in remote.cells])
    return stats.bootstrap(
        lambda local: np.interp(1 / local.mean(axis=-1), slowness, round_trips), curves[which].cells[0].goodput_mbps
    )


def _fig11(curves: Curves) -> list[Criterion]:
    return [
        criterion(f"{name}{which}", f"{ms} ms", _crossing(curves, key), accept=about(ms, 10), unit="ms", judged=judged)
        for prefix, name, judged in (("", "", True), ("other ", "rules of 1996, ", False))
        for which, ms in (("normal", 300), ("tuned", 100))
        for key in (f"{prefix}{which}",)
    ]


def _fig11_drawn(curves: Curves) -> list[Series]:
    remote = _round_trips(curves["remote"].through(FIG11.measure))
    level = []
    for line in FIG11.lines:
        if line.key != "remote":
            alone = curves[line.key].through(FIG11.measure)
            count = len(remote.x)
            level.append(
                Series(line.label, remote.x, alone.y * count, alone.lo * count, alone.hi * count, "", line.style)
            )
    return [remote, *level]


def _alone(prefix: str, suffix: str, rules: str, style: Style) -> list[Line]:
    return [
        Line(
            f"{prefix}{key}",
            f"{label}{suffix}",
            {**settings, "nodes.proxy.tcp.era": rules},
            style=style,
            scenario="fig11_local",
            axis=LOSS,
        )
        for key, (label, settings, _) in _ALONE.items()
    ]


FIG11 = SweepFigure(
    id="fig11",
    title="Each connection alone",
    caption="What the remote connection (no loss) and the local one (3% loss) reach by themselves: the "
    "slower one is the "
    "bottleneck of a store-and-forward proxy.",
    section="4.1",
    scenario="fig11_remote",
    axis=DELAY,
    exact=lambda x: x != 3.0,
    lines=[
        Line("remote", "remote connection alone"),
        *_alone("", "", JUDGED, "line"),
        *_alone("other ", ", rules of 1996", OTHER, "dashed"),
    ],
    runs_quick=100,
    runs_full=400,
    draw=_fig11_drawn,
    reference=lambda: [
        reference.series("p2_fig10_11", "remote alone (lossless)", "remote connection alone, ns-2.35"),
    ],
    claims=[
        Claim(
            id="proxies.fig10_11",
            tolerance=f"{GENERAL_TOLERANCE}. The round trip at which the two means are equal.",
            measure=_fig11,
            reason=lambda curves, criteria: (
                f"Alone at 3% the local connection reaches "
                f"{number(curves['normal'].cells[0].goodput_mbps.mean())} Mbit/s, "
                f"tuned {number(curves['tuned'].cells[0].goodput_mbps.mean())} Mbit/s; the remote one "
                f"falls to the first "
                f"at {number(criteria[0].measured, 'ms')} and to the second at {number(criteria[1].measured, 'ms')}."
            ),
        )
    ],
)

# Figure 12 ------------------------------------------------------------------------------------------------------------

_FIG12_LOSSES = (1, 5, 10)
_FIG12_LINES: dict[str, tuple[str, Settings, str]] = {
    "direct": ("direct", {}, "direct"),
    "store": ("store and forward", STORE, "sf normal"),
    "tuned store": ("store and forward, tuned", {**STORE, **TUNED}, "sf modified"),
}


def _fig12_group(loss: int) -> str:
    return f"({'abc'[_FIG12_LOSSES.index(loss)]}) {loss}% loss"


def _at_each_loss(losses: Sequence[int], group: Callable[[int], str]) -> list[Line]:
    """Figure 12's lines at each of `losses` on the cable, in percent, with the loss after their keys."""
    return [
        line
        for loss in losses
        for line in both_eras(
            [
                (f"{key} {loss}", label, {**settings, "links.cable.down.loss": f"{loss}%"})
                for key, (label, settings, _) in _FIG12_LINES.items()
            ],
            group(loss),
        )
    ]


def _fig12(curves: Curves) -> list[Criterion]:
    criteria = []
    for prefix, judged in (("", True), ("other ", False)):
        name = "" if judged else "rules of 1996, "
        sizes = [x for x in curves["store 1"].x if x >= 100]

        def least(above: str, below: str, sizes: Sequence[float] = sizes) -> Estimate:
            return min((gain(curves, above, below, x) for x in sizes), key=lambda ratio: ratio.value)

        criteria += [
            criterion(
                f"{name}store over direct at 1%, least from 100 KB",
                ">= 1.6",
                least(f"{prefix}store 1", f"{prefix}direct 1"),
                accept=Range(lo=1.6),
                judged=judged,
            ),
            criterion(
                f"{name}tuned over direct at 5%, least from 100 KB",
                "~2",
                least(f"{prefix}tuned store 5", f"{prefix}direct 5"),
                accept=about(2, 1),
                judged=judged,
            ),
            criterion(
                f"{name}tuned over direct at 10%, 20 KB",
                "~3",
                gain(curves, f"{prefix}tuned store 10", f"{prefix}direct 10", 20),
                accept=about(3, 1),
                judged=judged,
            ),
        ]
    criteria.append(
        criterion(
            "tuned over normal store at 5%, 100 KB",
            "~2",
            gain(curves, "tuned store 5", "store 5", 100),
            accept=about(2, 1),
            judged=False,
        )
    )
    return criteria


FIG12 = SweepFigure(
    id="fig12",
    title="Small and large transfers",
    caption="Throughput by size of the transfer at three losses on the cable, 100 ms to the server.",
    section="4.2",
    scenario="fig12",
    axis=SIZE,
    exact=lambda _: False,
    lines=_at_each_loss(_FIG12_LOSSES, _fig12_group),
    runs_quick=200,
    runs_full=400,
    reference=lambda: [
        reference.series("p2_fig12", f"{name} loss={loss}%", f"{label}, ns-2.35", group=_fig12_group(loss))
        for loss in _FIG12_LOSSES
        for label, _, name in _FIG12_LINES.values()
    ],
    claims=[
        Claim(
            id="proxies.fig12",
            tolerance=f"{GENERAL_TOLERANCE}; '60% or more' as it stands, for the least of all sizes from 100 KB.",
            measure=_fig12,
            reason=lambda curves, _: (
                f"100 KB at 5%: direct {number(mean(curves, 'direct 5', 100))}, store "
                f"{number(mean(curves, 'store 5', 100))}, tuned "
                f"{number(mean(curves, 'tuned store 5', 100))} Mbit/s. The "
                "paper's 'close to 100% improvement' is far exceeded over the direct connection."
            ),
        )
    ],
)

# Figure 13 ------------------------------------------------------------------------------------------------------------

_FIG13_LINES = {
    key: (label, {**settings, **(remote_buffer("32 KB") if key != "direct" else {})})
    for key, (label, settings, _) in LINES.items()
}


def _fig13(curves: Curves) -> list[Criterion]:
    criteria = []
    for prefix, judged in (("", True), ("other ", False)):
        name = "" if judged else "rules of 1996, "
        heavy = [x for x in curves[f"{prefix}direct"].x if x >= HEAVY]
        small = curves[f"{prefix}small store"].at(0).goodput_mbps
        wide = stats.ratio_of_means(curves[f"{prefix}store"].at(0).goodput_mbps, small)
        least = min(
            (
                gain(curves, f"{prefix}tuned {model}", f"{prefix}direct", x)
                for x in heavy
                for model in ("store", "buffer")
            ),
            key=lambda ratio: ratio.value,
        )
        criteria += [
            criterion(f"{name}32 KB over 8 KB without loss", "~4", wide, accept=about(4, 1), judged=judged),
            criterion(f"{name}tuned over direct, least from 3%", "> 3", least, accept=more_than(3.0), judged=judged),
        ]
    return criteria


FIG13 = SweepFigure(
    id="fig13",
    title="A larger buffer towards the server",
    caption="As Figure 9, with a socket buffer of 32 KB on the proxy's remote connection; the others stay at 8 KB.",
    section="4.3",
    scenario="fig08",
    axis=LOSS,
    lines=[
        *both_eras([(key, label, settings) for key, (label, settings) in _FIG13_LINES.items()]),
        *(
            Line(line.key, line.label, line.set, line.group, line.style, shown=False)
            for line in both_eras([("small store", "store and forward, 8 KB", STORE)])
        ),
    ],
    runs_quick=40,
    runs_full=200,
    claims=[
        Claim(
            id="proxies.fig13",
            tolerance=f"{GENERAL_TOLERANCE} for 'almost four-fold'; 'more than three-fold' as it stands, from 3% up.",
            measure=_fig13,
            reason=lambda curves, _: (
                f"Without loss the store reaches {number(mean(curves, 'store', 0))} Mbit/s, and "
                f"{number(mean(curves, 'small store', 0))} with 8 KB; at 3% the tuned one "
                f"{number(mean(curves, 'tuned store', 3))} "
                f"and the direct connection {number(mean(curves, 'direct', 3))} Mbit/s."
            ),
        )
    ],
)

# Figure 14 ------------------------------------------------------------------------------------------------------------

_FIG14_LOCAL = (1, 5, 10)


def _fig14_group(loss: int) -> str:
    return f"({'abc'[_FIG14_LOCAL.index(loss)]}) {loss}% on the cable"


def _fig14(curves: Curves) -> list[Criterion]:
    return [
        criterion(
            f"{name}store, {local}% local and {remote}% remote",
            f"{kbps} kbit/s",
            mean_kbps(curves[f"{prefix}store {local}"].at(remote)),
            accept=about(kbps, 10),
            unit="kbit/s",
            judged=judged,
        )
        for prefix, name, judged in (("", "", True), ("other ", "rules of 1996, ", False))
        for local, remote, kbps in ((5, 1, 70), (1, 5, 50))
    ]


FIG14 = SweepFigure(
    id="fig14",
    title="Losses on the Internet too",
    caption="3 MB while both networks lose packets: directly, and through a store-and-forward proxy, normal and tuned.",
    section="4.4",
    scenario="fig14",
    axis=REMOTE_LOSS,
    exact=lambda _: False,
    lines=_at_each_loss(_FIG14_LOCAL, _fig14_group),
    y_log=True,
    runs_quick=20,
    runs_full=100,
    claims=[
        Claim(
            id="proxies.fig14",
            tolerance=f"{GENERAL_TOLERANCE}.",
            measure=_fig14,
            reason=lambda curves, _: (
                f"The direct connection reaches {number(1000 * mean(curves, 'direct 5', 1))} and "
                f"{number(1000 * mean(curves, 'direct 1', 5))} kbit/s, the store "
                f"{number(1000 * mean(curves, 'store 5', 1))} "
                f"and {number(1000 * mean(curves, 'store 1', 5))} kbit/s."
            ),
        )
    ],
    notes=["Data packets are lost on both networks, acknowledgements on neither."],
)

FIGURES = (FIG10, FIG11, FIG12, FIG13, FIG14)
