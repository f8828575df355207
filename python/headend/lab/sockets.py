"""`make live-socket`: the thesis's RS1 and RS2 through real sockets, the kernel's Reno and the simulator beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import headend
from headend.lab import measure
from headend.papers import stats
from headend.papers.claim import Range, at_most, criterion, more_than, number
from headend.papers.decoupling.equations import packet_error_rate
from headend.papers.decoupling.sockets import (
    BERS,
    PACKET,
    RS2_BER,
    RS2_RTT_MS,
    SCENARIO,
    bits,
    hosts,
    kbytes,
    link_bound,
    round_trip,
    through,
)
from headend.papers.model import Criterion
from headend.papers.runner import Settings, scenarios
from headend.results import Result

DURATION = "40s"
"""Of the 400 s of the thesis; the network is its own."""
OVER_RENO = 2.0
"""The sockets' goodput is to be more than so many times that of the kernel's Reno: RS1's claim at 1e-5."""
OF_SIMULATOR = Range(0.9, 1.1)
"""The sockets' goodput, over that of the simulator's."""

RENO, SOCKETS = "Reno", "sockets"
WAYS: Mapping[str, Settings] = {
    SOCKETS: {**hosts("linux"), **through({"personality": "linux", "tcp": {"controller": "backfill"}})},
    RENO: hosts("linux", controller="reno"),
}
"""Backfill is the controller of `headend_socket`, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Case:
    """One point of a suite."""

    name: str
    settings: Settings
    ber: float


CASES = (
    Case(f"RS1, bit error rate {BERS[-1]:g}", {**bits(BERS[-1]), **round_trip(10)}, BERS[-1]),
    Case(f"RS2, round trip {RS2_RTT_MS:g} ms", {**bits(RS2_BER), **round_trip(RS2_RTT_MS)}, RS2_BER),
)


def criteria(case: Case, side: Mapping[str, Result], simulated: Mapping[str, Result] | None) -> list[Criterion]:
    """The numbers of one side, beside those of the simulator if it is not itself."""
    sockets, reno = kbytes(side[SOCKETS]), kbytes(side[RENO])
    bound = link_bound(packet_error_rate(case.ber, PACKET))
    found = [
        criterion("over Reno", f"> {OVER_RENO:g}", stats.ratio_of_means(sockets, reno), more_than(OVER_RENO)),
        criterion("of the bound", "< 1", stats.mean(sockets / bound), at_most(1)),
    ]
    if simulated is not None:
        ratio = stats.ratio_of_means(sockets, kbytes(simulated[SOCKETS]))
        found.append(criterion("over the simulator's", "0.9 to 1.1", ratio, OF_SIMULATOR))
    return found


def run(binary: Path, accept_late: bool, runs: int) -> list[str]:
    """Both points in the simulator and live, as the lines of a table."""
    lines = [
        "| | | sockets [KB/s] | Reno [KB/s] | sockets over Reno | of the bound | over the simulator's |",
        "|---|---|---|---|---|---|---|",
    ]
    missed, late = [], []
    path = scenarios("decoupling") / f"{SCENARIO}.toml"
    for case in CASES:
        asked = {way: {"duration": DURATION, **case.settings, **settings} for way, settings in WAYS.items()}
        simulated = {way: headend.run(path, set=settings, runs=runs) for way, settings in asked.items()}
        live = {
            way: measure.run(path, set=settings, runs=runs, binary=binary, accept_late=accept_late)
            for way, settings in asked.items()
        }
        for name, side, judged in (
            ("simulator", simulated, criteria(case, simulated, None)),
            ("live", live, criteria(case, live, simulated)),
        ):
            missed += [f"{case.name}, {name}, {one.what}" for one in judged if not one.holds]
            cells = [f"{number(one.measured)}{'' if one.holds else ' **missed**'}" for one in judged]
            cells += [""] * (3 - len(cells))
            goodput = [number(float(kbytes(side[way]).mean())) for way in WAYS]
            lines.append(f"| {case.name} | {name} | {' | '.join([*goodput, *cells])} |")
        late += [f"{case.name}, {way}" for way, result in live.items() if '"kept_up": false' in result.meta["lab"]]
    count = "one run" if runs == 1 else f"{runs} runs"
    lines += [
        "",
        f"{DURATION} each, {count}; both connections together. Goals: more than {OVER_RENO:g} times Reno, no more than "
        f"the bound (the link less the packets that it damages), {OF_SIMULATOR.lo:g} to {OF_SIMULATOR.hi:g} of the "
        "simulator's. "
        + (f"**Missed**: {'; '.join(missed)}. " if missed else "All goals met. ")
        + (f"The machine did not keep up in {'; '.join(late)}." if late else "The machine kept up."),
    ]
    return lines
