"""The goals between real hosts: the kernel's Backfill in the simulator's cells, and CUBIC and BBR in its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from headend.backfill.goals import GOALS, Bench, Row
from headend.lab.measure import installed
from headend.papers.stats import Estimate

RUNS, SECONDS = 3, 40.0

Goal = Callable[[Bench], Iterator[Row]]


def table(bench: Bench, binary: Path, jobs: int, kept: Path, instead: Sequence[str]) -> Iterator[str]:
    """A row for each cell: Backfill between real hosts and in the simulator, and the kernel's own in its place.

    What has been measured is in the folder `kept`, and is not measured again.
    """
    kept.mkdir(parents=True, exist_ok=True)
    live = replace(bench, runs=RUNS, seconds=SECONDS, binary=binary, is_short=True)
    benches = {"backfill": live, "simulated": replace(live, binary=None)}
    benches |= {law: replace(live, law=law) for law in instead}
    with installed(binary, "backfill"), ThreadPoolExecutor(jobs) as pool:
        taken: dict[tuple[str, int], Future[list[Row]]] = {
            (name, number): pool.submit(_rows, goal, one, kept / f"{name}-{goal.__name__}.json")
            for name, one in benches.items()
            for number, goal in enumerate(GOALS)
        }
        yield f"{RUNS} runs of {SECONDS:g} s each; means, of Backfill with their 95% intervals."
        yield ""
        others = "".join(f" {law} in its place |" for law in instead)
        yield f"| what | cell | goal | the kernel's Backfill | 95% | | simulated |{others}"
        yield "|---|---|---|---|---|---|---|" + "---|" * len(instead)
        met = count = 0
        for number in range(len(GOALS)):
            for rows in zip(*(taken[name, number].result() for name in benches), strict=True):
                count += 1
                met += rows[0].is_met
                yield _line(rows)
    yield ""
    late = sum(json.loads(path.read_text(encoding="utf-8"))["late"] for path in kept.glob("*.json"))
    yield f"{met} of {count} cells meet their goal. The machine did not keep up with the links in {late} runs."


def _rows(goal: Goal, bench: Bench, path: Path) -> list[Row]:
    """A goal's rows, from the file if they are there."""
    if path.exists():
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return [Row(**{**row, "found": Estimate(**row["found"])}) for row in rows]
    own = replace(bench, late=[])
    measured = list(goal(own))
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"late": sum(own.late), "rows": [asdict(row) for row in measured]}), encoding="utf-8")
    part.replace(path)
    return measured


def _line(rows: tuple[Row, ...]) -> str:
    ours, *others = rows
    digits = 1 if "[" in ours.what else 3
    found = ours.found
    interval = f"{found.lo:.{digits}f} to {found.hi:.{digits}f}"
    cells = [ours.what, ours.cell, ours.goal, f"{found.value:.{digits}f}", interval]
    cells += ["met" if ours.is_met else "**missed**", *(f"{row.found.value:.{digits}f}" for row in others)]
    return "| " + " | ".join(cells) + " |"
