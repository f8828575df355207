import dataclasses

import numpy as np
import pytest
from fake import FakeSimulator, cell

from headend.papers.fast import ablation, ping, throughput, windows
from headend.papers.figure import Curve
from headend.papers.runner import Runner


def curve(*rates_mbps):
    """Throughput for alpha = 1, 2, ..."""
    cells = [
        cell(alpha, goodput_bps=np.array([rate * 1e6]), run=np.array([0])) for alpha, rate in enumerate(rates_mbps, 1)
    ]
    return Curve("", cells)


def test_the_sufficient_alpha_is_the_first_within_a_hundredth_of_the_best():
    assert throughput.sufficient(curve(1.0, 2.96, 2.98, 3.0)) == 3
    assert throughput.sufficient(curve(3.0, 1.0)) == 1


def test_a_run_is_measured_by_its_flows_together():
    goodput = np.array([1e6, 2e6, 1.5e6, 1.5e6])
    assert throughput.total_mbps(cell(1, goodput_bps=goodput, run=np.array([0, 0, 1, 1]))).value == 3.0


@pytest.mark.parametrize("alpha", [3, 4, 6, 20, 35])
def test_a_window_at_rest_holds_alpha_packets_or_up_to_two_less_in_the_queue(alpha):
    runner = Runner(paper="fast")
    rest = windows.measure(runner.traced("simple", {throughput.ALPHA.path: alpha}, "test"), alpha)
    assert rest.window_min == rest.window_max, "at rest"
    assert alpha - 2 < rest.queued <= alpha
    assert rest.base_ms == pytest.approx(windows.BASE_MS, abs=0.01)
    assert rest.rate_mbps == pytest.approx(3 * 1460 / 1500, rel=0.005)
    # Little's law: a window is what the link carries in a round trip.
    assert rest.rtt_ms * rest.rate_mbps / 8e-3 / 1460 == pytest.approx(rest.window, rel=0.05)
    assert rest.base_ms < rest.rtt_min_ms <= rest.rtt_ms


def test_vegas_fills_the_link_with_a_few_packets_in_the_queue():
    settings = {"nodes.server.tcp.controller": "vegas"}
    rest = windows.measure(Runner(paper="fast").traced("simple", settings, "test"), 0)
    assert 2 <= rest.queued <= 5, "between alpha = 2 and beta = 4, and what waits of a packet"
    assert rest.rate_mbps == pytest.approx(3 * 1460 / 1500, rel=0.01)


def test_a_window_that_equation_5_forbids_is_told():
    rest = windows.Rest(6, 32.0, 32.0, 32.0, 2.9, 125.0, 125.0, 104.0)
    inside, outside = rest, dataclasses.replace(rest, alpha=3)
    (claim,) = windows.EQUATION.claims
    assert claim.judge(windows.Rests([inside])).verdict == "reproduced"
    judged = claim.judge(windows.Rests([inside, outside]))
    assert judged.verdict == "differs"
    assert "alpha 3" in judged.reason


def test_a_line_without_chance_is_run_once_and_the_others_as_often_as_the_edition_says():
    simulate = FakeSimulator()
    throughput.FIG4.data(Runner(paper="fast", edition="quick", simulate=simulate))
    assert {call["scenario"]: call["runs"] for call in simulate.calls} == {"simple": 1, "docsis": 10}


def test_an_idle_modem_takes_a_cycle_and_a_busy_moment_another():
    (claim,) = ping.FIG2.produce(Runner(paper="fast")).claims
    base, extra = claim.criteria
    # Look-ahead, the way of a MAP and of a burst; and at most a MAP interval until the next.
    assert 11 < base.measured < 13
    # The cycle of whole MAP intervals that is longer than the look-ahead, and the mini-slots of a grant.
    assert 10 < extra.measured < 14


def variant(label):
    return next(variant for variant in ablation.VARIANTS if variant.label == label)


@pytest.fixture(scope="module")
def held():
    runner = Runner(paper="fast", edition="quick")
    labels = ["as in the figures", "no calendars", "no asking, no calendar downstream", "no concatenation"]
    return {label: dict(ablation.held(runner, variant(label))) for label in labels}


def test_a_held_window_of_20_to_32_packets_takes_nine_entries_of_the_calendars(held):
    found = held["as in the figures"]
    assert [round(found[window].rtt_ms) for window in (20, 28)] == [144, 144]
    assert 140 <= found[32].rtt_ms <= 145
    assert found[20].rtt_min_ms > 1.2 * found[20].base_ms, "not one comes through at the base"


def test_without_asking_the_round_trip_is_that_of_a_link(held):
    for window, rest in held["no asking, no calendar downstream"].items():
        alone = ablation.queue_ms(window, rest.base_ms)
        # Packets come in pairs, and the token bucket and the flow's own bursts make some wait for a packet or two.
        assert alone - 1 < rest.rtt_ms < alone + 9, window


def test_asking_alone_makes_part_of_the_phantom_delay(held):
    alone, all_of_it = (
        held[label][20].rtt_ms - held[label][20].base_ms for label in ("no calendars", "as in the figures")
    )
    assert 2 < alone < all_of_it


def test_without_concatenation_a_modem_sends_an_acknowledgement_a_cycle(held):
    # Two packets for each entry of 16 ms.
    rates = [rest.rate_mbps for rest in held["no concatenation"].values()]
    assert max(rates) == pytest.approx(2 * 1460 * 8 / 16e3, rel=0.01)
