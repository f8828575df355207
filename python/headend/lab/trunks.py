"""`make live-trunk`: the thesis's TT1, and TT2's web users, between real trunks; the simulator beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headend
from headend.lab import measure
from headend.papers.claim import number
from headend.papers.decoupling import trunks
from headend.papers.model import Criterion
from headend.papers.runner import Settings, scenarios
from headend.results import Result

DURATION = "60s"
"""Of the 400 and 600 s of the thesis; rates, delays and buffers are its own."""
GOAL = 0.05
"""How far a share may lie from the thesis's."""
PACKET_KB = 1.5
"""A second may send so much less than is guaranteed: a packet that leaves in the next."""

WEB_GOALS = {"median": (50, 0.6), "95%": (95, 0.5)}
"""Percentiles of the time that 10 KB take, and how large each may be with trunks, over without."""

SAME: Settings = {
    "duration": DURATION,
    "circuits.*.personality": "linux",
    "circuits.*.tcp": {"controller": "reno"},
}
"""The control TCPs that `headend trunk` has, on both sides."""


@dataclass(frozen=True, slots=True)
class Case:
    """One of the experiments."""

    name: str
    settings: Settings
    measure: Callable[[Mapping[str, Result]], list[Criterion]]
    keys: tuple[str, ...]
    """The names under which the claim finds the result."""

    def criteria(self, result: Result) -> list[Criterion]:
        """The claim's numbers."""
        return [one for one in self.measure(dict.fromkeys(self.keys, result)) if one.judged]


def _case(name: str, settings: Settings, figure: Any, keys: tuple[str, ...]) -> Case:
    return Case(name, settings, figure.claims[0].measure, keys)


CASES = (
    _case("(a)", {}, trunks.TT1A, ("(a)",)),
    _case("(b)", {"circuits.trunk1.gmb": "1600kbit/s", "circuits.trunk2.gmb": "3200kbit/s"}, trunks.TT1B, ("(b)",)),
    _case("(c)", trunks.ALIKE, trunks.TT1C, ("(c)", "threshold 8")),
)


def run(binary: Path, accept_late: bool) -> list[str]:
    """Every case in the simulator and live, as the lines of a table."""
    lines = [
        "| TT1 | | thesis | simulator | live | the simulator's claim | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    missed, late = [], []
    path = scenarios("decoupling") / f"{trunks.SCENARIO}.toml"
    for case in CASES:
        settings = {**case.settings, **SAME}
        simulated = case.criteria(headend.run(path, set=settings))
        result = measure.run(path, set=settings, binary=binary, accept_late=accept_late)
        for sim, live in zip(simulated, case.criteria(result), strict=True):
            met = _meets(live)
            if not met:
                missed.append(f"{case.name} {live.what}")
            lines.append(
                f"| {case.name} | {live.what} | {live.published} | {number(sim.measured, sim.unit)} | "
                f"{number(live.measured, live.unit)} | {'holds' if live.holds else 'does not hold'} | "
                f"{'met' if met else '**missed**'} |"
            )
        if '"kept_up": false' in result.meta["lab"]:
            late.append(case.name)
    lines.append("")
    lines.append(
        f"{DURATION} each, one run. "
        + (f"**Missed**: {'; '.join(missed)}. " if missed else "All goals met. ")
        + (f"The machine did not keep up in {', '.join(late)}." if late else "The machine kept up.")
    )
    return lines


def web(scenarios_: Path, binary: Path, accept_late: bool) -> list[str]:
    """Web users of one site beside bulk of another, without trunks and with, in the simulator and live."""
    paths = {"without": scenarios_ / "web.toml", "with": scenarios_ / "web-trunks.toml"}
    simulated = {way: _took_ms(headend.run(path)) for way, path in paths.items()}
    results = {way: measure.run(path, binary=binary, accept_late=accept_late) for way, path in paths.items()}
    live = {way: _took_ms(result) for way, result in results.items()}
    lines = ["| 10 KB take [ms] | | without trunks | with | with over without | goal |", "|---|---|---|---|---|---|"]
    missed = []
    for where, took in (("simulator", simulated), ("live", live)):
        for name, (percentile, goal) in WEB_GOALS.items():
            before, after = (float(np.percentile(took[way], percentile)) for way in paths)
            met = after <= goal * before
            if not met:
                missed.append(f"{where}, {name}")
            lines.append(
                f"| {name} | {where} | {before:.0f} | {after:.0f} | {after / before:.2f} | "
                f"at most {goal:g}: {'met' if met else '**missed**'} |"
            )
    counts = " and ".join(f"{len(live[way])} {way}" for way in paths)
    late = [way for way, result in results.items() if '"kept_up": false' in result.meta["lab"]]
    lines += [
        "",
        f"One run each; live {counts} of 100 transfers were complete when it ended. "
        + (f"**Missed**: {'; '.join(missed)}. " if missed else "All goals met. ")
        + (f"The machine did not keep up {' and '.join(late)}." if late else "The machine kept up."),
    ]
    return lines


def _took_ms(result: Result) -> list[float]:
    """The time of each of the web's transfers."""
    table = result.table("flows")
    rows = zip(table["flow"], table["completed"], table["transfer_s"], strict=True)
    took = [1e3 * float(seconds) for flow, completed, seconds in rows if flow == "web" and completed]
    if not took:
        raise measure.LabError("no transfer of the web's was complete: nothing can be said of how long they take")
    return took


def _meets(criterion: Criterion) -> bool:
    """Whether a live number meets the goal: a share within 5%, a guarantee less a packet, or the claim's range."""
    if "least second" in criterion.what:
        return criterion.accept_lo is not None and criterion.measured >= criterion.accept_lo - PACKET_KB
    if criterion.unit == "KB/s":
        published = float(criterion.published.split()[0])
        return abs(criterion.measured - published) <= GOAL * published
    return criterion.holds
