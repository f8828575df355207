"""What a figure's plots show, decided once for the page and for the SVG file: panels, colours, markers, pauses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headend.papers.model import FigureResult, Series
from headend.report import formats, palette

PAUSE_S = 0.25
"""A sender silent for this long is shaded in a sequence trace: more than ten round trips of the papers' path, more
than a delayed ACK's 200 ms, less than any retransmission time-out in the studies."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A series with the look it has wherever it appears.

    A dashed "8 KB, rules of 1996" beside a curve "8 KB" is a variant of it, and so is a reference "8 KB, ns-2.35":
    they share colour and marker, and the legend switches them by what they vary and by which variant they are.
    """

    series: Series
    reference: bool
    base: str
    """The label of the curve that this is a variant of; its own, if of none."""
    variant: str
    """Empty for a curve in its own right."""
    ink: int
    """Index into `palette.CURVES`."""
    marker: int
    """Index into `palette.MARKERS`."""

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
    curves = _curves(figure.series, figure.reference)
    result = []
    for title in dict.fromkeys(curve.series.group for curve in curves):
        members = tuple(curve for curve in curves if curve.series.group == title)
        sent = [curve.series for curve in members if not curve.reference] if figure.kind == "sequence" else []
        result.append(Panel(title, members, _pauses(sent)))
    return result


def _curves(measured: Sequence[Series], reference: Sequence[Series]) -> list[Curve]:
    """Every series with its look: a label looks the same in every panel."""
    labels = dict.fromkeys(series.label for series in measured)
    bases: dict[str, int] = {}
    curves = []
    for series, is_reference in [*((s, False) for s in measured), *((s, True) for s in reference)]:
        varies = is_reference or series.style == "dashed"
        base, variant = _variant(series.label, labels) if varies else (series.label, "")
        if is_reference and not variant:
            base, variant = f"ns-2: {base}", ""
        look = bases.setdefault(base, len(bases))
        ink, marker = look % len(palette.CURVES), look % len(palette.MARKERS)
        curves.append(Curve(series, is_reference, base, variant, ink, marker))
    return curves


def _variant(label: str, labels: Collection[str]) -> tuple[str, str]:
    """What `label` is a variant of, and which, if one of `labels` and a comma begin it."""
    base = max((own for own in labels if label.startswith(f"{own}, ")), key=len, default=label)
    return base, label[len(base) + 2 :]


def _pauses(series: Sequence[Series]) -> tuple[tuple[float, float], ...]:
    times = sorted(x for one in series for x in one.x)
    return tuple((a, b) for a, b in pairwise(times) if b - a >= PAUSE_S)


def for_page(figure: FigureResult, panel: Panel) -> dict[str, Any]:
    """A panel as the page's script reads it: rounded, and without bounds where there are none."""
    x_name, x_unit = formats.name_and_unit(figure.x_label)
    y_name, y_unit = formats.name_and_unit(figure.y_label)
    # A packet's time needs the digits that tell it from its neighbour's, a swept parameter all that were written.
    digits = 7 if figure.kind == "sequence" else 6
    return {
        "kind": figure.kind,
        "title": panel.title,
        "x": {"name": x_name, "unit": x_unit, "log": figure.x_log},
        "y": {"name": y_name, "unit": y_unit, "log": figure.y_log},
        "pauses": [formats.carried_all(pause, digits) for pause in panel.pauses],
        "curves": [
            {
                "label": curve.series.label,
                "base": curve.base,
                "variant": curve.variant,
                "ink": palette.CURVES[curve.ink].name,
                "marker": palette.MARKERS[curve.marker],
                "style": curve.series.style,
                "reference": curve.reference,
                "x": formats.carried_all(curve.series.x, digits),
                "y": formats.carried_all(curve.series.y),
            }
            | (
                {}
                if curve.exact
                else {"lo": formats.carried_all(curve.series.lo), "hi": formats.carried_all(curve.series.hi)}
            )
            for curve in panel.curves
        ],
    }
