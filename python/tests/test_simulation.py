import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import polars
import pytest

import headend

SCENARIO = """
title = "a short transfer over a cable network that loses packets"
runs = 4
duration = "100s"

[nodes.server]
personality = "bsd-reno-1996"
[nodes.pc]
personality = "bsd-reno-1996"

[links.cable]
kind = "cable"
between = ["server", "pc"]
down = { rate = "25Mbit/s", loss = "2%" }
up = { rate = "3Mbit/s" }
delay = "10ms"

[flows.get]
from = "server"
to = "pc"
bytes = "50KB"
"""


def as_dict() -> dict:
    import tomllib

    return tomllib.loads(SCENARIO)


def test_a_run_yields_a_row_for_each_flow_and_each_link_direction():
    result = headend.run(SCENARIO)
    assert result.flows.rows == 4
    assert result.flows["completed"].tolist() == [1, 1, 1, 1]
    assert (result.flows["goodput_bps"] > 1e4).all()
    assert (result.flows["goodput_bps"] < 10e6).all()
    assert set(result.links["link"]) == {"cable"}
    assert result.trace is None
    assert result.packets is None


def test_number_columns_are_the_simulators_own_memory():
    flows = headend.run(SCENARIO).flows
    for name in ("goodput_bps", "timeouts"):
        column = flows[name]
        assert flows[name] is column, "the same array each time"
        # Memory that NumPy allocated has no base; this belongs to a Rust vector.
        assert type(column.base).__name__ == "PySliceContainer"
        assert column.flags.c_contiguous


def test_columns_have_the_type_that_their_unit_asks_for():
    flows = headend.run(SCENARIO).flows
    assert flows["goodput_bps"].dtype == np.float64
    assert flows["timeouts"].dtype == np.uint64
    assert flows["flow"].dtype.kind == "U"
    assert flows["flow"].tolist() == ["get"] * 4


def test_path_text_and_dict_give_the_same_result(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    results = [headend.run(source) for source in (path, str(path), SCENARIO, as_dict())]
    for other in results[1:]:
        for name, column in results[0].flows.items():
            np.testing.assert_array_equal(other.flows[name], column)


def test_settings_and_sweeps_change_the_scenario():
    loss = "links.cable.down.loss"
    result = headend.run(SCENARIO, set={"flows.get.bytes": "20KB"}, sweep={loss: ["0%", "10%"]}, runs=3, seed=7)
    assert set(result.flows["bytes"]) == {20_000}
    assert result.flows[loss].tolist() == ["0%"] * 3 + ["10%"] * 3
    assert result.flows["seed"].tolist() == [7, 8, 9] * 2
    lossless = result.flows.where(**{loss: "0%"})
    assert lossless["retransmits"].sum() == 0
    assert result.flows["retransmits"].sum() > 0
    assert result.seed == 7


def test_a_result_can_be_run_again_from_what_it_carries():
    first = headend.run(SCENARIO, set={"links.cable.down.loss": "5%"}, runs=3, seed=11)
    again = headend.run(first.scenario)
    for name, column in first.flows.items():
        np.testing.assert_array_equal(again.flows[name], column)
    assert first.meta["version"] == headend.__version__
    assert first.meta["commit"]


def test_results_are_the_same_on_one_thread_and_on_two():
    one, two = (headend.run(SCENARIO, runs=20, threads=threads) for threads in (1, 2))
    for table in ("flows", "links"):
        for name, column in getattr(one, table).items():
            np.testing.assert_array_equal(getattr(two, table)[name], column)


def test_a_table_becomes_a_polars_frame_with_text_as_text():
    frame = headend.run(SCENARIO).flows.polars()
    assert frame.height == 4
    assert frame.schema["flow"] == polars.String
    assert frame.schema["goodput_bps"] == polars.Float64
    assert frame["flow"].to_list() == ["get"] * 4


def test_a_trace_tells_each_packets_way_and_comes_with_captures():
    result = headend.run(SCENARIO, runs=1, trace=True)
    sent = result.packets.where(event="sent", **{"from": "server"})
    assert (sent["len"] > 0).sum() == result.flows["segments_sent"].sum()
    assert (np.diff(result.trace["time_s"]) >= 0).all()
    assert {capture.host for capture in result.captures} == {"server", "pc"}
    # A pcapng file begins with a section header block (draft-ietf-opsawg-pcapng s4.1).
    assert all(capture.pcapng.startswith(b"\n\r\r\n") for capture in result.captures)


def test_progress_hears_of_the_last_run():
    heard = []
    headend.run(SCENARIO, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (4, 4)


def test_an_exception_in_progress_stops_the_sweep_and_comes_out():
    def stop(*_: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        headend.run(SCENARIO, progress=stop)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links.cable.down.loss": "many"}, r"links\.cable\.down\.loss"),
        ({"nodes.server.personality": "bsd-remo-1996"}, r"bsd-reno-1996"),
        ({"nodes.server.tcp.mms": "512B"}, r"mss"),
        ({"flows.get.to": "nobody"}, r"allowed: server, pc"),
    ],
)
def test_a_mistake_in_a_setting_names_the_field_and_what_is_allowed(change, message):
    with pytest.raises(headend.ScenarioError, match=message):
        headend.run(SCENARIO, set=change)


def test_a_mistake_in_a_file_names_file_and_line(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(SCENARIO.replace('"50KB"', '"fifty"'))
    line = path.read_text().splitlines().index('bytes = "fifty"') + 1
    with pytest.raises(headend.ScenarioError, match=rf"wrong\.toml:{line}: flows\.get\.bytes"):
        headend.run(path)


def test_a_scenario_error_is_a_value_error():
    with pytest.raises(ValueError, match="TOML"):
        headend.run("title = \n")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        headend.run(tmp_path / "absent.toml")


def test_a_value_that_toml_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="cannot hold"):
        headend.run(SCENARIO, set={"runs": object()})


def test_no_threads_is_a_wrong_request():
    with pytest.raises(ValueError, match="threads"):
        headend.run(SCENARIO, threads=0)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_a_long_sweep():
    # The child sends itself the signal from `progress`, when the sweep is surely under way.
    code = f"""
    import os, signal, headend
    def interrupt(done, total):
        os.kill(os.getpid(), signal.SIGINT)
    try:
        headend.run({SCENARIO!r}, runs=1_000_000, progress=interrupt)
    except KeyboardInterrupt:
        print("interrupted")
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert child.stdout == "interrupted\n", child.stderr
    assert child.returncode != -signal.SIGINT


def test_a_point_has_its_rows_of_every_table_and_column():
    swept = headend.run(SCENARIO, sweep={"links.cable.down.loss": ["0%", "10%"]}, runs=2, seed=3)
    alone = headend.run(SCENARIO, set={"links.cable.down.loss": "10%"}, runs=2, seed=3)
    point = swept.point(1)
    for ours, theirs in ((point.flows, alone.flows), (point.links, alone.links)):
        shared = [name for name in theirs if name != "point"]
        assert len(shared) > 10
        for name in shared:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_a_table_that_nothing_asked_for_is_refused_by_its_name():
    result = headend.run(SCENARIO, runs=1)
    for name in ("circuits", "media", "intervals", "trace", "packets"):
        with pytest.raises(ValueError, match=f"no table '{name}'"):
            result.table(name)


def test_a_value_is_summed_by_run():
    flows = headend.run(SCENARIO, set={"flows.get.count": 3}, runs=2).flows
    assert flows.by_run(flows["bytes"]).tolist() == [3 * flows["bytes"][0]] * 2


def test_every_column_of_every_table_is_defined():
    result = headend.run(SCENARIO, set={"interval": "1s"}, runs=1, trace=True)
    known = headend.columns()
    tables = {"flows": result.flows, "links": result.links, "intervals": result.table("intervals")}
    for name, table in {**tables, "series": result.table("trace"), "packets": result.table("packets")}.items():
        assert list(table) == [*known["common"], *known[name]]
    assert known["links"]["sojourn_mean_s"].unit == "s"
