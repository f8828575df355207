import dataclasses

import pytest

from headend.papers.decoupling import equations, trunks
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


def test_the_least_second_is_none_of_the_mean(result):
    for user in trunks.USERS:
        assert (trunks.least_kbytes(result, user) < trunks.mean_kbytes(result, user)).all()


def test_a_result_without_intervals_or_circuits_is_refused(result):
    bare = dataclasses.replace(result, intervals=None, circuits=None)
    with pytest.raises(ValueError, match="no interval"):
        trunks.intervals(bare)
    with pytest.raises(ValueError, match="no circuits"):
        trunks.circuits(bare)


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
