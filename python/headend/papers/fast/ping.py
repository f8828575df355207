"""Figure 2: what an idle modem does to a ping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headend.papers.claim import Claim, about, criterion, number
from headend.papers.figure import CaseFigure
from headend.papers.model import Criterion, Series
from headend.papers.runner import Runner
from headend.papers.stats import Estimate

Pings = NDArray[np.float64]
"""When each was sent [s] and how long it took [ms]: two rows."""


def _pings(runner: Runner) -> Pings:
    flows = runner.traced("docsis_ping", {}, "fig2").flows
    ours = flows["flow"] == "ping"
    pings = np.array([flows["start_s"][ours], flows["acked_s"][ours] * 1000])
    return pings[:, np.argsort(pings[0])]


def _extremes(pings: Pings) -> list[Criterion]:
    base, worst = float(pings[1].min()), float(pings[1].max())
    return [
        criterion("base", "12", Estimate.exact(base), about(12, 1), unit="ms"),
        criterion("largest additional delay", "13", Estimate.exact(worst - base), about(13, 1), unit="ms"),
    ]


def _reason(pings: Pings, _: Sequence[Criterion]) -> str:
    return f"The median ping takes {number(float(np.median(pings[1])), 'ms')}."


def _draw(pings: Pings) -> list[Series]:
    times, rtts = pings.tolist()
    return [Series.exact("ping", times, rtts, style="points")]


FIG2: CaseFigure[Pings] = CaseFigure(
    id="fig2",
    title="Pings over an idle modem",
    caption="Pings at random times; the modem sends four short messages a second of its own accord.",
    section="II-B",
    x_label="Time [s]",
    y_label="Round trip [ms]",
    always=1,
    run=lambda runner, *_: _pings(runner),
    draw=_draw,
    claims=[
        Claim(
            id="fast.fig2",
            tolerance="Within 15% or half a millisecond of the paper's two numbers, read off a plot.",
            measure=_extremes,
            reason=_reason,
        )
    ],
    notes=[
        "The look-ahead of the headend's MAPs, 10 ms, was chosen so that the base is 12 ms. The additional "
        "delay follows: a ping that comes just after the modem has asked for one of its own messages waits for "
        "that grant, and then a whole cycle for its own.",
        "How often the modem sends its own messages is not told; with fewer of them, fewer pings are late.",
    ],
)
