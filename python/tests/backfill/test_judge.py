"""The judge's own arithmetic, and that its cells are scenarios."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headend.backfill import live, wider
from headend.backfill.cells import Cell
from headend.backfill.goals import DETOUR_S, Bench, Row, recovery_s
from headend.papers.stats import Estimate

SHORT = Bench(law="backfill", without="none", seed=1, runs=1, seconds=2.0)


def test_recovery_is_counted_from_the_detour_to_two_good_seconds() -> None:
    begin = int(DETOUR_S * 2)
    series = np.ones(begin + 80)
    series[begin : begin + 10] = 0.2
    assert recovery_s(series) == pytest.approx(7.0)
    series[begin:] = 0.2
    assert recovery_s(series) == 40.0
    assert recovery_s(np.ones(begin + 80)) == 0.0


def test_shares_and_what_is_used_add_up() -> None:
    outcome = Cell(flows=2, rivals=(("cubic", 1),), seconds=5).run(seed=1, runs=2)
    assert (outcome.share * 2 * outcome.used * outcome.cell.payload_mbit).round(6) == pytest.approx(
        outcome.mbit("law").round(6)
    )
    assert (outcome.jain > 0).all()
    assert (outcome.jain <= 1.0).all()
    assert outcome.cell.packets == 42


def test_damage_is_where_the_cell_says() -> None:
    for where, link in (("line", "line"), ("before", "law-from"), ("behind", "law-to")):
        outcome = Cell(loss=10, where=where, seconds=5).run(seed=1, runs=1)
        lost = {name for name in ("line", "law-from", "law-to") if outcome.result.links.where(link=name)["lost"].sum()}
        assert lost == {link}


def test_a_guard_that_is_switched_off_changes_a_run() -> None:
    cell = Cell(loss=2, seconds=5)
    assert cell.run(1, 1).mbit("law") != cell.but(without="ceiling").run(1, 1).mbit("law")


def test_a_cell_with_short_flows_has_a_time_for_them() -> None:
    (name, backfill, cubic), *_ = wider.networks(SHORT)
    assert name.startswith("short flows")
    assert "ms" in backfill
    assert "ms" in cubic


def test_what_has_been_measured_is_not_measured_again(tmp_path: Path) -> None:
    calls = []

    def goal(bench: Bench) -> Iterator[Row]:
        calls.append(bench)
        bench.late.append(2)
        yield Row("share", "a cell", "≤ 1", Estimate(0.5, 0.4, 0.6), is_met=True)

    first, again = (live._rows(goal, SHORT, tmp_path / "cubic-goal.json") for _ in range(2))
    assert first == again
    assert len(calls) == 1
    assert json.loads((tmp_path / "cubic-goal.json").read_text())["late"] == 2
