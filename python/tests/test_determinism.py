"""The recorded bytes of `crates/sim/tests/pinned.rs`, held against the release build that Python loads."""

import csv
import math
from pathlib import Path

import pytest

import headend

PINNED = Path(__file__).parents[2] / "crates" / "sim" / "tests" / "pinned"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_release_build_yields_the_very_numbers_of_a_debug_build(threads):
    flows = headend.run(PINNED / "senders.toml", threads=threads).flows
    with (PINNED / "senders.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert len(rows) == 24
    assert header == list(flows)
    for name, *recorded in zip(header, *rows, strict=True):
        for got, wanted in zip(flows[name], recorded, strict=True):
            if isinstance(got, str):
                assert got == wanted, name
            else:
                # The file has the fewest digits that read back as the same number: equal means equal in every bit.
                assert got == float(wanted) if wanted else math.isnan(got), name
