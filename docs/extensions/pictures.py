"""Pictures made from text: a Sphinx directive that draws a chain of hosts, a ladder of messages in time, or curves.

The pictures are SVG within the page, so they have the page's colours, in light and dark. A picture has a title and a
description (`:alt:`) for those who do not see it.
"""

import re
from dataclasses import dataclass, field
from html import escape

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LETTER = 7.2
"""Width of a letter of 13 px, about."""


@dataclass
class Drawing:
    """Parts of an SVG, and the room that they take."""

    width: float
    height: float = 0
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> None:
        """Adds a line of text with its base line at `y`."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind or "label"}">{escape(text)}</text>'
        )
        self.height = max(self.height, y + 8)

    def line(self, points: list[tuple[float, float]], kind: str, arrow: bool = False) -> None:
        """Adds a line through points, with a head at its end if asked."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(f'<polyline points="{path}" class="{kind}"{head}/>')
        self.height = max(self.height, *(y + 4 for _, y in points))

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """Adds a box with its upper left corner at `x`, `y`."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" class="{kind}"/>'
        )
        self.height = max(self.height, y + height + 4)


def chain(lines: list[str]) -> Drawing:
    """Hosts in a row and links between them.

    A line is a host, `name | what it has`, with a `*` before one that matters; a link, `-- label | second label`; or
    `span FROM TO: text`, a bracket below hosts (by number, from 1).
    """
    hosts = [line.split("|") for line in lines if not line.startswith(("--", "span "))]
    links = [line[2:].split("|") for line in lines if line.startswith("--")]
    if len(links) != len(hosts) - 1:
        raise ValueError(f"{len(hosts)} hosts take {len(hosts) - 1} links, and there are {len(links)}")
    widths = [max(58.0, 16 + LETTER * max(len(part.strip()) for part in host)) for host in hosts]
    gaps = [max(70.0, 22 + LETTER * max(len(part.strip()) for part in link)) for link in links]
    drawing = Drawing(sum(widths) + sum(gaps) + 8)
    tall = 46 if any(len(host) > 1 for host in hosts) else 32
    top, x, middles = 26.0, 4.0, []
    for index, host in enumerate(hosts):
        width = widths[index]
        drawing.box(x, top, width, tall, "box strong" if host[0].startswith("*") else "box")
        middles.append(x + width / 2)
        rows = [part.strip().lstrip("*") for part in host]
        for row, part in enumerate(rows):
            y = top + tall / 2 + 4.5 + (row - (len(rows) - 1) / 2) * 16
            drawing.text(middles[-1], y, part, kind="label" if row == 0 else "small")
        x += width
        if index < len(links):
            gap, label = gaps[index], [part.strip() for part in links[index]]
            drawing.line([(x, top + tall / 2), (x + gap, top + tall / 2)], "link")
            for row, part in enumerate(label):
                drawing.text(x + gap / 2, top + tall / 2 + (-8 if row == 0 else 18), part, kind="small")
            x += gap
    y = top + tall + 14
    for line in lines:
        if found := re.fullmatch(r"span (\d+) (\d+): (.*)", line):
            left, right = (middles[int(found[side]) - 1] for side in (1, 2))
            drawing.line([(left, y - 6), (left, y), (right, y), (right, y - 6)], "bracket")
            drawing.text((left + right) / 2, y + 16, found[3])
            y += 34
    return drawing


def ladder(lines: list[str]) -> Drawing:
    """Messages between places, with time downwards.

    `lanes: NAME, NAME` names the places; `T NAME -> T NAME: text` is a message that leaves and arrives at these times,
    and `T NAME: text` something that happens.
    """
    lanes = [name.strip() for name in lines[0].removeprefix("lanes:").split(",")]
    sent = [re.fullmatch(r"([\d.]+) (.+?) -> ([\d.]+) (.+?): (.*)", line) for line in lines[1:]]
    done = [re.fullmatch(r"([\d.]+) ([^:>]+?): (.*)", line) for line in lines[1:]]
    times = [float(found[at]) for found in sent if found for at in (1, 3)] + [float(m[1]) for m in done if m]
    first, last = min(times), max(times)
    margin, between = 190.0, 250.0
    drawing = Drawing(2 * margin + between * (len(lanes) - 1))
    places = {name: margin + between * index for index, name in enumerate(lanes)}

    def down(time: str) -> float:
        return 44 + (float(time) - first) / (last - first) * 34 * max(len(lines) - 2, 4)

    for name, x in places.items():
        drawing.text(x, 16, name, kind="label strong")
        drawing.line([(x, 24), (x, down(str(last)) + 14)], "lane")
    for message, event in zip(sent, done, strict=True):
        if message:
            left, leaves, right, arrives = places[message[2]], down(message[1]), places[message[4]], down(message[3])
            drawing.line([(left, leaves), (right, arrives)], "message", arrow=True)
            drawing.text((left + right) / 2, (leaves + arrives) / 2 - 7, message[5], kind="small")
        elif event:
            x, y = places[event[2]], down(event[1])
            left_most = event[2] == lanes[0]
            drawing.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="event"/>')
            drawing.text(
                x + (-10 if left_most else 10), y + 4, event[3], anchor="end" if left_most else "start", kind="small"
            )
    return drawing


def curves(lines: list[str]) -> Drawing:
    """Lines over time, to show a shape: no scale.

    `x: NAME` and `y: NAME` name the axes, `NAME: X,Y X,Y ...` is a line from 0 to 100 either way, and `at X: text` a
    moment.
    """
    drawing = Drawing(620)
    left, top, wide, high = 40.0, 20.0, 400.0, 190.0

    def place(point: str) -> tuple[float, float]:
        x, y = (float(part) for part in point.split(","))
        return left + x / 100 * wide, top + high - y / 100 * high

    drawing.line([(left, top - 6), (left, top + high), (left + wide, top + high)], "axis")
    labels: list[float] = []
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "x":
            drawing.text(left + wide, top + high + 20, rest.strip(), anchor="end", kind="small")
        elif name == "y":
            drawing.text(left, top - 9, rest.strip(), anchor="start", kind="small")
        elif name.startswith("at "):
            x = left + float(name[3:]) / 100 * wide
            drawing.line([(x, top), (x, top + high)], "moment")
            drawing.text(x, top + high + 20, rest.strip(), kind="small")
        else:
            points = [place(point) for point in rest.split()]
            drawing.line(points, f"curve curve-{len(labels)}")
            y = points[-1][1] + 4
            while any(abs(y - other) < 15 for other in labels):
                y -= 15
            drawing.text(points[-1][0] + 8, y, name, anchor="start", kind="small")
            labels.append(y)
    return drawing


KINDS = {"chain": chain, "ladder": ladder, "curves": curves}


class Picture(SphinxDirective):
    """`{picture} chain`, `ladder` or `curves`, with a title and a description, and the picture as text below."""

    required_arguments = 1
    has_content = True
    option_spec = {"title": directives.unchanged_required, "alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """The picture as part of a page."""
        lines = [line.strip() for line in self.content if line.strip()]
        try:
            drawing = KINDS[self.arguments[0]](lines)
            title, alt = self.options["title"], self.options["alt"]
        except (KeyError, ValueError, IndexError) as wrong:
            raise self.error(f"no such picture: {wrong}") from wrong
        number = self.env.new_serialno("picture")
        body = "".join(drawing.parts).replace("url(#head)", f"url(#head-{number})")
        html = (
            f'<figure class="picture"><div class="picture-room" tabindex="0" role="group" aria-label="{escape(title)}">'
            f'<svg viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" width="{drawing.width:.0f}" role="img" '
            f'aria-labelledby="picture-{number}-title picture-{number}-desc" xmlns="http://www.w3.org/2000/svg">'
            f'<title id="picture-{number}-title">{escape(title)}</title>'
            f'<desc id="picture-{number}-desc">{escape(alt)}</desc>'
            f'<defs><marker id="head-{number}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" class="head"/></marker></defs>{body}</svg></div>'
            f"<figcaption>{escape(title)}</figcaption></figure>"
        )
        picture = nodes.raw("", html, format="html")
        picture["alt"] = alt
        return [picture]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
