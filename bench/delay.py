"""How wrong the emulator's delays are, judged from outside: by the kernel's time stamps of UDP packets.

A sender and a receiver (`stamps.c`, which has none of headend's code) stand in the two namespaces of a
`headend emulate`. The kernel notes when it hands each packet to the sender's device, and when each comes from the
receiver's. A link is a first-in first-out queue, a rate and a delay, so the time of the first decides that of the
second: what is more is the emulator's error. The sender keeps each link busy for a share of the time. It takes root.
The exit code is 1 if a packet is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import page
from machine import cpu_s

RATES_MBIT = (1, 10, 100, 500, 1_000)
ADDRESSES = ("10.83.0.1", "10.83.0.2")
PORT = 9000
PACKET_BYTES = 1_500


@contextmanager
def namespace(name: str) -> Iterator[list[str]]:
    """A namespace, for as long as the block lasts; the words that run a command in it."""
    name = f"headend-delay-{os.getpid()}-{name}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextmanager
def emulator(binary: Path, scenario: Path, ends: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """`headend emulate` once its devices are there, for as long as the block lasts."""
    words = [str(binary.resolve()), "emulate", str(scenario), "--between", *ends, "--format", "json", "--accept-late"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if json.loads(process.stdout.readline())["event"] != "start":
            sys.exit("the emulator has not started")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def stamps(path: Path) -> dict[int, int]:
    """By the packet's number, the kernel's time in nanoseconds."""
    return dict(struct.iter_unpack("=QQ", path.read_bytes()))


def errors_ns(sent: dict[int, int], received: dict[int, int], mbit: int, delay_ns: int) -> list[int]:
    """By how much each packet came later than the link asks for, in ascending order."""
    errors = []
    # From the first packet on: a float has no room for the nanoseconds since 1970.
    start = min(sent.values(), default=0)
    service_ns = PACKET_BYTES * 8_000 / mbit
    free = 0.0
    for number in sorted(sent):
        free = max(free, sent[number] - start) + service_ns
        if number in received:
            errors.append(received[number] - start - round(free) - delay_ns)
    return sorted(errors)


def measure(arguments: argparse.Namespace, program: Path, mbit: int, folder: Path) -> dict[str, Any]:
    """One rate."""
    scenario = folder / "link.toml"
    scenario.write_text(
        '[nodes.a]\n[nodes.b]\n[links.path]\nbetween = ["a", "b"]\n'
        f'rate = "{mbit}Mbit/s"\ndelay = "{arguments.delay}ms"\n'
    )
    with ExitStack() as stack:
        ends = [stack.enter_context(namespace(name)) for name in ("a", "b")]
        emulating = stack.enter_context(emulator(arguments.binary, scenario, [end[-1] for end in ends]))
        listening = [*ends[1], str(program), "receive", ADDRESSES[1], str(PORT), str(folder / "received")]
        receiver = stack.enter_context(subprocess.Popen(listening, stdout=subprocess.PIPE, text=True))
        assert receiver.stdout is not None
        if receiver.stdout.readline() != "ready\n":
            sys.exit("the receiver has not started")
        begin, used = time.monotonic(), cpu_s(emulating.pid)
        rate = mbit * arguments.load
        words = [*ADDRESSES, str(PORT), str(rate), str(PACKET_BYTES), str(arguments.seconds), str(folder / "sent")]
        subprocess.run([*ends[0], str(program), "send", *words], stdout=subprocess.DEVNULL, check=True)
        used, took = cpu_s(emulating.pid) - used, time.monotonic() - begin
        receiver.wait()
        emulating.send_signal(signal.SIGINT)
        assert emulating.stdout is not None
        told = json.loads(emulating.stdout.read().splitlines()[-1])
    sent, received = stamps(folder / "sent"), stamps(folder / "received")
    errors = errors_ns(sent, received, mbit, arguments.delay * 1_000_000)
    if not errors:
        sys.exit(f"nothing has arrived at {mbit} Mbit/s")
    # The sender waits a little for its last time stamps; nothing passes meanwhile.
    busy_s = max(took - 0.2, 0.001)
    return {
        "mbit_per_s": mbit,
        "sent": len(sent),
        "lost": len(sent) - len(errors),
        "p50_us": errors[len(errors) // 2] / 1e3,
        "p99_us": errors[len(errors) * 99 // 100] / 1e3,
        "max_us": errors[-1] / 1e3,
        "earliest_us": errors[0] / 1e3,
        "own_p99_us": told["lateness"]["p99_ns"] / 1e3,
        "core": used / busy_s,
        "kept_up": told["kept_up"],
    }


HEADINGS = (
    "| link [Mbit/s] | packets | p50 [us] | p99 [us] | most [us] | p99 by its own account [us] | core [%] "
    "| it says that it kept up |"
)


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    numbers = [f"{found[name]:,.0f}" for name in ("p50_us", "p99_us", "max_us", "own_p99_us")]
    cells = [f"{found['mbit_per_s']:,}", f"{found['sent']:,}", *numbers, f"{100 * found['core']:.0f}"]
    return f"| {' | '.join(cells)} | {'yes' if found['kept_up'] else 'no'} |"


def main() -> None:
    """Measures each rate, prints the table, and puts it into a page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES_MBIT, help="of the links, in Mbit/s")
    parser.add_argument("--delay", type=int, default=10, help="of the links, in ms")
    parser.add_argument("--load", type=float, default=0.8, help="share of the time in which the link is busy")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/delay.py makes network namespaces: run it as root")
    load = os.getloadavg()[0]
    lines = [HEADINGS, "|" + "---:|" * 7 + "---|"]
    print("\n".join(lines), flush=True)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "stamps"
        source = Path(__file__).parent / "stamps.c"
        subprocess.run(["cc", "-O2", "-o", str(program), str(source), "-lpthread"], check=True)
        for mbit in arguments.rates:
            results.append(measure(arguments, program, mbit, folder))
            lines.append(row(results[-1]))
            print(lines[-1], flush=True)
    cores, share = os.cpu_count(), 100 * arguments.load
    said = f"{cores} cores, load {load:.1f} before; each link busy for {share:.0f}% of {arguments.seconds:.0f} s"
    print(f"\n{said}")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"load": load, "rates": results}, indent=2) + "\n")
    if arguments.page:
        page.write(arguments.page, "delay", "\n".join(lines) + f"\n\n{said[0].upper()}{said[1:]}.\n")
    if any(found["lost"] for found in results):
        sys.exit("some packets were lost, and no link loses any")


if __name__ == "__main__":
    main()
