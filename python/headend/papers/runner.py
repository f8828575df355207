"""Runs the sweeps that figures declare, each one once, and says how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

import headend
from headend.papers.figure import Cell, Curve, Curves, Settings, SweepFigure, load, scenarios
from headend.papers.kept import Kept
from headend.results import Result

SEED = 1

Found = TypeVar("Found")


class Simulate(Protocol):
    """The part of `headend.run` that studies use."""

    def __call__(
        self,
        scenario: Path | Mapping[str, Any],
        *,
        set: Settings,  # noqa: A002 - named as in headend.run
        sweep: Mapping[str, Sequence[Any]],
        runs: int,
        seed: int,
        threads: int | None,
        trace: bool,
        progress: Callable[[int, int], None] | None,
        journal: Path | None,
        resume: bool,
    ) -> Result:
        """Run a scenario."""


@dataclass(kw_only=True)
class Runner:
    """One edition of one paper: how often points are run, from which seed, with which simulator."""

    paper: str
    edition: Literal["quick", "full"] = "full"
    runs_asked: int | None = None
    """Instead of what the edition says."""
    seed: int = SEED
    threads: int | None = None
    simulate: Simulate = headend.run
    kept: Kept | None = None
    """Where finished runs of sweeps are kept, and taken up; traced runs and single ones are quickly repeated."""
    progress: Callable[[str, int, int], None] | None = None
    """Hears which line is being run, runs done and runs in all."""
    _cells: dict[Any, list[Cell]] = field(default_factory=dict, repr=False)
    _found: dict[Any, Any] = field(default_factory=dict, repr=False)

    def runs(self, figure: SweepFigure, x: float) -> int:
        """How often this point of a figure is run: once if nothing about it is random."""
        if figure.exact(x):
            return 1
        if self.runs_asked is not None:
            return self.runs_asked
        runs = figure.runs_quick if self.edition == "quick" else figure.runs_full
        return runs(x) if callable(runs) else runs

    def command(self, figure: str) -> str:
        """What regenerates a figure of this edition."""
        words = ["python -m headend.papers run", f"{self.paper}.{figure}"]
        if self.edition == "quick":
            words.append("--quick")
        if self.runs_asked is not None:
            words.append(f"--runs {self.runs_asked}")
        if self.seed != SEED:
            words.append(f"--seed {self.seed}")
        return " ".join(words)

    def path(self, scenario: str) -> Path:
        """A scenario file of the paper."""
        return scenarios(self.paper) / f"{scenario}.toml"

    def curves(self, figure: SweepFigure) -> Curves:
        """All lines of a figure."""
        curves = {}
        for line in figure.lines:
            scenario = self.path(line.scenario or figure.scenario)
            axis = line.axis or figure.axis
            parts: dict[int, list[tuple[float, Any]]] = {}
            for x, value in axis.values(scenario):
                runs = 1 if line.exact else self.runs(figure, x)
                parts.setdefault(runs, []).append((x, value))
            label = f"{figure.id}: {line.label}"
            cells = [
                cell
                for runs, values in parts.items()
                for cell in self._sweep(label, scenario, line.set, axis.path, values, runs)
            ]
            curves[line.key] = Curve(line.label, sorted(cells, key=lambda cell: cell.x))
        return curves

    def cells(self, label: str, points: Sequence[tuple[float, str, Settings, int]]) -> list[Cell]:
        """Points that differ in more than one field: abscissa, scenario, what is set in it, and runs of each."""
        cells = []
        for done, (x, scenario, settings, runs) in enumerate(points):
            self._say(label, done, len(points))
            path = self.path(scenario)
            result = self.simulate(
                path,
                **_pinned(path, settings),
                runs=runs,
                seed=self.seed,
                threads=self.threads,
                trace=False,
                progress=None,
                journal=None,
                resume=False,
            )
            cells.append(Cell(x, {name: result.flows[name] for name in _COLUMNS}))
        self._say(label, len(points), len(points))
        return cells

    def traced(self, scenario: str, settings: Settings, label: str, run: int = 0) -> Result:
        """A run with its packets recorded; what the file sweeps stays at its setting, or at its first value."""
        self._say(label, 0, 1)
        path = self.path(scenario)
        result = self.simulate(
            path,
            **_pinned(path, settings),
            runs=1,
            seed=self.seed + run,
            threads=1,
            trace=True,
            progress=None,
            journal=None,
            resume=False,
        )
        self._say(label, 1, 1)
        return result

    def tables(self, scenario: str | Mapping[str, Any], settings: Settings, label: str, runs: int) -> Result:
        """All tables of the runs of one point, of a file that sweeps nothing or of a scenario made from one."""
        self._say(label, 0, runs)
        return self.simulate(
            self.path(scenario) if isinstance(scenario, str) else scenario,
            set=settings,
            sweep={},
            runs=runs,
            seed=self.seed,
            threads=self.threads,
            trace=False,
            progress=lambda done, total: self._say(label, done, total),
            journal=None,
            resume=False,
        )

    def once(self, key: Any, find: Callable[[], Found]) -> Found:
        """What `find` yields, found once for all figures that name this key."""
        if key not in self._found:
            self._found[key] = find()
        return cast(Found, self._found[key])

    def _sweep(
        self, label: str, scenario: Path, settings: Settings, path: str, values: list[tuple[float, Any]], runs: int
    ) -> list[Cell]:
        """The points of a line, from memory if another figure has run the same."""
        key = (scenario, repr(sorted(settings.items())), path, repr(values), runs)
        if key not in self._cells:
            self._say(label, 0, runs * len(values))
            sweep = (sorted(settings.items()), path, values, runs, self.seed)
            journal = None if self.kept is None else self.kept.journal(scenario, *sweep)
            result = self.simulate(
                scenario,
                set=settings,
                sweep={path: [value for _, value in values]},
                runs=runs,
                seed=self.seed,
                threads=self.threads,
                trace=False,
                progress=lambda done, total: self._say(label, done, total),
                journal=journal,
                resume=journal is not None,
            )
            columns = {name: result.flows[name] for name in _COLUMNS}
            point = result.flows["point"]
            self._cells[key] = [
                Cell(x, {name: column[point == index] for name, column in columns.items()})
                for index, (x, _) in enumerate(values)
            ]
        return self._cells[key]

    def _say(self, label: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(label, done, total)


_COLUMNS = (
    "run",
    "instance",
    "bytes",
    "completed",
    "transfer_s",
    "acked_s",
    "goodput_bps",
    "timeouts",
    "fast_retransmits",
    "segments_sent",
    "retransmits",
    "cwnd_max_bytes",
)


def _pinned(path: Path, settings: Settings) -> dict[str, Settings]:
    """One point of a file that may sweep: its axes at their settings, or at their first values."""
    axes = load(path).get("sweep", {})
    return {
        "set": {field: value for field, value in settings.items() if field not in axes},
        "sweep": {axis: [settings.get(axis, values[0])] for axis, values in axes.items()},
    }
