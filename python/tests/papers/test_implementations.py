"""Section 3.4: three implementations of a trunk."""

import pytest

from headend.papers.decoupling import implementations as trunks
from headend.papers.decoupling.implementations import DECOUPLING, ENCAPSULATION, STREAM, Case
from headend.papers.runner import Runner


@pytest.fixture(scope="module")
def results():
    runner = Runner(paper="decoupling")
    cases = (*trunks.BESIDE_CASES, *trunks.LENGTHS_CASES, *trunks.TABLE_CASES)
    chosen = [case for case in cases if case.size in (None, 64, 1448, 1449) and case.greedy in (4, 16)]
    return {
        case: runner.tables({**case.scenario(), "duration": "20s"}, {}, "test", 1 if case.size else 2)
        for case in chosen
    }


def test_what_follows_a_loss_waits_in_a_byte_stream_and_is_overtaken_in_no_other_than_encapsulation(results):
    for case, result in results.items():
        assert (trunks.reordered(result).max() > 0) == (case.implementation == ENCAPSULATION), case
    for greedy in (4, 16):
        stream, decoupled = (results[Case(one, greedy)] for one in (STREAM, DECOUPLING))
        assert trunks.LARGEST(stream).min() > 2 * trunks.LARGEST(decoupled).max()
        assert trunks.MEAN(stream).min() > trunks.MEAN(decoupled).max()


def test_no_user_s_packet_is_dropped_where_headers_are_dropped_first(results):
    for case, result in results.items():
        if case.header_drop:
            assert trunks.dropped(result).tolist() == [0, 0], case
    assert trunks.dropped(results[Case(DECOUPLING)]).min() > 0, "behind a drop-tail router they are"


def test_decoupling_adds_as_much_to_small_packets_as_to_full_ones_and_encapsulation_divides_these(results):
    def at(measure, implementation, size):
        return float(measure(results[Case(implementation, size=size)])[0])

    assert abs(at(trunks.overhead, DECOUPLING, 64) - at(trunks.overhead, DECOUPLING, 1449)) < 0.5
    # 52 bytes for each 64, and for every second 52 more.
    assert at(trunks.overhead, ENCAPSULATION, 64) > 100
    assert 5 < at(trunks.overhead, STREAM, 64) < 20
    assert [at(trunks.fragmented, ENCAPSULATION, size) for size in (64, 1448, 1449)] == [0, 0, 100]
    assert [at(trunks.fragmented, one, 1449) for one in (STREAM, DECOUPLING)] == [0, 0]


def test_a_case_changes_what_it_says_and_nothing_else():
    plain, linux = Case(STREAM).scenario(), Case(STREAM, tcp="linux", header_drop=True, greedy=7).scenario()
    assert plain["links"]["ef"]["queue"] == "75KB"
    assert linux["links"]["ef"]["queue"] == trunks.HEADER_DROP
    assert linux["flows"]["greedy"]["count"] == 7
    assert linux["circuits"]["trunk"]["personality"] == "linux"
    assert {key: linux[key] for key in ("nodes", "duration")} == {key: plain[key] for key in ("nodes", "duration")}
    assert [*Case(STREAM, size=64).scenario()["flows"]] == ["video"]


def test_the_table_has_a_row_for_each_trunk_and_a_cell_for_each_heading(results):
    of_table = {case: results[case] for case in trunks.TABLE_CASES}
    head, rule, *rows = trunks._table(of_table).splitlines()
    assert len(rows) == 18
    assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}
    assert all("nan" not in row for row in rows)
