"""A figure's plots as SVG: a file for print, and the same picture inlined in the page for a browser without scripts.

The same figure gives the same bytes: no date, a fixed salt for the identifiers, no settings of the user's own.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from typing import Any, Literal

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from headend.papers.model import FigureResult
from headend.report import numbers, palette
from headend.report.panels import Curve, Panel, panels

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "headend",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a label is a dollar
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": palette.SOFT.light,
    "axes.labelcolor": palette.TEXT.light,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": palette.LINE.light,
    "grid.linewidth": 0.6,
    "xtick.color": palette.SOFT.light,
    "ytick.color": palette.SOFT.light,
    "text.color": palette.TEXT.light,
    "path.simplify": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
_MARKERS = dict(zip(palette.MARKERS, ("o", "s", "^", "D", "v", "P", "X", "*"), strict=True))
_WIDTH_IN, _HEIGHT_IN = 7.4, 4.0


def svg(figure: FigureResult) -> str:
    """The plots of a figure as an SVG document."""
    shown = panels(figure)
    with matplotlib.style.context(["default", _SETTINGS]):
        columns = min(len(shown), 2)
        rows = math.ceil(len(shown) / columns)
        canvas = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN * (0.85 * rows if columns > 1 else 1)), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False).flat
        for panel, ax in zip(shown, axes, strict=False):
            _draw(figure, panel, ax)
        for ax in list(axes)[len(shown) :]:
            ax.set_axis_off()
        handles = _legend(figure, [curve for panel in shown for curve in panel.curves])
        canvas.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)) or 1)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": "headend", "Title": figure.title})
    # Line ends as everywhere else in the tree, whatever the platform.
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _draw(figure: FigureResult, panel: Panel, ax: Axes) -> None:
    ax.set_title(panel.title)
    ax.set_xlabel(_with_unit(figure.x_label))
    ax.set_ylabel(_with_unit(figure.y_label))
    for start, end in panel.pauses:
        ax.axvspan(start, end, color=palette.PAUSE.light, linewidth=0, zorder=0)
    if figure.x_log:
        ax.set_xscale("log")
        _decades(ax.xaxis)
    if figure.y_log:
        ax.set_yscale("log")
        _decades(ax.yaxis)
    for curve in panel.curves:
        _draw_curve(figure, curve, ax)
    values = [v for curve in panel.curves for v in (*curve.series.y, *curve.series.lo)]
    if not figure.y_log and values and min(values) >= 0:
        ax.set_ylim(bottom=0)


def _draw_curve(figure: FigureResult, curve: Curve, ax: Axes) -> None:
    series, look = curve.series, _look(figure, curve)
    if not curve.exact and not curve.reference:
        ax.fill_between(series.x, series.lo, series.hi, color=look["color"], alpha=0.15, linewidth=0)
    if figure.kind == "quartiles" and not curve.reference:
        ax.vlines(series.x, series.lo, series.hi, color=look["color"], linewidth=1, alpha=0.6)
    if figure.kind == "sequence" and not curve.reference:
        ax.plot(*(_dots(values) for values in (series.x, series.y)), **look)
    else:
        ax.plot(series.x, series.y, **look)


def _dots(values: list[float]) -> list[float]:
    return [v for value in values for v in (value, value, math.nan)]


def _look(figure: FigureResult, curve: Curve) -> dict[str, Any]:
    colour = palette.CURVES[curve.ink].light
    look: dict[str, Any] = {"color": colour, "marker": _MARKERS[palette.MARKERS[curve.marker]]}
    if curve.reference:
        look |= {"linewidth": 1, "markerfacecolor": "none", "markeredgewidth": 1, "alpha": 0.8}
    elif figure.kind == "sequence":
        # A dot is a stroke of no length with a round end: a third of a marker's bytes, and there are thousands.
        return {"color": colour, "linewidth": 1.8 if curve.ink == 0 else 2.8, "solid_capstyle": "round"}
    else:
        look["markeredgewidth"] = 0
    return look | {"linestyle": _linestyle(figure, curve)}


def _linestyle(figure: FigureResult, curve: Curve) -> Literal["none", ":", "--", "-"]:
    if figure.kind == "sequence" or curve.series.style == "points":
        return "none"
    return ":" if curve.reference else "--" if curve.series.style == "dashed" else "-"


def _legend(figure: FigureResult, curves: list[Curve]) -> list[Line2D]:
    """One entry a label; references that look like their measured curve share one."""
    entries: dict[str, Line2D] = {}
    own = {curve.ink for curve in curves if not curve.reference}
    for curve in curves:
        paired = curve.reference and curve.ink in own
        label = "ns-2 (hollow)" if paired else f"ns-2: {curve.series.label}" if curve.reference else curve.series.label
        if label in entries:
            continue
        entries[label] = Line2D(
            [],
            [],
            color=palette.SOFT.light if paired else palette.CURVES[curve.ink].light,
            marker="o" if paired else _MARKERS[palette.MARKERS[curve.marker]],
            markerfacecolor="none" if curve.reference else None,
            linestyle=_linestyle(figure, curve),
            linewidth=1 if curve.reference else 1.5,
            label=label,
        )
    return list(entries.values())


def _decades(axis: Any) -> None:
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: numbers.shown(value)))
    axis.set_minor_formatter(NullFormatter())


def _with_unit(label: str) -> str:
    name, unit = numbers.name_and_unit(label)
    return f"{name} [{unit}]" if unit else name


def inlined(document: str, prefix: str, description: str) -> str:
    """An SVG document as an element of the page: scalable, in the page's colours, its identifiers its own."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(document)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": description}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name in ("style", "fill", "stroke", "clip-path"):
                element.set(name, _themed(value.replace("url(#", f"url(#{prefix}")))
            elif name == f"{{{XLINK}}}href":
                element.set(name, value.replace("#", f"#{prefix}", 1))
    return ET.tostring(root, encoding="unicode")


_BY_VALUE = {ink.light: ink for ink in reversed(palette.ALL)} | {"#ffffff": palette.CARD}


def _themed(style: str) -> str:
    """The palette's light colours as the page's variables, so that the picture follows the page into the dark."""
    return re.sub(
        r"#[0-9a-f]{6}",
        lambda found: f"var(--{_BY_VALUE[found[0]].name})" if found[0] in _BY_VALUE else found[0],
        style,
    )
