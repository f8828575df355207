"""What a tunnel over `headend-socket` gains and takes, beside other ways over the same path in turns.

The others are the kernel's TCPs, kcptun and QUIC. Two namespaces, and between them a line of `headend emulate`, or a
veth pair (part `cpu`); part `idle` is on the loopback. iperf3 is the judge: it sends through the tunnel's `--forward`,
through kcptun or quinn, or straight with the kernel's CUBIC or BBR, and its server says what came. It takes root,
iperf3 and, to be compared with, Debian's package kcptun; quinn is in `bench/quinn`, which cargo builds at first.

A goal that is missed is printed as missed; the exit code is 0 all the same, because the table is what this is for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import page
from machine import cpu_s, machine_cpu_s, run, say, waited_for

ME = f"headend-bench-{os.getpid()}"
ROOT = Path(__file__).resolve().parents[1]
LEFT, RIGHT = f"{ME}-l", f"{ME}-r"
HERE, THERE = "10.83.0.1", "10.83.0.2"
LINE_BPS = 25e6
RTT_MS = 120
LINE = f"{LINE_BPS / 1e6:g} Mbit/s and {RTT_MS} ms"
BDP_BYTES = int(LINE_BPS / 8 * RTT_MS / 1000)
LOSSES = {1: 0.90, 3: 0.88, 10: 0.80}
"""Goals: goodput over what the loss leaves of the line."""
QUEUES = (0.5, 1.0, 2.0)
SHARE = (0.4, 0.6)
HARM_GOAL = 0.85
"""Of the line left by each of `HARMS`."""
HARMS = {
    "bursts": (
        "losses in bursts of 20 packets, 2% of all",
        0.02,
        'loss = { model = "gilbert-elliott", good_to_bad = "0.102%", bad_to_good = "5%" }\nback = { loss = "0%" }',
    ),
    "acks": ("5% loss on the way back only", 0.0, 'back = { loss = "5%" }'),
    "reorder": ("2% of packets 5 ms late, overtaken by others", 0.0, 'reorder = "2%"\nreorder_by = "5ms"'),
}
"""What is meant, the part that is lost, and how the emulator is told. With bursts of 20 and a chance p to enter one,
the part lost is p / (p + 1/20)."""
IDLE = 10_000
IDLE_GOAL_KIB = 16
IDLE_SECONDS = 60
QUINN_CPU_GOAL = 0.5
KCPTUN = tuple(path for name in ("client", "server") if (path := shutil.which(f"kcptun-{name}")))
"""As its README recommends for such lines: mode fast3, parity 10+3, and windows that hold the line."""


@contextmanager
def process(words: Sequence[object], inside: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in a namespace, which ends with the block."""
    with log.open("wb") as out:
        running = subprocess.Popen(["ip", "netns", "exec", inside, *map(str, words)], stdout=out, stderr=out)
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


@contextmanager
def two_namespaces() -> Iterator[None]:
    """The two, each with a loopback."""
    try:
        for name in (LEFT, RIGHT):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in (LEFT, RIGHT):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextmanager
def joined_by(binary: Path, link: str, folder: Path) -> Iterator[None]:
    """The two namespaces, which are there, joined by an emulated link with these fields."""
    file, log = folder / "line.toml", folder / "emulate.log"
    file.write_text(f'[nodes.left]\n[nodes.right]\n[links.line]\nbetween = ["left", "right"]\n{link}\n')
    with log.open("wb") as out:
        emulator = subprocess.Popen([binary, "emulate", file, "--between", LEFT, RIGHT], stdout=out, stderr=out)
    try:
        waited_for("the emulated line", lambda: emulator.poll() is None and THERE in run("ip", "-n", RIGHT, "addr"))
        # iperf3 chooses a controller after it has connected, and a CUBIC that was BBR before stays paced.
        for name, other in ((LEFT, THERE), (RIGHT, HERE)):
            to = json.loads(run("ip", "-n", name, "-j", "route", "get", other))[0]["dev"]
            run("ip", "-n", name, "route", "replace", f"{other}/32", "dev", to, "congctl", "cubic")
        yield
    finally:
        emulator.send_signal(signal.SIGINT)
        emulator.wait(10)


@contextmanager
def namespaces(options: argparse.Namespace, folder: Path, harm: str | None, queue_bytes: int) -> Iterator[None]:
    """The two, joined by a line that does this to packets, or by a veth pair (None)."""
    with two_namespaces():
        if harm is not None:
            link = f'rate = "{LINE_BPS / 1e6:g}Mbit/s"\ndelay = "{RTT_MS / 2:g}ms"\nqueue = "{queue_bytes}B"\n{harm}'
            with joined_by(options.binary, link, folder):
                yield
            return
        run("ip", "link", "add", "ab", "netns", LEFT, "type", "veth", "peer", "name", "ab", "netns", RIGHT)
        for name, address in ((LEFT, HERE), (RIGHT, THERE)):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "ab")
            run("ip", "-n", name, "link", "set", "ab", "up")
        for name, other in ((LEFT, THERE), (RIGHT, HERE)):
            run("ip", "-n", name, "route", "replace", f"{other}/32", "dev", "ab", "congctl", "cubic")
        yield


@dataclass(frozen=True)
class Way:
    """What carries iperf3's connection, where it connects to, with which TCP, and the processes in between."""

    to: str
    port: int
    controller: str = "cubic"
    pids: tuple[int, ...] = ()

    def cpu_s(self) -> float:
        """Of its processes so far."""
        return sum(map(cpu_s, self.pids))


def listens(inside: str, port: int, kind: str = "t") -> bool:
    """Whether something does."""
    return bool(run("ss", f"-Hln{kind}", f"sport = :{port}", inside=inside))


@contextmanager
def tunnel(binary: Path, folder: Path, port: int, controller: str = "backfill") -> Iterator[Way]:
    """Both ends of ours."""
    public = {}
    for end in ("client", "server"):
        key = folder / f"{end}.key"
        if not key.exists():
            (folder / f"{end}.pub").write_text(run(binary, "tunnel", "keygen", key))
        public[end] = (folder / f"{end}.pub").read_text().strip()
    (folder / "authorized_keys").write_text(public["client"] + "\n")
    folder.chmod(0o755)
    with ExitStack() as stack:
        serve = [
            *(binary, "tunnel", "serve", "--listen", f"{THERE}:4433", "--key", folder / "server.key"),
            *("--authorized", folder / "authorized_keys", "--allow", THERE, "--controller", controller),
        ]
        connect = [
            *(binary, "tunnel", "connect", f"{THERE}:4433", "--key", folder / "client.key"),
            *("--server", public["server"], "--controller", controller, "--forward", f"7001:{THERE}:{port}"),
        ]
        there = stack.enter_context(process(serve, RIGHT, folder / "serve.log"))
        waited_for("the tunnel's server", lambda: listens(RIGHT, 4433, "u"))
        log = folder / "connect.log"
        here = stack.enter_context(process(connect, LEFT, log))
        waited_for("the tunnel", lambda: b"connected to" in log.read_bytes())
        yield Way("127.0.0.1", 7001, pids=(there.pid, here.pid))


@contextmanager
def kcptun(folder: Path, port: int) -> Iterator[Way]:
    """Both ends of kcptun."""
    window = max(1024, 2 * BDP_BYTES // 1300)
    common = ["--key", "bench", "--crypt", "aes", "--mode", "fast3", "--nocomp", "--mtu", 1400]
    common += ["--datashard", 10, "--parityshard", 3, "--sockbuf", 8 << 20, "--smuxbuf", 8 << 20, "--quiet"]
    common += ["--sndwnd", window, "--rcvwnd", window]
    serve = [KCPTUN[1], "-l", f"{THERE}:4000", "-t", f"{THERE}:{port}", *common]
    connect = [KCPTUN[0], "-l", "127.0.0.1:7002", "-r", f"{THERE}:4000", *common]
    with ExitStack() as stack:
        there = stack.enter_context(process(serve, RIGHT, folder / "kcptun-serve.log"))
        waited_for("kcptun's server", lambda: listens(RIGHT, 4000, "u"))
        here = stack.enter_context(process(connect, LEFT, folder / "kcptun-connect.log"))
        waited_for("kcptun's client", lambda: listens(LEFT, 7002))
        yield Way("127.0.0.1", 7002, pids=(there.pid, here.pid))


@contextmanager
def quinn(options: argparse.Namespace, folder: Path, port: int, controller: str) -> Iterator[Way]:
    """Both ends of a connection of quinn's, which carries streams as the tunnel does."""
    serve = [options.quinn, "serve", f"{THERE}:4434", f"{THERE}:{port}", controller]
    connect = [options.quinn, "connect", "127.0.0.1:7003", f"{THERE}:4434", controller]
    with ExitStack() as stack:
        there = stack.enter_context(process(serve, RIGHT, folder / "quinn-serve.log"))
        waited_for("quinn's server", lambda: listens(RIGHT, 4434, "u"))
        here = stack.enter_context(process(connect, LEFT, folder / "quinn-connect.log"))
        waited_for("quinn's client", lambda: listens(LEFT, 7003))
        yield Way("127.0.0.1", 7003, pids=(there.pid, here.pid))


def built(manifest: Path, *words: object) -> None:
    """Has cargo build a program."""
    done = subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", manifest, *map(str, words)],
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{manifest}: cargo could not build it (its words are above)")


@contextmanager
def way(name: str, options: argparse.Namespace, folder: Path, port: int = 5201) -> Iterator[Way]:
    """One of them, ready to carry."""
    if name == "tunnel":
        with tunnel(options.binary, folder, port) as found:
            yield found
    elif name == "kcptun":
        with kcptun(folder, port) as found:
            yield found
    elif name.startswith("quinn "):
        with quinn(options, folder, port, name.removeprefix("quinn ")) as found:
            yield found
    else:
        yield Way(THERE, port, name)


def ways(options: argparse.Namespace) -> list[str]:
    """Those that this machine has, or those that were asked for."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if len(KCPTUN) < 2:
        say("no kcptun on this machine (apt install kcptun): it is left out")
    names = ["tunnel", "cubic", *(["bbr"] if "bbr" in known else []), *(["kcptun"] if len(KCPTUN) == 2 else [])]
    names += ["quinn cubic", "quinn bbr"]
    return [name for name in names if not options.way or name in options.way]


@contextmanager
def iperf_servers(ports: Sequence[int]) -> Iterator[None]:
    """Something to send to."""
    with ExitStack() as stack:
        for port in ports:
            words = ["ip", "netns", "exec", RIGHT, "iperf3", "-s", "-p", str(port)]
            server = stack.enter_context(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            stack.callback(server.kill)
            waited_for("iperf3 listens", lambda port=port: listens(RIGHT, port))
        yield


def iperf(way: Way, seconds: float, omit: float = 0) -> dict[str, float]:
    """Bits a second that came, as the server has counted, and bytes in all; none if it fails."""
    words = ["iperf3", "-J", "-c", way.to, "-p", way.port, "-t", seconds, "-O", omit, "-C", way.controller]
    prefix = ["ip", "netns", "exec", LEFT, *map(str, words)]
    try:
        done = subprocess.run(prefix, capture_output=True, text=True, check=False, timeout=seconds + omit + 60)
        received = json.loads(done.stdout)["end"]["sum_received"]
    except (subprocess.TimeoutExpired, json.JSONDecodeError, KeyError):
        return {"rate_bps": 0.0, "bytes": 0.0}
    return {"rate_bps": received["bits_per_second"], "bytes": received["bytes"]}


def verdict(missed: Sequence[str]) -> str:
    """The goals that were missed, in words."""
    return "All goals are met." if not missed else f"Missed: {'; '.join(missed)}."


def goodputs(
    options: argparse.Namespace, folder: Path, names: Sequence[str], about: str, harm: str
) -> dict[str, float]:
    """Bits a second that each brings over a line that does this to packets: medians of the rounds."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            # A line anew for each, which loses anew.
            with (
                namespaces(options, folder, harm, BDP_BYTES),
                iperf_servers([5201]),
                way(name, options, folder) as carrying,
            ):
                found[name].append(iperf(carrying, options.seconds, 3)["rate_bps"])
            say(f"{about}, round {turn + 1}, {name}: {found[name][-1] / 1e6:.2f} Mbit/s")
    return {name: statistics.median(values) for name, values in found.items()}


def loss(options: argparse.Namespace, folder: Path) -> str:
    """Goodput on a line that loses packets, over what the loss leaves of it."""
    names, missed = ways(options), []
    lines = [f"| loss | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for percent, goal in LOSSES.items():
        got = goodputs(options, folder, names, f"{percent}%", f'loss = "{percent:g}%"\nback = {{ loss = "0%" }}')
        medians = {name: rate / (LINE_BPS * (1 - percent / 100)) for name, rate in got.items()}
        lines.append(f"| {percent}% | {' | '.join(f'{medians[name]:.2f}' for name in names)} |")
        if medians.get("tunnel", goal) < goal:
            missed.append(f"{percent}%: {medians['tunnel']:.2f}, goal at least {goal:.2f}")
    about = f"Medians of {options.rounds} rounds of {options.seconds:g} s each, after 3 s, {LINE}."
    return "\n".join([*lines, "", f"{about} {verdict(missed)}"])


def harmed(kind: str, options: argparse.Namespace, folder: Path) -> str:
    """Goodput on a line that harms packets in another way than one by one, over what is left of it."""
    about, lost, harm = HARMS[kind]
    names = ways(options)
    got = goodputs(options, folder, names, kind, harm)
    parts = {name: rate / (LINE_BPS * (1 - lost)) for name, rate in got.items()}
    missed = [
        f"{part:.2f}, goal at least {HARM_GOAL}"
        for name, part in parts.items()
        if name == "tunnel" and part < HARM_GOAL
    ]
    lines = [
        f"| {' | '.join(names)} |",
        "|---" * len(names) + "|",
        f"| {' | '.join(f'{parts[name]:.2f}' for name in names)} |",
    ]
    told = f"Goodput with {about}, over what is left of the line. Medians of {options.rounds} rounds of "
    told += f"{options.seconds:g} s each, after 3 s, {LINE}. {verdict(missed)}"
    return "\n".join([*lines, "", told])


def together(flows: dict[str, Way], seconds: float) -> dict[str, float]:
    """Bytes that came of transfers at the same time, the first ten seconds left out."""
    got: dict[str, float] = {}

    def measured(name: str, way: Way) -> None:
        got[name] = iperf(way, seconds, 10)["bytes"]

    threads = [threading.Thread(target=measured, args=flow) for flow in flows.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def share(options: argparse.Namespace, folder: Path) -> str:
    """What a flow has of a line that one of the kernel's CUBIC is on, without damage."""
    names, missed = ways(options), []
    lines = [f"| queue [BDP] | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for depth in QUEUES:
        cells = []
        for name in names:
            with (
                namespaces(options, folder, "", int(depth * BDP_BYTES)),
                iperf_servers([5201, 5202]),
                way(name, options, folder) as carrying,
            ):
                got = together({"ours": carrying, "theirs": Way(THERE, 5202)}, options.fill)
            part = got["ours"] / max(1.0, got["ours"] + got["theirs"])
            cells.append(f"{part:.2f}")
            say(f"{depth} BDP, {name}: {part:.2f}")
            if name == "tunnel" and not SHARE[0] <= part <= SHARE[1]:
                missed.append(f"{depth} BDP: {part:.2f}, goal {SHARE[0]} to {SHARE[1]}")
        lines.append(f"| {depth:g} | {' | '.join(cells)} |")
    about = (
        f"One run of {options.fill:g} s each, after 10 s, {LINE_BPS / 1e6:g} Mbit/s and {RTT_MS} ms, one CUBIC beside."
    )
    return "\n".join([*lines, "", f"{about} {verdict(missed)}"])


def cpu(options: argparse.Namespace, folder: Path) -> str:
    """What a byte costs, one stream over a veth pair: of both ends' processes, and of the whole machine."""
    names = [name for name in ways(options) if name != "bbr"]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            with namespaces(options, folder, None, 0), iperf_servers([5201]), way(name, options, folder) as carrying:
                iperf(carrying, 1)
                machine, daemons = machine_cpu_s(), carrying.cpu_s()
                got = iperf(carrying, options.cpu_seconds)
                gb = max(got["bytes"], 1) / 1e9
                machine, daemons = (machine_cpu_s() - machine) / gb, (carrying.cpu_s() - daemons) / gb
            found[name].append((got["rate_bps"] / 1e6, daemons, machine))
            newest = found[name][-1]
            say(f"round {turn + 1}, {name}: {newest[0]:.0f} Mbit/s, {newest[1]:.2f} s/GB, machine {newest[2]:.2f}")
    lines = ["| way | Mbit/s | processes' CPU [s/GB] | machine's CPU [s/GB] |", "|---|---|---|---|"]
    for name, rows in found.items():
        rate, daemons, machine = (statistics.median(values) for values in zip(*rows, strict=True))
        lines.append(f"| {name} | {rate:.0f} | {daemons:.2f} | {machine:.2f} |")
    about = f"Medians of {options.rounds} rounds of {options.cpu_seconds:g} s each; all on the same machine."
    of = {name: statistics.median(row[1] for row in rows) for name, rows in found.items()}
    for other in of:
        if other.startswith("quinn") and "tunnel" in of:
            part = of["tunnel"] / of[other]
            about += f" The tunnel takes {part:.2f} of the CPU time of {other} (goal {QUINN_CPU_GOAL} at most)."
    return "\n".join([*lines, "", about])


def idle(options: argparse.Namespace, _: Path) -> str:
    """What ten thousand idle connections take of memory, and how often they wake anybody."""
    built(ROOT / "Cargo.toml", "-p", "headend-socket", "--example", "idle")
    program = options.binary.parent / "examples" / "idle"
    with ExitStack() as stack:
        server = stack.enter_context(subprocess.Popen([program, "serve", str(IDLE)], stdout=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        assert server.stdout
        address, key = server.stdout.readline().split()
        before = resident_kib(server.pid)
        client = stack.enter_context(
            subprocess.Popen([program, "connect", str(IDLE), address, key], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(client.kill)
        assert client.stdout
        empty = client.stdout.readline().strip()
        client_before = resident_kib(client.pid)
        connected = client.stdout.readline().strip()
        if (empty, connected) != ("ready", "connected"):
            sys.exit(f"idle: the client ended after {empty!r}, {connected!r}")
        rows = []
        for name, pid, start in (("server", server.pid, before), ("client", client.pid, client_before)):
            cpu_before, woken = cpu_s(pid), switches(pid)
            rows.append((name, (resident_kib(pid) - start) / IDLE, pid, cpu_before, woken))
        time.sleep(IDLE_SECONDS)
        lines = ["| end | KiB a connection | wake-ups a second | CPU [ms/s] |", "|---|---|---|---|"]
        missed = []
        for name, kib, pid, cpu_before, woken in rows:
            a_second = (switches(pid) - woken) / IDLE_SECONDS
            spent = (cpu_s(pid) - cpu_before) / IDLE_SECONDS * 1000
            lines.append(f"| {name} | {kib:.1f} | {a_second:.1f} | {spent:.1f} |")
            if kib > IDLE_GOAL_KIB:
                missed.append(f"{name}: {kib:.1f} KiB, goal {IDLE_GOAL_KIB} at most")
    about = (
        f"{IDLE} connections between two processes, watched for {IDLE_SECONDS} s; each client's keeps alive every 25 s."
    )
    return "\n".join([*lines, "", f"{about} {verdict(missed)}"])


def resident_kib(pid: int) -> int:
    """Memory that a process has."""
    return int(re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def switches(pid: int) -> int:
    """Times that a process has waited so far: it was woken as often."""
    return int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


PARTS: dict[str, Callable[[argparse.Namespace, Path], str]] = {
    "loss": loss,
    **{kind: partial(harmed, kind) for kind in HARMS},
    "share": share,
    "cpu": cpu,
    "idle": idle,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures a part, or all, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be said again (default: all)")
    parser.add_argument("--way", action="append", help="one of the ways alone, such as `quinn bbr`; may be said again")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each transfer on a damaged line (default: 20)")
    parser.add_argument("--fill", type=float, default=60.0, help="seconds of each run beside CUBIC (default: 60)")
    parser.add_argument("--cpu-seconds", type=float, default=8.0, help="of each transfer on a veth pair (default: 8)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose tables are to be this run's")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-socket: takes root, for namespaces")
    if not options.binary.is_file():
        sys.exit(
            f"{options.binary}: no such file; expected the program, as `cargo build --release` makes it (--binary)"
        )
    options.binary = options.binary.resolve()
    target = options.binary.parent.parent / "quinn"
    options.quinn = target / "release" / "quinn-forward"
    if set(options.only or PARTS) - {"idle"} and any("quinn" in name for name in ways(options)):
        built(ROOT / "bench/quinn/Cargo.toml", "--target-dir", target)
    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), lambda *_: sys.exit("ended"))
    for name in options.only or PARTS:
        before = ", ".join(f"{value:.2f}" for value in os.getloadavg())
        with tempfile.TemporaryDirectory(prefix="headend-bench-") as folder:
            text = PARTS[name](options, Path(folder))
        kernel = ".".join(platform.release().split(".")[:2])
        text += f" {os.cpu_count()} cores, Linux {kernel}, load averages before {before}."
        print(f"\n{text}\n", flush=True)
        if options.page:
            page.write(options.page, f"bench-socket-{name}", text)
            say(f"written into {options.page}")


if __name__ == "__main__":
    main()
