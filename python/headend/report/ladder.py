"""Ladder diagrams: a packet exchange as slanted arrows between two vertical lines, time running down.

Time is not to scale where that would be unreadable: instants with labels are kept a line of text apart, and a silence
with no packet on its way, such as a retransmission time-out, is cut short by a zigzag that says how long it was.
The times at the left are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from xml.sax.saxutils import escape, quoteattr

from headend.papers.model import Arrow
from headend.report import formats, palette

_LINE = 15.0  # px a line of text needs
_CHARACTER = 6.5  # px, of 12 px sans-serif, on the safe side
_GAP = 160.0  # px between two lifelines
_FLIGHT = 58.0  # px an ordinary packet falls on its way
_SILENCE = 110.0  # px: a longer silence is cut ...
_CUT = 46.0  # px: ... to this
_TIME = 62.0  # px for the times at the left
_TOP = 46.0
_LOST = 0.56  # of the way is where a lost packet ends

STYLE = """
.ladder text{font:12px system-ui,"Helvetica Neue",Arial,sans-serif;fill:var(--text)}
.ladder .name{font-weight:600;text-anchor:middle}
.ladder .title{font-weight:600}
.ladder .time,.ladder .cut{fill:var(--soft);font-size:11px}
.ladder .time{text-anchor:end;font-variant-numeric:tabular-nums}
.ladder .cut{text-anchor:middle;font-style:italic}
.ladder .right{text-anchor:start}.ladder .left{text-anchor:end}
.ladder .life{stroke:var(--soft);stroke-width:1.5;fill:none}
.ladder .tick{stroke:var(--line);stroke-width:1}
.ladder .data{stroke:var(--c0);fill:var(--c0)}
.ladder .retransmission{stroke:var(--c1);fill:var(--c1)}
.ladder .ack{stroke:var(--soft);fill:var(--soft)}
.ladder .control{stroke:var(--c3);fill:var(--c3)}
.ladder .flight{stroke-width:1.4}.ladder .ack .flight,.ladder .control .flight{stroke-width:1.1}
.ladder .control .flight{stroke-dasharray:5 3}.ladder .head{stroke:none}
.ladder .cross{stroke:var(--bad);stroke-width:2;fill:none}
.ladder .retransmission text{fill:var(--c1);font-weight:600}
.ladder .lost text{fill:var(--bad)}.ladder g text{stroke:var(--card);stroke-width:3px;paint-order:stroke}
"""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One panel: the elements, and how large they are [px]."""

    title: str
    body: str
    width: float
    height: float

    def svg(self, description: str) -> str:
        """The panel as an element of a page that has `STYLE` and the palette's variables."""
        return (
            f'<svg class="ladder" role="img" aria-label={quoteattr(description)} width="{self.width:g}"'
            f' viewBox="0 0 {self.width:g} {self.height:g}">{self.body}</svg>'
        )


def draw(arrows: Sequence[Arrow]) -> list[Drawing]:
    """One drawing a panel, in the order in which the panels' names first appear."""
    names = _lifelines(arrows)
    drawings = []
    for title in dict.fromkeys(arrow.group for arrow in arrows):
        own = [arrow for arrow in arrows if arrow.group == title]
        present = {name for arrow in own for name in (arrow.sender, arrow.receiver)}
        drawings.append(_draw(title, [name for name in names if name in present], own))
    return drawings


def _lifelines(arrows: Sequence[Arrow]) -> list[str]:
    """The hosts in the order in which they first appear, but who talks to several of them stands in between."""
    partners: dict[str, set[str]] = {}
    for arrow in arrows:
        partners.setdefault(arrow.sender, set())
        partners.setdefault(arrow.receiver, set())
    for title in dict.fromkeys(arrow.group for arrow in arrows):
        own = [arrow for arrow in arrows if arrow.group == title]
        for name in {name for arrow in own for name in (arrow.sender, arrow.receiver)}:
            others = {a.receiver for a in own if a.sender == name} | {a.sender for a in own if a.receiver == name}
            partners[name] = max(partners[name], others, key=len)
    ends = [name for name in partners if len(partners[name]) < 2]
    between = [name for name in partners if len(partners[name]) > 1]
    return [*ends[:1], *between, *ends[1:]]


def document(drawings: Sequence[Drawing], title: str) -> str:
    """All panels side by side as an SVG file that stands alone, light or dark as its viewer is."""
    gap, top = 36.0, 28.0 if any(drawing.title for drawing in drawings) else 0.0
    width = sum(drawing.width for drawing in drawings) + gap * max(len(drawings) - 1, 0)
    height = top + max((drawing.height for drawing in drawings), default=0.0)
    parts, x = [], 0.0
    for drawing in drawings:
        parts.append(
            f'<text class="title" x="{x + 8:g}" y="20">{escape(drawing.title)}</text>' if drawing.title else ""
        )
        parts.append(f'<g transform="translate({x:g} {top:g})">{drawing.body}</g>')
        x += drawing.width + gap
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ladder" role="img" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}"><title>{escape(title)}</title>\n'
        f"<style>svg{{{palette.variables(dark=False)}background:var(--card)}}"
        f"@media(prefers-color-scheme:dark){{svg{{{palette.variables(dark=True)}}}}}{STYLE}</style>\n"
        + "\n".join(filter(None, parts))
        + "\n</svg>\n"
    )


def _draw(title: str, names: Sequence[str], arrows: Sequence[Arrow]) -> Drawing:
    labels = {name: [a.label for a in arrows if a.sender == name] for name in names}
    left = _TIME + _CHARACTER * max(map(len, labels[names[0]]), default=0) + 16
    right = _CHARACTER * max((len(label) for name in names[1:] for label in labels[name]), default=0) + 16
    right = max(right, _CHARACTER * len(names[-1]) / 2 + 8)
    x = {name: left + _GAP * column for column, name in enumerate(names)}
    scale = _Scale(arrows)
    width, height = left + _GAP * (len(names) - 1) + right, scale.bottom + 22
    parts = [f'<text class="name" x="{x[name]:g}" y="18">{escape(name)}</text>' for name in names]
    parts += [_lifeline(x[name], scale) for name in names]
    parts += [
        f'<text class="cut" x="{(x[names[0]] + x[names[-1]]) / 2:g}" y="{cut.y + 4:g}">'
        f"{escape(_elapsed(cut.length_s))} of silence</text>"
        for cut in scale.cuts
    ]
    parts += _times(arrows, scale)
    line_at: dict[tuple[str, float], int] = {}  # labels already beside a lifeline at an instant
    for arrow in arrows:
        line = line_at.get((arrow.sender, arrow.t_send_s), 0)
        line_at[arrow.sender, arrow.t_send_s] = line + 1
        parts.append(_arrow(arrow, x, scale, line, on_left=arrow.sender == names[0]))
    return Drawing(title, "\n".join(parts), width, height)


def _arrow(arrow: Arrow, x: dict[str, float], scale: _Scale, line: int, *, on_left: bool) -> str:
    x1, y1, x2 = x[arrow.sender], scale.y(arrow.t_send_s), x[arrow.receiver]
    lost = arrow.t_recv_s is None
    y2 = scale.y(scale.arrival_s(arrow))
    if lost:
        x2, y2 = x1 + _LOST * (x2 - x1), y1 + _LOST * (y2 - y1)
    shift = -7 if on_left else 7
    parts = [
        f'<g class="{arrow.kind}{" lost" if lost else ""}">',
        f'<line class="flight" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>',
        _cross(x2, y2) if lost else _head(x1, y1, x2, y2),
        f'<text class="{"left" if on_left else "right"}" x="{x1 + shift:.1f}" y="{y1 + 4 + line * _LINE:.1f}">'
        f"{escape(arrow.label)}</text></g>",
    ]
    return "".join(parts)


def _head(x1: float, y1: float, x2: float, y2: float) -> str:
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - 8 * dx, y2 - 8 * dy
    points = [(x2, y2), (bx - 3 * dy, by + 3 * dx), (bx + 3 * dy, by - 3 * dx)]
    return f'<polygon class="head" points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}"/>'


def _cross(x: float, y: float) -> str:
    return f'<path class="cross" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10"/>'


def _lifeline(x: float, scale: _Scale) -> str:
    """A vertical line with a zigzag at every cut."""
    path = [f"M{x:g} {_TOP - 18:g}"]
    for cut in scale.cuts:
        path.append(f"V{cut.y - 9:.1f}l-5 3l10 6l-10 6l5 3")
    path.append(f"V{scale.bottom + 14:.1f}")
    return f'<path class="life" d="{"".join(path)}"/>'


def _times(arrows: Sequence[Arrow], scale: _Scale) -> list[str]:
    """The exact time of every sending, as far as they do not run into each other."""
    origin = min(arrow.t_send_s for arrow in arrows)
    parts, free = [], 0.0
    for instant in sorted({arrow.t_send_s for arrow in arrows}):
        y = scale.y(instant)
        if y >= free:
            text = escape(_elapsed(instant - origin))
            parts.append(f'<text class="time" x="{_TIME - 8:g}" y="{y + 4:.1f}">{text}</text>')
            free = y + _LINE
    return parts


def _elapsed(seconds: float) -> str:
    return f"{formats.shown(seconds * 1e3, 3)} ms" if seconds < 1 else f"{formats.shown(seconds, 4)} s"


@dataclass(frozen=True, slots=True)
class _Cut:
    y: float
    length_s: float


class _Scale:
    """Time to height: even, except where labels need room or nothing happens."""

    def __init__(self, arrows: Sequence[Arrow]) -> None:
        flights = [arrow.t_recv_s - arrow.t_send_s for arrow in arrows if arrow.t_recv_s is not None]
        self._flight_s = median(flights) if flights else 0.01
        px_per_s = _FLIGHT / self._flight_s if self._flight_s > 0 else 1000.0
        spans = [(arrow.t_send_s, self.arrival_s(arrow)) for arrow in arrows]
        instants = sorted({t for span in spans for t in span})
        lines: dict[float, int] = {}  # of text beside one lifeline
        for arrow in arrows:
            sent_along = sum(a.t_send_s == arrow.t_send_s and a.sender == arrow.sender for a in arrows)
            lines[arrow.t_send_s] = max(lines.get(arrow.t_send_s, 0), sent_along)
        self._y = {instants[0]: _TOP} if instants else {}
        self.cuts: list[_Cut] = []
        y = _TOP
        free = _TOP + lines.get(instants[0], 0) * _LINE if instants else _TOP
        for before, after in pairwise(instants):
            length = (after - before) * px_per_s
            silent = not any(start <= before and end >= after for start, end in spans)
            if silent and length > _SILENCE:
                start = max(y, free - _LINE)
                self.cuts.append(_Cut(start + _CUT / 2, after - before))
                y = start + _CUT
            else:
                y += min(max(length, 5.0), _SILENCE)
            if after in lines:
                y = max(y, free)
                free = y + lines[after] * _LINE
            self._y[after] = y
        self.bottom = max(y, free - _LINE)

    def y(self, t_s: float) -> float:
        """The height of an instant at which a packet is sent or arrives [px]."""
        return self._y[t_s]

    def arrival_s(self, arrow: Arrow) -> float:
        """When the packet arrives, or would have if it were like the others."""
        return arrow.t_send_s + self._flight_s if arrow.t_recv_s is None else arrow.t_recv_s


def kinds(arrows: Iterable[Arrow]) -> list[str]:
    """The kinds of packet present, for the key."""
    present = {arrow.kind for arrow in arrows}
    return [kind for kind in ("data", "retransmission", "ack", "control") if kind in present]
