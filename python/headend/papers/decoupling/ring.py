"""Section 3.7.3: five sites on a ring. Tables 1 to 3."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion, less_than, more_than, number
from headend.papers.figure import load, scenarios
from headend.papers.model import Criterion, FigureResult
from headend.papers.stats import Estimate
from headend.results import Result

if TYPE_CHECKING:
    from headend.papers.runner import Runner

SECONDS = 300.0
SMALL_FILE = 8_000
"""Bytes of the transfers whose delays the tables show."""
MORE = ("third", "fourth")
"""The flows that make further bottlenecks, in no trunk."""


@dataclass(frozen=True, slots=True)
class Case:
    """Who sends, and whether each site has a trunk."""

    name: str
    flows: tuple[str, ...]
    trunks: bool
    counts: tuple[tuple[str, int], ...] = ()
    drops: str = "fair"
    """What a trunk's sender drops."""
    pause: str = "0s"
    """Of a client between two requests."""

    def scenario(self) -> Mapping[str, Any]:
        """The ring with these flows. Without trunks its routers are of the usual kind."""
        ring = copy.deepcopy(dict(load(scenarios("decoupling") / "tt3.toml")))
        ring["flows"] = {name: flow for name, flow in ring["flows"].items() if name in self.flows}
        ring["circuits"] = {name: one for name, one in ring["circuits"].items() if self.trunks and name in self.flows}
        for circuit in ring["circuits"].values():
            circuit["drops"] = self.drops
        for name, count in self.counts:
            ring["flows"][name]["count"] = count
        if "small" in ring["flows"]:
            ring["flows"]["small"]["pause"] = self.pause
        if not self.trunks:
            for link in ring["links"].values():
                if "model" in link.get("queue", ""):
                    link["queue"] = "50 packets"
        return ring


Results = Mapping[str, Result]
"""What was run, by the name of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTable:
    """A table of the section."""

    id: str
    title: str
    caption: str
    cases: Sequence[Case]
    row: Callable[[Result], str]
    head: str
    claims: Sequence[Claim[Results]]
    notes: Sequence[str] = ()
    section: str = "3.7.3"
    runs_quick: int = 3
    runs_full: int = 10

    def produce(self, runner: Runner) -> FigureResult:
        """Simulate each case, fill the table, judge the claims."""
        runs = runner.runs_asked or (self.runs_quick if runner.edition == "quick" else self.runs_full)
        results = {case.name: self._run(runner, case, runs) for case in self.cases}
        lines = [self.head, "|".join(["", *["---"] * (self.head.count("|") - 1), ""])]
        lines += [f"| {name} | {self.row(result)} |" for name, result in results.items()]
        return FigureResult(
            id=self.id,
            title=self.title,
            caption=self.caption,
            section=self.section,
            kind="table",
            text="\n".join(lines) + "\n",
            claims=[claim.judge(results) for claim in self.claims],
            command=runner.command(self.id),
            runs=runs,
            seed=runner.seed,
            notes=list(self.notes),
        )

    def _run(self, runner: Runner, case: Case, runs: int) -> Result:
        label = f"{self.id}: {case.name}"
        key = (case.flows, case.trunks, case.counts, case.drops, case.pause, runs)
        return runner.once(key, lambda: runner.tables(case.scenario(), {}, label, runs))


def _by_run(result: Result, weights: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    run = result.flows["run"].astype(np.int64)
    sums = np.bincount(run[chosen], weights=weights[chosen], minlength=int(run.max()) + 1)
    return sums.astype(np.float64)


def small_kbytes(result: Result) -> NDArray[np.float64]:
    """What the clients fetched in each run [KB/s]."""
    done = (result.flows["flow"] == "small") & (result.flows["completed"] == 1)
    return _by_run(result, result.flows["bytes"] / 1e3 / SECONDS, done)


def delays_ms(result: Result) -> NDArray[np.float64]:
    """How long each transfer of 8 KB took, all runs together [ms]."""
    flows = result.flows
    chosen = (flows["flow"] == "small") & (flows["bytes"] == SMALL_FILE) & (flows["completed"] == 1)
    return np.asarray(flows["transfer_s"][chosen] * 1e3)


def utilisation(result: Result, site: int) -> NDArray[np.float64]:
    """Of the link from a site to the ring, in each run [%]."""
    return np.asarray(100 * result.links.where(link=f"e{site}r{site}", direction=f"e{site}->r{site}")["utilisation"])


def user_drops(results: Results) -> int:
    """Users' packets that routers dropped in all cases."""
    return int(sum(result.links["dropped_user"].sum() for result in results.values()))


def _delay_row(result: Result) -> str:
    delays = delays_ms(result)
    return (
        f"{small_kbytes(result).mean():.1f} | {delays.mean():.1f} | {delays.std():.1f} | {delays.max():.0f} | "
        f"{delays.size}"
    )


def _of_runs(result: Result, of: Callable[[NDArray[np.float64]], np.floating[Any]]) -> NDArray[np.float64]:
    """A statistic of the delays of each run: transfers of one run share a queue, so a run is one observation."""
    flows = result.flows
    chosen = (flows["flow"] == "small") & (flows["bytes"] == SMALL_FILE) & (flows["completed"] == 1)
    run, delay = flows["run"][chosen], flows["transfer_s"][chosen] * 1e3
    return np.array([of(delay[run == number]) for number in np.unique(run)])


def _mean_ratio(above: Result, below: Result) -> Estimate:
    return stats.ratio_of_means(small_kbytes(above), small_kbytes(below))


def _spread_ratio(above: Result, below: Result) -> Estimate:
    return stats.ratio_of_means(_of_runs(above, np.std), _of_runs(below, np.std))


def _delay_ratio(above: Result, below: Result) -> Estimate:
    return stats.ratio_of_means(_of_runs(above, np.mean), _of_runs(below, np.mean))


Rows = Sequence[tuple[str, str, str, float, float, float]]
"""Of each pair of cases, what is published as ratios: throughput, mean delay, deviation of delays."""


def _directions(rows: Rows) -> Callable[[Results], list[Criterion]]:
    def measure(results: Results) -> list[Criterion]:
        criteria = []
        for what, above, below, *published in rows:
            pair = results[above], results[below]
            for quantity, ratio, value in (
                ("throughput", _mean_ratio, published[0]),
                ("mean delay", _delay_ratio, published[1]),
                ("deviation of delay", _spread_ratio, published[2]),
            ):
                accept: Range = more_than(1.0) if value > 1 else less_than(1.0)
                criteria.append(criterion(f"{what}, {quantity}", f"{value:.2f}", ratio(*pair), accept))
        return criteria

    return measure


def _table_reason(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = "; ".join(f"{c.what} {number(c.measured)} instead of {c.published}" for c in criteria if not c.holds)
    alone = results["(a)"]
    text = (
        f"{wrong}. On the testbed a transfer of 8 KB takes 452 ms when nobody else sends, here "
        f"{delays_ms(alone).mean():.0f} ms, in which ten clients fill the link "
        f"({small_kbytes(alone).mean():.0f} KB/s, published 380)."
    )
    if "(b), clients pause" in results:
        slow, trunk = results["(b), clients pause"], results["(c), clients pause"]
        text += (
            f" With a pause that makes the load of (a) the testbed's, (b) has {small_kbytes(slow).mean():.0f} KB/s and "
            f"(c) {small_kbytes(trunk).mean():.0f} KB/s, with mean delays of {delays_ms(slow).mean():.0f} and "
            f"{delays_ms(trunk).mean():.0f} ms."
        )
    return text


_DIRECTION = "The direction of each change; its size, as a ratio, stands beside the published one."
_NOTES = (
    "Delays are those of the transfers that ended, all runs together.",
    "The clients connect and ask, with one connection for each file; FTP's own connection is left out.",
)
_PAUSE = "340ms"
"""What the testbed's transfers of 8 KB take longer than ours without load: 452 ms against about 100."""

TT3A = RingTable(
    id="tt3a",
    title="Small transfers against large ones",
    caption="Table 1: ten clients alone (a), against ten greedy TCPs (b), in trunks (c), with more bottlenecks (d).",
    head="| case | KB/s | mean [ms] | SD [ms] | max [ms] | transfers |",
    row=_delay_row,
    cases=(
        Case("(a)", ("small",), False),
        Case("(b)", ("small", "greedy"), False),
        Case("(c)", ("small", "greedy"), True),
        Case("(d)", ("small", "greedy", *MORE), True),
        Case("(c), trunks drop at the tail", ("small", "greedy"), True, drops="tail"),
        Case("(a), clients pause", ("small",), False, pause=_PAUSE),
        Case("(b), clients pause", ("small", "greedy"), False, pause=_PAUSE),
        Case("(c), clients pause", ("small", "greedy"), True, pause=_PAUSE),
    ),
    claims=[
        Claim(
            id="decoupling.tt3a",
            measure=_directions(
                [
                    ("(b) over (a)", "(b)", "(a)", 0.13, 4.83, 12.6),
                    ("(c) over (b)", "(c)", "(b)", 4.31, 0.33, 0.14),
                    ("(d) over (c)", "(d)", "(c)", 0.94, 1.27, 0.68),
                ]
            ),
            reason=_table_reason,
            tolerance=_DIRECTION,
        )
    ],
    notes=_NOTES,
)

TT3B = RingTable(
    id="tt3b",
    title="Small transfers against datagrams",
    caption="Table 2: as Table 1, against packets of 1024 bytes that are sent for 10 ms of every 20.",
    head="| case | KB/s | mean [ms] | SD [ms] | max [ms] | transfers |",
    row=_delay_row,
    cases=(
        Case("(a)", ("small",), False),
        Case("(b)", ("small", "udp"), False),
        Case("(c)", ("small", "udp"), True),
        Case("(d)", ("small", "udp", *MORE), True),
    ),
    claims=[
        Claim(
            id="decoupling.tt3b",
            measure=_directions(
                [
                    ("(b) over (a)", "(b)", "(a)", 0.14, 5.63, 27.2),
                    ("(c) over (b)", "(c)", "(b)", 5.08, 0.20, 0.03),
                    ("(d) over (c)", "(d)", "(c)", 0.93, 1.31, 1.22),
                ]
            ),
            reason=lambda results, criteria: (
                f"{_table_reason(results, criteria)} The datagrams take half of the link here, and a buffer of 50 "
                "packets bridges each burst of ten: half of the link is left to the clients even without trunks."
            ),
            tolerance=_DIRECTION,
        )
    ],
    notes=_NOTES,
)


def _site_row(result: Result) -> str:
    return f"{utilisation(result, 2).mean():.1f} | {utilisation(result, 3).mean():.1f}"


def _imbalance(result: Result) -> Estimate:
    return stats.mean(utilisation(result, 3) / utilisation(result, 2))


def _sites(results: Results) -> list[Criterion]:
    criteria = []
    for pair, without, trunks in (("5/15", 68.77 / 25.78, 43.35 / 48.04), ("15/45", 85.09 / 4.62, 46.14 / 47.29)):
        for case, published, accept in (
            (f"{pair} without trunks", without, more_than(1.5)),
            (f"{pair} with trunks", trunks, Range(0.5, 1.5)),
        ):
            criteria.append(
                criterion(f"{case}, node 3 over node 2", f"{published:.2f}", _imbalance(results[case]), accept)
            )
    return criteria


FEW, MANY = ("few", "many", *MORE), (("few", 15), ("many", 45))

TT3C = RingTable(
    id="tt3c",
    title="A small site against a large one",
    caption="Table 3: utilisation of the links from node 2 and node 3 to the ring.",
    head="| TCPs at node 2 and 3 | node 2 [%] | node 3 [%] |",
    row=_site_row,
    cases=(
        Case("5/15 without trunks", FEW, False),
        Case("5/15 with trunks", FEW, True),
        Case("15/45 without trunks", FEW, False, MANY),
        Case("15/45 with trunks", FEW, True, MANY),
    ),
    claims=[
        Claim(
            id="decoupling.tt3c",
            measure=_sites,
            reason=lambda results, criteria: (
                "; ".join(f"{c.what} {number(c.measured)}" for c in criteria if not c.holds)
                + f". Node 3's trunk meets the two further TCPs at one more bottleneck than node 2's, and gets "
                f"{utilisation(results['5/15 with trunks'], 3).mean():.0f}% where node 2's gets "
                f"{utilisation(results['5/15 with trunks'], 2).mean():.0f}%."
            ),
            tolerance="Without trunks node 3 has more than 1.5 times what node 2 has; with them 0.5 to 1.5 times.",
        )
    ],
)

FIGURES = (TT3A, TT3B, TT3C)
