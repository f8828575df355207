"""Splice, or read and write of which size: what moves bytes fastest from one socket to another, on two paths.

The relay is the example `copying` of the crate `headend-host`, which does nothing else; headend's proxy itself is
beside it. On the path `veth` client, relay and server stand in three namespaces, as in `bench/proxy.py`; on `loopback`
all are in one. It takes root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import page
from conform import CLIENT, ROUTER, SERVER, SERVER_ADDRESS, path, running
from ends import Address, ended, fetched, role, until
from proxy import PROXY_ADDRESS, Progress, Proxy, is_busy, listening, load, machine, stop_after

SIZES_KIB = (16, 64, 128, 256, 512)
PIPES_KIB = (64, 256, 1024)
STREAMS = (1, 100)
PORT, SOURCE_PORT = 8100, 9100
OURS = "headend proxy"


class Place:
    """Where client, relay and server are."""

    def __init__(self, name: str, namespaces: tuple[str, str, str], addresses: tuple[str, str]) -> None:
        self.name = name
        self.client, self.relay, self.server = namespaces
        self.relay_address, self.server_address = addresses


PLACES = (
    Place("veth", (CLIENT, ROUTER, SERVER), (PROXY_ADDRESS, SERVER_ADDRESS)),
    Place("loopback", (ROUTER, ROUTER, ROUTER), ("127.0.0.1", "127.0.0.1")),
)


def relays(relay: Path, binary: Path) -> dict[str, Callable[[Address, Address], list[str]]]:
    """The command line of each way to copy, from where it listens and where it connects to."""

    def command(method: str, kib: int) -> Callable[[Address, Address], list[str]]:
        def words(at: Address, to: Address) -> list[str]:
            return [str(relay.resolve()), f"{at[0]}:{at[1]}", f"{to[0]}:{to[1]}", method, str(kib * 1024)]

        return words

    def ours(at: Address, to: Address) -> list[str]:
        listen, towards = f"{at[0]}:{at[1]}", f"{to[0]}:{to[1]}"
        clients = ["--clients", "10.83.1.0/24", "--clients", "127.0.0.0/8"]
        return [str(binary.resolve()), "proxy", "--listen", listen, "--way", "forward", "--to", towards, *clients]

    found = {f"read and write, {kib} KiB": command("read-write", kib) for kib in SIZES_KIB}
    found |= {f"splice, pipe of {kib} KiB": command("splice", kib) for kib in PIPES_KIB}
    return {**found, OURS: ours}


@contextmanager
def relaying(place: Place, words: Sequence[str], folder: Path) -> Iterator[Proxy]:
    """The relay, for as long as the block lasts."""
    inside = ["ip", "netns", "exec", place.relay]
    log = folder / "relay.log"
    with running([*inside, *words], log) as process:
        listening(inside, PORT, process, log)
        yield Proxy(words[0], PORT, process.pid)


def measure(
    place: Place,
    commands: dict[str, Callable[[Address, Address], list[str]]],
    options: argparse.Namespace,
    progress: Progress,
) -> dict[str, dict[str, dict[str, float]]]:
    """Bits a second and CPU seconds for each gigabyte, by the way to copy and the number of streams."""
    rates: dict[tuple[str, int], list[float]] = {}
    costs: dict[tuple[str, int], list[float]] = {}
    to = (place.server_address, SOURCE_PORT)
    at = (place.relay_address, PORT)
    with ExitStack() as stack:
        source = stack.enter_context(ended(Popen(role(place.server, "pour", *to), stdout=PIPE, text=True)))
        until(source, "ready")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headend-copying-")))
        folder.chmod(0o755)
        for turn in range(options.rounds):
            for name, command in commands.items():
                with relaying(place, command(at, to), folder) as relay:
                    for streams in STREAMS:
                        rate, cost = fetched(place.client, at, streams, options.seconds, relay.cpu_s)
                        rates.setdefault((name, streams), []).append(rate)
                        costs.setdefault((name, streams), []).append(cost)
                newest = ", ".join(f"{streams}: {rates[name, streams][-1] / 1e9:.2f}" for streams in STREAMS)
                progress.say(
                    f"{place.name}, round {turn + 1} of {options.rounds}, {name}, streams and Gbit/s: {newest}"
                )
    return {
        name: {
            str(streams): {
                "throughput_bps": statistics.median(rates[name, streams]),
                "throughput_bps_least": min(rates[name, streams]),
                "throughput_bps_most": max(rates[name, streams]),
                "cpu_s_per_gb": statistics.median(costs[name, streams]),
            }
            for streams in STREAMS
        }
        for name in commands
    }


def table(results: dict[str, dict[str, dict[str, dict[str, float]]]], about: dict[str, object]) -> str:
    """As Markdown: throughput with the least and most of the rounds, and CPU."""
    columns = [(place, streams) for place in results for streams in map(str, STREAMS)]
    headings = [f"{place}, {streams} stream{'' if streams == '1' else 's'}" for place, streams in columns]
    lines = [f"| [Gbit/s] (least to most), CPU [s/GB] | {' | '.join(headings)} |", "|---" * (len(columns) + 1) + "|"]
    for name in next(iter(results.values())):
        cells = []
        for place, streams in columns:
            row = results[place][name][streams]
            least, most = row["throughput_bps_least"] / 1e9, row["throughput_bps_most"] / 1e9
            cells.append(f"{row['throughput_bps'] / 1e9:.2f} ({least:.1f} to {most:.1f}), {row['cpu_s_per_gb']:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    busy = " Other programs ran." if about["is_busy"] else ""
    lines += [
        "",
        f"{about['cores']} cores, Linux {about['kernel']}. "
        f"Medians of {about['rounds']} rounds of {about['seconds']:g} s, each way to copy in its turn. "
        f"Load averages (1, 5, 15 min) before {about['load_at_start']}, "
        f"after {about['load_at_end']}.{busy}",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relay", type=Path, default=Path("target/release/examples/copying"))
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-copying.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement (default: 2)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--time-limit", type=int, default=900, help="seconds after which it ends (default: 900)")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-copying: takes root, for namespaces")
    for program in (options.relay, options.binary):
        if not program.is_file():
            sys.exit(f"{program}: no such file; `make bench-copying` builds it")
    stop_after(options.time_limit, "bench-copying")
    progress = Progress()
    about = {**machine(), "is_busy": is_busy(), "rounds": options.rounds, "seconds": options.seconds}
    with path():
        commands = relays(options.relay, options.binary)
        results = {place.name: measure(place, commands, options, progress) for place in PLACES}
    about["load_at_end"] = load()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": about, **results}, indent=2) + "\n")
    text = table(results, about)
    print(f"\n{text}\n\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "bench-copying", text)
        print(f"Written into {options.page}")


if __name__ == "__main__":
    main()
