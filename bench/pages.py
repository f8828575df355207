"""Measures a page of 40 objects through the proxy, through others, and past them, over an emulated cable.

It takes Linux, root and curl, and Chromium on demand. Network namespaces in a row: client, a cable of 20 ms and 25
Mbit/s that may lose packets, the proxies' machine, 100 ms, server. Both links are `headend emulate`'s. The client
takes the page directly, routed through the proxies' machine, and through each proxy in turns: with curl six objects at
a time over HTTP/1.1, with Chromium as a browser takes it, from the begin of the navigation to its load event. squid
keeps no copies; it and tinyproxy have CUBIC on both sides, as the server has. The exit code is 1 if a goal is missed.

    python3 bench/pages.py target/release/headend --runs 9 --loss 0 3 [--chromium] [--beside squid tinyproxy]
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import page

OBJECTS = 40
CLIENT, PROXY, SERVER = "198.18.1.2", "198.18.1.1", "198.18.2.2"
PATIENCE_S = 60.0
SCENARIO = """title = "A link of the page's path"
seed = {seed}
runs = 1
duration = "600s"
[nodes.near]
personality = "linux"
[nodes.far]
personality = "linux"
[links.link]
between = ["near", "far"]
rate = "{down}"
loss = "{loss}%"
delay = "{delay}"
queue = "300KB"
back = {{ rate = "{up}", loss = "0%" }}
[flows.none]
from = "near"
to = "far"
bytes = "1MB"
"""
CONFIG = f"""user = "root"
[[listen]]
address = "{PROXY}:3128"
way = "http"
clients = ["198.18.1.0/24"]
[local]
personality = "hfc-local"
[remote]
personality = "internet"
"""

PORTS = {"headend": 3128, "squid": 3129, "tinyproxy": 3130}
"""Of the proxies, all at one address."""
SQUID = f"""http_port {PROXY}:{PORTS["squid"]}
acl clients src 198.18.1.0/24
http_access allow clients
cache deny all
access_log none
cache_log /dev/null
pid_filename none
visible_hostname squid.test
pinger_enable off
memory_cache_shared off
"""
TINYPROXY = f"""Port {PORTS["tinyproxy"]}
Listen {PROXY}
Allow 198.18.1.0/24
User root
Group root
MaxClients 200
"""
GOALS = {0.0: 1.0, 3.0: 1.3}
"""How many times as fast as directly a page is to come through ours, by the loss [%]."""
SLACK = 0.02
"""Of the goal without loss: medians of few pages differ by that."""


def size(index: int) -> int:
    """Bytes of an object: from 3 kB to 61.5 kB, 1.3 MB in all."""
    return 3_000 + 1_500 * index


class Page(http.server.BaseHTTPRequestHandler):
    """The server: a page, its objects, and the time that a browser tells."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers with the page, an object, or a word that the time was heard."""
        path = self.path.split("?")
        if path[0] == "/":
            images = "".join(f"<img src='/{index}?{path[-1]}' width=1 height=1>" for index in range(OBJECTS))
            told = "onload=\"setTimeout(() => fetch('/done?' + performance.timing.toJSON().loadEventEnd + '-'"
            told += ' + performance.timing.navigationStart), 0)"'
            body, kind = f"<!doctype html><body {told}>{images}".encode(), "text/html"
        elif path[0] == "/done":
            end, begin = path[1].split("-")
            print(json.dumps({"seconds": (int(end) - int(begin)) / 1000}), flush=True)
            body, kind = b"", "text/plain"
        else:
            body, kind = bytes(size(int(path[0].strip("/")))) if path[0].strip("/").isdigit() else b"", "image/png"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def run(words: str) -> None:
    """Runs a command that must succeed."""
    subprocess.run(words.split(), check=True)


@contextmanager
def running(words: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    """Runs a program until the block ends."""
    process = subprocess.Popen(words, text=True, stderr=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def path() -> Iterator[list[str]]:
    """Five namespaces in a row: client, cable, proxy, network, server."""
    names = [f"headend-page-{os.getpid()}-{what}" for what in ("c", "a", "p", "b", "s")]
    try:
        for name in names:
            run(f"ip netns add {name}")
            run(f"ip -n {name} link set lo up")
        for left, right, devices in zip(
            names, names[1:], (("c0", "i0"), ("o0", "p0"), ("p1", "i0"), ("o0", "s0")), strict=False
        ):
            run(f"ip link add {devices[0]} netns {left} type veth peer name {devices[1]} netns {right}")
            for name, device in ((left, devices[0]), (right, devices[1])):
                run(f"ip netns exec {name} sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1")
                run(f"ip -n {name} link set {device} up")
        client, _, proxy, _, server = names
        addresses = ((client, "c0", CLIENT), (proxy, "p0", PROXY), (proxy, "p1", "198.18.2.1"), (server, "s0", SERVER))
        for name, device, address in addresses:
            run(f"ip -n {name} addr add {address}/24 dev {device}")
        run(f"ip -n {client} route add default via {PROXY}")
        run(f"ip -n {server} route add default via 198.18.2.1")
        run(f"ip netns exec {proxy} sysctl -qw net.ipv4.ip_forward=1")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def with_curl(client: str, via: str | None) -> float:
    """The time of a page by curl, six objects at a time [s]."""
    words = ["ip", "netns", "exec", client, "curl", "-sS", "--no-progress-meter", "--http1.1", "--parallel"]
    words += ["--parallel-immediate", "--parallel-max", "6", "--noproxy", "" if via else "*"]
    words += ["-x", f"http://{PROXY}:{PORTS[via]}"] if via else []
    for index in range(OBJECTS):
        words += [f"http://{SERVER}/{index}", "-o", os.devnull]
    begin = time.monotonic()
    subprocess.run(words, check=True, timeout=PATIENCE_S, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def await_page(client: str, via: str | None) -> None:
    """Waits until all that is on the way has started."""
    words = ["ip", "netns", "exec", client, "curl", "-sf", "-m", "5", "-o", os.devnull, f"http://{SERVER}/0"]
    words += ["-x", f"http://{PROXY}:{PORTS[via]}"] if via else ["--noproxy", "*"]
    end = time.monotonic() + PATIENCE_S
    while subprocess.run(words, check=False).returncode != 0:
        if time.monotonic() > end:
            raise SystemExit(f"pages: no answer within {PATIENCE_S:g} s {f'through {via}' if via else 'directly'}")
        time.sleep(0.2)


def with_chromium(client: str, via: str | None, told: Iterator[str]) -> float:
    """The time of a page in Chromium, to its load event [s]."""
    with tempfile.TemporaryDirectory(prefix="headend-page-", ignore_cleanup_errors=True) as profile:
        words = ["ip", "netns", "exec", client, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
        words += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"]
        words += [f"--proxy-server=http://{PROXY}:{PORTS[via]}" if via else "--no-proxy-server"]
        with running([*words, f"http://{SERVER}/?{time.monotonic_ns()}"], stdout=subprocess.DEVNULL):
            return float(json.loads(next(told))["seconds"])


def serve() -> None:
    """The server of the page, in its namespace."""
    server = http.server.ThreadingHTTPServer((SERVER, 80), Page)
    server.request_queue_size = 128
    server.serve_forever()


def main() -> None:
    """Measures what is asked for and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument(
        "--loss", type=float, nargs="+", default=[0.0, 3.0], help="of the cable towards the client [%%]"
    )
    parser.add_argument("--chromium", action="store_true")
    parser.add_argument(
        "--beside", nargs="*", choices=("squid", "tinyproxy"), default=[], help="proxies to compare with"
    )
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    arguments = parser.parse_args()
    names = ["headend", *arguments.beside]
    measured = measure(arguments, names)
    text, missed = table(arguments, names, measured)
    print(f"\n{text}")
    if arguments.page:
        page.write(arguments.page, "bench-pages-chromium" if arguments.chromium else "bench-pages", text)
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


def measure(arguments: argparse.Namespace, names: list[str]) -> dict[float, dict[str | None, list[float]]]:
    """The times of each page, by the loss, and by the proxy or None for none."""
    binary = str(arguments.binary.resolve())
    measured: dict[float, dict[str | None, list[float]]] = {}
    with path() as (client, cable, proxy, network, server), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headend-page-")))
        # squid reads its file as a user of its own.
        folder.chmod(0o755)
        inside = ["ip", "netns", "exec"]

        def emulated(name: str, **link: str | float) -> list[str]:
            file = folder / f"{name}.toml"
            file.write_text(SCENARIO.format(**link))
            return [*inside, name, binary, "emulate", str(file), "--interfaces", "o0", "i0", "--accept-late"]

        quiet = {"stdout": subprocess.DEVNULL}
        far = emulated(network, seed=1, down="200Mbit/s", up="200Mbit/s", delay="50ms", loss=0.0)
        stack.enter_context(running(far, **quiet))
        commands = {
            "headend": (CONFIG, [binary, "proxy", "--config"]),
            "squid": (SQUID, ["squid", "-N", "-n", f"page{os.getpid()}", "-f"]),
            "tinyproxy": (TINYPROXY, ["tinyproxy", "-d", "-c"]),
        }
        for name in names:
            text, words = commands[name]
            (folder / f"{name}.conf").write_text(text)
            stack.enter_context(running([*inside, proxy, *words, str(folder / f"{name}.conf")], **quiet))
        serving = [*inside, server, sys.executable, __file__, "--serve"]
        told = stack.enter_context(running(serving, stdout=subprocess.PIPE)).stdout
        assert told is not None
        for seed, loss in enumerate(arguments.loss, 1):
            near = emulated(cable, seed=seed, down="25Mbit/s", up="3Mbit/s", delay="10ms", loss=loss)
            taken: dict[str | None, list[float]] = {via: [] for via in (None, *names)}
            with running(near, **quiet):
                for via in taken:
                    await_page(client, via)
                for turn in range(arguments.runs):
                    for via, times in taken.items():
                        by_chromium = arguments.chromium
                        times.append(with_chromium(client, via, told) if by_chromium else with_curl(client, via))
                    newest = ", ".join(f"{via or 'direct'} {times[-1]:.2f}" for via, times in taken.items())
                    print(
                        f"{loss:g}% lost, page {turn + 1} of {arguments.runs} [s]: {newest}",
                        file=sys.stderr,
                        flush=True,
                    )
            measured[loss] = taken
    return measured


def table(
    arguments: argparse.Namespace, names: list[str], measured: dict[float, dict[str | None, list[float]]]
) -> tuple[str, list[str]]:
    """As Markdown, and the goals that were missed."""
    lines = [
        f"| {'Chromium' if arguments.chromium else 'curl'} [s] | direct | {' | '.join(names)} | direct over headend | |"
    ]
    lines += ["|---" * (len(names) + 4) + "|"]
    missed = []
    for loss, taken in measured.items():
        cells = [f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})" for times in taken.values()]
        gain = statistics.median(taken[None]) / statistics.median(taken["headend"])
        goal = GOALS.get(loss)
        verdict = "" if goal is None else f"goal {goal:g}: {'met' if gain >= goal - SLACK else '**missed**'}"
        if "missed" in verdict:
            missed.append(f"{loss:g}% lost")
        lines.append(f"| {loss:g}% lost | {' | '.join(cells)} | {gain:.2f} | {verdict} |")
    load = os.getloadavg()[0]
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    lines += [
        "",
        f"Medians of {arguments.runs} pages (least to most), in turns. The machine's congestion control is {control}; "
        f"{os.cpu_count()} cores, load {load:.2f} after.",
    ]
    if load > (os.cpu_count() or 1):
        lines[-1] += " Other programs had just run."
    return "\n".join(lines), missed


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        threading.Thread(target=serve).start()
    else:
        main()
