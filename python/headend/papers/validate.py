"""Our simulator beside ns-2: every reference row rerun with the same rules and compared.

Rows without chance must be equal to the packet. The others agree if their means differ by no more than the 95% interval
of the difference, plus 5%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headend.papers import reference, stats
from headend.papers.figure import Cell, Settings
from headend.papers.reference import Row
from headend.papers.runner import Runner

MARGIN = 0.05
"""Agreement: within the interval of the difference, plus this share of the reference."""
EXACT_MARGIN = 0.001
"""Without chance: transfer time within this share; packets sent must be equal."""

PREFIX = {"tuning": "p1_"}
"""How the tables of a paper begin."""

HANDSHAKE = frozenset({"p1_fig06_07", "p1_fig18"})
"""Tables in which the sender of the data connects first.

ns-2.35 does so with a SYN, which can be lost and which it counts among the packets sent. The harness of the 1996 rules
starts its transfer after one propagation round trip, in which nothing is lost.
"""

Verdict = Literal["agrees", "differs"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One reference row beside our runs of it."""

    fig: str
    sim: str
    series: str
    x: float
    exact: bool
    """Nothing is random: compared to the packet."""
    runs: int
    reference_mbps: float
    measured_mbps: float
    band_mbps: float
    """Half of the 95% interval of the difference; 0 if exact."""
    reference_s: float
    measured_s: float
    reference_sent: float
    measured_sent: float
    reference_timeouts: float
    measured_timeouts: float
    incomplete: int
    """Our transfers that did not end; they count at the rate they had reached."""
    verdict: Verdict

    @property
    def off(self) -> float:
        """How far the means are apart, as a share of the reference's."""
        return self.measured_mbps / self.reference_mbps - 1


BACK_OFF: Mapping[str, Settings] = {
    "ns2": {"nodes.server.tcp.rto_max": "60s", "nodes.server.tcp.rto_backoff_max": 1 << 16},
    "ns96": {"nodes.server.tcp.rto_max": "1000s", "nodes.server.tcp.rto_backoff_max": 64},
}
"""ns-2.35 backs off until the timeout is `maxrto_` (60 s; `rfc2988_ true`); ns of 1996 up to 64 times, without a limit
in seconds. BSD, and so our figures, do both: 64 times and 64 s. Only the highest losses of ACKs get so far."""


def settings(row: Row) -> Settings:
    """The row's parameters as settings of the scenario `reference.toml`."""
    mss, headers = _packet(row)
    size = f"{mss}B"
    tick_ms = round(row.tick_s * 1000)
    return {
        "nodes.server.tcp.era": reference.ERA[row.sim],
        "nodes.server.tcp.headers": headers,
        "nodes.pc.tcp.headers": headers,
        "nodes.server.tcp.mss": size,
        "nodes.pc.tcp.mss": size,
        "nodes.server.tcp.initial_window_segments": int(row.iw),
        "nodes.server.tcp.dupack_threshold": int(row.numdup),
        "nodes.server.tcp.rto_tick": f"{tick_ms}ms",
        "nodes.server.tcp.rto_min": f"{2 * tick_ms}ms",
        **BACK_OFF[row.sim],
        "nodes.pc.tcp.receive_buffer": f"{int(row.win_pkts) * mss}B",
        "nodes.pc.tcp.delayed_ack": 2 if row.delack else 1,
        "links.cable.down.loss": _percent(row.dloss),
        "links.cable.up.loss": _percent(row.uloss),
        "links.cable.delay": f"{round(row.rtt_s * 1e6 / 2)}us",
        "links.cable.modem_buffer": "unlimited" if row.cmq is None else f"{int(row.cmq)} packets",
        "flows.get.bytes": f"{int(row.bytes)}B",
        "flows.get.handshake": row.fig in HANDSHAKE and row.sim == "ns2",
        "flows.get.count": int(row.nconn),
        "flows.get.stagger": "0s" if row.nconn == 1 else STAGGER,
    }


STAGGER = "20ms"
"""ns-2's three connections start at random within a round trip."""


def validate(
    runner: Runner, *, figures: Iterable[str] = (), chosen: Callable[[Row], bool] = lambda _: True
) -> list[Comparison]:
    """Rerun and compare the reference rows of the runner's paper, all or those of some tables."""
    names = list(figures) or reference.tables(PREFIX[runner.paper])
    compared = []
    for name in names:
        rows = [row for row in reference.rows(name) if row.sim in reference.ERA and chosen(row)]
        for group in _groups(rows):
            cells = runner.cells(
                f"{name} {group[0].sim} {group[0].series}",
                [(row.x, settings(row), 1 if row.reps == 1 else _runs(runner, row)) for row in group],
            )
            compared += [compare(row, cell) for row, cell in zip(group, cells, strict=True)]
    return compared


def compare(row: Row, cell: Cell) -> Comparison:
    """A row beside our runs of the same."""
    exact = row.reps == 1
    set_up_s = row.rtt_s if row.fig in HANDSHAKE and row.sim == "ns96" else 0.0
    syns = 1 if row.fig in HANDSHAKE and row.sim == "ns2" else 0
    run = np.asarray(cell["run"], dtype=np.int64)
    seconds = row.bytes * 8e-6 / cell.goodput_mbps + set_up_s
    by_run = np.bincount(run, weights=row.bytes * 8e-6 / seconds) / np.bincount(run)
    ours = stats.mean(by_run)
    measured_s = float(np.mean(seconds))
    measured_sent = float(np.mean(cell["segments_sent"])) + syns
    # The interval of a difference of independent means; ns-2's connections of one run are counted one by one, ours not.
    band = 0.0 if exact else math.hypot(row.mean_half_width, (ours.hi - ours.lo) / 2)
    if exact:
        agrees = abs(measured_s / row.mean_T_s - 1) < EXACT_MARGIN and measured_sent == row.sent_mean
    else:
        agrees = abs(ours.value - row.mean_Mbps) <= band + MARGIN * row.mean_Mbps
    return Comparison(
        fig=row.fig,
        sim=row.sim,
        series=row.series,
        x=row.x,
        exact=exact,
        runs=by_run.size,
        reference_mbps=row.mean_Mbps,
        measured_mbps=ours.value,
        band_mbps=band,
        reference_s=row.mean_T_s,
        measured_s=measured_s,
        reference_sent=row.sent_mean,
        measured_sent=measured_sent,
        reference_timeouts=row.timeouts_mean,
        measured_timeouts=float(np.mean(cell["timeouts"])),
        incomplete=cell.incomplete,
        verdict="agrees" if agrees else "differs",
    )


def worst(comparisons: Sequence[Comparison], count: int) -> list[Comparison]:
    """Those that differ, farthest first."""
    return sorted((c for c in comparisons if c.verdict == "differs"), key=lambda c: -abs(c.off))[:count]


def by_series(comparisons: Iterable[Comparison]) -> Mapping[tuple[str, str, str], list[Comparison]]:
    """Comparisons by table, simulator and curve."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.fig, comparison.sim, comparison.series), []).append(comparison)
    return groups


def _groups(rows: Iterable[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.sim, row.series), []).append(row)
    return list(groups.values())


def _runs(runner: Runner, row: Row) -> int:
    """As many as ns-2 had, fewer in the quick edition: our own interval widens accordingly."""
    if runner.runs_asked is not None:
        return runner.runs_asked
    return min(int(row.reps), 30) if runner.edition == "quick" else int(row.reps)


def _packet(row: Row) -> tuple[int, str]:
    """Payload, and whether headers are counted: only Figure 14's table has both."""
    if row.series.startswith("MSS "):
        payload = int(row.series.split()[1])
        return payload, "uncounted" if payload == row.wire_B else "ipv4"
    return int(row.wire_B), "uncounted"


def _percent(chance: float) -> str:
    return f"{round(chance * 100, 6):g}%"
