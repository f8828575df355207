"""Makes the recordings of this folder: python3 scenarios/links/make.py [FOLDER].

Both are drawn, with a seed, around numbers that others have published: no measurements.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

SEED = 1


def starlink() -> Iterator[str]:
    """Five minutes of a path over Starlink, every 100 ms.

    Huston, "A transport protocol's view of Starlink" (APNIC blog, 17 May 2024): another satellite every 15 s and with
    it another shortest round trip; 6.7 ms between successive round trips on the average; 30 to 50 ms more at a
    hand-over; 1 to 2% of the packets lost without congestion; 10 to 370 Mbit/s. Michel et al., IMC 2022: the shortest
    round trip is 20 ms. Drawn here: the shortest round trip of each satellite (20 to 40 ms), how the rates are spread
    (evenly on a logarithmic scale), and the gap (100 ms).
    """
    draw = random.Random(f"starlink {SEED}")
    yield "# Drawn by scenarios/links/make.py, which says from what; no measurement. One way, as both ways are."
    yield "time_s,rate_mbps,delay_ms,loss_percent"
    for satellite in range(20):
        shortest_ms = draw.uniform(10, 20)
        rate_mbps = 10 * 37 ** draw.random()
        peak_ms = draw.uniform(15, 25)
        for step in range(150):
            time_s = 15 * satellite + step / 10
            # Two even draws of up to 20 ms differ by 6.7 ms on the average; a round trip has a delay twice.
            delay_ms = shortest_ms + draw.uniform(0, 10)
            rate = min(rate_mbps * draw.uniform(0.85, 1.15), 370)
            loss = 1.0
            if step == 0:
                rate = 0
            if step < 3:
                delay_ms += peak_ms * (1 - step / 3)
                loss = 15.0
            yield f"{time_s:.1f},{rate:.1f},{delay_ms:.1f},{loss:.0f}"


def cellular() -> Iterator[str]:
    """An hour of a phone on its way through a city, every 500 ms.

    Raca et al., "Beyond throughput" (MMSys 2018): 4G between 0 and 173 Mbit/s in samples of a second, which is where
    this is kept. Van der Hooft et al. (4G/LTE bandwidth logs, Ghent, 2016): around 20 Mbit/s second by second in a
    street, much less behind houses until another antenna is met. Sentosa et al., "CellReplay" (NSDI 2025): the
    shortest round trip itself varies over time. Drawn here: how slowly all of it changes, the time between cells
    (90 s), and the delays.
    """
    draw = random.Random(f"cellular {SEED}")
    yield "# Drawn by scenarios/links/make.py, which says from what; no measurement. One way, as both ways are."
    yield "time_s,rate_mbps,delay_ms"
    level, fading, longer = 0.0, 0.0, 0.0
    until_next = 0.0
    for step in range(7_200):
        is_change = until_next <= 0
        if is_change:
            until_next = draw.expovariate(1 / 90)
            level = draw.gauss(0, 0.7)
        until_next -= 0.5
        fading = 0.9 * fading + 0.436 * draw.gauss(0, 0.6)
        longer = max(0.95 * longer + draw.gauss(0, 1.5), 0)
        # e = 2.718...: the median is 20 Mbit/s.
        rate = 0.0 if is_change else min(20 * 2.718281828 ** (level + fading), 173)
        delay_ms = 18 + longer + (40 if is_change else 0)
        yield f"{step / 2:.1f},{rate:.1f},{delay_ms:.1f}"


def main() -> None:
    """Writes the recordings to the folder, or beside this file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, lines in [("starlink", starlink()), ("cellular", cellular())]:
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
