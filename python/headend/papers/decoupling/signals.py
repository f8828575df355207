"""Section 5.4, "100% TCP under any condition": through queues of today a circuit's headers are no TCP's packets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion
from headend.papers.runner import Runner, Settings, load, scenarios
from headend.results import Result

HEADER = 52
NUMBERS = (1, 2, 4)
TCPS = {"sack": "Reno with SACK", "linux": "CUBIC with RACK"}
QUEUES: Mapping[str, Any] = {
    "0.5 BDP in packets": "17 packets",
    "1 BDP in packets": "35 packets",
    "2 BDP in packets": "70 packets",
    "0.5 BDP in bytes": "26250B",
    "1 BDP in bytes": "52500B",
    "2 BDP in bytes": "105KB",
    "RED": {"model": "red", "min": 10, "max": 30, "max_chance": "10%", "buffer": "100 packets"},
}
PACKET = {"headers": 1500, "in-band": 1464}
"""A user's packet, in bytes, by what the circuit goes by."""
SECONDS = 100
EVEN = Range(0.45, 0.55)
"""Within a tenth of half."""


@dataclass(frozen=True, slots=True)
class Case:
    """Which queue, which TCPs and how many, and what the circuit goes by."""

    queue: str
    tcp: str
    n: int
    signal: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    share: NDArray[np.float64]
    """The circuit's, headers included; a value for each run."""
    lost: float
    """Which part of the circuit's packets the queue dropped, headers not counted."""
    tcp_lost: float


Outcomes = Mapping[Case, Outcome]


def _run(runner: Runner, label: str, case: Case, runs: int, more: Settings | None = None) -> Outcome:
    settings = {
        "links.core.queue": QUEUES[case.queue],
        "nodes.b.personality": case.tcp,
        "nodes.d.personality": case.tcp,
        "circuits.circuit.personality": case.tcp,
        "circuits.circuit.controls": case.n,
        "circuits.circuit.loss_signal": case.signal,
        "flows.tcp.count": case.n,
        # As long as a segment, with its number if it has one.
        "flows.user.packet": f"{PACKET[case.signal]}B",
        "duration": f"{SECONDS}s",
        **(more or {}),
    }
    name = f"{label}: {case.queue}, {case.n} {case.tcp}, {case.signal}"
    result = runner.tables("signals", settings, name, runs)
    tcp, circuit = result.flows.where(flow="tcp"), result.table("circuits")
    link = result.links.where(link="core", direction="r->f")
    user = result.flows.where(flow="user")
    # What came, at its length on the link, and headers.
    own = user["throughput_bps"] * SECONDS / 8 * 1500 / PACKET[case.signal] + HEADER * circuit["headers"]
    theirs = tcp.by_run(tcp["throughput_bps"] * SECONDS / 8)
    user_lost = link["dropped_user"].sum() + circuit["datagrams_lost"].sum()
    return Outcome(
        share=own / (own + theirs),
        lost=float(user_lost / (circuit["controlled_bytes"].sum() / PACKET[case.signal])),
        tcp_lost=float(tcp["retransmits"].sum() / tcp["segments_sent"].sum()),
    )


def _measure(outcomes: Outcomes) -> list[Criterion]:
    return [
        criterion(
            f"{case.signal}: {case.queue}, {case.n} {TCPS[case.tcp]}",
            "0.5",
            stats.mean(outcome.share),
            EVEN,
            judged=case.signal == "headers",
        )
        for case, outcome in outcomes.items()
    ]


def _reason(outcomes: Outcomes, _: Sequence[Criterion]) -> str:
    def span(signal: str) -> str:
        means = [float(outcome.share.mean()) for case, outcome in outcomes.items() if case.signal == signal]
        return f"{min(means):.2f} to {max(means):.2f}"

    return (
        f"With headers the shares are {span('headers')}. A queue that counts packets drops a header whose own data "
        "have filled it, and one that counts bytes has room for 52 of them where it has none for 1500. With the "
        "circuit's own datagrams as the signal (`loss_signal`, ours and not the thesis's) they are "
        f"{span('in-band')}."
    )


_HEAD = "| signal | queue | TCPs | n | share | least | most | users' packets lost | TCP's segments sent again |"


def _table(outcomes: Outcomes) -> str:
    rows = [
        f"| {case.signal} | {case.queue} | {TCPS[case.tcp]} | {case.n} | {outcome.share.mean():.3f} | "
        f"{outcome.share.min():.3f} | {outcome.share.max():.3f} | {100 * outcome.lost:.2f}% | "
        f"{100 * outcome.tcp_lost:.2f}% |"
        for case, outcome in outcomes.items()
    ]
    return markdown(_HEAD, rows)


SIGNALS_OF_TODAY: CaseFigure[Outcomes] = CaseFigure(
    id="signals",
    title="A circuit among other TCPs through queues of today",
    caption="What a circuit that stands for n TCPs gets of what it and n TCPs of its kind get of a link of 10 "
    "Mbit/s with a round trip of 42 ms, by what tells it of congestion.",
    section="5.4",
    kind="table",
    run=lambda runner, label, runs: {
        case: _run(runner, label, case, runs)
        for case in (
            Case(queue, tcp, n, signal) for signal in PACKET for tcp in TCPS for queue in QUEUES for n in NUMBERS
        )
    },
    draw=_table,
    claims=[
        Claim(
            id="decoupling.s5_4.any_condition",
            measure=_measure,
            reason=_reason,
            tolerance="Within a tenth of half, the mean over seeds, in every cell with the thesis's headers. "
            "In-band control, which is not the thesis's, stands beside.",
        )
    ],
    notes=[
        "Hosts take a random time of up to 0.6 ms for each packet: without that, phases decide which packets are "
        "dropped."
    ],
)


DAMAGE: Mapping[str, Any] = {
    "bit errors, 2e-6": {"model": "bit", "rate": 2e-6},
    "1% of packets": "1%",
    "5% of packets": "5%",
}
BY: Mapping[str, Mapping[str, Any]] = {
    "headers": {"loss_signal": "headers"},
    "in-band": {"loss_signal": "in-band"},
    "in-band, only delayed losses": {"loss_signal": "in-band", "losses": "delayed"},
}
"""What a circuit goes by."""


def _alone(tcp: str, damage: str, by: str) -> dict[str, Any]:
    """The scenario with a circuit of one window, which nobody shares the damaged link with."""
    network = copy.deepcopy(dict(load(scenarios("decoupling") / "signals.toml")))
    del network["flows"]["tcp"]
    network["links"]["core"]["loss"] = DAMAGE[damage]
    circuit = network["circuits"]["circuit"]
    circuit.update(personality=tcp, controls=1, **BY[by])
    network["flows"]["user"]["packet"] = f"{PACKET[circuit['loss_signal']]}B"
    return network


Damaged = Mapping[tuple[str, str, str], Result]


def _damaged(runner: Runner, label: str, runs: int) -> Damaged:
    keys = [(tcp, damage, by) for tcp in TCPS for damage in DAMAGE for by in BY]
    return {key: runner.shared(_alone(*key), {}, f"{label}: {', '.join(key)}", runs) for key in keys}


def _damage_table(results: Damaged) -> str:
    def sent(tcp: str, damage: str, by: str) -> str:
        table = results[tcp, damage, by].table("circuits")
        return f"{8e-6 * table['controlled_bytes'].mean() / SECONDS:.2f}"

    rows = [
        f"| {damage} | {TCPS[tcp]} | {' | '.join(sent(tcp, damage, by) for by in BY)} |"
        for damage in DAMAGE
        for tcp in TCPS
    ]
    return markdown(f"| damage | TCPs | {' | '.join(BY)} |", rows)


SIGNALS_DAMAGE: CaseFigure[Damaged] = CaseFigure(
    id="signals-damage",
    title="A circuit alone over a link that damages packets",
    caption="Users' bytes that a circuit of one window sends over the same link [Mbit/s], with a queue of 35 "
    "packets, by what tells it of congestion.",
    section="5.4",
    kind="table",
    run=_damaged,
    draw=_damage_table,
    runs_quick=2,
    runs_full=10,
)

BURSTS = (1500, 3000, 6000)
"""The VMSS: so many bytes leave back to back."""


def _burst(runner: Runner, label: str, runs: int) -> Mapping[tuple[int | None, int], Outcome]:
    def one(vmss: int | None, n: int) -> Outcome:
        case = Case("1 BDP in packets", "sack", n, "headers" if vmss else "in-band")
        more = {"circuits.circuit.vmss": f"{vmss}B"} if vmss else {}
        return _run(runner, f"{label}: VMSS {vmss}", case, runs, more)

    return {(vmss, n): one(vmss, n) for vmss in (*BURSTS, None) for n in NUMBERS}


def _burst_table(outcomes: Mapping[tuple[int | None, int], Outcome]) -> str:
    rows = [
        f"| {f'headers, VMSS {vmss}' if vmss else 'in-band'} | {n} | {outcome.share.mean():.3f} | "
        f"{100 * outcome.lost:.2f}% | {100 * outcome.tcp_lost:.2f}% | {outcome.lost / outcome.tcp_lost:.2f} |"
        for (vmss, n), outcome in outcomes.items()
    ]
    return markdown(
        "| signal | n | share | users' packets lost | TCP's segments sent again | one over the other |", rows
    )


SIGNALS_BURSTS: CaseFigure[Mapping[tuple[int | None, int], Outcome]] = CaseFigure(
    id="signals-bursts",
    title="What leaves back to back, and what that loses",
    caption="A circuit beside n TCPs, Reno with SACK, through a queue of 35 packets that drops at its tail: its "
    "share and how many of its users' packets are dropped, beside theirs.",
    section="5.4",
    kind="table",
    run=_burst,
    draw=_burst_table,
)

FIGURES = (SIGNALS_OF_TODAY, SIGNALS_DAMAGE, SIGNALS_BURSTS)
