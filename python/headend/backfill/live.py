"""The goals between real hosts: the kernel's Backfill in the simulator's cells, and CUBIC and BBR in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from headend.backfill.goals import GOALS, Bench, Row
from headend.lab.measure import installed

BESIDE = ("cubic", "bbr")
"""The kernel's own that stand in its place."""
RUNS, SECONDS = 4, 60.0


def table(bench: Bench, binary: Path, jobs: int) -> Iterator[str]:
    """A row for each cell: what each controller came to between real hosts, and Backfill in the simulator."""
    live = replace(bench, runs=RUNS, seconds=SECONDS, binary=binary, is_short=True)
    simulated = replace(live, binary=None)
    benches = [live, simulated, *(replace(live, law=law) for law in BESIDE)]
    yield f"{RUNS} runs of {SECONDS:g} s each; means, of Backfill with their 95% intervals."
    yield ""
    yield f"| what | cell | goal | the kernel's Backfill | 95% | | simulated | {' | '.join(BESIDE)} in its place |"
    yield "|---|---|---|---|---|---|---|" + "---|" * len(BESIDE)
    met = count = 0
    with installed(binary, "backfill"), ThreadPoolExecutor(jobs) as pool:
        # All at once, so that a row waits for nothing but its own cells.
        taken = [[pool.submit(_rows, goal, one) for one in benches] for goal in GOALS]
        for group in taken:
            for rows in zip(*(future.result() for future in group), strict=True):
                count += 1
                met += rows[0].is_met
                yield _line(rows)
    yield ""
    late = sum(live.late)
    yield f"{met} of {count} cells meet their goal. The machine did not keep up with the links in {late} runs."


def _rows(goal: Callable[[Bench], Iterator[Row]], bench: Bench) -> list[Row]:
    return list(goal(bench))


def _line(rows: tuple[Row, ...]) -> str:
    ours, *others = rows
    digits = 1 if "[" in ours.what else 3
    found = ours.found
    cells = [
        ours.what,
        ours.cell,
        ours.goal,
        f"{found.value:.{digits}f}",
        f"{found.lo:.{digits}f} to {found.hi:.{digits}f}",
    ]
    cells += ["met" if ours.is_met else "**missed**", *(f"{row.found.value:.{digits}f}" for row in others)]
    return "| " + " | ".join(cells) + " |"
