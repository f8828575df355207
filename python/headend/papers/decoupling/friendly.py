"""Section 3.9, "100% TCP": what a circuit of n control TCPs gets of a link that n Reno TCPs share with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion
from headend.papers.runner import Runner
from headend.results import Result

HEADER = 52
NUMBERS = (1, 2, 4)
_RED = {"model": "red", "min": 20, "max": 60, "max_chance": "10%", "buffer": "200 packets"}
QUEUES: Mapping[str, Any] = {
    "header packets first": {"model": "header-drop", "headers": 64, "unmarked": "header"},
    "RED, counts bytes": {**_RED, "counts": "bytes"},
    "RED, counts packets": _RED,
    "RED, counts packets, 10 to 30": {**_RED, "min": 10, "max": 30, "buffer": "100 packets"},
    "drop-tail, 60 packets": "60 packets",
    "drop-tail, 90 KB": "90KB",
}
EVEN = Range(0.45, 0.55)
"""Within a tenth of half."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What came of it, a value for each run."""

    share: NDArray[np.float64]
    """The circuit's, headers included."""
    header_loss: float
    reno_loss: float
    user_loss: float
    busy: float


Contests = Mapping[tuple[str, int], Contest]


def contest(result: Result, seconds: int) -> Contest:
    """Works it out."""
    flows, circuit = result.flows, result.table("circuits")
    link = result.links.where(link="core", direction="r->f")
    reno, user = flows.where(flow="reno"), flows.where(flow="user")
    own = user["throughput_bps"] * seconds / 8 + HEADER * circuit["headers"]
    theirs = reno.by_run(reno["throughput_bps"] * seconds / 8)
    segments = reno["segments_sent"].sum()
    unmarked = link["dropped"].sum() - link["dropped_headers"].sum() - link["dropped_user"].sum()
    return Contest(
        share=own / (own + theirs),
        header_loss=float(link["dropped_headers"].sum() / circuit["headers"].sum()),
        reno_loss=float(unmarked / segments),
        user_loss=float(link["dropped_user"].sum() / (circuit["controlled_bytes"].sum() / 1500)),
        busy=float(link["utilisation"].mean()),
    )


def _measure(contests: Contests) -> list[Criterion]:
    criteria = []
    for (queue, n), one in contests.items():
        what = f"{queue}, n = {n}"
        criteria.append(criterion(what, "0.5", stats.mean(one.share), EVEN))
        if queue in ("header packets first", "RED, counts bytes", "RED, counts packets"):
            for end, value in (("least", one.share.min()), ("most", one.share.max())):
                criteria.append(criterion(f"{what}, {end}", "0.5", stats.Estimate.exact(float(value)), EVEN))
    return criteria


def _reason(_: Contests, criteria: Sequence[Criterion]) -> str:
    wrong = [f"{c.what} {c.measured:.3f}" for c in criteria if c.judged and not c.holds]
    return (
        f"Outside: {'; '.join(wrong)}. A queue that drops at its tail does not treat a header of 52 bytes as a "
        "segment of 1500: counted in packets it is full when a header comes behind the data that filled it, and in "
        "bytes it has room for one where it has none for a segment. A share of a run has chance in it: the fewer "
        "TCPs, the rarer their losses."
    )


def run(runner: Runner, label: str, queue: str, n: int, runs: int) -> Contest:
    """One queue with n against n."""
    # The fewer they are, the rarer their losses, and the longer it takes until chance evens out.
    seconds = 400 // n
    settings = {
        "links.core.queue": QUEUES[queue],
        "circuits.circuit.controls": n,
        "flows.reno.count": n,
        "duration": f"{seconds}s",
    }
    return contest(runner.tables("friendly", settings, f"{label}: {queue}, n = {n}", runs), seconds)


_HEAD = "| queue | n | share | least | most | headers lost | Reno's segments lost | users' packets lost | link busy |"


def _table(contests: Contests) -> str:
    rows = []
    for (queue, n), one in contests.items():
        losses = " | ".join(f"{100 * loss:.2f}%" for loss in (one.header_loss, one.reno_loss, one.user_loss))
        rows.append(
            f"| {queue} | {n} | {one.share.mean():.3f} | {one.share.min():.3f} | {one.share.max():.3f} | {losses} | "
            f"{100 * one.busy:.0f}% |"
        )
    return markdown(_HEAD, rows)


FRIENDLY: CaseFigure[Contests] = CaseFigure(
    id="friendly",
    title="A circuit among other TCPs",
    caption="What a circuit of n control TCPs gets, headers included, of what it and n Reno TCPs get of a link of "
    "10 Mbit/s with a round trip of 42 ms.",
    section="3.9",
    kind="table",
    run=lambda runner, label, runs: {
        (queue, n): run(runner, label, queue, n, runs) for queue in QUEUES for n in NUMBERS
    },
    draw=_table,
    claims=[
        Claim(
            id="decoupling.friendly",
            measure=_measure,
            reason=_reason,
            tolerance="Within a tenth of half, the mean over seeds, and each seed where headers are dropped first "
            "and through RED of either kind.",
        )
    ],
    notes=[
        "A TCP's share falls with the root of what it loses, so who loses more headers than Reno segments gets less.",
        "RED that counts packets: half of a circuit's packets are headers, so the queue is longer in packets when "
        "much of what waits is the circuit's, and it meets a few more drops. RED that counts bytes does not see "
        "them.",
        "Drop-tail: a header comes right behind its data. In packets it finds that they took the last place; in "
        "bytes it finds room where they do not.",
    ],
)
