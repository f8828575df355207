"""How fast and how large headend's proxy is, beside HAProxy on the same path in the same run.

Client, proxy and server stand in three namespaces joined by veth pairs. Both proxies connect everything on to one
server (`way = "forward"`; TCP mode with splice), and take turns. CPU is what the proxy's process used, user and system;
what the kernel does for packets in interrupts it charges to whoever runs, for both alike. It takes root. The exit code
is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import page
from conform import CLIENT, PATH, ROUTER, SERVER, SERVER_ADDRESS, path, running
from ends import PATIENCE_S, Address, ended, fetched, role, until

PROXY_ADDRESS = "10.83.1.1"
SOURCE_PORT, ECHO_PORT = 9000, 9001
ROUND_TRIPS = 4_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOAD_PER_CORE_MAX = 0.5
"""Above it at the start, other programs are measured as well."""

STALLED_BUFFER_BYTES = 262_144
"""Of each socket's two, while readers are stalled."""

ADDED_P50_US_MAX, ADDED_P99_US_MAX = 40.0, 250.0
IDLE_BYTES_MAX = 32 * 1024
"""Of the proxy's memory for each idle connection."""
HELD_BYTES_MAX = 32_000_000
"""What our proxy is told to hold of all connections together; HAProxy has two buffers of 16 KiB for each."""


Figures = dict[str, dict[str, float]]
"""By the proxy, or `direct`, and what was measured."""


class Proxy:
    """One that runs, and what its process tells."""

    def __init__(self, name: str, port: int, pid: int) -> None:
        self.name, self.port, self.pid = name, port, pid

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def pss_bytes(self) -> int:
        """Its memory, with its share of what it shares."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@dataclass
class Progress:
    """A line for each thing that was measured."""

    begin: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """With the time since the start."""
        print(f"[{time.monotonic() - self.begin:4.0f} s] {text}", file=sys.stderr, flush=True)


def load() -> str:
    """Load averages over 1, 5 and 15 minutes."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def machine() -> dict[str, object]:
    """What the figures are of."""
    version = ""
    if haproxy := shutil.which("haproxy", path=PATH):
        said = subprocess.run([haproxy, "-v"], capture_output=True, text=True, check=True).stdout
        version = said.splitlines()[0].split(" - ")[0]
    return {"cores": os.cpu_count(), "kernel": platform.release(), "haproxy": version, "load_at_start": load()}


def is_busy() -> bool:
    """Whether others work here now."""
    return os.getloadavg()[0] > LOAD_PER_CORE_MAX * (os.cpu_count() or 1)


def slab_bytes() -> int:
    """The kernel's small objects, of the whole machine."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Slab:"))


def tcp_memory_bytes() -> int:
    """What all TCP sockets of the machine have queued."""
    line = next(line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:"))
    return int(line.split()[-1]) * os.sysconf("SC_PAGE_SIZE")


def listening(prefix: Sequence[str], port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until the process listens."""
    end = time.monotonic() + PATIENCE_S
    while not subprocess.run([*prefix, "ss", "-Hltn", f"sport = :{port}"], capture_output=True, check=True).stdout:
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"{process.args!r} does not listen at port {port}: {log.read_text()}")
        time.sleep(0.05)


@contextmanager
def proxies(binary: Path, server_port: int, folder: Path) -> Iterator[list[Proxy]]:
    """Both, in the namespace between the ends."""
    ours, theirs = folder / f"headend-{server_port}.toml", folder / f"haproxy-{server_port}.cfg"
    ours.write_text(
        f'[[listen]]\naddress = "{PROXY_ADDRESS}:8000"\nway = "forward"\nto = "{SERVER_ADDRESS}:{server_port}"\n'
        'clients = ["10.83.1.0/24"]\n[limits]\nconnections = 9000\nconnections_per_client = 9000\n'
        f'memory = "{HELD_BYTES_MAX}B"\n'
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
            listening(inside, port, process, log)
            found.append(Proxy(name, port, process.pid))
        yield found


def ways(running_proxies: list[Proxy], server_port: int, turn: int) -> list[tuple[str, Address, Proxy | None]]:
    """Past all proxies, and through each; each comes first in its turn."""
    through = [(proxy.name, (PROXY_ADDRESS, proxy.port), proxy) for proxy in running_proxies]
    found = [("direct", (SERVER_ADDRESS, server_port), None), *through]
    first = turn % len(found)
    return [*found[first:], *found[:first]]


@contextmanager
def server(name: str, port: int) -> Iterator[None]:
    """The server, in its namespace."""
    words = role(SERVER, name, SERVER_ADDRESS, port)
    with ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        until(process, "ready")
        yield


def throughput(binary: Path, folder: Path, rounds: int, seconds: float, progress: Progress) -> dict[str, Figures]:
    """Bits a second, and the proxy's CPU seconds for each gigabyte, by the number of streams."""
    results: dict[str, Figures] = {}
    with server("pour", SOURCE_PORT), proxies(binary, SOURCE_PORT, folder) as both:
        for streams in (1, 100):
            rates: dict[str, list[float]] = {"direct": [], **{proxy.name: [] for proxy in both}}
            costs: dict[str, list[float]] = {proxy.name: [] for proxy in both}
            for turn in range(rounds):
                for name, address, proxy in ways(both, SOURCE_PORT, turn):
                    rate, cost = fetched(CLIENT, address, streams, seconds, proxy.cpu_s if proxy else lambda: 0.0)
                    rates[name].append(rate)
                    if proxy:
                        costs[name].append(cost)
                newest = ", ".join(f"{name} {values[-1] / 1e9:.2f}" for name, values in rates.items())
                progress.say(f"throughput, streams: {streams}, round {turn + 1} of {rounds} [Gbit/s]: {newest}")
            results[f"streams_{streams}"] = {
                name: {
                    "throughput_bps": statistics.median(values),
                    "throughput_bps_least": min(values),
                    "throughput_bps_most": max(values),
                    **({"cpu_s_per_gb": statistics.median(costs[name])} if name in costs else {}),
                }
                for name, values in rates.items()
            }
    return results


def latency(binary: Path, folder: Path, rounds: int, progress: Progress) -> Figures:
    """Round trips of one byte."""
    times: dict[str, list[int]] = {}
    with server("echo", ECHO_PORT), proxies(binary, ECHO_PORT, folder) as both:
        for turn in range(rounds):
            for name, address, _ in ways(both, ECHO_PORT, turn):
                words = role(CLIENT, "round-trips", *address, ROUND_TRIPS)
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                times.setdefault(name, []).extend(json.loads(done.stdout))
            newest = ", ".join(
                f"{name} {statistics.median(values[-ROUND_TRIPS:]) / 1000:.1f}" for name, values in times.items()
            )
            progress.say(f"one byte there and back, round {turn + 1} of {rounds}, median [us]: {newest}")

    def quantile(values: list[int], share: float) -> float:
        return sorted(values)[int(share * (len(values) - 1))] / 1000

    return {
        name: {"p50_us": quantile(values, 0.5), "p99_us": quantile(values, 0.99), "round_trips": len(values)}
        for name, values in times.items()
    }


@contextmanager
def short_buffers() -> Iterator[None]:
    """Sockets that hold little: else 1,000 connections take all that the kernel gives sockets, and it resets some."""
    names = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
    with ExitStack() as stack:
        for namespace in (CLIENT, ROUTER, SERVER):
            inside = ["ip", "netns", "exec", namespace, "sysctl", "-q"]
            for name in names:
                before = subprocess.run(
                    [*inside, "-n", name], capture_output=True, text=True, check=True
                ).stdout.strip()
                subprocess.run([*inside, "-w", f"{name}=4096 16384 {STALLED_BUFFER_BYTES}"], check=True)
                stack.callback(subprocess.run, [*inside, "-w", f"{name}={before}"], check=True)
        yield


def memory(binary: Path, folder: Path, idle: int, stalled: int, progress: Progress) -> dict[str, Figures]:
    """Of connections that say nothing, and of connections whose readers have stopped reading."""
    results: dict[str, Figures] = {}
    cases = (("idle", "echo", ECHO_PORT, idle), ("stalled", "pour", SOURCE_PORT, stalled))
    for case, server_role, port, count in cases:
        with (
            short_buffers() if case == "stalled" else nullcontext(),
            server(server_role, port),
            proxies(binary, port, folder) as both,
        ):
            for proxy in both:
                words = role(CLIENT, "hold", PROXY_ADDRESS, proxy.port, count, int(case == "idle"))
                pss, slab, tcp = proxy.pss_bytes(), slab_bytes(), tcp_memory_bytes()
                holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                with ended(holder):
                    until(holder, "ready")
                    # What is on its way comes to rest; what still grows then shows.
                    time.sleep(2)
                    largest = 0
                    for _ in range(6):
                        time.sleep(1)
                        largest = max(largest, proxy.pss_bytes())
                    results.setdefault(case, {})[proxy.name] = {
                        "connections": count,
                        "pss_bytes_before": pss,
                        "pss_bytes": largest,
                        "pss_bytes_per_connection": (largest - pss) / count,
                        "machine_slab_bytes_per_connection": (slab_bytes() - slab) / count,
                        "machine_tcp_memory_bytes": tcp_memory_bytes() - tcp,
                    }
                each = (largest - pss) / count / 1024
                progress.say(f"{count} {case} connections through {proxy.name}: {each:.2f} KiB of its memory each")
                time.sleep(1)
    return results


@dataclass(frozen=True)
class Row:
    """One figure of each, and whether ours is as good as it must be."""

    what: str
    figures: dict[str, float]
    """By what was measured: `direct`, `headend`, `HAProxy`."""
    decimals: int
    goal: str = ""
    is_met: bool | None = None
    """None if there is no goal, or nothing to compare with."""

    def line(self) -> str:
        """As Markdown."""
        cells = [f"{self.figures[n]:.{self.decimals}f}" if n in self.figures else "" for n in COLUMNS]
        verdict = {True: "met", False: "**missed**", None: "not compared" if self.goal else ""}[self.is_met]
        return f"| {' | '.join([self.what, *cells, self.goal, verdict])} |"


COLUMNS = ("direct", "headend", "HAProxy")


def rows(rates_and_costs: dict[str, Figures], times: Figures, memories: dict[str, Figures]) -> list[Row]:
    """All figures that the page shows, with the goals."""
    found = []
    for streams, by_name in rates_and_costs.items():
        what = "one stream" if streams == "streams_1" else f"{streams.rpartition('_')[2]} streams"
        rates = {name: row["throughput_bps"] / 1e9 for name, row in by_name.items()}
        costs = {name: row["cpu_s_per_gb"] for name, row in by_name.items() if "cpu_s_per_gb" in row}
        theirs = "HAProxy" in by_name
        faster = rates["headend"] >= rates["HAProxy"] if theirs else None
        cheaper = costs["headend"] <= costs["HAProxy"] if theirs else None
        found.append(Row(f"{what}, throughput [Gbit/s]", rates, 2, "at least HAProxy's", faster))
        found.append(Row(f"{what}, the proxy's CPU [s/GB]", costs, 3, "at most HAProxy's", cheaper))
    for key, name, most in (("p50_us", "median", ADDED_P50_US_MAX), ("p99_us", "99th percentile", ADDED_P99_US_MAX)):
        direct = times["direct"][key]
        took = {who: row[key] for who, row in times.items()}
        added = {who: value - direct for who, value in took.items() if who != "direct"}
        found.append(Row(f"one byte there and back, {name} [us]", took, 1))
        found.append(Row(f"added to its {name} [us]", added, 1, f"under {most:.0f}", added["headend"] < most))
    for case, by_name in memories.items():
        count = int(by_name["headend"]["connections"])
        what = f"{count:,} {case} connections"
        each = {name: row["pss_bytes_per_connection"] / 1024 for name, row in by_name.items()}
        if case == "idle":
            met = each["headend"] * 1024 < IDLE_BYTES_MAX
            found.append(Row(f"{what}, memory (PSS) each [KiB]", each, 1, f"under {IDLE_BYTES_MAX // 1024}", met))
        else:
            grown = {name: (row["pss_bytes"] - row["pss_bytes_before"]) / 1e6 for name, row in by_name.items()}
            most = (HELD_BYTES_MAX + count * IDLE_BYTES_MAX) / 1e6
            held = f"at most {most:.1f}: {HELD_BYTES_MAX // 1_000_000} that it is told, and those of idle ones"
            found.append(Row(f"{what}, memory (PSS) in all [MB]", grown, 1, held, grown["headend"] <= most))
        slab = {name: row["machine_slab_bytes_per_connection"] / 1024 for name, row in by_name.items()}
        found.append(Row("the same, kernel slab of the whole machine each [KiB]", slab, 1))
        queued = {name: row["machine_tcp_memory_bytes"] / 1e6 for name, row in by_name.items()}
        found.append(Row("the same, queued in the machine's sockets in all [MB]", queued, 1))
    return found


def table(measured: Sequence[Row], about: dict[str, object]) -> str:
    """As Markdown, with what it was measured on."""
    lines = [f"| | {' | '.join(COLUMNS)} | goal | |", "|---" * (len(COLUMNS) + 3) + "|"]
    lines += [row.line() for row in measured]
    busy = " Other programs ran: no measure of the proxies alone." if about["is_busy"] else ""
    lines += [
        "",
        f"{about['cores']} cores, Linux {about['kernel']}, {about['haproxy'] or 'no HAProxy'}. "
        f"Throughput is the median of {about['rounds']} rounds of {about['seconds']:g} s. "
        f"Load averages (1, 5, 15 min) before {about['load_at_start']}, after {about['load_at_end']}.{busy}",
    ]
    return "\n".join(lines)


def stop_after(limit_s: int, what: str) -> None:
    """Ends this program, and with it all that it started, after so long, or when it is told to."""

    def late(*_: object) -> None:
        sys.exit(f"{what} is not done after {limit_s} s (--time-limit)")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit_s)
    for number, name in ((signal.SIGTERM, "ended"), (signal.SIGINT, "interrupted")):
        signal.signal(number, lambda *_, name=name: sys.exit(name))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-proxy.json"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round of throughput (default: 4)")
    parser.add_argument("--idle", type=int, default=8_000)
    parser.add_argument("--stalled", type=int, default=1_000)
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--time-limit", type=int, default=720, help="seconds after which it ends (default: 720)")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-proxy: takes root, for namespaces")
    if not options.binary.is_file():
        sys.exit(
            f"{options.binary}: no such file; expected the program, as `cargo build --release` makes it (--binary)"
        )
    stop_after(options.time_limit, "bench-proxy")
    progress = Progress()
    about = {**machine(), "is_busy": is_busy(), "rounds": options.rounds, "seconds": options.seconds}
    progress.say(f"{about['cores']} cores, load averages {about['load_at_start']}")
    if about["is_busy"]:
        progress.say("WARNING: other programs run; figures of a busy machine are no measure of the proxies alone")
    with path(), tempfile.TemporaryDirectory(prefix="headend-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        fast = throughput(options.binary, folder, options.rounds, options.seconds, progress)
        slow = latency(options.binary, folder, options.rounds, progress)
        large = memory(options.binary, folder, options.idle, options.stalled, progress)
    about["load_at_end"] = load()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = {"machine": about, "throughput": fast, "latency": slow, "memory": large}
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    measured = rows(fast, slow, large)
    text = table(measured, about)
    print(f"\n{text}\n\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "bench-proxy", text)
        print(f"Written into {options.page}")
    missed = [row.what for row in measured if row.is_met is False]
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
