import json
import math
import stat

import pytest
from typer.testing import CliRunner

from headend.lab import Comparison, ComparisonError, page
from headend.lab.cli import app
from headend.report import render

FACTS = {
    "command": "make lab",
    "machine": "a machine",
    "version": "0",
    "started": "2026-01-02T03:04:05Z",
    "elapsed_s": 1.0,
}


def comparison(
    linux=(10e6, 8e6), sim=(10e6, 8e6), *, kept_up=(True, True, True, True), title="10 Mbit/s, 40 ms"
) -> dict:
    """What `headend compare --format json` prints for two points of two runs each."""
    n = len(linux)
    rows = {
        "point": list(range(n)),
        "nodes.server.tcp.controller": ["reno", "cubic"][:n],
        "links.line.loss": ["1%", "0%"][:n],
        "flow": ["bulk"] * n,
        "runs": [2] * n,
    }
    for measure, unit in (("rtt_p50", "_s"), ("rtt_p95", "_s"), ("segments_sent", ""), ("retransmits", "")):
        for side in ("linux", "sim"):
            rows[f"{measure}_{side}{unit}"] = [0.04] * n if unit else [100.0] * n
    for measure in ("timeouts", "fast_retransmits"):
        for side in ("linux", "sim"):
            rows[f"{measure}_{side}"] = [0.0] * n
    rows["goodput_linux_bps"], rows["goodput_sim_bps"] = list(linux), list(sim)
    series = {"by": [], "point": [], "flow": [], "instance": [], "time_s": [], "cwnd_bytes": []}
    for side in ("sim", "linux"):
        for point in range(n):
            for k in range(3):
                values = (side, point, "bulk", 0, 0.05 * k, 14_600 * (k + 1))
                for column, value in zip(series.values(), values, strict=True):
                    column.append(value)
    return {
        "title": title,
        "seed": 1,
        "rows": rows,
        "series": series,
        "runs": [{"kept_up": one} for one in kept_up],
    }


def loaded(tmp_path, **changes) -> Comparison:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(comparison(**changes)))
    return Comparison.load(path)


def test_a_difference_is_the_simulator_s_less_the_kernel_s_in_per_cent_of_the_kernel_s(tmp_path):
    rows = loaded(tmp_path, linux=(10e6, 0.0), sim=(11e6, 1e6)).rows
    assert rows[0].difference() == pytest.approx(10)
    assert math.isnan(rows[1].difference())
    assert (rows[0].controller, rows[0].loses, rows[1].loses) == ("reno", True, False)
    assert rows[0].name == "10 Mbit/s, 40 ms, reno, 1%"


def test_the_runs_that_did_not_keep_up_are_those_of_their_own_point(tmp_path):
    rows = loaded(tmp_path, kept_up=(True, True, False, True)).rows
    assert [row.strained for row in rows] == [0, 1]


def test_goals_are_met_by_agreement_and_missed_without_and_the_reason_names_who(tmp_path):
    def verdicts(sim):
        claims = page.claims(loaded(tmp_path, sim=sim).rows * 30)
        return [(claim.id, claim.verdict) for claim in claims], claims[-1].reason

    met, reason = verdicts((10.1e6, 8e6))
    assert met == [("lab.scenarios", "reproduced"), ("lab.median", "reproduced"), ("lab.within", "reproduced")]
    assert reason == ""
    missed, reason = verdicts((13e6, 8e6))
    assert missed == [("lab.scenarios", "reproduced"), ("lab.median", "differs"), ("lab.within", "differs")]
    assert "10 Mbit/s, 40 ms, reno, 1%: +30%" in reason


def test_few_scenarios_are_no_grid(tmp_path):
    assert page.claims(loaded(tmp_path).rows)[0].verdict == "differs"


def test_the_page_speaks_of_goals_and_hosts_and_not_of_a_paper(tmp_path):
    study = page.study([loaded(tmp_path, kept_up=(True, True, True, False))], **FACTS)
    text = render(study, tmp_path / "out").read_text()
    assert "between Linux hosts" in text
    assert "this paper" not in text
    assert "Published" not in text
    assert "did not keep up with the links" in text
    assert "(late)" in text
    # Both sides of both rows' windows are in the page's data.
    assert text.count('"label":"simulator"') == 2


def test_a_file_that_is_no_comparison_is_named(tmp_path):
    for text in ("{", "{}", '{"title": 3}', "[]"):
        path = tmp_path / "other.json"
        path.write_text(text)
        with pytest.raises(ComparisonError, match=r"other\.json"):
            Comparison.load(path)


def test_a_grid_is_run_file_by_file_kept_and_drawn_again(tmp_path):
    # The command stands in for the binary, which needs root and real time.
    binary = tmp_path / "headend"
    log = tmp_path / "log"
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(comparison()))
    binary.write_text(f'#!/bin/sh\necho "$@" >> {log}\ncat {answer}\n')
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    out = tmp_path / "out"
    command = ["run", "one.toml", "two.toml", "--out", str(out), "--binary", str(binary)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert log.read_text().splitlines() == [
        f"compare {name}.toml --together 4 --accept-late --format json" for name in ("one", "two")
    ]
    page_before = (out / "index.html").read_text()
    again = CliRunner().invoke(app, ["report", str(out)])
    assert again.exit_code == 0, again.output
    assert (out / "index.html").read_text() == page_before
    resumed = CliRunner().invoke(app, [*command, "--resume"])
    assert resumed.exit_code == 0, resumed.output
    assert len(log.read_text().splitlines()) == 2, "nothing is measured twice"


def test_a_failing_command_s_exit_code_is_passed_on(tmp_path):
    binary = tmp_path / "headend"
    binary.write_text("#!/bin/sh\nexit 2\n")
    binary.chmod(0o755)
    done = CliRunner().invoke(app, ["run", "one.toml", "--out", str(tmp_path / "out"), "--binary", str(binary)])
    assert done.exit_code == 2
    assert not (tmp_path / "out" / "index.html").exists()
