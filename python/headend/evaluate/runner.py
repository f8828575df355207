"""Runs the cases of an evaluation, and makes values with 95% intervals of what came."""

from __future__ import annotations

import difflib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import headend
from headend import _native
from headend.evaluate.cases import Case, Edition, Point, Setup, cases
from headend.evaluate.metrics import METRICS, Metric, Outcome
from headend.evaluate.rfc import sections
from headend.lab import measure
from headend.lab.measure import AVAILABLE
from headend.papers import stats
from headend.papers.stats import Estimate
from headend.results import Result

RUNS: Mapping[Edition, int] = {"quick": 5, "full": 10, "live": 3}
"""Runs of each point, unless its case says otherwise."""

Progress = Callable[[str, int, int], None]
"""Hears which case is run, points done and points in all."""


@dataclass(frozen=True, slots=True)
class Value:
    """A metric of one control at one point: the mean over the runs, and Student's 95% interval."""

    mean: float | None
    """None if what is measured did not happen in any run."""
    lo: float | None
    hi: float | None
    runs: int
    happened: int
    """Runs in which it did; the others are not in the mean."""

    @staticmethod
    def of(values: Sequence[float] | np.ndarray[Any, Any]) -> Value:
        """The value of a row of runs, NaN where it did not happen."""
        row = np.asarray(values, dtype=np.float64)
        found = row[np.isfinite(row)]
        if not found.size:
            return Value(None, None, None, len(row), 0)
        estimate: Estimate = stats.mean(found)
        lo, hi = (estimate.lo, estimate.hi) if found.size > 1 else (None, None)
        return Value(estimate.value, lo, hi, len(row), int(found.size))


@dataclass(frozen=True, slots=True)
class Row:
    """A metric at a point of a case, of each control."""

    point: Point
    metric: Metric
    values: tuple[Value, ...]
    """In the order of the evaluation's controls."""


@dataclass(frozen=True, slots=True)
class Found:
    """A case and what came of it."""

    case: Case
    rows: tuple[Row, ...]


BESIDE = ("cubic", "bbr3")
"""The controls to compare with unless others are named."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be evaluated, beside what, and how."""

    controller: str
    beside: tuple[str, ...] = BESIDE
    tcp: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the `tcp` table of the subject's hosts."""
    edition: Edition = "full"
    only: tuple[str, ...] = ()
    seed: int = 1
    runs: int | None = None
    threads: int | None = None
    binary: str | None = None
    """Of the edition `live`: the headend command, whose lab runs the cases with the kernel's controls."""

    @property
    def is_live(self) -> bool:
        """In real time between real hosts, and not in the simulator."""
        return self.edition == "live"

    @property
    def columns(self) -> tuple[tuple[str, str, Mapping[str, Any]], ...]:
        """For each control its heading, its name and its settings; the subject first."""
        changed = ", ".join(f"{name} {value}" for name, value in self.tcp.items())
        subject = (f"{self.controller}, {changed}" if changed else self.controller, self.controller, self.tcp)
        others: list[tuple[str, str, Mapping[str, Any]]] = [
            (name, name, {}) for name in self.beside if changed or name != self.controller
        ]
        return (subject, *others)

    @property
    def headings(self) -> list[str]:
        """Of the columns."""
        return [heading for heading, _, _ in self.columns]

    @property
    def command(self) -> str:
        """What yields this evaluation again."""
        words = ["headend evaluate", *(["--kernel"] if self.is_live else []), self.controller]
        words += ["--quick"] if self.edition == "quick" else []
        words += [f"--set {name}={value}" for name, value in self.tcp.items()]
        words += [] if self.beside == Request("").beside else [f"--beside {','.join(self.beside)}"]
        words += [f"--only {name}" for name in self.only]
        words += [] if self.seed == 1 else [f"--seed {self.seed}"]
        words += [] if self.runs is None else [f"--runs {self.runs}"]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a request has yielded. What is simulated comes again to the byte."""

    request: Request
    found: tuple[Found, ...]
    late: int = 0
    """Runs in real time in which the machine did not keep up with the links."""

    def ran(self) -> set[str]:
        """The cases that were run."""
        return {found.case.id for found in self.found}

    def to_json(self) -> str:
        """Every value in full precision, with the definitions."""
        request = self.request
        used = dict.fromkeys(name for found in self.found for name in found.case.metrics)
        document = {
            "controller": request.controller,
            "settings": dict(request.tcp),
            "columns": request.headings,
            "edition": request.edition,
            "seed": request.seed,
            "command": request.command,
            "version": f"headend {_native.__version__} ({_native.__commit__})",
            "time": f"real, on Linux {platform.release()}" if request.is_live else "virtual",
            "late_runs": self.late,
            "interval": "Student's t, 95%, over runs of different seeds",
            "metrics": {
                name: {
                    "unit": METRICS[name].unit,
                    "definition": METRICS[name].definition,
                    "source": METRICS[name].source,
                }
                for name in used
            },
            "sections": [
                {"number": one.number, "title": one.title, "cases": one.cases(self.ran()), "not_run": one.open}
                for one in sections()
            ],
            "cases": [
                {
                    "id": found.case.id,
                    "sections": list(found.case.sections),
                    "title": found.case.title,
                    "why": found.case.why,
                    "settings": dict(found.case.settings),
                    "rows": [
                        {
                            "point": dict(row.point.values),
                            "metric": row.metric.name,
                            "values": [asdict(value) for value in row.values],
                        }
                        for row in found.rows
                    ],
                }
                for found in self.found
            ],
        }
        return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def chosen(request: Request) -> list[Case]:
    """The cases that are asked for. Raises ValueError for a name that is none."""
    known = cases(request.edition)
    unknown = set(request.only) - {case.id for case in known}
    if unknown:
        raise ValueError(f"--only {sorted(unknown)[0]}: there is no such case; --list names them all")
    return [case for case in known if not request.only or case.id in request.only]


def evaluate(request: Request, progress: Progress = lambda *_: None) -> Evaluation:
    """Run every case that is asked for.

    Raises ValueError if the request names what there is not, and ScenarioError for a wrong setting.
    """
    controllers = [name for name, _, _ in _native.controllers()]
    for name in (request.controller, *request.beside):
        if name not in controllers:
            near = difflib.get_close_matches(name, controllers, 1)
            hint = f"did you mean {near[0]!r}? There" if near else "there"
            raise ValueError(f"{name}: no such congestion control; {hint} are {', '.join(controllers)}")
        if request.is_live and name not in (kernels := AVAILABLE.read_text(encoding="ascii").split()):
            raise ValueError(f"{name}: this kernel has no such congestion control; it has {', '.join(kernels)}")
    asked = chosen(request)
    total = sum(len(case.points) for case in asked)
    done = late = 0
    found = []
    for case in asked:
        rows: list[Row] = []
        for point in case.points:
            progress(case.id, done, total)
            more, behind = _rows(request, case, point)
            rows += more
            late += behind
            done += 1
        found.append(Found(case, tuple(rows)))
    progress("", total, total)
    return Evaluation(request, tuple(found), late)


def _rows(request: Request, case: Case, point: Point) -> tuple[list[Row], int]:
    """The rows of a point, and the runs of it in which the machine did not keep up."""
    runs = request.runs or case.runs or RUNS[request.edition]
    results: dict[str, Result] = {}

    def run(setup: Setup) -> Outcome:
        scenario = setup.scenario()
        key = json.dumps(scenario)
        if key not in results:
            if request.is_live:
                results[key] = measure.run(
                    scenario, seed=request.seed, runs=runs, accept_late=True, binary=request.binary
                )
            else:
                results[key] = headend.run(scenario, seed=request.seed, runs=runs, threads=request.threads)
        return Outcome(setup, results[key])

    metrics = [METRICS[name] for name in case.metrics]
    outcomes = []
    for _, law, tcp in request.columns:
        outcome = run(Setup.of(case, point, law, tcp))
        if any(metric.needs_own_kind for metric in metrics):
            outcome.own_kind = run(outcome.setup.with_subject(outcome.setup.law_of("other")))
        outcomes.append(outcome)
    late = sum(not run["kept_up"] for result in results.values() for run in json.loads(result.meta.get("lab", "[]")))
    return [Row(point, metric, tuple(Value.of(metric.of(outcome)) for outcome in outcomes)) for metric in metrics], late
