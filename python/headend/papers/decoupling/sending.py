"""Section 3.6, what a trunk's sender drops, and TT1 with TCPs in its trunks (section 3.7.1)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, about, criterion, less_than, number
from headend.papers.decoupling import trunks
from headend.papers.decoupling.protection import Scenario, seconds
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion
from headend.papers.runner import load, scenarios
from headend.papers.stats import Estimate
from headend.results import Result

USERS = 4
"""Greedy TCPs in each trunk, as section 3.7.1 says."""
THRESHOLD = 10
"""Packets of the 100 that may wait before flows are told; the thesis says that it is low."""
TAIL, FAIR = "at the tail", "fair"
QUARTER, DOUBLE, SHORT = "fair, K = U/4", "fair, K = U", "fair, 25 packets may wait"
SINGLE = "fair, one control TCP"
HOST: Mapping[str, Any] = {
    "personality": "bsd-reno-1996",
    "tcp": {"era": "bsd-4.4", "receive_buffer": "64KB", "send_buffer": "64KB"},
}
CASES: Mapping[str, Mapping[str, Any]] = {
    TAIL: {"drops": "tail"},
    FAIR: {},
    QUARTER: {"exempt_percent": 25},
    DOUBLE: {"exempt_percent": 100},
    SHORT: {"queue": "25 packets"},
    SINGLE: {"controls": 1},
}
CASE_B = "fair, (b)"


def scenario(case: str) -> Scenario:
    """TT1 (a) with four greedy TCPs in each trunk, or (b)."""
    network = copy.deepcopy(dict(load(scenarios("decoupling") / "tt1.toml")))
    for host in "acgh":
        network["nodes"][host] = copy.deepcopy(dict(HOST))
    # A host's own queue, as BSD's interfaces have it.
    for link in ("ab", "cd"):
        network["links"][link]["queue"] = "50 packets"
    for name, gmb in zip(trunks.TRUNKS, ("1600kbit/s", "3200kbit/s"), strict=True):
        circuit = network["circuits"][name]
        circuit.update(drops="fair", threshold=THRESHOLD, delays=True)
        if case == CASE_B:
            circuit["gmb"] = gmb
        circuit.update(CASES.get(case, {}))
    if case == SINGLE:
        for path, value in trunks.ONE_CONTROL.items():
            if path.startswith("links.ef.queue."):
                network["links"]["ef"]["queue"][path.rsplit(".", 1)[1]] = value
    network["flows"] = {
        user: {"from": ends[0], "to": ends[1], "count": USERS, "stagger": "1s"}
        for user, ends in zip(trunks.USERS, ("ag", "ch"), strict=True)
    }
    return network


Results = Mapping[str, Result]


def kbytes(result: Result, user: str) -> NDArray[np.float64]:
    """What the TCPs of a trunk received together, in each run [KB/s]."""
    rows = result.flows.where(flow=user)
    return np.asarray(rows.by_run(rows["throughput_bps"]) / 8e3)


def timeouts(result: Result) -> NDArray[np.float64]:
    """Of users' TCPs, in each run."""
    return np.asarray(result.flows.by_run(result.flows["timeouts"]), dtype=np.float64)


def dropped(result: Result) -> float:
    """Of the packets that came to the trunks' queues [%]."""
    table = result.table("circuits")
    return float(100 * table["dropped"].sum() / table["arrived"].sum())


def waiting(result: Result) -> NDArray[np.float64]:
    """Packets in each trunk's queue on average, by Little's law."""
    table = result.table("circuits")
    wait = table["delay_mean_s"] - table["carried_mean_s"]
    return np.asarray(wait * table["passed"] / seconds(result))


def _shares(results: Results) -> list[Criterion]:
    criteria = []
    for case, published in ((FAIR, (800, 400)), (CASE_B, (600, 600)), (TAIL, (800, 400))):
        for user, share in zip(trunks.USERS, published, strict=True):
            measured = stats.mean(kbytes(results[case], user))
            what = f"{'(b)' if case == CASE_B else '(a)'}, drops {case.removesuffix(', (b)')}: {user}"
            criteria.append(
                criterion(what, f"{share} KB/s", measured, about(share, 1), unit="KB/s", judged=case != TAIL)
            )
    return criteria


def _room(results: Results) -> list[Criterion]:
    return [
        criterion(
            "dropped of what came", "not excessive", Estimate.exact(dropped(results[FAIR])), less_than(1), unit="%"
        ),
        criterion(
            "with room for 25 packets",
            "not enough",
            Estimate.exact(dropped(results[SHORT])),
            Range(lo=dropped(results[FAIR])),
            unit="%",
            judged=False,
        ),
    ]


def _low(results: Results) -> list[Criterion]:
    return [
        criterion(
            f"packets that wait on average, {what}",
            f"< {THRESHOLD}",
            stats.mean(waiting(results[case])),
            below,
            judged=judged,
        )
        for what, case, judged in (("fair", FAIR, True), ("at the tail", TAIL, False))
        for below in (less_than(THRESHOLD),)
    ]


def _spared(results: Results) -> list[Criterion]:
    fair, tail = results[FAIR], results[TAIL]
    share = stats.ratio_of_means(kbytes(fair, "user1"), kbytes(tail, "user1"))
    return [
        criterion(
            "users' time-outs, fair over at the tail",
            "< 1",
            stats.ratio_of_means(timeouts(fair), timeouts(tail)),
            less_than(1),
        ),
        criterion("trunk 1's share, fair over at the tail", "1", share, Range(0.95, 1.05)),
    ]


def _similar(results: Results) -> list[Criterion]:
    return [
        criterion(
            f"{user}, {case} over U/2",
            "similar",
            stats.ratio_of_means(kbytes(results[case], user), kbytes(results[FAIR], user)),
            Range(0.95, 1.05),
        )
        for case in (QUARTER, DOUBLE)
        for user in trunks.USERS
    ]


def _said(_: Results, criteria: Sequence[Criterion]) -> str:
    return "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if c.judged and not c.holds) + "."


def _low_reason(results: Results, criteria: Sequence[Criterion]) -> str:
    return (
        f"{_said(results, criteria)[:-1]}, and {waiting(results[TAIL]).mean():.0f} where drops are at the tail. "
        "Greedy TCPs grow until they lose a packet, and here none is dropped that has room but when the trunk "
        "shrinks: between two such times they fill the queue. Drops by chance from the threshold on keep it short, "
        "and cost the trunk its share."
    )


def _table(results: Results) -> str:
    rows = []
    for case, result in results.items():
        circuits = result.table("circuits")
        runs = int(circuits["run"].max()) + 1
        shares = " / ".join(f"{kbytes(result, user).mean():.0f}" for user in trunks.USERS)
        rows.append(
            f"| {case} | {shares} | {timeouts(result).mean():.0f} | {circuits['dropped'].sum() / runs:.0f} | "
            f"{dropped(result):.2f}% | {waiting(result).mean():.1f} |"
        )
    return markdown("| drops | KB/s | users' time-outs | dropped | of what came | wait on average |", rows)


SENDING: CaseFigure[Results] = CaseFigure(
    id="sending",
    title="What a trunk's sender drops of four TCPs",
    caption="TT1 (a) with four greedy TCPs in each trunk: what both trunks' users receive, and what their packets "
    "meet at the trunks' senders.",
    section="3.6",
    kind="table",
    run=lambda runner, label, runs: {
        case: runner.shared(scenario(case), {}, f"{label}: {case}", runs) for case in (*CASES, CASE_B)
    },
    draw=_table,
    claims=[
        Claim(
            id="decoupling.s3_7_1.tcp",
            measure=_shares,
            reason=_said,
            tolerance="Within 15% of what TT1 has with datagrams: the text says that results were similar.",
        ),
        Claim(
            id="decoupling.s3_6.p1",
            measure=_room,
            reason=_said,
            tolerance="Less than one packet in a hundred. The 100 packets of TT1 are RTTup TrunkBW / 2 for a round "
            "trip of 375 ms at 800 KB/s.",
        ),
        Claim(
            id="decoupling.s3_6.p2",
            measure=_low,
            reason=_low_reason,
            tolerance="Below the threshold on average; the thesis says most of the time.",
        ),
        Claim(
            id="decoupling.s3_6.p3",
            measure=_spared,
            reason=_said,
            tolerance="Fewer time-outs than with drops at the tail; and the trunk holds its share, within 5%.",
        ),
        Claim(
            id="decoupling.s3_6.k",
            measure=_similar,
            reason=_said,
            tolerance="Throughput with half and twice the K of the thesis within 5%.",
        ),
    ],
    notes=[
        "U is what a flow sends until it is as fast as before its packet was dropped, K how many of its packets pass.",
        "With one control TCP in each trunk four TCPs share a window of some eight packets: two each, with which no "
        "fast retransmit works. Then no flow is told, and what does not fit is dropped.",
    ],
    runs_quick=2,
    runs_full=10,
)
