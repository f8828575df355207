import json

import pytest
from typer.testing import CliRunner

from headend.lab import Comparison, ComparisonError, fast
from headend.lab.cli import app
from headend.report import render
from tests.lab.test_lab import FACTS, comparison

ALPHA = "nodes.server.tcp.fast_alpha"
CONTROLLER = "nodes.server.tcp.controller"
LOSS = "links.line.loss"


def printed(points: list[tuple[dict[str, str], dict[str, float]]], runs: int = 2, *, kept_up: bool = True) -> dict:
    """What `headend lab --format json` prints for points of so many runs: swept fields, and what their flow did."""
    usual = {"goodput_bps": 19e6, "rtt_min_s": 0.0406, "rtt_p50_s": 0.0526, "retransmits": 0, "timeouts": 0}
    rows = [{**settings, "run": run, "flow": "bulk", **usual, **did} for settings, did in points for run in range(runs)]
    return {
        "flows": {name: [row[name] for row in rows] for name in rows[0]},
        "links": {
            **{path: [row[path] for row in rows] for path in points[0][0]},
            "link": ["line"] * len(rows),
            "direction": ["server->client"] * len(rows),
            "queue_mean_packets": [20.5] * len(rows),
            "utilisation": [0.9] * len(rows),
        },
        "runs": [{"kept_up": kept_up}] * len(rows),
    }


def loaded(tmp_path, name: str, result: dict) -> fast.Measured:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(result))
    return fast.Measured.load(path)


def queued(packets: float) -> dict[str, float]:
    return {"rtt_p50_s": 0.0406 + packets * fast.PACKET_BITS / fast.RATE_BPS}


def everything(*, alpha_off: float = -1.5, others_share: float = 0.1, unequal: float = 1.0) -> dict[str, dict]:
    """A lab in which FAST does as it should, but for what is said."""
    alone = [({ALPHA: str(alpha)}, queued(alpha + alpha_off)) for alpha in (5, 20)]
    others = [
        ({CONTROLLER: name, LOSS: loss}, queued(20 if name == "fast" else 20 / others_share))
        for name in ("fast", "cubic", "reno")
        for loss in ("0%", "1%")
    ]
    five = [
        ({"flows.bulk.stagger": stagger}, {"goodput_bps": 4e6 * factor})
        for stagger in ("0s", "20s")
        for factor in (1, 1, 1, 1, unequal)
    ]
    both = [({"links.line.queue": "67 packets", "nodes.fast.tcp.fast_alpha": "20"}, {})] * 2
    shared = printed(both)
    shared["flows"]["flow"] = ["fast", "fast", "cubic", "cubic"]
    return {
        "fast-alone": printed(alone),
        "fast-others": printed(others),
        "fast-five": printed(five),
        "fast-and-cubic": shared,
    }


def judged(tmp_path, *, sim=(10e6, 8e6), **changes):
    measured = {name: loaded(tmp_path, name, result) for name, result in everything(**changes).items()}
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(comparison(sim=sim)))
    return fast.study(measured, [Comparison.load(path)] * 10, **FACTS)


def verdicts(study) -> dict[str, str]:
    return {claim.id.removeprefix("lab-fast."): claim.verdict for claim in study.claims()}


def test_a_lab_in_which_fast_does_as_it_should_meets_every_goal(tmp_path):
    assert verdicts(judged(tmp_path)) == dict.fromkeys(("queue", "goodput", "delay", "fair", "grid"), "reproduced")


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"alpha_off": 2.5}, "queue"),
        ({"others_share": 0.3}, "delay"),
        ({"unequal": 3.0}, "fair"),
        ({"sim": (12e6, 8e6)}, "grid"),
    ],
)
def test_each_goal_can_be_missed_and_no_other_is_with_it(tmp_path, changes, missed):
    found = verdicts(judged(tmp_path, **changes))
    assert [name for name, verdict in found.items() if verdict == "differs"] == [missed]


def test_what_is_missed_is_named(tmp_path):
    claim = judged(tmp_path, alpha_off=2.5).claims()[0]
    assert claim.reason == "Missed: alpha 5, alpha 20."
    assert [round(one.measured, 3) for one in claim.criteria] == [7.5, 22.5]


def test_jain_s_index_is_one_for_equals_and_a_share_for_one_that_has_everything():
    assert fast.jain([3, 3, 3]) == pytest.approx(1)
    assert fast.jain([9, 0, 0]) == pytest.approx(1 / 3)


def test_what_waits_in_the_queue_does_not_count_the_packet_in_transmission(tmp_path):
    assert loaded(tmp_path, "queue", printed([({ALPHA: "5"}, {})])).waiting == {"5": [pytest.approx(19.6)] * 2}


def test_runs_that_did_not_keep_up_are_told(tmp_path):
    assert loaded(tmp_path, "late", printed([({ALPHA: "5"}, {})], kept_up=False)).strained == 2


def test_what_is_no_result_of_a_lab_is_refused_with_its_path(tmp_path):
    with pytest.raises(ComparisonError, match=r"one\.json is no result of a lab"):
        loaded(tmp_path, "one", {"flows": {}})


def test_the_page_has_every_figure(tmp_path):
    study = judged(tmp_path)
    text = render(study, tmp_path / "page").read_text(encoding="utf-8")
    for figure in study.figures:
        assert figure.title in text


def test_the_command_measures_every_file_and_exits_as_the_command_it_runs(tmp_path):
    headend = tmp_path / "headend"
    headend.write_text("#!/bin/sh\nexit 2\n")
    headend.chmod(0o755)
    result = CliRunner().invoke(app, ["fast", "--binary", str(headend), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
