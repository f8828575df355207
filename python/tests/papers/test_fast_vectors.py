"""FAST's window once more, from the papers with exact fractions, against the vectors that the engine is held to.

The check of the base round trip, which the papers do not have, is once more what docs/explanation/fast-kernel.md says.

`HEADEND_BLESS=1` writes the vectors anew from what is here; the engine then has to agree.
"""

from __future__ import annotations

import csv
import io
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from itertools import pairwise
from math import floor
from pathlib import Path

VECTORS = Path(__file__).parents[3] / "crates/engine/src/cc/fast/vectors.csv"
COLUMNS = [
    *("case", "alpha", "gamma_percent", "update_rounds"),
    *("event", "now_us", "rtt_us", "acked", "recovering", "limited", "to_cwnd", "to_ssthresh"),
    *("cwnd", "ssthresh", "check_seconds"),
]
NEVER = 2**64 - 1
Row = dict[str, str | int]


@dataclass
class Fast:
    """The window as the papers say it; times in microseconds, the average in 256ths of one."""

    alpha: int
    gamma: Fraction
    rounds: int
    cwnd: int
    ssthresh: int = NEVER
    target: int = 0
    base: int = 0
    average: int = 0
    update_at: int = 0
    check_seconds: int = 0
    step: str = "rest"
    step_ends: int | None = None
    heard: list[int] = field(default_factory=list)
    heard_before: list[int] = field(default_factory=list)

    def to_wait(self) -> int:
        """Alpha; of an alpha by rate, 20 and as many more as go out in 2 ms."""
        return self.alpha or 20 + floor(self.cwnd * Fraction(2_000 * 256, max(self.average, 1)))

    def queued(self) -> Fraction:
        """Its own packets that wait: w (D - d) / D."""
        return self.cwnd * (1 - Fraction(256 * self.base, self.average))

    def aim(self) -> int:
        """Equation (1), with gamma for its half; never beyond a doubling, never below one."""
        moved = (1 - self.gamma) * self.cwnd
        moved += self.gamma * (Fraction(256 * self.base, self.average) * self.cwnd + self.to_wait())
        return min(max(floor(moved), 1), 2 * self.cwnd)

    def ack(self, now: int, rtt: int | None, acked: int, recovering: bool, limited: bool) -> None:
        """An acknowledgement of new data."""
        if rtt is not None:
            if self.base == 0:
                self.average = 256 * rtt
            elif self.step in ("rest", "before"):
                weight = min(Fraction(3, self.cwnd), Fraction(1, 4))
                step = (256 * rtt - self.average) * weight
                self.average += int(step)  # towards zero
            if self.base == 0 or rtt <= self.base:
                self.base = rtt
                self.rest(now)
            self.heard.append(rtt)
        if recovering or self.base == 0:
            return
        if self.cwnd < self.ssthresh:
            if self.queued() > self.to_wait():
                self.ssthresh = self.cwnd
                self.wait(now)
            elif limited:
                self.cwnd = min(self.cwnd + acked, self.ssthresh)
            self.target = self.cwnd
            return
        if self.check_seconds and self.checks(now, limited):
            return
        if now >= self.update_at:
            self.target = self.aim()
            self.cwnd = min(self.cwnd, self.target)
            self.ssthresh = min(self.ssthresh, self.cwnd)
            self.wait(now)
        if limited:
            self.cwnd = min(self.target, self.cwnd + acked)

    def rest(self, now: int) -> None:
        """The base was seen, or a check is over: the next one is due in so many seconds."""
        if self.step in ("drain", "after"):
            self.wait(now)
        self.step, self.step_ends = "rest", now + 1_000_000 * self.check_seconds

    def checks(self, now: int, limited: bool) -> bool:
        """Goes on with a check of the base; true while it holds the window."""
        if self.step_ends is None:
            self.rest(now)
        assert self.step_ends is not None
        around = max(self.average // 256, 1)
        if now >= self.step_ends and (self.step != "rest" or limited):
            heard, self.heard = self.heard, []
            if self.step == "rest":
                self.step, self.step_ends = "before", now + around
            elif self.step == "before":
                self.heard_before, self.target = heard, self.cwnd
                held = floor(Fraction(self.cwnd * self.base, max(around, self.base)))
                self.cwnd = min(max(floor(Fraction(3, 4) * held), min(2, self.cwnd)), self.cwnd)
                self.ssthresh = min(self.ssthresh, self.cwnd)
                self.step, self.step_ends = "drain", now + around
            elif self.step == "drain":
                self.step, self.step_ends = "after", now + around + around // 2
            else:
                self.heard = heard
                if heard and self.heard_before:
                    gone = max(min(self.heard_before) - min(heard), 0)
                    if gone < Fraction(max(around - self.base, 0), 32):
                        self.base = min(heard)
                self.rest(now)
        return self.step in ("drain", "after")

    def wait(self, now: int) -> None:
        """The window stays for so many round trips."""
        self.update_at = now + self.rounds * (self.average // 256)

    def put(self, now: int, cwnd: int, ssthresh: int) -> None:
        """A loss, or slow start anew."""
        self.cwnd = self.target = cwnd
        self.ssthresh = ssthresh
        self.wait(now)
        self.rest(now)


@dataclass
class Bench:
    """Drives a window and writes down what it became."""

    case: str
    fast: Fast
    rows: list[Row] = field(default_factory=list)

    def note(self, event: str, now: int, **values: int | str) -> None:
        """One row: what happened, and the window after it."""
        f = self.fast
        row: Row = dict.fromkeys(COLUMNS, "")
        row.update(case=self.case, alpha=f.alpha, gamma_percent=int(100 * f.gamma), update_rounds=f.rounds)
        row.update(event=event, now_us=now, **values, cwnd=f.cwnd, ssthresh=f.ssthresh)
        row.update(check_seconds=f.check_seconds)
        self.rows.append(row)

    def ack(self, now: int, rtt: int | None, acked: int = 1, recovering: bool = False, limited: bool = True) -> None:
        """An acknowledgement."""
        self.fast.ack(now, rtt, acked, recovering, limited)
        values: dict[str, int | str] = {"rtt_us": "" if rtt is None else rtt, "acked": acked}
        self.note("ack", now, **values, recovering=int(recovering), limited=int(limited))

    def halve(self, now: int) -> None:
        """A loss."""
        half = max(self.fast.cwnd // 2, 2)
        self.fast.put(now, half, half)
        self.note("halve", now)

    def restart(self, now: int, cwnd: int, ssthresh: int) -> None:
        """A time-out."""
        self.fast.put(now, cwnd, ssthresh)
        self.note("restart", now, to_cwnd=cwnd, to_ssthresh=ssthresh)

    def undo(self, now: int, cwnd: int, ssthresh: int) -> None:
        """It was none."""
        self.fast.cwnd = self.fast.target = max(self.fast.cwnd, cwnd)
        self.fast.ssthresh = max(self.fast.ssthresh, ssthresh)
        self.note("undo", now, to_cwnd=cwnd, to_ssthresh=ssthresh)


def bench(case: str, alpha: int, cwnd: int, gamma: int = 50, rounds: int = 2, check: int = 0) -> Bench:
    """A window that has heard nothing."""
    made = Bench(case, Fast(alpha, Fraction(gamma, 100), rounds, cwnd, target=cwnd, check_seconds=check))
    made.note("start", 0)
    return made


def checked(
    case: str, path: Callable[[int], int], seconds: float, handshake: int | None = None, loss_at: int | None = None
) -> Bench:
    """A window that checks its base every second, packet by packet over 5 ms a packet and a `path` of so many us."""
    b = bench(case, 6, 10, check=1)
    if handshake is not None:
        b.fast.base, b.fast.average = handshake, 256 * handshake
        b.note("begin", 0, rtt_us=handshake)
    under_way: list[tuple[int, int]] = []
    now = free = 0
    while now < 1_000_000 * seconds:
        while len(under_way) < b.fast.cwnd:
            free = max(now, free) + 5_000
            heappush(under_way, (free + path(now), now))
        now, sent = heappop(under_way)
        if loss_at is not None and now >= loss_at:
            b.halve(now)
            loss_at = None
        b.ack(now, now - sent)
    return b


def checks() -> list[Bench]:
    """What a check may meet: its own queue, a route that grows, a queue of others, a hand-shake, a loss within it."""
    return [
        checked("check-own-queue", lambda _: 50_000, 4),
        checked("check-longer-route", lambda now: 40_000 if now < 1_500_000 else 100_000, 6),
        checked("check-standing-queue", lambda now: 50_000 if now < 500_000 else 110_000, 4),
        checked("check-handshake", lambda _: 75_000, 3, handshake=50_000),
        checked("check-and-loss", lambda _: 50_000, 4, loss_at=1_900_000),
    ]


def on_a_link(case: str, alpha: int, rounds: int, gamma: int = 50) -> list[Row]:
    """100 ms and 4 ms a packet, every second one acknowledged: the link of the paper's Figure 4."""
    b = bench(case, alpha, 10, gamma)
    now, delay, packet = 1_000, 100_000, 4_000
    free = now + delay
    for _ in range(rounds):
        window = b.fast.cwnd
        for index in range(1, window // 2 + 1):
            now = max(now + packet, free)
            free = now + 2 * packet
            wait = max(0, window - delay // packet) * packet
            b.ack(now, delay + packet + wait + (index % 3) * 130, acked=2)
        now += max(0, delay - window * packet)
    return b.rows


def vectors() -> list[Row]:
    """All cases."""
    rows = [row for alpha in (1, 3, 4, 20) for row in on_a_link(f"link-{alpha}", alpha, 16)]
    rows += on_a_link("link-whole-way", 6, 12, gamma=100)
    rows += on_a_link("link-by-rate", 0, 12)
    # Losses, a time-out and what turned out to be none.
    b = bench("losses", 8, 10)
    now = 0
    for index in range(160):
        now += 2_500
        sample = 40_000 + 700 * (index % 9)
        if index in (50, 110):
            before = (b.fast.cwnd, b.fast.ssthresh)
            b.halve(now)
        elif index == 80:
            b.restart(now, 3, max(b.fast.cwnd // 2, 2))
        elif index == 120:
            b.undo(now, *before)
        else:
            b.ack(now, None if index % 11 == 5 else sample, 1, recovering=50 < index < 62, limited=index % 13 != 0)
    rows += b.rows
    # Windows and round trips of every size, the noise of a seed that is written here.
    chance = random.Random(2005)
    for gamma, rounds in ((50, 1), (25, 3), (100, 2)):
        b = bench(f"noise-{gamma}-{rounds}", chance.randrange(1, 200), chance.randrange(1, 400), gamma, rounds)
        now, base = 0, chance.randrange(50, 400_000)
        for _ in range(150):
            now += chance.randrange(0, base)
            b.ack(now, base + chance.randrange(0, 2 * base), chance.randrange(0, 40), limited=chance.random() < 0.9)
        rows += b.rows
    return rows + [row for b in checks() for row in b.rows]


def text(rows: list[Row]) -> str:
    """As kept."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_the_vectors_are_what_the_papers_arithmetic_gives() -> None:
    if os.environ.get("HEADEND_BLESS"):
        VECTORS.write_text(text(vectors()), encoding="utf-8")
    assert VECTORS.read_text(encoding="utf-8") == text(vectors())


def test_the_vectors_go_through_every_part_of_the_law() -> None:
    rows = vectors()
    assert {row["event"] for row in rows} == {"start", "ack", "halve", "restart", "undo", "begin"}
    cwnd = [int(row["cwnd"]) for row in rows]
    ended = [int(row["ssthresh"]) != NEVER for row in rows]
    grown = [a < b for a, b in pairwise(cwnd)]
    shrunk = [a > b for a, b in pairwise(cwnd)]
    assert min(map(sum, (ended, grown, shrunk))) > 50


def test_a_check_finds_a_longer_route_and_keeps_a_base_that_is_right() -> None:
    base = {b.case: b.fast.base for b in checks()}
    assert base["check-own-queue"] == base["check-and-loss"] == 55_000
    assert base["check-longer-route"] == 105_000
    # Others that do not yield are taken for the path.
    assert base["check-standing-queue"] == 115_000
    assert base["check-handshake"] == 80_000
