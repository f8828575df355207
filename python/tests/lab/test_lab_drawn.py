import random

import numpy as np
import pytest

import headend
from headend.lab import LabError, drawn, run
from headend.lab.measure import columns


def test_a_seed_draws_the_same_scenarios_and_another_others():
    draws = [[drawn.scenario(random.Random(seed), n, seed) for n in range(5)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_a_controller_that_is_given_changes_nothing_else_of_the_draw():
    drawn_, given = (drawn.scenario(random.Random(5), 0, 5, controller) for controller in (None, "backfill"))
    differing = [
        (one, other) for one, other in zip(drawn_.splitlines(), given.splitlines(), strict=True) if one != other
    ]
    assert len(differing) == 1
    assert 'controller = "backfill"' in differing[0][1]


def test_what_is_drawn_runs_in_the_simulator():
    draw = random.Random(3)
    for number in range(5):
        text = drawn.scenario(draw, number, 3)
        result = headend.run(text, set={"duration": "3s"}, runs=1)
        assert result.flows["goodput_bps"].sum() > 0, text


def test_flows_and_their_sum_are_judged_apart_with_the_kernels_spread():
    linux = {0: {"f/0": 4e6, "f/1": 6e6}, 1: {"f/0": 6e6, "f/1": 4e6}}
    sim = {0: {"f/0": 8e6, "f/1": 2e6}, 1: {"f/0": 8e6, "f/1": 2e6}}
    one = drawn.judge("two", linux, sim)
    assert (one.aggregate, one.spread) == (0, 0)
    assert one.flows == pytest.approx((60, -60))
    assert one.flow_spread == pytest.approx(40)
    said = drawn.table([one])
    assert "| two | +0.0 | 0.0 | +60.0 | 40.0 |" in said
    assert said[-1].startswith("All flows together: 0.0% in the median, 0.0% at most, 1 of 1 within 15%.")


def test_columns_are_of_the_kinds_that_the_simulators_have():
    table = headend.Table(columns({"flow": ["a", "b", "a"], "n": [1, 2, 3], "t": [1.5, None, 2.0]}))
    assert table["flow"].tolist() == ["a", "b", "a"]
    assert (table["n"].dtype, table["t"].dtype) == (np.uint64, np.float64)
    assert np.isnan(table["t"][1])


def test_a_lab_that_cannot_run_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="binary="):
        run("scenarios/dumbbell.toml")
