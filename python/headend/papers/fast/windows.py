"""Windows at rest, and the round trips that go with them: Figures 5 to 8 and 11, and equation (5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headend.papers.claim import Claim, Range, about, criterion, exactly, more_than, number
from headend.papers.fast.throughput import ALPHA, CHOSEN, CLOCKS, FULL, NO_CHANCE, PACKET
from headend.papers.figure import Drawn, Figure
from headend.papers.model import Criterion, Series
from headend.papers.runner import Runner, load
from headend.papers.stats import Estimate
from headend.results import Result, Table

MSS = 1460
MBPS = 3.0
BASE_MS = 100.0 + PACKET * 8 / (MBPS * 1000) + 40 * 8 / 512
"""The round trip without a queue on the simple link: propagation, a packet down and an acknowledgement up."""
SETTLED_S = 30.0
"""Half of a run: by then every window rests."""
INTERVAL_S = 4.0
"""Of Figure 7."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What one run was like once it had settled; windows of all flows together, in packets."""

    alpha: int
    window: float
    window_min: float
    window_max: float
    rate_mbps: float
    """Payload acknowledged."""
    rtt_ms: float
    """Mean over the acknowledgements, each from when the last segment that it acknowledges was sent."""
    rtt_min_ms: float
    """The least of each interval, averaged."""
    base_ms: float
    """The least of the whole run."""

    @property
    def queued(self) -> float:
        """Packets of its own that wait, w (D - d) / D: FAST brings them to alpha."""
        return self.window * (1 - self.base_ms / self.rtt_ms)


def measure(result: Result, alpha: int) -> Rest:
    """The second half of a traced run."""
    trace = result.table("trace")
    flows = [_flow(trace, instance) for instance in np.unique(trace["instance"])]
    rtts = np.concatenate([flow.rtt_ms[flow.heard_s > SETTLED_S] for flow in flows])
    heard = np.concatenate([flow.heard_s[flow.heard_s > SETTLED_S] for flow in flows])
    slots = (heard // INTERVAL_S).astype(np.int64)
    # The last interval may be cut short.
    least = [rtts[slots == slot].min() for slot in np.unique(slots)[:-1]]
    return Rest(
        alpha=alpha,
        window=sum(flow.mean_window() for flow in flows),
        window_min=sum(float(flow.settled(flow.window).min()) for flow in flows),
        window_max=sum(float(flow.settled(flow.window).max()) for flow in flows),
        rate_mbps=sum(flow.rate_mbps() for flow in flows),
        rtt_ms=float(rtts.mean()),
        rtt_min_ms=float(np.mean(least)),
        base_ms=min(float(flow.rtt_ms.min()) for flow in flows),
    )


@dataclass(frozen=True, slots=True)
class _Flow:
    """A sender's trace: its window at each change, and when which byte was sent and acknowledged."""

    time_s: NDArray[np.float64]
    window: NDArray[np.float64]
    acked: NDArray[np.float64]
    heard_s: NDArray[np.float64]
    rtt_ms: NDArray[np.float64]

    def settled(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        return column[self.time_s > SETTLED_S]

    def mean_window(self) -> float:
        """Over time: a row holds until the next."""
        times, windows = self.settled(self.time_s), self.settled(self.window)
        return float(np.average(windows[:-1], weights=np.diff(times))) if np.ptp(times) > 0 else float(windows[0])

    def rate_mbps(self) -> float:
        times, acked = self.settled(self.time_s), self.settled(self.acked)
        return float((acked[-1] - acked[0]) * 8 / (times[-1] - times[0]) / 1e6)


def _flow(trace: Table, instance: int) -> _Flow:
    rows = trace["instance"] == instance
    time_s, una, nxt = (trace[name][rows].astype(np.float64) for name in ("time_s", "una_bytes", "nxt_bytes"))
    heard = np.flatnonzero(np.diff(una, prepend=una[0]) > 0)
    # Nothing is lost here, so what was sent last before `una` was sent when `nxt` first reached it.
    sent = np.searchsorted(np.maximum.accumulate(nxt), una[heard])
    rtt_ms = (time_s[heard] - time_s[sent]) * 1000
    return _Flow(time_s, trace["cwnd_bytes"][rows] / MSS, una, time_s[heard], rtt_ms)


RUNS_FULL = {"docsis": 4, "docsis_two": 4}
"""Runs for each alpha where something is random: the paper's 140 experiments for alpha from 1 to 35."""


def rests(runner: Runner, scenario: str) -> list[Rest]:
    """Runs for each alpha of the scenario's file, once for all figures."""

    def all_of_them() -> list[Rest]:
        alphas = load(runner.path(scenario))["sweep"][ALPHA.path]
        if runner.edition == "quick":
            alphas = [alpha for alpha in alphas if alpha <= 6 or alpha % 5 == 0]
        runs = 1 if runner.edition == "quick" else RUNS_FULL.get(scenario, 1)
        label = f"windows of {scenario}"
        return [
            measure(runner.traced(scenario, {ALPHA.path: a}, f"{label}, alpha {a}, run {run}", run), a)
            for a in alphas
            for run in range(runs)
        ]

    return runner.once(("fast", scenario), all_of_them)


@dataclass(frozen=True, slots=True)
class Rests:
    """Windows at rest on the simple link and over the modem."""

    link: Sequence[Rest]
    docsis: Sequence[Rest] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestFigure(Figure[Rests]):
    """What windows at rest go with, a point for each alpha."""

    x: Callable[[Rest], float]
    y: Callable[[Rest], float]
    lo: Callable[[Rest], float] | None = None
    hi: Callable[[Rest], float] | None = None
    theory: Callable[[Sequence[Rest]], list[Series]] = lambda _: []
    scenario: str = "simple"
    docsis: str | None = "docsis"
    """The scenario with the modem in the link's place, if it is shown."""
    notes: Sequence[str] = (NO_CHANCE, CLOCKS, CHOSEN)

    def runs(self, runner: Runner) -> int:
        """Those over the modem."""
        return RUNS_FULL.get(self.docsis or "", 1) if runner.edition == "full" else 1

    def data(self, runner: Runner) -> Rests:
        """Both, unless another figure has them."""
        return Rests(rests(runner, self.scenario), rests(runner, self.docsis) if self.docsis else ())

    def show(self, data: Rests) -> Drawn:
        """A point for each run, and what theory says of the simple link."""
        over_modem = [self._points("DOCSIS", data.docsis)] if self.docsis else []
        note = f"A point is the second half of a run of {2 * SETTLED_S:g} s."
        return Drawn([self._points("simple link", data.link), *over_modem, *self.theory(data.link)], notes=[note])

    def _points(self, label: str, found: Sequence[Rest]) -> Series:
        points = sorted(found, key=lambda rest: (self.x(rest), rest.alpha))
        lo, hi = self.lo or self.y, self.hi or self.y
        y = [Estimate(self.y(rest), lo(rest), hi(rest)) for rest in points]
        return Series.of(label, [self.x(rest) for rest in points], y, style="points")


def _dashed(label: str, x: Sequence[float], y: Sequence[float]) -> Series:
    return Series.exact(label, x, y, style="dashed")


def _windows(found: Sequence[Rest]) -> list[float]:
    return [float(w) for w in range(1, int(max(rest.window for rest in found)) + 1)]


def _capacity_mbps() -> float:
    return MBPS * MSS / PACKET


def _ideal_rate(found: Sequence[Rest]) -> list[Series]:
    windows = _windows(found)
    return [
        _dashed("window / d, or the link", windows, [min(w * MSS * 8e-3 / BASE_MS, _capacity_mbps()) for w in windows])
    ]


def _ideal_rtt(found: Sequence[Rest]) -> list[Series]:
    windows = _windows(found)
    return [_dashed("d, or window / capacity", windows, [max(BASE_MS, w * PACKET * 8e-3 / MBPS) for w in windows])]


def _full_from(found: Sequence[Rest]) -> float:
    """The smallest window at rest from which on the link is full."""
    ordered = sorted(found, key=lambda rest: rest.window)
    enough = FULL * max(rest.rate_mbps for rest in found)
    short = [index for index, rest in enumerate(ordered) if rest.rate_mbps < enough]
    return ordered[short[-1] + 1 if short else 0].window


def _bandwidth_delay(rests: Rests) -> list[Criterion]:
    found = rests.link
    return [
        criterion(
            "smallest window at rest that fills the link",
            "25",
            Estimate.exact(_full_from(found)),
            about(25, 1),
            unit="packets",
        )
    ]


def _bandwidth_delay_reason(rests: Rests, _: Sequence[Criterion]) -> str:
    found = rests.link
    product = BASE_MS * MBPS / PACKET / 8e-3
    windows = ", ".join(number(window) for window in sorted(rest.window for rest in found)[:5])
    return f"With d = {number(BASE_MS, 'ms')} the product is {number(product)} packets; windows rest at {windows}, ..."


PLATEAU = (20, 37)
"""Windows in which the paper sees the phantom delay, in packets."""
PLATEAU_MS = Range(140, 150)


def on_plateau(found: Sequence[Rest]) -> list[Rest]:
    """Those whose window is one of the paper's plateau. There is always one, or the claim cannot be measured."""
    inside = [rest for rest in found if PLATEAU[0] <= rest.window <= PLATEAU[1]]
    assert inside, "some window comes to rest between 20 and 37 packets"
    return inside


def _plateau(rests: Rests) -> list[Criterion]:
    found = rests.docsis
    rtts = [rest.rtt_ms for rest in on_plateau(found)]
    # What the paper reads off Figure 5: the round trip that throughput and window stand for.
    over = [rest.window * MSS * 8e-3 / rest.rate_mbps for rest in on_plateau(found)]
    base = min(rest.base_ms for rest in found)
    return [
        criterion("least mean round trip, windows 20 to 37", "145", Estimate.exact(min(rtts)), PLATEAU_MS, unit="ms"),
        criterion("largest", "145", Estimate.exact(max(rtts)), PLATEAU_MS, unit="ms"),
        criterion(
            "mean over those windows", "145", Estimate.exact(float(np.mean(rtts))), PLATEAU_MS, unit="ms", judged=False
        ),
        *(
            criterion(f"{which} window / throughput", "145", Estimate.exact(ms), PLATEAU_MS, unit="ms", judged=False)
            for which, ms in (("least", min(over)), ("largest", max(over)))
        ),
        criterion(
            "smallest window at rest that fills the link",
            "37",
            Estimate.exact(_full_from(found)),
            about(37, 1),
            unit="packets",
        ),
        criterion("base round trip", "115", Estimate.exact(base), about(115, 1), unit="ms"),
    ]


def _plateau_reason(rests: Rests, _: Sequence[Criterion]) -> str:
    found = rests.docsis
    points = sorted({(round(rest.window), round(rest.rtt_ms)) for rest in on_plateau(found)})
    rows = ", ".join(f"{window}: {rtt}" for window, rtt in points)
    return (
        f"Mean round trip [ms] by window: {rows}. Packets take 8 or 9 entries of the calendars, 128 or 144 ms. "
        "Of an odd window one packet waits to be acknowledged with the next, which parts the pairs of a batch."
    )


def _minimum(rests: Rests) -> list[Criterion]:
    found = rests.docsis
    base = min(rest.base_ms for rest in found)
    least = min(rest.rtt_min_ms for rest in on_plateau(found))
    return [
        criterion(
            "least minimum of any 4 s, windows 20 to 37, over the base",
            "> 1",
            Estimate.exact(least / base),
            more_than(1.0),
        )
    ]


def _minimum_reason(rests: Rests, _: Sequence[Criterion]) -> str:
    found = rests.docsis
    return f"The base is {number(min(rest.base_ms for rest in found), 'ms')}."


WINDOW = "Window [packets]"

ONE_FLOW = (
    RestFigure(
        id="fig5",
        title="Throughput against window",
        caption="One flow: what the window at rest yields.",
        section="IV-B",
        x_label=WINDOW,
        y_label="Throughput [Mbit/s]",
        x=lambda rest: rest.window,
        y=lambda rest: rest.rate_mbps,
        theory=_ideal_rate,
        claims=[
            Claim(
                id="fast.fig5_6.simple",
                tolerance="Within 15% of the paper's 25 packets, a product of bandwidth and delay without the time "
                f"that a packet and its acknowledgement take to send; full is {FULL:.0%} of the largest throughput.",
                measure=_bandwidth_delay,
                reason=_bandwidth_delay_reason,
            ),
            Claim(
                id="fast.fig5_6.docsis",
                tolerance="Every window at rest between 20 and 37 packets has a mean round trip within 5 ms of 145; "
                "the smallest that fills the link within 15% of 37 packets, the base of 115 ms.",
                measure=_plateau,
                reason=_plateau_reason,
            ),
        ],
    ),
    RestFigure(
        id="fig6",
        title="Mean round trip against window",
        caption="One flow: the round trip grows once the window exceeds the bandwidth-delay product.",
        section="IV-B",
        x_label=WINDOW,
        y_label="Mean round trip [ms]",
        x=lambda rest: rest.window,
        y=lambda rest: rest.rtt_ms,
        theory=_ideal_rtt,
    ),
    RestFigure(
        id="fig7",
        title="Minimum round trip against window",
        caption=f"One flow: the shortest round trip in each {INTERVAL_S:g} s, averaged.",
        section="IV-B",
        x_label=WINDOW,
        y_label="Minimum round trip [ms]",
        x=lambda rest: rest.window,
        y=lambda rest: rest.rtt_min_ms,
        theory=_ideal_rtt,
        claims=[
            Claim(
                id="fast.fig7",
                tolerance="Qualitative: over the plateau's windows not one interval's minimum comes down to the base.",
                measure=_minimum,
                reason=_minimum_reason,
            )
        ],
    ),
    RestFigure(
        id="fig8",
        title="Window against alpha",
        caption="One flow: the window at rest, with its smallest and largest value.",
        section="IV-B",
        x_label=ALPHA.label,
        y_label=WINDOW,
        x=lambda rest: rest.alpha,
        y=lambda rest: rest.window,
        lo=lambda rest: rest.window_min,
        hi=lambda rest: rest.window_max,
    ),
)

FIG11 = RestFigure(
    id="fig11",
    title="Throughput of two flows against their windows",
    caption="Two flows of the same alpha: throughput and window of both together.",
    section="V",
    x_label="Windows of both [packets]",
    y_label="Throughput [Mbit/s]",
    x=lambda rest: rest.window,
    y=lambda rest: rest.rate_mbps,
    theory=_ideal_rate,
    scenario="two",
    docsis="docsis_two",
    notes=[CHOSEN],
)


def _outside(found: Sequence[Rest]) -> list[Rest]:
    """Windows that equation (5) does not allow: alpha - 2 < w (D - d) / D <= alpha."""
    return [rest for rest in found if not rest.alpha - 2 < rest.queued <= rest.alpha]


def _equation(rests: Rests) -> list[Criterion]:
    found = rests.link
    return [criterion("windows at rest outside the bounds", "none", Estimate.exact(len(_outside(found))), exactly(0))]


def _equation_reason(rests: Rests, _: Sequence[Criterion]) -> str:
    found = rests.link
    rows = ", ".join(f"alpha {rest.alpha}: {number(rest.queued)}" for rest in _outside(found))
    return f"w (D - d) / D with the mean round trip of a whole run for D: {rows}."


def _bounds(found: Sequence[Rest]) -> list[Series]:
    alphas = [float(rest.alpha) for rest in sorted(found, key=lambda rest: rest.alpha)]
    return [_dashed("alpha", alphas, alphas), _dashed("alpha - 2", alphas, [max(0.0, a - 2) for a in alphas])]


EQUATION = RestFigure(
    id="eq5",
    title="What the floor in the window law costs",
    caption="Own packets in the queue, w (D - d) / D, at rest: equation (4) says alpha, equation (5) up to two less.",
    section="IV-A",
    x_label=ALPHA.label,
    y_label="w (D - d) / D [packets]",
    x=lambda rest: rest.alpha,
    y=lambda rest: rest.queued,
    theory=_bounds,
    docsis=None,
    notes=[NO_CHANCE],
    claims=[
        Claim(
            id="fast.eq5",
            tolerance="Exact: not one window at rest outside alpha - 2 < w (D - d) / D <= alpha.",
            measure=_equation,
            reason=_equation_reason,
        )
    ],
)
