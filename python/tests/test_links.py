"""The recordings in scenarios/links are what the script beside them makes."""

from __future__ import annotations

import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest

LINKS = Path(__file__).parents[2] / "scenarios" / "links"


def test_the_recordings_are_what_their_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path)])
    runpy.run_path(str(LINKS / "make.py"), run_name="__main__")
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in LINKS.glob("*.csv")}
    assert all(len(text) < 200_000 for text in made.values())


def test_what_the_script_draws_is_as_was_published() -> None:
    lines = [line.split(",") for line in (LINKS / "starlink.csv").read_text().splitlines()[2:]]
    rates, delays, losses = ([float(line[column]) for line in lines] for column in (1, 2, 3))
    assert max(rates) <= 370
    assert min(rate for rate in rates if rate) >= 8
    # A ping a second meets every tenth line, and each way has its delay; 15 of them have one satellite.
    trips = [2 * delay for delay in delays[5::10]]
    pairs = [(one, other) for at, (one, other) in enumerate(pairwise(trips)) if at % 15 != 14]
    jitter = sum(abs(one - other) for one, other in pairs) / len(pairs)
    assert 6 < jitter < 7.5, "Huston: 6.7 ms between successive round trips while there is one satellite"
    assert 1 <= sum(losses) / len(losses) <= 2, "Huston: one to two percent"
    phone = [float(line.split(",")[1]) for line in (LINKS / "cellular.csv").read_text().splitlines()[2:]]
    assert max(phone) <= 173
    assert 10 < sorted(phone)[len(phone) // 2] < 40
