"""The media stream of chapter 5."""

import numpy as np
import pytest

from headend.papers.decoupling import media
from headend.papers.runner import Runner

SHORT = {"duration": "30s"}


@pytest.fixture(scope="module")
def results():
    runner = Runner(paper="decoupling")
    cases = {**media.LINES, **media.BESIDE, media.FRIENDLY: media.GREEDY_STREAM}
    return {
        (case, greedy): media.run(runner, case, {**settings, **SHORT}, greedy, 2)
        for case, settings in cases.items()
        for greedy in media.GREEDY
        if greedy in (1, 4, 16)
    }


def test_no_datagram_of_a_circuit_is_lost_where_headers_are_dropped_first(results):
    for (case, greedy), result in results.items():
        frames = media.frames(result)
        if "UDP" in case or "drop-tail" in case:
            continue
        assert media.dropped(result).tolist() == [0, 0], (case, greedy)
        assert frames["broken"].tolist() == [0, 0], (case, greedy)
    assert media.frames(results["UDP, 2 Mbit/s", 16])["broken"].min() > 50


def test_a_guarantee_keeps_frames_on_time_that_time_outs_would_hold_up(results):
    for greedy in (1, 4, 16):
        plain, guaranteed, tcp = (
            media.on_time(results[case, greedy]).mean() for case in ("circuit", media.MINIMUM, "TCP")
        )
        assert guaranteed > 95 > plain
        assert guaranteed > tcp + 5


def test_stale_frames_are_sent_only_if_they_are_kept(results):
    kept = media.frames(results["circuit, stale frames kept", 4])
    for case in ("circuit", "circuit, stale frames replaced", media.MINIMUM):
        taken = media.frames(results[case, 4])
        assert taken["stale_sent"].sum() * 10 < kept["stale_sent"].sum(), case
    assert media.frames(results["circuit, stale frames replaced", 4])["replaced"].sum() > 0


def test_a_stream_that_does_not_listen_takes_more_than_its_share(results):
    assert media.share(results["UDP, 2 Mbit/s", 16]).min() > 300
    assert media.share(results[media.FRIENDLY, 16]).max() < 200


def test_every_frame_ended_in_one_way(results):
    ways = ("on_time", "late", "broken", "skipped", "withdrawn", "replaced", "pending")
    for result in results.values():
        frames = media.frames(result)
        assert (sum(frames[way] for way in ways) == frames["frames"]).all()
        assert (frames["frames"] == 751).all(), "25 a second for 30 s"


def test_the_table_has_a_row_for_each_case_and_a_cell_for_each_heading(results):
    head, rule, *rows = media._table(results).splitlines()
    assert len(rows) == len(media.LINES) + len(media.BESIDE)
    assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}


def test_a_panel_has_a_line_for_each_case(results):
    all_of_them = {(case, greedy): results[case, 4] for case in media.LINES for greedy in media.GREEDY}
    lines = media._lines(all_of_them)
    assert [line.label for line in lines] == [*media.LINES] * 2
    assert all(line.x == list(map(float, media.GREEDY)) for line in lines)
    assert lines[0].y[0] == pytest.approx(np.mean(media.on_time(results["circuit", 4])))
