"""What users do with results: look, select, summarise, plot, keep."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars
import pytest

import headend
from headend.summary import median

mpl.use("svg")

ROOT = Path(__file__).parents[2]

LOSS, SENDER = "links.cable.down.loss", "nodes.server.personality"
SCENARIO = """
title = "short transfers over a cable network that loses packets"
runs = 8
duration = "100s"
[nodes.server]
personality = "bsd-reno-1996"
[nodes.pc]
personality = "bsd-reno-1996"
[links.cable]
kind = "cable"
between = ["server", "pc"]
down = { rate = "25Mbit/s" }
up = { rate = "3Mbit/s" }
delay = "10ms"
[flows.get]
from = "server"
to = "pc"
bytes = "50KB"
"""
SWEEP = {LOSS: ["0%", "1%", "3%"], SENDER: ["bsd-reno-1996", "linux"]}


@pytest.fixture(scope="module")
def result() -> headend.Result:
    return headend.run(SCENARIO, sweep=SWEEP)


def test_a_swept_field_is_selected_by_text_or_by_number(result):
    by_text, by_number = result.flows.where(**{LOSS: "1%"}), result.flows.where(**{LOSS: 0.01})
    assert by_text.rows == 16
    assert by_number == by_text
    assert result.flows.where(**{LOSS: np.float64(0.02)}).rows == 0
    assert sorted(set(result.flows.numbers(LOSS).tolist())) == [0.0, 0.01, 0.03]


def test_numbers_are_in_bits_bytes_seconds_and_parts_of_one():
    table = headend.Table({"q": (np.arange(6, dtype=np.uint32), ["25Mbit/s", "8KB", "20ms", "3%", "7 packets", "0.5"])})
    assert table.numbers("q").tolist() == [25e6, 8000.0, 0.02, 0.03, 7.0, 0.5]


def test_text_is_not_compared_with_a_number(result):
    with pytest.raises(TypeError, match="flow is text, such as 'get'"):
        result.flows.where(flow=3)
    with pytest.raises(ValueError, match="bsd-reno-1996"):
        result.flows.numbers(SENDER)


def test_the_summary_is_that_of_the_command(result):
    summary = result.summary()
    assert summary.rows == 6
    goodput = result.flows.where(**{LOSS: "3%", SENDER: "linux"})["goodput_bps"]
    row = summary.where(**{LOSS: "3%", SENDER: "linux"})
    assert row["runs"].tolist() == [8]
    assert row["goodput_bps"][0] == np.median(goodput)
    assert (row["goodput_bps_from"][0], row["goodput_bps_to"][0]) == (goodput.min(), goodput.max())


def test_intervals_are_those_of_the_sign_test():
    assert median(np.arange(1.0, 21.0)) == (10.5, 6.0, 15.0)
    middle, low, high = median(np.array([3.0, 1.0, 2.0]))
    assert middle == 2.0
    assert np.isnan([low, high]).all()


def test_results_are_kept_whole_and_read_again(result, tmp_path):
    traced = headend.run(SCENARIO, runs=1, trace=True)
    for number, kept in enumerate((result, traced)):
        kept.save(tmp_path / str(number))
        assert headend.Result.load(tmp_path / str(number)) == kept
    with pytest.raises(FileExistsError):
        result.save(tmp_path / "0")
    (tmp_path / "0" / "flows.parquet").write_bytes(b"not this")
    with pytest.raises(ValueError, match="not whole"):
        headend.Result.load(tmp_path / "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"], "nothing half-written is left"


TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BINARY = next((path for kind in ("release", "debug") if (path := TARGET / kind / "headend").exists()), None)


def test_what_the_command_wrote_is_read_and_drawn(tmp_path):
    assert BINARY is not None, "this takes the command: make target/release/headend"
    scenario = tmp_path / "short.toml"
    scenario.write_text(SCENARIO)
    sweep = [f"--sweep={field}={','.join(values)}" for field, values in SWEEP.items()]
    subprocess.run(
        [BINARY, "sim", scenario, *sweep, "--quiet", "--out", tmp_path / "out"], check=True, capture_output=True
    )
    read, ours = headend.Result.load(tmp_path / "out"), headend.run(SCENARIO, sweep=SWEEP)
    assert read.flows == ours.flows
    assert read.links == ours.links

    def draw(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "headend.plot", tmp_path / "out", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert draw("-x", LOSS, "-y", "transfer_s").returncode == 0
    assert "<svg" in (tmp_path / "out" / "transfer_s.svg").read_text()
    assert draw("-x", "loss", "-y", "transfer_s").returncode == 0
    wrong = draw("-x", "lost")
    assert wrong.returncode == 2
    assert "no column 'lost'" in " ".join(wrong.stderr.split())


def test_tables_are_equal_if_all_columns_are(result):
    assert headend.run(SCENARIO, sweep=SWEEP) == result
    assert headend.run(SCENARIO, seed=2).flows != headend.run(SCENARIO, seed=1).flows


def test_a_notebook_shows_a_table_and_arrow_takes_one(result):
    assert result._repr_html_().count("<tr>") == 7, "six points and a heading"
    assert result.flows.head(3).rows == 3
    assert "76 more rows" in headend.run(SCENARIO, runs=96).flows._repr_html_()
    assert polars.DataFrame(result.flows).equals(result.flows.polars())


def test_a_plot_has_a_line_for_each_value_of_what_else_is_swept(result):
    axes = result.plot("transfer_s", x=LOSS)
    assert [line.get_label() for line in axes.get_lines()] == ["bsd-reno-1996", "linux"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0%", "1%", "3%"]
    summary = result.summary().where(**{SENDER: "linux"})
    assert axes.get_lines()[1].get_ydata().tolist() == summary["transfer_s"].tolist()
    names = result.plot(x=SENDER, by=LOSS)
    assert [tick.get_text() for tick in names.get_xticklabels()] == ["bsd-reno-1996", "linux"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [({}, "several fields are swept"), ({"x": "lost"}, "no column 'lost'"), ({"y": "flow", "x": LOSS}, "is text")],
)
def test_a_plot_that_cannot_be_says_why(result, wish, message):
    with pytest.raises(ValueError, match=message):
        result.plot(**wish)


def test_numpys_values_are_taken_and_a_bare_text_is_no_sweep():
    swept = headend.run(SCENARIO, set={"runs": np.int64(2)}, sweep={LOSS: np.array([0.0, 0.01])})
    assert swept.flows.rows == 4
    with pytest.raises(TypeError, match=r"a list of values is needed, such as \['1%'\]"):
        headend.run(SCENARIO, sweep={LOSS: "1%"})


def test_a_run_needs_neither_matplotlib_nor_polars():
    code = "import sys, headend; headend.run(sys.argv[1], runs=1); print({'polars', 'matplotlib'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code, SCENARIO], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
