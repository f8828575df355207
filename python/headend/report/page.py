"""The page itself: what each part of it says, and the one file it becomes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from headend.papers.claim import others
from headend.papers.model import ClaimResult, FigureResult, StudyResult
from headend.report import data, drawing, folder, formats, ladder, palette, panels, scale

INDEX, STUDY = "index.html", "study.json"

_TYPES = {".svg": "image/svg+xml", ".csv": "text/csv"}


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
    tables: list[data.Table]
    svg_link: str
    csv_link: str
    """Where the page finds them, empty if there are none: beside it, or in the link itself if the page has no plot to
    make them from when it was sent alone."""

    @property
    def verdicts(self) -> list[str]:
        """Of its claims."""
        return [claim.verdict for claim in self.figure.claims]


def render(study: StudyResult, out_dir: Path | str) -> Path:
    """Write the report of a study and return the path of its page.

    Raises `FolderError` if the folder cannot be written; then nothing is left half-written.
    """
    files = {STUDY: study.to_json().encode()}
    shown = []
    for figure in study.figures:
        item, beside = _show(figure, is_own=study.subject == "own")
        shown.append(item)
        files |= {f"{folder.FIGURES}/{name}": text.encode() for name, text in beside.items()}
    files[INDEX] = _page(study, shown).encode()
    out = Path(out_dir)
    folder.write(out, files, last=INDEX)
    return out / INDEX


def _show(figure: FigureResult, *, is_own: bool = False) -> tuple[Shown, dict[str, str]]:
    """A figure made ready, and its files by name."""
    plots, ladders = panels.panels(figure), ladder.draw(figure.ladder)
    files = {f"{figure.id}.csv": data.csv_text(figure)}
    static = Markup()
    if plots:
        files[f"{figure.id}.svg"] = svg = drawing.svg(figure)
        static = Markup(drawing.inlined(svg, f"{figure.id}-", figure.title))  # escaped by its writer
    elif ladders:
        files[f"{figure.id}.svg"] = ladder.document(ladders, figure.title)
    files = {name: text for name, text in files.items() if text}
    links = {
        name: f"{folder.FIGURES}/{name}" if plots else f"data:{_TYPES[Path(name).suffix]};charset=utf-8,{quote(text)}"
        for name, text in files.items()
    }
    shown = Shown(
        figure=figure,
        number=figure.section if is_own else _number(figure),
        panels=plots,
        static=static,
        ladders=[(one.title, Markup(one.svg(f"{figure.title} {one.title}".strip()))) for one in ladders],
        packet_kinds=ladder.kinds(figure.ladder),
        text=_markdown(figure.text),
        tables=data.tables(figure, plots),
        svg_link=links.get(f"{figure.id}.svg", ""),
        csv_link=links.get(f"{figure.id}.csv", ""),
    )
    return shown, files


def _number(figure: FigureResult) -> str:
    """Figure 4 for fig4; what is no figure of the paper goes by its section."""
    if named := re.fullmatch(r"fig(\d+)(-.+)?", figure.id):
        return f"Beyond Figure {named[1]}" if named[2] else f"Figure {named[1]}"
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
        elapsed=formats.span(study.elapsed_s),
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


def _reason(claim: ClaimResult) -> str:
    """Why, without the other readings: they stand in the table above it."""
    return claim.reason.removesuffix(others(claim.criteria)).rstrip()


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
    environment.filters |= {
        "embedded": embedded,
        "number": partial(formats.shown, digits=3),
        "reason": _reason,
        "strip": scale.strip,
    }
    environment.globals |= {"interval": formats.interval}
    return environment


def _read(name: str) -> str:
    return resources.files("headend.report").joinpath(name).read_text(encoding="utf-8")
