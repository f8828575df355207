"""How fast and how large headend's proxy is, beside others on the same path in the same run.

Client, proxy and server stand in three namespaces joined by veth pairs. All proxies connect everything on to one
server, and take turns: headend with `way = "forward"`; HAProxy in TCP mode as its experts set it up, with splice and
pipes of 1 MiB or with buffers of 256 KiB, on one thread and on two; nginx's stream module with buffers of 256 KiB. All
sockets have CUBIC. CPU is what the proxy's process used, user and system. What the kernel does for packets in
interrupts it charges to whoever runs: to a proxy that is at work when a packet is due, to another, or to nobody.
So the CPU of the whole machine stands beside it, both ends included, which means something when nothing else runs.
It takes root. The exit code is 1 if a goal is missed.

A part of it alone, with --only, is added to what the file of --out has of the others.
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
from typing import TypedDict

import page
from conform import CLIENT, MODULES, PATH, ROUTER, SERVER, SERVER_ADDRESS, ip, path, running
from ends import PATIENCE_S, Address, ended, fetched, role, until

PROXY_ADDRESS = "10.83.1.1"
SOURCE_PORT, ECHO_PORT = 9000, 9001
ROUND_TRIPS = 4_000
LOAD_PER_CORE_MAX = 0.5
"""Above it at the start, other programs are measured as well."""

STALLED_BUFFER_BYTES = 262_144
"""Of each socket's two, while readers are stalled."""

ADDED_P50_US_MAX, ADDED_P99_US_MAX = 40.0, 250.0
IDLE_BYTES_MAX = 32 * 1024
"""Of the proxy's memory for each idle connection."""
HELD_BYTES_MAX = 32_000_000
"""What our proxy is told to hold of all connections together; HAProxy has two buffers of 16 KiB for each."""


CPU_SHARE_MAX = 0.9
"""Of what the best HAProxy takes for each byte."""

Figures = dict[str, dict[str, float]]
"""By the proxy, or `direct`, and what was measured."""


class Part(TypedDict):
    """What one part has measured, and when."""

    figures: Figures
    machine: str
    load_at_start: str
    is_busy: bool
    rounds: int
    seconds: float


class Proxy:
    """One that runs, and what its process tells."""

    def __init__(self, name: str, port: int, pid: int) -> None:
        self.name, self.port, self.pid = name, port, pid

    def processes(self) -> list[Path]:
        """It, and the workers that it has started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [Path("/proc") / pid for pid in (str(self.pid), *children)]

    def cpu_s(self) -> float:
        """User and system time so far."""
        # In nanoseconds, unlike the ticks of stat: the time of each thread on a processor.
        tasks = [task for process in self.processes() for task in (process / "task").iterdir()]
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def pss_bytes(self) -> int:
        """Its memory, with its share of what it shares."""
        lines = [line for one in self.processes() for line in (one / "smaps_rollup").read_text().splitlines()]
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@dataclass(frozen=True)
class Flow:
    """Streams at a time, and what limits them if not the machine."""

    what: str
    streams: int
    rate_mbit: int = 0


FLOWS = {
    "one": Flow("one stream", 1),
    "fifty": Flow("50 streams", 50),
    "thousand": Flow("1,000 streams", 1_000),
    "line-one": Flow("one stream before 500 Mbit/s", 1, 500),
    "line-twenty": Flow("20 streams before 500 Mbit/s", 20, 500),
}


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
        version = said.splitlines()[0].split(" ")[2].split("-")[0]
        version = f"HAProxy {version}"
    nginx = ""
    if program := shutil.which("nginx", path=PATH):
        said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
        nginx = said.strip().rpartition(" ")[2].replace("/", " ")
    return {
        "cores": os.cpu_count(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "haproxy": version,
        "nginx": nginx,
        "load_at_start": load(),
    }


def is_busy() -> bool:
    """Whether others work here now."""
    return os.getloadavg()[0] > LOAD_PER_CORE_MAX * (os.cpu_count() or 1)


def not_idle_s() -> float:
    """The time so far for which a core of the machine was not idle, whatever it did."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    cores = os.cpu_count() or 1
    return cores * time.monotonic() - (ticks[3] + ticks[4]) / os.sysconf("SC_CLK_TCK")


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


OURS = "headend"
OURS_ALONE = "headend, 1 thread"
HAPROXIES = ("HAProxy splice, 1 thread", "HAProxy splice, 2", "HAProxy 256 KiB, 1", "HAProxy 256 KiB, 2")
NGINX = "nginx"
COLUMNS = ("direct", OURS, OURS_ALONE, *HAPROXIES, NGINX)


FLOWING = 'memory = "256MB"\nmemory_per_connection = "4MB"\n'
"""What a direction of ours may hold so that a pipe is full at once; about what one of HAProxy's holds."""


def headend_config(name: str, port: int, server_port: int, flows: bool) -> str:
    """As it is, but for what is limited, and for the congestion control that the others have."""
    held = FLOWING if flows else f'memory = "{HELD_BYTES_MAX}B"\n'
    return (
        f'workers = {1 if name == OURS_ALONE else 2}\n[[listen]]\naddress = "{PROXY_ADDRESS}:{port}"\nway = "forward"\n'
        f'to = "{SERVER_ADDRESS}:{server_port}"\nclients = ["10.83.1.0/24"]\n'
        f"[limits]\nconnections = 9000\nconnections_per_client = 9000\n{held}"
        '[local]\ncongestion_control = "cubic"\n[remote]\ncongestion_control = "cubic"\n'
    )


def haproxy_config(name: str, port: int, server_port: int) -> str:
    """TCP mode, as the documentation has it for throughput."""
    splices = "splice" in name
    tuned = "tune.pipesize 1048576\n  maxpipes 1100" if splices else "tune.bufsize 262144"
    options = "  option splice-request\n  option splice-response\n" if splices else ""
    return (
        f"global\n  maxconn 8200\n  nbthread {1 if ', 1' in name else 2}\n  {tuned}\ndefaults\n  mode tcp\n{options}"
        "  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\nlisten all\n"
        f"  bind {PROXY_ADDRESS}:{port}\n  server one {SERVER_ADDRESS}:{server_port}\n"
    )


def nginx_config(folder: Path, port: int, server_port: int) -> str:
    """The stream module."""
    return (
        f"load_module {MODULES}/ngx_stream_module.so;\ndaemon off;\npid {folder}/nginx-{port}.pid;\n"
        f"error_log {folder}/nginx.log;\nworker_processes 2;\nworker_rlimit_nofile 40000;\n"
        "events { worker_connections 18000; }\n"
        f"stream {{ proxy_buffer_size 256k; server {{ listen {PROXY_ADDRESS}:{port} backlog=4096; "
        f"proxy_pass {SERVER_ADDRESS}:{server_port}; }} }}\n"
    )


@contextmanager
def proxies(binary: Path, server_port: int, folder: Path, least: bool = False) -> Iterator[list[Proxy]]:
    """All of them in the namespace between the ends; with `least` one HAProxy of each kind."""
    commands = []
    for name in (OURS,) if least else (OURS, OURS_ALONE):
        ours = folder / f"headend-{server_port}-{len(commands)}.toml"
        ours.write_text(headend_config(name, 8000 + len(commands), server_port, flows=not least))
        commands.append((name, [str(binary.resolve()), "proxy", "--config", str(ours)]))
    for name in HAPROXIES[::2] if least else HAPROXIES:
        if shutil.which("haproxy", path=PATH):
            theirs = folder / f"haproxy-{server_port}-{len(commands)}.cfg"
            theirs.write_text(haproxy_config(name, 8000 + len(commands), server_port))
            commands.append((name, ["haproxy", "-db", "-f", str(theirs)]))
    if shutil.which("nginx", path=PATH) and (MODULES / "ngx_stream_module.so").exists():
        theirs = folder / f"nginx-{server_port}.conf"
        theirs.write_text(nginx_config(folder, 8000 + len(commands), server_port))
        commands.append((NGINX, ["nginx", "-c", str(theirs), "-e", f"{folder}/nginx.log"]))
    inside = ["ip", "netns", "exec", ROUTER]
    with ExitStack() as stack:
        found = []
        for port, (name, command) in enumerate(commands, 8000):
            log = folder / f"{port}-{server_port}.log"
            process = stack.enter_context(running([*inside, *command], log))
            listening(inside, port, process, log)
            found.append(Proxy(name, port, process.pid))
        yield found


@contextmanager
def cubic() -> Iterator[None]:
    """The path, where all sockets that ask for nothing else have CUBIC: their routes say so."""
    with path():
        for namespace, routes in (
            (CLIENT, ("default via 10.83.1.1",)),
            (ROUTER, ("10.83.1.0/24 dev lan", "10.83.2.0/24 dev wan")),
            (SERVER, ("default via 10.83.2.1",)),
        ):
            for route in routes:
                ip(f"-n {namespace} route replace {route} congctl cubic")
        yield


@contextmanager
def bottleneck(rate_mbit: int) -> Iterator[None]:
    """A slower link towards the client, with a queue of 50 ms, as before an access line."""
    device = ["tc", "-n", ROUTER, "qdisc"]
    shape = f"root tbf rate {rate_mbit}mbit burst 256k latency 50ms"
    subprocess.run([*device, "add", "dev", "lan", *shape.split()], check=True)
    try:
        yield
    finally:
        subprocess.run([*device, "del", "dev", "lan", "root"], check=True)


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


def throughput(options: argparse.Namespace, folder: Path, progress: Progress, case: Flow) -> Figures:
    """Bits a second, and the proxy's CPU seconds for each gigabyte."""
    slow = bottleneck(case.rate_mbit) if case.rate_mbit else nullcontext()
    with cubic(), slow, server("pour", SOURCE_PORT), proxies(options.binary, SOURCE_PORT, folder) as all_of_them:
        rates: dict[str, list[float]] = {}
        costs: dict[str, list[float]] = {}
        wholes: dict[str, list[float]] = {}
        for turn in range(options.rounds):
            for name, address, proxy in ways(all_of_them, SOURCE_PORT, turn):
                machine: list[float] = []

                def cpu_s(proxy: Proxy | None = proxy, machine: list[float] = machine) -> float:
                    machine.append(not_idle_s())
                    return proxy.cpu_s() if proxy else 0.0

                rate, cost = fetched(CLIENT, address, case.streams, options.seconds, cpu_s)
                wholes.setdefault(name, []).append((machine[1] - machine[0]) / (rate * options.seconds / 8e9))
                rates.setdefault(name, []).append(rate)
                costs.setdefault(name, []).append(cost)
            newest = ", ".join(f"{name} {rates[name][-1] / 1e9:.2f} {costs[name][-1]:.3f}" for name in rates)
            progress.say(f"{case.what}, round {turn + 1} of {options.rounds} [Gbit/s, s/GB]: {newest}")
    return {
        name: {
            "throughput_bps": statistics.median(values),
            "throughput_bps_least": min(values),
            "throughput_bps_most": max(values),
            "cpu_s_per_gb": statistics.median(costs[name]),
            "cpu_s_per_gb_least": min(costs[name]),
            "cpu_s_per_gb_most": max(costs[name]),
            "machine_cpu_s_per_gb": statistics.median(wholes[name]),
        }
        for name, values in rates.items()
    }


def latency(options: argparse.Namespace, folder: Path, progress: Progress) -> Figures:
    """Round trips of one byte."""
    times: dict[str, list[int]] = {}
    with cubic(), server("echo", ECHO_PORT), proxies(options.binary, ECHO_PORT, folder) as all_of_them:
        for turn in range(options.rounds):
            for name, address, _ in ways(all_of_them, ECHO_PORT, turn):
                words = role(CLIENT, "round-trips", *address, ROUND_TRIPS)
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                times.setdefault(name, []).extend(json.loads(done.stdout))
            newest = ", ".join(
                f"{name} {statistics.median(values[-ROUND_TRIPS:]) / 1000:.1f}" for name, values in times.items()
            )
            progress.say(f"one byte there and back, round {turn + 1} of {options.rounds}, median [us]: {newest}")

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


def memory(options: argparse.Namespace, folder: Path, progress: Progress, case: str) -> Figures:
    """Of connections that say nothing (`idle`), or of connections whose readers have stopped reading (`stalled`)."""
    server_role, port, count = {
        "idle": ("echo", ECHO_PORT, options.idle),
        "stalled": ("pour", SOURCE_PORT, options.stalled),
    }[case]
    results: Figures = {}
    with (
        cubic(),
        short_buffers() if case == "stalled" else nullcontext(),
        server(server_role, port),
        proxies(options.binary, port, folder, least=True) as found,
    ):
        for proxy in found:
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
                results[proxy.name] = {
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


def rows_of_flow(what: str, figures: Figures) -> list[Row]:
    """Throughput and CPU, and whether ours takes less than the best HAProxy."""
    rates = {name: row["throughput_bps"] / 1e9 for name, row in figures.items()}
    costs = {name: row["cpu_s_per_gb"] for name, row in figures.items() if name != "direct"}
    best = min((costs[name] for name in HAPROXIES if name in costs), default=None)
    most = None if best is None else CPU_SHARE_MAX * best
    goal = f"{CPU_SHARE_MAX} of the best HAProxy" + ("" if most is None else f": {most:.3f}")
    ours = min(costs[name] for name in (OURS, OURS_ALONE) if name in costs)
    is_met = None if most is None else ours <= most
    return [
        Row(f"{what}, throughput [Gbit/s]", rates, 2),
        Row(f"{what}, the proxy's CPU [s/GB]", costs, 3, goal, is_met),
        Row(
            f"{what}, the machine's CPU [s/GB]",
            {name: row["machine_cpu_s_per_gb"] for name, row in figures.items() if "machine_cpu_s_per_gb" in row},
            3,
        ),
    ]


def rows_of_latency(times: Figures) -> list[Row]:
    """Round trips, and what each proxy adds to them."""
    found = []
    for key, name, most in (("p50_us", "median", ADDED_P50_US_MAX), ("p99_us", "99th percentile", ADDED_P99_US_MAX)):
        direct = times["direct"][key]
        took = {who: row[key] for who, row in times.items()}
        added = {who: value - direct for who, value in took.items() if who != "direct"}
        found.append(Row(f"one byte there and back, {name} [us]", took, 1))
        found.append(Row(f"added to its {name} [us]", added, 1, f"under {most:.0f}", added[OURS] < most))
    return found


def rows_of_memory(case: str, figures: Figures) -> list[Row]:
    """Memory of the proxies, and of the kernel meanwhile."""
    count = int(figures[OURS]["connections"])
    what = f"{count:,} {case} connections"
    found = []
    if case == "idle":
        each = {name: row["pss_bytes_per_connection"] / 1024 for name, row in figures.items()}
        met = each[OURS] * 1024 < IDLE_BYTES_MAX
        found.append(Row(f"{what}, memory (PSS) each [KiB]", each, 1, f"under {IDLE_BYTES_MAX // 1024}", met))
    else:
        grown = {name: (row["pss_bytes"] - row["pss_bytes_before"]) / 1e6 for name, row in figures.items()}
        most = (HELD_BYTES_MAX + count * IDLE_BYTES_MAX) / 1e6
        held = f"at most {most:.1f}: {HELD_BYTES_MAX // 1_000_000} that it is told, and those of idle ones"
        found.append(Row(f"{what}, memory (PSS) in all [MB]", grown, 1, held, grown[OURS] <= most))
    slab = {name: row["machine_slab_bytes_per_connection"] / 1024 for name, row in figures.items()}
    found.append(Row("the same, kernel slab of the whole machine each [KiB]", slab, 1))
    queued = {name: row["machine_tcp_memory_bytes"] / 1e6 for name, row in figures.items()}
    found.append(Row("the same, queued in the machine's sockets in all [MB]", queued, 1))
    return found


def rows(parts: dict[str, Part]) -> list[Row]:
    """All figures that the page shows, with the goals."""
    found = []
    for name, case in FLOWS.items():
        if name in parts:
            found += rows_of_flow(case.what, parts[name]["figures"])
    if "latency" in parts:
        found += rows_of_latency(parts["latency"]["figures"])
    for case in ("idle", "stalled"):
        if case in parts:
            found += rows_of_memory(case, parts[case]["figures"])
    return found


def table(parts: dict[str, Part]) -> str:
    """As Markdown, with what it was measured on."""
    measured = rows(parts)
    lines = [f"| | {' | '.join(COLUMNS)} | goal | |", "|---" * (len(COLUMNS) + 3) + "|"]
    lines += [row.line() for row in measured]
    machines = sorted({part["machine"] for part in parts.values()})
    loads = ", ".join(f"{name} {part['load_at_start']}" for name, part in parts.items())
    of_flows = [part for name, part in parts.items() if name in FLOWS]
    rounds = sorted({f"{part['rounds']} rounds of {part['seconds']:g} s" for part in of_flows})
    lines += ["", f"{'; '.join(machines)}. CPU and throughput are medians of {' or '.join(rounds)}, in turns."]
    lines += [f"Load of the machine (1 min) before each part: {loads}."]
    if any(part["is_busy"] for part in parts.values()):
        lines[-1] += " Above 1 other programs had just run."
    return "\n".join(lines)


def stop_after(limit_s: int, what: str) -> None:
    """Ends this program, and with it all that it started, after so long, or when it is told to."""

    def late(*_: object) -> None:
        sys.exit(f"{what} is not done after {limit_s} s (--time-limit)")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit_s)
    for number, name in ((signal.SIGTERM, "ended"), (signal.SIGINT, "interrupted")):
        signal.signal(number, lambda *_, name=name: sys.exit(name))


PARTS = (*FLOWS, "latency", "idle", "stalled")


def measure(name: str, options: argparse.Namespace, progress: Progress) -> Part:
    """One part."""
    about = machine()
    begin = load().split(",")[0]
    progress.say(f"{name}: {about['cores']} cores, load {begin}")
    programs = f"{about['haproxy'] or 'no HAProxy'}, {about['nginx'] or 'no nginx'}"
    part = Part(
        figures={},
        machine=f"{about['cores']} cores, Linux {about['kernel']}, {programs}",
        load_at_start=begin,
        is_busy=is_busy(),
        rounds=options.rounds,
        seconds=options.seconds,
    )
    with tempfile.TemporaryDirectory(prefix="headend-bench-") as folder_name:
        folder = Path(folder_name)
        folder.chmod(0o755)
        if name in FLOWS:
            part["figures"] = throughput(options, folder, progress, FLOWS[name])
        elif name == "latency":
            part["figures"] = latency(options, folder, progress)
        else:
            part["figures"] = memory(options, folder, progress, name)
    return part


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-proxy.json"))
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be said several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round of throughput (default: 3)")
    parser.add_argument("--idle", type=int, default=8_000)
    parser.add_argument("--stalled", type=int, default=1_000)
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--time-limit", type=int, default=1_800, help="seconds after which it ends (default: 1800)")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-proxy: takes root, for namespaces")
    if not options.binary.is_file():
        sys.exit(
            f"{options.binary}: no such file; expected the program, as `cargo build --release` makes it (--binary)"
        )
    stop_after(options.time_limit, "bench-proxy")
    progress = Progress()
    if is_busy():
        progress.say("WARNING: other programs run; figures of a busy machine are no measure of the proxies alone")
    parts: dict[str, Part] = {}
    if options.only and options.out.exists():
        parts = json.loads(options.out.read_text())
    for name in options.only or PARTS:
        parts[name] = measure(name, options, progress)
        # A run that is ended early has what was done.
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(parts, indent=2) + "\n")
    parts = {name: parts[name] for name in PARTS if name in parts}
    text = table(parts)
    print(f"\n{text}\n\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "bench-proxy", text)
        print(f"Written into {options.page}")
    missed = [row.what for row in rows(parts) if row.is_met is False]
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
