import dataclasses

import numpy as np
import pytest
from fake import FakeSimulator, result

from headend.papers import reference, rows, validate
from headend.papers.runner import Cell, Runner


def row(fig: str, series: str, x: float, sim: str = "ns2") -> reference.Row:
    (found,) = (r for r in reference.rows(fig) if (r.sim, r.series, r.x) == (sim, series, x))
    return found


def cell(goodput_mbps: np.ndarray, seconds: float, sent: int) -> Cell:
    runs = goodput_mbps.size
    columns = {
        "run": np.arange(runs),
        "goodput_bps": goodput_mbps * 1e6,
        "transfer_s": np.full(runs, seconds),
        "segments_sent": np.full(runs, sent),
        "timeouts": np.zeros(runs),
        "completed": np.ones(runs),
    }
    return Cell(0.0, result(columns))


LOSS_FREE = row("p1_fig04", "8KB delack=1 iw=1", 0.0)
LOSSY = row("p1_fig04", "8KB delack=1 iw=1", 2.0)


def test_a_loss_free_row_must_be_equal_to_the_packet():
    same = cell(np.array([LOSS_FREE.mean_Mbps]), LOSS_FREE.mean_T_s, 2055)
    assert validate.compare(LOSS_FREE, same).verdict == "agrees"
    one_more = cell(np.array([LOSS_FREE.mean_Mbps]), LOSS_FREE.mean_T_s, 2056)
    assert validate.compare(LOSS_FREE, one_more).verdict == "differs"
    late = cell(np.array([LOSS_FREE.mean_Mbps / 1.002]), LOSS_FREE.mean_T_s * 1.002, 2055)
    assert validate.compare(LOSS_FREE, late).verdict == "differs"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "agrees"), (1.04, "agrees"), (1.2, "differs"), (0.5, "differs")])
def test_a_lossy_row_agrees_within_both_intervals_and_five_percent(factor, verdict):
    rng = np.random.default_rng(8)
    ours = LOSSY.mean_Mbps * factor + rng.normal(0.0, 0.01, 400)
    assert validate.compare(LOSSY, cell(ours, LOSSY.mean_T_s, 2100)).verdict == verdict, "seed 8"


def test_few_noisy_runs_of_ours_widen_the_band():
    rng = np.random.default_rng(9)
    few = validate.compare(LOSSY, cell(rng.normal(LOSSY.mean_Mbps, 0.3, 10), 30.0, 2100))
    many = validate.compare(LOSSY, cell(rng.normal(LOSSY.mean_Mbps, 0.3, 1000), 30.0, 2100))
    assert few.band_mbps > 3 * many.band_mbps


@pytest.mark.parametrize(
    ("fig", "series", "other"),
    [
        ("p2_fig08_09", "bf modified", {"win_pkts": 30.0}),
        ("p2_local_remote_alone", "local alone modified", {"uloss": 0.01}),
        ("p1_fig04", "8KB delack=1 iw=1", {"rloss": 0.01}),
    ],
)
def test_a_row_of_something_that_our_files_do_not_have_is_refused(fig, series, other):
    known = next(r for r in reference.rows(fig) if r.series == series)
    rows.scenario(known)
    with pytest.raises(ValueError, match=next(iter(other))):
        rows.scenario(dataclasses.replace(known, **other))


def test_a_table_with_a_column_that_nobody_reads_is_refused(tmp_path, monkeypatch):
    text = (reference.FOLDER / "p2_fig05.csv").read_text()
    head, first = text.splitlines()[:2]
    (tmp_path / "p2_fig05.csv").write_text(f"{head},remote_win_pkts\n{first},60\n")
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="remote_win_pkts"):
        reference.rows.__wrapped__("p2_fig05")


def test_a_rows_columns_become_settings():
    _, settings = rows.scenario(row("p1_fig17", "tick=0.2 numdup=1 delack=0 iw=2", 3.0, "ns96"))
    assert settings["nodes.server.tcp.era"] == "ns-1996"
    assert settings["nodes.server.tcp.rto_tick"] == "200ms"
    assert settings["nodes.server.tcp.dupack_threshold"] == 1
    assert settings["nodes.server.tcp.initial_window_segments"] == 2
    assert settings["nodes.pc.tcp.delayed_ack"] == 1
    assert settings["links.cable.down.loss"] == "3%"
    assert settings["flows.get.handshake"] is False


def test_headers_are_counted_where_the_table_counts_them():
    _, settings = rows.scenario(row("p1_fig14", "MSS 512 wire 552", 0.0))
    assert (settings["nodes.server.tcp.mss"], settings["nodes.server.tcp.headers"]) == ("512B", "ipv4")
    assert settings["nodes.pc.tcp.receive_buffer"] == f"{16 * 512}B"


def test_every_row_that_has_our_rules_is_compared():
    simulate = FakeSimulator()
    runner = Runner(paper="tuning", runs_asked=2, simulate=simulate)
    compared = validate.validate(runner, figures=["p1_fig03"])
    expected = [r for r in reference.rows("p1_fig03") if r.sim in ("ns2", "ns96")]
    assert len(compared) == len(expected) == len(simulate.calls)
    assert {c.verdict for c in compared} <= {"agrees", "differs"}
    assert validate.worst(compared, 3)[0].off != 0.0


def test_the_round_trip_of_set_up_is_as_each_simulator_has_it():
    series = "30KB delack=1 iw=2 handshake"
    ours, theirs = row("p1_fig06_07", series, 0.0), row("p1_fig06_07", series, 0.0, "ns96")
    assert rows.scenario(ours)[1]["flows.get.handshake"] is True
    assert rows.scenario(theirs)[1]["flows.get.handshake"] is False
    bare = 0.125177  # the transfer alone, 20 ms less than the row says
    assert validate.compare(theirs, cell(np.array([0.24 / bare]), bare, 21)).verdict == "agrees"
    # ns-2.35 counts the SYN among the 22 packets sent.
    assert validate.compare(ours, cell(np.array([0.24 / ours.mean_T_s]), ours.mean_T_s, 21)).verdict == "agrees"


def test_a_split_row_s_timer_is_that_of_the_connection_over_the_cable():
    name, settings = rows.scenario(row("p2_fig08_09", "bf modified", 3.0))
    assert (name, settings["flows.get.via"], settings["nodes.proxy.relay"]) == ("reference", "proxy", "buffer")
    assert settings["nodes.proxy.local.tcp.dupack_threshold"] == 1
    assert settings["nodes.proxy.local.tcp.rto_tick"] == "200ms"
    assert "nodes.server.tcp.dupack_threshold" not in settings, "the server does not change"
    assert settings["links.internet.delay"] == "50000us"


def test_each_connection_alone_has_a_scenario_of_its_own():
    name, settings = rows.scenario(row("p2_local_remote_alone", "local alone modified", 3.0))
    assert (name, settings["nodes.proxy.tcp.dupack_threshold"]) == ("fig11_local", 1)
    name, settings = rows.scenario(row("p2_local_remote_alone", "remote alone 100ms normal", 1.0))
    assert (name, settings["links.internet.loss"]) == ("fig11_remote", "1%")


def test_a_split_transfer_counts_the_packets_over_the_cable_as_its_row_does():
    split = row("p2_fig05", "sf remRTT=100ms", 5)
    packets = 2 * int(split.sent_mean)
    assert validate.compare(split, cell(np.array([split.mean_Mbps]), split.mean_T_s, packets)).verdict == "agrees"
    assert validate.compare(split, cell(np.array([split.mean_Mbps]), split.mean_T_s, packets + 1)).verdict == "differs"


def test_every_row_of_the_proxies_paper_is_a_scenario_of_ours():
    for table in reference.tables(validate.PREFIX["proxies"]):
        runner = Runner(paper="proxies", runs_asked=2, simulate=FakeSimulator())
        some = {r.series: r for r in reference.rows(table) if r.sim in reference.ERA}
        compared = validate.validate(runner, figures=[table], chosen=lambda r, some=some: r in some.values())
        assert len(compared) == len(some)
