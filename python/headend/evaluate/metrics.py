"""The metrics of an evaluation: what each is, where it comes from, and how it is taken from a case's runs.

Each yields a value for every run; NaN means that what it measures did not happen in that run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headend.evaluate.cases import PACKET_BYTES, PAYLOAD, Setup
from headend.results import Result

Floats = NDArray[np.float64]

DELTA = 0.2
"""Of delta-fairness: the newcomer has (1 - DELTA) / 2 of the line at least."""
WINDOW_S = 2.0
"""Over which a rate is averaged to say that it has been reached."""
REACHED = 0.9
"""The part of a rate that counts as having reached it."""
STARVED = 0.1
"""The part of a fair share below which a flow starves."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's name, unit and definition."""

    name: str
    what: str
    """For a table's heading."""
    unit: str
    digits: int
    definition: str
    source: str
    of: Callable[[Outcome], Floats]
    needs_own_kind: bool = False
    """It compares with the same case in which the subject is of the other flow's own kind."""


@dataclass
class Outcome:
    """What came of a point: the results of its runs."""

    setup: Setup
    result: Result
    own_kind: Outcome | None = None
    """The same with another of the rival's own kind in the subject's place."""

    @cached_property
    def runs(self) -> int:
        """How many runs there are."""
        return len(np.unique(self.result.links["run"]))

    def goodput(self, flow: str) -> Floats:
        """Goodput of all instances of a flow together, in Mbit/s."""
        rows = self.result.flows.where(flow=flow)
        return np.asarray(rows.by_run(rows["goodput_bps"]) / 1e6)

    def of_flows(self, flow: str, column: str) -> Floats:
        """The sum over a flow's instances, for each run."""
        rows = self.result.flows.where(flow=flow)
        return rows.by_run(rows[column])

    def quantile(self, flow: str, column: str, q: float) -> Floats:
        """A quantile of a flow's rows in each run, without those that have no value."""
        rows = self.result.flows.where(flow=flow)
        values, run = rows[column], rows["run"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.array([np.nanquantile(values[run == i], q) for i in range(self.runs)])

    def spans(self, kind: str, name: str, part: str, column: str = "bytes") -> Floats:
        """What was seen in each interval, a row for each run."""
        rows = self.result.table("intervals").where(kind=kind, name=name, part=part)
        return np.asarray(rows[column], dtype=np.float64).reshape(self.runs, -1)

    def rate(self, flow: str) -> Floats:
        """Mbit/s that arrived at a flow's receivers in each interval: runs, instances, intervals."""
        count = int(self.setup.flows[flow].get("count", 1))
        each = [self.spans("flow", flow, str(instance)) for instance in range(count)]
        return np.asarray(np.stack(each, axis=1) * 8 / self.setup.interval_ms / 1e3)

    @property
    def ends(self) -> Floats:
        """When the intervals end."""
        count = round(self.setup.seconds * 1e3 / self.setup.interval_ms)
        return np.arange(1, count + 1, dtype=np.float64) * self.setup.interval_ms / 1e3

    def steady(self, series: Floats, begin_s: float | None = None, end_s: float | None = None) -> Floats:
        """The intervals from the end of the warm-up on."""
        ends = self.ends[: series.shape[-1]]
        begin = self.setup.warm_s if begin_s is None else begin_s
        return series[..., (ends > begin) & (ends <= (end_s or self.setup.seconds))]

    def queue_bytes(self) -> Floats:
        """Bytes that wait before the line, at the end of each interval."""
        return self.spans("link", "line", "near->far", "queue_bytes")

    def queue_ms(self, q: float, begin_s: float | None = None, end_s: float | None = None, rate: float = 0.0) -> Floats:
        """A quantile over time of the time that the queue takes to drain, after the warm-up."""
        waiting = self.steady(self.queue_bytes(), begin_s, end_s)
        return np.asarray(np.quantile(waiting * 8 / (rate or self.setup.rate_mbit) / 1e3, q, axis=-1))

    def line(self, column: str) -> Floats:
        """A column of the line, from near to far."""
        return self.result.links.where(link="line", direction="near->far")[column].astype(np.float64)

    def reached(self, series: Floats, level: float, begin_s: float) -> Floats:
        """How long after `begin_s` the first WINDOW_S begin whose mean of `series` is `level`; NaN if none do."""
        step = self.setup.interval_ms / 1e3
        width, first = round(WINDOW_S / step), round(begin_s / step)
        found = np.full(len(series), np.nan)
        for run, values in enumerate(series):
            means = np.convolve(values[first:], np.ones(width) / width, mode="valid")
            there = np.flatnonzero(means >= level)
            if there.size:
                found[run] = there[0] * step
        return found


METRICS: dict[str, Metric] = {}


def _metric(
    name: str, what: str, unit: str, digits: int, definition: str, source: str, *, own_kind: bool = False
) -> Callable[[Callable[[Outcome], Floats]], Callable[[Outcome], Floats]]:
    def declare(of: Callable[[Outcome], Floats]) -> Callable[[Outcome], Floats]:
        METRICS[name] = Metric(name, what, unit, digits, definition, source, of, own_kind)
        return of

    return declare


THROUGHPUT, DELAY, LOSSES = "RFC 5166 s2.1.1", "RFC 5166 s2.1.2", "RFC 5166 s2.1.3"


@_metric(
    "used",
    "used",
    "%",
    1,
    "Goodput of all of the subject's flows, from each one's start to the end of the run, over the payload that the "
    "line can carry (1448 of 1500 bytes), less what the medium loses.",
    THROUGHPUT,
)
def _used(outcome: Outcome) -> Floats:
    laws = [name for name in outcome.setup.flows if not outcome.setup.flows[name].get("reverse")]
    total = np.sum([outcome.goodput(name) for name in laws], axis=0)
    return np.asarray(100 * total / (outcome.setup.rate_mbit * PAYLOAD * (1 - outcome.setup.loss_mean)))


@_metric("used_back", "used, way back", "%", 1, "The same of the flow in the other direction.", THROUGHPUT)
def _used_back(outcome: Outcome) -> Floats:
    return 100 * outcome.goodput("other") / (float(outcome.setup.line["back_mbit"]) * PAYLOAD)


@_metric(
    "own_mbit", "its goodput", "Mbit/s", 2, "Goodput of the subject's flows together, from start to end.", THROUGHPUT
)
def _own_mbit(outcome: Outcome) -> Floats:
    return outcome.goodput("own")


@_metric("other_mbit", "other's goodput", "Mbit/s", 2, "Goodput of the other flows together.", THROUGHPUT)
def _other_mbit(outcome: Outcome) -> Floats:
    return outcome.goodput("other")


_QUEUE = (
    "quantile over time, after the warm-up, of the bytes that wait before the line, looked at in every interval, over "
    "the line's rate: what a packet that came then would wait"
)


def _queue_metric(name: str, q: float) -> None:
    definition = f"The {100 * q:g}% {_QUEUE}."
    _metric(name, f"queue p{100 * q:.0f}", "ms", 2, definition, DELAY)(lambda outcome: outcome.queue_ms(q))


_queue_metric("queue_p50", 0.5)
_queue_metric("queue_p95", 0.95)
_queue_metric("queue_p99", 0.99)


@_metric(
    "queue_added",
    "queue p95 it adds",
    "ms",
    2,
    "queue p95 less that with another of the other's own kind in the subject's place.",
    "RFC 9743 s5.2; Ware and others, HotNets 2019 (harm by delay)",
    own_kind=True,
)
def _queue_added(outcome: Outcome) -> Floats:
    return outcome.queue_ms(0.95) - _own_kind(outcome).queue_ms(0.95)


@_metric(
    "queue_ms_p95_bytes",
    "queue p95",
    "kB",
    1,
    "The 95% quantile over time of the bytes that wait before the line: where the rate changes, they are no time.",
    DELAY,
)
def _queue_bytes(outcome: Outcome) -> Floats:
    return np.quantile(outcome.steady(outcome.queue_bytes()), 0.95, axis=-1) / 1e3


@_metric(
    "queue_fallen_p95",
    "queue p95 while slow",
    "ms",
    1,
    "The 95% quantile of the queue over time, at the fallen rate, from five seconds after the fall to the rise.",
    DELAY,
)
def _queue_fallen(outcome: Outcome) -> Floats:
    (fall, rate), (rise, _) = outcome.setup.line["rate_steps"]
    return outcome.queue_ms(0.95, fall + 5, rise, rate)


@_metric(
    "rtt_p95",
    "round trip p95",
    "ms",
    1,
    "The 95% quantile of the round trips that the subject's sender measured.",
    DELAY,
)
def _rtt(outcome: Outcome) -> Floats:
    return outcome.quantile("own", "rtt_p95_s", 0.5) * 1e3


@_metric(
    "dropped",
    "dropped",
    "%",
    3,
    "Packets that the line's queue dropped, of those that came to it, in the whole run, its beginning included.",
    LOSSES,
)
def _dropped(outcome: Outcome) -> Floats:
    return 100 * outcome.line("dropped") / np.maximum(outcome.line("arrived"), 1)


@_metric("retransmitted", "sent again", "%", 2, "Segments with data that were sent again, of all sent.", LOSSES)
def _retransmitted(outcome: Outcome) -> Floats:
    return _again(outcome, "own")


@_metric(
    "other_lost", "other sent again", "%", 3, "Segments that the other flows sent again, of all they sent.", LOSSES
)
def _other_lost(outcome: Outcome) -> Floats:
    return _again(outcome, "other")


def _again(outcome: Outcome, flow: str) -> Floats:
    return 100 * outcome.of_flows(flow, "retransmits") / np.maximum(outcome.of_flows(flow, "segments_sent"), 1)


@_metric(
    "spurious",
    "sent for nothing",
    "%",
    2,
    "Segments that were sent again though every byte of them had arrived, of all sent.",
    "RFC 4653 s1, on what reordering costs",
)
def _spurious(outcome: Outcome) -> Floats:
    return 100 * outcome.of_flows("own", "spurious") / np.maximum(outcome.of_flows("own", "segments_sent"), 1)


@_metric("timeouts", "time-outs", "", 1, "Retransmission time-outs of the subject's senders.", "RFC 6298")
def _timeouts(outcome: Outcome) -> Floats:
    return outcome.of_flows("own", "timeouts")


@_metric(
    "sent_per_rtt",
    "sent a round trip",
    "packets",
    2,
    "What the subject's host sent after the warm-up, in packets of 1500 bytes, for each round trip without load.",
    "RFC 9743 s5.1.1",
)
def _sent_per_rtt(outcome: Outcome) -> Floats:
    sent = outcome.steady(outcome.spans("link", "own-from", "own-from->near"))
    trips = (outcome.setup.seconds - outcome.setup.warm_s) / outcome.setup.rtt_s
    return np.asarray(sent.sum(axis=-1) / PACKET_BYTES / trips)


@_metric(
    "blind_packets",
    "sent blindly",
    "packets",
    1,
    "Packets of 1500 bytes that the subject's host sent from a second after the last feedback could come, to the end.",
    "RFC 9743 s5.1.1, s5.2",
)
def _blind(outcome: Outcome) -> Floats:
    return np.asarray(_blindly(outcome).sum(axis=-1) / PACKET_BYTES)


@_metric(
    "blind_growth",
    "pause grows by",
    "times",
    2,
    "The median of the ratios of each pause between two such packets to the one before; 2 is the doubling of RFC 6298.",
    "RFC 6298 s5.5",
)
def _blind_growth(outcome: Outcome) -> Floats:
    found = np.full(outcome.runs, np.nan)
    for run, sent in enumerate(_blindly(outcome)):
        pauses = np.diff(np.flatnonzero(sent))
        if len(pauses) >= 2:
            found[run] = np.median(pauses[1:] / pauses[:-1])
    return found


def _blindly(outcome: Outcome) -> Floats:
    begin = outcome.setup.line["loss_from_s"] + 1
    return outcome.steady(outcome.spans("link", "own-from", "own-from->near"), begin)


@_metric(
    "jain",
    "Jain's index",
    "",
    3,
    "(sum of the rates)^2 over the number of flows times the sum of their squares; rates at the receivers after the "
    "warm-up.",
    "RFC 5166 s2.3.1; Jain, Chiu and Hawe 1984",
)
def _jain(outcome: Outcome) -> Floats:
    rates = outcome.steady(outcome.rate("own")).mean(axis=-1)
    return np.asarray(rates.sum(axis=1) ** 2 / (rates.shape[1] * (rates**2).sum(axis=1)))


@_metric(
    "least", "the least has", "%", 1, "The rate of the slowest flow after the warm-up, of the mean.", "RFC 9743 s5.1.4"
)
def _least(outcome: Outcome) -> Floats:
    rates = outcome.steady(outcome.rate("own")).mean(axis=-1)
    return np.asarray(100 * rates.min(axis=1) / rates.mean(axis=1))


@_metric(
    "other_over_own",
    "far over near",
    "",
    3,
    "The rate of the flow with the longer round trip over that of the other, after the warm-up.",
    "RFC 5166 s2.3.1",
)
def _far_over_near(outcome: Outcome) -> Floats:
    far, near = (outcome.steady(outcome.rate(flow)).mean(axis=(1, 2)) for flow in ("other", "own"))
    return np.asarray(far / near)


@_metric(
    "delta_fair",
    "fair after",
    "s",
    1,
    f"The time from the newcomer's start until it has {(1 - DELTA) / 2:g} to {(1 + DELTA) / 2:g} of what both receive, "
    f"over {WINDOW_S:g} s (delta-fair convergence with delta = {DELTA:g}).",
    "RFC 5166 s2.3.1; Bansal and others 2001",
)
def _delta_fair(outcome: Outcome) -> Floats:
    first, second = outcome.rate("own").sum(axis=1), outcome.rate("other").sum(axis=1)
    width = round(WINDOW_S * 1e3 / outcome.setup.interval_ms)
    mean = np.ones(width) / width
    both = np.array([np.convolve(row, mean, mode="full")[: len(row)] for row in first + second])
    share = np.array([np.convolve(row, mean, mode="full")[: len(row)] for row in second]) / np.maximum(both, 1e-9)
    start = float(outcome.setup.flows["other"]["start_s"])
    found = np.full(outcome.runs, np.nan)
    for run, row in enumerate(share):
        begun = outcome.ends[: len(row)] >= start + WINDOW_S
        there = np.flatnonzero(begun & (np.abs(row - 0.5) <= DELTA / 2))
        if there.size:
            found[run] = outcome.ends[there[0]] - start
    return found


@_metric(
    "start_90",
    "90% after",
    "s",
    1,
    f"The time from the run's beginning until {100 * REACHED:g}% of the line's rate arrive over {WINDOW_S:g} s.",
    "RFC 5166 s2.2.1",
)
def _start(outcome: Outcome) -> Floats:
    level = REACHED * outcome.setup.rate_mbit * (1 - outcome.setup.loss_mean)
    return outcome.reached(outcome.rate("own").sum(axis=1), level, 0.0)


@_metric(
    "recovery",
    "90% again after",
    "s",
    1,
    f"The time from the event's end until {100 * REACHED:g}% of the line's rate arrive over {WINDOW_S:g} s.",
    "RFC 5166 s2.2.1",
)
def _recovery(outcome: Outcome) -> Floats:
    level = REACHED * outcome.setup.rate_mbit
    return outcome.reached(outcome.rate("own").sum(axis=1), level, float(outcome.setup.line["event_s"]))


@_metric(
    "received_meanwhile",
    "received meanwhile",
    "%",
    1,
    "What the subject's receivers get from the event's begin to its end, headers included, of what the line carries.",
    "RFC 5166 s2.2.1",
)
def _meanwhile(outcome: Outcome) -> Floats:
    return _received(outcome, outcome.setup.line["event_s"], outcome.setup.line["event_end_s"])


@_metric("received_after", "received after", "%", 1, "The same from the event's end to the run's.", "RFC 5166 s2.2.1")
def _after(outcome: Outcome) -> Floats:
    return _received(outcome, outcome.setup.line["event_end_s"], None)


def _received(outcome: Outcome, begin_s: float, end_s: float | None) -> Floats:
    rates = outcome.steady(outcome.rate("own").sum(axis=1), begin_s, end_s)
    return np.asarray(100 * rates.mean(axis=-1) / outcome.setup.rate_mbit)


def _transfer_metric(name: str, flow: str, q: float, whose: str) -> None:
    definition = f"The {100 * q:g}% quantile of the times of {whose}, hand-shake included, of those that ended."
    _metric(name, f"short flow p{100 * q:.0f}", "ms", 1, definition, f"{DELAY}, s2.8")(
        lambda outcome: outcome.quantile(flow, "transfer_s", q) * 1e3
    )


_transfer_metric("transfer_p50", "own", 0.5, "the subject's transfers")
_transfer_metric("transfer_p95", "own", 0.95, "the subject's transfers")
_transfer_metric("short_p50", "short", 0.5, "the short transfers")
_transfer_metric("short_p95", "short", 0.95, "the short transfers")


@_metric(
    "other_share",
    "others' share",
    "%",
    1,
    "What the other flows receive after the warm-up, of what all receive; as many of each kind would have their part.",
    "RFC 9743 s5.2.1",
)
def _other_share(outcome: Outcome) -> Floats:
    own, other = (outcome.steady(outcome.rate(flow)).mean(axis=-1).sum(axis=1) for flow in ("own", "other"))
    return np.asarray(100 * other / np.maximum(own + other, 1e-9))


@_metric(
    "other_kept",
    "others keep",
    "%",
    1,
    "The rate of the other flows after the warm-up, over their equal part of what all have with flows of their own "
    "kind in the subject's place. 100 less this is the harm; the interval is that of the first rate.",
    "Ware and others, HotNets 2019 (harm by throughput); RFC 9743 s5.2",
    own_kind=True,
)
def _other_kept(outcome: Outcome) -> Floats:
    alike = _own_kind(outcome)
    rates = {flow: alike.steady(alike.rate(flow)).mean(axis=-1) for flow in ("own", "other")}
    flows = sum(rate.shape[1] for rate in rates.values())
    part = sum(float(rate.sum(axis=1).mean()) for rate in rates.values()) * rates["other"].shape[1] / flows
    return np.asarray(100 * outcome.steady(outcome.rate("other")).mean(axis=-1).sum(axis=1) / part)


@_metric(
    "other_starved",
    "others starve",
    "%",
    1,
    f"Of the seconds after the warm-up those in which a flow of the others, in the mean, has less than "
    f"{100 * STARVED:g}% of an equal share of the line.",
    "RFC 9743 s5.2",
)
def _starved(outcome: Outcome) -> Floats:
    flows = sum(int(flow.get("count", 1)) for flow in outcome.setup.flows.values())
    rates = outcome.steady(outcome.rate("other"))
    width = round(1e3 / outcome.setup.interval_ms)
    seconds = rates[..., : rates.shape[-1] // width * width].reshape(*rates.shape[:2], -1, width).mean(axis=-1)
    return np.asarray(100 * (seconds < STARVED * outcome.setup.rate_mbit / flows).mean(axis=(1, 2)))


@_metric(
    "frames_on_time", "frames on time", "%", 2, "Frames that are whole by the deadline, of all made.", "RFC 5166 s2.8"
)
def _frames(outcome: Outcome) -> Floats:
    media = outcome.result.table("media")
    return np.asarray(100 * media["on_time"] / media["frames"])


@_metric("frame_p95", "frame p95", "ms", 1, "The 95% quantile of the time that a whole frame takes.", DELAY)
def _frame(outcome: Outcome) -> Floats:
    return np.asarray(outcome.result.table("media")["delay_p95_s"] * 1e3)


def _own_kind(outcome: Outcome) -> Outcome:
    assert outcome.own_kind is not None, "the metric says that it needs it"
    return outcome.own_kind
