"""Section 3.7.2: web transfers of 8 KB against greedy ftp from two other sites. Figure 15."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from headend.papers.claim import Claim, number
from headend.papers.decoupling.protection import (
    DELAY_HEAD,
    Case,
    Delays,
    ProtectionTable,
    Results,
    delay_row,
    delays_ms,
    directions,
    published_row,
    sizes,
)
from headend.papers.model import Criterion

FIGURE_15: dict[str, Delays] = {
    "(a)": (453, 353, 82, 1270),
    "(b)": (122, 1170, 1161, 11170),
    "(c)": (238, 613, 274, 2779),
}
_CASES = (
    Case("(a)", ("small",), False, file="tt2"),
    Case("(b)", ("small", "put2", "put3"), False, file="tt2"),
    Case("(c)", ("small", "put2", "put3"), True, file="tt2"),
)
FACTOR = 1.25
LATE_MS = 1_500
"""A transfer that lasts longer has waited for a timer of BSD's, which expires after a second at least."""


def _measure(results: Results) -> list[Criterion]:
    return [
        *directions(FIGURE_15, (("(b)", "(a)"), ("(c)", "(b)")))(results),
        *sizes(FIGURE_15, "", FACTOR, judged=True)(results),
    ]


def _reason(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = (
        f"{c.what} {number(c.measured, c.unit)}, published {c.published}" for c in criteria if c.judged and not c.holds
    )
    dropped = results["(b)"].links.where(link="mx", direction="m->x")
    share = 100 * dropped["dropped"].sum() / dropped["arrived"].sum()
    late = {case: 100 * np.mean(delays_ms(results[case]) > LATE_MS) for case in ("(b)", "(c)")}
    prompt = delays_ms(results["(c)"])
    return (
        f"{'; '.join(wrong)}. In (b) the middle router drops {share:.1f}% of what arrives. The deviation is that of "
        f"transfers that wait for a timer: {late['(b)']:.1f}% of those of (b) and {late['(c)']:.1f}% of those of (c) "
        f"last longer than {LATE_MS / 1e3:g} s. The others of (c) deviate by {prompt[prompt <= LATE_MS].std():.0f} "
        "ms."
    )


TT2 = ProtectionTable(
    id="tt2",
    title="Web transfers against greedy ftp",
    caption="Figure 15: twenty web clients alone (a), against ten greedy TCPs of two other sites (b), with a trunk "
    "for each site (c).",
    section="3.7.2",
    head=DELAY_HEAD,
    row=delay_row,
    cases=(
        *_CASES,
        dataclasses.replace(_CASES[2], name="(c), trunks drop at the tail", drops="tail"),
        *(
            dataclasses.replace(case, name=f"{case.name}, with a processor", properties=("processor",))
            for case in _CASES
        ),
        *(
            dataclasses.replace(
                _CASES[1], name=f"(b), {each} greedy TCPs a site", counts=(("put2", each), ("put3", each))
            )
            for each in (2, 10)
        ),
    ),
    published={case: published_row(row) for case, row in FIGURE_15.items()},
    claims=[
        Claim(
            id="decoupling.tt2",
            measure=_measure,
            reason=_reason,
            tolerance="The direction of each change, and throughput, mean and deviation of the delay of each row "
            "within a factor of 1.25, with the mean of each run's largest delay beside. Clients and the time of "
            "answers follow from (a); five greedy TCPs a site are our reading, with two and ten beside.",
        )
    ],
    notes=(
        "Of the figure only its text is left: the network is a reading, and how many greedy TCPs there were is not "
        "said.",
        "453 KB/s in pieces of 8 KB that take 353 ms each are twenty clients that ask again at once.",
    ),
    runs_quick=3,
    runs_full=10,
)
