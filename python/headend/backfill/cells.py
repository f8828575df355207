"""Scenarios that a controller is judged in: a line, what it loses and queues, and who else is on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headend
from headend import lab
from headend.results import Result

PAYLOAD = 1448 / 1500
"""Payload of a full packet with timestamps, over its length."""
BUFFER, LIVE_BUFFER = "64MB", "4MB"
"""More than any window needs; between real hosts less: senders fill it, and the kernel bounds the memory of all."""
JITTER_US = 50.0
"""The most that a host's processor takes for a packet, less on lines so fast that it would be their limit: without it,
phases decide which packets are dropped."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A line and those who share it. A pair of hosts for each kind of rival."""

    law: str = "backfill"
    flows: int = 1
    """How many of the law's own there are."""
    rivals: tuple[tuple[str, int], ...] = ()
    """Controllers beside it, and how many of each."""
    short: bool = False
    """Short flows beside it: 20 kB to 300 kB each, half a second apart, from eight servers on CUBIC."""
    rate_mbit: float = 25.0
    rtt_ms: float = 20.0
    bdp: float = 1.0
    """The queue, as a part of rate times round trip; at least two packets."""
    loss: float = 0.0
    """Packets lost, in percent."""
    where: str = "line"
    """Where they are lost: on the shared `line`, `before` it on the law's own link, or `behind` it."""
    queue: Any = None
    """A queue that is not drop-tail."""
    link: Mapping[str, Any] = field(default_factory=dict)
    """What else the line has."""
    receiver: Mapping[str, Any] = field(default_factory=dict)
    """What else the law's receiver has."""
    without: str = "none"
    """The guard that is switched off."""
    buffer: str = BUFFER
    """The sockets' buffers."""
    jitter_us: float = JITTER_US
    """What a host's processor takes for a packet, at most."""
    seconds: float = 120.0
    interval: bool = False

    @property
    def packets(self) -> int:
        """The queue's length."""
        return max(2, round(self.rate_mbit * 1e6 * self.rtt_ms / 1e3 / 8 / 1500 * self.bdp))

    @property
    def payload_mbit(self) -> float:
        """What is left of the rate after headers and losses."""
        return self.rate_mbit * PAYLOAD * (1 - self.loss / 100)

    def scenario(self) -> dict[str, Any]:
        """The scenario, for `headend.run`."""
        wide = f"{max(1000.0, 20 * self.rate_mbit):g}Mbit/s"
        jitter = {"processing": f"{min(self.jitter_us, 15000 / self.rate_mbit):.0f}us"} if self.jitter_us else {}
        lost = {"loss": f"{self.loss:g}%"} if self.loss else {}
        line = {
            "between": ["near", "far"],
            "rate": f"{self.rate_mbit:g}Mbit/s",
            "delay": f"{self.rtt_ms / 2:g}ms",
            "queue": self.queue or f"{self.packets} packets",
            "back": {"rate": wide, "queue": "unlimited", "loss": "0%"},
        }
        line |= (lost if self.where == "line" else {}) | dict(self.link)
        nodes: dict[str, Any] = {"near": {"kind": "router"}, "far": {"kind": "router"}}
        links: dict[str, Any] = {"line": line}
        flows: dict[str, Any] = {}

        def pair(name: str, controller: str, receiver: Mapping[str, Any], **flow: Any) -> None:
            tcp: dict[str, Any] = {"controller": controller, "socket_buffer": self.buffer}
            if controller == "cubic":
                tcp["hystart"] = "classic"
            if controller == "backfill":
                tcp["backfill_without"] = self.without
            nodes[f"{name}-from"] = {"personality": "linux", "tcp": tcp}
            nodes[f"{name}-to"] = {"personality": "linux", "tcp": {"socket_buffer": self.buffer, **receiver}}
            links[f"{name}-from"] = {"between": [f"{name}-from", "near"], "rate": wide} | jitter
            links[f"{name}-to"] = {"between": ["far", f"{name}-to"], "rate": wide}
            flows[name] = {"from": f"{name}-from", "to": f"{name}-to", "stagger": "1s"} | flow

        pair("law", self.law, self.receiver, count=self.flows)
        for number, (controller, count) in enumerate(self.rivals):
            pair(f"rival{number}", controller, {}, count=count)
        if self.short:
            sizes = ["20KB", "50KB", "100KB", "300KB"]
            pair("short", "cubic", {}, kind="requests", sizes=sizes, pause="500ms", count=8)
        for place, end in (("before", "law-from"), ("behind", "law-to")):
            if self.where == place:
                links[end] |= lost | {"back": {"loss": "0%"}}
        scenario = {
            "title": "Backfill",
            "duration": f"{self.seconds:g}s",
            "nodes": nodes,
            "links": links,
            "flows": flows,
        }
        return scenario | ({"interval": "500ms"} if self.interval else {})

    def run(self, seed: int, runs: int, binary: Path | None = None) -> Outcome:
        """Run it, on one thread; with a headend command between real hosts, all runs at once, which takes root."""
        if binary is None:
            return Outcome(self, headend.run(self.scenario(), seed=seed, runs=runs, threads=1))
        scenario, trace = self.but(buffer=LIVE_BUFFER).scenario(), self.interval
        taken = lab.run(scenario, seed=seed, runs=runs, together=runs, accept_late=True, trace=trace, binary=binary)
        return Outcome(self, taken)

    def but(self, **changes: Any) -> Cell:
        """The same with these changes."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a cell: a value for each run in every array."""

    cell: Cell
    result: Result

    def mbit(self, flow: str) -> NDArray[np.float64]:
        """Goodput of all instances of a flow together."""
        rows = self.result.flows.where(flow=flow)
        return np.asarray(rows.by_run(rows["goodput_bps"]) / 1e6)

    @property
    def late(self) -> int:
        """Runs between real hosts in which the machine did not keep up with the links."""
        return sum(not run["kept_up"] for run in json.loads(self.result.meta.get("lab", "[]")))

    @property
    def rivals(self) -> NDArray[np.float64]:
        """Goodput of all rivals together."""
        return np.asarray(np.sum([self.mbit(f"rival{n}") for n in range(len(self.cell.rivals))], axis=0))

    @property
    def used(self) -> NDArray[np.float64]:
        """Goodput of all that are not short, of what loss leaves."""
        rivals = self.rivals if self.cell.rivals else 0.0
        return (self.mbit("law") + rivals) / self.cell.payload_mbit

    @property
    def resent(self) -> NDArray[np.float64]:
        """What part of the law's segments were sent again."""
        rows = self.result.flows.where(flow="law")
        return np.asarray(rows.by_run(rows["retransmits"]) / rows.by_run(rows["segments_sent"]))

    @property
    def share(self) -> NDArray[np.float64]:
        """What one flow of the law has, of what all that are not short have."""
        law = self.mbit("law")
        return law / (law + self.rivals) / self.cell.flows

    @property
    def jain(self) -> NDArray[np.float64]:
        """Jain's index of the law's flows (RFC 5166 s2.3.1 has it as a measure of fairness)."""
        rows = self.result.flows.where(flow="law")
        goodput = rows["goodput_bps"].reshape(-1, self.cell.flows)
        return np.asarray(goodput.sum(axis=1) ** 2 / (self.cell.flows * (goodput**2).sum(axis=1)))

    @property
    def queue_ms(self) -> NDArray[np.float64]:
        """The mean time that a packet waits for the line, the one in front not counted."""
        sojourn = self.result.links.where(link="line", direction="near->far")["sojourn_mean_s"]
        return np.asarray(sojourn * 1e3 - 12.0 / self.cell.rate_mbit)

    @property
    def short_s(self) -> float:
        """The median time of a short flow."""
        return float(np.nanmedian(self.result.flows.where(flow="short")["transfer_s"]))

    def series(self) -> NDArray[np.float64]:
        """The law's rate over what loss leaves, every half second: a row for each run."""
        if self.result.trace is not None:
            # Between real hosts the sender's own word of what has arrived.
            rows = self.result.trace.where(flow="law")
            ends = np.arange(0.0, self.cell.seconds + 0.25, 0.5)
            each = [rows.where(run=run) for run in np.unique(rows["run"])]
            arrived = np.array([np.interp(ends, run["time_s"], run["una_bytes"], left=0.0) for run in each])
            mbit = np.diff(arrived) * 8 / 0.5 / 1e6
        else:
            rows = self.result.table("intervals").where(kind="flow", name="law")
            runs = len(np.unique(rows["run"]))
            mbit = rows["bytes"].reshape(runs, -1) * 8 / 0.5 / 1e6
        return mbit / (self.cell.rate_mbit * (1 - self.cell.loss / 100))
