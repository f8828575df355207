"""The page itself: what each part of it says, and the one file it becomes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from headend.papers.model import FigureResult, StudyResult
from headend.report import data, drawing, folder, ladder, numbers, palette, panels, scale

INDEX, STUDY = "index.html", "study.json"

_PLOTTED = ("lines", "quartiles", "sequence")


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure with everything the template needs and cannot say itself."""

    figure: FigureResult
    number: str
    """As in "Figure 4" or "Section 5.2"; or that it is beyond the paper."""
    panels: list[panels.Panel]
    static: Markup
    """The plots as SVG."""
    ladders: list[tuple[str, Markup]]
    """Panel titles and drawings."""
    packet_kinds: list[str]
    text: Markup
    table: data.Table | None
    svg: str | None
    """The SVG file's path beside the page."""
    svg_link: str
    """Where the page finds it: the path, or the whole file if it is small."""

    @property
    def verdicts(self) -> list[str]:
        """Of its claims."""
        return [claim.verdict for claim in self.figure.claims]


def render(study: StudyResult, out_dir: Path | str) -> Path:
    """Write the report of a study and return the path of its page.

    Raises `FolderError` if the folder cannot be written; then nothing is left half-written.
    """
    files: dict[str, bytes] = {STUDY: study.to_json().encode()}
    shown = []
    for figure in study.figures:
        item, svg = _show(figure)
        shown.append(item)
        if item.svg and svg:
            files[item.svg] = svg.encode()
    files[INDEX] = _page(study, shown).encode()
    out = Path(out_dir)
    folder.write(out, files, last=INDEX)
    return out / INDEX


def _show(figure: FigureResult) -> tuple[Shown, str | None]:
    """A figure made ready, and its SVG file."""
    plots = panels.panels(figure) if figure.kind in _PLOTTED and (figure.series or figure.reference) else []
    ladders = ladder.draw(figure.ladder)
    svg = None
    static = Markup()
    if plots:
        svg = drawing.svg(figure)
        static = Markup(drawing.inlined(svg, f"{figure.id}-", figure.title))  # escaped by its writer
    elif ladders:
        svg = ladder.document(ladders, figure.title)
    path = f"{folder.FIGURES}/{figure.id}.svg" if svg else None
    shown = Shown(
        figure=figure,
        number=_number(figure),
        panels=plots,
        static=static,
        ladders=[(one.title, Markup(one.svg(f"{figure.title} {one.title}".strip()))) for one in ladders],
        packet_kinds=ladder.kinds(figure.ladder),
        text=_markdown(figure.text),
        table=data.table(figure),
        svg=path,
        svg_link=f"data:image/svg+xml;charset=utf-8,{quote(svg)}" if svg and ladders else path or "",
    )
    return shown, svg


def _number(figure: FigureResult) -> str:
    """Figure 4 for fig4; what is no figure of the paper goes by its section."""
    number = figure.id.removeprefix("fig")
    if number != figure.id and number.isdigit():
        return f"Figure {number}"
    return f"Section {figure.section}" if figure.section else "Beyond the paper"


def _page(study: StudyResult, shown: list[Shown]) -> str:
    counts = Counter(claim.verdict for claim in study.claims())
    uplot = _read("vendor/uplot/uPlot.iife.min.js")
    scripts = [_script(text) for text in (uplot, *map(_read, ("static/plot.js", "static/page.js", "static/save.js")))]
    head_script = _script(_read("static/theme.js"))
    template = _environment().get_template("page.html")
    return template.render(
        study=study,
        shown=shown,
        figure_of={claim.id: item for item in shown for claim in item.figure.claims},
        counts={verdict: counts.get(verdict, 0) for verdict in ("reproduced", "differs")},
        styles=Markup(_styles()),
        head_script=head_script,
        scripts=scripts,
        policy=_policy([head_script, *scripts]),
        plots={
            "light": {ink.name: ink.light for ink in palette.ALL},
            "panels": {
                f"{item.figure.id}-{index}": panels.for_page(item.figure, panel)
                for item in shown
                for index, panel in enumerate(item.panels)
            },
        },
        elapsed=numbers.span(study.elapsed_s),
        runs_max=max((figure.runs for figure in study.figures), default=0),
    )


def _policy(scripts: list[Markup]) -> str:
    """A content security policy: nothing is fetched, and no script runs but ours."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'"


def _styles() -> str:
    return "\n".join(
        (
            f":root{{color-scheme:light;{palette.variables(dark=False)}}}",
            f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{palette.variables(dark=True)}}}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light])"
            f"{{color-scheme:dark;{palette.variables(dark=True)}}}}}",
            _read("vendor/uplot/uPlot.min.css"),
            ladder.STYLE,
            _read("static/page.css"),
        )
    )


def _script(text: str) -> Markup:
    """A script's text as it may stand in the page."""
    if "</script" in text.lower() or "<!--" in text:
        raise AssertionError("a script of the report would end its own element")
    return Markup(text)


def embedded(value: Any) -> Markup:
    """`value` as JSON that may stand in a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _markdown(text: str) -> Markup:
    """Markdown without raw HTML and without pictures: nothing in a text can fetch or run anything."""
    return Markup(_markdown_parser().render(text)) if text else Markup()


@cache
def _markdown_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headend.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"embedded": embedded, "number": numbers.shown, "strip": scale.strip}
    environment.globals |= {"interval": numbers.interval}
    return environment


def _read(name: str) -> str:
    return resources.files("headend.report").joinpath(name).read_text(encoding="utf-8")
