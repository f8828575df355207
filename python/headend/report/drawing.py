"""A figure's plots as SVG: a file for print, and the same picture inlined in the page for a browser without scripts.

The same figure gives the same bytes: no date, a fixed salt for the identifiers, no settings of the user's own.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from headend.papers.model import FigureResult
from headend.report import formats, palette
from headend.report.panels import Curve, Panel, panels

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "headend",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a label is a dollar
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # the one matplotlib brings; a viewer without it takes its own
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
    return _compact(out.getvalue())


def _compact(document: str) -> str:
    """The same picture in a third of the bytes: no metadata, no names that nothing refers to, short paths."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", document))
    referenced = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", document))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
        if parent.get("id") not in referenced:
            parent.attrib.pop("id", None)
        if parent.tag not in (f"{{{SVG}}}text", f"{{{SVG}}}title"):
            parent.text = None
        parent.tail = None
        if "d" in parent.attrib:
            parent.set("d", _short(parent.attrib["d"]))
        _style_once(parent)
    # What the removed style sheet said of every element.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _short(path: str) -> str:
    dots = re.sub(r"M (\S+ \S+)\s+L \1(?=\s|$)", r"M\1h0", " ".join(path.split()))
    return re.sub(r"\s*([MLCQzZ])\s*", r"\1", dots)


def _style_once(parent: ET.Element) -> None:
    """A style that all of an element's markers share moves to the element."""
    styles = {child.get("style") for child in parent}
    if len(parent) > 1 and len(styles) == 1 and all(child.tag == f"{{{SVG}}}use" for child in parent):
        style = styles.pop()
        if style and not parent.get("style"):
            parent.set("style", style)
            for child in parent:
                del child.attrib["style"]


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
        alpha = 0.06 if curve.variant else 0.15
        ax.fill_between(series.x, series.lo, series.hi, color=look["color"], alpha=alpha, linewidth=0)
    if figure.kind == "quartiles" and not curve.reference and not curve.variant:
        ax.vlines(series.x, series.lo, series.hi, color=look["color"], linewidth=1, alpha=0.6)
    if figure.kind == "sequence" and not curve.reference:
        # A dot is a stroke of no length with a round end: a third of a marker's bytes, and there are thousands.
        dots = [[v for value in values for v in (value, value, math.nan)] for values in (series.x, series.y)]
        width = 1.8 if curve.ink == 0 else 2.6
        ax.plot(*dots, color=look["color"], linewidth=width, solid_capstyle="round")
    else:
        ax.plot(series.x, series.y, **look)


def _look(figure: FigureResult, curve: Curve) -> dict[str, Any]:
    look: dict[str, Any] = {
        "color": palette.CURVES[curve.ink].light,
        "marker": _MARKERS[palette.MARKERS[curve.marker]],
        "markeredgewidth": 0,
        "linestyle": "-",
    }
    if curve.reference:
        look |= {"linestyle": ":", "linewidth": 1, "markerfacecolor": "none", "markeredgewidth": 1, "alpha": 0.8}
    elif curve.variant or curve.series.style == "dashed":
        look |= {"linestyle": "--", "linewidth": 1.2, "markersize": 3.4}
    if figure.kind == "sequence" or curve.series.style == "points":
        look["linestyle"] = "none"
    elif curve.series.style == "trace":
        look |= {"marker": "", "linewidth": 1}
    return look


def _legend(figure: FigureResult, curves: list[Curve]) -> list[Line2D]:
    """One entry a curve in its own right, and one a variant."""
    entries: dict[str, Line2D] = {}
    for curve in sorted(curves, key=lambda curve: bool(curve.variant)):
        label = curve.variant or curve.base
        if label not in entries:
            look = _look(figure, curve) | ({"color": palette.SOFT.light, "marker": "o"} if curve.variant else {})
            entries[label] = Line2D([], [], label=label, **look)
    return list(entries.values())


def _decades(axis: Any) -> None:
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: formats.shown(value)))
    axis.set_minor_locator(NullLocator())


def _with_unit(label: str) -> str:
    name, unit = formats.name_and_unit(label)
    return f"{name} [{unit}]" if unit else name


def inlined(document: str, prefix: str, description: str) -> str:
    """An SVG document as an element of the page: scalable, in the page's colours, its identifiers its own."""
    root = ET.fromstring(document)
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
