"""What a study yields: plain data that the terminal table, the report and `--format json` all render.

Everything here is JSON: numbers are finite floats or ints, text is str, a missing value is None. Times are seconds.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headend.papers.stats import Estimate

Kind = Literal["lines", "quartiles", "sequence", "ladder", "table", "derivation"]
Verdict = Literal["reproduced", "differs"]
Style = Literal["line", "dashed", "points", "trace"]
"""A trace is a line without markers: for more samples than markers have room."""
Subject = Literal["paper", "lab", "own", "evaluation"]
ArrowKind = Literal["data", "retransmission", "ack", "control"]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. `lo` and `hi` bound the 95% interval of `y`; equal to `y` where the value is exact.

    In a figure of kind "quartiles", `y` is the median and `lo`, `hi` are the quartiles themselves.
    In one of kind "sequence", a point is a packet: `x` when it was sent [s], `y` its number, counted from 1.
    """

    label: str
    x: list[float]
    y: list[float]
    lo: list[float]
    hi: list[float]
    group: str = ""
    """The panel the curve belongs to, "(a) 30 KB"; empty if the figure has one panel only."""
    style: Style = "line"

    @staticmethod
    def of(label: str, x: Iterable[float], y: Iterable[Estimate], group: str = "", style: Style = "line") -> Series:
        """A curve through estimates."""
        points = list(y)
        value, lo, hi = ([getattr(point, part) for point in points] for part in ("value", "lo", "hi"))
        return Series(label, list(x), value, lo, hi, group, style)

    @staticmethod
    def exact(label: str, x: Sequence[float], y: Sequence[float], group: str = "", style: Style = "line") -> Series:
        """A curve through values without uncertainty."""
        return Series(label, list(x), list(y), list(y), list(y), group, style)


@dataclass(frozen=True, slots=True)
class Arrow:
    """One packet in a ladder diagram."""

    t_send_s: float
    t_recv_s: float | None
    """None: the packet was lost."""
    sender: str
    receiver: str
    label: str
    kind: ArrowKind
    group: str = ""
    """The panel, as for `Series`."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One number of a claim: what was published, what was measured, and what would have been accepted."""

    what: str
    unit: str
    """As in "Mbit/s"; empty for a ratio or a count."""
    published: str
    measured: float
    lo: float
    hi: float
    """95% interval of `measured`."""
    accept_lo: float | None
    accept_hi: float | None
    """The accepted range; None where it is open."""
    holds: bool
    judged: bool = True
    """False: shown for comparison (another reading of the paper), without a say in the verdict."""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A published claim beside what was measured."""

    id: str
    what: str
    published: str
    measured: str
    interval: str
    verdict: Verdict
    reason: str
    """Why it differs, quoting a measurement; for a claim that is reproduced, what was judged, or nothing."""
    tolerance: str = ""
    """How the accepted range follows from the published figure."""
    criteria: list[Criterion] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureResult:
    """A figure of the paper, rerun."""

    id: str
    """Without the study: "fig4"; the full id is "tuning.fig4"."""
    title: str
    caption: str
    section: str = ""
    kind: Kind
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    series: list[Series] = field(default_factory=list)
    reference: list[Series] = field(default_factory=list)
    """The same from ns-2: an outside judge, not the paper's own points."""
    ladder: list[Arrow] = field(default_factory=list)
    text: str = ""
    """Markdown: the derivation, or the rows of a table."""
    claims: list[ClaimResult] = field(default_factory=list)
    command: str = ""
    """The exact command that regenerates this figure."""
    runs: int = 0
    """Runs for each random point; points without chance take one run."""
    seed: int = 0
    notes: list[str] = field(default_factory=list)
    """What the reader must know: readings of the paper, variants shown."""


@dataclass(frozen=True, slots=True)
class StudyResult:
    """A paper, rerun."""

    id: str
    title: str
    paper: str
    """Authors, title, year."""
    edition: Literal["quick", "full"]
    command: str
    seed: int
    machine: str
    version: str
    """Version and commit of headend."""
    started: str
    """ISO 8601, UTC."""
    elapsed_s: float
    figures: list[FigureResult] = field(default_factory=list)
    subject: Subject = "paper"
    """What the page says it shows: a paper run again, the simulator beside real hosts, own results, or a control."""

    def claims(self) -> list[ClaimResult]:
        """All claims in the order of the figures."""
        return [claim for figure in self.figures for claim in figure.claims]

    def to_json(self) -> str:
        """The study as JSON text, read back by `from_json`."""
        return json.dumps(to_dict(self), indent=1, allow_nan=False, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> StudyResult:
        """The study that `to_json` wrote.

        Raises ValueError, naming the field, if the text is not a study.
        """
        return typing.cast(StudyResult, _revive(StudyResult, json.loads(text), "study"))


def to_dict(result: Any) -> dict[str, Any]:
    """Any of the results above as dicts and lists, ready for JSON."""
    return dataclasses.asdict(result)


def _revive(kind: Any, value: Any, where: str) -> Any:
    """Build `kind` from decoded JSON; `where` names the place in errors."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise ValueError(f"{where}: expected an object, found {type(value).__name__}")
        hints = typing.get_type_hints(kind)
        unknown = value.keys() - hints.keys()
        if unknown:
            raise ValueError(f"{where}: unknown field {sorted(unknown)[0]!r}")
        fields = {name: _revive(hints[name], item, f"{where}.{name}") for name, item in value.items()}
        try:
            return kind(**fields)
        except TypeError as error:  # a field without a default is missing
            raise ValueError(f"{where}: {error}") from error
    if origin is list:
        if not isinstance(value, list):
            raise ValueError(f"{where}: expected a list, found {type(value).__name__}")
        return [_revive(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{where}: expected one of {', '.join(map(repr, arguments))}, found {value!r}")
        return value
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _revive(next(a for a in arguments if a is not type(None)), value, where)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{where}: expected {kind.__name__}, found {value!r}")
