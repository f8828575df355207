"""The report of a user's own results."""

import json
from pathlib import Path

import pytest

import headend
from headend.report import own

SCENARIO = headend.Scenario(
    title="short transfers",
    duration="60s",
    runs=8,
    nodes={"server": {"personality": "linux"}, "pc": {}},
    links={"line": {"between": ["server", "pc"], "rate": "10Mbit/s", "delay": "10ms", "queue": "20 packets"}},
    flows={"get": {"from": "server", "to": "pc", "bytes": "100KB"}},
)
LOSS = ["0%", "2%"]


@pytest.fixture(scope="module")
def swept() -> headend.Result:
    return SCENARIO.run(sweep={"links.line.loss": LOSS, "nodes.server.personality": ["linux", "newreno"]})


def test_a_sweep_is_drawn_with_the_medians_and_intervals_of_its_summary(swept):
    goodput = next(figure for figure in own.study({"these": swept}).figures if figure.id == "goodput_bps")
    assert goodput.x_label == "links.line.loss [%]"
    assert [series.label for series in goodput.series] == ["linux", "newreno"]
    summary = swept.summary().where(personality="newreno")
    assert goodput.series[1].x == [0.0, 2.0]
    assert goodput.series[1].y == pytest.approx((summary["goodput_bps"] / 1e6).tolist())
    assert goodput.series[1].lo == pytest.approx((summary["goodput_bps_from"] / 1e6).tolist())


def test_results_are_compared_point_by_point(tmp_path):
    linux = SCENARIO.run(sweep={"links.line.loss": LOSS})
    slower = SCENARIO.run(sweep={"links.line.loss": LOSS}, set={"links.line.rate": "5Mbit/s"})
    study = own.study({"fast": linux, "slow": slower})
    series = next(figure for figure in study.figures if figure.id == "goodput_bps").series
    assert [(one.label, one.style) for one in series] == [("fast", "line"), ("slow", "dashed")]
    assert "goodput over that of fast" in next(figure for figure in study.figures if figure.id == "points").text
    page = Path(linux.report(tmp_path, name="fast", slow=slower))
    assert page == tmp_path / "index.html"
    assert "short transfers" in page.read_text()
    assert json.loads((tmp_path / "study.json").read_text())["subject"] == "own"


def test_one_traced_run_is_shown_in_time():
    result = SCENARIO.run(runs=1, set={"interval": "50ms", "links.line.loss": "2%"}, trace=True)
    figures = {figure.id: figure for figure in own.study({"these": result}).figures}
    assert {"intervals-flows", "windows", "sequence", "delays", "ladder"} <= set(figures)
    assert "goodput_bps" not in figures, "nothing is swept"
    sent = sum(len(series.x) for series in figures["sequence"].series)
    assert sent == int(result.flows["segments_sent"].sum())
    assert max(figures["delays"].series[0].y) == 100.0
    assert min(figures["delays"].series[0].x) >= 10.0, "no packet is faster than the line"
    assert [arrow.label for arrow in figures["ladder"].ladder[:2]] == ["SYN", "SYN ACK"]
