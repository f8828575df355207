"""Sections 3.7.2 and 3.7.3: who gets what of a network without trunks and with them. Common to TT2 and TT3."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Range, criterion, less_than, more_than
from headend.papers.figure import Drawn, Figure, markdown
from headend.papers.model import Criterion, Kind
from headend.papers.runner import Runner, load, scenarios
from headend.papers.stats import Estimate
from headend.results import Result

SMALL_FILE = 8_000
"""Bytes of the transfers whose delays the tables show."""

Scenario = dict[str, Any]


def _answer(scenario: Scenario) -> None:
    scenario["flows"].get("small", {}).update(answer_after="150ms", answer_spread="510ms")


def _processor(scenario: Scenario) -> None:
    for link in scenario["links"].values():
        link["processing"] = "250us"


def _paced_datagrams(scenario: Scenario) -> None:
    scenario["flows"]["udp"]["rate"] = "9600kbit/s"


def _tcp(**fields: Any) -> Callable[[Scenario], None]:
    def change(scenario: Scenario) -> None:
        for node in scenario["nodes"].values():
            if "tcp" in node:
                node["tcp"].update(fields)

    return change


PROPERTIES: Mapping[str, Callable[[Scenario], None]] = {
    "answer": _answer,
    "processor": _processor,
    "paced datagrams": _paced_datagrams,
    "clocks": _tcp(rto_heartbeat=True, delayed_ack_heartbeat=True, nagle=True),
    "one segment": _tcp(era_handshake_ack_opens_window=False),
    "512 bytes": _tcp(mss="512B"),
    "16 KB": _tcp(receive_buffer="16KB", send_buffer="16KB"),
}
"""What the testbed may have had that the scenarios have not."""

_RED = {"model": "red", "min": 20, "max": 60, "max_chance": "10%", "buffer": "200 packets"}
LEGACY: Mapping[str, Any] = {
    "RED": _RED,
    "RED, counts bytes": {**_RED, "counts": "bytes"},
    "FIFO, 50 packets": "50 packets",
    "FIFO, 75 KB": "75KB",
}
"""Queues of routers that do not know headers."""

TESTBED = ("answer", "processor")
"""Those without which its numbers do not come about, see `ring.TESTBED_TABLE`."""


@dataclass(frozen=True, slots=True)
class Case:
    """Who sends, and whether each site has a trunk."""

    name: str
    flows: tuple[str, ...]
    trunks: bool
    counts: tuple[tuple[str, int], ...] = ()
    drops: str = "fair"
    """What a trunk's sender drops."""
    properties: tuple[str, ...] = ()
    """Of the testbed, by name."""
    file: str = "tt3"
    legacy: str = ""
    """What the routers of the trunks have instead of a queue that drops headers first."""

    def scenario(self) -> Scenario:
        """The network with these flows. Without trunks its routers are of the usual kind."""
        network = copy.deepcopy(dict(load(scenarios("decoupling") / f"{self.file}.toml")))
        network["flows"] = {name: flow for name, flow in network["flows"].items() if name in self.flows}
        circuits = network["circuits"].items()
        network["circuits"] = {name: one for name, one in circuits if self.trunks and name in self.flows}
        for circuit in network["circuits"].values():
            circuit["drops"] = self.drops
        for name, count in self.counts:
            network["flows"][name]["count"] = count
        if self.legacy or not self.trunks:
            for link in network["links"].values():
                if "model" in link.get("queue", ""):
                    link["queue"] = LEGACY[self.legacy] if self.legacy else "50 packets"
        for name in self.properties:
            PROPERTIES[name](network)
        return network


Results = Mapping[str, Result]
"""What was run, by the name of the case."""
Delays = tuple[float, float, float, float]
"""KB/s, then mean, deviation and maximum of the delays of 8 KB [ms]: a row of the thesis's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionTable(Figure[Results]):
    """A table of the sections: a row for each case."""

    section: str = "3.7.3"
    kind: Kind = "table"
    cases: Sequence[Case]
    row: Callable[[Result], str]
    head: str
    published: Mapping[str, str] = field(default_factory=dict)
    """Rows of the thesis by the case that they follow."""
    runs_quick: int = 3
    runs_full: int = 10

    def runs(self, runner: Runner) -> int:
        """As asked, or as the edition says."""
        return runner.runs(self.runs_quick, self.runs_full)

    def data(self, runner: Runner) -> Results:
        """Each case."""
        return {case.name: self.run(runner, case, self.runs(runner)) for case in self.cases}

    def show(self, data: Results) -> Drawn:
        """A row for each, above what the thesis has."""
        rows = []
        for name, result in data.items():
            rows.append(f"| {name} | {self.row(result)} |")
            if name in self.published:
                rows.append(f"| {name}, published | {self.published[name]} |")
        return Drawn(text=markdown(self.head, rows))

    def run(self, runner: Runner, case: Case, runs: int) -> Result:
        """A case, run once for all tables that have it."""
        return runner.shared(case.scenario(), {}, f"{self.id}: {case.name}", runs)


def seconds(result: Result) -> float:
    """How long a run lasted."""
    return float(str(tomllib.loads(result.scenario)["duration"]).removesuffix("s"))


def _by_run(result: Result, weights: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    run = result.flows["run"].astype(np.int64)
    sums = np.bincount(run[chosen], weights=weights[chosen], minlength=int(run.max()) + 1)
    return sums.astype(np.float64)


def small_kbytes(result: Result) -> NDArray[np.float64]:
    """What the clients fetched in each run [KB/s]."""
    done = (result.flows["flow"] == "small") & (result.flows["completed"] == 1)
    return _by_run(result, result.flows["bytes"] / 1e3 / seconds(result), done)


def _small(result: Result, size: int) -> NDArray[np.bool_]:
    flows = result.flows
    return np.asarray((flows["flow"] == "small") & (flows["bytes"] == size) & (flows["completed"] == 1))


def delays_ms(result: Result, size: int = SMALL_FILE) -> NDArray[np.float64]:
    """How long each transfer of 8 KB took, all runs together [ms]."""
    return np.asarray(result.flows["transfer_s"][_small(result, size)] * 1e3)


def delays_of_runs(result: Result, of: Callable[[NDArray[np.float64]], Any]) -> NDArray[np.float64]:
    """A statistic of the delays of each run: transfers of one run share a queue, so a run is one observation."""
    chosen = _small(result, SMALL_FILE)
    run, delay = result.flows["run"][chosen], result.flows["transfer_s"][chosen] * 1e3
    return np.array([of(delay[run == number]) for number in np.unique(run)])


def user_drops(results: Results) -> int:
    """Users' packets that routers dropped in all cases."""
    return int(sum(result.links["dropped_user"].sum() for result in results.values()))


DELAY_HEAD = "| case | KB/s | mean [ms] | SD [ms] | max [ms] | transfers |"


def delay_row(result: Result) -> str:
    """Throughput, and delays of 8 KB."""
    delays = delays_ms(result)
    return (
        f"{small_kbytes(result).mean():.1f} | {delays.mean():.1f} | {delays.std():.1f} | {delays.max():.0f} | "
        f"{delays.size}"
    )


def published_row(row: Delays) -> str:
    """The same, as printed."""
    return " | ".join([*(f"{value:g}" for value in row), ""])


def _ratio(
    of: Callable[[Result], NDArray[np.float64]], column: int
) -> tuple[Callable[[Result, Result], Estimate], Callable[[Delays, Delays], float]]:
    return (
        lambda above, below: stats.ratio_of_means(of(above), of(below)),
        lambda above, below: above[column] / below[column],
    )


_QUANTITIES = {
    "throughput": _ratio(small_kbytes, 0),
    "mean delay": _ratio(lambda result: delays_of_runs(result, np.mean), 1),
    "deviation of delay": _ratio(lambda result: delays_of_runs(result, np.std), 2),
}


def directions(
    published: Mapping[str, Delays], pairs: Sequence[tuple[str, str]], suffix: str = "", *, judged: bool = True
) -> Callable[[Results], list[Criterion]]:
    """Whether each quantity of the first case of a pair lies on the published side of the second's."""

    def measure(results: Results) -> list[Criterion]:
        criteria = []
        for above, below in pairs:
            pair = results[above + suffix], results[below + suffix]
            for quantity, (ratio, printed) in _QUANTITIES.items():
                value = printed(published[above], published[below])
                accept: Range = more_than(1.0) if value > 1 else less_than(1.0)
                what = f"{above} over {below}{suffix}, {quantity}"
                criteria.append(criterion(what, f"{value:.2f}", ratio(*pair), accept, judged=judged))
        return criteria

    return measure


def sizes(
    published: Mapping[str, Delays], suffix: str, factor: float, *, judged: bool
) -> Callable[[Results], list[Criterion]]:
    """Whether throughput, mean and deviation of the delay of each case lie within a factor of the published ones.

    The largest delay, of which each run has one, stands beside.
    """

    def measure(results: Results) -> list[Criterion]:
        criteria = []
        for case, row in published.items():
            result = results[case + suffix]
            for what, unit, value, measured in (
                ("throughput", "KB/s", row[0], small_kbytes(result)),
                ("mean delay", "ms", row[1], delays_of_runs(result, np.mean)),
                ("deviation of delay", "ms", row[2], delays_of_runs(result, np.std)),
                ("largest delay", "ms", row[3], delays_of_runs(result, np.max)),
            ):
                accept = Range(value / factor, value * factor)
                estimate = stats.mean(measured)
                criteria.append(
                    criterion(
                        f"{case}{suffix}, {what}",
                        f"{value:g} {unit}",
                        estimate,
                        accept,
                        unit=unit,
                        judged=judged and what != "largest delay",
                    )
                )
        return criteria

    return measure
