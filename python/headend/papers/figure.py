"""A figure of a paper as a declaration: scenario, what is varied, how it is measured, what is claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from headend.papers import stats
from headend.papers.claim import Claim
from headend.papers.model import Arrow, FigureResult, Kind, Series, Style
from headend.papers.runner import Cell, Runner, Settings, load
from headend.papers.stats import Estimate
from headend.papers.units import abscissa

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a figure shows of its data."""

    series: Sequence[Series] = ()
    reference: Sequence[Series] = ()
    ladder: Sequence[Arrow] = ()
    text: str = ""
    notes: Sequence[str] = ()
    """Behind those of the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[Data]):
    """A figure as declared: how it is titled, and what is judged on it.

    A kind of figure says how its data are simulated (`data`), how they are shown (`show`) and how often random points
    are run (`runs`); nothing else differs between kinds.
    """

    id: str
    """Without the paper's name: "fig4"."""
    title: str
    caption: str = ""
    section: str = ""
    kind: Kind = "lines"
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    claims: Sequence[Claim[Data]] = ()
    notes: Sequence[str] = ()

    def data(self, runner: Runner) -> Data:
        """Simulate what is shown and judged."""
        raise NotImplementedError

    def show(self, data: Data) -> Drawn:
        """Draw it."""
        raise NotImplementedError

    def runs(self, runner: Runner) -> int:  # noqa: ARG002 - kinds with chance in them ask the runner
        """Runs of a random point; 1 if nothing is random."""
        return 1

    def produce(self, runner: Runner) -> FigureResult:
        """Simulate, draw and judge."""
        data = self.data(runner)
        drawn = self.show(data)
        return FigureResult(
            id=self.id,
            title=self.title,
            caption=self.caption,
            section=self.section,
            kind=self.kind,
            x_label=self.x_label,
            y_label=self.y_label,
            x_log=self.x_log,
            y_log=self.y_log,
            series=list(drawn.series),
            reference=list(drawn.reference),
            ladder=list(drawn.ladder),
            text=drawn.text,
            claims=[claim.judge(data) for claim in self.claims],
            command=runner.command(self.id),
            runs=self.runs(runner),
            seed=runner.seed,
            notes=[*self.notes, *drawn.notes],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFigure(Figure[Data]):
    """Cases that are simulated by one function and shown by another."""

    run: Callable[[Runner, str, int], Data]
    """Each case so many times, under this label."""
    draw: Callable[[Data], Drawn | list[Series] | str]
    """Curves, or Markdown."""
    runs_quick: int = 5
    runs_full: int = 20
    always: int | None = None
    """Runs whatever is asked, if nothing is random."""

    def runs(self, runner: Runner) -> int:
        """As asked, or as the edition says."""
        return runner.runs(self.runs_quick, self.runs_full) if self.always is None else self.always

    def data(self, runner: Runner) -> Data:
        """Each case."""
        return self.run(runner, self.id, self.runs(runner))

    def show(self, data: Data) -> Drawn:
        """All of them."""
        drawn = self.draw(data)
        if isinstance(drawn, str):
            return Drawn(text=drawn)
        return drawn if isinstance(drawn, Drawn) else Drawn(drawn)


def markdown(head: str, rows: Sequence[str]) -> str:
    """A table of Markdown from its rows, each with its bars."""
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows]) + "\n"


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

    def through(self, measure: Measure, *, group: str = "", style: Style = "line") -> Series:
        """What a measure makes of each point."""
        return Series.of(self.label, self.x, map(measure, self.cells), group, style)


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
    return stats.mean(cell.flows.by_run(cell.goodput_mbps) / cell.flows.by_run(np.ones(cell.flows.rows)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigure(Figure[Curves]):
    """Curves over a swept field."""

    scenario: str
    """A file in the paper's folder of scenarios."""
    axis: Axis
    lines: Sequence[Line]
    y_label: str = "Throughput [Mbit/s]"
    measure: Measure = mean_mbps
    runs_quick: Runs = 100
    runs_full: Runs = 400
    exact: Callable[[float], bool] = lambda x: x == 0.0
    """Points at which nothing is random: one run says all."""
    draw: Callable[[Curves], list[Series]] | None = None
    """How curves become what is shown, if not one to one through `measure`."""
    reference: Callable[[], list[Series]] = list
    """ns-2's curves."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "x_label", self.axis.label)
        object.__setattr__(self, "x_log", self.axis.log)

    def runs_at(self, runner: Runner, x: float) -> int:
        """How often this point is run: once if nothing about it is random."""
        quick, full = (of(x) if callable(of) else of for of in (self.runs_quick, self.runs_full))
        return 1 if self.exact(x) else runner.runs(quick, full)

    def runs(self, runner: Runner) -> int:
        """Those of the point that is run most often."""
        return max(self.runs_at(runner, x) for x, _ in self.axis.values(runner.path(self.scenario)))

    def data(self, runner: Runner) -> Curves:
        """Every line."""
        curves = {}
        for line in self.lines:
            scenario = runner.path(line.scenario or self.scenario)
            axis = line.axis or self.axis
            parts: dict[int, list[tuple[float, Any]]] = {}
            for x, value in axis.values(scenario):
                parts.setdefault(1 if line.exact else self.runs_at(runner, x), []).append((x, value))
            label = f"{self.id}: {line.label}"
            cells = [
                cell
                for runs, values in parts.items()
                for cell in runner.sweep(label, scenario, line.set, axis.path, values, runs)
            ]
            curves[line.key] = Curve(line.label, sorted(cells, key=lambda cell: cell.x))
        return curves

    def show(self, data: Curves) -> Drawn:
        """Each line, through `measure` unless it is drawn otherwise."""
        return Drawn(
            self.draw(data) if self.draw else self.series(data), self.reference(), notes=incomplete_notes(data)
        )

    def series(self, curves: Curves) -> list[Series]:
        """Every shown line through `measure`."""
        return [
            curves[line.key].through(self.measure, group=line.group, style=line.style)
            for line in self.lines
            if line.shown
        ]


def incomplete_notes(curves: Curves) -> list[str]:
    """Says which transfers never ended: they count with what they delivered until then."""
    notes = []
    for curve in curves.values():
        failed = [(cell.x, cell.incomplete, len(cell["completed"])) for cell in curve.cells if cell.incomplete]
        if failed:
            where = ", ".join(f"{count} of {of} at {x:g}" for x, count, of in failed)
            notes.append(f"{curve.label}: transfers that did not complete: {where}.")
    return notes
