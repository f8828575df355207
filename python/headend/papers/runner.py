"""Runs what figures ask for, each sweep once, and says how far it has come."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import headend
from headend.papers.kept import Kept
from headend.results import Result, Table

SEED = 1

Settings = Mapping[str, Any]
"""Fields of a scenario by path, as for `headend sim --set`."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Cell:
    """All runs of one point of a curve, with every table and column of the results."""

    x: float
    result: Result

    @property
    def flows(self) -> Table:
        """A row for each flow instance of each run."""
        return self.result.flows

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
    _found: dict[Any, Any] = field(default_factory=dict, repr=False)

    def runs(self, quick: int, full: int) -> int:
        """How often a random point is run: as asked, or as the edition says."""
        return self.runs_asked or (quick if self.edition == "quick" else full)

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

    def cells(self, label: str, points: Sequence[tuple[float, str, Settings, int]]) -> list[Cell]:
        """Points that differ in more than one field: abscissa, scenario, what is set in it, and runs of each."""
        cells = []
        for done, (x, scenario, settings, runs) in enumerate(points):
            self._say(label, done, len(points))
            path = self.path(scenario)
            cells.append(Cell(x, self._simulate(path, **_pinned(path, settings), runs=runs)))
        self._say(label, len(points), len(points))
        return cells

    def traced(self, scenario: str, settings: Settings, label: str, run: int = 0) -> Result:
        """A run with its packets recorded; what the file sweeps stays at its setting, or at its first value."""
        self._say(label, 0, 1)
        path = self.path(scenario)
        pinned = _pinned(path, settings)
        result = self._simulate(path, **pinned, runs=1, seed=self.seed + run, threads=1, trace=True)
        self._say(label, 1, 1)
        return result

    def tables(self, scenario: str | Mapping[str, Any], settings: Settings, label: str, runs: int) -> Result:
        """All tables of the runs of one point, of a file that sweeps nothing or of a scenario made from one."""
        self._say(label, 0, runs)
        return self._simulate(
            self.path(scenario) if isinstance(scenario, str) else scenario,
            set=settings,
            runs=runs,
            progress=lambda done, total: self._say(label, done, total),
        )

    def shared(self, scenario: str | Mapping[str, Any], settings: Settings, label: str, runs: int) -> Result:
        """As `tables`, run once for all figures that ask for the same."""
        key = (repr(scenario), repr(sorted(settings.items())), runs)
        return self.once(key, lambda: self.tables(scenario, settings, label, runs))

    def once(self, key: Any, find: Callable[[], Found]) -> Found:
        """What `find` yields, found once for all figures that name this key."""
        if key not in self._found:
            self._found[key] = find()
        return cast(Found, self._found[key])

    def sweep(
        self, label: str, scenario: Path, settings: Settings, path: str, values: Sequence[tuple[float, Any]], runs: int
    ) -> list[Cell]:
        """The points of a line, from memory if another figure has run the same."""

        def run() -> list[Cell]:
            self._say(label, 0, runs * len(values))
            sweep = (sorted(settings.items()), path, values, runs, self.seed)
            journal = None if self.kept is None else self.kept.journal(scenario, *sweep)
            result = self._simulate(
                scenario,
                set=settings,
                sweep={path: [value for _, value in values]},
                runs=runs,
                progress=lambda done, total: self._say(label, done, total),
                journal=journal,
                resume=journal is not None,
            )
            return [Cell(x, result.point(index)) for index, (x, _) in enumerate(values)]

        return self.once((scenario, repr(sorted(settings.items())), path, repr(values), runs), run)

    def _simulate(self, scenario: Path | Mapping[str, Any], **request: Any) -> Result:
        """A run of the simulator, which takes what `request` does not say from here or as nothing."""
        usual = {"set": {}, "sweep": {}, "seed": self.seed, "threads": self.threads, "trace": False}
        return self.simulate(scenario, **{**usual, "progress": None, "journal": None, "resume": False, **request})

    def _say(self, label: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(label, done, total)


def scenarios(paper: str) -> Path:
    """The folder of a paper's scenario files."""
    return Path(__file__).parent / "scenarios" / paper


@cache
def load(scenario: Path) -> Mapping[str, Any]:
    """A scenario file as TOML."""
    return tomllib.loads(scenario.read_text(encoding="utf-8"))


def _pinned(path: Path, settings: Settings) -> dict[str, Settings]:
    """One point of a file that may sweep: its axes at their settings, or at their first values."""
    axes = load(path).get("sweep", {})
    return {
        "set": {field: value for field, value in settings.items() if field not in axes},
        "sweep": {axis: [settings.get(axis, values[0])] for axis, values in axes.items()},
    }
