"""Section 3.7.3: five sites on a ring. Tables 1 to 3, and what the testbed had that made its delays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import GENERAL_TOLERANCE, Claim, Range, about, criterion, more_than, number
from headend.papers.decoupling.protection import (
    DELAY_HEAD,
    TESTBED,
    Case,
    Delays,
    ProtectionTable,
    Results,
    delay_row,
    delays_ms,
    directions,
    published_row,
    sizes,
    small_kbytes,
)
from headend.papers.model import Criterion
from headend.papers.stats import Estimate
from headend.results import Result

MORE = ("third", "fourth")
"""The flows that make further bottlenecks, in no trunk."""
PACED = "(b), datagrams no faster than their link"
ON_TESTBED = ", testbed"
"""Ends the name of a case that has the testbed's properties."""


def utilisation(result: Result, site: int) -> NDArray[np.float64]:
    """Of the link from a site to the ring, in each run [%]."""
    return np.asarray(100 * result.links.where(link=f"e{site}r{site}", direction=f"e{site}->r{site}")["utilisation"])


def on_testbed(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The same cases with the testbed's properties."""
    return tuple(dataclasses.replace(case, name=case.name + ON_TESTBED, properties=TESTBED) for case in cases)


_GREEDY = (
    Case("(a)", ("small",), False),
    Case("(b)", ("small", "greedy"), False),
    Case("(c)", ("small", "greedy"), True),
    Case("(d)", ("small", "greedy", *MORE), True),
)
_DATAGRAMS = (
    Case("(a)", ("small",), False),
    Case("(b)", ("small", "udp"), False),
    Case("(c)", ("small", "udp"), True),
    Case("(d)", ("small", "udp", *MORE), True),
)
PAIRS = (("(b)", "(a)"), ("(c)", "(b)"), ("(d)", "(c)"))
TABLE_1: dict[str, Delays] = {
    "(a)": (380.05, 451.5, 147.9, 1336),
    "(b)": (50.09, 2183.0, 1861.4, 4182),
    "(c)": (215.73, 719.1, 262.2, 1871),
    "(d)": (202.39, 910.9, 178.3, 1997),
}
TABLE_2: dict[str, Delays] = {
    "(a)": TABLE_1["(a)"],
    "(b)": (53.21, 2541.1, 4021.7, 13053),
    "(c)": (270.45, 507.9, 136.5, 1921),
    "(d)": (252.65, 663.9, 166.9, 1892),
}
FACTOR = 1.5
"""How far throughput, mean and deviation of the delay may lie from the published ones."""


def _table_reason(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = "; ".join(
        f"{c.what} {number(c.measured, c.unit)} instead of {c.published}" for c in criteria if c.judged and not c.holds
    )
    alone, testbed = results["(a)"], results["(a)" + ON_TESTBED]
    late = {case: np.mean(delays_ms(results[case + ON_TESTBED]) > 1_500) for case in ("(c)", "(d)")}
    return (
        f"{wrong}. Where nothing but links and TCP takes time, a transfer of 8 KB takes "
        f"{delays_ms(alone).mean():.0f} ms alone and ten clients fill the link ({small_kbytes(alone).mean():.0f} "
        f"KB/s, published 380). With answers that take 150 to 660 ms it takes {delays_ms(testbed).mean():.0f} ms "
        f"({small_kbytes(testbed).mean():.0f} KB/s). Most of the deviation in trunks is that of transfers with a "
        f"time-out, which last longer than 1.5 s: {100 * late['(c)']:.1f}% of those of (c), {100 * late['(d)']:.1f}% "
        "of those of (d)."
    )


def _measure(table: dict[str, Delays]) -> Callable[[Results], list[Criterion]]:
    of_base, of_testbed = directions(table, PAIRS), sizes(table, ON_TESTBED, FACTOR, judged=True)

    def measure(results: Results) -> list[Criterion]:
        return [*of_base(results), *of_testbed(results)]

    return measure


_TOLERANCE = (
    "The direction of each change; and with the testbed's properties throughput, mean and deviation of the delay of "
    "each row within a factor of 1.5 of the published ones, with the mean of each run's largest delay beside. Mean "
    "and deviation of (a) were used to choose how long answers take; the rest was not."
)
_NOTES = (
    "Delays are those of the transfers that ended, all runs together.",
    "The clients connect and ask, with one connection for each file; FTP's own connection is left out.",
    "Testbed: answers begin 150 to 660 ms after the request, and a processor takes up to 250 us for each packet. "
    "The table of the testbed's properties says why.",
)

TT3A = ProtectionTable(
    id="tt3a",
    title="Small transfers against large ones",
    caption="Table 1: ten clients alone (a), against ten greedy TCPs (b), in trunks (c), with more bottlenecks (d).",
    head=DELAY_HEAD,
    row=delay_row,
    cases=(
        *_GREEDY,
        Case("(c), trunks drop at the tail", ("small", "greedy"), True, drops="tail"),
        *on_testbed(_GREEDY),
    ),
    published={case + ON_TESTBED: published_row(row) for case, row in TABLE_1.items()},
    claims=[
        Claim(id="decoupling.tt3a", measure=_measure(TABLE_1), reason=_table_reason, tolerance=_TOLERANCE),
    ],
    notes=_NOTES,
)


def _dropped(result: Result) -> str:
    """What a site's packets met on their way at r3, where both flows come together."""
    link = result.links.where(link="r3r4", direction="r3->r4")
    return f"{100 * link['dropped'].sum() / link['arrived'].sum():.1f}%"


TT3B = ProtectionTable(
    id="tt3b",
    title="Small transfers against datagrams",
    caption="Table 2: as Table 1, against packets of 1024 bytes that are sent for 10 ms of every 20.",
    head=DELAY_HEAD,
    row=delay_row,
    cases=(
        *_DATAGRAMS,
        Case(PACED, ("small", "udp"), False, properties=("paced datagrams",)),
        *on_testbed(_DATAGRAMS),
    ),
    published={case + ON_TESTBED: published_row(row) for case, row in TABLE_2.items()},
    claims=[
        Claim(
            id="decoupling.tt3b",
            measure=_measure(TABLE_2),
            reason=lambda results, criteria: (
                f"{_table_reason(results, criteria)} The datagrams fill their host's queue of 50 packets in the 10 "
                "ms in which they come, and it does not empty in the 10 ms in which they do not: they fill the "
                f"link, and the queue before r1 is always full. It drops {_dropped(results['(b)' + ON_TESTBED])} of "
                "what arrives there, but the clients' packets more often: who sends regularly finds the free place "
                f"first. Datagrams no faster than their link leave {small_kbytes(results[PACED]).mean():.0f} KB/s to "
                "the clients, because that queue bridges every pause."
            ),
            tolerance=_TOLERANCE,
        )
    ],
    notes=_NOTES,
)

_EACH = (
    ("as in Table 1 here", ()),
    ("BSD's clocks: timers on ticks of 200 and 500 ms, Nagle", ("clocks",)),
    ("the same, and servers that begin with one segment", ("clocks", "one segment")),
    ("segments of 512 bytes", ("512 bytes",)),
    ("segments of 512 bytes, clocks, one segment", ("512 bytes", "clocks", "one segment")),
    ("socket buffers of 16 KB", ("16 KB",)),
    ("a processor: up to 250 us for each packet", ("processor",)),
    ("answers after 150 to 660 ms", ("answer",)),
    ("answers after 150 to 660 ms, and the processor", ("answer", "processor")),
)


def _sizes_row(result: Result) -> str:
    eight, large = delays_ms(result), delays_ms(result, 32_000)
    return f"{small_kbytes(result).mean():.1f} | {eight.mean():.0f} | {eight.std():.0f} | {large.mean():.0f}"


TESTBED_TABLE = ProtectionTable(
    id="testbed",
    title="What the testbed's delays are made of",
    caption="Cases (a) and (b) of Table 1 with one property after another that the testbed may have had.",
    head="| case | KB/s | 8 KB, mean [ms] | 8 KB, SD [ms] | 32 KB, mean [ms] |",
    row=_sizes_row,
    cases=tuple(
        dataclasses.replace(case, name=f"{case.name}, {what}", properties=properties)
        for what, properties in _EACH
        for case in _GREEDY[:2]
    ),
    notes=(
        "Published: (a) 380 KB/s, 452 ms, deviation 148 ms; (b) 50 KB/s, 2183 ms, deviation 1861 ms.",
        "Ten clients that fetch 380 KB/s in files of 18.7 KB on average spend 491 ms on each. If 8 KB take 452 ms, "
        "then 16 and 32 KB take 511 ms on average: nearly all of it does not depend on the size. No clock, window "
        "or segment size that was tried does that; a server that takes its time before it answers does, and what it "
        "does meanwhile the thesis does not say: to start a process for each client, or to talk over FTP's own "
        "connection.",
        "In (b) the packets of ten greedy TCPs come to the shared link exactly as fast as they leave it. Then a "
        "full queue is full whenever one of the clients' packets arrives (Floyd and Jacobson 1992 call that a phase "
        "effect). Real processors break the lockstep. The 250 us are chosen so that the link carries the 1100 KB/s "
        "that section 3.7.2 states.",
    ),
)


def _site_row(result: Result) -> str:
    return f"{utilisation(result, 2).mean():.1f} | {utilisation(result, 3).mean():.1f}"


SHARES = {
    "5/15 without trunks": (25.78, 68.77),
    "5/15 with trunks": (48.04, 43.35),
    "15/45 without trunks": (4.62, 85.09),
    "15/45 with trunks": (47.29, 46.14),
}
"""Of node 2's and node 3's link to the ring, as Table 3 has it [%]."""


def _imbalance(result: Result) -> Estimate:
    return stats.mean(utilisation(result, 3) / utilisation(result, 2))


def _sites(results: Results) -> list[Criterion]:
    criteria = []
    for suffix in ("", ON_TESTBED):
        for pair, without, trunks in (("5/15", 68.77 / 25.78, 43.35 / 48.04), ("15/45", 85.09 / 4.62, 46.14 / 47.29)):
            for case, published, accept in (
                (f"{pair} without trunks", without, more_than(1.5)),
                (f"{pair} with trunks", trunks, Range(0.5, 1.5)),
            ):
                measured = _imbalance(results[case + suffix])
                what = f"{case}{suffix}, node 3 over node 2"
                criteria.append(criterion(what, f"{published:.2f}", measured, accept, judged=bool(suffix)))
    for case, printed in SHARES.items():
        for further in (ON_TESTBED, "", ONLY):
            if case + further in results:
                for site, share in zip((2, 3), printed, strict=True):
                    shared = stats.mean(utilisation(results[case + further], site))
                    what = f"{case}{further}, node {site}"
                    criteria.append(
                        criterion(what, f"{share}%", shared, about(share, 0.01), unit="%", judged=further == ON_TESTBED)
                    )
    return criteria


FEW, MANY = ("few", "many", *MORE), (("few", 15), ("many", 45))
_SITES = (
    Case("5/15 without trunks", FEW, False),
    Case("5/15 with trunks", FEW, True),
    Case("15/45 without trunks", FEW, False, MANY),
    Case("15/45 with trunks", FEW, True, MANY),
)

ONLY = ", no further TCPs"
"""Ends the name of a case without the two that make further bottlenecks."""
_BETWEEN_TRUNKS = tuple(
    dataclasses.replace(case, name=case.name + ONLY, flows=("few", "many")) for case in _SITES if case.trunks
)

TT3C = ProtectionTable(
    id="tt3c",
    title="A small site against a large one",
    caption="Table 3: utilisation of the links from node 2 and node 3 to the ring.",
    head="| TCPs at node 2 and 3 | node 2 [%] | node 3 [%] |",
    row=_site_row,
    cases=(*_SITES, *_BETWEEN_TRUNKS, *on_testbed(_SITES)),
    published={case + ON_TESTBED: f"{few} | {many}" for case, (few, many) in SHARES.items()},
    claims=[
        Claim(
            id="decoupling.tt3c",
            measure=_sites,
            reason=lambda results, criteria: (
                "; ".join(f"{c.what} {number(c.measured)}" for c in criteria if c.judged and not c.holds)
                + ". Without trunks TCPs share a link as their packets happen to meet full queues: where nothing "
                f"but links takes time node 2 has {utilisation(results['15/45 without trunks'], 2).mean():.0f}% of "
                f"15/45, and {utilisation(results['15/45 without trunks' + ON_TESTBED], 2).mean():.1f}% with "
                "processors. The thesis's 25.78% of 5/15 is what each of twenty TCPs would have if all had the same."
            ),
            tolerance="With the testbed's properties, as in Tables 1 and 2. Without trunks node 3 has more than 1.5 "
            f"times what node 2 has; with them 0.5 to 1.5 times. Each share: {GENERAL_TOLERANCE.lower()}.",
        )
    ],
    notes=(
        "Each of the two further TCPs counts as much as a control TCP, as section 3.8.4 wants it: they take what is "
        "left of the published shares, 7 to 9%, if each trunk has four.",
        "Where nothing but links and TCP takes time, packets meet in lockstep, and without trunks one site starves "
        "the other.",
    ),
)

FIGURES = (TT3A, TT3B, TT3C, TESTBED_TABLE)
