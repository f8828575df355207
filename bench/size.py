"""How large a network headend simulates, and what that costs.

A star: one server, and homes behind lines of 10 Mbit/s that all download. Data packets delivered in order per CPU
second of the whole process with 100 homes and with 5,000, in turns: the goal is half as many. And the memory of 10,000
flows, each between two hosts of its own: the goal is 150 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path

import page
from run import DATA_BYTES, resident_bytes_max, timed

RATE_SHARE_MIN = 0.5
"""Of the rate with 100 homes, with 5,000."""
MEMORY_BYTES_MAX = 150e6

STAR = """title = "A star of {homes} homes"
duration = "{seconds}s"
[nodes.server]
[nodes.cmts]
kind = "router"
[nodes.home]
count = {homes}
[links.backbone]
between = ["server", "cmts"]
rate = "100Gbit/s"
delay = "10ms"
[links.cable]
between = ["cmts", "home[]"]
rate = "10Mbit/s"
delay = "5ms"
[flows.get]
from = "server"
to = "home[]"
stagger = "1s"
"""
PAIRS = """title = "{flows} flows between hosts of their own"
duration = "1s"
[nodes.left]
kind = "router"
[nodes.right]
kind = "router"
[nodes.from]
count = {flows}
[nodes.to]
count = {flows}
[links.line]
between = ["left", "right"]
rate = "1Gbit/s"
delay = "5ms"
[links.access]
between = ["from[]", "left"]
rate = "1Gbit/s"
[links.exit]
between = ["right", "to[]"]
rate = "1Gbit/s"
[flows.bulk]
from = "from[]"
to = "to[]"
"""


def main() -> int:
    """Measures, and prints the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/size"), help="folder for the scenarios")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each star, in turns (default: 3)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    if not options.binary.exists():
        parser.error(f"{options.binary}: there is no such program (make native builds it)")
    options.out.mkdir(parents=True, exist_ok=True)

    def command(name: str, text: str) -> list[str]:
        file = options.out / f"{name}.toml"
        file.write_text(text)
        return [str(options.binary), "sim", str(file), "--quiet", "--format", "json"]

    # As many packets in both, so that beginnings cost as much.
    stars = {
        homes: command(f"star-{homes}", STAR.format(homes=homes, seconds=200 // (homes // 100)))
        for homes in (100, 5_000)
    }
    rates: dict[int, list[float]] = {homes: [] for homes in stars}
    for _ in range(options.rounds):
        for homes, words in stars.items():
            output, cpu_s = timed(words)
            packets = sum(json.loads(output)["flows"]["bytes"]) // DATA_BYTES
            rates[homes].append(packets / cpu_s)
    few, many = (statistics.median(of) for of in rates.values())
    memory = resident_bytes_max(command("pairs-10000", PAIRS.format(flows=10_000)))
    met = {True: "met", False: "**missed**"}
    share = many / few
    load = os.getloadavg()[0]
    lines = [
        "| what | found | goal | |",
        "|---|---|---|---|",
        f"| a star of 100 homes [million packets per CPU second] | {few / 1e6:.3f} | | |",
        f"| a star of 5,000 homes | {many / 1e6:.3f} | | |",
        f"| the second over the first | {share:.2f} | {RATE_SHARE_MIN} | {met[share >= RATE_SHARE_MIN]} |",
        f"| memory of 10,000 flows with hosts of their own [MB] | {memory / 1e6:.0f} | {MEMORY_BYTES_MAX / 1e6:.0f} "
        f"| {met[memory <= MEMORY_BYTES_MAX]} |",
        "",
        f"Medians of {options.rounds} runs, in turns; {os.cpu_count()} cores, load {load:.2f} after.",
    ]
    print("\n".join(lines))
    if options.page:
        page.write(options.page, "size", "\n".join(lines))
    return 0 if share >= RATE_SHARE_MIN and memory <= MEMORY_BYTES_MAX else 1


if __name__ == "__main__":
    raise SystemExit(main())
