"""Scenarios drawn at random, for which nobody has tuned anything: the simulator beside the kernel, all flows and each.

The kernel's own spread from run to run is the yardstick: it differs from itself, because the hosts' small delays vary.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

CONTROLLERS = ("reno", "cubic", "bbr")
DURATION_S, RUNS = 8, 3
CLOSE = 15.0
"""Per cent."""


def scenario(draw: random.Random, number: int, seed: int, controller: str | None = None) -> str:
    """One of them, as TOML: a bottleneck, and one to four flows of a controller that begin at any times.

    The controller is drawn unless it is given; all else is drawn alike either way.
    """
    rate = 10 ** draw.uniform(0, 1.7)
    delay_ms = round(draw.uniform(2, 100), 1)
    queue = max(8, round(rate * 1e6 * 2 * delay_ms / 1e3 / 8 / 1500 * draw.uniform(0.5, 3)))
    loss = draw.choice((0, 0, 0.1, 0.5, 1, 3))
    flows = draw.randint(1, 4)
    lines = [
        f'title = "draw {number} of seed {seed}: {rate:.2f} Mbit/s, {2 * delay_ms:g} ms, {queue} packets, {loss}%"',
        f'seed = {seed + number}\nruns = {RUNS}\nduration = "{DURATION_S}s"',
        '[nodes.server]\npersonality = "linux"\n[nodes.edge]\nkind = "router"\n[nodes.client]\npersonality = "linux"',
        f'[links.core]\nbetween = ["server", "edge"]\nrate = "1Gbit/s"\ndelay = "{delay_ms / 2:g}ms"',
        f'[links.line]\nbetween = ["edge", "client"]\nrate = "{rate:.3f}Mbit/s"\ndelay = "{delay_ms / 2:g}ms"',
        f'queue = "{queue} packets"\nloss = "{loss}%"\nback = {{ queue = "unlimited", loss = "0%" }}',
    ]
    any_controller = draw.choice(CONTROLLERS)
    lines[2] = lines[2].replace(
        '[nodes.server]\npersonality = "linux"',
        f'[nodes.server]\npersonality = "linux"\ntcp = {{ controller = "{controller or any_controller}" }}',
    )
    for flow in range(flows):
        start = 0 if flow == 0 else round(draw.uniform(0, 2), 2)
        lines.append(f'[flows.f{flow}]\nfrom = "server"\nto = "client"\nstart = "{start}s"')
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One scenario's outcome, in per cent of the kernel's mean."""

    title: str
    aggregate: float
    """What the simulator's goodput of all flows is off."""
    spread: float
    """The kernel's own, of all flows, from its least run to its best."""
    flows: tuple[float, ...]
    """What each flow's is off."""
    flow_spread: float
    """The kernel's own, of the flow of which it is widest."""


def goodputs(rows: Iterable[dict[str, str]]) -> dict[int, dict[str, float]]:
    """By run and flow, in bit/s."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in rows:
        key = f"{row['flow']}/{row['instance']}"
        found[int(row["run"])][key] = float(row["goodput_bps"] or "0")
    return found


def judge(title: str, linux: dict[int, dict[str, float]], sim: dict[int, dict[str, float]]) -> Drawn:
    """Sets the two sides of a scenario beside each other."""

    def off(name: str | None) -> tuple[float, float]:
        values = [[run[name] if name else sum(run.values()) for run in side.values()] for side in (linux, sim)]
        kernel = mean(values[0])
        if kernel == 0:
            return (0.0 if mean(values[1]) == 0 else float("inf")), 0.0
        return 100 * (mean(values[1]) / kernel - 1), 100 * (max(values[0]) - min(values[0])) / kernel

    names = sorted(next(iter(linux.values())))
    each = [off(name) for name in names]
    aggregate, spread = off(None)
    return Drawn(title, aggregate, spread, tuple(its for its, _ in each), max(its for _, its in each))


def read(title: str, folder: Path) -> Drawn:
    """The outcome that `headend compare --out` has left in a folder."""
    sides = []
    for side in ("linux", "sim"):
        with (folder / f"{side}-flows.csv").open(encoding="utf-8", newline="") as file:
            sides.append(goodputs(csv.DictReader(file)))
    return judge(title, *sides)


def table(drawn: list[Drawn]) -> list[str]:
    """A row for each, and what they come to."""
    lines = [
        "| scenario | all flows [%] | Linux's own spread [%] | worst flow [%] | widest of Linux's flows [%] |",
        "|---|---:|---:|---:|---:|",
    ]
    for one in drawn:
        worst = max(one.flows, key=abs)
        lines.append(
            f"| {one.title} | {one.aggregate:+.1f} | {one.spread:.1f} | {worst:+.1f} | {one.flow_spread:.1f} |"
        )
    if drawn:
        flows = [off for one in drawn for off in one.flows]
        spread, flow_spread = median(one.spread for one in drawn), median(one.flow_spread for one in drawn)
        lines += [
            "",
            f"All flows together: {_agreement([one.aggregate for one in drawn])}. Flow by flow: {_agreement(flows)}. "
            f"Linux's own runs of a scenario differ by {spread:.1f}% in the median, and of the flow of which that is "
            f"widest by {flow_spread:.1f}%.",
        ]
    return lines


def _agreement(differences: list[float]) -> str:
    sizes = [abs(difference) for difference in differences]
    within = sum(size <= CLOSE for size in sizes)
    return f"{median(sizes):.1f}% in the median, {max(sizes):.1f}% at most, {within} of {len(sizes)} within {CLOSE:g}%"
