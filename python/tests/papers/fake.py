"""A simulator made up for tests: throughput falls with loss and grows with the buffer, by a formula."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headend.papers.runner import Cell, load
from headend.papers.units import abscissa
from headend.results import Result, Table


def result(columns: Mapping[str, Any], seed: int = 1) -> Result:
    """Results with these columns of flows, and nothing else."""
    return Result(Table(columns), Table({"point": np.empty(0, dtype=np.uint64)}), None, None, [], "", seed, {})


def cell(x: float, **columns: Any) -> Cell:
    """A point of a curve with these columns of flows."""
    return Cell(x, result(columns))


class FakeSimulator:
    """Remembers what it was asked; its numbers have the shape of a simulation and no other meaning."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, scenario: Path, **request: Any) -> Result:
        self.calls.append({"scenario": scenario.stem, **request})
        assert request["trace"] is False, "no trace without packets"
        sweep: Mapping[str, Sequence[Any]] = request["sweep"] or {"title": [""]}
        (path, values), *_ = sweep.items()
        runs, seed = request["runs"], request["seed"]
        loss = [abscissa(value) if path.endswith("loss") else 0.0 for value in values]
        count = request["set"].get("flows.get.count", 3 if "fig10" in scenario.stem else 1)
        point = np.repeat(np.arange(len(values), dtype=np.uint64), runs * count)
        run = np.tile(np.repeat(np.arange(runs, dtype=np.uint64), count), len(values))
        rng = np.random.default_rng(seed)
        noise = rng.uniform(0.8, 1.2, point.size)
        clean = np.array([chance == 0.0 for chance in loss])[point.astype(int)]
        goodput = 3e6 / (1.0 + np.array(loss)[point.astype(int)]) * np.where(clean, 1.0, noise)
        transfer = 24e6 / goodput
        timeouts = np.where(clean, 0, rng.poisson(3.0, point.size)).astype(np.uint64)
        columns = {
            "point": point,
            "run": run,
            "instance": np.tile(np.arange(count, dtype=np.uint64), runs * len(values)),
            "bytes": np.full(point.size, 3_000_000, dtype=np.uint64),
            "completed": np.ones(point.size, dtype=np.uint64),
            "transfer_s": transfer,
            "acked_s": transfer,
            "goodput_bps": goodput,
            "timeouts": timeouts,
            "fast_retransmits": timeouts,
            "segments_sent": np.full(point.size, 2055, dtype=np.uint64),
            "retransmits": timeouts,
            "cwnd_max_bytes": np.full(point.size, 8760, dtype=np.uint64),
        }
        if request["progress"]:
            request["progress"](len(values) * runs, len(values) * runs)
        return result(columns, seed)


def swept(paper_scenario: Path) -> Mapping[str, Sequence[Any]]:
    """The axes of a scenario file."""
    return load(paper_scenario).get("sweep", {})
