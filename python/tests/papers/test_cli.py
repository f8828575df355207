import json

import pytest
from typer.testing import CliRunner, Result

from headend.papers.cli import app
from headend.papers.model import StudyResult

cli = CliRunner()


def invoke(*words: str) -> Result:
    return cli.invoke(app, words)


def test_the_list_names_every_figure_and_its_claims():
    listed = json.loads(invoke("list", "--format", "json").stdout)
    by_id = {entry["id"]: entry for entry in listed}
    assert "tuning.fig4.loss1" in by_id["tuning.fig4"]["claims"]
    assert "tuning.fig17-today" in by_id


def test_a_run_as_json_is_clean_and_carries_what_a_reader_needs():
    result = invoke("run", "tuning.fig12", "--quick", "--format", "json")
    assert result.exit_code == 0, result.output
    (claim,) = json.loads(result.stdout)
    assert claim["id"] == "tuning.fig12.delack"
    assert {"published", "measured", "interval", "verdict", "reason"} <= claim.keys()
    loss = {criterion["what"]: criterion["measured"] for criterion in claim["criteria"]}
    # The first packet waits 200 ms for its ACK, of a transfer that takes some 160 ms without: half or more is lost.
    assert 0.4 < loss["least loss below 150 KB"] < 0.8


def test_a_run_shows_its_verdicts_in_a_table():
    result = invoke("run", "tuning.fig16", "--quick")
    assert result.exit_code == 0, result.output
    assert "fig16.sfr" in result.stdout
    assert "1 of 1 claims reproduced, 1 figure." in result.stdout


def test_the_packets_of_figure_16_are_lost_and_sent_again_as_the_paper_draws_it():
    result = invoke("run", "fig16", "--format", "json")
    (claim,) = json.loads(result.stdout)
    assert claim["verdict"] == "reproduced", claim["measured"]


def test_a_folder_gets_the_whole_study(tmp_path):
    result = invoke("run", "eq52", "--quick", "--out", str(tmp_path / "report"))
    assert result.exit_code == 0, result.output
    study = StudyResult.from_json((tmp_path / "report" / "study.json").read_text())
    assert [figure.id for figure in study.figures] == ["eq52"]
    assert study.figures[0].command == "python -m headend.papers run tuning.eq52 --quick"


def interrupt_after(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once so many runs of a sweep have ended: where Python hears of it, in the call that tells of progress."""

    def told(_progress: object, _label: str, done: int, _total: int) -> None:
        if done >= runs:
            raise KeyboardInterrupt

    monkeypatch.setattr("headend.papers.cli._Progress.__call__", told)


def test_ctrl_c_keeps_the_finished_runs_and_resuming_gives_the_same_report(tmp_path):
    request = ("run", "tuning.fig13", "--runs", "6")
    out, part = tmp_path / "report", tmp_path / "report.part"
    with pytest.MonkeyPatch.context() as monkeypatch:
        interrupt_after(10, monkeypatch)
        interrupted = invoke(*request, "--out", str(out))
    assert interrupted.exit_code == 130
    assert "--resume" in interrupted.stderr
    assert str(part) in interrupted.stderr.replace("\n", "")
    assert not out.exists(), "a report is whole or absent"
    kept = sum(path.read_text().count("\n") - 1 for path in part.glob("*/journal.jsonl"))
    assert kept >= 10
    assert f"{kept} in" in interrupted.stderr

    refused = invoke(*request, "--out", str(out))
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    heard = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        heard_of = lambda _progress, _label, done, total: heard.append((done, total))  # noqa: E731
        monkeypatch.setattr("headend.papers.cli._Progress.__call__", heard_of)
        resumed = invoke(*request, "--out", str(out), "--resume")
    assert resumed.exit_code == 0, resumed.output
    # The sweep that was interrupted is the first of more than ten runs.
    assert next(done for done, total in heard if done > 0 and total > 10) > 10, "finished runs are not repeated"
    assert not part.exists()
    assert invoke(*request, "--out", str(tmp_path / "at-once")).exit_code == 0
    studies = [json.loads((tmp_path / name / "study.json").read_text()) for name in ("report", "at-once")]
    for field in ("command", "started", "elapsed_s"):
        for study in studies:
            study.pop(field)
    assert studies[0] == studies[1]


def test_runs_of_another_request_or_build_are_not_taken_up(tmp_path):
    out, part = tmp_path / "report", tmp_path / "report.part"
    part.mkdir()
    (part / "request.json").write_text("{}\n")
    resumed = invoke("run", "eq52", "--out", str(out), "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "another request or build" in resumed.stderr
    assert (out / "index.html").is_file()
    assert not part.exists()


def test_a_folder_that_is_none_of_ours_is_left_alone(tmp_path):
    notes = tmp_path / "report.part" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    result = invoke("run", "eq52", "--out", str(tmp_path / "report"), "--resume")
    assert result.exit_code == 2
    assert "holds no interrupted run" in result.stderr
    assert notes.read_text() == "mine"


def test_ctrl_c_before_the_first_run_or_without_a_folder_keeps_nothing_and_says_so(tmp_path, monkeypatch):
    interrupt_after(0, monkeypatch)
    result = invoke("run", "tuning.fig13", "--out", str(tmp_path / "report"))
    assert result.exit_code == 130
    assert "nothing is kept" in result.stderr
    assert list(tmp_path.iterdir()) == []
    result = invoke("run", "tuning.fig13")
    assert result.exit_code == 130
    assert "--out" in result.stderr


def test_resuming_without_a_folder_is_a_wrong_request():
    result = invoke("run", "tuning.fig13", "--resume")
    assert result.exit_code == 2
    assert "--out" in result.stderr


def test_an_unknown_figure_is_a_wrong_request():
    result = invoke("run", "fig99")
    assert result.exit_code == 2
    assert "fig99" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("words", [("validate", "fast"), ("validate", "--table", "p9_fig99"), ("run",)])
def test_requests_that_cannot_be_met_exit_with_2(words):
    assert invoke(*words).exit_code == 2


def test_validation_as_json_has_a_row_for_each_reference_point():
    result = invoke("validate", "tuning", "--table", "p1_fig12", "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == 384
    # Nothing is random in this table: every transfer must be equal to ns-2's to the packet.
    assert {row["verdict"] for row in rows} == {"agrees"}
    assert all(row["exact"] for row in rows)
