"""Section 3.8.3: trunks through routers that do not know headers, which have RED or a simple FIFO."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, about, criterion, less_than, more_than
from headend.papers.decoupling import ring, trunks
from headend.papers.decoupling.migration import said
from headend.papers.decoupling.protection import (
    LEGACY,
    TESTBED,
    Case,
    ProtectionTable,
    Results,
    Scenario,
    delays_ms,
    delays_of_runs,
    small_kbytes,
)
from headend.papers.figure import CaseFigure
from headend.papers.model import Criterion, Series
from headend.papers.runner import Runner, load, scenarios
from headend.papers.stats import Estimate
from headend.results import Result

RED = ("RED", "RED, counts bytes")
FIFO = ("FIFO, 50 packets", "FIFO, 75 KB")
GUARANTEES = {"(a)": (400, 200), "(b)": (200, 400)}
PUBLISHED = {"(a)": (800, 400), "(b)": (600, 600)}

Legacy = Mapping[tuple[str, str], Result]
"""By queue and case of TT1."""


def legacy_scenario(queue: str, case: str) -> Scenario:
    """TT1 (a) or (b) with a router of this kind in the middle."""
    network = copy.deepcopy(dict(load(scenarios("decoupling") / "tt1.toml")))
    network["links"]["ef"]["queue"] = LEGACY[queue]
    for circuit, guaranteed in zip(network["circuits"].values(), GUARANTEES[case], strict=True):
        circuit["gmb"] = f"{8 * guaranteed}kbit/s"
    return network


def _run_legacy(runner: Runner, label: str, runs: int) -> Legacy:
    def run(queue: str, case: str) -> Result:
        # With a FIFO there is no chance in it.
        times = runs if queue in RED else 1
        return runner.tables(legacy_scenario(queue, case), {}, f"{label}: {queue}, {case}", times)

    return {(queue, case): run(queue, case) for queue in LEGACY for case in GUARANTEES}


def header_loss(result: Result, trunk: str) -> NDArray[np.float64]:
    """Which part of a trunk's headers it sent again, in each run."""
    own = result.table("circuits").where(circuit=trunk)
    return np.asarray(own["header_retransmits"] / own["headers"])


def _shares(queues: Sequence[str]) -> Callable[[Legacy], list[Criterion]]:
    def measure(results: Legacy) -> list[Criterion]:
        criteria = []
        for queue in queues:
            for case, guaranteed in GUARANTEES.items():
                result = results[queue, case]
                where = f"{queue}, {case}"
                for i, (trunk, user, link) in enumerate(zip(trunks.TRUNKS, trunks.USERS, trunks.LINKS, strict=True)):
                    share, gmb = PUBLISHED[case][i], guaranteed[i]
                    least = Estimate.exact(float(trunks.sent_kbytes(result, link).min()))
                    received = stats.mean(trunks.mean_kbytes(result, user))
                    criteria += [
                        criterion(f"{where}: {trunk}", f"{share} KB/s", received, about(share, 1), unit="KB/s"),
                        criterion(
                            f"{where}: {trunk}, least second sent",
                            f">= {gmb} KB/s",
                            least,
                            Range(lo=gmb - 1.5),
                            unit="KB/s",
                        ),
                    ]
                losses = [header_loss(result, trunk) for trunk in trunks.TRUNKS]
                dropped = result.links.where(link="ef", direction="e->f")["dropped_user"]
                criteria += [
                    criterion(
                        f"{where}: headers lost, trunk2 over trunk1",
                        "the same rate",
                        stats.ratio_of_means(losses[1], losses[0]),
                        Range(0.75, 1.33),
                    ),
                    criterion(f"{where}: users' packets lost", "not lossless", stats.mean(dropped), more_than(0)),
                ]
        return criteria

    return measure


def _shares_reason(results: Legacy, criteria: Sequence[Criterion]) -> str:
    lost = (
        f"{queue}, {case}: {' and '.join(f'{100 * header_loss(result, trunk).mean():.1f}%' for trunk in trunks.TRUNKS)}"
        for (queue, case), result in results.items()
    )
    return f"{said(criteria)} Headers that the two trunks lost: {'; '.join(lost)}."


def _draw_legacy(results: Legacy) -> list[Series]:
    return [
        dataclasses.replace(series, group=queue) for queue in LEGACY for series in trunks.seconds(results[queue, "(a)"])
    ]


_LEGACY_TOLERANCE = (
    "Within 15% of what TT1 has with decoupling routers; no second in which a trunk sent less than its guarantee, but "
    "for one packet; header loss of the trunks within a third of each other, which is the thesis's reason; and users' "
    "packets are lost, the one property that it excepts."
)

LEGACY_SHARES: CaseFigure[Legacy] = CaseFigure(
    id="legacy",
    title="Trunks through routers that do not know headers",
    caption="TT1 (a) as in Figure 12, with a router of another kind.",
    section="3.8.3",
    x_label="Time [s]",
    y_label="Bandwidth [KB/s]",
    run=_run_legacy,
    draw=_draw_legacy,
    claims=[
        Claim(
            id=f"decoupling.s3_8_3.{name}",
            measure=_shares(queues),
            reason=_shares_reason,
            tolerance=_LEGACY_TOLERANCE,
        )
        for name, queues in (("red", RED), ("fifo", FIFO))
    ],
    notes=[
        "RED drops from 20 to 60 packets on average, a tenth at most; 200 fit. A FIFO has 50 packets, as BSD's have, "
        "or the bytes of 50 large ones.",
        "A FIFO that is full when a header comes is one that the header's own data have just filled. A trunk with VMSS "
        "1500 sends a header after each packet, one with 3000 after every second, and so they do not lose alike.",
    ],
)


def _of_trunks(name: str, flows: tuple[str, ...], counts: tuple[tuple[str, int], ...] = ()) -> tuple[Case, ...]:
    trunked = [
        Case(f"{name}, trunks, {queue}", flows, True, counts, properties=TESTBED, legacy=queue) for queue in LEGACY
    ]
    return (
        Case(f"{name}, no trunks", flows, False, counts, properties=TESTBED),
        Case(f"{name}, trunks", flows, True, counts, properties=TESTBED),
        *trunked,
    )


SMALL = ("against TCP", "against datagrams")
SITE_PAIRS = ("5/15", "15/45")


def _protection_row(result: Result) -> str:
    lost = result.links["dropped_user"].sum() / len(np.unique(result.links["run"]))
    if (result.flows["flow"] == "small").any():
        return f"{small_kbytes(result).mean():.1f} | {delays_ms(result).mean():.0f} | - | - | {lost:.0f}"
    two, three = (ring.utilisation(result, site).mean() for site in (2, 3))
    return f"- | - | {two:.1f} | {three:.1f} | {lost:.0f}"


def _mean_delay(result: Result) -> NDArray[np.float64]:
    return delays_of_runs(result, np.mean)


def _protection(queues: Sequence[str]) -> Callable[[Results], list[Criterion]]:
    def measure(results: Results) -> list[Criterion]:
        criteria = []
        for queue in queues:
            for name in SMALL:
                above, below = results[f"{name}, trunks, {queue}"], results[f"{name}, no trunks"]
                for what, published, of, accept in (
                    ("throughput", "more", small_kbytes, more_than(1.0)),
                    ("mean delay", "less", _mean_delay, less_than(1.0)),
                ):
                    ratio = stats.ratio_of_means(of(above), of(below))
                    criteria.append(criterion(f"{name}, {queue}: {what}", f"{published} than without", ratio, accept))
            for pair in SITE_PAIRS:
                result = results[f"{pair}, trunks, {queue}"]
                ratio = stats.ratio_of_means(ring.utilisation(result, 3), ring.utilisation(result, 2))
                criteria.append(criterion(f"{pair}, {queue}: node 3 over node 2", "even", ratio, Range(0.5, 1.5)))
        return criteria

    return measure


LEGACY_PROTECTION = ProtectionTable(
    id="legacy-ring",
    title="Protection and isolation through routers that do not know headers",
    caption="Experiments TT3 on the testbed: small transfers against ten greedy TCPs or datagrams, and sites of 5 and "
    "15 or 15 and 45 TCPs, without trunks, with trunks and decoupling routers, and with trunks and other routers.",
    section="3.8.3",
    head="| case | KB/s | 8 KB, mean [ms] | node 2 [%] | node 3 [%] | users' packets lost in routers |",
    row=_protection_row,
    cases=(
        *_of_trunks(SMALL[0], ("small", "greedy")),
        *_of_trunks(SMALL[1], ("small", "udp")),
        *_of_trunks(SITE_PAIRS[0], ring.FEW),
        *_of_trunks(SITE_PAIRS[1], ring.FEW, ring.MANY),
    ),
    claims=[
        Claim(
            id=f"decoupling.s3_8_3.ring_{name}",
            measure=_protection(queues),
            reason=lambda _, criteria: f"{said(criteria)} Through a FIFO the trunks' headers are not lost alike.",
            tolerance="Small transfers get more and wait less than without trunks, against TCPs and against datagrams; "
            "and node 3 has 0.5 to 1.5 times what node 2 has, as in Table 3.",
        )
        for name, queues in (("red", RED), ("fifo", FIFO))
    ],
    notes=["All cases with the testbed's properties; a run's users' packets, averaged."],
)

FIGURES = (LEGACY_SHARES, LEGACY_PROTECTION)
