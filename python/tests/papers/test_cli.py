import json

import pytest
from typer.testing import CliRunner, Result

from headend.papers.cli import app
from headend.papers.model import StudyResult

cli = CliRunner()


def invoke(*words: str) -> Result:
    return cli.invoke(app, words)


def test_the_list_names_every_figure_and_its_claims():
    listed = json.loads(invoke("list", "--json").stdout)
    by_id = {entry["id"]: entry for entry in listed}
    assert "tuning.fig4.loss1" in by_id["tuning.fig4"]["claims"]
    assert "tuning.fig17-today" in by_id


def test_a_run_as_json_is_clean_and_carries_what_a_reader_needs():
    result = invoke("run", "fig12", "--quick", "--json")
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
    result = invoke("run", "fig16", "--json")
    (claim,) = json.loads(result.stdout)
    assert claim["verdict"] == "reproduced", claim["measured"]


def test_a_folder_gets_the_whole_study(tmp_path):
    result = invoke("run", "eq52", "--quick", "--out", str(tmp_path / "report"))
    assert result.exit_code == 0, result.output
    study = StudyResult.from_json((tmp_path / "report" / "study.json").read_text())
    assert [figure.id for figure in study.figures] == ["eq52"]
    assert study.figures[0].command == "python -m headend.papers run tuning.eq52 --quick"


def test_ctrl_c_writes_nothing_and_says_so(tmp_path, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headend.papers.runner.Runner.curves", interrupt)
    result = invoke("run", "fig12", "--out", str(tmp_path / "report"))
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert not (tmp_path / "report").exists()


def test_an_unknown_figure_is_a_wrong_request():
    result = invoke("run", "fig99")
    assert result.exit_code == 2
    assert "fig99" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("words", [("validate", "proxies"), ("validate", "--table", "p9_fig99"), ("run",)])
def test_requests_that_cannot_be_met_exit_with_2(words):
    assert invoke(*words).exit_code == 2


def test_validation_as_json_has_a_row_for_each_reference_point():
    result = invoke("validate", "tuning", "--table", "p1_fig12", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == 384
    # Nothing is random in this table: every transfer must be equal to ns-2's to the packet.
    assert {row["verdict"] for row in rows} == {"agrees"}
    assert all(row["exact"] for row in rows)
