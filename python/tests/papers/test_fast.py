import dataclasses

import numpy as np
import pytest

from headend.papers.fast import FIGURES, open_claims, simple, windows
from headend.papers.figure import Cell, Curve
from headend.papers.runner import Runner


def curve(*rates_mbps):
    """Throughput for alpha = 1, 2, ..."""
    cells = [
        Cell(alpha, {"goodput_bps": np.array([rate * 1e6]), "run": np.array([0])})
        for alpha, rate in enumerate(rates_mbps, 1)
    ]
    return Curve("", cells)


def test_the_sufficient_alpha_is_the_first_within_a_hundredth_of_the_best():
    assert simple.sufficient(curve(1.0, 2.96, 2.98, 3.0)) == 3
    assert simple.sufficient(curve(3.0, 1.0)) == 1


def test_a_run_is_measured_by_its_flows_together():
    goodput = np.array([1e6, 2e6, 1.5e6, 1.5e6])
    assert simple.total_mbps(Cell(1, {"goodput_bps": goodput, "run": np.array([0, 0, 1, 1])})).value == 3.0


@pytest.mark.parametrize("alpha", [3, 4, 6, 20, 35])
def test_a_window_at_rest_holds_alpha_packets_or_up_to_two_less_in_the_queue(alpha):
    runner = Runner(paper="fast")
    rest = windows.measure(runner.traced("simple", {simple.ALPHA.path: alpha}, "test"), alpha)
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
    assert claim.judge([inside]).verdict == "reproduced"
    judged = claim.judge([inside, outside])
    assert judged.verdict == "differs"
    assert "alpha 3" in judged.reason


def test_what_waits_for_the_modem_is_listed_without_a_verdict():
    figure = open_claims.TABLE.produce(Runner(paper="fast"))
    assert not figure.claims
    for claim in ("fast.fig2", "fast.fig4.docsis", "fast.fig7"):
        assert f"`{claim}`" in figure.text
    judged = {claim.id for figure in FIGURES for claim in figure.claims}
    assert not any(f"`{claim}`" in figure.text for claim in judged)
