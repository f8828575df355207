"""Cells beyond the goals: other lines, rates, queues and rivals, where the law was not tuned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headend
from headend.backfill.cells import JITTER_US, Cell
from headend.backfill.goals import Bench
from headend.papers import stats

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
PUBLISHED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "scenarios/docsis.toml, 3 Mbit/s down, others send": ("docsis.toml", "get", {}),
    "scenarios/hfc.toml, 1% loss": ("hfc.toml", "get", {"links.cable.down.loss": "1%"}),
    "scenarios/hfc.toml, 5% loss": ("hfc.toml", "get", {"links.cable.down.loss": "5%"}),
    "scenarios/handover.toml, 20, 2 and 20 Mbit/s": ("handover.toml", "get", {}),
    "scenarios/links/starlink.toml, rates, delays and losses recorded": ("links/starlink.toml", "get", {}),
    "scenarios/links/cellular.toml, rates and delays recorded": ("links/cellular.toml", "get", {}),
    "scenarios/links/cellular.toml, and 1% loss": ("links/cellular.toml", "get", {"links.radio.loss": "1%"}),
}
"""Cable, DOCSIS, satellite and mobile links that are published as examples."""

RED = {"model": "red", "min": 10, "max": 30, "max_chance": "10%", "buffer": "100 packets"}

Line = tuple[str, str, str]
"""A cell, the law, and CUBIC in its place."""


def _text(values: NDArray[np.float64], digits: int = 2) -> str:
    found = stats.mean(values)
    return f"{found.value:.{digits}f} ({found.lo:.{digits}f} to {found.hi:.{digits}f})"


def _shares(bench: Bench, name: str, cell: Cell) -> Line:
    def text(cell: Cell) -> str:
        outcome = bench.run(cell, 5)
        return f"{_text(outcome.share)}, all {outcome.used.mean():.2f}"

    return name, text(cell), text(cell.but(law="cubic"))


def alone(bench: Bench) -> Iterator[Line]:
    """Goodput alone over what loss leaves, and the queue: rates, round trips, queues, and kinds of damage."""
    ge = {"loss": {"model": "gilbert-elliott", "good_to_bad": "0.5%", "bad_to_good": "25%"}}
    cells = {
        "1 Mbit/s, 20 ms, 2%": Cell(rate_mbit=1, loss=2),
        "3 Mbit/s, 20 ms, 2%": Cell(rate_mbit=3, loss=2),
        "3 Mbit/s, 100 ms, 2%": Cell(rate_mbit=3, rtt_ms=100, loss=2),
        "100 Mbit/s, 5 ms, 2%": Cell(rate_mbit=100, rtt_ms=5, loss=2),
        "100 Mbit/s, 60 ms, 2%": Cell(rate_mbit=100, rtt_ms=60, loss=2, seconds=60),
        "500 Mbit/s, 20 ms, 1%": Cell(rate_mbit=500, rtt_ms=20, loss=1, seconds=30),
        "500 Mbit/s, 100 ms, 1%": Cell(rate_mbit=500, rtt_ms=100, loss=1, seconds=60),
        "25 Mbit/s, 300 ms, 1%": Cell(rtt_ms=300, loss=1),
        "25 Mbit/s, 60 ms, 0.05 BDP, 2%": Cell(rtt_ms=60, bdp=0.05, loss=2),
        "25 Mbit/s, 60 ms, 8 BDP, 2%": Cell(rtt_ms=60, bdp=8, loss=2),
        "25 Mbit/s, 60 ms, no damage": Cell(rtt_ms=60),
        "25 Mbit/s, 60 ms, 20%": Cell(rtt_ms=60, loss=20),
        "25 Mbit/s, 60 ms, 30%": Cell(rtt_ms=60, loss=30),
        "25 Mbit/s, 60 ms, bursts of 4 packets, 2%": Cell(rtt_ms=60, loss=2, link=ge),
        "25 Mbit/s, 60 ms, 2%, RED": Cell(rtt_ms=60, loss=2, queue=RED),
        "25 Mbit/s, 20 ms, 2%, an acknowledgement for 16": Cell(loss=2, receiver={"delayed_ack": 16}),
        "25 Mbit/s, 60 ms, 2%, an acknowledgement for 16": Cell(rtt_ms=60, loss=2, receiver={"delayed_ack": 16}),
        "25 Mbit/s, 60 ms, 2%, up to 0.8 ms for each acknowledgement on the way back": Cell(
            rtt_ms=60, loss=2, link={"back": {"rate": "1Gbit/s", "processing": "800us", "queue": "unlimited"}}
        ),
        "25, 8 and 25 Mbit/s, 60 ms, 2% (0.77 is all)": Cell(
            rtt_ms=60, loss=2, link={"rate": [["0s", "25Mbit/s"], ["40s", "8Mbit/s"], ["80s", "25Mbit/s"]]}
        ),
        "25 Mbit/s, 60 ms, then 120, then 60, 2%": Cell(
            rtt_ms=60, loss=2, link={"detour": "60ms", "detour_start": "40s", "detour_end": "80s"}
        ),
    }
    for name, cell in cells.items():

        def text(cell: Cell) -> str:
            outcome = bench.run(cell, 3)
            return f"{_text(outcome.used)}, {outcome.queue_ms.mean():.1f} ms"

        yield name, text(cell), text(cell.but(law="cubic"))


def beside(bench: Bench) -> Iterator[Line]:
    """Share of one flow, and what all of them use: other rivals, sizes, queues and places of damage."""
    one = (("cubic", 1),)
    cells = {
        "1 CUBIC, 1 Mbit/s, 40 ms": Cell(rate_mbit=1, rtt_ms=40, rivals=one),
        "1 CUBIC, 3 Mbit/s, 40 ms": Cell(rate_mbit=3, rtt_ms=40, rivals=one),
        "1 CUBIC, 100 Mbit/s, 5 ms": Cell(rate_mbit=100, rtt_ms=5, rivals=one),
        "1 CUBIC, 100 Mbit/s, 40 ms": Cell(rate_mbit=100, rtt_ms=40, rivals=one),
        "1 CUBIC, 300 Mbit/s, 40 ms": Cell(rate_mbit=300, rtt_ms=40, rivals=one),
        "1 CUBIC, 300 ms": Cell(rtt_ms=300, rivals=one),
        "1 CUBIC, 300 ms, 300 s": Cell(rtt_ms=300, rivals=one, seconds=300),
        "1 CUBIC, 60 ms, 0.05 BDP": Cell(rtt_ms=60, bdp=0.05, rivals=one),
        "1 CUBIC, 60 ms, 0.1 BDP": Cell(rtt_ms=60, bdp=0.1, rivals=one),
        "1 CUBIC, 60 ms, 4 BDP": Cell(rtt_ms=60, bdp=4, rivals=one),
        "1 CUBIC, 60 ms, 8 BDP": Cell(rtt_ms=60, bdp=8, rivals=one),
        "1 CUBIC, 60 ms, 8 BDP, 600 s": Cell(rtt_ms=60, bdp=8, rivals=one, seconds=600),
        "1 CUBIC, 60 ms, RED": Cell(rtt_ms=60, queue=RED, rivals=one),
        "1 CUBIC, 60 ms, an acknowledgement for 16": Cell(rtt_ms=60, rivals=one, receiver={"delayed_ack": 16}),
        "1 CUBIC, 60 ms, 2% before": Cell(rtt_ms=60, rivals=one, loss=2, where="before"),
        "1 CUBIC, 60 ms, 2% behind": Cell(rtt_ms=60, rivals=one, loss=2, where="behind"),
        "1 CUBIC, 60 ms, a way longer by 60 ms after 40 s": Cell(
            rtt_ms=60, rivals=one, link={"detour": "60ms", "detour_start": "40s"}
        ),
        "2 CUBICs, 60 ms": Cell(rtt_ms=60, rivals=(("cubic", 2),)),
        "16 CUBICs, 60 ms": Cell(rtt_ms=60, rivals=(("cubic", 16),)),
        "16 CUBICs, 100 Mbit/s, 60 ms, 300 s": Cell(rate_mbit=100, rtt_ms=60, rivals=(("cubic", 16),), seconds=300),
        "1 Reno, 60 ms": Cell(rtt_ms=60, rivals=(("reno", 1),)),
        "4 Renos, 60 ms": Cell(rtt_ms=60, rivals=(("reno", 4),)),
        "1 BBR, 60 ms": Cell(rtt_ms=60, rivals=(("bbr", 1),)),
        "1 BBR, 60 ms, 2%": Cell(rtt_ms=60, rivals=(("bbr", 1),), loss=2),
        "2 of its own and 2 CUBICs, 60 ms": Cell(rtt_ms=60, flows=2, rivals=(("cubic", 2),)),
        "4 of its own and 1 CUBIC, 60 ms": Cell(rtt_ms=60, flows=4, rivals=one),
    }
    for name, cell in cells.items():
        yield _shares(bench, name, cell)


def short(bench: Bench) -> Iterator[tuple[str, ...]]:
    """Alone before a queue of a few packets: goodput, and the part that was sent again."""
    benches = (bench, replace(bench, without="plateau"), replace(bench, law="cubic"), replace(bench, law="bbr"))
    even = [(25, 1, 0.0), (200, 1, 0.0), (200, 4, 0.0)]
    for rate, packets, jitter in [
        *((rate, packets, JITTER_US) for rate in (5, 25, 200) for packets in (1, 2, 4, 8)),
        *even,
    ]:
        cell = Cell(rate_mbit=rate, rtt_ms=60, queue=f"{packets} packets", jitter_us=jitter, seconds=60.0)
        outcomes = [one.run(cell, 3) for one in benches]
        found = (f"{_text(outcome.used)}, {100 * outcome.resent.mean():.1f}%" for outcome in outcomes)
        place = f"{rate} Mbit/s, {packets} packet{'s' if packets > 1 else ''}"
        yield place if jitter else f"{place}, hosts without jitter", *found


def networks(bench: Bench) -> Iterator[Line]:
    """Goodput in Mbit/s on other networks, and the median time of short flows beside it."""
    cell = Cell(rtt_ms=60, loss=1, short=True)

    def text(cell: Cell) -> str:
        outcome = bench.run(cell, 3)
        return f"{_text(outcome.mbit('law'))} Mbit/s, short flows {1e3 * outcome.short_s:.0f} ms"

    for name, one in {
        "short flows, 60 ms, 1%": cell,
        "short flows, 60 ms, no damage": cell.but(loss=0.0),
        "short flows, 60 ms, no damage, 0.25 BDP": cell.but(loss=0.0, bdp=0.25),
    }.items():
        yield name, text(one), text(one.but(law="cubic"))
    for name, (file, flow, settings) in PUBLISHED.items():

        def found(law: str, file: str = file, flow: str = flow, settings: Mapping[str, Any] = settings) -> str:
            chosen = {**settings, "nodes.server.personality": "linux", "nodes.server.tcp.controller": law}
            result = headend.run(SCENARIOS / file, set=chosen, seed=bench.seed, runs=min(bench.runs, 5), threads=1)
            rows = result.flows.where(flow=flow)
            return f"{_text(rows.by_run(rows['goodput_bps']) / 1e6)} Mbit/s"

        yield name, found(bench.law), found("cubic")
