"""The proxies study on the real simulator: a few runs, and only what no chance can turn."""

import dataclasses

import pytest

from headend.papers import reference
from headend.papers.figure import SweepFigure
from headend.papers.proxies import FIGURES
from headend.papers.runner import Runner

BY_ID = {figure.id: figure for figure in FIGURES}


def only(figure: SweepFigure, *keys: str) -> SweepFigure:
    return dataclasses.replace(figure, lines=[line for line in figure.lines if line.key in keys])


@pytest.mark.parametrize(
    ("figure", "key", "table", "name"),
    [
        ("fig5", "direct 100", "p2_fig05", "direct remRTT=100ms"),
        ("fig5", "store 20", "p2_fig05", "sf remRTT=20ms"),
        ("fig5", "buffer 300", "p2_fig05", "bf remRTT=300ms"),
        ("fig7", "prompt", "p2_fig07", "no delack at proxy"),
        ("fig7", "wide", "p2_fig07", "no delack at proxy + iw2 local"),
    ],
)
def test_loss_free_transfers_are_as_fast_as_in_ns_2(figure, key, table, name):
    (curve,) = only(BY_ID[figure], key).data(Runner(paper="proxies")).values()
    expected = reference.series(table, name, name)
    common = [x for x in expected.x if x in curve.x]
    assert len(common) >= 3, "curves have points in common"
    for x in common:
        seconds = 8e-3 * x / expected.y[expected.x.index(x)]
        assert float(curve.at(x)["transfer_s"][0]) == pytest.approx(seconds, rel=1e-4), f"{x:g} KB"


def test_a_proxy_that_acknowledges_at_once_spares_the_server_the_wait_for_the_delayed_ack():
    result = BY_ID["fig6"].produce(Runner(paper="proxies"))
    direct, split = dict.fromkeys(arrow.group for arrow in result.ladder)

    def second_packet(group: str) -> float:
        data = [a for a in result.ladder if (a.group, a.sender, a.kind) == (group, "server", "data")]
        return data[2].t_send_s - data[0].t_send_s

    assert second_packet(direct) > 0.2, "the third packet waits for a delayed ACK and a round trip"
    assert second_packet(split) < 0.15, "the third packet waits for a round trip"
    assert {a.receiver for a in result.ladder if (a.group, a.sender) == (split, "server")} == {"proxy"}
    assert {a.receiver for a in result.ladder if (a.group, a.sender) == (split, "proxy")} == {"server", "pc"}
    assert {a.receiver for a in result.ladder if a.group == direct} == {"server", "pc"}
