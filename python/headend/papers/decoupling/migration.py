"""Sections 3.8.2 and 3.8.4, while not all have trunks: public trunks, and TCPs among trunks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion, less_than, more_than, number
from headend.papers.decoupling import friendly
from headend.papers.decoupling.protection import (
    Results,
    Scenario,
)
from headend.papers.figure import CaseFigure
from headend.papers.model import Criterion, Series, Style
from headend.papers.runner import Runner, load, scenarios
from headend.papers.stats import Estimate
from headend.results import Result


def curve(label: str, points: Mapping[int, Estimate], style: Style = "line") -> Series:
    """Estimates by abscissa."""
    x = sorted(points)
    return Series.of(label, [float(at) for at in x], [points[at] for at in x], style=style)


# ---- 3.8.2

SITES = ("site1", "site2", "site3")
SLIGHTLY = 1200
"""VMSS of public trunks that leave a site slightly less than its fair share [B]; its own trunk has 1500."""
PUBLIC_VMSS = (900, 1050, SLIGHTLY, 1350, 1500)
NO_TRUNKS, ALONE = "no trunks", "one trunk"
FAIR = Range(0.85, 1.15)


def public_scenario(case: str) -> Scenario:
    """The three sites without trunks, with the first site's, or with public trunks of this VMSS as well."""
    network = copy.deepcopy(dict(load(scenarios("decoupling") / "public.toml")))
    circuits = network["circuits"]
    if case == NO_TRUNKS:
        network["circuits"] = {}
    elif case == ALONE:
        network["circuits"] = {"own": circuits["own"]}
    else:
        for name in ("public2", "public3"):
            circuits[name]["vmss"] = f"{case}B"
    return network


def over_fair(result: Result, site: str) -> NDArray[np.float64]:
    """What a site gets, of a third of what all three get, in each run."""
    own = result.flows.where(flow=site)
    total = result.flows.by_run(result.flows["throughput_bps"])
    return np.asarray(own.by_run(own["throughput_bps"]) / (total / len(SITES)))


def _run_public(runner: Runner, label: str, runs: int) -> Results:
    cases = (NO_TRUNKS, ALONE, *map(str, PUBLIC_VMSS))
    return {case: runner.tables(public_scenario(case), {}, f"{label}: {case}", runs) for case in cases}


def _others(result: Result) -> NDArray[np.float64]:
    return np.asarray((over_fair(result, "site2") + over_fair(result, "site3")) / 2)


def _draw_public(results: Results) -> list[Series]:
    own = {vmss: stats.mean(over_fair(results[str(vmss)], "site1")) for vmss in PUBLIC_VMSS}
    others = {vmss: stats.mean(_others(results[str(vmss)])) for vmss in PUBLIC_VMSS}
    alone = stats.mean(over_fair(results[ALONE], "site1"))
    before = stats.mean(over_fair(results[NO_TRUNKS], "site1"))
    ends = (PUBLIC_VMSS[0], PUBLIC_VMSS[-1])
    return [
        curve("site 1, a trunk of its own", own),
        curve("sites 2 and 3, in public trunks", others),
        curve("site 1, nobody else in a trunk", dict.fromkeys(ends, alone), "dashed"),
        curve("site 1, before it had a trunk", dict.fromkeys(ends, before), "dashed"),
    ]


def _measure_public(results: Results) -> list[Criterion]:
    rows: list[tuple[str, str, NDArray[np.float64], Range]] = [
        ("site 1, alone in a trunk", "less than its fair share", over_fair(results[ALONE], "site1"), less_than(0.85)),
        *((f"{site}, public trunks", "1", over_fair(results["1500"], site), FAIR) for site in SITES),
        *(
            (
                f"{site}, public trunks of {SLIGHTLY} B",
                "slightly less",
                over_fair(results[str(SLIGHTLY)], site),
                Range(0.8, 1.0, strict=True),
            )
            for site in SITES[1:]
        ),
        (
            f"site 1, public trunks of {SLIGHTLY} B",
            "more",
            over_fair(results[str(SLIGHTLY)], "site1"),
            more_than(1.0),
        ),
    ]
    return [criterion(what, published, stats.mean(value), accept) for what, published, value, accept in rows]


def said(criteria: Sequence[Criterion]) -> str:
    """What was judged and does not hold."""
    return "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if c.judged and not c.holds) + "."


PUBLIC: CaseFigure[Results] = CaseFigure(
    id="public",
    title="A site that adopts trunks before the others do",
    caption="What a site with ten greedy TCPs gets, of a third of the link, by the VMSS of the public trunks "
    "that carry the two others.",
    section="3.8.2",
    x_label="VMSS of the public trunks [B]",
    y_label="Of the fair share",
    run=_run_public,
    draw=_draw_public,
    claims=[
        Claim(
            id="decoupling.s3_8_2",
            measure=_measure_public,
            reason=lambda _, criteria: said(criteria),
            tolerance="Alone less than 85% of the fair share; with public trunks 85 to 115%; with those of 1200 bytes "
            "the others 80 to 100% and the first site more. The thesis gives no numbers.",
        )
    ],
    notes=[
        "Each trunk has one control TCP. The first site's competes with twenty TCPs while the others have no trunk.",
        "A trunk's VMSS is how a provider sets what it gets: all control TCPs lose alike, so bandwidth follows VMSS.",
    ],
)

# ---- 3.8.4

CONTROLS = 4
TCPS = (1, 2, 4, 8)
MIXED_SECONDS = 200
UNMARKED: Mapping[str, str] = {"counts as data": "data", "counts as a header": "header"}
"""What a router takes an unmarked packet for."""

Mixed = Mapping[tuple[str, int], friendly.Contest]


def run_mixed(runner: Runner, label: str, runs: int, unmarked: str, tcps: int) -> friendly.Contest:
    """So many TCPs against the circuit."""
    queue: dict[str, Any] = {"model": "header-drop", "headers": 64, "buffer": "200KB", "unmarked": UNMARKED[unmarked]}
    settings = {
        "links.core.queue": queue,
        "circuits.circuit.controls": CONTROLS,
        "flows.reno.count": tcps,
        "duration": f"{MIXED_SECONDS}s",
    }
    result = runner.tables("friendly", settings, f"{label}: {unmarked}, {tcps}", runs)
    return friendly.contest(result, MIXED_SECONDS)


def _run_all_mixed(runner: Runner, label: str, runs: int) -> Mixed:
    cases = [(unmarked, tcps) for unmarked in UNMARKED for tcps in TCPS]
    return {case: run_mixed(runner, label, runs, *case) for case in cases}


def each_over_control(contest: friendly.Contest, tcps: int) -> NDArray[np.float64]:
    """What one TCP gets over what one control TCP gets, data and headers, in each run."""
    return np.asarray((1 - contest.share) / tcps / (contest.share / CONTROLS))


def _draw_mixed(contests: Mixed) -> list[Series]:
    return [
        curve(
            f"an unmarked packet {unmarked}",
            {tcps: stats.mean(each_over_control(contests[unmarked, tcps], tcps)) for tcps in TCPS},
        )
        for unmarked in UNMARKED
    ]


def _measure_mixed(contests: Mixed) -> list[Criterion]:
    # A share within a tenth of half, as one over the other.
    even = Range(0.45 / 0.55, 0.55 / 0.45)
    criteria = []
    for (unmarked, tcps), one in contests.items():
        header = UNMARKED[unmarked] == "header"
        what, ratio = f"n = {tcps}, unmarked {unmarked}", stats.mean(each_over_control(one, tcps))
        published, accept = ("1", even) if header else ("an unfair advantage", Range(lo=even.hi, strict=True))
        criteria.append(criterion(what, published, ratio, accept, judged=header or tcps <= CONTROLS))
        if header:
            lost = Estimate.exact(100 * one.user_loss)
            criteria.append(criterion(f"{what}: users' packets lost", "0", lost, Range(0, 0), unit="%"))
    return criteria


MIXED: CaseFigure[Mixed] = CaseFigure(
    id="mixed",
    title="TCPs among control TCPs",
    caption=f"What a Reno TCP outside of trunks gets, over what each of {CONTROLS} control TCPs gets, by the number of "
    "such TCPs and by what routers take their packets for.",
    section="3.8.4",
    x_label="Reno TCPs, n",
    y_label="Of a control TCP's bandwidth",
    y_log=True,
    run=_run_all_mixed,
    draw=_draw_mixed,
    claims=[
        Claim(
            id="decoupling.s3_8_4",
            measure=_measure_mixed,
            reason=lambda _, criteria: said(criteria),
            tolerance="Taken for headers: as much as a control TCP, within what a tenth of half makes of it (0.82 to "
            "1.22), and no user's packet lost. Taken for data: more than that, where they are no more than the control "
            "TCPs.",
        )
    ],
    notes=[
        "The router's buffer has 200 KB. Where an unmarked packet counts as data, TCPs notice nothing until it is "
        "full.",
        "With eight TCPs and more their own drops at the full buffer bring them down, and the circuit's data "
        "are lost there too.",
    ],
)
