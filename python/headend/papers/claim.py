"""A claim: what a paper states in numbers, how it is measured here, and what follows from the two.

The accepted range is declared with the claim, before any result. A verdict is computed from the measured value and that
range alone; the interval says how sure it is.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Generic, TypeVar

from headend.papers.model import ClaimResult, Criterion
from headend.papers.stats import Estimate

Data = TypeVar("Data")

RELATIVE_TOLERANCE = 0.15
"""How far a measured number may lie from a published one without a band of its own.

The papers print one or two digits of values read off plots whose points are lost; 15% is also how well the loss
formulas of Mathis and PFTK are expected to fit.
"""

GENERAL_TOLERANCE = "Within 15% or half a unit of the last printed digit, whichever is wider"


class MeasurementError(ValueError):
    """A claim's number could not be computed."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[Data]):
    """The measurement behind a published claim; `Data` is what its figure yields."""

    id: str
    """As in claims.toml."""
    measure: Callable[[Data], Sequence[Criterion]]
    """The numbers, each with its accepted range. The verdict needs all that are judged."""
    reason: Callable[[Data, Sequence[Criterion]], str]
    """Why it differs: asked only then. Must quote a measurement."""
    tolerance: str
    """How the accepted ranges follow from the published figure, and why so wide."""

    def judge(self, data: Data) -> ClaimResult:
        """Measure and compare."""
        entry, criteria = published()[self.id], list(self.measure(data))
        return judge(
            self.id,
            entry.what,
            criteria,
            published=entry.text,
            differs=lambda: self.reason(data, criteria),
            tolerance=self.tolerance,
        )


def judge(
    claim: str,
    what: str,
    criteria: Sequence[Criterion],
    *,
    published: str = "",
    differs: Callable[[], str] = lambda: "",
    always: str = "",
    tolerance: str = "",
) -> ClaimResult:
    """The verdict on measured numbers, of a paper's claim or a lab's goal: reproduced if all that are judged hold.

    `differs` says why it differs and is asked only then; `always` is said whatever the verdict. Without a `published`
    text, those of the criteria stand for it.

    Raises MeasurementError if a number is not finite, or if there is none to judge.
    """
    for one in criteria:
        if not all(map(math.isfinite, (one.measured, one.lo, one.hi))):
            raise MeasurementError(f"{claim}: {one.what}: measured {one.measured}")
    judged = [one for one in criteria if one.judged]
    if not judged:
        raise MeasurementError(f"{claim}: nothing to judge")

    def each(text: Callable[[Criterion], str]) -> str:
        return "; ".join(f"{one.what}: {text(one)}" if len(judged) > 1 else text(one) for one in judged)

    holds = all(one.holds for one in judged)
    return ClaimResult(
        id=claim,
        what=what,
        published=published or each(lambda one: one.published),
        measured=each(lambda one: number(one.measured, one.unit)),
        interval=each(interval),
        verdict="reproduced" if holds else "differs",
        reason=" ".join(filter(None, ("" if holds else differs(), always, _close(judged), others(criteria)))),
        tolerance=tolerance,
        criteria=list(criteria),
    )


@dataclass(frozen=True, slots=True)
class Range:
    """The accepted values of a number; a bound of None is open."""

    lo: float | None = None
    hi: float | None = None
    strict: bool = False
    """The bounds themselves are not accepted."""

    def __contains__(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.strict:
            return (self.lo is None or value > self.lo) and (self.hi is None or value < self.hi)
        return (self.lo is None or value >= self.lo) and (self.hi is None or value <= self.hi)


def about(published: float, digit: float) -> Range:
    """Around a published number whose last printed digit counts `digit`: see `GENERAL_TOLERANCE`."""
    slack = max(abs(published) * RELATIVE_TOLERANCE, digit / 2)
    return Range(published - slack, published + slack)


def more_than(value: float) -> Range:
    """Above `value`."""
    return Range(lo=value, strict=True)


def less_than(value: float) -> Range:
    """Below `value`."""
    return Range(hi=value, strict=True)


def at_most(value: float) -> Range:
    """`value` or below."""
    return Range(hi=value)


def exactly(value: float) -> Range:
    """`value` and nothing else."""
    return Range(value, value)


def criterion(
    what: str, published: str, measured: Estimate, accept: Range, *, unit: str = "", judged: bool = True
) -> Criterion:
    """A number and whether it lies in its accepted range. A number that is not finite never does."""
    return Criterion(
        what=what,
        unit=unit,
        published=published,
        measured=measured.value,
        lo=measured.lo,
        hi=measured.hi,
        accept_lo=accept.lo,
        accept_hi=accept.hi,
        holds=measured.value in accept,
        judged=judged,
    )


@dataclass(frozen=True, slots=True)
class Published:
    """An entry of claims.toml."""

    what: str
    text: str
    section: str
    entry: Mapping[str, Any]

    def band(self, name: str) -> Range:
        """The range given for one of the claim's numbers."""
        low, _, high = str(self.entry["band"][name]).partition("..")
        return Range(float(low), float(high))


@cache
def published() -> Mapping[str, Published]:
    """What the papers state, by claim id."""
    text = resources.files("headend.papers").joinpath("claims.toml").read_text(encoding="utf-8")
    return {
        entry["id"]: Published(entry["what"], _published(entry["published"]), entry.get("section", ""), entry)
        for entry in tomllib.loads(text)["claim"]
    }


def number(value: float, unit: str = "") -> str:
    """Three significant digits and the unit."""
    text = f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1000 else f"{value:.4g}"
    return f"{text} {unit}".rstrip()


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 time-out", "3 time-outs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def interval(of: Criterion) -> str:
    """The 95% interval, or that there is none."""
    return "exact" if of.lo == of.hi else f"{number(of.lo)} .. {number(of.hi, of.unit)}"


def _close(judged: Sequence[Criterion]) -> str:
    """Says where chance could have turned a verdict: an interval that crosses the edge of its range."""
    close = [
        c.what
        for c in judged
        if any(edge is not None and c.lo < edge < c.hi for edge in (c.accept_lo, c.accept_hi)) and c.lo < c.hi
    ]
    return f"Close: the interval crosses the edge of the accepted range for {', '.join(close)}." if close else ""


def others(criteria: Sequence[Criterion]) -> str:
    """What the other readings of the paper measure."""
    beside = [c for c in criteria if not c.judged]
    if not beside:
        return ""
    rows = (f"{c.what} {number(c.measured, c.unit)} ({'within' if c.holds else 'outside'} the range)" for c in beside)
    return f"Beside it: {'; '.join(rows)}."


def _published(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name.replace('_', ' ')}: {item}" for name, item in value.items())
    return str(value)
