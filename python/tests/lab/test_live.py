import json
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headend.lab import live
from headend.lab.cli import app
from headend.report import render

SCENARIO = Path(__file__).parents[3] / "scenarios" / "live.toml"
LOSSES = (0.0, 1.0, 3.0, 5.0)
FACTS = {"command": "make live", "machine": "a machine", "version": "0", "started": "2026-01-02T03:04:05Z"}


def steady(goodput: float):
    """The same whatever the loss."""
    return lambda _: goodput


def printed(goodput, *, kept_up: bool = True) -> dict:
    """What `headend lab --format json` prints: two runs at each loss."""
    losses = [f"{loss:g}%" for loss in LOSSES for _ in range(2)]
    return {
        "flows": {
            live.LOSS: losses,
            "goodput_bps": [1e6 * goodput(loss) * share for loss in LOSSES for share in (0.99, 1.01)],
            "completed": [1] * len(losses),
        },
        "runs": [{"kept_up": kept_up}] * len(losses),
    }


def curve(goodput) -> live.Curve:
    return live.Curve.of(printed(goodput)["flows"])


def measured(tuned, direct) -> live.Live:
    ways = {
        "direct": curve(direct),
        "tuned": curve(tuned),
        "proxy": curve(direct),
        "remedy": curve(direct),
        "fair": curve(tuned),
    }
    linux = {(server, way): ways[way] for server in live.SERVERS for way in live.WAYS}
    simulated = {(server, way): ways[way] for server in ("1996", *live.SERVERS) for way in live.WAYS}
    return live.Live(linux, simulated, runs=2, late=0, seed=1)


@pytest.mark.parametrize(
    ("tuned", "direct", "verdicts"),
    [
        (steady(10.0), lambda loss: 10.0 / (1 + loss), ["reproduced", "reproduced"]),
        (lambda loss: 10.0 - loss, lambda loss: 10.0 / (1 + loss), ["differs", "reproduced"]),
        (steady(10.0), steady(8.0), ["reproduced", "differs"]),
    ],
)
def test_the_goals_are_judged_by_what_was_measured(tuned, direct, verdicts):
    assert [claim.verdict for claim in live.claims(measured(tuned, direct))] == verdicts


def test_a_server_on_bbr_is_shown_and_has_no_say_in_the_gain():
    of = measured(steady(10.0), lambda loss: 10.0 / (1 + loss))
    bbr = {("bbr", way): curve(steady(10.0)) for way in live.WAYS}
    claim = live.claims(live.Live({**of.linux, **bbr}, of.simulated, 2, 0, 1))[1]
    assert claim.verdict == "reproduced"
    assert [c.what for c in claim.criteria if not c.judged] == ["server on BBR"]
    assert "the least gain is 1.00" in claim.reason


def test_every_server_has_a_panel_with_both_sides_and_the_page_is_written(tmp_path):
    study = live.study(measured(steady(10.0), steady(5.0)), **FACTS, elapsed_s=1.0)
    panels = {series.group for series in study.figures[0].series}
    assert len(panels) == len(live.SERVERS)
    assert len(study.figures[0].series) == 2 * len(live.SERVERS) * len(live.WAYS)
    assert (render(study, tmp_path / "page")).exists()


def test_the_proxy_is_only_in_the_way_where_a_curve_says_so():
    assert live.GET not in live.settings("reno", "direct")
    assert live.settings("cubic", "tuned")[live.LOCAL] == "hfc-local"
    assert live.settings("cubic", "tuned")["nodes.server.tcp.controller"] == "cubic"
    assert live.settings("1996", "proxy")["nodes.server.personality"] == "bsd-reno-1996"


def test_results_that_are_none_are_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "reno-direct.json"
    path.write_text(json.dumps({"flows": {}, "runs": []}))
    with pytest.raises(live.LiveError, match=r"reno-direct\.json"):
        live.read({("reno", "direct"): path})


def test_the_command_runs_each_curve_once_and_counts_late_runs(tmp_path):
    binary = tmp_path / "headend"
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(printed(steady(9.0), kept_up=False)))
    binary.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncat {answer}\n')
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    scenario = tmp_path / "live.toml"
    text = SCENARIO.read_text(encoding="utf-8").replace('bytes = "3MB"', 'bytes = "30KB"')
    scenario.write_text(text)
    words = ["live", "--out", str(tmp_path / "out"), "--file", str(scenario), "--binary", str(binary), "--runs", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    calls = measurements(tmp_path)
    assert len(calls) == len(live.SERVERS) * len(live.WAYS) == len(set(calls))
    assert "live.gain" in done.output
    study = json.loads((tmp_path / "out" / "study.json").read_text())
    assert any("did not keep up" in note for note in study["figures"][0]["notes"])
    assert CliRunner().invoke(app, [*words, "--resume"]).exit_code == 0
    assert measurements(tmp_path) == calls


def measurements(folder: Path) -> list[str]:
    """The calls of the false command but those that install a controller."""
    return [call for call in (folder / "calls").read_text().splitlines() if call.startswith("lab ")]


def test_a_curve_holds_every_run_of_every_loss():
    of = curve(lambda loss: 4.0 + loss)
    assert list(of.by_loss) == list(LOSSES)
    assert np.allclose(of.by_loss[3.0], [6.93, 7.07])
