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

from headend.papers import reference, rows, stats
from headend.papers.reference import Row
from headend.papers.runner import Cell, Runner

MARGIN = 0.05
"""Agreement: within the interval of the difference, plus this share of the reference."""
EXACT_MARGIN = 0.001
"""Without chance: transfer time within this share; packets sent must be equal."""

PREFIX = {"tuning": "p1_", "proxies": "p2_"}
"""How the tables of a paper begin."""

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


def validate(
    runner: Runner, *, figures: Iterable[str] = (), chosen: Callable[[Row], bool] = lambda _: True
) -> list[Comparison]:
    """Rerun and compare the reference rows of the runner's paper, all or those of some tables."""
    names = list(figures) or reference.tables(PREFIX[runner.paper])
    compared = []
    for name in names:
        known = [row for row in reference.rows(name) if row.sim in reference.ERA and chosen(row)]
        for group in _groups(known):
            cells = runner.cells(
                f"{name} {group[0].sim} {group[0].series}",
                [(row.x, *rows.scenario(row), 1 if row.reps == 1 else _runs(runner, row)) for row in group],
            )
            compared += [compare(row, cell) for row, cell in zip(group, cells, strict=True)]
    return compared


def compare(row: Row, cell: Cell) -> Comparison:
    """A row beside our runs of the same."""
    exact = row.reps == 1
    set_up_s = row.rtt_s if row.fig in rows.HANDSHAKE and row.sim == "ns96" else 0.0
    syns = 1 if row.fig in rows.HANDSHAKE and row.sim == "ns2" else 0
    run = np.asarray(cell["run"], dtype=np.int64)
    seconds = row.bytes * 8e-6 / cell.goodput_mbps + set_up_s
    by_run = np.bincount(run, weights=row.bytes * 8e-6 / seconds) / np.bincount(run)
    ours = stats.mean(by_run)
    measured_s = float(np.mean(seconds))
    measured_sent = float(np.mean(cell["segments_sent"])) + syns - rows.packets_of_another(row)
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
