"""Reliable sockets over a link that damages packets: suites RS1 and RS2 of chapter 4."""

import dataclasses

import numpy as np
import pytest

from headend.papers.decoupling import sockets
from headend.papers.runner import Runner


def _short(figure, *xs):
    """What a figure yields at a few abscissae, in short runs."""
    few = [dataclasses.replace(panel, points={x: panel.points[x] for x in xs}) for panel in figure.panels]
    return dataclasses.replace(figure, panels=few).run(Runner(paper="decoupling"), 2, duration="60s")


@pytest.fixture(scope="module")
def by_errors():
    return _short(sockets.RS1, 1e-7, 2e-6, 1e-5)


@pytest.fixture(scope="module")
def by_round_trips():
    return _short(sockets.RS2, 10.0, 100.0)


def test_damaged_bits_slow_plain_tcps_down_and_sockets_hardly(by_errors):
    at = {
        (line, ber): sockets.kbytes(result).mean()
        for (group, line, ber), result in by_errors.items()
        if group == sockets.PUBLISHED
    }
    assert at[sockets.DECOUPLING, 1e-5] > 0.8 * at[sockets.DECOUPLING, 1e-7]
    for tcp in (sockets.RENO, sockets.SACK):
        assert at[tcp, 1e-5] < 0.2 * at[tcp, 1e-7]
        assert at[tcp, 1e-5] < 0.2 * at[sockets.DECOUPLING, 1e-5]
    assert at[sockets.DECOUPLING, 1e-7] < at[sockets.RENO, 1e-7], "headers take their share of a link without errors"


def test_no_line_is_above_the_link_s_bound(by_errors, by_round_trips):
    for (_, line, ber), result in by_errors.items():
        per = sockets.packet_error_rate(ber, sockets.PACKET)
        # Equation (3) counts a packet with two wrong bits twice.
        assert sockets.kbytes(result).max() < sockets.link_bound(per) / (1 - per), (line, ber)
    for (_, line, rtt), result in by_round_trips.items():
        assert sockets.kbytes(result).max() < sockets.link_bound(0.024) * 1.001, (line, rtt)


def test_the_bound_of_one_window_is_the_thesis_s_615_and_two_windows_fill_the_link():
    assert sockets.window_bound(2e-6, 100, 1) == pytest.approx(615, rel=0.01)
    assert sockets.window_bound(2e-6, 100, 2) == sockets.link_bound(0.024)
    assert sockets.window_bound(2e-6, 200, 2) == pytest.approx(sockets.window_bound(2e-6, 100, 1))


def test_what_a_socket_sends_again_was_damaged_or_dropped(by_round_trips):
    for rtt in (10.0, 100.0):
        result = by_round_trips[sockets.PUBLISHED, sockets.DECOUPLING, rtt]
        links = result.links.where(link="ef", direction="e->f")
        again = np.bincount(result.flows["run"].astype(int), weights=result.flows["retransmits"])
        lost = links["lost"] + links["dropped_user"]
        assert (again > 0.9 * lost).all()
        assert (again < 1.1 * lost).all(), rtt


def test_one_connection_alone_is_one_and_the_windows_of_small_buffers_hold_sockets_back(by_round_trips):
    alone = by_round_trips[sockets.PUBLISHED, sockets.ALONE, 100.0]
    assert set(alone.flows["flow"]) == {"first"}
    small, large = (sockets.kbytes(by_round_trips[sockets.PUBLISHED, line, 100.0]).mean() for line in sockets.WINDOWS)
    assert small < 0.8 * large
    assert small < 2 * 32.768 / 0.1, "a window for each round trip"


def test_goodput_is_that_of_both_connections_in_each_run(by_errors):
    result = by_errors[sockets.PUBLISHED, sockets.RENO, 1e-7]
    assert sockets.kbytes(result).shape == (2,)
    assert sockets.kbytes(result).sum() == pytest.approx(np.sum(result.flows["goodput_bps"]) / 8e3)


def test_a_figure_draws_each_line_with_its_bounds_and_judges_its_claims(by_errors):
    panel = dataclasses.replace(sockets.RS1.panels[0], points={1e-5: sockets.RS1.panels[0].points[1e-5]})
    lines = sockets._series(panel, by_errors)
    assert [line.style for line in lines] == ["dashed"] + ["line"] * len(sockets.THEN)
    assert lines[0].y[0] > lines[1].y[0]
