"""Section 2.2.5.3: three streams with guarantees share a link. And what each weight of the routers' average does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headend.papers import stats
from headend.papers.claim import GENERAL_TOLERANCE, Claim, about, criterion, number
from headend.papers.decoupling import trunks
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion, Series
from headend.papers.runner import Runner, Settings
from headend.results import Result

MBPS = {"a": 5.0, "b": 4.0, "c": 6.0}
"""What each stream is to have: its guarantee of 2, 1 and 3 Mbit/s, and a third of the 9 that are left."""


def _seconds(result: Result) -> list[Series]:
    rows = result.table("intervals").where(kind="flow", run=0)
    shown = []
    for name, ideal in MBPS.items():
        own = rows.where(name=name)
        x = own["end_s"].tolist()
        shown += [
            Series.exact(f"stream {name.upper()}", x, (own["bytes"] * 8e-6).tolist(), style="points"),
            Series.exact(f"ideal of {name.upper()}", [x[0], x[-1]], [ideal, ideal]),
        ]
    return shown


def _measure(result: Result) -> list[Criterion]:
    return [
        criterion(
            f"stream {name.upper()}",
            f"{ideal:g} Mbit/s",
            stats.mean(result.flows.where(flow=name)["throughput_bps"] / 1e6),
            about(ideal, 1),
            unit="Mbit/s",
        )
        for name, ideal in MBPS.items()
    ]


def _reason(result: Result, criteria: Sequence[Criterion]) -> str:
    link = result.links.where(link="rf", direction="r->f")
    got = "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if not c.holds)
    return f"{got}. The link is busy {100 * link['utilisation'].mean():.1f}% of the time."


FIGURE_5: CaseFigure[Result] = CaseFigure(
    id="fig5",
    title="Three streams, each with its guarantee and a third of the rest",
    caption="Figure 5: guarantees of 2, 1 and 3 Mbit/s and one control TCP each on a link of 15 Mbit/s.",
    section="2.2.5.3",
    x_label="Time [s]",
    y_label="Bandwidth [Mbit/s]",
    run=lambda runner, label, runs: runner.shared("fig5", {}, label, runs),
    draw=_seconds,
    claims=[
        Claim(
            id="decoupling.fig5", measure=_measure, reason=_reason, tolerance=f"{GENERAL_TOLERANCE}: headers take 3%."
        )
    ],
)

WEIGHTS = (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
"""Of a new number of headers in the router's average, as powers of two; 0 is that number itself."""
_CASES: Mapping[str, Settings] = {
    "(a)": {},
    "(b)": {"circuits.trunk1.gmb": "1600kbit/s", "circuits.trunk2.gmb": "3200kbit/s"},
    "(c)": trunks.ALIKE,
    "(c), ended": trunks.WARM,
}
Weighed = Mapping[tuple[int, str], Result]


def _weigh(runner: Runner, label: str, runs: int) -> Weighed:
    def run(weight: int, case: str) -> Result:
        settings = {**_CASES[case], "links.ef.queue.weight_bits": weight}
        return runner.shared(trunks.SCENARIO, settings, f"{label}: 2^-{weight}, {case}", runs)

    return {(weight, case): run(weight, case) for weight in WEIGHTS for case in _CASES}


def _row(weighed: Weighed, weight: int) -> str:
    cells = [f"2^-{weight}" if weight else "1, the number itself"]
    for case in ("(a)", "(b)"):
        cells.append(
            " / ".join(f"{trunks.mean_kbytes(weighed[weight, case], user).mean():.0f}" for user in trunks.USERS)
        )
    for case in ("(c)", "(c), ended"):
        result = weighed[weight, case]
        cells += [str(trunks.core(result, f).max()) for f in ("queue_max_bytes", "dropped_user")]
    return f"| {' | '.join(cells)} |"


WEIGHTS_TABLE: CaseFigure[Weighed] = CaseFigure(
    id="weights",
    title="How fast the average of waiting headers follows",
    caption="TT1 by the weight of a new number in the average: KB/s of the two trunks in (a) and (b), and in (c) "
    "the largest occupancy and users' packets lost, in the worst run, where a loss ends slow start and where it "
    "ends at alpha.",
    section="2.2.7",
    kind="table",
    run=_weigh,
    draw=lambda weighed: markdown(
        "| weight | (a) | (b) | (c) [B] | lost | (c), ended [B] | lost |", [_row(weighed, weight) for weight in WEIGHTS]
    ),
    notes=[
        "The thesis has 800 / 400 and 600 / 600 KB/s, and 210306 B of 222656 with nothing lost.",
        "Without a weight the queue takes the logarithm of HP_Th, here 6: as many headers as may wait come in about "
        "a round trip with a full queue.",
    ],
    runs_quick=2,
    runs_full=10,
)
