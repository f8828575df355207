"""Measures a page of 40 objects through the proxy and past it, over an emulated cable.

It takes Linux, root and curl, and Chromium on demand. Network namespaces in a row: client, a cable of 20 ms and 25
Mbit/s that may lose packets, the proxy's machine, 100 ms, server. Both links are `headend emulate`'s. The client
takes the page directly, routed through the proxy's machine, and through the proxy in turns: with curl six objects at
a time over HTTP/1.1, with Chromium as a browser takes it, from the begin of the navigation to its load event.

    python3 bench/pages.py target/release/headend --runs 9 --loss 0 3 [--chromium]
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


def with_curl(client: str, via: bool) -> float:
    """The time of a page by curl, six objects at a time [s]."""
    words = ["ip", "netns", "exec", client, "curl", "-sS", "--no-progress-meter", "--http1.1", "--parallel"]
    words += ["--parallel-immediate", "--parallel-max", "6", "--noproxy", "" if via else "*"]
    words += ["-x", f"http://{PROXY}:3128"] if via else []
    for index in range(OBJECTS):
        words += [f"http://{SERVER}/{index}", "-o", os.devnull]
    begin = time.monotonic()
    subprocess.run(words, check=True, timeout=PATIENCE_S, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def await_page(client: str, via: bool) -> None:
    """Waits until all that is on the way has started."""
    words = ["ip", "netns", "exec", client, "curl", "-sf", "-m", "5", "-o", os.devnull, f"http://{SERVER}/0"]
    words += ["-x", f"http://{PROXY}:3128"] if via else ["--noproxy", "*"]
    end = time.monotonic() + PATIENCE_S
    while subprocess.run(words, check=False).returncode != 0:
        if time.monotonic() > end:
            raise SystemExit(f"pages: no answer within {PATIENCE_S:g} s {'through the proxy' if via else 'directly'}")
        time.sleep(0.2)


def with_chromium(client: str, via: bool, told: Iterator[str]) -> float:
    """The time of a page in Chromium, to its load event [s]."""
    with tempfile.TemporaryDirectory(prefix="headend-page-") as profile:
        words = ["ip", "netns", "exec", client, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
        words += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"]
        words += [f"--proxy-server=http://{PROXY}:3128" if via else "--no-proxy-server"]
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
    arguments = parser.parse_args()
    binary = str(arguments.binary.resolve())
    with path() as (client, cable, proxy, network, server), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headend-page-")))
        inside = ["ip", "netns", "exec"]

        def emulated(name: str, **link: str | float) -> list[str]:
            file = folder / f"{name}.toml"
            file.write_text(SCENARIO.format(**link))
            return [*inside, name, binary, "emulate", str(file), "--interfaces", "o0", "i0", "--accept-late"]

        quiet = {"stdout": subprocess.DEVNULL}
        far = emulated(network, seed=1, down="200Mbit/s", up="200Mbit/s", delay="50ms", loss=0.0)
        stack.enter_context(running(far, **quiet))
        (folder / "proxy.toml").write_text(CONFIG)
        stack.enter_context(running([*inside, proxy, binary, "proxy", "--config", str(folder / "proxy.toml")], **quiet))
        serving = [*inside, server, sys.executable, __file__, "--serve"]
        told = stack.enter_context(running(serving, stdout=subprocess.PIPE)).stdout
        assert told is not None
        print("loss [%]  direct [s]  range          proxy [s]  range          times as fast")
        for seed, loss in enumerate(arguments.loss, 1):
            near = emulated(cable, seed=seed, down="25Mbit/s", up="3Mbit/s", delay="10ms", loss=loss)
            taken: dict[bool, list[float]] = {False: [], True: []}
            with running(near, **quiet):
                for via in taken:
                    await_page(client, via)
                for _ in range(arguments.runs):
                    for via, times in taken.items():
                        by_chromium = arguments.chromium
                        times.append(with_chromium(client, via, told) if by_chromium else with_curl(client, via))
            direct, proxied = (statistics.median(times) for times in taken.values())
            ranges = [f"{min(times):.2f} to {max(times):.2f}" for times in taken.values()]
            print(
                f"{loss:8g}  {direct:10.2f}  {ranges[0]}  {proxied:9.2f}  {ranges[1]}  {direct / proxied:13.2f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        threading.Thread(target=serve).start()
    else:
        main()
