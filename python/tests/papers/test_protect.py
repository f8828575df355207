"""What protects headers (section 4.9), and what it buys where a packet's size does not matter to its loss."""

import dataclasses

import pytest

from headend.papers.decoupling import protect, sockets
from headend.papers.runner import Runner


def _goodput(figure, x, *lines):
    """Of some lines at one abscissa, in the figure's last panel."""
    panel = figure.panels[-1]
    few = dataclasses.replace(panel, points={x: panel.points[x]}, lines={line: panel.lines[line] for line in lines})
    results = dataclasses.replace(figure, panels=[few]).run(Runner(paper="decoupling"), 2, duration="120s")
    return [sockets.kbytes(results[panel.group, line, x]).mean() for line in lines]


def test_smaller_and_repeated_headers_and_a_larger_vmss_each_help_over_a_long_path():
    plain, twice, copied, larger = _goodput(
        protect.RS_OPTIONS, 200.0, sockets.DECOUPLING, protect.TWICE, protect.COPY, protect.VMSS_4
    )
    assert min(twice, copied, larger) > 1.15 * plain


def test_without_twice_each_loss_stops_the_control_tcp_until_its_timer_expires():
    plain, vj, twice = _goodput(protect.RS_OPTIONS, 20.0, sockets.DECOUPLING, protect.VJ, protect.TWICE)
    assert vj < plain < twice


def test_where_size_does_not_matter_decoupling_gains_nothing_and_copies_do():
    plain, reno, copied = _goodput(protect.RS_PACKETS, 1.0, sockets.DECOUPLING, sockets.RENO, protect.COPIES)
    assert plain == pytest.approx(reno, rel=0.3)
    assert copied > 2 * plain


def test_copies_from_end_to_end_take_from_who_has_none_and_those_on_the_link_do_not():
    figure = protect.RS_SHARES
    results = figure.run(Runner(paper="decoupling"), 2, duration="120s")
    ratio = {
        line: protect.each_kbytes(result, "first").sum() / protect.each_kbytes(result, "second").sum()
        for (_, line, _), result in results.items()
    }
    assert ratio["first: two of each header from end to end"] > 3
    assert ratio[protect.COPY] == pytest.approx(ratio["neither"], rel=0.3)
    assert ratio["first: VMSS 3000"] == pytest.approx(2, rel=0.25), "a header stands for twice as much"
    head, rule, *rows = figure.table(results).splitlines()
    assert len(rows) == len(protect.SHARES)
    assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}


def test_a_larger_vmss_has_the_buffer_of_equation_2():
    assert protect.larger(1500)["links.ef.queue.buffer"] == "80600B"
    assert protect.larger(3000)["links.ef.queue.buffer"] == "158600B"
