"""Throughput on a simple link and over the modem: Figures 4, 9 and 10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion, more_than, number
from headend.papers.figure import Axis, Curve, Curves, Line, SweepFigure
from headend.papers.model import Criterion, Series
from headend.papers.runner import Cell, Settings
from headend.papers.stats import Estimate

ALPHA = Axis("alpha [packets]", "nodes.server.tcp.fast_alpha")
PACKET = 1500
"""Bytes of a packet on the link."""
FULL = 0.99
"""Full utilisation: this share of the largest throughput of any alpha. The paper says "full" and "almost full"."""
SLACK = 2
"""How far the smallest sufficient alpha may be from the paper's, in packets: it is read off a plot of noisy runs."""

NO_CHANCE = (
    "Nothing is random on the simple link, so a point is one run. The paper shows means over 100 runs, in which "
    "windows came to rest at different values for the same alpha; what made them differ is not told."
)
CLOCKS = (
    "Over the modem the flow begins at a random time within a second, against the clocks of the headend: nothing else "
    "is random there."
)
CHOSEN = (
    "The modem's parameters are those of the paper, the standard and the headend's manual. The look-ahead (10 ms) was "
    "chosen by Figure 2, two calendars (16 ms each, of the manual's 1 to 16) by Figures 5 and 6. What Figures 9 to 11 "
    "show is a prediction."
)


def total_mbps(cell: Cell) -> Estimate:
    """Goodput of a run's flows together, the mean over the runs [Mbit/s]."""
    return stats.mean(cell.flows.by_run(cell.goodput_mbps))


def sufficient(curve: Curve) -> int:
    """The smallest alpha that fills the link."""
    rates = [total_mbps(cell).value for cell in curve.cells]
    enough = max(rates) * FULL
    return int(next(cell.x for cell, rate in zip(curve.cells, rates, strict=True) if rate >= enough))


def _needed(published: int) -> Range:
    return Range(published - SLACK, published + SLACK)


def _shortfall(curve: Curve) -> str:
    first = sufficient(curve)
    near = [cell for cell in curve.cells if abs(cell.x - first) <= SLACK]
    rates = ", ".join(f"{number(total_mbps(cell).value)} at alpha = {cell.x:g}" for cell in near)
    return f"Throughput [Mbit/s]: {rates}."


_TOLERANCE = (
    f"Full is {FULL:.0%} of the largest throughput of any alpha; the smallest such alpha within {SLACK} packets of "
    "the paper's."
)


def _smallest(key: str, published: str, what: str) -> Claim[Curves]:
    """The claim that so many packets are needed on the line `key`."""
    return Claim(
        id=f"fast.{what}.{key}",
        tolerance=_TOLERANCE,
        measure=lambda curves: [
            criterion(
                "smallest alpha",
                published,
                Estimate.exact(sufficient(curves[key])),
                unit="packets",
                accept=_needed(int(published)),
            )
        ],
        reason=lambda curves, _: _shortfall(curves[key]),
    )


FIG4 = SweepFigure(
    id="fig4",
    title="Throughput against alpha",
    caption="One flow, 3 Mbit/s down, 512 kbit/s up, 100 ms: how many packets FAST must aim for to fill the link.",
    section="IV",
    scenario="simple",
    axis=ALPHA,
    exact=lambda _: False,
    measure=total_mbps,
    runs_quick=10,
    runs_full=100,
    lines=[Line("simple", "simple link", exact=True), Line("docsis", "DOCSIS", scenario="docsis")],
    claims=[_smallest("simple", "4", "fig4"), _smallest("docsis", "13", "fig4")],
    notes=[NO_CHANCE, CLOCKS, CHOSEN],
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
    lines=[Line("simple", "simple link"), Line("docsis", "DOCSIS", scenario="docsis_two")],
    claims=[_smallest("simple", "3", "fig10"), _smallest("docsis", "22", "fig10")],
    notes=[CHOSEN],
)

# Figure 9 -------------------------------------------------------------------------------------------------------------

_CAPACITIES = ((256, 128), (512, 256), (1540, 512), (2000, 512), (2500, 512), (3000, 512))
"""Down and up [kbit/s], section III."""


def _buffer(kbps: int) -> str:
    return f"{kbps * 512 // 8}B"


def _simple(down: int, up: int) -> Settings:
    return {
        "links.access.rate": f"{down}kbit/s",
        "links.access.queue": _buffer(down),
        "links.access.back.rate": f"{up}kbit/s",
        "links.access.back.queue": _buffer(up),
    }


def _docsis(down: int, up: int) -> Settings:
    return {
        "links.access.modem.down_rate": f"{down}kbit/s",
        "links.access.modem.up_rate": f"{up}kbit/s",
        "links.access.modem.up_buffer": _buffer(up),
    }


def needed_ms(curves: Curves, medium: str) -> list[tuple[float, int, float]]:
    """Capacity [Mbit/s], the smallest sufficient alpha, and that as delay [ms], from the slowest link on."""
    rows = []
    for down, _ in _CAPACITIES:
        alpha = sufficient(curves[f"{medium} {down}"])
        rows.append((down / 1000, alpha, alpha * PACKET * 8 / down))
    return rows


def _fig9_series(curves: Curves) -> list[Series]:
    shown = []
    for medium, label in (("simple", "simple link"), ("docsis", "DOCSIS")):
        rows = needed_ms(curves, medium)
        delays = [delay for *_, delay in rows]
        shown.append(Series.exact(label, [rate for rate, *_ in rows], delays))
    return shown


def _fig9_simple(curves: Curves) -> list[Criterion]:
    rows = needed_ms(curves, "simple")
    rises = sum(later > earlier for (*_, earlier), (*_, later) in pairwise(rows))
    return [
        criterion("rises from one capacity to the next", "0", Estimate.exact(rises), Range(0, 0)),
        criterion("alpha at 256 kbit/s", "1 or 2", Estimate.exact(rows[0][1]), Range(1, 2), unit="packets"),
    ]


def _fig9_docsis(curves: Curves) -> list[Criterion]:
    delay = {rate: delay for rate, _, delay in needed_ms(curves, "docsis")}
    turn = min(delay, key=lambda rate: delay[rate])
    return [
        criterion("least delay is needed at", "about 1", Estimate.exact(turn), Range(0.512, 1.54), unit="Mbit/s"),
        criterion("needed at 3 Mbit/s over the least", "> 1", Estimate.exact(delay[3.0] / delay[turn]), more_than(1.0)),
    ]


def _fig9_reason(medium: str) -> Callable[[Curves, Sequence[Criterion]], str]:
    def reason(curves: Curves, _: Sequence[Criterion]) -> str:
        found = needed_ms(curves, medium)
        rows = ", ".join(f"{number(delay, 'ms')} at {rate:g} Mbit/s (alpha {alpha})" for rate, alpha, delay in found)
        packet = ", ".join(number(delay / alpha) for _, alpha, delay in found)
        return f"Needed: {rows}. Alpha counts whole packets, of {packet} ms: where one more is needed, the delay rises."

    return reason


_FULL = f"Full is {FULL:.0%} of the largest throughput of any alpha"

FIG9 = SweepFigure(
    id="fig9",
    title="Queueing delay that FAST needs, against capacity",
    caption="The smallest alpha that fills the link, divided by its capacity.",
    section="IV",
    scenario="simple",
    axis=ALPHA,
    exact=lambda _: False,
    y_label="alpha / capacity [ms]",
    runs_quick=3,
    runs_full=20,
    lines=[
        *(Line(f"simple {down}", f"{down} kbit/s", _simple(down, up), exact=True) for down, up in _CAPACITIES),
        *(
            Line(f"docsis {down}", f"DOCSIS {down} kbit/s", _docsis(down, up), scenario="docsis")
            for down, up in _CAPACITIES
        ),
    ],
    draw=_fig9_series,
    claims=[
        Claim(
            id="fast.fig9.simple",
            tolerance=f"{_FULL}; falling means that no capacity needs more delay than the one before.",
            measure=_fig9_simple,
            reason=_fig9_reason("simple"),
        ),
        Claim(
            id="fast.fig9.docsis",
            tolerance=f"{_FULL}. 'Beyond about 1 Mbit/s': the least at a capacity of the paper's from 0.512 to 1.54.",
            measure=_fig9_docsis,
            reason=_fig9_reason("docsis"),
        ),
    ],
    notes=[CHOSEN],
)
