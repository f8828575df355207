"""The goals that the law was built for, each with the cells that it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headend.backfill.cells import Cell, Outcome
from headend.papers import stats
from headend.papers.stats import Estimate

RTTS_MS = (20.0, 120.0)
"""The round trips of the goals."""
LOSSES = (1.0, 5.0, 10.0)
DETOUR_S = 40.0


@dataclass(frozen=True, slots=True)
class Row:
    """A cell of the table: what was asked, and what came."""

    what: str
    cell: str
    goal: str
    found: Estimate
    is_met: bool


@dataclass(frozen=True, slots=True)
class Bench:
    """What all cells have in common."""

    law: str
    without: str
    seed: int
    runs: int
    seconds: float
    binary: Path | None = None
    """The headend command that runs the cells between real hosts, in place of the simulator."""
    is_short: bool = False
    """Of each goal but the shares beside one CUBIC only the cells of one queue."""
    late: list[int] = field(default_factory=list)
    """Of each cell that ran between real hosts, the runs in which the machine did not keep up with the links."""

    def run(self, cell: Cell, runs: int | None = None) -> Outcome:
        """A cell with this law, in runs of its own if it takes fewer."""
        if cell.law == "backfill":
            cell = cell.but(law=self.law, without=self.without)
        outcome = cell.run(self.seed, min(self.runs, runs or self.runs), self.binary)
        self.late.append(outcome.late)
        return outcome

    def queues(self, *bdps: float) -> tuple[float, ...]:
        """The lengths of queue that a goal is judged with."""
        return (1.0,) if self.is_short else bdps


def _place(rtt: float, bdp: float) -> str:
    return f"{rtt:g} ms, {bdp:g} BDP"


def _row(what: str, cell: str, values: NDArray[np.float64], low: float, high: float, goal: str) -> Row:
    found = stats.mean(values)
    return Row(what, cell, goal, found, bool(low <= found.value <= high))


def goodput(bench: Bench) -> Iterator[Row]:
    """Alone on a damaged line: goodput, and the queue that it makes."""
    for rtt in RTTS_MS:
        for loss, least in zip(LOSSES, (0.97, 0.95, 0.90), strict=True):
            for bdp in bench.queues(0.5, 1.0, 4.0):
                cell = Cell(rtt_ms=rtt, bdp=bdp, loss=loss, seconds=bench.seconds)
                outcome = bench.run(cell, 5)
                place = f"{_place(rtt, bdp)}, {loss:g}%"
                yield _row("goodput alone, of what loss leaves", place, outcome.used, least, 9, f"≥ {least:.2f}")
                # Three packets of 1500 bytes take 1.44 ms at 25 Mbit/s, so that 5 ms is the wider bound.
                yield _row("queue that it makes alone [ms]", place, outcome.queue_ms, 0, 5, "≤ 5")


def beside_one(bench: Bench) -> Iterator[Row]:
    """Beside one CUBIC, without damage."""
    for rtt in RTTS_MS:
        for bdp in (0.1, 0.25, 0.5, 1.0, 2.0):
            cell = Cell(rtt_ms=rtt, bdp=bdp, rivals=(("cubic", 1),), seconds=bench.seconds)
            low, high, goal = (0.0, 0.65, "≤ 0.65") if bdp == 0.1 else (0.45, 0.55, "0.45 to 0.55")
            yield _row("share beside one CUBIC", _place(rtt, bdp), bench.run(cell).share, low, high, goal)


def beside_four(bench: Bench) -> Iterator[Row]:
    """Beside four CUBICs, without damage."""
    for rtt in RTTS_MS:
        for bdp in bench.queues(0.5, 1.0, 2.0):
            cell = Cell(rtt_ms=rtt, bdp=bdp, rivals=(("cubic", 4),), seconds=bench.seconds)
            share = bench.run(cell, 10).share
            yield _row("share beside four CUBICs", _place(rtt, bdp), share, 0.16, 0.22, "0.16 to 0.22")


def harm(bench: Bench) -> Iterator[Row]:
    """What it takes from a CUBIC on a damaged line, where Reno takes next to nothing."""
    for rtt in RTTS_MS:
        for bdp in bench.queues(0.5, 1.0, 2.0):
            cell = Cell(rtt_ms=rtt, bdp=bdp, loss=2.0, rivals=(("cubic", 1),), seconds=bench.seconds)
            beside, reno = bench.run(cell, 10).rivals, bench.run(cell.but(law="reno"), 10).rivals
            what = "CUBIC's rate at 2% loss, of that beside a Reno"
            yield _row(what, _place(rtt, bdp), beside / reno.mean(), 0.90, 99, "≥ 0.90")


def jain(bench: Bench) -> Iterator[Row]:
    """Five of its own, with and without damage, and five CUBICs in their place."""
    for rtt in RTTS_MS:
        for bdp, loss in (*((bdp, 0.0) for bdp in bench.queues(0.5, 1.0, 2.0)), (1.0, 2.0)):
            cell = Cell(rtt_ms=rtt, bdp=bdp, loss=loss, flows=5, seconds=bench.seconds)
            found, cubic = bench.run(cell, 10).jain, float(bench.run(cell.but(law="cubic"), 10).jain.mean())
            least = min(0.95, cubic)
            place = f"{_place(rtt, bdp)}, {loss:g}%"
            yield _row("Jain's index of five", place, found, least, 1, f"≥ {least:.3f} (CUBIC {cubic:.3f})")


def detour(bench: Bench) -> Iterator[Row]:
    """A route that gets longer by 60 ms on a damaged line: the time until two seconds have 90% of the rate."""
    for rtt in RTTS_MS:
        for loss in (1.0, 10.0):
            link = {"detour": "60ms", "detour_start": f"{DETOUR_S:g}s"}
            cell = Cell(rtt_ms=rtt, loss=loss, link=link, interval=True, seconds=DETOUR_S + 40)
            times = np.array([recovery_s(run) for run in bench.run(cell, 10).series()])
            yield _row("time to 90% after a detour of 60 ms [s]", f"{rtt:g} ms, {loss:g}%", times, 0, 10, "≤ 10")


def recovery_s(series: NDArray[np.float64]) -> float:
    """The time after the detour's begin at which the last two seconds had 90%; 40 if they never did."""
    begin = int(DETOUR_S * 2)
    # What was under way then arrives at the old rate: a first dip must have been seen.
    dipped = False
    for end in range(begin + 4, len(series) + 1):
        is_there = series[end - 4 : end].mean() >= 0.9
        dipped |= not is_there
        if dipped and is_there:
            return (end - begin) / 2
    return 40.0 if dipped else 0.0


GOALS: Sequence[Callable[[Bench], Iterator[Row]]] = (goodput, beside_one, beside_four, harm, jain, detour)
