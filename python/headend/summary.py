"""Medians over the runs of a sweep, with 95% intervals: what `headend sim` prints, as a table."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headend.results import Result, Table

WITH_INTERVAL = ("goodput_bps", "transfer_s")
"""Columns whose medians are what a study is about."""
MEASURES = (*WITH_INTERVAL, "timeouts", "fast_retransmits", "retransmits")
Floats = NDArray[np.float64]


def swept(result: Result) -> list[str]:
    """The swept fields, in their order."""
    return [name for name in result.flows if "." in name]


def summary(result: Result) -> Table:
    """A row for each point and flow, in their order; a run counts once, with the mean over the flow's instances."""
    flows, fields = result.flows, swept(result)
    names, points = flows["flow"], flows["point"]
    order = {name: place for place, name in enumerate(dict.fromkeys(names.tolist()))}
    places = np.array([order[name] for name in names.tolist()], dtype=np.int64)
    groups = np.unique(np.stack([points.astype(np.int64), places]), axis=1).T
    texts: dict[str, list[str]] = {name: [] for name in (*fields, "flow")}
    numbers: dict[str, list[float]] = {"point": [], "runs": [], "completed": []}
    for point, place in groups.tolist():
        rows = np.flatnonzero((points == point) & (places == place))
        for name, column in texts.items():
            column.append(str(flows[name][rows[0]]))
        runs = flows["run"][rows]
        numbers["point"].append(point)
        numbers["runs"].append(len(np.unique(runs)))
        numbers["completed"].append(float(np.mean(flows["completed"][rows] == 1)))
        for measure in MEASURES:
            middle, low, high = median(by_run(runs, flows[measure][rows]))
            numbers.setdefault(measure, []).append(middle)
            if measure in WITH_INTERVAL:
                numbers.setdefault(f"{measure}_from", []).append(low)
                numbers.setdefault(f"{measure}_to", []).append(high)
    counts = ("point", "runs")
    return Table(
        {
            **{name: _coded(column) for name, column in texts.items()},
            **{name: np.array(column, np.uint64 if name in counts else np.float64) for name, column in numbers.items()},
        }
    )


def by_run(runs: NDArray[np.uint64], values: NDArray[np.generic]) -> Floats:
    """The mean of each run's values that there are; runs without one are left out."""
    numbers = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(numbers)
    _, places = np.unique(runs[there], return_inverse=True)
    return np.asarray(np.bincount(places, weights=numbers[there]) / np.bincount(places), dtype=np.float64)


def median(values: Floats) -> tuple[float, float, float]:
    """The median and its 95% interval between order statistics, those of the sign test; NaN where there is none."""
    if values.size == 0:
        return math.nan, math.nan, math.nan
    ordered, rank = np.sort(values), _rank(values.size)
    if rank == 0:
        return float(np.median(ordered)), math.nan, math.nan
    return float(np.median(ordered)), float(ordered[rank - 1]), float(ordered[-rank])


def _rank(n: int) -> int:
    """The largest rank that a median of `n` is below in at most 2.5% of samples; 0 if there is none."""
    below, rank = 0, 0
    while (below := below + math.comb(n, rank)) * 40 <= 2**n:
        rank += 1
    return rank


def _coded(texts: list[str]) -> tuple[NDArray[np.uint32], list[str]]:
    names = list(dict.fromkeys(texts))
    return np.array([names.index(text) for text in texts], dtype=np.uint32), names
