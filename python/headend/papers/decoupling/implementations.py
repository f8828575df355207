"""Section 3.4: three implementations of a trunk, side by side. What users' packets meet in each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, at_most, criterion, exactly, less_than, more_than, number
from headend.papers.decoupling.protection import seconds
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion, Series
from headend.papers.runner import load, scenarios
from headend.results import Result

SCENARIO = "implementations"
STREAM, ENCAPSULATION, DECOUPLING = IMPLEMENTATIONS = ("byte-stream", "encapsulation", "decoupling")
"""In the order of the thesis."""
GREEDY = (1, 2, 4, 8, 16)
"""How many greedy TCPs there are beside the trunk."""
TABLE_GREEDY = 4
"""With how many the table is."""
SIZES = (64, 100, 200, 400, 700, 1000, 1300, 1448, 1449, 1500)
"""Lengths of users' packets: with a header of 52 bytes, 1448 is the last that fits a link."""
TRUNK_TCPS: Mapping[str, Mapping[str, Any]] = {
    "sack": {"personality": "sack", "tcp": {"timestamps": True}},
    "reno": {"personality": "bsd-reno-1996", "tcp": {"timestamps": True, "era": "bsd-4.4"}},
    "linux": {"personality": "linux", "tcp": {}},
}
"""Reno is the thesis's. One that repairs several losses at a time shows more of the trunk and less of itself."""
HEADER_DROP = {"model": "header-drop", "headers": 32, "buffer": "200KB", "unmarked": "header"}

Column = NDArray[np.float64]
Measure = Callable[[Result], Column]


@dataclass(frozen=True, slots=True)
class Case:
    """A trunk among others."""

    implementation: str
    greedy: int = TABLE_GREEDY
    header_drop: bool = False
    """The router drops header packets first, and takes any TCP's packets for such."""
    tcp: str = "sack"
    """The trunk's, by name."""
    size: int | None = None
    """The trunk is alone, and all its packets are so long, more than it can carry."""

    def scenario(self) -> dict[str, Any]:
        """The network with this trunk."""
        network = copy.deepcopy(dict(load(scenarios("decoupling") / f"{SCENARIO}.toml")))
        trunk = network["circuits"]["trunk"]
        trunk["implementation"] = self.implementation
        trunk.update(TRUNK_TCPS[self.tcp])
        if self.header_drop:
            network["links"]["ef"]["queue"] = dict(HEADER_DROP)
        flows = network["flows"]
        flows["greedy"]["count"] = self.greedy
        if self.size is not None:
            video = {**flows["video"], "rate": "12Mbit/s", "packet": f"{self.size}B"}
            network["flows"], trunk["flows"] = {"video": video}, ["video"]
            network["duration"] = "60s"
        return network


Results = Mapping[Case, Result]
"""What was run."""


def overhead(result: Result) -> Column:
    """Bytes that the trunk's ends sent, of users' bytes that it took from its queue, less those [%]."""
    table = result.table("circuits")
    sent = table["sent_bytes"] + table["answered_bytes"]
    return np.asarray(100 * (sent / table["controlled_bytes"] - 1))


def reordered(result: Result) -> Column:
    """Of users' packets that came through, those that one overtook that had entered later [%]."""
    table = result.table("circuits")
    return np.asarray(100 * table["reordered"] / table["passed"])


def fragmented(result: Result) -> Column:
    """Of the segments that held users' packets, those that left in fragments [%]."""
    table = result.table("circuits")
    return np.asarray(100 * table["fragmented"] / table["headers"])


def again(result: Result) -> Column:
    """Of the segments that held users' packets, those that were repetitions [%]."""
    table = result.table("circuits")
    return np.asarray(100 * table["header_retransmits"] / table["headers"])


def milliseconds(column: str) -> Measure:
    """A column of delays [ms]."""
    return lambda result: np.asarray(1e3 * result.table("circuits")[column])


MEAN, LATE, LARGEST = (milliseconds(f"carried_{which}_s") for which in ("mean", "p95", "max"))
"""From the tunnel queue to leaving the trunk [ms]."""


def dropped(result: Result) -> Column:
    """Users' packets that the router dropped as such."""
    return np.asarray(result.links.where(link="ef", direction="e->f")["dropped_user"].astype(float))


def users_mbps(result: Result) -> Column:
    """What users received through the trunk [Mbit/s]."""
    return np.asarray(8e-6 * result.table("circuits")["passed_bytes"] / seconds(result))


def _lines(
    results: Results, cases: Callable[[str, int], Case], xs: Sequence[int], panels: Mapping[str, Measure]
) -> list[Series]:
    shown = []
    for group, measure in panels.items():
        for implementation in IMPLEMENTATIONS:
            points = [stats.mean(measure(results[cases(implementation, x)])) for x in xs]
            shown.append(Series.of(implementation, [float(x) for x in xs], points, group))
    return shown


def _sized(implementation: str, size: int) -> Case:
    return Case(implementation, size=size)


_COLUMNS: Mapping[str, tuple[Measure, str]] = {
    "users [Mbit/s]": (users_mbps, ".2f"),
    "delay [ms]": (milliseconds("delay_mean_s"), ".0f"),
    "of it in the trunk": (MEAN, ".1f"),
    "95% [ms]": (LATE, ".0f"),
    "largest [ms]": (LARGEST, ".0f"),
    "overtaken [%]": (reordered, ".2f"),
    "overhead [%]": (overhead, ".1f"),
    "sent again [%]": (again, ".1f"),
    "in fragments [%]": (fragmented, ".1f"),
    "dropped as users'": (dropped, ".1f"),
}


def _table(results: Results) -> str:
    heads = ["trunk", "router", "its TCP", *_COLUMNS]
    rows = []
    for case, result in results.items():
        cells = [
            case.implementation,
            "header-dropping" if case.header_drop else "drop-tail",
            case.tcp,
            *(f"{measure(result).mean():{form}}" for measure, form in _COLUMNS.values()),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return markdown(f"| {' | '.join(heads)} |", rows)


def _comparison(cases: Sequence[Case], runs_quick: int = 3, runs_full: int = 20, **rest: Any) -> CaseFigure[Results]:
    """Trunks of all implementations, under some conditions."""
    return CaseFigure(
        section="3.4",
        run=lambda runner, _, runs: {
            case: runner.shared(case.scenario(), {}, f"implementations: {case.implementation}", runs) for case in cases
        },
        runs_quick=runs_quick,
        runs_full=runs_full,
        **rest,
    )


def _times(results: Results, measure: Measure, above: Case, below: Case) -> stats.Estimate:
    return stats.ratio_of_means(measure(results[above]), measure(results[below]))


def _reason(_: Results, criteria: Sequence[Criterion]) -> str:
    return "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if not c.holds) + "."


def _waiting(results: Results) -> list[Criterion]:
    criteria = []
    for greedy in GREEDY:
        stream, other = (Case(one, greedy) for one in (STREAM, DECOUPLING))
        for what, measure in (("mean", MEAN), ("largest", LARGEST)):
            times = _times(results, measure, stream, other)
            criteria.append(
                criterion(f"{what} time in the trunk, of decoupling's, {greedy} TCPs", "> 1", times, more_than(1))
            )
    overtaken = stats.mean([float(reordered(results[Case(STREAM, greedy)]).max()) for greedy in GREEDY])
    return [*criteria, criterion("packets overtaken", "0", overtaken, exactly(0), unit="%")]


def _overtaking(results: Results) -> list[Criterion]:
    criteria = []
    for greedy in GREEDY:
        stream, encapsulated = (Case(one, greedy) for one in (STREAM, ENCAPSULATION))
        criteria += [
            criterion(
                f"packets overtaken, {greedy} TCPs",
                "> 0",
                stats.mean(reordered(results[encapsulated])),
                more_than(0),
                unit="%",
            ),
            criterion(
                f"95% of the time in the trunk, of a byte stream's, {greedy} TCPs",
                "< 1",
                _times(results, LATE, encapsulated, stream),
                less_than(1),
            ),
        ]
    sent_again = stats.mean(np.mean([again(results[Case(ENCAPSULATION, greedy)]) for greedy in GREEDY], axis=0))
    return [*criteria, criterion("users' packets sent again", "> 0", sent_again, more_than(0), unit="%")]


def _immediate(results: Results) -> list[Criterion]:
    shown = [Case(DECOUPLING, greedy, header_drop=header_drop) for greedy in GREEDY for header_drop in (False, True)]
    overtaken = stats.mean([float(reordered(results[case]).max()) for case in shown])
    pieces = stats.mean([float(fragmented(results[case]).max()) for case in shown])
    lost = stats.mean([float(dropped(results[case]).sum()) for case in shown if case.header_drop])
    tail = stats.mean(np.mean([dropped(results[case]) for case in shown if not case.header_drop], axis=0))
    return [
        criterion("packets overtaken", "0", overtaken, exactly(0), unit="%"),
        criterion("packets in fragments", "0", pieces, exactly(0), unit="%"),
        criterion("users' packets dropped, router of section 2.2.7", "0", lost, exactly(0)),
        criterion("users' packets dropped, drop-tail", "some", tail, more_than(0), judged=False),
    ]


def _growing(results: Results) -> list[Criterion]:
    at = {
        (implementation, size): overhead(results[_sized(implementation, size)])
        for implementation in IMPLEMENTATIONS
        for size in SIZES
    }
    ratio = stats.ratio_of_means
    whole, divided = (fragmented(results[_sized(ENCAPSULATION, size)]) for size in (1448, 1500))
    return [
        criterion(
            f"overhead at {size} bytes, of {other}'s",
            "> 1",
            ratio(at[ENCAPSULATION, size], at[other, size]),
            more_than(1),
        )
        for size in (64, 200)
        for other in (STREAM, DECOUPLING)
    ] + [
        criterion("packets of 1448 bytes in fragments", "0", stats.mean(whole), exactly(0), unit="%"),
        criterion("packets of 1500 bytes in fragments", "100%", stats.mean(divided), exactly(100), unit="%"),
    ]


def _fixed(results: Results) -> list[Criterion]:
    means = [float(overhead(results[_sized(DECOUPLING, size)]).mean()) for size in SIZES]
    pieces = [float(fragmented(results[_sized(DECOUPLING, size)]).max()) for size in SIZES]
    return [
        criterion(
            f"overhead, largest less smallest of {len(SIZES)} lengths",
            "0",
            stats.Estimate.exact(max(means) - min(means)),
            at_most(0.5),
            unit="%",
        ),
        criterion("packets in fragments", "0", stats.mean(pieces), exactly(0), unit="%"),
    ]


_ABOUT = [
    "The thesis reports no measurement of section 3.4: the claims are those of its text, and the network is ours.",
    "Time in the trunk: from the first time that a packet's last byte leaves the sending end until the packet leaves "
    "the trunk at its other end.",
]

BESIDE_CASES = [Case(implementation, greedy) for implementation in IMPLEMENTATIONS for greedy in GREEDY] + [
    Case(DECOUPLING, greedy, header_drop=True) for greedy in GREEDY
]
BESIDE = _comparison(
    id="implementations",
    title="Three implementations of a trunk beside greedy TCPs",
    caption="What users' packets meet in a trunk whose TCP has SACK, with a drop-tail router.",
    cases=BESIDE_CASES,
    draw=lambda results: _lines(
        results, Case, GREEDY, {"(a) mean time in the trunk [ms]": MEAN, "(b) packets overtaken [%]": reordered}
    ),
    x_label="Greedy TCPs",
    y_label="Time [ms], share [%]",
    claims=[
        Claim(
            id="decoupling.s3_4_1",
            measure=_waiting,
            reason=_reason,
            tolerance="The direction, with each number of TCPs; not one packet overtaken.",
        ),
        Claim(
            id="decoupling.s3_4_2.order",
            measure=_overtaking,
            reason=_reason,
            tolerance="The direction, with each number of TCPs.",
        ),
        Claim(
            id="decoupling.s3_4_3",
            measure=_immediate,
            reason=_reason,
            tolerance="None: not one packet in any run.",
        ),
    ],
    notes=_ABOUT,
)

LENGTHS_CASES = [_sized(implementation, size) for implementation in IMPLEMENTATIONS for size in SIZES]
LENGTHS = _comparison(
    id="implementations-sizes",
    title="What a trunk adds to packets of each length",
    caption="One trunk alone, its users send more than it carries: overhead, and packets that leave in fragments.",
    cases=LENGTHS_CASES,
    draw=lambda results: _lines(
        results, _sized, SIZES, {"(a) overhead [%]": overhead, "(b) in fragments [%]": fragmented}
    ),
    x_label="Length of users' packets [B]",
    y_label="Per cent",
    claims=[
        Claim(
            id="decoupling.s3_4_2.size",
            measure=_growing,
            reason=_reason,
            tolerance="The direction; fragments exactly.",
        ),
        Claim(
            id="decoupling.s3_4_3.size",
            measure=_fixed,
            reason=_reason,
            tolerance="Half a per cent of users' bytes: no whole number of packets makes a VMSS.",
        ),
    ],
    notes=["Overhead: headers, repetitions and acknowledgements, of users' bytes that the trunk took."],
    runs_quick=1,
    runs_full=5,
)

TABLE_CASES = [
    Case(implementation, header_drop=header_drop, tcp=tcp)
    for tcp in TRUNK_TCPS
    for header_drop in (False, True)
    for implementation in IMPLEMENTATIONS
]
TABLE = _comparison(
    id="implementations-table",
    title="Three implementations of a trunk",
    caption=f"Beside {TABLE_GREEDY} greedy TCPs, through both kinds of routers, with three TCPs.",
    cases=TABLE_CASES,
    kind="table",
    draw=_table,
    notes=[
        *_ABOUT,
        "Not in it: the copies of packets that the byte stream's processes make. A simulated router takes no time.",
    ],
)

FIGURES = (BESIDE, LENGTHS, TABLE)
