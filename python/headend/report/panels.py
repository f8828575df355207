"""What a figure's plots show, decided once for the page and for the SVG file: panels, colours, markers, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headend.papers.model import FigureResult, Series
from headend.report import numbers, palette

PAUSE_S = 0.25
"""A sender silent for this long is shaded in a sequence trace: more than ten round trips of the papers' path, more
than a delayed ACK's 200 ms, less than any retransmission time-out in the studies."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A series with the look it has wherever it appears."""

    series: Series
    ink: int
    """Index into `palette.CURVES`."""
    marker: int
    """Index into `palette.MARKERS`."""
    reference: bool
    of: str | None = None
    """The label of the measured curve that a reference is a reference to, if there is one."""

    @property
    def exact(self) -> bool:
        """No interval to show."""
        return self.series.lo == self.series.y == self.series.hi


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    curves: tuple[Curve, ...]
    pauses: tuple[tuple[float, float], ...]
    """From, to [s]: nothing was sent between; in sequence traces only."""


def panels(figure: FigureResult) -> list[Panel]:
    """The panels of a figure in the order in which their names first appear."""
    everything = [*figure.series, *figure.reference]
    measured, reference = _looks(figure.series, figure.reference)
    result = []
    for title in dict.fromkeys(series.group for series in everything):
        curves = [Curve(one, *measured[one.label], False) for one in figure.series if one.group == title]
        curves += [Curve(one, *reference[one.label]) for one in figure.reference if one.group == title]
        pauses = _pauses([one for one in figure.series if one.group == title]) if figure.kind == "sequence" else ()
        result.append(Panel(title, tuple(curves), pauses))
    return result


def _looks(
    measured: Sequence[Series], reference: Sequence[Series]
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int, bool, str | None]]]:
    """Ink and marker by label, for `Curve`: a label looks the same in every panel, a reference like its own curve."""
    inks, markers = len(palette.CURVES), len(palette.MARKERS)
    labels = list(dict.fromkeys(series.label for series in measured))
    dashed = {series.label for series in measured if series.style == "dashed"}
    if len(labels) > inks and 0 < len(dashed) < len(labels):
        # More curves than colours: dashed variants share the colours of the solid ones, in order.
        rows = [[label for label in labels if (label in dashed) == among] for among in (False, True)]
    else:
        rows = [labels]
    looks = {label: (i % inks, i % markers) for row in rows for i, label in enumerate(row)}
    references: dict[str, tuple[int, int, bool, str | None]] = {}
    spare = len(labels)
    for label in dict.fromkeys(series.label for series in reference):
        own = max((own for own in labels if _names(label, own)), key=len, default=None)
        if own is None:
            references[label] = (spare % inks, spare % markers, True, None)
            spare += 1
        else:
            references[label] = (*looks[own], True, own)
    return looks, references


def _names(reference: str, own: str) -> bool:
    """Whether a reference's label holds a measured one's, as a whole: "8 KB" is in "8 KB, ns-2", not in "48 KB"."""
    start = reference.find(own)
    end = start + len(own)
    return (
        start >= 0
        and not (start and reference[start - 1].isalnum())
        and not (end < len(reference) and reference[end].isalnum())
    )


def _pauses(series: Sequence[Series]) -> tuple[tuple[float, float], ...]:
    times = sorted(x for one in series for x in one.x)
    return tuple((a, b) for a, b in pairwise(times) if b - a >= PAUSE_S)


def for_page(figure: FigureResult, panel: Panel) -> dict[str, Any]:
    """A panel as the page's script reads it: rounded, and without bounds where there are none."""
    x_name, x_unit = numbers.name_and_unit(figure.x_label)
    y_name, y_unit = numbers.name_and_unit(figure.y_label)
    # A packet's time needs the digits that tell it from its neighbour's, a swept parameter all that were written.
    digits = 7 if figure.kind == "sequence" else 6
    return {
        "kind": figure.kind,
        "x": {"name": x_name, "unit": x_unit, "log": figure.x_log},
        "y": {"name": y_name, "unit": y_unit, "log": figure.y_log},
        "pauses": [numbers.carried_all(pause, digits) for pause in panel.pauses],
        "curves": [
            {
                "label": curve.series.label,
                "ink": palette.CURVES[curve.ink].name,
                "marker": palette.MARKERS[curve.marker],
                "style": curve.series.style,
                "reference": curve.reference,
                "of": curve.of,
                "x": numbers.carried_all(curve.series.x, digits),
                "y": numbers.carried_all(curve.series.y),
            }
            | (
                {}
                if curve.exact
                else {"lo": numbers.carried_all(curve.series.lo), "hi": numbers.carried_all(curve.series.hi)}
            )
            for curve in panel.curves
        ],
    }
