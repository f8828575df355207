"""What a congestion control costs the sender: CPU beside the kernel's CUBIC, and memory that connections leave.

It takes Linux and root, and `headend cc install backfill` before. Two namespaces are joined by devices of their own;
iperf3 sends from one to the other, its congestion control chosen by the route, so that nothing else of the connection
depends on it. The controllers take turns. The line has a rate (tbf): without one a controller that paces sends less,
and what is compared is that. With segmentation offloads an acknowledgement stands for many packets; without, for two,
as on a device that has none: the second is the dearer case for a controller.

    python3 bench/control.py [--controls cubic backfill bbr] [--rounds 7] [--seconds 4] [--connections 20000]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import page
from ends import ended
from machine import machine_cpu_s, run, say, waited_for

NEAR, FAR = "10.86.1.1", "10.86.1.2"
TBF = ["tbf", "rate", "1gbit", "burst", "128kb", "latency", "10ms"]
"""The line."""
ALLOWED = 1.05
"""Goal: CPU a byte over that of CUBIC."""


@contextmanager
def pair() -> Iterator[tuple[str, str]]:
    """Two namespaces that are joined."""
    names = tuple(f"headend-control-{os.getpid()}-{end}" for end in ("near", "far"))
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "d0", "netns", names[0], "type", "veth", "peer", "name", "d0", "netns", names[1])
        run("tc", "-n", names[0], "qdisc", "add", "dev", "d0", "root", *TBF)
        for name, address in zip(names, (NEAR, FAR), strict=True):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "d0")
            run("ip", "-n", name, "link", "set", "d0", "up")
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def sent(near: str, seconds: float) -> tuple[float, float]:
    """One connection's bytes [GB] and the machine's CPU time for them [s]."""
    before = machine_cpu_s()
    told = json.loads(run("iperf3", "-c", FAR, "-t", f"{seconds:g}", "-J", inside=near))
    spent = machine_cpu_s() - before
    return told["end"]["sum_received"]["bytes"] / 1e9, spent


def cost(near: str, far: str, controls: Sequence[str], rounds: int, seconds: float) -> dict[str, list[float]]:
    """CPU seconds a GB of every round, by controller."""
    found: dict[str, list[float]] = {control: [] for control in controls}
    with ended(subprocess.Popen(["ip", "netns", "exec", far, "iperf3", "-s"], stdout=subprocess.DEVNULL)):
        waited_for("iperf3 listens", lambda: ":5201" in run("ss", "-Hltn", inside=far))
        for number in range(rounds):
            for control in controls:
                run("ip", "-n", near, "route", "replace", f"{FAR}/32", "dev", "d0", "congctl", control)
                gigabytes, spent = sent(near, seconds)
                found[control].append(spent / gigabytes)
            said = ", ".join(f"{control} {values[-1]:.3f}" for control, values in found.items())
            say(f"round {number + 1} of {rounds} [s/GB]: {said}")
    return found


def kernel_memory_kb() -> int:
    """What the kernel has taken for itself."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(lines[name].split()[0]) for name in ("Slab", "Percpu"))


def left(control: str, connections: int) -> float:
    """Bytes that the kernel keeps of each connection that has ended, after as many had come and gone before."""
    grown = []
    for _ in range(2):
        before = kernel_memory_kb()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            for _ in range(connections):
                with socket.socket() as client:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
                    client.connect(listener.getsockname())
                    # A reset: nothing waits for a minute.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    server, _ = listener.accept()
                    client.sendall(b"word")
                    server.recv(4)
                    server.close()
        grown.append(kernel_memory_kb() - before)
    return 1024 * grown[-1] / connections


def main() -> int:
    """Measures and prints; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--controls", nargs="+", default=["cubic", "backfill", "bbr"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each transfer (default: 4)")
    parser.add_argument("--connections", type=int, default=20_000, help="that come and go twice (default: 20000)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.seconds <= 0 or arguments.connections < 1:
        parser.error("--rounds, --seconds and --connections are more than 0")
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if missing := [control for control in arguments.controls if control not in known]:
        parser.error(f"the kernel has no {', '.join(missing)}: `headend cc install backfill` brings that one")
    if arguments.controls[0] != "cubic":
        parser.error("--controls begins with cubic: the others are told beside it")
    lines = ["| | " + " | ".join(arguments.controls) + " |", "|---" * (1 + len(arguments.controls)) + "|"]
    is_met = True
    with pair() as (near, far):
        for segments, what in ((65_535, "with segmentation offloads"), (1, "an acknowledgement for two packets")):
            run("ip", "-n", near, "link", "set", "d0", "gso_max_segs", segments)
            found = cost(near, far, arguments.controls, arguments.rounds, arguments.seconds)
            lines.append(f"| CPU [s/GB], {what} | {_cells(statistics.median(v) for v in found.values())} |")
            ratios = [
                statistics.median(one / cubic for one, cubic in zip(values, found["cubic"], strict=True))
                for values in found.values()
            ]
            lines.append(f"| over CUBIC's, {what} | {_cells(ratios)} |")
            if "backfill" in found:
                is_met &= ratios[arguments.controls.index("backfill")] <= ALLOWED
    kept = [left(control, arguments.connections) for control in arguments.controls]
    lines.append(f"| kernel memory left by a connection [bytes] | {' | '.join(f'{one:.0f}' for one in kept)} |")
    how = f"Medians of {arguments.rounds} rounds of {arguments.seconds:g} s, in turns"
    memory = f"memory after {arguments.connections} connections, of as many more"
    verdict = f"Goal: {ALLOWED:g} times CUBIC's CPU at most: {'met' if is_met else '**missed**'}"
    lines += [
        "",
        f"A line of 1 Gbit/s with a queue of 10 ms. {how}, the machine's CPU with both ends in it; {memory}. "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} after. {verdict}.",
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.page:
        page.write(arguments.page, "bench-control", text)
    return 0 if is_met else 1


def _cells(values: Iterator[float] | Sequence[float]) -> str:
    return " | ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
