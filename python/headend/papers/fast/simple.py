"""Throughput on a simple link: Figures 4, 9 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion, number
from headend.papers.figure import Axis, Cell, Curve, Curves, Line, Settings, SweepFigure
from headend.papers.model import Criterion, Series
from headend.papers.stats import Estimate

ALPHA = Axis("alpha [packets]", "nodes.server.tcp.fast_alpha")
PACKET = 1500
"""Bytes of a packet on the link."""
FULL = 0.99
"""Full utilisation: this share of the largest throughput of any alpha. The paper says "full" and "almost full"."""
SLACK = 2
"""How far the smallest sufficient alpha may be from the paper's, in packets: it is read off a plot of noisy runs."""

NO_CHANCE = (
    "Nothing is random on this link, so a point is one run. The paper shows means over 100 runs, in which windows came "
    "to rest at different values for the same alpha; what made them differ is not told."
)


def total_mbps(cell: Cell) -> Estimate:
    """Goodput of a run's flows together, the mean over the runs [Mbit/s]."""
    run = cell["run"].astype(np.int64)
    return stats.mean(np.bincount(run, weights=cell.goodput_mbps))


def sufficient(curve: Curve) -> int:
    """The smallest alpha that fills the link."""
    rates = [total_mbps(cell).value for cell in curve.cells]
    enough = max(rates) * FULL
    return int(next(cell.x for cell, rate in zip(curve.cells, rates, strict=True) if rate >= enough))


def _needed(published: int) -> Range:
    return Range(published - SLACK, published + SLACK)


def _shortfall(curve: Curve) -> str:
    rates = ", ".join(f"{number(total_mbps(cell).value)} at alpha = {cell.x:g}" for cell in curve.cells[:5])
    return f"Throughput [Mbit/s]: {rates}."


_TOLERANCE = (
    f"Full is {FULL:.0%} of the largest throughput of any alpha; the smallest such alpha within {SLACK} packets of "
    "the paper's."
)

FIG4 = SweepFigure(
    id="fig4",
    title="Throughput against alpha",
    caption="One flow, 3 Mbit/s down, 512 kbit/s up, 100 ms: how many packets FAST must aim for to fill the link.",
    section="IV",
    scenario="simple",
    axis=ALPHA,
    exact=lambda _: True,
    measure=total_mbps,
    lines=[Line("simple", "simple link")],
    claims=[
        Claim(
            id="fast.fig4.simple",
            tolerance=_TOLERANCE,
            measure=lambda curves: [
                criterion(
                    "smallest alpha",
                    "4",
                    Estimate.exact(sufficient(curves["simple"])),
                    unit="packets",
                    accept=_needed(4),
                )
            ],
            reason=lambda curves, _: _shortfall(curves["simple"]),
        )
    ],
    notes=[NO_CHANCE],
)

FIG10 = SweepFigure(
    id="fig10",
    title="Throughput of two flows against alpha",
    caption="Figure 4 with two flows of the same alpha, which begin within a second.",
    section="V",
    scenario="two",
    axis=ALPHA,
    exact=lambda _: False,
    measure=total_mbps,
    runs_quick=3,
    runs_full=10,
    lines=[Line("simple", "simple link")],
    claims=[
        Claim(
            id="fast.fig10.simple",
            tolerance=_TOLERANCE,
            measure=lambda curves: [
                criterion(
                    "smallest alpha of each",
                    "3",
                    Estimate.exact(sufficient(curves["simple"])),
                    unit="packets",
                    accept=_needed(3),
                )
            ],
            reason=lambda curves, _: _shortfall(curves["simple"]),
        )
    ],
)

# Figure 9 -------------------------------------------------------------------------------------------------------------

_CAPACITIES = ((256, 128), (512, 256), (1540, 512), (2000, 512), (2500, 512), (3000, 512))
"""Down and up [kbit/s], section III."""


def _buffer(kbps: int) -> str:
    return f"{kbps * 512 // 8}B"


def _capacity(down: int, up: int) -> Settings:
    return {
        "links.access.rate": f"{down}kbit/s",
        "links.access.queue": _buffer(down),
        "links.access.back.rate": f"{up}kbit/s",
        "links.access.back.queue": _buffer(up),
    }


def needed_ms(curves: Curves) -> list[tuple[float, int, float]]:
    """Capacity [Mbit/s], the smallest sufficient alpha, and that as delay [ms], from the slowest link on."""
    rows = []
    for down, _ in _CAPACITIES:
        alpha = sufficient(curves[f"{down}"])
        rows.append((down / 1000, alpha, alpha * PACKET * 8 / down))
    return rows


def _fig9_series(curves: Curves) -> list[Series]:
    rows = needed_ms(curves)
    delays = [delay for _, _, delay in rows]
    return [Series("simple link", [rate for rate, _, _ in rows], delays, delays, delays)]


def _fig9(curves: Curves) -> list[Criterion]:
    rows = needed_ms(curves)
    rises = sum(later > earlier for (*_, earlier), (*_, later) in pairwise(rows))
    return [
        criterion("rises from one capacity to the next", "0", Estimate.exact(rises), Range(0, 0)),
        criterion("alpha at 256 kbit/s", "1 or 2", Estimate.exact(rows[0][1]), Range(1, 2), unit="packets"),
    ]


def _fig9_reason(curves: Curves, _: Sequence[Criterion]) -> str:
    found = needed_ms(curves)
    rows = ", ".join(f"{number(delay, 'ms')} at {rate:g} Mbit/s (alpha {alpha})" for rate, alpha, delay in found)
    packet = ", ".join(number(delay / alpha) for _, alpha, delay in found)
    return f"Needed: {rows}. Alpha counts whole packets, of {packet} ms: where one more is needed, the delay rises."


FIG9 = SweepFigure(
    id="fig9",
    title="Queueing delay that FAST needs, against capacity",
    caption="The smallest alpha that fills the link, divided by its capacity.",
    section="IV",
    scenario="simple",
    axis=ALPHA,
    exact=lambda _: True,
    y_label="alpha / capacity [ms]",
    lines=[Line(f"{down}", f"{down} kbit/s", _capacity(down, up)) for down, up in _CAPACITIES],
    draw=_fig9_series,
    claims=[
        Claim(
            id="fast.fig9.simple",
            tolerance=f"Full is {FULL:.0%} of the largest throughput of any alpha; falling means that no capacity "
            "needs more delay than the one before.",
            measure=_fig9,
            reason=_fig9_reason,
        )
    ],
)
