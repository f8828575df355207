"""How fast and how large headend's proxy is, beside HAProxy on the same path in the same run.

Client, proxy and server stand in three namespaces joined by veth pairs. Both proxies connect everything on to one
server (`way = "forward"`; TCP mode with splice), and take turns. CPU is what the proxy's process used, user and system;
what the kernel does for packets in interrupts it charges to whoever runs, for both alike. It takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from conform import CLIENT, PATH, ROUTER, SERVER, SERVER_ADDRESS, path, running

PROXY_ADDRESS = "10.83.1.1"
SOURCE_PORT, ECHO_PORT = 9000, 9001
BLOCK_BYTES = 256 * 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 20.0

# ---- what runs in the namespaces of the ends: this same file, with --role


def serve(port: int, converse: Callable[[socket.socket], None]) -> None:
    """Accepts for ever, a thread for each connection."""
    with socket.create_server((SERVER_ADDRESS, port), backlog=4096) as listener:
        print("ready", flush=True)
        threading.stack_size(64 * 1024)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=converse, args=(connection,), daemon=True).start()


def pour(connection: socket.socket) -> None:
    """Writes for as long as somebody takes it."""
    block = bytes(BLOCK_BYTES)
    with connection, contextlib.suppress(OSError):
        while True:
            connection.sendall(block)


def echo() -> None:
    """Sends back what comes, on however many connections."""
    waiting = selectors.DefaultSelector()
    with socket.create_server((SERVER_ADDRESS, ECHO_PORT), backlog=4096) as listener:
        waiting.register(listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting.register(connection, selectors.EVENT_READ)
                    continue
                connection = cast(socket.socket, key.fileobj)
                data = b""
                with contextlib.suppress(OSError):
                    data = connection.recv(64)
                if data:
                    connection.sendall(data)
                else:
                    waiting.unregister(connection)
                    connection.close()


def fetch(address: tuple[str, int], streams: int, seconds: float) -> dict[str, float]:
    """Reads from so many connections at once; what came in the time after a quarter of it has passed."""
    counts = [0] * streams

    def read(index: int) -> None:
        buffer = bytearray(BLOCK_BYTES)
        with contextlib.suppress(OSError):
            while got := connections[index].recv_into(buffer):
                counts[index] += got

    connections = [socket.create_connection(address, PATIENCE_S) for _ in range(streams)]
    for connection in connections:
        connection.settimeout(None)
    for index in range(streams):
        threading.Thread(target=read, args=(index,), daemon=True).start()
    time.sleep(seconds / 4)
    before, begin = sum(counts), time.monotonic()
    print("begin", flush=True)
    time.sleep(seconds)
    result = {"bytes": sum(counts) - before, "seconds": time.monotonic() - begin}
    print("end", flush=True)
    return result


def round_trips(address: tuple[str, int], count: int) -> list[int]:
    """One byte there and back, again and again, in nanoseconds."""
    with socket.create_connection(address, PATIENCE_S) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for turn in range(count + count // 10):
            begin = time.perf_counter_ns()
            connection.sendall(b"x")
            connection.recv(1)
            if turn >= count // 10:
                times.append(time.perf_counter_ns() - begin)
        return times


def hold(address: tuple[str, int], count: int, speaks: bool) -> None:
    """Opens connections and keeps them until its input ends. With `speaks` a byte goes there and back on each first."""
    connections = []
    for _ in range(count):
        connection = socket.create_connection(address, PATIENCE_S)
        if speaks:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
        connections.append(connection)
    print("ready", flush=True)
    sys.stdin.read()


# ---- what measures


class Proxy:
    """One that runs, and what its process tells."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name, self.port, self.pid = name, port, process.pid

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def pss_bytes(self) -> int:
        """Its memory, with its share of what it shares."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def slab_bytes() -> int:
    """The kernel's small objects, of the whole machine."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Slab:"))


def tcp_memory_bytes() -> int:
    """What all TCP sockets of the machine have queued."""
    line = next(line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:"))
    return int(line.split()[-1]) * os.sysconf("SC_PAGE_SIZE")


def role(namespace: str, *words: object) -> list[str]:
    """The command line of a role in a namespace."""
    return ["ip", "netns", "exec", namespace, sys.executable, __file__, "--role", *map(str, words)]


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, which is gone after the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], word: str) -> None:
    """Waits for a line."""
    assert process.stdout
    for line in process.stdout:
        if line.strip() == word:
            return
    sys.exit(f"{process.args!r} ended before it said {word!r}")


@contextmanager
def proxies(binary: Path, server_port: int, folder: Path) -> Iterator[list[Proxy]]:
    """Both, in the namespace between the ends."""
    ours, theirs = folder / f"headend-{server_port}.toml", folder / f"haproxy-{server_port}.cfg"
    ours.write_text(
        f'[[listen]]\naddress = "{PROXY_ADDRESS}:8000"\nway = "forward"\nto = "{SERVER_ADDRESS}:{server_port}"\n'
        'clients = ["10.83.1.0/24"]\n[limits]\nconnections = 9000\nconnections_per_client = 9000\n'
        '[local]\ncongestion_control = "cubic"\n[remote]\ncongestion_control = "cubic"\n'
    )
    theirs.write_text(
        "global\n  maxconn 8200\n  maxpipes 500\ndefaults\n  mode tcp\n  option splice-auto\n  timeout connect 5s\n"
        "  timeout client 10m\n  timeout server 10m\nlisten all\n"
        f"  bind {PROXY_ADDRESS}:8001\n  server one {SERVER_ADDRESS}:{server_port}\n"
    )
    inside = ["ip", "netns", "exec", ROUTER]
    with ExitStack() as stack:
        commands = {"headend": [str(binary.resolve()), "proxy", "--config", str(ours)]}
        if shutil.which("haproxy", path=PATH):
            commands["HAProxy"] = ["haproxy", "-db", "-f", str(theirs)]
        found = []
        for (name, command), port in zip(commands.items(), (8000, 8001), strict=False):
            log = folder / f"{name}-{server_port}.log"
            process = stack.enter_context(running([*inside, *command], log))
            end = time.monotonic() + PATIENCE_S
            while not subprocess.run(
                [*inside, "ss", "-Hltn", f"sport = :{port}"], capture_output=True, check=True
            ).stdout:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"{name} does not listen: {log.read_text()}")
                time.sleep(0.05)
            found.append(Proxy(name, port, process))
        yield found


def ways(running_proxies: list[Proxy], server_port: int) -> list[tuple[str, tuple[str, int], Proxy | None]]:
    """Past all proxies, and through each."""
    through = [(proxy.name, (PROXY_ADDRESS, proxy.port), proxy) for proxy in running_proxies]
    return [("direct", (SERVER_ADDRESS, server_port), None), *through]


def throughput(binary: Path, folder: Path, rounds: int, seconds: float) -> dict[str, object]:
    """Bytes a second, and the proxy's CPU seconds for each gigabyte."""
    results: dict[str, object] = {}
    with ended(subprocess.Popen(role(SERVER, "pour"), stdout=subprocess.PIPE, text=True)) as source:
        until(source, "ready")
        with proxies(binary, SOURCE_PORT, folder) as both:
            for streams in (1, 100):
                rates: dict[str, list[float]] = {}
                costs: dict[str, list[float]] = {}
                for _ in range(rounds):
                    for name, address, proxy in ways(both, SOURCE_PORT):
                        words = role(CLIENT, "fetch", *address, streams, seconds)
                        with ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as reader:
                            until(reader, "begin")
                            before = proxy.cpu_s() if proxy else 0.0
                            until(reader, "end")
                            after = proxy.cpu_s() if proxy else 0.0
                            assert reader.stdout
                            got = json.loads(reader.stdout.readline())
                        rates.setdefault(name, []).append(8 * got["bytes"] / got["seconds"])
                        if proxy:
                            costs.setdefault(name, []).append((after - before) / (got["bytes"] / 1e9))
                results[f"streams_{streams}"] = {
                    name: {
                        "throughput_bps": statistics.median(values),
                        "throughput_bps_rounds": values,
                        "cpu_s_per_gb": statistics.median(costs[name]) if name in costs else None,
                        "cpu_s_per_gb_rounds": costs.get(name),
                    }
                    for name, values in rates.items()
                }
    return results


def latency(binary: Path, folder: Path, rounds: int, count: int) -> dict[str, object]:
    """Round trips of one byte."""
    times: dict[str, list[int]] = {}
    with ended(subprocess.Popen(role(SERVER, "echo"), stdout=subprocess.PIPE, text=True)) as server:
        until(server, "ready")
        with proxies(binary, ECHO_PORT, folder) as both:
            for _ in range(rounds):
                for name, address, _ in ways(both, ECHO_PORT):
                    done = subprocess.run(
                        role(CLIENT, "round-trips", *address, count), capture_output=True, text=True, check=True
                    )
                    times.setdefault(name, []).extend(json.loads(done.stdout))

    def quantile(values: list[int], share: float) -> float:
        return sorted(values)[int(share * (len(values) - 1))] / 1000

    return {
        name: {"p50_us": quantile(values, 0.5), "p99_us": quantile(values, 0.99), "round_trips": len(values)}
        for name, values in times.items()
    }


def memory(binary: Path, folder: Path, idle: int, stalled: int) -> dict[str, object]:
    """Of connections that say nothing, and of connections whose readers have stopped reading."""
    results: dict[str, object] = {}
    cases = (("idle", "echo", ECHO_PORT, idle), ("stalled", "pour", SOURCE_PORT, stalled))
    for case, server_role, port, count in cases:
        with ended(subprocess.Popen(role(SERVER, server_role), stdout=subprocess.PIPE, text=True)) as server:
            until(server, "ready")
            with proxies(binary, port, folder) as both:
                for proxy in both:
                    words = role(CLIENT, "hold", PROXY_ADDRESS, proxy.port, count, int(case == "idle"))
                    pss, slab, tcp = proxy.pss_bytes(), slab_bytes(), tcp_memory_bytes()
                    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                    with ended(holder):
                        until(holder, "ready")
                        # What is on its way comes to rest.
                        time.sleep(3)
                        results.setdefault(case, {})[proxy.name] = {  # type: ignore[index]
                            "connections": count,
                            "pss_bytes_before": pss,
                            "pss_bytes": proxy.pss_bytes(),
                            "pss_bytes_per_connection": (proxy.pss_bytes() - pss) / count,
                            "machine_slab_bytes_per_connection": (slab_bytes() - slab) / count,
                            "machine_tcp_memory_bytes": tcp_memory_bytes() - tcp,
                        }
                    time.sleep(1)
    return results


def play(words: Sequence[str]) -> None:
    """One role."""
    name, *rest = words
    if name == "pour":
        serve(SOURCE_PORT, pour)
    elif name == "echo":
        echo()
    else:
        address = (rest[0], int(rest[1]))
        if name == "fetch":
            print(json.dumps(fetch(address, int(rest[2]), float(rest[3]))), flush=True)
            # Threads still read.
            os._exit(0)
        elif name == "round-trips":
            print(json.dumps(round_trips(address, int(rest[2]))))
        elif name == "hold":
            hold(address, int(rest[2]), bool(int(rest[3])))


def show(results: dict[str, object]) -> None:
    """The numbers as text, with units and ratios."""
    fast = results["throughput"]
    assert isinstance(fast, dict)
    for streams, by_name in fast.items():
        print(f"\n{streams.replace('_', ' ')}: throughput [Gbit/s], proxy's CPU [s/GB]")
        for name, row in by_name.items():
            cost = f"{row['cpu_s_per_gb']:.3f}" if row["cpu_s_per_gb"] is not None else "-"
            rates = ", ".join(f"{rate / 1e9:.2f}" for rate in row["throughput_bps_rounds"])
            print(f"  {name:8} {row['throughput_bps'] / 1e9:7.2f}  {cost:>6}   rounds: {rates}")
        if "HAProxy" in by_name:
            ours, theirs = by_name["headend"], by_name["HAProxy"]
            rate = ours["throughput_bps"] / theirs["throughput_bps"]
            ratio = ours["cpu_s_per_gb"] / theirs["cpu_s_per_gb"] if theirs["cpu_s_per_gb"] else float("nan")
            print(f"  headend over HAProxy: throughput {rate:.2f}, CPU per byte {ratio:.2f}")
    slow = results["latency"]
    assert isinstance(slow, dict)
    print("\nround trip of one byte [us]: p50, p99")
    for name, row in slow.items():
        added = ""
        if name != "direct":
            more = [row[key] - slow["direct"][key] for key in ("p50_us", "p99_us")]
            added = f"   added: {more[0]:.1f}, {more[1]:.1f}"
        print(f"  {name:8} {row['p50_us']:7.1f} {row['p99_us']:7.1f}{added}")
    large = results["memory"]
    assert isinstance(large, dict)
    for case, by_name in large.items():
        for name, row in by_name.items():
            print(
                f"\n{row['connections']} {case} connections, {name}: "
                f"{row['pss_bytes_per_connection'] / 1024:.2f} KiB of its memory each"
                f" ({row['pss_bytes'] / 1e6:.1f} MB in all), kernel of the whole machine:"
                f" {row['machine_slab_bytes_per_connection'] / 1024:.1f} KiB of slab each,"
                f" {row['machine_tcp_memory_bytes'] / 1e6:.1f} MB queued in sockets",
                end="",
            )
    print()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-proxy.json"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round of throughput (default: 4)")
    parser.add_argument("--idle", type=int, default=8_000)
    parser.add_argument("--stalled", type=int, default=1_000)
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.role:
        play(options.role)
        return
    if os.geteuid() != 0:
        sys.exit("namespaces take root")
    with path(), tempfile.TemporaryDirectory(prefix="headend-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        results: dict[str, object] = {
            "throughput": throughput(options.binary, folder, options.rounds, options.seconds),
            "latency": latency(options.binary, folder, options.rounds, 4_000),
            "memory": memory(options.binary, folder, options.idle, options.stalled),
        }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    show(results)
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
