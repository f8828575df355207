"""A figure of a paper as a declaration: scenario, what is varied, how it is measured, what is claimed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headend.papers import stats
from headend.papers.claim import Claim
from headend.papers.model import FigureResult, Kind, Series, Style
from headend.papers.stats import Estimate
from headend.papers.units import abscissa

if TYPE_CHECKING:
    from headend.papers.runner import Runner

Settings = Mapping[str, Any]
"""Fields of a scenario by path, as for `headend sim --set`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """All runs of one point of a curve: the columns of the results' flow table."""

    x: float
    flows: Mapping[str, NDArray[Any]]

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.flows[column]

    @property
    def goodput_mbps(self) -> NDArray[np.float64]:
        """Goodput of each transfer [Mbit/s]."""
        return np.asarray(self.flows["goodput_bps"] / 1e6)

    @property
    def incomplete(self) -> int:
        """Transfers that did not complete within the scenario's duration, or whose connection failed."""
        return int(np.count_nonzero(self.flows["completed"] == 0))


@dataclass(frozen=True, slots=True)
class Curve:
    """A measured line, point by point."""

    label: str
    cells: Sequence[Cell]

    def at(self, x: float) -> Cell:
        """The point at this abscissa."""
        for cell in self.cells:
            if abs(cell.x - x) <= 1e-9 * max(1.0, abs(x)):
                return cell
        raise KeyError(f"{self.label}: no point at {x:g}, only at {', '.join(f'{cell.x:g}' for cell in self.cells)}")

    @property
    def x(self) -> list[float]:
        """The abscissae."""
        return [cell.x for cell in self.cells]


Curves = Mapping[str, Curve]
"""The lines of a figure by their keys."""

Measure = Callable[[Cell], Estimate]

Runs = int | Callable[[float], int]
"""How often a random point is run, the same everywhere or by abscissa."""


def mean_mbps(cell: Cell) -> Estimate:
    """Mean goodput over the runs [Mbit/s]."""
    return stats.mean(cell.goodput_mbps)


def mean_of_runs_mbps(cell: Cell) -> Estimate:
    """As `mean_mbps`, with each run's connections averaged first: they share a modem, so they are one observation."""
    run = cell["run"].astype(np.int64)
    return stats.mean(np.bincount(run, weights=cell.goodput_mbps) / np.bincount(run))


def quartiles_mbps(cell: Cell) -> Estimate:
    """Median goodput between the quartiles [Mbit/s]: the bounds are no interval of confidence."""
    lo, middle, hi = np.quantile(cell.goodput_mbps, (0.25, 0.5, 0.75))
    return Estimate(float(middle), float(lo), float(hi))


@dataclass(frozen=True, slots=True)
class Axis:
    """What runs along the abscissa: a field that the scenario file sweeps."""

    label: str
    path: str
    """The file's `[sweep]` gives the values."""
    log: bool = False
    packet_bytes: int | None = None
    """Count the values in packets of this size."""

    def values(self, scenario: Path) -> list[tuple[float, Any]]:
        """The abscissae with the values that the scenario file gives."""
        sweep = load(scenario).get("sweep", {})
        if self.path not in sweep:
            raise KeyError(f"{scenario}: [sweep] does not vary {self.path}")
        return [(abscissa(value, self.packet_bytes), value) for value in sweep[self.path]]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve as declared."""

    key: str
    """Names the curve to claims."""
    label: str
    set: Settings = field(default_factory=dict)
    group: str = ""
    style: Style = "line"
    shown: bool = True
    """False: measured for a claim, not drawn."""
    scenario: str | None = None
    """Instead of the figure's."""
    axis: Axis | None = None
    """Instead of the figure's."""
    exact: bool = False
    """Nothing is random on this line: one run of each point says all."""


class Study(Protocol):
    """Anything that yields a figure."""

    @property
    def id(self) -> str:
        """Without the paper's name: "fig4"."""

    @property
    def title(self) -> str:
        """One line."""

    @property
    def claims(self) -> Sequence[Claim[Any]]:
        """What is judged on it."""

    def produce(self, runner: Runner) -> FigureResult:
        """Simulate, measure and judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigure:
    """Curves over a swept field."""

    id: str
    title: str
    caption: str
    section: str
    scenario: str
    """A file in the paper's folder of scenarios."""
    axis: Axis
    lines: Sequence[Line]
    kind: Kind = "lines"
    y_label: str = "Throughput [Mbit/s]"
    y_log: bool = False
    measure: Measure = mean_mbps
    runs_quick: Runs = 100
    runs_full: Runs = 400
    exact: Callable[[float], bool] = lambda x: x == 0.0
    """Points at which nothing is random: one run says all."""
    draw: Callable[[Curves], list[Series]] | None = None
    """How curves become what is shown, if not one to one through `measure`."""
    reference: Callable[[], list[Series]] = list
    """ns-2's curves."""
    claims: Sequence[Claim[Curves]] = ()
    notes: Sequence[str] = ()

    def produce(self, runner: Runner) -> FigureResult:
        """Simulate every line, measure its points, judge the claims."""
        curves = runner.curves(self)
        shown = self.draw(curves) if self.draw else self.series(curves)
        return FigureResult(
            id=self.id,
            title=self.title,
            caption=self.caption,
            section=self.section,
            kind=self.kind,
            x_label=self.axis.label,
            y_label=self.y_label,
            x_log=self.axis.log,
            y_log=self.y_log,
            series=shown,
            reference=self.reference(),
            claims=[claim.judge(curves) for claim in self.claims],
            command=runner.command(self.id),
            runs=max(runner.runs(self, x) for x, _ in self.axis.values(runner.path(self.scenario))),
            seed=runner.seed,
            notes=[*self.notes, *incomplete_notes(curves)],
        )

    def series(self, curves: Curves) -> list[Series]:
        """Every shown line through `measure`."""
        return [
            series(line.label, curves[line.key], self.measure, group=line.group, style=line.style)
            for line in self.lines
            if line.shown
        ]


def series(label: str, curve: Curve, measure: Measure, *, group: str = "", style: Style = "line") -> Series:
    """A measured curve as something to show."""
    estimates = [measure(cell) for cell in curve.cells]
    return Series(
        label=label,
        x=curve.x,
        y=[estimate.value for estimate in estimates],
        lo=[estimate.lo for estimate in estimates],
        hi=[estimate.hi for estimate in estimates],
        group=group,
        style=style,
    )


def incomplete_notes(curves: Curves) -> list[str]:
    """Says which transfers never ended: they count with what they delivered until then."""
    notes = []
    for curve in curves.values():
        failed = [(cell.x, cell.incomplete, len(cell["completed"])) for cell in curve.cells if cell.incomplete]
        if failed:
            where = ", ".join(f"{count} of {of} at {x:g}" for x, count, of in failed)
            notes.append(f"{curve.label}: transfers that did not complete: {where}.")
    return notes


def scenarios(paper: str) -> Path:
    """The folder of a paper's scenario files."""
    return Path(__file__).parent / "scenarios" / paper


@cache
def load(scenario: Path) -> Mapping[str, Any]:
    """A scenario file as TOML."""
    return tomllib.loads(scenario.read_text(encoding="utf-8"))
