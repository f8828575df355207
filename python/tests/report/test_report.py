"""The report's files, without a browser."""

import csv
import dataclasses
import html.parser
import itertools
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import sample_study
from typer.testing import CliRunner

from headend.papers.claim import others
from headend.papers.model import Arrow, Criterion, StudyResult
from headend.report import FolderError, data, drawing, folder, formats, ladder, palette, panels, render, scale
from headend.report.__main__ import app
from headend.report.page import embedded

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> & $x_{1$ \"quoted\" 'too'"


class Elements(html.parser.HTMLParser):
    """All start tags of a page, and the text inside the elements of each tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title", "h1", "h2"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            self.text.setdefault(self._open[-1], []).append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return render(sample_study.study(), tmp_path_factory.mktemp("report") / "out").parent


@pytest.fixture(scope="module")
def page(report):
    return (report / "index.html").read_text(encoding="utf-8")


def plots(page):
    (block,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', page, re.S)
    return json.loads(block)["panels"]


# ---- the page asks for nothing from outside


def test_a_page_loads_nothing_and_forbids_loading(page):
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert not {"src", "srcset", "poster", "background"} & attributes.keys(), tag
        assert tag not in ("iframe", "object", "embed", "base"), tag
        if tag == "link":
            assert attributes["href"].startswith("data:")
    assert not re.search(r"url\((?!#)|@import", "".join(elements.text["style"]))
    policies = [a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'")


def test_every_script_of_the_page_is_allowed_by_its_hash_and_no_other(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe-inline" not in policy.replace("&#39;", "'").split("script-src")[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == policy.count("sha256-") == 5


def test_a_page_of_many_packets_stays_small(report):
    assert (report / "index.html").stat().st_size < 400_000


# ---- text is text, whoever wrote it


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    figures = []
    for figure in sample_study.study().figures:
        texts = dict.fromkeys(("title", "caption", "section", "x_label", "y_label", "text", "command"), HOSTILE)
        series = [dataclasses.replace(one, label=HOSTILE, group=HOSTILE) for one in figure.series]
        arrows = [dataclasses.replace(one, label=HOSTILE, group=HOSTILE, sender=HOSTILE) for one in figure.ladder]
        claims = [dataclasses.replace(one, what=HOSTILE, reason=HOSTILE, measured=HOSTILE) for one in figure.claims]
        figures.append(
            dataclasses.replace(figure, **texts, series=series, ladder=arrows, claims=claims, notes=[HOSTILE])
        )
    study = sample_study.study(title=HOSTILE, paper=HOSTILE, machine=HOSTILE, figures=figures)
    return render(study, tmp_path_factory.mktemp("hostile") / "out")


def test_a_script_in_any_text_is_shown_and_not_run(hostile_page, page):
    elements = Elements(hostile_page.read_text(encoding="utf-8"))
    assert sum(tag == "script" for tag, _ in elements.tags) == sum(tag == "script" for tag, _ in Elements(page).tags)
    assert not [tag for tag, _ in elements.tags if tag == "img"]
    assert not [name for _, attributes in elements.tags for name in attributes if name.startswith("on")]
    assert elements.text["h1"] == [HOSTILE]


def test_embedded_data_cannot_end_its_element(hostile_page):
    page = hostile_page.read_text(encoding="utf-8")
    assert {
        curve["label"] for panel in plots(page).values() for curve in panel["curves"] if not curve["reference"]
    } == {HOSTILE}
    text = embedded({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}


def test_hostile_text_leaves_every_svg_well_formed(hostile_page):
    files = sorted((hostile_page.parent / "figures").glob("*.svg"))
    assert files
    for file in files:
        root = ET.parse(file).getroot()
        assert not list(root.iter(f"{{{drawing.SVG}}}script"))
        assert HOSTILE in "".join(root.itertext())


def test_markdown_gives_tables_and_code_but_no_raw_html_and_no_pictures(tmp_path):
    text = (
        "| a |\n|---|\n| `b` |\n\n<script>alert(1)</script>\n\n![x](http://example.org/x.png) [x](javascript:alert(1))"
    )
    figure = dataclasses.replace(sample_study.table(), text=text)
    page = render(sample_study.study(figures=[figure]), tmp_path / "out").read_text(encoding="utf-8")
    prose = page.split('<div class="prose">')[1].split("</div>")[0]
    assert "<td><code>b</code></td>" in prose
    assert "<script" not in prose
    assert "<img" not in prose
    assert 'href="javascript' not in prose


# ---- what the page says


def test_every_claim_has_a_row_a_verdict_and_a_link_to_its_figure(page):
    table = page.split('<table class="claims">')[1].split("</table>")[0]
    rows = table.split("<tr data-verdict=")[1:]
    claims = sample_study.study().claims()
    assert len(rows) == len(claims)
    for row, claim in zip(rows, claims, strict=True):
        assert row.startswith(f'"{claim.verdict}"')
        assert claim.id in row
        assert f'href="#claim-{claim.id}"' in row
        assert page.count(f'id="claim-{claim.id}"') == 1
    assert "<b>0.553</b>" in rows[0]
    assert "0.535 to 0.571" in rows[0]


def test_other_readings_stand_in_the_table_and_not_again_in_the_reason(tmp_path):
    figure = sample_study.lines()
    (claim,) = figure.claims
    told = dataclasses.replace(claim, reason=f"The reason. {others(claim.criteria)}")
    study = sample_study.study(figures=[dataclasses.replace(figure, claims=[told])])
    page = render(study, tmp_path / "out").read_text(encoding="utf-8")
    assert "Beside it" in told.reason
    assert '<p class="reason">The reason.</p>' in page
    assert "rules of 1996 <small>(for comparison)" in page


def test_the_summary_counts_verdicts(page):
    summary = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.split('<p class="summary">')[1].split("</p>")[0]))
    assert "Of its 3 claims in numbers, 2 are reproduced and 1 differs" in summary


def test_every_figure_tells_its_command_and_seed(page):
    for figure in sample_study.study().figures:
        section = page.split(f'id="{figure.id}">')[1].split("</section>")[0]
        assert figure.command in section
        assert f"seeds from {figure.seed}" in section or f"Seed {figure.seed}" in section


def test_a_study_without_figures_is_still_a_page(tmp_path):
    page = render(sample_study.study(figures=[]), tmp_path / "out").read_text(encoding="utf-8")
    assert "Claims</h2>" not in page
    assert "This run" in page


def test_all_links_within_the_page_lead_somewhere(page):
    identifiers = [attributes["id"] for _, attributes in Elements(page).tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for tag, attributes in Elements(page).tags:
        target = attributes.get("href", "")
        if tag == "a" and target.startswith("#"):
            assert target[1:] in identifiers


def test_the_page_carries_every_point_to_the_digits_a_plot_shows(page):
    for figure in sample_study.study().figures:
        for index, panel in enumerate(panels.panels(figure) if figure.series else []):
            carried = plots(page)[f"{figure.id}-{index}"]["curves"]
            assert [c["label"] for c in carried] == [c.series.label for c in panel.curves]
            for short, curve in zip(carried, panel.curves, strict=True):
                assert short["y"] == pytest.approx(curve.series.y, rel=1e-4)
                assert short["x"] == pytest.approx(curve.series.x, rel=1e-6, abs=1e-9)


def test_two_packets_sent_at_one_instant_are_both_in_the_page(page):
    sent = plots(page)["fig5-0"]["curves"][0]
    assert len(sent["x"]) == 1200
    assert len(set(sent["x"])) < 1200


def test_the_csv_holds_every_point_in_full_precision_and_names_units(report):
    for figure in (sample_study.lines(), sample_study.quartiles()):
        with (report / "figures" / f"{figure.id}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert header[2:4] == ["Data loss [%]", "Throughput [Mbit/s]"]
        points = [
            [s.group, s.label, x, y, lo, hi]
            for s in (*figure.series, *figure.reference)
            for x, y, lo, hi in zip(s.x, s.y, s.lo, s.hi, strict=True)
        ]
        assert [row[:2] + [float(cell) for cell in row[2:]] for row in rows] == points


def test_the_table_has_a_row_for_each_swept_value_and_a_column_for_each_curve():
    figure = sample_study.lines()
    first, second = data.tables(figure, panels.panels(figure))
    assert first.title == "(a) delayed ACK"
    assert first.header[:3] == ("Data loss [%]", "8 KB", "16 KB")
    assert len(first.header) == 1 + 10
    assert [row[0] for row in first.rows] == ["0", "0.5", "1", "2", "3", "5", "10"]
    assert " to " not in first.rows[0][1], "exact"
    assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", first.rows[1][1])
    assert second.title == "(b) no delayed ACK"


def test_a_long_table_is_cut_and_says_so(page):
    (table,) = data.tables(sample_study.sequence(), panels.panels(sample_study.sequence()))
    assert len(table.rows) == data.SHOWN_ROWS < table.total
    assert f"The first {data.SHOWN_ROWS} of {table.total} rows" in page


# ---- files


def test_the_same_study_gives_the_same_bytes(report, tmp_path):
    again = render(sample_study.study(), tmp_path / "out").parent
    files = sorted(path.relative_to(report) for path in report.rglob("*") if path.is_file())
    assert len(files) == 2 + 2 * 5, "the page, the study, and five figures as SVG and CSV"
    for file in files:
        assert (again / file).read_bytes() == (report / file).read_bytes(), file


def test_study_json_keeps_full_precision(report):
    assert StudyResult.from_json((report / "study.json").read_text(encoding="utf-8")) == sample_study.study()


def test_every_svg_is_well_formed_and_names_units_on_its_axes(report):
    for name, labels in {"fig4": ("Data loss [%]", "Throughput [Mbit/s]"), "fig5": ("Time [s]",)}.items():
        text = "".join(ET.parse(report / "figures" / f"{name}.svg").getroot().itertext())
        for label in labels:
            assert label in text


def test_identifiers_of_inlined_pictures_do_not_meet():
    first, second = (drawing.inlined(drawing.svg(sample_study.quartiles()), prefix, "x") for prefix in ("a-", "b-"))
    identifiers = [set(re.findall(r' id="([^"]+)"', text)) for text in (first, second)]
    assert identifiers[0]
    assert not identifiers[0] & identifiers[1]
    for text, own in zip((first, second), identifiers, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= own
        assert set(re.findall(r'href="#([^"]+)"', text)) <= own


def test_an_existing_report_is_replaced_and_other_files_stay(tmp_path):
    out = tmp_path / "out"
    render(sample_study.study(), out)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    render(sample_study.study(figures=[sample_study.lines()], seed=9), out)
    assert sorted(path.name for path in (out / "figures").iterdir()) == ["fig4.csv", "fig4.svg"]
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert StudyResult.from_json((out / "study.json").read_text(encoding="utf-8")).seed == 9
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(FolderError, match="is a file"):
        render(sample_study.study(figures=[]), blocked)
    with pytest.raises(FolderError, match="out"):
        folder.write(tmp_path / "out", {"a": b"", "a/b": b""}, last="a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ---- curves


def test_a_variant_looks_like_what_it_is_a_variant_of():
    (panel, _) = panels.panels(sample_study.lines())
    looks = {curve.base: (curve.ink, curve.marker) for curve in panel.curves if not curve.variant}
    assert list(looks) == ["8 KB", "16 KB", "24 KB", "32 KB", "48 KB"]
    assert len(set(looks.values())) == len(looks)
    for curve in panel.curves:
        if curve.reference:
            assert curve.variant == "ns-2.35"
            assert f"{curve.base}, {curve.variant}" == curve.series.label
            assert (curve.ink, curve.marker) == looks[curve.base]


def test_a_solid_curve_is_no_variant_whatever_its_label():
    labels = {
        "8 KB": "line",
        "8 KB, MSS 512 B": "line",
        "8 KB, no delayed ACK": "line",
        "8 KB, rules of 1996": "dashed",
    }
    series = [sample_study.curve(label, [0.0, 1.0], lambda x: x, style=style) for label, style in labels.items()]
    (panel,) = panels.panels(dataclasses.replace(sample_study.lines(), series=series, reference=[]))
    assert [curve.ink for curve in panel.curves] == [0, 1, 2, 0]
    assert [curve.variant for curve in panel.curves] == ["", "", "", "rules of 1996"]


def test_a_reference_to_nothing_measured_is_a_curve_of_its_own():
    (panel,) = panels.panels(sample_study.both_axes_log())
    assert [(c.base, c.variant) for c in panel.curves if c.reference] == [("ns-2: an unrelated curve", "")]
    assert len({curve.ink for curve in panel.curves}) == len(panel.curves)


def test_a_silence_is_shaded_and_a_round_trip_is_not():
    series = dataclasses.replace(sample_study.sequence().series[0], x=[0.0, 0.02, 1.52, 1.54], y=[1.0, 2.0, 2.0, 3.0])
    figure = dataclasses.replace(sample_study.sequence(), series=[series])
    assert panels.panels(figure)[0].pauses == ((0.02, 1.52),)


def contrast(a, b):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_curve_stands_out_from_its_card_and_every_text_can_be_read():
    for ink in palette.CURVES:
        assert contrast(ink.light, palette.CARD.light) >= 3, ink.name
        assert contrast(ink.dark, palette.CARD.dark) >= 3, ink.name
    for ink in (palette.TEXT, palette.SOFT, palette.GOOD, palette.BAD, palette.LINK):
        for ground in (palette.CARD, palette.PAGE, palette.WASH):
            assert contrast(ink.light, ground.light) >= 4.5, (ink.name, ground.name)
            assert contrast(ink.dark, ground.dark) >= 4.5, (ink.name, ground.name)


# ---- ladders


def test_a_lost_packet_ends_in_a_cross_before_the_other_side():
    drawings = ladder.draw(sample_study.ladder().ladder)
    assert [one.title for one in drawings] == ["(a) fast retransmit", "(b) super fast retransmit"]
    for one in drawings:
        assert one.body.count('class="cross"') == 2
        assert one.body.count('class="head"') == sum(
            a.t_recv_s is not None for a in sample_study.ladder().ladder if a.group == one.title
        )


def test_a_time_out_is_cut_short_and_says_how_long_it_was():
    with_timeout, without = ladder.draw(sample_study.ladder().ladder)
    assert "1.5 s of silence" in with_timeout.body
    assert "silence" not in without.body
    assert with_timeout.height < 2 * without.height


def test_labels_beside_a_lifeline_never_overlap_however_close_the_packets():
    arrows = [Arrow(1e-7 * (i // 3), 0.01 + 1e-7 * i, "server", "PC", f"data {i}", "data") for i in range(30)]
    (one,) = ladder.draw(arrows)
    heights = sorted(float(y) for y in re.findall(r'<text class="left" x="[^"]+" y="([^"]+)"', one.body))
    assert len(heights) == 30
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 14.9
    assert max(heights) < one.height


def test_time_runs_down_a_ladder():
    (one, _) = ladder.draw(sample_study.ladder().ladder)
    for y1, y2 in re.findall(r'class="flight" x1="[^"]+" y1="([^"]+)" x2="[^"]+" y2="([^"]+)"', one.body):
        assert float(y2) > float(y1)


# ---- formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234.56, "1235"),
        (0.0123456, "0.01235"),
        (-3.0, "\N{MINUS SIGN}3"),
        (2.5e-7, "2.500e\N{MINUS SIGN}07"),
        (999.96, "1000"),
    ],
)
def test_a_number_is_shown_with_the_digits_that_mean_something(value, text):
    assert formats.shown(value) == text


def test_a_label_is_a_name_and_a_unit():
    assert formats.name_and_unit("Throughput [Mbit/s]") == ("Throughput", "Mbit/s")
    assert formats.name_and_unit("Packet") == ("Packet", "")


@pytest.mark.parametrize(("lo", "hi"), [(None, 0.5), (0.5, None), (0.4, 0.6), (-2.0, -1.0)])
@pytest.mark.parametrize("measured", [-1.5, 0.0, 0.45, 0.5, 2.0, 300.0])
def test_a_value_lies_on_its_strip_where_it_lies_in_its_range(lo, hi, measured):
    holds = (lo is None or measured >= lo) and (hi is None or measured <= hi)
    at = scale.strip(Criterion("x", "", "", measured, measured - 0.1, measured + 0.1, lo, hi, holds))
    assert all(0 <= v <= 100 and math.isfinite(v) for v in dataclasses.astuple(at))
    assert at.accept_from < at.accept_to
    assert (at.accept_from <= at.measured <= at.accept_to) == holds


# ---- the command


def test_the_command_draws_the_same_report_again_from_its_json(report, tmp_path):
    out = tmp_path / "again"
    command = [sys.executable, "-m", "headend.report", report / "study.json", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out / "index.html")
    assert (out / "index.html").read_bytes() == (report / "index.html").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{", "is not a study"),
        ('{"id": 1}', "study.id: expected str, found 1"),
        ("[]", "object"),
    ],
)
def test_the_command_refuses_what_is_no_study_and_writes_nothing(tmp_path, content, message):
    study, out = tmp_path / "study.json", tmp_path / "out"
    if content is not None:
        study.write_text(content, encoding="utf-8")
    done = CliRunner().invoke(app, [str(study), "--out", str(out)])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert not out.exists()
