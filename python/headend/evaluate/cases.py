"""The cases of an evaluation, as `cases.toml` declares them, and the scenario that each of their points is."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from headend import _native

Edition = Literal["quick", "full", "live"]

PACKET_BYTES = 1500
PAYLOAD = 1448 / PACKET_BYTES
"""Payload of a full packet with timestamps, over its length."""
SOCKET_BUFFER = "64MB"
"""Large enough that no window is the receiver's."""
JITTER_US = 50.0
"""The most that a host's processor takes for a packet, less on lines so fast that it would be their limit: without it,
phases decide which packets are dropped."""
CABLE_S = 0.0001
"""The cable of a DOCSIS line, one way."""
SUBJECT = "subject"
"""Stands for what is evaluated where `cases.toml` names a control."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is tried and measured, at each of its points."""

    id: str
    sections: tuple[str, ...]
    """Of RFC 9743."""
    title: str
    why: str
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    """[base] with what the case changes: `line`, `flows`, `receiver`, and the times."""
    points: tuple[Point, ...]
    runs: int | None
    """If not as many as other cases have."""

    @property
    def x(self) -> str:
        """The axis that varies within a group of points, if it is a number's."""
        point = self.points[0]
        return next((path for path, value in point.values.items() if isinstance(value, float | int)), "")


@dataclass(frozen=True, slots=True)
class Point:
    """What one point of a case sets: values by path, and the words for them."""

    values: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def text(self) -> str:
        """The point in words; empty for a case that varies nothing."""
        return self.label or ", ".join(worded(path, value) for path, value in self.values.items())


def worded(path: str, value: Any) -> str:
    """A value of an axis, as a table has it."""
    name = path.rpartition(".")[2]
    if name == "count":
        return f"{value} flow" if value == 1 else f"{value} flows"
    if isinstance(value, float):
        value = f"{value:g}"
    before, after = _WORDS.get(name, ("", ""))
    return f"{before}{value}{after}"


_WORDS = {
    "buffer_bdp": ("", " BDP"),
    "rate_mbit": ("", " Mbit/s"),
    "back_mbit": ("back ", " Mbit/s"),
    "rtt_ms": ("", " ms"),
    "rtt_times": ("", " times"),
    "law": ("beside ", ""),
    "loss": ("", " lost"),
    "jitter": ("up to ", ""),
    "reorder_by": ("by ", ""),
    "bucket": ("bucket ", ""),
}


@cache
def declared() -> Mapping[str, Any]:
    """The file."""
    return tomllib.loads(resources.files("headend.evaluate").joinpath("cases.toml").read_text(encoding="utf-8"))


def cases(edition: Edition) -> list[Case]:
    """All cases of an edition, in order; in real time only some."""
    return [_case(table, edition) for table in declared()["case"] if edition != "live" or "live" in table]


def _case(table: Mapping[str, Any], edition: Edition) -> Case:
    base = {**declared()["base"], **table}
    prefix = "" if edition == "full" else f"{edition}_"
    settings: dict[str, Any] = {
        "line": {**declared()["base"]["line"], **table.get("line", {})},
        "flows": {"own": {}, **table.get("flows", {})},
        "receiver": table.get("receiver", {}),
        "seconds": base[f"{prefix}seconds"],
        "warm_s": base["live_warm_s"] if edition == "live" else base["warm_s"],
        "interval_ms": base["interval_ms"],
        "stagger_s": base.get("stagger_s", 1.0),
    }
    return Case(
        id=table["id"],
        sections=tuple(table["sections"]),
        title=table["title"],
        why=table["why"],
        metrics=tuple(table["metrics"]),
        settings=settings,
        points=tuple(_points(table, table.get(edition, {}))),
        runs=table.get("runs") if edition == "full" else None,
    )


def _points(table: Mapping[str, Any], fewer: Mapping[str, Sequence[Any]]) -> Iterator[Point]:
    for one in table.get("points", ()):
        yield Point({path: value for path, value in one.items() if path != "label"}, one["label"])
    axes = {path: list(fewer.get(path, values)) for path, values in table.get("axes", {}).items()}
    if "line.discipline" in axes:
        axes["line.discipline"] = disciplines()
    if axes or "points" not in table:
        for values in itertools.product(*axes.values()):
            yield Point(dict(zip(axes, values, strict=True)))


def disciplines() -> list[str]:
    """The queue disciplines that can be tried with their defaults: those that a circuit's routers have cannot."""
    return [name for name, _, required in _native.queues() if not required]


@dataclass(frozen=True, slots=True)
class Setup:
    """A point of a case with a control in the place of `subject`: what a scenario is made of, and a metric looks at."""

    line: Mapping[str, Any]
    flows: Mapping[str, Mapping[str, Any]]
    receiver: Mapping[str, Any]
    seconds: float
    warm_s: float
    interval_ms: int
    stagger_s: float
    law: str
    tcp: Mapping[str, Any] = field(default_factory=dict)
    """What else the hosts of the subject have, such as `fast_alpha`."""

    @staticmethod
    def of(case: Case, point: Point, law: str, tcp: Mapping[str, Any] | None = None) -> Setup:
        """The case at a point."""
        settings = deepcopy(dict(case.settings))
        for path, value in point.values.items():
            *tables, name = path.split(".")
            into = settings
            for table in tables:
                into = into[table]
            into[name] = value
        return Setup(**settings, law=law, tcp=tcp or {})

    @property
    def rate_mbit(self) -> float:
        """The line's rate, from near to far; the mean, if it changes in turns."""
        cycle = self.line.get("rate_cycle_mbit")
        return sum(cycle) / len(cycle) if cycle else float(self.line["rate_mbit"])

    @property
    def rtt_s(self) -> float:
        """The round trip without load."""
        return float(self.line["rtt_ms"]) / 1e3

    @property
    def loss_mean(self) -> float:
        """The part of all packets that the medium loses."""
        loss = self.line.get("loss", "0%")
        given = self.line.get("loss_mean")
        return float(given) if given is not None else _native.quantity(loss) or 0.0

    @property
    def packets(self) -> int:
        """The queue's length."""
        if "buffer_packets" in self.line:
            return int(self.line["buffer_packets"])
        return _queue(float(self.line["rate_mbit"]), self.rtt_s, float(self.line["buffer_bdp"]))

    def law_of(self, flow: str) -> str:
        """The control of a flow's sender."""
        named = self.flows[flow].get("law", SUBJECT)
        return self.law if named == SUBJECT else str(named)

    def with_subject(self, law: str) -> Setup:
        """The same with another control in the subject's place, as it is by itself."""
        return Setup(
            self.line,
            self.flows,
            self.receiver,
            self.seconds,
            self.warm_s,
            self.interval_ms,
            self.stagger_s,
            law,
        )

    def scenario(self) -> dict[str, Any]:
        """The scenario, for `headend.run`: hosts of their own for each flow on both sides of the line."""
        wide = f"{max(1000.0, 20 * self.rate_mbit):g}Mbit/s"
        jitter = f"{min(JITTER_US, 15000 / self.rate_mbit):.0f}us"
        nodes: dict[str, Any] = {"near": {"kind": "router"}, "far": {"kind": "router"}}
        links: dict[str, Any] = {"line": self._line()}
        flows: dict[str, Any] = {}
        for name, table in self.flows.items():
            given = dict(table)
            law, reverse = self.law_of(name), given.pop("reverse", False)
            given.pop("law", None)
            start, times = given.pop("start_s", None), given.pop("rtt_times", 1)
            tcp: dict[str, Any] = {"socket_buffer": SOCKET_BUFFER}
            if law != "none":
                tcp["controller"] = law
            if law == "cubic":
                tcp["hystart"] = "classic"
            if table.get("law", SUBJECT) == SUBJECT:
                tcp |= self.tcp
            more = {"delay": f"{(times - 1) * self.rtt_s / 2 * 1e6:.0f}us"} if times != 1 else {}
            sides = ("far", "near") if reverse else ("near", "far")
            sender, receiver = f"{name}-from", f"{name}-to"
            nodes[sender] = {"personality": "linux", "tcp": tcp}
            nodes[receiver] = {"personality": "linux", "tcp": {"socket_buffer": SOCKET_BUFFER, **self.receiver}}
            links[sender] = {"between": [sender, sides[0]], "rate": wide, "processing": jitter, **more}
            links[receiver] = {"between": [sides[1], receiver], "rate": wide}
            if self.line.get("kind", "plain") != "plain":
                # A cable is short: the way goes on behind it.
                links[receiver]["delay"] = f"{(self.rtt_s / 2 - CABLE_S) * 1e6:.0f}us"
            if "sizes" in given and isinstance(given["sizes"], str):
                given["sizes"] = [given["sizes"]]
            begin = {"stagger": f"{self.stagger_s:g}s"} if start is None else {"start": f"{start:g}s"}
            flows[name] = {"from": sender, "to": receiver, **begin, **given}
        scenario = {
            "title": "Evaluation",
            "duration": f"{self.seconds:g}s",
            "interval": f"{self.interval_ms}ms",
            "nodes": nodes,
            "links": links,
            "flows": flows,
        }
        if "tunnel" in self.line:
            scenario["circuits"] = self._tunnel(nodes, links)
        return scenario

    def _line(self) -> dict[str, Any]:
        line, kind = self.line, self.line.get("kind", "plain")
        delay = f"{self.rtt_s / 2 * 1e6:.0f}us"
        cable = f"{CABLE_S * 1e6:.0f}us"
        if kind == "policer":
            return {
                "kind": "docsis",
                "between": ["near", "far"],
                "delay": cable,
                "channel": {"down": f"{100 * self.rate_mbit:g}Mbit/s", "access": "free", "symbols": 2_560_000},
                "modem": {
                    "down_rate": f"{self.rate_mbit:g}Mbit/s",
                    "down_burst": line["bucket"],
                    "down_delay_max": "0s",
                },
            }
        if kind == "cable-up":
            # The headend's side comes first, and the data go up.
            modem = {"up_rate": f"{self.rate_mbit:g}Mbit/s", "up_buffer": line["buffer_size"]}
            return {"kind": "docsis", "between": ["far", "near"], "delay": cable, "modem": modem}
        back_mbit = float(line.get("back_mbit", self.rate_mbit))
        back: dict[str, Any] = {"rate": f"{back_mbit:g}Mbit/s", "loss": "0%", "jitter": "0s", "reorder": "0%"}
        back["queue"] = (
            f"{_queue(back_mbit, self.rtt_s, float(line['buffer_bdp']))} packets"
            if any(flow.get("reverse") for flow in self.flows.values())
            else "unlimited"
        )
        if not any(flow.get("reverse") for flow in self.flows.values()):
            back["rate"] = f"{max(1000.0, 20 * self.rate_mbit):g}Mbit/s"
        table: dict[str, Any] = {
            "between": ["near", "far"],
            "rate": self._rate(),
            "delay": delay,
            "queue": self._queue(),
            "back": back,
        }
        if "loss" in line:
            table["loss"] = self._loss()
        table |= {name: line[name] for name in _PASSED_ON if name in line}
        return table

    def _rate(self) -> Any:
        line = self.line
        if "rate_steps" in line:
            steps = [[0.0, line["rate_mbit"]], *line["rate_steps"]]
        elif "rate_cycle_mbit" in line:
            cycle, each = line["rate_cycle_mbit"], line["rate_cycle_s"]
            steps = [[each * i, cycle[i % len(cycle)]] for i in range(max(1, int(self.seconds / each)))]
        else:
            return f"{self.rate_mbit:g}Mbit/s"
        return [[f"{at:g}s", f"{rate:g}Mbit/s"] for at, rate in steps]

    def _loss(self) -> Any:
        line = self.line
        if "loss_from_s" not in line:
            return line["loss"]
        steps = [["0s", "0%"], [f"{line['loss_from_s']:g}s", line["loss"]]]
        return steps + ([[f"{line['loss_to_s']:g}s", "0%"]] if "loss_to_s" in line else [])

    def _queue(self) -> Any:
        buffer = f"{self.packets} packets"
        discipline = self.line.get("discipline")
        return buffer if discipline is None else {"model": discipline, "buffer": buffer}

    def _tunnel(self, nodes: dict[str, Any], links: dict[str, Any]) -> dict[str, Any]:
        """A circuit over the line, whose ends are not the line's: a circuit's packets queue before it like others."""
        for end in ("near", "far"):
            for link in links.values():
                if link["between"] != ["near", "far"]:
                    link["between"] = [f"{end}-end" if node == end else node for node in link["between"]]
        wide = f"{max(1000.0, 20 * self.rate_mbit):g}Mbit/s"
        for end in ("near", "far"):
            nodes[f"{end}-end"] = {"kind": "router"}
            links[f"{end}-end"] = {"between": [f"{end}-end", end], "rate": wide}
        circuit = {"implementation": self.line["tunnel"], "personality": "linux"}
        return {
            "there": {"from": "near-end", "to": "far-end", **circuit},
            "back": {"from": "far-end", "to": "near-end", **circuit},
        }


_PASSED_ON = ("jitter", "reorder", "reorder_by", "detour", "detour_start", "detour_end")


def _queue(rate_mbit: float, rtt_s: float, bdp: float) -> int:
    return max(2, round(rate_mbit * 1e6 * rtt_s / 8 / PACKET_BYTES * bdp))
