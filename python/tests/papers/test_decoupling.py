import pytest

from headend.papers.decoupling import (
    equations,
    factor,
    friendly,
    legacy,
    lossless,
    migration,
    protection,
    ring,
    sending,
    signals,
    streams,
    trunks,
    web,
)
from headend.papers.runner import Runner

SHORT = {"duration": "30s"}


@pytest.fixture(scope="module")
def result():
    return Runner(paper="decoupling").tables(trunks.SCENARIO, SHORT, "test", 2)


def test_the_trunks_of_the_first_experiment_fill_the_link(result):
    kbytes = sum(trunks.mean_kbytes(result, user) for user in trunks.USERS)
    assert kbytes == pytest.approx([1180, 1180], rel=0.01)
    assert trunks.core(result, "dropped_user").tolist() == [0, 0]


def test_seconds_are_drawn_for_each_trunk_with_a_running_average(result):
    series = trunks.seconds(result)
    assert [len(line.x) for line in series] == [30] * 4
    points, average = series[0], series[1]
    assert max(average.y) - min(average.y[10:]) < max(points.y) - min(points.y)


def test_a_trunk_sends_its_guarantee_in_every_second_and_what_it_sends_arrives(result):
    for user, link, guaranteed in zip(trunks.USERS, trunks.LINKS, (400, 200), strict=True):
        sent, received = trunks.sent_kbytes(result, link), trunks.received_kbytes(result, user)
        assert len(sent) == len(received) == 60
        assert sent.min() >= guaranteed
        assert received.sum() == pytest.approx(sent.sum(), rel=0.04), "but for headers and what waits"


def test_a_trunk_of_one_control_tcp_varies_more_than_one_of_four(result):
    one = Runner(paper="decoupling").tables(trunks.SCENARIO, {**SHORT, **trunks.ONE_CONTROL}, "test", 2)
    for user in trunks.USERS:
        assert trunks.deviation(one, user) > 1.3 * trunks.deviation(result, user)


def test_headers_take_what_a_vmss_says_and_none_where_bandwidth_is_guaranteed():
    runner = Runner(paper="decoupling")
    alone, half, larger = (
        runner.tables(trunks.SCENARIO, {**settings, **SHORT}, "test", 1)
        for settings in (trunks.ALONE, trunks.HALF, trunks.LARGER)
    )
    assert trunks.header_share(alone)[0] == pytest.approx(100 * 52 / 1500, rel=0.02)
    assert trunks.header_share(half)[0] == pytest.approx(50 * 52 / 1500, rel=0.05)
    assert trunks.header_share(larger)[0] == pytest.approx(100 * 52 / 6000, rel=0.02)
    assert trunks.acknowledgement_share(alone)[0] < 0.6 * trunks.header_share(alone)[0]


def test_the_equations_give_the_thesis_numbers():
    worked = equations.work_out()
    assert worked.w_52 > 3.5 * worked.w_576, "a tenth of the size, more than three times the window"
    assert equations.throughput(56, 1500, 0.1) == pytest.approx(652_500)
    per = equations.packet_error_rate(2e-6, 52)
    window = equations.window(per)
    assert 3 / 8 * window**2 + 3 / 4 * window == pytest.approx(1 / per)


def test_equations_are_shown_and_judged_without_a_simulation():
    figure = equations.EQUATIONS.produce(Runner(paper="decoupling", simulate=None))
    assert [claim.verdict for claim in figure.claims] == ["reproduced"]
    assert "38.4 kbit/s" in figure.text


def test_a_case_of_the_ring_has_its_flows_and_no_others():
    alone, trunks_case = ring.TT3A.cases[0].scenario(), ring.TT3A.cases[2].scenario()
    assert list(alone["flows"]) == ["small"]
    assert alone["circuits"] == {}
    assert all(link["queue"] == "50 packets" for link in alone["links"].values())
    assert list(trunks_case["circuits"]) == ["small", "greedy"]
    assert trunks_case["links"]["r5r1"]["queue"]["model"] == "header-drop"
    assert ring.TT3C.cases[2].scenario()["flows"]["many"]["count"] == 45


def test_trunks_protect_small_transfers_on_the_ring():
    runner = Runner(paper="decoupling")
    results = {case.name: ring.TT3A.run(runner, case, 1) for case in ring.TT3A.cases[:3]}
    alone, greedy, protected = (protection.small_kbytes(results[name])[0] for name in ("(a)", "(b)", "(c)"))
    assert greedy < 0.2 * alone
    assert protected > 0.4 * alone
    assert protection.user_drops(results) == 0, "no router drops a packet of a trunk's users"
    assert protection.delays_ms(results["(c)"]).max() < 20_000


def test_a_case_of_the_testbed_has_its_properties_and_the_bare_one_none():
    bare, testbed = ring.TT3A.cases[1], ring.on_testbed(ring.TT3A.cases[1:2])[0]
    assert testbed.name == "(b), testbed"
    assert "answer_after" not in bare.scenario()["flows"]["small"]
    assert testbed.scenario()["flows"]["small"]["answer_spread"] == "510ms"
    assert all(link["processing"] == "250us" for link in testbed.scenario()["links"].values())
    assert (
        next(case for case in ring.TT3B.cases if case.name == ring.PACED).scenario()["flows"]["udp"]["rate"]
        == "9600kbit/s"
    )


def test_answers_that_take_their_time_leave_the_link_to_others_as_on_the_testbed():
    runner = Runner(paper="decoupling")
    result = ring.TT3A.run(runner, ring.on_testbed(ring.TT3A.cases[:1])[0], 1)
    assert protection.delays_ms(result).mean() == pytest.approx(452, rel=0.05)
    assert protection.small_kbytes(result)[0] == pytest.approx(380, rel=0.1)


def test_web_clients_alone_fetch_what_the_thesis_states_and_ftp_takes_it_from_them():
    runner = Runner(paper="decoupling")
    alone, against = (web.TT2.run(runner, case, 1) for case in web.TT2.cases[:2])
    assert protection.seconds(alone) == 600
    assert protection.small_kbytes(alone)[0] == pytest.approx(453, rel=0.05)
    assert protection.small_kbytes(against)[0] < 0.4 * protection.small_kbytes(alone)[0]


def test_equation_2_is_worked_out_for_each_experiment_with_trunks():
    required = {one.name: one.required for one in lossless.experiments()}
    assert required["TT1 (c)"] == 222_656
    assert required["TT1 (a)"] == 438_656
    assert required["TT2 (c)"] == 50 * 1_552 + 12 * 1_500
    assert [name for name in required if name.startswith("TT3")] == [
        *("TT3 (a) (c)", "TT3 (a) (d)", "TT3 (b) (c)", "TT3 (b) (d)"),
        *("TT3 (c) 5/15 with trunks", "TT3 (c) 15/45 with trunks"),
    ]


def test_a_buffer_of_half_the_equation_loses_users_packets_and_one_without_limit_none():
    experiment = next(one for one in lossless.experiments() if one.name == "TT1 (c)")
    for buffer, loses in (("unlimited", False), (f"{experiment.required // 2}B", True)):
        network = experiment.scenario(lossless.STARTS[0], buffer, 10)
        result = Runner(paper="decoupling").tables(network, {}, "test", 1)
        assert (result.links["dropped_user"].sum() > 0) == loses


def test_a_header_has_a_tcp_s_chance_where_headers_are_dropped_first_and_a_worse_one_at_a_full_tail():
    runner = Runner(paper="decoupling")
    first, tail = (
        friendly.run(runner, "test", queue, 4, 1) for queue in ("header packets first", "drop-tail, 60 packets")
    )
    assert first.user_loss == 0
    assert first.share[0] == pytest.approx(0.5, abs=0.05)
    assert first.header_loss == pytest.approx(first.reno_loss, rel=0.3)
    assert tail.header_loss > 3 * tail.reno_loss
    assert tail.share[0] < 0.3


def test_a_site_alone_in_a_trunk_gets_little_and_public_trunks_give_it_its_share():
    runner = Runner(paper="decoupling")
    alone, public = (
        runner.tables(migration.public_scenario(case), {"duration": "100s"}, "test", 1)
        for case in (migration.ALONE, "1500")
    )
    assert migration.over_fair(alone, "site1")[0] < 0.4
    assert migration.over_fair(public, "site1")[0] == pytest.approx(1, abs=0.2)
    thirds = [migration.over_fair(public, site)[0] for site in migration.SITES]
    assert sum(thirds) == pytest.approx(3), "of three thirds"


def test_trunks_lose_headers_alike_through_red_and_not_through_a_fifo():
    runner = Runner(paper="decoupling")
    ratios = []
    for queue in ("RED", "FIFO, 50 packets"):
        result = runner.tables(legacy.legacy_scenario(queue, "(a)"), {"duration": "100s"}, "test", 1)
        first, second = (legacy.header_loss(result, trunk)[0] for trunk in trunks.TRUNKS)
        ratios.append(second / first)
        assert trunks.core(result, "dropped_user")[0] > 0, "these routers take data for what it is not"
    assert 0.7 < ratios[0] < 1.4
    assert ratios[1] > 1.5


def test_a_case_with_legacy_routers_has_none_that_drops_headers_first():
    case = next(case for case in legacy.LEGACY_PROTECTION.cases if case.legacy == "RED")
    network = case.scenario()
    assert case.trunks
    assert network["circuits"]
    models = {link["queue"]["model"] for link in network["links"].values() if "model" in link.get("queue", "")}
    assert models == {"red"}


def test_a_tcp_that_routers_do_not_count_as_headers_gets_several_times_what_a_control_tcp_gets():
    runner = Runner(paper="decoupling")
    data, header = (migration.run_mixed(runner, "test", 1, unmarked, 2) for unmarked in migration.UNMARKED)
    assert migration.each_over_control(data, 2)[0] > 2
    assert migration.each_over_control(header, 2)[0] == pytest.approx(1, abs=0.2)
    assert header.user_loss == 0 < data.user_loss


def test_three_streams_share_what_is_left_of_their_guarantees():
    result = Runner(paper="decoupling").tables("fig5", {"duration": "150s"}, "test", 1)
    assert [criterion.holds for criterion in streams._measure(result)] == [True] * 3


def test_flows_that_are_told_when_their_trunk_shrinks_time_out_less_and_wait_less():
    runner = Runner(paper="decoupling")
    tail, fair = (
        runner.tables({**sending.scenario(case), "duration": "60s"}, {}, "test", 1)
        for case in (sending.TAIL, sending.FAIR)
    )
    assert sending.waiting(fair).mean() < 0.3 * sending.waiting(tail).mean()
    assert sending.timeouts(fair).sum() <= sending.timeouts(tail).sum()
    assert sending.kbytes(fair, "user1")[0] == pytest.approx(sending.kbytes(tail, "user1")[0], rel=0.1)


def test_equation_5_gives_a_factor_below_the_root_of_packet_over_header():
    for path in factor.PATHS:
        assert 0.8 * factor.root(path) < factor.predicted(path) < factor.root(path)


def test_a_circuit_that_takes_low_losses_for_damage_keeps_a_damaged_link_busy():
    runner = Runner(paper="decoupling")
    plain, delayed = (
        runner.tables({**signals._alone("sack", "5% of packets", by), "duration": "30s"}, {}, "test", 1)
        for by in ("in-band", "in-band, only delayed losses")
    )
    sent = [result.table("circuits")["controlled_bytes"][0] for result in (plain, delayed)]
    assert sent[1] > 3 * sent[0]
