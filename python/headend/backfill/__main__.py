"""`python -m headend.backfill`: is the controller `backfill` fast on damaged lines and fair beside others?

Prints the table of goals, the ablation of its guards, or cells beyond the goals, as Markdown; with `live`, which takes
root and an hour, the goals between real hosts with the kernel's controllers. The same command prints
the same figures: seeds are fixed, and those that judge (from 1001) are not those that the law was tuned on (from 1).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headend.backfill import live, wider
from headend.backfill.goals import GOALS, Bench, Row
from headend.report import marked

JUDGING, TUNING = 1001, 1
GUARDS = ("none", "thinning", "look", "probe", "alpha", "ceiling", "haste", "plateau", "pacing")
"""The guards of `backfill_without`."""
INSTEAD = ("cubic", "bbr", "reno")
"""What the kernel may run in Backfill's place."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m headend.backfill", description=__doc__)
    parser.add_argument("what", choices=(*TABLES, "live"), help="the table")
    parser.add_argument("--quick", action="store_true", help="3 seeds of 60 s, and not up to 20 of 120 s")
    parser.add_argument("--law", default="backfill", help="another controller in its place")
    parser.add_argument("--without", default="none", choices=GUARDS, help="a guard to switch off")
    parser.add_argument("--tuning", action="store_true", help="the seeds that the law was tuned on")
    parser.add_argument(
        "--binary", type=Path, default=Path("target/release/headend"), help="of `live`: the headend command"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="of `live`: cells at a time, each of which takes half a core"
    )
    parser.add_argument(
        "--kept", type=Path, default=Path("out/backfill-live"), metavar="DIR", help="of `live`: what has been measured"
    )
    parser.add_argument(
        "--instead",
        default="cubic,bbr",
        metavar="NAMES",
        help="of `live`: the kernel's own in its place; '' for none, in 20 minutes (default: cubic,bbr, an hour)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error(f"--jobs {chosen.jobs}: at least 1")
    if chosen.what == "live" and not chosen.binary.is_file():
        parser.error(f"--binary {chosen.binary}: there is no such file; `cargo build --release` makes it")
    seed = TUNING if chosen.tuning else JUDGING
    runs, seconds = (3, 60.0) if chosen.quick else (20, 120.0)
    bench = Bench(chosen.law, chosen.without, seed, runs, seconds)
    instead = [name for name in chosen.instead.split(",") if name]
    if unknown := [name for name in instead if name not in INSTEAD]:
        parser.error(f"--instead {','.join(unknown)}: {' or '.join(INSTEAD)}, separated by commas, or ''")
    begin = time.monotonic()
    if chosen.what == "live":
        lines, table = [], live.table(bench, chosen.binary, chosen.jobs, chosen.kept, instead)
    else:
        lines = [
            f"Seeds from {seed}, up to {runs} of them, up to {seconds:g} s each; means with their 95% intervals.",
            "",
        ]
        table = TABLES[chosen.what](bench)
    for line in lines:
        print(line)
    for line in table:
        lines.append(line)
        print(line, flush=True)
    if chosen.page:
        marked.write(chosen.page, chosen.what, "\n".join(lines))
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


def _goals(bench: Bench) -> Iterator[str]:
    yield "| what | cell | goal | found | 95% | |"
    yield "|---|---|---|---|---|---|"
    rows = []
    for row in (row for goal in GOALS for row in goal(bench)):
        rows.append(row)
        found, digits = row.found, 1 if "[" in row.what else 3
        yield (
            f"| {row.what} | {row.cell} | {row.goal} | {found.value:.{digits}f} "
            f"| {found.lo:.{digits}f} to {found.hi:.{digits}f} | {'met' if row.is_met else '**missed**'} |"
        )
    yield ""
    yield f"{sum(row.is_met for row in rows)} of {len(rows)} cells meet their goal."


def _ablation(bench: Bench) -> Iterator[str]:
    """For each guard the cells that change most when it is switched off."""
    whole: dict[tuple[str, str], Row] = {}
    yield "| without | goals met | the cells that it changes most: with it, and without |"
    yield "|---|---|---|"
    for guard in GUARDS:
        rows = {(row.what, row.cell): row for goal in GOALS for row in goal(replace(bench, without=guard))}
        met = sum(row.is_met for row in rows.values())
        if guard == "none":
            whole = rows
            yield f"| nothing | {met} of {len(rows)} | |"
            continue
        most = sorted(rows, key=lambda key: _change(whole[key], rows[key]), reverse=True)[:3]
        cells = (f"{' '.join(key)}: {whole[key].found.value:.2f}, {rows[key].found.value:.2f}" for key in most)
        yield f"| {guard} | {met} | {'; '.join(cells)} |"


def _change(before: Row, after: Row) -> float:
    """By which part a cell changes."""
    return abs(after.found.value - before.found.value) / max(abs(before.found.value), 0.1)


def _wider(cells: Callable[[Bench], Iterator[tuple[str, ...]]], *columns: str) -> Callable[[Bench], Iterator[str]]:
    def table(bench: Bench) -> Iterator[str]:
        headings = ("cell", "Backfill", *(columns or ("CUBIC in its place",)))
        yield f"| {' | '.join(headings)} |"
        yield "|" + "---|" * len(headings)
        for cell in cells(bench):
            yield "| " + " | ".join(cell) + " |"

    return table


TABLES: Mapping[str, Callable[[Bench], Iterator[str]]] = {
    "goals": _goals,
    "ablation": _ablation,
    "alone": _wider(wider.alone),
    "beside": _wider(wider.beside),
    "networks": _wider(wider.networks),
    "short": _wider(wider.short, "without *plateau*", "CUBIC in its place", "BBR in its place"),
}


if __name__ == "__main__":
    sys.exit(main())
