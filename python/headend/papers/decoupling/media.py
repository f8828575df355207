"""Chapter 5: a media stream through an unreliable decoupling socket, beside greedy TCPs. UDP and TCP for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim, Range, criterion, exactly, more_than, number
from headend.papers.figure import CaseFigure, markdown
from headend.papers.model import Criterion, Series
from headend.papers.runner import Runner, Settings
from headend.papers.stats import Estimate
from headend.results import Result, Table

SCENARIO = "media"
GREEDY = (1, 2, 4, 8, 16)
"""How many greedy TCPs there are."""
TABLE_GREEDY = 4
"""With how many the table is."""
MINIMUM = "circuit, 500 kbit/s guaranteed"

LINES: dict[str, Settings] = {
    "circuit": {},
    MINIMUM: {"flows.stream.gmb": "500kbit/s"},
    "UDP, 2 Mbit/s": {"flows.stream.over": "udp", "flows.stream.rates": ["2Mbit/s"]},
    "TCP": {"flows.stream.over": "tcp"},
}
"""What carries the stream."""
LINUX: Settings = {"nodes.camera.personality": "linux", "nodes.viewer.personality": "linux"}
GREEDY_STREAM: Settings = {"flows.stream.rates": ["12Mbit/s"], "flows.stream.queue": "200 packets"}
"""A stream that always has more to send than it may."""
BESIDE: dict[str, Settings] = {
    "circuit, stale frames replaced": {"flows.stream.stale": "replace"},
    "circuit, stale frames kept": {"flows.stream.stale": "keep"},
    "circuit, drop-tail router": {"links.core.queue": "60 packets"},
    "circuit, control TCP of Linux": LINUX,
    "TCP of Linux": {"flows.stream.over": "tcp", **LINUX},
}
"""Further rows of the table."""

Results = Mapping[tuple[str, int], Result]
"""What was run, by the case and the number of greedy TCPs."""


def frames(result: Result) -> Table:
    """What became of the stream's frames, a row for each run."""
    return result.table("media")


def on_time(result: Result) -> NDArray[np.float64]:
    """Of the frames that were made, those on time, in each run [%]."""
    return np.asarray(100 * frames(result)["on_time"] / frames(result)["frames"])


def share(result: Result) -> NDArray[np.float64]:
    """The stream's throughput, of that of a greedy TCP, in each run [%]."""
    greedy = result.flows.where(flow="greedy")
    each = greedy.by_run(greedy["throughput_bps"]) / greedy.by_run(np.ones(greedy.rows))
    return np.asarray(100 * result.flows.where(flow="stream")["throughput_bps"] / each)


def dropped(result: Result) -> NDArray[np.float64]:
    """Datagrams of the circuit that the router dropped in each run."""
    return np.asarray(result.links.where(link="core", direction="r1->r2")["dropped_user"].astype(float))


def run(runner: Runner, case: str, settings: Settings, greedy: int, runs: int) -> Result:
    """The stream beside so many greedy TCPs."""
    return runner.shared(SCENARIO, {**settings, "flows.greedy.count": greedy}, f"media: {case}, {greedy} TCPs", runs)


def _lines(results: Results) -> list[Series]:
    panels: tuple[tuple[str, Callable[[Result], NDArray[np.float64]]], ...] = (
        ("(a) frames on time", on_time),
        ("(b) throughput, of a greedy TCP's", share),
    )
    shown = []
    for group, measure in panels:
        for case in LINES:
            points = [stats.mean(measure(results[case, greedy])) for greedy in GREEDY]
            shown.append(Series.of(case, [float(greedy) for greedy in GREEDY], points, group))
    return shown


_HEAD = (
    "| stream over | on time [%] | late [%] | lost [%] | taken back [%] | stale sent [%] | mean delay [ms] | "
    "95% [ms] | on time [Mbit/s] | of a TCP's [%] | time-outs |"
)


def _row(result: Result) -> str:
    table = frames(result)

    def percent(*columns: str) -> float:
        return float(sum(100 * table[column].sum() for column in columns) / table["frames"].sum())

    cells = (
        f"{percent('on_time'):.1f}",
        f"{percent('late'):.1f}",
        f"{percent('broken'):.1f}",
        f"{percent('withdrawn', 'replaced', 'skipped'):.1f}",
        f"{percent('stale_sent'):.1f}",
        f"{1e3 * table['delay_mean_s'].mean():.0f}",
        f"{1e3 * table['delay_p95_s'].mean():.0f}",
        f"{table['on_time_bps'].mean() / 1e6:.2f}",
        f"{share(result).mean():.0f}",
        f"{result.flows.where(flow='stream')['timeouts'].mean():.1f}",
    )
    return " | ".join(cells)


def _table(results: Results) -> str:
    return markdown(_HEAD, [f"| {case} | {_row(results[case, TABLE_GREEDY])} |" for case in (*LINES, *BESIDE)])


def _media(cases: Mapping[str, Settings], greedy: Sequence[int], **rest: Any) -> CaseFigure[Results]:
    """The stream in several cases, each with several numbers of greedy TCPs."""
    return CaseFigure(
        section="5.4",
        run=lambda runner, _, runs: {
            (case, count): run(runner, case, settings, count, runs)
            for case, settings in cases.items()
            for count in greedy
        },
        runs_quick=3,
        **rest,
    )


FRIENDLY = "circuit with more to send than it may"
FRIENDLY_RANGE = Range(80, 125)


def _friendly(results: Results) -> list[Criterion]:
    return [
        criterion(
            f"against {greedy} TCPs",
            "100%",
            stats.mean(share(results[FRIENDLY, greedy])),
            FRIENDLY_RANGE,
            unit="%",
        )
        for greedy in GREEDY
    ]


def _unequal(results: Results, criteria: Sequence[Criterion]) -> str:
    wrong = "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if not c.holds)
    counters = (results[FRIENDLY, greedy].flows.where(flow="stream") for greedy in GREEDY)
    timeouts = ", ".join(f"{table['timeouts'].mean():.0f}" for table in counters)
    return f"{wrong}. The control TCP timed out {timeouts} times in 120 s."


def _all_runs(results: Results, case: str, column: str) -> Estimate:
    return stats.mean([float(frames(results[case, greedy])[column].sum()) for greedy in GREEDY])


def _whole(results: Results) -> list[Criterion]:
    criteria = []
    for case in ("circuit", MINIMUM):
        lost = stats.mean([float(dropped(results[case, greedy]).sum()) for greedy in GREEDY])
        criteria += [
            criterion(f"{case}: datagrams dropped", "0", lost, exactly(0)),
            criterion(f"{case}: frames broken", "0", _all_runs(results, case, "broken"), exactly(0)),
        ]
    broken = stats.mean([_share_of(results["UDP, 2 Mbit/s", greedy], "broken") for greedy in GREEDY])
    criteria.append(criterion("UDP: frames broken", "> 0", broken, more_than(0), unit="%", judged=False))
    return criteria


def _share_of(result: Result, column: str) -> float:
    return float(100 * frames(result)[column].sum() / frames(result)["frames"].sum())


def _better(results: Results) -> list[Criterion]:
    def gain(case: str) -> Estimate:
        runs = [on_time(results[case, greedy]) - on_time(results["TCP", greedy]) for greedy in GREEDY]
        return stats.mean(np.mean(runs, axis=0))

    stale = stats.mean(
        [
            _share_of(results["TCP", greedy], "stale_sent") - _share_of(results[MINIMUM, greedy], "stale_sent")
            for greedy in GREEDY
        ]
    )
    return [
        criterion("more frames on time than over TCP", "> 0", gain(MINIMUM), more_than(0), unit="%"),
        criterion("fewer sent stale than over TCP", "> 0", stale, more_than(0), unit="%"),
        criterion("without a guarantee", "> 0", gain("circuit"), more_than(0), unit="%", judged=False),
    ]


def _reason(_: Results, criteria: Sequence[Criterion]) -> str:
    return "; ".join(f"{c.what} {number(c.measured, c.unit)}" for c in criteria if not c.holds) + "."


MEDIA = _media(
    id="media",
    title="A media stream against greedy TCPs",
    caption="Frames that are whole within 200 ms, and the stream's throughput beside that of a greedy TCP.",
    cases={**LINES, FRIENDLY: GREEDY_STREAM},
    greedy=GREEDY,
    x_label="Greedy TCPs",
    y_label="Per cent",
    draw=_lines,
    claims=[
        Claim(
            id="decoupling.s5_4.friendly",
            measure=_friendly,
            reason=_unequal,
            tolerance="Within a factor of 1.25 of a greedy TCP of the same kind. The control TCP's segments are of "
            "1500 bytes of datagrams, the TCPs' of 1448; a stream that adapts takes less, because it has less to send.",
        ),
        Claim(
            id="decoupling.s5_4.whole",
            measure=_whole,
            reason=_reason,
            tolerance="None: not one datagram in any run.",
        ),
        Claim(
            id="decoupling.s5_1.tcp",
            measure=_better,
            reason=_reason,
            tolerance="The direction. Differences of shares of all frames, mean over 1 to 16 greedy TCPs.",
        ),
    ],
    notes=[
        "Chapter 5 reports no measurement: the claims are those of its text. Network, frames and how a source adapts "
        "are ours, the same for circuit and TCP; over UDP there is nothing to read, and one rate.",
        "The control TCP is Reno of the 1990s with a clock of 500 ms: when it times out, nothing leaves for a second "
        "or more but what is guaranteed.",
    ],
)

TABLE = _media(
    id="media-frames",
    title="What becomes of a stream's frames",
    caption="Beside four greedy TCPs: per cent of the frames made, delays of those that came whole.",
    cases={**LINES, **BESIDE},
    greedy=(TABLE_GREEDY,),
    kind="table",
    draw=_table,
    notes=[
        "Stale sent: something of the frame left its host after the deadline. Taken back: withdrawn or replaced when "
        "stale, or skipped for want of room.",
        "Behind a drop-tail router datagrams are lost like any other packets: section 5.4 asks for routers that "
        "drop headers.",
    ],
)

FIGURES = (MEDIA, TABLE)
